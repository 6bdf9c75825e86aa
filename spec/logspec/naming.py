"""One name for an invariant: in the catalogue, the TLA+ module, the proof, the checker and the tables of mutants.

The name is the id of the catalogue's row, and of the check where there is one. The operator that TLC checks is the same
in CamelCase, a proof's goal the same as it is, and a mutant is in the row of what it breaks. Cells may also name other
rows' operators, goals and checks. Two exceptions: the goals of the proof ``rules`` are named for what one rule
promises, and checks of what clients see are named after anomalies, which the catalogue lists by invariant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

LEMMAS = "rules"
"""The proof whose goals are promises of single rules."""


def operator_of(invariant: str) -> str:
    """Return the TLA+ operator of an invariant: ``leader-completeness`` is ``LeaderCompleteness``."""
    return "".join(word.capitalize() for word in invariant.split("-"))


@dataclass(frozen=True)
class Names:
    """What carries the name of an invariant: operators that TLC checks, ids of checks, and what each mutant breaks.

    ``broken``: a mutant and the name of what it breaks (an operator, a check or a goal), as its place says.
    """

    operators: Collection[str]
    checks: Collection[str]
    broken: Collection[tuple[str, str]]


def misnamed(
    rows: Mapping[str, Mapping[str, Collection[str]]], anomalies: Mapping[str, Collection[str]], names: Names
) -> Iterator[str]:
    """Yield a sentence for each name that is not that of a row, and for each row that does not name its own.

    ``rows``: by id, what each cell refers to; ``anomalies``: by row, the checks that are named after them.
    """
    invariant_of = {operator_of(row): row for row in rows} | {row: row for row in rows}
    for row, checks in anomalies.items():
        for check in checks:
            if check in rows:
                yield f"{check} has its own row, so it is not an anomaly"
            elif row not in rows or check not in rows[row]["checks"]:
                yield f"the anomaly {check} is not among the checks of a row {row}"
            invariant_of[check] = row
    for name in sorted({*names.operators, *names.checks} - set(invariant_of)):
        yield f"no row has the name of {name}, and it is not among the anomalies"
    goals = {goal for cells in rows.values() for _, goal in map(_goal, cells["proof"])}
    own = {"tla": set(names.operators), "checks": set(names.checks), "proof": goals}
    for row, cells in rows.items():
        for column, name in (("tla", operator_of(row)), ("checks", row), ("proof", row)):
            there = {goal for _, goal in map(_goal, cells[column])} if column == "proof" else cells[column]
            if name in own[column] and name not in there:
                yield f"{row}: its column {column} lacks {name}"
        stated = [goal for proof, goal in map(_goal, cells["proof"]) if proof != LEMMAS]
        if stated and stated[0] not in rows:
            yield f"{row}: the goal {stated[0]} has the name of no row; name it {row}, or put one before it that is"
        for name in (*cells["tla"], *cells["checks"]):
            if name not in invariant_of:
                yield f"{row}: {name} has the name of no row"
    for mutant, name in names.broken:
        if invariant_of.get(name) in rows and mutant not in rows[invariant_of[name]]["mutants"]:
            yield f"{invariant_of[name]}: its column mutants lacks {mutant}, which breaks {name}"


def _goal(entry: str) -> tuple[str, str]:
    """The proof and the goal of ``proof/claim#goal``."""
    place, _, goal = entry.partition("#")
    return place.partition("/")[0], goal
