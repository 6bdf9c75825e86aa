"""A disk is lost with all that it held; its node comes back under its old name (raft.md#wiped-disk).

Whoever runs the group gives it an empty disk, and has the leader replace it by itself in another session: it is
removed, and added again. Until the leader names it that session, it counts as down.
"""

from __future__ import annotations

from typing import Any

import pytest

from loghistory import MemorySink, Recorder
from logwitness import check
from quorumlog.raft.core import RaftCore
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.settings import SETTINGS
from quorumlog.raft.simulated import RaftCluster

SETTING = SETTINGS["wiped"]
"""Leaders fall while one node after the other loses its disk."""


def played(seed: int, make_core: Any) -> tuple[RaftCluster, Any, Any]:  # noqa: ANN401
    """A run, how it ended, and the verdict on it."""
    sink = MemorySink()
    recorder = Recorder(sink)
    cluster = RaftCluster(seed, SETTING, recorder, make_core)
    outcome = cluster.play()
    recorder.close()
    known = {**SETTING.known_to_the_judge(), "protocol": "raft"}
    return cluster, outcome, check(sink.table, configuration=known)


def wrong(verdict: Any) -> list[str]:  # noqa: ANN401
    """The checks that are violated."""
    return [each.id for each in verdict.checks if each.violations]


def lost(verdict: Any) -> int:  # noqa: ANN401
    """What was committed and is gone with the wiped disk, which the checks excuse."""
    return sum(each.excused for each in verdict.checks if each.id in ("acked-survives", "leader-completeness"))


def test_a_node_that_lost_its_disk_is_replaced_and_nothing_is_lost() -> None:
    replaced = 0
    for seed in range(3, 6):
        cluster, outcome, verdict = played(seed, RaftCore)
        assert outcome.converged
        assert (wrong(verdict), lost(verdict)) == ([], 0)
        replaced += cluster.faults.replaced
    assert replaced >= 8


def test_a_change_ends_though_the_node_to_be_added_leads() -> None:
    """raft.md#learner-leads: at this seed a leader finds its own addition under way."""
    for make_core, ends in ((RaftCore, True), (MUTANTS["learner-leader-waits"].make_core, False)):
        _, outcome, verdict = played(65, make_core)
        assert outcome.converged is ends
        assert wrong(verdict) == []


def test_one_that_answers_as_before_loses_what_was_committed() -> None:
    make_core: Any = MUTANTS["wiped-disk-votes"].make_core
    _, _, verdict = played(3, make_core)
    assert lost(verdict)
    assert "acked-survives" in wrong(verdict)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_is_lost_in_300_runs() -> None:
    for seed in range(300):
        _, outcome, verdict = played(seed, RaftCore)
        assert outcome.converged, seed
        assert (wrong(verdict), lost(verdict)) == ([], 0), seed
