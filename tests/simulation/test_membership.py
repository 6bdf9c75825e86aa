"""Groups whose members change under faults: the reference survives, and in the end who is a member has everything."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorumlog.faults import CHANGES
from quorumlog.hunting.judge import Candidate, judge_run
from quorumlog.protocol import SWARM
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.simulation.loop import derived_random

REFERENCE = Candidate("raft")
MANY = 2000


def drawn(seed: int) -> RaftConfiguration:
    """A configuration of the swarm in which nodes join and leave as well."""
    configuration = PROTOCOL.configured(SWARM, seed)
    assert isinstance(configuration, RaftConfiguration)
    draw = derived_random(seed, "members")
    nodes = draw.randint(2, 7)
    mix = configuration.faults
    total = sum(mix.weights.values())
    changes = {name: round(total * draw.uniform(0.1, 1.0), 2) for name in sorted(CHANGES)}
    voters = tuple(range(draw.randint(1, nodes)))
    return replace(configuration, nodes=nodes, voters=voters, faults=replace(mix, weights=mix.weights | changes))


def survives(seed: int) -> None:
    for name, configuration in (
        ("members", SETTINGS["members"]),
        ("members-leave", SETTINGS["members-leave"]),
        ("snapshots", SETTINGS["snapshots"]),
        (SWARM, drawn(seed)),
    ):
        judged = judge_run(REFERENCE, seed, name, configuration)
        assert judged.rejections == (), f"seed {seed} under {name}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_the_reference_survives_changes_of_its_members(seed: int) -> None:
    survives(seed)


@pytest.mark.long(1)
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("first", range(0, MANY, 200))
def test_the_reference_survives_2000_seeds(first: int) -> None:
    for seed in range(first, first + 200):
        survives(seed)


def test_members_come_and_go() -> None:
    """So that there is something to survive: nodes join, lead and leave."""
    texts: set[str] = set()
    leaders: set[int] = set()
    for seed in range(4):
        table, outcome = PROTOCOL.simulate(seed, SETTINGS["members"])
        assert outcome.converged
        for kind, node, text in zip(*(table[name].to_pylist() for name in ("kind", "node", "text")), strict=True):
            if kind == "configuration":
                texts.add(text)
            elif kind == "leader":
                leaders.add(node)
    assert any(" old " in text for text in texts)
    assert any(" learners " in text for text in texts)
    assert leaders - {*range(3)}, "a node that was added leads"
