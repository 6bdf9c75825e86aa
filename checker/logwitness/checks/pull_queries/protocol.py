"""What a run of pull queries is told by, and what the texts of its events say.

Texts are not trusted: one of another form is None, and what would need it is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec
import numpy as np

from loghistory.schema import Kind
from loghistory.vocabularies.pull_queries import VOCABULARY

from ..codes import OK
from ..columns import Array, Columns, Ints
from ..contract import Check, Protocol, Setting, Tally, Verdicts, violated
from ..words import Words

_WITH_ROWS = frozenset({Kind.SERVE, Kind.ASSIGNED, Kind.ROUTE, Kind.ANSWER, Kind.FINISH})
PULL_QUERIES = Protocol(
    "pull-queries", frozenset(Kind(kind.word) for kind in VOCABULARY.kinds), {Kind.ROWS: _WITH_ROWS}
)

Form = TypeVar("Form")

Positions = dict[int, tuple[int, int]]
"""By partition: how many offsets were passed, and where the changelog ended."""

Rows = list[tuple[str, int | float | str]]
"""Keys with their values."""

Status = dict[str, tuple[bool, int, int | None]]
"""What a server shows of each host: whether it is alive, the time of its status, that of its lag report if it is shown.
"""

UNAVAILABLE = "unavailable:-1"
"""The host that stands for an active that is not known (pull-queries.md#read-once)."""


class Server(msgspec.Struct, frozen=True, dict=True, cache_hash=True):
    """Which host a server is, and what it was told, else as the proposal has it (pull-queries.md#configuration).

    Times are milliseconds.
    """

    host: str
    mode: str = "proposal"
    heartbeat_send: int = 100
    heartbeat_check: int = 200
    heartbeat_window: int = 2000
    missed_threshold: int = 3
    received_threshold: int = 2
    lag_report: int = 5000
    maximum_lag: int = 2**63 - 1
    forward_timeout: int | None = None
    partitions: int = 1
    standbys: int = 2
    standby_reads: bool = True
    heartbeats: bool = True
    lag_reports: bool = True
    with_bound: int | None = None

    def bound(self, said: int | None) -> int:
        """The lag that a query accepts, which says so itself or not (pull-queries.md#bound-from)."""
        of_table = None if self.shipped else self.with_bound
        return next(bound for bound in (said, of_table, self.maximum_lag) if bound is not None)

    @cached_property
    def shipped(self) -> bool:
        """Whether it follows the public implementation (pull-queries.md#two-modes)."""
        return self.mode == "shipped"

    @cached_property
    def sensible(self) -> bool:
        """Whether these numbers can be reckoned with."""
        intervals = self.heartbeat_check, self.lag_report, self.time_out
        thresholds = min(self.missed_threshold, self.received_threshold, *intervals) >= 1
        slots = self.heartbeat_send >= 1 and 0 <= self.heartbeat_window // self.heartbeat_send <= 1 << 16
        return thresholds and slots and min(self.maximum_lag, self.standbys) >= 0 and 1 <= self.partitions <= 1 << 16

    @cached_property
    def silence(self) -> int:
        """Milliseconds of silence after which a host is down: M * send (pull-queries.md#thresholds)."""
        return (self.missed_threshold + (not self.shipped)) * self.heartbeat_send

    @cached_property
    def time_out(self) -> int:
        """Milliseconds after which a forwarded query is given up."""
        return (20_000 if self.shipped else 500) if self.forward_timeout is None else self.forward_timeout

    @cached_property
    def settling(self) -> int:
        """Milliseconds after which a host that nothing disturbs is known to be alive (pull-queries.md#settled)."""
        slots = self.received_threshold + 2
        return 1000 + self.silence + slots * self.heartbeat_send + 2 * self.heartbeat_check


class Assigned(msgspec.Struct, frozen=True, gc=False):
    """An assignment: by partition the active and the standbys."""

    epoch: int
    members: tuple[str, ...]
    placements: tuple[tuple[str, tuple[str, ...]], ...]


class View(msgspec.Struct, frozen=True, gc=False):
    """What a router decides from: statuses with the time of the last decision, reports with theirs, by host."""

    assignment: Assigned
    statuses: dict[str, tuple[bool, int]]
    records: dict[str, tuple[int, Positions]]


class Filter(msgspec.Struct, frozen=True, gc=False):
    """Which rows a scan wants: those whose key (``k``) or value (``v``) compares so with ``value``."""

    column: Literal["k", "v"]
    op: Literal["=", "!=", "<", "<=", ">", ">="]
    value: int | float | str


class Query(msgspec.Struct, frozen=True, gc=False):
    """What a client asks: some keys, or a scan; and the lag that it accepts, if it says so."""

    keys: tuple[str, ...] | None = None
    filter: Filter | None = None
    bound: int | None = None


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What a server asks another one."""

    partitions: tuple[int, ...]
    bound: int | None


class Finished(msgspec.Struct, frozen=True, gc=False):
    """How a query ended: a message if it failed; partition, host and failure of each attempt."""

    message: str | None
    attempts: tuple[tuple[int, str, str | None], ...]


class Record(msgspec.Struct, frozen=True, gc=False):
    """What an offset of a changelog holds; ``source`` None: a takeover."""

    epoch: int
    source: int | None = None
    key: str | None = None
    value: int | float | str | None = None


def said(words: Words, code: int, form: type[Form]) -> Form | None:
    """What a text says, by its code in the column ``value``; None if it is not of this form."""
    text = words.text(code)
    if text is None:
        return None
    read: Callable[[str, Any], Any] = _again if len(text) <= _OFTEN else _read
    found: Form | None = read(text, form)
    return found


def _read(text: str, form: Any) -> Any:  # noqa: ANN401
    try:
        return _view(text) if form is View else _decoder(form).decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


@cache
def _decoder(form: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401
    """What reads texts of a form: to make one takes longer than to read a text."""
    return msgspec.json.Decoder(form)


class _Parts(msgspec.Struct, frozen=True, gc=False):
    """A view whose parts are not read yet."""

    assignment: msgspec.Raw
    statuses: msgspec.Raw
    records: msgspec.Raw


def _view(text: str) -> View:
    """A view: its statuses change with each check, its other parts seldom, so that those are read once."""
    parts = _decoder(_Parts).decode(text)
    statuses = _decoder(dict[str, tuple[bool, int]]).decode(parts.statuses)
    return View(_assigned(bytes(parts.assignment)), statuses, _records(bytes(parts.records)))


@lru_cache(maxsize=1 << 12)
def _assigned(text: bytes) -> Assigned:
    found: Assigned = _decoder(Assigned).decode(text)
    return found


@lru_cache(maxsize=1 << 12)
def _records(text: bytes) -> dict[str, tuple[int, Positions]]:
    found: dict[str, tuple[int, Positions]] = _decoder(dict[str, tuple[int, Positions]]).decode(text)
    return found


_OFTEN = 2048
"""Characters up to which what a text says is kept for a while: several folds ask for it, and many texts are alike."""
_again = lru_cache(maxsize=1 << 15)(_read)


def overdue(interval: int) -> int:
    """Milliseconds after which a server has done what it does in intervals, the first time and again: ten of them are
    too many, though a clock may be set to another rate in between."""
    return 1000 + 10 * interval


EARLIEST = -(1 << 62)
"""Before all times."""


def rising(times: Ints, before: int) -> Ints:
    """Times that never fall, as those before: a clock that went back tells nothing, and `time-goes-forward` says so."""
    if len(times) and times[0] >= before and (times[1:] >= times[:-1]).all():
        return times
    return np.maximum(np.maximum.accumulate(times), before)


class Hosts:
    """Which node is which host, and what each was told when it began to serve last."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self.servers: dict[int, Server] = {}
        self.nodes: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def serve(self, node: int, code: int) -> None:
        """A server runs; a configuration that cannot be read is none."""
        server = said(self._words, code, Server)
        if server is None or not server.sensible:
            self.servers.pop(node, None)
            return
        self.servers[node] = server
        self.nodes[server.host] = node
        self._names = {number: host for host, number in reversed(self.nodes.items())}

    def name(self, node: int) -> str:
        """The host that a node is; of several names the one that it took first."""
        return self._names.get(node, UNAVAILABLE)


LATE = 60_000
"""Milliseconds for which what is over is remembered: heartbeats, reports, queries that failed."""
_LATE = LATE * 1_000_000


class Queries(Generic[Form]):
    """What a fold keeps of queries, by operation, until they are over (pull-queries.md#judged-until-over)."""

    def __init__(self) -> None:
        self._known: dict[int, Form] = {}
        self._closed: dict[int, int] = {}  # those that failed: the time

    def __setitem__(self, op: int, kept: Form) -> None:
        self._known[op] = kept

    def get(self, op: int, time: int) -> Form | None:
        """What is kept of a query at a time."""
        if time - self._closed.get(op, time) > _LATE:
            del self._closed[op], self._known[op]
        return self._known.get(op)

    def close(self, op: int, kind: int, time: int) -> None:
        """The client of a query is told its outcome, by an event of a kind."""
        if kind == OK:
            self._known.pop(op, None)
            self._closed.pop(op, None)
        elif op in self._known:
            self._closed.setdefault(op, time)
        while (first := next(iter(self._closed), None)) is not None and time - self._closed[first] > _LATE:
            del self._closed[first], self._known[first]


class ServerFold:
    """What the folds of this protocol share: the texts, the hosts, and a tally for each check of the family."""

    checks: ClassVar[tuple[Check, ...]]
    reads: ClassVar[tuple[str, ...]]
    """The columns that the fold reads, besides ``seq`` and ``kind``."""

    def __init__(self, setting: Setting) -> None:
        self._words = setting.words
        self._hosts = Hosts(setting.words)
        self._tallies = {check.id: Tally(check, setting.keep, setting.seen) for check in self.checks}
        self.which = np.zeros(0, np.int64)
        """Where the events are that `rows` gave last."""

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        raise NotImplementedError

    def rows(self, columns: Columns, wanted: Array, plain: Array | None = None) -> Columns:
        """The events of the kinds that ``wanted`` tells by code, as lists; columns that are not read are empty.

        ``plain`` tells those that are left out.
        """
        some = wanted.take(columns.kind) if plain is None else wanted.take(columns.kind) & ~plain
        self.which, read = np.flatnonzero(some), {"seq", "kind", *self.reads}
        which = self.which
        held: Iterator[Any] = (
            column[which].tolist() if name in read else ()
            for name, column in zip(Columns._fields, columns, strict=True)
        )
        return Columns(*held)

    def violated(self) -> frozenset[str]:
        """The checks that are violated so far (`Watchful`)."""
        return violated(self._tallies.values())

    def finish(self) -> Verdicts:
        """The outcome of each check of the family, once all events were taken."""
        return Verdicts(tuple(tally.outcome() for tally in self._tallies.values()))
