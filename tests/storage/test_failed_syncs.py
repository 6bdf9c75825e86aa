"""What a failed sync may cost: never an entry that an opening declared durable, never the node for good."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from quorumlog.storage import BatchKind, FlushFailed, Log, RecordBatch, SimulatedDisk

FAULTS = [
    {"at": "1s", "name": "fsync_error", "nodes": [2], "lasting": "40ms"},
    {"at": "1001ms", "name": "disk_full", "nodes": [2], "lasting": "30ms"},
    {"at": "1200ms", "name": "power_loss", "nodes": [2], "lasting": "50ms"},
]


def batch(offset: int) -> RecordBatch:
    return RecordBatch(offset, 1, BatchKind.DATA, 1, -1, offset.to_bytes(8, "big"))


class FailingDisk(SimulatedDisk):
    """A disk whose syncs succeed ``left`` times and then fail once."""

    left = -1

    def spend_failure(self, path: str) -> None:
        self.fail_next_sync = self.left == 0
        self.left -= 1
        super().spend_failure(path)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("earlier", range(4))
def test_what_an_opening_calls_flushed_survives_although_a_sync_failed_in_the_one_before(
    seed: int, earlier: int
) -> None:
    disk = FailingDisk(Random(seed))
    log = Log.open(disk, "log")
    log.append([batch(offset) for offset in range(4)])
    log.flush()
    log.append([batch(offset) for offset in range(4, 8)])
    disk.left = earlier
    with pytest.raises(FlushFailed):
        Log.open(disk, "log")
    flushed = Log.open(disk, "log").flushed
    disk.power_loss()
    assert Log.open(disk, "log").dirty == flushed >= 3


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("earlier", range(4))
def test_what_was_trimmed_before_it_was_flushed_is_no_gap_in_a_segment_that_is_kept(seed: int, earlier: int) -> None:
    disk = FailingDisk(Random(seed))
    log = Log.open(disk, "log")
    log.append([batch(offset) for offset in range(4)])
    log.trim(2)
    disk.left = earlier
    with suppress(FlushFailed):
        Log.open(disk, "log")
    flushed = Log.open(disk, "log").flushed
    disk.power_loss()
    assert Log.open(disk, "log").dirty == flushed


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("earlier", range(3))
def test_what_an_opening_finds_cut_stays_cut_although_a_sync_of_the_truncation_failed(seed: int, earlier: int) -> None:
    disk = FailingDisk(Random(seed))
    log = Log.open(disk, "log")
    log.append([batch(offset) for offset in range(4)])
    log.close()
    log = Log.open(disk, "log")
    disk.left = earlier
    with pytest.raises(FlushFailed):
        log.truncate(2)
    dirty = Log.open(disk, "log").dirty
    disk.power_loss()
    assert Log.open(disk, "log").dirty == dirty


def test_a_node_whose_sync_failed_on_a_full_disk_comes_back_after_a_power_loss(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = Path(sys.executable).parent / "logwitness"
    asked = ["simulate", "--seed", "7", "--duration", "2s", "--faults", json.dumps(FAULTS), "-o", str(run)]
    done = subprocess.run([command, *asked], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()[1:]]
    lives = [event for event in events if event.get("node") == 2 and event["kind"] in {"start", "storage_error"}]
    assert [event["kind"] for event in lives] == ["start", "storage_error", "start", "start"]
    assert "converged" in done.stdout
    assert "did NOT" not in done.stdout
