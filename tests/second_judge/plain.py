"""What the plain checks stand on: a history as a list of events, and the counts that a check answers with.

The plain checks are the second judge: each is written from the text of its rule (docs/rules and the record of the
check) to be read, not to be fast, and shares no code with the checks of `logwitness`. `comparison` holds the two
together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar

from loghistory import SCHEMA

STATE = (
    "configuration",
    "term",
    "role",
    "vote",
    "leader",
    "append",
    "flush",
    "truncate",
    "commit",
    "visible",
    "acked",
    "apply",
    "snapshot",
    "start",
    "gap",
)
"""Kinds of events that carry the state of a node's log after them, besides `compact` and `trim`, which may."""

GONE = ("stop", "crash", "power_loss", "storage_error")
"""Kinds after which the process of the node does not run."""

READS = ("read", "read_committed", "read_linearizable", "final_read")
"""Names of operations that read."""

SURROUNDINGS = (*GONE, "fault", "heal", "phase")
"""Kinds that without a log concern all logs of a run."""


class Event(dict[str, Any]):
    """One event: its columns as attributes, None where it carries none."""

    def __init__(self, columns: Iterable[tuple[str, Any]]) -> None:
        super().__init__(columns)
        self.__dict__ = self

    def __getattr__(self, column: str) -> Any:  # noqa: ANN401
        """What it does not carry."""
        return None

    @property
    def last(self) -> int:
        """The last offset of the batch that it is about."""
        last: int = self["last_offset"] if self.get("last_offset") is not None else self["offset"]
        return last

    @property
    def offsets(self) -> range:
        """Every offset of the batch that it is about."""
        return range(self["offset"], self.last + 1)


for _column in SCHEMA.names:
    setattr(Event, _column, None)  # found without a call; plain checks ask millions of times


def halves_in(text: str | None) -> tuple[tuple[int, ...], ...]:
    """The voters that the text of a configuration names, and the old ones if there are any; () if it is none."""
    numbers = r"[0-9]{1,9}(?:,[0-9]{1,9})*"
    form = rf"({numbers})((?: [^ ]+ [^ ]+)*)"
    found = re.fullmatch(form, text or "") if len(text or "") <= 4096 else None
    if not found:
        return ()
    words = found[2].split(" ")[1:]
    named = dict(zip(words[::2], words[1::2], strict=True))
    lists = {name: named[name] for name in ("old", "learners") if name in named}
    whole = all(re.fullmatch(numbers, each) for each in lists.values())
    nodes = [[int(n) for n in each.split(",")] for each in (found[1], *lists.values())] if whole else [[0, 0]]
    if any(len({*each}) < len(each) for each in nodes) or not named.get("revision", "0").isdecimal():
        return ()
    return tuple(map(tuple, nodes[: 1 + ("old" in lists)]))


def wipes(e: Event) -> bool:
    """Whether a disk is emptied."""
    return bool(e.kind == "fault" and e.f == "wipe")


T = TypeVar("T")


def once(function: Callable[[History], T]) -> Callable[[History], T]:
    """The function, which is asked once about a history: batches are compared by identity."""

    @wraps(function)
    def asked(history: History) -> T:
        if function not in history.kept:
            history.kept[function] = function(history)
        found: T = history.kept[function]
        return found

    return asked


