"""A reader alone: its window, what shards may lack, versions, nodesets, the known-down list, event after event."""

from __future__ import annotations

from typing import Any

import pytest
from reading import Reading, written

from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.events import Received, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path import rules as r
from quorumlog.read_path.events import AskStatuses, Disconnected, MemoryPressed, MetadataRead, StatusesLearned
from quorumlog.read_path.nodeset import Nodeset

SINGLE = {"single_copy": True}


def heard(scenario: dict[str, Any], *messages: str) -> Reading:
    reading = Reading(scenario)
    for each in messages:
        reading.hear(each)
    return reading


def bounds(reading: Reading) -> list[str]:
    return [f"{written(each.low)}-{written(each.high)}" for each in reading.windows]


def answered(reading: Reading, **changed: Any) -> Reading:  # noqa: ANN401
    """The same after the answer to what it asked the metadata log."""
    reading.give(MetadataRead(reading.asked[-1], **{**reading.metadata, "nodeset": reading.nodeset, **changed}))
    return reading


def rewound(reading: Reading, started: bool = True) -> Reading:
    """The same after the rewind that is due, with all of its STARTs answered."""
    reading.did("rewind")
    if started:
        reading.did("started")
    return reading


# -- the window (read-path.md#window) ----------------------------------------------------------------------------------


def test_a_window_has_as_many_slots_as_it_should() -> None:
    reading = heard({"shards": 1, "settings": {"window": 8}})
    assert written(reading.start.high) == "8"
    for lsn in range(1, 10):
        reading.hear(f"a{lsn}")
    assert bounds(reading) == ["5-12", "9-16"]
    assert written(Reading({"until": "5", "settings": {"window": 8}}).start.high) == "5"


def test_nothing_beyond_the_window_is_taken_or_delivered() -> None:
    reading = heard({"shards": 1, "settings": {"window": 4, "threshold": 1.0}}, "a5")
    assert reading.core.state(0) == r.SILENT
    reading.hear("a:t1-9")  # the window ends in what is trimmed
    assert bounds(reading) == ["10-13"]
    assert reading.delivered() == "T1-9"


@pytest.mark.parametrize("rewinds", [False, True])
def test_a_new_window_is_told_to_who_reads_unless_all_are_asked_anew(rewinds: bool) -> None:
    reading = heard({"settings": {**SINGLE, "window": 4}})
    if rewinds:
        reading.give(Disconnected(1))
    reading.hear("a1,2,3")
    assert bounds(reading) == ([] if rewinds else ["3-6"] * 2)
    if rewinds:
        assert written(rewound(reading).starts[0].high) == "6"


def test_what_may_be_on_its_way_is_not_given_up_when_the_window_shrinks() -> None:
    """Shards were told of the larger window (read-path.md#window)."""
    reading = Reading({"settings": {"window": 8, "threshold": 0.0}})
    reading.give(MemoryPressed(short=True))
    for message in ("a1,3,4,5,6,7,8,g9-20", "b:g1", "b2,g3-20"):
        reading.hear(message)
    assert reading.delivered() == "1,2,3,4,5,6,7,8,D9-20"


def test_who_starts_later_is_told_of_the_window_and_which_start_it_is_for() -> None:
    reading = heard({"settings": {"window": 4}})
    reading.give(StatusesLearned(1, {0: 0, 1: r.AUTHORITATIVE_EMPTY}, 1))
    rewound(reading, started=False)
    for shard in (0, 1):
        reading.give(Received(shard, m.Started(1, 0, 2, m.Answer.OK)))
        reading.hear("a1,2,3")
    assert reading.windows == [m.Window(1, 2, r.lsn_of(1, low), r.lsn_of(1, 6)) for low in (3, 4)]


def test_where_gaps_end_is_looked_for_anew_when_the_window_slides() -> None:
    assert heard({"settings": {"window": 4}}, "b:g1-5", "a:g1-6").delivered() == "D1-5"
    reading = heard({"settings": {"window": 4}}, "a:g1-6", "b:g1-5")
    assert reading.delivered() == "D1-5"
    for message in ("a:g7-20", "b:g6-20"):
        reading.hear(message)
    assert reading.delivered() == "D6,D7-20"


