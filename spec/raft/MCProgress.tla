------------------------------------ MODULE MCProgress ------------------------------------
(* What must happen in the end, and not only what must never happen: a rule that never moves keeps every       *)
(* promise of FlushedRaft. Nobody stands for election here: a leader that can be heard leads on, and what      *)
(* follows is the same after each election. Clients append when they like; the network delivers and the disks  *)
(* flush at some time or other, but for one node that may be silent for ever.                                  *)
(* Sources: raft.md#commit-index, raft.md#visibility, raft.md#acks, raft.md#truncation.                        *)
EXTENDS MCFlushedRaft

Silent == CHOOSE n \in Node : TRUE
Reachable == Node \ {Silent}

(* What clients append; in the models of relaxed appends nothing waits for a flush.                          *)
AcksAsked == {AcksAll, AcksLeader}
OnlyRelaxed == {AcksLeader}

(* A request or a reply arrives, is acted upon, or a leader acts upon what it knows. What it counts for its     *)
(* commit index it counts for MRI first: else UB would stay behind until the next append.                     *)
CountedFirst(n) == MostReplicated(n)
Deliver(n) ==
    \/ \E t \in TermsHeard : UpdateTerm(n, t)
    \/ StepDown(n)
    \/ Len(log[n]) < MaxLog /\ AppendConfiguration(n, Entry(term[n], AcksAll))
    \/ \E c \in 1..Len(log[n]) : AdvanceCommitKnowing(n, c, CountedFirst(n))
    \/ role[n] = "leader" /\ LearnReplicated(n, MostReplicated(n))
    \/ FollowerAppend(n)
    \/ \E k \in 0..Len(log[n]) : FollowerTruncate(n, k)
    \/ Hears(n) /\ LET e == MatchEnd(log[n], Leads(n).log) IN
            FollowerHearsCommit(n, RecoveryCommit(e, Leads(n).commit, Leads(n).commit), e)
    \/ Hears(n) /\ FollowerHearsVisible(n, Leads(n).visible, MatchEnd(log[n], Leads(n).log))

FlushAll(n) == Flush(n, Len(log[n]))

Fault(n) ==
    /\ role[n] # "leader"
    /\ \/ crashes < MaxCrashes /\ Crash(n)
       \/ powerLosses < MaxPowerLosses /\ \E k \in 0..Len(log[n]) : PowerLoss(n, k)

NextLed ==
    \E n \in Node :
        \/ Len(log[n]) < MaxLog /\ \E acks \in AcksAsked : ClientAppend(n, Entry(term[n], acks))
        \/ Deliver(n)
        \/ FlushAll(n)
        \/ Fault(n)

InitLed == InitElected /\ role[Silent] # "leader"
InitTailMet == InitReelected /\ \E n \in Reachable : role[n] = "leader" /\ term[n] = 2

(* Bounds leave every node only so many steps, so it is enough that somebody takes one while anybody can.     *)
Delivered == WF_vars(\E n \in Reachable : Deliver(n))
Fair == Delivered /\ WF_vars(\E n \in Reachable : FlushAll(n))

-------------------------------------------------------------------------------------------
Leading(n) == role[n] = "leader" /\ \A m \in Node : term[m] <= term[n]
InLeadersLog(i) == \E n \in Node : Leading(n) /\ Len(log[n]) >= i

(* Clients append a bounded number of times here, so "again and again" ([]<>) is "in the end".               *)

(* What the leader has is committed.                                                                          *)
CommittedInTheEnd == Fair => []<>(\A i \in 1..MaxLog : InLeadersLog(i) => Len(committed) >= i)

(* A follower that can be reached has it then, knows that it is committed, and shows it.                      *)
CaughtUp(f) ==
    \A i \in 1..MaxLog : InLeadersLog(i) =>
        Len(committed) >= i /\ TermAt(log[f], i) = committed[i].term /\ commit[f] >= i /\ Visible(f) >= i
ReplicasCatchUp == Fair => []<>(\A f \in Reachable : CaughtUp(f))

(* Every caller is answered, or the process that it asked has died.                                           *)
Waits(n) == \E w \in waiting[n] : \A a \in answered : a.index # w.index \/ a.term # w.term
CallsEnd == Fair => []<>(\A n \in Reachable : ~Waits(n))

(* A relaxed entry becomes visible on a majority though nobody flushes, as long as no append with acks=all    *)
(* was made before it that waits.                                                                             *)
ShownByMajority(i) ==
    \E majority \in SUBSET Node : 2 * Cardinality(majority) > Cardinality(Node) /\ \A n \in majority : Visible(n) >= i
AllShown == \A i \in 1..MaxLog : InLeadersLog(i) => ShownByMajority(i)
RelaxedVisibleUnflushed == Delivered => []<>AllShown

-------------------------------------------------------------------------------------------
(* Mutants                                                                                                    *)
NeverCommits(candidate, own, candidateTerm, currentTerm) == FALSE            \* MayCommit
NothingBeforeCommit(upperBound, own, lastQuorum, appended) == upperBound     \* VisibilityOnAppend
FlushesAlways(acks, writeCaching) == TRUE                                    \* FlushRequired
NeverTruncated(offset, t, termAtOffset, own, termAtCommit) ==                \* ResolveQuorumAck
    IF termAtOffset = t /\ own >= offset THEN Success ELSE Pending
DivergenceIgnored(termHere, termThere) == TRUE                               \* BatchMatches
CommitCountedFirst(n) == majorityReplicated[n]                               \* CountedFirst
FollowerStays(own, leaderCommit, flushedHere, verified) == own               \* FollowerCommit
===========================================================================================
