"""Kafka-like histories: send, poll, assign, subscribe and transactions of them, judged by the anomalies by name.

Offsets need not be dense: one that nobody wrote or read (a control record, an aborted transaction) is nothing. A
transaction, and any operation with several parts, counts as a whole: if its outcome is unknown it is committed only if
one of its values was read, and then all its offsets bind; if it failed none of its values may be read, and its reader
is where it was. What a failed operation polled must be right nevertheless, for a log gives out nothing wrong whatever
becomes of the reader; but it was not consumed and counts as read by nobody. Polls of one operation are ordered. An
operation that polls what it sends itself reads uncommitted values; so do operations that polled from one another in a
circle, for not each of them can have been committed before the next one polled.

A reader keeps its position on a key until it is given a list of keys without it, asks to go to the beginning, a
rebalance concerns the key, or an operation of unknown outcome leaves open where it is. A *final read* of a key is one
that began after the last send to it was over, either as its reader had asked for the beginning, even if it was given
nothing of the key, or at the lowest offset known and on until a poll was empty; a poll may well return less than there
is.

What was sent with acks 1 or 0 promises less: it may be gone (the loss account says so), and where two acknowledgements
put it counts for nothing, for between them a failover may have been; what readers are given must agree nevertheless.
Sources: history-checks.md#kafka-like-histories-of-jepsen, history-checks.md#anomalies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import pyarrow as pa

from loghistory import HistoryError, Kind
from loghistory.errors import quote

from ..checks.clients.rules import CHECKS as OF_CLIENTS
from ..checks.contract import Excuse, Loss, Outcome, Violation, outcome
from ..checks.faults import ACKS, AGAIN, CAUSES
from ..checks.raft.replicas.rules import CHECKS as OF_REPLICAS

KEPT = 10
_READING = ("poll", "txn")

_IDS = (
    "inconsistent-offset",
    "duplicate",
    "aborted-read",
    "phantom",
    "lost-write",
    "unseen",
    "skip",
    "non-monotonic-read",
    "non-monotonic-append",
    "real-time-inversion",
    "uncommitted-read",
)
(
    INCONSISTENT_OFFSET,
    DUPLICATE,
    ABORTED_READ,
    PHANTOM,
    LOST_WRITE,
    UNSEEN,
    SKIP,
    NON_MONOTONIC_READ,
    NON_MONOTONIC_APPEND,
    REAL_TIME_INVERSION,
    UNCOMMITTED_READ,
) = range(len(_IDS))
BY_ID = {check.id: check for check in (*OF_CLIENTS, *OF_REPLICAS)}
CHECKS = tuple(BY_ID[id_] for id_ in _IDS)
"""The checks of a log's clients that make sense where offsets need not be dense."""

Name: TypeAlias = int | str
"""What names a value: an integer, or JSON."""


@dataclass(slots=True)
class _Sent:
    """A value of a key: its sends and what was seen of it."""

    value: Name
    weak: int | None = None
    """The acks level, 1 or 0, if it was not all."""
    acked_time: int = 0
    invokes: int = 0
    fails: int = 0
    invoked: int = -1
    failed: int = -1
    acked: int = -1
    """Event of its acknowledgement."""
    offset: int | None = None
    """Where it is, by the acknowledgement or by a committed operation of unknown outcome."""
    bound: int = -1
    """The event that says so."""
    read: int = -1
    """Event that read it first."""
    read_offset: int = -1
    elsewhere: bool = False

    @property
    def there(self) -> int:
        """The first event that shows it in the log; -1 if none does."""
        return min((seq for seq in (self.acked, self.read) if seq >= 0), default=-1)


@dataclass(slots=True)
class Session:
    """A reader's way through a key since it was put there."""

    began: int
    """The event that invoked its first poll."""
    first: int
    asked: bool
    """It had asked to go to the beginning."""
    last: int
    last_seq: int
    ended: bool = False
    """An empty poll followed."""


@dataclass(slots=True)
class Key:
    """One key, which is a log of its own: what was sent to it, and what was read."""

    name: str
    values: dict[Name, _Sent] = field(default_factory=dict)
    at: dict[int, tuple[Name, int]] = field(default_factory=dict)
    """By offset: the value first seen there, and the event."""
    gaps: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """From and to which offset a reader went, and the events that gave it both."""
    last_send: int = -1
    open_sends: int = 0
    sessions: dict[int, Session] = field(default_factory=dict)
    highest: tuple[int, int] = (-1, -1)
    """The highest offset read, and the event."""


