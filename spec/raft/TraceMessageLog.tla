--------------------------------- MODULE TraceMessageLog ---------------------------------
(* Recorded messages between nodes as behaviours of MessageLog, each trace one log of one run. TraceData holds the  *)
(* traces: an event is its kind, the node, and what the kind has.                                                *)
EXTENDS MessageLog, Sequences, TraceData

VARIABLES
    run,                           \* which trace is followed
    line                           \* which of its events comes next

Events == Traces[run]
Event == Events[line]
At == Event[2]
Is(kind) == line <= Len(Events) /\ Event[1] = kind /\ line' = line + 1 /\ UNCHANGED run

TraceInit == Init /\ run \in 1..Len(Traces) /\ line = 1

TraceNext ==
    \/ Is("start") /\ Starts(At, Event[3])
    \/ Is("stop") /\ Stops(At)
    \/ Is("becomes") /\ Becomes(At, Event[3], Event[4])
    \/ Is("send") /\ Sends(At, Event[3], Event[4], Event[5], Event[6])
    \/ Is("receive") /\ Receives(At, Event[3], Event[4], Event[5], Event[6], line)

(* What TLC tells states apart by: a trace goes one way, so where it has come says all.                             *)
Line == <<run, line>>

-------------------------------------------------------------------------------------------
(* "Invariants" that report instead of promising.                                                            *)
ReportAccepted == line > Len(Events) => PrintT(<<"accepted", run>>)
ReportReached == PrintT(<<"reached", run, line>>)
===========================================================================================
