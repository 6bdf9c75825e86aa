"""Simulated clients of a replicated log: appends with an acks level, reads from an offset on, the tail.

Appends and linearizable reads go to the node the client believes to be the leader, and sometimes to another; other
reads go to any node. Each read continues where this client's last one ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from quorumlog.events import Outcome, Resolved
from quorumlog.simulation.client import Client, Service, chosen
from quorumlog.simulation.configuration import LogWorkload
from quorumlog.simulation.log_node import EVERYTHING, READ_BYTES, LogNode
from quorumlog.storage.batch import NO_KEY, BatchKind, RecordBatch

ACKS_ALL, ACKS_LEADER, ACKS_NONE = -1, 1, 0


class LogClient(Client[LogNode]):
    """One client of a log; see `Client`."""

    def __init__(self, service: Service[LogNode], mix: LogWorkload, delay: int) -> None:
        self._mix = mix
        self._term = -1
        self._position = 0
        self._acks = list(accumulate((mix.acks_all, mix.acks_leader, mix.acks_none)))
        self._led = self._former = 0  # who answered as the leader last, and before that another one
        super().__init__(service, mix, delay)

    def operations(self) -> Sequence[tuple[Callable[[], object], float]]:
        """Appends, reads up to what is visible or committed, linearizable reads, and tails, as the mix says."""
        mix = self._mix
        return (
            (self._append_some, mix.append),
            (lambda: self._read_on("read"), mix.read),
            (lambda: self._read_on("read_committed"), mix.read_committed),
            (self._read_linearizable_on, mix.read_linearizable),
            (lambda: self.tail(self._asked(self._leader)), mix.tail),
        )

    def last_write(self, node: int) -> int:
        """Append one batch with acks=all at ``node``; returns the operation."""
        return self.append(node, acks=ACKS_ALL)

    def final_read(self, node: int) -> int:
        """Read everything that is visible at ``node``, from offset 0; returns the operation."""
        return self.read(node, "final_read", 0)

    # -- appends -------------------------------------------------------------------------------------------------

    def _append_some(self) -> None:
        draw, mix = self._random, self._mix
        acks = chosen(draw, (ACKS_ALL, ACKS_LEADER, ACKS_NONE), self._acks)
        node = self._believed()
        expected = self._term if draw.random() < mix.expected_term else -1
        self.append(
            node,
            acks=acks,
            records=draw.randint(1, mix.largest_batch),
            padding=draw.randrange(mix.value_bytes + 1),
            expected_term=expected,
            force_flush=mix.force_flush > 0 and draw.random() < mix.force_flush,
            key=draw.randint(1, mix.keys) if mix.keys and draw.random() < mix.keyed else NO_KEY,
        )

    def _believed(self) -> int:
        """The believed leader, or astray some other node, or now and then the leader before: it may not know it."""
        draw, mix = self._random, self._mix
        node = self._leader if draw.random() >= mix.stray else draw.randrange(len(self._service.nodes))
        return self._asked(node)

    def _asked(self, node: int) -> int:
        """``node``, or now and then the leader before the last one: it may be cut off and not know it."""
        return self._former if self._mix.former and self._random.random() < self._mix.former else node

    def append(
        self,
        node: int,
        *,
        acks: int,
        records: int = 1,
        padding: int = 0,
        expected_term: int = -1,
        force_flush: bool = False,
        key: int = NO_KEY,
    ) -> int:
        """Ask ``node`` to append a batch; returns the operation."""
        value = self._service.new_value()
        columns = {"acks": acks, "value": value, "count": records}
        if expected_term >= 0:
            columns["term"] = expected_term
        payload = value.to_bytes(8, "big", signed=True) + bytes(padding)
        batch = RecordBatch(0, 0, BatchKind.DATA, records, acks, payload, key)

        def serve(operation: int, node: LogNode) -> None:
            def reply(resolved: Resolved | None) -> None:
                self.answer(self._appended, operation, resolved, node.core.leader)

            node.append(batch, expected_term, reply, force_flush=force_flush)

        return self.ask("append", node, columns, serve)

    def _appended(self, resolved: Resolved | None, leader: int) -> None:
        if resolved is None:
            self.give_up("connection lost")
        elif resolved.outcome is Outcome.SUCCESS:
            if self._node != self._led:
                self._led, self._former = self._node, self._led
            self._leader, self._term = self._node, resolved.term
            self.close("ok", {"offset": resolved.offset, "last_offset": resolved.last_offset, "term": resolved.term})
        elif resolved.outcome is Outcome.UNKNOWN:
            self.give_up("unknown")
        else:
            self.refuse(str(resolved.outcome), leader)

    # -- reads ---------------------------------------------------------------------------------------------------

    def _read_on(self, f: str) -> None:
        self._rewind()
        self.read(self._asked(self._random.randrange(len(self._service.nodes))), f, self._position)

    def _read_linearizable_on(self) -> None:
        self._rewind()
        self.read_linearizable(self._believed(), self._position)

    def _rewind(self) -> None:
        if self._random.random() < self._mix.rewind:
            self._position = 0

    def read(self, node: int, f: str, start: int) -> int:
        """Ask ``node`` for everything from ``start`` on that ``f`` may see; returns the operation."""

        def serve(operation: int, node: LogNode) -> None:
            max_bytes = EVERYTHING if f == "final_read" else READ_BYTES
            batches = node.read(start, committed=f == "read_committed", max_bytes=max_bytes)
            self.answer(self._have_read, operation, start, batches)

        return self.ask(f, node, {"offset": start}, serve)

    def read_linearizable(self, node: int, start: int) -> int:
        """Ask ``node`` for everything from ``start`` on that was acknowledged by now; returns the operation."""

        def serve(operation: int, node: LogNode) -> None:
            def reply(resolved: Resolved | None, batches: list[RecordBatch]) -> None:
                if resolved is not None and resolved.outcome is Outcome.SUCCESS:
                    self.answer(self._have_read, operation, start, batches)
                else:
                    self.answer(self._not_served, operation, resolved, node.core.leader)

            node.read_linearizable(start, reply)

        return self.ask("read_linearizable", node, {"offset": start}, serve)

    def _have_read(self, start: int, batches: list[RecordBatch]) -> None:
        following = start
        count = 0
        for batch in batches:
            last = batch.last_offset
            following = last + 1
            if batch.kind is BatchKind.DATA:
                count += 1
                self.observe({"offset": batch.base_offset, "last_offset": last, "value": batch.value})
        self._position = following
        self.close("ok", {"offset": following, "count": count})

    # -- the tail ------------------------------------------------------------------------------------------------

    def tail(self, node: int) -> int:
        """Ask ``node`` for the number of entries of the log, linearizable; returns the operation."""

        def serve(operation: int, node: LogNode) -> None:
            def reply(resolved: Resolved | None) -> None:
                self.answer(self._have_tail, operation, resolved, node.core.leader)

            node.barrier(reply)

        return self.ask("tail", node, {}, serve)

    def _have_tail(self, resolved: Resolved | None, leader: int) -> None:
        if resolved is not None and resolved.outcome is Outcome.SUCCESS:
            self._leader = self._node
            self.close("ok", {"offset": resolved.offset + 1})
        else:
            self._not_served(resolved, leader)

    def _not_served(self, resolved: Resolved | None, leader: int) -> None:
        if resolved is None:
            self.give_up("connection lost")
        else:
            self.refuse(str(resolved.outcome), leader)


__all__ = ["LogClient"]
