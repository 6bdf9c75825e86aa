"""The models as data (``spec/models.yaml``) and the TLC configuration that each of them is.

A model names a TLA+ module, how it is made finite, what is checked and which outcome is expected; see the head of the
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from logspec.errors import SpecError
from logspec.places import spec_directory

_KEYS = frozenset(
    [
        *("of", "about", "module", "next", "init", "constraint", "symmetry", "constants", "invariants"),
        *("properties", "overrides", "expect", "distinct", "breaks", "unreached", "reaches", "tier", "depth"),
    ]
)
_OPTIONS = ("Node", "WriteCaching")


@dataclass(frozen=True, slots=True)
class Model:
    """One model. ``distinct`` is the pinned number of distinct states, ``breaks`` what a mutant must violate.

    ``reaches`` names what the search must meet, as the operator ``Reached`` of the module reports it. ``reached_by``
    names the model whose violation shows how the states are reached that this model begins with. With ``depth`` TLC
    takes random behaviours of so many steps until its time is up, instead of searching every state.
    """

    name: str
    about: str
    module: Path
    configuration: str
    holds: bool
    distinct: int | None
    breaks: str | None
    overrides: tuple[tuple[str, str], ...]
    unreached: frozenset[str]
    reaches: frozenset[str]
    tier: str
    depth: int | None
    reached_by: str | None

    @property
    def write_caching(self) -> bool:
        """Whether acks=all is answered without a flush."""
        return "CONSTANT WriteCaching = TRUE" in self.configuration

    def like(self, other: Model) -> Model:
        """Return this model with the nodes and options of another one."""
        given = {line.split()[1]: line for line in other.configuration.splitlines() if line.startswith("CONSTANT ")}
        lines = self.configuration.splitlines()
        taken = [given.get(line.split()[1], line) if line.split()[1] in _OPTIONS else line for line in lines]
        return replace(self, configuration="\n".join(taken) + "\n")


def load_models(path: Path | None = None) -> dict[str, Model]:
    """Return the models of ``models.yaml`` by name, in the order of the file."""
    path = path or spec_directory() / "models.yaml"
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as problem:
        raise SpecError(f"{path}: not readable as YAML: {problem}") from None
    if not isinstance(document, dict) or not isinstance(document.get("models"), dict):
        raise SpecError(f"{path}: no mapping `models`; see the head of spec/models.yaml for the form")
    defaults = document.get("defaults") or {}
    starts = document.get("starts") or {}
    return {name: _model(path, name, body or {}, defaults, starts) for name, body in document["models"].items()}


def _model(
    path: Path, name: str, body: Mapping[str, Any], defaults: Mapping[str, Any], starts: Mapping[str, str]
) -> Model:
    where = f"{path}: model {name}"
    unknown = sorted(set(body) - _KEYS)
    if unknown:
        raise SpecError(f"{where}: unknown field {unknown[0]}; the fields are {', '.join(sorted(_KEYS))}")
    base = defaults.get(str(body.get("of")), {})
    merged: dict[str, Any] = {**base, **body}
    merged["constants"] = {**base.get("constants", {}), **body.get("constants", {})}
    overrides = body.get("overrides", {})
    expect = merged.get("expect")
    if expect not in ("holds", "violated"):
        raise SpecError(f"{where}: expect is {expect!r}; it is `holds` or `violated`")
    if expect == "violated" and not merged.get("breaks"):
        raise SpecError(f"{where}: breaks is missing; name the invariant that this model must violate")
    for needed in ("module", "init", "next"):
        if needed not in merged:
            raise SpecError(f"{where}: {needed} is missing, and `of` names no defaults that have one")
    if expect == "violated":  # a mutant is checked for the promise it breaks, and for nothing else
        kind = "properties" if merged["breaks"] in merged.get("properties", []) else "invariants"
        merged["invariants"], merged["properties"] = [], []
        merged[kind] = [merged["breaks"]]
    return Model(
        name=name,
        about=str(merged.get("about") or "mutant: " + ", ".join(f"{a} <- {b}" for a, b in overrides.items())),
        module=spec_directory() / f"{merged['module']}.tla",
        configuration=_configuration(where, merged, overrides),
        holds=expect == "holds",
        distinct=merged.get("distinct"),
        breaks=merged.get("breaks"),
        overrides=tuple(overrides.items()),
        unreached=frozenset(merged.get("unreached", ())),
        reaches=frozenset(merged.get("reaches", ())),
        tier=merged.get("tier", "small"),
        depth=merged.get("depth"),
        reached_by=starts.get(merged["init"]),
    )


def _configuration(where: str, merged: Mapping[str, Any], overrides: Mapping[str, str]) -> str:
    lines = [f"INIT {merged['init']}", f"NEXT {merged['next']}"]
    for name, value in merged["constants"].items():
        lines.append(f"CONSTANT {name} = {_constant(where, name, value)}")
    lines += [f"CONSTANT {name} <- {stand_in}" for name, stand_in in overrides.items()]
    if merged.get("constraint"):
        lines.append(f"CONSTRAINT {merged['constraint']}")
    if merged.get("reaches"):
        lines.append("ACTION_CONSTRAINT Reached")
    if merged.get("symmetry"):
        lines.append(f"SYMMETRY {merged['symmetry']}")
    lines += [f"INVARIANT {name}" for name in merged.get("invariants", ())]
    lines += [f"PROPERTY {name}" for name in merged.get("properties", ())]
    return "\n".join(lines) + "\n"


def _constant(where: str, name: str, value: object) -> str:
    """``Node: 3`` is a set of three model values, ``model`` the model value of that name."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return "{" + ", ".join(f"n{i}" for i in range(1, value + 1)) + "}" if name == "Node" else str(value)
    if value == "model":
        return name
    raise SpecError(f"{where}: constant {name} is {value!r}; it is an integer, true, false or `model`")
