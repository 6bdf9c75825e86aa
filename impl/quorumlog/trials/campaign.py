"""Runs for whoever spreads them over many machines: entry points of the group ``logwitness.runs``.

`play` makes the history of one seed and says how it was made and how to make it again; it judges nothing. `mutants`
says whose runs there are.
"""

from __future__ import annotations

import shlex
from typing import Any

from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.settings import SETTINGS
from quorumlog.simulation.runs import made_by, simulate
from quorumlog.trials.judging import (
    BREAKDOWN,
    CONVERGENCE,
    REFERENCE,
    Candidate,
    known_to_the_judge,
    said_of_breakdown,
    said_of_no_convergence,
)


def mutants() -> dict[str, dict[str, Any]]:
    """Every mutant by id: what is changed (``change``), and the ids of the checks that must notice (``checks``)."""
    return {id_: {"change": mutant.change, "checks": list(mutant.checks)} for id_, mutant in MUTANTS.items()}


def play(seed: int, mutant: str | None = None) -> dict[str, Any]:
    """One run of the reference, or of a mutant; the same arguments give the same events.

    ``table`` is its history (None: it broke off), ``configuration`` what a judge must know of it, ``made_by`` what
    belongs into a manifest, ``setting`` and ``command`` how to make it again. ``problem`` is None, or what went wrong
    besides anything in the history, as (kind, sentence). Raises KeyError for an unknown mutant.
    """
    candidate = Candidate(mutant=mutant)
    if mutant is not None and mutant not in MUTANTS:
        raise KeyError(mutant)
    setting = candidate.setting(seed)
    configuration = SETTINGS[setting]
    command = ["logwitness", "simulate", "--seed", str(seed), "--setting", setting]
    if mutant is not None:
        command += ["--mutant", mutant]
    played: dict[str, Any] = {
        "table": None,
        "configuration": known_to_the_judge(configuration),
        "made_by": made_by(seed, configuration, mutant),
        "setting": setting,
        "command": shlex.join(command),
        "problem": None,
    }
    try:
        played["table"], outcome = simulate(seed, configuration, candidate.make_core)
    except (LookupError, ValueError) as error:  # a core contradicts its own log
        played["problem"] = (BREAKDOWN, said_of_breakdown(error))
        return played
    if candidate == REFERENCE and not outcome.converged:
        played["problem"] = (CONVERGENCE, said_of_no_convergence(configuration))
    return played
