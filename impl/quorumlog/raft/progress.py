"""What a leader knows of one follower (documents.md#raft-recovery-leader), and what it is to be sent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from quorumlog.quorum import NOTHING
from quorumlog.storage.batch import RecordBatch


@dataclass(slots=True)
class Round:
    """Batches that were written together, as followers are sent them: they follow (previous, previous_term).

    ``requests``: the appends whose memory it holds as long as ``holders`` still need the batches.
    """

    previous: int
    previous_term: int
    batches: tuple[RecordBatch, ...]
    flush: bool
    requests: tuple[int, ...] = ()
    holders: int = 0

    @property
    def end(self) -> int:
        """The last offset that a follower has with it."""
        return self.batches[-1].last_offset if self.batches else self.previous


class Progress:
    """One follower as its leader sees it. Offsets are inclusive, -1 means none.

    ``match``: up to here the logs are known to be equal. ``dirty``, ``flushed``: as the follower last reported; what
    that counts for is in the leader's ``durable_on`` and ``replicated_on`` (raft.md#durable, raft.md#replicated).
    ``last_sent``: end of what was sent in order; the next request begins behind it
    (documents.md#raft-simplification-recovery). ``unanswered``: the sequences of its requests in flight, ``waiting``:
    the rounds that it is sent when it has a free slot (raft.md#in-flight). ``heard``: when it last answered in this
    term, or the time of the election (raft.md#check-quorum). ``may_recover``: whether its last answer allows a recovery
    (raft.md#may-recover). ``session``: the one of its answers, as far as the history tells it.
    """

    __slots__ = (
        "commit_sample",
        "dirty",
        "flushed",
        "heard",
        "last_append",
        "last_reply",
        "last_sent",
        "match",
        "may_recover",
        "position",
        "previous",
        "reading",
        "recovering",
        "requested",
        "sequence",
        "session",
        "unanswered",
        "unflushed_bytes",
        "waiting",
    )

    def __init__(self, last_sent: int, heard: int, sequence: int = 0) -> None:
        self.heard = heard
        self.match = NOTHING
        self.dirty = NOTHING
        self.flushed = NOTHING
        self.last_sent = last_sent
        self.previous = last_sent
        self.sequence = sequence
        self.last_append = 0
        self.last_reply = 0
        self.unanswered: set[int] = set()
        self.waiting: deque[Round] = deque()
        self.recovering = self.may_recover = False
        self.reading = 0  # ticket of the log read that recovery waits for, else 0
        self.requested = False  # a recovery request is on its way; never two at a time
        self.commit_sample = self.session = NOTHING
        self.position = 0  # up to where it has this log's snapshot, in bytes
        self.unflushed_bytes = 0  # sent by recovery since the follower was last asked to flush

    @property
    def end(self) -> int:
        """Up to where it has been or will be sent the log in order."""
        return self.waiting[-1].end if self.waiting else self.last_sent

    def next_sequence(self) -> int:
        """Return the number of the next request to this follower: one more than the last (raft.md#reply-order)."""
        self.sequence += 1
        return self.sequence
