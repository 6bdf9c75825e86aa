"""Where records may lie, and whose answers tell that one does not exist: the checker's own f-majority.

Written from the sources below alone. Sets of shards are bit masks; texts are not trusted: what has
another form says nothing.

Sources: documents.md#read-path-gap-detection, read-path.md#replication-property, read-path.md#complete-domain,
read-path.md#f-majority-verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import NamedTuple

import msgspec
import numpy as np

from ..codes import MAX_OFFSET, NULL
from ..columns import Array, Ints
from ..kernel import kernel, part
from ..words import Words

NONE, INCOMPLETE, NON_AUTH, COMPLETE = range(4)
"""What answers say of an LSN that none of them has; from NON_AUTH on nobody is left to wait for."""
VERDICTS = ("none", "incomplete", "non_auth", "complete")
"""The same as words."""
FULLY_AUTHORITATIVE, UNDERREPLICATION, AUTHORITATIVE_EMPTY, UNAVAILABLE = range(4)

MOST_SHARDS = 63
_MOST_COPIES = MOST_SHARDS + 1
"""No more shards than that can be asked for."""
_SCOPES = ("REGION", "CLUSTER", "ROW", "RACK", "NODE")
_OPENS, _CLOSES, _COMMA, _ZERO, _NINE = b"[],09"
_MOST_DIGITS = 18


def members(mask: int) -> Iterator[int]:
    """The shards of a set, ascending."""
    return (shard for shard in range(mask.bit_length()) if mask >> shard & 1)


def mask_of(shards: Iterable[int]) -> int:
    """These shards as a set, a bit each; those that no set of shards can have are left out."""
    return sum(1 << shard for shard in {*shards} if 0 <= shard < MOST_SHARDS)


@part
def size(mask: int) -> int:
    """How many shards a set has."""
    shards = 0
    while mask > 0:
        mask &= mask - 1
        shards += 1
    return shards


class Nodeset(msgspec.Struct, frozen=True, dict=True):
    """Factors by scope, and by shard the names of its domains, from large to small."""

    replication: dict[str, int]
    locations: dict[int, tuple[str, str, str, str, str]]

    @cached_property
    def shards(self) -> int:
        """Its shards as a set, a bit each (`mask_of`)."""
        return mask_of(self.locations)

    @cached_property
    def factor(self) -> int:
        """How many copies a record has: R, the largest factor of any scope."""
        return max(self.replication.values())

    @cached_property
    def scopes(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
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

    def verdict(self, statuses: Mapping[int, int], responded: int) -> int:
        """What the shards that responded tell: COMPLETE, INCOMPLETE, NON_AUTH or NONE."""
        full = non_empty = 0
        for shard in members(self.shards):
            status = statuses.get(shard, FULLY_AUTHORITATIVE)
            full |= (status in (FULLY_AUTHORITATIVE, UNAVAILABLE)) << shard
            non_empty |= (status != AUTHORITATIVE_EMPTY) << shard
        answered, everyone = full & responded, not full & ~responded
        for factor, domains in self.scopes:
            complete = sum(bool(domain & answered) and not domain & non_empty & ~answered for domain in domains)
            if complete >= max(0, sum(bool(domain & non_empty) for domain in domains) - factor + 1):
                return COMPLETE if everyone else INCOMPLETE
        return NON_AUTH if everyone else NONE


class Places(NamedTuple):
    """Nodesets for loops that are compiled, in the order of the epochs from which on they are in force."""

    since: Ints
    factor: Ints  # R of each
    scopes: Ints  # where the scopes of each begin, and end behind the last
    factors: Ints  # of each scope
    begins: Ints  # where the domains of each scope begin, and end behind the last
    domains: Ints


@part
def nodeset_at(places: Places, lsn: int) -> int:
    """Which nodeset an LSN has; -1: it is not known."""
    which = len(places.since) - 1
    while which >= 0 and places.since[which] > lsn >> 32:
        which -= 1
    return which


@part
def factor_at(places: Places, lsn: int) -> int:
    """How many copies a record at an LSN has; 0: its nodeset is not known."""
    which = nodeset_at(places, lsn)
    return 0 if which < 0 else int(places.factor[which])


@part
def satisfied(places: Places, lsn: int, shards: int) -> bool:
    """Whether copies on these shards satisfy the property of an LSN's epoch (read-path.md#replication-property)."""
    which = nodeset_at(places, lsn)
    if which < 0:
        return False
    for scope in range(places.scopes[which], places.scopes[which + 1]):
        having = 0
        for place in range(places.begins[scope], places.begins[scope + 1]):
            having += places.domains[place] & shards != 0
        if having < places.factors[scope]:
            return False
    return True


def _placed(since: Mapping[int, Nodeset]) -> Places:
    nodesets = [since[epoch] for epoch in sorted(since)]
    scopes = [scope for each in nodesets for scope in each.scopes]
    return Places(
        *(
            np.array(column, dtype=np.int64)
            for column in (
                sorted(since),
                [min(each.factor, _MOST_COPIES) for each in nodesets],
                [*accumulate((len(each.scopes) for each in nodesets), initial=0)],
                [min(factor, _MOST_COPIES) for factor, _ in scopes],
                [*accumulate((len(domains) for _, domains in scopes), initial=0)],
                [domain for _, domains in scopes for domain in domains],
            )
        )
    )


