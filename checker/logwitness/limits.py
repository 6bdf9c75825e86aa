"""The options that bound a search, the same for every command that judges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


class _Seconds(click.FloatRange):
    """A number in a range; "nan" is in none, which no comparison says."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


def search_limits(what: str) -> Callable[[Command], Command]:
    """Add ``--timeout`` (seconds) and ``--memory-limit`` (MiB) to a command; ``what`` says which searches are meant."""
    timeout = click.option(
        "--timeout",
        type=_Seconds(0, 1e8, min_open=True),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help=f"Limit of processor time for a search {what}; beyond it the verdict is undecided.",
    )
    memory_limit = click.option(
        "--memory-limit",
        type=click.IntRange(64, 1 << 30),
        default=2048,
        show_default=True,
        metavar="MIB",
        help="Memory limit of a search; beyond it the verdict is undecided.",
    )
    return lambda command: timeout(memory_limit(command))


__all__ = ["search_limits"]
