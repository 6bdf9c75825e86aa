"""A recorded run as the trace that TLC follows: one tuple per event, offsets as positions in the node's log.

The spec counts entries from 1; a history counts offsets, and a batch fills several. A batch of the history is an entry
of the spec, so an offset becomes the number of the batch that it ends, in the log of the node that recorded it. An
offset that ends no batch of that log becomes ``MISPLACED``, which the spec never allows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loghistory import Kind, RunSource
from logspec.errors import SpecError

MISPLACED = -9
NO_VALUE = -1
ACKS_LEADER = 1

COLUMNS = (
    *("seq", "kind", "log", "node", "incarnation", "acks", "term", "role", "offset", "last_offset", "entry_term"),
    *("value", "dirty", "flushed", "commit", "visible", "peer", "reason"),
)

_STOPS = frozenset({Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR})
_LOSES = frozenset({Kind.POWER_LOSS, Kind.STORAGE_ERROR})
_FOLLOWED = frozenset(
    {Kind.START, Kind.TERM, Kind.VOTE, Kind.LEADER, Kind.ROLE, Kind.APPEND, Kind.FLUSH, Kind.TRUNCATE, Kind.COMMIT}
    | {Kind.VISIBLE, Kind.ACKED}
)
_FOLLOWS, _STANDS, _MAY_STAND = 0, 1, 2
_UNKNOWN = {
    Kind.TRIM: "only logs that begin at offset 0",
    Kind.COMPACT: "only logs that begin at offset 0",
    Kind.CONFIGURATION: "one configuration, and all nodes vote in it",
}
KINDS = _FOLLOWED | _STOPS | _UNKNOWN.keys()

TraceEvent = tuple[str | int, ...]
"""kind, node, term, dirty, flushed, commit, visible, four values that depend on the kind, oldest term to come."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event stands: its ``seq``, its number in the file (from 0), and the event itself."""

    seq: int
    row: int
    event: Mapping[str, Any]


@dataclass(slots=True)
class Trace:
    """One log of one run, as the spec follows it. ``places[i]`` belongs to ``events[i]``."""

    name: str
    log: str | None
    nodes: tuple[int, ...]
    write_caching: bool
    events: list[TraceEvent] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


class _NodeLog:
    """The ends of the batches in one node's log, as its events say."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.written: dict[tuple[int, int], int] = {}  # (base offset, term) -> position, also of what was truncated
        self.lost_power = False
        self.visible = 0

    def position(self, offset: int | None) -> int:
        if offset is None or offset < 0:
            return 0
        at = bisect_left(self.ends, offset)
        return at + 1 if at < len(self.ends) and self.ends[at] == offset else MISPLACED

    def offset(self, position: int) -> int:
        return self.ends[position - 1] if 0 < position <= len(self.ends) else -1

    def append(self, base: int, last: int, term: int) -> int:
        expected = self.ends[-1] + 1 if self.ends else 0
        if base != expected or last < base:
            return MISPLACED
        self.ends.append(last)
        self.written[base, term] = len(self.ends)
        return len(self.ends)

    def keep(self, offset: int) -> int:
        """Drop what lies behind ``offset``; return the position that is last then."""
        position = self.position(offset)
        if position != MISPLACED:
            del self.ends[position:]
        return position


def read_traces(source: RunSource, write_caching: bool | None = None) -> list[Trace]:
    """Return the traces of a run, one a log. A run without internal events gives none.

    ``write_caching`` None takes the option from the run's manifest.
    """
    rows: dict[str | None, list[Place]] = {}
    row = 0
    for batch in source.batches(columns=COLUMNS):
        for event in batch.to_pylist():
            if event["kind"] in KINDS and event["node"] is not None:
                rows.setdefault(event["log"], []).append(Place(event["seq"], row, event))
            row += 1
    if write_caching is None:
        write_caching = bool(find_setting(source.manifest.made_by if source.manifest else {}, "write_caching"))
    name = source.manifest.name if source.manifest and source.manifest.name else str(source.path)
    whole = rows.pop(None, [])  # a node's life concerns all its logs
    if rows:
        merged = {log: sorted([*whole, *places], key=lambda place: place.seq) for log, places in rows.items()}
    else:
        merged = {None: whole} if whole else {}
    known = tuple(source.manifest.nodes) if source.manifest else ()
    voters = find_setting(source.manifest.made_by if source.manifest else {}, "voters")
    if isinstance(voters, list) and not {*voters} >= {*known}:
        raise SpecError(
            f"{name}: of the nodes {list(known)} only {voters} vote; the spec knows {_UNKNOWN[Kind.CONFIGURATION]}"
        )
    return [_trace(name, log, places, known, write_caching) for log, places in merged.items()]


def find_setting(value: object, name: str) -> object:
    """The value of ``name`` anywhere in nested mappings; None if there is none."""
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        for inner in value.values():
            found = find_setting(inner, name)
            if found is not None:
                return found
    return None


def _trace(name: str, log: str | None, places: list[Place], known: Iterable[int], write_caching: bool) -> Trace:
    nodes = tuple(sorted({place.event["node"] for place in places} | set(known)))
    trace = Trace(name, log, nodes, write_caching)
    for place, event, _ in follow(places):
        if event is not None:
            trace.events.append(event)
            trace.places.append(place)
    oldest: dict[int, int] = {}  # by node, in what is still to come
    for at in range(len(trace.events) - 1, -1, -1):
        place = trace.places[at]
        node, term = place.event["node"], place.event["term"]
        oldest[node] = min(term, oldest.get(node, term))
        trace.events[at] = (*trace.events[at], min(oldest.values()))
    return trace


def offset_of(trace: Trace, index: int, position: int) -> int:
    """Return the offset at a position of a node's log just before the node recorded event ``index``; -1 for none."""
    at = trace.places[index]
    logs: Mapping[int, _NodeLog] = {}
    for _, _, after in follow([place for place in trace.places if place.seq < at.seq]):
        logs = after
    found = logs.get(at.event["node"])
    return found.offset(position) if found else -1


