"""The log against a plain list, under truncation, flushes in three steps, crashes, power losses and failing disks.

The same rules drive a log on the simulated disk and, without what only a simulated disk can do, on real files. A
machine is believed because it rejects every log and every disk among the mutants at the end of this file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from quorumlog.storage import (
    BatchKind,
    Disk,
    DiskFull,
    FileDisk,
    FlushFailed,
    FlushTicket,
    Log,
    LogFailed,
    OffsetOutOfRange,
    RecordBatch,
    SimulatedDisk,
    StorageError,
)

pytestmark = pytest.mark.slow

DIRECTORY = "log"
SEGMENT_BYTES = 256


class Outcome(NamedTuple):
    """What a log may be after trouble: a beginning of these batches that ends at `least` or later."""

    start: int
    term_before: int
    batches: list[RecordBatch]
    least: int


class OpenFlush:
    """A flush on its way: the ticket, and how far it has come."""

    def __init__(self, ticket: FlushTicket) -> None:
        self.ticket = ticket
        self.ran = False


class LogMachine(RuleBasedStateMachine):
    """What holds on every disk. `batches` is the list the log is compared with; the log begins at `start`."""

    log_type: ClassVar[type[Log]] = Log

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[RecordBatch] = []
        self.start, self.term_before = 0, -1
        self.promised = -1  # what the log said was flushed
        self.truncations = 0
        self.flushes: list[OpenFlush] = []
        self.value = 0
        self.log: Log

    # what the disk under test is

    def make_disk(self, seed: int) -> Disk:
        raise NotImplementedError

    def reopen_disk(self) -> None:
        raise NotImplementedError

    # the model

    @property
    def dirty(self) -> int:
        return self.batches[-1].last_offset if self.batches else self.start - 1

    @property
    def last_term(self) -> int:
        return self.batches[-1].term if self.batches else self.term_before

    def base_of(self, offset: int) -> int:
        return next(batch.base_offset for batch in self.batches if batch.last_offset >= offset)

    def make_batches(self, shapes: list[tuple[int, int, int]]) -> list[RecordBatch]:
        made = []
        offset, term = self.dirty + 1, max(self.last_term, 0)
        for records, later, size in shapes:
            self.value += 1
            term += later
            kind = BatchKind.DATA if size % 5 else BatchKind.CONFIGURATION
            payload = self.value.to_bytes(8, "big") + bytes([self.value % 251]) * size
            made.append(RecordBatch(offset, term, kind, records, -1, payload))
            offset += records
        return made

    def open(self) -> None:
        self.flushes.clear()
        self.truncations = 0
        self.log = self.log_type.open(self.disk, DIRECTORY, SEGMENT_BYTES)

    def reopen(self, *outcomes: Outcome) -> None:
        """Open; the log must then be one of the outcomes, or a beginning of it that still holds what it must."""
        self.open()
        found, start = self.read_all(), self.log.start_offset
        end = found[-1].last_offset if found else start - 1
        matching = [
            outcome
            for outcome in outcomes
            if outcome.start == start and found == outcome.batches[: len(found)] and end >= outcome.least
        ]
        assert matching, f"recovered {start}..{end}, none of {outcomes}"
        self.start, self.term_before, self.batches = start, matching[0].term_before, found
        self.promised = self.dirty

    def unchanged(self, more: Sequence[RecordBatch] = (), *, least: int | None = None) -> Outcome:
        """The list as it is, or with more behind it; up to what was promised, or `least`, it must all be left."""
        return Outcome(self.start, self.term_before, [*self.batches, *more], self.promised if least is None else least)

    def read_all(self) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        offset = self.log.start_offset
        while offset <= self.log.dirty:
            found += self.log.read(offset, 300)
            offset = found[-1].last_offset + 1
        return found

    # rules

    @initialize(seed=st.integers(0, 1 << 32))
    def begin(self, seed: int) -> None:
        self.disk = self.make_disk(seed)
        self.open()

    shapes = st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from([0, 0, 0, 1, 3]), st.integers(0, 120)), min_size=1, max_size=4
    )

    @rule(shapes=shapes)
    def append(self, shapes: list[tuple[int, int, int]]) -> None:
        batches = self.make_batches(shapes)
        self.log.append(batches)
        self.batches += batches

    @rule(shapes=shapes, gap=st.sampled_from([-1, 1]))
    def append_that_does_not_fit(self, shapes: list[tuple[int, int, int]], gap: int) -> None:
        batches = self.make_batches(shapes)
        last = batches[-1]
        if last.base_offset + gap >= 0:
            batches[-1] = last.with_position(last.base_offset + gap, last.term)
            with pytest.raises(OffsetOutOfRange):
                self.log.append(batches)

    @rule()
    def flush_begin(self) -> None:
        if len(self.flushes) < 4:
            self.flushes.append(OpenFlush(self.log.flush_begin()))

    @precondition(lambda self: self.flushes)
    @rule(which=st.integers(0, 3))
    def flush_run(self, which: int) -> None:
        flush = self.flushes[which % len(self.flushes)]
        self.log.flush_run(flush.ticket)
        flush.ran = True

    @precondition(lambda self: any(flush.ran for flush in self.flushes))
    @rule(which=st.integers(0, 3))
    def flush_finish(self, which: int) -> None:
        ran = [flush for flush in self.flushes if flush.ran]
        flush = ran[which % len(ran)]
        self.flushes.remove(flush)
        fresh = flush.ticket.truncations == self.truncations
        assert self.log.flush_finish(flush.ticket) is fresh
        if fresh:
            self.promised = max(self.promised, flush.ticket.dirty)

    @rule(shapes=shapes)
    def a_flush_overtakes_another(self, shapes: list[tuple[int, int, int]]) -> None:
        older = self.log.flush_begin()
        self.append(shapes)
        newer = self.log.flush_begin()
        self.log.flush_run(newer)
        self.log.flush_run(older)
        for ticket in (newer, older):
            assert self.log.flush_finish(ticket)
        self.promised = self.dirty

    @rule(where=st.integers(1, 20), shapes=shapes)
    def a_truncation_races_a_flush(self, where: int, shapes: list[tuple[int, int, int]]) -> None:
        before = self.truncations
        ticket = self.log.flush_begin()
        self.truncate(where)
        self.append(shapes)
        self.log.flush_run(ticket)
        fresh = self.truncations == before
        assert self.log.flush_finish(ticket) is fresh
        if fresh:
            self.promised = max(self.promised, ticket.dirty)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.promised = self.dirty

    @rule(where=st.integers(0, 20))
    def truncate(self, where: int) -> None:
        offset = max(self.dirty + 1 - where, self.start)
        first = self.base_of(offset) if offset <= self.dirty else offset
        assert self.log.truncate(offset) == first
        if first <= self.dirty:
            self.truncations += 1
        self.batches = [batch for batch in self.batches if batch.base_offset < first]
        self.promised = min(self.promised, self.dirty)

    @rule(where=st.integers(0, 20))
    def trim(self, where: int) -> None:
        offset = min(self.start + where, self.dirty + 1)
        start = self.base_of(offset) if offset <= self.dirty else offset
        assert self.log.trim(offset) == start
        gone = [batch for batch in self.batches if batch.base_offset < start]
        if gone:
            self.start, self.term_before = start, gone[-1].term
        self.batches = self.batches[len(gone) :]
        self.promised = max(self.promised, self.start - 1)

    @rule(further=st.integers(0, 30), later=st.integers(0, 2))
    def reset(self, further: int, later: int) -> None:
        self.start, self.term_before = self.start + further, self.last_term + later
        self.log.reset(self.start, self.term_before)
        self.batches = []
        self.promised = self.start - 1
        self.truncations += 1

    @rule()
    def kill(self) -> None:
        self.reopen_disk()
        self.open()
        self.promised = self.dirty
        assert self.log.recovery.bytes_cut == 0

    @rule()
    def stop(self) -> None:
        self.log.close()
        with pytest.raises(LogFailed):
            self.log.append(self.make_batches([(1, 0, 0)]))
        self.kill()

    # what holds at all times

    @invariant()
    def stands_where_the_list_stands(self) -> None:
        log = self.log
        assert (log.start_offset, log.dirty, log.flushed) == (self.start, self.dirty, self.promised)
        assert (log.last_term, log.truncations) == (self.last_term, self.truncations)
        assert log.term(self.start - 1) == self.term_before
        assert [(p.base_offset, p.last_offset, p.term, p.kind, p.size) for p in log.headers()] == [
            (b.base_offset, b.last_offset, b.term, b.kind, b.size_bytes) for b in self.batches
        ]
        for batch in self.batches:
            for offset in range(batch.base_offset, batch.last_offset + 1):
                assert (log.term(offset), log.batch_base(offset)) == (batch.term, batch.base_offset)
        for outside in (self.start - 2, self.dirty + 1):
            if outside != self.start - 1:
                with pytest.raises(OffsetOutOfRange):
                    log.term(outside)

    @rule()
    def reads_what_was_written(self) -> None:
        assert self.read_all() == self.batches

    @precondition(lambda self: self.batches)
    @rule(where=st.integers(0, 40), width=st.integers(-1, 20), max_bytes=st.integers(0, 700))
    def reads_a_part(self, where: int, width: int, max_bytes: int) -> None:
        start = max(self.dirty - where, self.start)
        wanted = [b for b in self.batches if b.last_offset >= start and b.base_offset <= start + width and width >= 0]
        fitting, room = wanted[:1], max_bytes - sum(batch.size_bytes for batch in wanted[:1])
        for batch in wanted[1:]:
            room -= batch.size_bytes
            if room < 0:
                break
            fitting.append(batch)
        assert self.log.read(start, max_bytes, start + width) == fitting


class PowerCut(BaseException):
    """The process ends here; no handler of the log may see it."""


class InterruptibleDisk(SimulatedDisk):
    """A simulated disk on which the process can end, or a sync can fail, a number of operations later."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.operations_left: int | None = None
        self.syncs_until_failure: int | None = None

    def _step(self) -> None:
        if self.operations_left is not None:
            if self.operations_left == 0:
                raise PowerCut
            self.operations_left -= 1

    def spend_failure(self, path: str) -> None:
        self._step()
        if self.syncs_until_failure is not None:
            self.fail_next_sync = self.syncs_until_failure == 0
            self.syncs_until_failure -= 1
        super().spend_failure(path)

    def create(self, path: str) -> None:
        self._step()
        super().create(path)

    def append(self, path: str, data: bytes) -> None:
        self._step()
        super().append(path, data)

    def truncate(self, path: str, size: int) -> None:
        self._step()
        super().truncate(path, size)

    def rewrite(self, path: str, position: int) -> None:
        self._step()
        super().rewrite(path, position)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def calm(self) -> None:
        self.operations_left = self.syncs_until_failure = self.capacity_bytes = None
        self.fail_next_sync = False


