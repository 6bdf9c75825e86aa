"""Where a command may put the run it makes, and how to name that place to the shell."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


class NoRoomError(Exception):
    """A run cannot be put there: one line saying why, and what would be right."""


def check_room(directory: Path, *, force: bool) -> None:
    """Refuse to put a run where something is already; with ``force`` a run may be replaced, and nothing else.

    Raises `NoRoomError`.
    """
    if directory.name in ("", ".."):
        raise NoRoomError(f"{directory}: a run gets a directory of its own; name one that does not exist yet with -o")
    if directory.is_dir() and not any(directory.iterdir()):
        return
    if not os.path.lexists(directory):
        return
    if not force:
        raise NoRoomError(f"{directory}: exists already; name another directory with -o, or replace it with --force")
    if directory.is_symlink() or not (directory / "manifest.json").is_file():
        raise NoRoomError(f"{directory}: holds no run, so --force does not replace it; name another one with -o")


def check_command(directory: Path) -> str:
    """The command that judges the run, to be pasted into a shell."""
    name = str(directory)
    return "logwitness check " + shlex.quote(f"./{name}" if name.startswith("-") else name)


__all__ = ["NoRoomError", "check_command", "check_room"]
