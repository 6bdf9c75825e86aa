"""Terms, votes and leaders. Source: raft.md#elections."""

from __future__ import annotations

from enum import StrEnum

from ..vocabulary import WORD, Column, EventKind, Vocabulary, Words
from .log import STATE


class Role(StrEnum):
    """Words of the column ``role``: what a node is in its term."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEARNER = "learner"


VOCABULARY = Vocabulary(
    "elections",
    "terms, votes and leaders",
    kinds=(
        EventKind(
            "term", "The node moved to a later term (in memory).", (), state=STATE, may_carry=("role", "visible")
        ),
        EventKind(
            "vote",
            "The node's vote for `peer` in `term` is durable. Its log then ended at `offset` in `entry_term`.",
            ("peer",),
            state=STATE,
            may_carry=("visible", "offset", "entry_term"),
        ),
        EventKind("leader", "The node won the election of `term`.", (), state=STATE, may_carry=("visible",)),
        EventKind(
            "transfer",
            "The leader, whose log ends at `offset`, hands its leadership on to `peer`.",
            ("peer", "offset"),
            state=STATE,
            may_carry=("role", "visible"),
        ),
        EventKind("role", "The node took another role.", ("role",), state=STATE, may_carry=("visible",)),
    ),
    columns=(Column(14, "role", WORD, "role of the node in its term, after the event"),),
    words=(
        Words(
            "role",
            (),
            {
                Role.LEADER: "appends for clients and sends to the others",
                Role.FOLLOWER: "takes what a leader sends",
                Role.CANDIDATE: "asks for votes",
                Role.LEARNER: "takes what a leader sends and has no vote",
            },
        ),
    ),
)
