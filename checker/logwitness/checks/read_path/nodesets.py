"""Where records may lie, and whose answers tell that one does not exist: the checker's own f-majority.

Written from the sources below alone. Sets of shards are bit masks; texts are not trusted: what has
another form says nothing.

Sources: documents.md#read-path-gap-detection, read-path.md#replication-property, read-path.md#complete-domain,
read-path.md#f-majority-verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import msgspec

from ..codes import Words

NONE, INCOMPLETE, NON_AUTH, COMPLETE = range(4)
"""What answers say of an LSN that none of them has; from NON_AUTH on nobody is left to wait for."""
VERDICTS = ("none", "incomplete", "non_auth", "complete")
"""The same as words."""
FULLY_AUTHORITATIVE, UNDERREPLICATION, AUTHORITATIVE_EMPTY, UNAVAILABLE = range(4)

MOST_SHARDS = 63
_SCOPES = ("REGION", "CLUSTER", "ROW", "RACK", "NODE")


def members(mask: int) -> Iterator[int]:
    """The shards of a set, ascending."""
    return (shard for shard in range(mask.bit_length()) if mask >> shard & 1)


def mask_of(shards: Iterable[int]) -> int:
    """The set of these shards."""
    return sum(1 << shard for shard in {*shards} if 0 <= shard < MOST_SHARDS)


class Nodeset(msgspec.Struct, frozen=True, dict=True):
    """Factors by scope, and by shard the names of its domains, from large to small."""

    replication: dict[str, int]
    locations: dict[int, tuple[str, str, str, str, str]]

    @cached_property
    def shards(self) -> int:
        """The shards of it."""
        return mask_of(self.locations)

    @cached_property
    def factor(self) -> int:
        """R, the largest factor."""
        return max(self.replication.values())

    @cached_property
    def _scopes(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Of each scope that counts its factor and domains; the shards by themselves come last."""
        found: list[tuple[int, tuple[int, ...]]] = []
        largest = 0
        for depth, scope in enumerate(_SCOPES, 1):
            if self.replication.get(scope, 0) > largest:
                largest = self.replication[scope]
                found.append((largest, self._domains(depth)))
        return (*found, (largest, tuple(1 << shard for shard in members(self.shards))))

    def _domains(self, depth: int) -> tuple[int, ...]:
        found: dict[tuple[str, ...], int] = {}
        for shard in members(self.shards):
            names = self.locations[shard][:depth]
            found[names] = found.get(names, 0) | 1 << shard
        return tuple(found.values())

    def satisfied(self, mask: int) -> bool:
        """Whether copies on these shards satisfy the property (read-path.md#replication-property)."""
        return all(sum(bool(domain & mask) for domain in domains) >= factor for factor, domains in self._scopes)

    def verdict(self, statuses: Mapping[int, int], responded: int) -> int:
        """What the shards that responded tell: COMPLETE, INCOMPLETE, NON_AUTH or NONE."""
        full = non_empty = 0
        for shard in members(self.shards):
            status = statuses.get(shard, FULLY_AUTHORITATIVE)
            full |= (status in (FULLY_AUTHORITATIVE, UNAVAILABLE)) << shard
            non_empty |= (status != AUTHORITATIVE_EMPTY) << shard
        answered, everyone = full & responded, not full & ~responded
        for factor, domains in self._scopes:
            complete = sum(bool(domain & answered) and not domain & non_empty & ~answered for domain in domains)
            if complete >= max(0, sum(bool(domain & non_empty) for domain in domains) - factor + 1):
                return COMPLETE if everyone else INCOMPLETE
        return NON_AUTH if everyone else NONE


class Nodesets:
    """The nodesets that epochs have, as far as they were told."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._since: dict[int, Nodeset] = {}

    def told(self, epoch: int, text: int) -> None:
        """From an epoch on this is the nodeset."""
        found = _said(self._words.text(text))
        if found is not None:
            self._since[epoch] = found

    def of(self, epoch: int) -> Nodeset | None:
        """The nodeset of an epoch."""
        since = max((each for each in self._since if each <= epoch), default=None)
        return None if since is None else self._since[since]

    def __bool__(self) -> bool:
        return bool(self._since)

    @property
    def factor(self) -> int:
        """The largest of all factors; 0 if no nodeset is known."""
        return max((each.factor for each in self._since.values()), default=0)


def _said(text: str | None) -> Nodeset | None:
    """What the text of a nodeset says."""
    try:
        found = None if text is None else msgspec.json.decode(text, type=Nodeset)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    whole = found is not None and found.replication and min(found.replication.values()) > 0
    return found if found is not None and whole and found.replication.keys() <= {*_SCOPES} else None


def statuses_said(text: str | None) -> Mapping[int, int]:
    """What the text of an event log's record says: the status of each shard; none if it has another form."""
    try:
        return {} if text is None else msgspec.json.decode(text, type=dict[int, int])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def lsns_said(text: str | None) -> list[int]:
    """The LSNs that the text of a `ship` names."""
    try:
        return [] if text is None else msgspec.json.decode(text, type=list[int])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []
