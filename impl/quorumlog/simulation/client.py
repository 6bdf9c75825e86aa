"""Simulated clients, each of which records what it asked and what the answer was; it has one open operation at a time.

A time-out is not a failure: the outcome stays unknown (``info``), and the client goes on under a new process number, as
the history format demands. A refusal that certainly wrote nothing is a ``fail``. Several clients can work as one that
has several operations open. The protocol defines the operations (`quorumlog.simulation.log_client` for logs).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

from quorumlog.simulation.configuration import Workload
from quorumlog.simulation.loop import Entry, Simulation
from quorumlog.simulation.node import Node

NodeOf = TypeVar("NodeOf", bound=Node)
NodeSpoken = TypeVar("NodeSpoken", bound=Node, covariant=True)
Choice = TypeVar("Choice")


def chosen(draw: random.Random, choices: Sequence[Choice], weights: Sequence[float]) -> Choice:
    """One of the choices, drawn by weights that are summed up: what ``draw.choices`` draws, in a third of the time."""
    return choices[bisect(weights, draw.random() * weights[-1], 0, len(choices) - 1)]


class Service(Protocol[NodeSpoken]):
    """What clients need of the cluster."""

    simulation: Simulation

    @property
    def nodes(self) -> Sequence[NodeSpoken]:
        """The nodes, each at the index that is its number."""

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Record an event at the current time."""

    def new_operation(self) -> int:
        """A number for an operation, unique in the run."""

    def new_value(self) -> int:
        """A value for what is written, unique in the run."""

    def new_process(self) -> int:
        """A number for a client's process, unique in the run."""


class Client(ABC, Generic[NodeOf]):
    """One client. It goes from one operation to the next until `stop`.

    ``last_outcome`` is "ok", "fail" or "info" once an operation has ended, ``last_reason`` why it did not succeed,
    ``last_offset`` the offset it was answered with.
    """

    def __init__(self, service: Service[NodeOf], mix: Workload, delay: int) -> None:
        self._service = service
        self._simulation = service.simulation
        self._think, self._timeout = mix.think, mix.timeout
        self._delay = delay
        self._process = service.new_process()
        self._random: random.Random = service.simulation.random(f"client {self._process}")
        self._leader = self._random.randrange(len(service.nodes))
        self._open: int | None = None
        self._deadline: Entry | None = None
        self._node = 0
        self._said: dict[str, Any] = {}  # what every event of the open operation says
        self._working = False
        self._others: Sequence[Client[NodeOf]] = ()
        self.last_outcome = ""
        self.last_reason = ""
        self.last_offset = -1
        weighted = [(operation, weight) for operation, weight in self.operations() if weight > 0]
        self._operations = [operation for operation, _ in weighted]
        self._weights = list(accumulate(weight for _, weight in weighted))

    # -- what a protocol says ------------------------------------------------------------------------------------

    @abstractmethod
    def operations(self) -> Sequence[tuple[Callable[[], object], float]]:
        """What a client does while it works: functions that each begin one operation, with their relative weights."""

    @abstractmethod
    def last_write(self, node: int) -> int:
        """Ask ``node`` for a write that all nodes must have in the end; returns the operation."""

    @abstractmethod
    def final_read(self, node: int) -> int:
        """Ask ``node`` for everything it has; returns the operation."""

    # -- work ----------------------------------------------------------------------------------------------------

    def pipeline(self, others: Sequence[Client[NodeOf]]) -> None:
        """Whenever this client begins an operation, let these begin one each, without waiting for the answer.

        Together they are one that has several operations open; a process of the history has one at a time.
        """
        self._others = others

    def work(self) -> None:
        """Begin to work, after a first pause; does nothing if the client has no operations."""
        if self._operations:
            self._working = True
            self._pause()

    def stop(self) -> None:
        """Begin no more operations; the open one takes its course."""
        self._working = False

    @property
    def idle(self) -> bool:
        """Whether the client has no open operation."""
        return self._open is None

    def _pause(self) -> None:
        if self._working:
            self._simulation.after(int(self._random.expovariate(1.0) * self._think), self._next)

    def _next(self) -> None:
        if self._working and self._open is None:
            chosen(self._random, self._operations, self._weights)()
            for other in self._others:
                other.follow(self._leader)

    def follow(self, leader: int) -> None:
        """Begin an operation now, unless one is open, and take ``leader`` for the node that leads."""
        if self._open is None:
            self._leader = leader
            chosen(self._random, self._operations, self._weights)()

    # -- one operation -------------------------------------------------------------------------------------------

    def ask(self, f: str, node: int, columns: dict[str, Any], serve: Callable[[int, NodeOf], None]) -> int:
        """Invoke an operation; when it arrives, ``serve(operation, node)`` is called, or the client refused."""
        self._open = operation = self._service.new_operation()
        self._node = node
        self._said = {"process": self._process, "op": operation, "f": f, "node": node}
        self._service.record("invoke", {**self._said, **columns})
        self._deadline = self._simulation.after(self._timeout, self._timed_out, operation)
        self._simulation.after(self._delay, self._arrive, operation, node, serve)
        return operation

    def _arrive(self, operation: int, number: int, serve: Callable[[int, NodeOf], None]) -> None:
        node = self._service.nodes[number]
        if node.host.running:
            lost = partial(self.answer, self.give_up, operation, "connection lost")
            node.host.deliver(serve, operation, node, lost=lost)
        else:
            self.answer(self._refused, operation)

    def answer(self, callback: Callable[..., None], operation: int, *args: Any) -> None:  # noqa: ANN401
        """Send a node's answer back to the client: ``callback(*args)`` is called there, if the client still waits."""
        if operation == self._open:
            self._simulation.after(self._delay, self._answered, operation, callback, args)

    def _answered(self, operation: int, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        if operation == self._open:
            callback(*args)

    def observe(self, columns: dict[str, Any]) -> None:
        """Record a batch that the open operation read."""
        self._service.record("observe", {**self._said, **columns})

    def close(self, kind: str, columns: dict[str, Any]) -> None:
        """End the open operation as "ok", "fail" or "info"."""
        self._open = None
        self.last_outcome = kind
        self.last_reason = columns.get("reason", "")
        self.last_offset = columns.get("offset", -1)
        if self._deadline is not None:
            self._simulation.cancel(self._deadline)
        self._service.record(kind, {**self._said, **columns})
        self._pause()

    def refuse(self, reason: str, leader: int = -1) -> None:
        """End the open operation: nothing was written. ``leader`` is the node that it follows, if it said so."""
        self._leader = leader if leader >= 0 else self._random.randrange(len(self._service.nodes))
        self.close("fail", {"reason": reason})

    def give_up(self, reason: str) -> None:
        """End the open operation: whether it was done is unknown, and stays so."""
        self._leader = self._random.randrange(len(self._service.nodes))
        self.close("info", {"reason": reason})
        self._process = self._service.new_process()

    def _timed_out(self, operation: int) -> None:
        if operation == self._open:
            self.give_up("timeout")

    def _refused(self) -> None:
        self.refuse("refused")


__all__ = ["Client", "Service", "chosen"]
