"""Term and vote: durable when saved, never guessed when damaged."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumlog.storage import DiskFull, FileDamaged, FlushFailed, SimulatedDisk, VoteStore


def test_a_new_disk_has_no_vote() -> None:
    assert VoteStore(SimulatedDisk(Random(1))).load() == (0, None)


@given(
    votes=st.lists(st.tuples(st.integers(0, 1 << 62), st.none() | st.integers(0, 1 << 31)), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
)
def test_the_last_vote_survives_a_power_loss(votes: list[tuple[int, int | None]], seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    for term, voted_for in votes:
        VoteStore(disk).save(term, voted_for)
        disk.power_loss()
        assert VoteStore(disk).load() == (term, voted_for)


def test_every_flipped_bit_and_every_other_length_is_an_error() -> None:
    disk = SimulatedDisk(Random(1))
    VoteStore(disk).save(5, 2)
    whole = disk.read("vote", 0, 100)
    for position in range(len(whole)):
        for bit in range(8):
            disk.flip_bit("vote", position, bit)
            with pytest.raises(FileDamaged, match="vote: damaged"):
                VoteStore(disk).load()
            disk.flip_bit("vote", position, bit)
        disk.replace("vote", whole[:position])
        with pytest.raises(FileDamaged, match="bytes"):
            VoteStore(disk).load()
        disk.replace("vote", whole)
    disk.replace("vote", whole + b"!")
    with pytest.raises(FileDamaged, match="bytes"):
        VoteStore(disk).load()


def test_a_vote_that_could_not_be_saved_leaves_the_old_one() -> None:
    disk = SimulatedDisk(Random(1))
    votes = VoteStore(disk)
    votes.save(5, 2)
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(DiskFull):
        votes.save(6, 1)
    disk.power_loss()
    assert votes.load() == (5, 2)


def test_after_a_sync_that_failed_it_is_the_old_vote_or_the_new_one_and_the_one_that_was_loaded_stays() -> None:
    loaded = set()
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        votes = VoteStore(disk)
        votes.save(5, 2)
        disk.fail_next_sync = True
        with pytest.raises(FlushFailed):
            votes.save(6, 1)
        found = votes.load()
        disk.power_loss()
        assert votes.load() == found
        loaded.add(found)
    assert loaded == {(5, 2), (6, 1)}


@pytest.mark.parametrize(("term", "voted_for"), [(-1, None), (3, -1)])
def test_negative_numbers_are_no_votes(term: int, voted_for: int | None) -> None:
    with pytest.raises(ValueError, match="negative"):
        VoteStore(SimulatedDisk(Random(1))).save(term, voted_for)
