"""Which tests run in one process where they are spread over several: those that share what is slow to make.

And all of them can interrupt what they start, even behind a shell's ``&``, which takes that away.
"""

from __future__ import annotations

import signal

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/pipeline/", "tests/spec/test_core_follows_spec.py")
"""One Spark session; the walks that TLC takes."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Scheduling(LoadScopeScheduling):
    """Gives each test to whoever is free, and those that are together to one, first of all."""

    def _split_scope(self, nodeid: str) -> str:
        return next((each for each in TOGETHER if nodeid.startswith(each)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


KNOWN_FAILING = {
    "test_the_rules_of_the_reference_are_what_is_proved": "three rules of office and reads have no claim yet",
    "test_every_rule_agrees_with_plain_execution[keeps_office]": "it counts over a mapping: not symbolic yet",
    "test_every_rule_agrees_with_plain_execution[leadership_confirmed]": "it counts over an iterable of any length",
    "test_small_model[read-unconfirmed]": "its counterexample has no prelude as a history yet",
    "test_small_model[read-index-ignores-caching]": "its counterexample has no prelude as a history yet",
    "test_small_model[read-before-own-term]": "its counterexample has no prelude as a history yet",
    "test_simulated_runs_are_well_formed[duplicates-range(2, 30)]": "seed 14 is undecided; nobody has found out why",
    "test_simulated_runs_are_well_formed[every fault-range(2, 30)]": "seed 5 is undecided; nobody has found out why",
}
"""Tests that fail, and what is missing: debts, each of which an issue or the changelog names."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A known failure is reported as such, and a test that has come to pass as well."""
    for item in items:
        reason = KNOWN_FAILING.get(item.name)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
