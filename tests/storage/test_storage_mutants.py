"""The mutants of the storage that no history shows, or so seldom that hunts did not come to them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from quorumlog.raft.mutants import MUTANTS
from quorumlog.storage.batch import BatchKind, RecordBatch, ghost
from quorumlog.storage.disk import StorageError
from quorumlog.storage.log import Log
from quorumlog.storage.simulated import SimulatedDisk

HERE = "tests/storage/test_storage_mutants.py"


def batches(first: int, last: int, term: int = 3) -> list[RecordBatch]:
    return [RecordBatch(offset, term, BatchKind.DATA, 1, -1, bytes(40)) for offset in range(first, last + 1)]


def opened(log: type[Log]) -> tuple[SimulatedDisk, Log]:
    """A log of six flushed entries in segments of two."""
    disk = SimulatedDisk(Random(1))
    found = log.open(disk, "log", 100, 1)
    found.append(batches(0, 5))
    found.flush()
    return disk, found


def knows_the_term_before_its_start(log: type[Log]) -> bool:
    """raft.md#trim."""
    disk, found = opened(log)
    found.trim(4)
    return log.open(disk, "log", 100, 1).term(3) == 3


def cuts_what_fails_its_checksum(log: type[Log]) -> bool:
    """raft.md#restart."""
    disk, found = opened(log)
    found.append(batches(6, 7))
    path = f"log/{disk.list('log')[-2]}"
    disk.flip_bit(path, disk.size(path) - 1)
    return log.open(disk, "log", 100, 1).dirty == 6


def takes_back_what_it_promised(log: type[Log]) -> bool:
    """raft.md#truncation."""
    disk, found = opened(log)
    found.truncate(2)
    try:
        return log.open(disk, "log", 100, 1).dirty == 1
    except StorageError:
        return False


def closes_with_what_it_holds(log: type[Log]) -> bool:
    """raft.md#truncation."""
    disk, found = opened(log)
    found.truncate(2)
    found.close()
    try:
        return log.open(disk, "log", 100, 1).dirty == 1
    except StorageError:
        return False


def begins_anew_empty(log: type[Log]) -> bool:
    """raft.md#log-begun-anew."""
    for syncs in range(3):
        disk, found = opened(log)
        disk.fail_next_sync, disk.syncs_before_failure = True, syncs
        with suppress(StorageError):
            found.reset(3, 7)
        disk.fail_next_sync = False
        again = log.open(disk, "log", 100, 1)
        if (again.start_offset, again.dirty) != (3, 2):
            return False
    return True


def cuts_a_gap_with_the_batch_behind_it(log: type[Log]) -> bool:
    """ghost-batches.md#ghost-moves-offset."""
    _, found = opened(log)
    found.append([ghost(6, 9, 3), *batches(10, 11)])
    found.flush()
    found.truncate(10)
    return found.dirty == 5


PROMISES: dict[str, Callable[[type[Log]], bool]] = {
    "trim-forgets-term": knows_the_term_before_its_start,
    "reset-unmarked": begins_anew_empty,
    "checksum-ignored": cuts_what_fails_its_checksum,
    "truncate-keeps-flushed": closes_with_what_it_holds,
    "truncate-keeps-promise": takes_back_what_it_promised,
    "gap-breaks-dirty": cuts_a_gap_with_the_batch_behind_it,
}


@pytest.mark.parametrize("mutant", PROMISES)
def test_the_log_keeps_a_promise_that_a_mutant_breaks(mutant: str) -> None:
    stage: Any = MUTANTS[mutant].stage
    assert PROMISES[mutant](Log)
    assert not PROMISES[mutant](stage.node_type.log_type)


def test_each_is_tried() -> None:
    assert set(PROMISES) == {mutant.id for mutant in MUTANTS.values() if mutant.test == HERE}


def test_a_flush_that_a_truncation_overtook_promises_nothing() -> None:
    disk, log = opened(Log)
    log.append(batches(6, 7))
    ticket = log.flush_begin()
    log.truncate(2)
    log.flush_run(ticket)
    assert not log.flush_finish(ticket)
    assert log.open(disk, "log", 100, 1).dirty == 1


def test_what_replaces_a_flushed_batch_of_its_size_is_flushed_too() -> None:
    disk = SimulatedDisk(Random(1))
    log = Log.open(disk, "log", 1000, 1)
    log.append(batches(0, 5))
    log.flush()
    log.truncate(5)
    log.append(batches(5, 5, term=4))
    assert log.flush_begin().bytes > 0
    log.flush()
    disk.power_loss()
    again = Log.open(disk, "log", 1000, 1)
    assert (again.dirty, again.term(5)) == (5, 4)
