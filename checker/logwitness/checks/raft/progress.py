"""Progress: with a majority up and connected somebody leads and commits, and all that can be reached agree in the end.

Liveness has no finite counterexample, so the run states a bound (``progress_bound`` in its configuration): what waits
for longer than that, while nothing that is recorded hinders it, waits for ever. Without a bound nothing is judged.

What hinders is known from the events of faults, one for each node concerned. A fault that may end a process is told by
the events of the process; one that *cuts* takes its nodes out of those that are counted on, as a lost disk does until
its node is a member anew; while there is any other one nothing is judged. Who votes is said by the configurations in
force on those that are up and connected. A *stretch* is a time without a change of all that.

Sources: raft.md#somebody-leads, raft.md#replicas-catch-up, raft.md#nothing-left-behind, raft.md#progress-of-members.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from loghistory.schema import END_KINDS, STATE_KINDS, Kind, Operation

from ..codes import (
    CARRIES_STATE,
    CONFIGURATION,
    ENDS,
    FAULT,
    FAULT_WIPE,
    HEAL,
    INVOKE,
    LEADER,
    NULL,
    OTHER,
    ROLE,
    ROLE_CANDIDATE,
    ROLE_LEADER,
    START,
    TERM,
    lookup,
    word_code,
)
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from ..findings import MAX_NODES
from ..sentences import listed
from .configurations import NOT_READABLE, Configuration, configuration_of
from .protocol import RAFT

LEADS = Check(
    id="somebody-leads",
    explained_by=frozenset({Kind.CONFIGURATION}),
    rule="While a majority of the voters is up and connected, one of them leads, appends what it is asked for, and "
    "commits that.",
    source=("raft.md#somebody-leads", "raft.md#progress-of-members"),
    fact="a stretch of the bound during which a majority of the voters was up and connected",
    sentence={
        "nobody": "For {seconds} s nodes {nodes} were up and connected and nothing was committed; no node led.",
        "stalled": "For {seconds} s nodes {nodes} were up and connected and nothing was committed; node {leader} led "
        "in term {term}, and its log ended at offset {dirty}, {waiting} behind its commit index.",
        "asked": "For {seconds} s nodes {nodes} were up and connected and nothing was committed; node {leader} led "
        "in term {term} and was asked for appends all that time, but made none.",
        "again": "For {seconds} s nodes {nodes} were up and connected and nothing was committed; node {node} became "
        "{role} again and again, {times} times, from term {first} to term {last}.",
    },
    kinds=(Kind.START,),
    columns=("node", "dirty", "commit"),
    waits=True,
)
CATCH_UP = Check(
    id="replicas-catch-up",
    explained_by=frozenset({Kind.CONFIGURATION}),
    rule="What is committed reaches every voter that stays up and connected, within the bound.",
    source=("raft.md#replicas-catch-up", "raft.md#progress-of-members"),
    fact="a voter that stayed up and connected for as long as the bound",
    sentence="Node {node} was up and connected for {seconds} s, and its commit index is still {commit}; offset {goal} "
    "was committed before.",
    kinds=(Kind.START,),
    columns=("node", "commit"),
    waits=True,
)
NOTHING_LEFT = Check(
    id="nothing-left-behind",
    explained_by=frozenset({Kind.CONFIGURATION}),
    rule="When nothing is appended and all voters are up and connected, they come to agree without another write.",
    source=("raft.md#nothing-left-behind", "raft.md#progress-of-members"),
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

_SURROUNDINGS = END_KINDS | {Kind.FAULT, Kind.HEAL}
_IS_WANTED = lookup(STATE_KINDS | _SURROUNDINGS)
_APPEND = word_code(Operation.APPEND)
_OF_PROCESSES = (START, *ENDS)
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
    configuration: Configuration | None = None  # in force; None: that is not known
    configured: int = -1  # by which event
    member_from: int = -1  # since its disk was lost, the least revision with which it votes; -1: it was not

    @property
    def counted_on(self) -> bool:
        """It is up and connected, and may vote."""
        return self.up and self.member_from < 0 and not any(self.cuts.values())


class ProgressFold:
    """Judges the progress of one log."""

    def __init__(self, setting: Setting) -> None:
        self._bound = setting.progress_bound
        self._words = setting.words
        self._ends = frozenset(map(setting.words.code, _ENDS))
        self._cut_by = frozenset(map(setting.words.code, _CUTS))
        self._first = Configuration(setting.voters) if setting.voters else None
        self._nodes = {node: _Node(configuration=self._first) for node in setting.voters}
        self._voters = {*setting.voters}  # of all configurations so far
        self._undecided: str | None = None
        self._others: Counter[int] = Counter()  # faults that hinder everybody, or nobody knows whom
        self._leads = Tally(LEADS, setting.keep)
        self._catch_up = Tally(CATCH_UP, setting.keep)
        self._left = Tally(NOTHING_LEFT, setting.keep)
        self._sound: list[int] = []  # voters that are counted on, if they are a quorum and nothing hinders
        self._due: tuple[int, ...] = ()  # the voters, if all of them that are counted on agree on who they are
        self._whole = False  # none of these is cut off
        self._now = self._last = 0  # time and seq of the last event
        self._best = -1  # what was committed for certain
        self._fine = self._fine_seq = 0  # when nothing waited, or something was committed, for the last time
        self._asked = 0  # appends since then, of a leader that waited for nothing and has made none
        self._asked_of, self._asked_last, self._asked_seq = NULL, 0, 0
        self._checked = self._goal = self._goal_seq = 0  # when it was seen what was committed; what that was
        self._checked_seq = 0
        self._quiet = self._quiet_seq = 0  # when something was appended for the last time
        self._quiet_by: _Node | None = None  # whose append that was
        self._recent: deque[tuple[int, int, int, int]] = deque(maxlen=64)  # seq, node, role, term since then

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        bound = self._bound
        if bound is None:
            return
        names = ("seq", "time", "kind", "node", "f", "role", "value", "term", "dirty", "flushed", "commit", "visible")
        # An append that expects another term may be refused.
        asks = (columns.kind == INVOKE) & (columns.f == _APPEND) & (columns.term == NULL)
        for seq, time, kind, node, f, role, value, *state in columns.rows(
            np.flatnonzero(_IS_WANTED[columns.kind] | asks), *names
        ):
            found = configuration_of(self._words, value) if kind == CONFIGURATION else None
            if kind == CONFIGURATION and found is None:
                self._undecided = NOT_READABLE
            if time >= bound + min(self._fine, self._checked, self._quiet):
                self._judge(time, seq)
            if kind == INVOKE:
                self._ask(node, time, seq)
            elif kind in (FAULT, HEAL):
                self._fault(node, f, begins=kind == FAULT)
                self._new_stretch(time, seq)
            elif node >= 0 and (known := self._node(node)) is not None:
                self._event(known, seq, time, kind, node, role, state)
                if found is not None:
                    self._configured(known, node, seq, found)
                    self._new_stretch(time, seq)
        if len(columns.seq):
            self._now, self._last = int(columns.time[-1]), int(columns.seq[-1])

    # -- what changes ----------------------------------------------------------------------------------------------

    def _node(self, number: int) -> _Node | None:
        """What is known of a node; None if there are too many of them."""
        known = self._nodes.get(number)
        if known is None and len(self._nodes) >= MAX_NODES:
            self._undecided = f"more than {MAX_NODES} nodes in one log"
        elif known is None:
            known = self._nodes[number] = _Node()
        return known

    def _configured(self, known: _Node, number: int, seq: int, found: Configuration) -> None:
        """A configuration came into force on a node."""
        known.configuration, known.configured = found, seq
        self._voters |= found.deciding
        if number in found.deciding and found.revision >= known.member_from:
            known.member_from = -1

    def _emptied(self, number: int) -> None:
        """A disk is lost: if there was anything on it, its node votes again when a later configuration has it."""
        known = {each.configuration for each in self._nodes.values() if each.configuration}
        later = 1 + max((each.revision for each in known), default=0)
        for node in [self._nodes.get(number)] if number >= 0 else self._nodes.values():
            if node is not None and max(node.term, node.dirty + 1) > 0:
                node.member_from = later

    def _fault(self, node: int, f: int, *, begins: bool) -> None:
        if f in self._ends:
            return
        if f == FAULT_WIPE and begins:
            self._emptied(node)
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
        if kind == START:
            votes = self._first is not None and node in self._first.voters
            known.configuration, known.configured = self._first if votes else None, -1
        if node not in self._voters:  # what it becomes does not matter yet
            self._shows(known, kind, role, state)
            if kind in _OF_PROCESSES:
                known.up = kind == START
                known.begun = seq
            return
        leads = ROLE_LEADER in (known.role, role) or kind == LEADER
        if leads and self._idle():  # until now
            self._is_fine(time, seq)
        if CARRIES_STATE[kind]:
            before = known.dirty
            self._shows(known, kind, role, state)
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

    @staticmethod
    def _shows(known: _Node, kind: int, role: int, state: list[int]) -> None:
        """The state of a node after its event, if that carries one."""
        if CARRIES_STATE[kind]:
            known.term, known.dirty, known.flushed, known.commit, visible = state
            known.visible = known.visible if visible == NULL else visible
            known.role = ROLE_LEADER if kind == LEADER else known.role if role == OTHER else role

    def _new_stretch(self, time: int, seq: int) -> None:
        """Something that hinders began or ended, or who votes changed: who is there now is counted on from here on."""
        live = {number: node for number, node in self._nodes.items() if node.counted_on}
        in_force = {
            node.configuration
            for number, node in live.items()
            if node.configuration and number in node.configuration.deciding
        }
        voters = frozenset[int]().union(*(each.deciding for each in in_force))
        sound = [number for number in live if number in voters]
        hindered = any(self._others.values()) or not all(each.is_quorum(sound) for each in in_force)
        self._sound = [] if hindered else sound
        (agreed, *others) = in_force if in_force else (None,)
        self._due = agreed.voters if agreed and not others and not agreed.old else ()
        self._whole = not any(any(self._nodes[number].cuts.values()) for number in self._due if number in self._nodes)
        self._is_fine(time, seq)
        self._quiet, self._quiet_seq, self._quiet_by = time, seq, None
        self._set_goal(time, seq)
        self._best = self._goal

    def _set_goal(self, time: int, seq: int) -> None:
        voters = [node for number, node in self._nodes.items() if number in self._voters]
        best = max(voters, key=lambda node: node.commit, default=_Node())
        self._goal, self._goal_seq = best.commit, best.seq
        self._checked, self._checked_seq = time, seq

    def _is_fine(self, time: int, seq: int) -> None:
        self._fine, self._fine_seq = time, seq
        self._asked = 0
        self._recent.clear()

    def _leader(self) -> tuple[int, _Node] | None:
        """The sound leader of the highest term."""
        found = None
        for number in self._sound:
            node = self._nodes[number]
            if node.role == ROLE_LEADER and (found is None or node.term > found[1].term):
                found = number, node
        return found

    def _waits(self) -> int:
        """Who leads and has nothing left to commit; NULL if nobody does."""
        leader = self._leader()
        return NULL if leader is None or leader[1].commit < leader[1].dirty else leader[0]

    def _shows_that_they_vote(self, nodes: Collection[int], *, quorum: bool = False) -> set[int]:
        """Events that show that these nodes vote, or are a quorum; none where the first configuration says so."""
        first = frozenset[int]() if self._first is None else self._first.deciding
        unsaid = {*nodes} - first
        if not unsaid and self._first is not None and (self._first.is_quorum(nodes) or not quorum):
            return set()
        known = [(node.configured, node.configuration) for node in map(self._nodes.__getitem__, self._sound)]
        said = {seq: each.deciding for seq, each in known if seq >= 0 and each is not None}
        found: set[int] = set()
        for seq in sorted(said, key=lambda seq: (-len(said[seq].intersection(nodes)), -seq)):
            if unsaid or not found:
                found.add(seq)
                unsaid -= said[seq]
        return found

    def _idle(self) -> bool:
        """Whether somebody leads who has nothing left to commit, and was not asked for more."""
        return not self._asked and self._waits() != NULL

    # -- what is judged --------------------------------------------------------------------------------------------

    def _judge(self, time: int, seq: int) -> None:
        """Judge what has lasted until now; before the event of this moment is taken."""
        bound = self._bound
        if (
            bound is None
            or self._undecided
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
                if number not in self._due:
                    continue
                node = self._nodes[number]
                self._catch_up.judged += 1
                if node.commit < self._goal:
                    seconds = _seconds(time - self._checked)
                    self._catch_up.violation(
                        *(self._goal_seq, self._checked_seq, *self._shows_that_they_vote([number]), node.seq, seq),
                        node=number,
                        seconds=seconds,
                        commit=node.commit,
                        goal=self._goal,
                    )
            self._set_goal(time, seq)
        leader = self._leader()
        if time - self._quiet >= bound and leader is not None and self._due and {*self._due} <= {*self._sound}:
            self._agree(leader[1], time, seq)

    def _agree(self, leader: _Node, time: int, seq: int) -> None:
        end = leader.dirty
        for number in self._due:
            node = self._nodes[number]
            self._left.judged += 1
            where = {name: getattr(node, name) for name in ("dirty", "flushed", "commit", "visible")}
            if any(offset != end for offset in where.values()):
                seconds = _seconds(time - self._quiet)
                of_leader = () if self._quiet_by is leader else (leader.seq,)
                shown = self._quiet_seq, *of_leader, *self._shows_that_they_vote([number]), node.seq, seq
                self._left.violation(*shown, node=number, end=end, seconds=seconds, **where)
        self._quiet, self._quiet_seq, self._quiet_by = time, seq, None

    def _stuck(self, time: int, seq: int) -> None:
        shown = {"seconds": _seconds(time - self._fine), "nodes": listed(self._sound)}
        since = {self._fine_seq, *(self._nodes[number].begun for number in self._sound)}
        since |= self._shows_that_they_vote(self._sound, quorum=True)
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
        return Verdicts(tuple(each.outcome(self._undecided) for each in (self._leads, self._catch_up, self._left)))


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.3g}"


FAMILY = Family(
    "progress",
    (LEADS, CATCH_UP, NOTHING_LEFT),
    STATE_KINDS | _SURROUNDINGS | {Kind.INVOKE},
    ("time", "node", "f", "role", "term", "dirty", "flushed", "commit", "visible", "value"),
    ProgressFold,
    RAFT,
)