@dataclass(slots=True)
class _Send:
    """One send that is part of an open operation."""

    key: Key
    sent: _Sent
    offset: int | None = None
    """As the operation answered."""
    seq: int = -1
    """Event of the answer, or of what else tells its outcome."""
    whole: Sequence[_Send] = ()
    """All sends of the operation if its outcome is unknown."""

    @property
    def place(self) -> int | None:
        """Where it is in the log, as answered or as read; None if that is not known or it may not be there at all."""
        if self.whole and not any(send.sent.read >= 0 for send in self.whole):
            return None
        if self.offset is not None:
            return self.offset
        return self.sent.read_offset if self.sent.read >= 0 and self.sent.invokes == 1 else None


@dataclass(slots=True)
class Open:
    """An operation that is not over, with its parts so far."""

    f: str
    process: int
    seq: int
    sends: dict[int, _Send] = field(default_factory=dict)
    polled: list[tuple[Key, int, Name, int]] = field(default_factory=list)
    keys: str | None = None
    """Of ``assign`` and ``subscribe``: JSON."""
    to_beginning: bool = False
    acks: int | None = None
    """Acks level of its sends; None: it says none, which means all."""
    poll: int = -1
    """The part that was last given anything."""
    polls: list[int] = field(default_factory=list)
    """The events that each of its polls was given first."""
    reads: bool = False
    """Whether some part of it polls."""


@dataclass(slots=True)
class _Reader:
    """Where a client stands: by key the last offset it was given and the event."""

    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    """Keys of which it asked for the beginning."""
    appended: dict[str, list[_Send]] = field(default_factory=dict)
    """By key its sends that may be in the log, in order."""
    subscribed: bool = False
    """Which keys it reads is not its own choice."""


