"""`make mutants`: hunts every mutant and writes docs/mutants.md, which says who notices it and what that costs.

    python tests/mutants [--processes N] [--budget SECONDS]

A mutant is hunted with the seeds from 0 on, no longer than its bound of seeds and the budget of processor seconds (10).
What no history shows is left to its test. Models and proofs are named as the catalogue has them; they are not run here.
The reference is put through 200 runs of the same kind, judged by every check. All of it takes about five minutes of
processor time. The page is replaced at the end, in one step. The exit status is 0 only if each mutant was noticed and
the reference was not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from logspec.catalogue import mutants_of_models, mutants_of_proofs
from quorumlog.protocol import Mutant
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.trials.judge import Candidate, judge_seed
from quorumlog.trials.parallel import in_order
from quorumlog.trials.survey import Hunted, hunted

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mutants.md"
BUDGET = 10.0
REFERENCE_SEEDS = 200


def page(found: Sequence[Hunted], reference: int) -> Iterator[str]:
    """The lines of docs/mutants.md."""
    hunts = {each.candidate.mutant: each for each in found}
    models, proofs = mutants_of_models(), mutants_of_proofs()
    caught = sum(bool(each.check) for each in found)
    yield from (
        "# Mutants",
        "",
        "Made by `make mutants`; do not edit. Each mutant is one change of the reference",
        "([what it changes](rules/raft.md#mutants)). Who notices it:",
        "",
        "- history check: `logwitness hunt --mutant NAME` finds a recorded run that the check rejects, at this seed",
        "  (they count from 0) and after so many processor seconds, compiling not counted;",
        "- model: TLC refutes a model of that name (`logwitness spec check`); proof: the solver refutes a twin of it;",
        "- test: a test plays the few steps that it needs, since no history shows it ([why](catalogue.md)), or",
        "  hunts seldom come to it.",
        "",
        f"{len(MUTANTS)} mutants; {caught} of {len(found)} hunts ended with a rejected run within the seeds and the",
        f"time that `make mutants` allows; the reference survived {reference} seeds of the same kind.",
        "",
        "Twelve of them do what the reference does unless a log is trimmed or a file damaged or lost. Hunts before the",
        "swarm had no such fault, so no number of their seeds shows those (tests/simulation/test_hunt.py).",
        "",
        "| mutant | history check | seed | processor s | model | proof | test | a real system's |",
        "|---|---|--:|--:|---|---|---|---|",
    )
    for mutant in MUTANTS.values():
        yield f"| {' | '.join(_cells(mutant, hunts.get(mutant.id), models, proofs))} |"


def _cells(mutant: Mutant, hunt: Hunted | None, models: set[str], proofs: set[str]) -> Iterator[str]:
    yield f"[{mutant.id}](rules/raft.md#{mutant.id})"
    if hunt is None:
        yield from ("", "", "")
    elif hunt.check:
        yield from (hunt.check, str(hunt.seed), f"{hunt.processor_seconds:.1f}")
    else:
        yield from ("survived", f"0 to {hunt.seed}", f"{hunt.processor_seconds:.1f}")
    yield "yes" if mutant.id in models else ""
    yield "yes" if mutant.id in proofs else ""
    yield f"[{Path(mutant.test).stem}](../{mutant.test})" if mutant.test else ""
    yield f"[{_place(mutant.thread)}]({mutant.thread})" if mutant.thread else ""


def _place(thread: str) -> str:
    """``owner/name#number`` of an address; of any other address its end."""
    owner, name, *_, number = thread.partition("://")[2].split("/")[-4:]
    return f"{owner}/{name}#{number}" if "github.com" in thread else number


def main() -> int:
    """Hunt, show each hunt as it ends, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--budget", type=float, default=BUDGET, help="processor seconds for one mutant")
    parser.add_argument("--reference", type=int, default=REFERENCE_SEEDS, help="seeds of the reference")
    asked = parser.parse_args()
    seeds = asked.reference
    found: list[Hunted] = []
    list(page(found, 0))  # what would fail at the end fails now
    names = [Candidate("raft", mutant) for mutant in PROTOCOL.hunted]
    warm = [names[0]] * 2 * asked.processes  # the first hunt of a process pays for what it loads
    hunts = in_order(partial(hunted, budget=asked.budget), [*warm, *names], asked.processes)
    for each in islice(hunts, len(warm), None):
        found.append(each)
        how = f"{each.check} at seed {each.seed}" if each.check else f"survived seeds 0 to {each.seed}"
        print(
            f"{len(found):3} of {len(names)}  {each.candidate.mutant}: {how}, {each.processor_seconds:.1f} s",
            flush=True,
        )
    survived = 0
    for seed, judged in enumerate(in_order(partial(judge_seed, Candidate("raft")), range(seeds), asked.processes)):
        survived += not judged.rejections
        if judged.rejections:
            print(f"the reference is rejected at seed {seed}", flush=True)
        elif seed % 50 == 49:
            print(f"the reference: {seed + 1} of {seeds} seeds", flush=True)
    new = PAGE.with_suffix(".new")
    new.write_text("\n".join(page(found, survived)) + "\n", encoding="utf-8")
    new.replace(PAGE)
    print(f"{sum(bool(each.check) for each in found)} of {len(found)} were caught; written: {PAGE.relative_to(ROOT)}")
    return (
        0 if all(each.check or MUTANTS[str(each.candidate.mutant)].test for each in found) and survived == seeds else 1
    )


if __name__ == "__main__":
    sys.exit(main())
