"""How a mutant of pull queries is made: the reference with other rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from quorumlog.events import CoreFactory
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.rules import REFERENCE


def with_rules(**changed: Callable[..., Any]) -> CoreFactory:
    """A factory of cores whose rules are the reference's except for these; raises TypeError for an unknown rule."""
    return partial(ServerCore, rules=replace(REFERENCE, **changed))