def test_a_gap_in_the_next_window_ends_where_who_has_sent_least_of_it_does() -> None:
    reading = heard({"shards": 3, "settings": {"window": 4}}, "a:g1-6", "b:g1-7", "c1,3,4,g5-20")
    assert reading.delivered() == "1,D2,3,4,D5-6"


# -- what shards say (read-path.md#shard-state) ------------------------------------------------------------------------


def test_what_a_shard_sends_again_takes_nothing_back() -> None:
    reading = heard({"shards": 2}, "a:g1-5", "a3", "a:g1-4")
    reading.hear("b4")
    assert reading.delivered() == "D1-3,4"
    reading = heard({"shards": 1}, "a:g1-2", "a:g3-3")
    assert reading.delivered() == "D1-2,D3"


@pytest.mark.parametrize("unsure", ["aUNSURE3", "aX3", "aXHOLE3", "aXBRIDGE3"])
def test_who_sends_what_it_may_lack_or_what_is_spoiled_may_lack_all_before(unsure: str) -> None:
    reading = heard({"shards": 3, "factor": 2}, unsure)
    assert reading.core.state(0) == r.UNDER_REPLICATED
    assert (r.lsn_of(1, 3) in reading.core.buffer.records) == (unsure == "aUNSURE3")


def test_a_gap_ends_where_a_shard_no_longer_may_lack_it_also_behind_a_window() -> None:
    """What it may lack ended beyond the window when it said so (read-path.md#markers)."""
    said = ("a:u1-6", "a:g7-8", "b:g1-20", "c1,2,3,4", "a:g9-20", "c:g5-20")
    assert heard({"shards": 3, "settings": {"window": 4}}, *said).delivered() == "1,2,3,4,D5-6,D7-8,D9-20"


def test_no_gap_follows_from_answers_newer_than_the_statuses() -> None:
    """Whether data says so or STARTED (read-path.md#event-log-version)."""
    for by_start in (False, True):
        reading = heard({"shards": 1})
        reading.version = 1
        if by_start:
            reading.give(Received(0, m.Started(1, 1, 1, m.Answer.OK)))
            reading.version = 0
        reading.hear("a:g1-3")
        assert reading.delivered() == ""
        reading.give(StatusesLearned(1, {0: 0}, 0))
        assert reading.delivered() == "D1-3"


def test_an_answer_to_an_earlier_start_says_nothing() -> None:
    reading = heard({}, "a:g1-3")
    reading.give(StatusesLearned(1, {0: 0, 1: r.AUTHORITATIVE_EMPTY}, 1))
    rewound(reading, started=False)
    reading.give(Received(0, m.Started(1, 0, 1, m.Answer.OK)))
    reading.give(Received(0, m.ShardGap(1, 0, m.GapKind.ACCESS, r.lsn_of(1, 1), r.lsn_of(1, 1))))
    reading.hear("a:g1-3")
    assert not reading.core.shards[0].answering
    assert reading.core.state(0) == r.SILENT
    assert not reading.core.ended


def test_a_shard_that_is_gone_counts_as_the_event_log_says_and_is_connected_again() -> None:
    reading = heard({}, "a1")
    assert reading.delivered() == "1"
    reading.give(Disconnected(1))
    reading.give(StatusesLearned(1, {0: 0, 1: r.UNDERREPLICATION}, 0))
    rewound(reading, started=False)
    reading.give(Received(0, m.Started(1, 0, 2, m.Answer.OK)))
    assert reading.core.waits_for == [0]  # what is lost is waited for by nobody
    reading.hear("a:g2-5")
    assert reading.delivered() == "D2-5"
    assert reading.timers["shard 1"] == reading.core.settings.reconnect
    del reading.starts[1]
    reading.give(TimerFired("shard 1"))
    assert 1 in reading.starts


def test_who_was_heard_before_a_loss_is_asked_again() -> None:
    """What the lost shards had may have been copied to those that had said that they have nothing.

    Source: read-path.md#loss-rewinds.
    """
    reading = heard({"shards": 4, "factor": 2}, "c:g1-3", "d:g1-3")
    reading.give(StatusesLearned(1, {0: r.UNDERREPLICATION, 1: r.UNDERREPLICATION, 2: 0, 3: 0}, 0))
    assert reading.delivered() == ""
    rewound(reading).hear("c1")
    reading.hear("d1")
    assert reading.delivered() == "1"


