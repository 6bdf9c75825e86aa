"""What is read many lines at once is what is read map by map: the same events, the same refusals."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs_of_clients import Appends, Kafka, planted
from written import Map, Text, edn, written

from loghistory import HistoryError, open_run
from loghistory.importers import ForeignFormat, read, reading
from loghistory.importers.edn import MAX_DEPTH, EdnError, forms
from loghistory.importers.plain_values import BAD, plain_values
from loghistory.importers.shapes import Shapes
from loghistory.validity import Reason
from logwitness import judge

FORMS = {
    "EDN, a map a line": ForeignFormat.JEPSEN_EDN,
    "EDN, one vector": ForeignFormat.JEPSEN_EDN,
    "EDN, in a map": ForeignFormat.JEPSEN_EDN,
    "EDN, records": ForeignFormat.JEPSEN_EDN,
    "EDN, CRLF": ForeignFormat.JEPSEN_EDN,
    "EDN, without times": ForeignFormat.JEPSEN_EDN,
    "EDN, maps without line ends": ForeignFormat.JEPSEN_EDN,
    "EDN, one list": ForeignFormat.JEPSEN_EDN,
    "JSON, one array": ForeignFormat.JEPSEN_JSON,
    "JSON, in an object": ForeignFormat.JEPSEN_JSON,
    "JSON, an object a line": ForeignFormat.JEPSEN_JSON,
    "JSON, words with colons": ForeignFormat.JEPSEN_JSON,
    "log": ForeignFormat.JEPSEN_LOG,
    "log, CRLF": ForeignFormat.JEPSEN_LOG,
}


class _Noted:
    """A quarantine that goes on and remembers."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, str, bytes]] = []

    def refuse(self, reason: Reason, error: HistoryError, raw: bytes) -> None:
        self.refused.append((str(reason), str(error), raw))

    def take(self, events: int) -> None:
        pass

    close = abandon = lambda self: None


