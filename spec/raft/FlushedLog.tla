------------------------------------ MODULE FlushedLog ------------------------------------
(* One node's log with dirty and flushed offsets: what an append, a flush, a truncation, a crash and a      *)
(* power loss do to it. A log is a sequence of entries; `dirty' is its length, `flushed' says how much of     *)
(* it is known to be durable. Positions count from 1 and 0 is "nothing yet" (offset -1 in a history). An       *)
(* entry is a record with at least `term' and `acks'; whatever else it carries is copied along.               *)
(*                                                                                                            *)
(* Sources: documents.md#raft-recovery-committed-and-dirty, raft.md#words, raft.md#truncation,                 *)
(* raft.md#process-crash, raft.md#power-loss. A flush is one step here; AsyncFlush shows that a flush that     *)
(* takes its time, with truncations under way, is the same to everyone outside.                                *)
EXTENDS Integers, Sequences

Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
Largest(S) == CHOOSE x \in S : \A y \in S : y <= x

NoTerm == -1                       \* the term of an entry that is not there

Dirty(log) == Len(log)
TermAt(log, i) == IF i \in 1..Len(log) THEN log[i].term ELSE NoTerm
LastTerm(log) == TermAt(log, Len(log))

(* The consistency check of append_entries: equal term at `i' means equal logs up to `i' (log matching).     *)
Matches(a, b, i) == IF i <= 0 THEN TRUE ELSE i <= Len(a) /\ i <= Len(b) /\ a[i].term = b[i].term

(* The largest position up to which two logs are equal, searched from the end.                               *)
RECURSIVE MatchBefore(_, _, _)
MatchBefore(a, b, i) == IF Matches(a, b, i) THEN i ELSE MatchBefore(a, b, i - 1)
MatchEnd(a, b) == MatchBefore(a, b, Min(Len(a), Len(b)))

(* Truncation keeps 1..k. The flushed offset comes down with it, or what is appended there later would be     *)
(* taken for durable.                                                                                         *)
Keep(log, k) == SubSeq(log, 1, k)
FlushedAfterTruncation(flushed, k) == Min(flushed, k)

(* A flush makes everything durable that was dirty when it began; by the time it ends more may be dirty.     *)
MayFlushTo(log, flushed) == (flushed + 1)..Len(log)

(* A crash of the process leaves the page cache: nothing is lost. A power loss keeps any prefix that holds   *)
(* what was flushed. In both cases the log is flushed before the node serves again.                           *)
SurvivesCrash(log, flushed) == {Len(log)}
SurvivesPowerLoss(log, flushed) == flushed..Len(log)
===========================================================================================