def test_who_was_heard_before_the_first_statuses_is_asked_again() -> None:
    """A shard was rebuilt between the answers and what the reader learns first.

    Source: read-path.md#event-log-version.
    """
    reading = Reading({"shards": 4, "factor": 2}, learns=False)
    for message in ("c:g1-3", "d:g1-3"):
        reading.hear(message)
    reading.give(StatusesLearned(4, dict.fromkeys(range(4), 0) | {0: r.AUTHORITATIVE_EMPTY}, 1))
    assert reading.delivered() == ""
    rewound(reading).hear("c1")
    assert reading.delivered() == "1"


def test_who_sends_anything_has_its_data_whatever_the_event_log_says() -> None:
    """Source: read-path.md#reader-statuses."""
    reading = heard({"statuses": {"b": r.UNDERREPLICATION}}, "b:g1-3")
    assert reading.core.status(1) == r.FULLY_AUTHORITATIVE


def test_nothing_follows_where_all_are_lost_and_nobody_has_said_how_far_the_log_goes() -> None:
    reading = heard({"shards": 1, "settings": {"window": 1}}, "a1")
    reading.give(StatusesLearned(1, {0: r.UNDERREPLICATION}, 0))
    reading.give(Disconnected(0))
    assert reading.delivered() == "1"


def test_a_shard_is_asked_again_as_soon_as_it_has_its_data() -> None:
    reading = heard({"statuses": {"b": 3}})
    assert not reading.core.shards[1].answering
    del reading.starts[1]
    reading.give(StatusesLearned(1, {0: 0, 1: 0}, 0))
    assert 1 in reading.starts
    reading.give(Received(1, m.Started(1, 0, 1, m.Answer.OK)))
    for version, status in ((2, r.UNAVAILABLE), (3, r.FULLY_AUTHORITATIVE)):
        reading.starts.clear()
        reading.give(StatusesLearned(version, {0: 0, 1: status}, 0))
        assert not reading.starts  # it has answered


def test_a_rewind_forgets_what_was_heard_beyond_the_window_and_of_who_is_away() -> None:
    reading = heard({"settings": {"window": 4}}, "a:g1-6")
    reading.give(Disconnected(0))
    reading.give(StatusesLearned(1, {0: 0, 1: r.AUTHORITATIVE_EMPTY}, 1))
    rewound(reading, started=False)
    assert reading.core.state(0) == r.SILENT
    assert reading.core.beyond == r.NOWHERE


# -- gaps (read-path.md#gap-grace, read-path.md#bridge-at-begin) -------------------------------------------------------


def test_another_verdict_ends_a_grace_period_and_what_is_trimmed_needs_none() -> None:
    reading = heard({"shards": 4, "factor": 2}, "a5", "b6", "c7")
    assert "grace" in reading.timers
    reading.give(Received(0, m.Started(1, 1, 1, m.Answer.OK)))  # newer than the statuses: nothing follows
    assert "grace" not in reading.timers
    trimmed = {"shards": 4, "factor": 2, "settings": {"skip_trimmed": False}}
    assert heard(trimmed, "a:t1-4", "b:g1-4", "c:g1-4").delivered() == "T1-4"
    reading = heard(trimmed, "a:t1,g2-4", "b:g1-4", "c:g1-4")
    assert reading.delivered() == "T1"
    reading.did("grace")


def test_a_grace_period_that_is_over_does_not_count_after_a_rewind() -> None:
    """The application had no room for the gap that followed."""
    reading = heard({"shards": 4, "factor": 2, "settings": {"room": 1}}, "a1", "a5", "b6", "c7")
    reading.did("grace")
    assert reading.core.rejected == r.lsn_of(1, 2)
    reading.give(StatusesLearned(1, dict.fromkeys(range(4), 0), 1))
    rewound(reading)
    for message in ("a5", "b6", "c7"):
        reading.hear(message)
    assert reading.delivered() == "1"
    reading.did("redelivery")
    assert reading.delivered() == ""
    reading.did("grace")
    assert reading.delivered() == "D2-4"


