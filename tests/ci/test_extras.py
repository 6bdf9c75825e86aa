"""What a command says where its extra is not installed: one line with the extra and how to install it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from logspec.errors import _EXTRAS as EXTRAS_OF_SPEC
from logwitness.extras import EXTRAS, not_installed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "histories" / "runs" / "raft" / "reference-jsonl"

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    "Finds what is on the path, but for these modules."
    missing = set(sys.argv.pop(1).split(","))

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in cls.missing else super().find_spec(name, path, target)

sys.meta_path[:] = [Without if each is PathFinder else each for each in sys.meta_path]
from logwitness.cli import main
main(prog_name="logwitness")
"""

SERVERS = ("httpx2", "starlette", "uvicorn")
"""What the implementation imports of the extra `servers`."""

NEEDED = [
    ("audit RUN OUT", "spark"),
    ("campaign --seeds 1 OUT", "spark"),
    ("spec prove acks", "proofs"),
    ("spec check async-flush", "spec"),
    ("spec catalogue", "spec"),
    ("cluster --protocol pull-queries", "servers"),
]
WITH_TLC = [("spec setup", "tla"), ("spec trace RUN", "tla")]
"""Commands that work without an extra where TLC was fetched before."""
NEEDS_NOTHING = [
    "check RUN",
    "checks",
    "history show RUN",
    "simulate --seed 3 --duration 200ms --output OUT",
    "hunt --mutant commit-counts-dirty --seeds 40 --processes 1",
]


def _words(command: str, out: Path) -> list[str]:
    return [{"RUN": str(RUN), "OUT": str(out)}.get(word, word) for word in command.split()]


def _without(command: str, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", WITHOUT, ",".join((*EXTRAS, *SERVERS)), *_words(command, out)]
    return _run(words, out, **environment)


def _run(words: list[str], out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = os.environ | environment
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=given, cwd=out.parent)


def _keeps(done: subprocess.CompletedProcess[str], extra: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"not installed: pip install 'logwitness[{extra}]'" in line


@pytest.mark.parametrize(("command", "extra"), NEEDED)
def test_a_missing_extra_is_one_line(command: str, extra: str, tmp_path: Path) -> None:
    _keeps(_without(command, tmp_path / "out"), extra)


@pytest.mark.parametrize(("command", "extra"), WITH_TLC)
def test_without_tlc_the_extra_is_named(command: str, extra: str, tmp_path: Path) -> None:
    # A copy of the modules, which does not look into the cache of this checkout.
    spec = shutil.copytree(ROOT / "spec", tmp_path / "spec")
    _keeps(_without(command, tmp_path / "out", XDG_CACHE_HOME=str(tmp_path), PYTHONPATH=str(spec)), extra)


@pytest.mark.parametrize("command", NEEDS_NOTHING)
def test_the_rest_needs_no_extra(command: str, tmp_path: Path) -> None:
    done = _without(command, tmp_path / "out")
    assert done.returncode == 0, done.stderr


def test_stages_that_cannot_run_say_why(tmp_path: Path) -> None:
    """The others answer all the same; what was not looked at is undecided, never green."""
    done = _without("validate --seeds 1 --only simulation --only proofs --json", tmp_path / "out")
    assert (done.returncode, done.stderr) == (3, "")
    stages = {each["stage"]: each for each in json.loads(done.stdout)["results"]}
    assert stages["simulation"]["verdict"] == "holds"
    assert stages["proofs"]["verdict"] == "undecided"
    assert "pip install 'logwitness[proofs]'" in stages["proofs"]["sentence"]


def test_what_only_a_search_decides_is_undecided_and_says_why(tmp_path: Path) -> None:
    """Everything else in the same call is judged."""
    history = ROOT / "tests" / "recorded" / "jepsen-cas-register" / "bad" / "cas-failure.edn"
    done = _without(f"check {history} RUN", tmp_path / "out")
    assert (done.returncode, done.stderr) == (3, "")
    assert re.search(r"^  linearizable: undecided: .*pip install 'logwitness\[porcupine\]'$", done.stdout, re.M)
    assert done.stdout.splitlines()[-1].startswith("2 histories: 1 holds, 1 undecided;")


def test_help_lists_every_command_all_the_same(tmp_path: Path) -> None:
    shown = _without("--help", tmp_path / "out").stdout
    for name in metadata.entry_points(group="logwitness.commands").names:
        assert re.search(rf"^  {name} ", shown, re.M), name


@pytest.mark.parametrize("extras", [EXTRAS, EXTRAS_OF_SPEC])
def test_the_extras_are_those_of_the_distribution(extras: dict[str, str]) -> None:
    distributions = {"yaml": "pyyaml", "z3": "z3-solver", "linearizability_checker": "linearizability-checker"}
    wanted = metadata.requires("logwitness") or []
    for module, extra in extras.items():
        name = distributions.get(module, module)
        assert any(re.match(rf"{name}\b.*extra == ['\"]{extra}['\"]", each) for each in wanted), module


def test_a_missing_part_of_a_module_is_brought_by_the_extra_of_the_module() -> None:
    missing = ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")
    assert not_installed(missing) == "the module pyspark is not installed: pip install 'logwitness[spark]'"
    assert not_installed(ModuleNotFoundError(name="their.own")) == "the module their is not installed"
    assert not_installed(ImportError("cannot import\n name 'x'")) == "cannot import name 'x'"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("from os import no_such_name", "cannot import name 'no_such_name' from 'os'"),
        ("other = 1", "module 'torn' has no attribute 'command'"),
        ("command = 1", "it is not a command"),
    ],
)
def test_a_command_that_cannot_be_loaded_is_one_line(module: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "torn.py").write_text(module)
    info = tmp_path / "torn-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torn\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[logwitness.commands]\ntorn = torn:command\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-m", "logwitness", "torn", "--anything"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"logwitness: `logwitness torn` is not available: {said}")


@pytest.mark.long
def test_in_an_environment_that_really_lacks_the_extras(tmp_path: Path) -> None:
    """What base.lock installs, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements" / "base.lock"], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", ROOT], check=True)
    out = tmp_path / "out"
    begin = [str(python), "-m", "logwitness"]
    for command, extra in [*NEEDED, *WITH_TLC]:
        _keeps(_run([*begin, *_words(command, out)], out, XDG_CACHE_HOME=str(tmp_path)), extra)
    for command in NEEDS_NOTHING:
        done = _run([*begin, *_words(command, out)], out)
        assert done.returncode == 0, done.stderr
