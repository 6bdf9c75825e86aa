"""One simulated node: a Raft core on a simulated disk, its effects carried out in virtual time.

The core decides; this driver gives it a clock, timers, a log, a durable vote, and takes its notes into the
history. A storage error is fail-stop: it is recorded and the process ends. Reads of clients are answered here, from
the log up to what the core calls visible or committed. Knows nothing of fault plans.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import (
    Accepted,
    Append,
    AppendRequested,
    BarrierRequested,
    CancelTimer,
    Event,
    Flushed,
    LogRead,
    Note,
    Outcome,
    ReadLog,
    Received,
    Reset,
    Resolved,
    SaveVote,
    Send,
    SetTimer,
    Started,
    StartFlush,
    Timer,
    TimerFired,
    Trim,
    TrimRequested,
    Truncate,
    VoteSaved,
)
from quorumlog.raft.index import LogIndex
from quorumlog.raft.messages import AnyMessage
from quorumlog.raft.rules import NOBODY
from quorumlog.raft.state import Configuration, Restored
from quorumlog.simulation.configuration import DiskTiming
from quorumlog.simulation.host import Host
from quorumlog.simulation.loop import Entry, Simulation
from quorumlog.storage.batch import BatchKind, RecordBatch
from quorumlog.storage.disk import StorageError
from quorumlog.storage.log import FlushTicket, Log
from quorumlog.storage.simulated import SimulatedDisk
from quorumlog.storage.vote import VoteStore

CoreFactory = Callable[[Configuration, Restored], RaftCore]
"""Makes the core of one incarnation; a mutant's factory passes other rules or a subclass."""

Reply = Callable[[Resolved | None], None]
"""How a client's request ends: what the core said, or None when the process died with it."""

READ_BYTES = 1 << 20
"""An ordinary read returns about so much."""