class SimulatedLogMachine(LogMachine):
    """On the simulated disk, with everything that can go wrong there."""

    disk_type: ClassVar[type[InterruptibleDisk]] = InterruptibleDisk
    disk: InterruptibleDisk

    def make_disk(self, seed: int) -> InterruptibleDisk:
        return self.disk_type(Random(seed))

    def reopen_disk(self) -> None:
        self.disk.calm()

    def is_of_kind(self, error: StorageError, expected: type[StorageError]) -> None:
        assert type(error) is expected, f"{error!r} where {expected.__name__} was to be expected"

    @rule()
    def lose_power(self) -> None:
        self.disk.power_loss()
        self.reopen(self.unchanged())

    @rule(steps=st.integers(0, 6), times=st.integers(1, 3))
    def lose_power_again_while_recovering(self, steps: int, times: int) -> None:
        for _ in range(times):
            self.disk.power_loss()
            self.disk.operations_left = steps
            with suppress(PowerCut):
                self.log_type.open(self.disk, DIRECTORY, SEGMENT_BYTES)
            self.disk.calm()
        self.lose_power()

    @rule(syncs=st.integers(0, 6), times=st.integers(1, 3), full=st.booleans(), power=st.booleans())
    def a_sync_fails_while_it_is_opened(self, syncs: int, times: int, full: bool, power: bool) -> None:
        """However often: what an opening declares durable is."""
        least = self.promised
        if power:
            self.disk.power_loss()
        for _ in range(times):
            self.disk.syncs_until_failure = syncs
            if full:
                self.disk.capacity_bytes = 0
            with suppress(FlushFailed):
                self.log_type.open(self.disk, DIRECTORY, SEGMENT_BYTES)
            self.disk.calm()
        self.reopen(self.unchanged(least=least))
        self.lose_power()

    @rule(
        change=st.sampled_from(["append", "flush", "truncate", "trim", "reset"]),
        shapes=LogMachine.shapes,
        where=st.integers(0, 20),
        steps=st.integers(0, 6),
        trouble=st.sampled_from(["kill", "power", "sync", "sync and power", "full"]),
    )
    def interrupt(self, change: str, shapes: list[tuple[int, int, int]], where: int, steps: int, trouble: str) -> None:
        """Any change, ended in the middle by the end of the process, of the power, by a failed sync or a full disk."""
        batches = self.make_batches(shapes)
        offset = max(self.dirty + 1 - where, self.start)
        first = self.base_of(offset) if offset <= self.dirty else offset
        later = self.dirty + 1 + where
        if trouble == "full":
            self.disk.capacity_bytes = self.disk.used_bytes + steps * 30
        elif trouble.startswith("sync"):
            self.disk.syncs_until_failure = steps // 2
        else:
            self.disk.operations_left = steps
        outcomes = [self.unchanged(least=None if trouble in {"power", "sync", "sync and power"} else self.dirty)]
        try:
            match change:
                case "append":
                    outcomes = [self.unchanged(batches, least=outcomes[0].least)]
                    self.log.append(batches)
                case "flush":
                    outcomes = [self.unchanged(batches, least=outcomes[0].least)]
                    self.log.append(batches)
                    self.log.flush()
                    self.batches += batches
                    outcomes = [self.unchanged(least=self.dirty)]
                case "truncate":
                    outcomes = [self.unchanged(least=min(outcomes[0].least, first - 1))]
                    self.log.truncate(offset)
                    kept = [batch for batch in self.batches if batch.base_offset < first]
                    outcomes = [Outcome(self.start, self.term_before, kept, min(self.promised, first - 1))]
                case "trim":
                    kept = [batch for batch in self.batches if batch.base_offset >= first]
                    before = self.log.term(first - 1)
                    outcomes.append(Outcome(first, before, kept, max(outcomes[0].least, first - 1)))
                    self.log.trim(offset)
                    outcomes = outcomes[1:]
                case "reset":
                    outcomes.append(Outcome(later, self.last_term, [], later - 1))
                    self.log.reset(later, self.last_term)
                    outcomes = outcomes[1:]
        except PowerCut:
            pass
        except StorageError as error:
            self.is_of_kind(error, DiskFull if trouble == "full" else FlushFailed)
            for refused in (self.log.flush_begin, lambda: self.log.append(batches), lambda: self.log.truncate(offset)):
                with pytest.raises(LogFailed):
                    refused()
        # A full disk is no reason not to start: there is nothing that must be written.
        if trouble != "full":
            self.disk.calm()
        if trouble.endswith("power"):
            self.disk.power_loss()
        self.reopen(*outcomes)
        self.disk.calm()
        # Once it is open, everything in it is durable, also what a sync had failed on.
        self.lose_power()


