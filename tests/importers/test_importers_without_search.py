"""Sets, queues and unknown writes: what is known without a search is what trying every order says."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from plain_search import linearizable
from small_histories import random_history

import linearizability_checker
from linearizability_checker import FAILED, MODELS, QUEUE, SET, UNKNOWN, Model
from linearizability_checker import Operation as Searched
from loghistory import open_run
from logwitness.models import check_model, model_of
from logwitness.models.operations import Operation, Unanswered
from logwitness.models.sets_and_queues import decide_queue, decide_set
from logwitness.models.unknown_writes import bounded


def _of_set(rng: random.Random, held: set[int], value: int) -> tuple[tuple[Any, ...], Any]:
    """What is asked of a set, and what it answers."""
    f = rng.choice(["add", "add", "add", "read", "contains"])
    if f == "read":
        return (f,), sorted(held)
    asked = value if f == "add" and rng.random() < 0.8 else rng.randrange(value + 1)
    if f == "contains":
        return (f, asked), asked in held
    held.add(asked)
    return (f, asked), None


def _of_queue(rng: random.Random, held: list[int], value: int) -> tuple[tuple[Any, ...], Any]:
    if rng.random() < 0.5:
        held.append(value)
        return ("enqueue", value), None
    return ("dequeue",), held.pop(0) if held else None


def _judged(operations: list[Searched]) -> list[Operation]:
    """The operations as the checker has them."""
    found = []
    for each in operations:
        output: Any = each.output
        if isinstance(output, linearizability_checker.Outcome):
            output = Unanswered(output.value)
        found.append(Operation(each.process, each.call, each.return_, each.input, output))
    return found


def _searched(operations: list[Operation]) -> list[Searched]:
    """The operations as what tries every order has them."""
    found = []
    for each in operations:
        output: Any = each.output
        if isinstance(output, Unanswered):
            output = linearizability_checker.Outcome(output.value)
        found.append(Searched(each.process, each.call, each.return_, each.input, output))
    return found


def _history(rng: random.Random, model: Model) -> list[Searched]:
    """Operations around the moments at which they took effect, one of them perhaps spoilt; all times differ."""
    held: Any = set() if model is SET else []
    stretch = rng.choice([5, 60, 200, 400])
    operations, times = [], []
    for value, moment in enumerate(sorted(rng.sample(range(1000), rng.randint(2, 8)))):
        fate = rng.random()
        changed = type(held)(held)
        asked, answer = (_of_set if model is SET else _of_queue)(rng, changed, value)
        if fate > 0.1:
            held = changed  # else it had no effect
        if fate < 0.05:
            answer = FAILED
        elif fate < 0.2:
            answer = UNKNOWN
        operations.append(Searched(rng.randrange(4), 0, 0, asked, answer))
        times.append([moment - rng.random() * stretch, moment + rng.random() * stretch])
    spoilt = rng.randrange(2 * len(operations))
    if spoilt < len(operations) and operations[spoilt].output not in (UNKNOWN, FAILED):
        one = operations[spoilt]
        if isinstance(one.output, list):
            one.output = sorted({*one.output} ^ {rng.randrange(8)}, key=str)
        elif one.input[0] == "contains":
            one.output = not one.output
        elif one.input[0] == "dequeue":
            one.output = rng.choice([None, *range(8)])
        else:
            late = rng.choice([-500, 500]) * rng.random()
            times[spoilt] = [each + late for each in times[spoilt]]
    order = {time: place for place, time in enumerate(sorted(time for both in times for time in both))}
    for one, (call, end) in zip(operations, times, strict=True):
        one.call = order[call]
        one.return_ = None if one.output is UNKNOWN and rng.random() < 0.5 else order[end]
    return operations


def _compare(model: Model, number: int) -> None:
    rng = random.Random(f"{model.name} {number}")
    decide = decide_set if model is SET else decide_queue
    answers = []
    for _ in range(number):
        operations = _history(rng, model)
        answer = decide(_judged(operations))
        if answer is not None:
            answers.append(answer == ())
            assert answers[-1] == linearizable(model, operations), operations
    assert len(answers) > 0.98 * number
    assert 0.1 < sum(answers) / number < 0.9


@pytest.mark.parametrize("model", [SET, QUEUE])
def test_sets_and_queues(model: Model) -> None:
    _compare(model, 2000)


@pytest.mark.long
@pytest.mark.parametrize("model", [SET, QUEUE])
def test_many_sets_and_queues(model: Model) -> None:
    _compare(model, 200_000)


@pytest.mark.parametrize("name", ["cas-register", "key-value"])
def test_writes_that_are_known_better_change_no_answer(name: str) -> None:
    rng = random.Random(f"{name} 3")
    changed = 0
    for _ in range(1000):
        operations = random_history(rng, MODELS[name], 7)
        for each in operations:
            if each.output is False:
                each.output = FAILED
            elif each.output is not FAILED and each.input[0] in ("write", "put", "cas") and rng.random() < 0.3:
                each.output = UNKNOWN
            if each.input[0] == "write" and rng.random() < 0.5:
                each.input = ("write", rng.choice([None, *range(7)]))
        known = _searched(bounded(_judged(operations), [None], by_key=name == "key-value"))
        changed += known != operations
        assert linearizable(MODELS[name], known) == linearizable(MODELS[name], operations), operations
    assert changed > 300


def test_a_read_that_returns_an_element_twice_is_no_set() -> None:
    add, read = Operation(0, 0, 1, ("add", 3), None), Operation(1, 2, 3, ("read",), [3, 3])
    assert decide_set([add, read])
    read.output = [3]
    assert decide_set([add, read]) == ()


def _line(kind: str, process: int, f: str, value: object) -> str:
    return f"{{:type :{kind}, :process {process}, :f :{f}, :value {value}}}\n"


@pytest.mark.parametrize("lost", [False, True])
def test_a_long_history_of_a_set_is_decided(tmp_path: Path, lost: bool) -> None:
    rng = random.Random(3)
    lines, there, clients, acknowledged = [], [], count(10), 0
    for value in range(3000):
        kind = rng.choices(["ok", "fail", "info"], [18, 1, 1])[0]
        process = next(clients)
        lines += [_line("invoke", process, "add", value), _line(kind, process, "add", value)]
        if kind == "ok" or (kind == "info" and rng.random() < 0.5):
            there.append(value)
        acknowledged = value if kind == "ok" else acknowledged
    if lost:
        there.remove(acknowledged)
    lines += [_line("invoke", 1, "read", "nil"), _line("ok", 1, "read", f"#{{{' '.join(map(str, there))}}}")]
    path = tmp_path / "history.edn"
    path.write_text("".join(lines))
    verdict = check_model(open_run(path), model_of(open_run(path)))
    assert verdict.exit_status == lost
    if lost:
        (violation,) = verdict.checks[0].violations
        assert f"the add of {acknowledged} was over before it can have taken effect" in violation.sentence
        assert 2 <= len(violation.events) <= 6


@pytest.mark.parametrize(
    ("drained", "sentence"), [("4 5", ""), ("4", "found empty while 5"), ("4 5 4", "4 was dequeued twice")]
)
def test_a_drain_returns_all_that_is_left(tmp_path: Path, drained: str, sentence: str) -> None:
    lines = [_line(kind, 1, "enqueue", value) for value in (4, 5) for kind in ("invoke", "ok")]
    lines += [_line("invoke", 2, "drain", "nil"), _line("ok", 2, "drain", f"[{drained}]")]
    path = tmp_path / "history.edn"
    path.write_text("".join(lines))
    verdict = check_model(open_run(path), model_of(open_run(path)))
    assert verdict.exit_status == bool(sentence)
    assert all(sentence in each.sentence for each in verdict.checks[0].violations)


def test_a_long_history_of_a_queue_is_decided(tmp_path: Path) -> None:
    rng = random.Random(5)
    lines, held = [], []
    for value in range(4000):
        f = rng.choice(["enqueue", "enqueue", "dequeue"])
        kind = rng.choices(["ok", "info"], [49, 1])[0]
        lines.append(_line("invoke", value, f, value if f == "enqueue" else "nil"))
        answer: object = value
        if f == "enqueue":
            held.append(value)
        elif not held:
            kind, answer = "fail", ":empty"
        else:
            answer = held.pop(0)
        lines.append(_line(kind, value, f, answer if kind == "ok" or f == "enqueue" else "nil"))
    path = tmp_path / "history.edn"
    path.write_text("".join(lines))
    assert check_model(open_run(path), model_of(open_run(path))).exit_status == 0
    # Two values that were enqueued one after the other change places.
    first, second = [place for place, line in enumerate(lines) if ":ok" in line and "dequeue" in line][-2:]
    lines[first], lines[second] = (
        lines[one].split(":value")[0] + ":value" + lines[other].split(":value")[1]
        for one, other in ((first, second), (second, first))
    )
    path.write_text("".join(lines))
    verdict = check_model(open_run(path), model_of(open_run(path)))
    assert verdict.exit_status == 1
    assert "was enqueued after" in verdict.checks[0].violations[0].sentence


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ("1 2 3", "holds"),  # each repeats what was added
        ("1 9 3", "undecided"),  # which of them was it?
        ("1 nil true", "holds"),
        ("7 8 9", "holds"),  # numbers of its own
        ("1 9 nil", "undecided"),
    ],
)
@pytest.mark.parametrize(("f", "asks"), [("add", "read"), ("enqueue", "drain")])
def test_an_answer_that_repeats_another_value_is_doubted(
    tmp_path: Path, f: str, asks: str, answers: str, verdict: str
) -> None:
    lines = []
    for value, answer in enumerate(answers.split(), 1):
        lines += [_line("invoke", 1, f, value), _line("ok", 1, f, answer)]
    lines += [_line("invoke", 2, asks, "nil"), _line("ok", 2, asks, "[1 2 3]")]
    path = tmp_path / "history.edn"
    path.write_text("".join(lines))
    (found,) = check_model(open_run(path), model_of(open_run(path))).checks
    assert found.verdict == verdict
    if verdict == "undecided":
        assert found.reason == f"1 answer to {f} (seq 3) repeats another value than was asked for"
    # What no order explains stays violated.
    path.write_text("".join(lines).replace("[1 2 3]", "[1 1 2 3]"))
    (found,) = check_model(open_run(path), model_of(open_run(path))).checks
    assert found.verdict == "violated"
