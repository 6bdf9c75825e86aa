"""Elections, by reading their events. Source: raft.md#elections."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TypeAlias

from lives import silent
from plain import EXCUSED, GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, wipes


def _wiped(history: History, node: int, since: int, until: int) -> bool:
    """Whether the node's disk was emptied between two events, or that of a node that is not named."""
    return any(wipes(e) and e.node in (node, None) and since < e.seq < until for e in history.events)


def _all_shown(history: History, until: Event) -> bool:
    """Whether every voter is recorded from a start on: none is hidden that may have written before."""
    first: dict[int, Event] = {}
    for e in history.events:
        if e.seq <= until.seq and e.dirty is not None:
            first.setdefault(e.node, e)
    voters = history.everyone(until.seq)
    return bool(voters) and all(v in first and first[v].kind == "start" for v in voters)


def leaders(history: History) -> list[tuple[Event, int, int]]:
    """By whom each term is led, first of all shown by which event: the event, the term, the node.

    A node leads its term if it says so, by an event or its role; if it writes an entry of its own term that nobody
    has written who leads it, unless a record may lack just that; and it led a term if it answers an append of that
    term (raft.md#who-leads). Nobody leads term 0.
    """
    found: dict[tuple[int, int], Event] = {}
    leads: dict[int, int] = {}  # by node, also those that only may lead, since a voter is hidden
    written: dict[int, int] = {}
    blind = _blind(history)
    for e in history.events:
        if e.dirty is None:
            continue

        def alone(e: Event = e) -> bool:
            """Whether no record lacks that another leader, or voter where none is known, wrote the entry before."""
            others = {n for term, n in found if term == e.term} or history.everyone(e.seq)
            return not any(
                first <= e.seq and low <= e.term and (until is None or e.seq < until or e.term <= high)
                for other in others - {e.node}
                for first, until, low, high in blind[other]
            )

        if e.kind == "acked":
            led = any(term == e.entry_term for term, _ in found)
            if led or _all_shown(history, e):
                found.setdefault((e.entry_term, e.node), e)
        if e.kind == "leader" or (e.role == "leader" and e.kind != "term"):
            found.setdefault((e.term, e.node), e)
            if leads.get(e.node) != e.term:
                leads[e.node], written[e.node] = e.term, -1
        if leads.get(e.node) == e.term:
            written[e.node] = max(written[e.node], e.dirty)
        elif e.kind == "append" and e.entry_term == e.term > 0:
            others = [n for n in leads if leads[n] == e.term]
            if not others:
                if not any(term == e.term for term, _ in found) and _all_shown(history, e) and alone():
                    found.setdefault((e.term, e.node), e)
                leads[e.node], written[e.node] = e.term, e.last
            elif e.last > max(written[n] for n in others) and _all_shown(history, e) and alone():
                found.setdefault((e.term, e.node), e)
    return sorted(((e, term, node) for (term, node), e in found.items()), key=lambda t: int(t[0].seq))


Blind: TypeAlias = dict[int, list[tuple[int, int | None, int, int]]]


def _blind(history: History) -> Blind:
    """Whose record may lack its end, by node: since which event, until which start, and the terms of both.

    That is so where a node was cut off, from its last event on: by any end but a stop, or by a start without an end.
    """
    found: dict[int, list[tuple[int, int | None, int, int]]] = defaultdict(list)
    last: dict[int, Event] = {}
    down: set[int] = set()
    for e in history.events:
        n = e.node
        if n is None or (e.dirty is None and e.kind not in GONE):
            continue
        if n in last and n not in down and (e.kind == "start" or (e.kind in GONE and e.kind != "stop")):
            found[n].append((last[n].seq, None, last[n].term, -1))
        if e.kind in GONE:
            down.add(n)
            continue
        if found[n] and found[n][-1][1] is None and e.term >= found[n][-1][2]:
            found[n][-1] = found[n][-1][0], e.seq, found[n][-1][2], e.term
        down.discard(n)
        last[n] = e
    return found


def _forgotten(history: History, vote: Event) -> Event | None:
    """The node's last vote in that term, for another, if its disk was emptied in between: it may vote once more."""
    earlier = [v for v in history.events if v.kind == "vote" and (v.node, v.term) == (vote.node, vote.term)]
    earlier = [v for v in earlier if v.seq < vote.seq]
    if not earlier or earlier[-1].peer == vote.peer:
        return None
    return earlier[-1] if _wiped(history, vote.node, earlier[-1].seq, vote.seq) else None


