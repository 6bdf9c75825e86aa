"""A planned transfer of leadership loses nothing that the leader had acknowledged, at any acks level.

What a leader acknowledged in its term T is held by the next leader if that one's log ends in an entry of T, no earlier
than what was acknowledged (raft.md#log-matching). It has to, unless a node lost that with its power or disk: it has not
started since, or with a log that ends before. Nor does a leader that has told the
target write any more, since nobody waits for that. Only a leader hands on, to another voter, at the end of its log.

Sources: raft.md#transfer-promise, raft.md#timeout-now, raft.md#transfer-refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import (
    ACKED,
    APPEND,
    CONFIGURATION,
    FAULT,
    FAULT_FSYNC,
    FAULT_POWER,
    FAULT_STORAGE,
    FAULT_WIPE,
    LEADER,
    NO_NODE,
    NULL,
    POWER_LOSS,
    ROLE,
    ROLE_LEADER,
    ROLES,
    START,
    STOP,
    STORAGE_ERROR,
    SUCCESS,
    TRANSFER,
    TRIM,
    TRUNCATE,
    lookup,
)
from ..columns import Array, Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..faults import cause_of, fault_code
from ..kernel import kernel, part
from .configurations import configuration_of
from .protocol import RAFT

CHECK = Check(
    id="transfer-loses-nothing",
    explained_by=frozenset({Kind.CONFIGURATION}),
    rule="A transfer of leadership loses nothing that the leader had acknowledged, whatever its acks level.",
    source=("raft.md#transfer-promise", "raft.md#timeout-now", "raft.md#transfer-refused", "raft.md#transfer-drain"),
    fact="a leader that leaves, or had to refuse; and the leader elected after it, where nobody can have lost that",
    sentence={
        "lost": "Node {leader} acknowledged offset {acked} in term {term} and handed its leadership on; the next "
        "leader, node {node} in term {next}, begins with a log that ends at offset {end} in term {end_term}.",
        "wrote": "Node {leader} handed its leadership on in term {term} but wrote offset {offset} in that term "
        "afterwards.",
        "refused": "Node {leader} handed a leadership on in term {term} without leading, to a node that is not another "
        "voter, or not at the end of its log, offset {dirty}.",
    },
    kinds=(Kind.LEADER, Kind.TRANSFER),
    columns=("node", "term"),
)

_MANY = frozenset({Kind.APPEND, Kind.ACKED})
_FEW = frozenset(
    {
        Kind.LEADER,
        Kind.TRANSFER,
        Kind.TERM,
        Kind.ROLE,
        Kind.TRUNCATE,
        Kind.TRIM,
        Kind.START,
        *END_KINDS,
        Kind.FAULT,
        Kind.CONFIGURATION,
    }
)
_IS_FEW = lookup(_FEW)
_MOST_NODES = 1 << 10
"""Up to here a number of a node is its place."""
_NOT_LEADING = frozenset(ROLES.values()) - {ROLE_LEADER}
_TAKES_COPIES = (FAULT_WIPE, FAULT_POWER, FAULT_STORAGE, FAULT_FSYNC)


@dataclass(slots=True)
class _Office:
    """A leader's term: from which event on, what it acknowledged at most, and whether it has handed it on."""

    term: int
    began: int
    acked: int = -1
    acked_by: int = -1
    handed_on: int = -1
    wrote: bool = False


