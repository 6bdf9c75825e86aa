"""The checks: rooms by protocol, in them families, in them checks.

A module or package below this one that has a ``FAMILY`` is a family of the house; there is no list to add it to.
Installed packages add theirs through the entry point group ``logwitness.families`` (`third_party`).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib import import_module

from .contract import Check, Family
from .third_party import admitted


@cache
def house_families() -> tuple[Family, ...]:
    """The families of this package, each room by name: those that others depend on come first, and those of protocols
    before those that judge any log."""
    found: dict[str, Family] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        family = getattr(import_module(module.name), "FAMILY", None)
        if isinstance(family, Family):
            found.setdefault(family.name, family)
    return tuple(sorted(found.values(), key=lambda family: (not family.is_ground, family.protocol is None)))


@cache
def _all() -> tuple[tuple[Family, ...], tuple[str, ...], dict[str, Family]]:
    added, left_out = admitted(house_families())
    found = (*house_families(), *added)
    return found, left_out, {check.id: family for family in found for check in family.checks}


def families() -> tuple[Family, ...]:
    """Every family, those of installed packages last."""
    return _all()[0]


def left_out() -> tuple[str, ...]:
    """Why families of installed packages are not used, a sentence each."""
    return _all()[1]


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, family by family; no two have the same id."""
    return tuple(check for family in families() for check in family.checks)


def families_of(only: Iterable[str]) -> tuple[Family, ...]:
    """The families that judge the checks with these ids. KeyError with the first unknown id."""
    found, _, family_of = _all()
    wanted = {family_of[name].name for name in only}
    return tuple(family for family in found if family.name in wanted)
