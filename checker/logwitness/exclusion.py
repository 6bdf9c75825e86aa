"""``--exclude PATTERN``: what is left out of directories, the same for every command that looks into them.

A pattern matches the end of a path, part by part, as `pathlib.PurePath.match` has it: ``mutant-*`` whatever is called
so, ``old/*.edn`` the EDN files of any directory ``old``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


def excluded(path: PurePath, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches this path; give an absolute one, so that patterns may be absolute too."""
    return any(path.match(pattern) for pattern in patterns)


def exclude(command: Command) -> Command:
    """Add ``--exclude`` to a command, repeatable; the command gets ``exclude``, the patterns."""
    return click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        callback=_patterns,
        help="Leave out what matches in directories, such as 'mutant-*' or 'old/*.edn' (repeatable).",
    )(command)


def _patterns(ctx: click.Context, parameter: click.Parameter, patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if PurePath(pattern) == PurePath():
            raise click.BadParameter(
                f"{pattern!r} is not a pattern: give a name or a path, where * and ? match any text"
            )
    return patterns
