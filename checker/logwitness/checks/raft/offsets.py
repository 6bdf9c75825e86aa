"""The four offsets of a node, by themselves: dirty, flushed, commit, visible, and its term.

Every internal event carries the node's state after it, so these rules need no log: commit index monotonic and within
flushed, flushed within dirty and never back without truncation, visible likewise, term never back, only what is
committed trimmed. At the end, that all voters are back and have converged. Sources: raft.md#words,
raft.md#commit-index, raft.md#visibility, raft.md#flush, raft.md#truncation-crash-restart, raft.md#trim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, STATE_KINDS, Kind

from .. import codes
from ..codes import (
    APPEND,
    CARRIES_STATE,
    COMMIT,
    COMPACT,
    CRASH,
    F_FINAL_READ,
    F_HEAL,
    FAULT,
    FAULT_WIPE,
    HEAL,
    LEADER,
    NULL,
    PHASE,
    POWER_LOSS,
    START,
    STOP,
    STORAGE_ERROR,
    TRIM,
    TRUNCATE,
    VOTE,
)
from ..columns import Columns, Ints
from ..contract import Check, Family, Setting
from ..faults import WIPE, cause_of, fault_code
from ..findings import MAX_NODES, Findings, Node, excuse, number, report
from ..kernel import kernel, part, step
from .configurations import CHANGES, ConfiguredFold
from .protocol import RAFT
from .voters import UNKNOWN_VOTERS

CHECKS: list[Check] = []


class _Moved(NamedTuple):
    node: Node
    before: int
    after: int


class _Beyond(NamedTuple):
    node: Node
    offset: int
    end: int


class _GivenUp(NamedTuple):
    node: Node
    offset: int
    commit: int
    flushed: int
    visible: int
    before: int


class _Gone(NamedTuple):
    node: Node


class _Lagging(NamedTuple):
    node: Node
    commit: int
    dirty: int
    end: int


COMMIT_MONOTONIC = number(
    CHECKS,
    Check(
        id="commit-monotonic",
        rule="A node's commit index never moves back while the node is running.",
        source=("raft.md#leader-commit", "raft.md#follower-commit"),
        fact="an event of a node that states a commit index (not -1), after an earlier one of the same incarnation",
        sentence="Node {node} moved its commit index back from {before} to {after} without a restart.",
        fields=_Moved,
        columns=("commit",),
    ),
)
COMMIT_WITHIN_FLUSHED = number(
    CHECKS,
    Check(
        id="commit-within-flushed",
        rule="No node's commit index is above what the node itself has flushed.",
        source=("raft.md#leader-commit", "raft.md#follower-commit"),
        fact="an event of a node that states its commit index and its flushed offset",
        sentence="Node {node} has commit index {offset} but has flushed only up to {end}.",
        fields=_Beyond,
        columns=("commit", "flushed"),
        conclusive=True,
    ),
)
FLUSHED_WITHIN_DIRTY = number(
    CHECKS,
    Check(
        id="flushed-within-dirty",
        rule="A node's flushed offset is never above its dirty offset.",
        source=("raft.md#flushed", "documents.md#raft-recovery-committed-and-dirty"),
        fact="an event of a node that states both offsets",
        sentence="Node {node} claims flushed offset {offset} but its log ends at {end}.",
        fields=_Beyond,
        columns=("flushed", "dirty"),
        conclusive=True,
    ),
)
FLUSHED_MONOTONIC = number(
    CHECKS,
    Check(
        id="flushed-monotonic",
        rule="A node's flushed offset moves back only by truncation, and then no further than the truncation point.",
        source=("raft.md#finished-flush",),
        fact="an event of a node that states its flushed offset, after an earlier one of the same incarnation",
        sentence="Node {node} moved its flushed offset back from {before} to {after} without a truncation that far.",
        fields=_Moved,
        columns=("flushed",),
    ),
)
RESTART_IS_FLUSHED = number(
    CHECKS,
    Check(
        id="restart-is-flushed",
        rule="After a restart, the flushed offset and the dirty offset are both the end of the recovered log.",
        source=("raft.md#restart",),
        fact="a start of a node",
        sentence="Node {node} started with flushed offset {offset} although it had recovered its log up to {end}.",
        fields=_Beyond,
        kinds=(Kind.START,),
        columns=("flushed", "dirty"),
        conclusive=True,
    ),
)
VISIBLE_WITHIN_DIRTY = number(
    CHECKS,
    Check(
        id="visible-within-dirty",
        rule="A node never shows readers more than it has appended.",
        source=("raft.md#visible-offset", "raft.md#follower-visible"),
        fact="an event of a node that states its visible and its dirty offset",
        sentence="Node {node} shows readers everything up to {offset}, but its log ends at {end}.",
        fields=_Beyond,
        columns=("visible", "dirty"),
        conclusive=True,
    ),
)
VISIBLE_MONOTONIC = number(
    CHECKS,
    Check(
        id="visible-monotonic",
        rule="A node's visible offset moves back only by truncation, and then no further than the truncation point.",
        source=("raft.md#visible-offset", "raft.md#visible-may-be-truncated"),
        fact="an event of a node that states its visible offset, after an earlier one of the same incarnation",
        sentence="Node {node} moved its visible offset back from {before} to {after} without a truncation that far.",
        fields=_Moved,
        columns=("visible",),
    ),
)
TERM_MONOTONIC = number(
    CHECKS,
    Check(
        id="term-monotonic",
        rule="A node's term never decreases, and a restart keeps at least the term of the node's last durable vote, "
        "and that in which it last gave up entries for good.",
        source=("raft.md#vote-durable", "raft.md#summed-in-saved-term"),
        fact="an event of a node that states its term, after an earlier one of the same incarnation, or a vote, a trim "
        "or a compaction",
        sentence="Node {node} went back from term {before} to term {after}.",
        fields=_Moved,
        columns=("term",),
    ),
)
TRIM_WITHIN_COMMIT = number(
    CHECKS,
    Check(
        id="trim-within-commit",
        rule="A node gives up, by trimming or compaction, only what is committed, as far as it knows; after a trim its "
        "log, flushed offset and visible offset begin no earlier than that.",
        source=("raft.md#trim", "raft.md#log-begun-anew"),
        fact="a trim or a compaction",
        sentence="Node {node} gave up everything up to offset {offset}, but then has commit index {commit}, flushed "
        "offset {flushed} and visible offset {visible}; before that its commit index was {before}.",
        fields=_GivenUp,
        columns=("offset", "commit", "flushed"),
    ),
)
TRIM_MONOTONIC = number(
    CHECKS,
    Check(
        id="trim-monotonic",
        rule="The beginning of a node's log never moves back while the node is running.",
        source=("raft.md#trim", "raft.md#log-begun-anew"),
        fact="a trim of a node after another one of the same incarnation",
        sentence="Node {node} let its log begin at offset {after} after it had trimmed it to begin at {before}.",
        fields=_Moved,
        columns=("offset",),
    ),
)
CONVERGES = number(
    CHECKS,
    Check(
        id="converges",
        explained_by=frozenset({Kind.APPEND, Kind.CONFIGURATION}),
        rule="Once all faults are healed and the run has reached its final read, every running voter ends with the "
        "whole log, all of it committed.",
        source=("raft.md#converges", "raft.md#recovery-end", "raft.md#recovery-flush"),
        fact="a voter that is running at the end of a run with a final_read phase, or when the first voter is stopped "
        "after it",
        sentence="Node {node} ends with commit index {commit} and dirty offset {dirty}, but the log reaches offset "
        "{end}.",
        fields=_Lagging,
        kinds=(Kind.PHASE,),
        columns=("dirty", "commit"),
        waits=True,
    ),
)


VOTERS_RETURN = number(
    CHECKS,
    Check(
        id="voters-return",
        explained_by=frozenset({Kind.CONFIGURATION}),
        rule="Once all faults are healed and the run has reached its final read, every voter that a crash, a power "
        "loss or a failing disk had stopped runs again.",
        source=("raft.md#voters-return", "raft.md#restart"),
        fact="a voter that recorded something and had been stopped so, in a run with a heal phase, all faults ended, "
        "and a final_read phase",
        sentence="Node {node} was down when the final read began, although everything was healed, and it never came "
        "back.",
        fields=_Gone,
        kinds=(Kind.PHASE,),
        columns=("node",),
        waits=True,
    ),
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
    saved_term: Ints
    saved_seq: Ints
    begins: Ints  # where its last trim of this incarnation let its log begin
    begins_seq: Ints
    rose: Ints  # when its commit index rose last
    down: Ints  # 0 running, 1 the process died, 2 the page cache may be gone, 3 the disk was emptied
    down_seq: Ints
    fell: Ints  # whether it was stopped against its will
    goal: Ints  # what was committed when its disk was emptied
    run: Ints  # by the numbers below


_PHASE, _VOTERS, _OPEN_FAULTS, _HEAL_SEQ, _FINAL_SEQ, _STARTS, _GOES_ON, _COMMITS = range(8)
_EMPTY_SEQ, _WIPE_SEQ, _TOP, _HEAL_TIME, _FINAL_TIME, _STAY = range(8, 14)
"""What is known of the run: how far it is, voters, faults that have not ended, the events of two phases (-1: none);
whether there are starts, nodes that go on without one after they were down, commit events; the emptied disk by which
what was committed may be lost, and the last one (-1: none); what was committed; when the phases began; as a bit set,
who has been a voter in all configurations."""

CATCHES_UP = 8
"""The last part of the time between two phases in which who still commits more is only slow."""

FINAL_READ, ENDED = 1, 2
"""How far a run is: it has come to its final read, and after that a node was stopped gracefully."""


@part
def _catches_up(state: _State, node: int) -> bool:
    """Whether a voter that is behind still committed more shortly before the final read."""
    if state.run[_HEAL_SEQ] < 0 or state.rose[node] == NULL:
        return False
    settle, since = state.run[_FINAL_TIME] - state.run[_HEAL_TIME], state.run[_FINAL_TIME] - state.rose[node]
    return bool(CATCHES_UP * since < settle)


@part
def _converged(state: _State, found: Findings) -> None:
    """Judge where the voters ended up: those that run, and those that should."""
    first = -1
    healed = state.run[_HEAL_SEQ] >= 0 and state.run[_OPEN_FAULTS] <= 0
    for node in range(state.run[_VOTERS]):
        if not state.run[_STAY] >> node & 1:
            continue
        running = state.down[node] == 0 and state.dirty[node] != NULL
        if running and (first < 0 or state.dirty[node] > state.dirty[first]):
            first = node
        if healed and state.fell[node] and state.down[node] != 3:
            if state.dirty_seq[node] < 0:  # it records nothing: nobody knows whether it is back
                found.unjudged[VOTERS_RETURN] += 1
                continue
            found.judged[VOTERS_RETURN] += 1
            if state.down[node] != 0 and state.down_seq[node] < state.run[_FINAL_SEQ]:
                gone = state.down_seq[node]
                report(found, VOTERS_RETURN, _Gone(node), gone, state.run[_HEAL_SEQ], state.run[_FINAL_SEQ])
    for node in range(state.run[_VOTERS]):
        if first < 0 or state.down[node] != 0 or state.dirty[node] == NULL:
            continue
        if not state.run[_STAY] >> node & 1:
            found.unjudged[CONVERGES] += 1
            continue
        end, dirty, commit = state.dirty[first], state.dirty[node], state.commit[node]
        behind = commit < end or dirty < end
        if behind and state.run[_EMPTY_SEQ] < 0 and _catches_up(state, node):
            found.unjudged[CONVERGES] += 1
            continue
        found.judged[CONVERGES] += 1
        if behind:
            fields = _Lagging(node, commit=commit, dirty=dirty, end=end)
            if state.run[_EMPTY_SEQ] >= 0:
                excuse(found, CONVERGES, WIPE, -1, state.run[_EMPTY_SEQ], 1)
                continue
            last = max(state.commit_seq[node], state.dirty_seq[node])
            farther = state.dirty_seq[first] if dirty < end else -1
            report(found, CONVERGES, fields, farther, last, state.run[_FINAL_SEQ])


@kernel
def _close(state: _State, found: Findings) -> None:
    """What the end of the history says."""
    if state.run[_PHASE] == FINAL_READ:
        _converged(state, found)


@part
def _is_down(state: _State, node: int, how: int, seq: int) -> None:
    """A process ends, or fails to start; one that was down when the final read began has been down since before."""
    if state.down[node] == 0 or state.run[_PHASE] < FINAL_READ:
        state.down_seq[node] = seq
    state.down[node] = max(state.down[node], how)


@part
def _emptied(state: _State, seq: int) -> None:
    """A disk was emptied: are those that have not got back what was committed so many that they elect a leader?"""
    empty = 0
    for voter in range(state.run[_VOTERS]):
        empty += state.down[voter] == 3 or state.commit[voter] < state.goal[voter]
    if 2 * empty > state.run[_VOTERS] and state.run[_EMPTY_SEQ] < 0:
        state.run[_EMPTY_SEQ] = seq


@step
def _surroundings(
    state: _State, found: Findings, kind: int, node: int, f: int, reason: int, time: int, seq: int
) -> None:
    """Take an event that carries no state: the end of a process, a fault, a phase."""
    if kind == PHASE:
        if f == F_FINAL_READ and state.run[_PHASE] < FINAL_READ:
            state.run[_PHASE] = FINAL_READ
            state.run[_FINAL_SEQ] = seq
            state.run[_FINAL_TIME] = time
        elif f == F_HEAL:
            state.run[_HEAL_SEQ] = seq
            state.run[_HEAL_TIME] = time
    elif kind == FAULT and f == FAULT_WIPE:
        if node >= 0:
            state.goal[node] = -1
            for other in range(state.run[_VOTERS]):
                state.goal[node] = max(state.goal[node], state.commit[other])
            state.down[node] = 3
            state.down_seq[node] = seq
            _emptied(state, seq)
            if node < state.run[_VOTERS]:
                state.run[_WIPE_SEQ] = seq
            state.saved_term[node] = NULL
    elif kind in (FAULT, HEAL):
        state.run[_OPEN_FAULTS] += 1 if kind == FAULT else -1
    elif node >= 0 and kind in (CRASH, STOP):
        # Nodes are stopped one after the other; what those do that are left is no matter of the run any more.
        running = state.down[node] == 0
        if kind == STOP and state.run[_PHASE] == FINAL_READ and running and node < state.run[_VOTERS]:
            _converged(state, found)
            state.run[_PHASE] = ENDED
        if running:
            state.fell[node] = 1 if kind == CRASH else 0
        _is_down(state, node, 1, seq)
    elif node >= 0 and kind in (POWER_LOSS, STORAGE_ERROR):
        if kind == STORAGE_ERROR or state.down[node] == 0:
            state.fell[node] = 1
        # A full disk loses nothing, as a crash does.
        _is_down(state, node, 2 if cause_of(fault_code(kind, reason)) >= 0 else 1, seq)


@part
def _give_up(
    state: _State,
    found: Findings,
    node: int,
    upto: int,
    commit: int,
    flushed: int,
    visible: int,
    dirty: int,
    trims: bool,
    seq: int,
) -> None:
    """A node gives up what it has up to an offset, or some of it (a compaction); the rest is its state after that."""
    before = state.commit[node]
    # A log that is begun anew learns by that what is committed.
    anew = trims and dirty != NULL and dirty <= upto
    if commit != NULL:
        found.judged[TRIM_WITHIN_COMMIT] += 1
        late = not anew and before != NULL and before < upto
        short = commit < upto or (flushed != NULL and flushed < upto) or (trims and NULL < visible < upto)
        if short or late or (trims and NULL < dirty < upto):
            given = _GivenUp(node, offset=upto, commit=commit, flushed=flushed, visible=visible, before=before)
            report(found, TRIM_WITHIN_COMMIT, given, state.commit_seq[node], seq)
    if trims:
        if state.begins[node] != NULL:
            found.judged[TRIM_MONOTONIC] += 1
            if upto + 1 < state.begins[node]:
                back = _Moved(node, before=state.begins[node], after=upto + 1)
                report(found, TRIM_MONOTONIC, back, state.begins_seq[node], seq)
        state.begins[node] = upto + 1
        state.begins_seq[node] = seq


@kernel
def _scan(columns: Columns, state: _State, found: Findings) -> None:
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        node = columns.node[i]
        seq = columns.seq[i]
        if not CARRIES_STATE[kind]:
            _surroundings(state, found, kind, node, columns.f[i], columns.reason[i], columns.time[i], seq)
            continue
        if node < 0:
            continue
        term = columns.term[i]
        dirty = columns.dirty[i]
        flushed = columns.flushed[i]
        commit = columns.commit[i]
        visible = columns.visible[i]

        if kind == START:
            if dirty != NULL and flushed != NULL:
                found.judged[RESTART_IS_FLUSHED] += 1
                if flushed != dirty:
                    report(found, RESTART_IS_FLUSHED, _Beyond(node, offset=flushed, end=dirty), seq)
            if state.down[node] != 3 and term != NULL and state.saved_term[node] != NULL:
                found.judged[TERM_MONOTONIC] += 1
                if term < state.saved_term[node]:
                    back = _Moved(node, before=state.saved_term[node], after=term)
                    report(found, TERM_MONOTONIC, back, state.saved_seq[node], seq)
        if kind == START or state.down[node] != 0:
            # Who was down and goes on has started, also where that was not recorded.
            if state.down[node] != 3 and state.commit[node] >= state.goal[node]:
                state.goal[node] = NULL
            state.run[_STARTS if kind == START else _GOES_ON] = 1
            state.down[node] = 0
            state.down_seq[node] = -1
            state.begins[node] = NULL
            state.term[node] = NULL
            state.dirty[node] = NULL
            state.flushed[node] = NULL
            state.commit[node] = NULL
            state.visible[node] = NULL
        if kind == COMMIT:
            state.run[_COMMITS] = 1
        if kind == LEADER and dirty < state.run[_TOP] and node < state.run[_VOTERS] and state.run[_EMPTY_SEQ] < 0:
            # Who was elected without what is committed may be so for a disk that was emptied.
            state.run[_EMPTY_SEQ] = state.run[_WIPE_SEQ]

        if term != NULL:
            if state.term[node] != NULL:
                found.judged[TERM_MONOTONIC] += 1
                if term < state.term[node]:
                    back = _Moved(node, before=state.term[node], after=term)
                    report(found, TERM_MONOTONIC, back, state.term_seq[node], seq)
            if term != state.term[node]:
                state.term[node] = term
                state.term_seq[node] = seq
            if kind in (VOTE, TRIM, COMPACT):  # for which the term was saved
                state.saved_term[node] = term
                state.saved_seq[node] = seq

        if kind in (TRIM, COMPACT):
            upto = columns.offset[i] - 1 if kind == TRIM else columns.last_offset[i]
            _give_up(state, found, node, upto, commit, flushed, visible, dirty, kind == TRIM, seq)

        # How far flushed and visible may fall: by a truncation, also one that is not recorded, or when the whole log is
        # given up to begin anew.
        cuts = kind == TRUNCATE or (kind == APPEND and columns.offset[i] <= state.dirty[node])
        cuts = cuts or (kind == TRIM and dirty != NULL and dirty < columns.offset[i])
        floor = columns.offset[i] - 1 if cuts else codes.MAX_OFFSET

        flushed_before = state.flushed[node]
        if flushed != NULL:
            before = flushed_before
            if before != NULL and max(before, flushed) >= 0:
                found.judged[FLUSHED_MONOTONIC] += 1
                if flushed < min(before, floor):
                    back = _Moved(node, before=before, after=flushed)
                    report(found, FLUSHED_MONOTONIC, back, state.flushed_seq[node], seq)
            if dirty != NULL and flushed >= 0:
                found.judged[FLUSHED_WITHIN_DIRTY] += 1
                if flushed > dirty and (flushed != before or dirty != state.dirty[node]):
                    report(found, FLUSHED_WITHIN_DIRTY, _Beyond(node, offset=flushed, end=dirty), seq)
            if flushed != before:
                state.flushed[node] = flushed
                state.flushed_seq[node] = seq

        if commit != NULL:
            before = state.commit[node]
            if before != NULL and max(before, commit) >= 0:
                found.judged[COMMIT_MONOTONIC] += 1
                if commit < before:
                    back = _Moved(node, before=before, after=commit)
                    report(found, COMMIT_MONOTONIC, back, state.commit_seq[node], seq)
            if flushed != NULL and commit >= 0:
                found.judged[COMMIT_WITHIN_FLUSHED] += 1
                if commit > flushed and (commit != before or flushed != flushed_before):
                    report(found, COMMIT_WITHIN_FLUSHED, _Beyond(node, offset=commit, end=flushed), seq)
            if commit != before:
                if before != NULL and commit > before:
                    state.rose[node] = columns.time[i]
                if node < state.run[_VOTERS]:
                    state.run[_TOP] = max(state.run[_TOP], commit)
                state.commit[node] = commit
                state.commit_seq[node] = seq

        if visible != NULL:
            before = state.visible[node]
            if before != NULL and max(before, visible) >= 0:
                found.judged[VISIBLE_MONOTONIC] += 1
                if visible < min(before, floor):
                    back = _Moved(node, before=before, after=visible)
                    report(found, VISIBLE_MONOTONIC, back, state.visible_seq[node], seq)
            if dirty != NULL and visible >= 0:
                found.judged[VISIBLE_WITHIN_DIRTY] += 1
                if visible > dirty and (visible != before or dirty != state.dirty[node]):
                    report(found, VISIBLE_WITHIN_DIRTY, _Beyond(node, offset=visible, end=dirty), seq)
            if visible != before:
                state.visible[node] = visible
                state.visible_seq[node] = seq

        if dirty != NULL and dirty != state.dirty[node]:
            state.dirty[node] = dirty
            state.dirty_seq[node] = seq


class OffsetsFold(ConfiguredFold):
    """Judges the offsets of every node of one log."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        fields = {name: np.full(MAX_NODES, NULL, dtype=np.int64) for name in _State._fields}
        for name in _State._fields:
            if name.endswith("_seq"):
                fields[name][:] = -1
        fields["down"][:] = fields["fell"][:] = 0
        voters = min(len(setting.voters), MAX_NODES)
        everyone = (1 << voters) - 1
        fields["run"] = np.array([0, voters, 0, -1, -1, 0, 0, 0, -1, -1, -1, 0, 0, everyone], dtype=np.int64)
        self.state = _State(**fields)

    def configured(self, node: int, halves: Sequence[int] | None) -> None:
        """See `ConfiguredFold`."""
        if halves is not None:
            self.state.run[_STAY] &= halves[0] | halves[1]

    def run(self, columns: Columns) -> None:
        """Judge the events, each against what its node stated before; nodes are indices."""
        _scan.form(self.setting.compiled)(columns, self.state, self.found)

    def void(self) -> dict[int, str]:
        """Where nobody recorded when commit indexes moved, nobody knows where they ended."""
        if self.state.run[_COMMITS] or not self.found.violated[CONVERGES]:
            return {}
        return {CONVERGES: "where commit indexes end is not known: no commit event is recorded"}

    def lacking(self) -> dict[int, str]:
        """Starts that were not recorded; and who has to be there at the end, where nobody knows who votes."""
        found: dict[int, str] = {}
        if self.state.run[_PHASE] and not self.setting.voters:
            found |= dict.fromkeys((CONVERGES, VOTERS_RETURN), UNKNOWN_VOTERS)
        elif self.state.run[_PHASE] and not self.state.run[_STAY]:
            found |= dict.fromkeys((CONVERGES, VOTERS_RETURN), CHANGES)
        if self.state.run[_GOES_ON] and not self.state.run[_STARTS]:
            reason = "nodes go on after they were down, but no start is recorded"
            found[RESTART_IS_FLUSHED] = reason
        return found

    def end(self) -> None:
        """Judge where the nodes ended up."""
        _close.form(self.setting.compiled)(self.state, self.found)


FAMILY = Family(
    "offsets",
    tuple(CHECKS),
    STATE_KINDS | END_KINDS | {Kind.FAULT, Kind.HEAL, Kind.PHASE},
    ("time", "node", "f", "term", "offset", "last_offset", "dirty", "flushed", "commit", "visible", "value", "reason"),
    OffsetsFold,
    RAFT,
)
