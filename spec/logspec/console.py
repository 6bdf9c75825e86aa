"""What the sub-commands of ``logwitness spec`` share: their options, a line of progress, the table of actions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import click
from rich.console import Console
from rich.table import Table

from logspec.tlc import Progress
from logspec.toolchain import VERSIONS

HOLDS, VIOLATED, UNEXERCISED = 0, 1, 3
"""Exit statuses; 2, bad usage or input, is what a ``click.ClickException`` ends with."""

F = TypeVar("F", bound=Callable[..., Any])


def tool_options(command: F) -> F:
    """Add the options that choose and limit TLC: ``jar``, ``version``, ``workers``, ``seconds``."""
    command = click.option("--jar", metavar="JAR", help="Another tla2tools jar (also: LOGWITNESS_TLC_JAR).")(command)
    command = click.option("--tlc", "version", type=click.Choice(VERSIONS), help="The version of TLC to run.")(command)
    command = click.option(
        "--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Worker threads of TLC."
    )(command)
    return click.option(
        "--time-limit",
        "seconds",
        type=click.FloatRange(1),
        default=3600,
        show_default=True,
        metavar="SECONDS",
        help="Stop a run of TLC after this many seconds.",
    )(command)


def print_actions(console: Console, actions: Mapping[str, int]) -> None:
    """Print how often each action was taken."""
    table = Table(box=None, pad_edge=False)
    table.add_column("action")
    table.add_column("taken", justify="right")
    for name, count in actions.items():
        table.add_row(name, str(count))
    console.print(table)


class Status:
    """One line on a terminal that shows how far TLC has got; nothing elsewhere."""

    def __init__(self, name: str, *, enabled: bool) -> None:
        self._name = name
        self._console = Console(stderr=True) if enabled else None
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._line = self._console.status(f"{self._name} ...") if self._console else None
        if self._line:
            self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line:
            self._line.stop()

    def show(self, progress: Progress) -> None:
        """Show a progress report of TLC."""
        if self._line:
            self._line.update(
                f"{self._name}: depth {progress.depth}, {progress.distinct} distinct states of {progress.generated}, "
                f"{progress.left} to go, {time.monotonic() - self._began:.0f} s"
            )

    def say(self, text: str) -> None:
        """Show ``text`` in place of the last status, if there is a terminal."""
        if self._line:
            self._line.update(text)
