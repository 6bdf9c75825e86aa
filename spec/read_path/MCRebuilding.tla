----------------------------------- MODULE MCRebuilding -----------------------------------
(* The mutants of Rebuilding, and what its searches must meet.                                                *)
EXTENDS Rebuilding

Met(number, name, there) == IF TLCGet(number) = 0 /\ there THEN TLCSet(number, 1) /\ PrintT(<<"reached", name>>) ELSE TRUE
ASSUME \A number \in 1..4 : TLCSet(number, 0)
Reached ==
    /\ Met(1, "EmptyBeforeRecovered", \E s \in Node : status[s] # "empty" /\ status'[s] = "empty" /\ run.phase # "over")
    /\ Met(2, "SecondAttemptOver", run.phase = "over" /\ run.attempt > 1)
    /\ Met(3, "CopysetsDiffer", \E s, t \in Holders(Up) : copy[s].set # copy[t].set /\ Rebuilt = {} /\ copy'[s] # Nothing)
    /\ Met(4, "PurgeDeletes", \E s \in Node : clean[s] = 0 /\ clean'[s] = All /\ copy'[s] # copy[s])

(* Mutants: one rule each, named above.                                                                       *)
WaitsForNothing(s) == FALSE                                                  \* Waits
NotUnderWay(s) == FALSE                                                      \* RecoveryUnderWay
CleanHeard(s) == copy[s].by > 0 /\ clean[s] = 0                              \* RecoveryUnderWay
AlwaysSo == TRUE                                                             \* Authoritative
AnyOrder(s, t) == TRUE                                                       \* InOrder
===========================================================================================