class FileLogMachine(LogMachine):
    """On real files. Losing power takes a machine; what is left is what a process can do."""

    disk: FileDisk

    def make_disk(self, seed: int) -> FileDisk:
        self.place = tempfile.TemporaryDirectory()
        return FileDisk(Path(self.place.name), max_open_files=3)

    def reopen_disk(self) -> None:
        self.disk.close()
        self.disk = FileDisk(Path(self.place.name), max_open_files=3)

    def teardown(self) -> None:
        self.disk.close()
        self.place.cleanup()


def hunt(machine: type[LogMachine], examples: int, steps: int, *, find_only: bool = False) -> None:
    phases = [Phase.generate] if find_only else [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=find_only,
            database=None,
            report_multiple_bugs=False,
            phases=phases,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


def test_the_log_on_the_simulated_disk_is_the_list() -> None:
    hunt(SimulatedLogMachine, 300, 40)


@pytest.mark.long
def test_the_log_on_the_simulated_disk_is_the_list_at_length() -> None:
    hunt(SimulatedLogMachine, 5_000, 60)


def test_the_log_on_real_files_is_the_list() -> None:
    hunt(FileLogMachine, 25, 40)


# -- mutants: each is one mistake, and the machine must notice it ----------------------------------------------------


class TruncationKeepsFlushed(Log):
    def truncate(self, offset: int) -> int:
        flushed = self._flushed
        first = super().truncate(offset)
        self._flushed = flushed
        return first


class FlushIgnoresTruncation(Log):
    def flush_finish(self, ticket: FlushTicket) -> bool:
        return super().flush_finish(replace(ticket, truncations=self.truncations))


class FlushAssigns(Log):
    def flush_finish(self, ticket: FlushTicket) -> bool:
        fresh = super().flush_finish(ticket)
        if fresh:
            self._flushed = ticket.dirty
        return fresh


class FlushForgetsNames(Log):
    def flush_begin(self) -> FlushTicket:
        ticket = super().flush_begin()
        return replace(ticket, _points=ticket._points[: len(ticket._segments)])


class FlushForgetsEarlierSegments(Log):
    def flush_begin(self) -> FlushTicket:
        ticket = super().flush_begin()
        return replace(ticket, _points=ticket._points[:1] + ticket._points[len(ticket._segments) :])


class FailedSyncIsForgotten(Log):
    def _fail(self, error: StorageError) -> None:
        pass


class TruncationKeepsKnowledge(Log):
    def truncate(self, offset: int) -> int:
        state, self._state = self._state, replace(self._state, known_flushed=-1)
        first = super().truncate(offset)
        self._state = state
        return first


class ResetRemovesFirst(Log):
    def reset(self, start: int, term_before: int) -> None:
        super().truncate(self.start_offset)
        super().reset(start, term_before)


class DiskForgetsToSync(InterruptibleDisk):
    def sync(self, path: str) -> None:
        pass


class DiskDoesNotWriteAgain(InterruptibleDisk):
    def rewrite(self, path: str, position: int) -> None:
        pass


class DiskWritesTooLittleAgain(InterruptibleDisk):
    def rewrite(self, path: str, position: int) -> None:
        super().rewrite(path, position + 1)


class DiskLosesFlushed(InterruptibleDisk):
    def power_loss(self) -> None:
        for file in self._files.values():
            file.durable = max(file.durable - 1, 0)
        super().power_loss()


@pytest.mark.parametrize(
    "log_type",
    [
        TruncationKeepsFlushed,
        FlushIgnoresTruncation,
        FlushAssigns,
        FlushForgetsNames,
        FlushForgetsEarlierSegments,
        FailedSyncIsForgotten,
        TruncationKeepsKnowledge,
        ResetRemovesFirst,
    ],
    ids=lambda log_type: log_type.__name__,
)
def test_the_machine_notices_a_mutated_log(log_type: type[Log]) -> None:
    rejected(type("MutantMachine", (SimulatedLogMachine,), {"log_type": log_type}))


@pytest.mark.parametrize(
    "disk_type",
    [
        DiskForgetsToSync,
        pytest.param(DiskDoesNotWriteAgain, marks=pytest.mark.long),
        pytest.param(DiskWritesTooLittleAgain, marks=pytest.mark.long),
        DiskLosesFlushed,
    ],
    ids=lambda disk_type: disk_type.__name__,
)
def test_the_machine_notices_a_mutated_disk(disk_type: type[InterruptibleDisk]) -> None:
    rejected(type("MutantMachine", (SimulatedLogMachine,), {"disk_type": disk_type}))


def test_the_machine_notices_a_recovery_without_checksums() -> None:
    with patch("quorumlog.storage.segment.checksum_holds", lambda *_: True):
        rejected(SimulatedLogMachine)


def rejected(machine: type[LogMachine]) -> None:
    with pytest.raises((AssertionError, StorageError, OffsetOutOfRange, pytest.fail.Exception)):
        hunt(machine, 2_000, 40, find_only=True)
