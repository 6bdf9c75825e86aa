"""The simulated disk: over many seeds, all that a disk may do happens, and nothing that it may not do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from quorumlog.storage import DiskFull, FlushFailed, SimulatedDisk, StorageError

SEEDS = range(300)


def over_seeds(story: Callable[[SimulatedDisk], bytes | None]) -> set[bytes | None]:
    return {story(new_disk(seed)) for seed in SEEDS}


def new_disk(seed: int) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_directory("d")
    return disk


def content(disk: SimulatedDisk, path: str = "d/f") -> bytes | None:
    return disk.read(path, 0, 100) if disk.exists(path) else None


def begun(disk: SimulatedDisk, durable: bytes, more: bytes) -> None:
    disk.create("d/f")
    disk.append("d/f", durable)
    disk.sync("d/f")
    disk.sync("d")
    disk.append("d/f", more)


def test_a_power_loss_keeps_what_is_durable_and_any_prefix_of_the_rest_with_holes() -> None:
    def story(disk: SimulatedDisk) -> bytes | None:
        begun(disk, b"ab", b"cdef")
        disk.power_loss()
        return content(disk)

    seen = over_seeds(story)
    assert {b"ab", b"abc", b"abcd", b"abcde", b"abcdef"} <= seen
    assert any(0 in found for found in seen if found)
    for found in seen:
        assert found is not None
        assert found[:2] == b"ab"
        assert all(byte in (right, 0) for byte, right in zip(found, b"abcdef", strict=False))


def test_a_process_that_is_killed_loses_nothing_and_what_a_power_loss_left_stays() -> None:
    for seed in SEEDS:
        disk = new_disk(seed)
        begun(disk, b"ab", b"cdef")
        assert content(disk) == b"abcdef"
        disk.power_loss()
        left = content(disk)
        disk.power_loss()
        assert content(disk) == left


@pytest.mark.parametrize(("settled", "possible"), [(False, {None, b""}), (True, {b""})])
def test_a_new_name_may_vanish_until_its_directory_is_synced(settled: bool, possible: set[bytes | None]) -> None:
    def story(disk: SimulatedDisk) -> bytes | None:
        disk.create("d/f")
        disk.sync("d/f")
        if settled:
            disk.sync("d")
        disk.power_loss()
        return content(disk)

    assert over_seeds(story) == possible


@pytest.mark.parametrize(("settled", "possible"), [(False, {None, b"ab"}), (True, {None})])
def test_a_removed_name_may_come_back_until_its_directory_is_synced(settled: bool, possible: set[bytes | None]) -> None:
    def story(disk: SimulatedDisk) -> bytes | None:
        begun(disk, b"ab", b"")
        disk.remove("d/f")
        if settled:
            disk.sync("d")
        disk.power_loss()
        return content(disk)

    assert over_seeds(story) == possible


def test_a_truncation_may_be_undone_until_it_is_synced() -> None:
    def story(disk: SimulatedDisk) -> bytes | None:
        begun(disk, b"abcd", b"")
        disk.truncate("d/f", 2)
        disk.append("d/f", b"X")
        disk.power_loss()
        return content(disk)

    assert over_seeds(story) - {b"ab\0"} == {b"abcd", b"ab", b"abX"}

    def synced(disk: SimulatedDisk) -> bytes | None:
        begun(disk, b"abcd", b"")
        disk.truncate("d/f", 2)
        disk.sync("d/f")
        disk.power_loss()
        return content(disk)

    assert over_seeds(synced) == {b"ab"}


def test_a_sync_makes_durable_what_was_there_when_it_began() -> None:
    def story(disk: SimulatedDisk) -> bytes | None:
        begun(disk, b"", b"ab")
        point = disk.sync_point("d/f")
        disk.append("d/f", b"c")
        point.run()
        disk.power_loss()
        return content(disk)

    assert over_seeds(story) - {b"ab\0"} == {b"ab", b"abc"}


def test_a_sync_that_raced_a_truncation_makes_nothing_durable() -> None:
    def story(disk: SimulatedDisk) -> bytes | None:
        begun(disk, b"a", b"bc")
        point = disk.sync_point("d/f")
        disk.truncate("d/f", 1)
        disk.sync("d/f")
        disk.append("d/f", b"X")
        point.run()
        disk.power_loss()
        return content(disk)

    assert over_seeds(story) - {b"a\0"} == {b"a", b"aX"}


def test_after_a_failed_sync_later_ones_prove_nothing() -> None:
    readable: set[bytes | None] = set()

    def story(disk: SimulatedDisk) -> bytes | None:
        begun(disk, b"ab", b"cd")
        disk.fail_next_sync = True
        with pytest.raises(FlushFailed, match="d/f: sync failed"):
            disk.sync("d/f")
        readable.add(content(disk))
        disk.sync("d/f")
        disk.power_loss()
        return content(disk)

    lost = over_seeds(story)
    assert lost == {b"ab", b"abc", b"abcd"}
    assert readable == {b"ab", b"abc", b"abcd"}


def test_what_is_written_over_after_a_failed_sync_can_become_durable_again() -> None:
    def story(disk: SimulatedDisk) -> bytes | None:
        begun(disk, b"ab", b"cd")
        disk.fail_next_sync = True
        with pytest.raises(FlushFailed):
            disk.sync("d/f")
        disk.truncate("d/f", 2)
        disk.append("d/f", b"XY")
        disk.sync("d/f")
        disk.power_loss()
        return content(disk)

    assert over_seeds(story) == {b"abXY"}


@pytest.mark.parametrize(("position", "durable"), [(0, True), (2, True), (3, False)])
def test_a_rewrite_helps_only_what_lies_behind_its_position(position: int, durable: bool) -> None:
    """What a failed sync left readable survives if all of it is written once more, and is not sure to otherwise."""
    survived = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        begun(disk, b"ab", b"cd")
        disk.fail_next_sync = True
        with pytest.raises(FlushFailed):
            disk.sync("d/f")
        readable = content(disk)
        disk.rewrite("d/f", position)
        disk.sync("d/f")
        disk.power_loss()
        survived.add(content(disk) == readable)
    assert survived == ({True} if durable else {True, False})


def test_replace_is_all_or_nothing_and_durable() -> None:
    def story(disk: SimulatedDisk) -> bytes | None:
        disk.replace("d/f", b"old")
        disk.replace("d/f", b"new!")
        disk.power_loss()
        return content(disk)

    assert over_seeds(story) == {b"new!"}


def test_a_full_disk_takes_what_fits() -> None:
    disk = SimulatedDisk(Random(1), capacity_bytes=5)
    disk.create("f")
    disk.append("f", b"abc")
    with pytest.raises(DiskFull, match="f: no room for 3 bytes"):
        disk.append("f", b"def")
    assert (content(disk, "f"), disk.used_bytes) == (b"abcde", 5)
    with pytest.raises(DiskFull):
        disk.replace("vote", b"x")
    disk.truncate("f", 4)
    disk.replace("vote", b"x")
    disk.remove("f")
    assert disk.used_bytes == 1
    disk.power_loss()
    assert disk.used_bytes == sum(disk.size(name) for name in disk.list(""))


def test_the_same_seed_loses_the_same_bytes() -> None:
    def story(seed: int) -> list[bytes | None]:
        disk = new_disk(seed)
        left = []
        for number in range(20):
            path = f"d/{number % 3}"
            if not disk.exists(path):
                disk.create(path)
            disk.append(path, bytes([number]) * 7)
            if number % 4 == 3:
                disk.power_loss()
            left.append(content(disk, path))
        return left

    assert story(5) == story(5)
    assert len({str(story(seed)) for seed in range(20)}) > 1


@pytest.mark.parametrize(
    "call",
    [
        lambda disk: disk.read("d/none", 0, 1),
        lambda disk: disk.append("d/none", b"x"),
        lambda disk: disk.remove("d/none"),
        lambda disk: disk.sync("nowhere"),
        lambda disk: (disk.create("d/f"), disk.create("d/f")),
    ],
)
def test_names_that_do_not_fit_are_errors(call: Callable[[SimulatedDisk], object]) -> None:
    with pytest.raises(StorageError, match=r"no such file|already exists"):
        call(new_disk(1))


def test_a_failed_sync_that_lost_nothing_does_not_take_what_is_appended_and_synced_later() -> None:
    for seed in SEEDS:
        disk = new_disk(seed)
        begun(disk, b"ab", b"")
        for more in (b"cd", b""):
            disk.fail_next_sync = True
            with pytest.raises(FlushFailed):
                disk.sync("d/f")
            disk.append("d/f", more)
            disk.sync("d/f")
        disk.power_loss()
        assert content(disk) == b"abcd"
