"""What `logwitness check` prints for people: lines, stories and totals, on a terminal and in a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from loghistory import MemorySink, Recorder, write_run
from logwitness.checks.contract import Outcome, Verdict
from logwitness.cli import main
from logwitness.engine.run import RunVerdict
from logwitness.explain.transcripts import all_cases
from logwitness.report.totals import Totals

RUNS = Path("histories/runs/raft").resolve()
STATE = {"node": 0, "incarnation": 0, "term": 1, "dirty": 9, "commit": -1}
BROKEN = '{"kind":"history","version":2}\n{"seq":0,"time":0,"kind":"nonsense"}\n'
COMMAND = [sys.executable, "-m", "logwitness", "check"]


def _check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def _write(directory: Path, flushed: list[int]) -> None:
    sink = MemorySink()
    with Recorder(sink) as record:
        for time, offset in enumerate(flushed):
            record.event("flush", time=time, flushed=offset, **STATE)  # type: ignore[arg-type]
    write_run(directory, sink.table, {"name": directory.name, "notes": ["Said by the run itself."] * 2})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a history of each kind."""
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "runs" / "good", [0, 1, 2])
    _write(tmp_path / "runs" / "bad", [3, 4, 2])
    (tmp_path / "idle.jsonl").write_text('{"kind":"history","version":2}\n{"seq":0,"time":0,"kind":"phase","f":"x"}\n')
    (tmp_path / "broken.jsonl").write_text(BROKEN)
    return tmp_path


def test_a_history_that_holds_is_one_line(place: Path) -> None:
    done = _check("runs/good")
    assert done.stdout.splitlines() == [
        "runs/good  holds  3 events, 7 checks, 15 facts, 1 unjudged",
        "1 history: holds; 3 events, 15 facts, 1 unjudged",
    ]
    assert done.stderr == ""


def test_one_that_does_not_is_a_story(place: Path) -> None:
    lines = _check("runs/bad", "runs/good").stdout.splitlines()
    assert lines == [
        "runs/bad  violated  3 events, 7 checks, 15 facts, 1 violation, 1 unjudged",
        "  flushed-monotonic: Node 0 moved its flushed offset back from 4 to 2 without a truncation that far.",
        "    rule: A node's flushed offset moves back only by truncation, and then no further than the truncation "
        "point.",
        "    seq   seconds  where   event",
        "      1  0.000000  node 0  flush  term=1 dirty=9 flushed=4 commit=-1",
        "      2  0.000000  node 0  flush  term=1 dirty=9 flushed=2 commit=-1",
        "  note: Said by the run itself.",
        "",
        "runs/good  holds  3 events, 7 checks, 15 facts, 1 unjudged",
        "2 histories: 1 holds, 1 violated; 6 events, 30 facts, 2 unjudged",
    ]


def test_an_event_of_any_protocol_is_shown_with_what_it_carries() -> None:
    run = RUNS.parent / "read_path" / "mutant-seal-forgotten"
    seal, copy = _check("-q", "--only", "seal-is-kept", run).stdout.splitlines()[4:6]
    assert seal.split() == ["1305", "0.901677", "node", "0", "seal", "epoch=1"]
    fields = "offset=4294967457 record=data wave=1 recovery=0 shards=5 value=163"
    assert copy.split()[4:] == ["copy", *fields.split()]


def test_the_headline_counts_violations_not_checks(place: Path) -> None:
    _write(place / "runs" / "worse", [3, 4, 2, 1])
    headline = _check("runs/worse").stdout.splitlines()[0]
    assert headline == "runs/worse  violated  4 events, 7 checks, 22 facts, 2 violations, 1 unjudged"


