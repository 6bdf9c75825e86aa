"""What the state machines of nodes apply, and the snapshots that logs begin behind.

Both are rare beside entries: a node applies what was committed since it last did, and takes a snapshot before it trims.
They are judged one by one, with plain dictionaries. Sources: raft.md#apply, raft.md#snapshot, raft.md#snapshot-install.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from loghistory.schema import Kind
from loghistory.vocabularies.snapshots import SnapshotFrom

from ..codes import APPLY, CRASH, NO_NODE, NULL, POWER_LOSS, REASONS, SNAPSHOT, START, STOP, STORAGE_ERROR, TRIM, among
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .protocol import RAFT

APPLIED = Check(
    id="applied-once",
    rule="The state machine of a node applies what is committed, in order, each entry once.",
    source=("raft.md#apply", "raft.md#snapshot-install"),
    fact="entries that a node applies",
    sentence={
        "uncommitted": "Node {node} applied up to offset {last}; its commit index is {commit}.",
        "order": "Node {node} applied offset {offset} next, where all up to offset {applied} had been applied.",
        "empty": "Node {node} started with an empty log, and applied offset {offset} first.",
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
    rule="Snapshots that end at one offset have the same term and the same configuration.",
    source=("raft.md#snapshot", "raft.md#snapshot-configuration"),
    fact="a snapshot that ends at an offset at which another one ends",
    sentence="Node {node} keeps a snapshot of all up to offset {offset}, in term {term} with the configuration {text}; "
    "node {other} kept one in term {other_term} with the configuration {other_text}.",
    kinds=(Kind.SNAPSHOT,),
    columns=("node", "offset", "entry_term", "text"),
)

_TAKEN, _INSTALLED = REASONS[SnapshotFrom.TAKEN], REASONS[SnapshotFrom.INSTALLED]
_TELLING = (APPLY, SNAPSHOT, TRIM, START, STOP, CRASH, POWER_LOSS, STORAGE_ERROR)


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


class SnapshotsFold:
    """Judges the snapshots of one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._words = setting.words
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

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        for row in columns.rows(among(columns.kind, _TELLING), *_Event._fields):
            e = _Event(*row)
            if e.kind in (APPLY, SNAPSHOT):
                self._covers_trim(e)
            if e.kind == APPLY:
                self._applies(e)
            elif e.kind == SNAPSHOT:
                self._keeps(e)
            elif e.kind == TRIM:
                self._trims[e.node] = e
                if e.node in self._own and self._own[e.node].offset >= e.offset - 1:
                    self._trimmed += 1
                    del self._trims[e.node]
            elif e.node != NO_NODE:
                self._nodes.pop(e.node, None)
                self._trims.pop(e.node, None)
                if e.kind == START:
                    self._starts(e)
                elif e.kind != STOP:
                    # The end of its record may lack a snapshot.
                    self._empty.pop(e.node, None)

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
        if e.reason == _INSTALLED and node.upto < e.offset:
            node.upto, node.seq, node.started = e.offset, e.seq, -1
        first = self._kept.setdefault(e.offset, e)
        if first is e:
            return
        self._agree.judged += 1
        if (first.entry_term, first.value) != (e.entry_term, e.value):
            self._agree.violation(
                first.seq,
                e.seq,
                node=e.node,
                offset=e.offset,
                term=e.entry_term,
                text=self._words.text(e.value),
                other=first.node,
                other_term=first.entry_term,
                other_text=self._words.text(first.value),
            )

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
            shown = (applied, e.seq) if what == "applied" else (e.seq,)
            self._covered.violation(*shown, way=way, node=e.node, offset=e.offset, reached=reached, what=what)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._applied, self._covered, self._agree))

    def finish(self) -> Verdicts:
        """The outcomes of the checks of what was applied, what snapshots cover, and whether these agree."""
        if self._kept:
            self._covered.judged += self._trimmed + len(self._uncovered)
            for shown, trim, reached, then in self._uncovered:
                said = {"node": trim.node, "offset": trim.offset, "reached": reached}
                self._covered.violation(shown, trim.seq, then, way="without" if reached == NULL else "trimmed", **said)
        return Verdicts(tuple(each.outcome() for each in (self._applied, self._covered, self._agree)))


FAMILY = Family(
    "snapshots",
    (APPLIED, COVERED, AGREE),
    frozenset(
        {Kind.APPLY, Kind.SNAPSHOT, Kind.TRIM, Kind.START, Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR}
    ),
    (
        *("node", "incarnation", "offset", "last_offset", "entry_term"),
        *("dirty", "flushed", "commit", "visible", "reason", "value"),
    ),
    SnapshotsFold,
    RAFT,
)
