"""Simulated clients: each has at most one open operation and records what it asked and what it was told.

A time-out is no failure: the outcome stays unknown (``info``), and the client goes on under a new process number, as
histories demand. A refusal that certainly wrote nothing is a ``fail``. Appends go to the node the client believes to
be the leader, now and then to another; reads go to any node and go on where the last one of this client ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from quorumlog.raft.events import Outcome, Resolved
from quorumlog.simulation.configuration import WorkloadMix
from quorumlog.simulation.logs import READ_BYTES, RaftNode, data_batch
from quorumlog.simulation.loop import Entry, Simulation
from quorumlog.storage.batch import BatchKind, RecordBatch

EVERYTHING = 1 << 62
ACKS_ALL, ACKS_LEADER, ACKS_NONE = -1, 1, 0


class Service(Protocol):
    """What clients need of the cluster."""

    simulation: Simulation
    nodes: Sequence[RaftNode]

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Put an event into the history, at the time it is now."""

    def new_operation(self) -> int:
        """A number for an operation, unique in the run."""

    def new_value(self) -> int:
        """A value for a batch, unique in the run."""

    def new_process(self) -> int:
        """A number for a client's process, unique in the run."""


class Client:
    """One client. It goes from one operation to the next until `stop`.

    ``last_outcome`` is "ok", "fail" or "info" once an operation has ended, ``last_reason`` why it did not succeed,
    ``last_offset`` the offset it was answered with.
    """

    def __init__(self, service: Service, number: int, mix: WorkloadMix, delay: int) -> None:
        self._service = service
        self._simulation = service.simulation
        self._mix = mix
        self._delay = delay
        self._random: random.Random = service.simulation.random(f"client {number}")
        self._process = service.new_process()
        self._leader = self._random.randrange(len(service.nodes))
        self._term = -1
        self._position = 0
        self._open: int | None = None
        self._deadline: Entry | None = None
        self._f = ""
        self._node = 0
        self._working = False
        self.last_outcome = ""
        self.last_reason = ""
        self.last_offset = -1
        weights = [
            (self._invoke_append, mix.append),
            (self._invoke_read, mix.read),
            (self._invoke_read_committed, mix.read_committed),
            (self._invoke_tail, mix.tail),
        ]
        self._operations: list[Callable[[], None]] = [operation for operation, weight in weights if weight > 0]
        self._weights = [weight for _, weight in weights if weight > 0]

    def work(self) -> None:
        """Begin, with a pause."""
        if self._operations:
            self._working = True
            self._pause()

    def stop(self) -> None:
        """Begin no other operation; the open one ends as it will."""
        self._working = False

    @property
    def idle(self) -> bool:
        """Whether no operation is open."""
        return self._open is None

    def _pause(self) -> None:
        if self._working:
            self._simulation.after(int(self._random.expovariate(1.0) * self._mix.think), self._next)

    def _next(self) -> None:
        if self._working and self._open is None:
            self._random.choices(self._operations, self._weights)[0]()

    # -- appends -------------------------------------------------------------------------------------------------

    def _invoke_append(self) -> None:
        draw, mix = self._random, self._mix
        acks = draw.choices((ACKS_ALL, ACKS_LEADER, ACKS_NONE), (mix.acks_all, mix.acks_leader, mix.acks_none))[0]
        node = self._leader if draw.random() >= mix.stray else draw.randrange(len(self._service.nodes))
        expected = self._term if draw.random() < mix.expected_term else -1
        self.append(
            node,
            acks=acks,
            records=draw.randint(1, mix.largest_batch),
            padding=draw.randrange(mix.value_bytes + 1),
            expected_term=expected,
        )

    def append(self, node: int, *, acks: int, records: int = 1, padding: int = 0, expected_term: int = -1) -> int:
        """Ask ``node`` to append a batch; returns the operation."""
        value = self._service.new_value()
        columns = {"acks": acks, "value": value, "count": records}
        if expected_term >= 0:
            columns["term"] = expected_term
        operation = self._invoke("append", node, columns)
        batch = data_batch(value, records, acks, padding)
        self._simulation.after(self._delay, self._arrive_append, operation, node, batch, expected_term)
        return operation

    def _arrive_append(self, operation: int, number: int, batch: RecordBatch, expected_term: int) -> None:
        node = self._service.nodes[number]
        if not node.host.running:
            self._answer(self._refused, operation)
            return

        def reply(resolved: Resolved | None) -> None:
            self._answer(self._appended, operation, resolved, node.core.leader)

        node.host.deliver(node.append, batch, expected_term, reply)

    def _appended(self, operation: int, resolved: Resolved | None, leader: int) -> None:
        if operation != self._open:
            return
        if resolved is None:
            self._info("connection lost")
        elif resolved.outcome is Outcome.SUCCESS:
            self._leader, self._term = self._node, resolved.term
            self._close("ok", {"offset": resolved.offset, "last_offset": resolved.last_offset, "term": resolved.term})
        elif resolved.outcome is Outcome.UNKNOWN:
            self._info("unknown")
        else:
            self._fail(str(resolved.outcome), leader)

    # -- reads ---------------------------------------------------------------------------------------------------

    def _invoke_read(self) -> None:
        self._read_on("read")

    def _invoke_read_committed(self) -> None:
        self._read_on("read_committed")

    def _read_on(self, f: str) -> None:
        if self._random.random() < self._mix.rewind:
            self._position = 0
        self.read(self._random.randrange(len(self._service.nodes)), f, self._position)

    def read(self, node: int, f: str, start: int) -> int:
        """Ask ``node`` for everything from ``start`` on that ``f`` may see; returns the operation."""
        operation = self._invoke(f, node, {"offset": start})
        self._simulation.after(self._delay, self._arrive_read, operation, node, f, start)
        return operation

    def _arrive_read(self, operation: int, number: int, f: str, start: int) -> None:
        node = self._service.nodes[number]
        if not node.host.running:
            self._answer(self._refused, operation)
        else:
            node.host.deliver(self._serve_read, operation, node, f, start)

    def _serve_read(self, operation: int, node: RaftNode, f: str, start: int) -> None:
        max_bytes = EVERYTHING if f == "final_read" else READ_BYTES
        batches = node.read(start, committed=f == "read_committed", max_bytes=max_bytes)
        self._answer(self._have_read, operation, start, batches)

    def _have_read(self, operation: int, start: int, batches: list[RecordBatch]) -> None:
        if operation != self._open:
            return
        following = start
        count = 0
        for batch in batches:
            following = batch.last_offset + 1
            if batch.kind is BatchKind.DATA:
                count += 1
                self._service.record(
                    "observe",
                    {
                        "process": self._process,
                        "op": operation,
                        "f": self._f,
                        "node": self._node,
                        "offset": batch.base_offset,
                        "last_offset": batch.last_offset,
                        "value": batch.value,
                    },
                )
        self._position = following
        self._close("ok", {"offset": following, "count": count})

    # -- the tail ------------------------------------------------------------------------------------------------

    def _invoke_tail(self) -> None:
        self.tail(self._leader)

    def tail(self, node: int) -> int:
        """Ask ``node`` for the number of entries of the log, linearizable; returns the operation."""
        operation = self._invoke("tail", node, {})
        self._simulation.after(self._delay, self._arrive_tail, operation, node)
        return operation

    def _arrive_tail(self, operation: int, number: int) -> None:
        node = self._service.nodes[number]
        if not node.host.running:
            self._answer(self._refused, operation)
            return

        def reply(resolved: Resolved | None) -> None:
            self._answer(self._have_tail, operation, resolved, node.core.leader)

        node.host.deliver(node.barrier, reply)

    def _have_tail(self, operation: int, resolved: Resolved | None, leader: int) -> None:
        if operation != self._open:
            return
        if resolved is None:
            self._info("connection lost")
        elif resolved.outcome is Outcome.SUCCESS:
            self._leader = self._node
            self._close("ok", {"offset": resolved.offset + 1})
        else:
            self._fail(str(resolved.outcome), leader)

    # -- operations ----------------------------------------------------------------------------------------------

    def _invoke(self, f: str, node: int, columns: dict[str, Any]) -> int:
        self._open = operation = self._service.new_operation()
        self._f = f
        self._node = node
        self._service.record("invoke", {"process": self._process, "op": operation, "f": f, "node": node, **columns})
        self._deadline = self._simulation.after(self._mix.timeout, self._timed_out, operation)
        return operation

    def _answer(self, callback: Callable[..., None], operation: int, *args: Any) -> None:  # noqa: ANN401
        if operation == self._open:
            self._simulation.after(self._delay, callback, operation, *args)

    def _timed_out(self, operation: int) -> None:
        if operation == self._open:
            self._info("timeout")

    def _refused(self, operation: int) -> None:
        if operation == self._open:
            self._fail("refused")

    def _fail(self, reason: str, leader: int = -1) -> None:
        """Nothing was written. ``leader`` is whom the node follows, if it said so."""
        self._leader = leader if leader >= 0 else self._random.randrange(len(self._service.nodes))
        self._close("fail", {"reason": reason})

    def _info(self, reason: str) -> None:
        self._leader = self._random.randrange(len(self._service.nodes))
        self._close("info", {"reason": reason})
        self._process = self._service.new_process()

    def _close(self, kind: str, columns: dict[str, Any]) -> None:
        operation, self._open = self._open, None
        self.last_outcome = kind
        self.last_reason = columns.get("reason", "")
        self.last_offset = columns.get("offset", -1)
        if self._deadline is not None:
            self._simulation.cancel(self._deadline)
        self._service.record(
            kind, {"process": self._process, "op": operation, "f": self._f, "node": self._node, **columns}
        )
        self._pause()
