"""One server core, event by event: what drivers may do that those of the other tests do not."""

from __future__ import annotations

from typing import Any

from quorumlog.durations import MILLISECOND
from quorumlog.events import Effect, Event, SetTimer, TimerFired
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import ServerCore
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
