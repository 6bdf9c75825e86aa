"""Compaction by key: what goes, what stays, and what a disk holds when it is broken off anywhere."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumlog.storage import BatchKind, Log, LogDamaged, OffsetOutOfRange, RecordBatch, SimulatedDisk
from quorumlog.storage.batch import MAX_GHOST_OFFSETS, BatchDamaged, decode, ghost
from quorumlog.storage.compaction import Keyed, superseded
from quorumlog.storage.disk import StorageError
from quorumlog.storage.segment import segment_name

DIRECTORY = "log"
SEGMENT = 100


def keyed(offset: int, key: int, term: int = 1, records: int = 1) -> RecordBatch:
    return RecordBatch(offset, term, BatchKind.DATA, records, -1, offset.to_bytes(8, "big"), key)


def configuration(offset: int, term: int) -> RecordBatch:
    return RecordBatch(offset, term, BatchKind.CONFIGURATION, 1, -1, b"0,1,2")


def log_of(batches: list[RecordBatch], seed: int = 1) -> tuple[SimulatedDisk, Log]:
    disk = SimulatedDisk(Random(seed))
    log = Log.open(disk, DIRECTORY, SEGMENT)
    log.append(batches)
    log.flush()
    return disk, log


def whole(log: Log) -> list[RecordBatch]:
    return log.read(log.start_offset, 1 << 30)


@st.composite
def logs(draw: st.DrawFn) -> list[RecordBatch]:
    batches, offset, term = [], 0, 1
    for _ in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 5)) == 0:
            term += draw(st.integers(1, 2))
            batches.append(configuration(offset, term))
        else:
            batches.append(keyed(offset, draw(st.integers(0, 3)), term, draw(st.integers(1, 3))))
        offset = batches[-1].last_offset + 1
    return batches


def test_what_a_later_batch_replaces_goes_and_nothing_else() -> None:
    batches = [Keyed(0, 1, 1, 7), Keyed(2, 2, 1, 0), Keyed(3, 3, 2, 0), Keyed(4, 5, 1, 8), Keyed(6, 6, 1, 7)]
    assert superseded(batches, 6) == [(0, 1)]
    assert superseded(batches, 5) == []  # the later one can still be truncated
    assert superseded([*batches, Keyed(7, 9, 1, 8)], 9) == [(0, 1), (4, 5)]
    assert superseded([*batches, Keyed(7, 9, 1, 8)], 8) == [(0, 1)]


@given(batches=logs(), more=logs())
def test_a_compacted_log_keeps_offsets_terms_and_the_newest_of_each_key(
    batches: list[RecordBatch], more: list[RecordBatch]
) -> None:
    disk, log = log_of(batches)
    terms = {offset: log.term(offset) for offset in range(log.dirty + 1)}
    gone = log.superseded(log.dirty)
    log.compact(gone)
    kept = [batch for batch in batches if (batch.base_offset, batch.last_offset) not in gone]
    assert {batch.key for batch in kept} == {batch.key for batch in batches}
    assert [batch for batch in batches if batch.kind is BatchKind.CONFIGURATION] == [
        batch for batch in kept if batch.kind is BatchKind.CONFIGURATION
    ]
    for opened in (log, Log.open(disk, DIRECTORY, SEGMENT)):
        assert (whole(opened), opened.dirty, opened.flushed) == (kept, batches[-1].last_offset, batches[-1].last_offset)
        for offset, term in terms.items():
            behind = next(batch for batch in kept if batch.last_offset >= offset)
            assert opened.term(offset) == behind.term >= term
            assert opened.read(offset, 1)[0] == behind
    end, term = log.dirty + 1, batches[-1].term
    log.append([batch.with_position(end + batch.base_offset, term + batch.term) for batch in more])
    log.flush()
    log.compact(log.superseded(log.dirty))
    assert whole(Log.open(disk, DIRECTORY, SEGMENT)) == whole(log)


@given(batches=logs(), at=st.integers(0, 30), seed=st.integers(0, 1000))
def test_power_may_be_lost_at_any_step_of_a_compaction(batches: list[RecordBatch], at: int, seed: int) -> None:
    disk, log = log_of(batches, seed)
    log.close()
    log = Log.open(disk, DIRECTORY, SEGMENT)
    gone = log.superseded(log.dirty)
    steps = 0
    for name in ("replace", "remove", "sync"):
        real = getattr(disk, name)

        def step(*arguments: object, real: object = real) -> None:
            nonlocal steps
            steps += 1
            if steps > at:
                raise StorageError("power lost")
            real(*arguments)  # type: ignore[operator]

        setattr(disk, name, step)
    with suppress(StorageError):
        log.compact(gone)
    for name in ("replace", "remove", "sync"):
        delattr(disk, name)
    disk.power_loss()
    found = Log.open(disk, DIRECTORY, SEGMENT)
    held = whole(found)
    assert found.dirty == batches[-1].last_offset
    assert set(held) <= set(batches)
    assert {(b.base_offset, b.last_offset) for b in set(batches) - set(held)} <= set(gone)
    found.compact(found.superseded(found.dirty))
    assert whole(Log.open(disk, DIRECTORY, SEGMENT)) == [
        batch for batch in batches if (batch.base_offset, batch.last_offset) not in gone
    ]


def test_a_segment_that_is_missing_is_no_gap() -> None:
    batches = [keyed(offset, 0 if offset % 4 else 1) for offset in range(16)]
    disk, log = log_of(batches)
    log.compact(log.superseded(log.dirty))
    log.close()
    lost = [name for name in disk.list(DIRECTORY) if name.endswith(".log")][1]
    disk.remove(f"{DIRECTORY}/{lost}")
    with pytest.raises(LogDamaged):
        Log.open(disk, DIRECTORY, SEGMENT)


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_gap_that_was_cut_explains_no_file_that_is_lost_later(interrupted: bool) -> None:
    disk, log = log_of([keyed(offset, 1 if offset in (1, 2, 3) else 0) for offset in range(8)])
    log.compact(log.superseded(log.dirty))
    assert log.batch_base(3) == 1  # the gap is between two files
    if interrupted:
        disk.replace = unable  # type: ignore[method-assign]
        with pytest.raises(StorageError):
            log.truncate(3)
        del disk.replace
        log = Log.open(disk, DIRECTORY, SEGMENT)
    else:
        log.truncate(3)
    assert log.dirty == 0
    log.append([keyed(1, 0, 2), keyed(2, 0, 2), keyed(3, 0, 3)])
    disk.remove(f"{DIRECTORY}/{segment_name(1, 2)}")  # as a power loss may, before a flush
    assert Log.open(disk, DIRECTORY, SEGMENT).dirty == 0


def unable(path: str, data: bytes) -> None:
    raise StorageError(f"{path}: {len(data)} bytes cannot be written")


def test_a_ghost_moves_the_next_offset_and_is_not_written() -> None:
    disk, log = log_of([keyed(0, 1)])
    log.append([ghost(1, 9, 1), keyed(10, 1), ghost(11, 2_000_000_010, 2), keyed(2_000_000_011, 2, term=2)])
    log.flush()
    content = b"".join(
        disk.read(f"{DIRECTORY}/{name}", 0, 1 << 20) for name in disk.list(DIRECTORY) if name.endswith(".log")
    )
    assert content == keyed(0, 1).encode() + keyed(10, 1).encode() + keyed(2_000_000_011, 2, term=2).encode()
    for opened in (log, Log.open(disk, DIRECTORY, SEGMENT)):
        assert (opened.dirty, opened.term(5), opened.term(11), opened.batch_base(9)) == (2_000_000_011, 1, 2, 1)
        assert opened.read(1, 1) == [keyed(10, 1)]
    log = Log.open(disk, DIRECTORY, SEGMENT)
    assert (log.truncate(12), log.dirty) == (11, 10)
    assert (log.truncate(10), log.dirty) == (1, 0)


def test_a_ghost_has_limits_of_its_own_and_nothing_behind_it_is_refused() -> None:
    _, log = log_of([keyed(0, 1)])
    with pytest.raises(OffsetOutOfRange, match="nothing behind it"):
        log.append([ghost(1, 9, 1)])
    widest = ghost(1, MAX_GHOST_OFFSETS, 1)
    assert decode(widest.encode()) == widest
    with pytest.raises(BatchDamaged, match="record count"):
        ghost(0, MAX_GHOST_OFFSETS, 1).encode()
    with pytest.raises(BatchDamaged, match="carries something"):
        RecordBatch(0, 1, BatchKind.GHOST, 1, 0, bytes(8)).encode()


def test_a_ghost_on_a_disk_is_damage() -> None:
    disk, log = log_of([keyed(0, 1)])
    log.close()
    (name,) = [name for name in disk.list(DIRECTORY) if name.endswith(".log")]
    disk.append(f"{DIRECTORY}/{name}", ghost(1, 2, 1).encode())
    assert Log.open(disk, DIRECTORY, SEGMENT).recovery.reason == f"{name} at byte 48: a ghost, which no disk holds"


@given(key=st.integers(-(1 << 63), (1 << 63) - 1).filter(bool))
def test_a_key_travels_with_its_batch(key: int) -> None:
    batch = keyed(3, key)
    assert decode(batch.encode()) == batch
    assert batch.with_position(9, 4).key == key
    assert len(batch.encode()) == batch.size_bytes == keyed(3, 0).size_bytes + 8