@dataclass(frozen=True, eq=False)
class History:
    """One log: its events in order, and what is known of the run."""

    events: list[Event]
    voters: tuple[int, ...]
    write_caching: bool = False
    idempotent: bool = True
    progress_bound: int | None = None
    """Nanoseconds in which everything has to go on, if whoever made the run said so."""
    memory_bytes: int | None = None
    """Bytes that a leader may hold for appends, if whoever made the run said so."""
    recorded: bool = False
    """Nodes recorded what they did, in this log or in another one."""
    of_protocol: bool = False
    """The run is of a protocol whose nodes may trim the log."""
    nodes: int = 0
    """How many nodes there are, if whoever made the run said so."""
    stated: Mapping[str, Any] = field(default_factory=dict)
    """The configuration of the run, as whoever made it has it."""
    max_in_flight: int | None = None
    """Requests to one follower that may be unanswered, if whoever made the run said so."""
    kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    """What `once` has found in it, by function."""

    def halves(self, node: int, until: int) -> tuple[tuple[int, ...], ...]:
        """The voters, or both halves of them, by the configuration in force on a node: that of its last event which
        says so since its last start, else the first one."""
        if not self.configurations:
            return (self.voters,)
        own = [e for e in self.events if e.node == node and e.seq <= until and e.kind in ("start", "configuration")]
        since = max((e.seq for e in own if e.kind == "start"), default=-1)
        reported = [halves_in(e.text) for e in own if e.seq > since and halves_in(e.text)]
        return reported[-1] if reported else (self.voters,)

    def everyone(self, until: int | None = None) -> set[int]:
        """The voters of all configurations that are told of by then."""
        reported = [e for e in self.configurations if until is None or e.seq <= until]
        return {*self.voters}.union(*(half for e in reported for half in halves_in(e.text)))

    @cached_property
    def configurations(self) -> list[Event]:
        """The events that say which configuration is in force on a node."""
        return [e for e in self.events if e.kind == "configuration" and e.node is not None]

    def changes(self, until: int | None = None) -> bool:
        """Whether the voters have changed by then."""
        return any(until is None or e.seq <= until for e in self.configurations)

    @property
    def unreadable(self) -> bool:
        """Whether a configuration cannot be read."""
        return any(not halves_in(e.text) for e in self.configurations)

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
        return len(self.voters) // 2 + 1

    def has(self, kind: str) -> bool:
        """Whether an event of a node of the kind was recorded."""
        return any(e.kind == kind and e.node is not None for e in self.events)

    def unseen_trims(self, until: int | None = None) -> bool:
        """Whether the log may have been trimmed by then and nobody would have recorded it (counting.md#trims)."""
        nodes = {e.node for e in self.events if e.kind in (*STATE, "trim", "compact")} - {None}
        reported = [e for e in self.events if until is None or e.seq < until]
        asked = any(e.kind == "fault" and e.f in ("trim", "compact") for e in reported)
        return (self.of_protocol or asked) and (not nodes or not {*self.voters} <= nodes)

    def compacts(self, until: int | None = None) -> bool:
        """Whether some node is seen to compact by then, or was asked to (counting.md#trims)."""
        reported = [e for e in self.events if until is None or e.seq < until]
        return any(e.kind == "compact" or (e.kind == "fault" and e.f == "compact") for e in reported)

    @property
    def observes(self) -> bool:
        """Whether it is recorded what some read was given."""
        return any(e.kind == "observe" and e.process is not None for e in self.events)

    @property
    def silent(self) -> bool:
        """Whether there is a voter that records nothing, or nobody knows who votes."""
        recorded = {e.node for e in self.events if e.dirty is not None}
        return not self.voters or not recorded.issuperset(self.everyone())

    @property
    def too_many(self) -> bool:
        """Whether there are more nodes than there are: voters, who recorded anything, who ended, whom faults befell."""
        reported = [e for e in self.events if e.dirty is not None or e.kind in (*GONE, "fault")]
        return 0 < self.nodes < len(self.everyone() | {e.node for e in reported if e.node is not None})

    @property
    def stranger(self) -> bool:
        """Whether a node that is no voter by the configuration acts as one: votes, stands for election or leads; or a
        voter is a learner."""
        return any(
            e.dirty is not None
            and (
                e.role == "learner" and not any(c.seq < e.seq for c in self.configurations)
                if e.node in self.everyone(e.seq)
                else e.kind in ("vote", "leader") or e.role in ("leader", "candidate")
            )
            for e in self.events
        )


class Count(NamedTuple):
    """What a check counts: facts judged, violations, facts excused, facts that could not be judged.

    ``lacking``: what happened is not recorded, so that the check cannot hold (raft.md#not-recorded).
    """

    judged: int = 0
    violated: int = 0
    excused: int = 0
    unjudged: int = 0
    lacking: int = 0

    def __add__(self, other: object) -> Count:
        return Count(*(a + b for a, b in zip(self, other, strict=True))) if isinstance(other, Count) else NotImplemented

    @property
    def verdict(self) -> str:
        """Violated if anything is, undecided if anything lacks, holds if anything was judged, else unexercised."""
        if self.violated:
            return "violated"
        return "undecided" if self.lacking else "holds" if self.judged else "unexercised"

    def if_shown(self, *, lacks: bool = False, void: bool = False) -> Count:
        """These counts if the history shows enough; ``void``: nor does it show a violation."""
        return self._replace(violated=0 if void else self.violated, lacking=int(lacks or void))


ALL = -1
"""The acks level all."""

JUDGED, VIOLATED = Count(judged=1), Count(violated=1)
EXCUSED, UNJUDGED = Count(excused=1), Count(unjudged=1)

Plain: TypeAlias = Callable[[History], Count]


def total(counts: Iterable[Count]) -> Count:
    """All of them together."""
    return sum(counts, Count())


def logs_of(events: list[Event]) -> list[list[Event]]:
    """The events of each log; what concerns the surroundings and names no log is in all of them.

    Events without a log are a log of their own if they tell of more than the surroundings, or if there is no other.
    """
    names = list(dict.fromkeys(e.log for e in events if e.log is not None))
    nameless = [e for e in events if e.log is None]
    found = [[e for e in events if e.log == name or (e.log is None and e.kind in SURROUNDINGS)] for name in names]
    if not names or any(e.kind not in SURROUNDINGS for e in nameless):
        found.append(nameless)
    return found
