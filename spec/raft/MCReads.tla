------------------------------------- MODULE MCReads -------------------------------------
(* Read indexes on top of FlushedRaft, made finite: a leader notes up to where a linearizable read must reach, *)
(* hears from a majority that it still leads, and serves what it has as committed (raft.md#read-index). A       *)
(* barrier is the same for the end of its log (raft.md#barrier): its models put BarrierTarget for Target.       *)
(* What a read does changes nothing that the nodes know, so these steps stand beside those of FlushedRaft.     *)
EXTENDS MCFlushedRaft

CONSTANT MaxReads

VARIABLE reads                     \* the read indexes that are asked for; of those that were served the stale ones

(* How much of the log callers have been told is there, by whatever node (acks=all).                         *)
Acknowledged == Largest({0} \union {a.index : a \in AnsweredAs(Success)})

(* Up to where it must reach, and who is known to follow when it is asked: the leader itself.                 *)
Target(n) == ReadIndex(commit[n], majorityReplicated[n], WriteCaching)
BarrierTarget(n) == Len(log[n])
ConfirmedBefore(n) == {n}

AskRead(n) ==
    /\ role[n] = "leader"
    /\ MayServe(TermAt(log[n], commit[n]), term[n])
    /\ Cardinality(reads) < MaxReads
    /\ reads' = reads \union {[node |-> n, term |-> term[n], confirmed |-> ConfirmedBefore(n),
                               stale |-> FALSE, index |-> Target(n),
                               acknowledged |-> Acknowledged]}

(* A request that was sent after the read came is answered in the leader's term, with success or without.     *)
ConfirmRead(r, f) ==
    /\ term[f] = r.term
    /\ f \notin r.confirmed
    /\ ~LeadershipConfirmed(Voters, r.confirmed)
    /\ reads' = (reads \ {r}) \union {[r EXCEPT !.confirmed = @ \union {f}]}

(* What the index covers is committed by then.                                                                *)
MayAnswer(committedTo, index) == committedTo >= index

(* The answer covers what was acknowledged, and is covered by what is committed. Under write caching a power   *)
(* loss may take what was acknowledged: that is the option's price.                                            *)
ServeRead(r) ==
    /\ LeadershipConfirmed(Voters, r.confirmed)
    /\ MayAnswer(commit[r.node], r.index)
    /\ reads' = (reads \ {r}) \union
                IF (commit[r.node] >= r.index /\ r.index >= r.acknowledged) \/ (WriteCaching /\ powerLosses > 0) THEN {}
                ELSE {[r EXCEPT !.stale = TRUE]}

(* A leader that leads no longer refuses those that wait.                                                     *)
StillLeads(r) == role'[r.node] = "leader" /\ term'[r.node] = r.term

ReadInit == InitElected /\ reads = {}
ReadInitReelected == InitReelected /\ reads = {}

ReadNext ==
    \/ NextNewest /\ reads' = {r \in reads : StillLeads(r)}
    \/ UNCHANGED vars /\ \/ \E n \in Node : AskRead(n)
                         \/ \E r \in reads : ServeRead(r) \/ \E f \in Node : ConfirmRead(r, f)

ReadsAreLinearizable == \A r \in reads : ~r.stale

-------------------------------------------------------------------------------------------
(* Mutants (raft.md#mutants), each the stand-in for the rule that it is named after.                          *)

ReadUnconfirmed(voters, confirmed) == TRUE                                   \* LeadershipConfirmed
ReadBeforeOwnTerm(termAtCommit, currentTerm) == TRUE                         \* MayServe
BarrierCountsOldReplies(n) == {n} \union {f \in Others(n) : replies[n][f] # {}} \* ConfirmedBefore
BarrierDoesNotWait(committedTo, index) == TRUE                               \* MayAnswer
ReadIndexIgnoresCaching(own, majority, caching) == own                       \* ReadIndex
===========================================================================================
