"""Clients of real nodes: each has at most one open operation and records what it asked and what the answer was.

The same clients as in the simulator (`quorumlog.simulation.log_client`), on sockets: a time-out or a lost connection is
not a failure: the outcome stays unknown (``info``), and the client goes on under a new process number. A refusal that
certainly wrote nothing is a ``fail``. Every value is appended once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Collection
from typing import Any, TypeVar

import msgspec

from loghistory.schema import Kind, Operation
from quorumlog.cluster.client import NodeClient
from quorumlog.cluster.register import Register
from quorumlog.cluster.supervisor import Cluster
from quorumlog.node.wire import SUCCESS, UNKNOWN, AppendResult, ReadResult, Refusal, TailResult, unpack_batches
from quorumlog.quorum import NOTHING
from quorumlog.storage.batch import NO_KEY, BatchKind, RecordBatch

ACKS_ALL, ACKS_LEADER, ACKS_NONE = -1, 1, 0
_Answer = TypeVar("_Answer")


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What clients do: relative weights, probabilities, and times in seconds.

    ``keys``: how many an append draws from, if it has one (``keyed``); 0: none has, and nothing is replaced.
    """

    clients: int = 6
    think: float = 0.02
    timeout: float = 1.0
    append: float = 6.0
    read: float = 1.5
    read_committed: float = 1.5
    read_linearizable: float = 0.5
    tail: float = 0.5
    acks_all: float = 3.0
    acks_leader: float = 1.0
    acks_none: float = 1.0
    stray: float = 0.1
    expected_term: float = 0.05
    rewind: float = 0.02
    largest_batch: int = 3
    value_bytes: int = 200
    keys: int = 0
    keyed: float = 0.9

    def limited_to(self, operations: Collection[str]) -> Load:
        """The same without the operations that are not among these (`loghistory.schema.Operation`)."""
        reads = (Operation.READ, Operation.READ_COMMITTED, Operation.READ_LINEARIZABLE)
        every = (Operation.APPEND, *reads, Operation.TAIL)
        return msgspec.structs.replace(self, **{name.value: 0.0 for name in every if name not in operations})


