----------------------------------- MODULE MCRebuilding -----------------------------------
(* The mutants of Rebuilding, and what its searches must meet.                                                *)
EXTENDS Rebuilding

(* A drain of the third of four shards was given up when all but the first one had amended their copysets; the epoch is *)
(* recovered.                                                                                                 *)
Numbered == CHOOSE order \in [1..Cardinality(Node) -> Node] : \A s \in Node : \E i \in DOMAIN order : order[i] = s
Before == {Numbered[1], Numbered[2], Numbered[3]}
Amended == {Numbered[1], Numbered[2], Numbered[4]}
InitHalfAmended ==
    /\ copy = [s \in Node |-> [set |-> IF s = Numbered[1] THEN Before ELSE Amended, by |-> 0]]
    /\ acked = TRUE /\ known = TRUE
    /\ status = [s \in Node |-> "full"]
    /\ done = {} /\ aways = 0 /\ losses = 0 /\ drains = 0 /\ drained = {}
    /\ task = [s \in Node |-> Idle]
    /\ run = [NoRun(1) EXCEPT !.phase = "over"]
    /\ clean = [s \in Node |-> 1] /\ release = Node

(* An acknowledged record, in an epoch that is recovered.                                                      *)
InitRecovered ==
    /\ \E set \in Copysets(Node) : copy = [s \in Node |-> IF s \in set THEN [set |-> set, by |-> 0] ELSE Nothing]
    /\ acked = TRUE /\ known = TRUE
    /\ status = [s \in Node |-> "full"]
    /\ done = {} /\ aways = 0 /\ losses = 0 /\ drains = 0 /\ drained = {}
    /\ task = [s \in Node |-> Idle]
    /\ run = [NoRun(1) EXCEPT !.phase = "over"]
    /\ clean = [s \in Node |-> 1] /\ release = Node

Met(number, name, there) == IF TLCGet(number) = 0 /\ there THEN TLCSet(number, 1) /\ PrintT(<<"reached", name>>) ELSE TRUE
ASSUME \A number \in 1..5 : TLCSet(number, 0)
Reached ==
    /\ Met(1, "EmptyBeforeRecovered", \E s \in Node : status[s] # "empty" /\ status'[s] = "empty" /\ run.phase # "over")
    /\ Met(2, "SecondAttemptOver", run.phase = "over" /\ run.attempt > 1)
    /\ Met(3, "CopysetsDiffer", \E s, t \in Holders(Up) : copy[s].set # copy[t].set /\ Rebuilt = {} /\ copy'[s] # Nothing)
    /\ Met(4, "PurgeDeletes", \E s \in Node : clean[s] = 0 /\ clean'[s] = All /\ copy'[s] # copy[s])
    /\ Met(5, "DrainedMadeAnew", \E s \in Holders(Up) : s \notin copy[s].set /\ s \in copy'[s].set)

(* Mutants: one rule each, named above.                                                                       *)
WaitsForEver(s) == copy[s] # Nothing                                         \* Waits
WaitsForNothing(s) == FALSE                                                  \* Waits
NotUnderWay(s) == FALSE                                                      \* RecoveryUnderWay
CleanHeard(s) == copy[s].by > 0 /\ clean[s] = 0                              \* RecoveryUnderWay
AlwaysSo == TRUE                                                             \* Authoritative
AnyOrder(s, t) == TRUE                                                       \* InOrder
TakenBeforePurge(s, t) == TRUE                                               \* TakesOfDonor
KnownIsKept(s) == known                                                      \* Kept
LeftToOthers(s) ==                                                           \* Waits
    copy[s].set \intersect Rebuilt # {} /\ (s \in copy[s].set \/ copy[s].set \ Leaving = {})
(* Each waits for the first of its own copyset that stays: that is the third shard before the drain, the first behind it. *)
FirstWaits(s) ==                                                             \* Waits
    LET staying == copy[s].set \ Leaving
        first == IF Numbered[3] \in staying THEN Numbered[3] ELSE Numbered[1]
    IN  copy[s].set \intersect Rebuilt # {} /\ s = first
===========================================================================================
