"""What streams hear from a shard against what that shard says it shipped them, by the START that it answers; and
against what it could know.

A shard ships in order, and between a START and the next one nothing is lost, doubled or overtaken. A shard that was
cut off may have lost the end of its record: what is missing there is held against it only once it records something
more in the life in which it was asked; so it is with what a sequencer released last.

Sources: read-path.md#heard-was-shipped, read-path.md#in-order-shipping, read-path.md#answers-are-so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.read_path import AnswerWord, HeardWord, NodeWord, RewindWord, ShardWord

from ..codes import FAULT_WIPE, NULL, REASONS, code, how_many, lookup, word_code
from ..columns import Ints
from ..contract import Check, Family, Setting, Verdicts
from ..ends import Ends, awaited_at
from ..hashing import Table, all_grown, empty_table, place_of, roomy, row_of
from ..kernel import kernel, part
from .nodesets import MOST_SHARDS, all_lsns_said, members
from .protocol import NOWHERE, READ_PATH, TURNS, Cells, StreamFold, no_rows, shown

SHIPPED = Check(
    id="heard-was-shipped",
    rule="What a stream hears from a shard was shipped to it before, in answer to the same START, in that order and "
    "with nothing left out; gaps begin where what was said before ends, and a shard that refuses START sends nothing.",
    source=("read-path.md#heard-was-shipped", "read-path.md#in-order-shipping"),
    fact="a record or a gap that a stream heard in answer to its last START, or one shipped that it passed over",
    sentence={
        "unshipped": "Stream {op} heard the record at {lsn} from shard {peer}, which had not shipped it.",
        "left out": "Shard {peer} shipped stream {op} the record at {lsn}, but the stream heard from behind it first.",
        "late": "Shard {peer} shipped stream {op} the record at {lsn}, but the stream had heard all before {next} from "
        "it.",
        "again": "Shard {peer} shipped stream {op} the record at {lsn} behind the one at {before}, which the stream "
        "heard.",
        "elsewhere": "Stream {op} heard from shard {peer} of a gap that begins at {lsn}, but {next} was next.",
        "refused": "Shard {peer} had refused to send stream {op} anything, but it heard from it of {lsn}.",
    },
    kinds=(Kind.STREAM_START, Kind.STREAM_HEARD, Kind.SHIP),
    columns=("node", "op", "peer", "filter", "offset"),
)
SO = Check(
    id="answers-are-so",
    rule="What a shard says to a stream is true: the event log has the version that it states, which does not fall; it "
    "has trimmed what it says is trimmed; what it says has no records is released; and only a shard that was cut off "
    "says that it may lack some.",
    source=("read-path.md#answers-are-so", "read-path.md#in-order-shipping", "read-path.md#event-log-version"),
    fact="an answer to START, a record or a gap that a stream heard in answer to its last START",
    sentence={
        "later": "Shard {peer} answered stream {op} by version {version} of the event log, which has {known} records.",
        "older": "Shard {peer} answered stream {op} by version {version} of the event log, and by {known} before.",
        "kept": "Shard {peer} said to stream {op} that all up to {lsn} is trimmed, but has not trimmed that.",
        "unreleased": "Shard {peer} said to stream {op} that there is nothing up to {lsn}, but no more than {bound} "
        "was released.",
        "sure": "Shard {peer} said to stream {op} that it may lack records at {lsn}, but was never cut off.",
    },
    kinds=(Kind.STREAM_START,),
    columns=("node", "op", "peer", "filter", "offset", "version"),
    looks_back=True,
)
LIST = Check(
    id="starts-carry-the-list",
    rule="A stream asks all shards with the same list of those that are down, from one rewind to the next: that of the "
    "rewind.",
    source=("read-path.md#starts-carry-the-list", "read-path.md#rewind", "read-path.md#all-send-all-empty-list"),
    fact="a START behind a rewind, or behind another one, of the same filter version",
    sentence="Stream {op} asked shard {peer} with the list {shown}, but began filter version {filter} with {listed}.",
    kinds=(Kind.STREAM_START,),
    columns=("node", "op", "peer", "filter"),
)
CHECKS = (SHIPPED, SO, LIST)

_SIGNS = (Kind.COPY, Kind.PURGE, Kind.TRIM_POINT, Kind.SEAL, Kind.SHIP, Kind.ACKNOWLEDGE, Kind.RELEASE)
_STREAM = (Kind.STREAM_START, Kind.STREAM_STARTED, Kind.STREAM_HEARD, Kind.TAKES_PART)
_START, _STARTED, _HEARD, _TAKES_PART = map(code, _STREAM)
_SHIP, _TRIM_POINT, _RELEASE = map(code, (Kind.SHIP, Kind.TRIM_POINT, Kind.RELEASE))
_EVENT_LOG, _FAULT, _REWIND = map(code, (Kind.EVENT_LOG, Kind.FAULT, Kind.STREAM_REWIND))
_OWN = frozenset({*END_KINDS, *_SIGNS, *_STREAM, Kind.EVENT_LOG, Kind.FAULT, Kind.STREAM_REWIND})
_IS_WANTED, _IS_TURN, _IS_SIGN = lookup(_OWN), lookup({*END_KINDS, Kind.TAKES_PART}), lookup(_SIGNS)
_RECORD, _DAMAGED = word_code(HeardWord.RECORD), word_code(HeardWord.DAMAGED)
_NO_RECORDS, _UNSURE, _TRIM = map(word_code, (HeardWord.NO_RECORDS, HeardWord.UNDER_REPLICATED, HeardWord.TRIM))
_SEQUENCER = word_code(NodeWord.SEQUENCER)
_LOST, _DONE = REASONS[ShardWord.LOST], word_code(RewindWord.DONE)
_OLDER, _LATER, _KEPT, _UNRELEASED, _SURE = (1 << bit for bit in range(5))
"""Ways in which an answer may not be so."""
_REFUSALS = (REASONS[AnswerWord.REBUILDING], REASONS[AnswerWord.FAILED])


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    op: Cells
    peer: Cells
    f: Cells
    offset: Cells
    last_offset: Cells
    value: Cells
    filter: Cells
    reason: Cells
    version: Cells
    records: Cells
    incarnation: Cells
    shards: Cells


class _Asked(NamedTuple):
    """By row of a stream and a shard: the last START, and what was heard since the first one of its filter version."""

    seq: Ints
    reader: Ints
    filter: Ints
    times: Ints  # that START was sent with this filter version: what answers which is plain where it is 1
    next: Ints  # behind what was heard
    last: Ints  # and the event: START, or what was heard last
    refused: Ints  # the answer, if the shard sends nothing; -1
    version: Ints  # the last one that it stated
    stated: Ints  # and the event
    first: Ints  # place of what is on its way
    end: Ints


class _Way(NamedTuple):
    """Records that were shipped and not heard yet, in the order in which they were shipped."""

    lsn: Ints
    seq: Ints
    after: Ints


class _Lists(NamedTuple):
    """By row of a stream: the list with which its last filter version began, of which reader, and the event."""

    filter: Ints
    reader: Ints
    listed: Ints
    seq: Ints


class _Shards(NamedTuple):
    """By shard that sets can have: whether all that it did is recorded, from its first start on and never cut off, and
    since which event; its trim point, and the event."""

    whole: Ints  # 0: it is not known yet, 1, or -1: it is not
    began: Ints
    trim_point: Ints
    trim_seq: Ints


class _State(NamedTuple):
    """What the loop knows; the numbers of ``run`` are named below."""

    streams: Table
    pairs: Table  # by row of a stream and shard
    asked: _Asked
    lists: _Lists
    shards: _Shards
    way: _Way
    named: Ints  # LSNs that the `ship` events of these rows name
    upto: Ints  # and where those of each event end
    run: Ints
    awaited: Ints  # `Ends`


_STREAMS, _PAIRS, _PLACES, _FREE, _NAMED = range(5)
_VERSION, _LOGGED, _TOP, _RELEASED, _RELEASER = range(5, 10)
"""How many streams, pairs and places there are; the first place that is free again; how many of the rows' `ship`
events were taken; the last version of the event log, and its event; the highest LSN released, the event (-1: none), and
who did."""


@part
def _key(stream: int, shard: int) -> int:
    return int(stream) << 32 | (shard & 0xFFFFFFFF)


@part
def _pair(state: _State, op: int, shard: int) -> int:
    """The row of a stream and a shard that it asked; -1."""
    stream = state.streams.rows[place_of(state.streams, op)]
    if stream < 0:
        return -1
    row: int = state.pairs.rows[place_of(state.pairs, _key(stream, shard))]
    return row


@part
def _drop(state: _State, row: int) -> None:
    """What is first on its way is not any more."""
    place = state.asked.first[row]
    state.asked.first[row] = state.way.after[place]
    state.way.after[place] = state.run[_FREE]
    state.run[_FREE] = place


@part
def _push(state: _State, row: int, lsn: int, seq: int) -> None:
    """A record is on its way."""
    place = state.run[_FREE]
    if place >= 0:
        state.run[_FREE] = state.way.after[place]
    else:
        place = state.run[_PLACES]
        state.run[_PLACES] += 1
    state.way.lsn[place], state.way.seq[place], state.way.after[place] = lsn, seq, -1
    if state.asked.first[row] < 0:
        state.asked.first[row] = place
    else:
        state.way.after[state.asked.end[row]] = place
    state.asked.end[row] = place


@part
def _begins(state: _State, rows: _Rows, i: int) -> int:
    """A stream begins a filter version, unless it has; its row."""
    row, lists = row_of(state.streams, state.run[_STREAMS:], rows.op[i]), state.lists
    if lists.filter[row] != rows.filter[i] or lists.reader[row] != rows.node[i]:
        lists.filter[row], lists.reader[row] = rows.filter[i], rows.node[i]
        lists.listed[row], lists.seq[row] = rows.shards[i], rows.seq[i]
    return int(row)


@part
def _asks(state: _State, rows: _Rows, i: int) -> None:
    """A stream sends START."""
    stream = _begins(state, rows, i)
    row = row_of(state.pairs, state.run[_PAIRS:], _key(stream, rows.peer[i]))
    asked = state.asked
    asked.seq[row] = rows.seq[i]
    if asked.times[row] and asked.filter[row] == rows.filter[i] and asked.reader[row] == rows.node[i]:
        asked.times[row] += 1
        return
    while asked.first[row] >= 0:
        _drop(state, row)
    asked.version[row] = 0
    asked.reader[row], asked.filter[row], asked.times[row] = rows.node[i], rows.filter[i], 1
    asked.next[row], asked.last[row], asked.refused[row] = rows.offset[i], rows.seq[i], -1


@part
def _wrong(state: _State, rows: _Rows, i: int) -> int:
    """In which ways an answer is not so, or may not be; -1: it answers no last START."""
    row, shards, shard = _pair(state, rows.op[i], rows.peer[i]), state.shards, rows.peer[i]
    asked, found, version = state.asked, 0, rows.version[i]
    if row < 0 or asked.filter[row] != rows.filter[i] or asked.reader[row] != rows.node[i]:
        return -1
    if version > state.run[_VERSION]:
        found |= _LATER
    if asked.times[row] == 1 and version < asked.version[row]:
        found |= _OLDER
    if rows.kind[i] == _STARTED:
        return found
    f, last = rows.f[i], rows.last_offset[i]
    whole = 0 <= shard < MOST_SHARDS and shards.whole[shard] == 1
    if f == _TRIM:
        if whole and last > shards.trim_point[shard]:
            found |= _KEPT
    elif f in (_NO_RECORDS, _UNSURE) and state.run[_RELEASED] >= 0:
        top = state.run[_TOP]
        found |= _UNRELEASED if last > top and last >> 32 == top >> 32 else 0
    if whole and (f == _UNSURE or rows.records[i] == 1):
        found |= _SURE
    return found


@part
def _states(state: _State, rows: _Rows, i: int) -> None:
    """A shard has stated a version of the event log."""
    row = _pair(state, rows.op[i], rows.peer[i])
    state.asked.version[row], state.asked.stated[row] = rows.version[i], rows.seq[i]


@part
def _arrives(state: _State, row: int, lsn: int) -> bool:
    """Whether a record is on its way; then it and all before it are not any more."""
    place = state.asked.first[row]
    while place >= 0 and state.way.lsn[place] != lsn:
        place = state.way.after[place]
    if place < 0:
        return False
    while state.asked.first[row] != place:
        _drop(state, row)
    _drop(state, row)
    return True


@part
def _hears(state: _State, rows: _Rows, i: int, judged: Ints) -> bool:
    """A stream hears something; whether it is plain that it was shipped."""
    row = _pair(state, rows.op[i], rows.peer[i])
    asked, f = state.asked, rows.f[i]
    if row < 0 or asked.filter[row] != rows.filter[i] or asked.reader[row] != rows.node[i]:
        return True
    record, alone = f in (_RECORD, _DAMAGED), asked.times[row] == 1
    if not record and (not alone or f not in (_NO_RECORDS, _UNSURE, _TRIM)):
        return True
    lsn, last = rows.offset[i], rows.last_offset[i]
    if alone:
        first = asked.first[row]
        if asked.refused[row] >= 0 or (first >= 0 and state.way.lsn[first] < (lsn if record else last + 1)):
            return False
        if not record and lsn != asked.next[row]:
            return False
        if record and first >= 0:
            second = state.way.after[first]
            if state.way.lsn[first] != lsn or (second >= 0 and state.way.lsn[second] <= lsn):
                return False
    if record and not _arrives(state, row, lsn):
        return False
    asked.next[row], asked.last[row] = (max(asked.next[row], lsn + 1) if record else last + 1), rows.seq[i]
    judged[0] += 1
    return True


@part
def _ships(state: _State, rows: _Rows, i: int) -> bool:
    """A shard ships records; False if a stream has heard all before behind one of them, and then nothing changes."""
    first, last = state.upto[state.run[_NAMED]], state.upto[state.run[_NAMED] + 1]
    row, asked = _pair(state, rows.op[i], rows.node[i]), state.asked
    if row >= 0 and asked.filter[row] == rows.filter[i] and asked.reader[row] == rows.peer[i]:
        if asked.times[row] == 1:
            for place in range(first, last):
                if state.named[place] < asked.next[row]:
                    return False
        for place in range(first, last):
            _push(state, row, state.named[place], rows.seq[i])
    state.run[_NAMED] += 1
    return True


@kernel
def _skim(rows: _Rows, at: int, state: _State, judged: Ints) -> int:
    for i in range(at, len(rows.kind)):
        kind = rows.kind[i]
        if not _IS_WANTED[kind]:
            continue
        if kind in (_HEARD, _STARTED):
            wrong = _wrong(state, rows, i)
            if wrong > 0 or (kind == _STARTED and rows.reason[i] in _REFUSALS):
                return i
            if kind == _HEARD and not _hears(state, rows, i, judged):
                return i
            if wrong == 0:
                judged[1] += 1
                _states(state, rows, i)
        elif _IS_SIGN[kind]:
            if kind == _RELEASE and rows.offset[i] > state.run[_TOP]:
                state.run[_TOP], state.run[_RELEASED] = rows.offset[i], rows.seq[i]
                state.run[_RELEASER] = rows.node[i]
            elif kind == _TRIM_POINT and 0 <= rows.node[i] < MOST_SHARDS:
                state.shards.trim_point[rows.node[i]], state.shards.trim_seq[rows.node[i]] = rows.offset[i], rows.seq[i]
            if state.awaited[awaited_at(rows.node[i])] or (kind == _SHIP and not _ships(state, rows, i)):
                return i
        elif kind == _START:
            _asks(state, rows, i)
            stream = _begins(state, rows, i)
            if state.lists.listed[stream] != rows.shards[i]:
                return i
            judged[2] += state.lists.seq[stream] != rows.seq[i]
        elif kind == _REWIND:
            if rows.f[i] == _DONE:
                _begins(state, rows, i)
        elif kind == _EVENT_LOG:
            state.run[_VERSION], state.run[_LOGGED] = max(state.run[_VERSION], rows.version[i]), rows.seq[i]
        elif kind != _FAULT or rows.f[i] == FAULT_WIPE:
            return i
    return len(rows.kind)


def _listed(shards: int) -> str:
    """A list of shards as it is written; all send all without one."""
    return "none" if shards == NULL else str([*members(max(shards, 0))])


class ConversationFold(StreamFold[_Rows]):
    """Judges what streams hear of shards; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED
    left = TURNS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        self._tally, self._so = self.tallies[SHIPPED.id], self.tallies[SO.id]
        named, upto = (np.zeros(0, dtype=np.int64) for _ in range(2))
        run = np.array([0, 0, 0, NOWHERE, 0, 0, -1, -1, -1, -1], dtype=np.int64)
        self._ends = Ends()
        shards = _Shards(*(np.full(MOST_SHARDS, 0 if name == "whole" else -1, np.int64) for name in _Shards._fields))
        tables = empty_table(), empty_table(), no_rows(_Asked), no_rows(_Lists)
        self._state = _State(*tables, shards, no_rows(_Way), named, upto, run, self._ends.awaited)
        self._sequencers: set[int] = set()

    def make_room(self, rows: _Rows) -> None:
        """See `StreamFold`."""
        state, ships = self._state, rows.kind == _SHIP
        starts = how_many(rows.kind, _START, _REWIND)
        said = rows.value[ships], rows.offset[ships], rows.last_offset[ships]
        named, upto = all_lsns_said(self.words, *said, self.compiled)
        streams, pairs, places = state.run[:3].tolist()
        state.run[_NAMED] = 0
        self._state = _State(
            roomy(state.streams, streams, starts, self.compiled),
            roomy(state.pairs, pairs, starts, self.compiled),
            all_grown(state.asked, pairs, starts, lambda name: -1 if name == "first" else 0),
            all_grown(state.lists, streams, starts, lambda name: -1 if name == "filter" else 0),
            state.shards,
            all_grown(state.way, places, len(named), lambda _: 0),
            named,
            upto,
            state.run,
            state.awaited,
        )

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._state, self.judged)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        one = _Rows(*([cell] for cell in e))
        if _IS_TURN[e.kind]:
            self._turns(e)
        elif e.kind == _FAULT:
            self._empties(e.node)
        elif e.kind == _START:
            self._lists_others(e)
        elif e.kind in (_HEARD, _STARTED):
            wrong, asked = _wrong(self._state, one, 0), self._state.asked
            if e.kind == _HEARD and not _hears(self._state, one, 0, self.judged):
                self._hears(e)
            if wrong >= 0:
                row = _pair(self._state, e.op, e.peer)
                if e.kind == _STARTED and e.reason in _REFUSALS:
                    asked.refused[row] = e.seq
                self._is_wrong(e, wrong, row)
                _states(self._state, one, 0)
        else:
            self._ends.sign(e.node, e.seq)
            if e.kind == _SHIP and not _ships(self._state, one, 0):
                self._ships(e)

    def _turns(self, e: _Rows) -> None:
        """A life begins or ends."""
        cut = self._ends.turn(e.kind, e.node, e.seq)
        if e.kind == _TAKES_PART and e.f == _SEQUENCER:
            self._sequencers.add(e.node)
        if not 0 <= e.node < MOST_SHARDS:
            return
        shards = self._state.shards
        if shards.whole[e.node] == 0:
            first = e.kind == _TAKES_PART and e.incarnation == 0 and e.reason != _LOST
            shards.whole[e.node], shards.began[e.node] = (1 if first else -1), e.seq
        elif cut or e.reason == _LOST:
            shards.whole[e.node] = -1
        if e.reason == _LOST:
            shards.trim_point[e.node] = -1

    def _lists_others(self, e: _Rows) -> None:
        """A START with another list than its filter version began with."""
        lists, row = self._state.lists, int(self._state.streams.rows[place_of(self._state.streams, e.op)])
        listed, shown_list = _listed(int(lists.listed[row])), _listed(e.shards)
        tally = self.tallies[LIST.id]
        tally.judged += 1
        found = {"op": e.op, "peer": e.peer, "filter": e.filter, "listed": listed, "shown": shown_list}
        tally.violation(int(lists.seq[row]), e.seq, **found)

    def _empties(self, node: int) -> None:
        """A disk is emptied; it is not said of whom where there is no node."""
        shards = self._state.shards
        which = node if 0 <= node < MOST_SHARDS else slice(None)
        shards.whole[which] = shards.trim_point[which] = -1

    def _is_wrong(self, e: _Rows, wrong: int, row: int) -> None:
        """An answer that is not so, in some ways."""
        state, so, asked, shards = self._state, self._so, self._state.asked, self._state.shards
        start, of = int(asked.seq[row]), {"op": e.op, "peer": e.peer}
        so.judged += 1
        if wrong & _LATER:
            known, logged = int(state.run[_VERSION]), int(state.run[_LOGGED])
            so.violation(logged, e.seq, way="later", rests_on=(Kind.EVENT_LOG,), version=e.version, known=known, **of)
        if wrong & _OLDER:
            known, stated = int(asked.version[row]), int(asked.stated[row])
            so.violation(start, stated, e.seq, way="older", version=e.version, known=known, **of)
        if wrong & _KEPT:
            events = int(shards.began[e.peer]), int(shards.trim_seq[e.peer]), start, e.seq
            found = {"lsn": shown(e.last_offset), **of}
            self._ends.wait(so, (e.peer,), *events, way="kept", rests_on=(Kind.TRIM_POINT,), counted=True, said=found)
        if wrong & _UNRELEASED:
            found = {"lsn": shown(e.last_offset), "bound": shown(int(state.run[_TOP])), **of}
            released, who = int(state.run[_RELEASED]), int(state.run[_RELEASER])
            shows, since = (released, start, e.seq), self._ends.began(who, released)
            nodes = {*self._sequencers, who}
            self._ends.wait(so, nodes, *shows, since=since, way="unreleased", counted=True, said=found)
        if wrong & _SURE:
            so.violation(int(shards.began[e.peer]), start, e.seq, way="sure", lsn=shown(e.offset), **of)

    def _of(self, e: _Rows, shard: int, lsn: int) -> dict[str, object]:
        return {"op": e.op, "peer": shard, "lsn": shown(lsn)}

    def _hears(self, e: _Rows) -> None:
        """A stream hears what was perhaps not shipped to it."""
        state, asked, way = self._state, self._state.asked, self._state.way
        row, record = _pair(state, e.op, e.peer), e.f in (_RECORD, _DAMAGED)
        start, begins = int(asked.seq[row]), self._of(e, e.peer, e.offset)
        if asked.times[row] == 1:
            if asked.refused[row] >= 0:
                self._tally.judged += 1
                self._tally.violation(start, int(asked.refused[row]), e.seq, way="refused", **begins)
                return
            while (place := int(asked.first[row])) >= 0 and way.lsn[place] < (
                e.offset if record else e.last_offset + 1
            ):
                found = self._of(e, e.peer, int(way.lsn[place]))
                self._tally.judged += 1
                self._tally.violation(start, int(way.seq[place]), e.seq, way="left out", **found)
                _drop(state, row)
        shipped = self._shipped(row, e.offset) if record else NOWHERE
        if record and not _arrives(state, row, e.offset):
            if 0 <= self._ends.began(e.peer, e.seq) < start and self._ends.goes_on(e.peer):
                rests_on = (Kind.SHIP,)
                self._ends.wait(
                    self._tally, (e.peer,), start, e.seq, way="unshipped", rests_on=rests_on, sign=True, said=begins
                )
            else:
                self._tally.unjudged += 1
        else:
            self._tally.judged += 1
            if not record and e.offset != asked.next[row]:
                before = int(asked.next[row])
                events = start, int(asked.last[row]), e.seq
                self._tally.violation(*events, way="elsewhere", next=shown(before), **begins)
            elif record and asked.times[row] == 1:
                self._shipped_again(e, row, shipped)
        asked.next[row] = max(int(asked.next[row]), e.offset + 1) if record else e.last_offset + 1
        asked.last[row] = e.seq

    def _shipped(self, row: int, lsn: int) -> int:
        """The event by which a record that is on its way was shipped."""
        way = self._state.way
        place = int(self._state.asked.first[row])
        while place >= 0 and way.lsn[place] != lsn:
            place = int(way.after[place])
        return int(way.seq[place]) if place >= 0 else NOWHERE

    def _shipped_again(self, e: _Rows, row: int, shipped: int) -> None:
        """What is on its way still, shipped behind what has arrived, lies behind it."""
        state, asked, way = self._state, self._state.asked, self._state.way
        while (place := int(asked.first[row])) >= 0 and way.lsn[place] <= e.offset:
            found = self._of(e, e.peer, int(way.lsn[place])) | {"before": shown(e.offset)}
            self._tally.judged += 1
            self._tally.violation(int(asked.seq[row]), shipped, int(way.seq[place]), e.seq, way="again", **found)
            _drop(state, row)

    def _ships(self, e: _Rows) -> None:
        """A shard ships what is behind the stream."""
        state, asked = self._state, self._state.asked
        first, last = state.upto[state.run[_NAMED] : state.run[_NAMED] + 2].tolist()
        state.run[_NAMED] += 1
        row = _pair(state, e.op, e.node)
        for lsn in state.named[first:last].tolist():
            if lsn >= asked.next[row]:
                _push(state, row, lsn, e.seq)
                continue
            found = self._of(e, e.node, lsn) | {"next": shown(int(asked.next[row]))}
            self._tally.judged += 1
            self._tally.violation(int(asked.seq[row]), int(asked.last[row]), e.seq, way="late", **found)

    def finish(self) -> Verdicts:
        """See `StreamFold`."""
        self._ends.over()
        return super().finish()


FAMILY = Family(
    "read_path_conversations",
    CHECKS,
    _OWN,
    (
        *("node", "op", "peer", "f", "offset", "last_offset", "value", "filter", "reason"),
        *("version", "count", "incarnation", "shards"),
    ),
    ConversationFold,
    READ_PATH,
    reads_texts=True,
)
