"""One line on a terminal that says how far an audit is; nothing elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_EVERY = 0.5


class Progress:
    """The line. ``quiet`` keeps it off whatever the terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._stage = ""

    def stage(self, name: str, histories: int) -> None:
        """Show the name of a stage that begins, and how many histories it is about."""
        self._stage = f"{name}, {histories:,} histor{'y' if histories == 1 else 'ies'}"
        self.say(self._stage)

    def say(self, text: str) -> None:
        """Replace the line by this text; what is beyond 79 columns is cut off."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text[:79]}")
            sys.stderr.flush()

    @contextmanager
    def watching(self, context: SparkContext, tasks: int) -> Iterator[None]:
        """While Spark works on so many tasks, show how many are done."""
        if not self._shown:
            yield
            return
        stop = threading.Event()

        def watch() -> None:
            tracker = context.statusTracker()
            while not stop.wait(_EVERY):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
                self.say(f"{self._stage}: {done:,} of {tasks:,} tasks")

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.say("")
