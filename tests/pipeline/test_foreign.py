"""Histories of other systems: an audit judges each as `logwitness check --lenient` does, whatever form it is in."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from audit_tables import Auditor, rows

from loghistory import open_run
from loghistory.run import write_file
from logwitness.models import check_model, model_of
from logwitness.models.anomalies import NAMES, anomalies

RECORDED = Path(__file__).parents[1] / "recorded"


def _written(path: Path, *operations: str) -> None:
    """Each operation is `f, asked, answered`: one client, one after the other."""
    lines = []
    for operation in operations:
        f, asked, answered = operation.split(", ")
        lines.append(f"{{:process 0, :type :invoke, :f :{f}, :value {asked}}}\n")
        lines.append(f"{{:process 0, :type :ok, :f :{f}, :value {answered}}}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that was recorded, and one of each sort that is judged by a model of its own."""
    place = tmp_path_factory.mktemp("foreign")
    shutil.copytree(RECORDED, place / "recorded", ignore=shutil.ignore_patterns("README.md"))
    _written(place / "lists.edn", "append, 1, 1", "append, 2, 2", "read, nil, [2 1]")
    _written(place / "stale.edn", "append, 1, 1", "append, 2, 2", "read, nil, [1 2]", "read, nil, [1]")
    _written(
        place / "transactions.edn",
        "txn, [[:append 1 1] [:append 1 2]], [[:append 1 1] [:append 1 2]]",
        "txn, [[:r 1 nil]], [[:r 1 [1]]]",
    )
    keys = range(300)
    appends = [f"append, [{key} 1], [{key} 1]" for key in keys]
    lost = [f"read, [{key} nil], [{key} [{'1' if key != 17 else ''}]]" for key in keys]
    _written(place / "many.edn", *appends, *lost)
    _written(place / "set.edn", "add, 1, 1", "read, nil, #{}")
    _written(place / "queue.edn", "enqueue, 1, 1", "enqueue, 2, 2", "dequeue, nil, 2")
    _written(place / "counter.edn", "add, 1, 1", "read, nil, 1")
    # And as events in our own format.
    for name in ("lists", "many"):
        write_file(place / f"{name}.parquet", open_run(place / f"{name}.edn").batches())
    return place


def test_an_audit_says_what_check_says(source: Path, tmp_path: Path, audited: Auditor) -> None:
    audited(source, tmp_path / "out")
    violated: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows(tmp_path / "out", "verdicts"):
        if row["violated"]:
            violated[row["run"]].append(row["check"])
    seen = {}
    for run in rows(tmp_path / "out", "runs"):
        path = Path(run["run"])
        if not path.stat().st_size:  # nothing was recorded in it
            assert run["verdict"] == "unreadable"
            seen[path.name] = run["model"], run["verdict"], []
            continue
        history = open_run(path, lenient=True, quarantine=tmp_path / "quarantine.jsonl")
        expected = check_model(history, model_of(history))
        names = [NAMES[check] for check in violated[run["run"]]]
        assert run["verdict"] == expected.verdict, path
        assert set(violated[run["run"]]) == {each.id for each in expected.checks if each.violated}, path
        assert set(anomalies(expected.checks)) <= set(names), path
        seen[path.name] = run["model"], run["verdict"], names
    assert len(seen) == 92 + 9
    for name in ("lists.edn", "lists.parquet", "many.edn", "many.parquet", "stale.edn", "transactions.edn"):
        assert seen[name][:2] == ("list-append", "violated"), name
    assert seen["many.parquet"] == seen["many.edn"] == ("list-append", "violated", ["unseen"])
    assert seen["lists.parquet"] == seen["lists.edn"]
    assert seen["counter.edn"][1] == "undecided"
