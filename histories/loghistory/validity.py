"""Whether events are what the schema promises: known kinds, required columns, ranges, increasing ``seq``.

Works on whole record batches; a batch may hold only some columns, then what they show is judged. Whether a client
opened an operation before closing it, or a node started before it crashed, is the checker's business, not ours.
Source: `loghistory.schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .arrays import Mask, coded, packed, slots, valid
from .columns import limits
from .errors import quote
from .schema import (
    ALWAYS,
    COLUMNS,
    ENTRY_KINDS,
    MAX_BATCH_OFFSETS,
    UNKNOWN_OFFSET,
    VERSION,
    Acks,
    Kind,
    Operation,
    required_in,
)


class Reason(StrEnum):
    """Why something was refused; the names under which a lenient reading counts."""

    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    LONG_LINE = "long_line"
    CUT_OFF = "cut_off"
    NO_HEADER = "no_header"
    DUPLICATE_KEY = "duplicate_key"
    UNKNOWN_COLUMN = "unknown_column"
    UNKNOWN_KIND = "unknown_kind"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    SEQUENCE = "sequence"
    DAMAGED = "damaged"
    BOMB = "bomb"


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with one event: its row in the batch, the column, the problem and the remedy."""

    row: int
    reason: Reason
    field: str
    problem: str
    remedy: str


_LIMITED = tuple(
    (column.name, *limits(column)) for column in COLUMNS if pa.types.is_integer(column.type) and column.name != "acks"
)
"""Columns whose values have limits, with these, but for one of which few values have a meaning."""

LARGEST_OFFSET = (1 << 61) - 1
"""Offsets beyond it are not judged, nor values below its negative less 1: sums of a few fit into 64 bits."""
_OFFSETS = frozenset(column.name for column in COLUMNS if column.unit == "offset")
_JUDGED = tuple(
    (
        name,
        -LARGEST_OFFSET - 1 if name == "value" else low,
        min(high, LARGEST_OFFSET) if name in _OFFSETS else high,
    )
    for name, low, high in _LIMITED
)

KINDS = tuple(Kind)
_CODE = {str(kind): code for code, kind in enumerate(KINDS)}
_OK = _CODE[str(Kind.OK)]
_BATCHES = np.array([*(kind in ENTRY_KINDS for kind in KINDS), False])


@cache
def _needing(version: int) -> dict[str, frozenset[int]]:
    """Per column that not every event must carry: the kinds that must in a version, by code."""
    found: dict[str, set[int]] = {}
    for kind, names in required_in(version).items():
        for name in names:
            found.setdefault(name, set()).add(_CODE[kind])
    return {name: frozenset(kinds) for name, kinds in found.items()}


def kind_codes(kinds: pa.DictionaryArray) -> npt.NDArray[np.int8]:
    """Position in `KINDS` of each event's kind, -1 where it is unknown or null."""
    return coded(kinds, lambda word: _CODE.get(word, -1), -1, np.int8)


@dataclass(frozen=True, slots=True)
class _Rule:
    """One broken rule in a batch: the rows that break it and how to say it."""

    broken: Mask
    flaw: Callable[[int], Flaw]


def flaws(batch: pa.RecordBatch, last_seq: int | None, version: int = VERSION, *, judged: bool = False) -> list[Flaw]:
    """What is wrong with the events of a batch, at most one flaw an event, in order of rows.

    ``last_seq`` is the ``seq`` of the event before the batch (None: there is none); ``version`` the schema version in
    which the events were recorded: it says what they had to carry. ``judged`` refuses also what a file may hold and
    no check can reckon with.
    """
    found: dict[int, Flaw] = {}
    for rule in _rules(batch, version, _JUDGED if judged else _LIMITED):
        _add(rule, found)
    if "seq" in batch.schema.names and batch.num_rows:
        # An event that is refused for another reason does not count in the order of the rest.
        for rule in _order(batch.column("seq"), list(found), last_seq):
            _add(rule, found)
    return [found[row] for row in sorted(found)]


def _add(rule: _Rule, found: dict[int, Flaw]) -> None:
    for row in np.flatnonzero(rule.broken).tolist():
        if row not in found:
            found[row] = rule.flaw(row)


