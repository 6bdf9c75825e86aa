"""Where shards are, and what a replication property demands of copysets (read-path.md#replication-property)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby

import msgspec

from quorumlog.read_path.rules import Scope

SCOPES = ("REGION", "CLUSTER", "ROW", "RACK", "NODE")
"""From large to small; below them is the shard itself."""

Location = tuple[str, ...]
"""The names of a shard's domains, a name for each of `SCOPES`."""


def scopes_of(property_: Mapping[str, int], locations: Mapping[int, Location]) -> tuple[Scope, ...]:
    """The scopes that count in a replication property, from large to small, over the shards with these locations.

    A scope is kept only if its factor exceeds those of the larger ones; the shard scope takes the largest. Raises
    ValueError for an unknown scope, and for a factor below 1 or none at all.
    """
    unknown = [name for name in property_ if name not in SCOPES]
    if unknown:
        raise ValueError(f"scope {unknown[0]!r} is unknown; known are {', '.join(SCOPES)}")
    if not property_ or min(property_.values()) < 1:
        raise ValueError(f"replication property {dict(property_)}: give at least one scope a factor of 1 or more")
    found: list[Scope] = []
    largest = 0
    for depth, name in enumerate(SCOPES, 1):
        if property_.get(name, 0) > largest:
            largest = property_[name]
            found.append(Scope(largest, _domains(locations, depth)))
    return (*found, Scope(largest, tuple((shard,) for shard in sorted(locations))))


def _domains(locations: Mapping[int, Location], depth: int) -> Sequence[Sequence[int]]:
    """The shards by domain; a domain is known by its names from the largest scope down."""
    ordered = sorted(locations, key=lambda shard: (locations[shard][:depth], shard))
    return tuple(tuple(group) for _, group in groupby(ordered, key=lambda shard: locations[shard][:depth]))


class Nodeset(msgspec.Struct, frozen=True, dict=True):
    """Where the records of some epochs may lie: a replication property over the shards with these locations."""

    replication: dict[str, int]
    locations: dict[int, Location]

    @cached_property
    def shards(self) -> tuple[int, ...]:
        """The numbers of its shards, in ascending order."""
        return tuple(sorted(self.locations))

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that count, from large to small. Raises ValueError; see `scopes_of`."""
        return scopes_of(self.replication, self.locations)

    @property
    def factor(self) -> int:
        """R, the largest factor: how many shards a copyset has at least (read-path.md#replication-property)."""
        return self.scopes[-1].factor

    def region(self, shard: int) -> str:
        """The name of the region of a shard. Raises KeyError if the shard is none of these."""
        return self.locations[shard][0]
