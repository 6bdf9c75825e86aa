"""A simulated node that keeps a replica of a log on its disk.

It carries out what a core wants done to the log, and answers reads of clients from the log up to what the core calls
visible or committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from quorumlog.events import (
    Accepted,
    Append,
    AppendRequested,
    BarrierRequested,
    Effect,
    Flushed,
    LogCore,
    LogRead,
    Note,
    Outcome,
    ReadIndexRequested,
    ReadLog,
    Reset,
    Resolved,
    StartFlush,
    Trim,
    TrimRequested,
    Truncate,
)
from quorumlog.simulation.configuration import DiskTiming
from quorumlog.simulation.node import Node, Reply, Surroundings
from quorumlog.storage.batch import RecordBatch
from quorumlog.storage.disk import StorageError
from quorumlog.storage.log import REMEMBER_BYTES, FlushTicket, Log
from quorumlog.storage.recovery import known_to_be_flushed
from quorumlog.storage.state import load_state

READ_BYTES = 1 << 20
"""An ordinary read returns about this many bytes."""
EVERYTHING = 1 << 62


class LogNode(Node):
    """A node that keeps a replica of one log. Its `recover` begins with `open_log`."""

    core: LogCore
    log: Log
    log_type: ClassVar[type[Log]] = Log

    def __init__(
        self,
        cluster: Surroundings,
        number: int,
        timing: DiskTiming,
        segment_bytes: int,
        remember_bytes: int = REMEMBER_BYTES,
    ) -> None:
        super().__init__(cluster, number, timing)
        self._segment_bytes = segment_bytes
        self._remember_bytes = remember_bytes
        self._perform |= {
            Append: self._append,
            Truncate: self._truncate,
            Trim: self._trim,
            Reset: self._reset,
            StartFlush: self._start_flush,
            ReadLog: self._read_log,
            Accepted: self._accepted,
        }

    def open_log(self) -> Log:
        """The log as the disk holds it. Raises `StorageError`."""
        self.log = self.log_type.open(self.disk, "log", self._segment_bytes, self._remember_bytes)
        return self.log

    def state(self) -> dict[str, Any]:
        """Term, role and offsets of the core."""
        core = self.core
        return {
            "term": core.term,
            "role": core.role,
            "dirty": core.dirty,
            "flushed": core.flushed,
            "commit": core.commit,
            "visible": core.visible,
        }

    def interrupted(self, effects: Sequence[Effect], effect: Effect) -> None:
        """Note a truncation, a trim or a reset that was done before the disk failed: the next start finds it."""
        match effect:
            case Truncate(offset) if self.log.dirty < offset:
                done = "truncate"
            case Trim(offset) | Reset(offset) if load_state(self.disk, "log/state").start_offset == offset:
                done = "trim"
            case _:
                return
        self._note(next(e for e in effects if isinstance(e, Note) and e.kind == done))

    def close(self) -> None:
        """Flush the log and write down how far. Raises `StorageError`."""
        self.log.close()

    def retain(self, entries: int) -> None:
        """Give up what is committed except for the last ``entries``."""
        self.trim(self.core.commit + 1 - entries)

    def settled(self) -> Sequence[tuple[str, int]]:
        """The segments of the log as far as they are known to be flushed."""
        return known_to_be_flushed(self.disk, "log")

    # -- clients -------------------------------------------------------------------------------------------------

    def append(self, batch: RecordBatch, expected_term: int, reply: Reply, *, force_flush: bool = False) -> None:
        """A client's append has arrived; ``reply`` is called with its outcome.

        ``expected_term`` is -1, or the only term in which it may be written; ``force_flush`` makes it durable on a
        majority whatever its acks level.
        """
        self.handle(AppendRequested(self.open(reply), batch, expected_term, force_flush))

    def barrier(self, reply: Reply) -> None:
        """A client asks for the linearizable end of the log."""
        self.handle(BarrierRequested(self.open(reply)))

    def trim(self, offset: int) -> None:
        """Retention: entries before ``offset`` may go."""
        self.handle(TrimRequested(offset))

    def read(self, start: int, *, committed: bool, max_bytes: int = READ_BYTES) -> list[RecordBatch]:
        """Whole batches from ``start`` on, at least one, up to what is committed or visible here and now."""
        try:
            return self._read(start, self.core.commit if committed else self.core.visible, max_bytes)
        except StorageError as error:
            self.fail(error)
            return []

    def read_linearizable(self, start: int, reply: Callable[[Resolved | None, list[RecordBatch]], None]) -> None:
        """Whole batches from ``start`` on, all that is committed; ``reply`` gets how it ended, and them."""

        def have_index(resolved: Resolved | None) -> None:
            served = resolved is not None and resolved.outcome is Outcome.SUCCESS
            reply(resolved, self._read(start, self.core.commit, EVERYTHING) if served else [])

        self.handle(ReadIndexRequested(self.open(have_index)))

    def _read(self, start: int, end: int, max_bytes: int) -> list[RecordBatch]:
        start = max(start, self.log.start_offset)
        if start > end:
            return []
        batches = self.log.read(start, max_bytes, end)
        if batches and batches[-1].last_offset > end:
            batches.pop()
        return batches

    # -- effects -------------------------------------------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        self.log.append(effect.batches)

    def _truncate(self, effect: Truncate) -> None:
        self.log.truncate(effect.offset)

    def _trim(self, effect: Trim) -> None:
        self.log.trim(effect.offset)

    def _reset(self, effect: Reset) -> None:
        self.log.reset(effect.start, effect.start_term)

    def _accepted(self, effect: Accepted) -> None:
        """Nothing to do: simulated clients wait for the outcome."""

    def _start_flush(self, effect: StartFlush) -> None:
        flush = self.log.flush_begin()
        self._simulation.after(self.disk_time(), self._flush, self.host.generation, flush, effect.ticket)

    def _flush(self, generation: int, flush: FlushTicket, ticket: int) -> None:
        if generation == self.host.generation:
            try:
                self.log.flush_run(flush)
            except StorageError as error:
                self.host.deliver(self.fail, error)
                return
            self.host.deliver(self._flushed, flush, ticket)

    def _flushed(self, flush: FlushTicket, ticket: int) -> None:
        self.log.flush_finish(flush)
        self.handle(Flushed(ticket))

    def _read_log(self, effect: ReadLog) -> None:
        # The bytes are taken when the read begins or when it ends: the log may be cut and grow between the two.
        delay = int(self._random.random() * self._timing.read)
        batches = self._batches(effect) if self._random.random() < 0.5 else None
        self.host.after(delay, self._have_read, effect, batches)

    def _have_read(self, effect: ReadLog, batches: tuple[RecordBatch, ...] | None) -> None:
        try:
            batches = self._batches(effect) if batches is None else batches
        except StorageError as error:
            self.fail(error)
            return
        self.handle(LogRead(effect.ticket, batches))

    def _batches(self, effect: ReadLog) -> tuple[RecordBatch, ...]:
        if not self.log.start_offset <= effect.start <= self.log.dirty:
            return ()
        return tuple(self.log.read(effect.start, effect.max_bytes))