class KafkaHistory:
    """The operations of a history: ``feed`` its events, then ``finish``."""

    conclusive = frozenset({"inconsistent-offset"})
    """The checks whose violations no event that is missing could explain."""

    def __init__(self, name: str) -> None:
        self.notes: list[str] = []
        self._name = name
        self._keys: dict[str, Key] = {}
        self._open: dict[int, Open] = {}
        self._readers: dict[int, _Reader] = {}
        self._unknown: list[tuple[int, list[_Send]]] = []
        self._strangers: list[tuple[Key, _Sent]] = []
        self._any_send = False
        self._time = 0
        self.losses: list[Loss] = []
        """Acknowledged values that are gone and that their acks level does not promise."""
        self._sorted: dict[str, Sequence[int]] = {}
        """By key, once the history is over: the offsets that hold something."""
        self._assignments_reported = False
        """The history tells what rebalances there were."""
        self._jumps: list[tuple[int, Key, tuple[int, int], tuple[int, int]]] = []
        """Of readers that had subscribed, from poll to poll: check, key, and from which offset and event to which."""
        self._polls_unknown = 0
        """How many operations polled, and nobody knows what they were given."""
        self._both: list[Open] = []
        """Operations that sent and polled, and may have been committed."""
        self._judged = [0] * len(CHECKS)
        self._violated = [0] * len(CHECKS)
        self._excuses: list[Counter[str]] = [Counter() for _ in CHECKS]
        self._unjudged = [0] * len(CHECKS)
        self._violations: list[list[Violation]] = [[] for _ in CHECKS]

    @property
    def logs(self) -> int:
        """How many keys, each a log, were seen; at least 1."""
        return max(1, len(self._keys))

    def feed(self, batch: pa.RecordBatch) -> None:
        """Take the next events; columns seq, time, kind, log, process, op, txn, f, acks, offset, value and text."""
        names = ("seq", "time", "kind", "log", "process", "op", "txn", "f", "acks", "offset", "value", "text")
        columns = [batch.column(name).to_pylist() for name in names]
        for seq, time, kind, log, process, op, txn, f, acks, offset, value, text in zip(*columns, strict=True):
            if op is None or process is None:
                continue
            self._time = time
            if kind == Kind.INVOKE and txn is None:
                self._open[op] = Open(f, process, seq, keys=text, to_beginning=offset is not None, acks=acks)
                continue
            whole = self._open.get(op if txn is None else txn)
            if whole is None:
                continue
            if txn is None:
                if kind != Kind.OBSERVE:
                    self._close(whole, kind, seq, text)
                    del self._open[op]
            elif kind == Kind.OBSERVE:
                if op != whole.poll:
                    whole.poll = op
                    whole.polls.append(seq)
                whole.polled.append((self._key(log), offset, text if value is None else value, seq))
            elif f == "poll" and kind == Kind.INVOKE:
                whole.reads = True
            elif f == "send" and kind == Kind.INVOKE:
                whole.sends[op] = self._invoke_send(self._key(log), text if value is None else value, seq, whole.acks)
            elif f == "send" and op in whole.sends:
                whole.sends[op].offset = offset
                whole.sends[op].seq = seq

    def _reader(self, process: int) -> _Reader:
        return self._readers.setdefault(process, _Reader())

    def _key(self, log: str | None) -> Key:
        name = log or ""
        if name not in self._keys:
            self._keys[name] = Key(name)
        return self._keys[name]

    def _invoke_send(self, key: Key, value: Name, seq: int, acks: int | None) -> _Send:
        self._any_send = True
        sent = key.values.get(value)
        if sent is None:
            sent = key.values[value] = _Sent(value)
        if not sent.invokes:
            sent.invoked = seq
            sent.weak = acks if acks in (0, 1) else None
        sent.invokes += 1
        key.open_sends += 1
        return _Send(key, sent)

    def _report(self, check: int, key: Key | None, sentence: str, *events: int) -> None:
        self._violated[check] += 1
        if len(self._violations[check]) < KEPT:
            shown = tuple(sorted({seq for seq in events if seq >= 0}))
            self._violations[check].append(Violation(sentence, shown, None if key is None else key.name))

    # completions

    def _close(self, whole: Open, kind: str, seq: int, text: str | None) -> None:
        reader = self._reader(whole.process)
        for send in whole.sends.values():
            send.key.open_sends -= 1
            send.key.last_send = seq
            if kind == Kind.OK:
                self._acknowledged(send, seq)
            elif kind == Kind.FAIL:
                send.sent.fails += 1
                send.sent.failed = seq
        if kind == Kind.INFO and whole.sends:
            self._leave_open(whole, seq)
        if kind != Kind.FAIL:
            for send in whole.sends.values():
                reader.appended.setdefault(send.key.name, []).append(send)
        if whole.f in ("assign", "subscribe"):
            if kind != Kind.FAIL:
                self._assigned(whole, reader, text if text is not None else whole.keys, seq, certain=kind == Kind.OK)
            return
        if kind != Kind.FAIL and whole.sends and whole.polled:
            self._both.append(whole)
        self._uncommitted(whole)
        self._assignments_reported = self._assignments_reported or text is not None
        moved = self._keys_in(text, seq) if text is not None and whole.f in _READING else frozenset()
        for name in moved:
            reader.positions.pop(name, None)
        self._polled(whole, reader, moved, seq, failed=kind == Kind.FAIL, unknown=kind == Kind.INFO)
        for name in moved:
            reader.positions.pop(name, None)
            if name in self._keys:
                self._keys[name].sessions.pop(whole.process, None)  # somebody else may read on
        if kind == Kind.INFO and whole.f != "send":
            self._polls_unknown += whole.reads and not whole.polled
            # Where the reader is now nobody knows.
            reader.positions.clear()
            reader.fresh.clear()

    def _leave_open(self, whole: Open, seq: int) -> None:
        """Take note of sends of unknown outcome."""
        sends = list(whole.sends.values())
        for send in sends:
            send.whole = sends
        self._unknown.append((seq, sends))

    def _keys_in(self, text: str | None, seq: int) -> frozenset[str]:
        try:
            return frozenset(msgspec.json.decode(text or "[]", type=list[str]))
        except (msgspec.DecodeError, RecursionError):
            problem = f"{quote(text)} is not a list of keys"
            raise HistoryError(self._name, seq, "text", problem, "a JSON list of strings", place="seq") from None

    def _assigned(self, whole: Open, reader: _Reader, text: str | None, seq: int, *, certain: bool) -> None:
        keys = self._keys_in(text, seq)
        reader.subscribed = whole.f == "subscribe"
        if whole.to_beginning:
            reader.positions = {}
            reader.fresh = set(keys) if certain else set()
        else:
            reader.positions = {name: place for name, place in reader.positions.items() if name in keys}
            reader.fresh &= keys

    def _acknowledged(self, send: _Send, seq: int) -> None:
        key, sent, offset = send.key, send.sent, send.offset
        shown = send.seq if send.seq >= 0 else seq
        if sent.acked < 0:
            sent.acked, sent.acked_time = shown, self._time
        if offset is None:
            return
        self._place(key, sent, offset, shown)

    def _place(self, key: Key, sent: _Sent, offset: int, seq: int) -> None:
        """The log has the value at the offset, as the one who sent it was told."""
        if sent.offset is None:
            sent.offset, sent.bound = offset, seq
            if sent.read >= 0 and sent.read_offset != offset:
                self._twice(key, sent, sent.read_offset, sent.read, offset, seq)
        elif sent.offset != offset:
            self._twice(key, sent, sent.offset, sent.bound, offset, seq)
        if sent.weak is None:
            self._bind(key, sent.value, offset, seq)
        # Else a failover may put another value there; readers must agree nevertheless.

    def _twice(self, key: Key, sent: _Sent, one: int, one_seq: int, other: int, seq: int) -> None:
        if sent.elsewhere:
            return
        sent.elsewhere = True
        if sent.invokes > 1:
            self._excuses[DUPLICATE][CAUSES[AGAIN]] += 1
            return
        sentence = f"Value {sent.value} was sent once but is at offset {one} and at offset {other}."
        self._report(DUPLICATE, key, sentence, sent.invoked, one_seq, seq)

    def _bind(self, key: Key, value: Name, offset: int, seq: int) -> None:
        self._judged[INCONSISTENT_OFFSET] += 1
        there = key.at.setdefault(offset, (value, seq))
        if there[0] != value:
            sentence = f"At offset {offset} there is value {there[0]} for one client and value {value} for another."
            self._report(INCONSISTENT_OFFSET, key, sentence, there[1], seq)

    def _uncommitted(self, whole: Open) -> None:
        """What an operation polled of its own sends."""
        if not whole.sends or not whole.polled:
            return
        own = {(send.key.name, send.sent.value): send for send in whole.sends.values()}
        for key, offset, value, seq in whole.polled:
            self._judged[UNCOMMITTED_READ] += 1
            if (key.name, value) in own:
                sentence = f"Value {value} at offset {offset} was read by the very operation that sent it."
                self._report(UNCOMMITTED_READ, key, sentence, whole.seq, seq)

    def _polled(
        self, whole: Open, reader: _Reader, moved: Collection[str], done: int, *, failed: bool, unknown: bool
    ) -> None:
        """What the operation's polls gave its reader; ``moved`` are keys that a rebalance concerned.

        ``unknown``: what it does not show may have been given as well.
        """
        if whole.f == "poll" and not (failed or unknown):
            if not whole.polled:
                for name in reader.positions:
                    self._keys[name].sessions[whole.process].ended = True
            given = {key.name for key, *_ in whole.polled}
            for name in reader.fresh - given:
                key = self._key(name)
                key.sessions[whole.process] = Session(whole.seq, 0, asked=True, last=-1, last_seq=done)
        before = dict(reader.positions) if failed and whole.polled else {}
        for key, offset, value, seq in whole.polled:
            position = reader.positions.get(key.name) if key.name not in moved else None
            if failed:
                self._given(key, offset, value, seq)
            else:
                self._seen(key, offset, value, seq)
                self._follow(key, whole, reader, position, offset, seq)
            if position is not None:
                in_one_poll = bisect_right(whole.polls, position[1]) == bisect_right(whole.polls, seq)
                self._moved(key, position, offset, seq, certain=in_one_poll or not reader.subscribed)
            reader.positions[key.name] = (offset, seq)
        if failed and whole.polled:
            reader.positions = before

    @staticmethod
    def _follow(
        key: Key, whole: Open, reader: _Reader, position: tuple[int, int] | None, offset: int, seq: int
    ) -> None:
        """Note how far the reader's way through the key goes."""
        session = key.sessions.get(whole.process)
        if position is None or session is None or session.last != position[0]:
            asked = key.name in reader.fresh
            key.sessions[whole.process] = Session(whole.seq, offset, asked, offset, seq)
        else:
            session.last, session.last_seq, session.ended = offset, seq, False
        reader.fresh.discard(key.name)

    def _moved(self, key: Key, position: tuple[int, int], offset: int, seq: int, *, certain: bool) -> None:
        """A reader at a position was given an offset; ``certain``: it cannot have lost the key meanwhile."""
        self._judged[NON_MONOTONIC_READ] += 1
        self._judged[SKIP] += 1
        if offset > position[0] + 1:
            if certain:
                key.gaps.setdefault((position[0], offset), (position[1], seq))
            else:
                self._jumps.append((SKIP, key, position, (offset, seq)))
        elif offset <= position[0]:
            if certain:
                self._went_back(key, position, (offset, seq))
            else:
                self._jumps.append((NON_MONOTONIC_READ, key, position, (offset, seq)))

    def _went_back(self, key: Key, position: tuple[int, int], given: tuple[int, int]) -> None:
        sentence = f"A reader that was given offset {position[0]} was given offset {given[0]} after it."
        self._report(NON_MONOTONIC_READ, key, sentence, position[1], given[1])

    def _settle_jumps(self) -> None:
        """Judge how readers moved that had subscribed, if the history tells what rebalances there were."""
        for check, key, position, given in self._jumps:
            if not self._assignments_reported:
                passed = check == SKIP and self._passed_over(key, position[0], given[0]) is None
                self._judged[check] -= not passed
                self._unjudged[check] += not passed
            elif check == SKIP:
                key.gaps.setdefault((position[0], given[0]), (position[1], given[1]))
            else:
                self._went_back(key, position, given)

    def _given(self, key: Key, offset: int, value: Name, seq: int) -> None:
        """A failed operation was given a value: where it is must be right."""
        sent = key.values.get(value)
        if sent is not None and sent.read >= 0:
            if sent.read_offset != offset:
                self._twice(key, sent, sent.read_offset, sent.read, offset, seq)
        elif sent is not None and sent.offset is not None and sent.offset != offset:
            self._twice(key, sent, sent.offset, sent.bound, offset, seq)
        self._bind(key, value, offset, seq)

    def _seen(self, key: Key, offset: int, value: Name, seq: int) -> None:
        sent = key.values.get(value)
        if sent is None:
            sent = key.values[value] = _Sent(value)
        if sent.read < 0:
            sent.read, sent.read_offset = seq, offset
            self._judged[DUPLICATE] += 1
            if not sent.invokes:
                self._strangers.append((key, sent))
            if sent.offset is not None and sent.offset != offset:
                self._twice(key, sent, sent.offset, sent.bound, offset, seq)
        elif sent.read_offset != offset:
            self._twice(key, sent, sent.read_offset, sent.read, offset, seq)
        self._bind(key, value, offset, seq)
        if offset > key.highest[0]:
            key.highest = (offset, seq)

    # the end

    def finish(self) -> tuple[Outcome, ...]:
        """Judge what the end decides, and answer."""
        for whole in self._open.values():
            # Never completed: an unknown outcome that says no offsets.
            if whole.sends:
                self._leave_open(whole, whole.seq)
            self._polls_unknown += whole.reads and not whole.polled
        self._open.clear()
        for seq, sends in self._unknown:
            if any(send.sent.read >= 0 for send in sends):
                for send in sends:
                    if send.offset is not None:
                        self._place(send.key, send.sent, send.offset, send.seq if send.seq >= 0 else seq)
        self._settle_jumps()
        self._phantoms()
        self._circles()
        for reader in self._readers.values():
            for sends in reader.appended.values():
                self._in_order(sends)
        for key in self._keys.values():
            self._aborted(key)
            self._missing(key)
            self._skipped(key)
            self._inverted(key)
        return tuple(
            outcome(
                CHECKS[place],
                self._judged[place],
                self._violated[place],
                tuple(self._violations[place]),
                excuses=tuple(Excuse(cause, (), facts, -1) for cause, facts in sorted(self._excuses[place].items())),
                unjudged=self._unjudged[place],
                undecided=self._unsettled(place, self._unjudged[place]),
            )
            for place in range(len(CHECKS))
        )

    def _unsettled(self, check: int, unjudged: int) -> str | None:
        if not unjudged:
            return None
        if check == LOST_WRITE:
            values = "1 acknowledged value" if unjudged == 1 else f"{unjudged:,} acknowledged values"
            polls = "1 poll" if self._polls_unknown == 1 else f"{self._polls_unknown:,} polls"
            return f"{values} below the highest offset read may have been given to {polls} of unknown outcome"
        times = "once" if unjudged == 1 else f"{unjudged:,} times"
        return (
            f"{times} a reader that had subscribed was elsewhere at its next poll; the history does not tell whether "
            "its keys had been given to another one (no :rebalance-log)"
        )

    def _phantoms(self) -> None:
        if not self._any_send:
            return
        self._judged[PHANTOM] += sum(1 for key in self._keys.values() for sent in key.values.values() if sent.read >= 0)
        for key, sent in self._strangers:
            when = "nobody had sent it" if sent.invokes else "nobody sent it"
            sentence = f"Value {sent.value} was read at offset {sent.read_offset} although {when}."
            self._report(PHANTOM, key, sentence, sent.read, sent.invoked)

    def _circles(self) -> None:
        """Operations that polled values of one another, in a circle."""
        writers = {
            (send.key.name, send.sent.value): place
            for place, whole in enumerate(self._both)
            for send in whole.sends.values()
            if send.sent.invokes == 1
        }
        sources: dict[int, dict[int, tuple[Key, Name, int]]] = {}
        for place, whole in enumerate(self._both):
            for key, _, value, seq in whole.polled:
                writer = writers.get((key.name, value), place)
                if writer != place:
                    sources.setdefault(place, {})[writer] = key, value, seq
        readers: dict[int, list[int]] = {}
        for place, found in sources.items():
            for writer in found:
                readers.setdefault(writer, []).append(place)
        left = {place: len(sources.get(place, ())) for place in {*sources, *readers}}
        done = [place for place, count in left.items() if not count]
        while left:
            # Who polled from nobody that is left is in no circle.
            while done:
                place = done.pop()
                del left[place]
                for reader in readers.get(place, ()):
                    if reader in left:
                        left[reader] -= 1
                        if not left[reader]:
                            done.append(reader)
            if not left:
                break
            way: dict[int, int] = {}
            place = next(iter(left))
            while place not in way:
                way[place] = next(writer for writer in sources[place] if writer in left)
                place = way[place]
            circle = [place]
            while way[circle[-1]] != place:
                circle.append(way[circle[-1]])
            key, value, _ = sources[place][way[place]]
            sentence = (
                f"Value {value} was read before it can have been committed: {len(circle)} operations read from one "
            )
            sentence += "another in a circle."
            self._report(UNCOMMITTED_READ, key, sentence, *(sources[each][way[each]][2] for each in circle))
            done = [place]

    def _in_order(self, sends: Sequence[_Send]) -> None:
        """One client's sends to a key, in its order, as far as it is known where they are.

        What is of unknown outcome may arrive at any time later; only inside its operation it has an order.
        """
        certain: tuple[_Send, int] | None = None
        inside: tuple[_Send, int] | None = None
        for send in sends:
            place = send.place
            if place is None or send.sent.weak is not None:
                continue
            earlier = inside if inside is not None and inside[0].whole is send.whole else certain
            if send.whole:
                inside = send, place
            else:
                certain = send, place
            if earlier is None:
                continue
            self._judged[NON_MONOTONIC_APPEND] += 1
            former, before = earlier
            if place < before:
                sentence = (
                    f"One client appended value {former.sent.value} at offset {before} and then "
                    f"value {send.sent.value} at offset {place}."
                )
                shown = [each.seq if each.seq >= 0 else each.sent.read for each in (former, send)]
                self._report(NON_MONOTONIC_APPEND, send.key, sentence, *shown)

    def _aborted(self, key: Key) -> None:
        for sent in key.values.values():
            if sent.fails and sent.fails == sent.invokes:
                self._judged[ABORTED_READ] += 1
                if sent.read >= 0:
                    sentence = f"Value {sent.value} was read at offset {sent.read_offset} although its send failed."
                    self._report(ABORTED_READ, key, sentence, sent.invoked, sent.failed, sent.read)

    def _missing(self, key: Key) -> None:
        """Values that are in the log, as their senders were told, and were not read."""
        highest, highest_seq = key.highest
        final, final_end, final_seq = self._final(key)
        gone: dict[int, list[_Sent]] = {}
        for sent in key.values.values():
            if sent.acked < 0 and sent.offset is None:
                continue
            if sent.weak is not None:
                passed = sent.offset is not None and sent.offset < highest
                if sent.read < 0 and sent.acked >= 0 and (passed or final):
                    self._excuses[LOST_WRITE if passed else UNSEEN][CAUSES[ACKS]] += 1
                    gone.setdefault(sent.weak, []).append(sent)
                continue
            lost = sent.offset is not None and sent.offset < highest and sent.read < 0
            passed = final or any(low < (sent.offset or 0) < high for low, high in key.gaps)
            if lost and self._polls_unknown and not passed:
                self._unjudged[LOST_WRITE] += 1
                continue
            if sent.offset is not None and sent.offset < highest:
                self._judged[LOST_WRITE] += 1
            if lost:
                sentence = (
                    f"Value {sent.value} was acknowledged at offset {sent.offset} and is lost: "
                    f"offset {highest} was read, and this value never was."
                )
                self._report(LOST_WRITE, key, sentence, sent.invoked, sent.bound, highest_seq)
            elif final:
                self._judged[UNSEEN] += 1
                # What another value took the place of is an inconsistent offset.
                if sent.offset > final_end if sent.offset is not None else sent.read < 0:
                    where = "" if sent.offset is None else f" at offset {sent.offset}"
                    sentence = f"Value {sent.value} was acknowledged{where}, but the final read does not return it."
                    self._report(UNSEEN, key, sentence, sent.invoked, max(sent.acked, sent.bound), final_seq)
        for acks, values in gone.items():
            values.sort(key=lambda sent: sent.acked)
            times = [sent.acked_time for sent in values]
            events = tuple(sent.acked for sent in values[:KEPT])
            count = len(values)
            loss = Loss(str(acks), "none known", count, count, 0, min(times), max(times), events, key.name or None)
            self.losses.append(loss)

    def _final(self, key: Key) -> tuple[bool, int, int]:
        """Whether the key was read to its end, and where that was: offset and event."""
        if key.open_sends:
            return False, -1, -1
        lowest = min(key.at, default=0)
        final = [
            session
            for process, session in key.sessions.items()
            if (self._assignments_reported or not self._readers[process].subscribed)
            and session.began > key.last_send
            and (session.asked or (session.ended and session.first <= lowest))
        ]
        if not final:
            return False, -1, -1
        farthest = max(final, key=lambda session: session.last)
        if any(session.asked for session in final):
            return True, farthest.last, farthest.last_seq
        # Nobody said that it was to be final: what others read is not missed.
        return True, max(farthest.last, key.highest[0]), farthest.last_seq

    def _skipped(self, key: Key) -> None:
        for (low, high), (before, seq) in key.gaps.items():
            there = self._passed_over(key, low, high)
            if there is not None:
                value, shown = key.at[there]
                sentence = (
                    f"A reader went from offset {low} to offset {high} and passed over value {value} at offset {there}."
                )
                self._report(SKIP, key, sentence, before, seq, shown)

    def _passed_over(self, key: Key, low: int, high: int) -> int | None:
        """The first offset between these two, both left out, that holds something."""
        if key.name not in self._sorted:
            self._sorted[key.name] = sorted(key.at)
        known = self._sorted[key.name]
        place = bisect_right(known, low)
        return known[place] if place < len(known) and known[place] < high else None

    def _inverted(self, key: Key) -> None:
        """Values that were sent after another was acknowledged or read, and are before it."""
        known = [
            (sent, sent.offset if sent.offset is not None else sent.read_offset)
            for sent in key.values.values()
            if sent.invokes == 1 and sent.weak is None and (sent.offset is not None or sent.read >= 0)
        ]
        there = sorted((each for each in known if each[0].there >= 0), key=lambda each: each[0].there)
        known.sort(key=lambda each: each[0].invoked)
        far: tuple[_Sent, int] | None = None
        done = 0
        for sent, offset in known:
            while done < len(there) and there[done][0].there < sent.invoked:
                if far is None or there[done][1] > far[1]:
                    far = there[done]
                done += 1
            if far is None:
                continue
            self._judged[REAL_TIME_INVERSION] += 1
            if offset < far[1]:
                how = "acknowledged" if far[0].there == far[0].acked else "read"
                sentence = (
                    f"Value {far[0].value} was {how} at offset {far[1]} before the send of value "
                    f"{sent.value} began, which is at offset {offset}."
                )
                shown = sent.bound if sent.bound >= 0 else sent.read
                self._report(REAL_TIME_INVERSION, key, sentence, far[0].there, sent.invoked, shown)
