"""What a mutant is: the reference protocol with one thing changed, and what must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from quorumlog.raft.core import RaftCore
from quorumlog.raft.rules import REFERENCE
from quorumlog.raft.state import Configuration, Restored
from quorumlog.simulation.raft_node import CoreFactory


@dataclass(frozen=True, slots=True)
class Mutant:
    """One known fault.

    ``change`` says it in a line, ``checks`` are the ids of the checks of which one must notice, ``setting`` names
    the runs that bring it out fast (`quorumlog.simulation.settings`).
    """

    id: str
    change: str
    checks: tuple[str, ...]
    make_core: CoreFactory
    setting: str


def with_rules(**changed: Callable[..., Any]) -> CoreFactory:
    """A factory of cores whose rules are the reference's but for these; raises TypeError for an unknown rule."""
    rules = replace(REFERENCE, **changed)

    def make(configuration: Configuration, restored: Restored) -> RaftCore:
        return RaftCore(configuration, restored, rules)

    return make
