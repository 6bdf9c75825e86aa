"""`make mutants`: hunts every mutant and writes docs/mutants.md, which says who notices it and what that costs.

    python tests/mutants [--protocol NAME]... [--processes N] [--budget SECONDS] [--before SEEDS]

A mutant is hunted with the seeds from 0 on, no longer than its bound of seeds and the budget of processor seconds (20).
What no history shows is left to its test. Where a specification follows runs, the rejected run is followed up to where
it was stopped; of a mutant that was not caught, the first runs. Models and proofs are named as the catalogue has them;
they are not run here. The reference is put through 200 runs of the same kind, judged by every check. All of it takes
about a quarter of an hour of processor time. Each protocol has a part of the page; those that are not named stay as
they are. The page is replaced at the end, in one step. The exit status is 0 only if each mutant was noticed and the
reference was not.

With ``--before`` the mutants of Raft that hide well are hunted under the settings that there were before the swarm, so
many seeds each, which takes half an hour for 1,000; what comes out is kept beside this file for the page.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from before import HARD, UNREACHED, hunted_before
from following import FOLLOWED, OWN_RUNS, follow

from logspec.catalogue import mutants_of_models, mutants_of_proofs
from quorumlog.hunting.judge import Candidate, judge_seed
from quorumlog.hunting.parallel import in_order
from quorumlog.hunting.survey import Hunted, hunted
from quorumlog.protocol import Mutant, Protocol, every

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mutants.md"
BEFORE = Path(__file__).with_name("before.csv")
BUDGET = 20.0
REFERENCE_SEEDS = 200


HEAD = f"""# Mutants

Made by `make mutants`; do not edit. Each mutant is one change of the reference of its protocol. Who notices it:

- history check: `logwitness hunt --mutant NAME` finds a recorded run that the check rejects, at this seed
  (they count from 0) and after so many processor seconds, compiling not counted;
- spec trace: `logwitness spec trace` rejects that run at an event of this kind, or allows it; of mutants
  that were not caught, the first of {OWN_RUNS} runs that it rejects. A run is followed until a
  log is compacted or a disk is emptied;
- model: TLC refutes a model of that name (`logwitness spec check`); proof: the solver refutes a twin of it;
- test: a test plays the few steps that it needs, since no history shows it ([why](catalogue.md)), or
  hunts seldom come to it.
"""


def parts(page: str) -> dict[str, str]:
    """The parts of docs/mutants.md, by protocol."""
    _, *found = page.split("\n## ")
    return {name: f"## {part.strip()}\n" for part in found for name in [part.partition("\n")[0]]}


def part(protocol: Protocol, found: Sequence[Hunted], traced: Mapping[str, str], reference: int) -> Iterator[str]:
    """The lines of the part of a protocol."""
    hunts = {each.candidate.mutant: each for each in found}
    models, proofs = mutants_of_models(), mutants_of_proofs()
    caught = sum(bool(each.check) for each in found)
    yield from (
        f"## {protocol.name}",
        "",
        f"{len(protocol.mutants)} mutants ([what they change](rules/{protocol.name}.md#mutants)); {caught} of "
        f"{len(found)} hunts ended with a",
        "rejected run within the seeds and the time that `make mutants` allows; the reference survived",
        f"{reference} seeds of the same kind.",
        "",
    )
    if protocol.name == FOLLOWED:
        yield from (
            "Of those that hunts find, these do what the reference does unless a log is trimmed or a file damaged or "
            "lost.",
            "Hunts before the swarm had no such fault, so no number of their seeds shows them",
            "([test_hunt](../tests/simulation/test_hunt.py)):",
            f"{', '.join(UNREACHED)}.",
            "What others took under the settings of those hunts is [below](#before-the-swarm).",
            "",
        )
    yield from (
        "| mutant | history check | seed | processor s | spec trace | model | proof | test | a real system's |",
        "|---|---|--:|--:|---|---|---|---|---|",
    )
    for mutant in protocol.mutants.values():
        cells = _cells(protocol, mutant, hunts.get(mutant.id), traced.get(mutant.id, ""))
        noticed = ("yes" if mutant.id in models else "", "yes" if mutant.id in proofs else "")
        yield f"| {' | '.join([*cells[:5], *noticed, *cells[5:]])} |"
    if protocol.name == FOLLOWED:
        yield from _before(hunts)


def _before(hunts: Mapping[str | None, Hunted]) -> Iterator[str]:
    if not BEFORE.exists():
        return
    with BEFORE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    survived = sum(row["check"] == "" for row in rows)
    yield from (
        "",
        "### Before the swarm",
        "",
        "Mutants that hide well, hunted under the eight settings that there were before the swarm, each in turn:",
        f"{survived} of {len(rows)} were not caught. On the right what it takes today, from the table above.",
        "",
        "| mutant | caught by | seeds | processor s | seeds today | processor s today |",
        "|---|---|--:|--:|--:|--:|",
    )
    for row in rows:
        today = hunts.get(row["mutant"])
        now = [str(today.seed + 1), f"{today.processor_seconds:.1f}"] if today is not None and today.check else ["", ""]
        cells = [row["mutant"], row["check"] or "survived", row["seeds"], row["processor_seconds"], *now]
        yield f"| {' | '.join(cells)} |"


def _cells(protocol: Protocol, mutant: Mutant, hunt: Hunted | None, traced: str) -> list[str]:
    """A row without what models and proofs say."""
    if hunt is None:
        hunted_by = ["", "", ""]
    elif hunt.check:
        hunted_by = [hunt.check, str(hunt.seed), f"{hunt.processor_seconds:.1f}"]
    else:
        hunted_by = ["survived", f"0 to {hunt.seed}", f"{hunt.processor_seconds:.1f}"]
    test = f"[{Path(mutant.test).stem}](../{mutant.test})" if mutant.test else ""
    thread = f"[{_place(mutant.thread)}]({mutant.thread})" if mutant.thread else ""
    return [f"[{mutant.id}](rules/{mutant.page or protocol.name}.md#{mutant.id})", *hunted_by, traced, test, thread]


def _place(thread: str) -> str:
    """``owner/name#number`` of an address; of any other address its end."""
    *_, owner, name, _, number = ["", "", "", *thread.split("/")]
    return f"{owner}/{name}#{number}" if "github.com" in thread else number


