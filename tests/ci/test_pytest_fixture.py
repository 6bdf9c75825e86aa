"""The fixture ``logwitness_history``, in a pytest of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from loghistory import open_run

pytestmark = pytest.mark.slow

TESTS = """
import sys, threading
import pytest

STATE = {"node": 0, "incarnation": 0, "term": 1, "dirty": 5, "commit": -1}

def test_good(logwitness_history):
    for flushed in (1, 2):
        logwitness_history.event("flush", flushed=flushed, **STATE)

def test_bad(logwitness_history):
    for flushed in (2, 1):
        logwitness_history.event("flush", flushed=flushed, **STATE)

def test_bad_half_way(logwitness_history):
    for flushed in (2, 1):
        logwitness_history.event("flush", flushed=flushed, **STATE)
    logwitness_history.check(only=["flushed-monotonic"])
    raise SystemError("not reached")

def test_good_half_way(logwitness_history):
    for flushed in (1, 2):
        logwitness_history.event("flush", flushed=flushed, **STATE)
        assert logwitness_history.check(only=["flushed-within-dirty"]).exit_status == 0

def test_own_failure(logwitness_history):
    logwitness_history.event("flush", flushed=1, **STATE)
    assert 1 == 2, "of its own"

def test_nothing(logwitness_history):
    pass

def test_skipped(logwitness_history):
    pytest.skip("later")

@pytest.mark.logwitness(require=["skip"])
def test_required(logwitness_history):
    for flushed in (1, 2):
        logwitness_history.event("flush", flushed=flushed, **STATE)

def test_commits_alone(logwitness_history):
    for commit in (1, 2):
        logwitness_history.event("commit", flushed=5, **{**STATE, "commit": commit})

@pytest.mark.logwitness(only=["no-such"])
def test_unknown(logwitness_history):
    logwitness_history.event("flush", flushed=1, **STATE)

@pytest.mark.logwitness(requires=["skip"])
def test_misspelt(logwitness_history):
    for flushed in (1, 2):
        logwitness_history.event("flush", flushed=flushed, **STATE)

@pytest.mark.logwitness(["skip"])
def test_unnamed(logwitness_history):
    for flushed in (1, 2):
        logwitness_history.event("flush", flushed=flushed, **STATE)

def test_malformed(logwitness_history):
    logwitness_history.event("flush", flushed=1, node=0)

def test_threads(logwitness_history):
    def client(process):
        for op in range(process * 100, process * 100 + 100):
            for kind in ("invoke", "ok"):
                logwitness_history.event(kind, process=process, op=op, f="tail", offset=0 if kind == "ok" else None)
    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for each in threads: each.start()
    for each in threads: each.join()

@pytest.fixture
def late(logwitness_history):
    yield
    logwitness_history.event("flush", flushed=0, **STATE)

def test_late(late, logwitness_history):
    for flushed in (1, 2):
        logwitness_history.event("flush", flushed=flushed, **STATE)
"""

PASSED = {"good", "good_half_way", "threads"}
BAD_MARKS = {"misspelt", "unnamed"}
KEPT = {"bad", "bad_half_way", "own_failure", "nothing", "required", "commits_alone", "unknown", "malformed", "late"}


REFUSED = """
import os, threading
import pytest

STATE = {"node": 0, "incarnation": 0, "term": 1, "dirty": 5, "flushed": 5}

def test_kind(logwitness_history):
    logwitness_history.event("comit", commit=1)

def test_column(logwitness_history):
    logwitness_history.event("commit", commmit=1, **STATE)

def test_value(logwitness_history, tmp_path):
    os.chdir(tmp_path)
    logwitness_history.event("commit", commit=1, **STATE)
    logwitness_history.event("commit", commit=1.5, **STATE)
    logwitness_history.event("commit", commit=1, **STATE)

def test_missing(logwitness_history):
    logwitness_history.event("commit", commit=1)

def test_range(logwitness_history):
    logwitness_history.event("invoke", process=0, op=0, f="append", value=1, acks=5)

def test_time(logwitness_history):
    logwitness_history.event("commit", time="now", commit=1, **STATE)

def test_many(logwitness_history):
    for number in range(20_000):
        logwitness_history.event("commit", commit="x" if number == 9_000 else 1, **STATE)

def test_caught(logwitness_history):
    with pytest.raises(TypeError):
        logwitness_history.event("commit", commmit=1, **STATE)
    logwitness_history.event("commit", commit=1, **STATE)

@pytest.mark.filterwarnings("ignore")
def test_thread(logwitness_history):
    def client():
        for number in range(9_000):
            logwitness_history.event("commit", commit="x" if number == 3 else 1, **STATE)
    thread = threading.Thread(target=client)
    thread.start()
    thread.join()
    logwitness_history.event("commit", commit=1, **STATE)

class Lines:
    def __repr__(self):
        return "one" + chr(10) + "two"

def test_lines(logwitness_history):
    logwitness_history.event("commit", commit=Lines(), **STATE)

def test_long(logwitness_history):
    logwitness_history.event("invoke", process=0, op=0, f="append", text="x" * 500 + chr(27), acks="\\n")
