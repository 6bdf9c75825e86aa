"""Real files that lose power: what was synced stays, what was not may go, torn at sectors, and a log can be opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from quorumlog.storage import BatchKind, Log, RecordBatch, VoteStore
from quorumlog.storage.power import SECTOR_BYTES, PowerDisk, lose_power

RUNS = 40


def batch(offset: int, size: int = 700, term: int = 1) -> RecordBatch:
    return RecordBatch(offset, term, BatchKind.DATA, 1, -1, offset.to_bytes(8, "big") + bytes(size))


@pytest.mark.slow
def test_what_was_flushed_stays_and_what_was_not_may_go(tmp_path: Path) -> None:
    ends = set()
    for seed in range(RUNS):
        root, journal = tmp_path / str(seed) / "disk", tmp_path / str(seed) / "journal"
        disk = PowerDisk(root, journal)
        VoteStore(disk).save(3, 1)
        log = Log.open(disk, "log", segment_bytes=2000)
        log.append([batch(offset) for offset in range(4)])
        log.flush()
        log.append([batch(offset) for offset in range(4, 9)])
        disk.close()
        lose_power(root, journal, Random(seed))
        again = PowerDisk(root, journal)
        assert again.lost_power
        found = Log.open(again, "log", segment_bytes=2000)
        assert 3 <= found.dirty <= 8
        assert VoteStore(again).load() == (3, 1)
        assert [each.base_offset for each in found.read(0, 1 << 20)] == list(range(found.dirty + 1))
        ends.add(found.dirty)
        again.close()
        assert not PowerDisk(root, journal).lost_power
    assert {3, 8} < ends, "other ends than all and nothing are possible"


def test_a_truncation_that_was_not_synced_may_be_undone_and_names_may_come_and_go(tmp_path: Path) -> None:
    seen = set()
    for seed in range(RUNS):
        root, journal = tmp_path / str(seed) / "disk", tmp_path / str(seed) / "journal"
        disk = PowerDisk(root, journal)
        for name in ("old", "cut"):
            disk.create(name)
            disk.append(name, bytes(range(1, 201)) * 10)
            disk.sync(name)
        disk.sync("")
        disk.truncate("cut", 500)
        disk.remove("old")
        disk.create("new")
        disk.append("new", b"x" * 3000)
        disk.sync("new")
        disk.close()
        lose_power(root, journal, Random(seed))
        size = (root / "cut").stat().st_size
        assert size in (500, 2000)
        seen.add((size, (root / "old").exists(), (root / "new").exists()))
    assert len(seen) == 8


def test_files_are_torn_at_sectors(tmp_path: Path) -> None:
    sizes = set()
    for seed in range(RUNS):
        root, journal = tmp_path / str(seed) / "disk", tmp_path / str(seed) / "journal"
        disk = PowerDisk(root, journal)
        disk.create("file")
        disk.sync("")
        disk.append("file", b"a" * 100)
        disk.sync("file")
        disk.append("file", b"b" * 5000)
        disk.close()
        lose_power(root, journal, Random(seed))
        content = (root / "file").read_bytes()
        assert content[:100] == b"a" * 100
        sizes.add(len(content))
    assert all(size in (100, 5100) or size % SECTOR_BYTES == 0 for size in sizes)
    assert len(sizes) > 4


PROGRAM = """
import sys
from pathlib import Path
from quorumlog.storage import Log
from quorumlog.storage.power import PowerDisk
sys.path.insert(0, sys.argv[3])
from test_power import batch
log = Log.open(PowerDisk(Path(sys.argv[1]), Path(sys.argv[2])), "log", segment_bytes=4000)
offset = 0
while True:
    log.append([batch(offset), batch(offset + 1)])
    offset += 2
    if offset % 6 == 0:
        log.flush()
        print(log.flushed, flush=True)
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_process_that_is_killed_at_any_moment_keeps_what_it_said_was_flushed(seed: int, tmp_path: Path) -> None:
    root, journal = tmp_path / "disk", tmp_path / "journal"
    here = str(Path(__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, root, journal, here], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        flushed = -1
        for line in process.stdout:
            flushed = int(line)
            if flushed > 20 + 30 * seed:
                process.kill()
                break
        rest = process.stdout.read().split()
    flushed = max([flushed, *map(int, rest)])
    lose_power(root, journal, Random(seed))
    disk = PowerDisk(root, journal)
    assert Log.open(disk, "log", segment_bytes=4000).dirty >= flushed
    disk.close()
