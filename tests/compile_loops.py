"""Makes the machine code of the checks' loops, so that tests find it made."""

from __future__ import annotations

import multiprocessing

from logwitness import check
from logwitness.checks.kernel import all_made, available
from logwitness.explain.transcripts import HISTORIES, all_cases, cases


def judge(step: int) -> None:
    """Judge histories by machine code, in order (``step`` 1) or from the last one on (-1)."""
    for case in [*cases(HISTORIES / "healthy.txt"), *all_cases()][::step]:
        check(case.table, configuration=case.configuration, compiled=True)


def main() -> None:
    """Go through the histories from both ends at once; a loop that one process makes, the other waits for."""
    other = multiprocessing.get_context("spawn").Process(target=judge, args=(-1,))
    other.start()
    judge(1)
    other.join()
    if other.exitcode == 0:
        all_made()


if __name__ == "__main__" and available():
    main()
