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
    /\ trimmed = [s \in Node |-> 0] /\ trimmedThen = trimmed
    /\ status = [s \in Node |-> "full"]
    /\ up = Node /\ losses = 0 /\ forgot = {} /\ hit = {}
    /\ run = [r \in Runs |-> NoRun]
    /\ recovered = 0
    /\ clean = {} /\ releases = {}
    /\ got = {}

(* Of five shards four took part in a run that was overtaken when CLEAN had reached one of them, which holds nothing: it *)
(* had read from the beginning, while the last one may know that all was acknowledged. Two are away.              *)
Numbered == CHOOSE order \in [1..5 -> Node] : \A s \in Node : \E i \in 1..5 : order[i] = s
InitOvertaken ==
    LET holders == {Numbered[1], Numbered[2], Numbered[3]}
        all == holders \union {Numbered[4]}
        written == [n \in Places |-> [kind |-> IF n \in Esn THEN "data" ELSE "bridge", by |-> 1]]
    IN  /\ copyset = [n \in Esn |-> holders]
        /\ append = [n \in Esn |-> "acked"] /\ lng = MaxEsn
        /\ copies = [s \in Node |-> IF s \in holders THEN written ELSE [n \in Places |-> Nothing]]
        /\ run = [r \in Runs |->
            IF r = 1 THEN [phase |-> "clean", plan |-> written, from |-> 0, set |-> all, chosen |-> holders,
                           done |-> all, told |-> {Numbered[4]}]
            ELSE NoRun]
        /\ seal = [s \in Node |-> IF s \in all THEN 1 ELSE 0]
        /\ clean = {Numbered[4]}
        /\ up = Node \ {Numbered[1], Numbered[4]}
        /\ status = [s \in Node |-> IF s \in up THEN "full" ELSE "unavailable"]
        /\ trimmed = [s \in Node |-> 0] /\ trimmedThen = trimmed
        /\ losses = 0 /\ forgot = {} /\ hit = {} /\ recovered = 0 /\ releases = {} /\ got = {}
(* All of some copyset is lost when the recovery begins.                                                      *)
InitLost ==
    /\ copyset \in [Esn -> {c \in SUBSET Node : Cardinality(c) = R}]
    /\ append = [n \in Esn |-> "acked"] /\ lng = 0
    /\ \E lost \in SUBSET Node :
        /\ Cardinality(lost) \in 1..(Cardinality(Node) - 1)
        /\ copies = [s \in Node |-> [n \in Places |->
                IF n \in Esn /\ s \in copyset[n] \ lost THEN Data ELSE Nothing]]
        /\ status = [s \in Node |-> IF s \in lost THEN "under" ELSE "full"]
        /\ up = Node \ lost /\ losses = Cardinality(lost)
        /\ hit = {n \in Esn : copyset[n] \intersect lost # {}}
    /\ forgot = {}
    /\ trimmed = [s \in Node |-> 0] /\ trimmedThen = trimmed
    /\ seal = [s \in Node |-> 0] /\ run = [r \in Runs |-> NoRun] /\ recovered = 0
    /\ clean = {} /\ releases = {} /\ got = {}
Unread == got = {} /\ releases = {}

Met(number, name, there) == IF TLCGet(number) = 0 /\ there THEN TLCSet(number, 1) /\ PrintT(<<"reached", name>>) ELSE TRUE
ASSUME \A number \in 1..6 : TLCSet(number, 0)
Reached ==
    /\ Met(1, "RecoveredWithoutOne", recovered' > 0 /\ run[recovered'].set # Node)
    /\ Met(2, "PurgeDeletes", \E s \in Node : clean' # clean /\ s \in clean' \ clean /\ copies'[s] # copies[s])
    /\ Met(3, "SecondRunSeesFirst", \E s \in Node, n \in Places : copies[s][n].by = 1 /\ copies'[s][n].by = 2)
    /\ Met(4, "RecoveredNonAuth", recovered' > 0 /\ \A n \in Places : run[recovered'].plan[n].kind # "bridge")
    /\ Met(5, "DataAndBridgeRead", \E n \in Esn : {<<n, "data">>, <<n + 1, "bridge">>} \subseteq got')
    /\ Met(6, "TrimmedSinceSealed", \E r \in Runs : run[r] # run'[r] /\ \E s \in run'[r].set : trimmedThen[s] < run'[r].from)

(* Mutants: one rule each, named above.                                                                       *)
DataBeats(one, other) == one # Nothing /\ one.by < other.by                                \* Beats
SkipsUnavailable(statuses) ==                                                \* Counted
    [s \in DOMAIN statuses |-> IF statuses[s] = "unavailable" THEN "under" ELSE statuses[s]]
LossForgotten(statuses) == statuses                                          \* Remembered
ForgotAreLost(statuses) == Remembered(statuses)                              \* Awaited
UnsealedWhenBack == 0                                                        \* SealWhenBack
TrimPointIgnored(digest) == 0                                                \* TrimmedTo
DigestLngIgnored(digest) == Largest({0} \union {trimmedThen[s] : s \in digest})            \* TrimmedTo
Unfenced(s, r) == TRUE                                                       \* Fenced
PlugsAtNonAuth(verdict) == TRUE                                              \* MayPlug
ReleaseEarly == TRUE                                                         \* MayRelease
ReleaseAtOnce(s) == TRUE                                                     \* TakesRelease
PurgeUnsealed(sealed, r) == sealed                                           \* SealAfterPurge
SaidWhenClean(r) == TRUE                                                     \* SaidRecovered
PurgesWhateverWrote(copy, r) == TRUE                                         \* Purged
AbortedIsFinished(n) == append[n] # "open"                                   \* Finished
AnsweredAtOnce(s, n) == TRUE                                                 \* IsStored
OvertakenWrites(s, r) == TRUE                                                \* TakesRun
SealForgotten(sealed) == 0                                                   \* SealAtRestart
NeverAtNonAuth(verdict, digest) ==                                           \* MayGoOn
    verdict \in {"complete", "incomplete"} /\ Cardinality(digest) >= R
OnlyIfAllAnswered(verdict, digest) == verdict = "complete" /\ Cardinality(digest) >= R    \* MayGoOn
NeverPlugs(verdict) == FALSE                                                 \* MayPlug
BridgeOneEarly(data, from) == Largest({from + 1} \union data)                \* BridgeAt
BridgeIsHole(r) == [kind |-> "hole", by |-> r]                               \* Bridge
HolesLeft(won, r) == IF won = Nothing THEN Nothing ELSE [kind |-> "hole", by |-> r]        \* Plug
OneCopyShort(there) == IF there < R THEN there ELSE R - 1                    \* Enough
WaitsForNone(these, set) == TRUE                                             \* All
===========================================================================================
