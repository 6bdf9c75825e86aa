"""What readers, shards and sequencers are told: windows, limits and time-outs, all times in nanoseconds."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from quorumlog.durations import MILLISECOND, SECOND, Interval, Pause

Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class ReaderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a read stream. The defaults are those of the system that the rules describe (read-path.md#reader-state).

    ``single_copy``: SCD is configured; ``shuffle``: copysets are ordered by the client's seed, by one that is fixed and
    equal for all, or not; ``room``: how many records and gaps wait for the application, which rejects more.
    """

    window: Count = 512
    threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.7
    grace: Pause = 100 * MILLISECOND
    require_full_read_set: bool = False
    skip_trimmed: bool = True
    single_copy: bool = True
    local: bool = False
    shuffle: Literal["client", "fixed", "off"] = "client"
    guaranteed_delivery_efficiency: bool = False
    slow_shards: bool = True
    in_flight: Count = 1000
    room: Count = 1024
    redelivery: Interval = 1 * SECOND
    scd_timeout: Interval = 300 * SECOND
    all_send_all_timeout: Interval = 600 * SECOND
    rewind: Interval = 1 * MILLISECOND
    rewind_most: Interval = 10 * SECOND
    reconnect: Interval = 50 * MILLISECOND
    started: Interval = 500 * MILLISECOND  # after so long without STARTED it is asked for again
    metadata: Interval = 50 * MILLISECOND  # between two questions to the metadata log, where the first said too little
    slow_margin: float = 10.0
    probation: Interval = 60 * SECOND
    probation_most: Interval = 1800 * SECOND

    def as_text(self) -> str:
        """What gaps follow from, as the history has it."""
        flags = ("require_full_read_set", "guaranteed_delivery_efficiency", "single_copy")
        names = ("grace", "in_flight", *flags)
        return msgspec.json.encode({name: getattr(self, name) for name in names}).decode()


class ShardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a storage shard: the limits of a batch, and how often what is not answered is asked again."""

    batch_bytes: Count = 4096
    batch_records: Count = 64
    retry: Interval = 60 * MILLISECOND


class SequencerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a sequencer and of its epoch recoveries: see read-path.md#append-waves, read-path.md#recovery-digest."""

    in_flight: Count = 100
    sticky: Count = 16  # how many records a block has at most
    store: Interval = 30 * MILLISECOND  # the first time-out of a wave; it doubles
    store_most: Interval = 500 * MILLISECOND
    avoid: Interval = 300 * MILLISECOND  # for so long a shard that did not store is left out of copysets
    release: Interval = 40 * MILLISECOND
    recovery: Interval = 60 * MILLISECOND  # after so long without an answer it is asked again
    grace: Interval = 200 * MILLISECOND
