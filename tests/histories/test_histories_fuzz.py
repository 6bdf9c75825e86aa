"""Whatever bytes a reader gets, it gives valid events or one `HistoryError` of one line."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loghistory import SCHEMA, Format, HistoryError, Kind, MemorySink, Recorder, RunSource, open_run
from loghistory.run import write_file
from loghistory.validity import flaws

pytestmark = pytest.mark.slow

HEADER = b'{"kind":"history","version":2}\n'


@functools.cache
def good_file(form: Format) -> bytes:
    sink = MemorySink()
    with Recorder(sink) as record:
        for n in range(20):
            text = f'["é\\"",{n}]' if n % 3 == 0 else None
            record.event(Kind.INVOKE, time=n, process=n % 3, op=n, f="append", value=n, acks=-1, text=text)
            record.event(
                Kind.APPEND,
                time=n,
                node=1,
                term=1,
                dirty=n,
                flushed=n - 1,
                commit=max(-1, n - 2),
                offset=n,
                entry_term=1,
                log="a",
            )
            record.event(Kind.OK, time=n, process=n % 3, op=n, f="append", offset=n, term=1)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, f"good{form.suffix}")
        write_file(path, sink.table)
        return path.read_bytes()


@st.composite
def mutated(draw: st.DrawFn, form: Format) -> bytes:
    data = bytearray(good_file(form))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "flip", "delete", "insert", "repeat", "number"])):
            case "cut":
                del data[place:]
            case "flip" if place < len(data):
                data[place] ^= 1 << draw(st.integers(0, 7))
            case "delete":
                del data[place : place + draw(st.integers(1, 50))]
            case "insert":
                data[place:place] = draw(st.binary(max_size=8))
            case "repeat":
                data[place:place] = data[place : place + draw(st.integers(1, 300))]
            case "number":
                data[place : place + 1] = draw(
                    st.sampled_from([b"-", b"9" * 30, b"1e9", b"null", b"\\u0000", b"\n", b'"'])
                )
    return bytes(data)


def check_all(run: RunSource, columns: list[str] | None, kinds: list[Kind] | None) -> None:
    last = None
    for batch in run.batches(columns, kinds):
        batch.validate(full=True)
        assert flaws(batch, last) == []
        if columns is None:
            assert batch.schema == SCHEMA
            last = batch.column("seq")[-1].as_py()


def judge(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "events")
        path.write_bytes(data)
        for lenient in (False, True):
            for columns, kinds in ((None, None), (["time", "offset"], [Kind.APPEND])):
                try:
                    check_all(open_run(path, lenient=lenient), columns, kinds)
                except HistoryError as error:
                    said = str(error)
                    if not said.isprintable():
                        pytest.fail(f"more than one line: {said!r}")
        assert {p.name for p in Path(place).iterdir()} == {"events"}


@pytest.mark.parametrize("form", list(Format))
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_changed_file(form: Format, data: st.DataObject) -> None:
    judge(data.draw(mutated(form)))


@settings(max_examples=100, deadline=None)
@given(data=st.one_of(st.binary(), st.binary().map(lambda b: HEADER + b), st.text().map(lambda t: HEADER + t.encode())))
@example(b"PAR1PAR1")
@example(b"\x28\xb5\x2f\xfd")
def test_any_bytes(data: bytes) -> None:
    judge(data)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.just("stop"),
    st.sampled_from([-1, 0, 1, 2**63, -(2**63) - 1]),
)


@settings(max_examples=120, deadline=None)
@given(
    events=st.lists(
        st.dictionaries(st.one_of(st.sampled_from(SCHEMA.names), st.text(max_size=4)), _VALUES, max_size=9), max_size=4
    )
)
def test_any_objects(events: list[dict[str, object]]) -> None:
    """Lines that are JSON as Python writes it, NaN and infinities included, and columns with values of all sorts."""
    lines = [json.dumps({"seq": n, "time": n, "kind": "stop", "node": 1} | event) for n, event in enumerate(events)]
    judge(HEADER + "\n".join(lines).encode())


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "damaged").iterdir()), ids=lambda path: path.stem)
def test_files_that_ended_the_process(path: Path) -> None:
    judge(path.read_bytes())
