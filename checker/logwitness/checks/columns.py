"""Record batches as plain arrays: nulls and dictionary codes are dealt with once per batch, not once per event."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loghistory.arrays import coded, filled, slots, valid
from loghistory.errors import HistoryError
from loghistory.schema import COLUMNS, SCHEMA

from . import codes
from .kernel import kernel
from .words import Words

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

# Named tuples have a method ``count``.
_SOURCE = {"records": "count", "nullable_count": "count"}

_WORDS: dict[str, Mapping[str, int]] = {
    "kind": {str(kind): code for code, kind in enumerate(codes.KINDS)},
    "reason": codes.REASONS,
    "role": codes.ROLES,
    "record": codes.RECORDS,
}


class Columns(NamedTuple):
    """The columns of some events of one log, without nulls, all of the same length.

    Null is `codes.NULL` (64-bit columns), -1 (32-bit ones, as `codes.NO_NODE`), `codes.NO_ACKS` or 0 (``bytes``,
    ``records``);
    ``kind``, ``f``, ``reason``, ``role`` and ``record`` hold the numbers of `codes`; ``last_offset`` is never null
    where ``offset`` is not. A column that nobody asked for is all null.
    """

    # written by tests/histories/derived.py
    seq: Array
    time: Array
    logical: Array
    kind: Array
    node: Array
    incarnation: Array
    process: Array
    op: Array
    txn: Array
    f: Array
    acks: Array
    term: Array
    role: Array
    offset: Array
    last_offset: Array
    entry_term: Array
    value: Array
    dirty: Array
    flushed: Array
    commit: Array
    visible: Array
    peer: Array
    message: Array
    records: Array  # column ``count``
    nullable_count: Array  # column ``count``, with nulls
    bytes: Array
    reason: Array
    reserved: Array
    partition: Array
    stamp: Array
    epoch: Array
    version: Array
    filter: Array
    shards: Array
    record: Array
    wave: Array
    recovery: Array
    key: Array
    session: Array
    # end

    def where(self, mask: Array) -> Columns:
        """The events that ``mask`` selects, by truth or by position."""
        places = positions(mask)
        return Columns(*(read_only(column.take(places)) for column in self))

    def between(self, start: int, end: int) -> Columns:
        """The events from one position up to another, which is left out; nothing is copied."""
        return Columns(*(column[start:end] for column in self))

    def merged(self, other: Columns) -> Columns:
        """These events and others, by ``seq``."""
        if not len(other.seq):
            return self
        both = joined([self, other])
        return both.where(np.argsort(both.seq, kind="stable"))

    def rows(self, which: Array, *names: str) -> Iterator[tuple[int, ...]]:
        """These columns of the events that ``which`` selects, by truth or by position: a tuple for each event."""
        places = positions(which)
        return zip(*(getattr(self, name).take(places).tolist() for name in names), strict=True)

    def lists(self) -> Columns:
        """The same as lists: a loop that runs as Python reads them several times faster."""
        return Columns(*(column.tolist() for column in self))


def positions(which: Array) -> Array:
    """Where a mask is true, several times faster to select by; positions are what they are."""
    return np.flatnonzero(which) if which.dtype == np.bool_ else which


def joined(parts: Sequence[Columns]) -> Columns:
    """The events of several pieces, at least one, behind one another."""
    if len(parts) == 1:
        return parts[0]
    return Columns(*(read_only(np.concatenate(columns)) for columns in zip(*parts, strict=True)))


_DECLARED = {name: COLUMNS[SCHEMA.get_field_index(_SOURCE.get(name, name))] for name in Columns._fields}
"""What the vocabularies say of each column."""

_OFFSETS = tuple(name for name, column in _DECLARED.items() if column.unit == "offset")
_AMOUNTS = frozenset({"bytes", "records"})
_CODED = frozenset(name for name, column in _DECLARED.items() if pa.types.is_dictionary(column.type))


def _dtype(name: str) -> np.dtype[Any]:
    """How a column is held: as declared, words as their codes; of column ``f`` there may be thousands."""
    if name in _CODED:
        return np.dtype(np.int16 if name == "f" else np.int8)
    held: np.dtype[Any] = np.dtype(_DECLARED[name].type.to_pandas_dtype())
    return held


def _null(name: str) -> int:
    """What stands for null in a column: nothing that it could hold."""
    if name in _CODED:
        return codes.OTHER
    if name in _AMOUNTS:
        return 0
    return {1: codes.NO_ACKS, 4: codes.NO_NODE, 8: codes.NULL}[_dtype(name).itemsize]


_DTYPES = {name: _dtype(name) for name in Columns._fields}
_NULLS = {name: _null(name) for name in Columns._fields}
_KINDS = {name: (_NULLS[name], _DTYPES[name]) for name in Columns._fields}


def held_for(wanted: Iterable[str]) -> frozenset[str]:
    """The columns that hold something for whoever reads these columns of the schema; others are all null."""
    names = {*wanted, "seq", "kind"}
    if "count" in names:
        names |= {"records", "nullable_count"}
    if "last_offset" in names:
        names |= {"offset"}
    return frozenset(names)


def with_blanks(held: Mapping[str, Array]) -> Columns:
    """Columns of which these are held, and the others are all null, one array for all of a kind."""
    rows = len(held["seq"])
    blank = {kind: read_only(np.full(rows, kind[0], dtype=kind[1])) for kind in {*_KINDS.values()}}
    return Columns(*(held[name] if name in held else blank[_KINDS[name]] for name in Columns._fields))


class Reader:
    """Turns record batches of the schema into `Columns`; ``words`` remembers texts: equal ones are equal values.

    The column ``text`` may be dictionary encoded.
    """

    def __init__(self, name: str, wanted: Collection[str], words: Words, *, compiled: bool = False) -> None:
        self._name = name
        self._wanted = held_for(wanted)
        self._words = words
        self._blank: dict[tuple[int, np.dtype[Any]], Array] = {}
        self._texts: pa.StringArray = pa.array([], pa.string())
        self._text_codes = np.zeros(0, np.int64)
        """Of the dictionary of the last batch."""
        self._compiled = compiled
        if compiled:
            words.keep_bytes()

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the schema that a batch must have for what is wanted."""
        texts = {"text"} if "value" in self._wanted else set()
        return frozenset({_SOURCE.get(name, name) for name in self._wanted} | texts | {"log"})

    def columns(self, batch: pa.RecordBatch) -> Columns:
        """The columns of a batch; `HistoryError` if an offset is too large to judge, or a value too small."""
        found = {name: self._column(batch, name) for name in Columns._fields}
        if "last_offset" in self._wanted:
            last = batch.column("last_offset")
            ends = last.null_count < len(last)
            found["last_offset"] = np.where(valid(last), slots(last), found["offset"]) if ends else found["offset"]
        if "value" in self._wanted:
            if np.count_nonzero(found["value"] < -codes.MAX_OFFSET) > batch.column("value").null_count:
                least = pc.min(batch.column("value")).as_py()
                place = int(pc.index(batch.column("value"), least).as_py())
                remedy = f"values are not below {-codes.MAX_OFFSET}"
                raise self._beyond(found, place, "value", f"{least} is too small", remedy)
            found["value"] = self._with_texts(batch, found["value"])
        for name in _OFFSETS:
            if name in self._wanted and len(found[name]) and int(found[name].max()) >= codes.MAX_OFFSET:
                place = int(found[name].argmax())
                problem = f"{int(found[name][place])} is too large"
                raise self._beyond(found, place, name, problem, f"offsets are below {codes.MAX_OFFSET}")
        return Columns(**{field: read_only(values) for field, values in found.items()})

    def _beyond(self, found: dict[str, Array], place: int, name: str, problem: str, remedy: str) -> HistoryError:
        """A number that no check can reckon with."""
        return HistoryError(self._name, int(found["seq"][place]), name, f"{problem} to judge", remedy, place="seq")

    def _column(self, batch: pa.RecordBatch, name: str) -> Array:
        dtype = _DTYPES[name]
        if name not in self._wanted or name == "last_offset":
            return self._blanks(name, batch.num_rows)
        column = batch.column(_SOURCE.get(name, name))
        if column.null_count == len(column):
            return self._blanks(name, batch.num_rows)
        if name == "f":
            return coded(column, self._words.code, codes.OTHER, dtype)
        if name in _WORDS:
            known = _WORDS[name]
            return coded(column, lambda word: known.get(word, codes.OTHER), codes.OTHER, dtype)
        if not self._compiled or not column.null_count:
            return filled(column, _NULLS[name], dtype)
        found = np.empty(len(column), dtype)
        _fill.compiled(slots(column), valid(column), _NULLS[name], found)
        return found

    def _blanks(self, name: str, rows: int) -> Array:
        """A column of nulls, the same for all of a kind: most columns are such, and reading each would fill caches."""
        kind = _KINDS[name]
        blank = self._blank.get(kind)
        if blank is None or len(blank) < rows:
            self._blank[kind] = blank = np.full(max(rows, 1024), kind[0], dtype=kind[1])
        return blank[:rows]

    def _with_texts(self, batch: pa.RecordBatch, value: Array) -> Array:
        texts = batch.column("text")
        if texts.null_count == len(texts):
            return value
        if not pa.types.is_dictionary(texts.type) or texts.dictionary.null_count:
            texts = texts.cast(pa.string()).dictionary_encode()
        # Below all 64-bit values that stand for themselves in practice, above NULL.
        of_texts = self._codes_of(texts.dictionary.cast(pa.string())).take(slots(texts.indices), mode="clip")
        return np.where(valid(texts) & (value == codes.NULL), of_texts, value)

    def _codes_of(self, texts: pa.StringArray) -> Ints:
        """What stands for the texts of a dictionary: mostly it is that of the batch before, or begins like it."""
        known = len(self._texts)
        if not known or not texts[:known].equals(self._texts):
            known = 0
        if known < len(texts):
            self._text_codes = np.concatenate((self._text_codes[:known], self._words.text_codes(texts[known:])))
            self._texts = texts
        return self._text_codes


@kernel
def _fill(values: Array, given: Array, null: int, found: Array) -> None:
    """Put another number in place of those that are not given."""
    for i in range(len(found)):
        found[i] = values[i] if given[i] else null


def by_number(numbers: Array) -> Ints:
    """The places of some numbers in their order, of equal ones in that of the places."""
    if len(numbers) and numbers.min() >= -1 and numbers.max() < 1 << 15:
        numbers = numbers.astype(np.int16)  # sorted several times faster
    return np.argsort(numbers, kind="stable")


def groups(numbers: Ints, which: Ints) -> Iterator[tuple[int, Ints]]:
    """Each of some numbers with the places that have it, of those in ``which``, in their order."""
    order = by_number(numbers)
    for own in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else ():
        yield int(numbers[own[0]]), which[own]


def read_only(values: Array) -> Array:
    """The same, not to be written to: numba compiles a loop anew for every mixture of both flavours."""
    view = values.view()
    view.flags.writeable = False
    return view
