"""Fault plans: what goes wrong in a run, simulated or real, and when, as data.

A plan is a tuple of `Fault`; each begins at a time of the run and lasts for a while, so that any subset of a
plan is a plan: that is what makes shrinking (`shrink`, delta debugging) possible. Plans have a JSON form and are
generated from a random stream and a `FaultMix`; `quorumlog.simulation.injector` and `quorumlog.cluster.faults` carry
them out.

Nodes are named by number or by what they are when the fault begins ("leader", "follower", ...): whoever carries the
plan out resolves such a word; this module does not know what it means.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from quorumlog.durations import MILLISECOND, Interval, format_duration, parse_duration

Weight = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
"""How often something is drawn, relative to the others; 0 means never."""

Target = int | str
"""A node: its number, or a word that the driver resolves at the time of the fault."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """What a fault of this name does, the arguments it takes with their defaults, and their range."""

    meaning: str
    arguments: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)


_PROBABILITY = (0.2, 0.0, 1.0)
_CLOCK_JUMP = {"ms": (500.0, 0.0, 100_000.0)}
_WHICH = (1.0, 1.0, 64.0)

KINDS: Mapping[str, FaultKind] = {
    "kill": FaultKind("SIGKILL; the page cache survives; restarted at the end"),
    "kill_midway": FaultKind("SIGKILL after so many effects of the next step that has more", {"effects": _WHICH}),
    "power_loss": FaultKind("these nodes lose power together; what is not flushed may be lost"),
    "power_loss_midway": FaultKind("power is lost after so many effects of a step", {"effects": _WHICH}),
    "stop": FaultKind("asked to stop (SIGTERM): the log is flushed and closed; restarted at the end"),
    "pause": FaultKind("SIGSTOP until the end; timers and messages wait"),
    "clock": FaultKind("the node's clock runs at this rate", {"rate": (2.0, 0.01, 10.0)}),
    "clock_jump": FaultKind("the node's clock jumps ahead (ms); what is due by then happens now", _CLOCK_JUMP),
    "slow_disk": FaultKind("flushes take this many times longer", {"factor": (20.0, 1.0, 1000.0)}),
    "fsync_error": FaultKind("the next flush fails and the node stops itself; restarted at the end"),
    "open_error": FaultKind(
        "SIGKILL; at the restart this sync fails and the node stops itself again", {"sync": _WHICH}
    ),
    "disk_full": FaultKind("appends fail and the node stops itself; restarted with free space at the end"),
    "flipped_bit": FaultKind("a bit flips in what is known to be flushed; the disk is restored at the end"),
    "lost_name": FaultKind("SIGKILL; a file is not in its directory any more; the disk is restored at the end"),
    "trim": FaultKind("retention: committed entries go, except for the last so many", {"keep": (0.0, 0.0, 1e9)}),
    "compact": FaultKind("values that a later one of the same key replaced go, if both are committed"),
    "transfer": FaultKind(
        "these nodes hand their leadership on to the node so many places after them", {"places": (1.0, 1.0, 30.0)}
    ),
    "join": FaultKind("these nodes are added to the group, if they do not vote in it"),
    "leave": FaultKind("these nodes are removed from the group"),
    "demote": FaultKind("these voters become learners"),
    "cancel_change": FaultKind("the change of the members that is under way is taken back"),
    "partition": FaultKind("these nodes and the others do not hear each other"),
    "mute": FaultKind("nobody hears these nodes, but they hear the others"),
    "deafen": FaultKind("these nodes hear nobody, but the others hear them"),
    "one_way": FaultKind("the node so many places after each of these does not hear it", {"places": (1.0, 1.0, 30.0)}),
    "loss": FaultKind("messages of these nodes are lost", {"probability": _PROBABILITY}),
    "duplicate": FaultKind("messages of these nodes arrive twice", {"probability": _PROBABILITY}),
    "reorder": FaultKind("messages of these nodes overtake each other", {"probability": _PROBABILITY}),
    "delay": FaultKind("messages of these nodes take this much longer (ms)", {"ms": (50.0, 0.0, 10_000.0)}),
}
"""Every fault that any simulated cluster knows. Arguments: (default, least, greatest)."""

KNOWN: dict[str, FaultKind] = {**KINDS, "wipe": FaultKind("SIGKILL; the disk is emptied; restarted at the end")}
"""What a plan may name: these, and what protocols have besides (`declare`).