def test_quiet_prints_only_what_does_not_hold(place: Path) -> None:
    silent = _check("-q", "runs/good")
    assert (silent.exit_code, silent.output) == (0, "")
    lines = _check("-q", "runs").stdout.splitlines()
    assert lines[0].startswith("runs/bad  violated")
    assert not any("runs/good" in line for line in lines)
    assert lines[-1] == "2 histories: 1 holds, 1 violated; 6 events, 30 facts, 2 unjudged"
    unreadable = _check("-q", "broken.jsonl")
    assert (unreadable.exit_code, unreadable.stdout) == (2, "1 history: unreadable\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-q", "-v"], "--quiet and --verbose cannot be combined: choose one"),
        (["--json", "--annotations"], "--annotations and --json both write to standard output: choose one"),
        (["--quarantine", "aside"], "--quarantine needs --lenient: add it, or leave it out"),
    ],
)
def test_options_that_contradict_each_other_are_refused(place: Path, options: list[str], said: str) -> None:
    done = _check(*options, "runs/good")
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_verbose_prints_every_check_and_no_column_without_a_number(place: Path) -> None:
    lines = _check("-v", "runs/good").stdout.splitlines()
    assert [line.split() for line in lines[1:9]] == [
        ["check", "verdict", "judged"],
        ["dirty-follows-events", "holds", "2"],
        ["flushed-follows-events", "holds", "2"],
        ["moves-are-recorded", "holds", "2"],
        ["time-goes-forward", "holds", "2"],
        ["flushed-within-dirty", "holds", "3"],
        ["flushed-monotonic", "holds", "2"],
        ["term-monotonic", "holds", "2"],
    ]
    assert "  unexercised: flushed-durable: no fact: a start of a node that had flushed something" in lines
    assert "  note: Said by the run itself." in lines
    of_nodes = _check("-v", RUNS / "reference-five-nodes").stdout
    assert re.search(r"^  check +verdict +judged +excused +unjudged$", of_nodes, re.M)
    assert "loss account" in of_nodes
    assert re.search(r"^    acks +fault +batches +entries +bytes +acknowledged between \(s\)$", of_nodes, re.M)
    idle = _check("-v", "idle.jsonl").stdout
    assert not re.search(r"^ +check +verdict", idle, re.M), "a table without rows"
    assert "unexercised: inconsistent-offset: no fact: " in idle


def test_what_could_not_be_judged_is_shown_everywhere(place: Path) -> None:
    run = RUNS / "clients-only"
    checks = json.loads(_check("--json", run).stdout)["checks"]
    unjudged, excused = (sum(each[name] for each in checks) for name in ("unjudged", "excused"))
    assert unjudged
    assert excused
    line, totals = _check(run).stdout.splitlines()
    assert line.endswith(f", {unjudged} unjudged, {excused} excused (gap)")
    assert totals.endswith(f", {unjudged} unjudged, {excused} excused")
    line, _ = _check(RUNS / "reference-compacted").stdout.splitlines()
    assert re.search(r", (\d+) excused \((\d+) \w+, (\d+) \w+\)$", line), "every cause, with its facts"
    table = _check("-v", run).stdout
    shown = re.findall(r"^  [\w-]+ +holds .* (\d+)$", table, re.M)
    assert re.search(r"^  check.*unjudged$", table, re.M)
    assert shown
    _check(run, "--junit", "out.xml")
    reported = re.findall(r"^.*[\w-]+: (\d+) facts? could not be judged\.", Path("out.xml").read_text(), re.M)
    assert sum(map(int, reported)) == unjudged
    _check(RUNS / "mutant-commit-counts-dirty", "--sarif", "out.sarif")
    (results,) = (each["results"] for each in json.loads(Path("out.sarif").read_text())["runs"])
    assert [each["properties"]["unjudged"] for each in results] == [0, 0]


def test_every_kind_is_counted(place: Path) -> None:
    (place / "notes.md").write_text("no history")
    (place / "link").symlink_to(place / "runs")
    done = _check(place, "missing", "--exclude", "bad")
    assert done.exit_code == 2
    assert done.stdout.splitlines()[-1] == (
        "4 histories: 1 holds, 1 unexercised, 2 unreadable; 4 events, 15 facts, 1 unjudged; 2 skipped, 1 excluded"
    )
    assert "notes.md" not in done.output
    named = _check("-v", place, "--exclude", "bad").stderr
    assert "notes.md: no history, skipped\n" in named
    assert "link: a link to a directory, not followed\n" in named
    assert "bad: excluded\n" in named


def test_nothing_is_found(place: Path) -> None:
    (place / "empty").mkdir()
    done = _check("empty")
    assert (done.exit_code, done.stdout) == (2, "0 histories; 1 directory without a history\n")
    assert done.stderr.startswith("logwitness: empty: this directory holds no history: ")
    done = _check("-q", "runs", "--exclude", "*")
    assert (done.exit_code, done.stdout) == (2, "0 histories; 2 excluded, 1 directory without a history\n")
    assert "this directory holds no history that is not excluded" in done.stderr


