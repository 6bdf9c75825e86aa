"""The protocol of docs/adding-a-protocol.md: installed as the page says, found by name, survived, hunted and shrunk."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "adding-a-protocol.md").read_text()
EXAMPLE = DOCS / "examples" / "primary_backup"
RECORDED = DOCS.parent / "histories" / "runs" / "raft" / "reference-jsonl" / "manifest.json"
MOST_LINES = 150

Run = Callable[..., subprocess.CompletedProcess[str]]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def code_lines(text: str) -> int:
    """Lines that are neither blank nor of a docstring."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return sum(bool(line.strip()) and number not in documented for number, line in enumerate(text.splitlines(), 1))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's protocol is installed."""
    place = tmp_path_factory.mktemp("installed")
    (command,) = re.findall(r"^ {4}(pip install .*)$", PAGE, re.M)
    words = [*shlex.split(command)[1:], "--target", str(place)]
    # Nothing is fetched: what it depends on is here.
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", *words, *options], cwd=DOCS.parent, check=True, timeout=120)
    return place


@pytest.fixture(scope="module")
def logwitness(installed: Path) -> Run:
    """Runs a command of the page in a directory, where the page's protocol is installed."""

    def run(command: str, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
        name, *words = shlex.split(command)
        done = subprocess.run(
            [Path(sys.executable).with_name(name), *words],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


def commands() -> list[str]:
    return re.findall(r"^ {4}(logwitness .*)$", PAGE[PAGE.index("## 7.") :], re.M)


def test_the_page_shows_the_whole_example() -> None:
    code = (EXAMPLE / "primary_backup.py").read_text()
    assert [line for block in blocks("python") for line in block.splitlines() if line] == [
        line for line in code.splitlines() if line
    ]
    assert blocks("toml") == [(EXAMPLE / "pyproject.toml").read_text()]
    configuration = sum(bool(line.strip()) for line in blocks("toml")[0].splitlines())
    number = code_lines(code) + configuration
    assert number <= MOST_LINES
    assert f"in {number} lines of code" in " ".join(PAGE.split())


def test_it_is_simulated_and_judged(logwitness: Run, tmp_path: Path) -> None:
    simulate, *checks = commands()[:3]
    assert "converged" in logwitness(simulate, tmp_path).stdout
    holding: set[str] = set()
    for check in checks:
        answer = json.loads(logwitness(f"{check} --json", tmp_path).stdout)
        holding |= {each["id"] for each in answer["checks"] if each["verdict"] == "holds"}
    assert {"lost-write", "linearizable-log", "log-matching", "committed-agree", "flushed-durable"} <= holding


def test_the_reference_survives(logwitness: Run, tmp_path: Path) -> None:
    (hunt,) = (command for command in commands() if "--reference" in command)
    assert "the reference survived 60 seeds" in logwitness(hunt, tmp_path).stdout


def test_the_mutant_is_found_and_shrunk_as_the_page_says(logwitness: Run, tmp_path: Path) -> None:
    (hunt,) = (command for command in commands() if "--mutant" in command and "hunt" in command)
    (shown,) = blocks("text")
    found = logwitness(hunt, tmp_path).stdout
    assert re.sub(r"\(\d+\.\d s\)", "(0.0 s)", found) == re.sub(r"\(\d+\.\d s\)", "(0.0 s)", shown)
    simulate, check = re.findall(r"logwitness (?:simulate|check) .*", found)
    logwitness(simulate, tmp_path)
    answer = json.loads(logwitness(f"{check} --json", tmp_path, status=1).stdout)
    assert "lost-write" in {each["id"] for each in answer["checks"] if each["verdict"] == "violated"}


TELLING = [
    ("--mutant vote-twice", "raft"),
    ("--mutant ack-unflushed", "primary-backup"),
    ("--setting long-tails", "raft"),
    ("--setting trouble", "primary-backup"),
    (f"--configuration {RECORDED}", "raft"),
    ("--configuration run-3/manifest.json", "primary-backup"),
    ("", "raft"),
]
"""What says which protocol is simulated, or nothing, and which one that is."""


def test_a_mutant_a_setting_or_a_configuration_tells_the_protocol(installed: Path, tmp_path: Path) -> None:
    short = "--seed 1 --duration 100ms"
    lines = [f"simulate {words} {short} -o run-{number}" for number, (words, _) in enumerate(TELLING)]
    assert [status for status, _ in in_one_process(lines, installed, tmp_path)] == [0] * len(lines)
    for number, (words, protocol) in enumerate(TELLING):
        manifest = json.loads((tmp_path / f"run-{number}" / "manifest.json").read_text())
        assert manifest["made_by"]["protocol"] == protocol, words


def test_rules_tell_the_protocol(logwitness: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def acknowledged(dirty, flushed, backups):\n    return dirty\n")
    found = logwitness("logwitness hunt --rules mine.py --seeds 40", tmp_path, status=1).stdout
    assert "--protocol primary-backup" in found
    mine.write_text("def log_ok(last_term, dirty, own_last_term, own_dirty):\n    return False\n")
    logwitness("logwitness simulate --rules mine.py --seed 1 --duration 100ms -o run", tmp_path)
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["made_by"]["protocol"] == "raft"


REFUSED = [
    ("simulate --configuration bad.json", "bad.json: the configuration of the run: "),
    (
        "simulate --mutant vote-twice --setting trouble",
        "setting 'trouble' is one of primary-backup, not of raft, whose settings are default, ",
    ),
    ("hunt --rules mine.py", "acknowledge is not a rule"),
    (
        "simulate --protocol paxos",
        "protocol 'paxos' is unknown; the installed ones are primary-backup, pull-queries, raft",
    ),
    ("hunt --protocol primary-backup --mutant vote-twice", "mutant 'vote-twice' is one of raft, not of primary-backup"),
    ("simulate --protocol raft --setting trouble", "setting 'trouble' is one of primary-backup, not of raft, whose"),
    ("simulate --setting trouble --write-caching", "primary-backup has no option write caching; leave out"),
    ("simulate --setting nowhere", "setting 'nowhere' is unknown; the settings are "),
    ("validate --protocol paxos", "protocol 'paxos' is unknown"),
]
"""What says nothing that is known of a protocol, and the answer."""

COMMANDS = """
import json, shlex, sys
from click.testing import CliRunner
from logwitness.cli import main
done = [CliRunner().invoke(main, shlex.split(line), prog_name="logwitness") for line in sys.stdin]
print(json.dumps([(each.exit_code, each.stderr) for each in done]))
"""


def in_one_process(lines: Sequence[str], installed: Path, cwd: Path) -> list[tuple[int, str]]:
    """Status and errors of commands, one after the other, where the page's protocol is installed."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input="".join(f"{line}\n" for line in lines),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [(status, errors) for status, errors in json.loads(done.stdout)]


def test_what_does_not_tell_it_is_refused_in_one_line(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"nodes": "many"}')
    (tmp_path / "mine.py").write_text("def acknowledge(dirty, flushed, backups):\n    return dirty\n")
    answers = in_one_process([arguments for arguments, _ in REFUSED], installed, tmp_path)
    assert len(answers) == len(REFUSED)
    for (status, errors), (arguments, said) in zip(answers, REFUSED, strict=True):
        assert status == 2, arguments
        assert said in errors
        assert len(errors.splitlines()) == 1, errors


def test_one_of_the_project_is_found_by_its_package(tmp_path: Path) -> None:
    """The record, and how it runs in real processes."""
    (tmp_path / "primary_backup").mkdir()
    (tmp_path / "primary_backup" / "__init__.py").touch()
    (tmp_path / "primary_backup" / "protocol.py").write_text((EXAMPLE / "primary_backup.py").read_text())
    (tmp_path / "primary_backup" / "real.py").write_text("REAL = 'real'")
    (tmp_path / "primary_backup" / "staged.py").write_text("STAGING = 'staged'")
    program = (
        "import sys, quorumlog; quorumlog.__path__.append(sys.argv[1])\n"
        "from quorumlog.protocol import load, names; print(names(), load('primary-backup').name)\n"
        "from quorumlog.node.real_protocol import real_protocol; print(real_protocol('primary-backup'))\n"
        "from quorumlog.cluster.staging import staging; print(staging('primary-backup'))"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    known = "('primary-backup', 'pull-queries', 'raft', 'read-path') primary-backup"
    assert done.stdout.splitlines() == [known, "real", "staged"], done.stderr


def test_how_somebody_elses_runs_in_real_processes_is_found_by_entry_points(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text("REAL, STAGING = 'real', 'staged'\n")
    info = tmp_path / "chain-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chain\nVersion: 1.0\n")
    points = {"real_protocols": "chain = chain:REAL", "staged_protocols": "links = chain:STAGING"}
    (info / "entry_points.txt").write_text("".join(f"[quorumlog.{group}]\n{of}\n" for group, of in points.items()))
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from quorumlog.node.real_protocol import real_protocol, real_protocols\n"
        "from quorumlog.cluster.staging import staged_protocols, staging\n"
        "print(*real_protocols()); print(*staged_protocols()); print(real_protocol('chain'), staging('links'))"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    real, staged, records = done.stdout.splitlines() or [done.stderr] * 3
    assert {"chain", "raft"} <= {*real.split()}
    assert {"chain", "links", "pull-queries", "raft", "read-path"} <= {*staged.split()}
    assert records == "real staged"


def test_validation_says_what_nobody_has_specified(logwitness: Run, tmp_path: Path) -> None:
    done = logwitness("logwitness validate --protocol primary-backup --seeds 4 --json", tmp_path, status=3)
    verdicts = {each["stage"]: (each["verdict"], each["sentence"]) for each in json.loads(done.stdout)["results"]}
    assert verdicts["simulation"][0] == "holds"
    assert verdicts["traces"] == ("undecided", "there is no specification of primary-backup to follow")
    assert verdicts["proofs"] == ("undecided", "there are no proofs about primary-backup")


def test_a_protocol_that_cannot_be_loaded_is_refused_and_the_others_run(logwitness: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[quorumlog.protocols]\nbroken = nowhere:PROTOCOL\n")
    program = "import sys; sys.path.insert(0, ''); from logwitness.cli import main; main()"
    for name, status in (("broken", 2), ("raft", 0)):
        words = ["simulate", "--protocol", name, "--seed", "1", "--duration", "100ms", "-o", name]
        done = subprocess.run(
            [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        if status:
            assert "protocol broken cannot be loaded: No module named 'nowhere'" in done.stderr
