"""What an audit could not decide for want of Porcupine is judged by the next one that has it."""

from __future__ import annotations

import shutil
from pathlib import Path

from audit_tables import Auditor, rows
from pyspark.sql import SparkSession
from test_audit import FOREIGN, RUNS


def test_porcupine_comes_later(tmp_path: Path, spark: SparkSession, audited: Auditor) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(FOREIGN / "jepsen-cas-register" / "bad" / "cas-failure.edn", tmp_path / "in")
    shutil.copy(FOREIGN / "jepsen-kafka" / "good.edn", tmp_path / "in")
    # Nobody says which nodes vote: undecided too, and Porcupine has no part in it.
    shutil.copy(RUNS / "reference-jsonl" / "events.jsonl", tmp_path / "in" / "unknown-voters.jsonl")
    (tmp_path / "shadow" / "linearizability_checker").mkdir(parents=True)
    (tmp_path / "shadow" / "linearizability_checker" / "__init__.py").touch()
    environment = spark.sparkContext.environment
    assert "PYTHONPATH" not in environment
    environment["PYTHONPATH"] = str(tmp_path / "shadow")
    try:
        audited(tmp_path / "in", tmp_path / "out")
        assert audited(tmp_path / "in", tmp_path / "out").judged == 1
    finally:
        del environment["PYTHONPATH"]
    (undecided,) = (row for row in rows(tmp_path / "out", "verdicts") if row["check"] == "linearizable")
    assert (undecided["verdict"], "Porcupine" in undecided["reason"]) == ("undecided", True), undecided["reason"]
    assert audited(tmp_path / "in", tmp_path / "out").judged == 1
    (decided,) = (row for row in rows(tmp_path / "out", "verdicts") if row["check"] == "linearizable")
    assert decided["verdict"] == "violated"
    assert audited(tmp_path / "in", tmp_path / "out").judged == 0
