"""What a leader owes to its office: it counts those answers alone that its members gave as such, and it stays.

An answer that a member gave before it was removed and added again says nothing of the one that it is now. A leader
leaves its office within its term if it has not heard a majority for an election time-out; while nothing hinders anybody
for as long as the bound of the run, that does not happen.

All of it is rare: configurations, members that begin to be counted, and turns in office. Sources: raft.md#session,
raft.md#replies-of-members, raft.md#removed-leader, raft.md#check-quorum.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import (
    CONFIGURATION,
    COUNTED,
    ENDS,
    FAULT,
    HEAL,
    LEADER,
    ROLE,
    ROLE_LEADER,
    START,
    TRANSFER,
    among,
)
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .configurations import parsed
from .protocol import RAFT

COUNTS = Check(
    id="answers-of-members",
    rule="A leader counts what a node answers only as the member that its own newest configuration has, in the session "
    "that this one names.",
    source=("raft.md#session", "raft.md#replies-of-members", "raft.md#readded-node"),
    fact="a member that a leader begins to count",
    sentence={
        "earlier": "Node {node} counts what node {peer} answers in session {session}; the configuration in force on it "
        "has that node in session {named}.",
        "nobody": "Node {node} counts what node {peer} answers in session {session}, which is no member in the "
        "configuration in force on it.",
    },
    kinds=(Kind.COUNTED,),
    columns=("node", "peer", "session"),
)
STAYS = Check(
    id="office-is-kept",
    explained_by=frozenset({Kind.CONFIGURATION}),
    rule="While nothing hinders anybody, a leader leaves its office only for a later term, or when it has handed its "
    "leadership on.",
    source=("raft.md#office-is-kept", "raft.md#removed-leader", "raft.md#check-quorum"),
    fact="a leader that leaves its office, after nothing hindered anybody for as long as the bound",
    sentence="Node {node}, which led term {term}, left its office in that term and had handed it on to nobody, though "
    "nothing had hindered anybody for {seconds} s.",
    kinds=(Kind.ROLE,),
    columns=("node", "term", "role"),
    waits=True,
)

_WANTED = (START, *ENDS, LEADER, ROLE, TRANSFER, CONFIGURATION, COUNTED, FAULT, HEAL)
_WISHES = ("join", "leave", "demote", "cancel_change", "transfer", "trim", "compact")
"""Faults that are none: what whoever runs a group asks for: it hinders nobody."""


class _Event(NamedTuple):
    seq: int
    time: int
    kind: int
    node: int
    f: int
    role: int
    term: int
    peer: int
    session: int
    value: int


class OfficeFold:
    """Judges what leaders count and when they leave, in one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._wishes = frozenset(map(setting.words.code, _WISHES))
        self._counts, self._stays = Tally(COUNTS, setting.keep, setting.seen), Tally(STAYS, setting.keep)
        self._sessions: dict[int, tuple[dict[int, int] | None, int]] = {}  # in force on a node, and by which event
        self._members = {*setting.voters}  # of all configurations so far
        self._up: set[int] = set()
        self._hinders: Counter[tuple[int, int]] = Counter()  # faults under way, by what and where
        self._since = self._since_seq = 0  # when something of that changed
        self._leads: dict[int, tuple[int, int]] = {}  # by node: the term, and by which event
        self._handed: dict[int, int] = {}  # by node: the term in which it handed its leadership on

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        for row in columns.rows(np.flatnonzero(among(columns.kind, _WANTED)), *_Event._fields):
            self._event(_Event(*row))

    def _event(self, e: _Event) -> None:
        if e.kind in (FAULT, HEAL):
            self._fault(e)
        elif e.node < 0:
            return
        elif e.kind == COUNTED:
            self._counted(e)
        elif e.kind == CONFIGURATION:
            self._configured(e)
        elif e.kind == TRANSFER:
            self._handed[e.node] = e.term
        elif e.kind == LEADER or (e.kind == ROLE and e.role == ROLE_LEADER):
            self._leads[e.node] = e.term, e.seq
        elif e.kind == ROLE:
            self._leaves(e)
        else:
            self._lives(e)

    def _fault(self, e: _Event) -> None:
        """Something begins or ends to hinder; what ends nowhere in particular ends everywhere."""
        if e.f in self._wishes:
            return
        self._since, self._since_seq = e.time, e.seq
        if e.kind == FAULT:
            self._hinders[e.f, e.node] += 1
        elif e.node >= 0 and self._hinders[e.f, e.node]:
            self._hinders[e.f, e.node] -= 1
        elif e.node < 0:
            self._hinders = Counter({fault: number for fault, number in self._hinders.items() if fault[0] != e.f})

    def _lives(self, e: _Event) -> None:
        """A process begins or ends."""
        self._since, self._since_seq = e.time, e.seq
        self._leads.pop(e.node, None)
        self._up.discard(e.node)
        if e.kind == START:
            self._up.add(e.node)
            first = e.node in self._setting.voters
            self._sessions[e.node] = dict.fromkeys(self._setting.voters, 0) if first else None, e.seq

    def _configured(self, e: _Event) -> None:
        text = self._setting.words.text(e.value)
        found = parsed(text)
        self._members |= found.members if found else set()
        self._sessions[e.node] = sessions_in(text or "", found.members) if found else None, e.seq

    def _counted(self, e: _Event) -> None:
        named, since = self._sessions.get(e.node, (None, -1))
        if named is None:
            self._counts.unjudged += 1
            return
        self._counts.judged += 1
        said = {"node": e.node, "peer": e.peer, "session": e.session}
        # A session other than the first one comes of a change.
        rests_on = (Kind.CONFIGURATION,) if e.session else ()
        if e.peer not in named:
            self._counts.violation(since, e.seq, way="nobody", rests_on=rests_on, **said)
        elif named[e.peer] != e.session:
            self._counts.violation(since, e.seq, way="earlier", rests_on=rests_on, named=named[e.peer], **said)

    def _leaves(self, e: _Event) -> None:
        bound = self._setting.progress_bound
        led, since = self._leads.pop(e.node, (-1, -1))
        sound = bool(self._members) and self._members <= self._up and not any(self._hinders.values())
        if led < 0 or bound is None or not sound or e.time - self._since < bound:
            return
        self._stays.judged += 1
        if led == e.term and self._handed.get(e.node) != led:
            seconds = f"{(e.time - self._since) / 1e9:.3g}"
            self._stays.violation(self._since_seq, since, e.seq, node=e.node, term=led, seconds=seconds)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._counts, self._stays))

    def finish(self) -> Verdicts:
        """One outcome for each check, once all events were taken."""
        return Verdicts((self._counts.outcome(), self._stays.outcome()))


