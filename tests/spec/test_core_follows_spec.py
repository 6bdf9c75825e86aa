"""The comparison in the other direction: what the specification does, the Raft core does as well.

Trace validation asks whether the specification allows what the implementation did. Here TLC walks through the
specification at random, and the core has to follow: see core_replay.py for what a step becomes and what is compared.
Hypothesis chooses the walk, how far it is followed, and all that the specification leaves open.
"""

from __future__ import annotations

import random
import re
import tempfile
from functools import cache
from pathlib import Path

import pytest
from core_replay import DifferenceError, Replay, State, state_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logspec.places import spec_directory
from logspec.tlavalue import parse_state
from logspec.tlc import run_tlc
from logspec.toolchain import find_toolchain
from quorumlog.mutants import MUTANTS, Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.simulation.raft_node import CoreFactory

SEED = 11
WALKS = 24
DEPTH = 140

STEPS = {
    *("UpdateTerm", "StandForElection", "GiveVote", "BecomeLeader", "AppendConfiguration", "ClientAppend"),
    *("HearReply", "Count", "FollowerAppend", "FollowerTruncate", "FollowerHearsCommit", "FollowerHearsVisible"),
    *("Flush", "Crash", "PowerLoss"),
}
"""What the walks must contain; StepDown is too rare to be asked for."""


@cache
def walks(write_caching: bool, seed: int = SEED, number: int = WALKS) -> list[list[State]]:
    """Random walks; the same seed gives the same ones."""
    text = (Path(__file__).parent / "CoreWalk.tla").read_text()
    constants = {"Node": "{0, 1, 2}", "Nobody": "Nobody", "WriteCaching": str(write_caching).upper()}
    constants |= {"MaxTerm": "6", "MaxLog": "8", "MaxCrashes": "1", "MaxPowerLosses": "2"}
    configuration = "INIT WalkInit\nNEXT WalkNext\n"
    configuration += "".join(f"CONSTANT {name} = {value}\n" for name, value in constants.items())
    module = spec_directory() / "raft" / "CoreWalk.tla"  # run beside the modules that it extends
    with tempfile.TemporaryDirectory(prefix="core-walk-") as directory:
        outcome = run_tlc(
            find_toolchain(),
            module,
            configuration,
            extra_modules={"CoreWalk": text},
            workers=1,
            coverage=False,
            arguments=["-simulate", f"file={directory}/walk,num={number}", "-depth", str(DEPTH), "-seed", str(seed)],
            seconds=300,
        )
        assert not outcome.errors, outcome.errors
        files = sorted(Path(directory).iterdir(), key=lambda file: int(file.name.rpartition("_")[2]))
        found = [_read(file) for file in files]
    assert len(found) >= number
    return found


def _read(file: Path) -> list[State]:
    states = re.split(r"^STATE_\d+ ==\s*$", file.read_text().rpartition("\n====")[0], flags=re.MULTILINE)
    return [state_of(parse_state(state)) for state in states[1:]]


def follow(walk: list[State], write_caching: bool, seed: int, make_core: CoreFactory = RaftCore) -> None:
    Replay(write_caching, random.Random(seed).randrange, make_core).follow(walk)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.data())
def test_the_core_follows_the_walks_of_the_specification(data: st.DataObject) -> None:
    write_caching = data.draw(st.booleans(), "write caching")
    walk = data.draw(st.sampled_from(range(WALKS)), f"walk of seed {SEED}")
    states = walks(write_caching)[walk]
    length = data.draw(st.integers(2, len(states)), "followed up to step")

    def choose(n: int) -> int:
        return data.draw(st.integers(0, n - 1)) if n > 1 else 0

    Replay(write_caching, choose).follow(states[:length])


@pytest.mark.parametrize("write_caching", [False, True])
def test_every_walk_is_followed_to_its_end(write_caching: bool) -> None:
    for number, walk in enumerate(walks(write_caching)):
        follow(walk, write_caching, number)


@pytest.mark.parametrize("write_caching", [False, True])
def test_the_walks_take_every_step(write_caching: bool) -> None:
    taken = {state.step for walk in walks(write_caching) for state in walk}
    assert taken >= STEPS


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_a_mutant_leaves_the_walks(mutant: Mutant) -> None:
    for write_caching in (False, True):
        for number, walk in enumerate(walks(write_caching)):
            try:
                follow(walk, write_caching, number, mutant.make_core)
            except (DifferenceError, ValueError, LookupError):
                return
    pytest.fail(f"{mutant.id} follows every walk")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_more_walks(seed: int) -> None:
    for write_caching in (False, True):
        for number, walk in enumerate(walks(write_caching, seed, 60)):
            follow(walk, write_caching, number)
