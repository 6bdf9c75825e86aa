---------------------------------- MODULE TraceClientLog ----------------------------------
(* Recorded operations of clients as behaviours of ClientLog, each trace one log of one run. TraceData holds the   *)
(* traces: an event is its kind, the operation, and up to three values.                                          *)
EXTENDS ClientLog, Sequences, TraceData

VARIABLES
    run,                           \* which trace is followed
    line                           \* which of its events comes next

Events == Traces[run]
Event == Events[line]
Is(kind) == line <= Len(Events) /\ Event[1] = kind /\ line' = line + 1 /\ UNCHANGED run

TraceInit == Init /\ run \in 1..Len(Traces) /\ line = 1

TraceNext ==
    \/ Is("begin") /\ Begin(Event[2], Event[3], Event[4], Event[5])
    \/ Is("appended") /\ Appended(Event[2], Event[3], Event[4])
    \/ Is("failed") /\ Failed(Event[2])
    \/ Is("unknown") /\ Unknown(Event[2])
    \/ Is("shown") /\ Shown(Event[2], Event[3], Event[4])
    \/ Is("read") /\ ReadOver(Event[2], Event[3])
    \/ Is("tail") /\ TailOver(Event[2], Event[3])

(* What TLC tells states apart by: a trace goes one way, so where it has come says all.                             *)
Line == <<run, line>>

-------------------------------------------------------------------------------------------
(* "Invariants" that report instead of promising.                                                            *)
ReportAccepted == line > Len(Events) => PrintT(<<"accepted", run>>)
ReportReached == PrintT(<<"reached", run, line>>)
===========================================================================================
