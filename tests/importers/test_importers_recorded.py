"""`logwitness check` gives the recorded histories of other systems their published verdicts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import linearizability_checker
from loghistory import open_run
from loghistory.exporters import write_jepsen_json
from loghistory.run import write_file
from logwitness.cli import main

pytestmark = pytest.mark.slow

RECORDED = Path(__file__).parents[1] / "recorded"
COMMAND = [sys.executable, "-c", "from logwitness.cli import main; main()", "check"]
ETCD_LINEARIZABLE = ["005", "007", "025", "031", "045", "049", "051", "053", "067", "075", "087", "101"]


def _check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)], prog_name="logwitness")


def _process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [*COMMAND, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def _published(path: Path) -> str:
    if path.parent.name == "jepsen-etcd":
        fine = path.stem.removeprefix("etcd_") in ETCD_LINEARIZABLE
    elif path.parent.parent.name == "jepsen-cas-register":
        fine = path.parent.name == "good"
    else:
        fine = path.stem == "good" or path.stem.endswith("-ok")
    return "holds" if fine else "violated"


@pytest.fixture(scope="module")
def judged() -> dict[str, dict[str, Any]]:
    """What one command says about the whole directory, by file."""
    done = _check("--json", "-v", RECORDED)
    assert done.exit_code == 1, done.stderr
    assert "README.md: no history, skipped" in done.stderr
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    return {str(Path(each["file"]).relative_to(RECORDED)): each for each in documents}


def test_every_file_has_its_published_verdict(judged: dict[str, dict[str, Any]]) -> None:
    files = [path for path in RECORDED.rglob("*") if path.is_file() and path.name != "README.md"]
    assert len(files) == len(judged) == 92
    for path in files:
        found = judged[str(path.relative_to(RECORDED))]
        # 095 is empty and has no published verdict.
        assert found["verdict"] == ("unreadable" if path.stem == "etcd_095" else _published(path)), path


def test_anomalies_have_the_names_of_the_table(judged: dict[str, dict[str, Any]]) -> None:
    assert judged["jepsen-kafka/good.edn"]["anomalies"] == []
    assert judged["jepsen-kafka/inconsistent-offsets.edn"]["anomalies"] == ["inconsistent offset"]
    # Value 3 was sent after 4 was acknowledged at offset 3, and is at offset 2.
    assert judged["jepsen-kafka/lost-write.edn"]["anomalies"] == ["lost write", "real-time inversion"]
    (lost,) = (each for each in judged["jepsen-kafka/lost-write.edn"]["checks"] if each["id"] == "lost-write")
    assert lost["violated"] == 2
    assert judged["kv/c01-bad.txt"]["anomalies"] == ["not linearizable"]


@pytest.mark.parametrize(
    "name",
    [
        "jepsen-kafka/good.edn",
        "jepsen-kafka/lost-write.edn",
        "kv/c01-bad.txt",
        "kv/c10-ok.txt",
        "jepsen-etcd/etcd_001.log",
        "jepsen-cas-register/bad/cas-failure.edn",
        "jepsen-cas-register/good/mongodb-v0-ack-rollback-9.edn",
    ],
)
def test_an_exported_history_is_the_same_when_it_is_imported(tmp_path: Path, name: str) -> None:
    source = open_run(RECORDED / name)
    exported = tmp_path / "exported.json"
    assert write_jepsen_json(exported, source.batches()) > 0
    again = open_run(exported)
    assert str(again.format) == "jepsen-json"
    assert again.table().to_pylist() == source.table().to_pylist()  # chunks and dictionaries may differ
    # And as a file of ours: the model is told from the operations.
    write_file(tmp_path / "ours.parquet", source.batches())
    for path in (exported, tmp_path / "ours.parquet"):
        done = _check("--json", path)
        assert json.loads(done.stdout)["verdict"] == _published(RECORDED / name), done.stderr


def test_a_violation_explains_where_the_search_stops() -> None:
    text = " ".join(_check(RECORDED / "jepsen-cas-register/bad/bad-analysis.edn").stdout.split())
    assert "places 6, ends with client 20's write 1 of unknown outcome (then it holds 1)" in text
    assert "has no place for client 21's read that answered 2" in text


def test_the_initial_value_may_be_said() -> None:
    path = RECORDED / "jepsen-etcd/etcd_005.log"
    assert _check("--initial", "null", path).exit_code == 0
    assert _check("--initial", "4", path).exit_code == 1


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    """Forty concurrent writes, then answers that nobody can explain: the search has no end."""
    path = tmp_path / "hard.edn"
    calls = [(process, f":f :write, :value {process}") for process in range(40)]
    calls += [(process, f":f :cas, :value [{process - 40} {process}]") for process in range(40, 60)]
    lines = [f"{{:process {process}, :type :{kind}, {rest}}}" for kind in ("invoke", "ok") for process, rest in calls]
    lines += ["{:process 99, :type :invoke, :f :read}", "{:process 99, :type :ok, :f :read, :value 1000}"]
    path.write_text("\n".join(lines))
    return path


def test_a_search_that_takes_too_long_is_undecided(hard: Path) -> None:
    done = _check("--json", "--timeout", "0.5", hard)
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert found["verdict"] == "undecided"
    assert "--timeout" in found["checks"][0]["reason"]


def _copied_without_its_worker(place: Path) -> None:
    ignored = shutil.ignore_patterns("porcupine-worker*")
    shutil.copytree(Path(linearizability_checker.__file__).parent, place / "linearizability_checker", ignore=ignored)


def _not_installed(place: Path) -> None:
    (place / "linearizability_checker").mkdir()  # as a folder of that name in a checkout: a package of nothing
    (place / "linearizability_checker" / "__init__.py").touch()


@pytest.mark.parametrize(
    ("as_if", "sentence"),
    [
        (_not_installed, "Porcupine is not installed: install the extra, pip install 'logwitness[porcupine]'"),
        (_copied_without_its_worker, "is missing: install linearizability-checker with pip"),
    ],
)
def test_a_missing_worker_is_one_sentence(
    as_if: Callable[[Path], None], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = _process("--json", RECORDED / "kv/c01-ok.txt")
    assert done.returncode == 3
    assert sentence in json.loads(done.stdout)["checks"][0]["reason"]
    # Everything else works, a set too.
    (tmp_path / "set.edn").write_text(
        "".join(f"{{:process 0 :type :{kind} :f :add :value 1}}\n" for kind in ("invoke", "ok"))
        + "{:process 0 :type :invoke :f :read}\n{:process 0 :type :ok :f :read :value #{1}}\n"
    )
    assert _process(RECORDED / "jepsen-kafka/good.edn", tmp_path / "set.edn").returncode == 0


def test_operations_that_no_model_knows_are_undecided(tmp_path: Path) -> None:
    path = tmp_path / "txn.edn"
    path.write_text(
        "{:process 0 :type :invoke :f :txn :value [[:w 1 2] [:r 1 nil]]}\n"
        "{:process 0 :type :ok :f :txn :value [[:w 1 2] [:r 1 2]]}\n"
    )
    done = _check("--json", path)
    assert done.exit_code == 3
    assert "txn" in json.loads(done.stdout)["checks"][0]["reason"]
