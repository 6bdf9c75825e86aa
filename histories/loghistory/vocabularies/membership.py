"""Who is in a group. Source: raft.md#membership.

A configuration in ``text`` names nodes by number: ``0,1,2 old 2,3,4 learners 5 revision 7 sessions 5:7``. First come
the voters, then, each under its word and left out where there are none, the old voters of a joint configuration, the
learners, those that a change is still ``adding``, ``removing`` or ``demoting``, the revision, and the sessions that are
not 0.
"""

from __future__ import annotations

import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary
from .log import STATE

VOCABULARY = Vocabulary(
    "membership",
    "who is in a group",
    kinds=(
        EventKind(
            "configuration",
            "The configuration in `text`, the entry at `offset`, is in force on the node from now on. -1: the node "
            "began with it.",
            ("offset", "text"),
            state=STATE,
            may_carry=("role", "visible"),
        ),
        EventKind(
            "counted",
            "The leader begins to count what `peer` answers, as the member of that `session`.",
            ("node", "peer", "session"),
            may_carry=("term",),
        ),
    ),
    columns=(Column(40, "session", pa.int64(), "the revision of the change that added a member; 0: none did"),),
)
