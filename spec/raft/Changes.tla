-------------------------------------- MODULE Changes --------------------------------------
(* How one configuration follows another (raft.md#change-steps, raft.md#cancel-change): learners, promotion one by one, *)
(* removal and demotion through a joint configuration, cancelling. A configuration is a record as in Quorum.     *)
EXTENDS Integers, FiniteSets, Quorum

Members(voters) == voters.current \union voters.old \union voters.learners
Voting(voters) == voters.current \union voters.old
NoVoters == Simple({})

LearnerAdded(voters, nodes) ==
    {[voters EXCEPT !.learners = @ \union {n}] : n \in nodes \ Members(voters)}
LearnerPromoted(voters) ==
    {[voters EXCEPT !.current = @ \union {n}, !.learners = @ \ {n}] : n \in voters.learners}
(* Some are removed or demoted, and both halves decide until that is committed.                              *)
VotersRemoved(voters) ==
    {[current |-> rest, old |-> voters.current, learners |-> voters.learners] :
        rest \in (SUBSET voters.current) \ {{}, voters.current}}
    \union
    {[current |-> voters.current \ {n}, old |-> voters.current, learners |-> voters.learners \union {n}] :
        n \in {m \in voters.current : voters.current # {m}}}
ChangeCompleted(voters) == {[voters EXCEPT !.old = {}]}
ChangeCancelled(voters) ==
    {[current |-> IF voters.old = {} THEN voters.current ELSE voters.old, old |-> {}, learners |-> {}]}

(* `nodes' are all there are, members or not.                                                                *)
NextVoters(voters, nodes) ==
    (IF voters.old = {}
     THEN LearnerAdded(voters, nodes) \union LearnerPromoted(voters) \union VotersRemoved(voters)
     ELSE ChangeCompleted(voters))
    \union (IF voters = Simple(voters.current) THEN {} ELSE ChangeCancelled(voters))

(* What all of these have in common, so that any two quorums of a configuration and of the next one meet.       *)
OneStep(voters, next) ==
    \/ voters.current = next.current /\ voters.old = next.old
    \/ /\ voters.old = {} /\ next.old = {}
       /\ \E n \in voters.learners : next.current = voters.current \union {n}
    \/ voters.old = {} /\ next.old = voters.current /\ next.current \subseteq voters.current /\ next.current # {}
    \/ next.old = {} /\ next.current \in {voters.current, voters.old} \ {{}}

(* Every step needs the newest configuration to be committed (raft.md#change-refused).                       *)
MayChange(newest, committedTo) == committedTo = newest

(* Who decides on commits (raft.md#commit-index) and elections (raft.md#election-majority).                  *)
Deciding(voters) == voters

(* Mutants: one rule each.                                                                                    *)
RemovedAtOnce(voters) ==                                                     \* VotersRemoved
    {[voters EXCEPT !.current = rest] : rest \in (SUBSET voters.current) \ {{}, voters.current}}
RemovedOneByOne(voters) ==                                                   \* VotersRemoved
    {[voters EXCEPT !.current = @ \ {n}] : n \in {m \in voters.current : voters.current # {m}}}
PromotedTogether(voters) ==                                                  \* LearnerPromoted
    IF voters.learners = {} THEN {} ELSE {[voters EXCEPT !.current = @ \union voters.learners, !.learners = {}]}
ReconfigureUncommitted(newest, committedTo) == TRUE                          \* MayChange
JointCurrentOnly(voters) == [voters EXCEPT !.old = {}]                       \* Deciding
LearnerCounts(voters) == [voters EXCEPT !.current = @ \union voters.learners] \* Deciding
===========================================================================================