class Nodesets:
    """The nodesets that epochs have, as far as they were told."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._since: dict[int, Nodeset] = {}
        self.places = _placed(self._since)

    def learn(self, epoch: int, text: int) -> None:
        """From an epoch on this is the nodeset."""
        found = _said(self._words.text(text))
        if found is not None and found != self._since.get(epoch):
            self._since[epoch] = found
            self.places = _placed(self._since)

    def of(self, epoch: int) -> Nodeset | None:
        """The nodeset in force in an epoch, recorded for it or for the last one before; None if there is none."""
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


_LSNS = msgspec.json.Decoder(list[int])
_SEVERAL = msgspec.json.Decoder(list[list[int]])


def lsns_said(text: str | None, first: int, last: int) -> list[int]:
    """The LSNs from ``first`` to ``last`` that the text of a `ship` names."""
    try:
        named: list[int] = [] if text is None else _LSNS.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []
    return [lsn for lsn in named if first <= lsn <= last]


def _decoded(texts: Sequence[str]) -> list[list[int]]:
    """What all of them say, each a list of numbers; nothing if one has another form."""
    joined = f"[{','.join(texts)}]"
    lists = joined.count("[") == joined.count("]") == len(texts) + 1  # one text is not to end what another one began
    if not lists or not all(text[:1] == "[" and text[-1:] == "]" for text in texts):
        return []
    try:
        return _SEVERAL.decode(joined)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []


@kernel
def _read_plain(pool: Array, begins: Ints, ends: Ints, first: Ints, last: Ints, named: Ints, upto: Ints) -> bool:
    """What texts say that are lists of numbers and nothing else; whether all are."""
    count = 0
    for i in range(len(begins)):
        at, end = begins[i], ends[i] - 1
        if end <= at or pool[at] != _OPENS or pool[end] != _CLOSES:
            return False
        at += at + 1 == end  # nothing is in it
        while at < end:  # it is where a number is to begin, but for what comes before
            at += 1
            lsn, begin = 0, at
            while at < end and _ZERO <= pool[at] <= _NINE:
                lsn = 10 * lsn + int(pool[at]) - _ZERO
                at += 1
                if at - begin > _MOST_DIGITS:
                    return False
            if at == begin or (pool[begin] == _ZERO and at > begin + 1) or (at < end and pool[at] != _COMMA):
                return False
            if first[i] <= lsn <= last[i]:
                named[count] = lsn
                count += 1
        upto[i + 1] = count
    return True


def all_lsns_said(words: Words, texts: Ints, first: Ints, last: Ints, compiled: bool) -> tuple[Ints, Ints]:
    """What `lsns_said` finds in each of several texts, all in one array, and where those of each begin, and end."""
    if compiled:
        places = texts - (NULL + 1)
        if ((places >= 0) & (places < words.texts)).all():
            pool, begins, ends = words.encoded(places)
            named, upto = np.zeros(int((ends - begins).sum()) // 2, np.int64), np.zeros(len(texts) + 1, np.int64)
            if _read_plain.compiled(pool, begins, ends, first, last, named, upto):
                return named[: upto[-1]], upto
    return _all_said(words.texts_of(texts), first, last)


def _all_said(texts: Sequence[str | None], first: Ints, last: Ints) -> tuple[Ints, Ints]:
    said = _decoded(["[]" if text is None else text for text in texts])
    if len(said) != len(texts):  # some text has another form
        bounds = zip(texts, first.tolist(), last.tolist(), strict=True)
        said = [lsns_said(*each) for each in bounds]
    counts = np.fromiter(map(len, said), dtype=np.int64, count=len(said))
    try:
        named = np.fromiter(chain.from_iterable(said), dtype=np.int64, count=int(counts.sum()))
    except OverflowError:  # an LSN that no bound allows
        named = np.array([lsn if -MAX_OFFSET < lsn < MAX_OFFSET else MAX_OFFSET for each in said for lsn in each])
    of = np.repeat(np.arange(len(said)), counts)
    within = (first[of] <= named) & (named <= last[of])
    ends = np.cumsum(np.bincount(of[within], minlength=len(said)))
    return named[within], np.concatenate((np.zeros(1, dtype=np.int64), ends.astype(np.int64)))


class KnownPlaces:
    """What is known of nodesets by then; two are the same if nothing was told between."""

    def __init__(self, places: Places) -> None:
        self.places = places


@dataclass(frozen=True, slots=True)
class Enough:
    """Whether there are enough copies of what is in an epoch, if shards that lost the end of their records have one.

    Those of ``having`` have one, or may.
    """

    known: KnownPlaces
    epoch: int
    having: int

    def __call__(self, cut: Iterable[int]) -> bool:
        """See `Ends.wait`; these shards were cut off."""
        return satisfied(self.known.places, self.epoch << 32, self.having | mask_of(cut))
