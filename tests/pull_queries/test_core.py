"""One server core, event by event: what drivers may do that those of the other tests do not."""

from __future__ import annotations

from typing import Any

from quorumlog.durations import MILLISECOND
from quorumlog.events import Effect, Event, SetTimer, TimerFired
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import FINAL, STORE, ServerCore
from quorumlog.pull_queries.execution import EXHAUSTED
from quorumlog.pull_queries.lag import LagReport, Position
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.table import Change, Takeover

A, B = "a:1", "b:1"


class One:
    """The core of a:1, active of its partition with b:1 as standby, or the other way round."""

    def __init__(self, active: str = A, **given: Any) -> None:  # noqa: ANN401
        placement = Placement(active, (B if active == A else A,))
        switches = {"standby_reads": True, "heartbeats": True, "lag_reports": True, **given}
        self.core = ServerCore(A, Configuration(**switches), e.Clocks(0, 0))
        self.now = 20_000
        self.first = self.handle(e.AssignmentRead(Assignment(1, (A, B), (placement,))))
        self.core.membership.discover(0, (A, B))

    def handle(self, event: Event) -> list[Effect]:
        return self.core.handle(e.Clocks(self.now, self.now), event)


def test_an_active_takes_over_with_its_epoch_and_goes_on_from_there() -> None:
    one = One()
    assert one.first == [e.AppendRecords(0, (Takeover(1),))]
    assert one.handle(e.SourceVisible(0, 1)) == []
    assert one.handle(e.ChangelogRead(0, 0, Takeover(1))) == [e.ReadSource(0, 0, 2)]
    changes = (Change(1, 0, "k", 1), Change(1, 1))
    assert one.handle(e.SourceRead(0, 0, (("k", 1), None))) == [e.AppendRecords(0, changes)]
    assert one.handle(e.AppendFailed(0)) == [SetTimer("feed", 100 * MILLISECOND)]
    assert one.handle(TimerFired("feed")) == [e.ReadSource(0, 0, 2)]


def test_who_is_no_active_any_more_appends_nothing() -> None:
    one = One()
    one.handle(e.ChangelogRead(0, 0, Takeover(1)))
    assert one.handle(e.AssignmentRead(Assignment(2, (A, B), (Placement(B, (A,)),)))) == []
    assert one.handle(e.SourceVisible(0, 1)) == []
    assert one.handle(e.SourceRead(0, 0, (("k", 1),))) == []
    assert one.handle(e.AppendFailed(0)) == []


def test_what_was_read_already_is_passed_over_and_raises_the_end() -> None:
    one = One()
    for _ in range(2):
        one.handle(e.ChangelogRead(0, 0, Takeover(1)))
    one.handle(e.ChangelogRead(0, 5, Change(1, 0, "k", 1)))
    one.handle(e.ChangelogRead(7, 0, Takeover(1)))
    assert one.core.tables[0].position == Position(1, 1)
    one.handle(e.ChangelogVisible(0, 8))
    assert one.core.tables[0].position == Position(1, 9)


def test_with_standby_reads_off_an_active_answers_once_it_has_passed_its_takeover() -> None:
    one = One(mode="shipped", standby_reads=False, lag_reports=False)
    (before,) = one.handle(e.QueryForwarded(1, e.Query(), (0,)))
    assert before == e.Reply(1, (), {0: "Host is not the active host for this partition."})
    one.handle(e.ChangelogRead(0, 0, Takeover(1)))
    (after,) = one.handle(e.QueryForwarded(2, e.Query(), (0, 3)))
    assert after == e.Reply(2, (e.Answer(0, A, 1, ()),), {3: "Host does not hold this partition."})
    one.handle(e.ChangelogRead(0, 1, Takeover(2)))  # of an active that it has not heard of yet
    (later,) = one.handle(e.QueryForwarded(3, e.Query(), (0,)))
    assert later == e.Reply(3, (), before.refused)


