"""Files that mean harm: one line that says where and what to do, in bounded time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loghistory import HistoryError, open_run
from loghistory.importers import ForeignFormat, foreign_format, read
from loghistory.importers.edn import EdnError, flat_map, forms
from loghistory.quarantine import Lenient, Strict
from logwitness.models import check_model, model_of

OP = b"{:process 0, :type :invoke, :f :write, :value 1}\n"
OK = b"{:process 0, :type :ok, :f :write, :value 1}\n"

HOSTILE: dict[str, tuple[bytes, str]] = {
    "deep": (OP + b"{:type " + b"[" * 3_000_000, "line 2: the forms nest deeper than 64"),
    "deep maps": (OP + b"{:a " * 1_000_000, "line 2: the forms nest deeper than 64"),
    "a huge integer": (b"{:process 0 :type :invoke :f :write :value " + b"9" * 900_000 + b"}", "64 bits"),
    "an endless string": (OP + b'{:type "' + b"x" * 9_000_000, "a form is longer than 1048576 bytes"),
    "an endless vector": (OP + b"{:value [" + b"1 " * 4_000_000, "a form is longer than 1048576 bytes"),
    "quotation marks": (OP + b'"' * 3_000_001, "a form is longer than 1048576 bytes"),
    "backslashes": (OP + b"\\" * 3_000_001, "a form is longer than 1048576 bytes"),
    "backslashes in a string": (OP + b'{:type "' + b"\\" * 900_001, "ends inside a form"),
    "no UTF-8": (OP + OK + b'{:process 1 :type :invoke :f :read :value "\xff"}', "line 3: the text is not valid UTF-8"),
    "half a character at the end": (OP + OK + b";\xc3", "line 3: the text is not valid UTF-8"),
    "torn": (OP + OK + b"{:process 1, :type :inv", "line 3: the file ends inside a form"),
    "an open vector": (b"[" + OP + OK, "the file ends inside a form"),
    "brackets that do not match": (OP + OK + b"{:a [}]", "closes nothing"),
    "words between operations": (OP + b"hello\n" + OK, 'line 2: "hello" where an operation should begin'),
    "a vector of vectors": (b"[" + OP + b"[1 2]]", "instead of a map"),
    "completed by nobody": (OP + OK + OK, "line 3, field process: process 0 completes an operation"),
    "invoked twice": (OP + OP, "line 2, field process: process 0 still has an open operation"),
    "completed as something else": (OP + OK.replace(b":write", b":read"), 'field f: process 0 completes "read"'),
    "no type": (OP + b"{:process 1 :f :read}", "line 2, field type: nothing is no type"),
    "a type that is a map": (OP + b"{:process 1 :type {} :f :read}", "line 2, field type"),
    "a process that is a vector": (OP + b"{:process [1] :type :ok :f :read}", "line 2, field process"),
    "a time that is text": (OP + b'{:process 1 :type :invoke :f :read :time "x"}', "line 2, field time"),
    "a negative offset": (
        b"{:process 0 :type :invoke :f :send :value [[:send 1 1]]}\n"
        b"{:process 0 :type :ok :f :send :value [[:send 1 [-2 1]]]}",
        "line 2, field value: -2 is no offset",
    ),
    "an answer to another question": (
        b"{:process 0 :type :invoke :f :send :value [[:send 1 1]]}\n"
        b"{:process 0 :type :ok :f :send :value [[:send 1 [0 2]]]}",
        "line 2, field value",
    ),
    "an answer about a log with a control character": (
        b"{:process 0 :type :invoke :f :send :value [[:send \x1b1 1]]}\n"
        b"{:process 0 :type :ok :f :send :value [[:send 1 [0 1]]]}",
        "does not answer the send of 1 to '\\x1b1",
    ),
    "a poll of text": (
        b"{:process 0 :type :invoke :f :poll :value [[:poll]]}\n"
        b'{:process 0 :type :ok :f :poll :value [[:poll {1 "abc"}]]}',
        "line 2, field value",
    ),
    "deep JSON": (b'{"process":0,"type":"invoke","f":"w","value":' + b"[" * 900_000, "nest deeper than 64"),
    "a huge integer in JSON": (b'{"process":0,"type":"invoke","f":"w","value":' + b"9" * 999 + b"}", "64 bits"),
    "JSON that is none": (b'{"process":0,"type":"invoke","f":"w","value":nil}', "not valid JSON"),
    "a log without an end of line": (b"0 :invoke :read nil" + b" " * 3_000_000, "longer than"),
    "a log with half a form": (b"0 :invoke :write [1", "line 1, field value"),
    "a log with a huge integer": (b"0 :invoke :write " + b"9" * 1000, "line 1, field value"),
    "an empty vector": (b"[]", "no operation in it"),
    "a number beyond 64 bits": (OP.replace(b"1}", b"1e400}"), "a number does not fit in 64 bits"),
    "a decimal that is cut": (OP.replace(b"1}", b"1.00000000000000001M}"), "a number does not fit in 64 bits"),
    "two keys that are one": (OP.replace(b"1}", b'{:a 2 "a" 3}}'), "not valid EDN, a key of a map is repeated"),
    "out of order": (
        b"".join(each.replace(b"}", b" :index %d}" % place) for place, each in enumerate((OP, OK), 3))
        + OP.replace(b"}", b" :index 2}"),
        "line 3, field index: 2 comes after 4: put the operations in the order of their index",
    ),
    "two histories": (
        b"".join(each.replace(b"}", b" :index %d}" % place) for place, each in enumerate((OP, OK))) * 2,
        "line 3, field index: 0 comes after 1",
    ),
    "out of order in turns": (
        b"".join(
            b"{:index %d %b:process 0 :type :%b :f :write :value 1}\n" % each
            for each in [(0, b"", b"invoke"), (5, b":node 1 ", b"ok"), (4, b"", b"invoke"), (6, b":node 1 ", b"ok")]
        ),
        "line 3, field index: 4 comes after 5",
    ),
    "out of order in JSON": (
        b'[{"index":1,"process":0,"type":"invoke","f":"write","value":1},\n'
        b'{"index":0,"process":0,"type":"ok","f":"write","value":1}]',
        "line 2, field index: 0 comes after 1",
    ),
    "values that may be keys": (
        b"{:process 0 :type :invoke :f :append :value [1 2]}\n{:process 0 :type :ok :f :append :value [1 2]}\n"
        b"{:process 0 :type :invoke :f :read :value nil}\n{:process 0 :type :ok :f :read :value []}",
        'line 3, field value: "read" names no key, while others name one',
    ),
    "a key among values": (
        OP + OK + b"{:process 0 :type :invoke :f :read :key 1 :value nil}",
        'line 3, field value: "read" names key "1", while others name none',
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_one_line(tmp_path: Path, name: str) -> None:
    data, expected = HOSTILE[name]
    path = tmp_path / "history"
    path.write_bytes(data)
    began = time.monotonic()
    with pytest.raises(HistoryError) as caught:
        for _ in open_run(path).batches():
            pass
    message = str(caught.value)
    assert message.startswith(str(path))
    assert expected in message
    assert "\n" not in message
    assert len(message) < 400
    assert time.monotonic() - began < 15


def test_a_reading_goes_on_behind_bad_operations(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_bytes(OP + b"{:a [}]\n" + b"{:process 1 :type :nonsense}\n" + OK + OK + b'{:process 2 :type "')
    source = open_run(path, lenient=True, quarantine=tmp_path / "aside")
    assert source.table(["kind"]).column(0).to_pylist() == ["invoke", "ok"]
    assert sum(source.set_aside.values()) == 4
    assert sum(1 for _ in (tmp_path / "aside").open()) == 4


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    with path.open("wb") as file:
        for _ in range(200):
            file.write((OP + OK) * 250)
    code = (
        "import sys; from loghistory import open_run\n"
        "def peak():\n"
        "    return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "before = peak()\n"
        "rows = sum(batch.num_rows for batch in open_run(sys.argv[1]).batches())\n"
        "print(rows, peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    rows, kibibytes = map(int, done.stdout.split())
    assert rows == 100_000
    assert kibibytes < 64 << 10


_WORDS = [":process", ":type", ":f", ":value", ":key", ":invoke", ":ok", ":fail", ":info", ":send", ":poll", ":txn"]
_WORDS += [
    ":assign",
    ":read",
    ":write",
    ":cas",
    ":append",
    ":nemesis",
    "nil",
    "0",
    "1",
    "-1",
    '"a"',
    "#_",
    "^",
    "#x",
    ";",
]
_WORDS += ["[", "]", "{", "}", "(", ")", "#{", '"', "\\", "\n", " ", "[:send 1 1]", "[:send 1 [0 1]]", "[:poll]"]
_WORDS += [
    "[:poll {1 [[0 1]]}]",
    "99999999999999999999",
    '"type":',
    '"process":',
    '"f":',
    '"invoke"',
    '"send"',
    ",",
    ":",
]
_TEXTS = st.lists(st.sampled_from(_WORDS), max_size=60).map(" ".join)
_FS = [":send", ":poll", ":txn", ":assign", ":write", ":append"]
_VALUES = ["[:send 1 1]", "[:send 1 [0 1]]", "[:poll]", "[:poll {1 [[0 1]]}]", "1", "nil", "[]"]
_MAPS = st.lists(
    st.tuples(st.sampled_from(["0", "1", ":nemesis"]), st.sampled_from([":invoke", ":ok", ":fail", ":info"]))
    .flatmap(lambda pair: st.tuples(st.just(pair), st.sampled_from(_FS)))
    .flatmap(
        lambda pair: st.lists(
            st.sampled_from(_VALUES), max_size=3
        ).map(lambda v: f"{{:process {pair[0][0]} :type {pair[0][1]} :f {pair[1]} :value [{' '.join(v)}]}}")
    ),
    max_size=12,
).map("\n".join)  # fmt: skip


def _is_one_line(error: Exception) -> None:
    assert str(error).isprintable()


def _all_of(data: bytes, format_: ForeignFormat) -> None:
    """Read strictly and leniently: rows or a `HistoryError`, nothing else."""
    for quarantine in (Strict(), Lenient(None)):
        place = 0

        def some(size: int) -> bytes:
            nonlocal place
            place += min(size, 7)
            return data[place - min(size, 7) : place]

        try:
            for batch in read(some, "file", quarantine, format_):
                assert batch.num_rows
        except HistoryError as error:
            _is_one_line(error)


@settings(max_examples=120, deadline=5000)
@given(data=st.one_of(st.binary(max_size=300), _TEXTS.map(str.encode), _MAPS.map(str.encode)))
def test_any_bytes(data: bytes) -> None:
    foreign_format(data)
    for format_ in ForeignFormat:
        _all_of(data, format_)


@settings(max_examples=120, deadline=5000)
@example(text="#\x1b")
@given(text=st.one_of(st.text(max_size=200), _TEXTS))
def test_any_text_is_edn_or_refused(text: str) -> None:
    try:
        forms(text)
    except EdnError as error:
        _is_one_line(error)


@settings(max_examples=60, deadline=5000)
@given(text=_MAPS)
def test_what_can_be_read_can_be_judged(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("judged") / "history.edn"
    path.write_text(text)
    source = open_run(path, lenient=True)
    try:
        model = model_of(source)
        if model in ("kafka", "log", "unknown"):  # the others ask Porcupine, which has tests of its own
            verdict = check_model(source, model)
            json.dumps(verdict.document())
    except HistoryError as error:
        _is_one_line(error)


_SCALARS = st.sampled_from(
    [":a", ":b?", ":process", ":x.y/z", "1", "-2", "007", "123456789012345678", "nil", "true", "+1", '"s"', "sym"]
)


@settings(max_examples=120, deadline=5000)
@given(pairs=st.lists(st.tuples(_SCALARS, _SCALARS), max_size=5), gap=st.sampled_from([" ", ", ", "\n ", ""]))
def test_a_flat_map_is_read_the_same_at_once(pairs: list[tuple[str, str]], gap: str) -> None:
    text = "{" + gap.join(f"{key} {value}" for key, value in pairs) + "}"
    found = flat_map(text)
    if found is not None:
        (expected,) = forms(text)
        assert found == expected
        assert [type(each) for each in found.values()] == [type(each) for each in expected.values()]


def test_most_operations_are_flat_maps() -> None:
    assert flat_map("{:index 3, :type :ok, :f :read, :value nil, :time -12, :done? true}") == {
        "index": 3,
        "type": "ok",
        "f": "read",
        "value": None,
        "time": -12,
        "done?": True,
    }


def test_many_unclosed_maps_take_no_longer_than_their_size(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_bytes(OP + b'{"\n{ x\n' * 400_000)
    began = time.monotonic()
    source = open_run(path, lenient=True)
    assert source.table().num_rows == 1
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("before", "good"),
    [(b'{:value "', OP + OK), (b'{"value":"', b'{"process":0,"type":"invoke","f":"read","value":null}\n')],
)
def test_a_line_that_is_too_long_is_one_refusal(tmp_path: Path, before: bytes, good: bytes) -> None:
    path = tmp_path / "history"
    path.write_bytes(
        good
        + before
        + b"x" * 5_000_000
        + b'"}\n'
        + good.replace(b"process 0", b"process 1").replace(b's":0', b's":1')
        + b"nonsense\n"
    )
    source = open_run(path, lenient=True, quarantine=tmp_path / "aside")
    assert source.table(["kind"]).num_rows == 2 * good.count(b"\n")
    assert source.set_aside == {"long_line": 1, "not_json": 1}
    refused = [json.loads(line)["line"] for line in (tmp_path / "aside").open()]
    assert refused == [good.count(b"\n") + 1, 2 * good.count(b"\n") + 2]
