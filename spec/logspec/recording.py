"""A recorded run as the trace that TLC follows: one tuple per event, offsets as positions in the node's log.

The spec counts entries from 1; a history counts offsets, and a batch fills several. A batch of the history is an entry
of the spec, so an offset becomes the number of the batch that it ends, in the log of the node that recorded it. An
offset that ends no batch of that log becomes ``MISPLACED``, which the spec never allows. What was trimmed keeps its
numbers; a log that begins anew behind a snapshot takes over those of a log in which that ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loghistory import Kind, RunSource
from logspec.errors import SpecError

MISPLACED = -9
NO_VALUE = -1
ACKS_LEADER = 1

COLUMNS = (
    *("seq", "kind", "log", "node", "incarnation", "acks", "term", "role", "offset", "last_offset", "entry_term"),
    *("value", "dirty", "flushed", "commit", "visible", "peer", "reason", "f", "text"),
)

_STOPS = frozenset({Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR})
_LOSES = frozenset({Kind.POWER_LOSS, Kind.STORAGE_ERROR})
_FOLLOWED = frozenset(
    {Kind.START, Kind.TERM, Kind.VOTE, Kind.LEADER, Kind.ROLE, Kind.APPEND, Kind.FLUSH, Kind.TRUNCATE, Kind.COMMIT}
    | {Kind.VISIBLE, Kind.ACKED, Kind.CONFIGURATION, Kind.SNAPSHOT, Kind.TRIM}
)
_FOLLOWS, _STANDS, _MAY_STAND = 0, 1, 2
KINDS = _FOLLOWED | _STOPS | {Kind.COMPACT, Kind.FAULT}
INSTALL = "install"
"""A trim after which nothing of the node's log is left: it begins anew behind a snapshot."""

TraceEvent = tuple[str | int, ...]
"""kind, node, term, dirty, flushed, commit, visible, five values that depend on the kind, oldest term to come."""


class Voters(NamedTuple):
    """A configuration as far as it decides anything: who votes, in one half or two, and who learns."""

    current: frozenset[int]
    old: frozenset[int] = frozenset()
    learners: frozenset[int] = frozenset()


_WORDS = frozenset({"old", "learners", "adding", "removing", "demoting", "revision", "sessions"})


def parse_voters(event: Mapping[str, Any]) -> Voters:
    """Read the configuration in an event's text: ``0,2 old 0,1,2 learners 3 revision 4``; no text, no voters.

    Raises SpecError, in one line, for another text.
    """
    words = str(event["text"] or "").split()
    if words and words[0] not in _WORDS:
        words.insert(0, "current")
    named = dict(zip(words[::2], words[1::2], strict=False))
    try:
        if len(words) % 2 or not named.keys() <= {"current", *_WORDS}:
            raise ValueError
        halves = (named.get(name, "") for name in ("current", "old", "learners"))
        return Voters(*(frozenset(int(node) for node in half.split(",") if node) for half in halves))
    except ValueError:
        raise SpecError(
            f"event {event['seq']} has the configuration {str(event['text'])[:80]!r}, which is none; one is written"
            " `0,1,2`, with `old 0,1` and `learners 3` behind it where there are some"
        ) from None


NO_VOTERS = Voters(frozenset())


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
    founders: frozenset[int]
    events: list[TraceEvent] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    configurations: tuple[Voters, ...] = ()
    """What events name by its number, counted from 1."""
    until: Place | None = None
    """What the spec does not know: a compaction, or a disk that is emptied. Nothing behind it is followed."""

    def founding(self, node: int) -> int:
        """The number of the configuration that a node began with."""
        return 1 + (node in self.founders)


class _NodeLog:
    """The ends of the batches in one node's log and the configurations in force there, as its events say."""

    def __init__(self, founding: int) -> None:
        self.founding = founding
        self.ends: list[int] = []
        self.configurations: list[int] = []
        self.terms: list[int] = []
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

    @property
    def in_force(self) -> int:
        """The configuration in force: that of the last batch, or the one that the node began with."""
        return self.configurations[-1] if self.configurations else self.founding

    def append(self, base: int, last: int, term: int, configuration: int) -> int:
        expected = self.ends[-1] + 1 if self.ends else 0
        if base != expected or last < base:
            return MISPLACED
        self.ends.append(last)
        self.terms.append(term)
        self.configurations.append(configuration)
        self.written[base, term] = len(self.ends)
        return len(self.ends)

    def begin_anew(self, like: _NodeLog | None, last: int) -> int:
        """Take over what another log has up to ``last``; nothing if none has a batch that ends there."""
        position = MISPLACED if like is None else like.position(last)
        if like is None or position == MISPLACED:
            return MISPLACED
        self.ends, self.terms = like.ends[:position], like.terms[:position]
        self.configurations = like.configurations[:position]
        return position

    def keep(self, offset: int) -> int:
        """Drop what lies behind ``offset``; return the position that is last then."""
        position = self.position(offset)
        if position != MISPLACED:
            del self.ends[position:], self.terms[position:], self.configurations[position:]
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
    made_by = source.manifest.made_by if source.manifest else {}
    if write_caching is None:
        write_caching = bool(find_setting(made_by, "write_caching"))
    name = source.manifest.name if source.manifest and source.manifest.name else str(source.path)
    whole = rows.pop(None, [])  # a node's life concerns all its logs
    if rows:
        merged = {log: sorted([*whole, *places], key=lambda place: place.seq) for log, places in rows.items()}
    else:
        merged = {None: whole} if whole else {}
    known = tuple(source.manifest.nodes) if source.manifest else ()
    voters = find_setting(made_by, "voters")
    founders = frozenset(voters if isinstance(voters, list) else known)
    return [_trace(name, log, places, known, founders, write_caching) for log, places in merged.items()]


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


