"""The formats of other tools: what is read, how they are told apart, what becomes of each workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from loghistory import HistoryError, open_run
from loghistory.cli import history
from loghistory.importers import ForeignFormat
from loghistory.importers.edn import EdnError, forms
from logwitness.commands import FORMATS, MODELS, check_command
from logwitness.models import Model, check_model, model_of
from logwitness.models.anomalies import anomalies

OPERATION = "{:process 0, :type :invoke, :f :read, :value nil}"
OTHER = "{:process 1, :type :invoke, :f :read, :value nil}"


def _write(tmp_path: Path, text: str, name: str = "history") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nil true false", [None, True, False]),
        ("1 -2 +3 4N 9223372036854775807", [1, -2, 3, 4, 9223372036854775807]),
        ("1.5 1e3 2.5M 1/2 ##Inf", [1.5, 1000.0, 2.5, "'1/2", "'##Inf"]),
        (r'"a\n\"\\" "\u00e9" "\ud83d\ude00"', ['a\n"\\', "é", "😀"]),
        (r"\a \newline \u0041 :a/b sym", ["\\a", "\\\n", "\\A", "a/b", "'sym"]),
        ("[1 (2) #{3}] {:a [1], 2 nil}", [[1, [2], [3]], {"a": [1], 2: None}]),
        ('#inst "2020" #a.b.C{:x 1} ^:m [1] ^{:line 1} {}', ['#inst "2020"', {"x": 1}, [1], {}]),
        ("1 #_2 3 #_ #_ 4 5 6 ; 7\n8", [1, 3, 6, 8]),
        ("#:ns{:a 1}", [{"a": 1}]),
    ],
)
def test_edn(text: str, expected: list[Any]) -> None:
    assert forms(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "]",
        "[}",
        "{:a}",
        "{:a 1 :a 2}",
        "{[[]] 1}",
        "{{} 1}",
        "9223372036854775808",
        "1x",
        ":",
        "#",
        "#_",
        "^",
        r'"\q"',
        r'"\ud800"',
        r"\unknown",
        "[" * 65,
        "9" * 100000,
    ],
)
def test_what_is_no_edn_is_refused(text: str) -> None:
    with pytest.raises(EdnError):
        forms(text)


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (f"{OPERATION}\n{OTHER}\n", "jepsen-edn"),
        (f"[{OPERATION} {OTHER}]", "jepsen-edn"),
        (f"; a comment\n({OPERATION}\n ; another\n {OTHER})\n", "jepsen-edn"),
        (f"#jepsen.history.Op{OPERATION}\n#jepsen.history.Op {OTHER}", "jepsen-edn"),
        (f"^{{:a 1}} [{OPERATION}, #_ {{:b 1}} ^:x {OTHER} #_ foo]", "jepsen-edn"),
        ('{"process":0,"type":"invoke","f":"read"}\n{"type":"invoke","f":"read","process":1}\n', "jepsen-json"),
        ('[{"process":0,"type":"invoke","f":"read"},\n {"type":"invoke","f":"read","process":1}]', "jepsen-json"),
        ("starting\nINFO  jepsen.util - 0 :invoke :read nil\nINFO  jepsen.util - 1 :invoke :read nil\n", "jepsen-log"),
        ("0\t:invoke\t:read\tnil\n1\t:invoke\t:read\tnil\n:nemesis\t:invoke\t:kill\tnil\n", "jepsen-log"),
        ("2020-01-01 INFO [worker 0] jepsen.util: 0\t:invoke\t:read\tnil\nx: 1 :invoke :read", "jepsen-log"),
        ('{:process 0, :type :invoke, :f :get, :key "1", :value nil}\n'
         '{:process 1, :type :invoke, :f :put, :key "1", :value "x"}\n', "porcupine-kv"),
    ],
)  # fmt: skip
def test_formats_are_told_by_content(tmp_path: Path, text: str, format_: str) -> None:
    path = _write(tmp_path, text)
    source = open_run(path)
    assert source.format == format_
    assert source.table(["process"]).column(0).to_pylist() == [0, 1]
    # And whatever the content looks like, if it is said.
    assert open_run(path, format=ForeignFormat(format_)).table().equals(source.table())


def _run(tmp_path: Path, *operations: tuple[int, str, str, str]) -> Path:
    lines = [f"{{:process {p}, :type :{t}, :f :{f}, :value {v}}}" for p, t, f, v in operations]
    return _write(tmp_path, "\n".join(lines))


def _judged(path: Path) -> tuple[Model, str, list[str]]:
    source = open_run(path)
    model = model_of(source)
    verdict = check_model(source, model)
    return model, str(verdict.verdict), [each.id for each in verdict.checks if each.violated]


WORKLOADS: dict[str, tuple[list[tuple[int, str, str, str]], Model, list[str]]] = {
    "a queue": (
        [
            (0, "invoke", "enqueue", "1"),
            (0, "ok", "enqueue", "1"),
            (1, "invoke", "dequeue", "nil"),
            (1, "ok", "dequeue", "1"),
            (1, "invoke", "drain", "nil"),
            (1, "ok", "drain", "[]"),
        ],
        Model.QUEUE,
        [],
    ),
    "a queue that gives a value twice": (
        [
            (0, "invoke", "enqueue", "1"),
            (0, "ok", "enqueue", "1"),
            (1, "invoke", "dequeue", "nil"),
            (1, "ok", "dequeue", "1"),
            (1, "invoke", "drain", "nil"),
            (1, "ok", "drain", "[1]"),
        ],
        Model.QUEUE,
        ["linearizable"],
    ),
    "a set": (
        [(0, "invoke", "add", "1"), (0, "ok", "add", "1"), (1, "invoke", "read", "nil"), (1, "ok", "read", "#{1}")],
        Model.SET,
        [],
    ),
    "a set that forgets": (
        [(0, "invoke", "add", "1"), (0, "ok", "add", "1"), (1, "invoke", "read", "nil"), (1, "ok", "read", "#{}")],
        Model.SET,
        ["linearizable"],
    ),
    "a log read as a list": (
        [
            (0, "invoke", "append", "7"),
            (0, "ok", "append", "7"),
            (1, "invoke", "read", "nil"),
            (1, "ok", "read", "[7]"),
        ],
        Model.LIST_APPEND,
        [],
    ),
    "a log with a value that nobody appended": (
        [
            (0, "invoke", "append", "7"),
            (0, "ok", "append", "[0 7]"),
            (1, "invoke", "read", "nil"),
            (1, "ok", "read", "[7 8]"),
        ],
        Model.LOG,
        ["phantom", "linearizable-log"],
    ),
    "independent registers": (
        [
            (0, "invoke", "write", "[1 7]"),
            (0, "ok", "write", "[1 7]"),
            (1, "invoke", "read", "[2 nil]"),
            (1, "ok", "read", "[2 nil]"),
            (1, "invoke", "cas", "[1 [7 8]]"),
            (1, "ok", "cas", "[1 [7 8]]"),
        ],
        Model.CAS_REGISTER,
        [],
    ),
    "one of several registers is stale": (
        [
            (0, "invoke", "write", "[1 7]"),
            (0, "ok", "write", "[1 7]"),
            (1, "invoke", "read", "[1 nil]"),
            (1, "ok", "read", "[1 nil]"),
            (1, "invoke", "read", "[2 nil]"),
            (1, "ok", "read", "[2 nil]"),
        ],
        Model.CAS_REGISTER,
        ["linearizable"],
    ),
    "a register that begins with 0": (
        [(0, "invoke", "read", "nil"), (0, "ok", "read", "0"), (0, "invoke", "write", "1"), (0, "ok", "write", "1")],
        Model.CAS_REGISTER,
        [],
    ),
    "0 that somebody may have written is no beginning": (
        [
            (0, "invoke", "write", "0"),
            (1, "invoke", "write", "1"),
            (0, "ok", "write", "0"),
            (1, "ok", "write", "1"),
            (0, "invoke", "read", "nil"),
            (0, "ok", "read", "1"),
            (0, "invoke", "read", "nil"),
            (0, "ok", "read", "0"),
        ],
        Model.CAS_REGISTER,
        ["linearizable"],
    ),
    "values that are no scalars": (
        [
            (0, "invoke", "write", "{:a #{2 1}}"),
            (0, "ok", "write", "{:a #{2 1}}"),
            (1, "invoke", "read", "nil"),
            (1, "ok", "read", "{:a #{1 2}}"),
        ],
        Model.CAS_REGISTER,
        [],
    ),
    "a fault injector's words": (
        [(0, "invoke", "read", "nil"), (0, "ok", "read", "nil")],
        Model.REGISTER,
        [],
    ),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads(tmp_path: Path, name: str) -> None:
    operations, model, violated = WORKLOADS[name]
    found, verdict, checks = _judged(_run(tmp_path, *operations))
    assert found is model
    assert set(violated) == set(checks)
    assert verdict == ("violated" if violated else "holds")


def test_faults_are_kept_for_the_time_line(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        f"{OPERATION}\n{{:process :nemesis, :type :info, :f :kill, :value {{:n1 :killed}}}}\n"
        "{:process :nemesis, :type :info, :f :heal}\n{:process 0, :type :info, :f :read, :error [:timeout 1]}",
    )
    rows = open_run(path).table().to_pylist()
    assert [row["kind"] for row in rows] == ["invoke", "fault", "heal", "info"]
    assert (rows[1]["f"], rows[1]["text"], rows[3]["reason"]) == ("kill", '{":n1":":killed"}', '[":timeout",1]')


WRITE = "{:type :invoke :process 0 :f :write :value 1}"
MAPS = {
    "a bad operation": ("{:name 1\n :history [" + WRITE + "\n7 {}]}", 'line 3: "7" where an operation should begin'),
    "cut off": ("{:history [" + WRITE, "line 1: the file ends inside a form that begins here"),
    "cut off behind the history": ("{:history [" + WRITE + "]\n:x [1 {", "line 2: the file ends inside a form"),
    "a bad bracket behind it": ("{:history [" + WRITE + "]\n:x [1}}", 'line 2: "}" closes nothing'),
    "something behind the map": ("{:history [" + WRITE + "]}\n x", 'line 2: "x" where an operation should begin'),
    "a history that is no vector": ("{:history {:ops [" + WRITE + "]}}", "line 1, field type: nothing is no type"),
    "a history that is a text": ('{"history": "[]", "f": [1]}', "line 1, field type: nothing is no type"),
    "the word at another place": ("{:x [1 :history [" + WRITE + "]]}", "line 1, field type: nothing is no type"),
    "a vector behind another word": ("{:old-history [" + WRITE + "]}", "line 1, field type: nothing is no type"),
    "far behind": (
        "{:x [" + ("[" + "1 " * 99 + "]") * 29999 + "] :history [" + WRITE + "]}",
        "line 1: a form is longer than 1048576",
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_that_has_no_readable_history(tmp_path: Path, name: str) -> None:
    text, expected = MAPS[name]
    with pytest.raises(HistoryError) as caught:
        open_run(_write(tmp_path, text)).table()
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "{:type :invoke :history [] :process 0 :f :read}",
        '{"type": "invoke", "history": [],\n"process": 0, "f": "read"}',
    ],
)
def test_an_operation_may_have_a_history_of_its_own(tmp_path: Path, text: str) -> None:
    assert open_run(_write(tmp_path, text)).table().column("f").to_pylist() == ["read"]


def test_what_a_map_has_behind_its_history_is_passed_over_whatever_its_length(tmp_path: Path) -> None:
    rest = ("[{:a 2}" + " 1" * 99 + "]") * 29999  # longer than a form may be, so that it is not kept
    path = _write(tmp_path, f"{{:x [1] :history [{WRITE}] :y [{rest}]}}")
    assert open_run(path).table().num_rows == 1


@pytest.mark.parametrize("line", [":nemesis :type :info :f nil", '"nemesis" :type :info'])
def test_a_fault_may_have_no_name(tmp_path: Path, line: str) -> None:
    rows = open_run(_write(tmp_path, f"{OPERATION}\n{{:process {line} :value :all}}\n")).table().to_pylist()
    assert [(row["kind"], row["f"], row["text"]) for row in rows[1:]] == [("fault", "nemesis", '":all"')]


@pytest.mark.parametrize("process", ["0", ":w1", "nil"])
def test_an_operation_of_a_client_has_a_name(tmp_path: Path, process: str) -> None:
    path = _write(tmp_path, f"{OTHER}\n{{:process {process} :type :invoke :f nil :value nil}}\n")
    with pytest.raises(HistoryError, match="line 2, field f: nothing is not the name of an operation"):
        open_run(path).table()


def test_why_an_operation_failed_may_be_told_in_any_words(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        '0\t:invoke\t:read\tnil\n0\t:info\t:read\tnil\t(Connection "reset} by peer\n'
        "1\t:invoke\t:write\t3\n1\t:fail\t:write\t3\t:conflict\n"
        "\xff bytes of something else\n",
    )
    rows = open_run(path).table().to_pylist()
    assert [(row["kind"], row["reason"]) for row in rows] == [
        ("invoke", None),
        ("info", 'nil\t(Connection "reset} by peer'),
        ("invoke", None),
        ("fail", "conflict"),
    ]


def test_clients_may_have_names(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        '{:process "w1" :type :invoke :f :write :value 1}{:process :w2 :type :invoke :f :read}'
        "{:process :chaos :type :info :f :kill}{:process :w2 :type :ok :f :read :value 1}"
        '{:process "w1" :type :ok :f :write :value 1}{:process "7" :type :invoke :f :read}',
    )
    rows = open_run(path).table().to_pylist()
    assert [row["kind"] for row in rows] == ["invoke", "invoke", "fault", "ok", "ok", "invoke"]
    first, second = rows[0]["process"], rows[1]["process"]
    assert first != second
    assert [row["process"] for row in rows] == [first, second, None, second, first, 7]


LOGS = {
    "offsets alone": ("append 5", "0", "read nil", "[5]"),
    "no offset told": ("append 5", "[-1 5]", "read nil", "[[0 5]]"),
    "offset and value": ("append 5", "[0 5]", "read nil", "[5]"),
    "read at an offset": ("append 5", "0", "read 0", "5"),
    "read at an offset, which is repeated": ("append 5", "0", "read 0", "[0 5]"),
    "read behind an offset": ("append 5", "5", "read 0", "[5]"),
    "pairs": ("append 5", "[0 5]", "read nil", "[[0 5]]"),
    "by key": ("append [:k 5]", "[:k [0 5]]", "read [:k nil]", "[:k [5]]"),
    "by key, offsets alone": ("append [:k 5]", "[:k 0]", "read [:k 0]", "[:k 5]"),
    "a final read": ("append 5", "0", "final-read nil", "[5]"),
}


@pytest.mark.parametrize(
    ("name", "early"),
    # Before the first append nothing tells a key and an offset from a value.
    [(name, early) for name in LOGS for early in (False, True) if not early or name != "by key, offsets alone"],
)
@pytest.mark.parametrize("right", [True, False])
def test_forms_of_logs(tmp_path: Path, name: str, early: bool, right: bool) -> None:
    append, offset, read, answer = LOGS[name]
    if not right:
        answer = answer.replace("5", "6")
    events = [(0, "invoke", append), (0, "ok", f"append {offset}"), (1, "invoke", read)]
    events.append((1, "ok", f"{read.split()[0]} {answer}"))
    if early:
        events.insert(0, events.pop(2))
    maps = []
    for process, kind, words in events:
        f, value = words.split(" ", 1)
        maps.append(f"{{:process {process}, :type :{kind}, :f :{f}, :value {value}}}")
    source = open_run(_write(tmp_path, "\n".join(maps)))
    verdict = check_model(source, model_of(source))
    lists = name == "no offset told" or (name == "read behind an offset" and not early)
    assert model_of(source) is (Model.LIST_APPEND if lists else Model.LOG)
    assert ("phantom" in anomalies(verdict.checks)) == (not right)
    assert verdict.exit_status == (0 if right else 1), [each for each in verdict.checks if each.violated]


def test_the_names_on_the_command_line_are_those_of_the_models_and_formats() -> None:
    assert set(MODELS) == {str(model) for model in Model} - {"unknown"}
    assert set(FORMATS) >= {str(format_) for format_ in ForeignFormat}


def test_a_directory_is_judged_file_by_file_and_a_run_in_it_as_one(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "deep").mkdir(parents=True)
    good = [(0, "invoke", "write", "1"), (0, "ok", "write", "1")]
    _run(store, *good).rename(store / "good.edn")
    _run(store, *good, (1, "invoke", "read", "nil"), (1, "ok", "read", "2")).rename(store / "deep" / "bad.edn")
    (store / "damaged.edn").write_text("{:process 0, :type :inv")
    (store / "results.edn").write_text("{:valid? false}")
    (store / "node.log").write_text("nothing of ours\n")
    (store / "page.html").write_text("<p>")
    runner = CliRunner()
    assert runner.invoke(history, ["convert", str(store / "good.edn"), str(store / "run")]).exit_code == 0
    done = runner.invoke(check_command, ["--json", str(store)])
    assert done.exit_code == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(Path(each["file"]).name, each["verdict"], each["anomalies"]) for each in found] == [
        ("damaged.edn", "unreadable", []),
        ("bad.edn", "violated", ["not linearizable"]),
        ("good.edn", "holds", []),
        ("run", "holds", []),
    ]
    assert "line 1: the file ends inside a form" in found[0]["error"]
    assert "3 skipped" in done.stderr
    # Names that are no text, no file, or no line are written so that a machine can read them.
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "a\udcff\n.edn").write_bytes((store / "good.edn").read_bytes())
    (odd / "nowhere.edn").symlink_to("/nowhere")
    done = runner.invoke(check_command, ["--json", "-v", str(odd)])
    line, nowhere = done.stdout_bytes.decode("ascii").splitlines()
    assert json.loads(line)["file"] == str(odd / "a\udcff\n.edn")
    assert json.loads(nowhere)["verdict"] == "unreadable"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert runner.invoke(check_command, [str(empty)]).exit_code == 2
