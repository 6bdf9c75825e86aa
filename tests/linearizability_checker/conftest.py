"""A checker for each module of tests, and the modules beside the tests of linearizability-checker itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from linearizability_checker import Checker

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "checker" / "linearizability_checker" / "tests")]


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Checker(timeout=30) as opened:
        yield opened