def test_what_was_rejected_before_a_rewind_does_not_come_before_what_is_trimmed() -> None:
    """Source: read-path.md#deliver-trim."""
    reading = heard({"shards": 1, "settings": {"room": 1}}, "a1,2")
    reading.give(StatusesLearned(1, {0: 0}, 1))
    rewound(reading)
    for message in ("a2", "a:t1-2"):
        reading.hear(message)
    assert reading.delivered() == "1"
    reading.did("redelivery")
    assert reading.delivered() == "T2"


def test_whoever_says_that_it_has_started_is_waited_for_again() -> None:
    """Source: read-path.md#gap-grace."""
    reading = heard({"shards": 4, "factor": 2})
    for lsn in (5, 10, 15):
        for message in (f"a{lsn}", f"b{lsn + 1}", f"c{lsn + 2}"):
            reading.hear(message)
        reading.did("grace")
    assert reading.core.shards[3].expired == 3
    reading.give(Received(3, m.Started(1, 0, 1, m.Answer.OK)))
    assert reading.core.shards[3].expired == 0


def test_a_bridge_waits_for_a_grace_period_where_a_stream_begins() -> None:
    begins = {"shards": 4, "factor": 2, "first": "e2n2", "settings": {"in_flight": 32}}
    reading = heard(begins, *(f"{shard}:ge2n2-e2n9" for shard in "abc"))
    assert reading.delivered() == ""
    reading.did("grace")
    assert reading.delivered() == "BRIDGEe2n2-e2n9"


def test_a_bridge_waits_for_no_grace_period_elsewhere() -> None:
    """Source: read-path.md#bridge-skips-grace."""
    reading = heard({"shards": 4, "factor": 2, "settings": {"in_flight": 32}}, "a1", *(f"{s}:g2-e2n9" for s in "abc"))
    assert reading.delivered() == "1,BRIDGE2-e2n9"


def test_a_bridge_ends_no_further_than_writes_may_be_in_flight() -> None:
    """Source: read-path.md#gap-bridge."""
    for last, kind in ((31, "BRIDGE"), (32, "D")):
        reading = heard({"first": "e2n2", "settings": {"in_flight": 32}}, *(f"{s}:ge2n2-e2n{last}" for s in "ab"))
        assert reading.delivered() == f"{kind}e2n2-e2n{last}"


def test_where_a_stream_begins_a_bridge_leads_to_the_first_record_of_that_epoch_alone() -> None:
    assert heard({"first": "e2n3", "settings": {"in_flight": 1}}, "aBEGINe2n9").delivered() == "BRIDGEe2n3-e2n8,e2n9"
    assert heard({"first": "e1n4294967290", "settings": {"window": 64}}, "aBEGINe2n1").delivered() == ""


def test_a_gap_of_a_stream_ends_where_it_does() -> None:
    assert Reading({"first": "e0n5", "until": "e0n9"}).delivered() == "BRIDGEe0n5-e0n9"
    assert heard({"shards": 1, "until": "3"}, "a:t1-9").delivered() == "T1-3"


# -- metadata (read-path.md#epoch-metadata) ----------------------------------------------------------------------------


def test_nodesets_are_known_no_further_than_the_metadata_log_says_whatever_was_heard() -> None:
    """And an answer about another epoch than the one that was asked for says nothing."""
    reading = answered(Reading({"shards": 1, "metadata": {"since": 1, "until": 1, "last": False}}))
    reading.hear("a1")
    reading.hear("a:g2-e5n9")
    assert reading.asked[-1] == 2
    reading.give(MetadataRead(3, since=3, until=9, last=False, nodeset=reading.nodeset))
    assert reading.core.known_epoch == 1
    answered(reading, until=2)
    assert reading.core.known_epoch == 2
    assert reading.asked[-1] == 3
    answered(reading, since=3, until=3)
    assert reading.core.known_epoch == 3


def test_one_answer_tells_of_all_epochs_up_to_the_highest_lsn_heard() -> None:
    """Source: read-path.md#epoch-metadata."""
    reading = answered(Reading({"shards": 1, "metadata": {"since": 1, "until": 5, "last": False}}))
    assert reading.core.known_epoch == 1
    reading.hear("a:g1-e3n5")
    assert reading.asked[-1] == 2
    answered(reading)
    assert reading.core.known_epoch == 3


