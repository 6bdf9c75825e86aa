------------------------------------ MODULE MCRecovery ------------------------------------
(* The mutants of Recovery, where its searches begin, and what they must meet.                               *)
EXTENDS Recovery

(* The sequencer has written what it could: any copies, and what has all of them may be acknowledged.          *)
InitWritten ==
    /\ \E written \in [Esn -> SUBSET Node] :
        /\ copyset \in [Esn -> {c \in SUBSET Node : Cardinality(c) = R}]
        /\ \A n \in Esn : written[n] \subseteq copyset[n]
        /\ copies = [s \in Node |-> [n \in Places |-> IF n \in Esn /\ s \in written[n] THEN Data ELSE Nothing]]
        /\ append \in [Esn -> {"acked", "aborted"}]
        /\ \A n \in Esn : append[n] = "acked" => written[n] = copyset[n]
    /\ lng = 0
    /\ seal = [s \in Node |-> 0]
    /\ status = [s \in Node |-> "full"]
    /\ up = Node /\ losses = 0
    /\ run = [r \in Runs |-> NoRun]
    /\ recovered = 0
    /\ clean = {} /\ releases = {}
    /\ got = {}

Met(number, name, there) == IF TLCGet(number) = 0 /\ there THEN TLCSet(number, 1) /\ PrintT(<<"reached", name>>) ELSE TRUE
ASSUME \A number \in 1..5 : TLCSet(number, 0)
Reached ==
    /\ Met(1, "RecoveredWithoutOne", recovered' > 0 /\ run[recovered'].set # Node)
    /\ Met(2, "PurgeDeletes", \E s \in Node : clean' # clean /\ s \in clean' \ clean /\ copies'[s] # copies[s])
    /\ Met(3, "SecondRunSeesFirst", \E s \in Node, n \in Places : copies[s][n].by = 1 /\ copies'[s][n].by = 2)
    /\ Met(4, "RecoveredNonAuth", recovered' > 0 /\ \A n \in Places : run[recovered'].plan[n].kind # "bridge")
    /\ Met(5, "DataAndBridgeRead", \E n \in Esn : {<<n, "data">>, <<n + 1, "bridge">>} \subseteq got')

(* Mutants: one rule each, named above.                                                                       *)
DataBeats(one, other) == one # Nothing /\ one.by < other.by                                \* Beats
SkipsUnavailable(statuses) ==                                                \* Counted
    [s \in DOMAIN statuses |-> IF statuses[s] = "unavailable" THEN "under" ELSE statuses[s]]
Unfenced(s, r) == TRUE                                                       \* Fenced
PlugsAtNonAuth(verdict) == TRUE                                              \* MayPlug
ReleaseEarly == TRUE                                                         \* MayRelease
ReleaseAtOnce(s) == TRUE                                                     \* TakesRelease
PurgeUnsealed(sealed) == sealed                                              \* SealAfterPurge
AbortedIsFinished(n) == append[n] # "open"                                   \* Finished
===========================================================================================
