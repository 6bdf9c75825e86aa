"""What opening a log does with damage: a tail that was never flushed is cut and reported, the rest is never cut."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from quorumlog.storage import (
    BatchKind,
    Disk,
    FileDamaged,
    FileDisk,
    Log,
    LogDamaged,
    RecordBatch,
    SimulatedDisk,
)
from quorumlog.storage.recovery import known_to_be_flushed

DIRECTORY = "log"
NEVER_FULL = 1 << 20


def data(offset: int, term: int = 1, size: int = 20, records: int = 1) -> RecordBatch:
    return RecordBatch(
        offset, term, BatchKind.DATA, records, -1, offset.to_bytes(8, "big") + bytes([offset % 256]) * size
    )


def segments(disk: Disk) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY) if name.endswith(".log")]


def whole_log(disk: Disk) -> list[RecordBatch]:
    log = Log.open(disk, DIRECTORY)
    return log.read(log.start_offset, 1 << 30)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(7))


def test_a_tail_torn_at_every_byte_of_the_last_batch_is_cut(disk: SimulatedDisk) -> None:
    log = Log.open(disk, DIRECTORY)
    log.append([data(0), data(1)])
    (path,) = segments(disk)
    whole = disk.size(path)
    log.append([data(2)])
    content = disk.read(path, 0, 1000)
    for length in range(whole, len(content)):
        for tail in (b"", bytes(len(content) - length), b"\xff" * (len(content) - length)):
            torn = SimulatedDisk(Random(1))
            Log.open(torn, DIRECTORY)
            torn.create(path)
            torn.append(path, content[:length] + tail)
            log = Log.open(torn, DIRECTORY)
            assert log.read(0, 1000) == [data(0), data(1)]
            report = log.recovery
            assert report.bytes_cut == length - whole + len(tail)
            assert (report.cut_offset, report.removed) == ((2, ()) if report.bytes_cut else (None, ()))
            assert (report.reason is not None) == (report.bytes_cut > 0)
            assert torn.size(path) == whole
            log.append([data(2)])
            assert whole_log(torn) == [data(0), data(1), data(2)]


def test_a_batch_that_was_flushed_is_never_cut(disk: SimulatedDisk) -> None:
    log = Log.open(disk, DIRECTORY)
    log.append([data(offset) for offset in range(5)])
    log.close()
    (path,) = segments(disk)
    size = disk.size(path)
    for position in range(size):
        disk.flip_bit(path, position, position % 8)
        with pytest.raises(
            LogDamaged, match=rf"offset {position * 5 // size} is damaged or missing .* offset 4 had been"
        ):
            Log.open(disk, DIRECTORY)
        assert disk.size(path) == size
        disk.flip_bit(path, position, position % 8)
    assert Log.open(disk, DIRECTORY).dirty == 4
    disk.remove(path)
    with pytest.raises(LogDamaged, match="offset 0 is damaged or missing"):
        Log.open(disk, DIRECTORY)


@pytest.mark.parametrize("remembered", [True, False])
def test_an_opening_misses_what_is_said_to_be_known_to_be_flushed(disk: SimulatedDisk, remembered: bool) -> None:
    log = Log.open(disk, DIRECTORY, remember_bytes=1 if remembered else 1 << 20)
    log.append([data(offset) for offset in range(5)])
    log.flush()
    log.trim(3)
    known = known_to_be_flushed(disk, DIRECTORY)
    (path,) = segments(disk)
    assert known == ([(path, disk.size(path))] if remembered else [])
    disk.remove(path)
    if remembered:
        with pytest.raises(LogDamaged, match="offset 3 is damaged or missing"):
            Log.open(disk, DIRECTORY)
    else:
        assert Log.open(disk, DIRECTORY).dirty == 2


def test_what_an_opening_found_counts_as_flushed_from_then_on(disk: SimulatedDisk) -> None:
    Log.open(disk, DIRECTORY).append([data(0), data(1)])
    Log.open(disk, DIRECTORY).append([data(2)])
    (path,) = segments(disk)
    disk.flip_bit(path, 10)
    with pytest.raises(LogDamaged, match=r"offset 0 .* everything up to offset 1"):
        Log.open(disk, DIRECTORY)


def test_a_long_life_writes_down_now_and_then_how_far_it_flushed(disk: SimulatedDisk) -> None:
    log = Log.open(disk, DIRECTORY)
    megabyte = 1 << 20
    for offset in range(20):
        log.append([data(offset, size=megabyte)])
        log.flush()
    (path,) = segments(disk)
    disk.flip_bit(path, megabyte // 2)
    with pytest.raises(LogDamaged, match="offset 0 is damaged"):
        Log.open(disk, DIRECTORY)


def test_rot_behind_the_known_place_is_cut_and_told_from_a_torn_tail(disk: SimulatedDisk) -> None:
    log = Log.open(disk, DIRECTORY)
    log.append([data(offset) for offset in range(5)])
    (path,) = segments(disk)
    disk.flip_bit(path, disk.size(path) * 2 // 5 + 40)
    report = Log.open(disk, DIRECTORY).recovery
    assert (report.dirty, report.cut_offset, report.whole_batches_behind) == (1, 2, True)
    assert report.bytes_cut == 3 * data(0).size_bytes
    assert report.reason is not None
    assert "checksum" in report.reason


def test_a_later_segment_goes_when_an_earlier_one_lost_its_tail(disk: SimulatedDisk) -> None:
    log = Log.open(disk, DIRECTORY)
    log.append([data(0), data(1), data(2, term=2), data(3, term=5)])
    first, second, third = segments(disk)
    disk.truncate(first, disk.size(first) - 1)
    log = Log.open(disk, DIRECTORY)
    assert log.read(0, 1000) == [data(0)]
    assert log.recovery.removed == tuple(path.rpartition("/")[2] for path in (first, second, third) if path != first)
    assert log.recovery.whole_batches_behind
    assert segments(disk) == [first]
    log.append([data(1, term=6)])
    assert whole_log(disk) == [data(0), data(1, term=6)]


def test_an_empty_last_segment_is_removed_without_a_word(disk: SimulatedDisk) -> None:
    Log.open(disk, DIRECTORY).append([data(0)])
    disk.create(f"{DIRECTORY}/00000000000000000001-2.log")
    log = Log.open(disk, DIRECTORY)
    assert (log.dirty, log.recovery.bytes_cut, log.recovery.reason) == (0, 0, None)
    assert len(segments(disk)) == 1


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("00000000000000000001-3.log", data(1, term=4)),
        ("00000000000000000001-3.log", data(0, term=3)),
        ("00000000000000000002-3.log", data(2, term=3)),
        ("00000000000000000001-0.log", data(1, term=0)),
        ("00000000000000000000-3.log", data(0, term=3)),
    ],
)
def test_a_segment_that_does_not_continue_the_log_is_cut(disk: SimulatedDisk, name: str, batch: RecordBatch) -> None:
    Log.open(disk, DIRECTORY).append([data(0)])
    disk.create(f"{DIRECTORY}/{name}")
    disk.append(f"{DIRECTORY}/{name}", batch.encode())
    log = Log.open(disk, DIRECTORY)
    assert log.read(0, 1000) == [data(0)]
    assert (log.recovery.cut_offset, log.recovery.removed) == (1, (name,))


def test_files_that_are_no_segments_are_left_alone(disk: SimulatedDisk) -> None:
    Log.open(disk, DIRECTORY)
    for name in ("notes.txt", "1-1.log", "00000000000000000000-1.log.bak", "00000000000000000000-.log"):
        disk.create(f"{DIRECTORY}/{name}")
    before = disk.list(DIRECTORY)
    Log.open(disk, DIRECTORY).append([data(0)])
    assert set(before) < set(disk.list(DIRECTORY))


def test_a_lost_or_damaged_state_file_is_an_error_and_no_reset(disk: SimulatedDisk) -> None:
    Log.open(disk, DIRECTORY).append([data(0)])
    state = f"{DIRECTORY}/state"
    disk.flip_bit(state, 12)
    with pytest.raises(FileDamaged, match="log/state: damaged: its checksum"):
        Log.open(disk, DIRECTORY)
    disk.remove(state)
    with pytest.raises(LogDamaged, match="log/state: missing"):
        Log.open(disk, DIRECTORY)
    assert len(segments(disk)) == 1


def test_rot_under_a_running_log_is_an_error_of_the_read(disk: SimulatedDisk) -> None:
    log = Log.open(disk, DIRECTORY)
    log.append([data(0), data(1)])
    disk.flip_bit(segments(disk)[0], 45)
    assert log.read(1, 1000) == [data(1)]
    with pytest.raises(LogDamaged, match="near offset 0"):
        log.read(0, 1000)


def test_a_segment_full_of_nonsense_is_scanned_in_bounded_time_and_memory(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    Log.open(disk, DIRECTORY).append([data(0)])
    # Whatever a search for the next header looks for is everywhere.
    disk.append(segments(disk)[0], ((1).to_bytes(8, "big") * (1 << 20)))
    log = Log.open(disk, DIRECTORY)
    assert (log.dirty, log.recovery.bytes_cut, log.recovery.whole_batches_behind) == (0, 8 << 20, False)


def test_batches_larger_than_the_scan_window_are_recovered(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    written = [
        data(0, size=100),
        data(1, size=3 << 20),
        data(2, size=(1 << 20) - 40),
        data(3, size=5),
        data(4, size=2 << 20),
    ]
    Log.open(disk, DIRECTORY, NEVER_FULL).append(written)
    assert whole_log(disk) == written
