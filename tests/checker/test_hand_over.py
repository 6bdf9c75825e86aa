"""Columns as the checks read them: what an event has, and what stands for nothing where it has none."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from tests import junk

from loghistory import HistoryError
from loghistory.columns import WORDS
from loghistory.schema import SCHEMA, Kind
from logwitness.checks import codes
from logwitness.checks.columns import Columns, Reader
from logwitness.checks.kernel import available
from logwitness.checks.words import Words

Row = dict[str, Any]
_OF = {"records": "count", "nullable_count": "count"}
_CODES = {"kind": {str(kind): code for code, kind in enumerate(codes.KINDS)}, "reason": codes.REASONS}
_CODES |= {"role": codes.ROLES, "record": codes.RECORDS}
_NULLS = {"bytes": 0, "records": 0, "acks": codes.NO_ACKS, **dict.fromkeys((*_CODES, "f"), codes.OTHER)}
_FORMS = [False, pytest.param(True, marks=pytest.mark.skipif(not available(), reason="numba is not installed"))]


def batch_of(rows: list[Row], before: int, *, coded: bool) -> pa.RecordBatch:
    """A batch that begins ``before`` places behind the buffers of its columns; texts dictionary encoded, or not."""
    arrays, draw = [], random.Random(before)
    for name in SCHEMA.names:
        values = [row.get(name) for row in ([{"text": "of nobody"}] * before + rows)]
        kind = SCHEMA.field(name).type
        if name in WORDS or (name == "text" and coded):
            arrays.append(junk.words(values, draw))
        else:
            arrays.append(junk.integers(values, kind, draw) if pa.types.is_integer(kind) else pa.array(values, kind))
    return pa.RecordBatch.from_arrays(arrays, names=SCHEMA.names).slice(before)


def event(draw: random.Random, seq: int) -> Row:
    """One with some of all columns."""
    row: Row = {"seq": seq, "time": seq, "kind": str(draw.choice([*Kind]))}
    for name in SCHEMA.names:
        if name not in row and draw.random() < 0.5:
            words = [*_CODES.get(name, ()), "read", "append", "unheard of"]
            is_text = name in WORDS or name == "text"
            row[name] = draw.choice(words) if is_text else draw.choice((-1, 0, 1, 127, draw.randrange(100)))
    if "last_offset" in row and "offset" not in row:
        del row["last_offset"]
    return row


def plain(row: Row, name: str, words: Words) -> int:
    """What a column holds of an event; ``value`` apart."""
    found = row.get(_OF.get(name, name))
    if name == "last_offset" and found is None:
        return plain(row, "offset", words)
    if found is None and name in _NULLS:
        return _NULLS[name]
    if found is None:
        return codes.NO_NODE if SCHEMA.field(_OF.get(name, name)).type == pa.int32() else codes.NULL
    if name == "f":
        return words.code(found)
    return _CODES[name].get(found, codes.OTHER) if name in _CODES else int(found)


@pytest.mark.parametrize("compiled", _FORMS)
def test_a_column_has_what_the_events_have(compiled: bool) -> None:
    """Of batches of several sizes and offsets, the last of which is larger than those before; of all columns or few."""
    draw = random.Random(1)
    words = Words()
    for wanted in ({_OF.get(name, name) for name in Columns._fields}, {"offset", "last_offset", "value"}):
        reader = Reader("memory", wanted, words, compiled=compiled)
        for size, before in ((1, 0), (7, 3), (8, 8), (9, 0), (64, 5), (65, 64), (1025, 1)):
            rows = [event(draw, seq) for seq in range(size)]
            found = reader.columns(batch_of(rows, before, coded=size > 8))
            held = {*wanted, "seq", "kind"}
            for name in set(Columns._fields) - {"value"}:
                expected = [plain(row if _OF.get(name, name) in held else {}, name, words) for row in rows]
                assert getattr(found, name).tolist() == expected, name
                assert not getattr(found, name).flags.writeable
            for row, value in zip(rows, found.value.tolist(), strict=True):
                if "value" in row:
                    assert value == row["value"]
                elif "text" in row:
                    assert value < -codes.MAX_OFFSET
                    assert words.text(value) == row["text"]
                else:
                    assert value == codes.NULL


@pytest.mark.parametrize("compiled", _FORMS)
@pytest.mark.parametrize("place", [0, 7, 63, 64])
@pytest.mark.parametrize(
    ("name", "most", "beyond", "what"),
    [
        *(
            (name, codes.MAX_OFFSET - 1, codes.MAX_OFFSET, "large")
            for name in ("offset", "dirty", "flushed", "visible")
        ),
        *((name, codes.MAX_OFFSET - 1, codes.MAX_OFFSET, "large") for name in ("last_offset", "commit")),
        ("value", -codes.MAX_OFFSET, -codes.MAX_OFFSET - 1, "small"),
    ],
)
def test_a_number_that_no_check_can_reckon_with(
    name: str, most: int, beyond: int, what: str, place: int, compiled: bool
) -> None:
    """Wherever it is in a batch, it is refused by its event; the last one that can be judged is not."""
    reader = Reader("memory", {name, "offset"}, Words(), compiled=compiled)
    rows: list[Row] = [{"seq": 2 * seq, "kind": "append", name: 1 if seq % 2 else None} for seq in range(65)]
    rows[place] |= {name: most, "offset": most} if name == "last_offset" else {name: most}
    assert getattr(reader.columns(batch_of(rows, 3, coded=True)), name)[place] == most
    rows[place][name] = beyond
    with pytest.raises(HistoryError, match=rf"^memory, seq {2 * place}, field {name}: {beyond} is too {what} to judge"):
        reader.columns(batch_of(rows, 3, coded=True))


def test_texts_of_a_dictionary_that_begins_anew_are_numbered_anew() -> None:
    """Row groups of a file have dictionaries of their own, and a later part of one has more texts."""
    words = Words()
    reader = Reader("memory", {"value"}, words)
    for texts in (["a", "b"], ["a", "b", "c"], ["b", "a"], ["c"], ["c", "c", "a"], [None, "d"], ["d", None, "b"]):
        rows: list[Row] = [{"seq": seq, "kind": "append", "text": text} for seq, text in enumerate(texts)]
        found = reader.columns(batch_of(rows, 0, coded=True)).value.tolist()
        assert [words.text(value) for value in found] == texts


@pytest.mark.parametrize("compiled", _FORMS)
def test_texts_that_begin_alike_have_numbers_of_their_own(compiled: bool) -> None:
    """So many that places of a table are shared; those that others begin with come later, and all come again."""
    words = Words()
    if compiled:
        words.keep_bytes()
    texts = [*("a" * size for size in range(1000, -1, -1)), *map(str, range(5000))]
    found = words.text_codes(pa.array(texts))
    assert len({*found.tolist()}) == len(texts)
    assert [words.text(value) for value in found.tolist()] == texts
    assert words.text_codes(pa.array(texts[::-1])).tolist() == found.tolist()[::-1]
