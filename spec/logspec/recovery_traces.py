"""Recorded recoveries of epochs of the read path, followed in the specification (`TraceRecovery`).

A trace is one epoch: what its shards stored, sealed, purged and shipped, what runs of recovery wrote, and what was
released. Its places are the LSNs above the lowest one that any run read from. Runs in which copies rot where they lie
are not followed: what a run read of them is not recorded. Sources: read-path.md#recovery-seal,
read-path.md#release-needs-recovery, read-path.md#shard-refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loghistory import Kind, RunSource
from logspec.errors import SpecError
from logspec.followers import Follower
from logspec.reading_traces import STATUSES, scopes_declared, scopes_written, sequence, set_of
from logspec.server_traces import Refused, followed, nearest
from logspec.tlavalue import print_value
from logspec.toolchain import Toolchain
from logspec.traces import Nearest, batches

MODULE = "read_path/TraceRecovery.tla"
BATCH_EVENTS = 20_000
"""Events that are followed in one run of TLC."""
MOST = 20_000_000
"""Epochs times events of a run that is followed: each epoch is a trace, and is told of most events."""

_OF_EPOCHS = (Kind.COPY, Kind.PURGE, Kind.TRIM_POINT, Kind.SEAL, Kind.RECOVER, Kind.RELEASE, Kind.SHIP)
_KINDS = (*_OF_EPOCHS, Kind.NODESET, Kind.EVENT_LOG, Kind.TAKES_PART, Kind.FAULT)
_COLUMNS = (
    *("seq", "kind", "node", "offset", "last_offset", "epoch", "f", "reason", "shards", "record", "recovery"),
    *("peer", "version", "text"),
)
_EPOCH = 32
_ESN = (1 << _EPOCH) - 1
_ROT = "rot"

Step = tuple[Any, ...]
"""An event as it is followed: its word, then what the module says."""
Event = Mapping[str, Any]


@dataclass(slots=True)
class RecoveryTrace:
    """Epoch ``epoch``; ``seqs[i]`` is where ``events[i]`` was recorded.

    ``base``: the esn below place 1; ``runs``: the number of each value that shards are sealed for; ``froms``: by run,
    the places above which it may have read.
    """

    name: str
    epoch: int
    base: int
    runs: Mapping[int, int]
    froms: Mapping[int, set[int]]
    scopes: list[tuple[int, list[list[int]]]]
    shards: set[int]
    events: list[Step] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    places: int = 1
    stuck: str | None = None
    """What the spec does not allow, in a sentence, once it was followed."""
    refused: Refused[RecoveryTrace] | None = None
    """Where it was, for `nearest_recovery`."""
    sealed: set[int] = field(default_factory=set)
    over: bool = False

    def add(self, seq: int, *step: Any) -> None:  # noqa: ANN401
        """Append one step, which was recorded at ``seq``."""
        self.events.append(step)
        self.seqs.append(seq)

    def place(self, lsn: int) -> int:
        """The place of an LSN; 0 for all that lies below the places, and the last one for what lies above."""
        if lsn >> _EPOCH != self.epoch:
            return 0 if lsn >> _EPOCH < self.epoch else self.places
        return min(max(0, (lsn & _ESN) - self.base), self.places)


def read_recovery_traces(source: RunSource, name: str) -> list[RecoveryTrace]:
    """The traces of a run, one an epoch that runs of recovery or seals are recorded of. Raises `SpecError`, and what
    reading raises."""
    events = [
        each for batch in source.batches(kinds=list(_KINDS), columns=list(_COLUMNS)) for each in batch.to_pylist()
    ]
    if any(e["kind"] == Kind.FAULT and e["f"] == _ROT for e in events):
        return []
    try:
        return [
            trace
            for trace in _traces(events, name)
            if any(s[0] in ("seal", "recover", "release") for s in trace.events)
        ]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise SpecError(f"{name}: what is recorded of its epochs cannot be read: {error!r}") from None


def follow_recoveries(traces: Sequence[RecoveryTrace], tools: Toolchain, seconds: float | None = None) -> None:
    """Follow every trace; set ``stuck`` and ``refused`` of those that the spec does not allow. Raises `SpecError`."""
    for batch in batches(traces, BATCH_EVENTS, _alike):
        for refused in followed(MODULE, batch, _written, _configuration(batch), tools, seconds, "Before == <<>>"):
            trace, line = refused.trace, refused.line
            said = _said(trace, trace.events[line - 1])
            trace.stuck = f"event {trace.seqs[line - 1]}: in epoch {trace.epoch} {said}"
            trace.refused = refused


def nearest_recovery(trace: RecoveryTrace, tools: Toolchain, seconds: float | None = None) -> Nearest | None:
    """Of a trace that was refused, which action came nearest, and what of it does not hold. Raises `SpecError`."""
    if trace.refused is None:
        return None
    event = _written(trace, [trace.events[trace.refused.line - 1]])
    return nearest(MODULE, trace.refused, event, _configuration([trace]), tools, seconds)


def _traces(events: Sequence[Event], name: str) -> list[RecoveryTrace]:
    nodesets = {e["epoch"]: json.loads(e["text"]) for e in events if e["kind"] == Kind.NODESET}
    last = max((e["epoch"] for e in events if e["kind"] in (Kind.RELEASE, Kind.RECOVER)), default=0)
    found = {}
    epochs = range(min(nodesets, default=last + 1), last + 1)
    if last - epochs.start >= MOST // max(len(events), 1):
        raise SpecError(f"{name}: {len(events):,} events name epochs up to {last:,}: too many to follow each")
    for epoch in epochs:
        declared = nodesets[max(each for each in nodesets if each <= epoch)]
        found[epoch] = _empty_trace(events, name, epoch, declared)
    world = _World()
    for event in events:
        if event["kind"] in _OF_EPOCHS:
            for trace in found.values():
                _take(trace, event, world.released)
        for step in world.take(event):
            for trace in found.values():
                trace.add(event["seq"], *step)
    return [*found.values()]


def _empty_trace(events: Sequence[Event], name: str, epoch: int, declared: Mapping[str, Any]) -> RecoveryTrace:
    """The trace of an epoch, with what the whole of it tells."""
    written: dict[int, list[int]] = {}
    copied = [e for e in events if e["kind"] == Kind.COPY and e["offset"] >> _EPOCH == epoch]
    for e in copied:
        if e["recovery"]:
            written.setdefault(e["recovery"], []).append(e["offset"] & _ESN)
    froms = {run: {min(esns) - 1} for run, esns in written.items()}
    recovered = [e for e in events if e["kind"] == Kind.RECOVER and e["epoch"] == epoch]
    for e in recovered:
        froms.setdefault(e["recovery"], set()).add(max(e["offset"] - (epoch << _EPOCH), 0))
    sealed = {e["epoch"] for e in events if e["kind"] == Kind.SEAL and e["epoch"] >= epoch}
    runs = {run: number for number, run in enumerate(sorted(sealed | froms.keys()), 1)}
    last = max((e["offset"] & _ESN for e in copied), default=0)
    base = min((low for lows in froms.values() for low in lows), default=last)
    lows = {runs[run]: {low - base for low in each} for run, each in froms.items()}
    shards = {int(shard) + 1 for shard in declared["locations"]}
    return RecoveryTrace(
        name, epoch, base, runs, lows, scopes_declared(declared), shards, places=max(1, last - base + 1)
    )


class _World:
    """What happens beside epochs: the event log, disks, and how far is released."""

    def __init__(self) -> None:
        self.released = 0
        self._statuses: list[str] = []
        self._reported: set[tuple[str, ...]] = set()

    def take(self, event: Event) -> Iterator[Step]:
        """What of it all traces are told."""
        match event["kind"]:
            case Kind.RELEASE:
                self.released = max(self.released, event["offset"])
            case Kind.TAKES_PART if event["f"] == "shard" and event["reason"] == "lost":
                shard = event["node"]
                yield "disk", shard + 1, "lost"
                if shard < len(self._statuses) and self._statuses[shard] == "empty":
                    yield "disk", shard + 1, "ok"
            case Kind.EVENT_LOG:
                said = {int(shard): STATUSES[status] for shard, status in json.loads(event["text"]).items()}
                self._statuses = [said.get(shard, "full") for shard in range(max(said, default=-1) + 1)]
                yield from (("disk", shard + 1, "ok") for shard, status in said.items() if status == "empty")
                if tuple(self._statuses) not in self._reported:
                    self._reported.add(tuple(self._statuses))
                    yield "log", self._statuses


def _take(trace: RecoveryTrace, e: Event, released: int) -> None:
    """What an event says of an epoch."""
    kind, seq, shard, offset = e["kind"], e["seq"], (e["node"] or 0) + 1, e["offset"]
    last = offset if e["last_offset"] is None else e["last_offset"]
    match kind:
        case Kind.COPY if offset >> _EPOCH == trace.epoch:
            place, run = trace.place(offset), trace.runs[e["recovery"]] if e["recovery"] else 0
            if run or place or shard in trace.sealed:
                trace.add(seq, "copy", shard, place, run, e["record"], offset <= released)
        case Kind.SEAL if e["epoch"] >= trace.epoch:
            trace.sealed.add(shard)
            trace.add(seq, "seal", shard, trace.runs[e["epoch"]])
        case Kind.PURGE if offset >> _EPOCH == trace.epoch:
            trace.add(seq, "purge", shard, trace.place(offset), trace.place(last))
        case Kind.TRIM_POINT if trace.place(offset) > 0:
            trace.add(seq, "trim", shard, trace.place(offset))
        case Kind.RECOVER if e["epoch"] == trace.epoch:
            low = max(offset - (trace.epoch << _EPOCH), 0) - trace.base
            members = {each + 1 for each in range(e["shards"].bit_length()) if e["shards"] >> each & 1}
            end = max(low, trace.place(last))
            trace.add(seq, "recover", trace.runs[e["recovery"]], low, end, members, e["record"] == "bridge")
        case Kind.RELEASE if e["epoch"] == trace.epoch:
            if trace.place(offset) > 0:
                trace.add(seq, "own", trace.place(offset))
        case Kind.RELEASE if e["epoch"] > trace.epoch and not trace.over:
            trace.over = True
            trace.add(seq, "release", e["epoch"])
        case Kind.SHIP:
            there = {trace.place(lsn) for lsn in json.loads(e["text"]) if lsn >> _EPOCH == trace.epoch} - {0}
            if there:
                trace.add(seq, "ship", shard, there)


def _shards(trace: RecoveryTrace) -> int:
    reported = [len(step[1]) for step in trace.events if step[0] == "log"]
    named = [int(step[1]) for step in trace.events if step[0] in ("copy", "seal", "purge", "trim", "disk", "ship")]
    return max([*trace.shards, *reported, *named])


def _alike(trace: RecoveryTrace) -> tuple[int, int]:
    """Of what those that are followed together have the same: shards, and about as many places."""
    return _shards(trace), trace.places.bit_length()


def _configuration(batch: Sequence[RecoveryTrace]) -> list[str]:
    constants = {
        "Node": set_of(range(1, _shards(batch[0]) + 1)),
        "MaxEsn": max(trace.places for trace in batch),
        "MaxRuns": max((len(trace.runs) for trace in batch), default=0) or 1,
        **dict.fromkeys(("R", "MaxDowns", "MaxLosses", "MaxTrim"), 0),  # of own steps
    }
    replaced = {name: f"Given{name}" for name in ("Property", "Fenced", "MayGoOn")}
    replaced |= {"Winner": "WinnerOf", "Symmetric": "NoOrder"}
    lines = [f"CONSTANT {name} = {value}" for name, value in constants.items()]
    return [*lines, *(f"CONSTANT {name} <- {other}" for name, other in replaced.items()), "VIEW View"]


def _written(trace: RecoveryTrace, events: Sequence[Step] | None = None) -> str:
    """The trace as a record of TLA+; ``events``: these of it alone."""
    shards = range(1, _shards(trace) + 1)

    def value(each: Any) -> str:  # noqa: ANN401
        if isinstance(each, list):  # the statuses
            return sequence(print_value(each[s - 1] if s <= len(each) else "full") for s in shards)
        return set_of(sorted(each)) if isinstance(each, set) else print_value(each)

    fields = {
        "base": str(trace.base),
        "scopes": scopes_written(trace.scopes),
        "shards": set_of(sorted(trace.shards)),
        "froms": sequence(set_of(trace.froms.get(run, {0})) for run in range(1, len(trace.runs) + 1)),
        "events": sequence(sequence(map(value, step)) for step in events or trace.events),
    }
    return f"[{', '.join(f'{name} |-> {each}' for name, each in fields.items())}]"


def _said(trace: RecoveryTrace, step: Step) -> str:
    """What the event claims."""
    values = {number: run for run, number in trace.runs.items()}

    def lsn(place: int) -> str:
        return f"e{trace.epoch}n{trace.base + place}"

    match step:
        case ["copy", shard, place, 0, _, _]:
            where = lsn(place) if place else "an LSN below those that were recovered"
            return f"shard {shard - 1} stores a copy at {where}, which it may not take any more"
        case ["copy", shard, place, run, kind, _]:
            return f"run {values[run]} leaves {kind} at {lsn(place)} on shard {shard - 1}, which does not follow"
        case ["seal", shard, run]:
            return f"shard {shard - 1} is sealed up to epoch {values[run]}, and may not be"
        case ["recover", run, low, last, _, _]:
            return f"run {values[run]} has recovered it from {lsn(low)} to {lsn(last)}, which does not follow"
        case ["purge", shard, first, _]:
            return f"shard {shard - 1} deletes what it has from {lsn(first)} on, which it may not"
        case ["release", epoch]:
            return f"nothing is recovered, and epoch {epoch} is released"
        case ["ship", shard, places]:
            return f"shard {shard - 1} ships {', '.join(map(lsn, sorted(places)))}, which it may not"
        case _:
            return f"{step[0]} comes, for which the spec has no step here"


FOLLOWER = Follower(
    module=MODULE, traces="epochs", read=read_recovery_traces, follow=follow_recoveries, nearest=nearest_recovery
)
