"""What a shard finds on its disk: a torn end, damage, nothing; and what it had not recorded before it was killed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from loghistory import HybridClock
from quorumlog.cluster.log_client import LogPlace
from quorumlog.cluster.processes import journal_of
from quorumlog.node.recording import HistoryFile, find_history, whole_events
from quorumlog.read_path.contents import Contents
from quorumlog.read_path.events import Change
from quorumlog.read_path.process.missing import files_before, missing_changes, record_missing
from quorumlog.read_path.process.shards import CHANGES, stored
from quorumlog.read_path.processes import PathProcesses
from quorumlog.read_path.records import new_copy
from quorumlog.read_path.rules import REFERENCE, lsn_of
from quorumlog.read_path.shard import copy_columns
from quorumlog.read_path.wire import framed
from quorumlog.storage.disk import StorageError
from quorumlog.storage.files import FileDisk
from quorumlog.storage.power import PowerDisk, lose_power


def copy(esn: int, wave: int = 1) -> Change:
    return Change(copy=new_copy(lsn_of(1, esn), (0, 1), esn.to_bytes(8, "big"), wave=wave))


def contents(*changes: Change) -> Contents:
    held = Contents(REFERENCE)
    for change in changes:
        held.apply(change)
    return held


def history(path: Path, *events: tuple[str, dict[str, object]]) -> Path:
    file = HistoryFile(path, HybridClock(), {"node": 0, "incarnation": 0})
    for kind, columns in events:
        file.event(kind, columns)
    file.close()
    return path


def test_only_what_no_file_has_is_missing(tmp_path: Path) -> None:
    kept, amended, new = copy(1), copy(2, wave=2), copy(3)
    assert kept.copy is not None
    assert amended.copy is not None
    assert new.copy is not None
    before = copy(2).copy
    gone = copy(4).copy
    assert before is not None
    assert gone is not None
    path = history(
        tmp_path / "node-0.0.jsonl",
        ("takes_part", {"f": "shard", "reason": "intact"}),
        *(("copy", copy_columns(each)) for each in (kept.copy, before, gone)),
        ("seal", {"epoch": 1}),
    )
    held = contents(kept, amended, new, Change(sealed=1))
    assert missing_changes([path], held) == [
        ("purge", {"offset": gone.lsn, "last_offset": gone.lsn}),
        ("copy", copy_columns(amended.copy)),
        ("copy", copy_columns(new.copy)),
    ]


def test_a_trim_explains_what_is_gone_and_a_wiped_disk_nothing(tmp_path: Path) -> None:
    one, two = copy(1), copy(2)
    assert one.copy is not None
    assert two.copy is not None
    first = history(tmp_path / "first", ("copy", copy_columns(one.copy)))
    held = contents(one, two, Change(trim_point=lsn_of(1, 1)))
    assert missing_changes([first], held) == [
        ("trim_point", {"offset": lsn_of(1, 1)}),
        ("copy", copy_columns(two.copy)),
    ]
    wiped = history(tmp_path / "wiped", ("takes_part", {"f": "shard", "reason": "lost"}))
    assert missing_changes([first, wiped], contents(Change(intact=True))) == []


def test_what_is_missing_is_of_the_last_life_that_began_and_at_its_end(tmp_path: Path) -> None:
    """Incarnation 1 ended before it could begin: nothing that is found after it was done since. What led to a copy, as
    the request of a client, may be later than the last event of the shard."""
    one, two = copy(1), copy(2)
    assert one.copy is not None
    events = ("takes_part", {"f": "shard", "reason": "intact"}), ("copy", copy_columns(one.copy))
    history(tmp_path / "node-0.0.jsonl", *events)
    history(tmp_path / "node-0.1.jsonl")
    now, _ = HybridClock().tick()
    file = HistoryFile(tmp_path / "node-0.2.jsonl", HybridClock(), {"node": 0, "incarnation": 2})
    record_missing(file, files_before(tmp_path, 0, 2), contents(one, two), {0: (now + 10, 2), 1: (now + 1000, 0)})
    file.flush()
    found = find_history(tmp_path / "node-0.2.jsonl")
    assert found is not None
    (event,) = whole_events(found)
    assert (event.kind, event.offset, event.incarnation) == ("copy", lsn_of(1, 2), 0)
    assert (event.time, event.logical) == (now + 10, 3)


def test_a_torn_end_is_cut_and_a_long_file_is_written_anew(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "disk")
    assert [change.intact for change in stored(disk, 0)] == [True]
    payload = bytes(1 << 12)
    for wave in range(1, 600):
        for esn in (1, 2):
            change = Change(copy=new_copy(lsn_of(1, esn), (0,), payload, wave=wave), sealed=3)
            disk.append(CHANGES, framed(change))
    disk.append(CHANGES, framed(Change(clean=(1, 0, 2, 1, 1)))[:-3])
    changes = stored(disk, 1)
    assert len(changes) < 10
    held = contents(*changes)
    assert (held.intact, held.sealed, held.clean) == (True, 3, {})
    assert [each.wave for each in held.copies.values()] == [599, 599]
    assert disk.size(CHANGES) < 1 << 15
    disk.close()
    again = FileDisk(tmp_path / "disk")
    assert contents(*stored(again, 2)).copies == held.copies
    again.close()


@pytest.mark.parametrize("place", [0, 3, 5, 20, 60])
def test_a_damaged_change_with_others_behind_it_is_no_torn_end(place: int, tmp_path: Path) -> None:
    """Whatever bit it is: nothing that was acknowledged may be cut off."""
    disk = FileDisk(tmp_path / "disk")
    stored(disk, 0)
    begin = disk.size(CHANGES)
    for esn in range(1, 4):
        disk.append(CHANGES, framed(copy(esn)))
    disk.close()
    path = tmp_path / "disk" / CHANGES
    data = bytearray(path.read_bytes())
    data[begin + place] ^= 0x10
    path.write_bytes(data)
    disk = FileDisk(tmp_path / "disk")
    with pytest.raises(StorageError, match=f"damaged at byte {begin} of"):
        stored(disk, 1)
    disk.close()


def _with_hole(path: Path, changes: Sequence[bytes], hole: int) -> tuple[FileDisk, int]:
    """A disk with these changes, of which one reads as zeros, and where that begins."""
    disk = FileDisk(path)
    stored(disk, 0)
    begins = [disk.size(CHANGES)]
    for change in changes:
        disk.append(CHANGES, change)
        begins.append(disk.size(CHANGES))
    disk.close()
    data = bytearray((path / CHANGES).read_bytes())
    data[begins[hole] : begins[hole + 1]] = bytes(begins[hole + 1] - begins[hole])
    (path / CHANGES).write_bytes(data)
    return FileDisk(path), begins[hole]


def test_of_a_wiped_shard_nothing_is_left_but_how_often_it_was_started(tmp_path: Path) -> None:
    """Nor what a run that cuts the power would bring back."""
    place = LogPlace("log", {0: "127.0.0.1:3"})
    locations = {0: ("", "", "", "", "N0")}
    processes = PathProcesses(
        tmp_path, name="one", locations=locations, sequencers=1, readers=1, internal=place, settings={}
    )
    for path in (f"node-0/{CHANGES}", f"{journal_of(0)}/pages", "node-0/incarnation", f"node-1/{CHANGES}"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    processes.wipe(0)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"node-0/incarnation", f"node-1/{CHANGES}"}


@pytest.mark.parametrize("hole", [0, 1, 2])
def test_what_no_sync_covered_may_be_gone_in_the_middle_after_a_power_loss(hole: int, tmp_path: Path) -> None:
    """A device writes pages in any order; without a power loss the same is damage."""
    disk, begin = _with_hole(tmp_path / "disk", [framed(copy(esn)) for esn in (1, 2, 3, 4)], hole)
    with pytest.raises(StorageError, match=f"damaged at byte {begin} of"):
        stored(disk, 1)
    held = contents(*stored(disk, 1, lost_power=True))
    assert sorted(held.copies) == [lsn_of(1, esn) for esn in range(1, hole + 1)]
    assert disk.size(CHANGES) == begin
    disk.close()


def test_what_a_sync_covered_is_damaged_after_a_power_loss_too(tmp_path: Path) -> None:
    """The last change was written when the second one was known to be synced."""
    synced = 1 << 10
    changes = [framed(copy(1)), framed(copy(2)), framed(copy(3), synced)]
    disk, begin = _with_hole(tmp_path / "disk", changes, 1)
    assert begin < synced
    with pytest.raises(StorageError, match=f"damaged at byte {begin} of"):
        stored(disk, 1, lost_power=True)
    disk.close()


@pytest.mark.parametrize("seed", range(20))
def test_no_power_loss_takes_what_was_synced_or_keeps_a_shard_from_starting(seed: int, tmp_path: Path) -> None:
    draw = Random(seed)
    root, journal = tmp_path / "disk", tmp_path / "journal"
    esn = synced = known = 0
    for incarnation in range(4):
        disk = PowerDisk(root, journal)
        assert disk.lost_power == (incarnation > 0)
        held = contents(*stored(disk, incarnation, lost_power=disk.lost_power))
        assert held.intact
        assert {lsn_of(1, number) for number in range(1, synced + 1)} <= held.copies.keys()
        esn, known = max((lsn & 0xFFFFFFFF for lsn in held.copies), default=0), disk.size(CHANGES)
        for _ in range(draw.randrange(40)):
            esn += 1
            disk.append(CHANGES, framed(copy(esn), known))
            if draw.random() < 0.2:
                disk.sync(CHANGES)
                synced, known = esn, disk.size(CHANGES)
        disk.close()
        lose_power(root, journal, draw)


def test_a_shard_that_was_started_before_and_finds_nothing_has_lost_its_data(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "disk")
    assert stored(disk, 1) == []
    disk.close()


def test_a_seal_that_no_file_has_is_missing(tmp_path: Path) -> None:
    """Also one that a wiped shard was given when it was back (read-path.md#sealed-when-back)."""
    intact, lost = (("takes_part", {"f": "shard", "reason": reason}) for reason in ("intact", "lost"))
    for events, missing in (((intact, ("seal", {"epoch": 1})), 2), ((intact, ("seal", {"epoch": 2}), lost), 2)):
        path = history(tmp_path / f"node-0.{len(events)}.jsonl", *events)
        assert missing_changes([path], contents(Change(intact=True, sealed=2))) == [("seal", {"epoch": missing})]
