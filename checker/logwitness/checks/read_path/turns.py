"""What comes in turn: points that only rise, whom a stream asks from where on, an epoch recovered before the next one.

Only rare events are looked at one by one; of what streams deliver, the last LSN by each START.

Sources: read-path.md#points-only-rise, read-path.md#asks-in-turn, read-path.md#released-after-recovery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import NodeWord, RewindWord, ShardWord

from ..codes import FAULT_WIPE, INVOKE, MAX_OFFSET, NO_NODE, REASONS, among, code, codes, word_code
from ..columns import Columns, Ints, groups
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .protocol import F_READ, READ_PATH, epoch_of, shown

POINTS = Check(
    id="points-only-rise",
    rule="The trim point and the seal of a shard never fall unless it lost its disk, nor does the number of a life, "
    "nor the version of the event log, or the epoch, that a stream knows; and the log has that version.",
    source=("read-path.md#points-only-rise", "read-path.md#shard-refuses", "read-path.md#event-log-version"),
    fact="a trim point, a seal, the number of a life, a known version or a known epoch after another, or a version "
    "that is known",
    sentence={
        "trim": "Shard {node} gave up all up to {to}, although it had given up all up to {before}.",
        "seal": "Shard {node} was sealed up to epoch {to}, although it had been sealed up to epoch {before}.",
        "life": "Node {node} takes part as life {to}, after life {before}.",
        "version": "Stream {op} goes by version {to} of the event log, after version {before}.",
        "epoch": "Stream {op} knows the nodesets of epochs up to {to}, after those up to {before}.",
        "future": "Stream {op} goes by version {to} of the event log, which has no such record yet.",
    },
    columns=("node",),
    looks_back=True,
)
ASKS = Check(
    id="asks-in-turn",
    rule="A stream asks shards from the next LSN to deliver on, by the version of its filter, which grows by one with "
    "each rewind, once that is due; what answers a START was sent one, nothing is heard on a closed connection, and "
    "who was asked reads.",
    source=("read-path.md#asks-in-turn", "read-path.md#rewind", "read-path.md#shard-state"),
    fact="a START, an answer to one, a rewind done, a connection closed, the settings or the known epochs, of a stream "
    "of which it is known where it began",
    sentence={
        "from": "Stream {op} asked shard {peer} from {lsn} on, but {due} was to be delivered next.",
        "filter": "Stream {op} went by version {to} of its filter after version {before}.",
        "due": "Stream {op} rewound to version {to} of its filter although no rewind was due.",
        "answer": "Stream {op} was answered by shard {peer} to a START of version {to} of its filter, which it had not "
        "sent.",
        "reader": "Node {node} recorded something of stream {op}, which node {asked} was asked to read.",
        "closed": "Stream {op} heard from shard {peer} although their connection was closed.",
    },
    kinds=(Kind.INVOKE, Kind.STREAM_START),
    columns=("op", "peer", "filter", "offset"),
)
RELEASED = Check(
    id="released-after-recovery",
    rule="Nothing of an epoch is released before the epoch before it, of which something was released, is recovered; "
    "and what shards purge lies above what a recovery of its epoch knew to be good.",
    source=(
        "read-path.md#released-after-recovery",
        "read-path.md#activation",
        "read-path.md#release-needs-recovery",
    ),
    fact="the first release of an epoch after one of the epoch before it, by a sequencer whose life is recorded; a "
    "purge before any sequencer was cut off",
    sentence={
        "released": "Node {node} released {lsn}, but nobody had recovered epoch {before}, of which something was "
        "released.",
        "purged": "Shard {node} purged {lsn}, but no recovery of its epoch had been there, or it was known to be good.",
    },
    kinds=(Kind.RELEASE,),
    columns=("node", "offset", "epoch"),
    looks_back=True,
)
CHECKS = (POINTS, ASKS, RELEASED)

_OWN = (
    *(Kind.TAKES_PART, Kind.TRIM_POINT, Kind.SEAL, Kind.FAULT, Kind.EVENT_LOG, Kind.RELEASE, Kind.RECOVER),
    *(Kind.STREAM_STATUSES, Kind.STREAM_START, Kind.STREAM_STARTED, Kind.STREAM_REWIND, Kind.STREAM_CLOSED),
    *(
        Kind.STREAM_SETTINGS,
        Kind.STREAM_METADATA,
        Kind.PURGE,
        Kind.CRASH,
        Kind.POWER_LOSS,
        Kind.STORAGE_ERROR,
        Kind.INVOKE,
    ),
)
_TAKES_PART, _TRIM_POINT, _SEAL, _FAULT, _EVENT_LOG, _RELEASE, _RECOVER, *_OF_STREAMS = map(code, _OWN)
_STATUSES, _START, _STARTED, _REWIND, _CLOSED, _SETTINGS, _METADATA, _PURGE, *_CUT, _ = _OF_STREAMS
_BY_READER = frozenset({_SETTINGS, _METADATA, _START, _STARTED})
_HEARD = (Kind.STREAM_HEARD, Kind.STREAM_STARTED)
_ARRIVALS = codes(_HEARD)
_SEQUENCER = word_code(NodeWord.SEQUENCER)
_DELIVERED = (Kind.STREAM_RECORD, Kind.STREAM_GAP)
_RECORD = code(Kind.STREAM_RECORD)
_LOST, _DUE = REASONS[ShardWord.LOST], word_code(RewindWord.DUE)
_RARE, _DELIVERIES = codes({*_OWN} - {Kind.INVOKE, Kind.RELEASE}), codes(_DELIVERED)
_COLUMNS = ("seq", "kind", "node", "op", "peer", "f", "offset", "filter", "version", "epoch", "reason", "incarnation")


class _Event(NamedTuple):
    """One event, by the columns that are read."""

    seq: int
    kind: int
    node: int
    op: int
    peer: int
    f: int
    offset: int
    filter: int
    version: int
    epoch: int
    reason: int
    incarnation: int


_NOWHERE = np.zeros(0, np.int64)


class _Known(NamedTuple):
    """A number, and the event that said it."""

    number: int
    seq: int


@dataclass(slots=True)
class _Closed:
    """A connection that was closed by an event, and whether something was heard on it since."""

    seq: int
    found: bool = False


@dataclass(slots=True)
class _Stream:
    """A stream since it began: what is due, its filter, whom it asked."""

    begun: int
    node: int
    due: _Known
    epoch: _Known | None = None
    version: _Known | None = None
    filter: _Known | None = None
    rewinds: bool = False
    asked: dict[int, int] = field(default_factory=dict)
    closed: dict[int, _Closed] = field(default_factory=dict)

    def since(self, known: _Known) -> list[int]:
        """The events by which it is known where it began, and what was known since."""
        return sorted({self.begun, known.seq})


class TurnsFold:
    """Judges what comes in turn in one run; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tallies = {check.id: Tally(check, setting.keep, setting.seen) for check in CHECKS}
        self._points, self._asks, self._released = self._tallies.values()
        self._latest: dict[tuple[str, int], _Known] = {}  # by way and node
        self._streams: dict[int, _Stream] = {}
        self._versions = 0
        self._recovered: dict[int, int] = {}  # by epoch: the lowest LSN above which a recovery read it
        self._sequencers: set[int] = set()
        self._closed = False  # some connection was
        self._cut_off = False  # a sequencer was, which may have lost that it had recovered something
        self._arrivals: dict[int, Ints] | None = None  # by stream, in the present piece, once they are looked for
        self._releases: dict[int, int] = {}  # by epoch: the event of its first release

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run: those that are rare, and before each START what was delivered by then."""
        kinds, releases = columns.kind, np.flatnonzero(columns.kind == _RELEASE)
        first = releases[np.unique(columns.epoch[releases], return_index=True)[1]]  # of each epoch
        rare = np.flatnonzero(among(kinds, _RARE) | ((kinds == INVOKE) & (columns.f == F_READ)))
        rare = np.sort(np.concatenate((rare, first)))
        delivered = np.flatnonzero(among(kinds, _DELIVERIES))
        own = dict(groups(columns.op[delivered], delivered))
        self._arrivals = None
        for place, values in zip(rare.tolist(), columns.rows(rare, *_COLUMNS), strict=True):
            e = _Event(*values)
            if e.kind == _START and e.op in own:
                self._delivers(columns, e.op, own[e.op], place)
            if e.kind in _BY_READER:
                self._reads(e)
            if e.kind == _START:
                self._hears_nothing(columns, e.op, e.peer, place)
            self._on[e.kind](self, e)
        for op in self._arrived(columns) if self._closed else ():
            for peer in self._streams[op].closed if op in self._streams else ():
                self._hears_nothing(columns, op, peer, len(columns.kind))
        for op, places in own.items():
            self._delivers(columns, op, places, len(columns.kind))

    def _delivers(self, columns: Columns, op: int, own: Ints, before: int) -> None:
        """What a stream delivered, at these places, before a place."""
        count = int(np.searchsorted(own, before))
        stream = self._streams.get(op)
        if count and stream is not None and columns.seq[own[count - 1]] > stream.due.seq:
            at = int(own[count - 1])
            last = columns.offset[at] if columns.kind[at] == _RECORD else columns.last_offset[at]
            stream.due = _Known(int(last) + 1, int(columns.seq[at]))

    # -- points --------------------------------------------------------------------------------------------------------

    def _rises(self, way: str, e: _Event, number: int, *, same: bool = True) -> None:
        before = self._latest.get((way, e.node))
        self._latest[way, e.node] = _Known(number, e.seq)
        if before is not None:
            self._points.judged += 1
            if number < before.number or (number == before.number and not same):
                to, since = (shown(number), shown(before.number)) if way == "trim" else (number, before.number)
                self._points.violation(before.seq, e.seq, way=way, node=e.node, to=to, before=since)

    def _forgets(self, node: int) -> None:
        for way in ("trim", "seal"):
            self._latest.pop((way, node), None)

    def _takes_part(self, e: _Event) -> None:
        if e.f == _SEQUENCER:
            self._cut_off = self._cut_off or e.node in self._sequencers
            self._sequencers.add(e.node)
        self._rises("life", e, e.incarnation, same=False)
        if e.reason == _LOST:
            self._forgets(e.node)

    def _trims(self, e: _Event) -> None:
        self._rises("trim", e, e.offset)

    def _seals(self, e: _Event) -> None:
        self._rises("seal", e, e.epoch)

    def _fault(self, e: _Event) -> None:
        if e.f == FAULT_WIPE:
            self._forgets(e.node)
            self._latest.pop(("life", e.node), None)

    def _logs(self, e: _Event) -> None:
        self._versions = max(self._versions, e.version)

    def _learns(self, e: _Event) -> None:
        self._points.judged += 1
        stream = self._streams.get(e.op)
        if stream is not None:
            before, stream.version = stream.version, _Known(e.version, e.seq)
            if before is not None and e.version < before.number:
                self._points.violation(before.seq, e.seq, way="version", op=e.op, to=e.version, before=before.number)
        if e.version > self._versions:
            self._points.violation(e.seq, way="future", rests_on=(Kind.EVENT_LOG,), op=e.op, to=e.version)

    def _knows(self, e: _Event) -> None:
        stream = self._streams.get(e.op)
        if stream is None:
            return
        before, stream.epoch = stream.epoch, _Known(e.epoch, e.seq)
        if before is not None:
            self._points.judged += 1
            if e.epoch < before.number:
                self._points.violation(before.seq, e.seq, way="epoch", op=e.op, to=e.epoch, before=before.number)

    # -- streams -------------------------------------------------------------------------------------------------------

    def _begins(self, e: _Event) -> None:
        self._streams[e.op] = _Stream(e.seq, e.node, _Known(e.offset, e.seq))

    def _asks_shard(self, e: _Event) -> None:
        stream = self._streams.get(e.op)
        if stream is None:
            return
        self._asks.judged += 1
        if e.offset != stream.due.number:
            place = {"op": e.op, "peer": e.peer, "lsn": shown(e.offset), "due": shown(stream.due.number)}
            rests_on = _DELIVERED if e.offset > stream.due.number else ()
            self._asks.violation(*stream.since(stream.due), e.seq, way="from", rests_on=rests_on, **place)
        if stream.filter is None:
            stream.filter = _Known(e.filter, e.seq)
        elif e.filter != stream.filter.number:
            place, by_rewind = {"op": e.op, "to": e.filter, "before": stream.filter.number}, (Kind.STREAM_REWIND,)
            self._asks.violation(*stream.since(stream.filter), e.seq, way="filter", rests_on=by_rewind, **place)
        stream.asked[e.peer] = e.filter
        stream.closed.pop(e.peer, None)

    def _is_answered(self, e: _Event) -> None:
        stream = self._streams.get(e.op)
        if stream is None:
            return
        self._asks.judged += 1
        if e.filter > stream.asked.get(e.peer, 0):
            rests_on = () if stream.asked else (Kind.STREAM_START,)
            place = {"op": e.op, "peer": e.peer, "to": e.filter}
            self._asks.violation(stream.begun, e.seq, way="answer", rests_on=rests_on, **place)

    def _reads(self, e: _Event) -> None:
        """What a stream does is recorded by the node that was asked to read."""
        stream = self._streams.get(e.op)
        if stream is not None and NO_NODE not in (stream.node, e.node):
            self._asks.judged += e.kind in (_SETTINGS, _METADATA)
            if e.node != stream.node:
                self._asks.violation(stream.begun, e.seq, way="reader", node=e.node, op=e.op, asked=stream.node)

    def _closes(self, e: _Event) -> None:
        stream = self._streams.get(e.op)
        if stream is not None and e.peer not in stream.closed:
            self._asks.judged += 1
            self._closed = True
            stream.closed[e.peer] = _Closed(e.seq)

    def _arrived(self, columns: Columns) -> dict[int, Ints]:
        """Where something arrived in this piece, by stream."""
        if self._arrivals is None:
            places = np.flatnonzero(among(columns.kind, _ARRIVALS))
            self._arrivals = dict(groups(columns.op[places], places))
        return self._arrivals

    def _hears_nothing(self, columns: Columns, op: int, peer: int, before: int) -> None:
        """Nothing arrives from a shard, before a place, since the connection to it was closed."""
        stream = self._streams.get(op)
        closed = None if stream is None else stream.closed.get(peer)
        if closed is None or closed.found:
            return
        own = self._arrived(columns).get(op, _NOWHERE)
        places = own[np.searchsorted(columns.seq[own], closed.seq) : np.searchsorted(own, before)]
        from_it = places[columns.peer[places] == peer]
        if len(from_it):
            closed.found = True
            heard = int(columns.seq[from_it[0]])
            self._asks.violation(closed.seq, heard, way="closed", rests_on=(Kind.STREAM_START,), op=op, peer=peer)

    def _rewinds(self, e: _Event) -> None:
        stream = self._streams.get(e.op)
        if stream is None:
            return
        if e.f == _DUE:
            stream.rewinds = True
            return
        self._asks.judged += 1
        if not stream.rewinds:
            self._asks.violation(stream.begun, e.seq, way="due", op=e.op, to=e.filter)
        if stream.filter is not None and e.filter != stream.filter.number + 1:
            place = {"op": e.op, "to": e.filter, "before": stream.filter.number}
            self._asks.violation(*stream.since(stream.filter), e.seq, way="filter", **place)
        stream.filter, stream.rewinds = _Known(e.filter, e.seq), False

    # -- epochs --------------------------------------------------------------------------------------------------------

    def _recovers(self, e: _Event) -> None:
        self._recovered[e.epoch] = min(e.offset, self._recovered.get(e.epoch, e.offset))

    def _ends(self, e: _Event) -> None:
        self._cut_off = self._cut_off or e.node in self._sequencers

    def _purges(self, e: _Event) -> None:
        if self._cut_off:
            self._released.unjudged += 1
            return
        self._released.judged += 1
        if e.offset <= self._recovered.get(epoch_of(e.offset), MAX_OFFSET):
            place = {"node": e.node, "lsn": shown(e.offset)}
            self._released.violation(e.seq, way="purged", rests_on=(Kind.RECOVER,), **place)

    def _releases_some(self, e: _Event) -> None:
        if e.epoch in self._releases:
            return
        before = self._releases.get(e.epoch - 1)
        self._releases[e.epoch] = e.seq
        life = self._latest.get(("life", e.node))
        if before is None or life is None or life.number != e.incarnation:
            return
        self._released.judged += 1
        if e.epoch - 1 not in self._recovered:
            place: dict[str, Any] = {"node": e.node, "lsn": shown(e.offset), "before": e.epoch - 1}
            events = before, life.seq, e.seq
            self._released.violation(*events, way="released", rests_on=(Kind.RECOVER,), **place)

    _on: ClassVar[dict[int, Callable[[TurnsFold, _Event], None]]] = {
        _TAKES_PART: _takes_part,
        _TRIM_POINT: _trims,
        _SEAL: _seals,
        _FAULT: _fault,
        _EVENT_LOG: _logs,
        _RELEASE: _releases_some,
        _RECOVER: _recovers,
        _STATUSES: _learns,
        _START: _asks_shard,
        _STARTED: _is_answered,
        _REWIND: _rewinds,
        _CLOSED: _closes,
        _SETTINGS: lambda *_: None,
        _METADATA: _knows,
        _PURGE: _purges,
        **dict.fromkeys(_CUT, _ends),
        INVOKE: _begins,
    }

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated(self._tallies.values())

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        return Verdicts(tuple(tally.outcome() for tally in self._tallies.values()))


FAMILY = Family(
    "read_path_turns",
    CHECKS,
    frozenset({*_OWN, *_DELIVERED, *_HEARD}),
    (*("node", "op", "peer", "f", "offset", "last_offset", "filter"), *("version", "epoch", "reason", "incarnation")),
    TurnsFold,
    READ_PATH,
)
