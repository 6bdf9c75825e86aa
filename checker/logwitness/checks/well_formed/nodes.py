"""The events of nodes: their lives, their clocks, and a state that moves only as they tell.

Every event of a node carries its state after it, so each is compared with the one before. Kept is the last state of
each node, where the term changes at the end of its log, and how far the leaders of the last terms had written.
Source: history-checks.md#well-formed-histories.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, STATE_KINDS, Kind

from ..codes import (
    APPEND,
    CARRIES_STATE,
    COMMIT,
    COMPACT,
    CONFIGURATION,
    ENDS,
    ENQUEUE,
    FAULT,
    FAULT_POWER,
    FAULT_WIPE,
    FLUSH,
    HAND_OVER,
    LEADER,
    NO_NODE,
    NULL,
    OTHER,
    RECEIVE,
    ROLE,
    ROLE_LEADER,
    SEND,
    START,
    STOP,
    STORAGE_ERROR,
    TERM,
    TRIM,
    TRUNCATE,
    VISIBLE,
    VOTE,
    among,
    codes,
    how_many,
)
from ..columns import Array, Columns, Ints
from ..contract import Family, Setting, Verdicts
from ..faults import COMPACTION, WIPE
from ..findings import MAX_NODES, Findings, KernelFold, excuse, report
from ..hashing import grown
from ..kernel import kernel, part, step
from ..raft.protocol import RAFT
from .messages import Messages, Stamped
from .rules import (
    CHECKS,
    CLOCK,
    CUT,
    DIRTY,
    DOWN,
    EARLY,
    ENDED,
    FLUSHED,
    GREW,
    HOLE,
    INCARNATION,
    MOVES,
    OLD_TERM,
    STARTED,
    STOOD,
    TAIL,
    WIPED,
    Acts,
    Counted,
    Early,
    Ends,
    Moved,
    Old,
    Said,
    Stood,
)

_UNSEEN, _RUNS, _DOWN, _OWES, _EMPTIED = range(5)
"""The life of a node. One that owes runs, but others have entries that it, their leader, is not seen to have written:
its next event shows that it has not, its end that its record may lack them. One whose disk was emptied while it ran
has not ended as far as is recorded."""
_STOPPED, _CRASHED, _FAILED = 1, 2, 4
"""How a life ended; several may be recorded."""

QUIET = 12
"""Events of the others after which a node that runs, and records nothing to the end, may not be recorded any more."""

LATE = 250_000_000
"""Nanoseconds after which a node whose power was cut is off, whoever's clock told the one and the other."""

_TERMS = 64
"""Changes of term that are remembered, of each log and of the leaders."""


class _Nodes(NamedTuple):
    """By node: its life, and its state after its last event."""

    life: Ints
    votes: Ints  # 1: it is a voter
    end: Ints  # how its last life ended; 0: it is not recorded
    end_seq: Ints
    wiped: Ints  # 1: its disk was emptied since its last start
    emptied: Ints  # when that was, unless it has done something since
    cut: Ints  # the event by which its power was cut while it ran, unless its life has ended since
    cut_time: Ints
    incarnation: Ints
    incarnation_seq: Ints
    time: Ints
    logical: Ints
    time_seq: Ints
    counted: Ints  # 1: it has stated its counter
    term: Ints
    dirty: Ints
    flushed: Ints
    commit: Ints
    visible: Ints
    low: Ints  # where its log ended since it came to its term, at least
    high: Ints  # and at most
    came: Ints  # the event by which it did
    seq: Ints  # of its last event that carries its state
    role: Ints  # as it last stated it
    reported: Ints  # how many such events of all nodes there were by then
    row: Ints  # of the term of its last append, in `_Leaders`
    early: Ints  # the first event before its first start
    held: Ints  # 1: its log was not empty before that
    idle: Ints  # the first event while it was down, in a log that had shown no start by then
    restarted: Ints  # the first start whose life before had no end
    restarted_seq: Ints  # and the last event of that life
    gone: Ints  # up to here it had written what a start did not find, and has written nothing since
    owes: Ints  # how many batches it owes; of the first: who has it, how far it reaches, its term, the events
    owes_to: Ints
    owes_last: Ints
    owes_term: Ints
    owes_seq: Ints
    owes_shown: Ints  # the leader's last append by then, and how far that reached
    owes_high: Ints


class _Runs(NamedTuple):
    """By node: where the term changes in its log, the last few times."""

    start: Ints
    term: Ints
    seq: Ints
    used: Ints


class _Leaders(NamedTuple):
    """The last terms in which something was written or a leader elected, in a ring."""

    term: Ints
    node: Ints  # its leader; -1: not known
    seq: Ints  # what showed that, or the leader's last append
    lost: Ints  # 1: the end of what its leader recorded may be lost
    low: Ints  # what the leader wrote of it is recorded from here on; NULL: from the first entry on
    high: Ints
    early: Ints  # the first append by anyone before there was a leader
    early_node: Ints
    early_high: Ints
    used: Ints


