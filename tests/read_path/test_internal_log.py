"""The log of epochs, metadata and events: what its records mean in the order in which they lie there."""

from __future__ import annotations

from quorumlog.read_path import rules as r
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.internal_log import Activation, CleanEpoch, InternalLog, Logged, Shown
from quorumlog.read_path.nodeset import Nodeset


def nodeset(*shards: int) -> Nodeset:
    return Nodeset({"NODE": 1}, {shard: ("R", "C", "W", "K", f"N{shard}") for shard in shards})


def folded(*records: Activation | CleanEpoch | Shown | Logged) -> tuple[InternalLog, list[bool]]:
    log = InternalLog((0, 1, 2))
    return log, [log.fold(record) for record in records]


def test_of_two_that_want_the_same_epoch_one_has_it() -> None:
    log, counted = folded(
        Activation(1, 1, 1, nodeset(0, 1)), Activation(2, 1, 1, nodeset(1, 2)), Activation(2, 2, 2, nodeset(1, 2))
    )
    assert counted == [True, False, True]
    assert log.activated().unclean == {1: nodeset(0, 1)}
    assert log.activated().nodeset == nodeset(1, 2)


def test_a_record_that_was_appended_again_counts_once() -> None:
    again = Logged(1, 1, LogRecord(Word.REBUILD, 0))
    log, counted = folded(again, Logged(1, 2, LogRecord(Word.ABORT, 0)), again)
    assert counted == [True, True, False]
    assert log.statuses().version == 2
    assert log.statuses().statuses[0] == r.FULLY_AUTHORITATIVE
    assert log.has(1, 2)
    assert not log.has(1, 3)
    assert not log.has(2, 1)


def test_epochs_are_clean_one_after_the_other() -> None:
    log, counted = folded(
        *(Activation(1, number, number, nodeset(0)) for number in (1, 2, 3)),
        CleanEpoch(1, 4, 2),
        CleanEpoch(1, 5, 1),
        CleanEpoch(1, 6, 2),
    )
    assert counted[3:] == [False, True, True]
    assert log.activated() == log.activated().__class__(3, nodeset(0), 2, {})


def test_the_metadata_log_shows_an_epoch_later_than_it_begins() -> None:
    log, _ = folded(Activation(1, 1, 1, nodeset(0, 1)))
    assert log.metadata_of(1) is None
    log.fold(Shown(1, 2, 1))
    log.fold(Activation(1, 3, 2, nodeset(1, 2)))
    read = log.metadata_of(1)
    assert read is not None
    assert (read.since, read.until, read.last, read.nodeset) == (1, 1, True, nodeset(0, 1))
    log.fold(Shown(1, 4, 2))
    read = log.metadata_of(1)
    assert read is not None
    assert (read.since, read.until, read.last) == (1, 1, False)
    assert log.fold(Shown(1, 5, 7)) is False  # nobody has begun it