"""
STATED = "node=0, incarnation=0, term=1, dirty=5, flushed=5"
SAID = {
    "kind": "event('comit', commit=1): there is no kind 'comit': did you mean commit? the kinds are acked, ",
    "column": f"event('commit', commmit=1, {STATED}): there is no column 'commmit': did you mean commit? the columns",
    "value": f"event('commit', commit=1.5, {STATED}): field commit: 1.5 is not an integer from ",
    "missing": "event('commit', commit=1): field node: a commit event must carry it",
    "range": "event('invoke', process=0, op=0, f='append', value=1, acks=5): field acks: 5 is no acks level",
    "time": f"event('commit', time='now', commit=1, {STATED}): field time: \"now\" is not an integer from ",
    "many": f"event('commit', commit='x', {STATED}): field commit: \"x\" is not an integer from ",
    "caught": f"event('commit', commmit=1, {STATED}): there is no column 'commmit': did you mean commit? the columns",
    "thread": f"event('commit', commit='x', {STATED}): field commit: \"x\" is not an integer from ",
    "lines": f"event('commit', commit=one\\ntwo, {STATED}): field commit: one\\ntwo is not an integer from ",
    "long": '…: field acks: "\\n" is not an integer from -128 to 127',
}
"""By test of `REFUSED`: what is said of the call; its place comes before."""


def _pytest(directory: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=100, check=False)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("session")
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nlogwitness_dir = kept\n")
    (directory / "test_it.py").write_text(TESTS)
    return directory, _pytest(directory)


def test_outcomes(session: tuple[Path, str]) -> None:
    _, out = session
    for name in PASSED:
        assert f"PASSED test_it.py::test_{name}\n" in out
    for name in KEPT - {"late"}:
        assert f"FAILED test_it.py::test_{name}" in out
    # The end of another fixture comes after the test, a mark that nobody understands before it.
    errors = {"late", *BAD_MARKS}
    for name in errors:
        assert f"ERROR test_it.py::test_{name}" in out
    assert "SystemError" not in out
    assert out.count("ERROR test_it") == len(errors)
    assert f"{len(KEPT) - 1} failed, {len(PASSED) + 1} passed, 1 skipped, {len(errors)} errors" in out


def test_a_failure_is_explained(session: tuple[Path, str]) -> None:
    directory, out = session
    assert "flushed-monotonic: Node 0 moved its flushed offset back from 2 to 1 without a truncation that far." in out
    assert "  event 1 at " in out
    assert f"the history: logwitness check {directory}/kept/test_it.py-test_bad-" in out
    assert "no check is called 'no-such'" in out
    assert "the mark logwitness takes only=, require= and configuration=, not requires" in out
    assert "the mark logwitness takes only=, require= and configuration=, not ['skip']" in out
    assert "skip: required, but it had nothing to judge" in out
    assert "nothing in this history could be judged" in out
    # Nobody is accused of what is not recorded: it is said what is missing.
    assert "committed-flushed-on-majority: undecided: who votes is not known: the configuration names neither " in out
    assert "undecided: commit indexes move, but no leader event is recorded" in out


def test_what_is_refused_says_the_field_the_value_and_the_place(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(REFUSED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    out = _pytest(tmp_path, "-W", "ignore")
    lines = REFUSED.splitlines()
    for name, said in SAID.items():
        found = [line for line in out.splitlines() if said in line and not line.startswith("FAILED")]
        begin = lines.index(next(line for line in lines if line.startswith(f"def test_{name}("))) + 1
        end = next((place for place, line in enumerate(lines[begin:], begin) if not line), len(lines))
        places = [re.search(r"(?:^|: )test_it\.py:(\d+): ", line) for line in found]
        assert any(place and begin < int(place[1]) <= end for place in places), (name, found)
        assert all(line.isprintable() for line in found)
    assert "During handling" not in out
    assert f"{len(SAID)} failed" in out


def test_the_run_of_a_failed_test_is_kept(session: tuple[Path, str]) -> None:
    directory, _ = session
    kept = {each.name.removeprefix("test_it.py-test_")[:-9]: each for each in (directory / "kept").iterdir()}
    assert set(kept) == KEPT
    run = open_run(kept["bad"])
    assert run.manifest is not None
    assert run.manifest.name == "test_it.py::test_bad"
    assert run.table().column("flushed").to_pylist() == [2, 1]


def test_the_next_session_replaces_what_was_kept(session: tuple[Path, str]) -> None:
    directory, _ = session
    assert "1 passed" in _pytest(directory, "test_it.py::test_good")
    before = {each.name for each in (directory / "kept").iterdir()}
    assert "1 failed" in _pytest(directory, "test_it.py::test_bad")
    assert {each.name for each in (directory / "kept").iterdir()} == before


@pytest.mark.parametrize(("kept", "said"), [("[7]", "1 passed"), ("[9]", "Value 7 was acknowledged with acks=all at ")])
def test_the_example_of_the_page_judges_what_was_appended(tmp_path: Path, kept: str, said: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
    (example,) = re.findall(r"^    import pytest\n(?:(?: {4}.*)?\n)+", page, re.M)
    cluster = f"class Cluster:\n    append = lambda self, value: 0\n    read = lambda self: {kept}\n"
    fixture = "@pytest.fixture\ndef cluster():\n    return Cluster()\n"
    (tmp_path / "test_it.py").write_text(f"{textwrap.dedent(example)}\n{cluster}\n{fixture}")
    assert said in _pytest(tmp_path)


def test_a_start_of_pytest_loads_nothing_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n    assert 'logwitness.pytest_plugin' in sys.modules\n"
        "    heavy = {'pyarrow', 'numpy', 'loghistory', 'msgspec', 'click', 'rich'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    # Other plugins may load what they like.
    out = _pytest(tmp_path, "-p", "no:hypothesispytest", "-p", "no:rerunfailures")
    assert "1 passed" in out, out
