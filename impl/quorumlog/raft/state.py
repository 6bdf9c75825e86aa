"""What every replica does, whatever its role: its log's offsets, flushes, durable votes, notes for the history.

An append that must be durable starts a flush at once, everything else is flushed after 256 KiB or 100 ms
(raft.md#flush, raft.md#flush-debounce, documents.md#raft-recovery-flushing). Several flushes may be in flight;
``accept_flush`` and ``flushed_after`` decide what a finished one counts for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from quorumlog.events import Append, CancelTimer, Effect, Note, Reset, Send, SetTimer, StartFlush, Trim, Truncate
from quorumlog.quorum import NOTHING, Voters
from quorumlog.raft.events import Apply, Compact, KeepSnapshot, SaveVote, TakeSnapshot, Timer
from quorumlog.raft.index import LogIndex
from quorumlog.raft.members import NO_SESSION, Members
from quorumlog.raft.messages import Answer, AnyMessage, OfLeaders, Request
from quorumlog.raft.rules import NOBODY, Rules
from quorumlog.raft.slots import RecoverySlots
from quorumlog.raft.snapshot import Snapshot
from quorumlog.storage.batch import CONFIGURATION, DATA, GHOST, MAX_GHOST_OFFSETS, NO_KEY, RecordBatch

MILLISECOND = 1_000_000
_APPLIED_AT_ONCE = 10_000
"""Batches, so that a node that has a whole log to apply does not miss its heartbeats."""


class Configuration(msgspec.Struct, frozen=True):
    """A replica's place in its group and its limits (raft.md#in-flight, raft.md#memory-units).

    Times in nanoseconds, sizes in bytes.

    ``voters``: the group that the replica begins with; none of a node that is to be added to one. ``priorities``: who
    is named first among the members is preferred as leader (raft.md#priority); ``longest_log``: who has the longest log
    is (raft.md#longest-log). ``light_heartbeats``: heartbeats that say nothing new carry nothing
    (raft.md#light-heartbeat). ``least_session``: for a node on an empty disk under the name of one that lost its own,
    larger than any session that the name had (raft.md#wiped-disk). ``recoveries``: of how many groups of a process the
    follower is recovered at a time (raft.md#may-recover). ``never_leads``: the node has priority 0 (raft.md#priority).
    ``ghost_offsets``: how many offsets a ghost spans at most (ghost-batches.md#ghost-size).
    """

    node: int
    voters: Voters
    election_timeout: int = 1500 * MILLISECOND
    election_jitter: int = 1500 * MILLISECOND
    heartbeat_interval: int = 150 * MILLISECOND
    flush_delay: int = 100 * MILLISECOND
    flush_bytes: int = 256 << 10
    recovery_chunk_bytes: int = 32 << 10
    recovery_flush_bytes: int = 1 << 20
    snapshot_chunk_bytes: int = 32 << 10
    ghost_offsets: int = MAX_GHOST_OFFSETS
    max_in_flight: int = 16
    round_bytes: int = 1 << 20
    memory_bytes: int = 1 << 20
    enqueue_timeout: int = 5000 * MILLISECOND
    transfer_timeout: int = 10_000 * MILLISECOND
    write_caching: bool = False
    priorities: bool = False
    longest_log: bool = False
    light_heartbeats: bool = False
    never_leads: bool = False
    least_session: int = 0
    recoveries: int = 64


@dataclass(slots=True)
class Restored:
    """What a replica finds on its disk when it starts; an empty disk is the default."""

    term: int = 0
    voted_for: int = NOBODY
    index: LogIndex = field(default_factory=LogIndex)
    members: tuple[tuple[int, Members], ...] = ()  # offset and configuration: of the snapshot, then in the log


@dataclass(frozen=True, slots=True)
class _Flush:
    """A flush in flight: what was dirty when it began, and how often the log had been truncated by then."""

    dirty: int
    truncations: int
    required: bool


class Replica:
    """State and mechanics shared by all roles. Not used alone; see ``core.RaftCore``.

    The offsets are those of raft.md#words: raft.md#dirty, raft.md#flushed, raft.md#commit, raft.md#visible.
    """

    def __init__(self, configuration: Configuration, restored: Restored, rules: Rules) -> None:
        self.configuration = configuration
        self.rules = rules
        self.node = configuration.node
        self._configurations = [(NOTHING, Members(configuration.voters)), *restored.members]  # the last is in force
        self._forget_before(restored.index.start)
        self.members = self._configurations[-1][1]
        self.voters = self.members.voters
        self._session = NO_SESSION  # the one that a leader has named since the start
        self.slots = RecoverySlots(configuration.recoveries)  # whoever runs several groups lets them share one
        self.now = 0
        self.index = restored.index
        self.term = max(restored.term, self.index.last_term)
        self.voted_for = restored.voted_for if self.term == restored.term else NOBODY
        self.role = "follower"
        self.leader = NOBODY
        self.flushed = self.index.dirty
        self.commit = self.applied = self.index.start - 1  # only what is committed, and in a snapshot, is ever trimmed
        self.majority_replicated = self.commit  # majority replicated index, MRI
        self.visibility_upper_bound = self.commit  # visibility upper bound, UB
        self.visible = self.commit
        self.truncations = 0
        self.noting = True  # whether anybody records what happens; a node that does not says so
        self._effects: list[Effect] = []
        self._ticket = 0
        self._flushes: dict[int, _Flush] = {}
        self._flush_target = NOTHING
        self._flush_timer = False
        self._unflushed_bytes = 0
        self._save = 0  # ticket of the newest SaveVote that is not answered, else 0
        self._held: list[Send] = []
        self._votes_held: list[dict[str, int]] = []

    @property
    def dirty(self) -> int:
        """The last appended offset, flushed or not (raft.md#dirty)."""
        return self.index.dirty

    # -- effects -------------------------------------------------------------------------------------------------

    def note(self, kind: str, **columns: Any) -> None:  # noqa: ANN401
        """Record an event in the history, with this replica's current state."""
        if self.noting:
            self._note_with_state(kind, columns)

    def _note_with_state(self, kind: str, columns: dict[str, Any]) -> None:
        columns["term"] = self.term
        columns["role"] = self.role
        columns["dirty"] = self.index.dirty
        columns["flushed"] = self.flushed
        columns["commit"] = self.commit
        columns["visible"] = self.visible
        self._effects.append(Note(kind, columns))

    def _next_ticket(self) -> int:
        self._ticket += 1
        return self._ticket

    def _send(self, to: int, message: AnyMessage) -> None:
        """Send, but not before term and vote are durable: what leaves must survive a power loss.

        A request names the sessions of both nodes (raft.md#session); an answer does so already.
        """
        if (self.members.sessions or self._session > 0) and isinstance(message, Request):
            named = self.members.session(to)
            message = msgspec.structs.replace(message, session=named, sender_session=self.session)
        if self._save and self.rules.vote_is_durable_first():
            self._held.append(Send(to, message))
        else:
            self._effects.append(Send(to, message))

    def _reply(self, to: int, request: Request, reply: Answer) -> None:
        """Send an answer, between the members that the request names."""
        if request.session or request.sender_session:
            session, own = request.session, request.sender_session
            reply = msgspec.structs.replace(reply, session=session, sender_session=own)
        self._send(to, reply)

    def _save_vote(self) -> None:
        self._save = self._next_ticket()
        self._effects.append(SaveVote(self.term, self.voted_for, self._save))

    @property
    def _saving_term(self) -> bool:
        """Whether a power loss may take back the term, so that what is committed in it must not be kept for good.

        Source: raft.md#summed-in-saved-term.
        """
        return bool(self._save)

    def _note_vote(self, candidate: int) -> None:
        """Note a vote, and the log by which it is given, at the moment from which its reply may leave."""
        said = {"term": self.term, "peer": candidate, "offset": self.index.dirty, "entry_term": self.index.last_term}
        if self._save and self.rules.vote_is_durable_first():
            self._votes_held.append(said)
        else:
            self.note("vote", **said)

    def _vote_saved(self, ticket: int) -> bool:
        """Release what waited for the newest save; messages of a past term are dropped as if lost."""
        if ticket != self._save:
            return False
        self._save = 0
        for said in self._votes_held:
            if said["term"] == self.term:
                self.note("vote", **said)
        self._effects.extend(send for send in self._held if send.message.term == self.term)
        self._votes_held.clear()
        self._held.clear()
        return True

    # -- the log -------------------------------------------------------------------------------------------------

    def _append(self, batches: tuple[RecordBatch, ...]) -> None:
        self._effects.append(Append(batches))
        gap = 0
        for batch in batches:
            if batch.kind is GHOST:
                gap += batch.record_count
                continue
            offset, last, term, size = batch.base_offset, batch.last_offset, batch.term, batch.size_bytes
            self.index.append(offset, last, term, gap)
            gap = 0
            self._unflushed_bytes += size
            if self.noting:
                columns = {"offset": offset, "last_offset": last, "entry_term": term, "acks": batch.acks, "bytes": size}
                if batch.kind is DATA:
                    columns["value"] = batch.value
                if batch.key != NO_KEY:
                    columns["key"] = batch.key
                self._note_with_state("append", columns)
            if batch.kind is CONFIGURATION:
                self._configurations.append((batch.base_offset, Members.decode(batch.payload)))
                self._in_force()

    def _truncate(self, offset: int) -> None:
        """Cut the log before ``offset``. Flushed, MRI and UB come down with it, or re-appended entries would count."""
        self._effects.append(Truncate(offset))
        self.index.truncate(offset)
        self.truncations += 1
        last = self.index.dirty  # whole batches go, so it may end well before the offset
        self.flushed = min(self.flushed, last)
        self._flush_target = min(self._flush_target, last)
        self.majority_replicated = min(self.majority_replicated, last)
        self.visibility_upper_bound = min(self.visibility_upper_bound, last)
        self.visible = min(self.visible, last)
        self.note("truncate", offset=last + 1)
        while self._configurations[-1][0] > last and len(self._configurations) > 1:
            self._configurations.pop()
        self._in_force()

    def _trim(self, offset: int) -> None:
        """Remove entries before ``offset``: whole batches, committed ones only, once they are in a snapshot."""
        if self._saving_term:
            return
        start = self.index.start
        self._apply(self.index.batch_end_at_most(min(offset - 1, self.commit)))
        self.index.trim(min(offset, self.applied + 1))
        if self.index.start != start:
            self._forget_before(self.index.start)
            self._take_snapshot(self.index.start - 1, self.index.start_term)
            self.note("trim", offset=self.index.start)

    @property
    def compaction_bound(self) -> int:
        """Up to where compaction may remove what a later batch replaces (ghost-batches.md#superseded)."""
        return min(self.commit, self.applied, self.flushed)

    def _compact(self, gaps: tuple[tuple[int, int], ...]) -> None:
        """Remove batches, each given by its first and last offset; no other offset moves.

        Source: ghost-batches.md#compaction-is-durable.
        """
        if self._saving_term:
            return
        self._effects.append(Compact(gaps))
        self.index.compact(gaps)
        for first, last in gaps:
            self.note("compact", offset=first, last_offset=last)

    def _reset(self, start: int, start_term: int, members: Members) -> None:
        """Begin an empty log at ``start``; everything before it is committed elsewhere, ``members`` with it.

        What this log held before may differ from what was committed there, so none of it is kept.
        """
        if self.index.dirty >= start:
            self._truncate(start)
        self._configurations = [(start - 1, members)]
        self._effects.append(Reset(start, start_term))
        self.index = LogIndex(start, start_term)
        self.truncations += 1
        self.flushed = self._flush_target = start - 1
        self.majority_replicated = self.visibility_upper_bound = start - 1
        self.commit = max(self.commit, start - 1)
        self.visible = start - 1
        self.note("trim", offset=start)
        self._in_force()

    # -- snapshots -------------------------------------------------------------------------------------------------

    def _apply(self, last: int) -> None:
        """Apply the entries up to ``last``, which are committed, or as many of them as may be applied at once.

        Source: raft.md#apply.
        """
        last = self.index.outside_gaps(min(last, self.index.end_of(_APPLIED_AT_ONCE, self.applied)))
        if self.applied < last:
            self._effects.append(Apply(self.applied + 1, last))
            self.note("apply", offset=self.applied + 1, last_offset=last)
            self.applied = last

    def _take_snapshot(self, last: int, term: int) -> None:
        """Keep what the state machine has made of all up to ``last``; then let the log begin behind it.

        Source: raft.md#snapshot.
        """
        offset, members = self._configurations[0]
        self._effects.append(TakeSnapshot(last, term, offset, members.encode()))
        self._effects.append(Trim(last + 1))
        self._note_snapshot(last, term, members, "taken")

    def _install(self, snapshot: Snapshot) -> None:
        """Take over a snapshot of more than is known to be committed here; keep what follows it, if that is known to.

        Sources: raft.md#snapshot-install, raft.md#snapshot-configuration.
        """
        last, members = snapshot.last, Members.decode(snapshot.members)
        self._effects.append(KeepSnapshot(snapshot))
        if last < self.index.dirty and self.index.term(last) == snapshot.term:
            self._begin_behind(snapshot, members)
        else:
            self._reset(last + 1, snapshot.term, members)
        self.applied = last
        self._note_snapshot(last, snapshot.term, members, "installed")

    def _begin_behind(self, snapshot: Snapshot, members: Members) -> None:
        """Give up what a snapshot sums up; what follows it in this log stays."""
        last = snapshot.last
        self.index.trim(last + 1)
        self._configurations = [(snapshot.offset, members), *(each for each in self._configurations if each[0] > last)]
        self._effects.append(Trim(last + 1))
        if self.flushed < last:
            self.flushed = last
            self.note("flush")
        self._set_commit(last)
        self.majority_replicated = max(self.majority_replicated, last)
        self.visibility_upper_bound = max(self.visibility_upper_bound, last)
        self._show_visible()
        self.note("trim", offset=last + 1)
        self._in_force()

    def _note_snapshot(self, last: int, term: int, members: Members, how: str) -> None:
        self.note("snapshot", offset=last, entry_term=term, text=str(members), reason=how)

    # -- sessions ------------------------------------------------------------------------------------------------

    @property
    def session(self) -> int:
        """The session in which this node is a member: as a leader has named it, else by the log (raft.md#session)."""
        if self._session != NO_SESSION:
            return self._session
        for _, members in reversed(self._configurations):
            if (named := members.session(self.node)) != NO_SESSION:
                return named
        return NO_SESSION

    def _has_session(self) -> bool:
        """Tell whether this node is known to be a member by a session that it has not lost with its disk.

        Source: raft.md#wiped-disk.
        """
        return not self.configuration.least_session or self.session >= self.configuration.least_session

    def _concerns(self, sender: int, message: Request | Answer) -> bool:
        """Tell whether a request is for this node in its present session, an answer between the present members.

        A leader may name a new session. After a start it is not known which one came last. Source: raft.md#session.
        """
        if isinstance(message, Answer):
            return message.session == self.members.session(sender) and message.sender_session == self.session
        if message.session < self.configuration.least_session:
            return False
        if isinstance(message, OfLeaders) and (message.term, message.session) > (self.term, self._session):
            self._session = message.session
        return self._session in (NO_SESSION, message.session)

    # -- configurations ------------------------------------------------------------------------------------------

    def _in_force(self) -> None:
        """Take the last configuration of the log for the one in force, committed or not.

        Source: raft.md#configuration-in-force.
        """
        members = self._configurations[-1][1]
        if members != self.members:
            self.members, self.voters = members, members.voters
            self._note_members()
            self._members_changed()

    def _forget_before(self, start: int) -> None:
        """Of the configurations before the log's start keep the last one."""
        while len(self._configurations) > 1 and self._configurations[1][0] < start:
            self._configurations.pop(0)

    def _note_members(self) -> None:
        self.note("configuration", offset=self._configurations[-1][0], text=str(self.members))

    def _members_changed(self) -> None:
        """Act on another configuration in force."""

    # -- flush ---------------------------------------------------------------------------------------------------

    def _require_flush(self, upto: int) -> None:
        """Make everything up to ``upto`` durable as soon as possible; one required flush is in flight at a time."""
        self._flush_target = max(self._flush_target, upto)
        if self._flush_target > self.flushed and not any(flush.required for flush in self._flushes.values()):
            self._start_flush(required=True)

    def _debounce_flush(self) -> None:
        """Flush soon: at once when enough bytes wait, else when the timer fires."""
        if self.index.dirty <= self.flushed:
            return
        if self._unflushed_bytes >= self.configuration.flush_bytes and not self._flushes:
            self._start_flush(required=False)
        elif not self._flush_timer:
            self._flush_timer = True
            self._effects.append(SetTimer(Timer.FLUSH, self.configuration.flush_delay))

    def _start_flush(self, *, required: bool) -> None:
        ticket = self._next_ticket()
        self._flushes[ticket] = _Flush(self.index.dirty, self.truncations, required)
        self._unflushed_bytes = 0
        if self._flush_timer:
            self._flush_timer = False
            self._effects.append(CancelTimer(Timer.FLUSH))
        self._effects.append(StartFlush(ticket))

    def _flush_timer_fired(self) -> None:
        self._flush_timer = False
        if self.index.dirty > self.flushed and not self._flushes:
            self._start_flush(required=False)

    def _flush_done(self, ticket: int) -> None:
        """Count a finished flush, unless a truncation came between, and start the next one if it is wanted."""
        flush = self._flushes.pop(ticket, None)
        if flush is None:
            return
        if self.rules.accept_flush(flush.truncations, self.truncations):
            flushed = self.rules.flushed_after(self.flushed, flush.dirty)
            if flushed != self.flushed:
                self.flushed = flushed
                self.note("flush")
        self._require_flush(self._flush_target)
        if not self._flushes:
            self._debounce_flush()

    # -- offsets that only rise ----------------------------------------------------------------------------------

    def _set_commit(self, commit: int) -> bool:
        if commit == self.commit:
            return False
        self.commit = commit
        self.note("commit")
        return True

    def _show_visible(self) -> None:
        visible = min(self.majority_replicated, self.visibility_upper_bound)
        if visible != self.visible:
            self.visible = visible
            self.note("visible")