def _trace(
    name: str,
    log: str | None,
    places: list[Place],
    known: Iterable[int],
    founders: frozenset[int],
    write_caching: bool,
) -> Trace:
    until = next((place for place in places if _is_unknown(place.event)), None)
    if until is not None:
        places = [place for place in places if place.seq < until.seq]
    places = [place for place in places if place.event["kind"] != Kind.FAULT]
    nodes = tuple(sorted({place.event["node"] for place in places} | set(known)))
    texts = [parse_voters(place.event) for place in places if place.event["kind"] == Kind.CONFIGURATION]
    if not founders:  # nothing but the events says it
        founders = (texts[0].old or texts[0].current) if texts else frozenset(nodes)
    nodes = tuple(sorted({*nodes, *(node for voters in texts for part in voters for node in part), *founders}))
    trace = Trace(name, log, nodes, write_caching, founders, until=until)
    members = _Members(places, founders)
    for place, event, _ in follow(trace, places, members):
        if event is not None:
            trace.events.append(event)
            trace.places.append(place)
    trace.configurations = tuple(members.numbers)
    oldest: dict[int, int] = {}  # by node, in what is still to come
    for at in range(len(trace.events) - 1, -1, -1):
        place = trace.places[at]
        node, term = place.event["node"], place.event["term"]
        oldest[node] = min(term, oldest.get(node, term))
        trace.events[at] = (*trace.events[at], min(oldest.values()))
    return trace


def _is_unknown(event: Mapping[str, Any]) -> bool:
    return bool(event["kind"] == Kind.COMPACT or (event["kind"] == Kind.FAULT and event["f"] == "wipe"))


class _Members:
    """The configurations of a run, each with its number, and what is known of them from other events than its own.

    A configuration is recorded after the append that puts it in force; a node whose configuration stays the same by
    that append records none, and one that is killed in between as well. So what others recorded of the same entry
    counts, then what was in force before.
    """

    def __init__(self, places: Iterable[Place], founders: frozenset[int]) -> None:
        self.numbers: dict[Voters, int] = {NO_VOTERS: 1}
        self.number(Voters(founders))
        self._own: dict[int, int] = {}
        self._of_entry: dict[tuple[int, int], int] = {}
        self.snapshots: dict[int, Mapping[str, Any]] = {}
        """By the ``seq`` of a trim, the snapshot that it belongs to if that was installed."""
        appended: dict[tuple[int, int], Place] = {}
        trimmed: dict[int, Place] = {}
        for place in places:
            event = place.event
            node, kind = event["node"], event["kind"]
            if kind == Kind.APPEND:
                appended[node, event["offset"]] = place
            elif kind == Kind.TRIM:
                trimmed[node] = place
            elif kind == Kind.SNAPSHOT and event["reason"] == "installed" and node in trimmed:
                self.snapshots[trimmed.pop(node).seq] = event
            elif kind == Kind.CONFIGURATION and (node, event["offset"]) in appended:
                append = appended[node, event["offset"]]
                number = self.number(parse_voters(event))
                self._own[append.seq] = number
                self._of_entry.setdefault((event["offset"], append.event["entry_term"]), number)
            elif kind in _STOPS:
                trimmed.pop(node, None)

    def number(self, voters: Voters) -> int:
        """The number of a configuration, counted from 1."""
        return self.numbers.setdefault(voters, len(self.numbers) + 1)

    def of_append(self, place: Place, before: int) -> int:
        """The number of the configuration in force from an append on; ``before`` it was that one."""
        entry = place.event["offset"], place.event["entry_term"]
        return self._own.get(place.seq) or self._of_entry.get(entry) or before


def offset_of(trace: Trace, index: int, position: int) -> int:
    """Return the offset at a position of a node's log just before the node recorded event ``index``; -1 for none.

    Of a position beyond that log, the offset in another node's.
    """
    at = trace.places[index]
    logs: Mapping[int, _NodeLog] = {}
    earlier = [place for place in trace.places if place.seq < at.seq]
    for _, _, after in follow(trace, earlier, _Members(earlier, trace.founders)):
        logs = after
    own = logs.get(at.event["node"])
    found = [log.offset(position) for log in ([own] if own else []) + list(logs.values())]
    return next((offset for offset in found if offset >= 0), -1)


