"""Trace validation: is a recorded run one that the spec allows, and if not, from which event on.

Many runs are followed in one run of TLC (``TraceFlushedRaft``). Those that were not followed to their end are followed
again alone, to find the first event that has no step in the spec and what the spec would have allowed in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Any, Protocol, TypeVar

from logspec.errors import SpecError
from logspec.forgetting import Line, forgetting, shifted
from logspec.places import spec_directory
from logspec.recording import MISPLACED, Place, Trace, TraceEvent, offset_of
from logspec.tlavalue import Record, parse_values, print_value
from logspec.tlc import EXIT_OK, Outcome, run_tlc
from logspec.toolchain import Toolchain

MODULE = "raft/TraceFlushedRaft.tla"
SPEC = "FlushedRaft"
BATCH_EVENTS = 40_000
"""Events that are followed in one run of TLC; more make the generated module slow to read."""
FEW_EVENTS = 10_000
"""Up to which compiling TLC well costs more than following them."""
COVERED_EVENTS = 4_000
"""The same with coverage, for which TLC keeps counters for every number in that module, once for each action."""

_MODEL_VALUES = ("Nobody",)
_END = '<<"end">>'
_KIND_CONJUNCTS = 1
"""That of every action that the event is of its kind."""
_OVERRIDES = {
    "CommittedFollows": "CommittedStays",
    "ShownFollows": "ShownStays",
    "AnswersFollow": "AnsweredStays",
    "SaveVote": "SaveVoteWhenRecorded",
    "OldestTerm": "OldestToCome",
    "RepliesFollow": "RepliesFollowLogs",
    "VotersOf": "InForce",
    "MayCampaign": "IsNeeded",
    "CommittedAtStart": "KnownThen",
}


@dataclass(frozen=True, slots=True)
class Stuck:
    """The first event that the spec does not allow: where it stands, what the spec's node was, what was allowed."""

    place: Place
    index: int
    state: dict[str, Any]
    sentence: str
    before: Mapping[str, Any] = field(default_factory=dict)
    """The whole state of the specification there, for `nearest_action`..."""
    forgotten: int = 0
    """...whose positions are counted from here."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """Of the actions that the event could have been, the one that came nearest, and what of it does not hold."""

    action: str
    conjunct: str
    """Its text, after the place where it stands."""


@dataclass(slots=True)
class Followed:
    """One trace and whether it was followed to its end; ``stuck`` is None if it was.

    ``pairs``: what nodes did directly after what, as names of actions; what a node did first comes after "". None of a
    trace that was not followed.
    """

    trace: Trace
    stuck: Stuck | None = None
    pairs: frozenset[tuple[str, str]] = frozenset()

    @property
    def accepted(self) -> bool:
        """Whether the spec allows the whole trace."""
        return self.stuck is None

    @property
    def actions(self) -> frozenset[str]:
        """The names of the actions that it took; none if it was not followed to its end."""
        return frozenset(action for _, action in self.pairs)


@dataclass(slots=True)
class Campaign:
    """Many traces: each one's answer, which actions of the spec they took and how often, and the time TLC needed."""

    followed: list[Followed] = field(default_factory=list)
    actions: dict[str, int] = field(default_factory=dict)
    unvisited: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def events(self) -> int:
        """How many events there were to follow."""
        return sum(len(one.trace.events) for one in self.followed)

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """What nodes did directly after what, in any of the traces."""
        return frozenset().union(*(one.pairs for one in self.followed))


@cache
def action_names() -> tuple[str, ...]:
    """The actions that a trace may take, in the order of the specification."""
    return tuple(re.findall(r'Agrees\("(\w+)"\)', (spec_directory() / MODULE).read_text(encoding="utf-8")))


