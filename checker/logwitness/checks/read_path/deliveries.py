"""What readers deliver: every LSN once and in order, as it was appended, and no further than they may.

Sources: read-path.md#invariants, read-path.md#loop-until-stuck.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind, Operation
from loghistory.vocabularies.read_path import GapWord, HeardWord, NodeWord

from ..codes import INVOKE, NULL, OK, among, code, how_many, lookup, word_code
from ..columns import Ints
from ..contract import Check, Family, Setting, Tally, Verdicts
from ..ends import NOBODY, Ends, awaited_at
from ..hashing import Table, all_grown, at_most, empty_table, place_of, roomy, row_of
from ..kernel import kernel, part
from .protocol import BRIDGE, F_APPEND, F_READ, GAP, READ_PATH, TURNS, Cells, StreamFold, epoch_of, no_rows, shown

TILING = Check(
    id="tiling",
    rule="What a reader delivers tiles the log from its start on: every LSN once, in order, in a record or in a gap.",
    source=("read-path.md#tiling",),
    fact="a record or a gap delivered by a stream of which it is known where it began",
    sentence={
        "skipped": "Stream {op} went on with {lsn}, but {next} was next.",
        "again": "Stream {op} delivered {lsn} after it had delivered all before {next}.",
    },
    kinds=(Kind.INVOKE, Kind.STREAM_RECORD),
    columns=("op", "offset"),
)
AS_APPENDED = Check(
    id="record-as-appended",
    rule="A record equals what was appended: a client asked for it, and at its LSN no client was given another one, "
    "nor does any shard send one; and whoever appended it is told its LSN, once it is acknowledged.",
    source=("read-path.md#record-as-appended",),
    fact="a record delivered, or another one that a shard sent or that a client was answered to have appended",
    sentence={
        "unwritten": "Stream {op} delivered {value} at {lsn}, which no client had appended.",
        "other": "Stream {op} delivered {value} at {lsn}, which holds {known}.",
        "sent": "Shard {peer} sent stream {op} {value} at {lsn}, which holds {known}.",
        "size": "Shard {peer} sent stream {op} {value} at {lsn} in {bytes} bytes; it has been sent in {known}.",
        "answered": "The client of operation {op} was told that {value} is at {lsn}, which holds {known}.",
        "early": "The client of operation {op} was told that {value} is at {lsn} before that was acknowledged.",
    },
    kinds=(Kind.INVOKE, Kind.STREAM_RECORD),
    columns=("op", "offset", "value"),
    looks_back=True,
)
RELEASED = Check(
    id="released-only",
    rule="Records, holes and data losses are delivered up to what a sequencer released, and no further.",
    source=("read-path.md#released-only",),
    fact="a record, a hole or a data loss delivered",
    sentence="Stream {op} delivered {lsn}, but no more than {bound} was released.",
    kinds=(Kind.RELEASE,),
    columns=("op", "offset"),
    looks_back=True,
)
TRIMMED = Check(
    id="trim-within-trim-point",
    rule="A reader passes over as trimmed what some shard has given up, and no more; a shard gives up no more than a "
    "client asked for, and than is released.",
    source=("read-path.md#trim-within-trim-point", "read-path.md#shard-refuses"),
    fact="a trim gap delivered, or a trim point of a shard where some client asked for one",
    sentence={
        "passed": "Stream {op} passed over all up to {lsn} as trimmed, but shards gave up no more than {bound}.",
        "unasked": "Shard {node} gave up all up to {lsn}, but no client had asked for more than {bound}.",
        "unreleased": "Shard {node} gave up all up to {lsn}, but no more than {bound} was released.",
    },
    kinds=(Kind.TRIM_POINT,),
    columns=("op", "offset"),
    looks_back=True,
)
HOLES = Check(
    id="holes-are-for-all",
    rule="What one reader got as a hole, or at or above a bridge record in its epoch, is a record for none.",
    source=("read-path.md#holes-are-for-all",),
    fact="a hole or a bridge record delivered, or a record where one was",
    sentence={
        "hole": "One stream got a hole at {lsn}, but another one a record.",
        "bridge": "One stream got a bridge record at {bridge}, but another one a record at {lsn}.",
    },
    kinds=(Kind.STREAM_GAP,),
    columns=("op", "offset"),
)
END = Check(
    id="nothing-after-end",
    rule="No gap reaches beyond the end of its stream, and nothing comes after it, nor after a refusal of the log.",
    source=("read-path.md#nothing-after-end",),
    fact="a record or a gap delivered by a stream of which it is known where it began",
    sentence={
        "beyond": "Stream {op} delivered {lsn}, but was to read only to {until}.",
        "after": "Stream {op} delivered {lsn} after it had been refused the log.",
    },
    kinds=(Kind.INVOKE,),
    columns=("op", "offset"),
)
REJECTED = Check(
    id="rejected-comes-next",
    rule="A record that the application did not take comes next, unless a rewind intervened or the log was refused.",
    source=("read-path.md#rejected-comes-next", "read-path.md#deliver-trim"),
    fact="a record that was not taken, and what the stream delivered next",
    sentence="Stream {op} delivered {lsn} next, although the application had not taken {value} at {rejected}.",
    kinds=(Kind.STREAM_REJECT,),
    columns=("op", "offset", "value"),
)
CHECKS = (TILING, AS_APPENDED, RELEASED, TRIMMED, HOLES, END, REJECTED)

_OF_STREAMS = (Kind.STREAM_RECORD, Kind.STREAM_GAP, Kind.STREAM_REJECT, Kind.STREAM_REWIND, Kind.STREAM_HEARD)
_OF_NODES = (Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.TRIM_POINT, Kind.TAKES_PART, Kind.COPY, Kind.SHIP)
_KINDS = frozenset({Kind.INVOKE, Kind.OK, *_OF_NODES, *END_KINDS, *_OF_STREAMS})
_RECORD, _GAP, _REJECT, _REWIND, _HEARD = map(code, _OF_STREAMS)
_ACKNOWLEDGE, _RELEASE, _TRIM_POINT, _TAKES_PART, _COPY, _SHIP = map(code, _OF_NODES)
_SIGNS = (_ACKNOWLEDGE, _RELEASE, _TRIM_POINT, _COPY, _SHIP)
_SEQUENCER, _SHARD, _SAID_TRIM = word_code(NodeWord.SEQUENCER), word_code(NodeWord.SHARD), word_code(HeardWord.TRIM)
_REFUSALS = (GAP[GapWord.ACCESS], GAP[GapWord.NOT_IN_CONFIG])
_HOLE, _LOSS, _TRIM, _BRIDGE = (GAP[each] for each in (GapWord.HOLE, GapWord.DATALOSS, GapWord.TRIM, GapWord.BRIDGE))
_OF_RECORDS = [CHECKS.index(check) for check in (TILING, AS_APPENDED, RELEASED, END)]
_SENT, _F_TRIM = word_code(HeardWord.RECORD), word_code(Operation.TRIM_LOG)
_TRIMS = CHECKS.index(TRIMMED)
_IN_ORDER, _APPENDED, _UP_TO_RELEASED, _BEFORE_END = _OF_RECORDS
_IS_WANTED = lookup(_KINDS)


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
    bytes: Cells


class _Streams(NamedTuple):
    """By row of a read stream: the next LSN to deliver, and the event that came before."""

    next: Ints  # NULL: it is not known where it began
    until: Ints  # NULL: it has no end
    before: Ints
    refused: Ints  # the event of a refusal; -1: none
    rejected: Ints  # what the application did not take: LSN, value, event; -1: nothing
    value: Ints
    rejected_seq: Ints


class _Lsns(NamedTuple):
    """By row of an LSN: the value there and who said so first, and the first deliveries as a record and as a hole."""

    value: Ints
    seq: Ints  # -1: nobody
    answered: Ints  # the event that answered a client with it, if nobody had said so before
    record: Ints
    hole: Ints
    bytes: Ints  # of its payload, as it was heard first; -1: it was not
    sized: Ints  # by which event


class _Epochs(NamedTuple):
    """By row of an epoch: the last record delivered, the first bridge record, and their events; -1: none."""

    last: Ints
    last_seq: Ints
    bridge: Ints
    bridge_seq: Ints


class _Asked(NamedTuple):
    """By row of an operation: the value to append, and whether that was not acknowledged yet."""

    value: Ints
    waits: Ints


class _Wishes(NamedTuple):
    """Up to where clients asked to trim, farther each time, and the events."""

    lsn: Ints
    seq: Ints


class _State(NamedTuple):
    """What the loop knows; the numbers of ``run`` are named below."""

    ops: Table
    streams: _Streams
    lsns: Table
    known: _Lsns
    numbers: Table
    epochs: _Epochs
    appends: Table
    asked: _Asked
    written: Table
    wishes: _Wishes
    run: Ints
    awaited: Ints  # `Ends`


_USED_OPS, _USED_LSNS, _USED_EPOCHS, _USED_APPENDS, _USED_VALUES = range(5)
"""How many rows there are."""
_TOP, _TOP_SEQ, _GIVEN_UP, _GIVEN_UP_SEQ, _TO_TRIM, _TO_TRIM_SEQ, _RELEASER, _STORED, _WISHES = range(5, 14)
"""The highest LSN that a sequencer released, that a shard gave up and that a client asked to trim, and their
events; who released the first; the highest LSN of which a shard has a copy (-1: none is recorded); how many wishes."""


@part
def _lsn(state: _State, lsn: int) -> int:
    row: int = row_of(state.lsns, state.run[_USED_LSNS:], lsn)
    return row


@part
def _lsn_known(state: _State, lsn: int) -> int:
    """The row of an LSN of which somebody said what is there; -1."""
    row = int(state.lsns.rows[place_of(state.lsns, lsn)])
    return row if row >= 0 and state.known.seq[row] >= 0 else -1


@part
def _epoch(state: _State, lsn: int) -> int:
    row: int = state.numbers.rows[place_of(state.numbers, lsn >> 32)]
    return row


@part
def _is_said(state: _State, row: int, value: int, seq: int) -> None:
    """Somebody says what is at an LSN; if he is not the first, nothing changes."""
    if state.known.seq[row] < 0:
        state.known.value[row], state.known.seq[row] = value, seq


@part
def _is_record(state: _State, row: int, epoch: int, lsn: int, seq: int) -> None:
    """A stream got a record."""
    if state.known.record[row] < 0:
        state.known.record[row] = seq
    if state.epochs.last_seq[epoch] < 0 or lsn > state.epochs.last[epoch]:
        state.epochs.last[epoch], state.epochs.last_seq[epoch] = lsn, seq


@part
def _raise(state: _State, which: int, lsn: int, seq: int) -> None:
    """An LSN is told of that may be the highest one."""
    if state.run[which + 1] < 0 or lsn > state.run[which]:
        state.run[which], state.run[which + 1] = lsn, seq


@part
def _asks_to_trim(state: _State, lsn: int, seq: int) -> None:
    """A client asks to trim; farther than any before, perhaps."""
    if lsn != NULL and (state.run[_TO_TRIM_SEQ] < 0 or lsn > state.run[_TO_TRIM]):
        wish = state.run[_WISHES]
        state.run[_TO_TRIM], state.run[_TO_TRIM_SEQ], state.run[_WISHES] = lsn, seq, wish + 1
        state.wishes.lsn[wish], state.wishes.seq[wish] = lsn, seq


@part
def _breaks(state: _State, stream: int, row: int, epoch: int, lsn: int, last: int, value: int) -> bool:
    """Whether a record delivered may break a rule, or cannot be judged by all of them."""
    if stream < 0 or state.streams.next[stream] != lsn or state.streams.rejected_seq[stream] >= 0:
        return True
    until = state.streams.until[stream]
    if state.streams.refused[stream] >= 0 or (until != NULL and last > until):
        return True
    if state.run[_TOP_SEQ] < 0 or last > state.run[_TOP] or state.written.rows[place_of(state.written, value)] < 0:
        return True
    if epoch < 0:
        return True
    other = state.known.seq[row] >= 0 and state.known.value[row] != value
    behind = state.epochs.bridge[epoch] >= 0 and lsn >= state.epochs.bridge[epoch]
    return bool(other or state.known.hole[row] >= 0 or behind)


@kernel
def _skim(rows: _Rows, at: int, state: _State, judged: Ints) -> int:
    for i in range(at, len(rows.kind)):
        kind, op, f, lsn, seq, value = rows.kind[i], rows.op[i], rows.f[i], rows.offset[i], rows.seq[i], rows.value[i]
        if not _IS_WANTED[kind]:
            continue
        if kind in _SIGNS and state.awaited[awaited_at(rows.node[i])]:
            return i
        if kind == _RECORD:
            last = rows.last_offset[i]
            stream = state.ops.rows[place_of(state.ops, op)]
            row, epoch = _lsn(state, lsn), _epoch(state, lsn)
            if _breaks(state, stream, row, epoch, lsn, last, value):
                return i
            judged[_IN_ORDER] += 1
            judged[_APPENDED] += 1
            judged[_UP_TO_RELEASED] += 1
            judged[_BEFORE_END] += 1
            _is_said(state, row, value, seq)
            _is_record(state, row, epoch, lsn, seq)
            state.streams.next[stream], state.streams.before[stream] = last + 1, seq
        elif kind == _HEARD:
            known = _lsn_known(state, lsn) if f == _SENT and value != NULL else -1
            if rows.record[i] == BRIDGE or f == _SAID_TRIM or (known >= 0 and state.known.value[known] != value):
                return i
            if known >= 0 and rows.bytes[i] > 0:
                if state.known.bytes[known] < 0:
                    state.known.bytes[known], state.known.sized[known] = rows.bytes[i], seq
                elif state.known.bytes[known] != rows.bytes[i]:
                    return i
        elif kind == INVOKE:
            if f == F_READ:
                return i
            if f == _F_TRIM:
                _asks_to_trim(state, lsn, seq)
            elif f == F_APPEND:
                append = row_of(state.appends, state.run[_USED_APPENDS:], op)
                state.asked.value[append], state.asked.waits[append] = value, 1
                row_of(state.written, state.run[_USED_VALUES:], value)
        elif kind == _REWIND:
            stream = state.ops.rows[place_of(state.ops, op)]
            if stream < 0:
                return i
            state.streams.rejected_seq[stream] = -1
        elif kind == OK:
            append = state.appends.rows[place_of(state.appends, op)]
            if f == F_APPEND and append >= 0 and state.asked.waits[append]:
                known = _lsn_known(state, lsn)
                if lsn != NULL and (known < 0 or state.known.value[known] != state.asked.value[append]):
                    return i
                state.asked.waits[append] = 0
        elif kind == _ACKNOWLEDGE:
            row = _lsn(state, lsn)
            if state.known.seq[row] >= 0 and state.known.answered[row] >= 0:
                return i
            _is_said(state, row, value, seq)
        elif kind == _RELEASE:
            _raise(state, _TOP, lsn, seq)
            if state.run[_TOP_SEQ] == seq:
                state.run[_RELEASER] = rows.node[i]
        elif kind == _TRIM_POINT:
            _raise(state, _GIVEN_UP, lsn, seq)
            if state.run[_TO_TRIM_SEQ] >= 0:
                if lsn > state.run[_TO_TRIM] or (state.run[_TOP_SEQ] >= 0 and lsn > state.run[_TOP]):
                    return i
                judged[_TRIMS] += 1
        elif kind == _COPY:
            state.run[_STORED] = max(state.run[_STORED], lsn)
        elif kind != _SHIP:
            return i
    return len(rows.kind)


@dataclass(frozen=True, slots=True)
class _Both:
    """Whether one of these sequencers was cut off, and another node, a shard."""

    sequencers: frozenset[int]

    def __call__(self, cut: frozenset[int]) -> bool:
        """See `Ends.wait`; these nodes were cut off."""
        return bool(cut & self.sequencers and cut - self.sequencers)


class DeliveryFold(StreamFold[_Rows]):
    """Judges what the readers of one run deliver; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED
    left = TURNS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        run = np.array([0, 0, 0, 0, 0, 0, -1, 0, -1, 0, -1, -1, -1, 0], dtype=np.int64)
        self._ends = Ends()
        self._sequencers: set[int] = set()
        self._shards: set[int] = set()
        self._trims: dict[int, dict[int, int]] = {}  # by stream and shard: up to where it said that it has trimmed
        self._state = _State(
            empty_table(),
            no_rows(_Streams),
            empty_table(),
            no_rows(_Lsns),
            empty_table(),
            no_rows(_Epochs),
            empty_table(),
            no_rows(_Asked),
            empty_table(),
            no_rows(_Wishes),
            run,
            self._ends.awaited,
        )
        self._bridges: dict[int, set[int]] = {}  # by stream: LSNs of the bridge records that it heard
        self._of: dict[int, int] = {}  # by event that answered a client too early, as far as is known: its operation

    def make_room(self, rows: _Rows) -> None:
        """See `StreamFold`."""
        state, used = self._state, self._state.run.tolist()
        begun = how_many(rows.kind, INVOKE)
        trims = int(np.count_nonzero((rows.kind == INVOKE) & (rows.f == _F_TRIM)))
        lsns = at_most(rows.offset[np.flatnonzero(among(rows.kind, (_RECORD, _GAP, OK, _ACKNOWLEDGE)))])
        self._state = state._replace(
            lsns=roomy(state.lsns, used[_USED_LSNS], lsns, self.compiled),
            known=all_grown(state.known, used[_USED_LSNS], lsns, _blank),
            appends=roomy(state.appends, used[_USED_APPENDS], begun, self.compiled),
            asked=all_grown(state.asked, used[_USED_APPENDS], begun, _blank),
            written=roomy(state.written, used[_USED_VALUES], begun, self.compiled),
            wishes=all_grown(state.wishes, used[_WISHES], trims, lambda _: 0),
        )

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._state, self.judged)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        if e.kind in _SIGNS and self._ends.awaited[awaited_at(e.node)]:
            self._ends.sign(e.node, e.seq)
            one = _Rows(*([cell] for cell in e))
            if _skim.plain(one, 0, self._state._replace(awaited=NOBODY), self.judged):
                return
        takes = _TAKES.get(e.kind)
        if takes is not None:
            takes(self, e)
            return
        stream = self._stream(e.op)
        streams = self._state.streams
        if e.kind in (_RECORD, _GAP):
            self._delivered(stream, e)
        elif e.kind == INVOKE:
            self._bridges.pop(e.op, None)
            self._trims.pop(e.op, None)
            for name, column in zip(streams._fields, streams, strict=True):
                column[stream] = _blank(name)
            streams.next[stream], streams.before[stream] = e.offset, e.seq
            if e.last_offset != e.offset:  # a stream of one LSN looks like one without an end
                streams.until[stream] = e.last_offset
        elif e.kind == _REWIND:
            streams.rejected_seq[stream] = -1
        elif e.value != NULL:
            streams.rejected[stream], streams.value[stream] = e.offset, e.value
            streams.rejected_seq[stream] = e.seq

    def _heard(self, e: _Rows) -> None:
        """A bridge record, or a record that is another one than was appended; or that something is trimmed."""
        if e.f == _SAID_TRIM:
            trims = self._trims.setdefault(e.op, {})
            trims[e.peer] = max(trims.get(e.peer, -1), e.last_offset)
        if e.record == BRIDGE:
            self._bridges.setdefault(e.op, set()).add(e.offset)
        row = _lsn_known(self._state, e.offset) if e.f == _SENT and e.value != NULL else -1
        size = int(self._state.known.bytes[row]) if row >= 0 else -1
        if size >= 0 and self._state.known.value[row] == e.value and 0 < e.bytes != size:
            found = {"peer": e.peer, "op": e.op, "value": e.value, "lsn": shown(e.offset), "bytes": e.bytes}
            self.tallies[AS_APPENDED.id].judged += 1
            events = (int(self._state.known.seq[row]), int(self._state.known.sized[row]), e.seq)
            self.tallies[AS_APPENDED.id].violation(*events, way="size", known=size, **found)
        elif row >= 0 and self._state.known.value[row] != e.value:
            known, said = int(self._state.known.value[row]), int(self._state.known.seq[row])
            found = {"peer": e.peer, "op": e.op, "value": e.value, "lsn": shown(e.offset), "known": known}
            self.tallies[AS_APPENDED.id].judged += 1
            self.tallies[AS_APPENDED.id].violation(said, e.seq, way="sent", **found)

    def _answered(self, e: _Rows) -> None:
        """A client is told that its record is at an LSN of which nothing is known, or that holds another one."""
        state, tally = self._state, self.tallies[AS_APPENDED.id]
        append = state.appends.rows[place_of(state.appends, e.op)]
        value, row = int(state.asked.value[append]), _lsn(state, e.offset)
        state.asked.waits[append] = 0
        known, said = int(state.known.value[row]), int(state.known.seq[row])
        if said < 0:
            _is_said(state, row, value, e.seq)
            state.known.answered[row] = e.seq
            self._of[e.seq] = e.op
            return
        tally.judged += 1
        found = {"op": e.op, "value": value, "lsn": shown(e.offset), "known": known}
        tally.violation(said, e.seq, way="answered", **found)

    def _acknowledges(self, e: _Rows) -> None:
        """What a client was told before is acknowledged now; another record there is for others to find."""
        state, tally = self._state, self.tallies[AS_APPENDED.id]
        row = _lsn(state, e.offset)
        answered, value = int(state.known.answered[row]), int(state.known.value[row])
        state.known.answered[row] = -1
        if value == e.value:
            tally.judged += 1
            found = {"op": self._of.pop(answered), "value": value, "lsn": shown(e.offset)}
            tally.violation(answered, e.seq, way="early", **found)

    def _gives_up(self, e: _Rows) -> None:
        """A shard gives up more than somebody asked for, or than is released."""
        tally, run = self.tallies[TRIMMED.id], self._state.run
        way, which = ("unasked", _TO_TRIM) if e.offset > run[_TO_TRIM] else ("unreleased", _TOP)
        bound, seq = run[which : which + 2].tolist()
        found: dict[str, object] = {"way": way, "node": e.node, "lsn": shown(e.offset), "bound": shown(bound)}
        if way == "unreleased":
            self._unreleased(tally, e.offset, seq, e.seq, found)
            return
        tally.judged += 1
        tally.violation(seq, e.seq, **found)  # type: ignore[arg-type]

    def _turns(self, e: _Rows) -> None:
        """The life of a node begins or ends."""
        self._ends.turn(e.kind, e.node, e.seq)
        if e.kind == _TAKES_PART and e.f in (_SEQUENCER, _SHARD):
            (self._sequencers if e.f == _SEQUENCER else self._shards).add(e.node)

    def _unreleased(self, tally: Tally, lsn: int, released: int, seq: int, said: dict[str, object]) -> None:
        """More is used than is known to be released: a sequencer that was cut off may have released that last.

        Not if a later life released the highest LSN: its epoch was given away later, and is a higher one. Nor did it
        release what no shard has stored, unless one of these was cut off as well.
        """
        run, way = self._state.run, str(said.pop("way", ""))
        nodes, began = {*self._sequencers, int(run[_RELEASER])}, self._ends.began(int(run[_RELEASER]), released)
        beyond = 0 <= run[_STORED] < lsn
        enough = _Both(frozenset(nodes)) if beyond else bool
        among = nodes | self._shards if beyond else nodes
        self._ends.wait(tally, among, released, seq, since=began, enough=enough, way=way, said=said)

    def _untrimmed(self, e: _Rows, given_up: int, said: dict[str, object]) -> None:
        """More is passed over than shards are known to have given up: one that was cut off may have done so last."""
        trimmed = [shard for shard, lsn in self._trims.get(e.op, {}).items() if lsn >= e.last_offset]
        tally, wishes = self.tallies[TRIMMED.id], int(self._state.run[_WISHES])
        place = int(np.searchsorted(self._state.wishes.lsn[:wishes], e.last_offset))
        asked = int(self._state.wishes.seq[place]) if place < wishes else e.seq if wishes else -1
        if self._shards and not self._shards.issuperset(trimmed):
            tally.unjudged += 1  # of one that says so nothing is recorded
            return
        nodes = trimmed or self._shards if asked < e.seq else ()
        self._ends.wait(tally, nodes, given_up, e.seq, since=asked, way="passed", said=said)

    def _stream(self, op: int) -> int:
        """The row of a stream."""
        state, used = self._state, int(self._state.run[_USED_OPS])
        ops, streams = roomy(state.ops, used, 1, self.compiled), all_grown(state.streams, used, 1, _blank)
        self._state = state._replace(ops=ops, streams=streams)
        return row_of(ops, state.run[_USED_OPS:], op)

    def _with_epoch(self, lsn: int) -> None:
        """Give the epoch of an LSN a row."""
        state, used = self._state, int(self._state.run[_USED_EPOCHS])
        numbers, epochs = roomy(state.numbers, used, 1, self.compiled), all_grown(state.epochs, used, 1, _blank)
        self._state = state._replace(numbers=numbers, epochs=epochs)
        row_of(numbers, state.run[_USED_EPOCHS:], epoch_of(lsn))

    def _delivered(self, stream: int, e: _Rows) -> None:
        is_record = e.kind == _RECORD
        gap = None if is_record else e.f
        self._with_epoch(e.offset)
        self._in_order(stream, e)
        self._comes_next(stream, e)
        if gap in _REFUSALS:
            self._state.streams.refused[stream] = e.seq
        if is_record:
            self._as_appended(e)
        if is_record or gap in (_HOLE, _LOSS):
            self._within(RELEASED, _TOP, e)
        elif gap == _TRIM:
            self._within(TRIMMED, _GIVEN_UP, e)
        if is_record:
            self._holes_or_record(e.offset, e.seq)
        elif gap == _HOLE or (gap == _BRIDGE and e.offset in self._bridges.get(e.op, ())):
            self._nothing_there(e.offset, e.seq, hole=gap == _HOLE)

    def _within(self, check: Check, which: int, e: _Rows) -> None:
        """What is delivered goes no further than the highest LSN that somebody told of, if anybody did."""
        tally, (bound, seq) = self.tallies[check.id], self._state.run[which : which + 2].tolist()
        if seq < 0:
            tally.unjudged += 1
            return
        found: dict[str, object] = {"op": e.op, "lsn": shown(e.last_offset), "bound": shown(bound)}
        if e.last_offset <= bound:
            tally.judged += 1
        elif which == _TOP:
            self._unreleased(tally, e.last_offset, seq, e.seq, found)
        else:
            self._untrimmed(e, seq, found)

    def _in_order(self, stream: int, e: _Rows) -> None:
        tiling, end, streams = self.tallies[TILING.id], self.tallies[END.id], self._state.streams
        due, until, before, refused = (int(column[stream]) for column in streams[:4])
        if due == NULL:
            tiling.unjudged += 1
            end.unjudged += 1
            return
        tiling.judged += 1
        end.judged += 1
        if e.offset != due:
            way = "skipped" if e.offset > due else "again"
            rests_on = (Kind.STREAM_RECORD,) if way == "skipped" else ()
            tiling.violation(before, e.seq, way=way, rests_on=rests_on, op=e.op, lsn=shown(e.offset), next=shown(due))
        if until != NULL and e.last_offset > until:
            end.violation(e.seq, way="beyond", op=e.op, lsn=shown(e.last_offset), until=shown(until))
        elif refused >= 0:
            end.violation(refused, e.seq, way="after", op=e.op, lsn=shown(e.offset))
        streams.next[stream], streams.before[stream] = e.last_offset + 1, e.seq

    def _comes_next(self, stream: int, e: _Rows) -> None:
        streams = self._state.streams
        lsn, value, rejected = (int(column[stream]) for column in streams[4:])
        if rejected < 0:
            return
        streams.rejected_seq[stream] = -1
        is_record = e.kind == _RECORD
        tally = self.tallies[REJECTED.id]
        tally.judged += 1
        same = is_record and e.offset == lsn and e.value == value
        if not same and (is_record or e.f not in _REFUSALS):
            found = {"op": e.op, "lsn": shown(e.offset)}
            rests_on = (Kind.STREAM_RECORD,)
            tally.violation(rejected, e.seq, rests_on=rests_on, value=value, rejected=shown(lsn), **found)

    def _as_appended(self, e: _Rows) -> None:
        tally, state = self.tallies[AS_APPENDED.id], self._state
        if not state.run[_USED_VALUES]:
            tally.unjudged += 1
            return
        tally.judged += 1
        row = _lsn(state, e.offset)
        _is_said(state, row, e.value, e.seq)
        known, said = int(state.known.value[row]), int(state.known.seq[row])
        found = {"op": e.op, "lsn": shown(e.offset), "value": e.value}
        if state.written.rows[place_of(state.written, e.value)] < 0:
            tally.violation(e.seq, way="unwritten", **found)
        elif known != e.value:
            tally.violation(said, e.seq, way="other", known=known, **found)

    def _holes_or_record(self, lsn: int, seq: int) -> None:
        tally, state = self.tallies[HOLES.id], self._state
        row, epoch = _lsn(state, lsn), _epoch(state, lsn)
        _is_record(state, row, epoch, lsn, seq)
        bridge, bridge_seq = int(state.epochs.bridge[epoch]), int(state.epochs.bridge_seq[epoch])
        if state.known.hole[row] >= 0:
            tally.violation(int(state.known.hole[row]), seq, way="hole", lsn=shown(lsn))
        elif bridge_seq >= 0 and lsn >= bridge:
            tally.violation(bridge_seq, seq, way="bridge", lsn=shown(lsn), bridge=shown(bridge))
        else:
            return
        tally.judged += 1

    def _nothing_there(self, lsn: int, seq: int, *, hole: bool) -> None:
        tally, state = self.tallies[HOLES.id], self._state
        row, epoch, epochs = _lsn(state, lsn), _epoch(state, lsn), state.epochs
        tally.judged += 1
        if hole:
            if state.known.hole[row] < 0:
                state.known.hole[row] = seq
            if state.known.record[row] >= 0:
                tally.violation(int(state.known.record[row]), seq, way="hole", lsn=shown(lsn))
            return
        if epochs.bridge_seq[epoch] < 0 or lsn < epochs.bridge[epoch]:
            epochs.bridge[epoch], epochs.bridge_seq[epoch] = lsn, seq
        last, last_seq = int(epochs.last[epoch]), int(epochs.last_seq[epoch])
        if last_seq >= 0 and last >= lsn:
            tally.violation(last_seq, seq, way="bridge", lsn=shown(last), bridge=shown(lsn))

    def finish(self) -> Verdicts:
        """See `StreamFold`."""
        self._ends.over()
        return super().finish()


def _blank(name: str) -> int:
    """What is known of a stream, an LSN, an epoch or an operation before anything is."""
    return {"next": NULL, "until": NULL, "value": 0, "waits": 0}.get(name, -1)


_TAKES = {
    _HEARD: DeliveryFold._heard,
    _TRIM_POINT: DeliveryFold._gives_up,
    OK: DeliveryFold._answered,
    _ACKNOWLEDGE: DeliveryFold._acknowledges,
    _TAKES_PART: DeliveryFold._turns,
    **dict.fromkeys(map(code, END_KINDS), DeliveryFold._turns),
}
"""What is done with events that are of no delivery."""


FAMILY = Family(
    "read_path_deliveries",
    CHECKS,
    _KINDS,
    ("node", "op", "peer", "f", "offset", "last_offset", "value", "record", "bytes"),
    DeliveryFold,
    READ_PATH,
    operations=frozenset({Operation.APPEND_RECORD, Operation.READ_STREAM, Operation.TRIM_LOG}),
)
