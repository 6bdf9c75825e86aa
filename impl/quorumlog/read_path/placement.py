"""Copysets: which shards get the copies of a record, so that the replication property holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.rules import Rules

_WORD = (1 << 64) - 1


def mixed(key: int, shard: int) -> int:
    """A number that looks random, the same everywhere: who comes first under a key is who has the smallest.

    Source: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
    """
    value = (key * 0x9E3779B97F4A7C15 + shard * 0xD1B54A32D192ED03) & _WORD
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _WORD
    return value ^ value >> 31


def chosen(
    nodeset: Nodeset, rules: Rules, allowed: Collection[int], key: int, kept: Iterable[int] = ()
) -> tuple[int, ...] | None:
    """A copyset of ``allowed`` shards with those ``kept``, few more than needed, in an order that ``key`` decides.

    None if the property cannot be satisfied.
    """
    found = [shard for shard in kept if shard in nodeset.locations]
    rest = sorted(
        (shard for shard in nodeset.shards if shard in allowed and shard not in found),
        key=lambda shard: mixed(key, shard),
    )
    while not satisfied(nodeset, rules, found):
        if not rest:
            return None
        best = max(rest, key=lambda shard: (_gain(nodeset, found, shard), -rest.index(shard)))
        rest.remove(best)
        found.append(best)
    return tuple(found)


def satisfied(nodeset: Nodeset, rules: Rules, copyset: Collection[int]) -> bool:
    """Whether copies on these shards satisfy the replication property."""
    return rules.replicated(nodeset.scopes, {shard: shard in copyset for shard in nodeset.shards})


def _gain(nodeset: Nodeset, found: Collection[int], shard: int) -> int:
    """In how many scopes a shard adds a domain that is still missing."""
    gain = 0
    for scope in nodeset.scopes:
        covered = [domain for domain in scope.domains if any(each in found for each in domain)]
        gain += len(covered) < scope.factor and not any(shard in domain for domain in covered)
    return gain
