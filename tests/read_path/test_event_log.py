"""The event log: what follows from its records (read-path.md#status-of-events, read-path.md#rebuilding-donors)."""

from __future__ import annotations

from quorumlog.read_path.event_log import EventLog, LogRecord, Word
from quorumlog.read_path.rules import AUTHORITATIVE_EMPTY, FULLY_AUTHORITATIVE, UNAVAILABLE


def a_log(*records: LogRecord) -> EventLog:
    """The log of four shards with these records."""
    log = EventLog((0, 1, 2, 3))
    for record in records:
        log.fold(record)
    return log


REBUILDS = (LogRecord(Word.REBUILD, 0), LogRecord(Word.REBUILD, 1))
"""The second one begins a new plan, of version 2."""


def done(donor: int, plan: int) -> LogRecord:
    return LogRecord(Word.DONE, donor, donor, plan)


def test_a_donor_that_is_done_with_an_older_plan_does_not_count() -> None:
    log = a_log(*REBUILDS, done(2, 1), done(3, 1))
    assert log.statuses == {0: UNAVAILABLE, 1: UNAVAILABLE, 2: FULLY_AUTHORITATIVE, 3: FULLY_AUTHORITATIVE}
    assert log.completed == 0


def test_a_shard_is_empty_once_all_donors_are_done_with_the_newest_plan() -> None:
    assert a_log(*REBUILDS, done(2, 2)).statuses[0] == UNAVAILABLE
    log = a_log(*REBUILDS, done(2, 2), done(3, 2))
    assert [log.statuses[shard] for shard in (0, 1)] == [AUTHORITATIVE_EMPTY] * 2
    assert log.completed == 2  # who read the log before and after learns that what they had moved


def test_an_empty_shard_is_back_when_it_acknowledges_and_not_because_its_data_is() -> None:
    emptied = (*REBUILDS, done(2, 2), done(3, 2))
    log = a_log(*emptied, LogRecord(Word.ABORT, 0))
    assert log.statuses[0] == AUTHORITATIVE_EMPTY
    assert log.leaving == {0, 1}
    log.fold(LogRecord(Word.ACKNOWLEDGE, 0))
    assert log.statuses[0] == FULLY_AUTHORITATIVE
    assert log.leaving == {1}
    assert a_log(*REBUILDS, LogRecord(Word.ACKNOWLEDGE, 0)).leaving == {0, 1}


def test_it_is_known_when_a_shard_last_began_to_leave() -> None:
    """Also when it is back (read-path.md#shard-refuses)."""
    emptied = (*REBUILDS, done(2, 2), done(3, 2), LogRecord(Word.ACKNOWLEDGE, 0))
    assert a_log(*emptied).left == {0: 1, 1: 2}
    log = a_log(*emptied, LogRecord(Word.UNRECOVERABLE, 0), LogRecord(Word.DRAIN, 3), LogRecord(Word.UNRECOVERABLE, 0))
    assert log.left == {0: 6, 1: 2, 3: 7}


def test_that_a_rebuilding_was_given_up_is_never_forgotten() -> None:
    """Donors of two plans may have left different copysets (read-path.md#guaranteed-delivery)."""
    rebuilt = (LogRecord(Word.REBUILD, 0), done(1, 1), done(2, 1), done(3, 1), LogRecord(Word.ACKNOWLEDGE, 0))
    assert not a_log(*rebuilt, LogRecord(Word.REBUILD, 1)).given_up
    assert a_log(*REBUILDS, done(2, 2), done(3, 2)).given_up
    assert a_log(LogRecord(Word.REBUILD, 0), LogRecord(Word.ABORT, 0), *rebuilt).given_up
    assert a_log(LogRecord(Word.DRAIN, 0), LogRecord(Word.UNRECOVERABLE, 0)).given_up
    assert not a_log(LogRecord(Word.REBUILD, 0), LogRecord(Word.UNRECOVERABLE, 0)).given_up


def test_a_drain_lasts_until_somebody_says_that_it_is_over() -> None:
    """Unless a rebuilding overtakes it (read-path.md#status-of-events)."""
    drain, unrecoverable = (LogRecord(word, 0) for word in (Word.DRAIN, Word.UNRECOVERABLE))
    empty = (drain, *(done(donor, 1) for donor in range(4)))
    assert a_log(*empty, unrecoverable).drained == {0}
    assert a_log(*empty, LogRecord(Word.ACKNOWLEDGE, 0)).drained == set()
    assert a_log(drain, unrecoverable).drained == set()
    assert a_log(drain, LogRecord(Word.REBUILD, 0)).drained == set()


def test_all_donors_are_done_with_the_newest_plan_those_that_are_drained_too() -> None:
    log = a_log(REBUILDS[0], done(2, 1), done(3, 1), REBUILDS[1])
    assert log.statuses[0] == UNAVAILABLE
    drain = a_log(LogRecord(Word.DRAIN, 0), *(done(donor, 1) for donor in (1, 2, 3)))
    assert drain.statuses[0] == FULLY_AUTHORITATIVE
    drain.fold(done(0, 1))
    assert drain.statuses[0] == AUTHORITATIVE_EMPTY


def test_who_was_drained_and_is_empty_is_no_donor() -> None:
    """It has nothing to give, and says nothing."""
    log = a_log(LogRecord(Word.DRAIN, 0), *(done(donor, 1) for donor in range(4)))
    assert log.statuses[0] == AUTHORITATIVE_EMPTY
    assert log.gone(0)
    log.fold(LogRecord(Word.REBUILD, 1))
    assert log.donors == (2, 3)


def test_one_donor_that_is_not_sure_of_all_is_enough_not_to_be() -> None:
    unsure = LogRecord(Word.DONE, 3, 3, 2, authoritative=False)
    log = a_log(*REBUILDS, done(2, 2), unsure)
    assert [log.statuses[shard] for shard in (0, 1)] == [UNAVAILABLE] * 2
    for shard in (0, 1):
        log.fold(LogRecord(Word.UNRECOVERABLE, shard))
    assert [log.statuses[shard] for shard in (0, 1)] == [AUTHORITATIVE_EMPTY] * 2  # the loss is accepted
    lost, drained = LogRecord(Word.UNRECOVERABLE, 0), LogRecord(Word.DRAIN, 1)
    with_one_drained = a_log(lost, drained, done(1, 2), done(2, 2), unsure)
    assert [with_one_drained.statuses[shard] for shard in (0, 1)] == [AUTHORITATIVE_EMPTY] * 2  # which loses nothing


def test_who_was_given_up_may_have_had_what_nobody_else_has() -> None:
    """Of the epochs that have begun when it becomes empty (read-path.md#loss-is-remembered)."""
    lost = [LogRecord(Word.UNRECOVERABLE, shard) for shard in (0, 1)]
    unsure = [LogRecord(Word.DONE, donor, donor, 2, authoritative=False) for donor in (2, 3)]
    for ends, forgotten in (([done(2, 2), done(3, 2)], {}), (unsure, {0: 5, 1: 5})):
        log = a_log(*lost)
        for end in ends:
            log.fold(end, 5)
        log.fold(LogRecord(Word.ACKNOWLEDGE, 0), 6)
        assert log.forgotten == forgotten


def test_a_drained_shard_had_nothing_that_nobody_else_has() -> None:
    """It is a donor itself, whatever others that are given up had."""
    log = a_log(LogRecord(Word.DRAIN, 0), LogRecord(Word.UNRECOVERABLE, 1))
    for donor in (0, 2, 3):
        log.fold(LogRecord(Word.DONE, donor, donor, 2, authoritative=False), 5)
    assert log.forgotten == {1: 5}
