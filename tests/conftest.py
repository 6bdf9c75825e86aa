"""Which tests run in one process where they are spread over several: those that share what is slow to make.

And which are left to the night. All of them can interrupt what they start, even behind a shell's ``&``, which takes
that away; and no example of Hypothesis fails by the clock.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "tests/checker/test_checks.py::test_compiled_loops_agree": "machine code and Spark",
    "tests/checker/test_folds.py::test_compiled_loops_agree": "machine code and Spark",
    "tests/checker/test_engine.py": "machine code and Spark",
    "tests/pipeline/": "machine code and Spark",
    "tests/spec/test_core_follows_spec.py": "walks of TLC",
    "tests/spec/test_reading_traces.py": "streams of recorded runs",
    "tests/spec/test_installed.py": "the wheel",
    "tests/proofs/test_catalogue.py": "the goals of proofs",
    "tests/ci/test_documented_check.py::test_the_catalogue": "the goals of proofs",
    "tests/importers/test_importers_limits.py": "hostile files",
    "tests/ci/test_pytest_fixture.py": "a session of pytest",
    "tests/simulation/test_documented_protocol.py": "an installed protocol",
    "checker/linearizability_checker/tests/test_distribution.py": "the wheel of Porcupine",
    "tests/docs/test_functions.py": "parsed modules",
}
"""What tests share, by how their names begin: one process makes it, once."""

# Spark judges little here: to compile it quickly but not well takes a third off its processor time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Scheduling(LoadScopeScheduling):
    """Gives each test to whoever is free, and those that are together to one, first of all."""

    def _split_scope(self, nodeid: str) -> str:
        return next((shared for start, shared in TOGETHER.items() if nodeid.startswith(start)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``long(3)``: three cases of a test are for `make test-long`, the others for `make test-night`; ``long``: all.

    ``sampled(3)``: every third case of a test is in `make quick`, the first among them, and the others are ``slow``.
    """
    seen: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is not None:
            test = item.nodeid.partition("[")[0]
            if cases[test] % sampled.args[0]:
                item.add_marker("slow")
            cases[test] += 1
        mark = item.get_closest_marker("long")
        if mark is not None and mark.args:
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > mark.args[0]:
                item.add_marker("night")
