"""The checker: judges recorded histories. `check` for Python, `logwitness check` for the shell.

What is named here is loaded when it is asked for, because pytest imports this package at every start, for the fixture
in `logwitness.pytest_plugin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checks.contract import Check, Loss, Outcome, Verdict, Violation
    from .engine.local import check
    from .engine.run import RunVerdict
    from .judges import judge

__all__ = ["Check", "Loss", "Outcome", "RunVerdict", "Verdict", "Violation", "check", "judge"]

_HOMES = dict.fromkeys(("Check", "Loss", "Outcome", "Verdict", "Violation"), ".checks.contract") | {
    "RunVerdict": ".engine.run",
    "check": ".engine.local",
    "judge": ".judges",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = found
    return found
