"""Transactions over lists: micro-operations ``[:append k v]`` and ``[:r k [v ...]]``, each transaction at one go.

A list only grows, so what was read tells the order of the values of a key: the longest list read, of which all others
are beginnings. Values that nobody read come after it, or never. Hence the order in which transactions took effect is
known but for what does not matter: who appended a value comes before who appended the next one and before who read it
as the last; who read a list comes before who appended the value after it; and who was over comes before who began
later. Transactions are strictly serializable if and only if these orders have no circle. What has a row in the table
of anomalies is told by its name.
Sources: history-checks.md#anomalies; Kingsbury, Alvaro, "Elle" (VLDB 2020).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import msgspec
import pyarrow as pa

from loghistory import HistoryError, Kind
from loghistory.errors import quote

from ..checks.contract import Check, Outcome, Violation, outcome
from .kafka import BY_ID, KEPT
from .linearizable import LINEARIZABLE

_IDS = (
    "inconsistent-offset",
    "duplicate",
    "aborted-read",
    "phantom",
    "lost-write",
    "unseen",
    "non-monotonic-append",
    "real-time-inversion",
    "uncommitted-read",
    "stale-tail",
)
CHECKS: tuple[Check, ...] = (*(BY_ID[id_] for id_ in _IDS), LINEARIZABLE)
_NEVER = 1 << 62


@dataclass(slots=True)
class _Micro:
    """One micro-operation. ``values``: the value appended, or all that was read."""

    f: str
    log: str
    seq: int
    values: tuple[str, ...] = ()


@dataclass(slots=True)
class _Transaction:
    process: int
    invoked: int
    place: int = -1
    done: int = _NEVER
    """Event of its completion; never if its outcome is unknown."""
    ended: int = _NEVER
    """Event that tells its outcome, or that nobody knows it."""
    failed: bool = False
    micro: dict[int, _Micro] = field(default_factory=dict)

    @property
    def certain(self) -> bool:
        """Whether it is known to be committed."""
        return self.done < _NEVER and not self.failed


@dataclass(slots=True)
class _Append:
    by: _Transaction
    value: str
    offset: int = -1
    """Where it was read."""


@dataclass(slots=True)
class _Read:
    by: _Transaction
    seq: int
    values: tuple[str, ...]
    own: int
    """How many of the last values the transaction had appended itself."""


@dataclass(slots=True)
class _List:
    """One key."""

    appends: dict[str, list[_Append]] = field(default_factory=dict)
    clients: dict[int, list[_Append]] = field(default_factory=dict)
    """Of each client its appends, in its order."""
    reads: list[_Read] = field(default_factory=list)
    longest: tuple[str, ...] = ()
    longest_seq: int = -1
    odd: bool = False
    """Its reads contradict one another, so that they tell no order."""


class TransactionHistory:
    """The transactions of a history: ``feed`` its events, then ``finish``."""

    conclusive = frozenset({"inconsistent-offset"})
    """The checks whose violations no event that is missing could explain."""

    def __init__(self, name: str) -> None:
        self.notes: list[str] = []
        self._name = name
        self._open: dict[int, _Transaction] = {}
        self._all: list[_Transaction] = []
        self._lists: dict[str, _List] = {}
        self._judged = dict.fromkeys((check.id for check in CHECKS), 0)
        self._violated = dict.fromkeys(self._judged, 0)
        self._violations: dict[str, list[Violation]] = {id_: [] for id_ in self._judged}

    @property
    def logs(self) -> int:
        """How many keys, each a list, were seen; at least 1."""
        return max(1, len(self._lists))

    def feed(self, batch: pa.RecordBatch) -> None:
        """Take the next events, with columns seq, kind, log, process, op, txn, f, value and text."""
        names = ("seq", "kind", "log", "process", "op", "txn", "f", "value", "text")
        columns = [batch.column(name).to_pylist() for name in names]
        for seq, kind, log, process, op, txn, f, value, text in zip(*columns, strict=True):
            if op is None or process is None:
                continue
            shown = text if value is None else str(value)
            if txn is None:
                if kind == Kind.INVOKE:
                    self.begin(op, process, seq)
                elif kind != Kind.OBSERVE:
                    self.end(op, kind, seq)
            elif kind == Kind.INVOKE:
                self.ask(txn, op, f, log, seq, shown or "null")
            elif kind == Kind.OK and f == "r":
                self.answer(txn, op, seq, self._listed(shown, seq))

    def begin(self, op: int, process: int, seq: int) -> None:
        """A transaction is invoked by a client, by event ``seq``."""
        self._open[op] = _Transaction(process, seq)

    def ask(self, op: int, part: int, f: str, log: str | None, seq: int, value: str) -> None:
        """It has a part: it appends the value, or reads."""
        if op in self._open:
            self._open[op].micro[part] = _Micro(f, log or "", seq, (value,) if f == "append" else ())

    def answer(self, op: int, part: int, seq: int, values: Sequence[str]) -> None:
        """A part of an open transaction read these values."""
        micro = self._open[op].micro.get(part) if op in self._open else None
        if micro is not None:
            micro.seq, micro.values = seq, tuple(values)

    def end(self, op: int, kind: str, seq: int) -> None:
        """It is completed, or its outcome stays unknown."""
        whole = self._open.pop(op, None)
        if whole is not None:
            whole.ended = seq
            whole.done = seq if kind != Kind.INFO else _NEVER
            whole.failed = kind == Kind.FAIL
            self._all.append(whole)

    def _listed(self, text: str | None, seq: int) -> tuple[str, ...]:
        try:
            found = msgspec.json.decode(text or "[]")
            if isinstance(found, list) or found is None:
                return tuple(msgspec.json.encode(each).decode() for each in found or ())
        except (msgspec.DecodeError, RecursionError):
            pass
        raise HistoryError(self._name, seq, "text", f"{quote(text)} is not a list", "[value ...]", place="seq")

    def finish(self) -> tuple[Outcome, ...]:
        """Judge all transactions together; one outcome for each of `CHECKS`."""
        self._all += self._open.values()
        self._open.clear()
        self._all.sort(key=lambda each: each.invoked)
        for place, whole in enumerate(self._all):
            whole.place = place
            for micro in whole.micro.values():
                if micro.f == "append":
                    key, append = self._list(micro.log), _Append(whole, micro.values[0])
                    key.appends.setdefault(append.value, []).append(append)
                    key.clients.setdefault(whole.process, []).append(append)
        for whole in self._all:
            if whole.certain:
                self._inside(whole)
        for name, key in self._lists.items():
            self._values(name, key)
            self._orders(name, key)
            self._missing(name, key)
            self._in_time(name, key)
            self._stale(name, key)
        undecided = None
        if any(len(appends) > 1 for key in self._lists.values() for appends in key.appends.values()):
            undecided = "a value was appended more than once, so that reads do not tell the order of transactions"
        elif not any(self._violated.values()):
            self._circle()
        self._judged[LINEARIZABLE.id] = len(self._all)
        return tuple(
            outcome(
                check,
                self._judged[check.id],
                self._violated[check.id],
                tuple(self._violations[check.id]),
                undecided=undecided if check is LINEARIZABLE else None,
            )
            for check in CHECKS
        )

    def _list(self, name: str) -> _List:
        return self._lists.setdefault(name, _List())

    def _report(self, id_: str, name: str | None, sentence: str, *events: int) -> None:
        self._violated[id_] += 1
        if len(self._violations[id_]) < KEPT:
            shown = tuple(sorted({seq for seq in events if 0 <= seq < _NEVER}))
            self._violations[id_].append(Violation(sentence, shown, name or None))

    def _inside(self, whole: _Transaction) -> None:
        """What one transaction read and appended, in its order."""
        own: dict[str, list[str]] = {}
        before: dict[str, tuple[str, ...]] = {}
        appended = {(micro.log, micro.values[0]) for micro in whole.micro.values() if micro.f == "append"}
        for micro in whole.micro.values():
            mine = own.setdefault(micro.log, [])
            if micro.f == "append":
                mine.append(micro.values[0])
                continue
            outside = micro.values[: max(0, len(micro.values) - len(mine))]
            same = micro.values[len(outside) :] == tuple(mine) and before.setdefault(micro.log, outside) == outside
            if not same or any((micro.log, value) in appended for value in outside):
                sentence = f"A transaction read {_shortened(micro.values)}, which is not what it had read before with "
                sentence += "what it had appended itself since."
                self._report(LINEARIZABLE.id, micro.log, sentence, whole.invoked, micro.seq)
            self._list(micro.log).reads.append(_Read(whole, micro.seq, micro.values, len(micro.values) - len(outside)))

    def _values(self, name: str, key: _List) -> None:
        """The longest read, and the values that were read by themselves."""
        reported: set[str] = set()
        for read in key.reads:
            if len(read.values) > len(key.longest) or key.longest_seq < 0:
                key.longest, key.longest_seq = read.values, read.seq
            if len(set(read.values)) < len(read.values):
                twice = next(value for value, count in Counter(read.values).items() if count > 1)
                key.odd = True
                if len(key.appends.get(twice, ())) < 2 and twice not in reported:
                    reported.add(twice)
                    self._report("duplicate", name, f"Value {twice} is twice in the list that was read.", read.seq)
        self._judged["duplicate"] += len(key.reads)
        found: dict[str, _Read] = {}
        for read in sorted(key.reads, key=lambda read: read.by.done):
            for value in read.values:
                found.setdefault(value, read)
        for value, read in found.items():
            self._judged["phantom"] += 1
            appends = key.appends.get(value, [])
            if not any(append.by.invoked < read.by.done for append in appends):
                when = "nobody had appended it" if appends else "nobody appended it"
                self._report("phantom", name, f"Value {value} was read although {when}.", read.seq)
            elif all(append.by.failed for append in appends):
                self._judged["aborted-read"] += 1
                sentence = f"Value {value} was read although the transaction that appended it failed."
                self._report("aborted-read", name, sentence, appends[0].by.invoked, appends[0].by.done, read.seq)
        for offset, value in enumerate(key.longest):
            for append in key.appends.get(value, ()):
                append.offset = offset

    def _orders(self, name: str, key: _List) -> None:
        """All reads are beginnings of the longest; none ends in the middle of a transaction."""
        for read in key.reads:
            self._judged["inconsistent-offset"] += 1
            self._judged["uncommitted-read"] += 1
            if key.longest[: len(read.values)] != read.values:
                key.odd = True
                place = next(
                    i for i, pair in enumerate(zip(read.values, key.longest, strict=False)) if pair[0] != pair[1]
                )
                sentence = f"At offset {place} one read found value {read.values[place]} and another one "
                sentence += f"value {key.longest[place]}."
                self._report("inconsistent-offset", name, sentence, read.seq, key.longest_seq)
                continue
            outside = len(read.values) - read.own
            last = key.appends.get(read.values[outside - 1], ()) if outside else ()
            if len(last) == 1 and last[0].by is not read.by:
                writer = last[0].by
                mine = (micro for micro in writer.micro.values() if micro.f == "append" and micro.log == name)
                values = (micro.values[0] for micro in mine if not 0 <= self._offset(micro) < outside)
                rest = [value for value in values if value != last[0].value]
                if rest:
                    sentence = f"A read ends with value {last[0].value} of a transaction that also appended value "
                    sentence += f"{rest[-1]}."
                    self._report("uncommitted-read", name, sentence, writer.invoked, read.seq)

    def _missing(self, name: str, key: _List) -> None:
        """Values that were acknowledged and that nobody read, although they should have been."""
        single = [appends[0] for appends in key.appends.values() if len(appends) == 1]
        last = max((append.by.ended for append in single), default=-1)
        final = next((read for read in key.reads if read.by.invoked > last), None)
        seen = [append for append in single if append.offset >= 0]
        latest = max(seen, key=lambda append: append.by.invoked, default=None)
        for append in single:
            if not append.by.certain:
                continue
            self._judged["lost-write"] += 1
            self._judged["unseen"] += final is not None
            if append.offset >= 0:
                continue
            if final is not None:
                sentence = f"Value {append.value} was acknowledged, but the final read does not return it."
                self._report("unseen", name, sentence, append.by.invoked, append.by.done, final.seq)
            elif latest is not None and latest.by.invoked > append.by.done:
                sentence = f"Value {append.value} was acknowledged before value {latest.value} was appended, which was "
                sentence += "read, and is lost: nobody read it."
                self._report("lost-write", name, sentence, append.by.invoked, append.by.done, key.longest_seq)

    def _in_time(self, name: str, key: _List) -> None:
        """Values in the order in which their transactions were over and began, and each client's in its own."""
        known = sorted(
            (appends[0] for appends in key.appends.values() if len(appends) == 1 and appends[0].offset >= 0),
            key=lambda append: append.offset,
        )
        # From each offset on: who was over first.
        first: list[_Append] = list(accumulate(reversed(known), _first_over))[::-1]
        for append, later in zip(known, first[1:], strict=False):
            self._judged["real-time-inversion"] += 1
            if later.by.certain and later.by.done < append.by.invoked:
                sentence = f"Value {later.value} was acknowledged at offset {later.offset} before the append of value "
                sentence += f"{append.value} began, which is at offset {append.offset}."
                self._report("real-time-inversion", name, sentence, later.by.done, append.by.invoked, key.longest_seq)
        for appends in key.clients.values():
            read = [append for append in appends if append.offset >= 0 and len(key.appends[append.value]) == 1]
            for one, other in pairwise(read):
                if one.by is other.by or one.by.certain:
                    self._judged["non-monotonic-append"] += 1
                    if other.offset < one.offset:
                        sentence = f"One client appended value {one.value} at offset {one.offset} and then value "
                        sentence += f"{other.value} at offset {other.offset}."
                        events = (one.by.invoked, other.by.invoked, key.longest_seq)
                        self._report("non-monotonic-append", name, sentence, *events)

    def _stale(self, name: str, key: _List) -> None:
        """A read returns what was there before its transaction began."""
        facts = [(read.by.done, len(read.values), read.seq) for read in key.reads]
        facts += [
            (append.by.done, append.offset + 1, append.by.done)
            for appends in key.appends.values()
            for append in appends
            if len(appends) == 1 and append.offset >= 0 and append.by.certain
        ]
        facts.sort()
        known = list(accumulate((fact[1] for fact in facts), max))
        # Whatever is there, it is no less than all that were acknowledged; unless they are known to be gone.
        gone = self._violated["unseen"] or self._violated["lost-write"]
        single = (appends[0].by for appends in key.appends.values() if len(appends) == 1 and not gone)
        over = sorted(by.done for by in single if by.certain)
        for read in key.reads:
            self._judged["stale-tail"] += 1
            place, outside = bisect_left(facts, (read.by.invoked,)), len(read.values) - read.own
            count = bisect_left(over, read.by.invoked)
            most = max(known[place - 1] if place else 0, count)
            if outside < most:
                reported = (
                    over[count - 1]
                    if count == most
                    else next(seq for (_, _, seq), there in zip(facts, known, strict=True) if there > outside)
                )
                words = f"A read returned {outside} entries although {most} were known before it was asked for."
                self._report("stale-tail", name, words, reported, read.by.invoked, read.seq)

    # the order of transactions

    def _circle(self) -> None:
        """A circle in the order of the transactions, if there is one."""
        count = len(self._all)
        after: list[list[tuple[int, str]]] = [[] for _ in range(count)]
        read = {whole.place for key in self._lists.values() for each in key.reads for whole in (each.by,)}
        there = [
            whole.certain or whole.place in read or any(self._offset(micro) >= 0 for micro in whole.micro.values())
            for whole in self._all
        ]
        for one, other, why in self._edges(there):
            if one != other:
                after[one].append((other, why))
        # Time: a chain of nodes, one a completion, behind all that are over and before all that begin later.
        events = [(whole.invoked, place, False) for place, whole in enumerate(self._all) if there[place]]
        events += [(whole.done, place, True) for place, whole in enumerate(self._all) if there[place] and whole.certain]
        for _, place, over in sorted(events):
            if over:
                after.append([])
                if len(after) - 2 >= count:
                    after[-2].append((len(after) - 1, ""))
                after[place].append((len(after) - 1, "was over before"))
            elif len(after) > count:
                after[-1].append((place, ""))
        left = _in_circles([[other for other, _ in each] for each in after])
        if not left:
            return
        start = next(node for node in range(count) if node in left)
        way = _way_back(after, start, left)
        reported = [(self._all[node].invoked, why) for node, why in way if node < count]
        words = "".join(f" that of event {seq}, which {why}" for seq, why in reported[1:])
        reason = f"that of event {reported[0][0]} {reported[0][1]}{words} the first"
        found = LINEARIZABLE.violation((seq for seq, _ in reported), "transactions", count=sum(there), reason=reason)
        self._report(LINEARIZABLE.id, None, found.sentence, *found.events)

    def _offset(self, micro: _Micro) -> int:
        if micro.f != "append":
            return -1
        return self._lists[micro.log].appends[micro.values[0]][0].offset

    def _edges(self, there: Sequence[bool]) -> Iterator[tuple[int, int, str]]:
        """Which transaction comes before which, and why."""
        for key in self._lists.values():
            by = [key.appends[value][0].by.place for value in key.longest]
            rest = [
                appends[0].by.place
                for appends in key.appends.values()
                if appends[0].offset < 0 and there[appends[0].by.place] and not appends[0].by.failed
            ]
            for one, other in pairwise(by):
                yield one, other, "appended before"
            if by:
                for other in rest:
                    yield by[-1], other, "appended before"
            for read in key.reads:
                outside = len(read.values) - read.own
                if outside:
                    yield by[outside - 1], read.by.place, "was read by"
                # Its own values follow what it read.
                following = by[outside : outside + 1] or rest
                for other in following:
                    yield read.by.place, other, "did not read"


