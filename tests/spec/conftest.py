"""The tool chain, obtained by the project's own set-up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from logspec.toolchain import Toolchain, find_toolchain

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside the tests


@pytest.fixture(scope="session")
def tools() -> Toolchain:
    return find_toolchain()
