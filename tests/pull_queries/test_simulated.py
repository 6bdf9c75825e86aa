"""Simulated servers with the Raft groups that feed them: reproducible, under every setting, and they come to agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from loghistory import open_run
from loghistory.vocabularies.pull_queries import VOCABULARY
from quorumlog.durations import SECOND
from quorumlog.faults import plan_from_json
from quorumlog.hunting.simulate_command import simulate
from quorumlog.protocol import SWARM, find
from quorumlog.pull_queries.protocol import PROTOCOL
from quorumlog.pull_queries.settings import SETTINGS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_same_seed_gives_the_same_run_and_it_converges(setting: str) -> None:
    configuration = replace(SETTINGS[setting], duration=3 * SECOND)
    (one, outcome), (other, _) = (PROTOCOL.simulate(7, configuration) for _ in range(2))
    assert outcome.converged
    assert one.equals(other)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 12))])
def test_what_a_swarm_draws_converges(seed: int) -> None:
    assert PROTOCOL.simulate(seed, PROTOCOL.configured(SWARM, seed))[1].converged


@pytest.mark.slow
def test_a_run_shows_every_kind_of_event() -> None:
    kinds: Counter[str] = Counter()
    wanted = {kind.word for kind in VOCABULARY.kinds} - {"give_up"}
    for setting, seed in [("lagging", 0), ("lagging", 1), ("lagging", 2), ("watched", 0)]:
        kinds.update(PROTOCOL.simulate(seed, SETTINGS[setting])[0]["kind"].to_pylist())
        if not wanted - set(kinds):
            break
    assert not wanted - set(kinds)


def test_while_the_active_is_down_a_standby_answers() -> None:
    """The active is killed at 3 s for 3 s; from its detection on queries of its partitions are complete again."""
    plan = plan_from_json('[{"at": "3s", "name": "kill", "nodes": ["leader"], "lasting": "3s"}]')
    quiet = replace(SETTINGS["default"].log_faults, weights={})
    configuration = replace(SETTINGS["default"], plan=plan, log_faults=quiet)
    events = PROTOCOL.simulate(3, configuration)[0].to_pylist()
    asked = {event["op"]: event for event in events if event["kind"] == "invoke" and event["f"] == "query"}
    (dead,) = {event["node"] for event in events if event["kind"] == "crash"}
    during = [op for op, event in asked.items() if 3.7e9 < event["time"] < 5.9e9 and event["node"] != dead]
    ended = {event["op"]: event["kind"] for event in events if event["kind"] in ("ok", "fail", "info")}
    unbounded = [op for op in during if '"bound":null' in asked[op]["text"]]
    assert len(unbounded) > 10
    assert {ended[op] for op in unbounded} == {"ok"}


def test_the_command_simulates_it_where_it_is_named_and_raft_where_nothing_is(tmp_path: Path) -> None:
    for arguments, protocol in [(["--protocol", "pull-queries"], "pull-queries"), ([], "raft")]:
        directory = str(tmp_path / protocol)
        done = CliRunner().invoke(simulate, ["--seed", "7", "--duration", "2s", *arguments, "-o", directory])
        assert done.exit_code == 0, done.output
        manifest = open_run(directory).manifest
        assert manifest is not None
        assert manifest.made_by["protocol"] == protocol
    assert find(setting="lagging") is PROTOCOL
    assert find(setting="default").name == "raft"
