"""Progress: with a majority up and connected somebody leads and commits, and all that can be reached agree in the end.

Liveness has no finite counterexample, so the run states a bound (``progress_bound`` in its configuration): what waits
for longer than that, while nothing that is recorded hinders it, waits for ever. Without a bound nothing is judged.

What hinders is known from the events of faults, one for each node concerned. A fault that may end a process is told by
the events of the process; one that *cuts* takes its nodes out of those that are counted on; while there is any other
one nothing is judged. A *stretch* is a time without a change of all that.

Sources: raft.md#somebody-leads, raft.md#replicas-catch-up, raft.md#nothing-left-behind.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from loghistory.schema import STATE_KINDS, Kind, Operation

from ..codes import (
    CARRIES_STATE,
    CONFIGURATION,
    CRASH,
    FAULT,
    HEAL,
    INVOKE,
    LEADER,
    NULL,
    OTHER,
    POWER_LOSS,
    ROLE,
    ROLE_CANDIDATE,
    ROLE_LEADER,
    START,
    STOP,
    STORAGE_ERROR,
    TERM,
    lookup,
    word_code,
)
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..sentences import listed
from .configurations import CHANGES
from .protocol import RAFT

LEADS = Check(
    id="somebody-leads",
    rule="While a majority of the voters is up and connected, one of them leads, appends what it is asked for, and "
    "commits that.",
    source=("raft.md#somebody-leads",),
    fact="a stretch of the bound during which a majority of the voters was up and connected",
    sentence={
        "nobody": "For {seconds} s nodes {nodes} were up and connected and nothing was committed; no node led.",
        "stalled": "For {seconds} s nodes {nodes} were up and connected and nothing was committed; node {leader} led "
        "in term {term}, and its log ended at offset {dirty}, {waiting} behind its commit index.",
        "asked": "For {seconds} s nodes {nodes} were up and connected and nothing was committed; node {leader} led "
        "in term {term}, was asked for appends all that time but made none.",
        "again": "For {seconds} s nodes {nodes} were up and connected and nothing was committed; node {node} became "
        "{role} again and again, {times} times, from term {first} to term {last}.",
    },
    kinds=(Kind.START,),
    columns=("node", "dirty", "commit"),
    waits=True,
)
CATCH_UP = Check(
    id="replicas-catch-up",
    rule="What is committed reaches every voter that stays up and connected, within the bound.",
    source=("raft.md#replicas-catch-up",),
    fact="a voter that stayed up and connected for as long as the bound",
    sentence="Node {node} was up and connected for {seconds} s, and its commit index is still {commit}; offset {goal} "
    "was committed before.",
    kinds=(Kind.START,),
    columns=("node", "commit"),
    waits=True,
)
NOTHING_LEFT = Check(
    id="nothing-left-behind",
    rule="When nothing is appended and all voters are up and connected, they come to agree without another write.",
    source=("raft.md#nothing-left-behind",),
    fact="a voter, after nothing was appended for as long as the bound",
    sentence="Nothing was appended for {seconds} s and all voters were up and connected; the leader's log ends at "
    "offset {end}, and node {node} is left at dirty {dirty}, flushed {flushed}, commit {commit}, visible {visible}.",
    kinds=(Kind.START,),
    columns=("node", "dirty", "flushed", "commit", "visible"),
    waits=True,
)

_ENDS = frozenset(
    {
        *("kill", "kill_midway", "power_loss", "power_loss_midway", "crash", "stop"),
        *("fsync_error", "open_error", "disk_full", "storage_error", "flipped_bit", "lost_name"),
        *("trim", "clock_jump"),
    }
)
"""Faults whose only lasting effect is that a process ends, which is an event of its own, or that have none."""
_CUTS = frozenset({"pause", "partition", "mute", "deafen", "one_way"})
"""Faults during which a node is not counted on."""

_SURROUNDINGS = frozenset({Kind.STOP, Kind.CRASH, Kind.POWER_LOSS, Kind.STORAGE_ERROR, Kind.FAULT, Kind.HEAL})
_IS_WANTED = lookup(STATE_KINDS | _SURROUNDINGS)
_APPEND = word_code(Operation.APPEND)
_OF_PROCESSES = (START, STOP, CRASH, POWER_LOSS, STORAGE_ERROR)
_SHOWN = 8
_OFTEN = 10
"""Appends that a leader must have been asked for: some of a few may be lost on the way, or refused rightly."""


@dataclass(slots=True)
class _Node:
    """What is known of one node."""

    up: bool = False
    role: int = OTHER
    term: int = 0
    dirty: int = -1
    flushed: int = -1
    commit: int = -1
    visible: int = -1
    seq: int = -1
    begun: int = -1
    cuts: Counter[int] = field(default_factory=Counter)


class ProgressFold:
    """Judges the progress of one log."""

    def __init__(self, setting: Setting) -> None:
        self._bound = setting.progress_bound
        self._words = setting.words
        self._ends = frozenset(map(setting.words.code, _ENDS))
        self._cut_by = frozenset(map(setting.words.code, _CUTS))
        self._nodes = {node: _Node() for node in setting.voters}
        self._others: Counter[int] = Counter()  # faults that hinder everybody, or nobody knows whom
        self._leads = Tally(LEADS, setting.keep)
        self._catch_up = Tally(CATCH_UP, setting.keep)
        self._left = Tally(NOTHING_LEFT, setting.keep)
        self._sound: list[int] = []  # voters that are up and not cut off, if they are a majority and nothing hinders
        self._whole = False  # no voter is cut off
        self._now = self._last = 0  # time and seq of the last event
        self._best = -1  # what was committed for certain
        self._fine = self._fine_seq = 0  # when nothing waited, or something was committed, for the last time
        self._asked = 0  # appends since then, of a leader that waited for nothing and has made none
        self._asked_of, self._asked_last, self._asked_seq = NULL, 0, 0
        self._checked = self._goal = self._goal_seq = 0  # when it was seen what was committed; what that was
        self._checked_seq = 0
        self._quiet = self._quiet_seq = 0  # when something was appended for the last time
        self._quiet_by: _Node | None = None  # whose append that was
        self._changes = False  # another configuration than the first one came into force
        self._recent: deque[tuple[int, int, int, int]] = deque(maxlen=64)  # seq, node, role, term since then

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        if self._bound is None:
            return
        names = ("seq", "time", "kind", "node", "f", "role", "term", "dirty", "flushed", "commit", "visible")
        asks = (columns.kind == INVOKE) & (columns.f == _APPEND)
        for seq, time, kind, node, f, role, *state in columns.rows(
            np.flatnonzero(_IS_WANTED[columns.kind] | asks), *names
        ):
            self._changes = self._changes or kind == CONFIGURATION
            self._judge(time, seq)
            if kind == INVOKE:
                if state[0] == NULL:  # an append that expects another term may be refused
                    self._ask(node, time, seq)
            elif kind in (FAULT, HEAL):
                self._fault(node, f, begins=kind == FAULT)
                self._new_stretch(time, seq)
            elif node in self._nodes:
                self._event(self._nodes[node], seq, time, kind, node, role, state)
        if len(columns.seq):
            self._now, self._last = int(columns.time[-1]), int(columns.seq[-1])

    # -- what changes ----------------------------------------------------------------------------------------------

    def _fault(self, node: int, f: int, *, begins: bool) -> None:
        if f in self._ends:
            return
        known = self._nodes.get(node) if f in self._cut_by else None
        cuts = self._others if known is None else known.cuts
        if not begins and not cuts[f] and known is None:  # it ends everywhere
            for each in self._nodes.values():
                each.cuts[f] = 0
        cuts[f] = max(cuts[f] + (1 if begins else -1), 0)

    def _ask(self, node: int, time: int, seq: int) -> None:
        """A client asked for an append; if a leader that waits for nothing was asked, it has to make one."""
        if self._waits() != node:
            return
        if not self._asked:
            self._is_fine(time, seq)
        self._asked += 1
        self._asked_of, self._asked_last, self._asked_seq = node, time, seq

    def _event(self, known: _Node, seq: int, time: int, kind: int, node: int, role: int, state: list[int]) -> None:
        known.seq = seq
        leads = ROLE_LEADER in (known.role, role) or kind == LEADER
        if leads and self._idle():  # until now
            self._is_fine(time, seq)
        if CARRIES_STATE[kind]:
            before = known.dirty
            known.term, known.dirty, known.flushed, known.commit, visible = state
            known.visible = known.visible if visible == NULL else visible
            known.role = ROLE_LEADER if kind == LEADER else known.role if role == OTHER else role
            turn = node, known.role, known.term
            if kind in (LEADER, ROLE, TERM) and (not self._recent or self._recent[-1][1:] != turn):
                self._recent.append((seq, *turn))
            if known.dirty != before and known.role == ROLE_LEADER:
                self._quiet, self._quiet_seq, self._quiet_by = time, seq, known
            if known.commit > self._best:
                self._best = known.commit
                self._is_fine(time, seq)
        if kind in _OF_PROCESSES:
            known.up = kind == START
            known.begun = seq
            known.role = role if kind == START else OTHER
            self._new_stretch(time, seq)
        elif (leads and self._idle()) or (self._asked and self._waits() != self._asked_of):
            self._is_fine(time, seq)

    def _new_stretch(self, time: int, seq: int) -> None:
        """Something that hinders began or ended: whoever is up and connected now is counted on from here on."""
        sound = [number for number, node in self._nodes.items() if node.up and not any(node.cuts.values())]
        judged = 2 * len(sound) > len(self._nodes) and not any(self._others.values())
        self._sound = sound if judged else []
        self._whole = not any(any(node.cuts.values()) for node in self._nodes.values())
        self._is_fine(time, seq)
        self._quiet, self._quiet_seq, self._quiet_by = time, seq, None
        self._best = max(node.commit for node in self._nodes.values())
        self._set_goal(time, seq)

    def _set_goal(self, time: int, seq: int) -> None:
        best = max(self._nodes.values(), key=lambda node: node.commit)
        self._goal, self._goal_seq = best.commit, best.seq
        self._checked, self._checked_seq = time, seq

    def _is_fine(self, time: int, seq: int) -> None:
        self._fine, self._fine_seq = time, seq
        self._asked = 0
        self._recent.clear()

    def _leader(self) -> tuple[int, _Node] | None:
        """The sound leader of the highest term."""
        leaders = [(number, self._nodes[number]) for number in self._sound]
        leaders = [each for each in leaders if each[1].role == ROLE_LEADER]
        return max(leaders, key=lambda each: each[1].term) if leaders else None

    def _waits(self) -> int:
        """Who leads and has nothing left to commit; NULL if nobody does."""
        leader = self._leader()
        return NULL if leader is None or leader[1].commit < leader[1].dirty else leader[0]

    def _idle(self) -> bool:
        """Whether somebody leads who has nothing left to commit, and was not asked for more."""
        return not self._asked and self._waits() != NULL

    # -- what is judged --------------------------------------------------------------------------------------------

    def _judge(self, time: int, seq: int) -> None:
        """Judge what has lasted until now; before the event of this moment is taken."""
        bound = self._bound
        if (
            bound is None
            or self._changes
            or not self._sound
            or time - min(self._fine, self._checked, self._quiet) < bound
        ):
            return
        if self._idle():
            self._is_fine(time, seq)
        elif not 0 < self._asked < _OFTEN and (self._asked_last if self._asked else time) - self._fine >= bound:
            self._stuck(time, seq)
            self._is_fine(time, seq)
        if time - self._checked >= bound:
            self._leads.judged += 1
            for number in self._sound if self._whole else ():
                node = self._nodes[number]
                self._catch_up.judged += 1
                if node.commit < self._goal:
                    seconds = _seconds(time - self._checked)
                    self._catch_up.violation(
                        *(self._goal_seq, self._checked_seq, node.seq, seq),
                        node=number,
                        seconds=seconds,
                        commit=node.commit,
                        goal=self._goal,
                    )
            self._set_goal(time, seq)
        leader = self._leader()
        if time - self._quiet >= bound and leader is not None and len(self._sound) == len(self._nodes):
            self._agree(leader[1], time, seq)

    def _agree(self, leader: _Node, time: int, seq: int) -> None:
        end = leader.dirty
        for number, node in self._nodes.items():
            self._left.judged += 1
            where = {name: getattr(node, name) for name in ("dirty", "flushed", "commit", "visible")}
            if any(offset != end for offset in where.values()):
                seconds = _seconds(time - self._quiet)
                of_leader = () if self._quiet_by is leader else (leader.seq,)
                shown = self._quiet_seq, *of_leader, node.seq, seq
                self._left.violation(*shown, node=number, end=end, seconds=seconds, **where)
        self._quiet, self._quiet_seq, self._quiet_by = time, seq, None

    def _stuck(self, time: int, seq: int) -> None:
        shown = {"seconds": _seconds(time - self._fine), "nodes": listed(self._sound)}
        since = {self._fine_seq, *(self._nodes[number].begun for number in self._sound)}
        leader = self._leader()
        turns = Counter((node, role) for _, node, role, _ in self._recent if role in (ROLE_LEADER, ROLE_CANDIDATE))
        (turn, times), *_ = [*turns.most_common(1), ((-1, -1), 0)]
        if times > 1:
            again = [(each, term) for each, *taken, term in self._recent if tuple(taken) == turn]
            events = [each for each, _ in again[:_SHOWN]]
            role = "leader" if turn[1] == ROLE_LEADER else "candidate"
            shown |= {"node": str(turn[0]), "role": role, "times": str(times)}
            shown |= {"first": str(again[0][1]), "last": str(again[-1][1])}
            self._leads.violation(*since, *events, seq, way="again", **shown)
        elif leader is None:
            self._leads.violation(*since, seq, way="nobody", **shown)
        elif self._asked:
            number, node = leader
            shown |= {"leader": str(number), "term": str(node.term)}
            self._leads.violation(*since, self._asked_seq, node.seq, seq, way="asked", **shown)
        else:
            number, node = leader
            waiting = str(node.dirty - node.commit)
            shown |= {"leader": str(number), "term": str(node.term), "dirty": str(node.dirty), "waiting": waiting}
            self._leads.violation(*since, node.seq, seq, way="stalled", **shown)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._leads, self._catch_up, self._left))

    def finish(self) -> Verdicts:
        """Judge what lasted until the last event, and answer."""
        self._judge(self._now, self._last)
        why = CHANGES if self._changes else None
        return Verdicts(tuple(each.outcome(why) for each in (self._leads, self._catch_up, self._left)))


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.3g}"


FAMILY = Family(
    "progress",
    (LEADS, CATCH_UP, NOTHING_LEFT),
    STATE_KINDS | _SURROUNDINGS | {Kind.INVOKE},
    ("time", "node", "f", "role", "term", "dirty", "flushed", "commit", "visible"),
    ProgressFold,
    RAFT,
)
