"""A checker for each module of tests; nothing here is skipped where the worker is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from linearizability_checker import Checker

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside the tests


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Checker(timeout=30) as opened:
        yield opened