def sessions_in(text: str, members: frozenset[int]) -> dict[int, int] | None:
    """The session of each member in the text of a configuration, 0 unless it names another; None if it is no text."""
    words = text.split(" ")
    named = dict(zip(words[1::2], words[2::2], strict=True)).get("sessions")
    pairs = [pair.split(":") for pair in named.split(",")] if named else []
    if not all(len(pair) == 2 and all(each.isdecimal() and len(each) < 17 for each in pair) for pair in pairs):
        return None
    return dict.fromkeys(members, 0) | {int(node): int(session) for node, session in pairs if int(node) in members}


HISTORIES = """
== answers-of-members holds
# Node 3 leaves and comes back; until a configuration names a session, and after it, its answers are those of a member.
config voters=1,2,3
n1 start
n1 counted peer=3 session=0
n1 configuration -1 text=1,2 revision 1
n1 configuration -1 text=1,2 learners 3 adding 3 revision 2 sessions 3:2
n1 counted peer=2 session=0
n1 counted peer=3 session=2
n4 start
n4 counted peer=3 session=7
n4 configuration -1 text=1,2 sessions 3

== answers-of-members violated
config voters=1,2,3
n1 start
n1 configuration -1 text=1,2 revision 1
* n1 configuration -1 text=1,2 learners 3 adding 3 revision 2 sessions 3:2
* n1 counted peer=3 session=0

== answers-of-members violated
config voters=1,2,3
n1 start
* n1 configuration -1 text=1,2 revision 1
* n1 counted peer=3 session=0

== answers-of-members violated
config voters=1,2,3
* n1 start
n2 start
n2 configuration -1 text=1,2,3 revision 1
* n1 counted peer=3 session=4

== answers-of-members undecided
# Where no change of the members is recorded at all, there may have been the one that gives this session.
config voters=1,2,3
n1 start
n1 counted peer=3 session=4

== office-is-kept holds
# A leader that is asked to hand on, which hinders nobody, does so and leaves.
config voters=1,2 progress_bound=8000
n1 start
n2 start
n1 term 1
n1 role candidate
n1 vote 1
n2 term 1
n2 vote 1
n1 leader
- fault transfer n1
n1 transfer 2 offset=-1
n1 role follower

== office-is-kept holds
# As is usual, it leaves for the term of the one that it handed on to.
config voters=1,2 progress_bound=8000
n1 start
n2 start
n1 term 1
n1 role candidate
n1 vote 1
n2 term 1
n2 vote 1
n1 leader
n1 transfer 2 offset=-1
n2 term 2
n2 role candidate
n2 vote 2
n1 term 2
n1 role follower

== office-is-kept unexercised
# One that was cut off until just now.
config voters=1 progress_bound=6000
n1 start
n1 term 1
n1 role candidate
n1 vote 1
n1 leader
- fault partition n1
n1 flush
n1 flush
- heal partition
n1 flush
n1 role follower

== office-is-kept unexercised
# Nobody knows whether a member that is not seen to run hinders.
config voters=1 progress_bound=6000
n1 start
n1 term 1
n1 role candidate
n1 vote 1
n1 leader
n1 configuration -1 text=1,2
n1 flush
n1 flush
n1 role follower

== office-is-kept violated
config voters=1 progress_bound=6000
* n1 start
n1 term 1
n1 role candidate
n1 vote 1
* n1 leader
n1 configuration -1 text=1
- fault leave n1
n1 flush
* n1 role follower
"""

FAMILY = Family(
    "office",
    (COUNTS, STAYS),
    frozenset(
        {
            *(Kind.LEADER, Kind.ROLE, Kind.TRANSFER, Kind.CONFIGURATION, Kind.COUNTED, Kind.FAULT, Kind.HEAL),
            *(Kind.START, *END_KINDS),
        }
    ),
    ("time", "node", "f", "role", "term", "peer", "session", "value"),
    OfficeFold,
    RAFT,
    histories=HISTORIES,
)
