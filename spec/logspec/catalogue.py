"""The catalogue of invariants (``spec/*/catalogue.yaml``): read it, resolve its cells, and show it as a table.

Each protocol's file says for every invariant which rules ask for it, which TLA+ operator, proof and check watch over
it, and which mutants break it. ``problems`` follows every name to the thing it names; ``render`` writes
``docs/catalogue.md``. Checks and mutants belong to packages that are not imported here, so their ids are handed in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import click

from logspec.errors import SpecError, missing
from logspec.models import described, of_protocols
from logspec.naming import Names, misnamed
from logspec.places import spec_directory

CELLS = ("source", "tla", "proof", "checks", "mutants")
_CITATION = re.compile(r"[a-z-]+\.md#[a-z0-9-]+")
PLACES = ("model", "core", "proof")
"""Where a mutant may live: a model that TLC refutes, a core whose runs the checker rejects, a twin of a proof."""


@dataclass(frozen=True)
class Cell:
    """What a row refers to in one column, or why it refers to nothing."""

    entries: tuple[str, ...]
    why_not: str = ""


@dataclass(frozen=True)
class Row:
    """One invariant of one protocol: what it says, and one cell for each place that can check it."""

    id: str
    protocol: str
    says: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Lack:
    """Mutants that are not in some of ``PLACES``, and why."""

    mutants: tuple[str, ...]
    lacks: frozenset[str]
    why: str


@dataclass(frozen=True)
class Spare:
    """Guards of steps without which small models still hold, as ``MODULE.STEP: CONJUNCT``, and why that is right."""

    guards: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Catalogue:
    """All rows, which mutants are not everywhere, which guards models can spare, and by row which checks are named
    after anomalies.
    """

    rows: tuple[Row, ...]
    not_everywhere: tuple[Lack, ...] = ()
    spare_guards: tuple[Spare, ...] = ()
    anomalies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def named(self, cell: str) -> set[str]:
        """Everything that any row names in one column."""
        return {entry for row in self.rows for entry in row.cells[cell].entries}


def read_catalogue(root: Path | None = None) -> Catalogue:
    """Read the catalogue: the file of each folder of ``root``, by default of the specifications, which names its rows'
    protocol. Raises SpecError, in one line, if a row lacks a cell or has one of another form.
    """
    rows: list[Row] = []
    lacks: list[Lack] = []
    spare: list[Spare] = []
    anomalies: dict[str, tuple[str, ...]] = {}
    for path, found in of_protocols("catalogue.yaml", root):
        if not isinstance(found.get("invariants"), list):
            raise SpecError(f"{path}: no list `invariants`; see spec/README.md for the form")
        for raw in found["invariants"]:
            row = _row(path, raw)
            if any(other.id == row.id for other in rows):
                raise SpecError(f"{path}: {row.id} is there twice; an id names one row")
            rows.append(row)
        lacks += (_lack(path, raw) for raw in found.get("not_everywhere") or ())
        spare += (_spare(path, raw) for raw in found.get("spare_guards") or ())
        of_rows = found.get("anomalies") or {}
        if not isinstance(of_rows, dict) or not all(isinstance(checks, list) for checks in of_rows.values()):
            raise SpecError(f"{path}: anomalies: lists of checks, each by the id of its row")
        anomalies |= {row: tuple(checks) for row, checks in of_rows.items()}
    return Catalogue(tuple(rows), tuple(lacks), tuple(spare), anomalies)


def _lack(path: Path, raw: Any) -> Lack:  # noqa: ANN401
    form = isinstance(raw, dict) and set(raw) == {"mutants", "lacks", "why"} and isinstance(raw["why"], str)
    if not form or not isinstance(raw["mutants"], list) or not set(raw["lacks"] or ("",)) <= set(PLACES):
        raise SpecError(f"{path}: not_everywhere: an item has mutants, lacks (of {', '.join(PLACES)}) and why")
    return Lack(tuple(raw["mutants"]), frozenset(raw["lacks"]), raw["why"])


def _spare(path: Path, raw: Any) -> Spare:  # noqa: ANN401
    form = isinstance(raw, dict) and set(raw) == {"guards", "why"} and isinstance(raw["why"], str)
    if not form or not isinstance(raw["guards"], list):
        raise SpecError(f"{path}: spare_guards: an item has guards, a list, and why")
    return Spare(tuple(raw["guards"]), raw["why"])


def _row(path: Path, raw: Any) -> Row:  # noqa: ANN401
    name = raw.get("id", "a row without id") if isinstance(raw, dict) else str(raw)
    if not isinstance(raw, dict) or set(raw) != {"id", "says", *CELLS}:
        raise SpecError(f"{path}: {name}: a row has exactly id, says, {', '.join(CELLS)}")
    return Row(raw["id"], path.parent.name, raw["says"], {cell: _cell(path, raw, cell) for cell in CELLS})


def _cell(path: Path, raw: Mapping[str, Any], cell: str) -> Cell:
    value = raw[cell]
    if isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
        return Cell(tuple(value))
    if isinstance(value, dict) and set(value) == {"why_not"} and isinstance(value["why_not"], str):
        return Cell((), str(value["why_not"]))
    raise SpecError(
        f"{path}: {raw['id']}: {cell} must be a list of names that is not empty, or {{why_not: a sentence}}"
    )


# -- following the names -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """What there is to refer to in other packages: ids of checks, and by id of a mutant those that must notice it."""

    checks: Collection[str]
    run_mutants: Mapping[str, Collection[str]]


def problems(catalogue: Catalogue, known: Known) -> Iterator[str]:
    """Yield a sentence for each name that does not exist or is not its row's, and for each thing that no row names."""
    models = _models()
    operators = {name for model in models.values() for name in _promises(model) if not name.startswith("Never")}
    places = {"model": _tlc_mutants(models), "core": known.run_mutants, "proof": mutants_of_proofs()}
    mutants = {mutant for names in places.values() for mutant in names}
    yield from _misplaced(catalogue, places)
    broken = [(name, models[name]["breaks"]) for name in sorted(places["model"])]
    broken += [(name, check) for name, checks in known.run_mutants.items() for check in checks]
    broken += [(twin.name, twin.goal) for proof in _proofs().values() for twin in proof.twins]
    cells = {row.id: {cell: row.cells[cell].entries for cell in CELLS} for row in catalogue.rows}
    yield from misnamed(cells, catalogue.anomalies, Names(operators, known.checks, broken))
    for row in catalogue.rows:
        for entry in row.cells["source"].entries:
            if not _CITATION.fullmatch(entry):
                yield f"{row.id}: source {entry!r} is not of the form PAGE.md#ANCHOR"
        defined = _operators(row.protocol)
        for entry in row.cells["tla"].entries:
            if entry not in defined:
                yield f"{row.id}: spec/{row.protocol} defines no operator {entry}"
            elif entry not in operators:
                yield f"{row.id}: no model of spec/{row.protocol} checks {entry}"
        for entry in row.cells["proof"].entries:
            if not proof_has(entry):
                yield f"{row.id}: there is no proof goal {entry}"
        yield from _unknown(row, "checks", known.checks)
        yield from _unknown(row, "mutants", mutants)
    for column, there in (("tla", operators), ("checks", set(known.checks)), ("mutants", mutants)):
        for name in sorted(there - catalogue.named(column)):
            yield f"no row names {name} in its column {column}"
    for name in sorted(set(_proofs()) - {entry.split("#")[0].split("/")[0] for entry in catalogue.named("proof")}):
        yield f"no row names the proof {name}"


