"""Puts against changelogs: what a client put is there, where it was told, and nothing else is.

Each record of a changelog says what an offset of the source log of its partition holds, also one that is passed over;
and who put a row is told at which offset that is.

Source: pull-queries.md#put-as-written.
"""

from __future__ import annotations

import json
import zlib
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from loghistory.schema import Kind

from ..codes import INVOKE, NULL, OK, code, lookup
from ..columns import Array, Columns, Ints, read_only
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..hashing import Table, empty_table, place_of, roomy, row_of
from ..kernel import kernel, part, step
from ..strings import no_strings, number_all, with_room
from .plain_queries.reading import NO_ROW, ODD, RECORD, UNREAD, Texts, number_rows
from .protocol import PULL_QUERIES, Record, Server
from .skimming import NOWHERE, Cells, no_rows, with_rows

PUT = Check(
    id="put-as-written",
    rule="A put is answered with the offset of the source log at which the changelog then has that very row, behind "
    "all that was there when it was asked for; a changelog has no row that nobody put, or whose put failed, and each "
    "in the partition of its key.",
    source=("pull-queries.md#put-as-written", "pull-queries.md#changelog", "pull-queries.md#partitions"),
    fact="a put that was answered with ok, or failed, or a change that a changelog shows",
    sentence={
        "nowhere": "The client of operation {op} was told that its row is put, but not where.",
        "elsewhere": "Operation {op} put its row at offset {offset} of the source log of partition {partition}, says "
        "the answer, but the changelog has it from offset {known}.",
        "other": "Operation {op} put its row at offset {offset} of the source log of partition {partition}, says the "
        "answer, but another one is there.",
        "before": "Operation {op} put its row at offset {offset} of the source log of partition {partition}, says the "
        "answer, but what is at {known} was there before it was asked for.",
        "failed": "The changelog of partition {partition} has a row from offset {offset} of the source log that was "
        "put only by operations that failed.",
        "unasked": "Offset {at} of the changelog of partition {partition} is a row that no client had put.",
        "changed": "Offset {at} of the changelog of partition {partition} says that offset {offset} of the source log "
        "holds another row than was said before.",
        "partition": "Offset {at} of the changelog of partition {partition} is a row whose key belongs to another one.",
    },
    kinds=(Kind.INVOKE,),
    columns=("op", "partition", "offset"),
    looks_back=True,
)
_CHANGELOG, _SERVE = code(Kind.CHANGELOG), code(Kind.SERVE)
_IS_OF_PUT, _IS_OF_LOG = lookup((Kind.INVOKE, Kind.OK, Kind.FAIL)), lookup((Kind.CHANGELOG, Kind.SERVE))
_SAYS = lookup((Kind.INVOKE, Kind.CHANGELOG))

_NOWHERE, _ELSEWHERE, _OTHER, _BEFORE, _FAILED, _UNASKED, _CHANGED, _PARTITION = range(8)
_WAYS = "nowhere", "elsewhere", "other", "before", "failed", "unasked", "changed", "partition"
_LARGE = 1 << 62
"""Offsets in texts that are as large have a number each, in order of appearance, behind this one."""

Row = tuple[str, int | float | str | None]
"""A key with its value; None: the key goes."""


class Put(msgspec.Struct, frozen=True, gc=False):
    """The row that a client puts."""

    key: str
    value: int | float | str | None = None


# -- what is known -----------------------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """The columns that are read."""

    kind: Array
    f: Array
    seq: Array
    op: Array
    offset: Array
    partition: Array
    value: Array


class _Events(NamedTuple):
    """The events of puts and changelogs; ``row``: the number of the row that one says, else as in `number_rows`."""

    kind: Cells
    seq: Cells
    op: Cells
    offset: Cells
    partition: Cells
    row: Cells
    source: Cells


class _Wishes(NamedTuple):
    """By number of a row: how often it was put, and where it is; `NOWHERE` for what is not known."""

    checksum: Cells  # of its key
    asked: Cells
    failed: Cells
    refused: Cells  # the event of the last put that failed
    source: Cells  # the offset of the source log from which a changelog first had it
    shown: Cells  # the event of that
    answered: Cells  # the offset that a client was told
    answer_seq: Cells  # the event of that


