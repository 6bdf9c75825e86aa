"""The models as data (``spec/*/models.yaml``) and the TLC configuration that each of them is.

A model names a TLA+ module, how it is made finite, what is checked and which outcome is expected: spec/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from logspec.errors import SpecError
from logspec.places import spec_directory

_KEYS = frozenset(
    [
        *("of", "about", "module", "next", "init", "constraint", "symmetry", "constants", "composed", "invariants"),
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


def of_protocols(name: str, root: Path | None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the YAML file of this name in each protocol's folder and what it holds.

    Raises SpecError, in one line, if one cannot be read or is no mapping, or if there is none.
    """
    root = root or spec_directory()
    files = sorted(root.glob(f"*/{name}"))
    if not files:
        raise SpecError(f"{root}: no folder has a {name}")
    for path in files:
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as problem:
            raise SpecError(f"{path}: cannot be read: {' '.join(str(problem).split())}") from None
        if not isinstance(document, dict):
            raise SpecError(f"{path}: no mapping; see spec/README.md for the form")
        yield path, document


def described(root: Path | None = None) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the models as they are written, each with where it stands and on top of the defaults that it takes.

    In the order of the folders and of their files. ``root`` holds the folders; by default the specifications' own.
    Raises SpecError, in one line, for a file of another form and for a name that is there twice.
    """
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for path, document in of_protocols("models.yaml", root):
        if not isinstance(document.get("models"), dict):
            raise SpecError(f"{path}: no mapping `models`; see spec/README.md for the form")
        defaults, starts = document.get("defaults") or {}, document.get("starts") or {}
        for name, body in document["models"].items():
            where = f"{path}: model {name}"
            if name in found:
                raise SpecError(f"{where}: is there twice, {found[name][0]}; a name is one model's")
            unknown = sorted(set(body or {}) - _KEYS)
            if unknown:
                raise SpecError(f"{where}: unknown field {unknown[0]}; the fields are {', '.join(sorted(_KEYS))}")
            base = defaults.get(str((body or {}).get("of")), {})
            merged = {**base, **(body or {})}
            merged["constants"] = {**base.get("constants", {}), **(body or {}).get("constants", {})}
            merged["reached_by"] = starts.get(merged.get("init"))
            found[name] = where, merged
    return found


def load_models(root: Path | None = None) -> dict[str, Model]:
    """Return the models by name, in the order of ``described``."""
    return {name: _model(where, name, merged) for name, (where, merged) in described(root).items()}


def _model(where: str, name: str, merged: dict[str, Any]) -> Model:
    overrides = merged.get("overrides", {})
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
        configuration=_configuration(where, merged, {**merged.get("composed", {}), **overrides}),
        holds=expect == "holds",
        distinct=merged.get("distinct"),
        breaks=merged.get("breaks"),
        overrides=tuple(overrides.items()),
        unreached=frozenset(merged.get("unreached", ())),
        reaches=frozenset(merged.get("reaches", ())),
        tier=merged.get("tier", "small"),
        depth=merged.get("depth"),
        reached_by=merged["reached_by"],
    )


def _configuration(where: str, merged: Mapping[str, Any], stand_ins: Mapping[str, str]) -> str:
    lines = [f"INIT {merged['init']}", f"NEXT {merged['next']}"]
    for name, value in merged["constants"].items():
        lines.append(f"CONSTANT {name} = {_constant(where, name, value)}")
    lines += [f"CONSTANT {name} <- {stand_in}" for name, stand_in in stand_ins.items()]
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
