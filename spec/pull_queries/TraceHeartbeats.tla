---------------------------------- MODULE TraceHeartbeats ----------------------------------
(* Recorded heartbeats of servers of pull queries as behaviours of Heartbeats: each trace is one life of one      *)
(* server with what it heard of one other, in milliseconds. The sender's clock is the time of the model; what the *)
(* receiver's clock shows at a check is in the trace, so it is set there. Heartbeats that nobody heard are lost,   *)
(* and not in it. TraceData holds the traces and the interval.                                                   *)
EXTENDS Heartbeats, Sequences, TLC, TraceData

VARIABLES
    run,                           \* which trace is followed
    line                           \* which of its events comes next

Events == Traces[run]
Event == Events[line]
Is(kind) == line <= Len(Events) /\ Event[1] = kind /\ line' = line + 1 /\ UNCHANGED run

TraceInit ==
    /\ run \in 1..Len(Traces)
    /\ line = 1
    /\ now = 0 /\ skew = 0 /\ running = TRUE /\ due = FALSE /\ sent = {} /\ stored = {} /\ status = TRUE

(* Time passes until the heartbeat with this stamp is due, and it is sent.                                    *)
TraceSend ==
    /\ Is("sent")
    /\ now' = Event[2]
    /\ sent' = sent \union {Event[2]}
    /\ UNCHANGED <<skew, running, due, stored, status>>

(* The network hands over once more what was sent, or what was sent before this life of the receiver.         *)
TraceCopy ==
    /\ Is("copied")
    /\ sent' = sent \union {Event[2]}
    /\ UNCHANGED <<now, skew, running, due, stored, status>>

TraceDeliver == Is("heard") /\ Deliver(Event[2])

TraceClock == Is("clock") /\ IF Event[2] - now = skew THEN UNCHANGED vars ELSE Jump(Event[2] - now)

TraceCheck == Is("check") /\ Check /\ status' = (Event[2] = 1)

TraceNext == TraceSend \/ TraceCopy \/ TraceDeliver \/ TraceClock \/ TraceCheck

-------------------------------------------------------------------------------------------
(* "Invariants" that report instead of promising.                                                            *)
ReportAccepted == line > Len(Events) => PrintT(<<"accepted", run>>)
ReportReached == PrintT(<<"reached", run, line>>)
===========================================================================================
