"""Histories as other people spell them: keys beside values, versions, transactions that no model knows.

A history is one line an operation: f, what was asked, how it ended, what was answered; one client, one after the other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loghistory import open_run
from loghistory.importers.edn import forms
from loghistory.importers.values import as_json, log_name
from logwitness.models import check_model, model_of

HOLDS: dict[str, str] = {
    "reads of a log that name an offset": """
        append 10 ok [0 10]
        read [1 nil] ok [1 nil]
        append 11 ok [1 11]
        read [0 nil] ok [0 10]
        read [1 nil] ok 11
        read [2 nil] ok nil""",
    "sets by key": """
        add [1 5] ok [1 5]
        add [2 6] ok [2 6]
        read [1 nil] ok [1 #{5}]
        read [2 nil] ok [2 #{6}]""",
    "a set of pairs": """
        add [1 5] ok [1 5]
        read nil ok #{[1 5]}""",
    "queues by key": """
        enqueue [1 5] ok [1 5]
        enqueue [2 6] ok [2 6]
        dequeue [2 nil] ok [2 6]
        dequeue [1 nil] ok [1 5]""",
    "a queue that says it is empty": """
        dequeue nil ok :empty
        enqueue 5 ok 5
        dequeue nil ok 5""",
    "a store by key in the value": """
        put ["x" "1"] ok ["x" "1"]
        put ["y" "2"] ok ["y" "2"]
        get ["x" nil] ok ["x" "1"]""",
    "a store asked for a key": """
        put ["x" "1"] ok nil
        put ["y" "2"] ok nil
        get "x" ok "1\"""",
    "a store with compare-and-set": """
        put 4 ok 4
        cas [4 5] ok [4 5]
        get nil ok 5""",
    "a register of pairs": """
        read nil ok nil
        write [1 2] ok [1 2]
        read nil ok [1 2]
        cas [[1 2] [3 4]] ok [[1 2] [3 4]]
        read nil ok (3 4)""",
    "a register of maps": """
        write {:a 1 "b" {2 3 4 5}} ok {"b" {2 3, 4 5}, :a 1}
        read nil ok {"b" {4 5, 2 3} :a 1}""",
    "a register of fractions": """
        write 0.0 ok 0.0
        read nil ok -0.0
        write 0.1M ok 0.1M
        read nil ok 0.1M""",
    "words that are no strings": r"""
        write \a ok \a
        read nil ok \a
        write :a ok :a
        read nil ok :a
        write a ok a
        read nil ok a
        write 1/2 ok 1/2
        read nil ok 1/2
        write #uuid "a" ok #uuid "a"
        read nil ok #uuid "a"
        write ":a" ok ":a"
        read nil ok "\u003aa"
        write {:a 1 1 2 "1" #{\b 3}} ok nil
        read nil ok {"1" #{3 \b} 1 2 :a 1}""",
    "records and vectors with tags": """
        write #a.B{:c [1 2]} ok #a.B{:c [1 2]}
        read nil ok {:c #d (1 2)}""",
    "registers with versions": """
        write [0 [nil 4]] ok [0 [1 4]]
        read [0 [nil nil]] ok [0 [1 4]]
        read [1 [nil nil]] ok [1 [nil nil]]
        cas [0 [nil [4 1]]] ok [0 [2 [4 1]]]
        read [0 [nil nil]] ok [0 [2 1]]""",
}

VIOLATED: dict[str, str] = {
    "a register of pairs": "read nil ok nil\nwrite [1 2] ok [1 2]\nread nil ok [1 3]",
    "a read of a log that finds nothing where an entry is": """
        append 10 ok [0 10]
        append 11 ok [1 11]
        read [1 nil] ok [1 nil]""",
    "the same by the bare offset": """
        append 10 ok [0 10]
        read 0 ok nil""",
    "the same by a read of everything": """
        append 10 ok [0 10]
        read nil ok []""",
    "another value at the offset that a read names": """
        append 10 ok [0 10]
        append 11 ok [1 11]
        read [1 nil] ok [1 10]""",
    "a set by key loses an element": "add [1 5] ok [1 5]\nread [1 nil] ok [1 #{}]",
    "a queue by key loses its order": """
        enqueue [1 5] ok [1 5]
        enqueue [1 6] ok [1 6]
        dequeue [1 nil] ok [1 6]""",
    "a queue is empty too early": "enqueue 5 ok 5\ndequeue nil ok :empty",
    "a store mixes keys": """
        put ["x" "1"] ok nil
        put ["y" "2"] ok nil
        get "x" ok "2\"""",
    "a register with a version": "write [0 [nil 4]] ok [0 [1 4]]\nread [0 [nil nil]] ok [0 [1 3]]",
}

SECOND = 1_000_000_000

ALIKE = {
    "a": r'"a" :a \a a #a "a" #"a" #b "a" "\\a" ":a" "\"a\""',
    "1": '1 "1" 1.0 true "true" \\1 #b 1 [1] 1/1 "1/1"',
    "of maps": '{:a 1} {"a" 1} {a 1} {:a "1"}',
    "of words": '##NaN "##NaN" NaN :NaN "nil" :nil',
}
"""Values that are spelled alike, of different kinds; tags and kinds stand before what they are of."""

UNDECIDED: dict[str, str] = {
    "long fork": "write [[:w 1 1]] ok [[:w 1 1]]\nread [[:r 1 nil] [:r 2 nil]] ok [[:r 1 1] [:r 2 nil]]",
    "a counter": "add 1 ok 1\nadd 1 ok 1\nread nil ok 2",
    "a bank": "transfer {:from 1 :to 2 :amount 3} ok {:from 1 :to 2 :amount 3}\nread nil ok {1 7, 2 13}",
    "identifiers": "generate nil ok 5",
    "a set that nobody could read": "add 5 ok 5\nread nil ok nil",
    "several registers": "txn [[:w :x 1] [:r :y nil]] ok [[:w :x 1] [:r :y 2]]",
}


def _edn(text: str) -> str:
    lines = []
    for line in text.strip().splitlines():
        f, rest = line.strip().split(" ", 1)
        asked, answered = rest.split(" ok ")
        lines.append(f"{{:process 0, :type :invoke, :f :{f}, :value {asked}}}")
        lines.append(f"{{:process 0, :type :ok, :f :{f}, :value {answered}}}")
    return "\n".join(lines)


def _cases() -> list[tuple[str, str, str]]:
    reported = (("holds", HOLDS), ("violated", VIOLATED), ("undecided", UNDECIDED))
    return [(name, text, verdict) for verdict, cases in reported for name, text in cases.items()]


@pytest.mark.parametrize(("name", "text", "verdict"), _cases())
def test_spelling(tmp_path: Path, name: str, text: str, verdict: str) -> None:
    path = tmp_path / "history.edn"
    path.write_text(_edn(text))
    source = open_run(path)
    found = check_model(source, model_of(source))
    assert found.verdict == verdict, (name, found.checks)
    if verdict == "undecided":
        assert (found.checks[0].reason or "").startswith("no rule for operations of other models: ")


@pytest.mark.parametrize("text", ALIKE.values(), ids=ALIKE)
def test_what_is_spelled_alike_is_told_apart(text: str) -> None:
    given = forms(text)
    assert len(given) > 3
    for words in (as_json, log_name):
        assert len({words(each) for each in given}) == len(given), [words(each) for each in given]


@pytest.mark.parametrize(
    ("times", "decided"),
    [
        ((10, 20, 21, 30), True),
        ((10, 20, 19.1, 30), True),  # a moment
        ((10, 20, 18.9, 30), False),  # recorded behind it, and began before it had ended
        ((10, 20, 8, 30), False),
        ((10, 8, 20, 30), False),  # ended before it began
        ((10, 20, 40, 30), False),
    ],
)
@pytest.mark.parametrize(("f", "asked", "given"), [("write", "7", "7"), ("append", "7", "[0 7]")])
def test_times_that_contradict_the_order(
    tmp_path: Path, f: str, asked: str, given: str, times: tuple[float, ...], decided: bool
) -> None:
    path, (read, nothing) = tmp_path / "history.edn", ("7", "nil") if f == "write" else ("[7]", "[]")
    values = [
        ("0", "invoke", f, asked),
        ("0", "ok", f, given),
        ("1", "invoke", "read", "nil"),
        ("1", "ok", "read", read),
    ]
    lines = [
        f"{{:process {process}, :type :{kind}, :f :{name}, :value {value}, :time {int(time * 1e9)}}}"
        for (process, kind, name, value), time in zip(values, times, strict=True)
    ]
    # By the order of the file; a log goes by the times.
    wrong = "holds" if f == "append" and times[2] < times[1] else "violated"
    for verdict, last in (("holds", lines[-1]), (wrong, lines[-1].replace(read, nothing))):
        path.write_text("\n".join([*lines[:-1], last]))
        source = open_run(path)
        found = check_model(source, model_of(source))
        assert found.verdict == (verdict if decided else "undecided")
        assert decided or any("time goes back" in (each.reason or "") for each in found.checks)


def test_operations_at_once_may_be_recorded_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    order = [(0, "invoke", 12 * SECOND), (1, "invoke", 10 * SECOND), (1, "ok", 25 * SECOND), (0, "ok", 20 * SECOND)]
    text = "{{:process {}, :type :{}, :f :write, :value 1, :time {}}}"
    path.write_text("\n".join(text.format(*each) for each in order))
    source = open_run(path)
    assert check_model(source, model_of(source)).verdict == "holds"
