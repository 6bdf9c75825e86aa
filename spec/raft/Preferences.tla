----------------------------------- MODULE Preferences -----------------------------------
(* Which nodes stand for election where some are preferred: by priorities that decay (raft.md#priority) and by    *)
(* who has the longest log (raft.md#longest-log). Neither may stop an election: if somebody whom a majority would *)
(* elect is up and heard, one of these stands in the end. There are no terms and no votes here; a node that      *)
(* stands with a log that a majority allows is elected.                                                          *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Members,                       \* how many; they are numbered in order of preference, from 0
    MaxLog

VARIABLES
    up,                            \* who runs and answers
    heard,                         \* whose requests arrive; others answer, but ask in vain
    log,                           \* how much each has
    target,                        \* the priority that each wants of a leader
    gaveWay,                       \* who let a node with a longer log go first, when it last could stand
    leader                         \* who was elected, if anybody

vars == <<up, heard, log, target, gaveWay, leader>>

Node == 0..(Members - 1)
Nobody == -1
Unit == 6 \div Members             \* in place of (2^32 - 1) \div Members

-------------------------------------------------------------------------------------------
(* The rules, as in quorumlog.raft.rules                                                                       *)
Priority(place, members, unit) == (members - place) * unit
FirstTarget(members, unit) == members * unit
LoweredTarget(share, members) == IF share * (members - 1) > 1 THEN share * (members - 1) ELSE 1
MayStand(candidate, wanted, alone) == alone \/ candidate >= wanted
GivesWay(behind, before) == behind /\ ~before

-------------------------------------------------------------------------------------------
IsMajority(nodes) == 2 * Cardinality(nodes) > Members
Behind(n) == \E m \in up : log[m] > log[n]
Granted(n) == IsMajority({m \in up : log[m] <= log[n]})

(* The election time-out of a node: it compares first, then lowers what it wants.                             *)
TimeOut(n) ==
    /\ leader = Nobody
    /\ n \in heard
    /\ target' = [target EXCEPT ![n] = LoweredTarget(@ \div Members, Members)]
    /\ LET stands == MayStand(Priority(n, Members, Unit), target[n], Members = 1) /\ Granted(n)
           waits == stands /\ GivesWay(Behind(n), gaveWay[n])
       IN  /\ leader' = IF stands /\ ~waits THEN n ELSE leader
           /\ gaveWay' = [gaveWay EXCEPT ![n] = IF stands THEN waits ELSE @]
    /\ UNCHANGED <<up, heard, log>>

Init ==
    /\ up \in {nodes \in SUBSET Node : IsMajority(nodes)}
    /\ log \in [Node -> 0..MaxLog]
    /\ heard \in SUBSET up
    /\ \E n \in heard : Granted(n)
    /\ target = [n \in Node |-> FirstTarget(Members, Unit)]
    /\ gaveWay = [n \in Node |-> FALSE]
    /\ leader = Nobody

Next == \E n \in Node : TimeOut(n)

(* Every node's time-out runs off again and again.                                                            *)
Fair == \A n \in Node : WF_vars(TimeOut(n))
SomebodyLeads == Fair => <>(leader # Nobody)

(* What may happen and is not to be ruled out by mistake                                                      *)
NeverLastInOrder == leader # Members - 1
NeverShorterLog == leader # Nobody => ~Behind(leader)

-------------------------------------------------------------------------------------------
(* Mutants (raft.md#mutants), each the stand-in for the rule that it is named after.                          *)
PriorityNeverDecays(share, members) == share * members                       \* LoweredTarget
GivesWayForEver(behind, before) == behind                                    \* GivesWay
===========================================================================================
