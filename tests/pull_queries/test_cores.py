"""What the cores of pull queries do beside the scenarios, part by part."""

from __future__ import annotations

from typing import Any

import pytest

from quorumlog.pull_queries.assignment import UNAVAILABLE, Assignment, Departures, Placement, folded, proposed
from quorumlog.pull_queries.configuration import Configuration, ConfigurationError
from quorumlog.pull_queries.execution import Execution
from quorumlog.pull_queries.lag import LagRecords, LagReport, Position, Store, ready
from quorumlog.pull_queries.routing import Candidate, View, no_valid_host, partitions_asked, target_gives_up, terms_of
from quorumlog.pull_queries.rules import REFERENCE, UNBOUNDED, Failure, Terms
from quorumlog.pull_queries.status import Membership, Status
from quorumlog.pull_queries.table import (
    Change,
    Feeder,
    Filter,
    SavedTable,
    Table,
    Takeover,
    look_up,
    partition_of,
    scan,
)

STORE = Store("Q", "T")


# -- configuration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "other"}, "mode is 'other'; write proposal or shipped"),
        ({"heartbeat_window": 400}, "heartbeat_window is 400; it must be more than 4 times heartbeat_send, 100"),
        ({"heartbeat_window": 2050}, "heartbeat_window is 2050; the proposal needs a multiple of 100"),
        ({"mode": "shipped", "heartbeat_window": 300}, "it must be more than 3 times heartbeat_send, 100"),
        ({"standby_reads": False}, "standby_reads is off; the mode proposal needs it, the mode shipped does not"),
        ({"mode": "shipped", "lag_reports": True}, "lag_reports is on; it needs heartbeats too"),
        ({"maximum_lag": -1}, "maximum_lag is -1; it must be at least 0"),
        ({"heartbeat_send": 0}, "heartbeat_send is 0; it must be at least 1"),
        ({"missed_threshold": 0}, "missed_threshold is 0; it must be at least 1"),
        ({"received_threshold": 0}, "received_threshold is 0; it must be at least 1"),
        ({"partitions": 0}, "partitions is 0; it must be at least 1"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Configuration(**given)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_mode_brings_its_switches_and_its_detection_time() -> None:
    proposal, shipped = Configuration(), Configuration(mode="shipped")
    assert (proposal.standby_reads, proposal.heartbeats, proposal.lag_reports) == (True, True, True)
    assert (shipped.standby_reads, shipped.heartbeats, shipped.lag_reports) == (False, False, False)
    assert (proposal.forward_timeout, shipped.forward_timeout) == (500, 20_000)
    assert (proposal.detection, shipped.detection) == (600, 500)
    assert Configuration(mode="shipped", heartbeat_window=301).silence == 3


# -- membership ----------------------------------------------------------------------------------------------------


def listed(mode: Any = "proposal", **given: Any) -> Membership:  # noqa: ANN401
    membership = Membership("a:1", 0, Configuration(mode=mode, heartbeats=True, **given), REFERENCE)
    assert membership.discover(50, ["b:1", "a:1", "c:1"]) == ["b:1", "c:1"]
    return membership


@pytest.mark.parametrize("mode", ["proposal", "shipped"])
def test_statuses_change_at_a_check_alone_and_nobody_is_taken_off_the_list(mode: Any) -> None:  # noqa: ANN401
    membership = listed(mode)
    fresh = membership.statuses
    assert fresh == {"a:1": Status(True, 0), "b:1": Status(True, 50), "c:1": Status(True, 50)}
    for stamp in range(100, 2100, 100):
        membership.heartbeat("b:1", stamp)
    membership.heartbeat("x:1", 2000)
    assert membership.statuses == fresh
    assert membership.check(2050) == {"b:1": Status(True, 2050), "c:1": Status(False, 50)}
    assert membership.discover(2060, ["b:1"]) == []
    assert set(membership.statuses) == set(fresh) == {"a:1", *membership.heartbeat_targets}
    # No stamp is left in the window, and at the next check there is none at all: the time of the last decision stays.
    assert membership.check(9000)["b:1"] == Status(False, 9000)
    assert membership.check(9200)["b:1"] == Status(False, 9000)


def test_a_stamp_of_the_future_is_kept_until_its_time_has_come() -> None:
    membership = listed()
    for stamp in range(5000, 5400, 100):
        membership.heartbeat("b:1", stamp)
    assert not membership.check(4900)["b:1"].alive
    assert membership.check(5400)["b:1"].alive


def test_a_stamp_at_the_start_of_the_window_counts() -> None:
    membership = listed(heartbeat_window=500)
    assert not membership.check(1000)["b:1"].alive
    for stamp in (1000, 1100):
        membership.heartbeat("b:1", stamp)
    assert membership.check(1500)["b:1"].alive
    assert not membership.check(1501)["b:1"].alive


def test_heartbeats_and_reports_go_to_dead_hosts_but_for_reports_of_the_mode_shipped() -> None:
    for mode, at_first, afterwards in (
        ("proposal", ("a:1", "b:1", "c:1"), ("a:1", "b:1", "c:1")),
        ("shipped", (), ("a:1", "b:1")),
    ):
        membership = listed(mode)
        assert membership.report_targets == at_first
        for stamp in range(100, 1100, 100):
            membership.heartbeat("b:1", stamp)
        membership.check(1050)
        assert membership.report_targets == afterwards
        assert membership.heartbeat_targets == ("b:1", "c:1")


def test_without_heartbeats_there_are_no_statuses() -> None:
    assert Membership("a:1", 0, Configuration(mode="shipped"), REFERENCE).statuses == {}


# -- lag -----------------------------------------------------------------------------------------------------------


def report(host: str, time: int, current: int, end: int, store: Store = STORE) -> LagReport:
    return LagReport(host, time, {(store, 0): Position(current, end)})


def test_an_older_report_replaces_nothing_and_an_equal_one_does() -> None:
    records = LagRecords(REFERENCE)
    assert records.accept(report("h", 5, 1, 9))
    before = records.snapshot()
    assert not records.accept(report("h", 4, 2, 9))
    assert records.accept(report("h", 5, 3, 9))
    assert records.of("h", STORE, 0) == Position(3, 9)
    assert before.of("h", STORE, 0) == Position(1, 9)


def test_records_are_kept_by_store() -> None:
    other = Store("Q", "U")
    records = LagRecords(REFERENCE, [LagReport("h", 1, {(STORE, 0): Position(1, 2), (other, 0): Position(7, 8)})])
    assert (records.max_end(STORE, 0), records.max_end(other, 0), records.max_end(other, 1)) == (2, 8, 0)
    assert records.of("h", STORE, 1) is None
    assert [str(STORE), str(other)] == ["Q#T", "Q#U"]


def test_a_dead_hosts_record_counts_and_is_not_shown() -> None:
    records = LagRecords(REFERENCE, [report("dead", 1, 0, 9), report("here", 1, 3, 4)])
    assert records.max_end(STORE, 0) == 9
    assert records.max_end(STORE, 0, ["here"]) == 4
    assert set(records.shown({"dead": Status(False, 1), "here": Status(True, 1)})) == {"here"}


def test_a_server_is_ready_with_a_record_of_every_live_replica_or_in_time() -> None:
    statuses = {"h": Status(True, 1), "i": Status(True, 1), "dead": Status(False, 1)}
    replicas = [(host, STORE, 0) for host in statuses]
    one, both = LagRecords(REFERENCE, [report("h", 1, 0, 9)]), LagRecords(REFERENCE)
    for host in "hi":
        both.accept(report(host, 1, 0, 9))
    assert not ready(Configuration(), 0, 9999, one, statuses, replicas)
    assert ready(Configuration(), 0, 10_000, one, statuses, replicas)
    assert ready(Configuration(), 0, 0, both, statuses, replicas)
    assert ready(Configuration(mode="shipped"), 0, 0, one, statuses, replicas)
    for unheard in ("not-listed", UNAVAILABLE):
        assert not ready(Configuration(), 0, 9999, both, statuses, [*replicas, (unheard, STORE, 0)])
        assert ready(Configuration(), 0, 10_000, both, statuses, [*replicas, (unheard, STORE, 0)])


# -- tables --------------------------------------------------------------------------------------------------------


def test_a_table_is_the_fold_of_what_counts() -> None:
    table = Table(REFERENCE)
    log = [
        None,  # Raft's own
        Takeover(1),
        Change(1, 0, "k", 1),
        Change(1, 2, "k", 3),  # not the next
        Change(1, 1),  # Raft's own of the source log
        Change(1, 1, "k", 9),  # again
        Change(1, 2, "l", "x"),
        Takeover(2),
        Change(1, 3, "k", 4),  # late, of the old active
        Takeover(1),
        Change(2, 3, "l"),
        Change(2, 4, "m", 2.5),
    ]
    counted = [table.fold(offset, record) for offset, record in enumerate(log)]
    assert counted == [False, True, True, False, True, False, True, True, False, False, True, True]
    assert table.saved() == SavedTable(12, 2, 5, {"k": 1, "m": 2.5})
    with pytest.raises(ValueError, match="offset 13 is not the next of the changelog, which is 12"):
        table.fold(13, None)


def test_a_restart_begins_at_what_was_saved() -> None:
    table = Table(REFERENCE)
    for offset, record in enumerate([Takeover(1), Change(1, 0, "k", 1)]):
        table.fold(offset, record)
    saved = table.saved()
    table.fold(2, Change(1, 1, "k", 2))
    again = Table(REFERENCE, saved)
    assert (again.position, again.rows) == (Position(2, 2), {"k": 1})
    again.fold(2, Change(1, 1, "k", 2))
    assert again.saved() == table.saved()
    assert saved.rows == {"k": 1}
    assert Table(REFERENCE).position == Position(0, 0)


def test_the_end_is_behind_the_visible_offset_and_never_falls() -> None:
    table = Table(REFERENCE)
    table.note_visible(-1)
    assert table.end == 0
    table.note_visible(4)
    table.note_visible(2)
    assert table.end == 5


def test_a_feeder_takes_over_before_it_goes_on() -> None:
    table, feeder = Table(REFERENCE, SavedTable(3, 1, 7)), Feeder(2)
    assert feeder.due(table, 9) == Takeover(2)
    assert feeder.due(table, 9) is None  # on its way
    feeder.failed(table)
    assert feeder.due(table, 9) == Takeover(2)
    table.fold(3, Takeover(2))
    assert feeder.due(table, 9) == range(7, 9)
    assert feeder.due(table, 9) is None
    assert feeder.due(table, 400, most=10) == range(9, 19)
    table.fold(4, Change(2, 7, "k", 1))
    feeder.failed(table)
    assert feeder.due(table, 9) == range(8, 9)
    table.fold(5, Takeover(3))
    assert feeder.due(table, 100) is None


def test_a_feeder_appends_again_only_what_the_changelog_turns_out_to_lack() -> None:
    table, feeder = Table(REFERENCE, SavedTable(1, 1, 0)), Feeder(1)
    assert feeder.due(table, 4) == range(4)
    table.note_visible(3)  # so 1, 2 and 3 are there, of which none is passed yet
    for offset in (1, 2):
        feeder.failed(table)  # several appends may fail one after the other
        assert feeder.due(table, 4) is None
        table.fold(offset, Change(1, offset - 1))
    assert feeder.due(table, 4) is None
    table.fold(3, Change(1, 2))
    assert feeder.due(table, 4) == range(3, 4)


def test_look_ups_and_scans_see_one_position() -> None:
    saved = SavedTable(9, 1, 9, {"b": 2, "a": 1, "c": "x"})
    assert look_up(saved, ("c", "a", "a", "z")) == [("a", 1), ("c", "x")]
    assert scan(saved) == [("a", 1), ("b", 2), ("c", "x")]
    assert scan(saved, most=1) == [("a", 1)]
    assert scan(saved, Filter("v", ">=", 2)) == [("b", 2)]
    assert scan(saved, Filter("v", "!=", 2)) == [("a", 1), ("c", "x")]
    assert scan(saved, Filter("k", "<", "b")) == [("a", 1)]
    for column, op, said in (("w", "=", "the columns are k and v"), ("v", "~", "write one of = != < <= > >=")):
        with pytest.raises(ValueError, match=said):
            Filter(column, op, 1)


def test_a_key_has_its_partition_by_its_bytes() -> None:
    assert [partition_of(key, 16) for key in ("123456789", "ä", "")] == [0xCBF43926 % 16, 3, 0]


# -- assignments ---------------------------------------------------------------------------------------------------


def test_of_several_assignments_of_an_epoch_the_first_counts() -> None:
    one, other = Assignment(1, ("a",)), Assignment(1, ("b",))
    assert folded(REFERENCE, folded(REFERENCE, Assignment(), one), other) == one
    assert folded(REFERENCE, one, Assignment(3, ("a",))) == one
    assert folded(REFERENCE, one, Assignment(2, ("a", "b"))).epoch == 2
    assert Assignment().of(5) == Placement("unavailable:-1")


def test_an_active_stays_and_a_lost_one_is_replaced_by_who_is_least_behind() -> None:
    first = proposed(Assignment(), ["a"], 2, 1, {})
    assert first.placements == (Placement("a"), Placement("a"))
    both = proposed(first, ["b", "a"], 2, 1, {})
    assert both == Assignment(2, ("a", "b"), (Placement("a", ("b",)), Placement("a", ("b",))))
    three = proposed(both, "abc", 2, 2, {})
    assert three.placements == (Placement("a", ("b", "c")), Placement("a", ("b", "c")))
    lost = proposed(three, "bc", 2, 2, {("b", 0): 5, ("c", 0): 2, ("b", 1): 9})
    assert lost.placements == (Placement("c", ("b",)), Placement("b", ("c",)))
    back = proposed(lost, "abc", 2, 2, {})
    assert back.placements == (Placement("c", ("b", "a")), Placement("b", ("c", "a")))
    unknown = proposed(three, "bc", 2, 2, {})
    assert [placement.active for placement in unknown.placements] == ["b", "b"]
    assert proposed(three, "", 1, 2, {}).placements == (Placement(),)


def test_standbys_are_taken_from_those_with_the_fewest_partitions() -> None:
    before = Assignment(1, ("a", "b"), (Placement("a", ("b",)), Placement("a", ("b",))))
    after = proposed(before, "acd", 2, 1, {})
    assert after.placements == (Placement("a", ("c",)), Placement("a", ("d",)))
    one_lacks = Assignment(1, (*"abcd",), (Placement("a", ("b",)), Placement("c", ("b",)), Placement("d")))
    assert proposed(one_lacks, "abcd", 3, 1, {}).placements[2] == Placement("d", ("a",))


def test_a_host_is_gone_after_ten_seconds_on_end() -> None:
    departures, down, up = Departures(), {"h": Status(False, 0)}, {"h": Status(True, 0)}
    assert departures.observe(0, down) == []
    assert departures.observe(9_999, down) == []
    assert departures.observe(10_000, down) == ["h"]
    departures.joined(["h"])
    assert departures.observe(10_100, down) == []
    assert departures.observe(20_100, down) == ["h"]
    assert departures.observe(20_200, up) == []
    assert departures.observe(20_400, down) == []


# -- routing and execution -----------------------------------------------------------------------------------------


def test_the_bound_is_the_querys_or_the_tables_or_the_servers() -> None:
    proposal, shipped = Configuration(maximum_lag=9), Configuration(mode="shipped")
    assert [terms_of(proposal, *given).bound for given in ((0, 5), (None, 5), (None, None))] == [0, 5, 9]
    assert terms_of(shipped, None, 5) == Terms(UNBOUNDED, True, standby_reads=False, lag_reports=False)
    with pytest.raises(ValueError, match=r"acceptable\.offset\.lag is -1; it must be 0 or more"):
        terms_of(proposal, -1)


def test_which_partitions_are_asked() -> None:
    for mode, several in (("proposal", (2, 8)), ("shipped", tuple(range(9)))):
        configuration = Configuration(mode=mode, partitions=9)  # type: ignore[arg-type]
        assert partitions_asked(configuration, None) == tuple(range(9))
        assert partitions_asked(configuration, ["b"]) == (2,)
        assert partitions_asked(configuration, ["b", "m", "b"]) == several


@pytest.mark.parametrize(
    ("host", "terms", "fenced", "said"),
    [
        ("x", Terms(0, False), True, "Host does not hold this partition."),
        ("s", Terms(0, False), False, None),
        ("s", Terms(8, True), False, None),
        ("s", Terms(7, True), False, "Host excluded because lag 8 exceeds maximum allowed lag 7."),
        ("t", Terms(7, True), False, "Lag information is not present for host."),
        ("t", Terms(7, True, lag_reports=False), False, None),
        ("s", Terms(8, True, standby_reads=False), True, "Host is not the active host for this partition."),
        ("a", Terms(8, True, standby_reads=False), False, "Host is not the active host for this partition."),
        ("a", Terms(8, True, standby_reads=False), True, None),
    ],
)
def test_the_target_of_a_forward(host: str, terms: Terms, fenced: bool, said: str | None) -> None:
    """Its lag is that of its own record, 8 for s, though another host reported a larger end."""
    records = LagRecords(REFERENCE, [report("s", 1, 2, 10), report("a", 1, 50, 50)])
    view = View(Assignment(1, (), (Placement("a", ("s", "t")),)), {}, records)
    assert target_gives_up(REFERENCE, view, terms, STORE, 0, host, fenced=fenced) == said


def test_one_partition_without_a_host_fails_the_query_and_the_others_are_not_named() -> None:
    near, dead, far = Candidate("a"), Candidate("b", ("dead", "far")), Candidate("c", ("far",))
    assert no_valid_host({0: (near, dead), 1: (dead, near)}) is None
    said = "Hosts scanned: [b was not selected because dead,far, c was not selected because far]"
    message = no_valid_host({0: (near, dead), 1: (dead, far), 2: (near,)})
    assert message == f"Unable to execute pull query. [Partition 1 failed to find valid host. {said}]"


def test_an_execution_waits_for_its_round() -> None:
    query = Execution(REFERENCE, False, {0: ["a", "b"], 1: ["a"]})
    assert query.next_round() == {"a": (0, 1)}
    with pytest.raises(ValueError, match="round 0 still waits for a"):
        query.next_round()
    with pytest.raises(ValueError, match="b has no open request"):
        query.answered("b", [0])
    assert query.answered("a", [1], Failure.TIME_OUT) == (1,)
    assert query.next_round() == {"b": (0,)}
    with pytest.raises(ValueError, match="b gave neither an answer nor a reason for partition 0"):
        query.answered("b", [])
    assert [attempt[:2] for attempt in query.attempts] == [(1, "a"), (0, "a")]