def test_behind_a_bridge_record_its_epoch_is_known() -> None:
    """Source: read-path.md#gap-data-loss."""
    reading = answered(Reading({"first": "e2n1", "metadata": {"since": 1, "until": 2, "last": True}}))
    assert reading.core.known_epoch == 1
    reading.hear("aBRIDGEe2n1")
    assert reading.delivered() == "BRIDGEe2n1-e2n4294967295"
    assert reading.core.known_epoch == 2


def test_what_is_trimmed_is_passed_no_further_than_nodesets_are_known() -> None:
    reading = answered(Reading({"shards": 1, "metadata": {"since": 1, "until": 1, "last": False}}))
    reading.hear("a:te1n1-e2n5")
    assert reading.delivered() == ""
    assert reading.asked[-1] == 2
    assert answered(reading, until=2).delivered() == "Te1n1-e2n5".replace("e1n", "")


def test_a_gap_goes_no_further_than_nodesets_are_known() -> None:
    """Source: read-path.md#bridge-skips-grace."""
    reading = answered(Reading({"shards": 1, "metadata": {"since": 1, "until": 1, "last": False}}))
    reading.hear("a:g1-e2n5")
    assert reading.delivered() == ""
    assert reading.asked[-1] == 2
    assert answered(reading, until=2).delivered() == "BRIDGE1-e2n5"


@pytest.mark.parametrize(("said", "kind"), [("a:te1n1-e4n5", "T"), ("a:g1-e4n5", "BRIDGE")])
def test_a_gap_ends_where_another_nodeset_begins(said: str, kind: str) -> None:
    """And goes on when that one is reached, no further than it goes (read-path.md#epoch-metadata)."""
    reading = answered(Reading({"shards": 1, "metadata": {"since": 1, "until": 1, "last": False}}))
    reading.hear(said)
    assert reading.delivered() == ""
    other = Nodeset({"RACK": 1}, reading.nodeset.locations)
    answered(reading, since=2, until=3, nodeset=other)
    assert reading.delivered() == f"{kind}1-4294967295"
    assert (reading.core.nodeset, reading.core.known_epoch, reading.asked[-1]) == (other, 3, 4)
    answered(reading, since=4, until=4, nodeset=other)
    assert reading.delivered() == f"{kind}e2n0-e4n5"


def test_neither_the_trim_point_nor_the_highest_lsn_heard_falls() -> None:
    assert heard({"settings": {"skip_trimmed": False}}, "a:t1-5", "b:t1-3").core.trim_point == r.lsn_of(1, 5)
    assert heard({}, "a:g1-5", "b:g1-3").core.newest == r.lsn_of(1, 5)


def test_where_the_newest_nodeset_is_gone_the_metadata_log_is_asked_again() -> None:
    """Source: read-path.md#epoch-metadata."""
    reading = Reading({"shards": 0, "metadata": {"since": 3, "until": 5, "last": True}})
    assert reading.delivered() == ""
    assert "metadata" in reading.timers


def test_the_newest_nodeset_is_provisional_if_it_is_of_an_earlier_epoch() -> None:
    reading = answered(Reading({"first": "e2n1", "metadata": {"since": 1, "until": 2, "last": True}}))
    for message in ("ae2n1", "ae2n4", "be2n4"):
        reading.hear(message)
    assert reading.delivered() == "e2n1"
    assert reading.asked[-2:] == [2, 2]
    assert answered(reading).delivered() == "De2n2-e2n3,e2n4"


def test_who_leaves_the_nodeset_is_stopped_and_listed_until_a_rewind() -> None:
    """All are asked with the list of one filter version (read-path.md#starts-carry-the-list)."""
    one = {"since": 1, "until": 1, "last": False}
    reading = answered(Reading({"settings": SINGLE, "metadata": one}))
    reading.hear("bX1")
    rewound(reading).did("down b")
    alone = Nodeset({"NODE": 1}, {0: reading.nodeset.locations[0]})
    for epoch, nodeset in ((2, alone), (3, reading.nodeset)):
        reading.hear(f"aBRIDGEe{epoch - 1}n1")
        answered(reading, since=epoch, until=epoch, nodeset=nodeset)
        assert [*reading.core.shards] == [*nodeset.shards]
        assert reading.core.listed == {1}
    assert reading.stopped == {1}
    assert reading.starts[1].filter_version == 2
    assert reading.starts[1].delivery == m.Delivery(frozenset({1}), 1, 0, None)
    reading.hear("aBRIDGEe3n1")
    answered(reading, since=4, until=4, nodeset=alone)
    reading.give(StatusesLearned(9, {0: 0, 1: 0}, 9))
    rewound(reading).did("down ")