def _rules(batch: pa.RecordBatch, version: int, limited: Sequence[tuple[str, int, int]]) -> Iterator[_Rule]:
    names = set(batch.schema.names)
    codes = kind_codes(batch.column("kind")) if "kind" in names else None
    if codes is not None:
        unknown = codes < 0
        if unknown.any():
            yield _Rule(unknown, lambda row: _unknown_kind(row, batch.column("kind")[row].as_py()))
    for name in ALWAYS:
        if name != "kind" and name in names and batch.column(name).null_count:
            yield _Rule(~valid(batch.column(name)), _missing(name, batch))
    if codes is not None:
        needing = _Needing(batch.column("kind"), codes, _needing(version))
        for name in needing.columns:
            if name in names and batch.column(name).null_count:
                missing = needing.events(name) & ~packed(batch.column(name))
                if missing.any():
                    broken = np.unpackbits(missing, count=batch.num_rows, bitorder="little").view(np.bool_)
                    yield _Rule(broken, _missing(name, batch))
    yield from _ranges(batch, names, codes)
    for name, low, high in limited:
        if name in names and not _within(batch.column(name), low, high):
            yield _Rule(*_beyond(batch, name, low, high))


def _beyond(batch: pa.RecordBatch, name: str, low: int, high: int) -> tuple[Mask, Callable[[int], Flaw]]:
    values = slots(batch.column(name))
    remedy = f"give an integer from {low} to {high}"
    return (
        valid(batch.column(name)) & ((values < low) | (values > high)),
        lambda row: Flaw(row, Reason.OUT_OF_RANGE, name, f"{values[row]} is out of range", remedy),
    )


class _Needing:
    """Which events of a batch must carry a column, a bit for each; several columns are needed by the same kinds."""

    def __init__(
        self, kinds: pa.DictionaryArray, codes: npt.NDArray[np.int8], columns: dict[str, frozenset[int]]
    ) -> None:
        occur = frozenset(_CODE[word] for word in kinds.dictionary.to_pylist() if word in _CODE)
        self.columns = {name: needing for name, wanted in columns.items() if (needing := wanted & occur)}
        self._codes = codes
        self._found: dict[frozenset[int], npt.NDArray[np.uint8]] = {}

    def events(self, name: str) -> npt.NDArray[np.uint8]:
        """The events that must carry this column."""
        return self._of(self.columns[name])

    def _of(self, kinds: frozenset[int]) -> npt.NDArray[np.uint8]:
        if kinds not in self._found:
            if len(kinds) == 1:
                found = np.packbits(self._codes == min(kinds), bitorder="little")
            else:
                found = np.bitwise_or.reduce([self._of(frozenset({kind})) for kind in kinds])
            self._found[kinds] = found
        return self._found[kinds]


def _unknown_kind(row: int, word: Any) -> Flaw:  # noqa: ANN401
    if word is None:
        return Flaw(row, Reason.MISSING_FIELD, "kind", "an event must say its kind", 'add "kind"')
    problem = f"unknown kind {quote(word)}"
    return Flaw(row, Reason.UNKNOWN_KIND, "kind", problem, "the kinds are " + ", ".join(KINDS))


def _missing(name: str, batch: pa.RecordBatch) -> Callable[[int], Flaw]:
    def flaw(row: int) -> Flaw:
        """What is wrong with the event in this row: it lacks the column."""
        kind = batch.column("kind")[row].as_py() if "kind" in batch.schema.names else None
        subject = f"{_article(kind)} {kind} event" if kind else "every event"
        return Flaw(row, Reason.MISSING_FIELD, name, f"{subject} must carry it", f"add {quote(name)}")

    return flaw


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


