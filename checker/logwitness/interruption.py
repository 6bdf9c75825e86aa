"""What SIGINT does while modules are being loaded."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130
"""Exit status of a command that SIGINT has ended."""


class Loading:
    """While modules are loaded SIGINT ends the process, with one line: Python itself may lose it there, or trace it."""

    def __enter__(self) -> None:
        self._heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._heard:
            signal.signal(signal.SIGINT, _give_up)

    def __exit__(self, *_: object) -> None:
        if self._heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _give_up(*_: object) -> None:
    sys.stderr.write("logwitness: interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