A disk is emptied where a protocol replaces what was on it (raft.md#wiped-disk, read-path.md#statuses).
"""

CHANGES = frozenset({"join", "leave", "demote", "cancel_change"})
"""Those that ask the leader of a group for a change of its members."""


def declare(kinds: Mapping[str, FaultKind]) -> None:
    """Let plans name faults that only some protocol knows; the module with its settings does this, once."""
    KNOWN.update(kinds)


class FaultPlanError(ValueError):
    """A fault plan that cannot be read: one line saying which fault, which field, and what would be right."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: begins at ``at`` (ns), ends ``lasting`` ns later, concerns ``nodes`` (empty: all)."""

    at: int
    name: str
    nodes: tuple[Target, ...] = ()
    lasting: int = 300 * MILLISECOND
    args: Mapping[str, float] = field(default_factory=dict)

    def argument(self, name: str) -> float:
        """The argument ``name``, or its default. Raises KeyError if this kind of fault has no such argument."""
        return self.args.get(name, KNOWN[self.name].arguments[name][0])

    def to_json(self) -> dict[str, Any]:
        """Plain data; `fault_from_json` reads it back exactly."""
        plain: dict[str, Any] = {"at": format_duration(self.at), "name": self.name}
        if self.nodes:
            plain["nodes"] = list(self.nodes)
        plain["lasting"] = format_duration(self.lasting)
        plain.update(self.args)
        return plain


Plan = tuple[Fault, ...]


def plan_to_json(plan: Iterable[Fault]) -> list[dict[str, Any]]:
    """A plan as plain data, in its order; `plan_from_json` reads it back exactly."""
    return [fault.to_json() for fault in plan]


def plan_from_json(text: str | bytes | Sequence[Any]) -> Plan:
    """Read a plan from JSON text or plain data, sorted by time; raises `FaultPlanError`."""
    plain: Any = text
    if isinstance(text, str | bytes):
        try:
            plain = json.loads(text)
        except ValueError as error:
            raise FaultPlanError(f"the fault plan is not JSON: {error}") from None
    if not isinstance(plain, list):
        raise FaultPlanError('a fault plan must be a list like [{"at": "1s", "name": "kill", "nodes": ["leader"]}]')
    faults = [_fault_from_json(item, position) for position, item in enumerate(plain)]
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _fault_from_json(item: object, position: int) -> Fault:
    def refuse(problem: str) -> FaultPlanError:
        return FaultPlanError(f"fault {position} of the plan: {problem}")

    if not isinstance(item, dict):
        raise refuse('is not an object like {"at": "1s", "name": "kill", "nodes": ["leader"], "lasting": "300ms"}')
    rest = dict(item)
    name = rest.pop("name", None)
    if not isinstance(name, str) or name not in KNOWN:
        raise refuse(f"name {name!r} is unknown; known are {', '.join(KNOWN)}")
    try:
        at = parse_duration(rest.pop("at", None))
        lasting = parse_duration(rest.pop("lasting", "300ms"))
    except ValueError as error:
        raise refuse(f"at, lasting: {error}") from None
    nodes = rest.pop("nodes", [])
    if not isinstance(nodes, list) or not all(isinstance(n, int | str) and not isinstance(n, bool) for n in nodes):
        raise refuse(f"nodes {nodes!r} is not a list of node numbers or of words like 'leader'")
    args: dict[str, float] = {}
    for key, value in rest.items():
        known = KNOWN[name].arguments.get(key)
        if known is None:
            allowed = ", ".join(["at", "name", "nodes", "lasting", *KNOWN[name].arguments])
            raise refuse(f"{name} has no field {key!r}; it has {allowed}")
        _, least, greatest = known
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= greatest:
            raise refuse(f"{key} {value!r} of {name} is not a number from {least:g} to {greatest:g}")
        args[key] = value
    return Fault(at, name, tuple(nodes), lasting, args)


_WEIGHTS = {
    "kill": 3.0,
    "power_loss": 3.0,
    "pause": 2.0,
    "clock": 0.5,
    "slow_disk": 3.0,
    "fsync_error": 1.0,
    "disk_full": 0.5,
    "partition": 4.0,
    "mute": 1.0,
    "deafen": 1.0,
    "loss": 1.0,
    "duplicate": 1.0,
    "reorder": 1.0,
    "delay": 1.0,
}
_TARGETS = {"leader": 4.0, "follower": 2.0, "any": 2.0, "majority": 1.0, "all": 1.0}
_NEVER_ALL = frozenset({"partition", "mute", "deafen"})


class FaultMix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a plan is drawn: relative weights of faults, their number per second of the run, and how long they last.

    ``targets`` are the relative weights of words and of "any" (one node by number) as the target of a fault.
    """

    weights: dict[str, Weight] = msgspec.field(default_factory=lambda: dict(_WEIGHTS))
    per_second: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 5.0
    shortest: Interval = 20 * MILLISECOND
    longest: Interval = 700 * MILLISECOND
    targets: dict[str, Weight] = msgspec.field(default_factory=lambda: dict(_TARGETS))
    arguments: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


def generate(draw: random.Random, mix: FaultMix, nodes: Sequence[int], start: int, end: int) -> Plan:
    """Draw a plan between two virtual times: exponential gaps, targets and durations as the mix says."""
    names = sorted(name for name, weight in mix.weights.items() if weight > 0)
    targets = sorted(name for name, weight in mix.targets.items() if weight > 0)
    plan: list[Fault] = []
    if not names or not targets or mix.per_second <= 0:
        return ()
    time = float(start)
    while True:
        time += draw.expovariate(mix.per_second) * 1e9
        if time >= end:
            return tuple(plan)
        name = draw.choices(names, [mix.weights[n] for n in names])[0]
        word = draw.choices(targets, [mix.targets[t] for t in targets])[0]
        if word == "all" and name in _NEVER_ALL:
            word = "leader"  # cutting everybody off from nobody would not be a fault
        target: Target = draw.choice(list(nodes)) if word == "any" else word
        # Short faults are as interesting as long ones: uniform in the logarithm.
        lasting = int(mix.shortest * (mix.longest / mix.shortest) ** draw.random())
        at = int(time) // 1000 * 1000
        plan.append(Fault(at, name, (target,), lasting // 1000 * 1000, dict(mix.arguments.get(name, {}))))


def shrink(plan: Plan, fails: Callable[[Plan], bool], attempts: int = 200) -> Plan:
    """A smaller plan that still fails: delta debugging (ddmin, Zeller & Hildebrandt 2002).

    ``fails`` says whether a plan still shows the fault; ``plan`` itself does. ``fails`` is called at most ``attempts``
    times.
    """
    left = attempts
    chunks = 2
    while plan and left > 0:
        size = -(-len(plan) // chunks)
        for begin in range(0, len(plan), size):
            candidate = plan[:begin] + plan[begin + size :]
            left -= 1
            if fails(candidate):
                plan = candidate
                chunks = max(2, chunks - 1)
                break
            if left <= 0:
                return plan
        else:
            if size == 1:
                return plan
            chunks = min(len(plan), chunks * 2)
    return plan
