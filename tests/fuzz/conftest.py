"""Makes the modules beside the tests importable, and builds the worker by the project's own command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def worker() -> None:
    done = subprocess.run([sys.executable, "-m", "linearizability_checker.build"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