def follow_traces(
    traces: Sequence[Trace],
    tools: Toolchain,
    *,
    workers: int = 2,
    coverage: bool = True,
    seconds: float | None = None,
    on_batch: Callable[[int, int], None] | None = None,
) -> Campaign:
    """Follow every trace; ``seconds`` limits each run of TLC. ``on_batch`` is called with (traces done, all traces)."""
    campaign = Campaign()
    unvisited: set[str] | None = None
    done = 0
    for batch in batches(traces, COVERED_EVENTS if coverage else BATCH_EVENTS, _alike):
        outcome = _run(batch, tools, "ReportAccepted", workers, coverage, seconds)
        accepted = {value[1]: value[2] for value in parse_values("\n".join(outcome.printed)) if value[0] == "accepted"}
        campaign.seconds += outcome.seconds
        for name, count in outcome.actions.items():
            name = name.removeprefix("Trace")
            if name == "Forget":
                continue
            campaign.actions[name] = campaign.actions.get(name, 0) + count
        here = {place for place in outcome.unvisited if f"of {SPEC}:" in place or "of Rules:" in place}
        unvisited = here if unvisited is None else unvisited & here
        rejected = [trace for number, trace in enumerate(batch, 1) if number not in accepted]
        found, took = _find_stuck(rejected, tools, seconds) if rejected else ({}, 0.0)
        campaign.seconds += took
        campaign.followed += [
            Followed(trace, found.get(id(trace)), accepted.get(number, frozenset()))
            for number, trace in enumerate(batch, 1)
        ]
        done += len(batch)
        if on_batch:
            on_batch(done, len(traces))
    campaign.unvisited = sorted(unvisited or ()) if coverage else []
    return campaign


class Eventful(Protocol):
    """A trace of so many events."""

    @property
    def events(self) -> Sequence[object]:
        """What was recorded of the trace, in order."""


AnyTrace = TypeVar("AnyTrace", bound=Eventful)


def batches(traces: Iterable[AnyTrace], most: int, alike: Callable[[AnyTrace], Any]) -> Iterator[list[AnyTrace]]:
    """What one run of TLC can follow: traces for which ``alike`` says the same, of at most ``most`` events.

    A trace of more events is a batch of its own. What ``alike`` says is compared, so it must have an order.
    """
    for _, group in groupby(sorted(traces, key=alike), key=alike):
        batch: list[AnyTrace] = []
        size = 0
        for trace in group:
            if batch and size + len(trace.events) > most:
                yield batch
                batch, size = [], 0
            batch.append(trace)
            size += len(trace.events)
        yield batch


def _alike(trace: Trace) -> tuple[tuple[int, ...], bool]:
    return trace.nodes, trace.write_caching


def nearest_action(rejected: Followed, tools: Toolchain, seconds: float | None = None) -> Nearest | None:
    """Return which action came nearest to the event at which a trace is stuck; None if none is of its kind.

    TLC tries the event again in the state that was there, and counts what it looks at: of each action the conjuncts in
    their order, as far as they hold. The last one that it looked at does not.
    """
    trace, stuck = rejected.trace, rejected.stuck
    if stuck is None:
        return None
    alone = replace(trace, events=[shifted(trace.events[stuck.index], stuck.forgotten)])
    outcome = _run([alone], tools, "ReportAccepted", 1, True, seconds, stuck.before)
    tried = {name: looked for name, looked in outcome.conjuncts.items() if name.removeprefix("Trace") in action_names()}
    return furthest(tried)


def furthest(tried: Mapping[str, Sequence[str]]) -> Nearest | None:
    """Of actions with the conjuncts that were looked at the one with the most; None if none got beyond its kind."""
    best = max(tried, key=lambda name: len(tried[name]), default=None)
    if best is None or len(tried[best]) <= _KIND_CONJUNCTS:
        return None
    return Nearest(best.removeprefix("Trace"), tried[best][-1])


def _run(
    batch: Sequence[Trace],
    tools: Toolchain,
    report: str,
    workers: int,
    coverage: bool,
    seconds: float | None,
    before: Mapping[str, Any] | None = None,
) -> Outcome:
    """Follow a batch; ``before`` is the state to begin in, for one event alone."""
    nodes, caching = batch[0].nodes, batch[0].write_caching
    lines = [
        "INIT TraceInit" if before is None else "INIT TraceResume",
        "NEXT TraceNext" if coverage else "NEXT TraceNextByKind",
        "VIEW View",
        f"INVARIANT {report}",
        "CONSTANT Nobody = Nobody",
    ]
    lines.append(f"CONSTANT Node = {{{', '.join(map(str, nodes))}}}")
    lines.append(f"CONSTANT WriteCaching = {'TRUE' if caching else 'FALSE'}")
    lines += [f"CONSTANT {name} <- {stand_in}" for name, stand_in in _OVERRIDES.items()]
    outcome = run_tlc(
        tools,
        spec_directory() / MODULE,
        "\n".join(lines) + "\n",
        extra_modules={"TraceData": trace_data(batch, before)},
        workers=workers,
        coverage=coverage,
        brief=not coverage or sum(len(trace.events) for trace in batch) <= FEW_EVENTS,
        seconds=seconds,
    )
    if outcome.timed_out:
        raise SpecError(f"TLC did not follow {len(batch)} traces within {seconds:g} s; give it more, or fewer runs")
    if outcome.errors or outcome.status != EXIT_OK:
        reason = " ".join(" ".join(outcome.errors[:2] or outcome.printed[:4] or [f"status {outcome.status}"]).split())
        raise SpecError(f"TLC could not follow {batch[0].name}: {reason[:600]}")
    return outcome


