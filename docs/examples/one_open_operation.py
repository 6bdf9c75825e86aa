"""Clients: one operation at a time. Source: history-checks.md#one-open-operation."""

from __future__ import annotations

from loghistory.schema import Kind
from logwitness.checks.codes import FAIL, INFO, INVOKE, OK
from logwitness.checks.columns import Columns
from logwitness.checks.contract import Check, Family, Setting, Tally, Verdicts

CHECK = Check(
    id="one-open-operation",
    rule="A client begins an operation only when its last one is over.",
    source=("history-checks.md#one-open-operation",),
    fact="an operation begun",
    sentence="Client {client} began operation {second} while its operation {first} was open.",
    kinds=(Kind.INVOKE,),
    columns=("process", "op"),
)


class OneOpenOperation:
    """Judges the clients of one log."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(CHECK, setting.keep)
        self._open: dict[int, tuple[int, int]] = {}  # client -> its open operation and the event that began it

    def feed(self, columns: Columns) -> None:
        """Take the next events: the rule, one event after the other."""
        rows = zip(*(each.tolist() for each in (columns.seq, columns.kind, columns.process, columns.op)), strict=True)
        for seq, kind, client, op in rows:
            if kind in (OK, FAIL, INFO):
                self._open.pop(client, None)
            if kind != INVOKE:
                continue
            self._tally.judged += 1
            if client in self._open:
                first, began = self._open[client]
                self._tally.violation(began, seq, client=client, first=first, second=op)
            self._open[client] = op, seq

    def finish(self) -> Verdicts:
        """The outcome of the one check, once all events were taken."""
        return Verdicts((self._tally.outcome(),))


HISTORIES = """
== one-open-operation holds
c1 append v1 all
c2 tail
c1 ok 0 t1
c1 tail

== one-open-operation violated also one-operation-at-a-time
* c1 append v1 all
c2 tail
* c1 tail
"""

FAMILY = Family(
    "operations",
    (CHECK,),
    frozenset({Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO}),
    ("process", "op"),
    OneOpenOperation,
    histories=HISTORIES,
)
