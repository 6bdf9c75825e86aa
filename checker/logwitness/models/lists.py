"""A log whose appends tell no offsets and whose reads answer everything: the place of a value is where it was read.

Every read begins at the start of the log, so each is a final read of everything if it began after the last append. One
that answers less than was there before it began, by an acknowledgement or an earlier read, is stale.
Source: history-checks.md, "Anomalies, by name".
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from loghistory import CLIENT_KINDS, Kind, RunSource
from loghistory.importers import ForeignFormat

from ..checks import all_checks
from ..checks.contract import Outcome, Violation, outcome
from .kafka import KEPT, KafkaHistory, Open, Session

STALE_TAIL = next(check for check in all_checks() if check.id == "stale-tail")
_READS = ("read", "read_committed", "final_read")
_CLIENTS = pa.array([*map(str, CLIENT_KINDS), *map(str, (Kind.FAULT, Kind.HEAL, Kind.PHASE))])
_INVOKE_OR_OK = pa.array([str(Kind.INVOKE), str(Kind.OK)])


def are_lists(source: RunSource) -> bool:
    """Whether a history of clients alone is told by lists alone. Raises `HistoryError`.

    Of our own formats one append at least must have been acknowledged without an offset.
    """
    counted = (Kind.INVOKE, Kind.OK) if isinstance(source.format, ForeignFormat) else (Kind.OK,)
    appends = 0
    for batch in source.batches(["kind", "f", "offset", "last_offset"]):
        kind = batch.column("kind").cast(pa.string())
        if not pc.all(pc.is_in(kind, _CLIENTS)).as_py() or batch.column("last_offset").null_count < batch.num_rows:
            return False
        f, offset = batch.column("f").cast(pa.string()), batch.column("offset")
        told = pc.is_in(kind, _INVOKE_OR_OK)
        appended = pc.and_(told, pc.fill_null(pc.equal(f, "append"), False))
        read = pc.is_in(f, pa.array(_READS))
        if pc.any(pc.and_(told, pc.invert(pc.or_(appended, read)))).as_py():
            return False
        if pc.any(pc.and_(appended, offset.is_valid())).as_py():
            return False
        asked = pc.and_(read, pc.equal(kind, str(Kind.INVOKE)))
        if pc.any(pc.and_(asked, pc.fill_null(pc.not_equal(offset, 0), True))).as_py():
            return False
        appends += pc.sum(pc.and_(appended, pc.is_in(kind, pa.array(map(str, counted))))).as_py() or 0
    return appends > 0


class ListHistory(KafkaHistory):
    """The operations of a history: ``feed`` its events, then ``finish``."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._reads: dict[str, list[tuple[int, int, int]]] = {}
        """By log: invocation and completion of a read, and how much it answered."""

    def feed(self, batch: pa.RecordBatch) -> None:
        """Take the next events, with columns seq, time, kind, log, process, op, f, acks, offset, value and text."""
        names = ("seq", "time", "kind", "log", "process", "op", "f", "acks", "offset", "value", "text")
        columns = [batch.column(name).to_pylist() for name in names]
        for seq, time, kind, log, process, op, f, acks, offset, value, text in zip(*columns, strict=True):
            if op is None or process is None:
                continue
            self._time = time
            if kind == Kind.INVOKE:
                whole = self._open[op] = Open(f, process, seq)
                if f == "append":
                    whole.sends[op] = self._invoke_send(self._key(log), text if value is None else value, seq, acks)
                continue
            found = self._open.get(op)
            if found is None:
                continue
            if kind == Kind.OBSERVE:
                found.polled.append((self._key(log), offset, text if value is None else value, seq))
                continue
            if kind == Kind.OK and found.f in _READS:
                self._begin_anew(found, log, seq)
            self._close(found, kind, seq, None)
            del self._open[op]

    def _begin_anew(self, whole: Open, log: str | None, seq: int) -> None:
        """A read answered: it read from the start, wherever its client was before."""
        key = self._key(log)
        reader = self._reader(whole.process)
        reader.positions.clear()
        reader.fresh = {key.name}
        if not whole.polled:
            key.sessions[whole.process] = Session(whole.seq, 0, asked=True, last=-1, last_seq=seq)
        self._reads.setdefault(key.name, []).append((whole.seq, seq, len(whole.polled)))

    def finish(self) -> tuple[Outcome, ...]:
        """Judge what the end decides, and answer."""
        outcomes = super().finish()
        violations: list[Violation] = []
        violated = 0
        for name, reads in self._reads.items():
            if any(sent.weak is not None for sent in self._key(name).values.values()):
                continue  # what was read may be gone
            facts = [(done, count) for _, done, count in reads]
            facts += [
                (sent.acked, sent.read_offset + 1)
                for sent in self._key(name).values.values()
                if sent.acked >= 0 and sent.read >= 0 and sent.invokes == 1
            ]
            facts.sort()
            known = list(accumulate((count for _, count in facts), max))
            for invoked, done, count in reads:
                place = bisect_left(facts, (invoked,))
                if place and count < known[place - 1]:
                    violated += 1
                    if len(violations) < KEPT:
                        told = next(seq for (seq, _), most in zip(facts, known, strict=True) if most > count)
                        words = f"A read of everything answered {count} entries"
                        words += f" although {known[place - 1]} were known before it was asked for."
                        violations.append(Violation(words, tuple(sorted({told, invoked, done})), name or None))
        judged = sum(map(len, self._reads.values()))
        return (*outcomes, outcome(STALE_TAIL, judged, violated, tuple(violations)))
