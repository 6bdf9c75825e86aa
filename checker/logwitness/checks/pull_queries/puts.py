"""Puts against changelogs: what a client put is there, where it was told, and nothing else is.

Each record of a changelog says what an offset of the source log of its partition holds, also one that is passed over;
and who put a row is told at which offset that is.

Source: pull-queries.md#put-as-written.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np

from loghistory.schema import Kind

from ..codes import FAIL, INVOKE, NULL, OK, code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..words import Words
from .protocol import PULL_QUERIES, Record, Server

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

Row = tuple[str, int | float | str | None]
"""A key with its value; None: the key goes."""


class Put(msgspec.Struct, frozen=True, gc=False):
    """The row that a client puts."""

    key: str
    value: int | float | str | None = None


@dataclass(slots=True)
class _Wish:
    """What is known of a row: how often it was put, and where it is."""

    asked: int = 0
    failed: int = 0
    refused: int = -1  # the event of the last put that failed
    source: int = -1  # the offset of the source log from which a changelog first had it
    shown: int = -1  # the event of that
    answered: int = -1  # the offset that a client was told
    answer_seq: int = -1  # the event of that


@dataclass(slots=True)
class _Open:
    """A put that is asked for."""

    row: Row | None
    low: int  # the last offset of the source log that was known then
    seq: int  # by which event; -1: none


_PUTS, _RECORDS, _SERVERS = msgspec.json.Decoder(Put), msgspec.json.Decoder(Record), msgspec.json.Decoder(Server)
Form = TypeVar("Form")


def _read(decoder: msgspec.json.Decoder[Form], text: str | None) -> Form | None:
    """What a text says; None if it has another form. Most are read once: nothing is kept of them."""
    try:
        return None if text is None else decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class PutFold:
    """Judges the puts of one log against its changelogs; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(PUT, setting.keep)
        self._words: Words = setting.words
        self._put = setting.words.code("put")
        self._wishes: dict[Row, _Wish] = {}
        self._open: dict[int, _Open] = {}
        self._held: dict[tuple[int, int], tuple[Row | None, int]] = {}
        """By partition and offset of the source log what is there, and the event that says so."""
        self._top: dict[int, tuple[int, int]] = {}  # by partition: the last offset known of the source log, the event
        self._partitions: set[int] = set()
        self._places: dict[str, int] = {}  # by key, as servers say by now
        self._unread = False

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        kinds = columns.kind
        which = np.flatnonzero(_IS_OF_LOG[kinds] | (_IS_OF_PUT[kinds] & (columns.f == self._put)))
        texts = self._words.texts_of(columns.value[which].astype(np.int64))
        names = ("kind", "seq", "op", "offset", "partition")
        for (kind, seq, op, offset, partition), text in zip(columns.rows(which, *names), texts, strict=True):
            if kind == _CHANGELOG:
                self._shown(seq, partition, offset, _read(_RECORDS, text))
            elif kind == INVOKE:
                self._asked(op, _read(_PUTS, text))
            elif kind == _SERVE:
                server = _read(_SERVERS, text)
                self._partitions.add(server.partitions if server is not None and server.sensible else 0)
                self._places.clear()
            elif op in self._open:
                put = self._open.pop(op)
                if put.row is None:
                    self._tally.unjudged += 1
                elif kind == OK:
                    self._answered(seq, op, offset, put, put.row)
                elif kind == FAIL:
                    self._failed(seq, put.row)

    def _of(self, key: str) -> int:
        """The partition of a key; -1: nobody knows, as servers do not say how many there are, or different numbers."""
        found = self._places.get(key)
        if found is None:
            number = next(iter(self._partitions)) if len(self._partitions) == 1 else 0
            found = self._places[key] = zlib.crc32(key.encode()) % number if number else -1
        return found

    def _asked(self, op: int, put: Put | None) -> None:
        if put is None:
            self._unread = True
            self._open[op] = _Open(None, -1, -1)
            return
        row: Row = put.key, put.value
        wish = self._wishes.get(row)
        if wish is None:
            wish = self._wishes[row] = _Wish()
        wish.asked += 1
        self._open[op] = _Open(row, *self._top.get(self._of(put.key), (-1, -1)))

    def _answered(self, seq: int, op: int, offset: int, put: _Open, row: Row) -> None:
        """A put is answered with an offset."""
        tally, wish, partition = self._tally, self._wishes[row], self._of(row[0])
        tally.judged += 1
        if offset == NULL:
            tally.violation(seq, way="nowhere", op=op)
            return
        held = self._held.get((partition, offset))
        shows, way, known = -1, "", -1
        if wish.asked == 1 and wish.shown >= 0 and wish.source != offset:
            shows, way, known = wish.shown, "elsewhere", wish.source
        elif held is not None and held[0] != row:
            shows, way = held[1], "other"
        elif offset <= put.low:
            shows, way, known = put.seq, "before", put.low
        if way:
            place = {"op": op, "offset": offset, "partition": partition if partition >= 0 else "?"}
            tally.violation(shows, seq, way=way, known=known, **place)
        wish.answered, wish.answer_seq = offset, seq
        if partition >= 0:
            self._holds(partition, offset, row, seq)

    def _holds(self, partition: int, offset: int, row: Row | None, seq: int) -> None:
        """Somebody says what an offset of a source log holds."""
        self._held.setdefault((partition, offset), (row, seq))
        if offset > self._top.get(partition, (-1, -1))[0]:
            self._top[partition] = offset, seq

    def _failed(self, seq: int, row: Row) -> None:
        wish = self._wishes[row]
        wish.failed += 1
        wish.refused = seq
        self._tally.judged += 1
        if wish.failed == wish.asked and wish.shown >= 0:
            self._tally.violation(wish.shown, seq, way="failed", partition=self._of(row[0]), offset=wish.source)

    def _shown(self, seq: int, partition: int, at: int, record: Record | None) -> None:
        """A changelog shows a change, or that an offset of the source log is Raft's own."""
        if record is None or record.source is None:
            return
        source = record.source
        row: Row | None = None if record.key is None else (record.key, record.value)
        wish = None if row is None else self._wishes.get(row)
        self._tally.judged += 1
        self._compare(seq, partition, at, source, row, wish)
        if wish is not None and wish.shown < 0:
            wish.source, wish.shown = source, seq
        self._holds(partition, source, row, seq)

    def _compare(self, seq: int, partition: int, at: int, source: int, row: Row | None, wish: _Wish | None) -> None:
        """What a changelog shows, with what is known of the source log and of the row."""
        held = self._held.get((partition, source))
        shows, way = -1, ""
        if row is not None and self._of(row[0]) not in (-1, partition):
            way = "partition"
        elif held is not None and held[0] != row:
            shows, way = held[1], "changed"
        elif wish is None:
            if row is None:
                return
            if self._unread:
                self._tally.judged -= 1
                self._tally.unjudged += 1
                return
            way = "unasked"
        elif wish.failed == wish.asked:
            shows, way = wish.refused, "failed"
        elif wish.asked == 1 and wish.answer_seq >= 0 and wish.answered != source:
            shows, way = wish.answer_seq, "changed"
        if way:
            self._tally.violation(shows, seq, way=way, partition=partition, offset=source, at=at)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,)) if self._wishes else frozenset()

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken; where no put is recorded, others may have put what is there."""
        tally = self._tally
        if self._wishes or not tally.violated:
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
