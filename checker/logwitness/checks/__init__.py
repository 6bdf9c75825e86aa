"""The checks, one module a family. `FAMILIES` is all there is; adding a family is adding it here."""

from __future__ import annotations

from collections.abc import Iterable

from .clients import FAMILY as CLIENTS
from .contract import Check, Family
from .linearizable_log import FAMILY as LINEARIZABLE_LOG
from .raft.elections import FAMILY as ELECTIONS
from .raft.offsets import FAMILY as OFFSETS
from .raft.replicas import FAMILY as REPLICAS

FAMILIES: tuple[Family, ...] = (OFFSETS, ELECTIONS, REPLICAS, CLIENTS, LINEARIZABLE_LOG)


def all_checks() -> tuple[Check, ...]:
    """Every check, family by family."""
    return tuple(check for family in FAMILIES for check in family.checks)


def families_of(only: Iterable[str] | None) -> tuple[Family, ...]:
    """The families that judge the checks with these ids (None: all). KeyError with the first unknown id."""
    if only is None:
        return FAMILIES
    wanted = list(only)
    known = {check.id for check in all_checks()}
    for name in wanted:
        if name not in known:
            raise KeyError(name)
    return tuple(family for family in FAMILIES if any(check.id in wanted for check in family.checks))
