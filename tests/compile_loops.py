"""Makes the machine code of the checks' loops, so that tests find it made."""

from __future__ import annotations

from logwitness import check
from logwitness.checks.kernel import all_made, available
from logwitness.explain.transcripts import HISTORIES, all_cases, cases

if available():
    for case in [*cases(HISTORIES / "healthy.txt"), *all_cases()]:
        check(case.table, configuration=case.configuration, compiled=True)
    all_made()