def _lines(trace: Trace) -> list[Line]:
    return list(forgetting(trace.events, len(trace.nodes)))


def trace_data(traces: Sequence[Trace], before: Mapping[str, Any] | None = None) -> str:
    """Return the module that holds traces as constants, and the state before.

    Events are sequences of tuples; configurations are what these name by number, and what each node began with.
    """
    bodies, configurations, founding = [], [], []
    for trace in traces:
        rows = ",\n".join(f"<<{', '.join(map(print_value, line.event))}>>" for line in _lines(trace))
        bodies.append(f"<<\n{rows},\n{_END}\n>>")
        known = tuple(Record(voters._asdict()) for voters in trace.configurations)
        configurations.append(print_value(known))
        founding.append(print_value(Record({node: known[trace.founding(node) - 1] for node in trace.nodes})))
    state = print_value(before or {}, _MODEL_VALUES)
    head = f"---- MODULE TraceData ----\nEXTENDS {SPEC}, Integers, TLC\nBefore == {state}\n"
    head += f"Configurations == <<{', '.join(configurations)}>>\nFounding == <<{', '.join(founding)}>>\n"
    return head + "Traces == <<\n" + ",\n".join(bodies) + "\n>>\n====\n"


def _find_stuck(traces: Sequence[Trace], tools: Toolchain, seconds: float | None) -> tuple[dict[int, Stuck], float]:
    """Return, by ``id`` of the trace, where each of these traces cannot be followed any further, and the time it took.

    A trace may be followed in several ways as long as an event leaves the choice; the one that gets furthest counts.
    """
    outcome = _run(traces, tools, "ReportStuck", 1, False, seconds)
    furthest: dict[int, tuple[int, Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]] = {}
    for word, number, line, *found_there in parse_values("\n".join(outcome.printed)):
        if word == "stuck" and line > furthest.get(number, (0,))[0]:
            state, allowed, before = found_there
            furthest[number] = line, state, allowed, before
    found = {}
    for number, trace in enumerate(traces, 1):
        if number not in furthest:
            raise SpecError(f"{trace.name}: not followed to its end, and no event found at which it stops")
        number_of_line, state, allowed, before = furthest[number]
        line = _lines(trace)[number_of_line - 1]
        sentence = _sentence(trace, line, state, allowed)
        found[id(trace)] = Stuck(trace.places[line.of], line.of, dict(state), sentence, before, line.forgotten)
    return found, outcome.seconds


