"""What readers, shards, sequencers and recoveries send each other; all immutable.

Streams of reading have a connection of their own between a reader and a shard, on which nothing is lost, doubled or
overtaken while it lasts. All else is asked again until it is answered, and may arrive twice or late.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from quorumlog.read_path.records import Copy


class Message(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of everything that is sent."""


# -- reading -------------------------------------------------------------------------------------------------------


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """Single-copy delivery as a reader asks for it: whom it takes for down, and how copysets are ordered.

    ``seed`` None: in their own order. ``region`` None: no local SCD. ``factor`` is R.
    """

    down: frozenset[int]
    factor: int
    seed: int | None = None
    region: str | None = None


class Start(Message, frozen=True):
    """To a shard: send from ``first`` on, up to ``until`` at last and ``high`` for now; None: all send all."""

    stream: int
    filter_version: int
    first: int
    until: int
    high: int
    delivery: Delivery | None


class Window(Message, frozen=True):
    """To a shard: the window is now from ``low`` to ``high``."""

    stream: int
    filter_version: int
    low: int
    high: int


class Stop(Message, frozen=True):
    """To a shard: send no more."""

    stream: int


class Answer(StrEnum):
    """How a shard answers START; REBUILDING: it lost its data (read-path.md#lost-data-refuses)."""

    OK = "ok"
    REBUILDING = "rebuilding"
    FAILED = "failed"


class FromShard(Message, frozen=True):
    """Base of what a shard sends a reader; ``version``: that of the event log as the shard knows it."""

    stream: int
    version: int


class Started(FromShard, frozen=True):
    """The answer to START; the filter version says to which."""

    filter_version: int
    answer: Answer


class Records(FromShard, frozen=True):
    """Records in order, without their payloads, which are in ``block``."""

    copies: tuple[Copy, ...]
    block: bytes


class GapKind(StrEnum):
    """What a shard says of a range of LSNs."""

    NO_RECORDS = "no_records"
    UNDER_REPLICATED = "under_replicated"
    TRIM = "trim"
    ACCESS = "access"
    NOT_IN_CONFIG = "not_in_config"


class ShardGap(FromShard, frozen=True):
    """The shard has nothing to send from ``first`` to ``last``."""

    kind: GapKind
    first: int
    last: int


# -- writing -------------------------------------------------------------------------------------------------------


class Store(Message, frozen=True):
    """To a shard: keep this copy durably. ``epoch``: that of the sequencer, or which is recovered.

    A donor that writes it anew for a lost shard names its ``plan``, and the last epoch that it knows to be recovered
    on all shards; others the ``version`` of the event log by which they chose the copyset.
    """

    copy: Copy
    epoch: int
    plan: int = 0
    version: int = 0


class StoreAnswer(StrEnum):
    """How a shard answers STORE, SEAL, CLEAN."""

    OK = "ok"
    SEALED = "sealed"  # a later epoch writes, or a later recovery
    REBUILDING = "rebuilding"  # it lost its data, or the copyset has a shard that did, or left unknown to the sender


class Stored(Message, frozen=True):
    """The answer to STORE, for the wave, run and plan of it; ``sealed``: up to which epoch the shard is sealed.

    ``gone``: whom of the copyset it is refused for; nobody if the shard that answers takes no STORE at all.
    """

    lsn: int
    wave: int
    run: int
    answer: StoreAnswer
    sealed: int
    plan: int = 0
    gone: tuple[int, ...] = ()


class Release(Message, frozen=True):
    """To all shards: readers may have what is at or below ``lsn``, which is in ``epoch`` or before it.

    ``version``: that of the event log, as the sequencer knew it when it placed these records.
    """

    epoch: int
    lsn: int
    version: int = 0


class Trim(Message, frozen=True):
    """To all shards: give up what is at or below ``lsn``."""

    lsn: int


# -- recovery ------------------------------------------------------------------------------------------------------


class Seal(Message, frozen=True):
    """To a shard: take no more writes in epochs up to ``epoch``; it names the run of the recovery."""

    epoch: int
    first: int  # the first epoch that is to be recovered


class Sealed(Message, frozen=True):
    """The answer: the last known good LSN of each epoch from the first on, by the copies here."""

    epoch: int
    answer: StoreAnswer
    sealed: int
    known_good: dict[int, int] = {}


class Digest(Message, frozen=True):
    """To a shard: send all copies of ``epoch`` above ``lng``, released or not."""

    run: int
    epoch: int
    lng: int
    attempt: int = 1


class DigestAnswer(Message, frozen=True):
    """The answer to DIGEST: the shard's copies of ``epoch``; ``version``: that of the event log, as it knows it.

    ``known_good``: the last known good LSN of the epoch by now; what is trimmed is no more among the copies.
    Source: read-path.md#recovery-digest, read-path.md#loss-is-remembered.
    """

    run: int
    epoch: int
    copies: tuple[Copy, ...]
    attempt: int = 1
    version: int = 0
    known_good: int = 0


class Clean(Message, frozen=True):
    """To a shard: ``epoch`` is recovered; it was read above ``lng`` and ends at ``last``, or is empty if that is 0."""

    run: int
    epoch: int
    lng: int
    last: int
    attempt: int = 1


class Cleaned(Message, frozen=True):
    """The answer to CLEAN; OK is durable. Source: read-path.md#recovery-clean."""

    run: int
    epoch: int
    answer: StoreAnswer
    attempt: int = 1


class AskRecovered(Message, frozen=True):
    """From shard to shard: how did the recoveries of these epochs end?"""

    first: int
    last: int


class Recovered(Message, frozen=True):
    """By epoch ``(lng, last, run, attempt)`` as CLEAN said, of those that are known."""

    epochs: dict[int, tuple[int, int, int, int]]
