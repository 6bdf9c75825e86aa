"""Whatever a directory holds is judged, or counted and named; and every error says who speaks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwitness.cli import main

RUN = Path(__file__).resolve().parents[2] / "histories" / "runs" / "raft" / "reference-jsonl"


def test_every_file_that_is_passed_over_is_counted_and_named(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    shutil.copytree(RUN, place / "run")
    for name, text in (
        (".hidden.edn", "{}"),
        ("notes.md", "notes"),
        ("old.jsonl.quarantine.jsonl", "{}"),
        ("run/other.edn", "{}"),
    ):
        (place / name).write_text(text)
    (place / "run" / "nodes").mkdir()
    (place / "link").symlink_to(tmp_path)
    (place / "page").symlink_to("nowhere")
    done = CliRunner().invoke(main, ["check", "-v", str(place)])
    assert done.exit_code == 0
    assert done.stderr == "".join(
        f"logwitness: {place}/{name}: {why}\n"
        for name, why in (
            (".hidden.edn", "hidden, skipped"),
            ("link", "a link to a directory, not followed"),
            ("notes.md", "no history, skipped"),
            ("old.jsonl.quarantine.jsonl", "lines set aside from a history, skipped"),
            ("page", "a link that leads nowhere, skipped"),
            ("run/nodes", "beside the events of a run, skipped"),
            ("run/other.edn", "beside the events of a run, skipped"),
        )
    )
    assert done.stdout.rstrip().endswith("7 skipped")
    alone = CliRunner().invoke(main, ["check", str(place / "run")])
    assert alone.stdout.rstrip().endswith("2 skipped")


def test_a_history_is_judged_whatever_it_is_called(tmp_path: Path) -> None:
    shutil.copy(RUN / "events.jsonl", tmp_path / "A.JSONL")
    shutil.copy(RUN / "events.jsonl", tmp_path / "b.jsonl.bak")
    shutil.copy(RUN / "events.jsonl", tmp_path / "c.1")
    (tmp_path / "D.EDN").write_text("{:process 0, :type :inv")
    (tmp_path / "e.jsonl").symlink_to("/nowhere/e.jsonl")
    (tmp_path / "f.py").write_text("# kind: none\n")
    (tmp_path / "RESULTS.EDN").write_text("{:valid? true}")
    done = CliRunner().invoke(main, ["check", "-v", "--json", str(tmp_path)])
    found = {Path(each["file"]).name: each["verdict"] for each in map(json.loads, done.stdout.splitlines())}
    judged = dict.fromkeys(("A.JSONL", "b.jsonl.bak", "c.1"), "undecided")
    assert found == judged | {"D.EDN": "unreadable", "e.jsonl": "unreadable"}
    assert [line.split(": ", 1)[1].rpartition("/")[2] for line in done.stderr.splitlines() if "no history" in line] == [
        "RESULTS.EDN: no history, skipped",
        "f.py: no history, skipped",
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "--nonsense"],
        ["nonsense"],
        ["check", "--quarantine", "x", "y"],
        ["history", "show", "nowhere"],
        ["spec", "check", "nowhere"],
        ["spec", "prove", "nowhere"],
        ["spec", "trace", "nowhere"],
        ["simulate", "--setting", "nowhere"],
        ["hunt"],
        ["cluster", "--protocol", "nowhere"],
        ["cluster", "--faults", "nowhere"],
        ["validate", "--rules", "nowhere"],
        ["audit", "nowhere", "out"],
        ["campaign", "out"],
        ["explain", "nowhere"],
    ],
)
def test_every_error_begins_with_who_speaks(arguments: list[str]) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("logwitness: ")


def test_what_is_not_known_to_explain_points_to_more_than_checks() -> None:
    done = CliRunner().invoke(main, ["explain", "qqqqqq"])
    assert done.exit_code == 2
    assert all(word in done.stderr for word in ("logwitness checks", "logwitness hunt --list", "docs/catalogue.md"))


@pytest.mark.parametrize("name", ["history.edn", "history.json"])
def test_an_empty_history_of_another_tool_is_told_what_it_lacks(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    done = CliRunner().invoke(main, ["check", str(tmp_path / name)])
    assert done.exit_code == 2
    assert "no operation in it: name a history of operations" in done.stderr
