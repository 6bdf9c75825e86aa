"""A log on many storage shards: who has which copies, what writes and recovers them, what readers hear and deliver.

A shard is a node, and has its number. Offsets are LSNs, epoch * 2^32 + esn. ``shards`` is a set of shards as a bit
mask: bit i is shard i. ``op`` is the read stream, which is the operation `read_stream` of a client, and ``node`` the
node of that reader, or the shard, sequencer or recovery that did it. ``version`` is that of the event log, ``filter``
the filter version of a stream. Sources: read-path.md#shard-state, read-path.md#event-log-version, read-path.md#copies,
read-path.md#recovery-precedence, read-path.md#invariants.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from ..vocabulary import WORD, Column, EventKind, Vocabulary, Words
from .clients import Operation


class RecordWord(StrEnum):
    """Column ``record``: what lies at an LSN."""

    DATA = "data"
    HOLE = "hole"
    BRIDGE = "bridge"


class GapWord(StrEnum):
    """Column ``f`` of a `stream_gap`: the type of the gap that was delivered. Source: read-path.md#gap-verdict."""

    BRIDGE = "bridge"
    HOLE = "hole"
    DATALOSS = "dataloss"
    TRIM = "trim"
    ACCESS = "access"
    NOT_IN_CONFIG = "not_in_config"
    FILTERED_OUT = "filtered_out"


class HeardWord(StrEnum):
    """Column ``f`` of a `stream_heard`: a record, or what the shard said of LSNs for which it sends none."""

    RECORD = "record"
    NO_RECORDS = "no_records"
    UNDER_REPLICATED = "under_replicated"
    TRIM = "trim"
    DAMAGED = "damaged"
    FILTERED_OUT = "filtered_out"
    ACCESS = "access"
    NOT_IN_CONFIG = "not_in_config"


class RewindWord(StrEnum):
    """Column ``f`` of a `stream_rewind`: whether it is due or done. Source: read-path.md#rewind."""

    DUE = "due"
    DONE = "done"


class GraceWord(StrEnum):
    """Column ``f`` of a `stream_grace`: how far the grace period is. Source: read-path.md#gap-grace."""

    BEGUN = "begun"
    OVER = "over"
    GIVEN_UP = "given up"


class NodeWord(StrEnum):
    """Column ``f`` of a `takes_part`: what the process runs as."""

    SHARD = "shard"
    SEQUENCER = "sequencer"
    READER = "reader"


class ShardWord(StrEnum):
    """Column ``reason`` of a `takes_part` of a shard."""

    INTACT = "intact"
    LOST = "lost"


class AnswerWord(StrEnum):
    """Column ``reason`` of a `stream_started`: how the shard answered START. Source: read-path.md#reader-statuses."""

    OK = "ok"
    REBUILDING = "rebuilding"
    FAILED = "failed"


_STREAM = ("node", "op")
_SHARD = ("node", "op", "peer", "filter")

