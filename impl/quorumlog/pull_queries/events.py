"""What goes into the core of a server of pull queries and what comes out, beside the shared events and effects.

Logs are those of Raft groups: the assignments, and for each partition its source log and its changelog
(pull-queries.md#partitions). The driver reads them in order from the positions that the core was restored with and
appends with acks=all; it carries messages between servers, which are named by ``host:port``, and enforces the time-out
of forwarded queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from quorumlog.events import Effect, Event
from quorumlog.pull_queries.assignment import Assignment
from quorumlog.pull_queries.execution import Attempt
from quorumlog.pull_queries.lag import LagReport
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.table import Filter, Record, Value


class Clocks(NamedTuple):
    """What time it is, in milliseconds: monotonic, for intervals, and by the wall clock (pull-queries.md#clocks)."""

    monotonic: int
    wall: int


class Query(msgspec.Struct, frozen=True):
    """A look-up of keys, or a scan with a filter if ``keys`` is None; ``bound``: the lag that it says it accepts.

    Raises ValueError for a negative bound.
    """

    keys: tuple[str, ...] | None = None
    filter: Filter | None = None
    bound: int | None = None

    def __post_init__(self) -> None:
        if self.bound is not None and self.bound < 0:
            raise ValueError(f"acceptable.offset.lag is {self.bound}; it must be 0 or more")


class Answer(msgspec.Struct, frozen=True):
    """The rows of one partition at one position of its changelog (pull-queries.md#rows-are-the-table)."""

    partition: int
    host: str
    position: int
    rows: tuple[tuple[str, Value], ...]


# -- events --------------------------------------------------------------------------------------------------------


class HeartbeatReceived(Event, frozen=True):
    """A server says that it is alive, with its own stamp."""

    host: str
    stamp: int


class ReportReceived(Event, frozen=True):
    """A server says how far its partitions are."""

    report: LagReport


class AssignmentRead(Event, frozen=True):
    """The next record of the assignments."""

    record: Assignment


class ChangelogRead(Event, frozen=True):
    """The next offset of a changelog; None: a record of Raft's own."""

    partition: int
    offset: int
    record: Record | None


class ChangelogVisible(Event, frozen=True):
    """Up to which offset a changelog is visible, -1 for none."""

    partition: int
    visible: int


class SourceVisible(Event, frozen=True):
    """The same of a source log."""

    partition: int
    visible: int


class SourceRead(Event, frozen=True):
    """What `ReadSource` asked for, from offset ``first`` on: keys with values or None; None: a record of Raft's own."""

    partition: int
    first: int
    entries: tuple[tuple[str, Value | None] | None, ...]


class AppendFailed(Event, frozen=True):
    """Records for a changelog were not appended, or nobody knows whether they were."""

    partition: int


class QueryAsked(Event, frozen=True):
    """A client asks this server; ``request`` is the driver's name for it."""

    request: int
    query: Query


class ClientGone(Event, frozen=True):
    """Nobody waits for the answer to a client's query any more (pull-queries.md#no-second-hop)."""

    request: int


class QueryForwarded(Event, frozen=True):
    """Another server asks this one for partitions."""

    request: int
    query: Query
    partitions: tuple[int, ...]


class ForwardEnded(Event, frozen=True):
    """A request of `Forward` is over: what was answered completely, and what failed for the rest."""

    request: int
    host: str
    answers: tuple[Answer, ...]
    failure: Failure | None = None


# -- effects -------------------------------------------------------------------------------------------------------


class SendHeartbeat(Effect, frozen=True):
    """Tell a server that this one is alive; no reply is awaited (pull-queries.md#heartbeats-to-all)."""

    to: str
    stamp: int


class SendReport(Effect, frozen=True):
    """Tell a server how far this one's partitions are."""

    to: str
    report: LagReport


class Propose(Effect, frozen=True):
    """Append an assignment; another one may come first, which is no failure."""

    assignment: Assignment


class AppendRecords(Effect, frozen=True):
    """Append records to a changelog behind those of earlier effects; a failure is answered by `AppendFailed`."""

    partition: int
    records: tuple[Record, ...]


class ReadSource(Effect, frozen=True):
    """Read the offsets from ``first`` to below ``end`` of a source log; answered by `SourceRead`, in order."""

    partition: int
    first: int
    end: int


class Forward(Effect, frozen=True):
    """Ask a server for partitions, with the query's own bound; answered by `ForwardEnded`."""

    request: int
    host: str
    query: Query
    partitions: tuple[int, ...]


class Emit(Effect, frozen=True):
    """Send the client the rows of a partition, which are all of it (pull-queries.md#emitted-once)."""

    request: int
    answer: Answer


class Finish(Effect, frozen=True):
    """The query of a client is over: complete, or failed with a message and what was attempted."""

    request: int
    message: str | None = None
    attempts: tuple[Attempt, ...] = ()


class Reply(Effect, frozen=True):
    """Answer a forwarded query: the partitions that this server answers, and why it gives up the others."""

    request: int
    answers: tuple[Answer, ...]
    refused: Mapping[int, str]