def test_a_required_check_is_named(place: Path) -> None:
    done = _check("runs/good", "--require", "linearizable", "--require", "skip")
    assert done.exit_code == 3
    assert "  linearizable: required, but it had nothing to judge (it was not judged)\n" in done.stdout
    assert "  skip: required, but it had nothing to judge (no fact: " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 history: unexercised")


def test_what_is_undecided_says_why(place: Path) -> None:
    history = [
        {"type": "invoke", "process": 0, "f": "transfer", "value": 1},
        {"type": "ok", "process": 0, "f": "transfer", "value": 1},
    ]
    (place / "odd.json").write_text(json.dumps(history))
    done = _check("odd.json", "--model", "register")
    assert done.exit_code == 3
    assert re.search(r"^  linearizable: undecided: .*transfer", done.stdout, re.M)
    assert done.stdout.splitlines()[-1].startswith("1 history: undecided")


def test_known_violations_are_told_apart_from_new_ones(place: Path) -> None:
    assert _check("runs/bad", "--write-baseline", "known.json").exit_code == 1
    done = _check("runs/bad", "--baseline", "known.json")
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [
            "runs/bad  violated (known)  3 events, 7 checks, 15 facts, 1 violation, 1 unjudged",
            "  note: flushed-monotonic: 1 violation, known from the baseline.",
            "1 history: violated (known); 3 events, 15 facts, 1 unjudged",
        ],
    )
    assert _check("-q", "runs/bad", "--baseline", "known.json").output == ""
    assert "back from 4 to 2" in _check("-v", "runs/bad", "--baseline", "known.json").stdout
    _write(place / "more" / "bad", [3, 4, 2, 1])
    done = _check("more/bad", "--baseline", "known.json")
    assert done.exit_code == 1
    assert "back from 2 to 1" in done.stdout, "the new one is explained"
    assert "back from 4 to 2" not in done.stdout, "the known one is not"


def test_json_is_told_what_was_passed_over(place: Path) -> None:
    (place / "runs" / "notes.md").write_text("no history")
    done = _check("--json", "runs")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "logwitness: 1 skipped; -v names them\n"
    assert "notes.md: no history, skipped" in _check("--json", "-v", "runs").stderr
    assert _check("--json", "-q", "runs").stderr == ""


def test_patterns_match_the_end_of_a_path(place: Path) -> None:
    for name in ("old/runs/good", "new/runs/good", "new/other"):
        _write(place / "tree" / name, [0, 1])

    def judged(*patterns: str) -> set[str]:
        words = [word for pattern in patterns for word in ("--exclude", pattern)]
        lines = _check("tree", *words).stdout.splitlines()[:-1]
        return {line.split()[0].removeprefix("tree/") for line in lines}

    assert judged() == {"old/runs/good", "new/runs/good", "new/other"}
    assert judged("good") == {"new/other"}
    assert judged("goo") == judged()
    assert judged("old") == judged("old/") == judged("./old") == judged("o?d/*") == {"new/runs/good", "new/other"}
    assert judged("new/runs", "tree/old") == {"new/other"}
    assert judged(str(place / "tree" / "new")) == {"old/runs/good"}
    # What is named is judged, whatever matches it.
    assert "1 history: holds" in _check("tree/old/runs/good", "--exclude", "good", "--exclude", "old").stdout
    assert "is not a pattern" in _check("tree", "--exclude", "").stderr


def test_as_a_module(place: Path) -> None:
    words = [sys.executable, "-m", "logwitness", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("logwitness, version ")


def test_a_record_stays_on_its_line_unless_it_is_a_terminal(place: Path) -> None:
    run = RUNS / "mutant-commit-counts-dirty"
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"FORCE_COLOR": "1", "COLUMNS": "40"}
    for wanted in (dict(os.environ), environment):
        words = [*COMMAND, str(run)]
        text = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=wanted).stdout
        assert ("\x1b[" in text) == ("FORCE_COLOR" in wanted)
        lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
        (sentence,) = (
            line for line in lines if line.startswith("  committed-flushed-on-majority") and "offset 6 " in line
        )
        assert re.fullmatch(r"  committed-flushed-on-majority: Leader 2 committed offset 6 .* 2 are needed\.", sentence)
        (event,) = (line for line in lines if re.match(r" +158 ", line))
        assert event.endswith(" value=39 acks=all dirty=6 flushed=0 commit=0")
        assert all(line == line.rstrip() for line in lines)


