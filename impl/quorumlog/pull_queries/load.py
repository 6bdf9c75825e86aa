"""Clients of real servers of pull queries: each has one open operation and records what it asked and was told.

The same clients as in the simulator (`quorumlog.pull_queries.client`), on sockets. They put rows into the source logs,
where the servers read them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from loghistory.schema import Kind, Operation
from quorumlog.cluster.log_client import Log, UnreachableError
from quorumlog.cluster.register import Register
from quorumlog.pull_queries.events import Query
from quorumlog.pull_queries.recording import json_text, rows_columns
from quorumlog.pull_queries.server_client import LostError, RefusedError, ServerClient
from quorumlog.pull_queries.table import Filter, Value, partition_of


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What clients do: relative weights, probabilities, and seconds of thinking between two operations."""

    think: float = 0.05
    put: float = 3.0
    look_up: float = 4.0
    scan: float = 1.0
    keys: int = 12
    tombstone: float = 0.15
    bounded: float = 0.4
    largest_bound: int = 20


class PullClient:
    """One client; ``places`` are the public ports of the servers, ``number_of`` numbers hosts, ``sources`` are the
    source logs by partition."""

    def __init__(
        self,
        register: Register,
        load: Load,
        draw: random.Random,
        places: Sequence[str],
        number_of: Callable[[str], int],
        sources: Sequence[Log],
    ) -> None:
        self._register, self._load, self._draw = register, load, draw
        self._places, self._number_of, self._sources = places, number_of, sources
        self._process = next(register.processes)
        self._client = ServerClient(register.recorder.clock)
        self._common: dict[str, Any] = {}

    async def work(self, until: asyncio.Event) -> None:
        """Go from one operation to the next until ``until`` is set."""
        load = self._load
        doings, weights = (self._put_some, self._look_up, self._scan), (load.put, load.look_up, load.scan)
        async with self._client:
            while not until.is_set():
                await asyncio.sleep(self._draw.expovariate(1 / load.think))
                await self._draw.choices(doings, weights)[0]()

    async def put(self, key: str, value: Value | None) -> bool:
        """Put a row, or take it away; whether that certainly happened."""
        self._invoke(Operation.PUT, {"text": json_text({"key": key, "value": value})})
        try:
            offset = await self._sources[partition_of(key, len(self._sources))].append([(key, value)])
        except UnreachableError:
            self._lost("unknown")
            return False
        self._close(Kind.OK, {"offset": offset})
        return True

    async def query(self, node: int, query: Query) -> dict[str, Value] | None:
        """Ask a server; the rows, or None if it did not answer completely."""
        operation = self._invoke(Operation.QUERY, {"node": node, "text": json_text(query)})
        try:
            reply = await self._client.query(self._places[node], query, operation)
        except RefusedError:
            self._close(Kind.FAIL, {"reason": "refused"})
            return None
        except LostError as error:
            self._lost("timeout" if str(error) == "timeout" else "connection lost")
            return None
        common = {name: column for name, column in self._common.items() if name != "f"}
        for answer in reply.answers:
            self._register.record("rows", {**common, **rows_columns(answer, self._number_of(answer.host))})
        if reply.message is not None:
            self._close(Kind.FAIL, {"reason": "failed"})
            return None
        self._close(Kind.OK, {"count": len(reply.answers)})
        return {key: value for answer in reply.answers for key, value in answer.rows}

    async def close(self) -> None:
        """Close the connections to all servers."""
        await self._client.__aexit__()

    # -- what it does --------------------------------------------------------------------------------------------------

    async def _put_some(self) -> None:
        tombstone = self._draw.random() < self._load.tombstone
        await self.put(self._any_key(), None if tombstone else next(self._register.values))

    async def _look_up(self) -> None:
        keys = {self._any_key() for _ in range(self._draw.choice((1, 1, 1, 2, 3)))}
        await self.query(self._any_node(), Query(keys=tuple(sorted(keys)), bound=self._bound()))

    async def _scan(self) -> None:
        wanted = Filter("v", ">=", self._draw.randrange(500)) if self._draw.random() < 0.5 else None
        await self.query(self._any_node(), Query(filter=wanted, bound=self._bound()))

    def _any_key(self) -> str:
        return f"k{self._draw.randrange(self._load.keys)}"

    def _any_node(self) -> int:
        return self._draw.randrange(len(self._places))

    def _bound(self) -> int | None:
        drawn = self._draw.random() < self._load.bounded
        return self._draw.randint(0, self._load.largest_bound) if drawn else None

    # -- one operation -------------------------------------------------------------------------------------------------

    def _invoke(self, f: Operation, columns: dict[str, Any]) -> int:
        operation = next(self._register.operations)
        self._common = {"process": self._process, "op": operation, "f": str(f)}
        if "node" in columns:
            self._common["node"] = columns["node"]
        self._register.record(Kind.INVOKE, {**self._common, **columns})
        return operation

    def _lost(self, reason: str) -> None:
        """Whether it was done is unknown, and stays so."""
        self._close(Kind.INFO, {"reason": reason})
        self._process = next(self._register.processes)

    def _close(self, kind: Kind, columns: dict[str, Any]) -> None:
        ended = "ok" if kind is Kind.OK else f"{kind} {columns['reason']}"
        self._register.counts[self._common["f"], None, ended] += 1
        self._register.record(kind, {**self._common, **columns})
