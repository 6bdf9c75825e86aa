"""Simulated clients of servers of pull queries: they put rows, look keys up and scan.

A query goes to any server. What it was answered is recorded partition by partition, as the client got it, also where
the query failed in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from quorumlog.events import Outcome, Resolved
from quorumlog.pull_queries.events import Answer, Query
from quorumlog.pull_queries.nodes import ServerNode
from quorumlog.pull_queries.recording import json_text, rows_columns
from quorumlog.pull_queries.settings import PullConfiguration, QueryWorkload
from quorumlog.pull_queries.table import Filter, partition_of
from quorumlog.simulation.client import Client, Service


class Named(Service[ServerNode], Protocol):
    """Servers that clients find by their names in answers."""

    def number_of(self, host: str) -> int:
        """The number of a server by its name; -1 if there is none."""


class QueryClient(Client[ServerNode]):
    """A client that puts rows, looks keys up and scans as ``mix`` says; see `Client`."""

    def __init__(self, cluster: Named, mix: QueryWorkload, configuration: PullConfiguration) -> None:
        self._mix, self._partitions, self._number_of = mix, configuration.server.partitions, cluster.number_of
        super().__init__(cluster, mix, configuration.client_delay)

    def operations(self) -> Sequence[tuple[Callable[[], object], float]]:
        """Puts, look-ups of one key or several, and scans, as the mix says."""
        return (self._put_some, self._mix.put), (self._look_up, self._mix.look_up), (self._scan, self._mix.scan)

    def last_write(self, node: int) -> int:
        """Put a row by way of server ``node``; returns the operation."""
        return self.put(node, "k0", self._service.new_value())

    def final_read(self, node: int) -> int:
        """Ask server ``node`` for the whole table; returns the operation."""
        return self.query(node, Query())

    def _any_node(self) -> int:
        return self._random.randrange(len(self._service.nodes))

    def _any_key(self) -> str:
        return f"k{self._random.randrange(self._mix.keys)}"

    def _bound(self) -> int | None:
        drawn = self._random.random() < self._mix.bounded
        return self._random.randint(0, self._mix.largest_bound) if drawn else None

    # -- puts ----------------------------------------------------------------------------------------------------------

    def _put_some(self) -> None:
        value = self._service.new_value() if self._random.random() < 0.85 else None
        self.put(self._any_node(), self._any_key(), value)

    def put(self, node: int, key: str, value: int | None) -> int:
        """Put a row, or take it away; returns the operation."""
        partition = partition_of(key, self._partitions)

        def serve(operation: int, server: ServerNode) -> None:
            server.put(partition, key, value, lambda resolved: self.answer(self._was_put, operation, resolved))

        text = json_text({"key": key, "value": value})
        return self.ask("put", node, {"text": text}, serve)

    def _was_put(self, resolved: Resolved | None) -> None:
        if resolved is not None and resolved.outcome is Outcome.SUCCESS:
            self.close("ok", {"offset": resolved.offset})
        elif resolved is None or resolved.outcome is Outcome.UNKNOWN:
            self.give_up("unknown")
        else:
            self.refuse(str(resolved.outcome))

    # -- queries -------------------------------------------------------------------------------------------------------

    def _look_up(self) -> None:
        several = self._random.choice((1, 1, 1, 2, 3))
        keys = tuple(sorted({self._any_key() for _ in range(several)}))
        self.query(self._any_node(), Query(keys=keys, bound=self._bound()))

    def _scan(self) -> None:
        wanted = Filter("v", ">=", self._random.randrange(100)) if self._random.random() < 0.5 else None
        self.query(self._any_node(), Query(filter=wanted, bound=self._bound()))

    def query(self, node: int, query: Query) -> int:
        """Ask a server; returns the operation."""

        def serve(operation: int, server: ServerNode) -> None:
            def reply(answers: list[Answer], message: str | None) -> None:
                self.answer(self._was_answered, operation, answers, message)

            server.query(operation, query, reply)

        return self.ask("query", node, {"text": json_text(query)}, serve)

    def _was_answered(self, answers: list[Answer], message: str | None) -> None:
        """``message`` is empty if the query is complete, and None if the server died with it."""
        for answer in answers:
            self._observe_rows(answer)
        if message is None:
            self.give_up("connection lost")
        elif message:
            self.refuse("failed")
        else:
            self.close("ok", {"count": len(answers)})

    def _observe_rows(self, answer: Answer) -> None:
        columns: dict[str, Any] = {"process": self._process, "op": self._open, "node": self._node}
        self._service.record("rows", {**columns, **rows_columns(answer, self._number_of(answer.host))})
