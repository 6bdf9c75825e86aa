"""Each mutant is caught by one of the checks that it names, on simulated runs that the reference survives."""

from __future__ import annotations

import pytest

from quorumlog.hunting.judge import Candidate, judge_seed
from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.events import AssignmentRead, ChangelogRead, Clocks, ForwardEnded, Query, QueryAsked
from quorumlog.pull_queries.lag import LagReport, Position, Store
from quorumlog.pull_queries.mutants.lags import LagWithoutStoreCore
from quorumlog.pull_queries.mutants.placements import TableGivenAway
from quorumlog.pull_queries.mutants.queries import NextRoundEarly
from quorumlog.pull_queries.protocol import PROTOCOL
from quorumlog.pull_queries.rules import REFERENCE, Failure
from quorumlog.pull_queries.settings import SETTINGS

pytestmark = pytest.mark.slow

SEEDS = range(4)


@pytest.mark.parametrize("mutant", PROTOCOL.hunted)
def test_a_mutant_is_caught(mutant: str) -> None:
    found = (judge_seed(Candidate("pull-queries", mutant), seed).rejections for seed in SEEDS)
    assert next(filter(None, found), None), f"{mutant} survived {len(SEEDS)} seeds"


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 16), marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize("setting", [*SETTINGS, "swarm"])
def test_the_reference_survives(setting: str, seeds: range) -> None:
    candidate = Candidate("pull-queries", under=setting)
    for seed in seeds:
        assert judge_seed(candidate, seed).rejections == ()


@pytest.mark.parametrize(("core", "known"), [(ServerCore, Position(3, 12)), (LagWithoutStoreCore, Position(9, 15))])
def test_stores_are_told_apart(core: type[ServerCore], known: Position) -> None:
    """lag-without-store: what a host says of one store would stand for what it says of another one."""
    one, other = Store("Q", "one"), Store("Q", "other")
    records = core.records_type(REFERENCE)
    records.accept(LagReport("h:1", 100, {(one, 0): Position(3, 12), (other, 0): Position(9, 15)}))
    assert records.of("h:1", one, 0) == known


@pytest.mark.parametrize(("core", "next_round"), [(ServerCore, 0), (NextRoundEarly, 1)])
def test_a_round_waits_for_all(core: type[ServerCore], next_round: int) -> None:
    """next-round-early: replicas of partitions are on the same hosts in short runs, so that rounds have one request."""
    server = core("h:1", Configuration(mode="shipped", partitions=2, standby_reads=True), Clocks(0, 0))
    placements = Placement("i:1", ("k:1",)), Placement("j:1", ("k:1",))
    server.handle(Clocks(0, 0), AssignmentRead(Assignment(1, ("i:1", "j:1", "k:1"), placements)))
    assert len(server.handle(Clocks(9000, 0), QueryAsked(1, Query()))) == 2
    effects = server.handle(Clocks(9000, 0), ForwardEnded(1, "i:1", (), Failure.NO_CONNECTION))
    assert len(effects) == next_round


@pytest.mark.parametrize(("mutant", "lag"), [(None, 0), ("lag-abs", 4)])
def test_who_has_passed_the_known_end_lags_by_nothing(mutant: str | None, lag: int) -> None:
    """lag-abs: every end in a view is that of who has passed the most, or behind it."""
    make_core = ServerCore if mutant is None else PROTOCOL.mutants[mutant].make_core
    assert make_core is not None
    assert make_core("h:1", Configuration(), Clocks(0, 0)).rules.lag(3, 7) == lag


@pytest.mark.parametrize(("core", "current"), [(ServerCore, 2), (TableGivenAway, 0)])
def test_a_table_that_comes_back_goes_on_where_it_was(core: type[ServerCore], current: int) -> None:
    """table-given-away: only who is removed and taken back while it runs would show it, after a minute."""
    server = core("h:1", Configuration(), Clocks(0, 0))
    for epoch, active in enumerate(("h:1", "i:1", "h:1"), 1):
        server.handle(Clocks(0, 0), AssignmentRead(Assignment(epoch, (active,), (Placement(active),))))
        if epoch == 1:
            for offset in range(2):
                server.handle(Clocks(0, 0), ChangelogRead(0, offset, None))
    assert server.tables[0].current == current
