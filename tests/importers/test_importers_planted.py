"""Histories of every form whose verdict is known by construction: what is planted is named, and nothing else is."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from logs_of_clients import PLANTED, Appends, Kafka, planted
from plain_search import linearizable
from small_histories import random_history
from written import FORMS, LOSSY, Map, Text, written

from linearizability_checker import FAILED, MODELS, UNKNOWN, Operation
from linearizability_checker import Model as Specification
from loghistory import SCHEMA, open_run
from loghistory.exporters import write_jepsen_json
from logwitness.commands import check_command
from logwitness.models import Limits, Model, check_model, model_of
from logwitness.models.anomalies import anomalies

SEEDS = range(4)


def _written(path: Path, maps: list[Map], form: str) -> Path:
    path.write_bytes(written(maps, form))
    return path


def _named(path: Path) -> list[str]:
    source = open_run(path)
    return anomalies(check_model(source, model_of(source)).checks)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_history(tmp_path: Path, form: str) -> None:
    maps = planted(Kafka, 1, None)
    if form in LOSSY:
        maps = [each for each in maps if "seek-to-beginning?" not in each]
    expected = open_run(_written(tmp_path / "expected", maps, "EDN, a map a line")).table()
    found = open_run(_written(tmp_path / "history", maps, form)).table()
    timeless = [name for name in SCHEMA.names if name != "time"]
    assert found.select(timeless).equals(expected.select(timeless))
    assert found.column("time").equals(expected.column("time")) or form in LOSSY | {"EDN, without times"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [Kafka, Appends])
def test_what_holds_by_construction_holds(tmp_path: Path, kind: type[Kafka] | type[Appends], seed: int) -> None:
    path = _written(tmp_path / "history", planted(kind, seed, None), "EDN, a map a line")
    verdict = check_model(open_run(path), Model.KAFKA if kind is Kafka else Model.LOG)
    assert verdict.exit_status == 0
    assert not anomalies(verdict.checks)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "anomaly"), PLANTED)
def test_one_anomaly_is_named_and_no_other(
    tmp_path: Path, kind: type[Kafka] | type[Appends], anomaly: str, seed: int
) -> None:
    path = _written(tmp_path / "history", planted(kind, seed, anomaly), "EDN, a map a line")
    assert sorted(_named(path)) == sorted(PLANTED[kind, anomaly])
    # And as it is exported.
    again = tmp_path / "again.json"
    write_jepsen_json(again, open_run(path).batches())
    assert sorted(_named(again)) == sorted(PLANTED[kind, anomaly])


def test_a_whole_directory_of_forms_and_anomalies(tmp_path: Path) -> None:
    forms = sorted(set(FORMS) - LOSSY)
    chosen = random.Random(7)
    expected: dict[str, list[str]] = {}
    for place, ((kind, anomaly), names) in enumerate(PLANTED.items()):
        for planted_, found in ((anomaly, names), (None, [])):
            form = chosen.choice(forms)
            maps = planted(kind, place, planted_)
            if kind is Appends and form.startswith("EDN, without"):
                form = "EDN, one vector"
            suffix = ".json" if "JSON" in form else ".edn"
            suffix += ".gz" if "gzip" in form else ".zst" if "zstd" in form else ""
            place_of = tmp_path / f"{kind.__name__}" / ("good" if planted_ is None else "bad")
            place_of.mkdir(parents=True, exist_ok=True)
            path = _written(place_of / f"{anomaly.replace(' ', '-')}{suffix}", maps, form)
            expected[str(path)] = found
    (tmp_path / "README.md").write_text("# Nothing\n0 :invoke :read nil\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "archive.tar.gz").write_bytes(b"\x1f\x8b nothing")
    done = CliRunner().invoke(check_command, ["--json", str(tmp_path)], standalone_mode=False)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["file"]: sorted(each["anomalies"]) for each in documents} == {
        path: sorted(names) for path, names in expected.items()
    }
    assert all(each["verdict"] == ("violated" if each["anomalies"] else "holds") for each in documents)
    assert done.return_value == 1
    assert "3 skipped" in done.stderr


# Registers, key-value stores, sets and queues: the whole way from a file to the verdict, against brute force.


def _words(model: Specification, operation: Operation) -> dict[str, Any]:
    """The operation as a map has it: f, value and maybe the key; and what its answer is."""
    name, *arguments = operation.input
    key: dict[str, Any] = {}
    if model.name == "key-value":
        key = {"key": Text(arguments[0])}
        arguments = [Text(each) for each in arguments[1:]]
    output = operation.output
    asked = None if not arguments else arguments[0] if len(arguments) == 1 else arguments
    if output in (UNKNOWN, FAILED):
        kind, answer = ("info" if output is UNKNOWN else "fail"), asked
    elif name == "cas":
        kind, answer = ("ok" if output else "fail"), asked
    elif name in ("read", "get", "dequeue", "contains"):
        kind, answer = "ok", Text(output) if isinstance(output, str) else output
        answer = set(output) if isinstance(output, list) else answer
    else:
        kind, answer = "ok", asked
    if isinstance(output, bool) and name in ("add", "remove"):
        operation.output = None  # maps do not say it
    return {"f": name, "asked": asked, "kind": kind, "answer": answer, "key": key}


def _as_maps(model: Specification, operations: list[Operation]) -> list[Map]:
    """The operations of the history as maps in the order of their times, each by a client of its own."""
    events: list[tuple[int, int, int, Map]] = []
    for process, operation in enumerate(operations):
        words = _words(model, operation)
        common = {"process": process, "f": words["f"], **words["key"]}
        # Equal times are concurrent: invocations come first.
        events.append((operation.call, 0, process, {"type": "invoke", "value": words["asked"], **common}))
        if operation.return_ is not None or operation.output is FAILED:
            ended = {"type": words["kind"], "value": words["answer"], **common}
            events.append((99 if operation.return_ is None else operation.return_, 1, process, ended))
    return [each for _, _, _, each in sorted(events, key=lambda event: event[:3])]


@pytest.mark.parametrize("name", ["cas-register", "key-value", "set", "queue"])
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_small_histories_against_brute_force(tmp_path: Path, name: str, part: int) -> None:
    model = MODELS[name]
    rng = random.Random(f"{name} 2{part}")
    answers = []
    for number in range(100):
        operations = random_history(rng, model)
        # A compare-and-set that found another value is told as failed, and then says no more than that.
        for operation in operations:
            if operation.input[0] == "cas" and operation.output is False:
                operation.output = FAILED
        form = rng.choice(sorted(FORMS) if name != "key-value" else sorted(set(FORMS) - LOSSY))
        path = _written(tmp_path / f"{number}", _as_maps(model, operations), form)
        if not any(each.return_ is not None and each.output is not FAILED for each in operations):
            continue  # what nobody was told says nothing
        expected = linearizable(model, operations)
        source = open_run(path)
        chosen = "kv" if name == "key-value" else name
        verdict = check_model(source, Model(chosen), limits=Limits(initial=None, given=True))
        assert verdict.verdict in ("holds", "violated")
        assert (verdict.verdict == "holds") == expected, (number, form, path.read_bytes())
        answers.append(expected)
    assert 5 < sum(answers) < len(answers) - 5


@pytest.mark.long(6)
@pytest.mark.parametrize(("kind", "anomaly"), [*PLANTED, (Kafka, None), (Appends, None)])
def test_many_seeds(tmp_path: Path, kind: type[Kafka] | type[Appends], anomaly: str | None) -> None:
    expected = sorted(PLANTED[kind, anomaly]) if anomaly is not None else []
    for seed in range(100, 300):
        path = _written(tmp_path / "history", planted(kind, seed, anomaly), "EDN, a map a line")
        assert sorted(_named(path)) == expected, seed