def one_leader_per_term(history: History) -> Count:
    """Whoever leads a term is compared with the first one.

    A term in which a node has voted twice, since its disk was emptied, may have two leaders; so may any after a disk
    was emptied, in a history that shows no votes.
    """
    count = Count()
    led: set[int] = set()
    for e, term, _ in leaders(history):
        count += JUDGED
        if term in led:
            votes = [v for v in history.events if v.kind == "vote" and v.seq < e.seq]
            twice = any(v.term == term and _forgotten(history, v) for v in votes)
            unknown = not votes and any(wipes(a) and a.seq < e.seq for a in history.events)
            count += EXCUSED if twice or unknown else VIOLATED
        led.add(term)
    return count.if_shown(lacks=bool(led) and not history.has("leader"))


def one_vote_per_term(history: History) -> Count:
    """A vote is compared with the node's last one in the term; a disk that was wiped in between has forgotten it."""
    count = Count()
    last: dict[tuple[int, int], Event] = {}
    for e in history.events:
        if e.kind == "vote":
            count += JUDGED
            before = last.get((e.node, e.term))
            if before is not None and before.peer != e.peer:
                count += EXCUSED if _forgotten(history, e) else VIOLATED
            last[e.node, e.term] = e
    return count.if_shown(lacks=bool(leaders(history)) and not history.has("vote"))


def leader_has_majority(history: History) -> Count:
    """Whoever leads a term has the votes of a majority of the voters, as far as the history shows how they voted."""
    count = Count()
    blind = _blind(history)
    for e, term, node in leaders(history):
        halves = [_votes(history, blind, half, e, term, node) for half in history.halves(node, e.seq)]
        if any(given + hidden < needed for given, hidden, needed in halves):
            count += JUDGED + VIOLATED
        else:
            count += JUDGED if all(given >= needed > 0 for given, _, needed in halves) else UNJUDGED
    led = bool(leaders(history))
    asked = any(e.kind == "vote" and e.peer not in history.everyone(e.seq) for e in history.events)
    void = (bool(history.voters) and (history.stranger or asked)) or history.too_many or (led and not history.voters)
    void = void or history.unreadable
    no_votes = not history.has("vote")
    lacks = led and (no_votes or not history.has("leader"))
    lacks = lacks or (count.unjudged > 0 and history.silent)
    return count._replace(violated=0 if void or no_votes else count.violated, lacking=int(void or lacks))


def _votes(
    history: History, blind: Blind, voters: tuple[int, ...], e: Event, term: int, node: int
) -> tuple[int, int, int]:
    """The votes of these voters for who leads by event ``e``, how many more may have voted so, how many are needed."""
    given = hidden = 0
    for voter in voters:
        reported = [a for a in history.events if a.node == voter and a.seq <= e.seq and a.dirty is not None]
        votes = [a for a in reported if a.kind == "vote" and a.term == term]
        forgotten = [v for a in votes if (v := _forgotten(history, a))]
        given += bool(votes) and (votes[-1].peer == node or any(v.peer == node for v in forgotten))
        lost = any(
            since < e.seq and low <= term and (until is None or term <= high)
            for since, until, low, high in blind[voter]
        )
        hidden += not votes and (not reported or reported[0].term >= term or lost)
    return given, hidden, len(voters) // 2 + 1 if voters else 0


def _is_candidate(e: Event) -> bool:
    """Whether an event shows that its node stands for election, or may: who stands again says only that it moves on."""
    return bool(e.role == "candidate" or (e.kind == "vote" and e.peer == e.node))


def _votes_and_leaders(history: History) -> Count:
    """Who is voted for by another node, or says for the first time in a term that it leads, is or was a candidate."""
    count = Count()
    blind = _blind(history)
    reported: list[Event] = []
    led: set[tuple[int, int]] = set()
    for e in history.events:
        if e.dirty is None:
            continue
        reported.append(e)
        leads = e.kind == "leader" or (e.role == "leader" and e.kind != "term")
        asked = [e.peer] if e.kind == "vote" and e.peer != e.node else []
        if leads and (e.term, e.node) not in led:
            asked.append(e.node)
        for peer in asked:
            own = [a for a in reported if a.node == peer]
            stands = any(_is_candidate(a) and a.term == e.term for a in own)
            if stands or (e.term, peer) in led:
                count += JUDGED
            elif not own or own[0].term >= e.term:
                count += UNJUDGED
            else:
                lost = any(
                    since < e.seq and low <= e.term and (until is None or e.term <= high)
                    for since, until, low, high in blind[peer]
                )
                count += UNJUDGED if lost else JUDGED + VIOLATED
        if leads:
            led.add((e.term, e.node))
    return count