def _first_over(one: _Append, other: _Append) -> _Append:
    return other if other.by.certain and (not one.by.certain or other.by.done < one.by.done) else one


def _shortened(values: Sequence[str]) -> str:
    text = f"[{', '.join(values)}]"
    return text if len(text) <= 80 else f"{text[:40]}…{text[-39:]}"


def _in_circles(after: Sequence[Sequence[int]]) -> set[int]:
    """The nodes that are in a circle, or behind one."""
    waiting = [0] * len(after)
    for following in after:
        for node in following:
            waiting[node] += 1
    free = [node for node, count in enumerate(waiting) if not count]
    left = set(range(len(after)))
    while free:
        node = free.pop()
        left.discard(node)
        for other in after[node]:
            waiting[other] -= 1
            if not waiting[other]:
                free.append(other)
    return left


def _way_back(after: Sequence[Sequence[tuple[int, str]]], start: int, left: set[int]) -> list[tuple[int, str]]:
    """A short circle among the nodes that are left: each node, and why it comes before the next."""
    before: dict[int, list[int]] = {}
    for node in left:
        for other, _ in after[node]:
            if other in left:
                before.setdefault(other, []).append(node)
    # Backwards from anything that is left one comes into a circle.
    seen: set[int] = set()
    while start not in seen:
        seen.add(start)
        start = before[start][0]
    came: dict[int, tuple[int, str]] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other, why in after[node]:
            if other in left and other not in came:
                came[other] = node, why
                queue.append(other)
        if start in came:
            break
    way = [came[start]]
    while way[-1][0] != start:
        way.append(came[way[-1][0]])
    return way[::-1]