class TransferFold:
    """Judges the leaders of one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(CHECK, setting.keep)
        self._voters = {*setting.voters}  # of all configurations so far
        self._words = setting.words
        self._compiled = setting.compiled
        # By node, where they are known: offset and term of its last entry, the event.
        self._ends: dict[int, tuple[int, int, int]] = {}
        self._offices: dict[int, _Office] = {}
        self._left: dict[int, _Office] = {}  # handed on, and nobody elected yet
        self._stopped: set[int] = set()  # of their own accord: their records are whole
        self._unnamed = -1  # when somebody, nobody knows who, lost power last, or something like it
        self._down: dict[int, int] = {}  # by node: when it did so, and it has not started since
        self._fell: set[tuple[int, int]] = set()  # by node and kind: who fell so, and has not started since
        self._fell_again: set[int] = set()  # who did twice: it started in between, with nobody knows what
        self._lost: list[tuple[int, int]] = []  # and when others had, with the last offset that they started with

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        rows = columns.where(_telling(columns, self._compiled)).lists()
        for at, kind in enumerate(rows.kind):
            if kind == APPEND:
                self._appended(rows, at)
            elif kind == ACKED:
                self._acked(rows, at)
            else:
                self._happened(rows, at, kind, rows.node[at])

    def _appended(self, rows: Columns, at: int) -> None:
        node, term = rows.node[at], rows.entry_term[at]
        self._ends[node] = rows.last_offset[at], term, rows.seq[at]
        office = self._offices.get(node)
        if office is not None and office.handed_on >= 0 and office.term == term and not office.wrote:
            office.wrote = True
            offset, seq = rows.offset[at], rows.seq[at]
            self._tally.violation(office.handed_on, seq, way="wrote", leader=node, term=term, offset=offset)

    def _acked(self, rows: Columns, at: int) -> None:
        office = self._offices.get(rows.node[at])
        if office is not None and office.term == rows.entry_term[at] and rows.last_offset[at] > office.acked:
            office.acked, office.acked_by = rows.last_offset[at], rows.seq[at]

    def _happened(self, rows: Columns, at: int, kind: int, node: int) -> None:
        ends_badly = kind in (POWER_LOSS, STORAGE_ERROR) and cause_of(fault_code(kind, rows.reason[at])) >= 0
        if ends_badly or (kind == FAULT and rows.f[at] in _TAKES_COPIES):
            if node == NO_NODE:
                self._unnamed = rows.seq[at]
            else:
                self._falls(node, kind, rows.seq[at])
        elif kind in (TRUNCATE, TRIM, START):
            self._cut(rows, at, node)
        if kind == STOP:
            self._stopped.add(node)
        if kind == CONFIGURATION:
            found = configuration_of(self._words, rows.value[at])
            self._voters.update(*found.halves if found is not None and self._voters else ())
        elif kind == LEADER:
            self._elected(rows, at, node)
        elif kind == TRANSFER:
            self._handed_on(rows, at, node)
        elif kind not in (TRUNCATE, TRIM, FAULT) and not (kind == ROLE and rows.role[at] == ROLE_LEADER):
            self._offices.pop(node, None)

    def _falls(self, node: int, kind: int, seq: int) -> None:
        """A node loses its power, or something like it."""
        self._down[node] = seq
        if (node, kind) in self._fell:
            self._fell_again.add(node)
        self._fell.add((node, kind))

    def _handed_on(self, rows: Columns, at: int, node: int) -> None:
        office, refused = self._offices.get(node), self._had_to_be_refused(rows, at, node)
        self._tally.judged += refused or office is not None
        if refused:
            term, dirty = rows.term[at], rows.dirty[at]
            self._tally.violation(rows.seq[at], way="refused", leader=node, term=term, dirty=dirty)
        if office is not None:
            office.handed_on = rows.seq[at]
            self._left[node] = office

    def _had_to_be_refused(self, rows: Columns, at: int, node: int) -> bool:
        """What a transfer says of itself; what it leaves out is not held against it."""
        peer, role, offset, dirty = rows.peer[at], rows.role[at], rows.offset[at], rows.dirty[at]
        stranger = peer != NO_NODE and (peer == node or (len(self._voters) > 0 and peer not in self._voters))
        moved = NULL not in (offset, dirty) and offset != dirty
        return stranger or moved or role in _NOT_LEADING

    def _cut(self, rows: Columns, at: int, node: int) -> None:
        """The end of a log moved back: what is the last entry now is not known until one is appended.

        Nor is it after a start, unless a stop was before it: the record may lack what was written last, also in place
        of something else.
        """
        dirty, seq = rows.dirty[at], rows.seq[at]
        end = self._ends.get(node, (dirty,))[0]
        starts = rows.kind[at] == START
        if dirty != end or (starts and node not in self._stopped):
            self._ends.pop(node, None)
        if starts:
            self._stopped.discard(node)
            lost, again = self._down.pop(node, -1), node in self._fell_again
            if lost >= 0 or dirty != end:
                self._lost.append((seq if dirty != end else lost, -1 if again else dirty))
            self._fell = {each for each in self._fell if each[0] != node}
            self._fell_again.discard(node)

    def _elected(self, rows: Columns, at: int, node: int) -> None:
        term, seq = rows.term[at], rows.seq[at]
        for leader, office in list(self._left.items()):
            if office.term >= term:
                continue
            del self._left[leader]
            if office.acked < 0:
                continue
            end, end_term, appended = self._ends.get(node, (-1, term, -1))
            if self._may_be_lost(office) or end_term > office.term:
                self._tally.unjudged += 1
                continue
            self._tally.judged += 1
            if end < office.acked or end_term < office.term:
                self._tally.violation(
                    office.acked_by,
                    office.handed_on,
                    appended,
                    seq,
                    way="lost",
                    leader=leader,
                    acked=office.acked,
                    term=office.term,
                    node=node,
                    next=term,
                    end=end,
                    end_term=end_term,
                )
        self._offices[node] = _Office(term, seq)
        since = min(each.began for each in (*self._offices.values(), *self._left.values()))
        self._lost = [(lost, end) for lost, end in self._lost if lost > since]

    def _may_be_lost(self, office: _Office) -> bool:
        """Whether somebody may have lost what a leader acknowledged, since it was elected."""
        lost = (self._unnamed, *self._down.values(), *(lost for lost, end in self._lost if end < office.acked))
        return max(lost) > office.began

    def violated(self) -> frozenset[str]:
        """The check, if it is violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome of the one check that judges transfers."""
        return Verdicts((self._tally.outcome(),))


def _telling(columns: Columns, compiled: bool) -> Array:
    """The places of rare events, and between two of them each node's last append and furthest acknowledgement.

    Only these move what is known of a leader or of the end of a log; the rest is passed over.
    """
    if compiled and columns.node.max(initial=0) < _MOST_NODES:
        tells, places = np.zeros(len(columns.kind), np.bool_), np.full((3, _MOST_NODES), -1)
        names = (columns.kind, columns.node, columns.entry_term, columns.last_offset, columns.reason)
        _find_telling.compiled(*names, places, tells)
        return np.flatnonzero(tells)
    few = _IS_FEW[columns.kind]
    stretch = np.cumsum(few)
    appended = np.flatnonzero(columns.kind == APPEND)
    acked = np.flatnonzero((columns.kind == ACKED) & (columns.reason == SUCCESS))
    groups = _groups(columns, stretch, acked)
    reached = columns.last_offset[acked]
    furthest = np.full(len(acked), -1)
    np.maximum.at(furthest, groups, reached)
    at_front = reached == furthest[groups]
    last_appends = _last_of_each(_groups(columns, stretch, appended), appended)
    return np.sort(
        np.concatenate([np.flatnonzero(few), last_appends, _last_of_each(groups[at_front], acked[at_front])])
    )


@kernel
def _find_telling(
    kind: Array, node: Array, term: Array, last_offset: Array, reason: Array, places: Array, tells: Array
) -> None:
    """The same in one pass; ``places``: room for what was last in the stretch, of each node and term."""
    appends, acks, seen, append_term, ack_term, most = places[0], places[1], 0, NULL, NULL, 0
    for i in range(len(kind)):
        rare, append = _IS_FEW[kind[i]], kind[i] == APPEND
        ack = kind[i] == ACKED and reason[i] == SUCCESS
        tells[i] = rare
        if (rare or (append and term[i] != append_term)) and seen & 1:
            _settle(appends, most, tells)
            seen &= 2
        if (rare or (ack and term[i] != ack_term)) and seen & 2:
            _settle(acks, most, tells)
            seen &= 1
        if append and node[i] >= 0:
            appends[node[i]], append_term, seen, most = i, term[i], seen | 1, max(most, node[i])
        elif ack and node[i] >= 0:
            before = acks[node[i]]
            if before < 0 or last_offset[i] >= last_offset[before]:
                acks[node[i]] = i
            ack_term, seen, most = term[i], seen | 2, max(most, node[i])
    _settle(appends, most, tells)
    _settle(acks, most, tells)


@part
def _settle(places: Array, most: int, tells: Array) -> None:
    """What is last now stays so."""
    for node in range(most + 1):
        if places[node] >= 0:
            tells[places[node]] = True
            places[node] = -1


def _groups(columns: Columns, stretch: Array, places: Array) -> Array:
    """A number below their count for events of one node about entries of one term in one stretch."""
    if not len(places):
        return np.zeros(0, dtype=np.int64)
    node, term = columns.node[places], columns.entry_term[places]
    stretch = stretch[places] + np.append(0, np.cumsum(np.diff(term) != 0))
    pairs = (stretch - stretch[0]).astype(np.int64) * (int(node.max()) + 1) + node
    return pairs if int(pairs.max()) < len(pairs) else np.unique(pairs, return_inverse=True)[1]


def _last_of_each(groups: Array, places: Array) -> Array:
    last = np.full(int(groups.max()) + 1 if len(groups) else 0, -1)
    last[groups] = places  # of several places the last one stays
    return last[last >= 0]


FAMILY = Family(
    "transfer",
    (CHECK,),
    _FEW | _MANY,
    ("node", "term", "role", "peer", "offset", "last_offset", "entry_term", "dirty", "reason", "f", "value"),
    TransferFold,
    RAFT,
)