class _Puts(NamedTuple):
    """By row of an operation: the row that it puts (`UNREAD`: nobody can say; `NOWHERE`: it is over)."""

    row: Cells
    low: Cells  # the last offset of the source log that was known when it was asked for
    seq: Cells  # by which event


class _Held(NamedTuple):
    """What offsets of source logs hold. By row of a number of such a place (`_number_of`): the last one that has it; by
    place: the one before of the same number, and what it is."""

    last: Cells
    before: Cells
    partition: Cells
    offset: Cells
    row: Cells
    seq: Cells  # the event that says so


class _Tops(NamedTuple):
    """By row of a partition: the last offset that is known of its source log, and the event that says so."""

    offset: Cells
    seq: Cells


class _State(NamedTuple):
    """All that is known, with tables that find rows, and numbers."""

    wishes: _Wishes
    puts: _Puts
    of_ops: Table
    held: _Held
    of_held: Table
    tops: _Tops
    of_tops: Table
    run: Ints


_PUTS, _TOPS, _NUMBERS, _HELD, _JUDGED, _UNJUDGED, _READ, _UNREAD, _PARTITIONS, _WAY, _SHOWS, _KNOWN, _OF = range(13)
"""How many rows there are of operations, partitions, numbers of places, and places; facts; puts that can be read, and
that cannot; how many partitions there are, by all servers (0: nobody knows); of a violation the way, an event that
shows it, what is known instead, and the partition."""


@kernel
def _select(given: _Given, put: int, found: _Given) -> int:
    """Copy the events of puts and changelogs; how many."""
    count = 0
    for i in range(len(given.kind)):
        if _IS_OF_LOG[given.kind[i]] or (_IS_OF_PUT[given.kind[i]] and given.f[i] == put):
            found.kind[count], found.seq[count], found.op[count] = given.kind[i], given.seq[i], given.op[i]
            found.offset[count], found.partition[count] = given.offset[i], given.partition[i]
            found.value[count] = given.value[i]
            count += 1
    return count


@part
def _partition_of(wishes: _Wishes, run: Ints, row: int) -> int:
    """The partition of a row; -1: nobody knows, as servers do not say how many there are, or different numbers."""
    number = run[_PARTITIONS]
    return int(wishes.checksum[row] % number) if number else NOWHERE


@part
def _number_of(partition: int, offset: int) -> int:
    """The number of a place, which it hardly ever shares."""
    return (offset & 0xFFFFFFFFFFF) | (partition & 0x3FFFF) << 44


@part
def _place_of(held: _Held, of_held: Table, partition: int, offset: int) -> int:
    """Where it is said what an offset of a source log holds; `NOWHERE` if nobody did."""
    row = of_held.rows[place_of(of_held, _number_of(partition, offset))]
    place = held.last[row] if row >= 0 else NOWHERE
    while place >= 0 and (held.partition[place] != partition or held.offset[place] != offset):
        place = held.before[place]
    return int(place)


@part
def _hold(held: _Held, of_held: Table, run: Ints, partition: int, offset: int, row: int, seq: int) -> None:
    """Somebody is the first who says what an offset of a source log holds."""
    place, known = run[_HELD], run[_NUMBERS]
    number = row_of(of_held, run[_NUMBERS:], _number_of(partition, offset))
    held.before[place] = NOWHERE if number == known else held.last[number]
    held.last[number] = place
    held.partition[place], held.offset[place], held.row[place], held.seq[place] = partition, offset, row, seq
    run[_HELD] += 1


@part
def _reach(tops: _Tops, of_tops: Table, run: Ints, partition: int, offset: int, seq: int) -> None:
    """Somebody says that a source log has an offset."""
    known = run[_TOPS]
    top = row_of(of_tops, run[_TOPS:], partition)
    if top == known:
        tops.offset[top], tops.seq[top] = NOWHERE, NOWHERE
    if offset > tops.offset[top]:
        tops.offset[top], tops.seq[top] = offset, seq


# -- puts and changes --------------------------------------------------------------------------------------------------


@step
def _asked(state: _State, op: int, row: int) -> None:
    """A put is asked for."""
    put = row_of(state.of_ops, state.run[_PUTS:], op)
    state.puts.row[put] = row
    if row == UNREAD:
        state.run[_UNREAD] += 1
        return
    state.run[_READ] += 1
    state.wishes.asked[row] += 1
    top = state.of_tops.rows[place_of(state.of_tops, _partition_of(state.wishes, state.run, row))]
    state.puts.low[put] = state.tops.offset[top] if top >= 0 else NOWHERE
    state.puts.seq[put] = state.tops.seq[top] if top >= 0 else NOWHERE