def term_needs_candidate(history: History) -> Count:
    """Nobody moves to a term before its first candidate; one node that only moves to it may have been stopped so."""
    count = _votes_and_leaders(history)
    begun: set[int] = set()  # terms that have a candidate, or began before the history
    early: dict[int, dict[int, int]] = {}  # who moved to a term before, by which event
    stays: set[int] = set()  # terms in which one of those did more
    blind = _blind(history)

    def unseen(term: int, moved: dict[int, int]) -> bool:
        """Whether the record of a node may lack that it was a candidate in a term, before any other moved to it."""
        return bool(silent(history)) or any(
            since < seq and low <= term and (until is None or term <= high)
            for node in blind
            for seq in [min((s for n, s in moved.items() if n != node), default=-1)]
            for since, until, low, high in blind[node]
        )

    at: dict[int, int] = {}
    for e in history.events:
        if e.dirty is None:
            continue
        candidate = _is_candidate(e)
        moved = early.setdefault(e.term, {})
        if e.node not in at:
            begun.add(e.term)
        elif e.term > at[e.node] and e.kind != "start":
            count += JUDGED
            if not candidate and e.term not in begun:
                moved[e.node] = e.seq
        elif e.node in moved and e.kind != "start" and not candidate:
            stays.add(e.term)
        at[e.node] = e.term
        if candidate:
            moved.pop(e.node, None)
            if e.term not in begun:
                for node, seq in moved.items():
                    count += UNJUDGED if unseen(e.term, {node: seq, e.node: e.seq}) else VIOLATED
            begun.add(e.term)
    for term, nodes in early.items():
        if term not in begun and (len(nodes) > 1 or (nodes and term in stays)):
            count += UNJUDGED if unseen(term, nodes) else VIOLATED
    return count.if_shown(void=count.judged > 0 and not (history.has("term") and history.has("role")))


def roles_in_order(history: History) -> Count:
    """In a life and term a node follows, stands, leads and follows again, or does some of that in this order; and it
    does not stand where it voted for another, nor lead where it started and did not stand, nor vote for itself where it
    did not stand. It becomes leader by one event. A start forgets all but the vote, a wiped disk that too."""
    count = Count()
    turns: dict[int, tuple[int, str]] = {}  # by node: its term, and what it has been in it, a letter each
    votes: dict[tuple[int, int], Event] = {}
    may_have_stood: set[int] = set()  # in its life and term: voted for itself, or moved there as a candidate
    said: set[int] = set()  # in its life and term, by an event, that it leads
    told = False
    for e in history.events:
        if e.dirty is None:
            continue
        told = told or e.kind == "role"
        if e.kind == "start" or e.term != turns.get(e.node, (e.term,))[0]:
            may_have_stood.discard(e.node)
            said.discard(e.node)
        role = "leader" if e.kind == "leader" else None if e.kind == "term" else e.role
        letter = {"leader": "l", "candidate": "c", "follower": "f", "learner": "n", None: ""}[role]
        if e.kind == "start":
            count += Count() if role is None else JUDGED + VIOLATED if letter in "lc" else JUDGED
            turns[e.node] = e.term, "sf"
        elif e.node not in turns:
            turns[e.node] = e.term, letter or "f"
        else:
            term, been = turns[e.node]
            been = been if term == e.term else "f"
            if e.kind == "vote" and e.peer == e.node and letter and told:
                stood = bool({*been, letter} & {*"cl"}) or e.node in may_have_stood
                count += JUDGED if stood else JUDGED + VIOLATED
            vote = votes.get((e.node, e.term))
            if letter not in ("", been[-1]):
                elsewhere = vote is not None and not _wiped(history, e.node, vote.seq, e.seq) and vote.peer != e.node
                ordered = bool(re.fullmatch("s?[fn]*c?l?[fn]*", been + letter))
                ready = not re.fullmatch("s[fn]*l", been + letter) or e.node in may_have_stood
                right = ordered and ready and not (letter == "c" and elsewhere)
                count += JUDGED if right else JUDGED + VIOLATED
                been = been + letter if ordered else "f" + letter
            elif e.kind == "leader" and e.node in said:
                count += JUDGED + VIOLATED
            turns[e.node] = e.term, been
        if e.kind == "leader":
            said.add(e.node)
        if e.kind == "vote":
            votes[e.node, e.term] = e
        if _is_candidate(e) and e.kind in ("vote", "term"):
            may_have_stood.add(e.node)
    return count


TWINS: dict[str, Plain] = {
    "one-leader-per-term": one_leader_per_term,
    "one-vote-per-term": one_vote_per_term,
    "leader-has-majority": leader_has_majority,
    "term-needs-candidate": term_needs_candidate,
    "roles-in-order": roles_in_order,
}
