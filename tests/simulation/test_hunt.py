"""The reference survives; every mutant is caught, and by the check that is stated with it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from quorumlog.durations import MILLISECOND
from quorumlog.events import Effect, Event, LogRead, Received, Send, SetTimer, TimerFired
from quorumlog.faults import CHANGES, KINDS, Fault
from quorumlog.hunting import campaign, judge
from quorumlog.hunting.hunt import hunt
from quorumlog.hunting.judge import CONVERGENCE, LIVELOCK, Candidate, judge_run, judge_seed, judge_table
from quorumlog.hunting.shrinking import FEW, shrunk
from quorumlog.hunting.simulate_command import simulate
from quorumlog.hunting.survey import hunted
from quorumlog.protocol import SWARM, Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.raft.messages import HeartbeatReply
from quorumlog.raft.mutants import offsets, trimming
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.simulation import cluster
from quorumlog.simulation.configuration import configuration_from_json, configuration_to_json

REFERENCE = Candidate("raft")
SEEDS = 40
GROUP = 20
MANY = 10_000


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_the_reference_survives(first: int) -> None:
    for seed in range(first, first + GROUP):
        assert judge_seed(REFERENCE, seed).rejections == ()


def test_how_often_a_run_is_looked_at_does_not_change_what_is_said_of_it() -> None:
    (often, pieces), (seldom, fewer) = (_looked_at(1, seldom=seldom) for seldom in (False, True))
    assert often == seldom
    assert len(pieces) > len(fewer)
    assert sum(pieces) == sum(fewer)


class TakenForReference(Candidate):
    """A mutant that is looked at as seldom as the reference."""

    is_reference = True


def test_a_run_of_the_reference_that_is_rejected_is_one_up_to_its_first_violation() -> None:
    mutant, taken = (kind("raft", "commit-counts-dirty", under="default") for kind in (Candidate, TakenForReference))
    found = judge_seed(mutant, 0)
    assert found.rejections
    assert found.rejections[0].time < SETTINGS["default"].duration
    assert judge_seed(taken, 0) == found


def _looked_at(seed: int, *, seldom: bool) -> tuple[dict[str, Any], list[int]]:
    """What is said of a run of the reference, and how many events were shown each time."""
    configuration, pieces = REFERENCE.configuration(seed), []
    watch = judge.load_watch()(None, configuration=judge.known_to_the_judge("raft", configuration))

    def feed(batch: pa.RecordBatch) -> bool:
        pieces.append(batch.num_rows)
        return bool(watch.feed(batch))

    PROTOCOL.watch(seed, configuration, RaftCore, feed, seldom=seldom)
    document: dict[str, Any] = watch.document()
    return document, pieces


@pytest.mark.long(2)
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("first", range(SEEDS, MANY, 500))
def test_the_reference_survives_10000_seeds(first: int) -> None:
    for seed in range(first, min(first + 500, MANY)):
        assert judge_seed(REFERENCE, seed).rejections == (), f"seed {seed}"


@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_the_reference_survives_compaction(first: int) -> None:
    compacted = Candidate("raft", under="compacted")
    for seed in range(first, first + 100):
        assert judge_seed(compacted, seed).rejections == (), f"seed {seed}"


def test_the_reference_exercises_every_check_of_replicas() -> None:
    exercised: set[str] = set()
    declared: set[str] = set()
    wanted = {check for mutant in offsets.MUTANTS for check in mutant.checks}
    for seed, setting in enumerate(SETTINGS.values()):
        table, _ = PROTOCOL.simulate(seed, setting)
        for check in judge_table("raft", table, setting)["checks"]:
            declared.add(check["id"])
            if check["judged"]:
                exercised.add(check["id"])
        if wanted <= exercised:
            break
    assert wanted <= exercised
    assert declared >= exercised


HARD = 16
"""A mutant that may need more seeds than these is left to `make test-long`, or `make test-night`."""
LATER = [pytest.mark.long(16), pytest.mark.timeout(3600)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=id_, marks=LATER if mutant.seeds > HARD else [])
        for id_, mutant in PROTOCOL.hunted.items()
        if not mutant.test  # a hunt seldom comes to it
    ],
)
def test_a_mutant_is_caught_by_its_check(mutant: Mutant) -> None:
    found = hunt(Candidate("raft", mutant.id), range(mutant.seeds), processes=1)
    assert found is not None, f"{mutant.id} survived"
    assert found.check in mutant.checks


BEFORE = (
    *("default", "leaders-fall", "five-nodes", "lost-power", "write-caching"),
    *("stale-votes", "long-tails", "duplicates"),
)
"""Settings of the hunts before the swarm: no log is trimmed, no file damaged."""
UNREACHED = [*(each.id for each in trimming.MUTANTS if each.checks), "missing-vote-forgotten", "damaged-vote-forgotten"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, len(BEFORE)))])
def test_some_mutants_go_beyond_any_number_of_seeds_of_the_hunts_before_the_swarm(seed: int) -> None:
    setting = SETTINGS[BEFORE[seed]]
    assert {"trim", "flipped_bit", "lost_name"}.isdisjoint(setting.faults.weights)
    expected = PROTOCOL.simulate(seed, setting)[0]
    assert len(UNREACHED) >= 12
    for mutant in UNREACHED:
        assert PROTOCOL.mutated(mutant).simulate(seed, setting)[0] == expected, f"{mutant} does something else"


@pytest.mark.slow
def test_shrinking_leaves_few_faults_and_keeps_the_verdict() -> None:
    mutant = Candidate("raft", "ack-on-term-change", under="leaders-fall")
    found = hunt(mutant, range(100), processes=1)
    assert found is not None
    small = shrunk(mutant, found)
    assert len(small.plan) <= FEW < len(found.plan)
    again = judge_run(mutant, small.seed, small.setting, small.configuration)
    assert again.rejections[0] == small
    assert judge_run(REFERENCE, small.seed, small.setting, small.configuration).rejections == ()


def test_a_run_that_is_cut_short_has_no_faults_behind_its_end() -> None:
    mutant = Candidate("raft", "follower-commit-unclamped", under="default")
    (found,) = judge_seed(mutant, 0).rejections
    cut = shrunk(mutant, found, attempts=1)
    assert cut.configuration.duration < found.configuration.duration
    assert cut.plan == tuple(fault for fault in found.plan if fault.at < found.time) != found.plan
    by_another = dataclasses.replace(found, check="another of the mutant's")
    assert shrunk(mutant, by_another, attempts=1) == cut, "a mutant may be shown by any of its checks"


def test_every_third_seed_takes_a_setting_in_turn_and_the_others_the_swarm() -> None:
    turns = [REFERENCE.setting(seed) for seed in range(3 * len(SETTINGS) + 3)]
    assert turns[::3] == [*SETTINGS, next(iter(SETTINGS))]
    assert {*turns[1::3], *turns[2::3]} == {SWARM}


def test_a_run_ends_at_its_first_violation_and_is_the_beginning_of_the_whole_one() -> None:
    mutant = Candidate("raft", "follower-commit-unclamped", under="default")
    judged = judge_seed(mutant, 0)
    (found,) = judged.rejections
    assert 0 < found.time < found.configuration.duration
    table, outcome = mutant.played.simulate(0, found.configuration)
    assert outcome.time > found.time
    whole = judge_table("raft", table, found.configuration, mutant.checks)["checks"][0]["violations"][0]
    assert (whole["sentence"], tuple(whole["events"])) == (found.sentence, found.events)


def test_a_node_that_is_cut_off_when_the_run_is_stopped_takes_no_violation_back() -> None:
    """It records nothing then, which is not to say that it is not recorded any more."""
    rules = Path(__file__).parents[2] / "docs" / "examples" / "unclamped_visibility.py"
    assert [
        each.check for each in judge_seed(Candidate("raft", rules=str(rules), under="default"), 171).rejections
    ] == ["visible-on-majority"]


def test_every_seed_of_the_swarm_draws_its_own_configuration() -> None:
    drawn = [PROTOCOL.configured(SWARM, seed) for seed in range(200)]
    assert drawn == [PROTOCOL.configured(SWARM, seed) for seed in range(200)]
    faults = {frozenset(each.faults.weights) for each in drawn}
    assert len(faults) > 150
    assert frozenset().union(*faults) == set(KINDS) - CHANGES - {"compact"}
    assert {each.nodes for each in drawn} == {1, 2, 3, 4, 5}
    assert {each.write_caching for each in drawn} == {False, True}
    for each in drawn:
        plain = json.loads(json.dumps(configuration_to_json(each)))
        assert configuration_from_json(plain, RaftConfiguration) == each


def test_rounds_and_chunks_of_the_swarm_hold_several_batches_and_not_all() -> None:
    seen = Counter[str]()

    class Watched(RaftCore):
        def _drain(self) -> None:
            before = len(self._queue)
            super()._drain()
            seen["round with the rest left over"] += bool(self._queue) and before - len(self._queue) > 1

        def _enqueue_timer_fired(self) -> None:
            waiting = self._budget.deadline
            super()._enqueue_timer_fired()
            seen["no memory in time"] += waiting is not None and waiting <= self.now

        def _log_read(self, event: LogRead) -> None:
            some = len(event.batches) > 1 and event.batches[-1].last_offset < self.dirty
            seen["chunk with the rest left over"] += some
            super()._log_read(event)

    for seed in range(25, 33):
        PROTOCOL.simulate(seed, PROTOCOL.configured(SWARM, seed), Watched)
    assert min(seen.values()) > 0, seen


def test_what_was_read_for_a_follower_before_it_fell_back_is_not_sent_behind_a_ghost() -> None:
    """Of 10,000 runs the one that showed it: a leader took what a late read left out for a gap of its log."""
    assert judge_seed(Candidate("raft", under="default"), 2088).rejections == ()


def test_another_schedule_is_another_run_of_the_same_faults() -> None:
    plan = (Fault(100 * MILLISECOND, "kill", ("leader",)),)
    configuration = replace(SETTINGS["default"], duration=300 * MILLISECOND, plan=plan)
    one, other = (PROTOCOL.simulate(1, replace(configuration, schedule=number))[0] for number in (0, 1))
    assert one.to_pylist() != other.to_pylist()
    assert [row["f"] for row in other.to_pylist() if row["kind"] == "fault"] == ["kill"]


def test_shrinking_keeps_the_check_that_rejected_the_run(tmp_path: Path) -> None:
    """With these rules every run is rejected, whatever its faults, but by another check than the one to be kept."""
    rules = tmp_path / "mine.py"
    rules.write_text("def log_ok(last_term, dirty, own_last_term, own_dirty):\n    return False\n")
    mine = Candidate("raft", rules=str(rules))
    found = next(each for each in judge_seed(mine, 0).rejections if each.check == CONVERGENCE)
    small = shrunk(mine, found, attempts=3)
    assert small != found
    assert small.configuration.duration <= found.configuration.duration < found.time
    lost = dataclasses.replace(found, check="lost-write")
    assert shrunk(mine, lost, attempts=3) == lost


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["leaders-fall", pytest.param("groups", marks=pytest.mark.long)])
def test_a_livelock_rejects_a_run_and_says_what_repeats(
    setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    handle = RaftCore.handle

    def spinning(core: RaftCore, now: int, event: Event) -> list[Effect]:
        effects = handle(core, now, event)
        at_once = event == TimerFired("heartbeat") and core.role == "leader" and core.term > 1
        return [*effects, SetTimer("heartbeat", 0)] if at_once else effects

    monkeypatch.setattr(RaftCore, "handle", spinning)
    reference = Candidate("raft", under=setting)
    found = hunt(reference, range(3), processes=1)
    assert found is not None
    assert found.check == LIVELOCK
    said = r"on 1000 steps take 0 ns of virtual time, 1000 of them timer heartbeat of node (\d)"
    state = r"; node \1 stays at term \d+, role leader, dirty \d+, flushed \d+, commit \d+, visible \d+$"
    assert re.search(said + ("" if setting == "groups" else state), found.sentence)
    small = shrunk(reference, found, attempts=30)
    assert small.check == LIVELOCK
    assert len(small.plan) <= FEW < len(found.plan)
    assert small.configuration.duration < found.configuration.duration
    if setting != "groups":
        monkeypatch.setattr(Candidate, "configuration", lambda *_: small.configuration)
        played = campaign.play("raft", small.seed)
        assert played["problem"] == (LIVELOCK, small.sentence)
        assert hunted(Candidate("raft", "ack-without-term"), budget=60).check == LIVELOCK
        shown = ["--seed", str(small.seed), "--setting", setting, "-o", str(tmp_path / "run")]
        assert "livelock" in CliRunner().invoke(simulate, shown).output


@pytest.mark.slow
def test_a_step_without_an_end_is_a_livelock(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(core: RaftCore, now: int, event: Event) -> list[Effect]:
        while core:
            pass
        return []

    monkeypatch.setattr(RaftCore, "handle", handle)
    monkeypatch.setattr(judge, "RUN_SECONDS", 0.3)
    monkeypatch.setattr(campaign, "RUN_SECONDS", 0.3)
    found = hunt(REFERENCE, range(1), processes=1)
    assert found is not None
    assert (found.check, found.sentence) == (LIVELOCK, judge.no_end_sentence())
    assert campaign.play("raft", 0)["problem"] == (LIVELOCK, judge.no_end_sentence())
    assert hunted(Candidate("raft", "ack-without-term"), budget=60).check == LIVELOCK


@pytest.mark.parametrize("recorded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_storm_of_messages_is_a_livelock(recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = RaftCore.handle

    def echoing(core: RaftCore, now: int, event: Event) -> list[Effect]:
        effects = handle(core, now, event)
        heard = isinstance(event, Received) and isinstance(event.message, HeartbeatReply)
        return [*effects, *(Send(1 - core.configuration.node, event.message) for _ in range(2 * heard))]

    monkeypatch.setattr(RaftCore, "handle", echoing)
    monkeypatch.setattr(cluster, "CROWD", 2000)
    configuration = RaftConfiguration(nodes=2, plan=(), messages=recorded)
    found = judge_run(REFERENCE, 1, "default", configuration).rejections[0]
    assert found.check == LIVELOCK
    said = r"\d of them HeartbeatReply from node \d to node (\d).*; node \1 (stays at|moves:) term"
    assert re.search(said, found.sentence)