@part
def _breaks(run: Ints, way: int, shows: int, known: int, partition: int) -> None:
    """Note a violation."""
    run[_WAY], run[_SHOWS], run[_KNOWN], run[_OF] = way, shows, known, partition


@step
def _answered(state: _State, put: int, row: int, offset: int, seq: int) -> None:
    """A put is answered with an offset."""
    wishes, held, partition = state.wishes, state.held, _partition_of(state.wishes, state.run, row)
    state.run[_JUDGED] += 1
    if offset == NULL:
        _breaks(state.run, _NOWHERE, NOWHERE, NOWHERE, partition)
        return
    place = _place_of(state.held, state.of_held, partition, offset)
    if wishes.asked[row] == 1 and wishes.shown[row] >= 0 and wishes.source[row] != offset:
        _breaks(state.run, _ELSEWHERE, wishes.shown[row], wishes.source[row], partition)
    elif place >= 0 and held.row[place] != row:
        _breaks(state.run, _OTHER, held.seq[place], NOWHERE, partition)
    elif offset <= state.puts.low[put]:
        _breaks(state.run, _BEFORE, state.puts.seq[put], state.puts.low[put], partition)
    wishes.answered[row], wishes.answer_seq[row] = offset, seq
    if partition >= 0:
        if place < 0:
            _hold(state.held, state.of_held, state.run, partition, offset, row, seq)
        _reach(state.tops, state.of_tops, state.run, partition, offset, seq)


@step
def _failed(state: _State, row: int, seq: int) -> None:
    """A put fails."""
    wishes = state.wishes
    wishes.failed[row] += 1
    wishes.refused[row] = seq
    state.run[_JUDGED] += 1
    if wishes.failed[row] == wishes.asked[row] and wishes.shown[row] >= 0:
        _breaks(state.run, _FAILED, wishes.shown[row], wishes.source[row], _partition_of(state.wishes, state.run, row))


@step
def _shown(state: _State, partition: int, source: int, row: int, seq: int) -> None:
    """A changelog shows a change, or (`NO_ROW`) that an offset of the source log is Raft's own."""
    wishes, held, place = state.wishes, state.held, _place_of(state.held, state.of_held, partition, source)
    state.run[_JUDGED] += 1
    belongs = _partition_of(state.wishes, state.run, row) if row >= 0 else NOWHERE
    if belongs >= 0 and belongs != partition:
        _breaks(state.run, _PARTITION, NOWHERE, NOWHERE, partition)
    elif place >= 0 and held.row[place] != row:
        _breaks(state.run, _CHANGED, held.seq[place], NOWHERE, partition)
    elif row >= 0 and wishes.asked[row] == 0:
        if state.run[_UNREAD]:
            state.run[_JUDGED] -= 1
            state.run[_UNJUDGED] += 1
        else:
            _breaks(state.run, _UNASKED, NOWHERE, NOWHERE, partition)
    elif row >= 0 and wishes.failed[row] == wishes.asked[row]:
        _breaks(state.run, _FAILED, wishes.refused[row], NOWHERE, partition)
    elif row >= 0 and wishes.asked[row] == 1 and wishes.answer_seq[row] >= 0 and wishes.answered[row] != source:
        _breaks(state.run, _CHANGED, wishes.answer_seq[row], NOWHERE, partition)
    if row >= 0 and wishes.asked[row] > 0 and wishes.shown[row] < 0:
        wishes.source[row], wishes.shown[row] = source, seq
    if place < 0:
        _hold(state.held, state.of_held, state.run, partition, source, row, seq)
    _reach(state.tops, state.of_tops, state.run, partition, source, seq)