class _Log(NamedTuple):
    """What concerns the log as a whole, each an array of one number, but for ``low``, ``high`` and ``unsaid``."""

    starts: Ints
    ends: Ints
    wiped: Ints
    nameless: Ints  # the last wipe that names no node, while no node has started with an empty disk since; -1: none
    ranges: Ints  # how many ranges of offsets were compacted, by anybody
    low: Ints  # of each, by which they are ordered; they do not touch
    high: Ints
    begun: Ints  # the first event by which all that was written is recorded; -1: none
    fresh: Ints  # how many more voters have to start with nothing for that
    untold: Ints  # up to here a node holds entries that nobody is shown to have written
    reported: Ints  # events that carry the state of a node
    moves: Ints  # bits: moves are recorded: 1 of commit, 2 of visible, 4 of the term, 8 of the role
    unsaid: Ints  # by move: how often one was not recorded; of the first time the node, the events and what it states


@part
def _forget(nodes: _Nodes, node: int) -> None:
    """Nothing is known of the state of a node any more."""
    nodes.dirty[node] = NULL
    nodes.flushed[node] = NULL
    nodes.commit[node] = NULL
    nodes.visible[node] = NULL
    nodes.low[node] = NULL
    nodes.term[node] = NULL
    nodes.role[node] = OTHER


@part
def _settle(nodes: _Nodes, found: Findings, node: int, ended: int) -> None:
    """What ``node`` owes: it has not written it, or, if it ended before its next event, that may not be recorded."""
    check = EARLY if ended < 0 else TAIL
    found.judged[check] += nodes.owes[node]
    found.violated[check] += nodes.owes[node] - 1
    high, last, shown, seq = nodes.owes_high[node], nodes.owes_last[node], nodes.owes_shown[node], nodes.owes_seq[node]
    if ended < 0:
        early = Early(nodes.owes_to[node], leader=node, offset=last, term=nodes.owes_term[node])
        report(found, EARLY, early, shown, seq)
    else:
        report(found, TAIL, Ends(node, end=high, found=last), shown, ended, seq)
    nodes.owes[node] = 0
    nodes.life[node] = _RUNS


@part
def _lose(nodes: _Nodes, leaders: _Leaders, found: Findings, node: int, seq: int) -> None:
    """A life of ``node`` ended by event ``seq``, not of its own accord: the end of its record may be lost."""
    if nodes.life[node] == _OWES:
        _settle(nodes, found, node, seq)
    for row in range(_TERMS):
        if leaders.node[row] == node and (nodes.term[node] == NULL or leaders.term[row] >= nodes.term[node]):
            leaders.lost[row] = 1


@part
def _cut(nodes: _Nodes, node: int, seq: int, time: int) -> None:
    """The power of a node is cut."""
    if nodes.cut[node] < 0 and nodes.life[node] not in (_UNSEEN, _DOWN):
        nodes.cut[node], nodes.cut_time[node] = seq, time


@part
def _after_cut(nodes: _Nodes, log: _Log, found: Findings, columns: Columns, node: int, i: int) -> None:
    """A node whose power was cut did something that shows that it is on."""
    if columns.time[i] - nodes.cut_time[node] > LATE:
        if log.starts[0]:
            found.judged[CUT] += 1
            report(found, CUT, Acts(node), nodes.cut[node], columns.seq[i])
        else:
            found.unjudged[CUT] += 1
        nodes.cut[node] = -1


@part
def _end(
    nodes: _Nodes, leaders: _Leaders, log: _Log, found: Findings, columns: Columns, node: int, kind: int, i: int
) -> None:
    """The life of a node ends."""
    seq, incarnation = columns.seq[i], columns.incarnation[i]
    log.ends[0] += 1
    if nodes.cut[node] >= 0:
        if kind == STOP:
            _after_cut(nodes, log, found, columns, node, i)
        found.judged[CUT] += nodes.cut[node] >= 0
        nodes.cut[node] = -1
    if kind != STOP and nodes.life[node] != _DOWN:
        _lose(nodes, leaders, found, node, seq)
    elif nodes.life[node] == _OWES:
        _settle(nodes, found, node, -1)
    if incarnation != NO_NODE and nodes.incarnation[node] != NO_NODE:
        # It may be higher: that of a start that could not be recorded.
        found.judged[INCARNATION] += 1
        if incarnation < nodes.incarnation[node]:
            lower = Counted(node, before=nodes.incarnation[node], after=incarnation)
            report(found, INCARNATION, lower, nodes.incarnation_seq[node], seq)
    if kind == STOP and nodes.life[node] == _DOWN and log.starts[0]:
        found.judged[DOWN] += 1
        report(found, DOWN, Acts(node), nodes.end_seq[node], seq)
    if nodes.life[node] != _DOWN:
        nodes.end[node] = 0
    if kind == STOP:
        nodes.end[node] |= _STOPPED
    elif kind == STORAGE_ERROR:
        nodes.end[node] |= _FAILED
    else:
        nodes.end[node] |= _CRASHED
    nodes.life[node] = _DOWN
    nodes.end_seq[node] = seq


