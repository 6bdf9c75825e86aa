"""Builds the worker by the project's own command; nothing here is skipped where it is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from linearizability_checker import Checker

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside the tests


@pytest.fixture(scope="session")
def worker() -> str:
    """The path of the built worker."""
    done = subprocess.run(
        [sys.executable, "-m", "linearizability_checker.build"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def checker(worker: str) -> Iterator[Checker]:
    with Checker(timeout=30) as opened:
        yield opened