def follow(
    trace: Trace, places: list[Place], members: _Members
) -> Iterator[tuple[Place, TraceEvent | None, Mapping[int, _NodeLog]]]:
    """Yield each event with what the spec is to follow (None: nothing) and the nodes' logs after it."""
    stands = _standing(places)
    undone = _undone(places) | _dropped(places, members)
    logs: dict[int, _NodeLog] = {}
    for place in places:
        event = place.event
        kind = Kind(event["kind"])
        log = logs.setdefault(event["node"], _NodeLog(trace.founding(event["node"])))
        if kind in _STOPS:
            log.lost_power = log.lost_power or kind in _LOSES
            yield place, None, logs
        elif place.seq in undone:
            yield place, None, logs
        elif kind is Kind.ROLE and event["role"] == "leader":
            yield place, None, logs  # the event `leader` that comes with it is the step
        elif kind in (Kind.TRIM, Kind.SNAPSHOT, Kind.CONFIGURATION):
            yield place, _member_step(kind, place, logs, members), logs
        else:
            yield place, _step(kind, place, log, stands.get(place.seq, _FOLLOWS), members), logs


def _dropped(places: list[Place], members: _Members) -> set[int]:
    """The ``seq`` of each truncation that is part of the installation of a snapshot."""
    found = set()
    last: dict[int, Place] = {}
    for place in places:
        before = last.get(place.event["node"])
        begins_anew = place.event["kind"] == Kind.TRIM and place.event["dirty"] < place.event["offset"]
        if begins_anew and before and before.event["kind"] == Kind.TRUNCATE:
            found.add(before.seq)
        if place.event["kind"] != Kind.CONFIGURATION:
            last[place.event["node"]] = place
    return found


def _member_step(kind: Kind, place: Place, logs: Mapping[int, _NodeLog], members: _Members) -> TraceEvent | None:
    """A step of trimming, or what a node says of its configuration."""
    event = place.event
    log = logs[event["node"]]
    if kind is Kind.CONFIGURATION:
        return _claim(str(kind), event, log, members.number(parse_voters(event)))
    if kind is Kind.SNAPSHOT:
        position = log.position(event["offset"])
        number = members.number(parse_voters(event))
        return _claim(str(kind), event, log, position, event["entry_term"], number)
    last, snapshot = event["offset"] - 1, members.snapshots.get(place.seq)
    if event["dirty"] > last or (event["dirty"] == last and snapshot is None):
        return None if snapshot else _claim(str(kind), event, log, log.position(last))
    term = None if snapshot is None else snapshot["entry_term"]
    others = (other for other in logs.values() if other is not log and _ends_with(other, last, term))
    position = log.begin_anew(next(others, None), last)
    log.visible = log.position(event["visible"])
    return _claim(INSTALL, event, log, position, NO_VALUE if term is None else term)


def _ends_with(log: _NodeLog, last: int, term: int | None) -> bool:
    position = log.position(last)
    return position > 0 and (term is None or log.terms[position - 1] == term)


def _claim(kind: str, event: Mapping[str, Any], log: _NodeLog, *values: int) -> TraceEvent:
    """An event with the node's state after it and its values."""
    dirty, flushed, commit = (log.position(event[name]) for name in ("dirty", "flushed", "commit"))
    if event["visible"] is not None:
        log.visible = log.position(event["visible"])
    padded = (*values, 0, 0, 0, 0, 0)[:5]
    return (kind, event["node"], event["term"], dirty, flushed, commit, log.visible, *padded)


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


def _step(kind: Kind, place: Place, log: _NodeLog, stands: int, members: _Members) -> TraceEvent:
    event = place.event
    values: tuple[Any, ...] = ()
    if kind is Kind.START:
        values = (int(log.lost_power),)
        log.lost_power = False
        log.keep(event["dirty"])
        log.visible = log.position(event["commit"])
    elif kind is Kind.TERM:
        values = (stands,)
    elif kind is Kind.VOTE:
        values = (event["peer"],)
    elif kind is Kind.ROLE:
        values = (event["role"],)
    elif kind is Kind.APPEND:
        base, term = event["offset"], event["entry_term"]
        last = base if event["last_offset"] is None else event["last_offset"]
        acks = ACKS_LEADER if event["acks"] is None else event["acks"]
        value = NO_VALUE if event["value"] is None else event["value"]
        number = members.of_append(place, log.in_force)
        values = (log.append(base, last, term, number), term, acks, value, number)
    elif kind is Kind.TRUNCATE:
        position = log.keep(event["offset"] - 1)
        log.visible = min(log.visible, position)
        values = (position,)
    elif kind is Kind.ACKED:
        position = log.written.get((event["offset"], event["entry_term"]), MISPLACED)
        values = (position, event["entry_term"], event["acks"], event["reason"])
    return _claim(str(kind), event, log, *values)