@part
def _start(
    nodes: _Nodes, runs: _Runs, leaders: _Leaders, log: _Log, found: Findings, columns: Columns, node: int, i: int
) -> None:
    """A node starts: what it found on its disk against what it is known to have written."""
    if nodes.life[node] in (_RUNS, _OWES, _EMPTIED):
        _lose(nodes, leaders, found, node, columns.seq[i])
    found.judged[CUT] += nodes.cut[node] >= 0
    nodes.cut[node] = -1
    seq, dirty, term = columns.seq[i], columns.dirty[i], columns.term[i]
    life, end, before = nodes.life[node], nodes.end[node], nodes.dirty[node]
    wiped = nodes.wiped[node] != 0
    log.starts[0] += 1
    empty = max(dirty, columns.flushed[i], columns.commit[i], columns.visible[i]) < 0 and term <= 0
    if life == _UNSEEN:
        found.judged[STARTED] += 1
        if empty and not wiped and nodes.votes[node]:
            log.fresh[0] -= 1
            if log.fresh[0] == 0 and log.begun[0] < 0:
                log.begun[0] = seq
        if dirty >= 0 and log.begun[0] >= 0:
            report(found, STARTED, Acts(node), log.begun[0], seq)  # it was written in a life that is not recorded
        else:
            found.unjudged[STARTED] += dirty >= 0  # what came before is not recorded
    elif life == _DOWN:
        found.judged[ENDED] += 1
        found.judged[DOWN] += 1
    elif nodes.restarted[node] < 0 and not wiped:
        nodes.restarted[node] = seq
        nodes.restarted_seq[node] = nodes.seq[node]

    incarnation = columns.incarnation[i]
    if incarnation != NO_NODE:
        if nodes.incarnation[node] != NO_NODE and not wiped:
            found.judged[INCARNATION] += 1
            if incarnation <= nodes.incarnation[node]:
                counted = Counted(node, before=nodes.incarnation[node], after=incarnation)
                report(found, INCARNATION, counted, nodes.incarnation_seq[node], seq)
        nodes.incarnation[node] = incarnation
        nodes.incarnation_seq[node] = seq

    if nodes.emptied[node] >= 0:
        found.judged[WIPED] += 1
        if not empty:
            report(found, WIPED, Acts(node), nodes.emptied[node], seq)
        nodes.emptied[node] = -1
    if empty:
        log.nameless[0] = -1
    if wiped:
        runs.used[node] = 0
        nodes.gone[node] = -1
    elif before != NULL and dirty != NULL and life != _UNSEEN:
        more = Ends(node, end=before, found=dirty)
        if end & _FAILED:
            # What was being written when the disk failed may be there or not, and nobody could record it.
            found.unjudged[TAIL] += 1
        elif end == _STOPPED:
            found.judged[GREW] += 1
            if dirty > before:
                report(found, GREW, more, nodes.seq[node], nodes.end_seq[node], seq)
        else:
            found.judged[TAIL] += 1
            if dirty > max(before, nodes.gone[node]):
                report(found, TAIL, more, nodes.seq[node], nodes.end_seq[node], seq)
        if dirty < before:
            nodes.gone[node] = max(before, nodes.gone[node])
    if dirty != NULL:
        if not wiped and (before == NULL or dirty > before):
            log.untold[0] = max(log.untold[0], dirty)
            runs.used[node] = 0
        count = runs.used[node]
        while count > 0 and runs.start[node, count - 1] > dirty:
            count -= 1
        runs.used[node] = count
        if count > 0 and term != NULL:
            found.judged[OLD_TERM] += 1
            if term < runs.term[node, count - 1]:
                old = Old(node, term=term, offset=dirty, entry_term=runs.term[node, count - 1])
                report(found, OLD_TERM, old, runs.seq[node, count - 1], seq)
    nodes.life[node] = _RUNS
    nodes.end[node] = 0
    nodes.wiped[node] = 0
    nodes.term[node] = term
    nodes.role[node] = columns.role[i]
    nodes.dirty[node] = dirty
    nodes.low[node] = dirty
    nodes.high[node] = dirty
    nodes.came[node] = seq
    nodes.flushed[node] = columns.flushed[i]
    nodes.commit[node] = columns.commit[i]
    nodes.visible[node] = columns.visible[i]


