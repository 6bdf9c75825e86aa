"""Every reader under atheris: coverage-guided bytes from recorded files, with limits of runs, time and memory."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMES = (
    "jsonl",
    "compressed",
    "zstd",
    "parquet",
    "manifest",
    "edn",
    "jepsen-edn",
    "jepsen-json",
    "jepsen-log",
    "porcupine-kv",
    "kafka",
    "baseline",
    "worker",
)
MEMORY_MB = 1500
SLOWEST = 300
"""Seconds by the clock for one input, where others may have the processor nearly all of the time."""
PATIENCE = 3000
"""Seconds beyond those of fuzzing: to instrument the modules takes seconds, and many minutes on such a machine."""

needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason=f"atheris has no wheel for Python {sys.version_info.major}.{sys.version_info.minor} on this machine",
)


def _environment(place: Path) -> dict[str, str]:
    """The fuzzer ends without tidying up, so what it writes goes to ``place``."""
    # Two instruments in one interpreter would be measuring each other.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    return kept | {"TMPDIR": str(place)}


def _fuzz(name: str, place: Path, runs: int, seconds: int) -> None:
    limits = [f"-runs={runs}", f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", f"-timeout={SLOWEST}"]
    command = [sys.executable, str(HERE / "harness.py"), name, str(place / "corpus"), *limits]
    command += ["-seed=20", "-max_len=4096", f"-artifact_prefix={place}/found-"]
    # A program inherits the peak of memory of the process that becomes it, here of all tests before; a child does not.
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *command],
        capture_output=True,
        text=True,
        timeout=seconds + PATIENCE,
        check=False,
        env=_environment(place),
    )
    found = [path.read_bytes() for path in place.glob("found-*")]
    assert done.returncode == 0, f"{found}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    assert "Done " in done.stderr


@pytest.mark.timeout(3600)
@needs_atheris
def test_a_reader(tmp_path: Path) -> None:
    _fuzz("jsonl", tmp_path, 2000, 1)


@pytest.mark.timeout(3600)
@needs_atheris
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "seconds", [pytest.param(10, marks=pytest.mark.long), pytest.param(120, marks=pytest.mark.long(0))]
)
def test_a_reader_for_long(name: str, seconds: int, tmp_path: Path) -> None:
    _fuzz(name, tmp_path, 10_000_000, seconds)


@needs_atheris
def test_a_finding_is_told(tmp_path: Path) -> None:
    """A reader that raises something else fails the run: the harness does look."""
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import runpy, sys\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "import targets\n"
        "def run(data):\n    if b'1' in data: raise KeyError('found')\n"
        "targets.TARGETS['edn'] = targets.Target(run, targets.TARGETS['edn'].seeds)\n"
        f"runpy.run_path({str(HERE / 'harness.py')!r}, run_name='__main__')\n"
    )
    command = [
        sys.executable,
        str(broken),
        "edn",
        str(tmp_path / "corpus"),
        "-runs=100",
        f"-artifact_prefix={tmp_path}/",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=_environment(tmp_path))
    assert done.returncode != 0
    assert "KeyError: 'found'" in done.stdout + done.stderr