@kernel
def _judge(rows: _Events, at: int, state: _State) -> int:
    """Judge events from one on; where one is a server that begins, or breaks the rule."""
    run = state.run
    run[_WAY] = NOWHERE
    for i in range(at, len(rows.kind)):
        kind, seq = rows.kind[i], rows.seq[i]
        if kind == _SERVE:
            return i
        if kind == _CHANGELOG:
            if rows.row[i] != UNREAD:
                _shown(state, rows.partition[i], rows.source[i], rows.row[i], seq)
        elif kind == INVOKE:
            _asked(state, rows.op[i], rows.row[i])
        else:
            put = state.of_ops.rows[place_of(state.of_ops, rows.op[i])]
            row = state.puts.row[put] if put >= 0 else NOWHERE
            if row != NOWHERE:
                state.puts.row[put] = NOWHERE
                if row == UNREAD:
                    run[_UNJUDGED] += 1
                elif kind == OK:
                    _answered(state, put, row, rows.offset[i], seq)
                else:
                    _failed(state, row, seq)
        if run[_WAY] >= 0:
            return i
    return len(rows.kind)


# -- the fold ----------------------------------------------------------------------------------------------------------

_AS_PUT, _AS_RECORD, _AS_SERVER = msgspec.json.Decoder(Put), msgspec.json.Decoder(Record), msgspec.json.Decoder(Server)
Form = TypeVar("Form")


def _read(decoder: msgspec.json.Decoder[Form], text: str | None) -> Form | None:
    """What a text says; None if it has another form. Most are read once: nothing is kept of them."""
    try:
        return None if text is None else decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _written(row: Row) -> str:
    """A row as `number_rows` finds it in texts: the same for rows that are equal."""
    key, value = row
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f'"key":{json.dumps(key, ensure_ascii=False)},"value":{json.dumps(value, ensure_ascii=False)}}}'


