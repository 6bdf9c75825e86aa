"""Hunts as they were before the swarm: each of the settings that there were then, in turn."""

from __future__ import annotations

import time

from quorumlog.hunting.judge import Candidate, judge_seed
from quorumlog.raft.mutants import trimming

SETTINGS = (
    *("default", "leaders-fall", "five-nodes", "lost-power", "write-caching"),
    *("stale-votes", "long-tails", "duplicates"),
)

HARD = (
    *("visible-unclamped", "flush-ignores-truncation", "vote-twice", "read-unconfirmed", "election-never-waits"),
    *("half-elects", "quorum-one-off", "no-check-quorum", "candidate-keeps-vote", "replicated-old-term"),
    *("truncate-promises-one-more", "trim-promises-too-much", "late-replies-count"),
)
"""Mutants that one run in a few did not show then. Those of logs that begin anew, and of damaged files, are not among
them: those runs have neither."""


UNREACHED = (
    *(mutant.id for mutant in trimming.MUTANTS if mutant.checks),
    *("missing-vote-forgotten", "damaged-vote-forgotten"),
)
"""Mutants that no number of seeds showed then, since they do what the reference does in those runs."""


def hunted_before(mutant: str, seeds: int) -> tuple[str, int, str]:
    """The check that caught a mutant (empty: none did), after how many seeds and seconds of processor time."""
    began, check, tried = time.process_time(), "", 0
    for seed in range(seeds):
        tried += 1
        found = judge_seed(Candidate("raft", mutant, under=SETTINGS[seed % len(SETTINGS)]), seed).rejections
        if found:
            check = found[0].check
            break
    return check, tried, f"{time.process_time() - began:.1f}"
