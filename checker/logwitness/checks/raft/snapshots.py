"""What the state machines of nodes apply, and the snapshots that logs begin behind.

Both are rare beside entries: a node applies what was committed since it last did, and takes a snapshot before it trims.
They are judged one by one, with plain dictionaries; of the entries of a node it is only known where their term changes.
Sources: raft.md#apply, raft.md#snapshot, raft.md#snapshot-install.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from loghistory.schema import END_KINDS, Kind
from loghistory.vocabularies.snapshots import SnapshotFrom

from ..codes import (
    APPEND,
    APPLY,
    CONFIGURATION,
    ENDS,
    GAP,
    KINDS,
    NO_NODE,
    NULL,
    REASONS,
    SNAPSHOT,
    START,
    STOP,
    TRIM,
    TRUNCATE,
    among,
)
from ..columns import Array, Columns, by_number
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..kernel import kernel
from .configurations import parsed
from .protocol import RAFT

APPLIED = Check(
    id="applied-once",
    rule="The state machine of a node applies what is committed, in order, each entry once; a snapshot that a node "
    "installs is of more than it had applied.",
    source=("raft.md#apply", "raft.md#snapshot-install"),
    fact="entries that a node applies; a snapshot that it installs, where it is known what it had applied in that life",
    sentence={
        "uncommitted": "Node {node} applied up to offset {last}; its commit index is {commit}.",
        "order": "Node {node} applied offset {offset} next, where all up to offset {applied} had been applied.",
        "empty": "Node {node} started with an empty log, and applied offset {offset} first.",
        "again": "Node {node} installed a snapshot of all up to offset {offset}, but had applied all up to {applied}.",
        "restart": "Node {node} applied offset {offset} first after a restart, but its snapshot ends at offset "
        "{applied}.",
    },
    kinds=(Kind.APPLY,),
    columns=("node", "offset", "last_offset", "commit"),
)
COVERED = Check(
    id="snapshot-is-committed",
    rule="A snapshot is of what its node had applied, which is committed; on a node that installs one, all up to its "
    "end is committed, flushed and visible. What is trimmed from a log is in a snapshot.",
    source=("raft.md#snapshot", "raft.md#snapshot-install", "raft.md#trim"),
    fact="a snapshot that a node keeps, with what it says of its offsets; a trim, in a log that shows snapshots",
    sentence={
        "taken": "Node {node} took a snapshot of all up to offset {offset}; only what is up to {reached} is {what} "
        "there.",
        "installed": "Node {node} installed a snapshot of all up to offset {offset}; only what is up to {reached} is "
        "{what} there.",
        "trimmed": "Node {node} gave up everything below offset {offset}, but its last snapshot ends at offset "
        "{reached}.",
        "without": "Node {node} gave up everything below offset {offset} without keeping a snapshot.",
    },
    kinds=(Kind.SNAPSHOT,),
    columns=("node", "offset"),
)
AGREE = Check(
    id="snapshots-agree",
    rule="Snapshots that end at the same offset have the same term and configuration, those that the log of the node "
    "that takes one has there. A snapshot that is installed was kept by another node before.",
    source=("raft.md#snapshot", "raft.md#snapshot-configuration", "raft.md#snapshot-transfer"),
    fact="a snapshot that ends at an offset at which another one ends; the term, and the configuration, of one that is "
    "taken, where the log is known; one that is installed, where it is known who kept it",
    sentence={
        "apart": "Node {node} keeps a snapshot of all up to offset {offset}, in term {term} with the configuration "
        "{text}; node {other} kept one in term {other_term} with the configuration {other_text}.",
        "term": "Node {node} took a snapshot of all up to offset {offset} in term {term}; the entry there has term "
        "{other_term}.",
        "configuration": "Node {node} took a snapshot of all up to offset {offset} with the configuration {text}; "
        "{other_text} is in force there.",
        "kept": "Node {node} installed a snapshot of all up to offset {offset}, which no other node had kept.",
    },
    kinds=(Kind.SNAPSHOT,),
    columns=("node", "offset", "entry_term", "text"),
)

_TAKEN, _INSTALLED = REASONS[SnapshotFrom.TAKEN], REASONS[SnapshotFrom.INSTALLED]
_Shown: TypeAlias = tuple[tuple[int, ...], dict[str, object]]
"""What may be a violation: the events that show it, and the fields of its sentence."""
_TURNS = (START, *ENDS)
_TELLING = (APPLY, SNAPSHOT, TRIM, *_TURNS, TRUNCATE, GAP, CONFIGURATION)
_IS_TELLING = np.isin(np.arange(len(KINDS) + 1), _TELLING)
_MOST_NODES = 1 << 10
"""Up to here a number of a node is its place."""


class _Event(NamedTuple):
    seq: int
    kind: int
    node: int
    incarnation: int
    offset: int
    last_offset: int
    entry_term: int
    dirty: int
    flushed: int
    commit: int
    visible: int
    reason: int
    value: int


@dataclass(slots=True)
class _Applied:
    """How far a node has applied its log in this life; ``upto`` is ``NULL`` as long as nobody knows."""

    incarnation: int
    upto: int = NULL
    seq: int = -1
    started: int = -1
    """The event by which it started, as long as it has applied nothing since."""


class _Run(NamedTuple):
    """Entries of one term in a log, without a hole: the first offset, the last one if others follow, and who wrote
    the first."""

    first: int
    last: int
    term: int
    seq: int


_GOES_ON, _BEGINS, _TELLS = 1, 2, 3
"""How an append follows the one before it in its log: as far as it is known by then, or perhaps not."""


@dataclass(slots=True)
class _Log:
    """What the log of a node holds, as far as it was written in this life."""

    runs: list[_Run] = field(default_factory=list)
    end: int = -1  # the last offset written
    term: int = NULL  # and its term
    changes: list[tuple[int, int, int]] = field(default_factory=list)  # configurations: offset, which one, event
    whole: int = -1  # the start with an empty log, behind which no configuration is missing; -1: some may be

    def cut(self, offset: int) -> None:
        """What is from this offset on is gone."""
        while self.runs and self.runs[-1].first >= offset:
            self.runs.pop()
            self.end = self.runs[-1].last if self.runs else self.end
        self.end = min(self.end, offset - 1)

    def at(self, offset: int) -> _Run | None:
        """The entries among which the one at an offset is; None: that is not known."""
        within = [run for run in self.runs if run.first <= offset]
        if not within:
            return None
        last = within[-1].last if within[-1] is not self.runs[-1] else self.end
        return within[-1] if offset <= last else None


def _turns(columns: Columns, compiled: bool) -> Array:
    """By event: whether it is an append that may not go on behind the one before, in its term; or else one with
    something else of its node, or nothing, behind it; or of another kind that tells something."""
    if compiled and columns.node.max(initial=0) < _MOST_NODES:
        turns, last = np.zeros(len(columns.kind), np.int8), np.full(_MOST_NODES, NO_NODE)
        names = (columns.kind, columns.node, columns.offset, columns.last_offset, columns.entry_term)
        _find_turns.compiled(*names, last, turns)
        return turns
    turns = np.zeros(len(columns.kind), dtype=np.int8)
    appends = columns.kind == APPEND
    places = np.flatnonzero((appends | among(columns.kind, _TELLING)) & (columns.node != NO_NODE))
    if appends.any():
        places = places[by_number(columns.node[places])]
        node, first, last, term, append = (
            column[places]
            for column in (columns.node, columns.offset, columns.last_offset, columns.entry_term, appends)
        )
        begins = np.ones(len(places) + 1, dtype=np.bool_)
        follows = (node[1:] == node[:-1]) & append[1:] & append[:-1]
        begins[1:-1] = ~(follows & (term[1:] == term[:-1]) & (first[1:] == last[:-1] + 1))
        turns[places[begins[1:]]] = _GOES_ON
        turns[places[begins[:-1]]] = _BEGINS
    turns[~appends] = 0
    turns[among(columns.kind, _TELLING)] = _TELLS
    return turns


@kernel
def _find_turns(
    kind: Array, node: Array, offset: Array, last_offset: Array, term: Array, last: Array, turns: Array
) -> None:
    """The same in one pass; ``last``: room for the last event of each node."""
    for i in range(len(kind)):
        if _IS_TELLING[kind[i]]:
            turns[i] = _TELLS
        elif kind[i] != APPEND:
            continue
        if node[i] == NO_NODE:
            continue
        before = last[node[i]]
        last[node[i]] = i
        after_append = before >= 0 and kind[before] == APPEND
        if kind[i] == APPEND:
            if after_append and term[before] == term[i] and last_offset[before] + 1 == offset[i]:
                continue
            turns[i] = _BEGINS
        if after_append and turns[before] == 0:
            turns[before] = _GOES_ON
    for before in last:
        if before >= 0 and kind[before] == APPEND and turns[before] == 0:
            turns[before] = _GOES_ON


class SnapshotsFold:
    """Judges the snapshots of one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._words = setting.words
        self._compiled = setting.compiled
        self._applied = Tally(APPLIED, setting.keep)
        self._covered = Tally(COVERED, setting.keep)
        self._agree = Tally(AGREE, setting.keep)
        self._nodes: dict[int, _Applied] = {}
        self._kept: dict[int, _Event] = {}  # the first snapshot that ends at an offset
        self._own: dict[int, _Event] = {}  # the last snapshot of a node
        self._empty: dict[int, int] = {}  # the event by which a node, all of whose snapshots are recorded, began
        self._trims: dict[int, _Event] = {}  # the last trim of a node that no snapshot covers yet
        self._trimmed = 0  # trims that a snapshot covers
        self._uncovered: list[tuple[int, _Event, int, int]] = []  # shown by what, the trim, what is kept, what follows
        self._logs: dict[int, _Log] = {}
        self._keepers: dict[int, set[int]] = {}  # by offset: who kept a snapshot that ends there
        self._begun: set[int] = set()  # whose record begins with an empty log
        self._running: set[int] = set()
        self._shows_apply = self._changes = False  # what nodes apply, and changes of the configuration, are recorded
        self._unapplied: list[_Shown] = []  # snapshots of more than was applied, if that is recorded
        self._unlike: list[_Shown] = []  # and those with another configuration than is in force, likewise
        self._cut_off: set[int] = set()  # whose record may lack what they did last
        self._voters = {*setting.voters}
        self._size = max(setting.nodes, len(setting.voters))

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        turns = _turns(columns, self._compiled)
        wanted = turns > 0
        for row, turn in zip(columns.rows(wanted, *_Event._fields), turns[wanted].tolist(), strict=True):
            e = _Event(*row)
            if turn == _GOES_ON:
                self._logs[e.node].end = e.last_offset
            elif e.node != NO_NODE:
                self._writes(e)
            if e.kind in (APPLY, SNAPSHOT, TRIM):
                self._covers_trim(e)
            if e.kind == APPLY:
                self._applies(e)
            elif e.kind == SNAPSHOT:
                self._keeps(e)
            elif e.kind == TRIM:
                self._trims[e.node] = e
                if e.dirty < e.offset:
                    # Its log starts over behind a snapshot, which says from where on it applies.
                    self._nodes.pop(e.node, None)
                if e.node in self._own and self._own[e.node].offset >= e.offset - 1:
                    self._trimmed += 1
                    del self._trims[e.node]
            elif e.node != NO_NODE and e.kind not in (APPEND, TRUNCATE, GAP, CONFIGURATION):
                self._nodes.pop(e.node, None)
                self._trims.pop(e.node, None)
                if e.kind == START:
                    self._starts(e)
                elif e.kind != STOP:
                    # The end of its record may lack a snapshot.
                    self._empty.pop(e.node, None)

    def _writes(self, e: _Event) -> None:
        """Note what the log of a node holds."""
        log = self._logs.setdefault(e.node, _Log())
        if e.kind == APPEND:
            log.cut(e.offset)
            if (e.offset, e.entry_term) != (log.end + 1, log.term) or not log.runs:
                if log.runs:
                    log.runs[-1] = log.runs[-1]._replace(last=log.end)
                log.runs.append(_Run(e.offset, e.last_offset, e.entry_term, e.seq))
            log.end, log.term = e.last_offset, e.entry_term
        elif e.kind in (TRUNCATE, GAP):
            log.cut(e.offset)
            log.changes = [change for change in log.changes if change[0] < e.offset]
        elif e.kind == CONFIGURATION:
            self._changes = True
            log.changes = [change for change in log.changes if change[0] < e.offset]
            log.changes.append((e.offset, e.value, e.seq))
        elif e.kind == TRIM and e.dirty < e.offset:
            self._logs[e.node] = _Log()
        elif e.kind in _TURNS:
            self._logs[e.node] = _Log(whole=e.seq if e.kind == START and e.dirty == -1 else -1)
            self._lives(e)

    def _lives(self, e: _Event) -> None:
        """Note whose record is whole."""
        if e.kind == START:
            if e.node in self._running:
                self._cut_off.add(e.node)
            self._running.add(e.node)
            if e.dirty == -1:
                self._begun.add(e.node)
        else:
            self._running.discard(e.node)
            if e.kind != STOP:
                self._cut_off.add(e.node)

    def _state(self, e: _Event) -> _Applied:
        """What is known of the node in the life that the event is of."""
        node = self._nodes.get(e.node)
        if node is None or node.incarnation != e.incarnation:
            node = self._nodes[e.node] = _Applied(e.incarnation)
        return node

    def _starts(self, e: _Event) -> None:
        """A node begins behind its last snapshot: nowhere if its log is empty; and where all that the snapshot has is
        all that it knows to be committed, no later one lacks in the record."""
        own = self._own.get(e.node)
        if e.dirty == -1:
            self._own.pop(e.node, None)
            self._empty[e.node] = e.seq
            self._nodes[e.node] = _Applied(e.incarnation, -1, -1, e.seq)
        elif own is not None and own.offset == e.commit:
            self._nodes[e.node] = _Applied(e.incarnation, own.offset, own.seq, e.seq)

    def _applies(self, e: _Event) -> None:
        node = self._state(e)
        self._shows_apply = True
        self._applied.judged += 1
        if e.last_offset > e.commit:
            self._applied.violation(e.seq, way="uncommitted", node=e.node, last=e.last_offset, commit=e.commit)
        elif node.upto not in (NULL, e.offset - 1):
            said = {"node": e.node, "offset": e.offset, "applied": node.upto}
            way = "order" if node.started < 0 else "empty" if node.upto < 0 else "restart"
            self._applied.violation(node.seq, node.started, e.seq, way=way, **said)
        node.upto, node.seq, node.started = e.last_offset, e.seq, -1

    def _keeps(self, e: _Event) -> None:
        node = self._state(e)
        self._own[e.node] = e
        if e.reason == _TAKEN:
            applied = {} if node.started >= 0 else {"applied": node.upto}
            self._covers(e, "taken", {"committed": e.commit} | applied, node.seq)
        elif e.reason == _INSTALLED:
            offsets = {"appended": e.dirty, "flushed": e.flushed, "committed": e.commit, "visible": e.visible}
            self._covers(e, "installed", offsets, -1)
            if node.upto != NULL and node.started < 0:
                self._applied.judged += 1
                if node.upto >= e.offset:
                    said = {"node": e.node, "offset": e.offset, "applied": node.upto}
                    self._applied.violation(node.seq, e.seq, way="again", **said)
        if e.reason == _INSTALLED and node.upto < e.offset:
            node.upto, node.seq, node.started = e.offset, e.seq, -1
        if e.reason == _TAKEN:
            self._is_of_its_log(e)
        elif e.reason == _INSTALLED:
            self._was_kept(e)
        self._keepers.setdefault(e.offset, set()).add(e.node)
        first = self._kept.setdefault(e.offset, e)
        if first is e:
            return
        self._agree.judged += 1
        if (first.entry_term, first.value) != (e.entry_term, e.value):
            self._agree.violation(
                first.seq,
                e.seq,
                way="apart",
                node=e.node,
                offset=e.offset,
                term=e.entry_term,
                text=self._words.text(e.value),
                other=first.node,
                other_term=first.entry_term,
                other_text=self._words.text(first.value),
            )

    def _is_of_its_log(self, e: _Event) -> None:
        """A snapshot that a node takes has the term and the configuration that its log has there."""
        log = self._logs.get(e.node, _Log())
        run = log.at(e.offset)
        if run is not None:
            self._agree.judged += 1
            if run.term != e.entry_term:
                said = {"node": e.node, "offset": e.offset, "term": e.entry_term, "other_term": run.term}
                self._agree.violation(run.seq, e.seq, way="term", **said)
        changes = [change for change in log.changes if change[0] <= e.offset]
        text, first = self._words.text(e.value), ",".join(map(str, sorted(self._voters)))
        if changes:
            _, value, seq = changes[-1]
            same, other, shown = value == e.value, self._words.text(value), (seq, e.seq)
        elif log.whole >= 0 and self._voters:
            found = parsed(text)
            same = found is not None and not found.old and {*found.voters} == self._voters
            other, shown = first, (log.whole, e.seq)
        else:
            return
        if same:
            self._agree.judged += 1
        else:
            self._unlike.append((shown, {"node": e.node, "offset": e.offset, "text": text, "other_text": other}))

    def _was_kept(self, e: _Event) -> None:
        """A snapshot that a node installs was sent by one that kept it."""
        log = self._logs.setdefault(e.node, _Log())
        log.changes = [change for change in log.changes if change[0] > e.offset]
        log.changes.insert(0, (e.offset, e.value, e.seq))
        if self._keepers.get(e.offset, set()) - {e.node}:
            self._agree.judged += 1
        elif self._cut_off <= {e.node} and len(self._begun) >= self._size > 0:
            self._agree.judged += 1
            self._agree.violation(e.seq, way="kept", node=e.node, offset=e.offset)
        else:
            self._agree.unjudged += 1

    def _covers_trim(self, e: _Event) -> None:
        """What a log was trimmed of is in a snapshot that its node took before; or is sent one by, and keeps next."""
        trim = self._trims.pop(e.node, None)
        if trim is None:
            return
        installed = e.kind == SNAPSHOT and e.reason == _INSTALLED
        if installed and e.offset >= trim.offset - 1:
            self._trimmed += 1
        elif e.node in self._empty:
            own = self._own.get(e.node)
            shown, reached = (self._empty[e.node], NULL) if own is None else (own.seq, own.offset)
            self._uncovered.append((shown, trim, reached, e.seq))

    def _covers(self, e: _Event, way: str, offsets: dict[str, int], applied: int) -> None:
        """Judge a snapshot by what is known of its node's offsets; ``applied``: the event that told what it applied."""
        known = {what: reached for what, reached in offsets.items() if reached != NULL}
        if not known:
            self._covered.unjudged += 1
            return
        self._covered.judged += 1
        short = next(((what, reached) for what, reached in known.items() if reached < e.offset), None)
        if short is not None:
            what, reached = short
            if what == "applied":
                self._covered.judged -= 1
                said: dict[str, object] = {"node": e.node, "offset": e.offset, "reached": reached}
                self._unapplied.append(((applied, e.seq), said))
                return
            self._covered.violation(e.seq, way=way, node=e.node, offset=e.offset, reached=reached, what=what)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._applied, self._covered, self._agree))

    def finish(self) -> Verdicts:
        """The outcomes of the checks of what was applied, what snapshots cover, and whether these agree."""
        # Where nobody says what is applied, or that the configuration changed, it may have been so.
        if self._shows_apply:
            self._covered.judged += len(self._unapplied)
            for events, said in self._unapplied:
                self._covered.violation(*events, way="taken", what="applied", **said)
        else:
            self._covered.unjudged += len(self._unapplied)
        unsaid = None
        if self._changes:
            self._agree.judged += len(self._unlike)
            for events, said in self._unlike:
                self._agree.violation(*events, way="configuration", **said)
        elif self._unlike:
            self._agree.unjudged += len(self._unlike)
            unsaid = "snapshots have another configuration than before, but no change of it is recorded"
        if self._kept:
            self._covered.judged += self._trimmed + len(self._uncovered)
            for shown, trim, reached, then in self._uncovered:
                said = {"node": trim.node, "offset": trim.offset, "reached": reached}
                self._covered.violation(shown, trim.seq, then, way="without" if reached == NULL else "trimmed", **said)
        return Verdicts((self._applied.outcome(), self._covered.outcome(), self._agree.outcome(unsaid)))


FAMILY = Family(
    "snapshots",
    (APPLIED, COVERED, AGREE),
    frozenset(
        {
            *(Kind.APPLY, Kind.SNAPSHOT, Kind.TRIM, Kind.START, *END_KINDS),
            *(Kind.APPEND, Kind.TRUNCATE, Kind.GAP, Kind.CONFIGURATION),
        }
    ),
    (
        *("node", "incarnation", "offset", "last_offset", "entry_term"),
        *("dirty", "flushed", "commit", "visible", "reason", "value"),
    ),
    SnapshotsFold,
    RAFT,
)