def main() -> int:
    """Hunt, show each hunt as it ends, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", action="append", default=[], help="its part of the page alone; may be repeated")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--budget", type=float, default=BUDGET, help="processor seconds for one mutant")
    parser.add_argument("--reference", type=int, default=REFERENCE_SEEDS, help="seeds of the reference")
    parser.add_argument("--before", type=int, default=0, metavar="SEEDS", help="hunt as before the swarm, and end")
    asked = parser.parse_args()
    if asked.before:
        return _hunt_before(asked.before, asked.processes)
    protocols = [each for name in asked.protocol or (None,) for each in every(name) if each.mutants]
    list(part(protocols[0], [], {}, 0))  # what would fail at the end fails now
    made = {each.name: _survey(each, asked) for each in protocols}
    kept = parts(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    kept |= {name: text for name, (text, _) in made.items()}
    new = PAGE.with_suffix(".new")
    new.write_text("\n".join([HEAD, *(kept[name] for name in sorted(kept, key=_order))]), encoding="utf-8")
    new.replace(PAGE)
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0 if all(noticed for _, noticed in made.values()) else 1


def _order(name: str) -> tuple[bool, str]:
    """The protocol that is meant by default comes first."""
    return name not in {each.name for each in every() if each.by_default}, name


def _survey(protocol: Protocol, asked: argparse.Namespace) -> tuple[str, bool]:
    """The part of a protocol, and whether each mutant was noticed and the reference was not."""
    seeds = asked.reference
    found: list[Hunted] = []
    names = [Candidate(protocol.name, mutant) for mutant in protocol.hunted]
    warm = [names[0]] * 2 * asked.processes  # the first hunt of a process pays for what it loads
    for each in islice(
        in_order(partial(hunted, budget=asked.budget), [*warm, *names], asked.processes), len(warm), None
    ):
        found.append(each)
        print(f"{protocol.name}: {len(found):3} of {len(names)}  {_how(each)}", flush=True)
    # Loops that were compiled meanwhile count as well, so whoever was not caught is hunted once more, for longer.
    escaped = [each.candidate for each in found if not each.check]
    for each in (
        in_order(partial(hunted, budget=2 * asked.budget), [*warm, *escaped], asked.processes) if escaped else ()
    ):
        if each.candidate in escaped:
            found[names.index(each.candidate)] = each
            print(f"once more  {_how(each)}", flush=True)
    survived = 0
    for seed, judged in enumerate(
        in_order(partial(judge_seed, Candidate(protocol.name)), range(seeds), asked.processes)
    ):
        survived += not judged.rejections
        if judged.rejections:
            print(f"the reference is rejected at seed {seed}", flush=True)
        elif seed % 50 == 49:
            print(f"the reference: {seed + 1} of {seeds} seeds", flush=True)
    traced = follow(found, lambda sentence: print(sentence, flush=True)) if protocol.name == FOLLOWED else {}
    print(f"{sum(bool(each.check) for each in found)} of {len(found)} were caught", flush=True)
    noticed = all(each.check or protocol.mutants[str(each.candidate.mutant)].test for each in found)
    return "\n".join(part(protocol, found, traced, survived)) + "\n", noticed and survived == seeds


def _how(hunt: Hunted) -> str:
    how = f"{hunt.check} at seed {hunt.seed}" if hunt.check else f"survived seeds 0 to {hunt.seed}"
    return f"{hunt.candidate.mutant}: {how}, {hunt.processor_seconds:.1f} s"


def _hunt_before(seeds: int, processes: int) -> int:
    with BEFORE.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("mutant", "check", "seeds", "processor_seconds"))
        for mutant, row in zip(HARD, in_order(partial(hunted_before, seeds=seeds), HARD, processes), strict=True):
            rows.writerow((mutant, *row))
            print(mutant, *row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
