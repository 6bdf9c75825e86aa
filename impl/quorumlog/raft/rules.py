"""The decisions of Raft with flushed and dirty offsets, each one a pure function, bundled in ``Rules``.

Everything the protocol decides is decided here; ``core`` keeps state and carries the decisions out. A caller
replaces a rule by ``dataclasses.replace(REFERENCE, may_commit=mine)``: that is how mutants are made and how a
developer tries a change. The specification has each rule as an operator of the same name (``may_commit`` is
``MayCommit``), and the proofs run these very functions on symbolic terms; so they use nothing but integers,
booleans, comparison, ``min``, ``max``, ``if`` and each other. Who must agree is decided in ``quorumlog.quorum``.

Offsets are inclusive, -1 means "nothing yet"; a term of -1 means "no such entry"; node -1 means "nobody".
Each docstring ends with its source: a rule, which says where it differs from documents.md#raft-recovery and
documents.md#raft-simplification.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields

from quorumlog.quorum import VOTE_WON, Voters, is_quorum, quorum_match, vote_result

NOBODY = -1

LARGEST_PRIORITY = 2**32 - 1

PENDING = 0
SUCCESS = 1
TRUNCATED = 2

ACKS_ALL = -1
ACKS_LEADER = 1
ACKS_NONE = 0


# -- commit index ------------------------------------------------------------------------------------------------


def replicated_flushed(dirty: int, flushed: int, match: int) -> int:
    """Return up to where a follower is known to hold the leader's entries durably.

    ``flushed`` alone may count a tail that differs from the leader's log, ``match`` alone entries that a power loss
    takes away.

    Source: raft.md#durable, documents.md#raft-recovery-leader.
    """
    return min(flushed, match)


def commit_candidate(voters: Voters, durable: Mapping[int, int], own_flushed: int) -> int:
    """Return the offset that is durable on a quorum.

    ``durable``: each node's ``replicated_flushed``, the leader's own flushed offset among them; it counts if the leader
    is a voter. Never beyond ``own_flushed``, voter or not: a leader that commits what it can itself still lose would
    hand out a commit index that its restart takes back.

    Source: raft.md#leader-commit.
    """
    return min(quorum_match(voters, durable), own_flushed)


def may_commit(candidate: int, commit: int, candidate_term: int, current_term: int) -> bool:
    """Tell whether a leader moves its commit index to ``candidate``: only by an entry of its own term.

    Source: raft.md#leader-commit.
    """
    return candidate > commit and candidate_term == current_term


def follower_commit(commit: int, leader_commit: int, flushed: int, verified: int) -> int:
    """Return a follower's commit index after an accepted append_entries or heartbeat.

    ``verified`` (raft.md#verified) is the last offset that this request showed to be equal to the leader's log. Without
    it, a flushed tail of an older term would be taken for committed.

    Source: raft.md#follower-commit.
    """
    return max(commit, min(leader_commit, flushed, verified))


# -- visibility --------------------------------------------------------------------------------------------------


def replicated_dirty(dirty: int, flushed: int, match: int) -> int:
    """Return up to where a follower is known to hold the leader's entries, durable or not.

    Source: raft.md#replicated.
    """
    return min(dirty, match)


def majority_replicated(voters: Voters, replicated: Mapping[int, int], majority: int) -> int:
    """Return the majority replicated index (MRI), at least what it is: ``majority``.

    ``replicated``: each node's ``replicated_dirty``, the leader's own dirty offset among them.

    Source: raft.md#majority-replicated.
    """
    return max(majority, quorum_match(voters, replicated))


def may_count_replicated(candidate_term: int, current_term: int) -> bool:
    """Tell whether a leader raises its MRI to an offset: only by an entry of its own term.

    Model checking asked for it: an entry of an older term that a majority holds can be replaced, as with the commit
    index: a visibility bound left from an earlier leadership would show it to readers, and write caching would
    acknowledge it, before it is lost without any power loss.

    Source: raft.md#majority-replicated.
    """
    return candidate_term == current_term


def visibility_on_append(upper_bound: int, commit: int, last_quorum: int, appended: int) -> int:
    """Return the visibility upper bound after the leader appended up to ``appended``.

    While an append that required a flush waits (``last_quorum`` beyond ``commit``), nothing behind it becomes visible.

    Source: raft.md#visibility-on-append.
    """
    return max(upper_bound, appended) if commit >= last_quorum else upper_bound


def visibility_on_commit(upper_bound: int, majority: int, commit: int, last_quorum: int) -> int:
    """Return the visibility upper bound after the leader's commit index moved to ``commit``.

    Source: raft.md#visibility-on-commit.
    """
    return max(upper_bound, majority if commit >= last_quorum else commit)


def follower_visible(leader_visible: int, dirty: int, verified: int) -> int:
    """Return what a follower raises its visible offset to on an accepted request.

    Without ``verified`` (see ``follower_commit``) a reader would be shown a tail that the leader does not have.

    Source: raft.md#follower-visible.
    """
    return min(leader_visible, dirty, verified)


# -- acknowledgements --------------------------------------------------------------------------------------------


def flush_required(acks: int, write_caching: bool, force_flush: bool) -> bool:
    """Tell whether an item of a round makes the leader and the followers flush before they answer.

    Source: raft.md#flush-required.
    """
    return force_flush or (acks == ACKS_ALL and not write_caching)


def resolve_quorum_ack(offset: int, term: int, term_at_offset: int, commit: int, term_at_commit: int) -> int:
    """Return SUCCESS, TRUNCATED or PENDING for an acks=all append at ``offset`` written in ``term``.

    The document's stop conditions (2) and (3), "the term changed and the entry is still there", acknowledge entries
    that the next leader removes. Instead the entry must be committed, and a loss is reported only once a later term has
    committed.

    Source: raft.md#quorum-ack, raft.md#stop-conditions.
    """
    if term_at_offset == term and commit >= offset:
        return SUCCESS
    if term_at_commit > term and term_at_offset != term:
        return TRUNCATED
    return PENDING


def resolve_write_cached(
    offset: int, term: int, term_at_offset: int, majority: int, commit: int, term_at_commit: int
) -> int:
    """The same for an acks=all append under write caching: a majority that holds the entry unflushed is enough.

    Source: raft.md#write-caching.
    """
    if term_at_offset == term and majority >= offset:
        return SUCCESS
    return resolve_quorum_ack(offset, term, term_at_offset, commit, term_at_commit)


# -- flush -------------------------------------------------------------------------------------------------------


def accept_flush(truncations_at_start: int, truncations_now: int) -> bool:
    """Tell whether a finished flush counts: not if the log was truncated while it ran.

    Offsets do not show it: what was cut off may have been written again, and that is not durable.

    Source: raft.md#finished-flush.
    """
    return truncations_at_start == truncations_now


def flushed_after(flushed: int, captured: int) -> int:
    """Return the flushed offset after a flush that began when the dirty offset was ``captured``.

    Source: raft.md#finished-flush.
    """
    return max(flushed, captured)


# -- the log -----------------------------------------------------------------------------------------------------


def batch_matches(term_here: int, term_there: int) -> bool:
    """Tell whether a follower already holds a batch: same offset and term mean the same entry.

    Source: raft.md#skip-duplicates.
    """
    return term_here == term_there


def reply_is_current(sequence: int, last_processed: int) -> bool:
    """Tell whether a reply is newer than all processed ones of this follower; older ones must not move anything.

    Source: raft.md#reply-order.
    """
    return sequence > last_processed


def recovery_flush(last_chunk: bool, last_write_required: bool, unflushed_bytes: int, every_bytes: int) -> bool:
    """Tell whether a recovery request asks the follower to flush; not on every request.

    Source: raft.md#recovery-flush.
    """
    return (last_chunk and last_write_required) or unflushed_bytes >= every_bytes


def recovery_commit(chunk_end: int, commit_before_read: int, commit_now: int) -> int:
    """Return the commit index that a recovery request carries.

    Source: raft.md#recovery-commit.
    """
    return min(chunk_end, commit_before_read)


def recovery_waits(last_sent: int, leader_dirty: int) -> bool:
    """Tell whether recovery has nothing more to send and just waits for replies.

    Source: raft.md#recovery-end.
    """
    return last_sent >= leader_dirty


def may_dispatch(recovering: bool, last_sent: int, previous: int) -> bool:
    """Tell whether a round goes to a follower: while it recovers, only the request it expects next.

    Source: raft.md#may-dispatch.
    """
    return not recovering or last_sent == previous


# -- elections ---------------------------------------------------------------------------------------------------


def log_ok(last_term: int, dirty: int, own_last_term: int, own_dirty: int) -> bool:
    """Tell whether a candidate's log is at least as up to date as ours: by last term, then by *dirty* offset.

    Source: raft.md#log-ok.
    """
    return last_term > own_last_term or (last_term == own_last_term and dirty >= own_dirty)


def grant_vote(voted_for: int, candidate: int, candidate_log_ok: bool, heard_leader: bool) -> bool:
    """Tell whether to vote for a candidate of the current term.

    Source: raft.md#election-majority, raft.md#refuse-vote.
    """
    return candidate_log_ok and not heard_leader and voted_for in (NOBODY, candidate)


def pre_vote_term(term: int) -> int:
    """Return the term of a node that asks for pre-votes: its own, so that a flapping node disturbs nobody.

    Source: raft.md#pre-vote.
    """
    return term


def vote_after_step_down(voted_for: int, old_term: int, new_term: int) -> int:
    """Return whom a node has voted for once it follows in ``new_term``.

    Source: raft.md#election-majority.
    """
    return voted_for if new_term == old_term else NOBODY


def vote_is_durable_first() -> bool:
    """Tell whether messages wait until term and vote are on disk.

    Source: raft.md#vote-durable.
    """
    return True


def election_waits(saving: bool) -> bool:
    """Tell whether an election time-out is put off because term and vote are still being saved.

    What the node has to say waits for that as well: a candidate whose requests have not left has not been refused.

    Source: raft.md#election-waits.
    """
    return saving


def priority(place: int, members: int, unit: int) -> int:
    """Return how much a node is preferred as a leader: the more, the smaller its place among so many members is.

    ``place`` counts from 0; -1 is that of a node that is not a member. It has the largest priority: its own
    configuration is newer than this one. ``unit`` is the part of that which each member adds.

    Source: raft.md#priority.
    """
    return (members - place) * unit if place >= 0 else LARGEST_PRIORITY


def first_target(members: int, unit: int) -> int:
    """Return the priority that a group of so many members wants of its leader at first: the largest of a member.

    Source: raft.md#priority.
    """
    return members * unit


def lowered_target(share: int, members: int) -> int:
    """Return the priority that is wanted of a leader after another election time-out without one.

    ``share``: what was wanted, divided by the members and rounded down.

    Source: raft.md#priority.
    """
    return max(1, share * (members - 1))


def may_stand(candidate: int, target: int, alone: bool) -> bool:
    """Tell whether a node of priority ``candidate`` may stand for election; ``alone``: it is the only voter.

    Source: raft.md#priority.
    """
    return alone or candidate >= target


def gives_way(behind: bool, gave_way: bool) -> bool:
    """Tell whether a node that could stand lets one with a longer log go first; not twice in a row.

    Source: raft.md#longest-log.
    """
    return behind and not gave_way


def full_was_answered(last_request: int, last_full: int, last_reply: int) -> bool:
    """Tell whether the last request to a follower was a full heartbeat and was answered: its answer says how much was
    flushed when the follower learned the commit index. Any other answer may have waited for a flush since.

    Source: raft.md#light-heartbeat.
    """
    return last_request == last_full == last_reply


def light_suffices(answered: bool, unchanged: bool, flushed: int, own_flushed: int) -> bool:
    """Tell whether a light heartbeat says enough: the full one was answered, nothing changed, all was flushed.

    Source: raft.md#light-heartbeat.
    """
    return answered and unchanged and flushed == own_flushed


def keeps_office(voters: Voters, silence: Mapping[int, int], election_timeout: int) -> bool:
    """Tell whether a leader goes on leading: a quorum, itself included, answered within the election time-out.

    ``silence``: for how long each node has not answered in this term, counted from the election at the earliest; 0 for
    the leader itself.

    Source: raft.md#check-quorum.
    """
    voting = [*voters.current, *voters.old]
    answered = {node: node in silence and silence[node] <= election_timeout for node in voting}
    return vote_result(voters, answered) == VOTE_WON


# -- serving clients ---------------------------------------------------------------------------------------------


def may_serve(term_at_commit: int, current_term: int) -> bool:
    """Tell whether a leader serves clients: once an entry of its own term is committed.

    Before that it does not know how far its predecessors had committed, so it would serve stale reads.

    Source: raft.md#first-entry-of-term.
    """
    return term_at_commit == current_term


def read_index(commit: int, majority: int, write_caching: bool) -> int:
    """Return up to where a linearizable read has to reach: all that may have been acknowledged with acks=all.

    ``majority`` is the MRI, by which acks=all is answered under write caching.

    Source: raft.md#read-index.
    """
    return max(commit, majority) if write_caching else commit


def leadership_confirmed(voters: Voters, confirmed: Collection[int]) -> bool:
    """Tell whether a leader still led when a barrier or read came.

    ``confirmed``: the leader, and who answered in its term a request that was sent after that.

    Source: raft.md#barrier.
    """
    return is_quorum(voters, confirmed)


@dataclass(frozen=True, slots=True)
class Rules:
    """The bundle of rules that a core runs; every field is one of the functions above or a stand-in for it."""

    replicated_flushed: Callable[[int, int, int], int] = replicated_flushed
    commit_candidate: Callable[[Voters, Mapping[int, int], int], int] = commit_candidate
    may_commit: Callable[[int, int, int, int], bool] = may_commit
    follower_commit: Callable[[int, int, int, int], int] = follower_commit
    replicated_dirty: Callable[[int, int, int], int] = replicated_dirty
    majority_replicated: Callable[[Voters, Mapping[int, int], int], int] = majority_replicated
    may_count_replicated: Callable[[int, int], bool] = may_count_replicated
    visibility_on_append: Callable[[int, int, int, int], int] = visibility_on_append
    visibility_on_commit: Callable[[int, int, int, int], int] = visibility_on_commit
    follower_visible: Callable[[int, int, int], int] = follower_visible
    flush_required: Callable[[int, bool, bool], bool] = flush_required
    resolve_quorum_ack: Callable[[int, int, int, int, int], int] = resolve_quorum_ack
    resolve_write_cached: Callable[[int, int, int, int, int, int], int] = resolve_write_cached
    accept_flush: Callable[[int, int], bool] = accept_flush
    flushed_after: Callable[[int, int], int] = flushed_after
    batch_matches: Callable[[int, int], bool] = batch_matches
    reply_is_current: Callable[[int, int], bool] = reply_is_current
    recovery_flush: Callable[[bool, bool, int, int], bool] = recovery_flush
    recovery_commit: Callable[[int, int, int], int] = recovery_commit
    recovery_waits: Callable[[int, int], bool] = recovery_waits
    may_dispatch: Callable[[bool, int, int], bool] = may_dispatch
    log_ok: Callable[[int, int, int, int], bool] = log_ok
    grant_vote: Callable[[int, int, bool, bool], bool] = grant_vote
    vote_result: Callable[[Voters, Mapping[int, bool]], int] = vote_result
    pre_vote_term: Callable[[int], int] = pre_vote_term
    vote_after_step_down: Callable[[int, int, int], int] = vote_after_step_down
    vote_is_durable_first: Callable[[], bool] = vote_is_durable_first
    election_waits: Callable[[bool], bool] = election_waits
    priority: Callable[[int, int, int], int] = priority
    first_target: Callable[[int, int], int] = first_target
    lowered_target: Callable[[int, int], int] = lowered_target
    may_stand: Callable[[int, int, bool], bool] = may_stand
    gives_way: Callable[[bool, bool], bool] = gives_way
    full_was_answered: Callable[[int, int, int], bool] = full_was_answered
    light_suffices: Callable[[bool, bool, int, int], bool] = light_suffices
    keeps_office: Callable[[Voters, Mapping[int, int], int], bool] = keeps_office
    may_serve: Callable[[int, int], bool] = may_serve
    read_index: Callable[[int, int, bool], int] = read_index
    leadership_confirmed: Callable[[Voters, Collection[int]], bool] = leadership_confirmed

    def changed(self) -> tuple[str, ...]:
        """Return the names of the rules that are not the reference's, in the order of this class."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is not f.default)


REFERENCE = Rules()
"""The rules as this project believes them to be right."""
