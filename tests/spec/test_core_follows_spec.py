"""The comparison in the other direction: what the specification does, the Raft core does as well.

Trace validation asks whether the specification allows what the implementation did. Here TLC walks through the
specification at random, and the core has to follow: see core_replay.py for what a step becomes and what is compared.
Hypothesis chooses the kind of walk, the walk, how far it is followed, and all that the specification leaves open, so
what it shrinks a difference to is the beginning of a walk with as little chance in it as possible.
"""

from __future__ import annotations

import random
import re
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from core_replay import DifferenceError, Replay, State, state_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logspec.places import spec_directory
from logspec.tlavalue import parse_state
from logspec.tlc import run_tlc
from logspec.toolchain import find_toolchain
from quorumlog.events import CoreFactory
from quorumlog.protocol import Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.raft.mutants import offsets

SEED = 11


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of walks, and how many are taken."""

    number: int
    depth: int
    terms: int
    entries: int
    crashes: int
    power_losses: int
    write_caching: bool


FAULTS = Kind(number=20, depth=140, terms=6, entries=8, crashes=1, power_losses=2, write_caching=False)
"""Long ones, with crashes and power losses."""
TAILS = Kind(number=60, depth=90, terms=3, entries=5, crashes=0, power_losses=0, write_caching=False)
"""Short ones in few terms: leaders that are cut off, and what becomes of their entries."""
KINDS = [replace(kind, write_caching=caching) for caching in (False, True) for kind in (TAILS, FAULTS)]

STEPS = {
    *("UpdateTerm", "StandForElection", "GiveVote", "BecomeLeader", "AppendConfiguration", "ClientAppend"),
    *("HearReply", "Count", "FollowerAppend", "FollowerTruncate", "FollowerHearsCommit", "FollowerHearsVisible"),
    *("Flush", "Crash", "PowerLoss", "LeaveOffice"),
}
"""What the walks must contain; StepDown is too rare to be asked for."""

ENOUGH = 3
"""A fault that fewer walks show is found by luck; the next change of the specification makes other walks."""

UNSEEN = {
    "election-never-waits": "only time shows it: here every vote is saved at once",
    "read-unconfirmed": "a leader that is cut off seldom leads on until another one has acknowledged something; the "
    "model of this name and the simulator come to it",
}
"""Mutants that the walks do not show, and why."""


@cache
def walks(kind: Kind, seed: int = SEED) -> list[list[State]]:
    """Random walks; the same seed gives the same ones."""
    text = (Path(__file__).parent / "CoreWalk.tla").read_text()
    constants = {"Node": "{0, 1, 2}", "Nobody": "Nobody", "WriteCaching": str(kind.write_caching).upper()}
    constants |= {"MaxTerm": str(kind.terms), "MaxLog": str(kind.entries)}
    constants |= {"MaxCrashes": str(kind.crashes), "MaxPowerLosses": str(kind.power_losses)}
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
            brief=True,
            arguments=[
                "-simulate",
                f"file={directory}/walk,num={kind.number}",
                "-depth",
                str(kind.depth),
                "-seed",
                str(seed),
            ],
            seconds=300,
        )
        assert not outcome.errors, outcome.errors
        files = sorted(Path(directory).iterdir(), key=lambda file: int(file.name.rpartition("_")[2]))
        found = [_read(file) for file in files]
    assert len(found) >= kind.number
    return found


def _read(file: Path) -> list[State]:
    states = re.split(r"^STATE_\d+ ==\s*$", file.read_text().rpartition("\n====")[0], flags=re.MULTILINE)
    return [state_of(parse_state(state)) for state in states[1:]]


def follow(walk: list[State], kind: Kind, seed: int, make_core: CoreFactory = RaftCore) -> None:
    Replay(kind.write_caching, random.Random(seed).randrange, make_core).follow(walk)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.data())
def test_the_core_follows_the_walks_of_the_specification(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS), "kind of walk")
    number = data.draw(st.integers(0, kind.number - 1), f"walk of seed {SEED}")
    states = walks(kind)[number]
    length = data.draw(st.integers(2, len(states)), "followed up to step")

    def choose(n: int) -> int:
        return data.draw(st.integers(0, n - 1)) if n > 1 else 0

    Replay(kind.write_caching, choose).follow(states[:length])


@pytest.mark.parametrize("kind", KINDS)
def test_every_walk_is_followed_to_its_end(kind: Kind) -> None:
    for number, walk in enumerate(walks(kind)):
        follow(walk, kind, number)


@pytest.mark.parametrize("write_caching", [False, True])
def test_the_walks_take_every_step(write_caching: bool) -> None:
    taken = {
        state.step for kind in KINDS if kind.write_caching == write_caching for walk in walks(kind) for state in walk
    }
    assert taken >= STEPS


@pytest.mark.parametrize(
    "mutant", [each for each in offsets.MUTANTS if each.id not in UNSEEN], ids=lambda each: each.id
)
def test_a_mutant_leaves_the_walks(mutant: Mutant) -> None:
    leaving = (kind for kind in KINDS for number, walk in enumerate(walks(kind)) if _leaves(walk, kind, number, mutant))
    left = len([*islice(leaving, ENOUGH)])
    assert left == ENOUGH, f"{mutant.id} leaves {left} walks only: chance may miss it"


def _leaves(walk: list[State], kind: Kind, number: int, mutant: Mutant) -> bool:
    try:
        follow(walk, kind, number, mutant.make_core)
    except (DifferenceError, ValueError, LookupError):
        return True
    return False


@pytest.mark.long(2)
@pytest.mark.parametrize("seed", range(1, 11))
def test_more_walks(seed: int) -> None:
    for kind in KINDS:
        for number, walk in enumerate(walks(replace(kind, number=60), seed)):
            follow(walk, kind, number)
