"""`logwitness audit --follow`: what arrives is judged once it is complete."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from audit_tables import rows
from pyspark.sql import SparkSession
from test_audit import RUNS, same_verdicts

from logwitness.models import Limits
from logwitness.pipeline.run import audit_on


def once(condition: Callable[[], bool], then: Callable[[], None]) -> threading.Thread:
    """Do something in the background as soon as a condition holds, after a minute at the latest."""

    def wait() -> None:
        end = time.monotonic() + 60
        while not condition() and time.monotonic() < end:
            time.sleep(0.05)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_what_arrives_is_judged_when_it_is_complete(tmp_path: Path, spark: SparkSession) -> None:
    source, out = tmp_path / "incoming", tmp_path / "out"
    (source / "unfinished").mkdir(parents=True)
    shutil.copy(RUNS / "reference-jsonl" / "events.jsonl", source / "unfinished" / "events.jsonl.part")
    shutil.copytree(RUNS / "reference-default", source / "first")

    def arrive() -> None:
        shutil.copytree(RUNS / "mutant-vote-twice", tmp_path / "moved")
        (tmp_path / "moved").rename(source / "second")
        lines = (RUNS / "reference-jsonl" / "events.jsonl").read_bytes()
        with (source / "third.jsonl").open("wb") as file:
            for start in range(0, len(lines), len(lines) // 4 + 1):
                file.write(lines[start : start + len(lines) // 4 + 1])
                file.flush()
                time.sleep(0.4)

    thread = once(lambda: len(rows(out, "runs")) == 1, arrive)
    summary = audit_on(str(source), str(out), nullcontext(spark), Limits(), stop_after=3)
    thread.join()
    assert (summary.histories, summary.exit_status) == (3, 1)
    assert {Path(row["run"]).name for row in rows(out, "runs")} == {"first", "second", "third.jsonl"}
    assert [row["quarantined"] for row in rows(out, "runs")] == [0, 0, 0]
    assert same_verdicts(out) == 3
    # Nothing new: a follower that is started again has nothing to do and stops when it is idle.
    again = audit_on(str(source), str(out), nullcontext(spark), Limits(), idle=1.5)
    assert (again.judged, again.histories) == (0, 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, spark: SparkSession, number: signal.Signals) -> None:
    source, out = tmp_path / "incoming", tmp_path / "out"
    shutil.copytree(RUNS / "reference-default", source / "first")
    thread = once(lambda: (out / "summary.json").exists(), lambda: os.kill(os.getpid(), number))
    summary = audit_on(str(source), str(out), nullcontext(spark), Limits())
    thread.join()
    assert (summary.histories, summary.exit_status) == (1, 0)
    assert not list(out.glob("_*"))
