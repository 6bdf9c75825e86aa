"""A simulated node: a protocol's core on a host with a disk, its effects carried out in virtual time.

The core decides; this driver gives it a clock, timers, links and a disk, and records its notes in the history. A
storage error is fail-stop: it is recorded and the process ends. `Node` is what every protocol's node needs; the log is
added in `quorumlog.simulation.log_node`. Knows nothing of fault plans.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from quorumlog.events import (
    CancelTimer,
    Core,
    Effect,
    Event,
    Note,
    Received,
    Resolved,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from quorumlog.simulation.configuration import DiskTiming
from quorumlog.simulation.host import Host
from quorumlog.simulation.loop import Entry, Simulation
from quorumlog.storage.disk import StorageError
from quorumlog.storage.simulated import SimulatedDisk

Reply = Callable[[Resolved | None], None]
"""How a client's request ends: what the core said, or None when the process died with it."""


class Surroundings(Protocol):
    """What a node needs of the cluster it is part of."""

    simulation: Simulation

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Record an event at the current time."""

    def transmit(self, source: int, target: int, message: Any) -> None:  # noqa: ANN401
        """Hand a message to the network."""

    def reads(self, number: int) -> bool:
        """Whether node ``number`` takes what it is sent, or has no process that could; not while that is paused."""

    def storage_failed(self, number: int) -> None:
        """Node ``number`` stopped itself after a storage error."""


class Node(ABC):
    """See the module. ``number`` is the node's id; the disk outlives its processes.

    A protocol's node says how its core is made (`recover`), what its state is (`state`), and carries out the effects
    that are its own: it enters them into ``_perform``.
    """

    core: Core
    disk_type: ClassVar[type[SimulatedDisk]] = SimulatedDisk

    def __init__(self, cluster: Surroundings, number: int, timing: DiskTiming) -> None:
        simulation = cluster.simulation
        self.number = number
        self.host = Host(simulation, number)
        self.slowness = 1.0
        self._disk_random = simulation.random(f"disk {number}")
        self._cluster = cluster
        self._simulation = simulation
        self._timing = timing
        self._random: random.Random = simulation.random(f"node {number}")
        self._timers: dict[str, Entry] = {}
        self._replies: dict[int, Reply] = {}
        self._request = 0
        self._written_at = 0
        self._midway: tuple[int, Callable[[], None]] | None = None
        self._perform: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Resolved: self._resolved,
            Note: self._note,
        }
        self.new_disk()

    def new_disk(self) -> None:
        """An empty disk in place of the old one; the node must be down."""
        self.disk = self.disk_type(self._disk_random)

    # -- what a protocol says ------------------------------------------------------------------------------------

    @abstractmethod
    def recover(self) -> Core:
        """Read the disk and make the core of a new incarnation. Raises `StorageError`."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The columns of the history that say how the node starts."""

    def begun(self) -> Note:
        """What the history says when a process has begun."""
        return Note("start", self.state())

    def clock(self) -> Any:  # noqa: ANN401
        """What the core is told of the time: the machine's own clock, unless the protocol has others."""
        return self.host.clock()

    def interrupted(  # noqa: B027 - most protocols have nothing to note
        self, effects: Sequence[Effect], effect: Effect
    ) -> None:
        """The disk failed while ``effect``, one of ``effects``, was carried out; note what had been done by then."""

    def close(self) -> None:  # noqa: B027 - not every protocol keeps something open
        """Bring the disk into order before the process ends as it was asked to. Raises `StorageError`."""

    def retain(self, entries: int) -> None:  # noqa: B027 - not every protocol keeps a log
        """Give up what is committed except for the last ``entries``."""

    def compact(self) -> None:  # noqa: B027 - not every protocol keeps a log with keys
        """Remove what a later value of the same key replaced."""

    def transfer(self, target: int) -> None:  # noqa: B027 - not every protocol has a leader that can leave
        """Hand the leadership on to node ``target``, if this node leads."""

    def change(self, sort: str, nodes: Sequence[int]) -> None:  # noqa: B027 - not every protocol has a group that changes
        """Change the members of the group, if this node leads: one of `quorumlog.faults.CHANGES` for these nodes."""

    def settled(self) -> Sequence[tuple[str, int]]:
        """Files on the disk, and up to where each must be as it was written, or the node refuses to start."""
        return ()

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover the disk and start a process; does nothing if one runs."""
        if self.host.running:
            return
        self.host.start()
        self.begin()

    def begin(self) -> None:
        """Recover the disk in a process that has just started."""
        self._written_at = 0
        try:
            self.core = self.recover()
        except StorageError as error:
            self.fail(error)
            return
        self._note(self.begun())
        self.handle(Started())

    def kill(self) -> None:
        """End the process; the page cache lives. Requests that it had not answered stay unanswered."""
        self.host.stop()
        self.forget()

    def forget(self) -> None:
        """Lose what the process knew; requests that it had not answered stay unanswered."""
        self._timers.clear()
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            reply(None)

    def stop(self) -> None:
        """End the process as it was asked to. Requests that it had not answered stay unanswered."""
        try:
            self.close()
        except StorageError as error:
            self.fail(error)
            return
        self._cluster.record("stop", {"node": self.number, "incarnation": self.host.incarnation})
        self.kill()

    def end_midway(self, effects: int, end: Callable[[], None] | None) -> None:
        """Call ``end`` in the middle of the next step that has more effects than so many, after these; None: do not."""
        self._midway = None if end is None else (effects, end)

    def jump(self, nanoseconds: int) -> None:
        """Let the clock jump ahead, past timers, which then run out now."""
        self.host.jump(nanoseconds)
        self.hurry(nanoseconds)

    def hurry(self, nanoseconds: int) -> None:
        """Let timers run out so much sooner."""
        simulation = self._simulation
        for name, (due, _, callback, args) in list(self._timers.items()):
            if callback is not None and due > simulation.now:
                simulation.cancel(self._timers[name])
                self._timers[name] = simulation.at(due - nanoseconds, callback, *args)

    def handle(self, event: Event) -> None:
        """Give the core an event and carry out the effects it returns."""
        perform = self._perform
        effects = self.core.handle(self.clock(), event)
        if self._midway is not None and self._ends_within(effects):
            return
        try:
            for effect in effects:
                perform[type(effect)](effect)
        except StorageError as error:
            self.interrupted(effects, effect)
            self.fail(error)

    def _ends_within(self, effects: Sequence[Effect]) -> bool:
        """Carry out the first effects of a step and end the process, if that is to happen and the step has more."""
        assert self._midway is not None
        most, end = self._midway
        acts = [place for place, effect in enumerate(effects) if type(effect) is not Note]
        if len(acts) <= most:
            return False
        self._midway = None
        effect = effects[0]
        try:
            for effect in effects[: acts[most]]:  # what is noted of the last one belongs to it
                self._perform[type(effect)](effect)
        except StorageError as error:
            self.interrupted(effects, effect)
            self.fail(error)
        else:
            end()
        return True

    def fail(self, error: StorageError) -> None:
        """Stop the node after a storage error."""
        self._cluster.record("storage_error", {"node": self.number, "reason": type(error).__name__})
        self.kill()
        self._cluster.storage_failed(self.number)

    def receive(self, source: int, message: Any) -> None:  # noqa: ANN401
        """A message has arrived and the process runs."""
        self.handle(Received(source, message))

    def open(self, reply: Reply) -> int:
        """A number for a client's request, which ``Resolved`` ends by calling ``reply``."""
        self._request += 1
        self._replies[self._request] = reply
        return self._request

    # -- the disk's time -----------------------------------------------------------------------------------------

    def disk_time(self) -> int:
        """How long a flush that begins now takes; flushes need not end in the order in which they began."""
        timing = self._timing
        time = float(timing.least)
        if timing.most > timing.least:
            time *= (timing.most / timing.least) ** self._random.random()
        return int(time * self.slowness)

    def write_in_order(self, write: Callable[[], None], event: Event) -> None:
        """Do a durable write, then report it; writes keep their order, so older content never replaces newer."""
        now = self._simulation.now
        self._written_at = done = max(now, self._written_at) + self.disk_time()
        self._simulation.after(done - now, self._write, self.host.generation, write, event)

    def _write(self, generation: int, write: Callable[[], None], event: Event) -> None:
        if generation == self.host.generation:
            try:
                write()
            except StorageError as error:
                self.host.deliver(self.fail, error)
                return
            self.host.deliver(self.handle, event)

    # -- effects -------------------------------------------------------------------------------------------------

    def _send(self, effect: Send) -> None:
        self._cluster.transmit(self.number, effect.to, effect.message)

    def _set_timer(self, effect: SetTimer) -> None:
        old = self._timers.get(effect.name)
        if old is not None:
            old[2] = None
        delay = effect.delay
        if effect.jitter:
            delay += int(self._random.random() * effect.jitter)
        self._timers[effect.name] = self.host.after(delay, self._timer, effect.name)

    def _timer(self, name: str) -> None:
        self.handle(TimerFired(name))

    def _cancel_timer(self, effect: CancelTimer) -> None:
        old = self._timers.pop(effect.name, None)
        if old is not None:
            old[2] = None

    def _resolved(self, effect: Resolved) -> None:
        reply = self._replies.pop(effect.request, None)
        if reply is not None:
            reply(effect)

    def _note(self, effect: Note) -> None:
        columns = effect.columns
        columns["node"] = self.number
        columns["incarnation"] = self.host.incarnation
        self._cluster.record(effect.kind, columns)


__all__ = ["Node", "Reply", "Surroundings"]
