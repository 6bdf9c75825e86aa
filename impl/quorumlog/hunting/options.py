"""What the commands ``simulate`` and ``hunt`` share: how they refuse bad input, and what their options read."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click

from quorumlog.durations import parse_duration

_MOST_BYTES = 16 << 20
"""Largest file read; no configuration or fault plan comes near it."""

protocol_option = click.option(
    "--protocol",
    metavar="NAME",
    help="The protocol; by default the one that has the mutant, the setting or the rules; if several do, raft.",
)


class _Refused(click.ClickException):
    exit_code = 2


def refuse(problem: str) -> NoReturn:
    """End with status 2 and one line."""
    raise _Refused(problem)


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Reads durations like 3s or 500ms as nanoseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the nanoseconds of a duration like 3s; refuses what is not one (`click.ParamType.convert`)."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def read_file(path: str, what: str) -> str:
    """The text of a file that the user names. Refuses one that cannot be read."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            refuse(f"{path}: more than {_MOST_BYTES} bytes, too large for a {what}; give another file")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        refuse(f"{path}: cannot read the {what}: {reason}; give a file that can be read")
