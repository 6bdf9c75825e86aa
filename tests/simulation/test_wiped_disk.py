"""A disk is lost with all that it held; its node comes back under its old name (raft.md#wiped-disk).

Whoever runs the group gives it an empty disk, and has the leader replace it by itself in another session: it is
removed, and added again. Until the leader names it that session, it counts as down.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from loghistory import MemorySink, Recorder
from logwitness import check
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.faults import FaultMix
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.raft.simulated import RaftCluster, RaftNode

SETTING: RaftConfiguration = replace(
    SETTINGS["default"],
    duration=3 * SECOND,
    settle=5 * SECOND,
    faults=FaultMix(
        weights={"partition": 4.0, "kill": 3.0, "power_loss": 2.0, "pause": 1.0, "loss": 1.0},
        targets={"leader": 4.0, "follower": 3.0, "any": 1.0},
        per_second=6.0,
        longest=400 * MILLISECOND,
    ),
)
"""Leaders fall while one node after the other loses its disk."""


class Answers(RaftCore):
    """A node on an empty disk votes and answers as before (raft.md#wiped-disk-votes)."""

    def _has_session(self) -> bool:
        return True


class Wiped(RaftCluster):
    """A cluster in which disks are lost, one at a time, and their nodes replaced."""

    lost: RaftNode | None = None

    def start(self) -> None:
        super().start()
        self.draw = self.simulation.random("wiped")
        self.replaced = 0
        self.simulation.after(600 * MILLISECOND, self._wipe)

    def _wipe(self) -> None:
        leader = self.leader()
        node = self.nodes[self.draw.randrange(len(self.nodes))]
        # With less than a majority of the others nobody could be replaced, and nothing is promised.
        healthy = leader is not None and leader.core.members.simple and leader.core.serving
        if healthy and len(leader.core.voters.current) == len(self.nodes) and node.host.running:
            self.lost = node
            self.record("crash", {"node": node.number})
            node.kill()
            self.record("fault", {"f": "wipe", "node": node.number})
            node.new_disk()
            largest = max(each.core.members.revision for each in self.nodes if each is not node)
            node._configuration = replace(node._configuration, voters=Voters(()), least_session=largest + 1)
            self.simulation.after(30 * MILLISECOND, node.start)
            self.simulation.after(60 * MILLISECOND, self._replace)
        else:
            self.simulation.after(20 * MILLISECOND, self._wipe)

    def _replace(self) -> None:
        """Ask whoever leads to remove the node, then to add it, until its session is a new one."""
        node, leader = self.lost, self.leader()
        assert node is not None
        if leader is not None and leader.core.members.simple:
            members = leader.core.members
            if members.session(node.number) >= node._configuration.least_session:
                if leader.core.commit >= leader.core.dirty:
                    self.replaced += 1
                    self.lost = None
                    self.simulation.after(300 * MILLISECOND, self._wipe)
                    return
            else:
                leave = node.number in members.voters.members
                leader.host.deliver(leader.change, "leave" if leave else "join", (node.number,))
        self.simulation.after(20 * MILLISECOND, self._replace)


def played(seed: int, make_core: type[RaftCore]) -> tuple[Wiped, Any, Any]:
    """A run, how it ended, and the verdict on it."""
    sink = MemorySink()
    recorder = Recorder(sink)
    cluster = Wiped(seed, SETTING, recorder, make_core)
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
    for seed in range(8, 12):
        cluster, outcome, verdict = played(seed, RaftCore)
        assert outcome.converged
        assert (wrong(verdict), lost(verdict)) == ([], 0)
        replaced += cluster.replaced
    assert replaced >= 8


def test_one_that_answers_as_before_loses_what_was_committed() -> None:
    assert any(lost(played(seed, Answers)[2]) for seed in (10, 9))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_is_lost_in_300_runs() -> None:
    for seed in range(300):
        _, outcome, verdict = played(seed, RaftCore)
        assert outcome.converged, seed
        assert (wrong(verdict), lost(verdict)) == ([], 0), seed
