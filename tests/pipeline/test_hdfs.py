"""An audit of histories on a real HDFS, with its results there: name node and data node run on this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from audit_tables import Auditor, rows, tables
from hdfs_cluster import Hdfs, free_port, running_hdfs
from pyspark.sql import SparkSession
from test_audit import FOREIGN, RUNS
from test_follow import once
from test_hadoop import without_places
from test_killed import COMMAND

from loghistory import HistoryError
from logwitness.models import Limits
from logwitness.pipeline.run import audit_on
from logwitness.pipeline.tables import SMALL_EVENTS, TABLES

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def hdfs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with running_hdfs(tmp_path_factory.mktemp("hdfs") / "cluster", spark) as running:
        yield running


@pytest.fixture
def source(tmp_path: Path, hdfs: Hdfs) -> Iterator[tuple[Path, str]]:
    """The same histories here and there, where a directory of the test's own is at hand."""
    here, there = tmp_path / "in", f"/all/{tmp_path.name}"
    for name in ("reference-default", "reference-parquet", "mutant-vote-twice", "cluster-all-faults"):
        shutil.copytree(RUNS / name, here / "ours [1]" / name)
    shutil.copytree(FOREIGN / "jepsen-kafka", here / "kafka")
    (here / "bad.jsonl").write_bytes((RUNS / "reference-jsonl" / "events.jsonl").read_bytes()[:-20])
    hdfs.make(there)
    hdfs.put(here, f"{there}/in")
    yield here, there
    hdfs.system.delete(hdfs.path(there), True)


def test_both_are_on_hdfs(
    tmp_path: Path, spark: SparkSession, hdfs: Hdfs, source: tuple[Path, str], audited: Auditor
) -> None:
    here, there = source
    place, out = f"{hdfs.uri}{there}/in", f"{hdfs.uri}{there}/out"
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    settings.set("dfs.replication", "2")  # a setting of the session, which holds in tasks against what is there
    spark.sparkContext.environment["HADOOP_CONF_DIR"] = str(hdfs.configuration)
    try:
        summary = audited(place, out, large=12_000)
    finally:
        settings.unset("dfs.replication")
        del spark.sparkContext.environment["HADOOP_CONF_DIR"]
    assert summary.exit_status == 1
    assert audited(here, tmp_path / "out", large=12_000).judged == summary.judged
    found = tables(hdfs.get(f"{there}/out", tmp_path / "got"))
    assert without_places(found, place) == without_places(tables(tmp_path / "out"), str(here))
    assert not hdfs.matching(f"{there}/out/_*")
    parts = [status for name in (*TABLES, SMALL_EVENTS) for status in hdfs.matching(f"{there}/out/{name}/*")]
    assert {status.getReplication() for status in parts} == {2}
    again = audited(place, out, large=12_000)
    assert (again.judged, again.unchanged) == (0, again.seen)
    # One changes: its old rows go, the new ones come.
    hdfs.put(RUNS / "reference-jsonl" / "events.jsonl", f"{there}/in/bad.jsonl")
    assert audited(place, out, large=12_000).judged == 1
    assert not rows(hdfs.get(f"{there}/out", tmp_path / "changed"), "quarantine")


def test_killed_and_started_again(tmp_path: Path, hdfs: Hdfs, source: tuple[Path, str], audited: Auditor) -> None:
    _, there = source
    place, out = f"{hdfs.uri}{there}/in", f"{hdfs.uri}{there}/out"
    scratch = os.environ | {"TMPDIR": str(tmp_path)}  # it will not be there to clear up
    process = subprocess.Popen([*COMMAND, place, out], stderr=subprocess.PIPE, start_new_session=True, env=scratch)
    assert process.stderr is not None
    end = time.monotonic() + 120
    while not hdfs.matching(f"{there}/out/_rounds/*/*/*/*.parquet") and time.monotonic() < end:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert not hdfs.matching(f"{there}/out/runs/*")
    audited(place, out)
    audited(place, f"{hdfs.uri}{there}/other")
    assert tables(hdfs.get(f"{there}/out", tmp_path / "out")) == tables(hdfs.get(f"{there}/other", tmp_path / "other"))
    assert audited(place, out).judged == 0


