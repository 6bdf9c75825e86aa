"""How the configuration of a group changes: one in force is the last one in the log, quorums of two that follow each
other meet, and a leader changes it only when the one before is committed, in its own term.

Configurations are rare: the few events that say something of them are judged one by one, with plain dictionaries. Which
configuration an entry holds is told by a node on which it comes into force as it is appended; a copy of the entry must
do the same on every other node. Source: raft.md#membership.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from loghistory.schema import STATE_KINDS, Kind

from ..codes import (
    APPEND,
    CARRIES_STATE,
    CONFIGURATION,
    LEADER,
    NULL,
    ROLE_LEADER,
    START,
    TRIM,
    TRUNCATE,
    among,
)
from ..columns import Array, Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..kernel import kernel
from ..sentences import listed
from .configurations import NOT_READABLE, Configuration, apart, configuration_of
from .protocol import RAFT

IN_FORCE = Check(
    id="configuration-in-force",
    rule="The configuration in force on a node is the last one in its log, committed or not: from its append on, which "
    "is first at the leader of its term, and not once it was truncated.",
    source=("raft.md#configuration-in-force",),
    fact="a configuration that comes into force, or has to",
    sentence={
        "ignored": "Node {node} has the configuration at offset {offset} ({reported}) but goes by another one ({own}).",
        "alone": "Node {node} goes by the configuration at offset {offset} ({reported}), which its leader {leader} of "
        "term {term} wrote and did not go by.",
        "cut": "Node {node} goes by the configuration at offset {offset}, though its log ends at offset {end}.",
        "kept": "Node {node} goes by the configuration at offset {offset} ({own}), though it was truncated and the "
        "last one in its log is {reported}.",
        "reverted": "Node {node} goes back to the configuration {own}, though the last one in its log is {reported}.",
    },
    kinds=(Kind.CONFIGURATION,),
    columns=("node", "offset", "value"),
)
INTERSECT = Check(
    id="quorums-intersect",
    rule="Whatever decides by a configuration meets whatever decides by the one before it in the log; a joint one has "
    "the voters before it as its old half, and is followed by one of its halves; without one, no voter goes, and one "
    "that was a learner may come. Revisions never fall, and members come with a new one, which is their session.",
    source=("raft.md#change-steps", "raft.md#joint", "raft.md#change-refused", "raft.md#session"),
    fact="a configuration that is appended behind another one",
    sentence={
        "apart": "The configuration at offset {offset} ({after}) follows {before}: {others} may decide by the former "
        "and {some} by the latter, with no node in common.",
        "half": "The configuration at offset {offset} ({after}) follows {before}, of which it is no half.",
        "step": "The configuration at offset {offset} ({after}) follows {before}, and is no single step from it.",
        "old": "The configuration at offset {offset} ({after}) follows {before}, whose voters it does not replace.",
        "revision": "The configuration at offset {offset} ({after}) follows {before}, whose revision is later, or the "
        "same though members come.",
        "session": "The configuration at offset {offset} ({after}) follows {before}, and a member comes in another "
        "session than its revision.",
    },
    kinds=(Kind.CONFIGURATION,),
    columns=("node", "offset", "value"),
)
COMMITTED = Check(
    id="changes-are-committed",
    rule="A leader changes the configuration only when the one in force and an entry of its own term are committed.",
    source=("raft.md#change-refused",),
    fact="a configuration that a leader appends",
    sentence={
        "uncommitted": "Leader {node} changes the configuration at offset {offset}, while the one at offset {before} "
        "is not committed; its commit index is {commit}.",
        "old term": "Leader {node} changes the configuration at offset {offset} before an entry of its own term {term} "
        "is committed; its commit index is {commit}, and its term begins behind offset {before}.",
    },
    kinds=(Kind.CONFIGURATION, Kind.LEADER),
    columns=("node", "term", "role", "offset", "commit"),
)

_UNSAID = "configurations come into force, but no append is recorded"
_MOST_NODES = 1 << 10
"""Up to here a number of a node is its place."""
_FEW = (CONFIGURATION, START, TRUNCATE, TRIM, LEADER)


class _Entry(NamedTuple):
    """A configuration in a log: where, which, and the event that said so."""

    offset: int
    configuration: Configuration
    seq: int


def _is_no_step(before: Configuration, after: Configuration) -> str:
    """What is wrong with a configuration behind another one; nothing if they follow each other (raft.md#joint)."""
    halves = [frozenset(half) for half in before.halves]
    if not after.old and before.old:
        return "" if frozenset(after.voters) in halves else "half"
    if not after.old:
        come = frozenset(after.voters) - halves[0]
        return "" if len(come) <= 1 and come <= {*before.learners} and halves[0] <= {*after.voters} else "step"
    if before.old:
        return "" if [frozenset(half) for half in after.halves] == halves else "half"
    return "" if frozenset(after.old) == halves[0] else "old"


def _is_misnumbered(before: Configuration, after: Configuration) -> str:
    """What is wrong with the numbers of a configuration behind another one; nothing if its revision is not earlier,
    and later if members come, in a session of that number (raft.md#change-refused, raft.md#session)."""
    come, sessions = after.members - before.members, dict(after.sessions)
    if after.revision < before.revision or (come and after.revision == before.revision > 0):
        return "revision"
    return "session" if sessions and any(sessions.get(node, 0) != after.revision for node in come) else ""


def _last_of_each(columns: Columns, compiled: bool) -> Array:
    """The last event of each node that carries its state."""
    if compiled and columns.node.max(initial=0) < _MOST_NODES:
        last = np.full(_MOST_NODES, -1)
        _find_last.compiled(columns.kind, columns.node, last)
        return last[last >= 0]
    own = np.flatnonzero(CARRIES_STATE[columns.kind] & (columns.node >= 0))
    nodes, places = columns.node[own], np.arange(len(own))
    if len(own) and nodes.max() > _MOST_NODES:
        nodes = np.unique(nodes, return_inverse=True)[1]
    last = np.full(int(nodes.max()) + 1 if len(own) else 0, -1)
    last[nodes] = places
    found: Array = own[last[last >= 0]]
    return found


@kernel
def _find_last(kind: Array, node: Array, last: Array) -> None:
    """The same in one pass, by node."""
    for i in range(len(kind)):
        if CARRIES_STATE[kind[i]] and node[i] >= 0:
            last[node[i]] = i


@dataclass(slots=True)
class _Node:
    """What is known of one node since it started."""

    force: _Entry | None = None  # None: that is not known
    assumed: _Entry | None = None  # then: the last one that it had to go by, since its log was cut off
    whole: bool = False  # no others are in its log than those that it appended since it started
    held: list[_Entry] = field(default_factory=list)  # those of its log, above the first one, as far as they are known
    began: int = -1  # the event by which it started
    appended: tuple[int, int, int] | None = None  # offset, term and event of the last event, if it is an append
    due: _Entry | None = None  # what its next event must show in force
    cut: bool = False  # the entry of what is in force was cut off
    elected: tuple[int, int, int] | None = None  # term, the end of its log, event

    @property
    def entries(self) -> list[_Entry]:
        """Those that it appended since it started."""
        return [entry for entry in self.held if entry.seq > self.began]


class MembershipFold:
    """Judges the configurations of one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._words = setting.words
        self._compiled = setting.compiled
        self._first = Configuration(setting.voters) if setting.voters else None
        self._in_force = Tally(IN_FORCE, setting.keep)
        self._intersect = Tally(INTERSECT, setting.keep)
        self._committed = Tally(COMMITTED, setting.keep)
        self._nodes: dict[int, _Node] = {}
        self._reported: dict[tuple[int, int], _Entry] = {}  # by offset and term
        self._appends = False
        self._unreadable = False

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        self._appends = self._appends or bool((columns.kind == APPEND).any())
        places = np.flatnonzero(self._telling(columns))
        names = ("seq", "kind", "node", "term", "role", "offset", "entry_term", "dirty", "commit", "value")
        for row in columns.rows(places, *names):
            self._event(_Event(*row))

    def _telling(self, columns: Columns) -> Array:
        """Which events are looked at: the rare ones and copies of known entries, and what each node does before and
        after."""
        known = {offset for offset, _ in self._reported}
        known.update(columns.offset[columns.kind == CONFIGURATION].tolist())
        few: Array = among(columns.kind, _FEW)
        if known:
            few |= (columns.kind == APPEND) & np.isin(columns.offset, list(known))
        few &= columns.node >= 0
        if not known:
            few[_last_of_each(columns, self._compiled)] = (
                True  # what follows may be the configuration of an entry that ends here
            )
            return few
        for node in np.unique(columns.node[columns.node >= 0]).tolist():
            own = np.flatnonzero((columns.node == node) & CARRIES_STATE[columns.kind])
            at = np.flatnonzero(few[own])
            near = np.unique(np.concatenate([at - 1, at + 1, [0, len(own) - 1]]))
            few[own[near[(near >= 0) & (near < len(own))]]] = True
        return few

    def _event(self, e: _Event) -> None:
        node = self._nodes.setdefault(e.node, _Node())
        if e.kind == START:
            first = self._first if self._first is not None and e.node in self._first.voters else None
            force = None if first is None else _Entry(-1, first, -1)
            held = [entry for entry in node.held if entry.offset <= e.dirty]
            due = held[-1] if held else None
            node = self._nodes[e.node] = _Node(force, whole=e.dirty == -1, held=held, began=e.seq, due=due)
        elif e.kind == CONFIGURATION:
            self._configured(node, e)
        elif e.kind in (TRUNCATE, TRIM):
            self._removed(node, e)
        else:
            self._goes_by(node, e)
        if e.kind == LEADER:
            node.elected = e.term, e.dirty, e.seq
        if e.kind == APPEND:
            node.due = self._reported.get((e.offset, e.entry_term))
        node.appended = (e.offset, e.entry_term, e.seq) if e.kind == APPEND else None

    def _goes_by(self, node: _Node, e: _Event) -> None:
        """What is due has to be in force by now."""
        due, node.due = node.due, None
        if node.cut and node.force is not None:
            self._keeps(node, node.force, e)
        node.cut = False
        if due is None:
            return
        own, node.assumed = node.force or node.assumed, due
        if own is None:
            self._in_force.unjudged += 1
            return
        self._in_force.judged += 1
        if own.configuration != due.configuration:
            self._ignored(own.configuration, due, e, () if node.force is not None else (own.seq,))

    def _keeps(self, node: _Node, own: _Entry, e: _Event) -> None:
        """Its entry was cut off, and no other one came into force: what is left in the log has to be the same."""
        node.force = last = self._last(node, e)
        if last is None:
            self._in_force.unjudged += 1
            return
        self._in_force.judged += 1
        if last.configuration != own.configuration:
            said = {"reported": str(last.configuration), "own": str(own.configuration)}
            self._in_force.violation(last.seq, own.seq, e.seq, way="kept", node=e.node, offset=own.offset, **said)
            node.force = None

    def _last(self, node: _Node, e: _Event) -> _Entry | None:
        """The last configuration in a node's log, or that of the beginning; None: it is not known."""
        if entries := node.entries:
            return entries[-1]
        known = node.whole and self._first is not None and e.node in self._first.voters
        return _Entry(-1, self._first, -1) if known and self._first is not None else None

    def _ignored(self, own: Configuration, due: _Entry, e: _Event, assumed: tuple[int, ...] = ()) -> None:
        said = {"reported": str(due.configuration), "own": str(own)}
        self._in_force.violation(*assumed, due.seq, e.seq, way="ignored", node=e.node, offset=due.offset, **said)

    def _removed(self, node: _Node, e: _Event) -> None:
        """A part of the log went: from the end, or all of it, to begin anew."""
        node.due = node.assumed = None
        if e.kind == TRIM and e.dirty >= e.offset:
            return
        if e.kind == TRIM:
            node.held.clear()
            node.whole = False
        node.held = [entry for entry in node.held if entry.offset <= e.dirty]
        node.cut = node.force is not None and node.force.offset > e.dirty

    def _configured(self, node: _Node, e: _Event) -> None:
        """A configuration came into force."""
        configuration = configuration_of(self._words, e.value)
        due, node.due, node.cut, node.assumed = node.due, None, False, None
        if configuration is None:
            self._unreadable = True
            node.force, node.held, node.whole = None, [], False
            return
        entry = _Entry(e.offset, configuration, e.seq)
        before, node.force = node.force, entry
        if node.appended is not None and node.appended[0] == e.offset == e.dirty:
            self._appended(node, before, entry, e, node.appended)
            self._in_force.judged += 1
            if due is not None and due.configuration != configuration:
                self._ignored(configuration, due, e)
            return
        if e.offset > e.dirty:
            self._in_force.judged += 1
            self._in_force.violation(e.seq, way="cut", node=e.node, offset=e.offset, end=e.dirty)
            return
        last = self._last(node, e)
        if last is None:
            self._in_force.unjudged += 1
            return
        self._in_force.judged += 1
        if last.configuration != configuration:
            said = {"reported": str(last.configuration), "own": str(configuration)}
            self._in_force.violation(last.seq, e.seq, way="reverted", node=e.node, **said)

    def _appended(
        self, node: _Node, before: _Entry | None, entry: _Entry, e: _Event, copied: tuple[int, int, int]
    ) -> None:
        _, term, append = copied
        begins = node.whole and not node.entries
        node.held.append(entry)
        first = self._reported.setdefault((entry.offset, term), entry) is entry
        if before is None:
            self._intersect.unjudged += not begins  # else none is before it in the log
        else:
            self._intersect.judged += 1
            sets = apart(before.configuration, entry.configuration)
            said = {"before": str(before.configuration), "after": str(entry.configuration), "offset": entry.offset}
            if sets is not None:
                others, some = (listed(sorted(each)) for each in sets)
                self._intersect.violation(before.seq, entry.seq, way="apart", some=some, others=others, **said)
            elif before.offset >= 0 or begins:
                pair = before.configuration, entry.configuration
                way = _is_no_step(*pair) or _is_misnumbered(*pair)
                if way:
                    self._intersect.violation(before.seq, entry.seq, way=way, **said)
        if first and e.role == ROLE_LEADER and term == e.term:
            self._changes(node, before, entry, e)
        elif first and entry.configuration.revision:
            self._comes_first(entry, e, term, append)

    def _comes_first(self, entry: _Entry, e: _Event, term: int, append: int) -> None:
        """A node copied a configuration by which nobody went: its leader, if it is known, should have."""
        for number, leader in sorted(self._nodes.items()):
            if number != e.node and leader.elected is not None and leader.elected[0] == term:
                self._in_force.judged += 1
                said = {"reported": str(entry.configuration), "leader": number, "term": term}
                events = leader.elected[2], append, entry.seq
                self._in_force.violation(*events, way="alone", node=e.node, offset=entry.offset, **said)
                return

    def _changes(self, node: _Node, before: _Entry | None, entry: _Entry, e: _Event) -> None:
        """A leader appended another configuration than the one in force."""
        if before is None or node.elected is None or node.elected[0] != e.term or NULL in (e.commit, node.elected[1]):
            self._committed.unjudged += 1
            return
        self._committed.judged += 1
        said = {"node": e.node, "offset": entry.offset, "commit": e.commit}
        _, end, elected = node.elected
        if e.commit < before.offset:
            self._committed.violation(before.seq, e.seq, way="uncommitted", before=before.offset, **said)
        elif e.commit <= end:
            self._committed.violation(elected, e.seq, way="old term", before=end, term=e.term, **said)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._in_force, self._intersect, self._committed))

    def finish(self) -> Verdicts:
        """One outcome a check; where a configuration could not be read, they say so."""
        why = NOT_READABLE if self._unreadable else None
        unsaid = None if self._appends or not self._in_force.violated else _UNSAID
        in_force = self._in_force.outcome(why or unsaid, void=unsaid is not None)
        return Verdicts((in_force, *(each.outcome(why) for each in (self._intersect, self._committed))))


class _Event(NamedTuple):
    seq: int
    kind: int
    node: int
    term: int
    role: int
    offset: int
    entry_term: int
    dirty: int
    commit: int
    value: int


FAMILY = Family(
    "membership",
    (IN_FORCE, INTERSECT, COMMITTED),
    STATE_KINDS,
    ("node", "term", "role", "offset", "entry_term", "dirty", "commit", "value"),
    MembershipFold,
    RAFT,
)
