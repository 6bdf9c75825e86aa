"""Whether events are what the schema promises: known kinds, required columns, ranges, increasing ``seq``.

Works on whole record batches; a batch may hold only some columns, then what they show is judged. Whether a client
opened an operation before closing it, or a node started before it crashed, is the checker's business, not ours.
Source: `loghistory.schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .errors import quote
from .schema import MAX_BATCH_OFFSETS, REQUIRED, SCHEMA, Acks, Kind

Mask: TypeAlias = npt.NDArray[np.bool_]


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


KINDS = tuple(Kind)
_CODE = {str(kind): code for code, kind in enumerate(KINDS)}
_LARGEST = np.iinfo(np.int64).max
_BATCHES = np.array([k in {Kind.OBSERVE, Kind.OK, Kind.APPEND, Kind.ACKED} for k in KINDS] + [False])
_ALWAYS = tuple(field.name for field in SCHEMA if not field.nullable and field.name != "kind")


def _needed() -> dict[str, Mask]:
    table: dict[str, Mask] = {name: np.ones(len(KINDS) + 1, bool) for name in _ALWAYS}
    for kind, names in REQUIRED.items():
        for name in names:
            table.setdefault(name, np.zeros(len(KINDS) + 1, bool))[_CODE[kind]] = True
    return table


_NEEDED = _needed()
"""Per column: the kinds that must carry it, by code; the last place stands for an unknown kind."""

_SETS = list(dict.fromkeys(mask.tobytes() for mask in _NEEDED.values()))
_SET = {name: _SETS.index(mask.tobytes()) for name, mask in _NEEDED.items()}
"""Per column: which of the different sets of kinds must carry it."""
_IN_SETS = np.array([[1 << i if kinds[code] else 0 for i, kinds in enumerate(_SETS)] for code in range(len(KINDS) + 1)])
_IN_SETS = _IN_SETS.sum(axis=1, dtype=np.int32)
"""Per kind: the sets that it is in, as bits."""


def kind_codes(kinds: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """Position in `KINDS` of each event's kind, -1 where it is unknown or null."""
    words = kinds.dictionary.to_pylist()
    table = np.array([_CODE.get(word, -1) for word in words] + [-1], np.int64)
    indices = kinds.indices.fill_null(len(words)) if kinds.null_count else kinds.indices
    codes: npt.NDArray[np.int64] = np.take(table, indices.to_numpy(zero_copy_only=False))
    return codes


@dataclass(frozen=True, slots=True)
class _Rule:
    """One broken rule in a batch: the rows that break it and how to say it."""

    broken: Mask
    flaw: Callable[[int], Flaw]


def flaws(batch: pa.RecordBatch, last_seq: int | None) -> list[Flaw]:
    """What is wrong with the events of a batch, at most one flaw an event, in order of rows.

    ``last_seq`` is the ``seq`` of the event before the batch (None: there is none).
    """
    found: dict[int, Flaw] = {}
    for rule in _rules(batch):
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


def _rules(batch: pa.RecordBatch) -> Iterator[_Rule]:
    names = set(batch.schema.names)
    codes = kind_codes(batch.column("kind")) if "kind" in names else None
    if codes is not None:
        unknown = codes < 0
        if unknown.any():
            yield _Rule(unknown, lambda row: _unknown_kind(row, batch.column("kind")[row].as_py()))
    sets = None if codes is None else _IN_SETS[codes]
    needing: dict[int, pa.BooleanArray] = {}
    for name in _needed_by(codes):
        if name not in names or batch.column(name).null_count == 0:
            continue
        missing = batch.column(name).is_null()
        if sets is not None:
            number = _SET[name]
            if number not in needing:
                needing[number] = pa.array((sets & (1 << number)) != 0)
            missing = pc.and_(missing, needing[number])
        if pc.any(missing).as_py():
            yield _Rule(missing.to_numpy(zero_copy_only=False), _missing(name, batch))
    yield from _ranges(batch, names, codes)


def _needed_by(codes: npt.NDArray[np.int64] | None) -> list[str]:
    """The columns that some event of these kinds must carry; without kinds, those of every event."""
    names = dict.fromkeys(_ALWAYS)
    if codes is not None:
        for code in np.flatnonzero(np.bincount(codes + 1, minlength=1)[1:]):
            names.update(dict.fromkeys(REQUIRED[KINDS[code]]))
    return list(names)


def _unknown_kind(row: int, word: Any) -> Flaw:  # noqa: ANN401
    if word is None:
        return Flaw(row, Reason.MISSING_FIELD, "kind", "an event must say its kind", 'add "kind"')
    problem = f"unknown kind {quote(word)}"
    return Flaw(row, Reason.UNKNOWN_KIND, "kind", problem, "the kinds are " + ", ".join(KINDS))


def _missing(name: str, batch: pa.RecordBatch) -> Callable[[int], Flaw]:
    def flaw(row: int) -> Flaw:
        kind = batch.column("kind")[row].as_py() if "kind" in batch.schema.names else None
        subject = f"{_article(kind)} {kind} event" if kind else "every event"
        return Flaw(row, Reason.MISSING_FIELD, name, f"{subject} must carry it", f"add {quote(name)}")

    return flaw


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


def _ranges(batch: pa.RecordBatch, names: set[str], codes: npt.NDArray[np.int64] | None) -> Iterator[_Rule]:
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
    if not {"offset", "last_offset"} <= names or batch.column("last_offset").null_count == batch.num_rows:
        return
    # Whole batches of ordinary events are told at once.
    width = pc.subtract(batch.column("last_offset"), batch.column("offset"))
    if _within(batch.column("offset"), 0, _LARGEST) and _within(width, 0, MAX_BATCH_OFFSETS - 1):
        return
    given = ~(batch.column("last_offset").is_null().to_numpy(zero_copy_only=False))
    given &= ~(batch.column("offset").is_null().to_numpy(zero_copy_only=False))
    first = batch.column("offset").fill_null(0).to_numpy(zero_copy_only=False)
    last = batch.column("last_offset").fill_null(0).to_numpy(zero_copy_only=False)
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


def _within(column: pa.Array, low: int, high: int) -> bool:
    """Whether no value is outside these limits, themselves included; nulls are no values."""
    ends = pc.min_max(column).as_py()
    return ends["min"] is None or (low <= ends["min"] and ends["max"] <= high)


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
