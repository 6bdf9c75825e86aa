"""The checker: judges recorded histories. `check` for Python, `logwitness check` for the shell."""

from .checks.contract import Check, Loss, Outcome, Verdict, Violation
from .engine.judge import judge
from .engine.local import check
from .engine.run import RunVerdict

__all__ = ["Check", "Loss", "Outcome", "RunVerdict", "Verdict", "Violation", "check", "judge"]
