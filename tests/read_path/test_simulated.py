"""Simulated runs of the read path: reproducible, they come to agree, and no reader misses what was acknowledged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from omniscient import problems

from loghistory import open_run
from loghistory.vocabularies.read_path import VOCABULARY
from logwitness import check
from quorumlog.durations import MICROSECOND, MILLISECOND, SECOND
from quorumlog.events import CoreFactory
from quorumlog.faults import Fault
from quorumlog.hunting.judge import Candidate, judge_seed
from quorumlog.hunting.simulate_command import simulate
from quorumlog.protocol import SWARM
from quorumlog.read_path.mutants.parts import with_cores
from quorumlog.read_path.protocol import PROTOCOL
from quorumlog.read_path.settings import SETTINGS, ReadPathConfiguration, ReadPathWorkload
from quorumlog.read_path.shard import ShardCore
from quorumlog.simulation.configuration import DiskTiming
from quorumlog.simulation.network import Link

_LOSING = (
    *("losses", "losses-in-scd", "late-rewinds", "long-grace", "rack-away", "lost-in-turn", "said-in-pieces"),
    *("back-without", "asleep-and-lost"),
)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_same_seed_gives_the_same_run_and_it_converges(setting: str) -> None:
    configuration = replace(SETTINGS[setting], duration=2 * SECOND)
    (one, outcome), (other, _) = (PROTOCOL.simulate(7, configuration) for _ in range(2))
    assert outcome.converged
    assert one.equals(other)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting not in _LOSING])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_every_acknowledged_record_is_delivered_once_and_in_order(setting: str, seed: int) -> None:
    table, outcome = PROTOCOL.simulate(seed, SETTINGS[setting])
    assert outcome.converged
    assert list(problems(table.to_pylist())) == []
    many = 5 if setting == "slow-disks" else 300 if SETTINGS[setting].duration > SECOND else 30
    assert outcome.counts["stream_record"] > many


class StoresAtOnce(ShardCore):
    """A shard that stores before it has read the event log."""

    knows_event_log = True


def acknowledged_by_the_empty(seed: int, make_core: CoreFactory | None) -> int:
    """Drain shard 0 again and again, and restart everybody once it is empty: so many records it acknowledges then."""
    everybody, faults = (0, 1, 2, 3), list[Fault]()
    for at in range(100, 1900, 300):
        faults.append(Fault(at * MILLISECOND, "drain", nodes=(0,), lasting=5 * SECOND))
        faults.append(Fault((at + 250) * MILLISECOND, "kill", nodes=everybody, lasting=5 * MILLISECOND))
    configuration = ReadPathConfiguration(
        shards=3,
        sequencers=1,
        readers=1,
        replication={"NODE": 2},
        spare=0,
        duration=2 * SECOND,
        plan=tuple(faults),
        link=Link(delay=50 * MICROSECOND, jitter=50 * MICROSECOND),
        disk=DiskTiming(least=50 * MICROSECOND, most=100 * MICROSECOND),
        client_delay=100 * MICROSECOND,
        workload=ReadPathWorkload(clients=5, think=MILLISECOND),
    )
    table, outcome = PROTOCOL.simulate(seed, configuration, make_core)
    assert outcome.converged
    (judged,) = check(table, ["empty-takes-nothing"], configuration=configuration.known_to_the_judge()).checks
    return judged.violated


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 16])
def test_a_shard_that_restarts_empty_acknowledges_nothing_before_it_knows(seed: int) -> None:
    """All of a copyset restart with the sequencer, so nobody remembers that one of them leaves."""
    assert acknowledged_by_the_empty(seed, None) == 0
    assert acknowledged_by_the_empty(seed, with_cores(shard=StoresAtOnce)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_what_a_swarm_draws_converges_and_loses_nothing(seed: int) -> None:
    table, outcome = PROTOCOL.simulate(seed, PROTOCOL.configured(SWARM, seed))
    assert outcome.converged
    assert list(problems(table.to_pylist())) == []


@pytest.mark.long(100)
@pytest.mark.parametrize("seed", [*range(6, 12), *range(100, 400)])
def test_many_runs_of_the_swarm(seed: int) -> None:
    test_what_a_swarm_draws_converges_and_loses_nothing(seed)


def test_what_is_lost_beyond_the_property_is_reported_as_loss() -> None:
    """More shards are wiped than a record has copies: the omniscient judge sees losses, and readers said so."""
    table, _ = PROTOCOL.simulate(10, SETTINGS["losses"])
    events = table.to_pylist()
    assert {e["f"] for e in events if e["kind"] == "stream_gap"} >= {"dataloss"}
    assert all("dataloss" in problem or "bridge" in problem for problem in problems(events))


@pytest.mark.slow
def test_a_run_shows_every_kind_of_event() -> None:
    kinds: Counter[str] = Counter()
    for setting, seed in (("default", 1), ("failover", 2), ("rebuilding", 1)):
        kinds.update(PROTOCOL.simulate(seed, SETTINGS[setting])[0]["kind"].to_pylist())
    for seed in range(6):
        kinds.update(PROTOCOL.simulate(seed, PROTOCOL.configured(SWARM, seed))[0]["kind"].to_pylist())
    rare = {"stream_slow", "stream_stall", "stream_grace"}
    assert {kind.word for kind in VOCABULARY.kinds} - rare - set(kinds) == set()


def test_the_command_simulates_it(tmp_path: Path) -> None:
    directory = str(tmp_path / "run")
    arguments = ["--seed", "7", "--protocol", "read-path", "--duration", "1s", "-o", directory]
    done = CliRunner().invoke(simulate, arguments)
    assert done.exit_code == 0, done.output
    assert open_run(directory).manifest.made_by["protocol"] == "read-path"


@pytest.mark.slow
def test_no_donor_is_done_while_a_recovery_stores_what_it_has_a_copy_of() -> None:
    """In this run all donors were done while a record, which a recovery was storing, was on one shard alone."""
    assert judge_seed(Candidate("read-path"), 3_000_071).rejections == ()
