"""Votes go to complete logs: what a voter's log was like when it voted, against what its candidate's was like.

A candidate votes for itself, which tells its log as its requests do. Source: raft.md#log-ok.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind

from ..codes import NULL, VOTE
from ..columns import Columns
from ..contract import Check, Family, Setting, Tally, Verdicts, violated
from .protocol import RAFT

COMPLETE = Check(
    id="votes-go-to-complete-logs",
    rule="A vote goes only to a candidate whose log is at least as up to date, by its last term and then by where it "
    "ends.",
    source=("raft.md#log-ok", "raft.md#votes-go-to-complete-logs"),
    fact="a vote for another node, of which it is recorded by which logs it was given",
    sentence="Node {node}, whose log ended at offset {own} in term {own_term}, voted in term {term} for node {peer}, "
    "whose log ended at offset {end} in term {end_term}.",
    kinds=(Kind.VOTE,),
    columns=("node", "peer", "term", "offset", "entry_term"),
)


class _Vote(NamedTuple):
    seq: int
    node: int
    peer: int
    term: int
    offset: int
    entry_term: int


class VotesFold:
    """Judges the votes of one log; see the module."""

    def __init__(self, setting: Setting) -> None:
        self._tally = Tally(COMPLETE, setting.keep)
        self._stood: dict[int, _Vote] = {}  # by node: its last vote for itself

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        which = np.flatnonzero((columns.kind == VOTE) & (columns.node >= 0))
        for row in columns.rows(which, *_Vote._fields):
            vote = _Vote(*row)
            if vote.node == vote.peer:
                self._stood[vote.node] = vote
            elif NULL not in (vote.offset, vote.entry_term):
                self._judge(vote, self._stood.get(vote.peer))

    def _judge(self, vote: _Vote, stood: _Vote | None) -> None:
        if stood is None or stood.term != vote.term or NULL in (stood.offset, stood.entry_term):
            self._tally.unjudged += 1
            return
        self._tally.judged += 1
        if (stood.entry_term, stood.offset) < (vote.entry_term, vote.offset):
            self._tally.violation(
                *(stood.seq, vote.seq),
                node=vote.node,
                peer=vote.peer,
                term=vote.term,
                own=vote.offset,
                own_term=vote.entry_term,
                end=stood.offset,
                end_term=stood.entry_term,
            )

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        return violated((self._tally,))

    def finish(self) -> Verdicts:
        """The outcome, once all events were taken."""
        return Verdicts((self._tally.outcome(),))


HISTORIES = """
== votes-go-to-complete-logs holds
# A later term counts for more than a longer log. Of the last vote nobody knows by which log it was given.
config voters=1,2,3
n1 start dirty=4
n2 start dirty=9
n3 start
n1 term 3
n1 role candidate
n1 vote 1 offset=4 entry_term=2
n2 term 3
n2 vote 1 offset=9 entry_term=1
n3 term 3
n3 vote 1

== votes-go-to-complete-logs violated
config voters=1,2,3
n1 start dirty=4
n2 start dirty=5
n1 term 3
n1 role candidate
* n1 vote 1 offset=4 entry_term=2
n2 term 3
* n2 vote 1 offset=5 entry_term=2
"""

FAMILY = Family(
    "votes",
    (COMPLETE,),
    frozenset({Kind.VOTE}),
    ("node", "peer", "term", "offset", "entry_term"),
    VotesFold,
    RAFT,
    histories=HISTORIES,
)
