"""Elections: one leader a term, one vote a term and node, a leader has a majority, a term begins with a candidate, and
roles come in order.

Who leads a term is told by what nodes do as well as by what they say: a node leads if an event of the kind ``leader``
or its ``role`` says so, if it is the first to write entries of the term it is in, or if it answers appends of a term.
Elections are rare beside appends: a loop finds the few events that say something of them, and those are judged one by
one with plain dictionaries. Sources: raft.md#elections, raft.md#who-leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from loghistory.schema import END_KINDS, STATE_KINDS, Kind

from ..codes import (
    ACKED,
    APPEND,
    CARRIES_STATE,
    CONFIGURATION,
    ENDS,
    FAULT,
    FAULT_WIPE,
    LEADER,
    NULL,
    OTHER,
    ROLE,
    ROLE_CANDIDATE,
    ROLE_LEADER,
    ROLE_LEARNER,
    START,
    STOP,
    TERM,
    VOTE,
)
from ..columns import Array, Columns, Ints
from ..contract import Check, Family, Outcome, Setting, Tally, Verdicts, violated
from ..faults import CAUSES, WIPE
from ..findings import MAX_NODES, Nodes
from ..kernel import kernel
from ..sentences import listed
from .configurations import NOT_READABLE, Configuration, configuration_of
from .protocol import RAFT
from .roles import ROLES_IN_ORDER, Roles
from .voters import UNKNOWN_VOTERS, acts_as_voter, majority_of, recorded_nothing, too_many_nodes

ONE_LEADER = Check(
    id="one-leader-per-term",
    rule="No two nodes lead the same term, whether they say so or act so: by the entries of their own term that they "
    "are the first to write, by the appends of a term that they answer.",
    source=("raft.md#election-majority",),
    fact="a node that leads a term, by what it says or does",
    sentence="Nodes {first} and {second} both lead term {term}.",
    columns=("node", "term"),
)
ONE_VOTE = Check(
    id="one-vote-per-term",
    rule="In each term a node votes for at most one candidate, even across restarts and power loss.",
    source=("raft.md#election-majority", "raft.md#vote-durable"),
    fact="a durable vote",
    sentence="Node {node} voted in term {term} for node {first} and for node {second}.",
    kinds=(Kind.VOTE,),
    columns=("node", "term", "peer"),
)
MAJORITY = Check(
    id="leader-has-majority",
    explained_by=frozenset({Kind.CONFIGURATION}),
    rule="A node leads a term only with the durable votes of a majority of the voters in that term, in a joint "
    "configuration of a majority of both halves.",
    source=("raft.md#election-majority", "raft.md#configuration-in-force"),
    fact="a node that leads a term, by what it says or does",
    sentence="Node {node} leads term {term} with {votes:durable vote|durable votes}; {needed:is|are} needed.",
    kinds=(Kind.VOTE,),
    columns=("node", "term", "peer"),
)
CANDIDATE = Check(
    id="term-needs-candidate",
    rule="A term begins with a candidate: no other node enters it earlier, and a pre-vote raises nobody's term. Votes "
    "go to candidates, and only a candidate leads.",
    source=("raft.md#pre-vote", "raft.md#election-majority"),
    fact="a node that moves to a later term, votes for another one, or says that it leads",
    sentence={
        "too early": "Node {node} moved to term {term} before any node was a candidate in it; node {candidate} was the "
        "first.",
        "no candidate": "No node was a candidate in term {term}, to which these moved: {nodes}.",
        "voted": "Node {node} voted in term {term} for node {peer}, which was not a candidate in it.",
        "led": "Node {node} leads term {term} but was not a candidate in it.",
    },
    columns=("node", "term", "peer"),
)


Halves: TypeAlias = tuple[tuple[int, ...], ...]
"""The sets of voters of each of which a majority must agree."""

_NOBODY = -1
_SAYS, _WRITES, _WRITES_MORE = 1, 2, 3
"""Why an event is looked at: what it says; it writes the first entry of a term; it writes one that no leader of its
term has written, as the last event of the leader that wrote most shows, whose ``seq`` is added. To the end of a process
the ``seq`` of its last event is."""


class _Events(NamedTuple):
    """What is looked at in every event; nodes are indices."""

    seq: Array
    kind: Array
    node: Array
    term: Array
    role: Array
    entry_term: Array
    last_offset: Array
    dirty: Array


class _Observed(NamedTuple):
    """By node index: what its last event told."""

    term: Ints
    role: Ints
    fresh: Ints  # its next event is looked at: the second one in its term, or one that shows that its record goes on
    leads: Ints  # the last term that it led
    written: Ints  # how far its log reached then, by its last event in that term
    written_seq: Ints
    leader: Ints  # who leads its term, as far as it is known
    seen: Ints  # its last event


@kernel
def _look(columns: _Events, observed: _Observed, why: Ints | list[int]) -> None:
    """Find the events that say something of elections."""
    for i in range(len(columns.kind)):
        kind = columns.kind[i]
        node = columns.node[i]
        if kind == FAULT:
            why[i] = _SAYS
        if node < 0 or not CARRIES_STATE[kind]:
            if node >= 0 and kind in ENDS:
                why[i] = _WRITES_MORE + max(observed.seen[node], 0)
                observed.fresh[node] = 1
            continue
        observed.seen[node] = columns.seq[i]
        term = columns.term[i]
        role = columns.role[i]
        if term != NULL and term != observed.term[node]:
            observed.term[node] = term
            observed.fresh[node] = 1
            observed.leader[node] = _NOBODY
            why[i] = _SAYS
        elif observed.fresh[node]:
            observed.fresh[node] = 0
            why[i] = _SAYS
        # A node that moves to a term states the role that it had before.
        says = kind != TERM and (kind == LEADER or role == ROLE_LEADER)
        if kind in (VOTE, LEADER, ROLE, START, CONFIGURATION) or role != observed.role[node]:
            why[i] = _SAYS
        observed.role[node] = OTHER if kind == TERM else role
        if says and observed.leads[node] != term:
            observed.leads[node] = term
            observed.written[node] = -1
        if observed.leads[node] == term:
            observed.written[node] = max(observed.written[node], columns.dirty[i])
            observed.written_seq[node] = columns.seq[i]
        elif kind == APPEND and columns.entry_term[i] == term > 0:
            leader = observed.leader[node]
            if leader == _NOBODY or observed.leads[leader] != term:
                leader = _NOBODY
                for other in range(len(observed.leads)):
                    if observed.leads[other] == term:
                        leader = other
                observed.leader[node] = leader
            if leader == _NOBODY:
                why[i] = _WRITES
                observed.leads[node] = term
                observed.written[node] = columns.last_offset[i]
                observed.written_seq[node] = columns.seq[i]
            elif columns.last_offset[i] > observed.written[leader]:
                most = leader
                for other in range(len(observed.leads)):
                    if observed.leads[other] == term and observed.written[other] > observed.written[most]:
                        most = other
                if columns.last_offset[i] > observed.written[most]:
                    why[i] = _WRITES_MORE + observed.written_seq[most]
        if why[i] >= _WRITES:
            for other in range(len(observed.fresh)):
                observed.fresh[other] = 1
        if kind == ACKED and columns.entry_term[i] != observed.leads[node]:
            why[i] = _SAYS


@dataclass(slots=True)
class _Term:
    """What is known of one term."""

    leader: tuple[int, int] | None = None  # node, seq
    leaders: set[int] = field(default_factory=set)
    votes: dict[int, tuple[int, int]] = field(default_factory=dict)  # voter -> candidate, seq
    forgotten: list[tuple[int, int, int]] = field(default_factory=list)  # votes that a wiped disk took: node as well
    begun: int | None = None  # the event that showed its first candidate, or that it began before the history
    early: dict[int, int] = field(default_factory=dict)  # who moved to it before that, and by which event
    stays: int | None = None  # the event by which one of those did more in it than to move to it
    stood: set[int] = field(default_factory=set)  # its candidates, and who leads it
    led: set[int] = field(default_factory=set)  # who says that it leads it


@dataclass(slots=True)
class _Node:
    """What is known of one node."""

    begun: bool  # its first event was a start
    first_term: int
    term: int
    seq: int  # the last event that said something of elections


@dataclass(slots=True)
class _Suspect:
    """A node that seems to lead, as it writes what nobody is seen to have written: unless a record lacks that."""

    seq: int
    node: int
    number: int  # the term
    term: _Term  # as it was then
    written: int
    nodes: dict[int, _Node]  # as they were then
    halves: Halves  # of its configuration then
    waiting: set[int]  # whose next event shows whether their records go on


class _Unstood(NamedTuple):
    """A node that is voted for, or leads, and is not seen to have been a candidate by then."""

    peer: int
    seq: int
    node: int
    term: int
    way: str


class _Few(NamedTuple):
    """A leader without the votes of a majority: the votes for it, what the others did, and who of them is not seen to
    have voted; how many more may have."""

    given: list[int]
    others: dict[int, int]
    silent: set[int]
    hidden: int
    needed: int
    seq: int
    node: int
    term: int


class ElectionsFold:
    """Judges the elections of one log."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._voters = {*setting.voters}  # of all configurations so far
        self._configurations: dict[int, Halves] = {}  # by node; that of others is the first one
        self._changes = False
        self._unreadable = False
        self._indices = Nodes(setting.voters)
        numbers = {name: np.full(MAX_NODES, NULL, dtype=np.int64) for name in _Observed._fields}
        numbers["role"][:] = OTHER
        for name in ("fresh", "leader"):
            numbers[name][:] = _NOBODY if name == "leader" else 0
        self._observed = _Observed(**numbers)
        self._terms: dict[int, _Term] = {}
        self._nodes: dict[int, _Node] = {}
        self._leaders = Tally(ONE_LEADER, setting.keep)
        self._votes = Tally(ONE_VOTE, setting.keep)
        self._majorities = Tally(MAJORITY, setting.keep)
        self._candidates = Tally(CANDIDATE, setting.keep)
        self._roles = Roles(setting.keep)
        self._wiped: dict[int, int] = {}  # by node, the last event that emptied its disk
        self._seen: set[int] = set()  # kinds
        self._stranger: int | None = None
        self._named: set[int] = set()  # nodes of which anything is told
        self._down: set[int] = set()
        self._blind: dict[int, list[tuple[int, int, int | None]]] = {}  # by node, after which event, in which terms
        self._suspects: list[_Suspect] = []
        self._without: list[_Few] = []
        self._unstood: list[_Unstood] = []
        self._early: list[tuple[int, int, int, int, int]] = []  # term, its first candidate, event; who moved, event

    def feed(self, columns: Columns) -> None:
        """Take the next events; those that say something of elections are judged one by one."""
        rows = len(columns.seq)
        compiled = self._setting.compiled
        nodes = self._indices.indices(columns.node)
        events = _Events(*(nodes if name == "node" else getattr(columns, name) for name in _Events._fields))
        why: Ints | list[int] = np.zeros(rows, dtype=np.int64) if compiled else [0] * rows
        _look.form(compiled)(events if compiled else _Events(*(each.tolist() for each in events)), self._observed, why)
        reasons = np.asarray(why)
        places = np.flatnonzero(reasons)
        if not len(places):
            return
        shown = columns.rows(places, "seq", "kind", "node", "term", "peer", "f", "role", "entry_term", "value")
        for row, reason in zip(shown, reasons[places].tolist(), strict=True):
            seq, kind, node, term, peer, f, role, entry_term, value = row
            if node >= 0:
                self._named.add(node)
            if kind == FAULT:
                if f == FAULT_WIPE:
                    self._wiped[node] = seq
            elif kind in ENDS:
                self._end(node, reason - _WRITES_MORE, stopped=kind == STOP)
            elif node >= 0 and CARRIES_STATE[kind]:
                self._seen.add(kind)
                self._goes_on(node, term, starts=kind == START)
                if kind == START:
                    self._configurations.pop(node, None)
                elif kind == CONFIGURATION:
                    self._configured(node, configuration_of(self._setting.words, value))
                if kind == ACKED and entry_term != NULL:
                    self._answers(seq, node, entry_term)
                if term != NULL:
                    self._event(seq, kind, node, term, peer, role, reason)

    def _event(self, seq: int, kind: int, node: int, term: int, peer: int, role: int, reason: int) -> None:
        known = self._terms.setdefault(term, _Term())
        # Who moves to a term as a candidate may stand in it: one that stands again says no more.
        candidate = role == ROLE_CANDIDATE or (kind == VOTE and peer == node)
        leads = kind != TERM and (kind == LEADER or role == ROLE_LEADER)
        before = self._nodes.get(node)
        if before is None:
            before = self._nodes[node] = _Node(kind == START, term, term, seq)
            if known.begun is None:
                known.begun = seq
        elif term > before.term and kind != START:
            self._candidates.judged += 1
            if not candidate and known.begun is None:
                known.early[node] = seq
        elif node in known.early and kind != START and not candidate:
            known.stays = seq if known.stays is None else known.stays
        before.term, before.seq = term, seq
        vote = known.votes.get(node)
        vote = vote if vote and vote[1] > self._emptied(node) else None
        itself = kind == VOTE and peer == node and ROLE in self._seen
        self._roles.take(seq, kind, node, term, role, vote, stands=candidate, itself=itself)
        acts = role in (ROLE_CANDIDATE, ROLE_LEADER) or kind in (VOTE, LEADER)
        if acts if node not in self._voters else role == ROLE_LEARNER and not self._changes:
            self._stranger = node
        elif kind == VOTE and peer not in self._voters:
            self._stranger = peer
        if candidate:
            known.stood.add(node)
            self._begun(known, seq, node, term)
        if kind == VOTE:
            if peer != node:
                self._stands(known, peer, seq, node, term, "voted")
            self._vote(known, seq, node, term, peer)
        if leads and node not in known.led:
            known.led.add(node)
            self._stands(known, node, seq, node, term, "led")
            known.stood.add(node)
        if leads:
            self._leads(known, seq, node, term)
        elif (reason >= _WRITES_MORE or (reason == _WRITES and known.leader is None)) and self._all_begun():
            self._suspect(known, seq, node, term, reason - _WRITES_MORE if reason >= _WRITES_MORE else -1)

    def _configured(self, node: int, configuration: Configuration | None) -> None:
        self._changes = True
        if configuration is None:
            self._unreadable = True
        else:
            self._configurations[node] = configuration.halves
            self._voters.update(*configuration.halves)

    def _halves(self, node: int) -> Halves:
        """Of whom a majority has to elect ``node``, by the configuration in force there."""
        return self._configurations.get(node, (self._setting.voters,))

    # -- whose record may lack its end -----------------------------------------------------------------------------

    def _suspect(self, known: _Term, seq: int, node: int, term: int, written: int) -> None:
        """``node`` writes an entry of its term first: it leads, if no record lacks that another one wrote it before."""
        others = (known.leaders or self._voters) - {node}
        if any(self._lacks_some(each, term, seq) for each in others):
            return
        then = replace(known, votes=dict(known.votes), forgotten=[*known.forgotten])
        nodes = {each: replace(about) for each, about in self._nodes.items()}
        halves = self._halves(node)
        self._suspects.append(_Suspect(seq, node, term, then, written, nodes, halves, others - self._down))
        self._clear()

    def _lacks_some(self, node: int, term: int, until: int) -> bool:
        """Whether the record of a node may lack something that it did in a term before event ``until``."""
        return any(
            recorded < until and low <= term and (high is None or term <= high)
            for recorded, low, high in self._blind.get(node, ())
        )

    def _may_lack(self, term: int, moved: dict[int, int]) -> bool:
        """Whether the record of a node may lack that it was a candidate in a term, before any other moved to it.

        A voter that recorded nothing at all may have been one in any.
        """
        if any(voter not in self._nodes for voter in self._voters):
            return True
        return any(
            self._lacks_some(each, term, min((seq for node, seq in moved.items() if node != each), default=-1))
            for each in self._blind
        )

    def _end(self, node: int, recorded: int, *, stopped: bool) -> None:
        """A process ended. One that was cut off may have taken the end of its record along."""
        if not stopped and node in self._nodes and node not in self._down:
            self._lose(node, recorded)
        elif stopped:
            self._heard(node)
        self._down.add(node)

    def _goes_on(self, node: int, term: int, *, starts: bool) -> None:
        """A node recorded something; if it starts, no further term is hidden."""
        if not starts:
            self._heard(node)
        elif node in self._nodes and node not in self._down:
            self._lose(node, self._nodes[node].seq)
        self._down.discard(node)
        blind = self._blind.get(node)
        if blind and blind[-1][2] is None and term >= blind[-1][1]:
            blind[-1] = *blind[-1][:2], term

    def _lose(self, node: int, recorded: int) -> None:
        self._blind.setdefault(node, []).append((recorded, self._nodes[node].term, None))
        self._suspects = [each for each in self._suspects if node not in each.waiting]

    def _heard(self, node: int) -> None:
        for each in self._suspects:
            each.waiting.discard(node)
        self._clear()

    def _clear(self) -> None:
        """Those for whom nobody is waited any more do lead."""
        shown = [each for each in self._suspects if not each.waiting]
        self._suspects = [each for each in self._suspects if each.waiting]
        for each in shown:
            self._leads(self._terms[each.number], each.seq, each.node, each.number, each)

    def _all_begun(self) -> bool:
        voters = self._voters
        return bool(voters) and all(voter in self._nodes and self._nodes[voter].begun for voter in voters)

    def _answers(self, seq: int, node: int, term: int) -> None:
        """``node`` answered an append of ``term``, as only the node that led it does."""
        known = self._terms.setdefault(term, _Term())
        if known.leader is not None or self._all_begun():
            self._leads(known, seq, node, term)

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._leaders, self._votes, self._majorities, self._candidates, self._roles.tally))

    def _vote(self, known: _Term, seq: int, node: int, term: int, peer: int) -> None:
        self._votes.judged += 1
        earlier = known.votes.setdefault(node, (peer, seq))
        if earlier[0] == peer:
            return
        wiped = self._emptied(node)
        if earlier[1] < wiped:
            self._votes.excuse(CAUSES[WIPE], (node,), wiped)
            known.forgotten.append((node, *earlier))
        else:
            self._votes.violation(earlier[1], seq, node=node, term=term, first=earlier[0], second=peer)
        known.votes[node] = (peer, seq)

    def _leads(self, known: _Term, seq: int, node: int, term: int, shown: _Suspect | None = None) -> None:
        """``node`` leads ``term``; ``shown``: told by what it wrote."""
        if node in known.leaders:
            return
        known.leaders.add(node)
        self._leaders.judged += 1
        if known.leader is None:
            known.leader = (node, seq)
        elif known.forgotten:
            # Only a node that voted twice, since its disk was emptied in between, can give a term two leaders.
            voter = known.forgotten[0][0]
            self._leaders.excuse(CAUSES[WIPE], (voter,), self._emptied(voter))
        elif self._wiped and VOTE not in self._seen:
            self._leaders.excuse(CAUSES[WIPE], first=max(self._wiped.values()))
        else:
            # The event that shows that another leader had not written that far.
            written = shown.written if shown is not None else -1
            self._leaders.violation(known.leader[1], written, seq, term=term, first=known.leader[0], second=node)
        if shown is None:
            self._count_votes(known, self._nodes, self._halves(node), seq, node, term)
        else:
            self._count_votes(shown.term, shown.nodes, shown.halves, seq, node, term)

    def _count_votes(
        self, known: _Term, nodes: dict[int, _Node], halves: Halves, seq: int, node: int, term: int
    ) -> None:
        found = [self._votes_of(half, known, nodes, seq, node, term) for half in halves]
        short = next((each for each in found if len(each.given) + each.hidden < each.needed), None)
        if short is not None:
            self._without.append(short)
        elif all(len(each.given) >= each.needed > 0 for each in found):
            self._majorities.judged += 1
        else:
            self._majorities.unjudged += 1

    def _votes_of(
        self, half: Sequence[int], known: _Term, nodes: dict[int, _Node], seq: int, node: int, term: int
    ) -> _Few:
        given: list[int] = []
        others: dict[int, int] = {}
        silent: set[int] = set()
        hidden = 0
        for voter in half:
            vote, about = known.votes.get(voter), nodes.get(voter)
            vote = next((each[1:] for each in known.forgotten if each[:2] == (voter, node)), vote)
            if vote is not None and vote[0] == node:
                given.append(vote[1])
            elif vote is not None:
                others[voter] = vote[1]
            elif about is None or about.first_term >= term:
                hidden += 1
            else:
                others[voter] = about.seq
                silent.add(voter)
        return _Few(given, others, silent, hidden, majority_of(half), seq, node, term)

    def _judge_majorities(self) -> None:
        """Who led without a majority, unless the records of those that are not seen to have voted may lack that."""
        for given, others, silent, hidden, needed, seq, node, term in self._without:
            lost = sum(self._lacks_some(voter, term, seq) for voter in silent)
            if len(given) + hidden + lost >= needed:
                self._majorities.unjudged += 1
                continue
            self._majorities.judged += 1
            shown = *given, *others.values(), seq
            self._majorities.violation(*shown, node=node, term=term, votes=len(given), needed=needed)

    def _emptied(self, node: int) -> int:
        """The last event that emptied the disk of ``node``, or of a node that is not named; -1."""
        return max(self._wiped.get(node, -1), self._wiped.get(-1, -1))

    def _begun(self, known: _Term, seq: int, node: int, term: int) -> None:
        """``node`` is a candidate: whoever moved to the term before the first one had no reason to."""
        known.early.pop(node, None)
        if known.begun is not None:
            return
        known.begun = seq
        self._early += [(term, node, seq, early, moved) for early, moved in known.early.items()]

    def _stands(self, known: _Term, peer: int, seq: int, node: int, term: int, way: str) -> None:
        """``node`` votes for ``peer``, or leads and is ``peer`` itself: was that one a candidate before?"""
        about = self._nodes.get(peer)
        if peer in known.stood:
            self._candidates.judged += 1
        elif about is None or about.first_term >= term:
            self._candidates.unjudged += 1
        else:
            self._unstood.append(_Unstood(peer, seq, node, term, way))

    def _judge_votes(self) -> None:
        """Who was voted for or led, and was no candidate, unless its record may lack that."""
        for peer, seq, node, term, way in self._unstood:
            if self._lacks_some(peer, term, seq):
                self._candidates.unjudged += 1
            else:
                self._candidates.judged += 1
                self._candidates.violation(seq, way=way, node=node, term=term, peer=peer)

    def finish(self) -> Verdicts:
        """Judge terms that never had a candidate, and answer."""
        for each in self._suspects:
            each.waiting.clear()  # whoever was not heard of any more was not cut off either
        self._clear()
        self._judge_majorities()
        self._judge_votes()
        for term, node, seq, early, moved in self._early:
            if self._may_lack(term, {early: moved, node: seq}):
                self._candidates.unjudged += 1
            else:
                self._candidates.violation(moved, seq, way="too early", node=early, term=term, candidate=node)
        for term, known in self._terms.items():
            # One node alone may be a candidate that was stopped at once.
            if known.begun is None and (len(known.early) > 1 or (known.early and known.stays is not None)):
                if self._may_lack(term, known.early):
                    self._candidates.unjudged += 1
                    continue
                nodes = listed(sorted(known.early))
                shown = [*known.early.values()]
                if len(shown) == 1 and known.stays is not None:
                    shown.append(known.stays)
                self._candidates.violation(*shown, way="no candidate", nodes=nodes, term=term)
        void, why = self._indices.too_many is not None, self._indices.too_many
        return Verdicts(
            (
                self._leaders.outcome(why or self._lacks(LEADER), void=void),
                self._votes.outcome(why or self._lacks(VOTE), void=void),
                self._outcome_of_majorities(why),
                self._outcome_of_candidates(why),
                self._roles.tally.outcome(why, void=void),
            )
        )

    def _lacks(self, kind: int) -> str | None:
        """Why the history does not show elections, if no event of a kind occurs that belongs to them."""
        if kind in self._seen or not self._leaders.judged:
            return None
        return f"nodes lead, but no {_NAMES[kind]} is recorded"

    def _outcome_of_majorities(self, why: str | None) -> Outcome:
        tally = self._majorities
        if why is None and self._setting.voters and self._stranger is not None:
            why = acts_as_voter(self._stranger, self._setting.voters)
        if why is None and self._unreadable:
            why = NOT_READABLE
        nodes, named = self._setting.nodes, len(self._named | self._voters)
        if why is None and 0 < nodes < named:
            why = too_many_nodes(named, nodes)
        if why is None and not self._setting.voters and self._leaders.judged:
            why = UNKNOWN_VOTERS
        void = why is not None or VOTE not in self._seen
        everyone = dict.fromkeys((*self._setting.voters, *sorted(self._voters)))
        silent = [voter for voter in everyone if voter not in self._nodes]
        if why is None and silent and tally.unjudged:
            why = recorded_nothing(silent)
        return tally.outcome(why or self._lacks(VOTE) or self._lacks(LEADER), void=void)

    def _outcome_of_candidates(self, why: str | None) -> Outcome:
        """Terms that nobody begins show a violation only if candidates are recorded at all."""
        tally = self._candidates
        if not tally.judged or why is not None:
            return tally.outcome(why, void=why is not None)
        missing = [_NAMES[kind] for kind in (TERM, ROLE) if kind not in self._seen]
        if not missing:
            return tally.outcome()
        return tally.outcome(f"nodes change their term, but no {' and no '.join(missing)} is recorded", void=True)


_NAMES = {LEADER: "leader event", VOTE: "vote", TERM: "term event", ROLE: "role event"}


FAMILY = Family(
    "elections",
    (ONE_LEADER, ONE_VOTE, MAJORITY, CANDIDATE, ROLES_IN_ORDER),
    STATE_KINDS | END_KINDS | {Kind.FAULT},
    ("node", "term", "peer", "f", "role", "entry_term", "last_offset", "dirty", "value"),
    ElectionsFold,
    RAFT,
)
