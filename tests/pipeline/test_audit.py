"""`logwitness audit`: the same verdicts as in process, nothing dropped, only what is new is judged again."""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_tables import Auditor, rows, tables
from long_history import MADE_BY, batches

from loghistory import HistoryError, open_run, write_run
from logwitness import models

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "histories" / "runs" / "raft"
FOREIGN = ROOT / "tests" / "recorded"
MOST_EVENTS = 1500
"""Of a recorded run that is audited here; test_large.py has longer ones."""


def in_process(path: Path) -> dict[str, Any]:
    """What `logwitness check --lenient` says."""
    source = open_run(path, lenient=True)
    document = models.check_model(source, models.model_of(source)).document()
    return json.loads(json.dumps(document))  # type: ignore[no-any-return]


def same_verdicts(out: Path) -> int:
    """Compare every history of an audit with the engine in process; how many there were."""
    verdicts: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for row in rows(out, "verdicts"):
        verdicts[row["run"]][row["check"]] = row
    violations: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows(out, "violations"):
        violations[row["run"], row["check"]].append(row)
    excuses: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows(out, "excuses"):
        excuses[row["run"], row["check"]].append(row)
    losses = defaultdict(list)
    for row in rows(out, "losses"):
        losses[Path(row["run"])].append(row)
    judged = 0
    unreadable: dict[Path, str] = {}
    for run in rows(out, "runs"):
        path = Path(run["run"])
        try:
            expected = in_process(path)
        except HistoryError as problem:
            unreadable[path] = str(problem)
            continue
        judged += 1
        assert {"run": run["run"], "verdict": run["verdict"], "exit_status": run["exit_status"]} == {
            name: expected[name] for name in ("run", "verdict", "exit_status")
        }
        assert (run["events"], run["logs"], run["notes"]) == tuple(expected[n] for n in ("events", "logs", "notes"))
        assert set(verdicts[run["run"]]) == {each["id"] for each in expected["checks"]}
        for each in expected["checks"]:
            found = verdicts[run["run"]][each["id"]]
            for name in ("verdict", "judged", "violated", "excused", "unjudged", "reason"):
                assert found[name] == each[name], (run["run"], each["id"], name)
            reported = [{n: v[n] for n in ("sentence", "events", "log")} for v in violations[run["run"], each["id"]]]
            assert reported == each["violations"]
            reported = [
                {n: e[n] for n in ("cause", "nodes", "facts", "first")} for e in excuses[run["run"], each["id"]]
            ]
            assert reported == each["excuses"], (run["run"], each["id"])
        reported = [
            {name: value for name, value in row.items() if name not in ("run", "run_id")} for row in losses[path]
        ]
        assert reported == sorted(expected["losses"], key=lambda loss: (loss["log"] or "", loss["acks"], loss["fault"]))
    reported = {Path(run["run"]): run["error"] for run in rows(out, "runs") if run["exit_status"] == 2}
    assert reported == unreadable
    return judged


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, audited: Auditor) -> Path:
    """An audit of the shorter recorded runs and of histories of other systems."""
    place = tmp_path_factory.mktemp("recorded")
    for manifest in RUNS.glob("*/manifest.json"):
        if json.loads(manifest.read_text())["events"] <= MOST_EVENTS:
            shutil.copytree(manifest.parent, place / "source" / "ours" / manifest.parent.name)
    for name in ("kv", "jepsen-kafka", "jepsen-cas-register/bad", "jepsen-etcd"):
        shutil.copytree(FOREIGN / name, place / "source" / name)
    for file in sorted((place / "source" / "jepsen-etcd").iterdir())[5:]:
        if file.stem != "etcd_095":
            file.unlink()
    (place / "source" / "README.md").write_text("no history\n")
    summary = audited(place / "source", place / "out")
    assert summary.exit_status == 1
    assert summary.skipped == 1
    assert summary.judged == summary.histories == summary.seen
    return place


def test_verdicts_are_those_of_the_engine_in_process(recorded: Path) -> None:
    assert same_verdicts(recorded / "out") > 20


def test_events_are_all_there_in_canonical_form(recorded: Path) -> None:
    found = rows(recorded / "out", "events_small")
    by_id = defaultdict(list)
    for row in found:
        by_id[row.pop("run_id")].append(row)
    for run in rows(recorded / "out", "runs"):
        if run["verdict"] != "unreadable":
            source = open_run(run["run"], lenient=True)
            assert by_id[run["run_id"]] == source.table().to_pylist(), run["run"]


def test_evidence_is_every_event_that_is_named(recorded: Path) -> None:
    shown = {(row["run_id"], row["seq"]) for row in rows(recorded / "out", "evidence")}
    named = {
        (row["run_id"], seq)
        for table in ("violations", "losses")
        for row in rows(recorded / "out", table)
        for seq in row["events"]
    }
    named |= {(row["run_id"], row["first"]) for row in rows(recorded / "out", "excuses") if row["first"] >= 0}
    assert shown == named
    assert named