def _on_a_terminal(columns: int, *arguments: str | Path, **environment: str) -> str:
    """What the command shows on a terminal of this width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    words = [*COMMAND, *map(str, arguments)]
    process = subprocess.Popen(words, stdout=slave, stderr=slave, env=kept | {"TERM": "xterm"} | environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            chunk = os.read(master, 1 << 16)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(master)
    process.wait(timeout=60)
    return shown.decode()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("columns", "set_to", "widest"), [(80, None, 80), (120, "60", 60), (130, None, 130)])
def test_a_terminal_is_kept_to_its_width(place: Path, columns: int, set_to: str | None, widest: int) -> None:
    given = {} if set_to is None else {"COLUMNS": set_to}
    shown = _on_a_terminal(columns, RUNS / "mutant-commit-counts-dirty", RUNS / "clients-only", **given)
    assert "\x1b[1;31mviolated\x1b[0m" in shown
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines()
    longest = max(map(len, lines))
    assert longest <= widest
    assert longest > widest - 25, "the width that is there is used"
    words = " ".join(" ".join(lines).split())
    assert "Leader 2 committed offset 6 (entry of term 1) when" in words
    assert "append offset=4..6 entry_term=1 value=39 acks=all dirty=6 flushed=0 commit=0" in words


def test_no_colour_where_none_is_wanted(place: Path) -> None:
    shown = _on_a_terminal(80, "runs/bad", NO_COLOR="1")
    assert "\x1b[31m" not in shown
    assert ";31m" not in shown


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("run", "status"), [("good", 0), ("bad", 1)])
def test_a_closed_output_changes_no_verdict(place: Path, run: str, status: int) -> None:
    words = " ".join(f"'{word}'" for word in [*COMMAND, f"runs/{run}"])
    done = subprocess.run(["bash", "-c", f"{words} >&-"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (status, "")


def _outcome(verdict: Verdict, judged: int = 1, unjudged: int = 0) -> Outcome:
    return Outcome("some-check", verdict, judged, int(verdict is Verdict.VIOLATED), 0, unjudged)


def test_totals_never_contradict_the_exit_status() -> None:
    totals = Totals()
    for verdict, status, outcomes in (
        (Verdict.HOLDS, 0, [_outcome(Verdict.HOLDS)]),
        (Verdict.VIOLATED, 1, [_outcome(Verdict.VIOLATED), _outcome(Verdict.UNDECIDED)]),
        (Verdict.VIOLATED, 0, [_outcome(Verdict.VIOLATED)]),
        (Verdict.VIOLATED, 3, [_outcome(Verdict.VIOLATED), _outcome(Verdict.UNDECIDED)]),
        (Verdict.VIOLATED, 3, [_outcome(Verdict.VIOLATED)]),
        (Verdict.UNDECIDED, 3, [_outcome(Verdict.UNDECIDED, 0, 1_000)]),
        (Verdict.UNEXERCISED, 3, [_outcome(Verdict.HOLDS)]),
    ):
        totals.add(RunVerdict("run", verdict, status, 1_000, 1, tuple(outcomes)))
    assert str(totals) == (
        "7 histories: 1 holds, 1 violated, 1 violated (known), 2 undecided, 2 unexercised; "
        "7,000 events, 8 facts, 1,000 unjudged"
    )


_ACKED = "* n2 acked 0 t1 1 success"
"""By which node 2 acts as a leader that nobody recorded."""


def test_what_a_violated_check_leaves_undecided_is_in_every_report(place: Path) -> None:
    (case,) = (each for each in all_cases() if each.check == "one-leader-per-term" and _ACKED in each.lines)
    write_run(place / "both", case.table, {"name": "both", "made_by": {"configuration": case.configuration}})
    only = "both", "--only", case.check
    done = _check(*only, "--junit", "junit.xml", "--sarif", "log.sarif")
    why = "nodes lead, but no leader event is recorded"
    assert f"besides, {case.check} is undecided: {why}" in done.stdout
    (judged,) = (each for each in json.loads(_check(*only, "--json").stdout)["checks"] if each["id"] == case.check)
    assert (judged["verdict"], judged["reason"]) == ("violated", why)
    assert why in Path("junit.xml").read_text()
    assert why in Path("log.sarif").read_text()
