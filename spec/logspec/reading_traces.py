"""Recorded streams of readers of the read path, followed in the specification (`TraceReadOneEpoch`).

A trace is one stream, with what happened to the event log, to releases and to the shards' disks meanwhile. LSNs become
places: ranges that no event of the stream divides, numbered from 1. Sources: read-path.md#loop-until-stuck.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loghistory import Kind, RunSource
from logspec.errors import SpecError
from logspec.followers import Follower
from logspec.server_traces import Refused, followed, nearest
from logspec.tlavalue import print_value
from logspec.toolchain import Toolchain
from logspec.traces import Nearest, batches

MODULE = "read_path/TraceReadOneEpoch.tla"
BATCH_EVENTS = 20_000
"""Events that are followed in one run of TLC."""

_SCOPES = ("REGION", "CLUSTER", "ROW", "RACK", "NODE")
STATUSES = ("full", "under", "empty", "unavailable")
"""The words of the specification for the numbers that the event log has."""
_STARTED = {"ok": "started", "rebuilding": "refused", "failed": "refused"}
_HEARD = {"record": "record", "filtered_out": "record", "trim": "trim"}
_STREAM = (
    Kind.STREAM_SETTINGS,
    Kind.STREAM_STATUSES,
    Kind.STREAM_METADATA,
    Kind.STREAM_START,
    Kind.STREAM_STARTED,
    Kind.STREAM_CLOSED,
    Kind.STREAM_HEARD,
    Kind.STREAM_RECORD,
    Kind.STREAM_GAP,
    Kind.STREAM_REJECT,
    Kind.STREAM_GRACE,
    Kind.STREAM_REWIND,
)
_KINDS = (*_STREAM, Kind.NODESET, Kind.EVENT_LOG, Kind.TAKES_PART, Kind.RELEASE)
_PLACES = ("seq", "kind", "node", "op", "peer", "offset", "last_offset", "epoch", "version", "filter")
_COLUMNS = (*_PLACES, "f", "reason", "shards", "record", "count", "value", "text")
_BEGINS = ("start", "record", "gap", "reject")
_EPOCH = 32
_ESN = (1 << _EPOCH) - 1
_MOST = 1 << 30
"""TLC counts with 32 bits: an esn that is larger is as good as this one."""

Step = tuple[Any, ...]
"""An event as it is followed: its word, then what the module says; LSNs still as they were recorded."""


@dataclass(frozen=True, slots=True)
class _Lsn:
    """An LSN in a `Step`, to become a place; ``whole``: the last place that lies wholly at or below it."""

    number: int
    whole: bool = False


@dataclass(slots=True)
class ReadingTrace:
    """Stream ``op`` of reader ``node``; ``seqs[i]`` is where ``events[i]`` was recorded."""

    name: str
    node: int
    op: int
    nodesets: Mapping[int, Mapping[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    single_copy: bool = False
    events: list[Step] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    holes: set[int] = field(default_factory=set)
    bridges: set[int] = field(default_factory=set)
    stuck: str | None = None
    """What the spec does not allow, in a sentence, once it was followed."""
    refused: Refused[ReadingTrace] | None = None
    """Where it was, for `nearest_step`."""

    def add(self, seq: int, *step: Any) -> None:  # noqa: ANN401
        """Append one step, which was recorded at ``seq``."""
        self.events.append(step)
        self.seqs.append(seq)

    @property
    def places(self) -> list[int]:
        """Where each place begins, from where the stream does, and where the last one ends."""
        first = next(step for step in self.events if step[0] in _BEGINS)
        begin = next(each.number for each in first if isinstance(each, _Lsn))
        found = {lsn for step in self.events for lsn in _bounds(step) if lsn >= begin}
        epochs = [lsn >> _EPOCH for lsn in found if lsn >> _EPOCH < _MOST]
        found.update(epoch << _EPOCH for epoch in range(min(epochs, default=0) + 1, max(epochs, default=0) + 1))
        return sorted(found)


def read_reading_traces(source: RunSource, name: str) -> list[ReadingTrace]:
    """The traces of a run; none if it has no read streams. Raises `SpecError`, and what reading raises."""
    found: list[ReadingTrace] = []
    reading: dict[tuple[int, int], ReadingTrace] = {}
    world = _World()
    for event in _events(source):
        kind = event["kind"]
        try:
            if kind not in _STREAM:
                world.take(event)
                continue
            stream = event["node"], event["op"]
            if stream not in reading:
                reading[stream] = ReadingTrace(name, *stream, world.nodesets)
                world.seen[stream] = [0, 0, 0]
                found.append(reading[stream])
            if kind == Kind.STREAM_SETTINGS:
                reading[stream].settings = json.loads(event["text"])
            else:
                world.tell(reading[stream], event)
                _take(reading[stream], event)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise SpecError(f"{name}: what event {event['seq']} says cannot be read: {error!r}") from None
    return [trace for trace in found if trace.settings and any(step[0] in ("record", "gap") for step in trace.events)]


def follow_reading(traces: Sequence[ReadingTrace], tools: Toolchain, seconds: float | None = None) -> None:
    """Follow every trace; set ``stuck`` and ``near`` of those that the spec does not allow. Raises `SpecError`."""
    for batch in batches(traces, BATCH_EVENTS, _shards):
        for refused in followed(MODULE, batch, _written, _configuration(batch), tools, seconds, "Before == <<>>"):
            trace, line = refused.trace, refused.line
            trace.stuck = f"event {trace.seqs[line - 1]}: stream {trace.op} {_said(trace, trace.events[line - 1])}"
            trace.refused = refused


def nearest_step(trace: ReadingTrace, tools: Toolchain, seconds: float | None = None) -> Nearest | None:
    """Of a trace that was refused, which action came nearest, and what of it does not hold. Raises `SpecError`."""
    if trace.refused is None:
        return None
    event = _written(trace, [trace.events[trace.refused.line - 1]])
    return nearest(MODULE, trace.refused, event, _configuration([trace]), tools, seconds)


class _World:
    """What happens beside the streams; each is told of it where it may matter."""

    def __init__(self) -> None:
        self.nodesets: dict[int, Mapping[str, Any]] = {}
        self.log: list[tuple[int, list[str]]] = []  # seq, statuses by shard; the place is the version less 1
        self.others: list[tuple[int, Step]] = []
        self.released = (0, 0)
        self.seen: dict[tuple[int, int], list[int]] = {}  # by stream: how much of the log, the others, releases

    def take(self, event: Mapping[str, Any]) -> None:
        kind, seq = event["kind"], event["seq"]
        if kind == Kind.NODESET:
            declared = json.loads(event["text"])
            self.nodesets[event["epoch"]] = {"shards": declared["locations"], "scopes": scopes_declared(declared)}
        elif kind == Kind.RELEASE:
            if event["offset"] > self.released[1]:
                self.released = seq, event["offset"]
        elif kind == Kind.TAKES_PART:
            if event["f"] == "shard":
                lost = event["reason"] == "lost" and self._status(event["node"]) != "empty"  # else it is rebuilt
                self.others.append((seq, ("disk", event["node"] + 1, "lost" if lost else "ok")))
        elif event["version"] == len(self.log) + 1:
            statuses = {int(shard): STATUSES[status] for shard, status in json.loads(event["text"]).items()}
            self.log.append((seq, [statuses.get(shard, "full") for shard in range(max(statuses, default=-1) + 1)]))
            rebuilt = [shard for shard, status in statuses.items() if status == "empty"]
            self.others += [(seq, ("disk", shard + 1, "ok")) for shard in rebuilt]

    def _status(self, shard: int) -> str:
        """What a shard counts as now."""
        statuses = self.log[-1][1] if self.log else []
        return statuses[shard] if shard < len(statuses) else "full"

    def tell(self, trace: ReadingTrace, event: Mapping[str, Any]) -> None:
        """What happened before an event of a stream; of the event log what the reader learns by it."""
        seen = self.seen[trace.node, trace.op]
        if event["kind"] == Kind.STREAM_STATUSES:
            for version in range(seen[0] + 1, event["version"] + 1):
                trace.add(self.log[version - 1][0], "log", version, self.log[version - 1][1])
            seen[0] = max(seen[0], event["version"])
        for seq, step in self.others[seen[1] :]:
            trace.add(seq, *step)
        if self.released[1] > seen[2]:
            trace.add(self.released[0], "release", _Lsn(self.released[1], whole=True))
        seen[1:] = len(self.others), self.released[1]


def _events(source: RunSource) -> Iterator[Mapping[str, Any]]:
    for batch in source.batches(kinds=list(_KINDS), columns=list(_COLUMNS)):
        yield from batch.to_pylist()


def scopes_declared(declared: Mapping[str, Any]) -> list[tuple[int, list[list[int]]]]:
    """Factor and domains of each scope that counts (read-path.md#replication-property)."""
    locations = {int(shard): tuple(names) for shard, names in declared["locations"].items()}
    found: list[tuple[int, list[list[int]]]] = []
    largest = 0
    for depth, scope in enumerate(_SCOPES, 1):
        if declared["replication"].get(scope, 0) > largest:
            largest = declared["replication"][scope]
            domains: dict[tuple[str, ...], list[int]] = {}
            for shard, names in locations.items():
                domains.setdefault(names[:depth], []).append(shard + 1)
            found.append((largest, list(domains.values())))
    return [*found, (max(declared["replication"].values()), [[shard + 1] for shard in locations])]


def _members(mask: int | None) -> set[int]:
    return {shard + 1 for shard in range((mask or 0).bit_length()) if (mask or 0) >> shard & 1}


def _take(trace: ReadingTrace, event: Mapping[str, Any]) -> None:
    """An event of the stream itself."""
    kind, seq, word, offset = event["kind"], event["seq"], event["f"], event["offset"]
    shard = None if event["peer"] is None else event["peer"] + 1
    last = offset if event["last_offset"] is None else event["last_offset"]
    everyone = event["shards"] is None
    match kind:
        case Kind.STREAM_STATUSES:
            trace.add(seq, "statuses", event["version"])
        case Kind.STREAM_METADATA:
            trace.add(seq, "metadata", min(event["epoch"], _MOST))
        case Kind.STREAM_START:
            if not any(step[0] == "start" for step in trace.events):
                trace.single_copy = not everyone
            trace.add(seq, "start", shard, _Lsn(offset), event["filter"], everyone, _members(event["shards"]))
        case Kind.STREAM_STARTED:
            trace.add(seq, "started", shard, _STARTED[event["reason"]], event["filter"], event["version"])
        case Kind.STREAM_CLOSED:
            trace.add(seq, "closed", shard)
        case Kind.STREAM_HEARD if word not in ("access", "not_in_config"):
            dirty = word in ("under_replicated", "damaged") or bool(event["count"])
            said = _HEARD.get(word, "gap")
            trace.add(seq, "heard", shard, said, _Lsn(last, whole=True), dirty, event["version"])
            if said == "record" and event["record"] in ("hole", "bridge"):
                (trace.holes if event["record"] == "hole" else trace.bridges).add(offset)
        case Kind.STREAM_RECORD:
            trace.add(seq, "record", _Lsn(offset))
        case Kind.STREAM_GAP:
            verdict = (event["text"] or "").replace("_", "-")
            trace.add(seq, "gap", word, _Lsn(offset), _Lsn(last + 1), verdict)
        case Kind.STREAM_REJECT:
            trace.add(seq, "reject", _Lsn(offset), event["value"] is not None)
        case Kind.STREAM_GRACE:
            trace.add(seq, "grace", _Lsn(offset), word)
        case Kind.STREAM_REWIND if word == "due":
            trace.add(seq, "due", event["filter"])
        case Kind.STREAM_REWIND:
            trace.add(seq, "rewound", event["filter"], everyone, _members(event["shards"]))


def _bounds(step: Step) -> Iterator[int]:
    """Where places must begin, so that the step is about whole ones."""
    for each in step:
        if isinstance(each, _Lsn) and step[0] != "release":
            yield from [each.number + 1] if each.whole else [each.number]
            if step[0] in ("record", "reject") or (step[0] == "heard" and step[2] == "record"):
                yield each.number
                yield each.number + 1


def _shards(trace: ReadingTrace) -> int:
    return max((int(shard) + 1 for each in trace.nodesets.values() for shard in each["shards"]), default=0)


def _configuration(batch: Sequence[ReadingTrace]) -> list[str]:
    constants = {
        "Node": f"{{{', '.join(str(number) for number in range(1, _shards(batch[0]) + 1))}}}",
        "Last": str(_MOST),
        **dict.fromkeys(("R", "Written", "MaxDowns", "MaxLosses", "MaxDirty", "MaxTrim"), "0"),  # of own steps
        **dict.fromkeys(("Scd", "Delay"), "FALSE"),
    }
    given = ("EpochOf", "EsnOf", "Property", "InForce", "InScd", "Deliverable", "RewindsOn", "MustWait", "Advanced")
    replaced = {name: f"Given{name}" for name in given}
    replaced |= {"TrimFirst": "TrimPassedBy", "Leaves": "NobodyLeaves", "Order": "NoOrder", "Symmetric": "NoOrder"}
    lines = [f"CONSTANT {name} = {value}" for name, value in constants.items()]
    return [*lines, *(f"CONSTANT {name} <- {other}" for name, other in replaced.items()), "VIEW View"]


def _written(trace: ReadingTrace, events: Sequence[Step] | None = None) -> str:
    """The trace as a record of TLA+; ``events``: these of it alone."""
    places = trace.places
    shards = range(1, _shards(trace) + 1)

    def value(each: Any) -> str:  # noqa: ANN401
        if isinstance(each, _Lsn):
            return str(max(0, bisect_right(places, each.number + each.whole) - each.whole))
        if isinstance(each, list):  # the statuses
            return sequence(print_value(each[s - 1] if s <= len(each) else "full") for s in shards)
        return set_of(each) if isinstance(each, set) else print_value(each)

    def located(lsns: Iterable[int]) -> str:
        return set_of(bisect_right(places, lsn) for lsn in lsns)

    epochs = sorted({lsn >> _EPOCH for lsn in places if lsn >> _EPOCH < _MOST})
    fields = {
        "places": sequence(f"<<{min(p >> _EPOCH, _MOST)}, {min(p & _ESN, _MOST)}>>" for p in places),
        "nodesets": " @@ ".join(f"{epoch} :> {_nodeset(trace, epoch)}" for epoch in epochs),
        "holes": located(trace.holes),
        "bridges": located(trace.bridges),
        "scd": print_value(trace.single_copy),
        "guaranteed": print_value(bool(trace.settings["guaranteed_delivery_efficiency"])),
        "full": print_value(bool(trace.settings["require_full_read_set"])),
        "grace": print_value(trace.settings["grace"] > 0),
        "inFlight": str(min(trace.settings["in_flight"], _MOST)),
        "events": sequence(sequence(map(value, step)) for step in events or trace.events),
    }
    return f"[{', '.join(f'{name} |-> {each}' for name, each in fields.items())}]"


def _nodeset(trace: ReadingTrace, epoch: int) -> str:
    """The nodeset of an epoch; of an epoch before all of them nobody."""
    since = max((each for each in trace.nodesets if each <= epoch), default=None)
    if since is None:
        return "[shards |-> {}, scopes |-> {}]"
    found = trace.nodesets[since]
    scopes = scopes_written(found["scopes"])
    return f"[shards |-> {set_of(int(shard) + 1 for shard in found['shards'])}, scopes |-> {scopes}]"


def scopes_written(scopes: Iterable[tuple[int, list[list[int]]]]) -> str:
    """The replication scopes that `scopes_declared` found, as a TLA+ set of records ``[domains, factor]``."""
    return set_of(f"[domains |-> {set_of(map(set_of, domains))}, factor |-> {factor}]" for factor, domains in scopes)


def sequence(members: Iterable[str]) -> str:
    """A TLA+ sequence of members that are TLA+ already: ``<<1, 2>>``."""
    return f"<<{', '.join(members)}>>"


def set_of(members: Iterable[Any]) -> str:
    """A TLA+ set of these members, as they print: ``{1, 2}``."""
    return f"{{{', '.join(map(str, members))}}}"


def _said(trace: ReadingTrace, step: Step) -> str:
    """What the event claims."""

    def lsn(each: _Lsn, less: int = 0) -> str:
        number = each.number - less
        return f"e{number >> _EPOCH}n{number & _ESN}"

    match step:
        case ["gap", word, first, end, verdict]:
            why = f" by the verdict {verdict}" if verdict else ""
            return f"delivers {lsn(first)} to {lsn(end, 1)} as {word}{why}, which the spec does not allow here"
        case ["record", at]:
            return f"delivers the record at {lsn(at)}, which the spec does not allow here"
        case ["start", shard, at, version, everyone, down]:
            listed = "all send all" if everyone else f"the list {sorted(each - 1 for each in down)}"
            return f"sends shard {shard - 1} START from {lsn(at)} with {listed}, version {version}; the spec would not"
        case ["heard", shard, what, to, _, _]:
            return f"hears {what} up to {lsn(to)} of shard {shard - 1}, which may not say so"
        case ["started", shard, answer, _, _]:
            return f"hears of shard {shard - 1} that it has {answer}, and its data is lost"
        case ["log", version, statuses]:
            return f"learns version {version} of the event log, whose statuses {statuses} do not follow from the last"
        case _:
            return f"goes on with {step[0]}, for which the spec has no step here"


FOLLOWER = Follower(
    module=MODULE, traces="streams", read=read_reading_traces, follow=follow_reading, nearest=nearest_step
)