# -- whom it asks (read-path.md#known-down-joins, read-path.md#slow-tick) ----------------------------------------------


def test_who_is_gone_cannot_be_connected_or_does_not_start_is_listed() -> None:
    for away in (Disconnected(1), TimerFired("shard 1"), Received(1, m.Started(1, 0, 1, m.Answer.FAILED))):
        reading = heard({"shards": 3, "factor": 2, "settings": SINGLE})
        if isinstance(away, TimerFired):
            reading.core.shards[1].answering = reading.core.shards[1].connected = False
        reading.give(away)
        rewound(reading).did("down b")


def test_who_sends_a_record_that_it_is_not_sure_of_stays_listed() -> None:
    reading = rewound(heard({"shards": 3, "factor": 2, "settings": SINGLE}, "cX1"))
    reading.hear("cUNSURE2")
    assert "rewind" not in reading.timers
    reading.did("down c")


def test_who_joined_once_is_not_listed_again_for_that() -> None:
    reading = rewound(heard({"shards": 3, "factor": 2, "settings": SINGLE}, "cX1"))
    reading.hear("c1")
    rewound(reading).did("down ")
    reading.hear("bX2")
    rewound(reading).did("down b")
    reading.hear("cX3")
    rewound(reading).did("down bc")


def test_who_is_gone_is_listed_before_all_are_asked_for_all() -> None:
    """Nothing is decided while a rewind is due (read-path.md#no-gap-in-scd)."""
    reading = heard({"shards": 3, "factor": 2, "settings": SINGLE}, "b:g1-4", "a:g1-4")
    reading.give(Disconnected(1))
    reading.hear("c:g1-4")
    rewound(reading).did("down b")
    assert reading.core.single


def test_if_all_are_down_all_send_all_and_nobody_is_listed() -> None:
    reading = heard({"settings": SINGLE}, "aX1", "bX1")
    reading.did("rewind")
    for said in ("version 2", "down ", "all send all"):
        reading.did(said)


def test_with_efficiency_one_copy_is_asked_for_though_all_are_down() -> None:
    """Source: read-path.md#rewind."""
    reading = heard({"settings": {**SINGLE, "guaranteed_delivery_efficiency": True}}, "aX1", "bX1")
    for said in ("rewind", "version 2", "down ab"):
        reading.did(said)
    assert reading.core.single


def test_who_may_lack_it_is_listed_before_all_are_asked_for_all() -> None:
    scenario = {"shards": 3, "factor": 2, "settings": SINGLE}
    reading = rewound(heard(scenario, "a:u1-4", "b:g1-4", "c:g1-4"))
    reading.did("down a")
    for message in ("b:g1-4", "c:g1-4"):  # who is listed is not waited for
        reading.hear(message)
    rewound(reading).did("all send all")


def test_with_efficiency_what_the_event_log_said_at_each_start_counts() -> None:
    """Source: read-path.md#guaranteed-delivery."""
    efficient = {**SINGLE, "guaranteed_delivery_efficiency": True, "grace": 0}
    reading = heard({"shards": 3, "factor": 2, "settings": efficient}, "cX1")
    reading.give(StatusesLearned(1, dict.fromkeys(range(3), 0), 0))
    for message in ("a:g1-4", "b:g1-4"):
        reading.hear(message)
    assert reading.delivered() == ""
    rewound(reading).did("down c")
    for message in ("a:g1-4", "b:g1-4"):
        reading.hear(message)
    assert reading.delivered() == "D1-4"


