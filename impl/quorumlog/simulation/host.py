"""A simulated machine: its clock runs at its own rate, and its process runs, is paused, or is down.

A paused process (SIGSTOP, a long garbage collection, a virtual machine that migrates) misses nothing: what
falls due meanwhile, timers and messages alike, happens in order when it goes on. A process that is down loses
everything that was scheduled for it. Knows no protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from quorumlog.simulation.loop import Entry, Simulation


class Host:
    """One machine, at most one live process; ``incarnation`` counts how often it had been started before."""

    __slots__ = (
        "_deferred",
        "_generation",
        "incarnation",
        "number",
        "paused",
        "rate",
        "running",
        "simulation",
    )

    def __init__(self, simulation: Simulation, number: int) -> None:
        self.simulation = simulation
        self.number = number
        self.running = False
        self.paused = False
        self.rate = 1.0
        self.incarnation = -1
        self._generation = 0
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def start(self) -> None:
        """A new process: the next incarnation."""
        self.running = True
        self.incarnation += 1
        self._generation += 1

    def stop(self) -> None:
        """The process is gone, with everything that was scheduled for it."""
        self.running = False
        self.paused = False
        self._generation += 1
        self._deferred.clear()

    def after(self, delay: int, callback: Callable[..., None], *args: Any) -> Entry:  # noqa: ANN401
        """Schedule on this machine's own clock: ``delay`` of its nanoseconds, which may run fast or slow."""
        if self.rate != 1.0:
            delay = int(delay / self.rate)
        return self.simulation.after(delay, self._due, self._generation, callback, args)

    def completion(
        self,
        callback: Callable[..., None],
        *args: Any,  # noqa: ANN401
    ) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """What a device calls when it is done: reaches this incarnation of the process, or nobody."""
        return self._due, (self._generation, callback, args)

    def deliver(self, callback: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        """Something arrives from outside: handled now, kept while paused, lost while down."""
        if not self.running:
            return
        if self.paused:
            self._deferred.append((callback, args))
        else:
            callback(*args)

    def pause(self) -> None:
        """Stop the process where it stands."""
        if self.running:
            self.paused = True

    def resume(self) -> None:
        """Let the process go on, beginning with what it missed."""
        if not self.paused:
            return
        self.paused = False
        generation = self._generation
        deferred = self._deferred
        while deferred and not self.paused and generation == self._generation:
            callback, args = deferred.popleft()
            callback(*args)

    def _due(self, generation: int, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        if generation != self._generation:
            return
        if self.paused:
            self._deferred.append((callback, args))
        else:
            callback(*args)
