"""What the history says of messages and logs, the same of simulated and of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quorumlog.read_path import messages as m
from quorumlog.read_path.event_log import EventLog, LogRecord
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.reader import ReaderCore, value_of
from quorumlog.read_path.records import UNDER_REPLICATED, DamagedError, decompressed
from quorumlog.read_path.stream import with_payload
from quorumlog.read_path.wire import json_text

Noted = tuple[str, dict[str, Any]]
"""An event: its kind and its columns."""


def nodeset_noted(epoch: int, nodeset: Nodeset) -> Noted:
    """From ``epoch`` on records lie on the shards of ``nodeset``: the event `nodeset`."""
    text = json_text({"replication": nodeset.replication, "locations": nodeset.locations})
    return "nodeset", {"epoch": epoch, "shards": sum(1 << shard for shard in nodeset.shards), "text": text}


def event_noted(log: EventLog, record: LogRecord) -> Noted:
    """The event log has another record, which is folded."""
    text = json_text(log.statuses)
    return "event_log", {"version": log.version, "peer": record.shard, "f": record.word.value, "text": text}


def shipped(message: m.Records, reader: int, filter_version: int) -> Noted:
    """A shard sends a reader records, at least one: the event `ship`."""
    lsns = [copy.lsn for copy in message.copies]
    columns = {"op": message.stream, "peer": reader, "filter": filter_version}
    return "ship", {**columns, "offset": lsns[0], "last_offset": lsns[-1], "text": json_text(lsns)}


def heard(message: m.FromShard, shard: int, filter_version: int) -> Iterator[Noted]:
    """A message of a shard arrived at its reader, on the connection of the START with this filter version."""
    columns = {"op": message.stream, "peer": shard, "filter": filter_version, "version": message.version}
    match message:
        case m.Started():
            yield "stream_started", {"reason": message.answer.value, **columns}
        case m.ShardGap(kind=kind, first=first, last=last):
            yield "stream_heard", {"f": kind.value, "offset": first, "last_offset": last, **columns}
        case m.Records():
            yield from _records_heard(message, columns)


def _records_heard(message: m.Records, columns: dict[str, Any]) -> Iterator[Noted]:
    try:
        payloads = decompressed(message.block, len(message.copies))
    except DamagedError:
        payloads = [b""] * len(message.copies)
    for copy, payload in zip(message.copies, payloads, strict=True):
        whole = with_payload(copy, payload)
        what = {"f": "record" if whole.intact else "damaged", "offset": copy.lsn, "bytes": len(payload)}
        what["record"] = copy.word
        if copy.word == "data" and whole.intact:
            what["value"] = value_of(payload)
        what["count"] = int(bool(copy.flags & UNDER_REPLICATED))
        yield "stream_heard", {**what, **columns}


def stalled(core: ReaderCore, released: int) -> Noted | None:
    """A reader that is not done although it could have all up to ``released``."""
    if core.ended or core.position > released:
        return None
    shards = sum(1 << shard for shard in core.waits_for)
    return "stream_stall", {"op": core.stream, "offset": core.position, "shards": shards}
