"""Defaults of a command's options from a file: the table ``[tool.logwitness]`` of a pyproject.toml.

A key is called like its option, without the dashes in front: ``require = ["acked-survives"]``, ``memory-limit = 4096``.
The value passes through the option's own type and checks, so the file can say what the command line can, and nothing
else; the command line wins. Paths are relative to the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

FILE = "pyproject.toml"
TABLE = "tool.logwitness"

Command = TypeVar("Command", bound=Callable[..., object])

SOURCE = f"{__name__}.file"
"""In the context of a command: the file that its defaults come from, if there is one."""
_CHOSEN = f"{__name__}.chosen"
"""In the context of a command: which of the two options was given."""


def configured(*names: str) -> Callable[[Command], Command]:
    """Let a file set the options of these names of a command, and add ``--config FILE`` and ``--isolated``."""

    def read(ctx: click.Context, parameter: click.Parameter, file: Path | None) -> None:
        if ctx.resilient_parsing:
            return
        if file is None and _CHOSEN not in ctx.meta:
            file = find()
        elif file is not None:
            _choose(ctx, "--config")
        if file is not None:
            ctx.default_map = defaults(ctx, file, names)
            ctx.meta[SOURCE] = file

    def isolate(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            _choose(ctx, "--isolated")

    config = click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=read,
        help=f"Take defaults from [{TABLE}] in FILE; default: the nearest {FILE} that has it.",
    )
    isolated = click.option(
        "--isolated",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=isolate,
        help=f"Read no {FILE}.",
    )
    return lambda command: config(isolated(command))


def _choose(ctx: click.Context, option: str) -> None:
    """Take note of one of two options; what was given is looked at before what was not, in any order."""
    if _CHOSEN in ctx.meta:
        raise click.UsageError("--config and --isolated cannot be combined: choose one")
    ctx.meta[_CHOSEN] = option


def find() -> Path | None:
    """The nearest pyproject.toml with our table, in the working directory or above it; None if there is none."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return None  # it was removed
    for directory in (here, *here.parents):
        file = directory / FILE
        if file.is_file() and _table(file) is not None:
            return file
    return None


def defaults(ctx: click.Context, file: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """What the file says, by name of the parameter, checked; a `click.ClickException` names file and key."""
    from loghistory.errors import printable

    table = _table(file)
    if table is None:
        raise click.ClickException(f"{printable(str(file))}: there is no table [{TABLE}]: add it, or name another file")
    options = {name: each for each in ctx.command.params for name in names if f"--{name}" in each.opts}
    found: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{printable(str(file))}, {TABLE}.{printable(key)}"
        if key not in options:
            raise click.ClickException(f"{where}: no such key; the keys are {', '.join(sorted(options))}")
        option = options[key]
        if not _fits(option, value):
            raise click.ClickException(f"{where}: {_shown(value)} is not {_expected(option)}")
        if isinstance(option.type, click.Path):
            value = os.path.normpath(file.parent / value)
        try:
            option.process_value(ctx, value)
        except click.BadParameter as problem:
            raise click.ClickException(f"{where}: {problem.message}") from None
        assert option.name is not None
        found[option.name] = value
    return found


def _table(file: Path) -> dict[str, Any] | None:
    """Our table; None if the file has none. `click.ClickException` for what is no TOML."""
    from loghistory.errors import printable

    try:
        document = tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error}): name another file, or add --isolated"
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"not TOML ({printable(str(error))}): correct it, or add --isolated"
    else:
        tools = document.get("tool")
        found = tools.get("logwitness") if isinstance(tools, dict) else None
        if found is None or isinstance(found, dict):
            return found
        problem = f"{TABLE}: {_shown(found)} is not a table"
    raise click.ClickException(f"{printable(str(file))}: {problem}") from None


def _shown(value: object) -> str:
    """A value of the file for a message."""
    from loghistory.errors import quote

    return str(value).lower() if isinstance(value, bool) else quote(value)


def _fits(option: click.Parameter, value: object) -> bool:
    if option.multiple:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return type(value) in _TYPES.get(_kind(option), (str,))


_TYPES: dict[str, tuple[type, ...]] = {"true or false": (bool,), "a number": (int, float), "an integer": (int,)}
"""What TOML gives for the types of options that take no string."""


def _kind(option: click.Parameter) -> str:
    if isinstance(option, click.Option) and option.is_flag:
        return "true or false"
    if isinstance(option.type, click.types.FloatParamType):
        return "a number"
    return "an integer" if isinstance(option.type, click.types.IntParamType) else "a string"


def _expected(option: click.Parameter) -> str:
    return "a list of strings" if option.multiple else _kind(option)


__all__ = ["configured", "defaults", "find"]
