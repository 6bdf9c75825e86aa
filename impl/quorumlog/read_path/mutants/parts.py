"""How a mutant of the read path is made: the reference with other rules, or with another core in one role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from quorumlog.events import CoreFactory
from quorumlog.protocol import Mutant
from quorumlog.read_path.core import Role, make_core
from quorumlog.read_path.rules import REFERENCE

TEST = "tests/read_path/test_mutants.py"
"""Where a judge that knows all notices them."""


def with_rules(**changed: Callable[..., Any]) -> CoreFactory:
    """A factory of cores whose rules are the reference's except for these; raises TypeError for an unknown rule."""
    return partial(make_core, rules=replace(REFERENCE, **changed))


def with_cores(
    *,
    shard: type | None = None,
    sequencer: type | None = None,
    reader: type | None = None,
    **changed: Callable[..., Any],
) -> CoreFactory:
    """A factory of cores with another one in a role."""
    given = {Role.SHARD: shard, Role.SEQUENCER: sequencer, Role.READER: reader}
    cores = {role: core for role, core in given.items() if core is not None}
    return partial(make_core, cores=cores, rules=replace(REFERENCE, **changed))


def mutant(
    id_: str,
    change: str,
    make: CoreFactory,
    setting: str = "swarm",
    thread: str = "",
    checks: tuple[str, ...] = (),
    seeds: int = 16,
) -> Mutant:
    """The record of a mutant that the test notices, and these checks."""
    return Mutant(id_, change, checks, make, setting, thread, seeds=seeds, test=TEST)