@part
def _row_of(leaders: _Leaders, term: int) -> int:
    """The row of a term; if it has none, that of the term that came first is its own now."""
    used: int = leaders.used[0]
    for back in range(1, min(used, _TERMS) + 1):
        row = (used - back) % _TERMS
        if leaders.term[row] == term:
            return row
    row = used % _TERMS
    leaders.used[0] = used + 1
    leaders.term[row] = term
    leaders.node[row] = -1
    leaders.seq[row] = -1
    leaders.lost[row] = 0
    leaders.low[row] = NULL
    leaders.high[row] = NULL
    leaders.early[row] = -1
    return row


@part
def _leads(leaders: _Leaders, log: _Log, found: Findings, node: int, term: int, seq: int) -> None:
    """A node won the election of a term: what is of this term, it writes first."""
    row = _row_of(leaders, term)
    if leaders.node[row] >= 0:
        return
    leaders.node[row] = node
    leaders.seq[row] = seq
    if leaders.early[row] >= 0 and leaders.early_high[row] > log.untold[0] and not log.wiped[0]:
        found.judged[EARLY] += 1
        early = Early(leaders.early_node[row], leader=node, offset=leaders.early_high[row], term=term)
        report(found, EARLY, early, leaders.early[row], seq)


@part
def _ranges_from(log: _Log, offset: int) -> int:
    """How many of the compacted ranges begin at ``offset`` or before."""
    begin, end = 0, log.ranges[0]
    while begin < end:
        middle = (begin + end) // 2
        if log.low[middle] <= offset:
            begin = middle + 1
        else:
            end = middle
    return begin


@part
def _compacts(log: _Log, first: int, last: int) -> None:
    """A batch was compacted: join it with the ranges that it touches. There is room for one more."""
    used = log.ranges[0]
    at = _ranges_from(log, first)
    if at > 0 and log.high[at - 1] >= first - 1:
        at -= 1
        first = log.low[at]
    end = at
    while end < used and log.low[end] <= last + 1:
        last = max(last, log.high[end])
        end += 1
    if end == at:
        for row in range(used, at, -1):
            log.low[row], log.high[row] = log.low[row - 1], log.high[row - 1]
    else:
        for row in range(end, used):
            log.low[row - end + at + 1], log.high[row - end + at + 1] = log.low[row], log.high[row]
    log.low[at], log.high[at] = first, last
    log.ranges[0] = used + 1 - (end - at)


@step
def _append(
    nodes: _Nodes, runs: _Runs, leaders: _Leaders, log: _Log, found: Findings, columns: Columns, node: int, i: int
) -> None:
    """A node appends a batch: is it behind the end of its log, and did the leader of its term have it before?"""
    seq, offset, last, term = columns.seq[i], columns.offset[i], columns.last_offset[i], columns.entry_term[i]
    if offset == 0 and columns.role[i] == ROLE_LEADER and log.begun[0] < 0:
        log.begun[0] = seq
    before = nodes.dirty[node]
    nodes.gone[node] = -1
    if before != NULL:
        found.judged[HOLE] += 1
        if offset > before + 1:
            within = _ranges_from(log, before + 1) - 1
            if within >= 0 and offset - 1 <= log.high[within]:
                excuse(found, HOLE, COMPACTION, -1, -1, 1)
            else:
                report(found, HOLE, Ends(node, end=before, found=offset), nodes.seq[node], seq)
    if term == NULL:
        return
    row = nodes.row[node]
    if row < 0 or leaders.term[row] != term:
        row = _row_of(leaders, term)
        nodes.row[node] = row
    count = runs.used[node]
    while count > 0 and runs.start[node, count - 1] >= offset:
        count -= 1
    if count == 0 or runs.term[node, count - 1] != term:
        if count == _TERMS:
            for at in range(_TERMS - 1):
                runs.start[node, at] = runs.start[node, at + 1]
                runs.term[node, at] = runs.term[node, at + 1]
                runs.seq[node, at] = runs.seq[node, at + 1]
            count = _TERMS - 1
        runs.start[node, count] = offset
        runs.term[node, count] = term
        runs.seq[node, count] = seq
        count += 1
    runs.used[node] = count

    leader = leaders.node[row]
    if leader < 0 and columns.role[i] == ROLE_LEADER and columns.term[i] == term:
        # It acts as the leader; what it wrote before is not recorded.
        leader = node
        leaders.node[row] = node
        leaders.low[row] = offset
    if leader == node:
        missing = leaders.high[row] == NULL or last > leaders.high[row]
        whole = not leaders.lost[row] and not log.wiped[0] and last > log.untold[0]
        if whole and columns.role[i] not in (OTHER, ROLE_LEADER):
            found.judged[EARLY] += 1
            if missing:
                report(found, EARLY, Early(node, leader=node, offset=last, term=term), leaders.seq[row], seq)
        if missing:
            leaders.high[row] = last
            leaders.seq[row] = seq
    elif leader < 0:
        found.unjudged[EARLY] += 1
        if leaders.early[row] < 0:
            leaders.early[row] = seq
            leaders.early_node[row] = node
            leaders.early_high[row] = last
    elif last <= log.untold[0] or (leaders.low[row] != NULL and last < leaders.low[row]):
        found.unjudged[EARLY] += 1
    else:
        high = leaders.high[row]
        missing = high == NULL or last > high
        if missing:
            leaders.high[row] = last
        if missing and log.wiped[0]:
            found.judged[EARLY] += 1
            excuse(found, EARLY, WIPE, -1, -1, 1)  # a term may have had two leaders
        elif leaders.lost[row]:
            found.judged[TAIL] += 1
            if missing:
                report(found, TAIL, Ends(leader, end=high, found=last), leaders.seq[row], nodes.end_seq[leader], seq)
        elif missing and nodes.life[leader] in (_RUNS, _OWES):
            if not nodes.owes[leader]:
                nodes.life[leader] = _OWES
                nodes.owes_to[leader] = node
                nodes.owes_last[leader] = last
                nodes.owes_term[leader] = term
                nodes.owes_seq[leader] = seq
                nodes.owes_shown[leader] = leaders.seq[row]
                nodes.owes_high[leader] = high
            nodes.owes[leader] += 1
        else:
            found.judged[EARLY] += 1
            if missing:
                report(found, EARLY, Early(node, leader=leader, offset=last, term=term), leaders.seq[row], seq)


