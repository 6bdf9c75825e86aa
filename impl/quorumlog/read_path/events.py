"""What goes into the cores of the read path and what comes out, beside the shared events and effects.

The event log, the metadata log and the epoch store are asked by effects and answered by events; the driver carries
connections between readers and shards, which lose nothing while they last.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from quorumlog.events import Effect, Event
from quorumlog.read_path.event_log import LogRecord
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.records import Copy

# -- logs that everybody reads -------------------------------------------------------------------------------------


class StatusesLearned(Event, frozen=True):
    """The event log up to ``version``: statuses by shard, and how many rebuildings were completed until then.

    ``leaving``: the shards that no copyset may have; ``rebuilt``: those of them whose copies are to be made anew, since
    version ``plan``; ``given_up``: such a plan was once given up; ``drained``: those that leave until somebody says
    that they are back; ``forgotten``: by shard the newest epoch of which it may have had records that nobody else has;
    ``epoch``: the newest that has begun; ``left``: by shard the version at which it last began to leave.
    """

    version: int
    statuses: Mapping[int, int]
    completed: int
    leaving: frozenset[int] = frozenset()
    rebuilt: frozenset[int] = frozenset()
    plan: int = 0
    given_up: bool = False
    drained: frozenset[int] = frozenset()
    forgotten: Mapping[int, int] = msgspec.field(default_factory=dict)
    epoch: int = 0
    left: Mapping[int, int] = msgspec.field(default_factory=dict)


class NodesetsLearned(Event, frozen=True):
    """The nodesets by the first epoch that each goes for; one with fewer of them is older."""

    since: Mapping[int, Nodeset]


class MetadataRead(Event, frozen=True):
    """The metadata of ``epoch``: a nodeset for the epochs ``since`` to ``until``; the ``last`` one has no successor."""

    epoch: int
    since: int
    until: int
    last: bool
    nodeset: Nodeset


class AskStatuses(Effect, frozen=True):
    """Read the event log again; answered by `StatusesLearned`."""


class AskMetadata(Effect, frozen=True):
    """Read the metadata log for an epoch; answered by `MetadataRead`."""

    epoch: int


# -- a reader ------------------------------------------------------------------------------------------------------


class Connected(Event, frozen=True):
    """There is a connection to a shard, or to a reader."""

    peer: int


class Disconnected(Event, frozen=True):
    """There is none, or no more."""

    peer: int


class Connect(Effect, frozen=True):
    """Open a connection to a shard, in place of any; answered by `Connected` or `Disconnected`."""

    peer: int


class MemoryPressed(Event, frozen=True):
    """Memory is short, or no longer: windows shrink, or grow again."""

    short: bool


# -- a shard -------------------------------------------------------------------------------------------------------


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of what a shard has on its disk; what is None stays."""

    copy: Copy | None = None
    delete: tuple[int, int] | None = None  # from, to
    sealed: int | None = None
    clean: tuple[int, int, int, int, int] | None = None  # epoch, lng, last, run, attempt
    attempt: tuple[int, int, int] | None = None  # run, epoch, and which of its attempts read this shard last
    last_clean: int | None = None
    trim_point: int | None = None
    intact: bool | None = None  # it has all that was ever stored on it


class Persist(Effect, frozen=True):
    """Write a change durably, behind those of earlier effects; answered by `Persisted`."""

    ticket: int
    change: Change


class Persisted(Event, frozen=True):
    """The change with this ticket is durable."""

    ticket: int


class ReadBatch(Effect, frozen=True):
    """Read so many bytes for a stream; answered by `BatchRead` after as long as that takes."""

    reader: int
    stream: int
    ticket: int
    bytes: int


class BatchRead(Event, frozen=True):
    """The batch with this ticket is read."""

    reader: int
    stream: int
    ticket: int


class TellEventLog(Effect, frozen=True):
    """Append a record to the event log."""

    record: LogRecord


# -- a sequencer ---------------------------------------------------------------------------------------------------


class AppendAsked(Event, frozen=True):
    """A client appends a payload; ``request`` is the driver's name for it."""

    request: int
    payload: bytes


class TrimAsked(Event, frozen=True):
    """A client gives up what is at or below ``lsn``."""

    request: int
    lsn: int


class AppendEnded(Effect, frozen=True):
    """It is at ``lsn``, or it failed: ``refused`` if certainly nothing was written."""

    request: int
    lsn: int
    refused: str | None = None


class TrimEnded(Effect, frozen=True):
    """Shards were told to trim, or it failed."""

    request: int
    lsn: int
    refused: str | None = None


class Activate(Effect, frozen=True):
    """Ask the epoch store for a new epoch; answered by `Activated`."""


class Activated(Event, frozen=True):
    """A new epoch: its number, nodeset, up to where epochs are clean, and the nodesets of those that are not."""

    epoch: int
    nodeset: Nodeset
    last_clean: int
    unclean: Mapping[int, Nodeset]


class MetadataWritten(Event, frozen=True):
    """The metadata log shows the nodeset of the epoch."""

    epoch: int


class SetClean(Effect, frozen=True):
    """Set the last clean epoch in the epoch store, if it is the one before; answered by `CleanSet`."""

    epoch: int


class CleanSet(Event, frozen=True):
    """``epoch`` is the last clean one there now."""

    epoch: int
