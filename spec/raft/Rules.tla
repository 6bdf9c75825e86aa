--------------------------------------- MODULE Rules ---------------------------------------
(* The decisions of Raft with flushed and dirty offsets. Each operator has the name and the arguments of the *)
(* function in quorumlog.raft.rules that the implementation runs (MayCommit is may_commit), so that the two  *)
(* can be read side by side; a mutant model replaces one of them.                                             *)
(* `voters' and who of them must agree: see Quorum.                                                          *)
(* Source: the rules in docs/rules, named at each group.                                                      *)
EXTENDS Integers, FiniteSets, FlushedLog, Quorum

CONSTANT Nobody                    \* voted for nobody yet

AcksAll == -1                      \* quorum_ack
AcksLeader == 1                    \* leader_ack
AcksNone == 0                      \* no_ack

Success == "success"
Truncated == "truncated"
Pending == "pending"

-------------------------------------------------------------------------------------------
(* Commit index (raft.md#commit-index, documents.md#raft-recovery-leader)                                    *)

ReplicatedFlushed(dirty, flushed, match) == Min(flushed, match)

(* `durable' is a function from each node, the leader among them, to what is known to be durable there.      *)
CommitCandidate(voters, durable, ownFlushed) == Min(QuorumMatch(voters, durable), ownFlushed)

MayCommit(candidate, commit, candidateTerm, currentTerm) ==
    candidate > commit /\ candidateTerm = currentTerm

(* `verified' is the last offset that the request proved equal to the leader's log.                          *)
FollowerCommit(commit, leaderCommit, flushed, verified) ==
    Max(commit, Min(leaderCommit, Min(flushed, verified)))

(* What a recovery request carries: the commit index from before its read, and not beyond the chunk.         *)
RecoveryCommit(chunkEnd, commitBeforeRead, commitNow) == Min(chunkEnd, commitBeforeRead)

-------------------------------------------------------------------------------------------
(* Visibility (raft.md#visibility, documents.md#raft-simplification-acks)                                    *)

ReplicatedDirty(dirty, flushed, match) == Min(dirty, match)

(* MRI, the majority replicated index. `replicated' is a function from each node, the leader among them.     *)
MajorityReplicated(voters, replicated, majority) == Max(majority, QuorumMatch(voters, replicated))

(* A leader counts what is replicated only by an entry of its own term (raft.md#majority-replicated): an entry  *)
(* of an old term that a majority has can still be replaced, as with the commit index. It would be shown (by    *)
(* a bound left over from an earlier leadership) or, under write caching, acknowledged, and lost.               *)
MayCountReplicated(candidateTerm, currentTerm) == candidateTerm = currentTerm

(* UB, the visibility upper bound, when the leader appends and when its commit index moves.                  *)
VisibilityOnAppend(upperBound, commit, lastQuorum, appended) ==
    IF commit >= lastQuorum THEN Max(upperBound, appended) ELSE upperBound

VisibilityOnCommit(upperBound, majority, commit, lastQuorum) ==
    Max(upperBound, IF commit >= lastQuorum THEN majority ELSE commit)

FollowerVisible(leaderVisible, dirty, verified) == Min(leaderVisible, Min(dirty, verified))

-------------------------------------------------------------------------------------------
(* Acknowledgements (raft.md#quorum-ack, raft.md#stop-conditions, raft.md#write-caching)                     *)

FlushRequired(acks, writeCaching) == acks = AcksAll /\ ~writeCaching

ResolveQuorumAck(offset, term, termAtOffset, commit, termAtCommit) ==
    CASE termAtOffset = term /\ commit >= offset       -> Success
      [] termAtCommit > term /\ termAtOffset # term    -> Truncated
      [] OTHER                                         -> Pending

ResolveWriteCached(offset, term, termAtOffset, majority, commit, termAtCommit) ==
    IF termAtOffset = term /\ majority >= offset
    THEN Success
    ELSE ResolveQuorumAck(offset, term, termAtOffset, commit, termAtCommit)

-------------------------------------------------------------------------------------------
(* Flush and replication (raft.md#finished-flush, raft.md#skip-duplicates)                                   *)

AcceptFlush(truncationsAtStart, truncationsNow) == truncationsAtStart = truncationsNow

FlushedAfter(flushed, captured) == Max(flushed, captured)

BatchMatches(termHere, termThere) == termHere = termThere

-------------------------------------------------------------------------------------------
(* Elections (raft.md#log-ok, raft.md#refuse-vote, raft.md#pre-vote, raft.md#vote-durable)                   *)

LogOk(lastTerm, dirty, ownLastTerm, ownDirty) ==
    lastTerm > ownLastTerm \/ (lastTerm = ownLastTerm /\ dirty >= ownDirty)

GrantVote(votedFor, candidate, candidateLogOk, heardLeader) ==
    candidateLogOk /\ ~heardLeader /\ votedFor \in {Nobody, candidate}

PreVoteTerm(term) == term

VoteAfterStepDown(votedFor, oldTerm, newTerm) == IF newTerm = oldTerm THEN votedFor ELSE Nobody

VoteIsDurableFirst == TRUE

-------------------------------------------------------------------------------------------
(* Who stands for election (raft.md#priority, raft.md#longest-log)                                           *)

LargestPriority == 2147483647      \* TLC counts no further; the implementation has twice this and one

Priority(place, members, unit) == IF place >= 0 THEN (members - place) * unit ELSE LargestPriority

FirstTarget(members, unit) == members * unit

LoweredTarget(share, members) == Max(1, share * (members - 1))

MayStand(candidate, target, alone) == alone \/ candidate >= target

GivesWay(behind, gaveWay) == behind /\ ~gaveWay

-------------------------------------------------------------------------------------------
(* Light heartbeats (raft.md#light-heartbeat)                                                                *)

FullWasAnswered(lastRequest, lastFull, lastReply) == lastRequest = lastFull /\ lastFull = lastReply

LightSuffices(answered, unchanged, flushed, ownFlushed) == answered /\ unchanged /\ flushed = ownFlushed

-------------------------------------------------------------------------------------------
(* Serving clients (raft.md#first-entry-of-term, raft.md#read-index, raft.md#barrier)                        *)

MayServe(termAtCommit, currentTerm) == termAtCommit = currentTerm

ReadIndex(commit, majority, writeCaching) == IF writeCaching THEN Max(commit, majority) ELSE commit

LeadershipConfirmed(voters, confirmed) == IsQuorum(voters, confirmed)
===========================================================================================