@part
def _unsaid(nodes: _Nodes, log: _Log, move: int, columns: Columns, node: int, i: int) -> None:
    """A commit index (0), a visible offset (1) or a term (2) rose, or a role (3) changed, by an event that does not say
    so, or the reverse."""
    if log.unsaid[move, 0] == 0:
        log.unsaid[move, 1] = node
        log.unsaid[move, 2] = nodes.seq[node]
        log.unsaid[move, 3] = columns.seq[i]
        log.unsaid[move, 4] = columns.commit[i]
        log.unsaid[move, 5] = columns.visible[i]
        log.unsaid[move, 6] = columns.term[i]
    log.unsaid[move, 0] += 1


@part
def _holds(nodes: _Nodes, log: _Log, found: Findings, columns: Columns, node: int, i: int) -> None:
    """A leader says what it holds for appends: while it runs, in its life, in its term, while it leads."""
    seq, term, incarnation = columns.seq[i], columns.term[i], columns.incarnation[i]
    if nodes.life[node] == _DOWN:
        if log.starts[0]:
            found.judged[DOWN] += 1
            report(found, DOWN, Acts(node), nodes.end_seq[node], seq)
        elif nodes.idle[node] < 0:
            nodes.idle[node] = seq
        return
    if incarnation != NO_NODE and nodes.incarnation[node] != NO_NODE:
        found.judged[INCARNATION] += 1
        if incarnation != nodes.incarnation[node]:
            other = Counted(node, before=nodes.incarnation[node], after=incarnation)
            report(found, INCARNATION, other, nodes.incarnation_seq[node], seq)
    if nodes.term[node] != NULL and term not in (NULL, nodes.term[node]):
        _unsaid(nodes, log, 2, columns, node, i)
    if nodes.role[node] not in (OTHER, ROLE_LEADER):
        _unsaid(nodes, log, 3, columns, node, i)


@part
def _votes(nodes: _Nodes, runs: _Runs, found: Findings, columns: Columns, node: int, i: int) -> None:
    """A vote states the log by which it was given."""
    offset, term, count = columns.offset[i], columns.entry_term[i], runs.used[node]
    low, high = nodes.low[node], nodes.high[node]
    if low == NULL:
        found.unjudged[STOOD] += 1
        return
    found.judged[STOOD] += 1
    stood = Stood(node, offset=offset, entry_term=term, low=low, high=high)
    if not low <= offset <= high:
        report(found, STOOD, stood, nodes.came[node], columns.seq[i])
    elif low == high and term != NULL and count > 0 and runs.term[node, count - 1] != term:
        report(found, STOOD, stood, runs.seq[node, count - 1], columns.seq[i])