def _misplaced(catalogue: Catalogue, places: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield a sentence for each mutant that is missing somewhere without a reason, or is there in spite of one."""
    explained: dict[str, set[str]] = {}
    for lack in catalogue.not_everywhere:
        for mutant in lack.mutants:
            explained.setdefault(mutant, set()).update(lack.lacks)
    for mutant in sorted({*explained, *(name for names in places.values() for name in names)}):
        missing = {place for place in PLACES if mutant not in places[place]}
        for place in sorted(missing - explained.get(mutant, set())):
            yield f"{mutant}: not_everywhere does not say why there is no {place} of it"
        for place in sorted(explained.get(mutant, set()) - missing):
            yield f"{mutant}: not_everywhere says that there is no {place} of it, and there is one"


def _unknown(row: Row, column: str, there: Collection[str]) -> Iterator[str]:
    for entry in row.cells[column].entries:
        if entry not in there:
            yield f"{row.id}: no {entry} is among the {column}"


def _models() -> dict[str, dict[str, Any]]:
    return {name: merged for name, (_, merged) in described().items()}


def mutants_of_models() -> set[str]:
    """The mutants that TLC refutes as models."""
    return _tlc_mutants(_models())


def mutants_of_proofs() -> set[str]:
    """The mutants that are twins of proofs."""
    return {twin.name for proof in _proofs().values() for twin in proof.twins}


def _promises(model: Mapping[str, Any]) -> list[str]:
    return [*model.get("invariants", ()), *model.get("properties", ())]


def _tlc_mutants(models: Mapping[str, Any]) -> set[str]:
    """Models that must fail because an operator is overridden."""
    return {name for name, model in models.items() if model.get("expect") == "violated" and "overrides" in model}


def _operators(protocol: str) -> set[str]:
    """What the modules of a protocol define."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((spec_directory() / protocol).glob("*.tla")))
    return set(re.findall(r"^(\w+)(?:\([^)]*\))?\s*==", text, flags=re.MULTILINE))


def _proofs() -> Mapping[str, Any]:
    from logspec.proofs import PROOFS

    return PROOFS


def proof_has(entry: str) -> bool:
    """Whether ``proof#goal`` or ``proof/claim#goal`` names a goal that is proved of the installed rules."""
    place, _, goal = entry.partition("#")
    name, _, claim = place.partition("/")
    if name not in _proofs() or not goal:
        return False
    made = _claims(name)
    return any(goal in _goals(name, each) for each in ([claim] if claim else made) if each in made)


@cache
def _claims(proof: str) -> Mapping[str, Any]:
    from logspec.proofs.rules import installed_rules

    found: Mapping[str, Any] = _proofs()[proof].claims(installed_rules(_proofs()[proof].protocol), frozenset())
    return found


@cache
def _goals(proof: str, claim: str) -> Collection[str]:
    """The names of what a claim proves; to make a claim takes long."""
    return frozenset(_claims(proof)[claim]().goals)


# -- showing it --------------------------------------------------------------------------------------------------------


def render(catalogue: Catalogue) -> str:
    """Return the catalogue as Markdown: one table per protocol, and below it why cells are empty."""
    models = _models()
    twins = mutants_of_proofs()
    lines = [
        "# Invariants",
        "",
        "Made from `spec/*/catalogue.yaml` by `logwitness spec catalogue --write docs/catalogue.md`; do not edit.",
        "",
        "- TLA+: operators that TLC checks (`logwitness spec check`).",
        "- Proof: goals of `logwitness spec prove`.",
        "- Check: ids of `logwitness checks`, judged on recorded runs.",
        "- Mutants: faults that break it. t: a model that TLC must refute; p: a twin that a proof must refute. Unless",
        "  listed at the end, it is also in the protocol's `mutants/`: the checker must reject its runs, or a test",
        "  notice it.",
        "",
        "In brackets behind an operator: the models that hold it, [below](#models), each within its bounds; behind a",
        "goal: how far the proof goes, where all N means any number of nodes, terms and offsets.",
        "",
        "An invariant has one name: the operator has it in CamelCase, the goal and the check as it is. Other names in",
        "its cells are those of other rows, which also watch over it; goals of `rules` are promises of single rules.",
    ]
    for protocol in dict.fromkeys(row.protocol for row in catalogue.rows):
        rows = [row for row in catalogue.rows if row.protocol == protocol]
        lines += [
            "",
            f"## {protocol}",
            "",
            "| invariant | source | TLA+ | proof | check | mutants |",
            "|---|---|---|---|---|---|",
        ]
        empty: list[str] = []
        for row in rows:
            cells = [f"**{row.id}** {row.says}"]
            for column in CELLS:
                cell = row.cells[column]
                if cell.why_not:
                    empty.append(f"- {row.id}, {column}: {cell.why_not}.")
                cells.append("<br>".join(_shown(column, entry, models, twins) for entry in cell.entries) or "-")
            lines.append("| " + " | ".join(cells) + " |")
        lines += ["", "Empty cells:", "", *empty]
    lines += ["", "## Models", "", "| model | tier | bounds | distinct states |", "|---|---|---|---|"]
    lines += [_bounds(name, model) for name, model in models.items() if model["expect"] == "holds"]
    lines += ["", "## What proofs take for granted", ""]
    lines += [f"- `{name}` ({proof.covers}): {'; '.join(proof.assumes)}." for name, proof in _proofs().items()]
    if catalogue.anomalies:
        lines += ["", "## Checks named after anomalies", ""]
    for row_id, checks in catalogue.anomalies.items():
        lines.append(f"- {', '.join(f'`{check}`' for check in checks)}: {row_id}.")
    if catalogue.not_everywhere:
        lines += ["", "## Mutants that are not everywhere", ""]
    for lack in catalogue.not_everywhere:
        missing = " and ".join(f"no {place}" for place in PLACES if place in lack.lacks)
        lines.append(f"- {', '.join(f'`{mutant}`' for mutant in lack.mutants)} ({missing}): {lack.why}.")
    if catalogue.spare_guards:
        lines += ["", "## Guards that models can spare", ""]
        lines += ["What a step asks for, though the small models hold without it, in groups with one reason:", ""]
    for spare in catalogue.spare_guards:
        lines.append(f"- {'; '.join(f'`{guard}`' for guard in spare.guards)}: {spare.why}.")
    return "\n".join(lines) + "\n"


def _bounds(name: str, model: Mapping[str, Any]) -> str:
    """The row of a model that holds: how it is made finite."""
    bounds = [f"{constant} {value}" for constant, value in model["constants"].items() if type(value) is int and value]
    how = [*bounds, *(["WriteCaching"] if model["constants"].get("WriteCaching") else []), model["init"], model["next"]]
    states = f"random, {model['depth']} steps" if "depth" in model else f"{model['distinct']:,}"
    return f"| `{name}` {model['about']} | {model.get('tier', 'small')} | {', '.join(how)} | {states} |"


def _shown(column: str, entry: str, models: Mapping[str, Any], twins: Collection[str]) -> str:
    if column == "source":
        return f"[{entry.partition('#')[2]}](rules/{entry})"
    if column == "tla":
        searched = [name for name, model in models.items() if model["expect"] == "holds" and "depth" not in model]
        holding = [name for name in searched if entry in _promises(models[name])]
        return (
            f"`{entry}` ({holding[0] if len(holding) == 1 else f'{len(holding)} models'})" if holding else f"`{entry}`"
        )
    if column == "proof":
        proof = _proofs().get(re.split("[/#]", entry)[0])
        return f"`{entry}` ({proof.covers})" if proof else f"`{entry}`"
    if column != "mutants":
        return f"`{entry}`"
    marks = [mark for mark, there in (("t", _tlc_mutants(models)), ("p", twins)) if entry in there]
    return f"`{entry}`" + (f" ({', '.join(marks)})" if marks else "")


@click.command(short_help="Show every invariant, and where it is checked.")
@click.option("--write", type=click.Path(path_type=Path), help="Write the table to this file instead of printing it.")
def catalogue(write: Path | None) -> None:
    """Show every invariant with its source, TLA+ operator, proof, check and mutants.

    \b
    logwitness spec catalogue
    logwitness spec catalogue --write docs/catalogue.md
    """
    try:
        text = render(read_catalogue())
    except SpecError as problem:
        click.echo(f"logwitness: {problem}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as problem:
        click.echo(f"logwitness: {missing(problem)}", err=True)
        sys.exit(2)
    if write is None:
        click.echo(text, nl=False)
        return
    partial = write.with_name(write.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(write)
