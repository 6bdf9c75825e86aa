"""The names of anomalies, as the table of history-checks.md has them, for the checks that find them."""

from __future__ import annotations

from collections.abc import Sequence

from ..checks.client_checks import CHECKS
from ..checks.contract import Outcome

_IN_TABLE = frozenset(check.id for check in CHECKS) | {"uncommitted-read"}
_NOT_LINEARIZABLE = frozenset({"linearizable", "linearizable-log"})


def anomalies(checks: Sequence[Outcome]) -> list[str]:
    """What was found, each once, by the names of the table; other checks by their ids.

    What is not linearizable and has no name of its own is called that.
    """
    found: dict[str, None] = {}
    for each in checks:
        if each.violated:
            found[_name(each.id)] = None
    return list(found)


def _name(id_: str) -> str:
    if id_ in _IN_TABLE:
        return _SPELLED.get(id_, id_.replace("-", " "))
    return "not linearizable" if id_ in _NOT_LINEARIZABLE else id_


_SPELLED = {
    "non-monotonic-read": "non-monotonic read",
    "non-monotonic-append": "non-monotonic append",
    "real-time-inversion": "real-time inversion",
}