def test_a_server_asks_itself_without_a_hop() -> None:
    effects = One().handle(e.QueryAsked(9, e.Query(keys=("k",))))
    assert [type(effect) for effect in effects] == [e.Emit, e.Finish]
    assert effects[0] == e.Emit(9, e.Answer(0, A, 0, ()))


def test_an_answer_without_a_partition_falls_through_and_late_ones_are_passed_over() -> None:
    one = One(active=B)
    one.handle(e.ReportReceived(LagReport(A, 1, {})))
    assert one.handle(e.QueryAsked(9, e.Query())) == [e.Forward(9, B, e.Query(), (0,))]
    (finish,) = one.handle(e.ForwardEnded(9, B, ()))
    assert isinstance(finish, e.Finish)
    assert (finish.message, finish.attempts) == (EXHAUSTED, ((0, B, Failure.BROKEN_STREAM),))
    assert one.handle(e.ForwardEnded(9, B, (e.Answer(0, B, 1, ()),))) == []


def test_what_came_before_a_failure_is_an_answer_and_the_next_host_is_asked_for_the_rest() -> None:
    one = One(active=B, partitions=2)
    one.handle(e.AssignmentRead(Assignment(2, (A, B), (Placement(B, (A,)), Placement(B, (A,))))))
    one.handle(e.ReportReceived(LagReport(A, 1, {(STORE, each): Position(0, 0) for each in (0, 1)})))
    assert one.handle(e.QueryAsked(9, e.Query())) == [e.Forward(9, B, e.Query(), (0, 1))]
    first, second = e.Answer(0, B, 1, ()), e.Answer(1, A, 0, ())
    assert one.handle(e.ForwardEnded(9, B, (first,), Failure.BROKEN_STREAM)) == [
        e.Emit(9, first),
        e.Emit(9, second),
        e.Finish(9, None, ((0, B, None), (1, B, Failure.BROKEN_STREAM), (1, A, None))),
    ]


def test_a_standby_that_is_down_for_10_s_of_the_monotonic_clock_is_to_be_removed() -> None:
    one = One()
    without = e.Propose(Assignment(2, (A,), (Placement(A),)))
    for monotonic, wall, proposed in [
        (20_000, 20_000, False),
        (20_200, 90_000, False),  # the wall clock was set
        (29_999, 99_800, False),
        (30_000, 99_900, True),
    ]:
        assert (without in one.core.handle(e.Clocks(monotonic, wall), TimerFired("check"))) is proposed
    one.handle(e.AssignmentRead(without.assignment))
    after = one.core.handle(e.Clocks(30_200, 100_100), TimerFired("check"))
    assert not any(isinstance(effect, e.Propose) for effect in after)


def test_a_query_that_a_host_refused_ends_otherwise_than_one_that_nobody_is_left_for() -> None:
    """Who leaves a partition out without a word has broken off."""
    for said, failure, message in (
        (Failure.CLIENT_ERROR, Failure.CLIENT_ERROR, FINAL),
        (Failure.SERVER_ERROR, Failure.SERVER_ERROR, EXHAUSTED),
        (None, Failure.BROKEN_STREAM, EXHAUSTED),
    ):
        one = One(active=B, mode="shipped", standby_reads=False, lag_reports=False)
        assert one.handle(e.QueryAsked(1, e.Query())) == [e.Forward(1, B, e.Query(), (0,))]
        (finish,) = one.handle(e.ForwardEnded(1, B, (), said))
        assert finish == e.Finish(1, message, ((0, B, failure),))


def test_a_partition_that_is_taken_away_is_kept_no_more() -> None:
    one = One()
    one.handle(e.AssignmentRead(Assignment(2, (A, B), (Placement(B),))))
    assert not one.core.tables
    (reply,) = one.handle(e.QueryForwarded(1, e.Query(), (0,)))
    assert reply == e.Reply(1, (), {0: "Host does not hold this partition."})


