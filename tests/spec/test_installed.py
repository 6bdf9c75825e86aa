"""The wheel carries specification and rules: `logwitness spec` and `explain` work away from a checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from click.testing import CliRunner

from logspec.toolchain import JAR_VARIABLE, find_toolchain
from logwitness.cli import main

ROOT = Path(__file__).parents[2]
RUN = ROOT / "histories" / "runs" / "raft" / "mutant-vote-twice"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that has the wheel, and all that it needs from the environment of the tests."""
    place = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", place / "dist", ROOT]
    subprocess.run([*pip, *build], check=True, timeout=120)
    venv.create(place / "environment")
    (packages,) = (place / "environment" / "lib").glob("python*/site-packages")
    # Of a directory that is named in a .pth file the .pth files count for nothing, so the checkout is not found by it.
    (packages / "needed.pth").write_text(str(Path(pytest.__file__).parents[1]))
    # What others have beside it under the same name is nothing to it.
    (packages / "decoy").mkdir()
    for name in ("models.yaml", "catalogue.yaml"):
        (packages / "decoy" / name).write_text("models: []\n")
    install = ["install", "--no-deps", "--no-index", *(place / "dist").iterdir()]
    python = place / "environment" / "bin" / "python"
    subprocess.run([*pip, "--python", python, *install], check=True, timeout=120)
    found = subprocess.run([python, "-c", "import logspec; print(logspec.__file__)"], capture_output=True, check=True)
    assert Path(found.stdout.decode()).is_relative_to(packages)
    return place / "environment" / "bin" / "logwitness"


def _run(program: Path, place: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(place / "cache"), JAR_VARIABLE: str(find_toolchain().jar)}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [program, *words], cwd=place, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_every_module_is_in_the_wheel(program: Path) -> None:
    (modules,) = program.parents[1].glob("lib/python*/site-packages/logspec/modules")
    there = [path.relative_to(ROOT / "spec") for kind in ("*.tla", "*.yaml") for path in (ROOT / "spec").rglob(kind)]
    assert {path.relative_to(modules) for path in modules.rglob("*.*")} == set(there)


def test_models_are_checked(program: Path, tmp_path: Path) -> None:
    done = _run(program, tmp_path, "spec", "check", "reach-elected")
    assert done.returncode == 0, done.stderr
    assert "reach-elected" in done.stdout + done.stderr
    assert (tmp_path / "cache" / "logwitness" / "logspec").is_dir()


def test_a_run_is_followed(program: Path, tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    done = _run(program, tmp_path, "spec", "trace", "run")
    assert done.returncode == 1, done.stderr  # it votes twice


def test_the_catalogue_is_shown(program: Path, tmp_path: Path) -> None:
    done = _run(program, tmp_path, "spec", "catalogue")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["committed-flushed-on-majority", "commit-counts-dirty", "documents.md#read-path"])
def test_rules_are_explained(program: Path, tmp_path: Path, name: str) -> None:
    here = CliRunner().invoke(main, ["explain", "--json", name])
    done = _run(program, tmp_path, "explain", "--json", name)
    assert (done.returncode, done.stderr) == (0, "")
    # Recorded runs are in a checkout only.
    assert json.loads(done.stdout) == {**json.loads(here.stdout), "recorded": None}


@pytest.mark.long
def test_changed_rules_are_validated(program: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "commit_by_counting.py", tmp_path / "mine.py")
    done = _run(program, tmp_path, "validate", "--rules", "mine.py", "--seeds", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    for stage in ("simulation", "traces", "proofs"):
        assert stage in done.stdout