@contextmanager
def _patched(**names: Any) -> Iterator[None]:  # noqa: ANN401
    """Without a fixture, which Hypothesis would share among its examples."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setattr(reading, name, value)
        yield


class _NoShapes:
    def __init__(self, index: Callable[[], int]) -> None:
        pass

    def read(self, lines: list[str]) -> list[None]:
        return [None] * len(lines)


def _outcome(data: bytes, format_: ForeignFormat) -> tuple[list[dict[str, Any]], list[tuple[str, str, bytes]], str]:
    quarantine = _Noted()
    batches: list[pa.RecordBatch] = []
    ended = ""
    try:
        batches.extend(read(io.BytesIO(data).read, "file", quarantine, format_))
    except HistoryError as error:
        ended = str(error)
    return [row for batch in batches for row in batch.to_pylist()], quarantine.refused, ended


def _both_ways(data: bytes, format_: ForeignFormat) -> None:
    at_once = _outcome(data, format_)
    with _patched(Shapes=_NoShapes, objects=lambda lines: [None] * len(lines)):
        one_by_one = _outcome(data, format_)
    assert at_once == one_by_one


def _registers(rng: random.Random, *, keys: bool) -> list[Map]:
    """Operations of several clients, with faults, failures and unknown outcomes among them."""
    maps: list[dict[str, Any]] = []
    running: dict[int, dict[str, Any]] = {}
    for time in range(rng.randrange(5, 60)):
        process = rng.randrange(4)
        if rng.random() < 0.03:
            maps.append({"process": "nemesis", "type": "info", "f": "kill", "value": None, "time": time})
        opened = running.pop(process, None)
        if opened is None:
            f = rng.choice(["read", "write", "cas", "add"])
            value: Any = {"read": None, "cas": [rng.randrange(3), rng.randrange(3)]}.get(f, rng.randrange(3))
            if keys and rng.random() < 0.7:
                value = [Text("k") if rng.random() < 0.3 else rng.randrange(2), value]
            running[process] = {"process": process, "type": "invoke", "f": f, "value": value, "time": time}
            maps.append(running[process])
            continue
        kind = rng.choice(["ok", "ok", "ok", "fail", "info"])
        value = opened["value"]
        if kind == "ok" and opened["f"] == "read":
            value = (
                [rng.choice([value[0]] * 9 + [7]), 1]
                if isinstance(value, list)
                else rng.choice([None, 1, Text("x y"), [1, 2]])
            )
        error = {"error": rng.choice(["timeout", Text("no, not"), ["a", 1]])} if kind != "ok" else {}
        maps.append({**opened, "type": kind, "value": value, "time": time} | error)
    return maps


_WORDS = [b"\n", b" ", b",", b'"', b":", b"{", b"}", b"[", b"]", b"\\", b";", b"#", b"#_", b"^", b"nil", b"-0"]
_WORDS += [b"007", b"1.5", b"9" * 20, b":ok", b":f :x ", b":type :ok ", b'"type" :"ok",', b'"f":"x",', b":acks 1 "]
_WORDS += [
    b":key 1 ",
    b'"key":"a",',
    b":offset 0 ",
    b"\r",
    b"\xff",
    b"\xc2\xa0",
    b"\xe2\x80\xa8",
    b"#{1 2}",
    b"[[[1]]]",
]


@settings(max_examples=150, deadline=None)
@given(
    form=st.sampled_from(sorted(FORMS)),
    what=st.sampled_from(["registers", "keys", "kafka", "appends"]),
    seed=st.integers(0, 1 << 16),
    changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 60), st.sampled_from(_WORDS)), max_size=4),
)
def test_at_once_and_one_by_one(form: str, what: str, seed: int, changes: list[tuple[int, int, bytes]]) -> None:
    if what in ("kafka", "appends"):
        maps = planted(Kafka if what == "kafka" else Appends, seed % 50, None)[:60]
    else:
        maps = _registers(random.Random(seed), keys=what == "keys")
    data = bytearray(written(maps, form))
    for place, removed, word in changes:
        at = place % (len(data) + 1)
        data[at : at + (removed if removed < 20 else 0)] = word
    _both_ways(bytes(data), FORMS[form])


def test_lines_in_order_come_after_what_was_told_before() -> None:
    """One that tells a place far ahead, and many behind it that are in order among themselves."""
    line = "{{:index {0}, :time {0}, :type :invoke, :process {0}, :f :read, :value nil}}"
    for ahead in ("{:index 700, :time 1, :type :invoke, :process\n 99, :f :read, :value nil}", line.format(700)):
        written_lines = [line.format(1), ahead, *(line.format(number) for number in range(3, 40))]
        for between in ("", "\n"):
            data = between.join(written_lines).encode()
            _both_ways(data, ForeignFormat.JEPSEN_EDN)
            events, refused, _ = _outcome(data, ForeignFormat.JEPSEN_EDN)
            assert (len(events), len(refused)) == (2, 37)
    late = line.format(40).replace(":time 40", ":time 99999999999999999999")
    for written_lines in (
        [*map(line.format, range(1, 9)), late, line.format(7)],
        [line.format(1), late, line.format(7)],
    ):
        _both_ways("\n".join(written_lines).encode(), ForeignFormat.JEPSEN_EDN)


_PARTS = [
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "(",
    ")",
    " ",
    ", ",
    "  ",
    "1",
    "-1",
    "0",
    "-0",
    "01",
    "12",
    "nil",
    ":nil",
    ":a",
]
_PARTS += [
    ":send",
    ":poll",
    "{1 [[0 1]]}",
    "{1 [[0 1]], 2 [[3 4]]}",
    "{1 [], 1 []}",
    "true",
    '"a"',
    "9" * 19,
    "x",
    "1x",
]


@settings(max_examples=500, deadline=None)
@given(texts=st.lists(st.lists(st.sampled_from(_PARTS), min_size=1, max_size=12).map("".join), min_size=1, max_size=6))
def test_plain_values_are_forms(texts: list[str]) -> None:
    # What shapes let through: one token, a text, or brackets around something without texts.
    fit = [text for text in texts if '"' not in text[1:-1] and text.strip() == text and _brackets(text)]
    for text, value in zip(fit, plain_values(fit), strict=True):
        if value is not BAD:
            assert repr(forms(text)) == repr([value])
            assert _types(forms(text)[0]) == _types(value)


def _brackets(text: str) -> bool:
    return (text[0] in "[({") == (text[-1] in "])}") and (text[0] in "[({" or not set(text) & set("[](){} ,"))


def _types(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return [(_types(key), _types(each)) for key, each in value.items()]
    return [type(value), *map(_types, value)] if isinstance(value, (list, tuple)) else type(value)


@pytest.mark.parametrize(
    "text",
    [
        "[[:poll {1 [[0 7]], 1 [[1 8]]}]]",
        "[[:nil 1] [:a-nil nil]]",
        "[[:r [:a]]]",
        "[1 -0]",
        "[01]",
        "[1, 2]",
        "[[1][2]]",
        "[1 [2 [3 [4 [5]]]]]",
        "[[:poll {1 2}]]",
        "[" * 40 + "]" * 40,
    ],
)
def test_unusual_values_are_read_rightly_or_not_at_all(text: str) -> None:
    (value,) = plain_values([text])
    if value is BAD:
        return
    (expected,) = forms(text)
    assert value == expected
    assert _types(value) == _types(expected)


@pytest.mark.parametrize(
    "text",
    ["[1 [2 3]]", "[[:send 1 [0 -5]] [:send 2 nil]]", "[[:poll {1 [[0 7] [1 8]], -2 [[3 nil]]}]]", "nil", '"a b"'],
)
def test_usual_values_are_read_at_once(text: str) -> None:
    (value,) = plain_values([text])
    assert value == forms(text)[0]
    assert _types(value) == _types(forms(text)[0])


def test_usual_lines_are_read_at_once() -> None:
    lines = [edn(each) for each in _registers(random.Random(5), keys=False) if each["process"] != "nemesis"]
    assert None not in Shapes(lambda: 0).read(lines)


@pytest.mark.parametrize(
    "bad", ["{:process 1 :type :ok :f :read :value 1x}", "{:process 1 :type :ok :f :read :value [}]}"]
)
def test_a_value_that_is_none_is_left_to_the_reader_of_forms(bad: str) -> None:
    good = bad.replace("1x", "1").replace("[}]", "[]")
    reported = Shapes(lambda: 0).read([good, bad, good])
    assert [each is None for each in reported] == [False, True, False]
    with pytest.raises(EdnError):
        forms(bad)


_LINE = "{:process 1 :type :ok :f :read :value 1}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (_LINE.replace(" 1}", '"x"}'), _LINE.replace(" 1}", "2}")),  # a key without a value
        (_LINE.replace("1}", '"x"}'), _LINE.replace("1}", '"a\\nb"}')),
        (_LINE.replace("1}", '"x"}'), _LINE.replace("1}", '"a\\"}')),
        (_LINE, _LINE.replace("1}", "1 2}")),
        (_LINE, _LINE.replace("1}", "1 :f :write}")),
        (_LINE, _LINE.replace("1}", "\u0661}")),
        (_LINE, _LINE.replace(":process 1", ":process \u0661")),
        (_LINE, _LINE.replace("1}", "[1 ;]\n]}")),
        (_LINE, _LINE + " " + _LINE),
    ],
)
def test_lines_that_are_nearly_of_a_shape(first: str, second: str) -> None:
    invoke = _LINE.replace(":ok", ":invoke").replace("1}", "nil}")
    _both_ways("\n".join([invoke, first, invoke, second, invoke, second, "x"]).encode(), ForeignFormat.JEPSEN_EDN)


def test_objects_over_two_lines_keep_their_numbers() -> None:
    one = '{"process":0,"type":"invoke","f":"read","value":null,"time":1}'
    data = f'{one[:-1]},"z":\n{{}}}}\n{one}{one.replace(":0", ":2")}\n{one}\n'
    _both_ways(data.encode(), ForeignFormat.JEPSEN_JSON)


@pytest.mark.parametrize("asked", ["nil", "0", "[1 nil]"])
def test_a_read_that_was_taken_at_once_ends_behind_the_first_append(asked: str) -> None:
    key, end = ("[1 ", "]") if asked[0] == "[" else ("", "")
    lines = [f"{{:process {each} :type :invoke :f :read :value {asked} :time {each}}}" for each in range(4)]
    lines.append(f"{{:process 4 :type :invoke :f :append :value {key}7{end} :time 4}}")
    lines += [f"{{:process {each} :type :ok :f :read :value {key}[7]{end} :time 5}}" for each in range(4)]
    data = "\n".join(lines).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_ROWS", 4)
        _both_ways(data, ForeignFormat.JEPSEN_EDN)
        events, _, _ = _outcome(data, ForeignFormat.JEPSEN_EDN)
    assert [(each["offset"], each["value"]) for each in events if each["kind"] == "observe"] == [(0, 7)] * 4


def test_a_line_that_says_no_operation_is_passed_over_beside_one_that_is_no_utf_8() -> None:
    lines = [b"INFO util - 0\t:invoke\t:read\tnil", b"WARN \xc9: below", b"INFO: :ok, 3", b"0 :ok :read 1"]
    events, refused, ended = _outcome(b"\n".join(lines) + b"\n", ForeignFormat.JEPSEN_LOG)
    assert [each["kind"] for each in events] == ["invoke", "ok"]
    assert not refused
    assert not ended


def test_a_bad_line_far_into_a_log_is_named_by_its_number() -> None:
    lines = [b"%d :invoke :read nil\n%d :ok :read 1" % (at, at) for at in range(1500)]
    lines[1400] += b"\n7 :ok :read 1"
    _, ((_, said, raw),), _ = _outcome(b"\n".join(lines) + b"\n", ForeignFormat.JEPSEN_LOG)
    assert said.startswith("file, line 2803, field process: process 7 completes an operation that it did not invoke")
    assert raw == b"7 :ok :read 1"


def test_a_process_with_too_many_digits_for_a_number_is_one_with_a_name() -> None:
    lines = [f"{digits} :{kind} :read nil" for digits in ("7" * 1000, "7" * 25, "7") for kind in ("invoke", "ok")]
    events, refused, ended = _outcome("\n".join([*lines, ""]).encode(), ForeignFormat.JEPSEN_LOG)
    assert (refused, ended) == ([], "")
    processes = [each["process"] for each in events]
    assert processes[::2] == processes[1::2]
    assert len({*processes}) == 3
    assert processes[-1] == 7


def test_a_map_without_a_time_has_that_of_the_one_before_and_a_time_has_limits() -> None:
    line = "{{:process {} :type :{} :f :read :value nil{}}}"
    times = (" :time 5", "", " :time 9", "", f" :time {1 << 62}", f" :time {(1 << 62) - 1}")
    lines = [line.format(at // 2, ("invoke", "ok")[at % 2], time) for at, time in enumerate(times)]
    events, refused, ended = _outcome("\n".join(lines).encode(), ForeignFormat.JEPSEN_EDN)
    assert [each["time"] for each in events] == [5, 5, 9, 9]
    assert ["is not a time" in said for _, said, _ in refused] == [True, False]
    assert not ended


def test_where_a_map_names_a_key_its_value_names_no_other() -> None:
    data = b'{:process 0 :type :invoke :f :write :key "x" :value [1 2]}'
    ((event,), _, _) = _outcome(data, ForeignFormat.JEPSEN_EDN)
    assert (event["log"], event["text"]) == ("x", "[1,2]")


@pytest.mark.parametrize("kind", ["ok", "fail", "info"])
def test_an_operation_ends_on_the_key_on_which_it_began(kind: str) -> None:
    line = "{{:process 0, :type :{}, :f :append, :key {}, :value 1}}"
    good, bad = ("\n".join([line.format("invoke", '"x"'), line.format(kind, key)]) for key in ('"x"', '"y"'))
    assert not _outcome(good.encode(), ForeignFormat.JEPSEN_EDN)[1]
    ((field, said, _),) = _outcome(bad.encode(), ForeignFormat.JEPSEN_EDN)[1]
    assert "is not the key x that was asked for" in f"{field} {said}"


def test_a_process_beyond_64_bits_is_refused() -> None:
    line = '{{"process": {}, "type": "invoke", "f": "read", "value": null}}'
    lines = [line.format(each) for each in ((1 << 63) - 1, 1 << 63, -1)]
    events, refused, _ = _outcome("\n".join(lines).encode(), ForeignFormat.JEPSEN_JSON)
    assert [each["process"] for each in events] == [(1 << 63) - 1]
    (_, large, _), (_, negative, _) = refused
    assert "does not fit in 64 bits" in large
    assert "-1 is no process" in negative


def test_of_an_operation_that_is_refused_nothing_stays() -> None:
    line = "{{:process {}, :type :{}, :f :txn, :value {}}}"
    lines = [
        line.format(0, "invoke", "[[:send 1 2] [:poll]]"),
        line.format(1, "invoke", "[[:send 1 2] [:send 3]]"),
        line.format(0, "ok", "[[:send 1 [0 2]] [:poll {1 [[0 2] [1]]}]]"),
        line.format(0, "ok", "[[:send 1 [0 2]] [:poll {1 [[0 2]]}]]"),
        line.format(1, "invoke", "[[:send 1 3]]"),
    ]
    events, refused, _ = _outcome("\n".join(lines).encode(), ForeignFormat.JEPSEN_EDN)
    assert len(refused) == 2
    assert [each["kind"] for each in events] == ["invoke"] * 3 + ["ok", "observe", "ok", "ok"] + ["invoke"] * 2
    assert [each["op"] for each in events] == [0, 1, 2, 1, 2, 2, 0, 3, 4]


def test_a_vector_of_integers_beyond_64_bits_is_refused() -> None:
    for large in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(EdnError, match="does not fit in 64 bits"):
            forms(f"[1 {large}]")


def test_a_long_history_is_handed_out_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_ROWS", 1 << 9)
    for form, format_ in FORMS.items():
        maps = [
            {"process": at % 7, "type": ("invoke", "ok")[at // 7 % 2], "f": "write", "value": 1, "time": at}
            for at in range(6_000)
        ]
        batches = list(read(io.BytesIO(written(maps, form)).read, "file", _Noted(), format_))
        assert sum(each.num_rows for each in batches) == len(maps), form
        assert max(each.num_rows for each in batches) < 3 * reading._ROWS, form
        assert len(batches) > 2, form


def test_a_vector_of_integers_nests_no_deeper_than_another() -> None:
    for inner, deepest in (("[1 2]", MAX_DEPTH - 1), ("[:a]", MAX_DEPTH - 1), ("1", MAX_DEPTH)):
        assert forms("[" * deepest + inner + "]" * deepest)
        with pytest.raises(EdnError, match="nest deeper"):
            forms("[" * (deepest + 1) + inner + "]" * (deepest + 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1 2]", [1, 2]),
        ("[-0 007 999999999999999999]", [0, 7, 999999999999999999]),
        ("[9223372036854775807]", [(1 << 63) - 1]),
        ("[1 2N]", [1, 2]),
        ("[1  2]", [1, 2]),
        ("[1 2 ]", [1, 2]),
        ("[1,2]", [1, 2]),
        ("[1.0 2]", [1.0, 2]),
        ("#_[1 2] [3 4]", [3, 4]),
        ("^[1 2] [3 4]", [3, 4]),
        ("#t [3 4]", [3, 4]),
        ("{[1 2] [3 4]}", {(1, 2): [3, 4]}),
    ],
)
def test_a_vector_of_integers_is_read_in_one_go_or_number_by_number(text: str, value: Any) -> None:  # noqa: ANN401
    (found,) = forms(text)
    assert found == value
    assert type(found) is type(value)


def test_an_answer_for_another_key_is_refused(tmp_path: Path) -> None:
    lines = ["{:process 0 :type :invoke :f :read :value [1 nil]}", "{:process 0 :type :ok :f :read :value [1 5]}"] * 200
    lines[-1] = lines[-1].replace("[1 5]", "[2 5]")
    path = tmp_path / "history.edn"
    path.write_text("\n".join(lines))
    with pytest.raises(HistoryError, match=r"line 400, field value: .* does not answer for key 1"):
        open_run(path).table()


def test_a_write_answered_with_another_value_is_refused(tmp_path: Path) -> None:
    lines = ["{:process 0 :type :invoke :f :write :value 5}", "{:process 0 :type :ok :f :write :value 5}"] * 200
    lines[1], lines[-1] = lines[1].replace("5", "nil"), lines[-1].replace("5", "6")
    path = tmp_path / "history.edn"
    path.write_text("\n".join(lines))
    with pytest.raises(HistoryError, match=r"line 400, field value: 6 answers 5"):
        open_run(path).table()


OTHER = {
    "append": ("append", '"x 0 y"', '"x 1 y"', ':key "k"'),
    "append to a log": ("append", "5", "[7 6]", ""),
    "list": ("txn", "[[:append 1 5] [:r 1 nil]]", "[[:append 1 6] [:r 1 [5]]]", ""),
    "list of another key": ("txn", "[[:append 1 5]]", "[[:append 2 5]]", ""),
    "read of another key": ("txn", "[[:append 1 5] [:r 1 nil]]", "[[:append 1 5] [:r 2 [5]]]", ""),
    "no append": ("txn", "[[:append 1 5]]", "[[:r 1 [5]]]", ""),
}
"""By name: an operation, what it is asked, what it answers, and its key."""


@pytest.mark.parametrize("name", OTHER)
def test_an_append_answered_with_another_value_is_refused(name: str, tmp_path: Path) -> None:
    f, asked, answered, key = OTHER[name]
    path = tmp_path / "history.edn"
    lines = [f"{{:process 0 :type :{kind} :f :{f} {key} :value {asked}}}" for kind in ("invoke", "ok")] * 2
    path.write_text("\n".join(lines))
    assert len(open_run(path).table())
    lines[-1] = lines[-1].replace(asked, answered)
    path.write_text("\n".join(lines))
    with pytest.raises(HistoryError, match=r"line 4, field value: .* answer"):
        open_run(path).table()


TOO_LARGE = {
    "append": ("append", "6", str(1 << 61)),
    "tail": ("tail", "nil", str(1 << 61)),
    "read": ("read", str(1 << 61), "[7]"),
    "read up to it": ("read", f"[{(1 << 61) - 1} nil]", f"[{(1 << 61) - 1} 7]"),
    "read beyond it": ("read", str((1 << 61) - 1), "[7 8]"),
}
"""By name: an operation on a log, what it is asked, and what it answers."""


@pytest.mark.parametrize("name", TOO_LARGE)
def test_an_offset_too_large_to_judge_is_a_line_set_aside(name: str, tmp_path: Path) -> None:
    f, asked, answered = TOO_LARGE[name]
    path = tmp_path / "history.edn"
    lines = [f"{{:process 0 :type :{kind} :f :append :value 5}}" for kind in ("invoke", "ok")]
    lines += [
        f"{{:process 1 :type :{kind} :f :{f} :value {value}}}" for kind, value in (("invoke", asked), ("ok", answered))
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(HistoryError, match=r"line [34], field value: .* is too large to judge"):
        open_run(path).table()
    assert judge(open_run(path, lenient=True))["verdict"] in ("undecided", "unexercised")


def test_a_value_too_small_to_judge_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    values = -(1 << 61), -(1 << 61) - 1
    path.write_text(
        "\n".join(f"{{:process {v} :type :invoke :f :append :value {value}}}" for v, value in enumerate(values))
    )
    table = open_run(path).table()
    assert table["value"].to_pylist() == [values[0], None]
    assert table["text"].to_pylist() == [None, str(values[1])]


def _refusal(tmp_path: Path, data: str) -> str:
    path = tmp_path / "history.json"
    path.write_text(data)
    with pytest.raises(HistoryError) as caught:
        open_run(path).table()
    return str(caught.value)


@pytest.mark.parametrize("between", ["", " ", "\t"])
def test_a_repeated_key_is_found_whatever_stands_before_its_colon(tmp_path: Path, between: str) -> None:
    line = f'{{"process":0,"type":"invoke","f":"read","value":1,"value"{between}:2}}\n'
    assert "is repeated" in _refusal(tmp_path, line)


@pytest.mark.parametrize("deep", [63, 64, 400])
def test_objects_nest_no_deeper_than_forms(tmp_path: Path, deep: int) -> None:
    line = f'{{"process":0,"type":"invoke","f":"write","value":{"[" * deep}{"]" * deep}}}\n'
    if deep < 64:
        (tmp_path / "history.json").write_text(line)
        assert open_run(tmp_path / "history.json").table().num_rows == 1
    else:
        assert "nest deeper than 64" in _refusal(tmp_path, line)


@pytest.mark.parametrize("bad", ["NaN", '"\\ud800"'])
def test_damaged_maps_on_one_line_cost_no_more_than_themselves(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    """Else a small file takes hours: each would cost as much as the thousands behind it that are read in vain."""
    given_up = 0
    at_once = reading.objects

    def counted(lines: Sequence[str]) -> list[Any]:
        nonlocal given_up
        found = at_once(lines)
        given_up += found.count(None)
        return found

    monkeypatch.setattr(reading, "objects", counted)
    maps = [
        f'{{"process": {n}, "type": "{kind}", "f": "write", "value": {value}}}'
        for n in range(500)
        for kind, value in (("invoke", 1), ("ok", bad))
    ]
    text = f"[{', '.join(maps)}]".encode()
    noted = _Noted()
    events = sum(batch.num_rows for batch in read(io.BytesIO(text).read, "file", noted, ForeignFormat.JEPSEN_JSON))
    assert (events, len(noted.refused)) == (500, 500)
    assert given_up <= 3 * 500