@kernel
def _scan(columns: Columns, nodes: _Nodes, runs: _Runs, leaders: _Leaders, log: _Log, found: Findings) -> None:
    # Counted apart: numbers in registers cost nothing.
    incarnations = dirties = flushes = moves = 0
    reported_so_far = log.reported[0]
    for i in range(len(columns.seq)):
        kind = columns.kind[i]
        node = columns.node[i]
        if kind == FAULT:
            if columns.f[i] == FAULT_WIPE:
                log.wiped[0] = 1
                if node < 0:
                    log.nameless[0] = columns.seq[i]
                    continue
                nodes.wiped[node] = 1
                nodes.emptied[node] = columns.seq[i]
                if nodes.life[node] == _RUNS:
                    nodes.life[node] = _EMPTIED
            elif columns.f[i] == FAULT_POWER and node >= 0:
                _cut(nodes, node, columns.seq[i], columns.time[i])
            continue
        if node < 0:
            continue
        seq = columns.seq[i]
        # Not what a client says of a node that it asks.
        does = CARRIES_STATE[kind] or kind in (ENQUEUE, HAND_OVER, SEND, RECEIVE)
        if nodes.cut[node] >= 0 and does and kind != START:
            _after_cut(nodes, log, found, columns, node, i)
        if not CARRIES_STATE[kind]:
            if kind in ENDS:
                _end(nodes, leaders, log, found, columns, node, kind, i)
            elif kind in (ENQUEUE, HAND_OVER):
                _holds(nodes, log, found, columns, node, i)
            continue

        reported_so_far += 1
        nodes.reported[node] = reported_so_far
        logical = columns.logical[i]
        if logical != NO_NODE or nodes.counted[node]:
            time = columns.time[i]
            if nodes.time_seq[node] >= 0:
                found.judged[CLOCK] += 1
                last = nodes.logical[node]
                if time < nodes.time[node] or (time == nodes.time[node] and (last == NO_NODE or logical <= last)):
                    counted = Counted(node, before=nodes.time[node], after=time)
                    report(found, CLOCK, counted, nodes.time_seq[node], seq)
            nodes.counted[node] = 1
        nodes.time[node] = columns.time[i]
        nodes.logical[node] = logical
        nodes.time_seq[node] = seq

        if kind == START:
            _start(nodes, runs, leaders, log, found, columns, node, i)
            nodes.seq[node] = seq
            continue
        if nodes.life[node] != _RUNS:
            if nodes.emptied[node] >= 0:
                found.judged[WIPED] += 1
                report(found, WIPED, Acts(node), nodes.emptied[node], seq)
                nodes.emptied[node] = -1
            if nodes.life[node] == _OWES:
                _settle(nodes, found, node, -1)
            elif nodes.life[node] == _UNSEEN:
                nodes.early[node] = seq
                nodes.held[node] = (columns.offset[i] if kind == APPEND else columns.dirty[i] + 1) > 0
            elif nodes.life[node] == _DOWN:
                _forget(nodes, node)
                runs.used[node] = 0
                if log.starts[0]:
                    found.judged[DOWN] += 1
                    report(found, DOWN, Acts(node), nodes.end_seq[node], seq)
                elif nodes.idle[node] < 0:
                    nodes.idle[node] = seq
            nodes.life[node] = _RUNS
        if columns.incarnation[i] != NO_NODE and nodes.incarnation[node] != NO_NODE:
            incarnations += 1
            if columns.incarnation[i] != nodes.incarnation[node]:
                other = Counted(node, before=nodes.incarnation[node], after=columns.incarnation[i])
                report(found, INCARNATION, other, nodes.incarnation_seq[node], seq)

        term = columns.term[i]
        dirty = columns.dirty[i]
        flushed = columns.flushed[i]
        commit = columns.commit[i]
        visible = columns.visible[i]
        if kind == APPEND:
            _append(nodes, runs, leaders, log, found, columns, node, i)
        elif kind == LEADER:
            _leads(leaders, log, found, node, term, seq)
        elif kind == COMPACT:
            _compacts(log, columns.offset[i], columns.last_offset[i])

        before = nodes.dirty[node]
        reported = before
        durable = nodes.flushed[node]
        if kind == APPEND:
            reported = columns.last_offset[i]
        elif before != NULL and kind == TRUNCATE:
            reported = min(before, columns.offset[i] - 1)
            if durable != NULL:
                durable = min(durable, reported)
            count = runs.used[node]
            while count > 0 and runs.start[node, count - 1] > reported:
                count -= 1
            runs.used[node] = count
        elif before != NULL and kind == TRIM:
            start = columns.offset[i]
            if before < start or (dirty != NULL and dirty < start):
                reported = start - 1  # the log begins anew
                runs.used[node] = 0
            if durable != NULL:
                durable = max(durable, start - 1)
        if dirty == NULL:
            dirty = reported  # as in version 1, where a trim need not carry the state
        elif reported != NULL:
            dirties += 1
            if dirty != reported:
                moved = Moved(node, before=before, after=dirty, reported=reported)
                report(found, DIRTY, moved, nodes.seq[node], seq)
        if flushed == NULL:
            flushed = durable
        elif durable != NULL:
            flushes += 1
            if flushed > durable and kind != FLUSH:
                risen = Moved(node, before=nodes.flushed[node], after=flushed, reported=durable)
                report(found, FLUSHED, risen, nodes.seq[node], seq)

        if commit != NULL and nodes.commit[node] != NULL:
            moves += 1
            if commit > nodes.commit[node] and kind not in (COMMIT, TRIM):
                _unsaid(nodes, log, 0, columns, node, i)
        if kind == COMMIT:
            log.moves[0] |= 1
        elif kind == VISIBLE:
            log.moves[0] |= 2
        elif kind == TERM:
            log.moves[0] |= 4
        elif kind == ROLE:
            log.moves[0] |= 8
        role = columns.role[i]
        if kind == LEADER and role != OTHER:
            if role != ROLE_LEADER and nodes.term[node] != NULL:
                _unsaid(nodes, log, 3, columns, node, i)
            role = ROLE_LEADER
        if role not in (nodes.role[node], OTHER):
            if kind not in (ROLE, LEADER) and nodes.role[node] != OTHER:
                _unsaid(nodes, log, 3, columns, node, i)
            nodes.role[node] = role
        if visible != NULL:
            if nodes.visible[node] != NULL and visible > nodes.visible[node] and kind not in (VISIBLE, TRIM):
                _unsaid(nodes, log, 1, columns, node, i)
            nodes.visible[node] = visible
        if dirty != NULL:
            if nodes.low[node] == NULL or (term != NULL and term != nodes.term[node]):
                nodes.low[node] = before if before != NULL and kind in (APPEND, TRUNCATE, TRIM) else dirty
                nodes.high[node] = nodes.low[node]
                nodes.came[node] = seq
            nodes.low[node] = min(nodes.low[node], dirty)
            nodes.high[node] = max(nodes.high[node], dirty)
        if kind == VOTE and columns.offset[i] != NULL:
            _votes(nodes, runs, found, columns, node, i)
        if term != NULL:
            written = kind == APPEND and columns.entry_term[i] == term
            if nodes.term[node] != NULL and not written and (term > nodes.term[node]) != (kind == TERM):
                _unsaid(nodes, log, 2, columns, node, i)
            nodes.term[node] = term
        if commit != NULL:
            nodes.commit[node] = commit
        nodes.dirty[node] = dirty
        nodes.flushed[node] = flushed
        nodes.seq[node] = seq
    log.reported[0] = reported_so_far
    found.judged[INCARNATION] += incarnations
    found.judged[DIRTY] += dirties
    found.judged[FLUSHED] += flushes
    found.judged[MOVES] += moves


