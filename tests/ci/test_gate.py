"""What CI systems read of `logwitness check`: JUnit, SARIF, workflow commands, and the baseline."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner, Result

from loghistory import MemorySink, Recorder, write_run
from logwitness.checks.contract import Violation
from logwitness.cli import main
from logwitness.report.baseline import digest

RUNS = Path("histories/runs/raft").resolve()
HOSTILE = "bad\x00\x1b]&<name>\n::error::\ud800%0A,:\uffff"
ROW = {"node": 0, "incarnation": 0, "term": 1, "dirty": 200, "commit": -1}


def _check(*arguments: str | Path) -> Result:
    # In process: the command's own exit statuses, without a second of start each.
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def _write(directory: Path, flushed: list[int], name: str = "") -> Path:
    """A run in which node 0 states these flushed offsets one after the other."""
    sink = MemorySink()
    with Recorder(sink) as record:
        for time, offset in enumerate(flushed):
            record.event("flush", time=time, flushed=offset, **ROW)  # type: ignore[arg-type]
    write_run(directory, sink.table, {"name": name or directory.name})
    return directory


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    _write(tmp_path / "good", [0, 1, 2])
    _write(tmp_path / "bad", [3, 4, 2])
    sink = MemorySink()
    with Recorder(sink) as record:
        record.event("phase", time=0, f="load")
    write_run(tmp_path / "idle", sink.table, {"name": "idle"})
    (tmp_path / "broken.jsonl").write_text('{"kind":"history","version":2}\n{"seq":0,"time":0,"kind":"nonsense"}\n')
    return tmp_path


def _suites(file: Path) -> list[ElementTree.Element]:
    root = ElementTree.parse(file).getroot()
    assert root.tag == "testsuites"
    assert "skipped" not in root.attrib, "the schema that Jenkins refuses files by has it for suites alone"
    for element in (root, *root):
        for tag, count in (("testcase", "tests"), ("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            if element is root and tag == "skipped":
                continue
            assert len(list(element.iter(tag))) == int(element.get(count, "-1"))
    return list(root)


def _results(file: Path) -> list[dict[str, Any]]:
    """The results of a SARIF file that keeps the main rules of the standard."""
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "logwitness"
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert all(rule["help"]["text"] and rule["properties"]["source"] for rule in rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        # 3.27.10: what is no failure has no level.
        assert (result["kind"] == "fail") == (result["level"] != "none")
    for result in (*run["results"], *run["invocations"][0]["toolExecutionNotifications"]):
        for location in result.get("locations", []):
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"(file:///)?[\w.~/%-]+", uri)
            assert location["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1
    return list(run["results"])


def test_what_is_no_file_is_not_replaced(runs: Path) -> None:
    """A device or a pipe that is named stays what it is, and what a link leads to is what is written."""
    pipe, kept, link = runs / "pipe", runs / "kept.sarif", runs / "link.sarif"
    os.mkfifo(pipe)
    link.symlink_to(kept)
    kept.write_text("old")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = _check(runs / "good", "--junit", pipe, "--sarif", link)
    assert done.exit_code == 0, done.output
    assert pipe.is_fifo()
    reader.join(10)
    assert read
    assert read[0].startswith(b"<?xml")
    assert link.is_symlink()
    assert json.loads(kept.read_text())["version"] == "2.1.0"
    # Standard output is a link, to a file for instance; what was printed before stays before.
    reported = runs / "told"
    words = [sys.executable, "-c", "from logwitness.cli import main; main()", "check", str(runs / "good")]
    with reported.open("wb") as stream:
        subprocess.run([*words, "--junit", "/proc/self/fd/1"], stdout=stream, check=True, timeout=60)
    report, _, xml = reported.read_text().partition("<?xml")
    assert report.splitlines()[-1] == "1 history: holds; 3 events, 15 facts, 1 unjudged"
    assert xml.rstrip().endswith("</testsuites>")


@pytest.mark.parametrize(
    "names", [c for n in (1, 2) for c in itertools.combinations(["good", "bad", "idle", "broken.jsonl"], n)]
)
@pytest.mark.parametrize("required", [(), ("--require", "flushed-monotonic"), ("--require", "skip")])
def test_junit_and_annotations_are_red_exactly_when_the_exit_status_is(
    runs: Path, names: tuple[str, ...], required: tuple[str, ...]
) -> None:
    junit = runs / "junit.xml"
    done = _check(*(runs / name for name in names), *required, "--junit", junit, "--annotations")
    red = any(suite.get("failures") != "0" or suite.get("errors") != "0" for suite in _suites(junit))
    assert red == (done.exit_code != 0)
    assert ("\n::error " in done.stdout) == red


def test_junit_has_a_case_for_each_check(runs: Path) -> None:
    _check(runs / "good", runs / "bad", runs / "broken.jsonl", "--junit", runs / "junit.xml")
    good, bad, broken = _suites(runs / "junit.xml")
    assert {case.get("name") for case in good} == {case.get("name") for case in bad} > {"skip", "flushed-monotonic"}
    (failure,) = bad.iter("failure")
    assert failure.get("message") == "Node 0 moved its flushed offset back from 4 to 2 without a truncation that far."
    assert failure.text is not None
    assert "event 1 at 0.000000 s: flush" in failure.text
    (error,) = broken.iter("error")
    assert "line 2" in error.get("message", "")


def test_sarif_points_at_the_line(runs: Path) -> None:
    done = _check(runs / "bad", "--sarif", runs / "out.sarif")
    assert done.exit_code == 1
    (result,) = _results(runs / "out.sarif")
    place = result["locations"][0]["physicalLocation"]
    line = place["region"]["startLine"]
    assert place["artifactLocation"]["uri"].endswith("/bad/events.jsonl")
    row = json.loads((runs / "bad" / "events.jsonl").read_text().splitlines()[line - 1])
    assert (row["seq"], row["flushed"]) == (2, 2)
    assert [other["physicalLocation"]["region"]["startLine"] for other in result["relatedLocations"]] == [line - 1]


def test_a_known_violation_excuses_no_other_check(runs: Path) -> None:
    run, known = runs / "run.jsonl", runs / "known"
    lines = (runs / "bad" / "events.jsonl").read_text().splitlines(keepends=True)
    run.write_text("".join(lines))
    assert _check(run, "--write-baseline", known).exit_code == 1
    assert _check(run, "--baseline", known).exit_code == 0
    run.write_text("".join([*lines[:-1], lines[-1].replace(":-1", ":300")]))
    assert _check(run, "--baseline", known).exit_code == 1


def test_a_line_is_given_only_if_it_is_certain(runs: Path) -> None:
    lines = (runs / "bad" / "events.jsonl").read_text().splitlines(keepends=True)
    (runs / "odd.jsonl").write_text("".join([*lines[:2], "rubbish\n", *lines[2:]]))
    _check(runs / "odd.jsonl", "--lenient", "--sarif", runs / "odd.sarif")
    # A violation that stands whatever the bad line said.
    (runs / "sure.jsonl").write_text("".join([lines[0], "rubbish\n", lines[1].replace(":-1", ":300")]))
    assert _check(runs / "sure.jsonl", "--lenient", "--sarif", runs / "sure.sarif").exit_code == 1
    _check(RUNS / "mutant-commit-counts-dirty", "--sarif", runs / "zst.sarif")
    for file in ("odd.sarif", "sure.sarif", "zst.sarif"):
        results = _results(runs / file)
        assert results
        assert not any("region" in result["locations"][0]["physicalLocation"] for result in results)
        assert all("event " in result["message"]["text"] for result in results)


def test_sarif_says_what_could_not_be_read(runs: Path) -> None:
    _check(runs / "broken.jsonl", runs / "idle", "--sarif", runs / "out.sarif")
    assert _results(runs / "out.sarif") == []
    (invocation,) = json.loads((runs / "out.sarif").read_text())["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    broken, idle = invocation["toolExecutionNotifications"]
    assert broken["locations"][0]["physicalLocation"]["region"]["startLine"] == 2
    assert "nothing in this history could be judged" in idle["message"]["text"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    # Lone surrogates cannot be in a manifest; file names have them.
    run = _write(tmp_path / "run, 100%: <x>\n::error::y", [2, 1], HOSTILE.replace("\ud800", ""))
    outputs = {name: tmp_path / f"out.{name}" for name in ("junit", "sarif", "write-baseline")}
    words = [word for name, file in outputs.items() for word in (f"--{name}", file)]
    done = _check(run, tmp_path / "missing\udcff", "--annotations", *words)
    assert done.exit_code == 1
    suite, _ = _suites(outputs["junit"])
    assert "\\x00\\x1b]&<name>\\n::error::" in (suite.get("name") or "")
    _results(outputs["sarif"])
    # Between the two marks nothing is a command; after them nothing but our own is.
    first, *rest = done.stdout.splitlines()
    token = first.removeprefix("::stop-commands::")
    assert rest.count(f"::{token}::") == 1
    commands = rest[rest.index(f"::{token}::") + 1 :]
    assert len(commands) == 2
    for command in commands:
        match = re.fullmatch(r"::error file=([^:,\n]*)(,line=\d+)?,title=([^:,\n]*)::(.+)", command)
        assert match
    assert "run%2C 100%25%3A <x>\\n%3A%3Aerror%3A%3Ay" in commands[0]
    assert _check(run, "--baseline", outputs["write-baseline"]).exit_code == 0


def test_only_new_violations_fail(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    bad = _write(tmp_path / "bad", [3, 4, 2])
    assert _check(bad, "--write-baseline", known).exit_code == 1  # to record is not to forgive
    assert _check(bad, "--baseline", known).exit_code == 0
    # The same run elsewhere is the same run; another run is not.
    assert _check(_write(tmp_path / "moved", [3, 4, 2], "bad"), "--baseline", known).exit_code == 0
    assert _check(_write(tmp_path / "other", [3, 4, 2]), "--baseline", known).exit_code == 1
    # One more violation of the same check is new, and one that is gone is told.
    junit, sarif = tmp_path / "out.xml", tmp_path / "out.sarif"
    more = _write(tmp_path / "more", [3, 4, 2, 1], "bad")
    done = _check(more, "--baseline", known, "--junit", junit, "--sarif", sarif)
    assert done.exit_code == 1
    assert [each["baselineState"] for each in _results(sarif)] == ["unchanged", "new"]
    assert "suppressions" in _results(sarif)[0]
    assert "(known) " in next(_suites(junit)[0].iter("failure")).text  # type: ignore[operator]
    mended = _check(_write(tmp_path / "mended", [3, 4, 4], "bad"), "--baseline", known)
    assert mended.exit_code == 0
    assert "in the baseline, but not found: Node 0 moved its flushed offset back" in " ".join(mended.stdout.split())


def test_a_known_violation_hides_nothing_else(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    bad = _write(tmp_path / "bad", [3, 4, 2])
    _check(bad, "--write-baseline", known)
    junit = tmp_path / "out.xml"
    assert _check(bad, "--baseline", known, "--require", "skip", "--junit", junit).exit_code == 3
    assert _suites(junit)[0].get("errors") == "1"
    assert _check(bad, tmp_path / "missing", "--baseline", known).exit_code == 2
    # Two runs of one name: the second is not covered by what is known of the first.
    twin = _write(tmp_path / "twin", [3, 4, 2], "bad")
    assert _check(bad, twin, "--baseline", known).exit_code == 1
    _check(bad, twin, "--write-baseline", known)
    assert _check(bad, twin, "--baseline", known).exit_code == 0
    left = _check(bad, "--baseline", known)
    assert left.exit_code == 0
    assert "1 run of the baseline not judged" in left.stderr


def test_more_violations_than_are_kept_are_counted(tmp_path: Path) -> None:
    down = list(range(30, 0, -2))
    known = tmp_path / "known.json"
    many = _write(tmp_path / "many", [4 * each for each in down])
    assert _check(many, "--write-baseline", known).exit_code == 1
    assert _check(many, "--baseline", known).exit_code == 0
    one_more = _write(tmp_path / "more", [*(4 * each for each in down), 0], "many")
    done = _check(one_more, "--baseline", known, "--annotations")
    assert done.exit_code == 1
    assert "more than the baseline has" in done.stdout


def test_the_same_violation_in_another_log_is_another_one() -> None:
    found = Violation("Broken.", (1, 2), "north")
    assert digest("run", "skip", found) != digest("run", "skip", msgspec.structs.replace(found, log="south"))
    assert digest("run", "skip", found) != digest("run", "skip", msgspec.structs.replace(found, log=None))


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"kind":"else","version":1,"runs":{}}', '{"kind":"logwitness baseline","version":2,"runs":{}}'],
)
def test_what_is_no_baseline_is_refused(runs: Path, content: str) -> None:
    (runs / "known.json").write_text(content)
    done = _check(runs / "good", "--baseline", runs / "known.json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.fullmatch(r"logwitness: .*known\.json.*: write it with .*\n", done.stderr)


def test_bad_usage(runs: Path) -> None:
    for words in (
        ["--baseline", runs / "none.json"],
        ["--junit", runs / "no" / "out.xml"],
        ["--annotations", "--json"],
    ):
        done = _check(runs / "good", *words)
        assert (done.exit_code, done.stdout) == (2, "")
    full = _check(runs / "good", "--junit", "/proc/out.xml")
    assert full.exit_code == 2
    assert "cannot be written" in full.stderr


def test_json_carries_the_status_of_the_gate(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    bad = _write(tmp_path / "bad", [3, 4, 2])
    _check(bad, "--write-baseline", known)
    answer = json.loads(_check(bad, "--baseline", known, "--json").stdout)
    assert (answer["verdict"], answer["exit_status"]) == ("violated", 0)
    assert "flushed-monotonic: 1 violation, known from the baseline." in answer["notes"]


def test_required_but_not_asked_for_is_not_exercised(runs: Path) -> None:
    done = _check(runs / "good", "--only", "flushed-monotonic", "--require", "term-monotonic")
    assert done.exit_code == 3
