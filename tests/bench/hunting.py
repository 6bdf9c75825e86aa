"""Seeds a second of processor time, simulated and judged, and what it takes to kill mutants that hide well.

The swarm, in which every seed draws its own configuration, against the settings that hunts went by before, each in
turn; all in one process, in which the judge has loaded its compiled loops, if this machine has made them. A mutant is
hunted from seed 0 on with the same budget of processor time under both; a bound means that it survived.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from quorumlog.hunting.judge import Candidate, judge_seed
from quorumlog.protocol import SWARM
from quorumlog.raft.protocol import PROTOCOL

HARD = (
    *("visible-unclamped", "flush-ignores-truncation", "vote-twice", "read-unconfirmed", "election-never-waits"),
    *("half-elects", "quorum-one-off", "no-check-quorum", "candidate-keeps-vote", "replicated-old-term"),
    *("truncate-promises-one-more", "trim-promises-too-much", "late-replies-count"),
)
"""Those that one run in a few did not show before the swarm, or none; docs/mutants.md has more of them."""

BEFORE = (
    *("default", "leaders-fall", "five-nodes", "lost-power", "write-caching"),
    *("stale-votes", "long-tails", "duplicates"),
)
"""The settings that there were before the swarm."""

BOTH = (SWARM, "before")


def settings(name: str, seeds: range) -> list[tuple[int, str]]:
    """Seeds, each with its setting."""
    return [(seed, SWARM if name == SWARM else BEFORE[seed % len(BEFORE)]) for seed in seeds]


def rate(name: str, seeds: range) -> float:
    """Runs of the reference, judged, a second of processor time."""
    begun = time.process_time()
    for seed, setting in settings(name, seeds):
        judge_seed(Candidate("raft", under=setting), seed)
    return len(seeds) / (time.process_time() - begun)


def kill(mutant: str, name: str, budget: float) -> tuple[bool, float, int]:
    """Whether the mutant was caught, after how many seconds of processor time, in how many runs."""
    begun, tried = time.process_time(), 0
    for seed, setting in settings(name, range(1 << 20)):
        tried += 1
        caught = bool(judge_seed(Candidate("raft", mutant, under=setting), seed).rejections)
        took = time.process_time() - begun
        if caught or took > budget:
            break
    return caught, took, tried


def main() -> None:
    """Measure and print a table, then JSON."""
    parser = argparse.ArgumentParser(description="seeds a second, and seconds to a kill")
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    runs, rounds, budget = (40, 1, 10.0) if quick else (100, 3, 30.0)
    rate(SWARM, range(200 if quick else 2000, 280 if quick else 2120))  # long enough for the judge to load its loops
    rates = {
        name: [rate(name, range(at * runs, (at + 1) * runs)) for at in range(rounds)] for name in (SWARM, "before")
    }
    figures: dict[str, object] = {}
    for name, found in rates.items():
        figures[f"seeds_per_second_{name}"] = round(statistics.median(found), 1)
        print(f"{name:<8} {statistics.median(found):6.1f} seeds a second of processor time, simulated and judged")
    kills: dict[str, dict[str, float | None]] = {}
    for mutant in HARD:
        assert mutant in PROTOCOL.mutants
        kills[mutant] = {}
        for name in BOTH:
            caught, took, tried = kill(mutant, name, budget)
            kills[mutant][name] = round(took, 1) if caught else None
            print(f"  {mutant:<34} {name:<8} {'' if caught else '>':>1}{took:6.1f} s  {tried} runs", flush=True)
    print(json.dumps({**figures, "seconds_to_a_kill": kills}))


if __name__ == "__main__":
    main()