def _sentence(trace: Trace, line: Line, state: Mapping[str, Any], allowed: Mapping[str, Any]) -> str:
    """Describe what the event claims, and what the spec would have allowed, in offsets of the node's own log.

    A case for each kind of event, so it is long.
    """
    index, recorded = line.of, line.event
    event = trace.places[index].event
    kind, node = str(recorded[0]), int(event["node"])

    def offset(position: int) -> str:
        position += line.forgotten
        return str(offset_of(trace, index, position)) if position else "none"

    head = f"node {node} ({state['role']}, term {state['term']})"
    if MISPLACED in recorded:
        return f"{head} records {kind} with an offset that ends no batch of its log"
    if kind == "commit":
        body = f"moves its commit index to {event['commit']}; the spec allows at most {offset(allowed['most'])}"
        first = allowed.get("currentTermFrom")
        if first is not None:
            body += (
                f", from the first entry of its own term on, {offset(first)}" if first else ", and no entry of its term"
            )
    elif kind == "visible":
        body = f"shows up to {event['visible']}; the spec allows at most {offset(allowed['most'])}"
    elif kind == "acked":
        body = (
            f"answers the append at {event['offset']} (term {event['entry_term']}, acks {event['acks']}) with "
            f"{event['reason']}; the spec says {allowed['outcome']}"
        )
    elif kind == "append" and "next" in allowed:
        next_entry = allowed["next"]
        body = f"appends at {event['offset']} an entry of term {event['entry_term']} with value {event['value']}; "
        body += (
            f"its leader sends an entry of term {next_entry[0]['term']} with value {next_entry[0].get('value')} there"
            if next_entry
            else "no leader of its term has sent it that"
        )
    elif kind == "append":
        body = f"appends at {event['offset']} as leader; "
        if not allowed["serves"]:
            body += "no entry of its term is committed yet"
        elif allowed["changes"]:
            body += f"that puts another configuration in force than {_written(allowed['inForce'])}, which stands at "
            body += f"{offset(allowed['newest'])}; the spec allows one step, once that is committed"
        else:
            body += "the spec allows its own term only"
    elif kind == "truncate":
        to = allowed["to"]
        body = f"truncates from {event['offset']} on; the spec allows "
        body += f"to keep up to {offset(to[0])} and no less" if to else "no truncation: nothing differs"
    elif kind == "start":
        body = (
            f"starts with dirty {event['dirty']} and term {event['term']}; the spec allows an end from "
            f"{offset(allowed['from'])} to {offset(allowed['upTo'])} and a term from {allowed['termFrom']} to "
            f"{allowed['termTo']}"
        )
    elif kind == "flush":
        body = f"has flushed up to {event['flushed']}; before it had flushed up to {offset(allowed['from'] - 1)} "
        body += f"of a log that ends at {offset(allowed['upTo'])}"
    elif kind in ("snapshot", "install", "trim"):
        does = {"snapshot": "keeps a snapshot", "install": "begins anew", "trim": "trims its log"}[kind]
        upto = event["offset"] if kind == "snapshot" else event["offset"] - 1
        body = f"{does} up to {upto}; the spec allows it up to {offset(allowed['upTo'])}, with what the log has there"
    elif kind == "configuration":
        body = f"goes by the configuration {event['text'] or 'of nobody'}; "
        body += f"by its log that is {_written(allowed['inForce'])}"
    elif kind == "term":
        body = f"moves to term {event['term']}, which it has neither heard of nor won pre-votes for"
    elif kind == "leader":
        body = f"becomes leader; the votes it may count are those of {sorted(allowed['votes'])}"
    elif kind == "vote":
        body = _vote_sentence(event, allowed)
    else:
        body = f"records {kind}, for which the spec has no step here"
    return f"{head} {body}{_differences(recorded, state)}"


def _written(voters: Mapping[str, Any]) -> str:
    """A configuration as the history has it."""
    named = {"": voters["current"], " old ": voters["old"], " learners ": voters["learners"]}
    text = "".join(word + ",".join(map(str, sorted(nodes))) for word, nodes in named.items() if nodes)
    return text or "none"


def _vote_sentence(event: Mapping[str, Any], allowed: Mapping[str, Any]) -> str:
    body = f"votes for {event['peer']}; "
    if not allowed["asked"]:
        return body + "that node did not ask for votes in this term"
    if allowed["voted"] not in ("Nobody", event["peer"]):
        return body + f"it has voted for {allowed['voted']} in this term"
    return body + "the candidate's log is behind its own"


def _differences(event: TraceEvent, state: Mapping[str, Any]) -> str:
    """Name the columns that the event claims to have left alone and in which it differs from the spec."""
    kind, _, term, dirty, flushed, commit, visible = event[:7]
    moved = {
        "append": {"dirty"},
        "flush": {"flushed"},
        "commit": {"commit"},
        "visible": {"visible"},
        "term": {"term"},
        "truncate": {"dirty", "flushed", "visible"},
        "start": {"term", "dirty", "flushed", "commit", "visible"},
        "install": {"dirty", "flushed", "commit", "visible"},
    }.get(str(kind), set())
    claimed = {"term": term, "dirty": dirty, "flushed": flushed, "commit": commit, "visible": visible}
    off = [name for name, value in claimed.items() if name not in moved and value != state[name]]
    return f" (also, its {', '.join(off)} changed without an event)" if off else ""