class Client:
    """One client of one group, of the only one if it is None. ``leader`` is the node that it believes to be the
    leader."""

    def __init__(
        self, cluster: Cluster, register: Register, load: Load, draw: random.Random, group: int | None = None
    ) -> None:
        self._group = group
        self._of_the_group = {} if group is None else {"log": str(group)}
        self._cluster = cluster
        self._register = register
        self._load = load
        self._draw = draw
        self._process = next(register.processes)
        self._connections: dict[int, NodeClient] = {}
        self._position = 0
        self._term = -1
        self.leader = draw.choice(cluster.nodes)
        self._operation = 0
        self._f = ""
        self._node = 0
        self._acks: int | None = None

    async def work(self, until: asyncio.Event) -> None:
        """Go from one operation to the next until ``until`` is set."""
        load = self._load
        reads = (self._read_on, self._read_committed_on, self._read_linearizable_on)
        doings = (self._append_something, *reads, self._tail)
        weights = (load.append, load.read, load.read_committed, load.read_linearizable, load.tail)
        while not until.is_set():
            await asyncio.sleep(self._draw.expovariate(1 / load.think))
            await self._draw.choices(doings, weights)[0]()
        self.close()

    def close(self) -> None:
        """Close the client's connections to all nodes."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- operations ----------------------------------------------------------------------------------------------

    async def append(
        self, node: int, *, acks: int, records: int = 1, padding: int = 0, expected_term: int = -1, key: int = NO_KEY
    ) -> bool:
        """Append a batch under a new value; whether it certainly succeeded."""
        value = next(self._register.values)
        columns: dict[str, Any] = {"acks": acks, "value": value, "count": records}
        if expected_term >= 0:
            columns["term"] = expected_term
        connection = await self._invoke(Operation.APPEND, node, columns)
        if connection is None:
            return False
        payload = value.to_bytes(8, "big", signed=True) + bytes(padding)
        sent = connection.append(payload, records=records, acks=acks, expected_term=expected_term, key=key)
        answer = await self._answered(sent)
        if isinstance(answer, AppendResult) and answer.outcome == SUCCESS:
            self._term = answer.term
            self._ok({"offset": answer.offset, "last_offset": answer.last_offset, "term": answer.term})
            return True
        unknown = isinstance(answer, AppendResult) and answer.outcome == UNKNOWN
        self._not_ok("unknown" if unknown else answer)
        return False

    async def read(self, node: int, f: Operation, start: int) -> bool:
        """Read from ``start`` on; a final or linearizable read goes on to the end. Whether it was answered."""
        connection = await self._invoke(f, node, {"offset": start})
        if connection is None:
            return False
        index = NOTHING
        if f == Operation.READ_LINEARIZABLE:
            asked = await self._answered(connection.read_index())
            if not isinstance(asked, TailResult) or asked.outcome != SUCCESS:
                self._not_ok(asked)
                return False
            index = asked.offset
        committed = f in (Operation.READ_COMMITTED, Operation.READ_LINEARIZABLE)
        batches: list[RecordBatch] = []
        position = start
        while True:
            answer = await self._answered(connection.read(position, committed=committed))
            if not isinstance(answer, ReadResult):
                self._not_ok(answer)
                return False
            batches += unpack_batches(answer.batches)
            if position == answer.next_offset or (f != Operation.FINAL_READ and answer.next_offset > index):
                break
            position = answer.next_offset
        data = [batch for batch in batches if batch.kind is BatchKind.DATA]
        for batch in data:
            self._record(
                Kind.OBSERVE, {"offset": batch.base_offset, "last_offset": batch.last_offset, "value": batch.value}
            )
        self._position = answer.next_offset
        self._ok({"offset": answer.next_offset, "count": len(data)})
        return True

    async def _append_something(self) -> None:
        draw, load = self._draw, self._load
        acks = draw.choices((ACKS_ALL, ACKS_LEADER, ACKS_NONE), (load.acks_all, load.acks_leader, load.acks_none))[0]
        await self.append(
            self._believed(),
            acks=acks,
            records=draw.randint(1, load.largest_batch),
            padding=draw.randrange(load.value_bytes + 1),
            expected_term=self._term if draw.random() < load.expected_term else -1,
            key=draw.randint(1, load.keys) if load.keys and draw.random() < load.keyed else NO_KEY,
        )

    def _believed(self) -> int:
        """The believed leader, or astray some other node."""
        stray = self._draw.random() < self._load.stray
        return self._draw.choice(self._cluster.nodes) if stray else self.leader

    async def _read_on(self, f: Operation = Operation.READ) -> None:
        if self._draw.random() < self._load.rewind:
            self._position = 0
        linearizable = f == Operation.READ_LINEARIZABLE
        await self.read(self._believed() if linearizable else self._draw.choice(self._cluster.nodes), f, self._position)

    async def _read_committed_on(self) -> None:
        await self._read_on(Operation.READ_COMMITTED)

    async def _read_linearizable_on(self) -> None:
        await self._read_on(Operation.READ_LINEARIZABLE)

    async def _tail(self) -> None:
        connection = await self._invoke(Operation.TAIL, self.leader, {})
        if connection is None:
            return
        answer = await self._answered(connection.tail())
        if isinstance(answer, TailResult) and answer.outcome == SUCCESS:
            self._ok({"offset": answer.offset + 1})
        else:
            self._not_ok(answer)

    # -- one operation -------------------------------------------------------------------------------------------

    async def _invoke(self, f: Operation, node: int, columns: dict[str, Any]) -> NodeClient | None:
        """Begin an operation. None if the node could not be reached, which is recorded as its failure."""
        self._operation = next(self._register.operations)
        self._f, self._node = f, node
        self._acks = columns.get("acks")
        self._record(Kind.INVOKE, columns)
        connection = self._connections.get(node)
        if connection is not None and connection.open:
            return connection
        try:
            async with asyncio.timeout(self._load.timeout):
                connection = await self._cluster.client(node, self._group or 0)
        except (OSError, TimeoutError):
            self._close(Kind.FAIL, "refused")  # nothing was sent
            self._look_elsewhere()
            return None
        self._connections[node] = connection
        return connection

    async def _answered(self, waiting: Awaitable[_Answer]) -> _Answer | str:
        """The answer, or why there is none."""
        try:
            async with asyncio.timeout(self._load.timeout):
                return await waiting
        except TimeoutError:
            self._connections.pop(self._node).close()
            return "timeout"
        except ConnectionError:
            return "connection lost"

    def _ok(self, columns: dict[str, Any]) -> None:
        if self._f in (Operation.APPEND, Operation.READ_LINEARIZABLE, Operation.TAIL):
            self.leader = self._node
        self._close(Kind.OK, None, columns)

    def _not_ok(self, answer: AppendResult | ReadResult | TailResult | Refusal | str) -> None:
        if isinstance(answer, str):
            self._close(Kind.INFO, answer)
            self._process = next(self._register.processes)
            self._look_elsewhere()
            return
        reason = answer.outcome if isinstance(answer, AppendResult | TailResult) else "refused"
        if isinstance(answer, Refusal):
            reason = answer.reason
        self._close(Kind.FAIL, reason)
        if answer.leader in self._cluster.nodes and answer.leader != self._node:
            self.leader = answer.leader
        else:
            self._look_elsewhere()

    def _look_elsewhere(self) -> None:
        if self.leader == self._node:
            self.leader = self._draw.choice(self._cluster.nodes)

    def _close(self, kind: Kind, reason: str | None, columns: dict[str, Any] | None = None) -> None:
        completed = dict(columns or {})
        if reason is not None:
            completed["reason"] = reason
        ended = "ok" if kind is Kind.OK else f"{kind} {reason}"
        self._register.counts[self._f, self._acks, ended] += 1
        self._record(kind, completed)

    def _record(self, kind: Kind, columns: dict[str, Any]) -> None:
        common = {"process": self._process, "op": self._operation, "f": str(self._f), "node": self._node}
        self._register.record(kind, {**common, **self._of_the_group, **columns})
