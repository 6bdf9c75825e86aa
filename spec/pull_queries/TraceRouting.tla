----------------------------------- MODULE TraceRouting -----------------------------------
(* Recorded queries of clients as behaviours of Routing: each trace is one partition of one query, from the view that   *)
(* it was routed by to its answer, or to where nobody is left to ask. Hosts are numbers; those that do not keep the     *)
(* partition are not alive here. How far a host was when it answered is in the trace: it is set there, for the model    *)
(* lets it apply, crash and restart as it likes. TraceData holds the traces; a bound and the switch of the lag filter   *)
(* are each query's own.                                                                                                 *)
EXTENDS Routing, TraceData

VARIABLES
    run,                           \* which trace is followed
    line                           \* which of its events comes next

Given == Traces[run]
Event == Given.events[line]
Is(word) == line <= Len(Given.events) /\ Event[1] = word /\ line' = line + 1 /\ UNCHANGED run

GivenWithin(lag) == IF Shipped THEN lag <= Given.bound ELSE lag < Given.bound
GivenLagCounts(v, h) == Given.filtered /\ (Shipped \/ h # v.active)

TraceInit ==
    /\ run \in 1..Len(Traces)
    /\ line = 1
    /\ end = Given.end
    /\ known = [h \in Node |-> 0] /\ current = [h \in Node |-> 0] /\ up = Node
    /\ records = [h \in Node |-> IF h \in DOMAIN Given.records THEN Given.records[h] ELSE Nobody]
    /\ flight = {} /\ reports = 0 /\ crashes = 0
    /\ actives = <<IF Given.active = 0 THEN Nobody ELSE Given.active>>
    /\ query = NoQuery

(* Those that will not answer are those that the router fails to reach.                                       *)
TraceAsk ==
    Is("ask") /\ Ask(1, Given.alive, Given.failed \intersect Selected(View(1, Given.alive)))

TraceAttempt == Is("attempt") /\ Attempt /\ query'.at = Event[2]
TraceFail == Is("fail") /\ Fail
TraceApply ==
    /\ Is("passed") /\ query.at \in Node
    /\ current' = [current EXCEPT ![query.at] = Event[2]]
    /\ UNCHANGED <<end, known, up, carried, crashes, actives, query>>
TraceReply == Is("reply") /\ Reply
TraceOver == Is("over") /\ query.phase = "failed" /\ UNCHANGED vars

TraceNext == TraceAsk \/ TraceAttempt \/ TraceFail \/ TraceApply \/ TraceReply \/ TraceOver

-------------------------------------------------------------------------------------------
(* "Invariants" that report instead of promising.                                                            *)
ReportAccepted == line > Len(Given.events) => PrintT(<<"accepted", run>>)
ReportReached == PrintT(<<"reached", run, line>>)

(* pull-queries.md#staleness-bounded, by the query's own bound.                                               *)
GivenStaleness ==
    query.phase = "answered" /\ query.at \in Recorded(query.view) /\ GivenLagCounts(query.view, query.at) =>
        end - query.position <= Given.bound + (end - KnownEnd(query.view))
                                + LostSince(query.view.records[query.at].current, query.position)
===========================================================================================
