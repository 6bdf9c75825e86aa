"""What a follower does with append_entries and heartbeats.

It skips the batches it already holds (raft.md#skip-duplicates, ghost-batches.md#receive-order), truncates only at a
real mismatch (raft.md#truncation) and never what it knows to be committed (raft.md#cut-below-commit), and answers a
request that asks for a flush once the flush is done (raft.md#follower-flush); all others are answered at once. If the
leader has given up what it lacks, it installs the leader's snapshot, which comes in parts (raft.md#snapshot-transfer).
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from quorumlog.events import Note
from quorumlog.quorum import NOTHING
from quorumlog.raft.elections import Elections
from quorumlog.raft.ghosts import ghosts
from quorumlog.raft.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    SnapshotReply,
)
from quorumlog.raft.rules import Rules
from quorumlog.raft.snapshot import MOST_SNAPSHOT_BYTES, Snapshot
from quorumlog.raft.state import Configuration, Restored
from quorumlog.storage.batch import GHOST, RecordBatch


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request, without its batches, whose reply waits for a flush up to ``verified``."""

    sender: int
    request: AppendEntries
    verified: int


class Follower(Elections):
    """The receiving side of replication; see the module for what it decides."""

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        super().__init__(configuration, restored, rules)
        self._waiting: list[_Waiting] = []
        self._arriving: tuple[int, bytes] = (NOTHING, b"")  # the snapshot up to this offset, as far as it is here

    def _accept_leader(self, sender: int, term: int) -> bool:
        """Follow the sender if its term allows it; False if its request is to be refused."""
        if term < self.term or (term == self.term and self.role == "leader"):
            return False
        if term > self.term or self.role != "follower" or self.leader != sender:
            self._follow(term, sender)
        self._hear()
        return True

    def _known_committed(self) -> int:
        """Up to where this log is known to be committed, also just after a restart (ghost-batches.md#gap-is-committed).

        Every later leader holds it, or what replaced it.
        """
        return max(self.commit, self.index.gap_end)

    def _holds(self, offset: int, term: int) -> bool:
        known = offset <= self._known_committed()
        return known or (offset <= self.index.dirty and self.index.term(offset) == term)

    def _learn(self, commit: int, visible: int, verified: int) -> None:
        """Take over the leader's commit index and visible offset, as far as this log is known to be the leader's."""
        if commit > self.commit:
            self._set_commit(self.rules.follower_commit(self.commit, commit, self.flushed, verified))
        shown = self.rules.follower_visible(visible, self.index.dirty, verified)
        self.majority_replicated = max(self.majority_replicated, shown)
        self.visibility_upper_bound = max(self.visibility_upper_bound, shown)
        self._show_visible()

    def _append_entries(self, sender: int, request: AppendEntries) -> None:
        if not self._accept_leader(sender, request.term):
            self._reply_append(sender, request, None)
            return
        if request.recovery:
            self.slots.take(self, by_force=True)
        gaps = any(batch.kind is GHOST for batch in request.batches)
        holds = self._holds(request.previous, request.previous_term) and not (gaps and self._saving_term)
        verified = self._take(request) if holds else None
        if verified is None:
            self._reply_append(sender, request, None, may_recover=self.slots.take(self))
            return
        self._learn(request.commit, request.visible, verified)
        if request.flush and self.flushed < verified:
            self._waiting.append(_Waiting(sender, structs.replace(request, batches=()), verified))
            self._require_flush(self.index.dirty)
        else:
            self._reply_append(sender, request, verified)
            self._debounce_flush()

    def _take(self, request: AppendEntries) -> int | None:
        """Append what is new in the request; return up to where this log is the leader's then (raft.md#verified).

        If that would remove committed entries nothing is done. They are what the leader has as well, so it is told to
        go on behind them. None if it cannot be what follows them: then a disk has lost what was committed.

        Sources: raft.md#cut-below-commit, ghost-batches.md#receive-order.
        """
        known = self._known_committed()
        missing = request.batches[self._skipped(request.batches, known) :]
        verified = request.batches[-1].last_offset if request.batches else request.previous
        if not missing:
            return verified
        if missing[0].kind is GHOST:
            missing = (
                *ghosts(max(missing[0].base_offset, known + 1), missing[0].last_offset, missing[0].term),
                *missing[1:],
            )
        first = missing[0].base_offset
        if first <= known:
            return known
        if missing[0].term < self.index.term(first - 1):
            return None
        for batch in missing:
            if batch.kind is GHOST:
                self.note("gap", offset=batch.base_offset, last_offset=batch.last_offset, entry_term=batch.term)
        if first <= self.index.dirty:
            self._truncate(first)
            self._waiting = [waiting for waiting in self._waiting if waiting.verified < first]
        self._append(missing)
        return verified

    def _skipped(self, batches: tuple[RecordBatch, ...], known: int) -> int:
        """How many of the batches are skipped: those known to be committed, and all up to the last that is held.

        Behind ``known`` there are no gaps here, and entries of one offset and term are one entry.
        """
        held = 0
        for at, batch in enumerate(batches):
            last = batch.last_offset
            if last <= known or (
                batch.kind is not GHOST and self.rules.batch_matches(self.index.term(last), batch.term)
            ):
                held = at + 1
        return held

    def _flushed_as_follower(self) -> None:
        """Answer the requests whose flush is done; the replies carry the offsets after it."""
        still = []
        for waiting in self._waiting:
            if waiting.request.term != self.term:
                continue
            if waiting.verified <= self.flushed:
                self._reply_append(waiting.sender, waiting.request, waiting.verified)
            else:
                still.append(waiting)
        self._waiting = still

    def _reply_append(self, to: int, request: AppendEntries, match: int | None, *, may_recover: bool = True) -> None:
        """Answer a request: with success up to ``match``, or without if that is None."""
        offsets = NOTHING if match is None else match, self.flushed, self.index.dirty
        self._reply(to, request, AppendReply(self.term, request.sequence, match is not None, *offsets, may_recover))

    def _snapshot_sent(self, sender: int, request: InstallSnapshot) -> None:
        """Take the next part of a snapshot; with the last one, install it."""
        success = False
        if self._accept_leader(sender, request.term):
            self.slots.take(self, by_force=True)
            known = request.last <= self._known_committed()
            success = known or (not self._saving_term and self._take_part(request))
        match = request.last if success else NOTHING
        last, part = self._arriving
        offsets = self.flushed, self.index.dirty, last, len(part)
        reply = SnapshotReply(self.term, request.sequence, success, match, *offsets)
        self._reply(sender, request, reply)

    def _take_part(self, request: InstallSnapshot) -> bool:
        """Take a part of a snapshot, unless it does not follow what is here; True if the snapshot is installed by it.

        Source: raft.md#snapshot-transfer.
        """
        last, part = self._arriving if request.position else (request.last, b"")
        if (request.last, request.position) != (last, len(part)):
            return False
        said = {"offset": last, "count": len(part), "bytes": len(request.data)}
        self._effects.append(Note("part", {"term": self.term, **said}))
        part += request.data
        self._arriving = last, part
        if not request.done and len(part) < MOST_SNAPSHOT_BYTES:
            return False
        self._arriving = NOTHING, b""
        try:
            snapshot = Snapshot.decode(part)
        except ValueError:
            return False
        if snapshot.last != last:
            return False
        self._install(snapshot)
        return True

    def _heartbeat(self, sender: int, request: Heartbeat) -> None:
        accepted = self._accept_leader(sender, request.term)
        success = accepted and self._holds(request.previous, request.previous_term)
        if success:
            self.slots.give_back(self)
            self._learn(request.commit, request.visible, request.previous)
        may_recover = success or (accepted and self.slots.take(self))
        offsets = request.previous if success else NOTHING, self.flushed, self.index.dirty
        self._reply(sender, request, HeartbeatReply(self.term, request.sequence, success, *offsets, may_recover))
