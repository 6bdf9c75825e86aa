"""The wheel alone gives Porcupine to a Python that has nothing else; a build that fails says why in one sentence."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from linearizability_checker import WorkerMissing, check_operations, process

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[1]
SNIPPETS = re.findall(r"(?ms)^## (.*?)\n.*?```python\n(.*?)```", (PROJECT / "README.md").read_text())
"""Heading and code of each."""
WHEEL = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir"]


def _pip(*words: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def _hook() -> ModuleType:
    """The module that builds the worker."""
    spec = importlib.util.spec_from_file_location("hatch_build", PROJECT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    """What Go has compiled for one build is there for all."""
    hook = _hook()
    known = hook.environment(PROJECT, hook.tool_chain())
    with pytest.MonkeyPatch.context() as patch:
        for name in ("GOCACHE", "GOMODCACHE"):
            patch.setenv(name, known[name])
        yield


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made from the source distribution as an index would hand it out."""
    place = tmp_path_factory.mktemp("dist")
    build = "import sys; from hatchling.build import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, place], cwd=PROJECT, capture_output=True, timeout=60, check=True)
    (archive,) = place.iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    (sources,) = place.glob("*/")
    assert not list(sources.rglob("porcupine-worker*"))
    _pip(*WHEEL, place, sources)
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python in which the wheel is installed and nothing else."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place)
    (packages,) = place.glob("lib/python*/site-packages")
    _pip("--python", place / "bin" / "python", "install", "--no-index", wheel)
    assert {path.name.partition("-")[0] for path in packages.iterdir()} == {"linearizability_checker"}
    return place / "bin" / "python"


@pytest.mark.parametrize("snippet", [s[1] for s in SNIPPETS], ids=[s[0] for s in SNIPPETS])
def test_readme_runs_where_nothing_else_is_installed(python: Path, snippet: str, tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path)}  # and no Go
    done = subprocess.run(
        [python, "-I", "-c", snippet], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("visualization" in snippet) == (tmp_path / "history.html").is_file()


def test_readme_shows_three_models() -> None:
    assert [name for name, _ in SNIPPETS] == ["A register", "A key-value store", "A log"]
    assert all(len(snippet.splitlines()) <= 12 for _, snippet in SNIPPETS)


def test_wheel_is_of_a_platform_and_complete(wheel: Path) -> None:
    *_, python, abi, platform = wheel.stem.split("-")
    assert (python, abi) == ("py3", "none")
    assert platform == _hook().platform_tag()
    assert platform != "any"
    with zipfile.ZipFile(wheel) as packed:
        worker = packed.getinfo(f"linearizability_checker/{process.WORKER.name}")
        names = packed.namelist()
        (about,) = (packed.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL"))
        for licence, words in (("go", "The Go Authors"), ("porcupine", "Anish Athalye")):
            assert words in packed.read(f"linearizability_checker/licenses/{licence}.txt").decode()
    assert "Root-Is-Purelib: false" in about
    assert stat.S_IMODE(worker.external_attr >> 16) & 0o111
    assert not [name for name in names if name.endswith((".go", ".mod", ".sum")) or "tests" in name]


def test_worker_is_static_small_and_that_of_the_sources(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        content = packed.read(f"linearizability_checker/{process.WORKER.name}")
    assert len(content) < 5_000_000
    assert b"/lib64/ld-linux" not in content
    for place in (Path.home(), PROJECT, wheel.parent):
        assert str(place).encode() not in content, "built with -trimpath"
    assert content == process.WORKER.read_bytes(), "the same bytes, or what is installed here is of other sources"


def test_sources_are_formatted_and_vetted() -> None:
    hook = _hook()
    gofmt = hook.tool_chain().with_name("gofmt")
    unformatted = subprocess.run([gofmt, "-l", PROJECT / "worker"], capture_output=True, text=True, check=True)
    assert unformatted.stdout == ""
    assert hook.run(PROJECT, "vet", ".") == ""
    assert hook.run(PROJECT, "mod", "verify").strip() == "all modules verified"


def test_missing_worker_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "WORKER", tmp_path / "porcupine-worker")
    with pytest.raises(WorkerMissing, match="is missing: install linearizability-checker with pip") as caught:
        check_operations("log", [])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("content", "mode", "problem"), [(b"", 0o755, "format"), (b"#!/bin/sh\n", 0o644, "denied")])
def test_worker_that_cannot_be_started_is_one_sentence(
    content: bytes, mode: int, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker = tmp_path / "porcupine-worker"
    worker.write_bytes(content)
    worker.chmod(mode)
    monkeypatch.setattr(process, "WORKER", worker)
    with pytest.raises(WorkerMissing, match=rf"{problem}.*install linearizability-checker again") as caught:
        check_operations("log", [])
    assert str(worker) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_tool_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = _hook()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(hook.BuildError, match=r"Go tool chain is missing: install what pyproject\.toml requires"):
        hook.build(PROJECT, process.WORKER)


@pytest.mark.long
def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "worker", tmp_path / "worker")
    (tmp_path / "worker" / "main.go").write_text("package main\nfunc main() { return 5 }\n")
    (tmp_path / "built").mkdir()
    hook = _hook()
    with pytest.raises(hook.BuildError, match="too many return values"):
        hook.build(tmp_path, tmp_path / "built" / "porcupine-worker")
    assert list((tmp_path / "built").iterdir()) == []


def test_module_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "worker", tmp_path / "worker")
    pinned = (tmp_path / "worker" / "go.sum").read_text()
    (tmp_path / "worker" / "go.sum").write_text(pinned.replace("h1:fBZ4", "h1:AAAA"))
    hook = _hook()
    with pytest.raises(hook.BuildError, match="checksum mismatch"):
        hook.build(tmp_path, tmp_path / "porcupine-worker")


def test_package_imports_nothing_but_the_standard_library() -> None:
    command = "import json, sys, linearizability_checker; print(json.dumps(sorted(sys.modules)))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True)
    found = {name.partition(".")[0] for name in json.loads(done.stdout)}
    ours = {"linearizability_checker"}
    assert not {name for name in found - ours if not name.startswith("_")} - set(sys.stdlib_module_names)
