"""The four offsets of a node, by themselves: dirty, flushed, commit, visible, and its term.

Every internal event carries the node's state after it, so these rules need no log: commit index monotonic and within
flushed, flushed within dirty and never back without truncation, visible likewise, what was flushed (after a
crash: what was dirty) still there at the next start, term never back. Sources: rules/raft.md (Commit index,
Visibility, Flush, Truncation crash restart); raft-recovery.txt (dirty and committed offsets).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import STATE_KINDS, Kind

from . import codes
from .codes import (
    CARRIES_STATE,
    COMMIT,
    CRASH,
    F_FINAL_READ,
    FAULT,
    FAULT_WIPE,
    NULL,
    PHASE,
    POWER_LOSS,
    START,
    STOP,
    STORAGE_ERROR,
    TRUNCATE,
    VOTE,
)
from .columns import Columns, Ints
from .contract import Check, Family, Setting, Verdicts
from .findings import MAX_NODES, Findings, KernelFold, report
from .kernel import kernel, part

COMMIT_MONOTONIC = 0
COMMIT_WITHIN_FLUSHED = 1
FLUSHED_WITHIN_DIRTY = 2
FLUSHED_MONOTONIC = 3
FLUSHED_DURABLE = 4
DIRTY_SURVIVES_CRASH = 5
RESTART_IS_FLUSHED = 6
VISIBLE_WITHIN_DIRTY = 7
VISIBLE_MONOTONIC = 8
TERM_MONOTONIC = 9
CONVERGES = 10

CHECKS = (
    Check(
        "commit-monotonic",
        "A node's commit index never moves back between two starts of the node.",
        "rules/raft.md, Commit index",
        "an event of a node that states a commit index (not -1), after an earlier one of the same incarnation",
        (),
        ("commit",),
    ),
    Check(
        "commit-within-flushed",
        "No node's commit index is above what it has flushed itself.",
        "rules/raft.md, Commit index (leader: min with own flushed; follower: min(leader commit, own flushed))",
        "an event of a node that states its commit index and its flushed offset",
        (),
        ("commit", "flushed"),
    ),
    Check(
        "flushed-within-dirty",
        "A node's flushed offset is never above its dirty offset.",
        "raft-recovery.txt, dirty and committed offsets; rules/raft.md, Flush",
        "an event of a node that states both offsets",
        (),
        ("flushed", "dirty"),
    ),
    Check(
        "flushed-monotonic",
        "A node's flushed offset moves back only by truncation, and then no further than the truncation point.",
        "rules/raft.md, Flush (flushed = max(flushed, dirty captured at the start))",
        "an event of a node that states its flushed offset, after an earlier one of the same incarnation",
        (),
        ("flushed",),
    ),
    Check(
        "flushed-durable",
        "What a node had flushed is in its log when it starts again, whatever stopped it.",
        "rules/raft.md, Truncation, crash, restart (power loss keeps any prefix at or above flushed)",
        "a start of a node that had flushed something",
        (Kind.START,),
        ("flushed", "dirty"),
    ),
    Check(
        "dirty-survives-crash",
        "A process that dies without power loss keeps all it had appended: the page cache lives.",
        "rules/raft.md, Truncation, crash, restart (SIGKILL keeps the page cache)",
        "a start of a node after a crash or stop without power loss or storage error",
        (Kind.START,),
        ("dirty",),
    ),
    Check(
        "restart-is-flushed",
        "After a restart flushed = dirty = the recovered end.",
        "rules/raft.md, Truncation, crash, restart",
        "a start of a node",
        (Kind.START,),
        ("flushed", "dirty"),
    ),
    Check(
        "visible-within-dirty",
        "A node never shows readers more than it has appended.",
        "rules/raft.md, Visibility; scenario 5",
        "an event of a node that states its visible and its dirty offset",
        (),
        ("visible", "dirty"),
    ),
    Check(
        "visible-monotonic",
        "A node's visible offset moves back only by truncation, and then no further than the truncation point.",
        "rules/raft.md, Visibility (MRI and UB are maxima; truncation clamps)",
        "an event of a node that states its visible offset, after an earlier one of the same incarnation",
        (),
        ("visible",),
    ),
    Check(
        "term-monotonic",
        "A node's term never decreases, and a restart keeps at least the term of its last durable vote.",
        "rules/raft.md, Elections (term and voted_for are durable before the reply leaves)",
        "an event of a node that states its term, after an earlier one",
        (),
        ("term",),
    ),
    Check(
        "converges",
        "When all faults are healed and the run has come to its final read, every running voter ends with all of the "
        "log, and all of it committed.",
        "rules/raft.md, Scenarios (commits converge, logs equal) and Known faults (liveness: commit catches up)",
        "a voter that is running at the end of a run with a final_read phase, or when the first is stopped after it",
        (Kind.PHASE,),
        ("dirty", "commit"),
    ),
)

_SENTENCES = (
    "Node {node0} moved its commit index back from {n1} to {n2} without a restart.",
    "Node {node0} has commit index {n1} but has flushed only up to {n2}.",
    "Node {node0} claims flushed offset {n1} but its log ends at {n2}.",
    "Node {node0} moved its flushed offset back from {n1} to {n2} without a truncation that far.",
    "Node {node0} had flushed up to {n1}, but after its restart its log ends at {n2}.",
    "Node {node0} had appended up to {n1} and only its process died, but after its restart its log ends at {n2}.",
    "Node {node0} started with flushed offset {n1} although it recovered its log up to {n2}.",
    "Node {node0} shows readers everything up to {n1} but its log ends at {n2}.",
    "Node {node0} moved its visible offset back from {n1} to {n2} without a truncation that far.",
    "Node {node0} went back from term {n1} to term {n2}.",
    "Node {node0} ends with commit index {n1} and dirty offset {n2} although the log reaches to {n3}.",
)


class _State(NamedTuple):
    """By node index: what the last event stated (NULL: nothing yet) and which event it was."""

    term: Ints
    dirty: Ints
    flushed: Ints
    commit: Ints
    visible: Ints
    term_seq: Ints
    dirty_seq: Ints
    flushed_seq: Ints
    commit_seq: Ints
    visible_seq: Ints
    vote_term: Ints
    vote_seq: Ints
    down: Ints  # 0 running, 1 the process died, 2 the page cache may be gone, 3 the disk was emptied
    down_seq: Ints
    final: Ints  # how far the run is, and the number of voters


FINAL_READ, ENDED = 1, 2
"""How far a run is: it has come to its final read, and after that a node was stopped gracefully."""


@part
def _converged(state: _State, found: Findings) -> None:
    """Judge where the running voters ended up."""
    first = -1
    for node in range(state.final[1]):
        running = state.down[node] == 0 and state.dirty[node] != NULL
        if running and (first < 0 or state.dirty[node] > state.dirty[first]):
            first = node
    for node in range(state.final[1]):
        if first < 0 or state.down[node] != 0 or state.dirty[node] == NULL:
            continue
        found.judged[CONVERGES] += 1
        end, dirty, commit = state.dirty[first], state.dirty[node], state.commit[node]
        if commit < end or dirty < end:
            e0, e1 = state.dirty_seq[first], state.commit_seq[node]
            report(found, CONVERGES, e0, e1, -1, -1, node, commit, dirty, end, -1)


@kernel
def _close(state: _State, found: Findings) -> None:
    """What the end of the history says."""
    if state.final[0] == FINAL_READ:
        _converged(state, found)


@kernel
def _scan(columns: Columns, state: _State, found: Findings) -> None:
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        node = columns.node[i]
        if kind == PHASE and columns.f[i] == F_FINAL_READ:
            state.final[0] = max(state.final[0], FINAL_READ)
        if node < 0:
            continue
        seq = columns.seq[i]
        if not CARRIES_STATE[kind]:
            if kind == FAULT and columns.f[i] == FAULT_WIPE:
                state.down[node] = 3
                state.down_seq[node] = seq
                state.vote_term[node] = NULL
            elif kind in (CRASH, STOP):
                # Nodes are stopped one after the other; what those do that are left is no matter of the run any more.
                if kind == STOP and state.final[0] == FINAL_READ and state.down[node] == 0 and node < state.final[1]:
                    _converged(state, found)
                    state.final[0] = ENDED
                state.down[node] = max(state.down[node], 1)
                state.down_seq[node] = seq
            elif kind in (POWER_LOSS, STORAGE_ERROR):
                state.down[node] = max(state.down[node], 2)
                state.down_seq[node] = seq
            continue

        term = columns.term[i]
        dirty = columns.dirty[i]
        flushed = columns.flushed[i]
        commit = columns.commit[i]
        visible = columns.visible[i]

        if kind == START:
            down = state.down[node]
            if down != 3 and dirty != NULL:
                if state.flushed[node] >= 0:
                    found.judged[FLUSHED_DURABLE] += 1
                    if dirty < state.flushed[node]:
                        e0, e1 = state.flushed_seq[node], state.down_seq[node]
                        report(found, FLUSHED_DURABLE, e0, e1, seq, -1, node, state.flushed[node], dirty, -1, -1)
                if down == 1 and state.dirty[node] >= 0:
                    found.judged[DIRTY_SURVIVES_CRASH] += 1
                    if dirty < state.dirty[node]:
                        e0, e1 = state.dirty_seq[node], state.down_seq[node]
                        report(found, DIRTY_SURVIVES_CRASH, e0, e1, seq, -1, node, state.dirty[node], dirty, -1, -1)
            if dirty != NULL and flushed != NULL:
                found.judged[RESTART_IS_FLUSHED] += 1
                if flushed != dirty:
                    report(found, RESTART_IS_FLUSHED, seq, -1, -1, -1, node, flushed, dirty, -1, -1)
            if down != 3 and term != NULL and state.vote_term[node] != NULL:
                found.judged[TERM_MONOTONIC] += 1
                if term < state.vote_term[node]:
                    e0 = state.vote_seq[node]
                    report(found, TERM_MONOTONIC, e0, seq, -1, -1, node, state.vote_term[node], term, -1, -1)
            state.down[node] = 0
            state.down_seq[node] = -1
            state.term[node] = NULL
            state.dirty[node] = NULL
            state.flushed[node] = NULL
            state.commit[node] = NULL
            state.visible[node] = NULL

        if term != NULL:
            if state.term[node] != NULL:
                found.judged[TERM_MONOTONIC] += 1
                if term < state.term[node]:
                    e0 = state.term_seq[node]
                    report(found, TERM_MONOTONIC, e0, seq, -1, -1, node, state.term[node], term, -1, -1)
            if term != state.term[node]:
                state.term[node] = term
                state.term_seq[node] = seq
            if kind == VOTE:
                state.vote_term[node] = term
                state.vote_seq[node] = seq

        # How far a truncation lets flushed and visible fall.
        floor = columns.offset[i] - 1 if kind == TRUNCATE else codes.MAX_OFFSET

        if flushed != NULL:
            before = state.flushed[node]
            if before != NULL and max(before, flushed) >= 0:
                found.judged[FLUSHED_MONOTONIC] += 1
                if flushed < min(before, floor):
                    e0 = state.flushed_seq[node]
                    report(found, FLUSHED_MONOTONIC, e0, seq, -1, -1, node, before, flushed, -1, -1)
            if dirty != NULL and flushed >= 0:
                found.judged[FLUSHED_WITHIN_DIRTY] += 1
                if flushed > dirty and (flushed != before or dirty != state.dirty[node]):
                    report(found, FLUSHED_WITHIN_DIRTY, seq, -1, -1, -1, node, flushed, dirty, -1, -1)
            if flushed != before:
                state.flushed[node] = flushed
                state.flushed_seq[node] = seq

        if commit != NULL:
            before = state.commit[node]
            if before != NULL and max(before, commit) >= 0:
                found.judged[COMMIT_MONOTONIC] += 1
                if commit < before:
                    e0 = state.commit_seq[node]
                    report(found, COMMIT_MONOTONIC, e0, seq, -1, -1, node, before, commit, -1, -1)
            if flushed != NULL and commit >= 0:
                found.judged[COMMIT_WITHIN_FLUSHED] += 1
                if commit > flushed and (commit != before or kind == COMMIT):
                    report(found, COMMIT_WITHIN_FLUSHED, seq, -1, -1, -1, node, commit, flushed, -1, -1)
            if commit != before:
                state.commit[node] = commit
                state.commit_seq[node] = seq

        if visible != NULL:
            before = state.visible[node]
            if before != NULL and max(before, visible) >= 0:
                found.judged[VISIBLE_MONOTONIC] += 1
                if visible < min(before, floor):
                    e0 = state.visible_seq[node]
                    report(found, VISIBLE_MONOTONIC, e0, seq, -1, -1, node, before, visible, -1, -1)
            if dirty != NULL and visible >= 0:
                found.judged[VISIBLE_WITHIN_DIRTY] += 1
                if visible > dirty and (visible != before or dirty != state.dirty[node]):
                    report(found, VISIBLE_WITHIN_DIRTY, seq, -1, -1, -1, node, visible, dirty, -1, -1)
            if visible != before:
                state.visible[node] = visible
                state.visible_seq[node] = seq

        if dirty != NULL and dirty != state.dirty[node]:
            state.dirty[node] = dirty
            state.dirty_seq[node] = seq


class OffsetsFold(KernelFold):
    """Judges the offsets of every node of one log."""

    checks = CHECKS
    sentences = _SENTENCES

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        fields = {name: np.full(MAX_NODES, NULL, dtype=np.int64) for name in _State._fields}
        for name in _State._fields:
            if name.endswith("_seq"):
                fields[name][:] = -1
        fields["down"][:] = 0
        fields["final"] = np.array([0, min(len(setting.voters), MAX_NODES)], dtype=np.int64)
        self.state = _State(**fields)

    def run(self, columns: Columns) -> None:
        """Judge the events."""
        _scan.form(self.setting.compiled)(columns, self.state, self.found)

    def finish(self) -> Verdicts:
        """Judge where the nodes ended up, and answer."""
        _close.form(self.setting.compiled)(self.state, self.found)
        return super().finish()


FAMILY = Family(
    "offsets",
    CHECKS,
    STATE_KINDS | {Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR, Kind.FAULT, Kind.PHASE},
    ("node", "f", "term", "offset", "dirty", "flushed", "commit", "visible"),
    OffsetsFold,
    of_nodes=True,
)
