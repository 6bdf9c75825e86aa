"""Texts have numbers: by a dictionary, or by a compiled loop that keeps their bytes; both ways say the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from logwitness.checks.codes import NULL, OTHER
from logwitness.checks.columns import Reader
from logwitness.checks.kernel import available
from logwitness.checks.strings import ROOM, no_strings, number_of, with_room
from logwitness.checks.words import Words

pytestmark = pytest.mark.skipif(not available(), reason="loops are compiled by numba")

ALIKE = [
    "",
    "a",
    "b",
    "aa",
    "ab",
    "ba",
    "aaaa",
    "aaab",
    "aaaaa",
    "aaaab",
    "\0",
    "\0\0",
    "a\0",
    "é",
    "e\u0301",
    "日本",
    "日木",
    "😀",
]
"""Texts that differ little: none at all, in the last byte, in a byte that is zero, in how a letter is written."""


def both() -> tuple[Words, Words]:
    plain, of_bytes = Words(), Words()
    of_bytes.keep_bytes()
    return plain, of_bytes


def made(rng: random.Random, count: int) -> list[str]:
    """Texts, some of them equal, from empty ones to long ones."""
    letters = 'ab0é日😀"\\\n '
    return [
        rng.choice(ALIKE) if rng.random() < 0.2 else "".join(rng.choices(letters, k=rng.randrange(40)))
        for _ in range(count)
    ]


def as_sliced(texts: Sequence[str]) -> pa.StringArray:
    """The same as a part of a longer array, which begins elsewhere."""
    return pa.array(["before", "", *texts, "behind"], pa.string())[2:-1]


@pytest.mark.parametrize("form", [lambda texts: pa.array(texts, pa.string()), as_sliced], ids=["whole", "sliced"])
def test_texts_are_numbered_in_order_of_appearance(form: Callable[[Sequence[str]], pa.StringArray]) -> None:
    """Batch by batch, from a few to many more than there was room for; what was numbered before keeps its number."""
    rng = random.Random(1)
    plain, of_bytes = both()
    asked: list[str] = []
    for size in (0, 1, 3, 250, 1, 255, 257, 1000, 0, 5000):
        texts = made(rng, size) + rng.sample(asked, min(len(asked), size))
        asked += texts
        codes = of_bytes.text_codes(form(texts))
        assert codes.tolist() == plain.text_codes(form(texts)).tolist()
        assert of_bytes.texts == plain.texts == len(set(asked))
        assert [of_bytes.text(code) for code in codes.tolist()] == texts
        assert of_bytes.texts_of(codes) == plain.texts_of(codes) == texts
    first = plain.text_codes(pa.array(asked, pa.string()))
    assert of_bytes.text_codes(pa.array(asked, pa.string())).tolist() == first.tolist()
    order = {text: number for number, text in enumerate(dict.fromkeys(asked))}
    assert (first - (NULL + 1)).tolist() == [order[text] for text in asked]


@pytest.mark.parametrize("size", [254, 255, 256, 257, 511, 512, 513])
def test_room_is_made_in_time(size: int) -> None:
    """As many texts at once as there are places, and one fewer and one more; then the longest that just fits."""
    _, words = both()
    texts = [f"{number:x}" for number in range(size)]
    codes = words.text_codes(pa.array(texts, pa.string()))
    taken = sum(map(len, texts))
    for more in (4096 - ROOM - taken - 1, 1, 1):
        words.text_codes(pa.array(["x" * max(more, 1) + str(size)], pa.string()))
    assert words.texts_of(codes) == texts


def test_one_text_after_the_other_finds_room() -> None:
    strings, numbers = no_strings(), []
    for number in range(700):
        text = np.frombuffer(b"%d" % number, np.uint8)
        strings = with_room(strings, 1, len(text))
        numbers.append(number_of(strings, text, 0, len(text), True))
        assert len(strings.pool) >= strings.used[1] + ROOM
        assert not strings.pool[strings.used[1] :].any()
        assert (strings.table < 0).sum() >= len(strings.table) / 2
    assert numbers == [*range(700)]
    unknown = np.frombuffer(b"700", np.uint8)
    assert number_of(strings, unknown, 0, 3, False) == -1
    assert number_of(strings, unknown, 0, 2, False) == 70
    assert number_of(strings, unknown, 0, 0, False) == -1


def test_what_is_no_text_has_none() -> None:
    for words in both():
        assert words.text(NULL + 1) is None
        codes = words.text_codes(pa.array(["é", ""], pa.string()))
        others = np.array([NULL, codes[1] + 1, 0, 7, -(1 << 61)])
        assert [words.text(int(code)) for code in others] == [None] * 5
        assert words.texts_of(np.array([*others, *codes])) == [None] * 5 + ["é", ""]
        pool, starts, ends = words.encoded(np.array([1, 0, 0]))
        read = [bytes(pool[start:end]).decode() for start, end in zip(starts, ends, strict=True)]
        assert read == ["", "é", "é"]
        assert len(pool) >= ends.max() + ROOM


def test_many_long_texts_are_decoded_again() -> None:
    """More than are kept decoded."""
    _, words = both()
    texts = [f"{number}{'ä' * (number % 7)}" for number in range(9000)] + ["ö" * 5000]
    codes = words.text_codes(pa.array(texts, pa.string())).tolist()
    for _ in range(2):
        assert [words.text(code) for code in codes] == texts


def test_texts_of_batches_have_one_number_each() -> None:
    """Dictionaries that go on where the last one ended, begin anew, repeat a text, hold null, or are none."""
    one = pa.array(["a", "", "é"], pa.string())
    longer = pa.array(["a", "", "é", "b"], pa.string())
    shorter = pa.array(["a", ""], pa.string())
    other = pa.array(["b", "é", "a"], pa.string())
    twice = pa.array(["a", "b", "a", ""], pa.string())
    with_null = pa.array(["a", None, "b"], pa.string())
    indices = (
        [0, None, 2, 1, 0],
        [3, 3, 0, None, 1],
        [1, 0, None, 0, 1],
        [0, 1, 2, 1, 0],
        [2, 0, 1, 3, None],
        [0, 1, 2, None, 0],
    )
    batches = [
        pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), dictionary)
        for places, dictionary in zip(indices, (one, longer, shorter, other, twice, with_null), strict=True)
    ]
    nothing = pa.array([None] * 5, pa.string())
    for compiled in (False, True):
        words = Words()
        reader = Reader("run", {"value"}, words, compiled=compiled)
        for texts in (
            *batches,
            *(each.slice(1, 3) for each in batches),
            *(each.cast(pa.string()) for each in batches),
            nothing,
        ):
            count = len(texts)
            value = pa.array([None, 5, None, None, None][:count], pa.int64())
            columns = {
                "seq": pa.array(range(count)),
                "kind": pa.array(["invoke"] * count).dictionary_encode(),
                "value": value,
                "text": texts,
            }
            read = reader.columns(pa.RecordBatch.from_pydict(columns)).value.tolist()
            said = [
                text if given is None else None
                for text, given in zip(texts.to_pylist(), value.to_pylist(), strict=True)
            ]
            assert [*map(words.text, read)] == said
            assert read[1] == 5
            assert all(code == NULL for code, text in zip(read[2:], said[2:], strict=True) if text is None)
        assert words.texts == 4


def test_every_word_has_a_code_of_its_own_until_there_are_too_many() -> None:
    words = Words()
    first = [words.code(f"word-{number}") for number in range(100)]
    assert len({*first}) == 100
    assert [words.code(f"word-{number}") for number in range(100)] == first
    assert [words.name(code) for code in first] == [f"word-{number}" for number in range(100)]
    many = [words.code(f"more-{number}") for number in range(1 << 14)]
    assert many[-1] == OTHER
    assert {*many} & {*first} == set()
    assert max(many) < 1 << 14
    assert words.code("more-0") == many[0]
