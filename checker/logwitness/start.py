"""The console script ``logwitness``: quiet about an interruption even while the command is still being loaded."""

from __future__ import annotations

from .interruption import Loading


def main() -> None:
    """Load the command and run it."""
    with Loading():
        from .cli import main as command
    command(prog_name="logwitness")
