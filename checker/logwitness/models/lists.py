"""A log whose appends tell no offsets and whose reads answer everything: the place of a value is where it was read.

Every read begins at the start of the log, so each is a final read of everything if it began after the last append. One
that answers less than was there before it began, by an acknowledgement or an earlier read, is stale. What places alone
do not tell is told by the order of the operations, each as a transaction of its own (`transactions`).
Source: history-checks.md#anomalies.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import msgspec
import pyarrow as pa

from loghistory import HistoryError, Kind
from loghistory.errors import quote

from ..checks.contract import Outcome, Violation, outcome
from .kafka import BY_ID, KEPT, KafkaHistory, Key, Name, Open, Session
from .linearizable import LINEARIZABLE
from .transactions import TransactionHistory

STALE_TAIL = BY_ID["stale-tail"]
_ORDER = LINEARIZABLE.id
_READS = ("read", "read_committed", "read_linearizable", "final_read")


class ListHistory(KafkaHistory):
    """The operations of a history: ``feed`` its events, then ``finish``."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._reads: dict[str, list[tuple[int, int, int]]] = {}
        """By log: invocation and completion of a read or tail, and how much it answered."""
        self._order = TransactionHistory(name)
        """Each operation as a transaction, for what places alone do not tell."""

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
                if f == "tail":
                    continue
                self._order.begin(op, process, seq)
                name = text if value is None else str(value)
                self._order.ask(op, op, "append" if f == "append" else "r", log, seq, name or "null")
                if f == "append":
                    whole.sends[op] = self._invoke_send(self._key(log), text if value is None else value, seq, acks)
                continue
            found = self._open.get(op)
            if found is None:
                continue
            if kind == Kind.OBSERVE:
                found.polled.append((self._key(log), offset, text if value is None else value, seq))
                continue
            if kind == Kind.OK and found.f == "tail" and offset is not None:
                self._reads.setdefault(self._key(log).name, []).append((found.seq, seq, offset))
            elif kind == Kind.OK and found.f in _READS:
                if text is not None:
                    found.polled += self._early(self._key(log), text, seq)
                self._begin_anew(found, log, seq)
                self._order.answer(op, op, seq, [str(name) for _, _, name, _ in found.polled])
            self._order.end(op, kind, seq)
            self._close(found, kind, seq, None)
            del self._open[op]

    def _early(self, key: Key, text: str, seq: int) -> list[tuple[Key, int, Name, int]]:
        """What a read answered that was asked for before the first append."""
        try:
            values = msgspec.json.decode(text) or []
        except (msgspec.DecodeError, RecursionError):
            problem = f"{quote(text)} is not a list"
            raise HistoryError(self._name, seq, "text", problem, "[value ...]", place="seq") from None
        names = (each if type(each) is int else msgspec.json.encode(each).decode() for each in values)
        return [(key, offset, name, seq) for offset, name in enumerate(names)]

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
        gone = any(each.violated for each in outcomes if each.id in ("lost-write", "unseen"))
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
            if not gone:
                acked = sorted(sent.acked for sent in self._key(name).values.values() if sent.acked >= 0)
                facts += [(seq, count) for count, seq in enumerate(acked, 1)]
            facts.sort()
            known = list(accumulate((count for _, count in facts), max))
            for invoked, done, count in reads:
                place = bisect_left(facts, (invoked,))
                if place and count < known[place - 1]:
                    violated += 1
                    if len(violations) < KEPT:
                        seen = next(seq for (seq, _), most in zip(facts, known, strict=True) if most > count)
                        fields = {"tail": count, "known": known[place - 1]}
                        found = STALE_TAIL.violation((seen, invoked, done), **fields)
                        violations.append(msgspec.structs.replace(found, log=name or None))
        judged = sum(map(len, self._reads.values()))
        outcomes = (*outcomes, outcome(STALE_TAIL, judged, violated, tuple(violations)))
        if any(sent.weak is not None for key in self._keys.values() for sent in key.values.values()):
            return outcomes
        ordered = {each.id: each for each in self._order.finish()}
        merged = (each if each.violated or each.id not in ordered else ordered[each.id] for each in outcomes)
        return (*merged, ordered[_ORDER])