@kernel
def _close(nodes: _Nodes, log: _Log, found: Findings) -> None:
    """Judge what depends on whether the log records starts, ends and moves at all."""
    for node in range(MAX_NODES):
        if nodes.life[node] == _OWES:
            _settle(nodes, found, node, -1)
        if nodes.early[node] >= 0:
            if log.starts[0]:
                found.judged[STARTED] += 1
                report(found, STARTED, Acts(node), nodes.early[node])
            else:
                found.unjudged[STARTED] += nodes.held[node]
        if nodes.idle[node] >= 0:
            if log.starts[0]:
                found.judged[DOWN] += 1
                report(found, DOWN, Acts(node), nodes.idle[node])
            else:
                found.unjudged[DOWN] += 1
        if nodes.restarted[node] >= 0:
            if log.ends[0]:
                found.judged[ENDED] += 1
                report(found, ENDED, Acts(node), nodes.restarted_seq[node], nodes.restarted[node])
            else:
                found.unjudged[ENDED] += 1
        found.unjudged[CUT] += nodes.cut[node] >= 0
        lives = nodes.life[node] not in (_UNSEEN, _DOWN)
        if lives and nodes.emptied[node] >= 0:
            if log.ends[0]:
                found.judged[WIPED] += 1
                report(found, WIPED, Acts(node), nodes.emptied[node])
            else:
                found.unjudged[WIPED] += 1
        if lives and log.nameless[0] >= 0:
            found.judged[WIPED] += 1
            report(found, WIPED, Acts(node), log.nameless[0])
            log.nameless[0] = -1
    for move in range(4):
        if log.unsaid[move, 0] == 0:
            continue
        if log.moves[0] & (1 << move):
            _, node, before, seq, commit, visible, term = log.unsaid[move]
            report(found, MOVES, Said(node, commit=commit, visible=visible, term=term), before, seq)
        else:
            found.unjudged[MOVES] += log.unsaid[move, 0]


