------------------------------------ MODULE Heartbeats ------------------------------------
(* Who is alive, by heartbeats that are late or lost and clocks that differ (pull-queries.md#tail-decides,      *)
(* pull-queries.md#slots): one sender, one receiver that judges it. The sender's clock is the time of the model; *)
(* the receiver's is ahead of it by skew, and may jump. A heartbeat is sent every unit of time, so the interval  *)
(* is 1. A check may come at any moment; Decided is what it would say, so that the promises are about every      *)
(* state and not about those alone in which one comes.                                                         *)
EXTENDS Integers, FiniteSets

CONSTANTS Shipped, Threshold, Received, Window, MaxNow, MaxSkew, MaxDelay

VARIABLES
    now,                           \* the time
    skew,                          \* by how much the receiver's clock is ahead
    running,                       \* whether the sender runs
    due,                           \* whether the heartbeat of this unit is still to be sent
    sent,                          \* the stamps of heartbeats on their way
    stored,                        \* the stamps that the receiver has
    status                         \* whether the receiver takes the sender for alive

vars == <<now, skew, running, due, sent, stored, status>>

(* The send interval in units of time; recorded runs, which are followed, count milliseconds.                 *)
Interval == 1

Largest(S) == CHOOSE x \in S : \A y \in S : y <= x
End == now + skew
Start == End - Window

(* So many send intervals without a heartbeat are a silence (pull-queries.md#thresholds).                     *)
Silence == IF Shipped THEN Threshold ELSE Threshold + 1

-------------------------------------------------------------------------------------------
(* The decision. The rules carry the names that quorumlog/pull_queries/rules.py has for them.               *)
MissedBetween(previous, stamp, send) == IF stamp - previous > send THEN (stamp - previous - 1) \div send ELSE 0
MissedAtEnd(previous, missed, end, send) ==
    IF end - previous > 1 THEN (end - previous - 1) \div send ELSE missed
Tolerated(missed, threshold) == missed < threshold
AfterSlot(filled, up, missed, received, most, least) ==
    IF filled THEN <<up \/ received + 1 >= least, 0, received + 1>>
              ELSE <<up /\ missed + 1 <= most, missed + 1, 0>>

(* The last two stamps before the end, or the window's start in their places.                               *)
AliveByTail(start, end, stamps) ==
    LET before == {ts \in stamps : ts < end}
        previous == IF before = {} THEN start ELSE Largest(before)
        earlier == before \ {previous}
        gap == MissedBetween(IF earlier = {} THEN start ELSE Largest(earlier), previous, Interval)
    IN  stamps # {} /\ Tolerated(MissedAtEnd(previous, gap, end, Interval), Threshold)

AliveBySlots(start, end, stamps, up) ==
    LET slots == (end - start) \div Interval
        filled == {(ts - start) \div Interval : ts \in stamps}
        after[k \in 0..slots] ==
            IF k = 0 THEN <<up, 0, 0>>
            ELSE LET last == after[k - 1]
                 IN  AfterSlot(k - 1 \in filled, last[1], last[2], last[3], Threshold, Received)
    IN  after[slots][1]

Decide(start, end, stamps, up) ==
    IF Shipped THEN AliveByTail(start, end, stamps) ELSE AliveBySlots(start, end, stamps, up)

Counted == {ts \in stored : Start <= ts /\ ts <= End}
Decided == stored # {} /\ Decide(Start, End, Counted, status)

-------------------------------------------------------------------------------------------
Init ==
    /\ now = 0
    /\ skew \in -MaxSkew..MaxSkew
    /\ running = TRUE
    /\ due = TRUE
    /\ sent = {}
    /\ stored = {}
    /\ status = TRUE

(* Time passes when this unit's heartbeat is sent, and nothing is on its way for longer than MaxDelay.      *)
Tick ==
    /\ now < MaxNow /\ ~due
    /\ \A ts \in sent : now - ts < MaxDelay
    /\ now' = now + 1
    /\ due' = running
    /\ UNCHANGED <<skew, running, sent, stored, status>>

Send ==
    /\ due
    /\ due' = FALSE
    /\ sent' = sent \union {now}
    /\ UNCHANGED <<now, skew, running, stored, status>>

(* What a receipt makes of the status: nothing (pull-queries.md#receipt-or-check).                          *)
OnReceipt(up) == up

Deliver(ts) ==
    /\ ts \in sent
    /\ sent' = sent \ {ts}
    /\ stored' = stored \union {ts}
    /\ status' = OnReceipt(status)
    /\ UNCHANGED <<now, skew, running, due>>

Lose(ts) ==
    /\ ts \in sent
    /\ sent' = sent \ {ts}
    /\ UNCHANGED <<now, skew, running, due, stored, status>>

Check ==
    /\ status' = Decided
    /\ stored' = {ts \in stored : ts >= Start}
    /\ UNCHANGED <<now, skew, running, due, sent>>

Stop ==
    /\ running
    /\ running' = FALSE
    /\ due' = FALSE
    /\ UNCHANGED <<now, skew, sent, stored, status>>

Jump(by) ==
    /\ by # skew
    /\ skew' = by
    /\ UNCHANGED <<now, running, due, sent, stored, status>>

Next ==
    \/ Tick
    \/ Send
    \/ \E ts \in 0..MaxNow : Deliver(ts) \/ Lose(ts)
    \/ Check
    \/ Stop
    \/ \E by \in -MaxSkew..MaxSkew : Jump(by)

-------------------------------------------------------------------------------------------
Slot(k) == Start + k \in stored
LongestGap(most) == \A k \in 0..(Window - most - 1) : \E j \in k..(k + most) : Slot(j)

(* pull-queries.md#no-false-down: heard in time.                                                            *)
NoFalseDown ==
    (IF Shipped
     THEN \E ts \in stored : Start <= ts /\ ts <= End - 2 /\ End - ts <= Silence
     ELSE \/ status /\ LongestGap(Threshold)
          \/ \A k \in (Window - Received)..(Window - 1) : Slot(k))
    => Decided

(* pull-queries.md#silence-is-down: not heard in time, whatever was heard before or comes from the future.    *)
SilenceIsDown == (\A ts \in stored : ts < End - Silence \/ ts >= End) => ~Decided

(* pull-queries.md#status-replays: the status is what a check made of it.                                   *)
StatusReplays == [][status' # status => status' = Decided /\ UNCHANGED <<now, skew, sent>>]_vars

(* Mutants *)
CountersNotReset(filled, up, missed, received, most, least) ==               \* AfterSlot
    IF filled THEN <<up \/ received + 1 >= least, missed, received + 1>>
              ELSE <<up /\ missed + 1 <= most, missed + 1, 0>>
ToleratesThreshold(missed, threshold) == missed <= threshold                 \* Tolerated
UpOnReceipt(up) == TRUE                                                      \* OnReceipt
===========================================================================================
