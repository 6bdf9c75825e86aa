"""Find the rules to prove: those of the installed implementation, or a developer's file that replaces some of them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from logspec.proofs.claims import Rules

GROUP = "logwitness.rules"
"""Entry points to functions of a protocol's name: ``reference`` gives its rules, ``load`` those of a file."""


class RulesError(ValueError):
    """The rules cannot be loaded; ``str()`` is one line with the file and the remedy."""


def installed_rules(protocol: str) -> Rules:
    """Return the rules that the installed implementation of a protocol runs. Raises RulesError if there is none."""
    reference = _entry("reference")
    try:
        return reference(protocol)
    except ValueError as error:
        raise RulesError(str(error)) from None


def load_rules(path: Path, protocol: str | None = None) -> Rules:
    """Return the installed rules with those of a Python file in their places; whose they are the file says, if None.

    Raises RulesError if the file gives none.
    """
    load = _entry("load")
    try:
        return load(path, protocol)
    except ValueError as error:
        raise RulesError(str(error)) from None


def _entry(name: str) -> Rules:
    for entry in metadata.entry_points(group=GROUP, name=name):
        return entry.load()
    raise RulesError(f"no implementation offers {name} in the entry point group {GROUP}: install one")
