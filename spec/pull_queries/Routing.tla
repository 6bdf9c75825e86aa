------------------------------------- MODULE Routing --------------------------------------
(* Where a pull query goes (pull-queries.md#filters, pull-queries.md#rounds): one partition on an active and its *)
(* standbys, a router that knows what was reported, one query. Offsets of the changelog are counted from 0.     *)
(* What the router thinks of who is alive is arbitrary, and the assignment it has folded may be an old one:     *)
(* the promises are by its view. After the query is over nothing happens.                                      *)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS Node, Nobody, Shipped, Bound, MaxEnd, MaxReports, MaxCrashes, MaxEpochs

VARIABLES
    end,                           \* the changelog's true end
    known,                         \* the end that each host was told
    current,                       \* how many offsets each host has passed
    up,                            \* the hosts that run
    records,                       \* the router's: what each host last reported, Nobody for nothing
    flight,                        \* the reports on their way
    reports, crashes,              \* how many there were
    actives,                       \* the active of each epoch; all others are its standbys
    query

replicas == <<end, known, current, up>>
carried == <<records, flight, reports>>
vars == <<end, known, current, up, records, flight, reports, crashes, actives, query>>

Max(a, b) == IF a > b THEN a ELSE b
Largest(S) == CHOOSE x \in S : \A y \in S : y <= x
Symmetric == Permutations(Node)
NoQuery == [phase |-> "none"]
Open == query.phase = "open"

(* Nothing but the query depends on assignments, so that they may all come last before it.                   *)
Before == query = NoQuery /\ Len(actives) = 1
(* What happens to a host still matters: before the query always, then as long as it may answer.           *)
Matters(h) == Before \/ (Open /\ h \in query.left \union {query.at})
(* What hosts are told of the end still goes into a report.                                                  *)
Tells == Before /\ reports < MaxReports

-------------------------------------------------------------------------------------------
(* What the router decides, by its view v: who is active, who is alive, the records.                        *)
EndOf(said) == Largest({0} \union {said[h].end : h \in {g \in Node : said[g] # Nobody}})
View(epoch, alive) == [active |-> actives[epoch], alive |-> alive, records |-> records, end |-> EndOf(records)]
Recorded(v) == {h \in Node : v.records[h] # Nobody}
KnownEnd(v) == v.end
Lag(v, h) == IF h \in Recorded(v) THEN Max(0, KnownEnd(v) - v.records[h].current) ELSE 0
Within(lag) == IF Shipped THEN lag <= Bound ELSE lag < Bound
LagCounts(v, h) == Shipped \/ h # v.active
NotAlive(v, h) == h \notin v.alive
LagUnknown(v, h) == h \notin Recorded(v)
TooFar(v, h) == h \in Recorded(v) /\ ~Within(Lag(v, h))
Selected(v) == {h \in Node : ~NotAlive(v, h) /\ (LagCounts(v, h) => ~LagUnknown(v, h) /\ ~TooFar(v, h))}

(* Who may be tried next: the active first, then, in the proposal, whoever is least behind.                 *)
NoNearer(v, h, left) == \A g \in left : Lag(v, h) <= Lag(v, g)
Next1(v, left) ==
    IF v.active \in left THEN {v.active} ELSE {h \in left : Shipped \/ NoNearer(v, h, left)}

-------------------------------------------------------------------------------------------
Init ==
    /\ end = 0
    /\ known = [h \in Node |-> 0]
    /\ current = [h \in Node |-> 0]
    /\ up = Node
    /\ records = [h \in Node |-> Nobody]
    /\ flight = {}
    /\ reports = 0
    /\ crashes = 0
    /\ \E h \in Node : actives = <<h>>
    /\ query = NoQuery

Write ==
    /\ Before \/ Open
    /\ end < MaxEnd
    /\ end' = end + 1
    /\ UNCHANGED <<known, current, up, carried, crashes, actives, query>>

Apply(h) ==
    /\ Matters(h) /\ h \in up /\ current[h] < end
    /\ current' = [current EXCEPT ![h] = @ + 1]
    /\ known' = IF Tells THEN [known EXCEPT ![h] = Max(@, current[h] + 1)] ELSE known
    /\ UNCHANGED <<end, up, carried, crashes, actives, query>>

Learn(h) ==
    /\ Tells /\ h \in up /\ known[h] < end
    /\ known' = [known EXCEPT ![h] = end]
    /\ UNCHANGED <<end, current, up, carried, crashes, actives, query>>

(* Nothing that arrives after the query has read its view changes it, so reports stop there.                *)
Report(h) ==
    /\ Tells /\ h \in up /\ flight = {}
    /\ flight' = {[host |-> h, said |-> [current |-> current[h], end |-> known[h]]]}
    /\ reports' = reports + 1
    /\ known' = IF reports' < MaxReports THEN known ELSE [g \in Node |-> 0]
    /\ UNCHANGED <<end, current, up, records, crashes, actives, query>>

Deliver ==
    /\ Before
    /\ \E r \in flight :
        /\ records' = [records EXCEPT ![r.host] = r.said]
        /\ flight' = flight \ {r}
    /\ UNCHANGED <<replicas, reports, crashes, actives, query>>

Lose ==
    /\ Before /\ flight # {}
    /\ flight' = {}
    /\ UNCHANGED <<replicas, records, reports, crashes, actives, query>>

Crash(h) ==
    /\ Matters(h) /\ h \in up /\ crashes < MaxCrashes
    /\ up' = up \ {h}
    /\ crashes' = crashes + 1
    /\ query' = IF Open /\ h \notin query.cut
                THEN [query EXCEPT !.bad = @ \union {h}] ELSE query
    /\ UNCHANGED <<end, known, current, carried, actives>>

(* A host comes back with what it had saved, or with nothing.                                               *)
Restart(h, n) ==
    /\ Matters(h) /\ h \notin up /\ n <= current[h]
    /\ up' = up \union {h}
    /\ current' = [current EXCEPT ![h] = n]
    /\ known' = IF Tells THEN [known EXCEPT ![h] = n] ELSE known
    /\ UNCHANGED <<end, carried, crashes, actives, query>>

Propose(h) ==
    /\ query = NoQuery /\ flight = {} /\ Len(actives) < MaxEpochs /\ h # actives[Len(actives)]
    /\ actives' = Append(actives, h)
    /\ UNCHANGED <<replicas, carried, crashes, query>>

(* The query reads its view; what else was known before is forgotten, for it changes nothing any more. The same  *)
(* holds of the hosts that it will not ask, but for the end that they reported. Reports on their way are lost;   *)
(* whom the router fails to reach is cut.                                                                        *)
Ask(epoch, alive, cut) ==
    LET v == View(epoch, alive)
        selected == Selected(v)
        seen == [v EXCEPT !.alive = @ \intersect (selected \union {v.active}),
                          !.records = [h \in Node |-> IF h \in selected THEN @[h] ELSE Nobody]]
    IN  /\ query = NoQuery
        /\ query' = [phase |-> IF selected = {} THEN "failed" ELSE "open", view |-> seen, left |-> selected,
                     tried |-> {}, at |-> Nobody, cut |-> cut, bad |-> selected \ (up \union cut), position |-> 0]
        /\ known' = [h \in Node |-> 0]
        /\ records' = [h \in Node |-> Nobody]
        /\ flight' = {}
        /\ reports' = 0
        /\ actives' = <<v.active>>
        /\ current' = [h \in Node |-> IF h \in selected THEN current[h] ELSE 0]
        /\ up' = up \union (Node \ selected)
        /\ UNCHANGED <<end, crashes>>

Attempt ==
    /\ Open /\ query.at = Nobody
    /\ \E h \in Next1(query.view, query.left) :
        query' = [query EXCEPT !.at = h, !.left = @ \ {h}, !.tried = @ \union {h}]
    /\ UNCHANGED <<replicas, carried, crashes, actives>>

Reply ==
    /\ Open /\ query.at \in up
    /\ query' = [query EXCEPT !.phase = "answered", !.position = current[query.at]]
    /\ current' = [h \in Node |-> 0]
    /\ up' = Node
    /\ UNCHANGED <<end, known, carried, crashes, actives>>

(* What a failure makes of the query: the next candidate, as long as there is one.                          *)
AfterFailure(left) == IF left = {} THEN "failed" ELSE "open"

(* No connection, a reset, a time-out, or the target gave up (pull-queries.md#falls-through).               *)
Fail ==
    /\ Open /\ query.at # Nobody
    /\ query.at \in query.cut \union query.bad
    /\ query' = [query EXCEPT !.phase = AfterFailure(query.left), !.at = Nobody]
    /\ current' = [current EXCEPT ![query.at] = 0]
    /\ up' = up \union {query.at}
    /\ UNCHANGED <<end, known, carried, crashes, actives>>

Next ==
    \/ Write \/ Deliver \/ Lose \/ Attempt \/ Reply \/ Fail
    \/ \E h \in Node : Apply(h) \/ Learn(h) \/ Report(h) \/ Crash(h) \/ Propose(h)
    \/ \E h \in Node, n \in 0..MaxEnd : Restart(h, n)
    \/ /\ query = NoQuery /\ flight = {}
       /\ \E epoch \in 1..Len(actives) :
            \E alive \in SUBSET (Selected(View(epoch, Node)) \union {actives[epoch]}) :
                \E cut \in SUBSET Selected(View(epoch, alive)) : Ask(epoch, alive, cut)

-------------------------------------------------------------------------------------------
Asked == query.phase # "none"
Contacted == IF Asked THEN query.tried ELSE {}
ByLag == IF Asked THEN {h \in Contacted : Shipped \/ h # query.view.active} ELSE {}

(* pull-queries.md#selected-within-bound, by the view.                                                      *)
SelectedWithinBound ==
    \A h \in ByLag : h \in Recorded(query.view) =>
        KnownEnd(query.view) - query.view.records[h].current <= (IF Shipped THEN Bound ELSE Bound - 1)

(* pull-queries.md#no-record-not-selected.                                                                  *)
NoRecordNotSelected == \A h \in ByLag : query.view.records[h] # Nobody

(* pull-queries.md#candidates-follow-view: none is contacted that was not alive, none in front of the active, and *)
(* in the proposal no standby in front of one that is less behind.                                              *)
CandidatesFollowView ==
    Contacted # {} => /\ Contacted \subseteq query.view.alive
                      /\ query.view.active \in query.view.alive /\ ~Shipped => query.view.active \in Contacted
                      /\ Shipped \/ \A h \in ByLag, g \in query.left : Lag(query.view, h) <= Lag(query.view, g)

(* pull-queries.md#staleness-bounded, at the moment of the answer.                                          *)
LostSince(recorded, position) == Max(0, recorded - position)
StalenessBounded ==
    query.phase = "answered" /\ query.at \in ByLag /\ query.at \in Recorded(query.view) =>
        end - query.position <= Bound + (end - KnownEnd(query.view))
                                + LostSince(query.view.records[query.at].current, query.position)

(* pull-queries.md#answered-in-the-end: a candidate that runs and can be reached all the while answers, or an *)
(* earlier one does; whoever crashes may not.                                                               *)
Fair == WF_vars(Attempt) /\ WF_vars(Reply) /\ WF_vars(Fail)
AnsweredInTheEnd ==
    Fair => \A h \in Node :
        (Open /\ h \in query.left \ (query.cut \union query.bad)) ~> (query.phase = "answered" \/ (Asked /\ h \in query.bad))

(* Mutants *)
DeadStandbyAdmitted(v, h) == h = v.active /\ h \notin v.alive                \* NotAlive
UnknownLagAdmitted(v, h) == FALSE                                            \* LagUnknown
LagBeyondBound(v, h) == h = v.active /\ h \in Recorded(v) /\ ~Within(Lag(v, h)) \* TooFar
FurtherStandbyFirst(v, h, left) == TRUE                                      \* NoNearer
LostStoreForgotten(recorded, position) == 0                                  \* LostSince
FailsAtOnce(left) == "failed"                                                \* AfterFailure
===========================================================================================
