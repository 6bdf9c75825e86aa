------------------------------------ MODULE AsyncFlush ------------------------------------
(* How a node flushes: a flush begins, the disk works, the flush ends; appends, truncations and further       *)
(* flushes go on meanwhile. To everyone outside it is the flush in one step of FlushedLog (FlushIsOneStep),    *)
(* which is what FlushedRaft builds on. Source: raft.md#finished-flush.                                       *)
EXTENDS Integers, Sequences, FiniteSets, FlushedLog, Rules

CONSTANTS MaxLog, MaxTruncations, MaxFlushes, MaxPowerLosses

VARIABLES
    log,                           \* entries are numbered in the order in which they were written
    flushed,                       \* what the node takes for durable
    durable,                       \* how much of the log really is
    flushes,                       \* flushes under way: what was dirty, and how often the log had been truncated
    truncations,                   \* how often the log was truncated
    written,                       \* entries ever written
    powerLosses

vars == <<log, flushed, durable, flushes, truncations, written, powerLosses>>

Init ==
    /\ log = <<>>
    /\ flushed = 0
    /\ durable = 0
    /\ flushes = {}
    /\ truncations = 0
    /\ written = 0
    /\ powerLosses = 0

AppendEntry ==
    /\ log' = Append(log, written + 1)
    /\ written' = written + 1
    /\ UNCHANGED <<flushed, durable, flushes, truncations, powerLosses>>

(* A truncation is durable before anything else happens to the log.                                          *)
Truncate(k) ==
    /\ k < Len(log)
    /\ log' = Keep(log, k)
    /\ flushed' = FlushedAfterTruncation(flushed, k)
    /\ durable' = Min(durable, k)
    /\ truncations' = truncations + 1
    /\ UNCHANGED <<flushes, written, powerLosses>>

FlushBegin ==
    /\ Len(log) > flushed
    /\ flushes' = flushes \union {[dirty |-> Len(log), truncations |-> truncations, done |-> FALSE]}
    /\ UNCHANGED <<log, flushed, durable, truncations, written, powerLosses>>

(* The disk makes durable what is in the file at that moment.                                                *)
FlushRun(f) ==
    /\ f \in flushes
    /\ ~f.done
    /\ flushes' = (flushes \ {f}) \union {[f EXCEPT !.done = TRUE]}
    /\ durable' = Len(log)
    /\ UNCHANGED <<log, flushed, truncations, written, powerLosses>>

FlushEnd(f) ==
    /\ f \in flushes
    /\ f.done
    /\ flushes' = flushes \ {f}
    /\ flushed' = IF AcceptFlush(f.truncations, truncations) THEN FlushedAfter(flushed, f.dirty) ELSE flushed
    /\ UNCHANGED <<log, durable, truncations, written, powerLosses>>

(* Anything from what is durable on may be left; the node starts again with it.                              *)
PowerLoss(k) ==
    /\ k \in durable..Len(log)
    /\ log' = Keep(log, k)
    /\ flushed' = k
    /\ durable' = k
    /\ flushes' = {}
    /\ truncations' = 0
    /\ powerLosses' = powerLosses + 1
    /\ UNCHANGED written

Next ==
    \/ AppendEntry
    \/ \E k \in 0..Len(log) : Truncate(k)
    \/ FlushBegin
    \/ \E f \in flushes : FlushRun(f)
    \/ \E f \in flushes : FlushEnd(f)
    \/ \E k \in 0..Len(log) : PowerLoss(k)

Spec == Init /\ [][Next]_vars

Small ==
    /\ Len(log) <= MaxLog
    /\ written <= 2 * MaxLog
    /\ truncations <= MaxTruncations
    /\ Cardinality(flushes) <= MaxFlushes
    /\ powerLosses <= MaxPowerLosses

-------------------------------------------------------------------------------------------
FlushedWithinDirty == flushed <= Len(log)
FlushedDurable == flushed <= durable

(* Every step is one of FlushedLog, or none, as far as the log and its flushed offset go.                    *)
FlushIsOneStep ==
    [][\/ \E e \in {written + 1} : log' = Append(log, e) /\ flushed' = flushed
       \/ \E k \in 0..Len(log) : log' = Keep(log, k) /\ flushed' = FlushedAfterTruncation(flushed, k)
       \/ log' = log /\ flushed' \in MayFlushTo(log, flushed)
       \/ \E k \in SurvivesPowerLoss(log, flushed) : log' = Keep(log, k) /\ flushed' = k]_<<log, flushed>>

(* mutants *)
FlushIgnoresTruncation(atStart, now) == TRUE                                 \* AcceptFlush
FlushAssigns(flushedHere, captured) == captured                              \* FlushedAfter
===========================================================================================
