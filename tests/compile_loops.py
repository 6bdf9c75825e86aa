"""Makes the machine code of the checks' loops, so that tests find it made."""

from __future__ import annotations

import multiprocessing

from logwitness import check
from logwitness.checks.kernel import all_made, available
from logwitness.engine.local import families_for, setting_of
from logwitness.explain.transcripts import HISTORIES, all_cases, cases

HEALTHY = sorted(HISTORIES.glob("healthy*.txt"))
"""Histories that show a protocol whole; that of Raft, whose loops take the longest, is the first."""


def from_the_end() -> None:
    """Make the loops of the last protocol first, and of each protocol those of the last family."""
    for file in reversed(HEALTHY):
        for case in cases(file):
            setting = setting_of(case.table, case.configuration, compiled=True)
            for family in reversed(families_for(None, setting)):
                only = [each.id for each in family.checks]
                check(case.table, only, configuration=case.configuration, compiled=True)


def from_the_beginning() -> None:
    """Make the loops in the order in which they are needed, and then judge all small histories by them."""
    for case in [*(case for file in HEALTHY for case in cases(file)), *all_cases()]:
        check(case.table, configuration=case.configuration, compiled=True)


def main() -> None:
    """Go about it from both ends at once; a loop that one process makes, the other waits for."""
    other = multiprocessing.get_context("spawn").Process(target=from_the_end)
    other.start()
    from_the_beginning()
    other.join()
    if other.exitcode == 0:
        all_made()


if __name__ == "__main__" and available():
    main()