class NodesFold(KernelFold):
    """Judges what the nodes of one log recorded of themselves."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._nodes = _Nodes(*(np.full(MAX_NODES, _blank(name), dtype=np.int64) for name in _Nodes._fields))
        start, term, seq = (np.zeros((MAX_NODES, _TERMS), dtype=np.int64) for _ in range(3))
        self._runs = _Runs(start, term, seq, used=np.zeros(MAX_NODES, dtype=np.int64))
        rows = {name: np.full(_TERMS, -1, dtype=np.int64) for name in _Leaders._fields}
        self._leaders = _Leaders(**rows | {"used": np.zeros(1, dtype=np.int64)})
        numbers = {name: np.zeros(1, dtype=np.int64) for name in _Log._fields}
        self._log = _Log(**numbers | {"unsaid": np.zeros((4, 7), dtype=np.int64)})
        self._log.untold[0] = NULL
        self._log.begun[0] = -1
        self._log.fresh[0] = len(setting.voters) // 2 + 1 if setting.voters else 0
        self._log.nameless[0] = -1
        self._messages = Messages()
        self._unshown = {APPEND, FLUSH, CONFIGURATION}

    def run(self, columns: Columns) -> None:
        """Judge the events, each against what its node stated before; nodes are indices."""
        compiled = self.setting.compiled
        known = self.nodes.names[:MAX_NODES]
        self._nodes.votes[: len(known)] = [name in self.setting.voters for name in known]
        kinds = np.asarray(columns.kind, dtype=np.int8)
        self._exchange(columns, kinds)
        self._unshown = {kind for kind in self._unshown if not how_many(kinds, kind)}
        used, more = int(self._log.ranges[0]), how_many(kinds, COMPACT)
        low, high = (grown(each, used, more, 0) for each in (self._log.low, self._log.high))
        self._log = self._log._replace(low=low, high=high)
        _scan.form(compiled)(columns, self._nodes, self._runs, self._leaders, self._log, self.found)

    def _exchange(self, columns: Columns, kinds: Array) -> None:
        """Judge the messages that were sent and received, with what tells when their nodes ran."""
        places = np.flatnonzero(among(kinds, _OF_MESSAGES))
        if not len(places):
            return
        peers = self.nodes.indices(np.asarray(columns.peer, dtype=np.int32)[places])
        lives = np.asarray(columns.incarnation)[places].tolist()
        wanted = (np.asarray(getattr(columns, name))[places].tolist() for name in Stamped._fields)
        rows = zip(kinds[places].tolist(), peers.tolist(), lives, map(Stamped, *wanted), strict=True)
        for kind, peer, incarnation, stamped in rows:
            if kind == SEND:
                self._messages.send(stamped, peer, self.found)
            elif kind == RECEIVE:
                self._messages.receive(stamped, peer, self.found)
            elif kind != FAULT or stamped.f == FAULT_WIPE:
                self._messages.life(kind, stamped.node, stamped.seq, stamped.term, incarnation)

    def void(self) -> dict[int, str]:
        """A history without any append does not tell how logs grow, nor one without any flush what is durable."""
        return {
            check: f"{word} offsets move, but no {needed} is recorded"
            for check, kind, word, needed in ((DIRTY, APPEND, "dirty", "append"), (FLUSHED, FLUSH, "flushed", "flush"))
            if self.found.violated[check] and kind in self._unshown
        }

    def end(self) -> None:
        """Judge what only the end of the history shows."""
        _close.form(self.setting.compiled)(self._nodes, self._log, self.found)

    def finish(self) -> Verdicts:
        """Answer, and say since when a node that runs records nothing; not one that is no voter and has begun
        nothing."""
        runs = np.isin(self._nodes.life, (_RUNS, _OWES, _EMPTIED))
        quiet = runs & (self._log.reported[0] - self._nodes.reported >= QUIET)
        if self.setting.voters and CONFIGURATION in self._unshown:
            quiet &= ~((self._nodes.votes == 0) & (self._nodes.term == 0) & (self._nodes.dirty == -1))
        since = int(self._nodes.seq[quiet].min()) if quiet.any() else None
        return replace(super().finish(), quiet_since=since)


_OF_MESSAGES = codes({Kind.SEND, Kind.RECEIVE, Kind.START, Kind.TERM, Kind.FAULT} | END_KINDS)


def _blank(name: str) -> int:
    """What a place of this column holds before anything is known."""
    if name in ("life", "votes", "end", "wiped", "owes", "held", "counted"):
        return 0
    return NULL if name in ("term", "dirty", "flushed", "commit", "visible", "low", "high") else -1


FAMILY = Family(
    "well_formed_nodes",
    tuple(CHECKS),
    STATE_KINDS | END_KINDS | {Kind.FAULT, Kind.SEND, Kind.RECEIVE, Kind.ENQUEUE, Kind.HAND_OVER},
    (
        "time",
        "logical",
        "node",
        "incarnation",
        "f",
        "term",
        "offset",
        "last_offset",
        "entry_term",
        "dirty",
        "flushed",
        "commit",
        "visible",
        "peer",
        "message",
        "role",
    ),
    NodesFold,
    RAFT,
)
