---------------------------------- MODULE MCReadOneEpoch ----------------------------------
(* The mutants of ReadOneEpoch, and what its searches must meet.                                             *)
EXTENDS ReadOneEpoch

Small == reader.at <= Last
FewEvents == version <= 5
SmallFewEvents == Small /\ FewEvents
ThreeEvents == Small /\ version <= 3

(* There is a record; those without a copy of it have said so, and nobody else is reached.                      *)
InitAsked ==
    /\ InitStored /\ acked = {1}
    /\ started = {s \in Node : store[s] = {}}
    /\ sent = [s \in Node |-> IF s \in started THEN 2 ELSE 1]
    /\ reader = [NewReader EXCEPT !.on = started, !.reading = started, !.next = sent]
OthersAreCutOff == SmallFewEvents /\ Cardinality(started) <= Cardinality(Node) - R

Met(number, name, there) == IF TLCGet(number) = 0 /\ there THEN TLCSet(number, 1) /\ PrintT(<<"reached", name>>) ELSE TRUE
ASSUME \A number \in 1..4 : TLCSet(number, 0)
Reached ==
    /\ Met(1, "LossReported", NewlyLost # {})
    /\ Met(2, "AnswerNewerThanStatuses", reader'.heard > reader'.version)
    /\ Met(3, "CopyMovedBehindAnswer", \E lsn \in Lsn : \E s \in Node :
            lsn \in store'[s] \ store[s] /\ sent[s] > lsn /\ reader.at <= lsn)
    /\ Met(4, "BackToScd", reader.mode = "all" /\ reader'.mode = "scd")

(* Mutants: one rule each, named above.                                                                       *)
NeverRewinds(r) == FALSE                                                     \* RewindsOn
FirstUnnoticed(r) == r.version > 0 /\ emptied > r.version                     \* RewindsOn
RewindsOnChange(r) == \E s \in Node : status[s] = "empty" /\ r.log[s] # "empty" \* RewindsOn
NeverOld(r) == FALSE                                                         \* StatusesOld
CleanUnnoticed(completed) == emptied                                         \* AfterClean
EmptyUnsure(stat) == TRUE                                                    \* MayBeEmpty
DownIsGivenUp(s) == disk[s] # "ok"                                           \* NotComingBack
LossUnnoticed(lost_at) == emptied                                            \* AfterLoss
WipedAnswers(s) == "started"                                                 \* Says
UnavailableDropped(stat) ==                                                  \* InForce
    [s \in DOMAIN stat |-> IF stat[s] = "unavailable" THEN "empty" ELSE stat[s]]
UnavailableForgone(stat) ==                                                  \* InForce
    [s \in DOMAIN stat |-> IF stat[s] = "unavailable" THEN "under" ELSE stat[s]]
ReleaseIgnored == Last                                                       \* Limit
NeverWaits(verdict) == FALSE                                                 \* MustWait
StartKeepsNext(r, s) == r.next[s]                                            \* NextAtStart
StaleAccepted(r, s) == TRUE                                                  \* Accepts
GapDuringRewind(r) == FALSE                                                  \* RewindPending
GapInScd(r) == FALSE                                                         \* InScd
TrimUnheard(r) == TRUE                                                       \* TrimCovers
TrimOverRejected(r) == FALSE                                                 \* TrimWaits
GraceRestarted(timer) == Grace                                               \* Woken
TrimUnsaid(s) == TRUE                                                        \* TrimIsSaid
LackIgnored(m) == FALSE                                                      \* MayLack
RewindKeepsHeard(r) == [buffer |-> r.buffer, next |-> r.next]                \* KeptAtRewind
NoVersionSaid(s) == 0                                                        \* SaysVersion
KeepsStatus(r, s) ==                                                         \* ReadingIfRefused
    IF r.log[s] = "full" THEN r.reading \ {s} ELSE r.reading \union {s}
NothingReleased(c) == 0                                                      \* ReleaseVersion
AllWithList == FALSE                                                         \* AllShip
EmptyTakesWrites(s) == disk[s] = "ok"                                        \* TakesWrites
WaitsForFMajority(verdict) == verdict \notin {"none", "non-auth"}            \* Decides
===========================================================================================
