"""The names of anomalies, as history-checks.md#anomalies has them, for the checks that find them."""

from __future__ import annotations

from collections.abc import Sequence

from ..checks.contract import Outcome

NAMES = {
    "inconsistent-offset": "inconsistent offset",
    "duplicate": "duplicate",
    "aborted-read": "aborted read",
    "phantom": "phantom",
    "lost-write": "lost write",
    "unseen": "unseen",
    "skip": "skip",
    "non-monotonic-read": "non-monotonic read",
    "non-monotonic-append": "non-monotonic append",
    "real-time-inversion": "real-time inversion",
    "uncommitted-read": "uncommitted read",
    "stale-tail": "stale tail",
    "linearizable": "not linearizable",
    "linearizable-log": "not linearizable",
}
"""By check id. The last two have no row of their own in the table."""

_GENERAL = "not linearizable"
_ROWS = set(NAMES.values()) - {_GENERAL}


def anomalies(checks: Sequence[Outcome]) -> list[str]:
    """What was found, each once, by the names of the table; what is no row of it by the id of its check.

    That a log is not linearizable is told only if no row of the table says more.
    """
    names = dict.fromkeys(NAMES.get(each.id, each.id) for each in checks if each.violated)
    if names.keys() & _ROWS:
        names.pop(_GENERAL, None)
    return list(names)