class PutFold:
    """Judges the puts of one log against its changelogs; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(PUT, setting.keep)
        self._compiled = compiled = setting.compiled
        self._words = setting.words
        self._put = setting.words.code("put")
        self._partitions: set[int] = set()
        self._rows: dict[Row, int] = {}
        self._strings = no_strings()  # the same, where loops are compiled
        self._large: dict[int, int] = {}
        self._state = _State(
            no_rows(_Wishes, compiled=compiled),
            no_rows(_Puts, compiled=compiled),
            empty_table(),
            no_rows(_Held, compiled=compiled),
            empty_table(),
            no_rows(_Tops, compiled=compiled),
            empty_table(),
            np.zeros(_OF + 1, np.int64),
        )

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        kind, _, seq, op, offset, partition, value = self._of_puts(columns)
        row, source = self._said(kind, value)
        rows = _Events(*map(read_only, (kind, seq, op, offset, partition, row, source)))
        self._make_room(len(kind))
        judge = _judge.form(self._compiled)
        held = rows if self._compiled else _Events(*(column.tolist() for column in rows))
        at = judge(held, 0, self._state)
        while at < len(kind):
            if kind[at] == _SERVE:
                self._serves(self._words.text(int(value[at])))
            else:
                self._violated(_Events(*(int(column[at]) for column in rows)))
            at = judge(held, at + 1, self._state)

    def _of_puts(self, columns: Columns) -> _Given:
        """The events of puts and changelogs."""
        held = columns._asdict()
        given = _Given(*(read_only(held[name]) for name in _Given._fields))
        if self._compiled:
            found = _Given(*np.empty((len(given), len(given.kind)), np.int64))
            count = _select.compiled(given, self._put, found)
            return _Given(*(column[:count] for column in found))
        which = _IS_OF_LOG[given.kind] | (_IS_OF_PUT[given.kind] & (given.f == self._put))
        return _Given(*(column[which].astype(np.int64) for column in given))

    def _said(self, kind: Array, codes: Ints) -> tuple[Ints, Ints]:
        """The numbers of the rows that texts say, and offsets of source logs."""
        row, source, says = np.full(len(kind), UNREAD), np.zeros(len(kind), np.int64), _SAYS[kind]
        odd = np.flatnonzero(says)
        if self._compiled:
            texts = codes - (NULL + 1)
            which = np.flatnonzero(says & (texts >= 0) & (texts < self._words.texts))
            read = Texts(*self._words.encoded(texts[which]), np.where(kind[which] == _CHANGELOG, RECORD, ODD))
            self._more_rows(len(which), int((read.ends - read.starts).sum()))
            found = np.empty((2, len(which)), np.int64)
            texts_of = Texts(*map(read_only, read))
            number_rows.compiled(
                texts_of, self._strings, self._state.wishes.checksum, found[0], found[1], np.zeros(2, np.int64)
            )
            row[which], source[which] = found
            odd = which[found[0] == ODD]
        for at, text in zip(odd.tolist(), self._words.texts_of(codes[odd]), strict=True):
            row[at], source[at] = self._read(kind[at] == _CHANGELOG, text)
        return row, source

    def _read(self, is_record: bool, text: str | None) -> tuple[int, int]:
        """The same for one text."""
        if not is_record:
            put = _read(_AS_PUT, text)
            return (UNREAD, 0) if put is None else (self._number((put.key, put.value)), 0)
        record = _read(_AS_RECORD, text)
        if record is None or record.source is None:
            return UNREAD, 0
        source = record.source
        if abs(source) >= _LARGE:
            number = self._large.setdefault(source, len(self._large))
            source = _LARGE + number if source > 0 else -_LARGE - number
        return NO_ROW if record.key is None else self._number((record.key, record.value)), source

    def _number(self, row: Row) -> int:
        """The number of a row; a new one if it has none."""
        if self._compiled:
            text = _written(row).encode()
            self._more_rows(1, len(text))
            starts, found = read_only(np.array([0, len(text)], np.int32)), np.zeros(1, np.int64)
            number_all(self._strings, np.frombuffer(text, np.uint8), starts, found)
            number = int(found[0])
        else:
            number = self._rows.setdefault(row, len(self._rows))
            self._more_rows(0, 0)
        self._state.wishes.checksum[number] = zlib.crc32(row[0].encode())
        return number

    def _more_rows(self, more: int, size: int) -> None:
        """Make room for rows, so many of which are new at most, in texts of so many bytes."""
        if self._compiled:
            self._strings = with_room(self._strings, more, size)
        rows = int(self._strings.used[0]) + more if self._compiled else len(self._rows)
        self._state = self._state._replace(wishes=with_rows(self._state.wishes, rows, {"asked": 0, "failed": 0}))

    def _make_room(self, more: int) -> None:
        """Make room for what so many events may add."""
        state, compiled = self._state, self._compiled
        puts, tops, numbers, held = state.run[: _HELD + 1].tolist()
        self._state = state._replace(
            puts=with_rows(state.puts, puts + more, {}),
            tops=with_rows(state.tops, tops + more, {}),
            held=with_rows(state.held, held + more, {}),
            of_ops=roomy(state.of_ops, puts, more, compiled),
            of_tops=roomy(state.of_tops, tops, more, compiled),
            of_held=roomy(state.of_held, numbers, more, compiled),
        )

    def _serves(self, text: str | None) -> None:
        """A server begins."""
        server = _read(_AS_SERVER, text)
        self._partitions.add(server.partitions if server is not None and server.sensible else 0)
        self._state.run[_PARTITIONS] = next(iter(self._partitions)) if len(self._partitions) == 1 else 0

    def _violated(self, e: _Events) -> None:
        """Word what `_judge` noted of an event."""
        way, shows, known, partition = map(int, self._state.run[_WAY:])
        large = {_LARGE + number if said > 0 else -_LARGE - number: said for said, number in self._large.items()}
        known = large.get(known, known)
        if e.kind == _CHANGELOG:
            place = {"partition": partition, "offset": large.get(e.source, e.source), "at": e.offset}
        elif e.kind == OK:
            place = {"op": e.op, "offset": e.offset, "partition": partition if partition >= 0 else "?", "known": known}
        else:
            place = {"partition": partition, "offset": known}
        self._tally.violation(shows, e.seq, way=_WAYS[way], **place)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,)) if self._state.run[_READ] else frozenset()

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken; where no put is recorded, others may have put what is there."""
        tally = self._tally
        tally.judged, tally.unjudged = self._state.run[[_JUDGED, _UNJUDGED]].tolist()
        if self._state.run[_READ] or not tally.violated:
            return Verdicts((tally.outcome(),))
        tally.unjudged, tally.judged = tally.judged + tally.unjudged, 0
        return Verdicts((tally.outcome("no put is recorded", void=True),))


FAMILY = Family(
    "pull_queries_puts",
    (PUT,),
    frozenset({Kind.SERVE, Kind.CHANGELOG, Kind.INVOKE, Kind.OK, Kind.FAIL}),
    ("op", "f", "partition", "offset", "value"),
    PutFold,
    PULL_QUERIES,
    operations=frozenset({"put", "query"}),
    reads_texts=True,
)
