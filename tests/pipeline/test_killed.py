"""An audit that is killed, anywhere, and started again ends with the same tables."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from audit_tables import Auditor, tables
from test_audit import RUNS

from logwitness.pipeline.files import LocalFiles
from logwitness.pipeline.store import Store

COMMAND = [sys.executable, "-c", "from logwitness.cli import main; main()", "audit", "--master", "local[2]"]
NAMES = ("mutant-ack-without-term", "mutant-flush-assigns", "reference-jsonl", "reference-parquet", "clients-only")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in NAMES:
        for number in range(6):
            shutil.copytree(RUNS / name, tmp_path / "source" / f"{name}-{number}")
    return tmp_path / "source"


def _started(source: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, source, out],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(out.parent)},  # it may not be there to clear up
    )


@pytest.mark.long
def test_killed_and_started_again(tmp_path: Path, source: Path, audited: Auditor) -> None:
    out = tmp_path / "out"
    process = _started(source, out)
    assert process.stderr is not None
    end = time.monotonic() + 120
    while not list((out / "_rounds").glob("*/*/*/*.parquet")) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.005)
    assert process.poll() is None, process.stderr.read()
    os.kill(process.pid, signal.SIGKILL)  # Java and its workers notice and end by themselves
    process.wait()
    assert list((out / "_rounds").iterdir())
    process.stderr.close()
    assert not list(out.glob("runs/*"))
    # The lock went with the process. The worker that may still write does so in a directory that nobody reads.
    audited(source, out)
    audited(source, tmp_path / "other")
    assert tables(out) == tables(tmp_path / "other")
    assert audited(source, out).judged == 0


class _Killed(BaseException):
    """Stands for the end of the process."""


class _Mortal(LocalFiles):
    """Files of a process that is killed after so many changes to them."""

    def __init__(self, directory: Path, changes: int) -> None:
        super().__init__(directory)
        self._left = changes

    def _live(self) -> None:
        if not self._left:
            raise _Killed
        self._left -= 1

    def write(self, name: str, data: bytes) -> None:
        self._live()
        super().write(name, data)

    def move(self, names: Sequence[tuple[str, str]]) -> None:
        for pair in names:
            self._live()
            super().move([pair])

    def remove(self, name: str) -> None:
        self._live()
        super().remove(name)


def test_a_commit_that_is_cut_off_anywhere_is_none_or_whole(
    tmp_path: Path, audited: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    for name in NAMES[:2]:
        shutil.copytree(RUNS / name, source / name)
    audited(source, tmp_path / "before")
    shutil.rmtree(source / NAMES[0])
    shutil.copytree(RUNS / NAMES[2], source / NAMES[0])
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    audited(source, tmp_path / "after")
    old, new = tables(tmp_path / "before"), tables(tmp_path / "after")
    assert old != new
    chosen = random.Random(5)
    seen = set()
    for changes in [1, 2, *sorted(chosen.sample(range(3, 25), 5)), 1000]:
        out = tmp_path / f"killed-{changes}"
        shutil.copytree(tmp_path / "before", out)
        monkeypatch.setattr("logwitness.pipeline.run.LocalFiles", lambda place, n=changes: _Mortal(place, n))
        with suppress(_Killed):
            audited(source, out)
        monkeypatch.undo()
        files = LocalFiles(out)
        Store(files).open()
        files.close()
        found = tables(out)
        assert found in (old, new), changes
        seen.add(found == new)
        audited(source, out)
        assert tables(out) == new
    assert seen == {False, True}
