"""What shards ship: what they have stored; all of it in all-send-all, in single-copy delivery each record from one of
those that have it.

Sources: read-path.md#ships-what-it-stored, read-path.md#ships-all-it-has, read-path.md#one-shipper,
read-path.md#scd-filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.read_path import HeardWord, NodeWord, RecordWord, RewindWord, ShardWord

from ..codes import FAULT_WIPE, MAX_OFFSET, NULL, REASONS, RECORDS, code, how_many, lookup, word_code
from ..columns import Ints
from ..contract import Check, Family, Setting, Verdicts
from ..ends import NOBODY, Ends, awaited_at
from ..hashing import Table, all_grown, empty_table, grown, place_of, roomy, row_of
from ..kernel import kernel, part
from .held import (
    Held,
    copied,
    copy_at,
    drop,
    lsn_row,
    nothing_held,
    place_in_order,
    place_near,
    put,
    rows_of,
    with_copies,
)
from .nodesets import MOST_SHARDS, Nodesets, Places, all_lsns_said, factor_at, members, size
from .protocol import NOWHERE, READ_PATH, TURNS, Cells, StreamFold, epoch_of, no_rows, shown

SHIPPER = Check(
    id="one-shipper",
    rule="In single-copy delivery one of the shards with a copy ships it if none of them is listed as down, and at "
    "least one if some are.",
    source=("read-path.md#one-shipper", "read-path.md#scd-filter"),
    fact="a copy shipped of whose copyset no shard is listed as down, or one passed over by all shards that are not "
    "listed",
    sentence={
        "both": "Shards {first} and {second} shipped stream {op} the record at {lsn}.",
        "nobody": "Shards {shards} have copies at {lsn} but passed it over without shipping one to stream {op}.",
    },
    kinds=(Kind.NODESET, Kind.COPY, Kind.STREAM_START, Kind.SHIP),
    explained_by=frozenset({Kind.TRIM_POINT}),
    columns=("node", "op", "offset", "shards"),
)
STORED = Check(
    id="ships-what-it-stored",
    rule="A shard ships only records that it has stored since its disk was last emptied.",
    source=("read-path.md#ships-what-it-stored", "read-path.md#in-order-shipping"),
    fact="a record shipped by a shard that takes part, once copies are recorded",
    sentence="Shard {node} shipped stream {op} the record at {lsn}, which it had not stored.",
    kinds=(Kind.TAKES_PART, Kind.COPY, Kind.SHIP),
    columns=("node", "op", "offset"),
    looks_back=True,
)
ALL = Check(
    id="ships-all-it-has",
    rule="In all-send-all a shard passes over no record of which it has a copy.",
    source=("read-path.md#ships-all-it-has", "read-path.md#in-order-shipping"),
    fact="a record or a gap that a stream heard in all-send-all in answer to the only START of its filter version, or "
    "a copy that was passed over with it, once copies are recorded",
    sentence="Shard {node} has a copy at {lsn}, but passed it over without shipping it to stream {op}.",
    kinds=(Kind.COPY, Kind.STREAM_START, Kind.STREAM_HEARD),
    explained_by=frozenset({Kind.TRIM_POINT}),
    columns=("node", "op", "offset"),
    looks_back=True,
)
CHECKS = (SHIPPER, STORED, ALL)

_OWN = (
    *(Kind.NODESET, Kind.FAULT, Kind.COPY, Kind.PURGE, Kind.TRIM_POINT, Kind.TAKES_PART, Kind.STOP),
    *(Kind.STREAM_START, Kind.STREAM_HEARD, Kind.STREAM_REWIND, Kind.SHIP, Kind.RELEASE),
)
_NODESET, _FAULT, _COPY, _PURGE, _TRIM_POINT, _TAKES_PART, _STOP = map(code, _OWN[:7])
_START, _HEARD, _REWIND, _SHIP, _RELEASE = map(code, _OWN[7:])
_SIGNS = (_COPY, _PURGE, _TRIM_POINT, _SHIP, _RELEASE)
_IS_TURN, _SEQUENCER = lookup({*END_KINDS, Kind.TAKES_PART}), word_code(NodeWord.SEQUENCER)
_NO_RECORDS, _UNSURE = word_code(HeardWord.NO_RECORDS), word_code(HeardWord.UNDER_REPLICATED)
_DATA, _DONE, _LOST = RECORDS[RecordWord.DATA], word_code(RewindWord.DONE), REASONS[ShardWord.LOST]
_ALL_SEND_ALL = -1
_IS_WANTED = lookup({*_OWN, *END_KINDS})


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
    record: Cells
    epoch: Cells
    filter: Cells
    shards: Cells
    wave: Cells
    recovery: Cells
    reason: Cells


class _Starts(NamedTuple):
    """How a shard was asked: event, filter version, list or `_ALL_SEND_ALL`, first LSN; up to where it has sent, and
    where in the order of LSNs that was when it was looked for; how often it was asked with this filter version."""

    seq: Ints
    filter: Ints
    listed: Ints
    first: Ints
    next: Ints
    place: Ints
    times: Ints


class _Shipped(NamedTuple):
    """Who shipped a stream what is at an LSN, by which copyset if that is judged (else 0), and the event."""

    shard: Ints
    copyset: Ints
    seq: Ints


class _State(NamedTuple):
    """What the loop knows; the numbers of ``run`` are named below."""

    held: Held  # a copyset is 0 where there is no data; the value says which write it is of
    changed: Ints  # by row of an LSN: the last event that changed any copy
    stored: Ints  # and the shards that have stored it since their disks were emptied
    shown: Ints  # and those that have shipped it since they were last cut off
    released: Ints  # and the event that released it; -1: none yet
    streams: Table
    life: Ints  # by row of a stream: a number that changes with every rewind
    starts: Table  # by life and shard
    seat: Ints  # by life: where its shards begin in the next column; -1: nobody was asked
    seats: Ints  # of shards that sets can have: how each was asked, as a row of the next columns; -1: it was not
    asked: _Starts
    by_lsn: Table  # by life and row of an LSN
    shipped: _Shipped
    named: Ints  # LSNs that the `ship` events of these rows name
    rows: Ints  # and the row of each
    upto: Ints  # and where those of each event end
    run: Ints
    awaited: Ints  # `Ends`


_STREAMS, _LIVES, _STARTS, _SHIPPED, _RECORDED, _TRIMMED = range(6)
_LOWEST, _NAMED, _RELEASED, _BEGUN, _CUT_OFF, _UNTOLD, _SEATS = range(6, 13)
"""How many streams, lives, STARTs and shipped LSNs there are; whether some shard said what it ships; the highest trim
point; where copies begin; how many of the rows' `ship` events were taken; the highest LSN released; the shards that
take part, and those that were cut off since their disks were emptied; how many records these shipped that they are not
seen to have stored; how many places are taken by the shards of lives."""
_ONE_SHIPPER, _STORED, _ALL = range(len(CHECKS))


@part
def _life_of(state: _State, op: int) -> int:
    """The life of a stream; its first one begins when it is named."""
    row = row_of(state.streams, state.run[_STREAMS:], op)
    if state.life[row] < 0:
        state.life[row] = state.run[_LIVES]
        state.run[_LIVES] += 1
    return int(state.life[row])


@part
def _key(life: int, number: int) -> int:
    return life << 32 | (number & 0xFFFFFFFF)


@part
def _start_of(state: _State, life: int, shard: int) -> int:
    """How a shard was asked, as a row; -1: it was not."""
    if 0 <= shard < MOST_SHARDS:
        seat = state.seat[life]
        return int(state.seats[seat + shard]) if seat >= 0 else -1
    row: int = state.starts.rows[place_of(state.starts, _key(life, shard))]
    return row


@part
def _asks(state: _State, life: int, shard: int) -> int:
    """A shard is asked; the row for how."""
    row: int = row_of(state.starts, state.run[_STARTS:], _key(life, shard))
    if 0 <= shard < MOST_SHARDS:
        if state.seat[life] < 0:
            state.seat[life] = state.run[_SEATS]
            state.run[_SEATS] += MOST_SHARDS
        state.seats[state.seat[life] + shard] = row
    return row


@part
def _alone(state: _State, places: Places, lsn: int, row: int, node: int, listed: int) -> int:
    """The copyset by which one shard alone ships a record; 0: that is not known, or one of it is listed."""
    place = copy_at(state.held, row, node)
    copyset = int(state.held.copies.copyset[place]) if place >= 0 else 0
    return copyset if copyset and not copyset & listed and size(copyset) == factor_at(places, lsn) else 0


@part
def _first_shipped(state: _State, life: int, row: int) -> int:
    """Who was the first to ship a stream what is at an LSN, by its row, as a row; -1: nobody."""
    first: int = state.by_lsn.rows[place_of(state.by_lsn, _key(life, row))]
    return first


@part
def _ships(state: _State, life: int, row: int, shard: int, copyset: int, seq: int) -> int:
    """A shard ships what is at an LSN; if it is not the first, nothing changes. Who was the first, as a row."""
    before = state.run[_SHIPPED]
    first: int = row_of(state.by_lsn, state.run[_SHIPPED:], _key(life, row))
    if first == before:
        state.shipped.shard[first] = shard
        state.shipped.copyset[first] = copyset
        state.shipped.seq[first] = seq
    return first


@part
def _settled(state: _State, places: Places, life: int, row: int, lsn: int, listed: int) -> int:
    """The copyset of an LSN if all of it have equal copies, and all who are not listed were asked and passed it.

    Its copies must not have changed since: they were as they are when it was released, or when the shard was asked.
    """
    copies, place, having = state.held.copies, state.held.first[row], 0
    copyset = int(copies.copyset[place]) if place >= 0 else 0
    shard, left = 0, copyset & ~listed
    if not left:
        return 0
    while left >> shard:  # most fail here: others have not got there yet
        if left >> shard & 1:
            start = _start_of(state, life, shard)
            if start < 0 or not state.asked.first[start] <= lsn < state.asked.next[start]:
                return 0
            if state.asked.listed[start] != listed:
                return 0
            if state.changed[row] >= max(state.asked.seq[start], state.released[row]):
                return 0
        shard += 1
    write = int(copies.value[place])
    while place >= 0:
        if (
            copies.copyset[place] != copyset
            or copies.value[place] != write
            or not 0 <= copies.node[place] < MOST_SHARDS
        ):
            return 0
        having |= 1 << copies.node[place]
        place = copies.next[place]
    return copyset if having == copyset and size(copyset) == factor_at(places, lsn) else 0


@part
def _comparable(state: _State, row: int, node: int, other: int, since: int) -> bool:
    """Whether two shards have copies of one write, of which none has changed since the other one shipped it.

    Others may have the same copyset in another order: another wave, or one that was amended and amended back.
    """
    if state.changed[row] > since:
        return False
    mine, its = copy_at(state.held, row, node), copy_at(state.held, row, other)
    return bool(mine >= 0 and its >= 0 and state.held.copies.value[mine] == state.held.copies.value[its])


@part
def _ship_alone(
    state: _State, places: Places, life: int, node: int, listed: int, seq: int, of: tuple[int, int], judged: Ints
) -> int:
    """A shard ships the LSNs at these places. Which of them somebody else has shipped though it is for one alone, as a
    place, and then nothing is counted; -1."""
    known = judged[_ONE_SHIPPER]
    for place in range(of[0], of[1]):
        row = state.rows[place]
        copyset = _alone(state, places, state.named[place], row, node, listed)
        judged[_ONE_SHIPPER] += copyset != 0
        first = _ships(state, life, row, node, copyset, seq)
        other, same = state.shipped.shard[first], copyset and state.shipped.copyset[first] == copyset
        if same and other != node and _comparable(state, row, node, other, state.shipped.seq[first]):
            judged[_ONE_SHIPPER] = known
            return int(place)
    return -1


@part
def _not_stored(state: _State, node: int, first: int, last: int) -> int:
    """Which of the LSNs that a shard ships it has not stored, as a place; -1."""
    if 0 <= node < MOST_SHARDS and state.run[_BEGUN] >> node & 1 and not state.run[_CUT_OFF] >> node & 1:
        for place in range(first, last):
            if not state.stored[state.rows[place]] >> node & 1:
                return int(place)
    return -1


@part
def _count_stored(state: _State, node: int, first: int, last: int, judged: Ints) -> None:
    """Count which of the LSNs that a shard ships it has stored, and of which that is not known."""
    if 0 <= node < MOST_SHARDS and state.held.used[0] and state.run[_BEGUN] >> node & 1:
        known = last - first
        if state.run[_CUT_OFF] >> node & 1:
            for place in range(first, last):
                known -= not state.stored[state.rows[place]] >> node & 1
        judged[_STORED] += known
        state.run[_UNTOLD] += last - first - known


@part
def _shows(state: _State, node: int, first: int, last: int) -> None:
    """A shard has what it ships."""
    if 0 <= node < MOST_SHARDS:
        for place in range(first, last):
            state.shown[state.rows[place]] |= 1 << node


@part
def _passed_over(state: _State, places: Places, life: int, start: int, first: int, last: int, count: Ints) -> int:
    """Of the LSNs passed over, which nobody shipped, as a place in order; -1. ``count`` of what was judged."""
    lsns, listed = state.held.lsns, state.asked.listed[start]
    place, used = place_near(lsns, first, state.asked.place[start]), lsns.used[0]
    while place < used and lsns.order[place] <= last:
        row = lsns.rows[place]
        if _settled(state, places, life, row, lsns.order[place], listed):
            count[0] += 1
            if _first_shipped(state, life, row) < 0:
                return int(place)
        place += 1
    state.asked.place[start] = place
    return -1


@part
def _kept_back(state: _State, start: int, shard: int, first: int, last: int) -> int:
    """Of the LSNs that a shard passed over, one at which it has a copy, as a place in order; -1.

    It had that copy when it was asked, or when what is there was released.
    """
    lsns, held = state.held.lsns, state.held
    place = place_near(lsns, first, state.asked.place[start])
    while place < lsns.used[0] and lsns.order[place] <= last:
        row = lsns.rows[place]
        if 0 <= shard < MOST_SHARDS and state.stored[row] >> shard & 1:
            copy = copy_at(held, row, shard)
            if copy >= 0 and held.copies.seq[copy] < max(state.asked.seq[start], state.released[row]):
                return int(place)
        place += 1
    state.asked.place[start] = place
    return -1


@part
def _passes(f: int, lsn: int, last: int) -> int:
    """Up to where a shard says that it has nothing."""
    return last if f in (_NO_RECORDS, _UNSURE) else lsn - 1


@part
def _gives_up(state: _State, last: int) -> None:
    """All shards give up what they have up to an LSN."""
    held = state.held
    for place in range(place_in_order(held.lsns, state.run[_LOWEST]), place_in_order(held.lsns, last + 1)):
        row = held.lsns.rows[place]
        while held.first[row] >= 0:
            drop(held, row, held.copies.node[held.first[row]])
    state.run[_LOWEST] = max(state.run[_LOWEST], last + 1)
    state.run[_TRIMMED] = max(state.run[_TRIMMED], last)


@kernel
def _lose(state: _State, node: int, first: int, last: int, seq: int) -> None:
    """A shard has no copies any more from one LSN to another."""
    lsns = state.held.lsns
    for place in range(place_in_order(lsns, first), place_in_order(lsns, last + 1)):
        if drop(state.held, lsns.rows[place], node):
            state.changed[lsns.rows[place]] = seq


@kernel
def _skim(rows: _Rows, at: int, places: Places, state: _State, judged: Ints) -> int:
    held, asked = state.held, state.asked
    for i in range(at, len(rows.kind)):
        kind, seq = rows.kind[i], rows.seq[i]
        if not _IS_WANTED[kind]:
            continue
        if kind in _SIGNS and state.awaited[awaited_at(rows.node[i])]:
            return i
        if kind == _HEARD:
            life = _life_of(state, rows.op[i])
            start = _start_of(state, life, rows.peer[i])
            before, last = (asked.next[start], rows.last_offset[i]) if start >= 0 else (0, 0)
            if start < 0 or asked.filter[start] != rows.filter[i] or last < before:
                continue
            asked.next[start] = last + 1
            if asked.listed[start] < 0:
                if asked.times[start] == 1 and held.used[0]:
                    first, upto = max(before, state.run[_TRIMMED] + 1), _passes(rows.f[i], rows.offset[i], last)
                    if _kept_back(state, start, rows.peer[i], first, upto) >= 0:
                        asked.next[start] = before
                        return i
                    judged[_ALL] += 1
                continue
            if rows.record[i] >= 0:
                _ships(state, life, lsn_row(held.lsns, rows.offset[i]), rows.peer[i], 0, seq)
            if state.run[_RECORDED]:
                first, known = max(before, state.run[_TRIMMED] + 1), judged[0]
                if _passed_over(state, places, life, start, first, last, judged) >= 0:
                    asked.next[start], judged[0] = before, known
                    return i
        elif kind == _COPY:
            row = lsn_row(held.lsns, rows.offset[i])
            write = max(rows.recovery[i], 0) << 32 | max(rows.wave[i], 0)
            put(
                held, row, rows.node[i], 0, write, max(rows.shards[i], 0) if rows.record[i] == _DATA else 0, rows.seq[i]
            )
            state.changed[row] = seq
            if 0 <= rows.node[i] < MOST_SHARDS:
                state.stored[row] |= 1 << rows.node[i]
            state.run[_LOWEST] = min(state.run[_LOWEST], rows.offset[i])
        elif kind == _SHIP:
            state.run[_RECORDED] = 1
            first, last = state.upto[state.run[_NAMED]], state.upto[state.run[_NAMED] + 1]
            life, node = _life_of(state, rows.op[i]), rows.node[i]
            if state.held.used[0] and _not_stored(state, node, first, last) >= 0:
                return i
            start = _start_of(state, life, node)
            if start >= 0 and asked.filter[start] == rows.filter[i] and asked.listed[start] >= 0:
                listed = asked.listed[start]
                if _ship_alone(state, places, life, node, listed, seq, (first, last), judged) >= 0:
                    return i
            _count_stored(state, node, first, last, judged)
            _shows(state, node, first, last)
            state.run[_NAMED] += 1
        elif kind == _START:
            start = _asks(state, _life_of(state, rows.op[i]), rows.peer[i])
            again = asked.times[start] > 0 and asked.filter[start] == rows.filter[i]
            asked.times[start] = asked.times[start] + 1 if again else 1
            asked.seq[start], asked.filter[start], asked.first[start] = seq, rows.filter[i], rows.offset[i]
            asked.listed[start], asked.next[start] = max(rows.shards[i], _ALL_SEND_ALL), rows.offset[i]
        elif kind == _TRIM_POINT:
            _gives_up(state, rows.offset[i])
        elif kind == _REWIND:
            row = state.streams.rows[place_of(state.streams, rows.op[i])]
            if row >= 0 and rows.f[i] == _DONE:
                state.life[row] = -1
        elif kind == _RELEASE:
            first = place_in_order(held.lsns, state.run[_RELEASED] + 1)
            for place in range(first, place_in_order(held.lsns, rows.offset[i] + 1)):
                state.released[held.lsns.rows[place]] = seq
            state.run[_RELEASED] = max(state.run[_RELEASED], rows.offset[i])
        else:
            return i
    return len(rows.kind)


@dataclass(frozen=True, slots=True)
class _Released:
    """Whether something of a later epoch was released, or one of these sequencers may have done so unseen."""

    seen: bool
    sequencers: frozenset[int]

    def __call__(self, cut: frozenset[int]) -> bool:
        """See `Ends.wait`."""
        return self.seen or bool(cut & self.sequencers)


@dataclass(frozen=True, slots=True)
class _Purged:
    """Whether a shard may have purged something unseen."""

    shard: int
    released: _Released

    def __call__(self, cut: frozenset[int]) -> bool:
        """See `Ends.wait`."""
        return self.shard in cut and self.released(cut)


class ShippingFold(StreamFold[_Rows]):
    """Judges who ships; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED
    left = TURNS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        self._tally = self.tallies[SHIPPER.id]
        self._nodesets = Nodesets(setting.words)
        self._ends = Ends()
        self._sequencers: set[int] = set()
        changed, stored, seen, released, life, seat, seats, named, at, upto = (np.zeros(0, np.int64) for _ in range(10))
        streams = empty_table(), life, empty_table(), seat, seats, no_rows(_Starts)
        run = np.array([0, 0, 0, 0, 0, -1, 0, 0, -1, 0, 0, 0, 0], dtype=np.int64)
        shipped = empty_table(), no_rows(_Shipped), named, at, upto, run
        self._state = _State(nothing_held(), changed, stored, seen, released, *streams, *shipped, self._ends.awaited)
        self._stopped = 0  # the shards that left nothing unsaid: they stopped, or their disks are empty

    def make_room(self, rows: _Rows) -> None:
        """See `StreamFold`."""
        state, more = self._state, {kind: how_many(rows.kind, kind) for kind in (_COPY, _HEARD, _START)}
        ships = rows.kind == _SHIP
        said = rows.value[ships], rows.offset[ships], rows.last_offset[ships]
        named, upto = all_lsns_said(self.words, *said, self.compiled)
        streams, lives, starts, shipped = state.run[:4].tolist()
        before = int(state.held.lsns.used[0])
        reported = rows.offset[(rows.kind == _COPY) | ((rows.kind == _HEARD) & (rows.record >= 0))]
        held = with_copies(state.held, np.concatenate((reported, named)), more[_COPY], self.compiled)
        ops = more[_HEARD] + more[_START] + len(upto)
        state.run[_NAMED] = 0
        self._state = _State(
            held,
            grown(state.changed, before, int(held.lsns.used[0]) - before, -1),
            grown(state.stored, before, int(held.lsns.used[0]) - before, 0),
            grown(state.shown, before, int(held.lsns.used[0]) - before, 0),
            grown(state.released, before, int(held.lsns.used[0]) - before, -1),
            roomy(state.streams, streams, ops, self.compiled),
            grown(state.life, streams, ops, -1),
            roomy(state.starts, starts, more[_START], self.compiled),
            grown(state.seat, lives, ops, -1),
            grown(state.seats, int(state.run[_SEATS]), MOST_SHARDS * more[_START], -1),
            all_grown(state.asked, starts, more[_START], lambda _: 0),
            roomy(state.by_lsn, shipped, more[_HEARD] + len(named), self.compiled),
            all_grown(state.shipped, shipped, more[_HEARD] + len(named), lambda _: 0),
            named,
            rows_of(held.lsns, named, self.compiled),
            upto,
            state.run,
            state.awaited,
        )

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._nodesets.places, self._state, self.judged)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        if e.kind in _SIGNS and self._ends.awaited[awaited_at(e.node)]:
            self._ends.sign(e.node, e.seq)
            one, state = _Rows(*([cell] for cell in e)), self._state._replace(awaited=NOBODY)
            if _skim.plain(one, 0, self._nodesets.places, state, self.judged):
                return
        if _IS_TURN[e.kind]:
            self._turns(e)
        if e.kind == _SHIP:
            self._ships(e)
        elif e.kind == _HEARD:
            start = _start_of(self._state, _life_of(self._state, e.op), e.peer)
            if self._state.asked.listed[start] < 0:
                self._keeps_back(e, start)
            else:
                self._passed_over(e)
        elif e.kind == _NODESET:
            self._nodesets.learn(e.epoch, e.value)
        elif e.kind == _PURGE:
            _lose.form(self.compiled)(self._state, e.node, e.offset, e.last_offset, e.seq)
        elif e.kind == _FAULT and e.f == FAULT_WIPE:
            _lose.form(self.compiled)(self._state, e.node, NULL, MAX_OFFSET, e.seq)
        if 0 <= e.node < MOST_SHARDS and e.kind in (_TAKES_PART, _STOP, _FAULT):
            self._lives(e, 1 << e.node)

    def _lives(self, e: _Rows, shard: int) -> None:
        """A shard takes part, stops or has an empty disk. One that was cut off may not have told what it stored."""
        run = self._state.run
        if (e.kind == _FAULT and e.f == FAULT_WIPE) or (e.kind == _TAKES_PART and e.reason == _LOST):
            self._state.stored[:] &= ~shard
            run[_CUT_OFF] &= ~shard
            self._stopped |= shard
        elif e.kind == _STOP:
            self._stopped |= shard
        if e.kind == _TAKES_PART:
            run[_CUT_OFF] |= run[_BEGUN] & shard & ~self._stopped
            run[_BEGUN] |= shard
            self._stopped &= ~shard

    def _turns(self, e: _Rows) -> None:
        """A life begins or ends. What a shard has shipped before it was cut off it may have purged since."""
        if self._ends.turn(e.kind, e.node, e.seq) and 0 <= e.node < MOST_SHARDS:
            self._state.shown[:] &= ~(1 << e.node)
        if e.kind == _TAKES_PART and e.f == _SEQUENCER:
            self._sequencers.add(e.node)

    def _keeps_back(self, e: _Rows, start: int) -> None:
        """A shard passes over copies that it has, unless it has purged them and lost that with the end of its record.

        It purges what a release of a later epoch finds unsettled.
        """
        state, lsns, tally = self._state, self._state.held.lsns, self.tallies[ALL.id]
        tally.judged += 1
        last = _passes(e.f, e.offset, e.last_offset)
        first = max(int(state.asked.next[start]), int(state.run[_TRIMMED]) + 1)
        state.asked.next[start] = e.last_offset + 1
        place = _kept_back(state, start, e.peer, first, last)
        while place >= 0:
            lsn, row = int(lsns.order[place]), int(lsns.rows[place])
            (got,) = copied(state.held, row, (e.peer,))
            settled = epoch_of(int(state.run[_RELEASED])) > epoch_of(lsn)
            released = _Released(settled, frozenset() if settled else frozenset(self._sequencers))
            since = dict.fromkeys(released.sequencers, NOWHERE)
            since[e.peer] = MAX_OFFSET if state.shown[row] >> e.peer & 1 else got
            found: dict[str, Any] = {"node": e.peer, "op": e.op, "lsn": shown(lsn)}
            asked, out = int(state.asked.seq[start]), int(state.released[row])
            events = (got, asked, e.seq) if got < asked else (got, asked, out, e.seq)
            purge: dict[str, Any] = {"rests_on": (Kind.PURGE,), "unseen": released, "enough": _Purged(e.peer, released)}
            self._ends.wait(tally, since, *events, since=since, said=found, **purge)
            place = _kept_back(state, start, e.peer, lsn + 1, last)

    def _ships(self, e: _Rows) -> None:
        """A shard ships what it has not stored, or what somebody else of the copyset has shipped."""
        state = self._state
        first, last = state.upto[state.run[_NAMED] : state.run[_NAMED] + 2].tolist()
        state.run[_NAMED] += 1
        _count_stored(state, e.node, first, last, self.judged)
        _shows(state, e.node, first, last)
        place = _not_stored(state, e.node, first, last) if state.held.used[0] else -1
        while place >= 0:
            found = {"node": e.node, "op": e.op, "lsn": shown(int(state.named[place]))}
            self.tallies[STORED.id].violation(e.seq, **found)
            place = _not_stored(state, e.node, place + 1, last)
        life = _life_of(state, e.op)
        start = _start_of(state, life, e.node)
        if start >= 0 and state.asked.filter[start] == e.filter and state.asked.listed[start] >= 0:
            self._ships_alone(e, life, int(state.asked.listed[start]), state.named[first:last])

    def _ships_alone(self, e: _Rows, life: int, listed: int, lsns: Ints) -> None:
        """What somebody else of the copyset may have shipped."""
        state, places = self._state, self._nodesets.places
        for lsn in lsns.tolist():
            row = lsn_row(state.held.lsns, lsn)
            copyset = _alone(state, places, lsn, row, e.node, listed)
            first = _ships(state, life, row, e.node, copyset, e.seq)
            if copyset:
                self._tally.judged += 1
                shard, among, seq = (int(column[first]) for column in state.shipped)
                if shard != e.node and among == copyset and _comparable(state, row, e.node, shard, seq):
                    found = {"op": e.op, "lsn": shown(lsn), "first": shard, "second": e.node}
                    copies = copied(state.held, row, (shard, e.node))
                    self._tally.violation(*copies, seq, e.seq, way="both", **found)

    def _passed_over(self, e: _Rows) -> None:
        """What all have passed over nobody has shipped."""
        state, places, lsns = self._state, self._nodesets.places, self._state.held.lsns
        life, count = _life_of(state, e.op), np.zeros(1, dtype=np.int64)
        start = _start_of(state, life, e.peer)
        listed, first = int(state.asked.listed[start]), max(int(state.asked.next[start]), int(state.run[_TRIMMED]) + 1)
        state.asked.next[start] = e.last_offset + 1
        place = _passed_over(state, places, life, start, first, e.last_offset, count)
        while place >= 0:
            lsn, row = int(lsns.order[place]), int(lsns.rows[place])
            shards = [*members(_settled(state, places, life, row, lsn, listed))]
            found = {"op": e.op, "lsn": shown(lsn), "shards": shards}
            events = *copied(state.held, row, shards), int(state.changed[row]), e.seq
            self._tally.violation(*events, way="nobody", **found)
            place = _passed_over(state, places, life, start, lsn + 1, e.last_offset, count)
        self._tally.judged += int(count[0])

    def finish(self) -> Verdicts:
        """See `StreamFold`."""
        self._ends.over()
        self.tallies[STORED.id].unjudged += int(self._state.run[_UNTOLD])
        return super().finish()


FAMILY = Family(
    "read_path_shipping",
    CHECKS,
    frozenset({*_OWN, *END_KINDS}),
    (
        *("node", "op", "peer", "f", "offset", "last_offset", "value", "record", "epoch", "filter", "shards", "wave"),
        *("recovery", "reason"),
    ),
    ShippingFold,
    READ_PATH,
    reads_texts=True,
)
