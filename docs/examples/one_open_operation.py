"""Clients: one operation at a time. Source: the history's schema, column ``process``."""

from __future__ import annotations

from loghistory.schema import Kind
from logwitness.checks.codes import FAIL, INFO, INVOKE, OK
from logwitness.checks.columns import Columns
from logwitness.checks.contract import Check, Family, Setting, Verdicts, Violation, outcome

CHECK = Check(
    "one-open-operation",
    "A client begins an operation only when its last one is over.",
    "loghistory/schema.py, column process (one has at most one open operation)",
    "an operation begun",
    (Kind.INVOKE,),
    ("process", "op"),
)


class OneOpenOperation:
    """Judges the clients of one log."""

    def __init__(self, setting: Setting) -> None:
        self._keep = setting.keep
        self._open: dict[int, int] = {}  # client -> the event that began its open operation
        self._judged = 0
        self._violated = 0
        self._violations: list[Violation] = []

    def feed(self, columns: Columns) -> None:
        """Take the next events: the rule, one event after the other."""
        for seq, kind, process in zip(
            columns.seq.tolist(), columns.kind.tolist(), columns.process.tolist(), strict=True
        ):
            if kind in (OK, FAIL, INFO):
                self._open.pop(process, None)
            if kind != INVOKE:
                continue
            self._judged += 1
            if process in self._open:
                self._violated += 1
                if len(self._violations) < self._keep:
                    told = f"Client {process} began an operation while another one of it was open."
                    self._violations.append(Violation(told, (self._open[process], seq)))
            self._open[process] = seq

    def finish(self) -> Verdicts:
        """Answer."""
        return Verdicts((outcome(CHECK, self._judged, self._violated, tuple(self._violations)),))


FAMILY = Family(
    "operations",
    (CHECK,),
    frozenset({Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO}),
    ("process", "op"),
    OneOpenOperation,
)
