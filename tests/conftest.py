"""Which tests run in one process where they are spread over several: those that share what is slow to make."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/pipeline/", "tests/spec/test_core_follows_spec.py")
"""One Spark session; the walks that TLC takes."""


class Scheduling(LoadScopeScheduling):
    """Gives each test to whoever is free, and those that are together to one, first of all."""

    def _split_scope(self, nodeid: str) -> str:
        return next((each for each in TOGETHER if nodeid.startswith(each)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)
