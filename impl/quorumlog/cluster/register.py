"""What all clients of a run share: the history, the numbers that are unique in it, and the counts by outcome."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from quorumlog.node.recording import HistoryFile


class Register:
    """What all clients of a run share: the history, the numbers that are unique in it, and the counts by outcome."""

    def __init__(self, recorder: HistoryFile) -> None:
        self.recorder = recorder
        self.counts: Counter[tuple[str, int | None, str]] = Counter()  # (operation, acks, how it ended)
        self.operations = itertools.count(1)
        self.values = itertools.count(1)
        self.processes = itertools.count()

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Record an event, stamped now, and write it to the file."""
        self.recorder.event(kind, columns)
        self.recorder.flush()