def test_the_target_of_a_forward_goes_by_the_bound_of_the_query() -> None:
    one = One(mode="shipped")
    one.handle(e.ReportReceived(LagReport(A, 1, {(STORE, 0): Position(0, 5)})))
    (refused,) = one.handle(e.QueryForwarded(1, e.Query(bound=4), (0,)))
    assert refused == e.Reply(1, (), {0: "Host excluded because lag 5 exceeds maximum allowed lag 4."})
    (answered,) = one.handle(e.QueryForwarded(2, e.Query(bound=5), (0,)))
    assert answered == e.Reply(2, (e.Answer(0, A, 0, ()),), {})


def test_a_server_that_gives_up_itself_is_no_failure_that_ends_the_query() -> None:
    one = One(mode="shipped", standby_reads=False, lag_reports=False)
    (finish,) = one.handle(e.QueryAsked(9, e.Query()))
    assert finish == e.Finish(9, EXHAUSTED, ((0, A, Failure.GAVE_UP),))


def test_while_the_next_host_is_asked_a_late_answer_of_the_one_before_is_passed_over() -> None:
    one, other = One(), "c:1"
    one.handle(e.AssignmentRead(Assignment(2, (A, B, other), (Placement(B, (other,)),))))
    one.core.membership.discover(0, (other,))
    for host in (A, other):
        one.handle(e.ReportReceived(LagReport(host, 1, {(STORE, 0): Position(0, 0)})))
    one.handle(e.ReportReceived(LagReport(B, 1, {(STORE, 0): Position(0, 0)})))
    assert one.handle(e.QueryAsked(9, e.Query())) == [e.Forward(9, B, e.Query(), (0,))]
    assert one.handle(e.ForwardEnded(9, B, (), Failure.RESET)) == [e.Forward(9, other, e.Query(), (0,))]
    assert one.handle(e.ForwardEnded(9, B, (e.Answer(0, B, 1, ()),))) == []
    emitted, finish = one.handle(e.ForwardEnded(9, other, (e.Answer(0, other, 1, ()),)))
    assert emitted == e.Emit(9, e.Answer(0, other, 1, ()))
    assert finish == e.Finish(9, None, ((0, B, Failure.RESET), (0, other, None)))


def test_when_its_client_is_gone_a_query_goes_no_further() -> None:
    one = One(active=B)
    one.handle(e.ReportReceived(LagReport(A, 1, {(STORE, 0): Position(0, 0)})))
    assert one.handle(e.QueryAsked(9, e.Query())) == [e.Forward(9, B, e.Query(), (0,))]
    assert one.handle(e.ClientGone(9)) == []
    assert one.handle(e.ForwardEnded(9, B, (), Failure.RESET)) == []


def test_a_lost_active_is_replaced_by_its_closest_standby() -> None:
    one, closest = One(), "c:1"
    one.handle(e.AssignmentRead(Assignment(2, (A, B, closest), (Placement(B, (A, closest)),))))
    one.core.membership.discover(0, (closest,))
    for host, current in ((A, 2), (closest, 9)):
        one.handle(e.ReportReceived(LagReport(host, 1, {(STORE, 0): Position(current, 10)})))
    for one.now in (20_000, 30_000):
        for stamp in range(one.now - 2000, one.now, 100):
            one.handle(e.HeartbeatReceived(closest, stamp))
        effects = one.handle(TimerFired("check"))
    assert e.Propose(Assignment(3, (A, closest), (Placement(closest, (A,)),))) in effects


def test_a_report_tells_of_every_partition_and_a_value_may_be_0() -> None:
    one = One(partitions=2)
    one.handle(e.AssignmentRead(Assignment(2, (A, B), (Placement(A, (B,)), Placement(A, (B,))))))
    one.handle(e.ChangelogRead(1, 0, Change(1, 0, "k", 0)))
    (sent,) = [each for each in one.handle(TimerFired("report")) if isinstance(each, e.SendReport)]
    assert sent.report.positions == {(STORE, 0): Position(0, 0), (STORE, 1): Position(1, 1)}
    (reply,) = one.handle(e.QueryForwarded(1, e.Query(), (1,)))
    assert reply == e.Reply(1, (e.Answer(1, A, 1, (("k", 0),)),), {})
