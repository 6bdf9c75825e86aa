"""Where a command may write a run, and how to name that place to the shell."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


class NoRoomError(Exception):
    """A run cannot be written there: one line with the reason and the remedy."""


def check_room(directory: Path, *, force: bool) -> None:
    """Refuse a directory that is taken; with ``force`` an existing run may be replaced, and nothing else.

    Raises `NoRoomError`.
    """
    if directory.name in ("", ".."):
        raise NoRoomError(f"{directory}: a run needs its own directory; name one that does not exist yet with -o")
    if directory.is_dir() and not any(directory.iterdir()):
        return
    if not os.path.lexists(directory):
        return
    if not force:
        raise NoRoomError(f"{directory}: already exists; name another directory with -o, or replace it with --force")
    if directory.is_symlink() or not (directory / "manifest.json").is_file():
        raise NoRoomError(f"{directory}: holds no run, so --force does not replace it; name another one with -o")


def check_command(directory: Path) -> str:
    """The command that judges the run, to be pasted into a shell."""
    name = str(directory)
    return "logwitness check " + shlex.quote(f"./{name}" if name.startswith("-") else name)


__all__ = ["NoRoomError", "check_command", "check_room"]
