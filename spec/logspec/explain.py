"""What the specification can explain: invariants, TLA+ operators, proofs, and the mutants that TLC and z3 refute.

And of each rule of the installed implementation, which operator and which claim it has, if any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from logspec.catalogue import CELLS, Catalogue, read_catalogue
from logspec.models import load_models
from logspec.naming import LEMMAS
from logspec.places import spec_directory

_KINDS = {"tla": "operator", "proof": "proof", "checks": "check", "mutants": "mutant"}


def topics() -> Iterator[dict[str, Any]]:
    """One topic for each invariant of the catalogue, and for each operator, goal and refuted mutant that it names."""
    catalogue = read_catalogue()
    for row in catalogue.rows:
        cells = {_KINDS[cell]: row.cells[cell] for cell in CELLS if cell in _KINDS}
        yield {
            "kind": "invariant",
            "name": row.id,
            "says": row.says,
            "source": row.cells["source"].entries,
            "details": [(f"No {kind}", f"{cell.why_not}.") for kind, cell in cells.items() if cell.why_not],
            "names": {kind: cell.entries for kind, cell in cells.items()},
        }
    yield from _operators(catalogue)
    for goal in sorted(catalogue.named("proof")):
        yield {"kind": "proof", "name": goal, "shows": [f"logwitness spec prove {re.split('[/#]', goal)[0]}"]}
    for model in load_models().values():
        if model.overrides and not model.holds:
            changed = ", ".join(f"{there} by {stands}" for there, stands in model.overrides)
            breaks = f"It replaces {changed} and must break {model.breaks}."
            show = f"logwitness spec check {model.name}"
            yield {"kind": "mutant", "name": model.name, "details": [("TLC", breaks)], "shows": [show]}
    yield from _twins()
    yield from _rules()


def _operators(catalogue: Catalogue) -> Iterator[dict[str, Any]]:
    checked = [model for model in load_models().values() if model.holds]
    for name in sorted(catalogue.named("tla")):
        within = [model.name for model in checked if name in model.configuration.split()]
        for place, text in _definitions(name):
            yield {
                "kind": "operator",
                "name": name,
                "details": [("Defined in", f"{place}\n{text}"), ("TLC checks it in the models", ", ".join(within))],
                "shows": [f"logwitness spec check {within[0]}"] if within else [],
            }


def _definitions(operator: str) -> Iterator[tuple[str, str]]:
    """Where an operator is defined, ``spec/MODULE.tla:LINE``, and its text."""
    for file in sorted(spec_directory().glob("*/*.tla")):
        text = file.read_text(encoding="utf-8")
        if match := re.search(rf"^{operator}(\([^)]*\))?\s*==.*?(?=^\S|^$|\Z)", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            yield f"spec/{file.parent.name}/{file.name}:{line}", match[0].rstrip()


def _twins() -> Iterator[dict[str, Any]]:
    """The mutants that a proof refutes; what they change is known only where z3 is installed."""
    try:
        from logspec.proofs import PROOFS
    except ModuleNotFoundError:
        return
    for proof in PROOFS.values():
        for twin in proof.twins:
            change = f"{twin.why[0].upper()}{twin.why[1:]}."
            breaks = f"{change} It must break the goal {twin.goal} of {proof.name}/{twin.breaks}."
            yield {
                "kind": "mutant",
                "name": twin.name,
                "details": [("z3", breaks)],
                "shows": [f"logwitness spec prove {proof.name}"],
            }


def _rules() -> Iterator[dict[str, Any]]:
    """One topic for each rule of the installed implementation: the operator of its name and the claims about it."""
    try:
        from logspec.proofs import PROOFS
        from logspec.proofs.rules import RulesError, installed_rules
    except ModuleNotFoundError:
        return
    for folder in sorted(path.name for path in spec_directory().iterdir() if any(path.glob("*.tla"))):
        protocol = folder.replace("_", "-")
        try:
            rules = installed_rules(protocol)
        except RulesError:
            continue  # an implementation knows no protocol of this name
        lemmas = PROOFS[LEMMAS]
        claims = lemmas.claims(rules, frozenset()) if lemmas.protocol == protocol else ()
        proved = {f"{LEMMAS}/{claim.split('/')[0]}" for claim in claims}
        for rule in fields(rules):
            operator = "".join(word.capitalize() for word in rule.name.split("_"))
            places = [place for place, _ in _definitions(operator) if place.startswith(f"spec/{folder}/")]
            proof = f"{LEMMAS}/{rule.name.replace('_', '-')}"
            yield {
                "kind": "rule",
                "name": rule.name,
                "details": [("In TLA+", f"{operator}, {place}") for place in places],
                "shows": [f"logwitness spec prove {proof}"] if proof in proved else [],
            }
