"""The tool chain, obtained by the project's own set-up, and runs recorded by the simulator's command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from logspec.toolchain import Toolchain, find_toolchain

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside the tests


@pytest.fixture(scope="session")
def tools() -> Toolchain:
    return find_toolchain()


@pytest.fixture(scope="session")
def simulate(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Record a simulated run with the given options of ``logwitness simulate``."""

    def record(*options: str) -> Path:
        place = tmp_path_factory.mktemp("simulated") / "run"
        command = [str(Path(sys.executable).parent / "logwitness"), "simulate", "-o", str(place), *options]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        return place

    return record