def test_what_arrives_is_judged(tmp_path: Path, spark: SparkSession, hdfs: Hdfs, source: tuple[Path, str]) -> None:
    _, there = source
    hdfs.make(f"{there}/incoming")
    hdfs.put(RUNS / "reference-jsonl", f"{there}/incoming/first")
    out = f"{hdfs.uri}{there}/out"

    def arrive() -> None:
        hdfs.put(RUNS / "mutant-vote-twice", f"{there}/moved")
        hdfs.system.rename(hdfs.path(f"{there}/moved"), hdfs.path(f"{there}/incoming/second"))
        hdfs.put(FOREIGN / "jepsen-kafka" / "good.edn", f"{there}/incoming/third.edn")

    thread = once(lambda: bool(hdfs.matching(f"{there}/out/summary.json")), arrive)
    summary = audit_on(f"{hdfs.uri}{there}/incoming", out, nullcontext(spark), Limits(), stop_after=3, idle=60)
    thread.join()
    assert (summary.histories, summary.judged, summary.exit_status) == (3, 3, 1)
    found = {Path(row["run"]).name for row in rows(hdfs.get(f"{there}/out", tmp_path / "out"), "runs")}
    assert found == {"first", "second", "third.edn"}
    with pytest.raises(HistoryError, match="not a directory"):
        audit_on(f"{hdfs.uri}{there}/incoming/third.edn", out, nullcontext(spark), Limits())


def test_what_cannot_be_read_is_told_and_looked_at_again(
    tmp_path: Path, hdfs: Hdfs, source: tuple[Path, str], audited: Auditor
) -> None:
    _, there = source
    place, out = f"{hdfs.uri}{there}/in", tmp_path / "out"
    hdfs.system.delete(hdfs.path(f"{there}/in/ours [1]/cluster-all-faults"), True)
    hdfs.chmod(f"{there}/in/kafka/good.edn", 0o000)
    hdfs.chmod(f"{there}/in/ours [1]/mutant-vote-twice/events.jsonl.zst", 0o000)
    (tmp_path / "empty.edn").touch()
    hdfs.put(tmp_path / "empty.edn", f"{there}/in/empty.edn")
    stream = hdfs.system.create(hdfs.path(f"{there}/in/growing.edn"), True)
    lines = (FOREIGN / "jepsen-kafka" / "good.edn").read_bytes().splitlines(keepends=True)
    stream.write(b"".join(lines[:2]))
    stream.hflush()
    stream.write(b"".join(lines[2:]))
    stream.hflush()  # of this one the name node does not hear
    summary = audited(place, out)
    assert (summary.exit_status, summary.skipped) == (1, 1)
    errors = {
        row["run"].removeprefix(f"{place}/"): row["error"] for row in rows(out, "runs") if row["exit_status"] == 2
    }
    assert set(errors) == {"kafka/good.edn", "ours [1]/mutant-vote-twice", "growing.edn"}
    for name, inode in (("kafka/good.edn", "good.edn"), ("ours [1]/mutant-vote-twice", "events.jsonl.zst")):
        assert "cannot be read (Permission denied: " in errors[name]
        assert f'{inode}":' in errors[name]
    assert "has changed since it was listed" in errors["growing.edn"]
    hdfs.chmod(f"{there}/in/kafka/good.edn", 0o644)
    hdfs.chmod(f"{there}/in/ours [1]/mutant-vote-twice/events.jsonl.zst", 0o644)
    stream.close()
    again = audited(place, out)
    assert (again.judged, again.unreadable) == (3, [])


def test_places_that_cannot_be_used_are_one_sentence(
    tmp_path: Path, hdfs: Hdfs, source: tuple[Path, str], audited: Auditor
) -> None:
    here, there = source
    nobody = f"hdfs://localhost:{free_port()}"
    hdfs.make(f"{there}/in/closed", 0o000)
    for found, out, reported in (
        (f"{hdfs.uri}/nothing", tmp_path / "out", "/nothing: cannot be listed (.*does not exist.*"),
        (f"{nobody}/in", tmp_path / "out", "cannot be listed (ConnectException: .*Connection refused): name"),
        (here, f"{nobody}/out", "cannot be used (ConnectException: .*Connection refused): make sure that"),
        (here, "hdfs://nobody.invalid/out", "cannot be used (.*UnknownHostException: nobody.invalid)"),
        (here, f"{hdfs.uri}/out", "cannot be used (AccessControlException: Permission denied: .*access=WRITE"),
        (f"{hdfs.uri}{there}/in", tmp_path / "out", "cannot be listed (AccessControlException: .*in/closed"),
        (
            f"{hdfs.uri}{there}/in",
            f"{hdfs.uri}{there}/in/out",
            f"{there}/in/out: overlaps {hdfs.uri}{there}/in",
        ),
    ):
        start = time.monotonic()
        with pytest.raises(HistoryError, match=re.escape(reported).replace(r"\.\*", ".*")) as problem:
            audited(found, out)
        assert "\n" not in str(problem.value)
        assert time.monotonic() - start < 30
