------------------------------------ MODULE ClientLog ------------------------------------
(* What clients of a replicated log may be told, beside what its nodes may do (FlushedRaft): no nodes, no terms,  *)
(* only operations that begin and are answered. A batch of several entries is known by its last offset. Only what *)
(* is answered as committed settles anything; relaxed appends may be lost, and plain reads may show what is.      *)
(* Sources: raft.md#quorum-ack, raft.md#read-levels, raft.md#barrier, history-checks.md#one-open-operation.        *)
EXTENDS Integers, TLC

AcksAll == -1
Max(a, b) == IF a > b THEN a ELSE b

VARIABLES
    open,                          \* operations that wait, each with how far the log was known to reach when it began
    settled,                       \* by offset, the value that is committed there
    taken,                         \* those values, so that long traces need not look for them
    known,                         \* how far the log is known to reach; -1 is nowhere
    gone                           \* values of appends that failed

settledVars == <<settled, taken>>
vars == <<open, settledVars, known, gone>>

Empty == [o \in {} |-> 0]

Init == open = Empty /\ settled = Empty /\ taken = {} /\ known = -1 /\ gone = {}

-------------------------------------------------------------------------------------------
Begin(op, kind, value, acks) ==
    /\ op \notin DOMAIN open
    /\ open' = open @@ (op :> [kind |-> kind, value |-> value, acks |-> acks, since |-> known])
    /\ UNCHANGED <<settledVars, known, gone>>

Over(op) == open' = [o \in DOMAIN open \ {op} |-> open[o]]

(* One place has one value, and one value one place; nothing that failed is anywhere.                         *)
MaySettle(offset, value) ==
    IF offset \in DOMAIN settled THEN settled[offset] = value ELSE value \notin taken /\ value \notin gone
Settle(offset, value) ==
    /\ MaySettle(offset, value)
    /\ IF offset \in DOMAIN settled THEN UNCHANGED settledVars
       ELSE settled' = settled @@ (offset :> value) /\ taken' = taken \union {value}
    /\ known' = Max(known, offset)

(* What was known when an append began stands before it.                                                      *)
Behind(first, since) == first > since

Appended(op, first, last) ==
    /\ op \in DOMAIN open
    /\ open[op].kind = "append"
    /\ first <= last
    /\ IF open[op].acks = AcksAll
       THEN Behind(first, open[op].since) /\ Settle(last, open[op].value)
       ELSE UNCHANGED <<settledVars, known>>
    /\ Over(op)
    /\ UNCHANGED gone

(* An append that failed has had no effect and never will.                                                    *)
MayFail(value) == value \notin taken
Failed(op) ==
    /\ op \in DOMAIN open
    /\ open[op].kind = "append" => MayFail(open[op].value)
    /\ gone' = IF open[op].kind = "append" THEN gone \union {open[op].value} ELSE gone
    /\ Over(op)
    /\ UNCHANGED <<settledVars, known>>

(* Nothing is known of what became of it.                                                                     *)
Unknown(op) == op \in DOMAIN open /\ Over(op) /\ UNCHANGED <<settledVars, known, gone>>

(* A batch that a read returns, and its end: `next' is where to read on.                                      *)
Shown(op, offset, value) ==
    /\ op \in DOMAIN open
    /\ IF open[op].kind = "read" THEN value \notin gone /\ UNCHANGED <<settledVars, known>> ELSE Settle(offset, value)
    /\ UNCHANGED <<open, gone>>

(* A linearizable read and the number of entries reach all that was known when they were asked for.            *)
Reaches(next, since) == next > since

ReadOver(op, next) ==
    /\ op \in DOMAIN open
    /\ open[op].kind = "read_linearizable" => Reaches(next, open[op].since)
    /\ Over(op)
    /\ UNCHANGED <<settledVars, known, gone>>

TailOver(op, next) ==
    /\ op \in DOMAIN open
    /\ Reaches(next, open[op].since)
    /\ known' = Max(known, next - 1)
    /\ Over(op)
    /\ UNCHANGED <<settledVars, gone>>
===========================================================================================
