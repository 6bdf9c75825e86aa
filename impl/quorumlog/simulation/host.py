"""A simulated machine: its clock runs at its own rate, and its process runs, is paused, or is down.

A paused process (SIGSTOP, a long garbage collection, a virtual machine that migrates) misses nothing: what falls
due meanwhile, timers and messages alike, happens in order when it goes on. A process that is down loses everything
that was scheduled for it; whoever waits for an answer to what it had not taken yet is told. Knows no protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from quorumlog.simulation.loop import Entry, Simulation


class Host:
    """One machine with at most one live process.

    ``incarnation`` counts how often it had been started before; ``generation`` changes with every start and stop, so
    that a device can tell whether the process it works for is still there.
    """

    __slots__ = (
        "_deferred",
        "_local",
        "_rate",
        "_since",
        "generation",
        "incarnation",
        "number",
        "paused",
        "running",
        "simulation",
    )

    def __init__(self, simulation: Simulation, number: int) -> None:
        self.simulation = simulation
        self.number = number
        self.running = False
        self.paused = False
        self.incarnation = -1
        self.generation = 0
        self._rate = 1.0
        self._local = 0
        self._since = 0
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...], Callable[[], None] | None]] = deque()

    def clock(self) -> int:
        """The machine's own monotonic clock, in its own nanoseconds."""
        passed = self.simulation.now - self._since
        return self._local + (passed if self._rate == 1.0 else int(passed * self._rate))

    def set_rate(self, rate: float) -> None:
        """Let the clock run ``rate`` times as fast from now on; what is scheduled already stays as it is."""
        self._local = self.clock()
        self._since = self.simulation.now
        self._rate = rate

    def jump(self, nanoseconds: int) -> None:
        """Let the clock jump ahead; what is scheduled already stays as it is."""
        self._local += nanoseconds

    def start(self) -> None:
        """A new process: the next incarnation."""
        self.running = True
        self.incarnation += 1
        self.generation += 1

    def stop(self) -> None:
        """The process is gone, with everything that was scheduled for it."""
        self.running = False
        self.paused = False
        self.generation += 1
        deferred, self._deferred = self._deferred, deque()
        for _, _, lost in deferred:
            if lost is not None:
                lost()

    def after(self, delay: int, callback: Callable[..., None], *args: Any) -> Entry:  # noqa: ANN401
        """Schedule on this machine's own clock: ``delay`` of its nanoseconds, which may run fast or slow."""
        if self._rate != 1.0 and delay > 0:
            delay = max(int(delay / self._rate), 1)  # who waits for the rest once more gets ahead
        return self.simulation.after(delay, self.due, self.generation, callback, args)

    def deliver(
        self,
        callback: Callable[..., None],
        *args: Any,  # noqa: ANN401
        lost: Callable[[], None] | None = None,
    ) -> None:
        """Something arrives from outside: handled now, kept while paused, lost while down.

        ``lost`` is called if the process ends before it goes on.
        """
        if not self.running:
            return
        if self.paused:
            self._deferred.append((callback, args, lost))
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
        generation = self.generation
        deferred = self._deferred
        while deferred and not self.paused and generation == self.generation:
            callback, args, _ = deferred.popleft()
            callback(*args)

    def due(self, generation: int, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        """The time has come for what `after` was given; nothing if the process is another one by now."""
        if generation != self.generation:
            return
        if self.paused:
            self._deferred.append((callback, args, None))
        else:
            callback(*args)