VOCABULARY = Vocabulary(
    "read_path",
    "a log on many storage shards, and its readers",
    kinds=(
        EventKind(
            "takes_part",
            "The process runs as a shard, a sequencer or a reader (`f`); an intact shard has all it ever stored.",
            ("node", "incarnation", "f"),
            may_carry=("reason",),
        ),
        EventKind(
            "nodeset",
            "From `epoch` on records lie on `shards`. `text`: the factor of each scope as `replication`, and by shard "
            "the names of its domains, from large to small, as `locations`.",
            ("epoch", "shards", "text"),
        ),
        EventKind(
            "copy",
            "The shard has a durable copy of the record at `offset`, in place of the one that it had there before, if "
            "any. `shards` is the copyset. `recovery` is 0 if a sequencer wrote it.",
            ("node", "offset", "record", "wave", "recovery", "shards"),
            may_carry=("value",),
        ),
        EventKind("purge", "The shard deleted its copies from `offset` to `last_offset`.", ("node", "offset")),
        EventKind("trim_point", "The shard gave up what is at or below `offset`.", ("node", "offset")),
        EventKind(
            "acknowledge",
            "The sequencer acknowledged `value` at `offset`, stored on `shards` in wave `wave`.",
            ("node", "offset", "wave", "shards", "value"),
        ),
        EventKind(
            "release",
            "The sequencer of `epoch` lets readers have what is at or below `offset`.",
            ("node", "epoch", "offset"),
        ),
        EventKind("seal", "The shard takes no writes of sequencers in epochs up to `epoch`.", ("node", "epoch")),
        EventKind(
            "recover",
            "`epoch` is recovered by run `recovery`: it was read above `offset`, its last LSN is `last_offset`, and "
            "`shards` are the mutation set. `record` is bridge unless no bridge was written.",
            ("node", "epoch", "recovery", "offset", "last_offset", "shards"),
            may_carry=("record",),
        ),
        EventKind(
            "event_log",
            "Record number `version` of the event log is `f`, about shard `peer`. `text`: the statuses by shard then: "
            "0 fully authoritative, 1 under-replicated, 2 authoritative empty, 3 unavailable.",
            ("version", "peer", "f", "text"),
        ),
        EventKind(
            "stream_settings",
            "How the reader reads. `text`: `grace` in nanoseconds, `in_flight`, the most writes in flight, "
            "`require_full_read_set`, `guaranteed_delivery_efficiency` and `single_copy`.",
            (*_STREAM, "text"),
        ),
        EventKind(
            "stream_statuses",
            "The reader knows the event log up to `version`.",
            (*_STREAM, "version"),
        ),
        EventKind(
            "stream_metadata",
            "The reader knows the nodesets of the epochs up to `epoch`.",
            (*_STREAM, "epoch"),
        ),
        EventKind(
            "stream_start",
            "The reader sent START to `peer`: from `offset` on, the window ends at `last_offset`. `shards` is the "
            "known-down list; null: all send all.",
            (*_SHARD, "offset", "last_offset"),
            may_carry=("shards",),
        ),
        EventKind(
            "stream_started",
            "STARTED from `peer` arrived: `reason` is ok, rebuilding or failed.",
            (*_SHARD, "reason", "version"),
        ),
        EventKind("stream_closed", "The connection to `peer` is closed.", (*_STREAM, "peer")),
        EventKind(
            "stream_heard",
            "A record or a gap from `peer` arrived on the connection of that START. `bytes`: of the payload; `count` "
            "is 1 if the shard may lack others where it read the record.",
            (*_SHARD, "f", "offset", "version"),
            may_carry=("last_offset", "record", "value", "bytes", "count"),
        ),
        EventKind(
            "ship",
            "The shard sent reader `peer` these of its records between `offset` and `last_offset`, as LSNs in `text`.",
            (*_SHARD, "offset", "last_offset", "text"),
        ),
        EventKind("stream_record", "The reader delivered a record.", (*_STREAM, "offset", "value")),
        EventKind(
            "stream_gap",
            "The reader delivered a gap of type `f`. `text`, if it follows from an f-majority: its `verdict`; `count`, "
            "of a loss: how many records it reports as lost.",
            (*_STREAM, "offset", "last_offset", "f"),
            may_carry=("text", "count"),
        ),
        EventKind(
            "stream_reject",
            "The application did not yet take what is at `offset`: a record if there is a `value`, else a gap.",
            (*_STREAM, "offset"),
            may_carry=("value",),
        ),
        EventKind(
            "stream_grace",
            "A grace period for `offset` began, ran out or was given up, as `f` says.",
            (*_STREAM, "offset", "f"),
        ),
        EventKind(
            "stream_rewind",
            "A rewind is due, or was done, as `f` says; done: `shards` is the known-down list; null: all send all.",
            (*_STREAM, "f", "filter"),
            may_carry=("shards",),
        ),
        EventKind(
            "stream_slow", "These shards are slow now; `count` non-empty ones are down.", (*_STREAM, "shards", "count")
        ),
        EventKind(
            "stream_stall",
            "The reader has waited for a while, or to the end of the run, for an answer from any of `shards` about "
            "`offset`.",
            (*_STREAM, "offset", "shards"),
        ),
    ),
    columns=(
        Column(33, "version", pa.int64(), "how many records of the event log were known"),
        Column(34, "filter", pa.int64(), "the filter version of a read stream: it grows with every rewind"),
        Column(35, "shards", pa.int64(), "a set of shards, as a bit mask"),
        Column(36, "record", WORD, "what lies at an LSN: data, a hole or a bridge"),
        Column(37, "wave", pa.int32(), "the attempt to store the record that this copy belongs to"),
        Column(38, "recovery", pa.int64(), "which run of a recovery wrote it; 0: a sequencer did"),
    ),
    words=(
        Words(
            "f",
            ("invoke", "ok", "fail", "info"),
            {
                Operation.APPEND_RECORD: "append a record; `offset` of the answer is its LSN",
                Operation.READ_STREAM: "read all from LSN `offset` to `last_offset`; open until the last was delivered",
                Operation.TRIM_LOG: "give up what is at or below LSN `offset`",
            },
        ),
        Words(
            "record",
            ("copy", "recover", "stream_heard"),
            {
                RecordWord.DATA: "what a client appended",
                RecordWord.HOLE: "nothing, as the recovery of the epoch decided",
                RecordWord.BRIDGE: "nothing from here to the end of the epoch",
            },
        ),
        Words(
            "f",
            ("stream_gap",),
            {
                GapWord.BRIDGE: "between epochs, or at the end of one",
                GapWord.HOLE: "nothing was written there",
                GapWord.DATALOSS: "what was written there is lost",
                GapWord.TRIM: "given up by retention",
                GapWord.ACCESS: "the reader may not read on",
                GapWord.NOT_IN_CONFIG: "there is no such log any more",
                GapWord.FILTERED_OUT: "the reader's own filter left it out",
            },
        ),
        Words(
            "f",
            ("stream_heard",),
            {
                HeardWord.RECORD: "a record, or a hole or bridge that recovery wrote",
                HeardWord.NO_RECORDS: "the shard has nothing there",
                HeardWord.UNDER_REPLICATED: "the shard has nothing there, and may lack what it had",
                HeardWord.TRIM: "trimmed",
                HeardWord.DAMAGED: "a record that does not read back as it was written",
                HeardWord.FILTERED_OUT: "a record that the reader's own filter left out",
                HeardWord.ACCESS: "the reader may not read on",
                HeardWord.NOT_IN_CONFIG: "there is no such log any more",
            },
        ),
        Words(
            "f",
            ("stream_rewind",),
            {
                RewindWord.DUE: "all shards are to be asked again",
                RewindWord.DONE: "they were asked, from the next LSN to deliver on",
            },
        ),
        Words(
            "f",
            ("stream_grace",),
            {
                GraceWord.BEGUN: "the reader waits for shards that have not answered",
                GraceWord.OVER: "it waits no longer",
                GraceWord.GIVEN_UP: "there is nothing to wait for",
            },
        ),
        Words(
            "f",
            ("takes_part",),
            {
                NodeWord.SHARD: "it stores records",
                NodeWord.SEQUENCER: "it gives records their LSNs, once it is active",
                NodeWord.READER: "it reads for a client",
            },
        ),
        Words(
            "reason",
            ("takes_part",),
            {
                ShardWord.INTACT: "the shard has all it ever stored",
                ShardWord.LOST: "it lacks what it stored, and has not been rebuilt since",
            },
        ),
        Words(
            "reason",
            ("stream_started",),
            {
                AnswerWord.OK: "the shard sends what it has",
                AnswerWord.REBUILDING: "it lost its data, and sends nothing",
                AnswerWord.FAILED: "it cannot say yet what its answers are worth",
            },
        ),
    ),
)
