"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def die_with(parent: int) -> bool:
    """Ask Linux to kill this process when the process ``parent``, its parent, ends; False if that has ended already.

    Other systems offer nothing like it: there a child has to notice by itself, by the end of its standard input or by
    looking at its parent between two tasks.
    """
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


__all__ = ["die_with"]