@pytest.mark.parametrize(
    ("version", "rebuilt", "given_up", "issues"),
    [(0, (), False, True), (0, (2,), False, False), (0, (), True, False), (1, (), False, False)],
)
def test_with_efficiency_gaps_are_issued_while_all_copies_name_the_same(
    version: int, rebuilt: tuple[int, ...], given_up: bool, issues: bool
) -> None:
    """Not while some shard is being rebuilt, nor behind what was given up, nor if that may have been since START."""
    efficient = {**SINGLE, "guaranteed_delivery_efficiency": True}
    reading = Reading({"settings": efficient, "rebuilt": rebuilt, "given_up": given_up})
    reading.give(StatusesLearned(version, reading.statuses, 0))
    for message in ("a3,g4-9", "b:g1-9"):
        reading.hear(message)
    assert reading.delivered() == ("D1-2,3,D4-9" if issues else "")


def test_after_a_slide_one_copy_is_asked_for_again_but_not_of_who_is_away_or_may_lack_it() -> None:
    settings = {**SINGLE, "window": 4}
    reading = rewound(heard({"shards": 4, "factor": 2, "settings": settings}, "a:g1", "b:g1", "c:g1", "d:g1"))
    assert not reading.core.single
    reading.give(Disconnected(2))
    reading.give(Received(3, m.Started(1, 0, reading.core.filter_version, m.Answer.REBUILDING)))
    for message in ("bUNSURE4", "a1,2,3"):
        reading.hear(message)
    rewound(reading).did("down bcd")
    assert reading.core.single


def test_all_send_all_goes_on_while_all_are_away() -> None:
    """Or all would be listed, and so asked for all again."""
    reading = rewound(heard({"settings": {**SINGLE, "window": 4, "room": 1}}, "a:g1", "b:g1"))
    reading.hear("a1,2")
    for shard in (0, 1):
        reading.give(Disconnected(shard))
    assert reading.delivered() == "1"
    reading.did("redelivery")
    assert reading.delivered() == "2"
    assert "rewind" not in reading.timers


@pytest.mark.parametrize("name", ["scd", "all send all"])
def test_who_says_nothing_from_one_tick_to_the_next_is_passed_over(name: str) -> None:
    """Unless that is everybody, and only if nothing came on; at the longer one all are asked for all then."""

    def ticks(count: int, *messages: str) -> Reading:
        reading = heard({"shards": 3, "factor": 2, "settings": SINGLE}, *messages)
        for _ in range(count):
            reading.give(TimerFired(name))
        return reading

    assert reading_of(ticks(1, "a:g1-4")) == "waits"
    assert reading_of(ticks(2, "a:g1-4")) == "down bc"
    assert reading_of(ticks(2)) == ("waits" if name == "scd" else "all")
    busy = heard({"shards": 3, "factor": 2, "settings": {**SINGLE, "room": 1}}, "a1,2")
    for _ in range(2):
        busy.give(TimerFired(name))
    assert reading_of(busy) == "waits"  # for the application


def reading_of(reading: Reading) -> str:
    """Whom it asks once the rewind that may be due is done."""
    if "rewind" not in reading.timers:
        return "waits"
    rewound(reading)
    return "down " + "".join("abc"[shard] for shard in sorted(reading.core.listed)) if reading.core.single else "all"


def test_a_rewind_asks_for_statuses_and_is_put_off_twice_as_long_each_time() -> None:
    reading = heard(
        {"shards": 3, "factor": 2, "settings": {**SINGLE, "rewind": 10 * MILLISECOND, "rewind_most": SECOND}}
    )
    delays = []
    for _ in range(9):
        reading.core.down.clear()
        reading.give(Received(1, m.Started(1, 0, reading.core.filter_version, m.Answer.FAILED)))
        delays.append(reading.timers["rewind"] // MILLISECOND)
        assert AskStatuses() in reading.core.handle(reading.now, TimerFired("rewind"))
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1000, 1000]


def test_at_each_slide_rewinds_are_put_off_half_as_long() -> None:
    """Source: read-path.md#rewind."""
    reading = Reading({"settings": {"window": 4, "rewind": 10 * MILLISECOND, "rewind_most": SECOND}})
    delays = []
    for version in range(1, 6):
        reading.give(StatusesLearned(version, {0: 0, 1: 0}, version))
        delays.append(reading.timers["rewind"] // MILLISECOND)
        rewound(reading)
        if version >= 3:
            for _ in range(4):  # two slides, and what the rewind has doubled
                reading.hear(f"a{written(reading.core.position)}")
    assert delays == [10, 20, 40, 20, 10]
