"""Runs for a campaign that spreads them over many machines: entry points of the group ``logwitness.runs``.

`protocol` says which protocol is meant, `mutants` whose runs there are, and `play` makes the history of one seed and
says how it was made and how to reproduce it; it judges nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

from quorumlog.hunting.judge import (
    BREAKDOWN,
    CONVERGENCE,
    LIVELOCK,
    RUN_SECONDS,
    Candidate,
    breakdown_sentence,
    known_to_the_judge,
    no_convergence_sentence,
    no_end_sentence,
    simulate_command,
)
from quorumlog.hunting.parallel import within
from quorumlog.protocol import ProtocolError, find, load
from quorumlog.rules_file import read_rules
from quorumlog.simulation.runs import made_by


def protocol(name: str | None = None, *, mutants: Collection[str] = (), rules: Path | None = None) -> str:
    """The name of the protocol that is meant by a name, by mutants or by a file of rules.

    Raises ValueError, in one line, if none or several are meant, or the file gives no rules.
    """
    if rules is not None:
        return read_rules(rules, name)[0].name
    found = {find(name, mutant=mutant).name for mutant in mutants} or {find(name).name}
    if len(found) > 1:
        raise ProtocolError(
            f"the mutants belong to {' and '.join(sorted(found))}; name those of one protocol at a time"
        )
    return found.pop()


def mutants(protocol: str) -> dict[str, dict[str, Any]]:
    """Every mutant by id: what is changed (``change``), and the ids of the checks that must notice (``checks``)."""
    known = load(protocol).hunted
    return {id_: {"change": mutant.change, "checks": list(mutant.checks)} for id_, mutant in known.items()}


def play(protocol: str, seed: int, mutant: str | None = None) -> dict[str, Any]:
    """One run of the reference, or of a mutant; the same arguments give the same events.

    ``table`` is its history (None: it broke off, or did not end), ``configuration`` what a judge must know of it,
    ``made_by`` what belongs in a manifest, ``setting`` and ``command`` how to reproduce it. ``problem`` is None, or
    what went wrong apart from what the history shows, as (kind, sentence). Raises KeyError for an unknown mutant.
    """
    candidate = Candidate(protocol, mutant)
    if mutant is not None and mutant not in candidate.of.hunted:
        raise KeyError(mutant)
    setting, configuration = candidate.setting(seed), candidate.configuration(seed)
    played: dict[str, Any] = {
        "table": None,
        "configuration": known_to_the_judge(protocol, configuration),
        "made_by": made_by(protocol, seed, configuration, mutant),
        "setting": setting,
        "command": shlex.join(simulate_command(candidate, seed, setting)),
        "problem": None,
    }
    try:
        with within(RUN_SECONDS):
            played["table"], outcome = candidate.played.simulate(seed, configuration)
    except TimeoutError:
        played["problem"] = (LIVELOCK, no_end_sentence())
        return played
    except (LookupError, ValueError) as error:  # a core contradicts its own log
        played["problem"] = (BREAKDOWN, breakdown_sentence(error))
        return played
    if outcome.livelock:
        played["problem"] = (LIVELOCK, outcome.livelock)
    elif candidate.is_reference and not outcome.converged:
        played["problem"] = (CONVERGENCE, no_convergence_sentence(configuration))
    return played
