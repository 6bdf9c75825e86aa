"""Calls end: every operation of a client is answered, refused, or given up by the client, within a bound.

The bound is stated by who made the run (``progress_bound`` in its configuration); without it nothing is judged.
"""

from __future__ import annotations

import numpy as np

from loghistory.schema import CLIENT_KINDS, Kind, Operation

from ..codes import FAIL, INFO, INVOKE, NULL, OK, among, word_code
from ..columns import Array, Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated

CHECK = Check(
    id="calls-end",
    rule="Every operation of a client is answered, refused or given up within the bound that the configuration states.",
    source=("history-checks.md#calls-end",),
    fact="an operation begun, in a history that states a bound",
    sentence={
        "late": "Operation {op} of client {client} ended only after {seconds} s; {bound} s are allowed.",
        "never": "Operation {op} of client {client} was open for {seconds} s when the history ended; {bound} s are "
        "allowed.",
    },
    kinds=(Kind.INVOKE,),
    columns=("process", "op"),
)


_STREAM = word_code(Operation.READ_STREAM)


class CallsFold:
    """Judges how long the operations on one log were open."""

    def __init__(self, setting: Setting) -> None:
        self._bound = setting.progress_bound
        self._tally = Tally(CHECK, setting.keep)
        self._open: dict[int, tuple[int, int, int]] = {}  # operation -> when it began, seq, client
        self._now = self._last = NULL

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        if self._bound is None or not len(columns.seq):
            return
        self._now, self._last = int(columns.time[-1]), int(columns.seq[-1])
        reported = np.flatnonzero(among(columns.kind, (INVOKE, OK, FAIL, INFO)))
        ended = self._in_time(*(column[reported] for column in (columns.kind, columns.op, columns.f, columns.time)))
        self._tally.judged += int(np.count_nonzero(ended)) // 2
        reported = reported[~ended]
        for seq, time, kind, client, op, f in columns.rows(reported, "seq", "time", "kind", "process", "op", "f"):
            if kind == INVOKE and f == _STREAM:
                continue  # it is read as long as there is something to read
            if kind == INVOKE:
                self._tally.judged += 1
                self._open[op] = time, seq, client
            elif kind in (OK, FAIL, INFO) and op in self._open:
                self._end("late", op, time, seq)

    def _in_time(self, kind: Array, op: Array, f: Array, time: Array) -> Array:
        """Which events begin or end operations that are begun once, ended once, and in time: most of them."""
        order = np.argsort(op, kind="stable")
        first, second = order[:-1], order[1:]
        same = op[first] == op[second]
        ends = same & (kind[first] == INVOKE) & (kind[second] != INVOKE) & (f[first] != _STREAM)
        ends &= time[second] - time[first] <= self._bound
        ends[1:] &= ~same[:-1]
        ends[:-1] &= ~same[1:]
        if self._open:
            ends &= ~np.isin(op[first], [*self._open])
        found = np.zeros(len(op), dtype=bool)
        found[first[ends]] = found[second[ends]] = True
        return found

    def _end(self, way: str, op: int, time: int, seq: int) -> None:
        began, first, client = self._open.pop(op)
        assert self._bound is not None
        if time - began > self._bound:
            seconds, bound = f"{(time - began) / 1e9:.3g}", f"{self._bound / 1e9:.3g}"
            self._tally.violation(first, seq, way=way, op=op, client=client, seconds=seconds, bound=bound)

    def violated(self) -> frozenset[str]:
        """The check, if it is violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """Judge what is still open, and answer."""
        for op in list(self._open):
            self._end("never", op, self._now, self._last)
        return Verdicts((self._tally.outcome(),))


FAMILY = Family("calls", (CHECK,), CLIENT_KINDS, ("time", "process", "op", "f"), CallsFold)
