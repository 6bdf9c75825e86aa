------------------------------------- MODULE Patience -------------------------------------
(* How long a recovery waits for what it wrote before it reads the shards anew (read-path.md#recovery-clean), at one  *)
(* shard, whose disk takes up to Slowest ticks for a write and writes one thing after the other. A shard that is read *)
(* answers when all is there that was on its way; of what was written before that nothing counts any more.      *)
EXTENDS Integers

CONSTANTS
    First,                         \* for how many ticks it waits at first
    Slowest

VARIABLES
    phase,                         \* of the recovery: it reads the shard, waits for a write, or is over
    left,                          \* for how many ticks the disk still writes
    waited,                        \* for how long the recovery has waited for this write
    patience

vars == <<phase, left, waited, patience>>

(* read-path.md#recovery-clean: time-out, doubling.                                                          *)
NextPatience == 2 * patience

Init ==
    /\ phase = "mutate" /\ left \in 1..Slowest
    /\ waited = 0 /\ patience = First

Wait ==
    /\ phase = "mutate" /\ left > 0 /\ waited < patience
    /\ left' = left - 1 /\ waited' = waited + 1
    /\ UNCHANGED <<phase, patience>>

ReadAgain ==
    /\ phase = "mutate" /\ left > 0 /\ waited = patience
    /\ phase' = "digest" /\ patience' = NextPatience
    /\ UNCHANGED <<left, waited>>

(* The shard answers, and is written to again.                                                               *)
Digest ==
    /\ phase = "digest"
    /\ phase' = "mutate" /\ left' \in 1..Slowest /\ waited' = 0
    /\ UNCHANGED patience

Stored ==
    /\ phase = "mutate" /\ left = 0
    /\ phase' = "over"
    /\ UNCHANGED <<left, waited, patience>>

Next == Wait \/ ReadAgain \/ Digest \/ Stored

-------------------------------------------------------------------------------------------
RecoveryEnds == WF_vars(Next) => <>(phase = "over")

(* Mutants: one rule each, named above.                                                                       *)
PatienceStays == patience                                                    \* NextPatience
===========================================================================================