def _ranges(batch: pa.RecordBatch, names: set[str], codes: npt.NDArray[np.int8] | None) -> Iterator[_Rule]:
    levels = (Acks.ALL, Acks.LEADER, Acks.NONE)
    # The levels are neighbours.
    if "acks" in names and not _within(batch.column("acks"), min(levels), max(levels)):
        acks = batch.column("acks").fill_null(0).to_numpy(zero_copy_only=False)
        wrong = ~np.isin(acks, levels)
        if wrong.any():
            yield _Rule(
                wrong,
                lambda row: Flaw(
                    row, Reason.OUT_OF_RANGE, "acks", f"{acks[row]} is no acks level", "-1 all, 1 leader, 0 none"
                ),
            )
    if codes is not None and "offset" in names and batch.column("offset").null_count < batch.num_rows:
        yield from _below(batch, names, codes)
    if not {"offset", "last_offset"} <= names or batch.column("last_offset").null_count == batch.num_rows:
        return
    first, last = slots(batch.column("offset")), slots(batch.column("last_offset"))
    given = valid(batch.column("last_offset"))
    # A whole batch of ordinary events is passed at once, whatever stands where there is no offset; gaps may be wide.
    odd = np.flatnonzero(((last - first) * given).view(np.uint64) >= MAX_BATCH_OFFSETS)
    ordered = first.min() >= 0 and not (last[odd] < first[odd]).any()
    if ordered and (codes is None or not _BATCHES[codes[odd]].any()):
        return
    given &= valid(batch.column("offset"))
    backwards = given & (last < first)
    if backwards.any():
        yield _Rule(
            backwards,
            lambda row: Flaw(
                row,
                Reason.OUT_OF_RANGE,
                "last_offset",
                f"{last[row]} is below the offset {first[row]}",
                "the last offset is inclusive",
            ),
        )
    if codes is None:
        return
    # The difference of two 64-bit integers fits unsigned ones wherever it is not negative.
    offsets = last.astype(np.uint64) - first.astype(np.uint64)
    wide = given & ~backwards & _BATCHES[codes] & (offsets >= MAX_BATCH_OFFSETS)
    if wide.any():
        yield _Rule(
            wide,
            lambda row: Flaw(
                row,
                Reason.OUT_OF_RANGE,
                "last_offset",
                f"a batch of {int(offsets[row]) + 1} offsets is too wide",
                f"at most {MAX_BATCH_OFFSETS}; record it as several batches",
            ),
        )


def _below(batch: pa.RecordBatch, names: set[str], codes: npt.NDArray[np.int8]) -> Iterator[_Rule]:
    """Entries are at offsets from 0 on; the answer to an append may carry none."""
    first = slots(batch.column("offset"))
    if first.min() >= 0:
        return
    unknown_offset = (codes == _OK) & (first == UNKNOWN_OFFSET)
    if "f" in names and unknown_offset.any():
        unknown_offset &= coded(batch.column("f"), lambda word: int(word == Operation.APPEND), 0, np.int8) == 1
    below = valid(batch.column("offset")) & _BATCHES[codes] & (first < 0) & ~unknown_offset
    if below.any():
        remedy = (
            f"offsets count from 0; leave out one that is not known, or give {UNKNOWN_OFFSET} in the ok of an append"
        )
        yield _Rule(below, lambda row: Flaw(row, Reason.OUT_OF_RANGE, "offset", f"{first[row]} is no offset", remedy))


def _within(column: pa.Array, low: int, high: int) -> bool:
    """Whether no value is outside these limits, themselves included; nulls are no values."""
    if column.null_count == len(column):
        return True
    values = slots(column)
    held = np.iinfo(values.dtype)
    if not low:
        # As they are unsigned, negative ones are above all others: one pass for both limits.
        if values.view(f"u{values.itemsize}").max() <= high:
            return True
    elif (low <= held.min or low <= values.min()) and (high >= held.max or values.max() <= high):
        return True
    ends = pc.min_max(column).as_py()
    return bool(low <= ends["min"] and ends["max"] <= high)


def _order(column: pa.Array, refused: Sequence[int], last_seq: int | None) -> Iterator[_Rule]:
    if not refused and not column.null_count:
        given = column.to_numpy(zero_copy_only=False)
        if (last_seq is None or given[0] > last_seq) and bool((given[1:] > given[:-1]).all()):
            return
    lowest = np.iinfo(np.int64).min
    counted = np.ones(len(column), bool)
    counted[refused] = False
    seq = np.where(counted, column.fill_null(lowest).to_numpy(zero_copy_only=False), lowest)
    highest = np.empty(len(seq), np.int64)
    highest[0] = lowest if last_seq is None else last_seq
    highest[1:] = seq[:-1]
    np.maximum.accumulate(highest, out=highest)
    back = counted & (seq <= highest)
    if last_seq is None:
        # Nothing is before the first event, not even the smallest integer.
        back[: int(np.argmax(counted)) + 1] = False
    if back.any():
        yield _Rule(
            back,
            lambda row: Flaw(
                row,
                Reason.SEQUENCE,
                "seq",
                f"{seq[row]} does not come after {highest[row]}",
                "seq increases strictly; merge the files of several processes with `history merge`",
            ),
        )