def test_a_second_audit_judges_only_what_is_new_or_has_changed(
    recorded: Path, tmp_path: Path, audited: Auditor
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    for name in ("reference-default", "mutant-vote-twice", "reference-jsonl"):
        shutil.copytree(RUNS / name, source / name)
    first = audited(source, out)
    before = tables(out)
    again = audited(source, out)
    assert (first.judged, again.judged, again.unchanged) == (3, 0, 3)
    assert tables(out) == before
    # Its times alone: the digest says that nothing has changed.
    (source / "reference-default" / "manifest.json").touch()
    touched = audited(source, out)
    assert (touched.judged, touched.unchanged) == (0, 3)
    assert audited(source, out, verify=True).judged == 0
    # One changes, one is new, one goes.
    shutil.rmtree(source / "mutant-vote-twice")
    shutil.copytree(RUNS / "reference-five-nodes", source / "mutant-vote-twice")
    shutil.copytree(RUNS / "mutant-flush-assigns", source / "new")
    shutil.rmtree(source / "reference-jsonl")
    changed = audited(source, out)
    assert (changed.judged, changed.unchanged, changed.histories) == (2, 1, 4)
    assert changed.violated == [str(source / "new")]
    # The same as if it had been audited so from the start, but for the run that has gone.
    fresh = tmp_path / "fresh"
    audited(source, fresh)
    gone = str(source / "reference-jsonl")
    ids = {row["run_id"] for row in rows(out, "runs") if row["run"] == gone}
    kept = {name: [row for row in found if row["run_id"] not in ids] for name, found in tables(out).items()}
    assert kept == tables(fresh)


def test_bad_lines_are_kept_and_counted(tmp_path: Path, audited: Auditor) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    lines = (RUNS / "reference-jsonl" / "events.jsonl").read_bytes().splitlines(keepends=True)
    bad = {
        3: b"no json\n",
        10: b'{"seq":8,"time":1,"kind":"unheard-of"}\n',
        20: b"\xff\xfe\n",
        21: lines[21][:-4] + b"\n",
    }
    for place, line in bad.items():
        lines[place] = line
    (source / "bad.jsonl").write_bytes(b"".join(lines))
    (source / "empty.jsonl").write_bytes(b"")
    (source / "cut.parquet").write_bytes((RUNS / "reference-parquet" / "events.parquet").read_bytes()[:-100])
    summary = audited(source, out)
    by_name = {Path(row["run"]).name: row for row in rows(out, "runs")}
    assert by_name["bad.jsonl"]["events"] + by_name["bad.jsonl"]["quarantined"] == len(lines) - 1  # the header
    quarantined = [row for row in rows(out, "quarantine") if row["run"].endswith("bad.jsonl")]
    assert [row["line"] for row in quarantined] == [place + 1 for place in bad]
    assert [row["reason"] for row in quarantined] == ["not_json", "unknown_kind", "not_utf8", "not_json"]
    assert quarantined[0]["raw"] == "no json"
    assert {by_name[name]["verdict"] for name in ("cut.parquet", "empty.jsonl")} == {"unreadable"}
    assert "the file is empty" in by_name["empty.jsonl"]["error"]
    assert "not a whole Parquet file" in by_name["cut.parquet"]["error"]
    assert summary.quarantined == sum(row["quarantined"] for row in by_name.values())
    same_verdicts(out)
    # The sources are as they were.
    assert {file.name for file in source.iterdir()} == {"bad.jsonl", "empty.jsonl", "cut.parquet"}


@pytest.mark.parametrize("broken", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_larger_parquet_run_keeps_its_file(tmp_path: Path, audited: Auditor, broken: bool) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    write_run(source, batches(160_000), {"name": "long", "made_by": MADE_BY}, format="parquet")
    file = source / "events.parquet"
    if broken:
        (source / "manifest.json").unlink()
        table = pq.read_table(file)
        seqs = table.column("seq").to_numpy().copy()
        seqs[1000] = 7
        table = table.set_column(0, table.schema.field("seq"), pa.array(seqs))
        pq.write_table(table, file)
    audited(source, out)
    (run,) = rows(out, "runs")
    (part,) = (out / "events" / f"run_id={run['run_id']}").iterdir()
    assert (part.read_bytes() == file.read_bytes()) is not broken
    assert run["events"] == pq.read_metadata(part).num_rows == pq.read_metadata(file).num_rows - broken
    assert (run["events_in"], run["quarantined"]) == ("events", int(broken))
    assert [row["reason"] for row in rows(out, "quarantine")] == ["sequence"] * broken
    same_verdicts(out)


def test_what_is_in_the_way_is_one_sentence(tmp_path: Path, audited: Auditor) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(HistoryError, match="holds no audit"):
        audited(RUNS, tmp_path / "full")
    with pytest.raises(HistoryError, match="no such file"):
        audited(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(HistoryError, match="overlaps"):
        audited(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_summary_is_there_for_people_and_machines(recorded: Path) -> None:
    text = (recorded / "out" / "summary.txt").read_text()
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)
    summary = json.loads((recorded / "out" / "summary.json").read_bytes())
    runs = rows(recorded / "out", "runs")
    assert summary["histories"] == len(runs)
    assert summary["events"] == sum(row["events"] for row in runs)
    assert summary["checks"]["one-vote-per-term"]["histories"] == 1


def test_any_file_name_will_do(tmp_path: Path, audited: Auditor) -> None:
    source, out = tmp_path / "source", tmp_path / "out [1]*{a}"
    names = [b"a b.jsonl", b"[x]*{1}?.jsonl", b"new\nline.jsonl", b"no utf-8 \xff.jsonl", "größe.jsonl".encode()]
    source.mkdir()
    for name in names:
        shutil.copy(RUNS / "reference-jsonl" / "events.jsonl", os.path.join(os.fsencode(source), name))  # noqa: PTH118
    first = audited(source, out, large=10)
    # Nobody says which nodes vote.
    assert (first.judged, first.exit_status, first.verdicts) == (5, 3, {"undecided": 5})
    assert {Path(row["run"]).name for row in rows(out, "runs")} == {
        name.decode("utf-8", "backslashreplace") for name in names
    }
    assert audited(source, out, large=10).judged == 0