def follow(places: list[Place]) -> Iterator[tuple[Place, TraceEvent | None, Mapping[int, _NodeLog]]]:
    """Yield each event with what the spec is to follow (None: nothing) and the nodes' logs after it."""
    stands = _standing(places)
    undone = _undone(places)
    logs: dict[int, _NodeLog] = {}
    for place in places:
        event = place.event
        kind = Kind(event["kind"])
        log = logs.setdefault(event["node"], _NodeLog())
        if kind in _STOPS:
            log.lost_power = log.lost_power or kind in _LOSES
            yield place, None, logs
        elif kind in _UNKNOWN:
            raise SpecError(f"event {place.seq} is a {kind}; the spec knows {_UNKNOWN[kind]}")
        elif place.seq in undone:
            yield place, None, logs
        elif kind is Kind.ROLE and event["role"] == "leader":
            yield place, None, logs  # the event `leader` that comes with it is the step
        else:
            yield place, _step(kind, event, log, stands.get(place.seq, _FOLLOWS)), logs


def _standing(places: list[Place]) -> dict[int, int]:
    """By ``seq``, whether a ``term`` event is that of a node that stands for election: what the node records next, it
    records as a candidate.

    A candidate that is a follower next has heard of a later term, or has stood again and then heard of a leader.
    """
    open_terms: dict[int, Place] = {}
    stands = {}
    for place in places:
        node, kind, role = place.event["node"], place.event["kind"], place.event["role"]
        if kind in _STOPS or kind == Kind.START:
            open_terms.pop(node, None)
        elif node in open_terms and role is not None:
            opened = open_terms.pop(node)
            was_candidate = opened.event["role"] == "candidate"
            stands[opened.seq] = _STANDS if role == "candidate" else _MAY_STAND if was_candidate else _FOLLOWS
        if kind == Kind.TERM:
            open_terms[node] = place
            stands[place.seq] = _MAY_STAND  # if its process ends with it
    return stands


def _undone(places: list[Place]) -> set[int]:
    """The ``seq`` of each truncation during which the disk failed, and of which the next start shows nothing.

    Source: raft.md#failed-fsync.
    """
    cut: dict[int, Place] = {}  # what a node did last
    failed: dict[int, Place] = {}
    undone = set()
    for place in places:
        node, kind = place.event["node"], place.event["kind"]
        last = cut.pop(node, None)
        if kind == Kind.TRUNCATE:
            cut[node] = place
        elif kind == Kind.STORAGE_ERROR and last is not None:
            failed[node] = last
        elif kind == Kind.START and node in failed:
            truncation = failed.pop(node)
            if place.event["dirty"] >= truncation.event["offset"]:
                undone.add(truncation.seq)
    return undone


def _step(kind: Kind, event: Mapping[str, Any], log: _NodeLog, stands: int) -> TraceEvent:
    values: tuple[str | int, ...] = (0, 0, 0, 0)
    if kind is Kind.START:
        values = (int(log.lost_power), 0, 0, 0)
        log.lost_power = False
        log.keep(event["dirty"])
        log.visible = 0
    elif kind is Kind.TERM:
        values = (stands, 0, 0, 0)
    elif kind is Kind.VOTE:
        values = (event["peer"], 0, 0, 0)
    elif kind is Kind.ROLE:
        values = (event["role"], 0, 0, 0)
    elif kind is Kind.APPEND:
        base, term = event["offset"], event["entry_term"]
        last = base if event["last_offset"] is None else event["last_offset"]
        acks = ACKS_LEADER if event["acks"] is None else event["acks"]
        value = NO_VALUE if event["value"] is None else event["value"]
        values = (log.append(base, last, term), term, acks, value)
    elif kind is Kind.TRUNCATE:
        position = log.keep(event["offset"] - 1)
        log.visible = min(log.visible, position)
        values = (position, 0, 0, 0)
    elif kind is Kind.ACKED:
        position = log.written.get((event["offset"], event["entry_term"]), MISPLACED)
        values = (position, event["entry_term"], event["acks"], event["reason"])
    dirty, flushed, commit = (log.position(event[name]) for name in ("dirty", "flushed", "commit"))
    if event["visible"] is not None:
        log.visible = log.position(event["visible"])
    return (str(kind), event["node"], event["term"], dirty, flushed, commit, log.visible, *values)