class Surroundings(Protocol):
    """What a node needs of the cluster it is part of."""

    simulation: Simulation

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Put an event into the history, at the time it is now."""

    def transmit(self, source: int, target: int, message: AnyMessage) -> None:
        """Hand a message to the network."""

    def storage_failed(self, node: RaftNode) -> None:
        """The node stopped itself."""


class RaftNode:
    """See the module. ``number`` is the node's id; the disk outlives its processes."""

    def __init__(
        self,
        cluster: Surroundings,
        configuration: Configuration,
        timing: DiskTiming,
        segment_bytes: int,
        make_core: CoreFactory,
    ) -> None:
        simulation = cluster.simulation
        self.number = configuration.node
        self.host = Host(simulation, self.number)
        self._disk_random = simulation.random(f"disk {self.number}")
        self.slowness = 1.0
        self.core: RaftCore
        self.log: Log
        self._cluster = cluster
        self._simulation = simulation
        self._configuration = configuration
        self._timing = timing
        self._segment_bytes = segment_bytes
        self._make_core = make_core
        self._random: random.Random = simulation.random(f"node {self.number}")
        self._timers: dict[Timer, Entry] = {}
        self._replies: dict[int, Reply] = {}
        self._request = 0
        self.new_disk()
        self._votes_saved_at = 0
        self._perform: dict[type, Callable[[Any], None]] = {
            Append: self._append,
            Truncate: self._truncate,
            Trim: self._trim,
            Reset: self._reset,
            StartFlush: self._start_flush,
            SaveVote: self._save_vote,
            ReadLog: self._read_log,
            Send: self._send,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Accepted: self._accepted,
            Resolved: self._resolved,
            Note: self._note,
        }

    def new_disk(self) -> None:
        """An empty disk in place of the old one; the node must be down."""
        self.disk = SimulatedDisk(self._disk_random)
        self._votes = VoteStore(self.disk)

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover the disk and start a process; does nothing if one runs."""
        if self.host.running:
            return
        self.host.start()
        self._votes_saved_at = 0
        try:
            self.log = Log.open(self.disk, "log", segment_bytes=self._segment_bytes)
            term, voted_for = self._votes.load()
        except StorageError as error:
            self._fail(error)
            return
        log = self.log
        index = LogIndex.of(
            ((place.base_offset, place.last_offset, place.term) for place in log.headers()),
            log.start_offset,
            log.term(log.start_offset - 1),
        )
        restored = Restored(term, NOBODY if voted_for is None else voted_for, index)
        self.core = core = self._make_core(self._configuration, restored)
        columns = {
            "node": self.number,
            "incarnation": self.host.incarnation,
            "term": core.term,
            "role": core.role,
            "dirty": core.dirty,
            "flushed": core.flushed,
            "commit": core.commit,
            "visible": core.visible,
        }
        self._cluster.record("start", columns)
        self.handle(Started())

    def kill(self) -> None:
        """End the process; the page cache lives. Requests that it had not answered stay unanswered."""
        self.host.stop()
        self._timers.clear()
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            reply(None)

    def handle(self, event: Event) -> None:
        """Give the core an event and carry out what it answers."""
        perform = self._perform
        effects = self.core.handle(self.host.clock(), event)
        try:
            for effect in effects:
                perform[type(effect)](effect)
        except StorageError as error:
            if isinstance(effect, Truncate) and self.log.dirty < effect.offset:
                # The disk failed when the log had been cut already: the history has to know that it was.
                self._note(next(e for e in effects if isinstance(e, Note) and e.kind == "truncate"))
            self._fail(error)

    def _fail(self, error: StorageError) -> None:
        self._cluster.record("storage_error", {"node": self.number, "reason": type(error).__name__})
        self.kill()
        self._cluster.storage_failed(self)

    # -- clients -------------------------------------------------------------------------------------------------

    def append(self, batch: RecordBatch, expected_term: int, reply: Reply) -> None:
        """A client's append has arrived."""
        self.handle(AppendRequested(self._open(reply), batch, expected_term))

    def barrier(self, reply: Reply) -> None:
        """A client asks for the linearizable end of the log."""
        self.handle(BarrierRequested(self._open(reply)))

    def trim(self, offset: int) -> None:
        """Retention: entries before ``offset`` may go."""
        self.handle(TrimRequested(offset))

    def read(self, start: int, *, committed: bool, max_bytes: int = READ_BYTES) -> list[RecordBatch]:
        """Whole batches from ``start`` on, at least one, up to what is committed or visible here and now."""
        end = self.core.commit if committed else self.core.visible
        start = max(start, self.log.start_offset)
        if start > end:
            return []
        try:
            batches = self.log.read(start, max_bytes, end)
        except StorageError as error:
            self._fail(error)
            return []
        return [batch for batch in batches if batch.last_offset <= end]

    def _open(self, reply: Reply) -> int:
        self._request += 1
        self._replies[self._request] = reply
        return self._request

    # -- effects -------------------------------------------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        self.log.append(effect.batches)

    def _truncate(self, effect: Truncate) -> None:
        self.log.truncate(effect.offset)

    def _trim(self, effect: Trim) -> None:
        self.log.trim(effect.offset)

    def _reset(self, effect: Reset) -> None:
        self.log.reset(effect.start, effect.start_term)

    def _disk_time(self) -> int:
        """How long a flush that begins now takes; flushes are not held to the order in which they began."""
        timing = self._timing
        time = float(timing.least)
        if timing.most > timing.least:
            time *= (timing.most / timing.least) ** self._random.random()
        return int(time * self.slowness)

    def _start_flush(self, effect: StartFlush) -> None:
        flush = self.log.flush_begin()
        self._simulation.after(self._disk_time(), self._flush, self.host.generation, flush, effect.ticket)

    def _flush(self, generation: int, flush: FlushTicket, ticket: int) -> None:
        if generation == self.host.generation:
            try:
                self.log.flush_run(flush)
            except StorageError as error:
                self.host.deliver(self._fail, error)
                return
            self.host.deliver(self._flushed, flush, ticket)

    def _flushed(self, flush: FlushTicket, ticket: int) -> None:
        self.log.flush_finish(flush)
        self.handle(Flushed(ticket))

    def _save_vote(self, effect: SaveVote) -> None:
        # One after the other: an older vote must never replace a newer one.
        now = self._simulation.now
        self._votes_saved_at = done = max(now, self._votes_saved_at) + self._disk_time()
        self._simulation.after(done - now, self._save, self.host.generation, effect)

    def _save(self, generation: int, effect: SaveVote) -> None:
        if generation == self.host.generation:
            try:
                self._votes.save(effect.term, None if effect.voted_for == NOBODY else effect.voted_for)
            except StorageError as error:
                self.host.deliver(self._fail, error)
                return
            self.host.deliver(self.handle, VoteSaved(effect.ticket))

    def _read_log(self, effect: ReadLog) -> None:
        # The bytes are taken when the read begins or when it ends: the log may be cut and grow between the two.
        delay = int(self._random.random() * self._timing.read)
        batches = self._batches(effect) if self._random.random() < 0.5 else None
        self.host.after(delay, self._have_read, effect, batches)

    def _have_read(self, effect: ReadLog, batches: tuple[RecordBatch, ...] | None) -> None:
        self.handle(LogRead(effect.ticket, self._batches(effect) if batches is None else batches))

    def _batches(self, effect: ReadLog) -> tuple[RecordBatch, ...]:
        if not self.log.start_offset <= effect.start <= self.log.dirty:
            return ()
        return tuple(self.log.read(effect.start, effect.max_bytes))

    def _send(self, effect: Send) -> None:
        self._cluster.transmit(self.number, effect.to, effect.message)

    def receive(self, source: int, message: AnyMessage) -> None:
        """A message has arrived and the process runs."""
        self.handle(Received(source, message))

    def _set_timer(self, effect: SetTimer) -> None:
        old = self._timers.get(effect.name)
        if old is not None:
            old[2] = None
        delay = effect.delay
        if effect.jitter:
            delay += int(self._random.random() * effect.jitter)
        self._timers[effect.name] = self.host.after(delay, self._fire, effect.name)

    def _fire(self, name: Timer) -> None:
        self.handle(TimerFired(name))

    def _cancel_timer(self, effect: CancelTimer) -> None:
        old = self._timers.pop(effect.name, None)
        if old is not None:
            old[2] = None

    def _accepted(self, effect: Accepted) -> None:
        """Nothing to do: simulated clients wait for the outcome."""

    def _resolved(self, effect: Resolved) -> None:
        reply = self._replies.pop(effect.request, None)
        if reply is not None:
            reply(effect)

    def _note(self, effect: Note) -> None:
        columns = effect.columns
        columns["node"] = self.number
        columns["incarnation"] = self.host.incarnation
        self._cluster.record(effect.kind, columns)


def data_batch(value: int, records: int, acks: int, padding: int) -> RecordBatch:
    """A batch named ``value`` without a place in a log, with ``padding`` bytes behind the name."""
    return RecordBatch(0, 0, BatchKind.DATA, records, acks, value.to_bytes(8, "big", signed=True) + bytes(padding))


__all__ = ["READ_BYTES", "CoreFactory", "Outcome", "RaftNode", "Reply", "data_batch"]
