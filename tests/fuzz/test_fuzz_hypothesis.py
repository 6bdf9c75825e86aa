"""Every reader with what Hypothesis makes of the recorded files: cut, repeated, spliced, with foreign words put in."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from targets import TARGETS

_WORDS = [
    b"9" * 30,
    b"-1",
    b"null",
    b"nil",
    b"[",
    b"{",
    b"}",
    b'"',
    b"\\",
    b"\n",
    b"\x00",
    b"\xff",
    b"1e999",
    b"#_",
    b"^",
]
_WORDS += [b":process", b":invoke", b":ok", b":txn", b"[:poll]", b"\xef\xbb\xbf", b"\r", b"\xed\xa0\x80", b"," * 40]


@functools.cache
def _seeds(name: str) -> list[bytes]:
    return list(TARGETS[name].seeds())


@st.composite
def changed(draw: st.DrawFn, name: str) -> bytes:
    data = bytearray(draw(st.sampled_from(_seeds(name))))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "delete", "word", "repeat", "flip", "splice"])):
            case "cut":
                del data[place:]
            case "delete":
                del data[place : place + draw(st.integers(1, 80))]
            case "word":
                data[place:place] = draw(st.sampled_from(_WORDS))
            case "repeat":
                data[place:place] = data[place : place + draw(st.integers(1, 300))]
            case "flip" if place < len(data):
                data[place] ^= 1 << draw(st.integers(0, 7))
            case "splice":
                other = draw(st.sampled_from(_seeds(name)))
                data[place:] = other[draw(st.integers(0, len(other))) :]
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_reader_answers_or_refuses(name: str, data: st.DataObject) -> None:
    TARGETS[name].run(data.draw(changed(name)))
