"""What a whole run needs of a protocol: its processes, its clients, when all is well (found by name in `staging`)."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import msgspec

from quorumlog.cluster.faults import CHOICES, Choices, draw_plan
from quorumlog.cluster.processes import Processes
from quorumlog.cluster.register import Register
from quorumlog.faults import Plan

Ended = Callable[[int, int], None]
"""Called with a process that ended by itself, and its status."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What decides a run, apart from the machine it runs on.

    ``nodes``: the processes that faults hit. ``duration``: seconds of load. ``retention``: bytes of log that each node
    keeps, None: all. ``groups``: how many groups of the protocol each process holds. ``options`` replace values of the
    protocol's own configuration, by name.
    """

    seed: int
    protocol: str
    nodes: int = 3
    duration: float = 10.0
    faults: tuple[str, ...] = ("kill", "stop", "cut")
    clients: int = 6
    write_caching: bool = False
    retention: int | None = None
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    groups: int = 1

    def draw(self, what: object) -> random.Random:
        """A stream of random numbers of its own for a part of the run."""
        return random.Random(f"{self.seed} {what}")


class Worker(Protocol):
    """A client of a run, with one operation at a time."""

    async def work(self, until: asyncio.Event) -> None:
        """Go from one operation to the next until ``until`` is set."""


class Stage(ABC):
    """The processes of one run and what is asked of them; entered, all of them run.

    ``processes`` are those that faults hit; others, which feed them, may run beside them.
    """

    processes: Processes

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Start all processes and wait until they answer. Raises `ClusterError`."""

    @abstractmethod
    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Stop all processes: gracefully, or at once if the body was cancelled."""

    @abstractmethod
    async def begin(self) -> None:
        """Wait until load makes sense. Raises `ClusterError`."""

    @abstractmethod
    def clients(self) -> Sequence[Worker]:
        """Clients that have not begun to work."""

    @abstractmethod
    async def leader(self) -> int:
        """The process that matters most now; while there is none, the last one."""

    async def allows(self, fault: str, node: int) -> bool:
        """Whether a fault may befall a process now."""
        return True

    async def begin_own(self, fault: str, node: int) -> None:
        """Begin a fault that is none of any process, but the protocol's."""
        raise NotImplementedError

    async def end_own(self, fault: str, node: int) -> None:
        """End a fault that `begin_own` began."""
        raise NotImplementedError

    @abstractmethod
    async def converge(self, seconds: float) -> bool:
        """Once everything is healed: write once more, and wait at most so long until all agree; whether they do."""

    @abstractmethod
    async def final_read(self) -> bool:
        """Read everything from every process; whether all of them answered."""

    @abstractmethod
    async def histories(self, directory: Path) -> list[Path]:
        """The history files of the processes, which have ended; ``directory`` is for what is made of them."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """What the protocol itself ran with, for the manifest; plain values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """How a protocol is staged.

    ``faults`` are what a run may do to it: some of `quorumlog.cluster.faults.CHOICES`, and its ``own``, which stand for
    faults that its stage carries out (`Stage.begin_own`). ``make`` raises `ClusterError` for a setting that it cannot
    run with. ``groups``: a process can hold several.
    """

    name: str
    faults: tuple[str, ...]
    make: Callable[[Setting, Path, Register, Ended], Stage]
    groups: bool = False
    own: Choices = field(default_factory=dict)

    def plan(self, setting: Setting) -> Plan:
        """The faults of a run, drawn from its seed."""
        choices = {**CHOICES, **self.own}
        asked = {kind: choices[kind] for kind in setting.faults}
        return draw_plan(setting.seed, asked, setting.nodes, setting.duration)
