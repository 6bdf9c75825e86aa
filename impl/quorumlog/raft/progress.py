"""What a leader knows of one follower (documents.md#raft-recovery-leader)."""

from __future__ import annotations

from quorumlog.quorum import NOTHING


class Progress:
    """One follower as its leader sees it. Offsets are inclusive, -1 means none.

    ``match``: up to here the logs are known to be equal. ``dirty``, ``flushed``: as the follower last reported; what
    that counts for is in the leader's ``durable_on`` and ``replicated_on`` (raft.md#durable, raft.md#replicated).
    ``last_sent``: end of what was sent in order; the next request begins behind it
    (documents.md#raft-simplification-recovery). ``heard``: when it last answered in this term, or the time of the
    election (raft.md#check-quorum).
    """

    __slots__ = (
        "commit_sample",
        "dirty",
        "flushed",
        "heard",
        "in_flight",
        "last_append",
        "last_reply",
        "last_sent",
        "match",
        "previous",
        "reading",
        "recovering",
        "requested",
        "sequence",
        "unflushed_bytes",
    )

    def __init__(self, last_sent: int, heard: int) -> None:
        self.heard = heard
        self.match = NOTHING
        self.dirty = NOTHING
        self.flushed = NOTHING
        self.last_sent = last_sent
        self.previous = last_sent
        self.sequence = 0
        self.last_append = 0
        self.last_reply = 0
        self.in_flight = 0
        self.recovering = False
        self.reading = 0  # ticket of the log read that recovery waits for, else 0
        self.requested = False  # a recovery request is on its way; never two at a time
        self.commit_sample = NOTHING
        self.unflushed_bytes = 0  # sent by recovery since the follower was last asked to flush

    def next_sequence(self) -> int:
        """Return the number of the next request to this follower: one more than the last (raft.md#reply-order)."""
        self.sequence += 1
        return self.sequence
