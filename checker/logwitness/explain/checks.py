"""What the checker can explain: its checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..models import every_check


def topics() -> Iterator[dict[str, Any]]:
    """One topic for each check that is installed, as `logwitness.explain.topics` describes it."""
    for check in every_check():
        yield {
            "kind": "check",
            "name": check.id,
            "says": check.rule,
            "source": tuple(check.source),
            "details": [
                ("A fact that it judges", check.fact),
                ("It needs", f"{', '.join(check.kinds) or 'any events'} with {', '.join(check.columns)}"),
            ],
            "shows": [f"logwitness check --only {check.id} RUN"],
        }
