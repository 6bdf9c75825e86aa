----------------------------------- MODULE GhostBatches -----------------------------------
(* How a follower of a compacted log is brought up to date (ghost-batches.md#receive-order): one leader, one    *)
(* follower, each of which compacts at its own pace; requests are delayed and repeated at will. A batch is one  *)
(* offset, its key the thing that a later batch replaces. Offsets count from 1, 0 is before all of them.        *)
(* What follower and leader had in common is of term 1, a tail that the follower must give up of term 2, what   *)
(* the leader appends of term 3.                                                                              *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS MaxKey, MaxLog, MaxSent

VARIABLES
    full,                          \* the leader's log as it would be without compaction
    led,                           \* the offsets that the leader still holds
    commit,                        \* what is committed; the leader knows it
    log,                           \* the follower's batches, by offset
    dirty,                         \* the end of the follower's log; ghosts move it
    known,                         \* the follower's commit index
    match,                         \* how far the leader counts the follower: acknowledged and durable there
    sent                           \* requests: any may arrive, any number of times

vars == <<full, led, commit, log, dirty, known, match, sent>>

Keys == 1..MaxKey
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Largest(S) == CHOOSE x \in S : \A y \in S : y <= x
Batch(t, key) == [term |-> t, key |-> key]
Only(f, S) == [o \in S |-> f[o]]

(* What compaction may remove with bound c: batches of which a later one of the same key is at or below c.    *)
Superseded(batches, c) ==
    {o \in DOMAIN batches : \E p \in DOMAIN batches : p > o /\ p <= c /\ batches[p].key = batches[o].key}
CompactionBound(index, end) == index

(* Known to be committed, also just after a restart: the batch behind a gap is (the gap lemma, GapsAreCommitted). *)
Gaps == {o \in 1..dirty : o \notin DOMAIN log}
BehindGap == IF Gaps = {} THEN 0 ELSE Largest(Gaps) + 1
KnownCommitted(index, behindGap) == Max(index, behindGap)

Init ==
    \E common \in 0..2, tail \in 0..2 : \E keys \in [1..common -> Keys] : \E c \in 0..common :
        /\ full = [o \in 1..common |-> Batch(1, keys[o])]
        /\ led = {o \in 1..common : TRUE}
        /\ commit = c
        /\ log = [o \in 1..(common + tail) |-> IF o <= common THEN full[o] ELSE Batch(2, CHOOSE k \in Keys : TRUE)]
        /\ dirty = common + tail
        /\ known = 0
        /\ match = 0
        /\ sent = {}

LeaderAppend(key) ==
    /\ Len(full) < MaxLog
    /\ full' = Append(full, Batch(3, key))
    /\ led' = led \union {Len(full) + 1}
    /\ UNCHANGED <<commit, log, dirty, known, match, sent>>

(* A majority has it, with the follower or without.                                                          *)
Commit(c) ==
    /\ c \in (commit + 1)..Len(full)
    /\ full[c].term = 3
    /\ commit' = c
    /\ UNCHANGED <<full, led, log, dirty, known, match, sent>>

LeaderCompacts(o) ==
    /\ o \in Superseded(Only(full, led), CompactionBound(commit, Len(full)))
    /\ led' = led \ {o}
    /\ UNCHANGED <<full, commit, log, dirty, known, match, sent>>

FollowerCompacts(o) ==
    /\ o \in Superseded(log, CompactionBound(known, dirty))
    /\ log' = Only(log, DOMAIN log \ {o})
    /\ UNCHANGED <<full, led, commit, dirty, known, match, sent>>

(* A request: batches prev + 1 to last, gaps filled with ghosts, none of them the last.                       *)
Send(prev, last) ==
    /\ prev \in led \union {0}
    /\ last \in led
    /\ last > prev
    /\ sent' = sent \union {[prev |-> prev, prevTerm |-> IF prev = 0 THEN 0 ELSE full[prev].term, last |-> last,
                             real |-> Only(full, {o \in led : o > prev /\ o <= last}), commit |-> Min(commit, last)]}
    /\ UNCHANGED <<full, led, commit, log, dirty, known, match>>

Holds(o, batch) == o \in DOMAIN log /\ log[o].term = batch.term

(* Where the first batch begins that is neither known to be committed nor skipped, a real one or a ghost. All  *)
(* up to the last real batch that the log holds is skipped.                                                   *)
FirstLeft(r, k) ==
    LET held == {o \in DOMAIN r.real : o > k /\ Holds(o, r.real[o])}
    IN  Max(Max(r.prev, k), Largest({0} \union held)) + 1

PrevMatches(r, k) == r.prev <= k \/ (r.prev \in DOMAIN log /\ log[r.prev].term = r.prevTerm)

Receive(r) ==
    LET k == KnownCommitted(known, BehindGap)
        first == FirstLeft(r, k)
        kept == IF first <= r.last THEN {o \in DOMAIN log : o < first} ELSE DOMAIN log
        new == {o \in DOMAIN r.real : o >= first}
    IN  /\ PrevMatches(r, k)
        /\ log' = [o \in kept \union new |-> IF o \in new THEN r.real[o] ELSE log[o]]
        /\ dirty' = IF first <= r.last THEN r.last ELSE dirty
        /\ known' = Max(known, r.commit)
        /\ match' = Max(match, r.last)
        /\ UNCHANGED <<full, led, commit, sent>>

(* The commit index is learned anew. A request is taken whole or not at all; one that is broken off by a crash *)
(* leaves a log that ends before its ghost, as if the request had been a shorter one.                         *)
Restart ==
    /\ known' = 0
    /\ UNCHANGED <<full, led, commit, log, dirty, match, sent>>

Next ==
    \/ \E key \in Keys : LeaderAppend(key)
    \/ \E c \in 1..MaxLog : Commit(c)
    \/ \E o \in 1..MaxLog : LeaderCompacts(o) \/ FollowerCompacts(o)
    \/ \E prev \in 0..MaxLog, last \in 1..MaxLog : Send(prev, last)
    \/ \E r \in sent : Receive(r)
    \/ Restart

Small == Cardinality(sent) <= MaxSent

-------------------------------------------------------------------------------------------
(* The gap lemma: whoever has a gap, the batch behind it is committed, on leader and follower.               *)
GapsAreCommitted ==
    /\ \A o \in 1..Len(full) : o \notin led => o < commit
    /\ \A o \in 1..dirty : o \notin DOMAIN log => o < commit

(* What the leader counts stays: the follower holds it, or something later of its key that is committed.      *)
CountedStays ==
    /\ match <= dirty
    /\ \A o \in 1..match :
        \/ o \in DOMAIN log /\ log[o] = full[o]
        \/ o \notin DOMAIN log /\ \E p \in DOMAIN log : p > o /\ p <= commit /\ log[p] = full[p] /\ full[p].key = full[o].key

(* A log ends with a batch, so the next offset is that behind a batch.                                       *)
EndsWithBatch == dirty # 0 => dirty \in DOMAIN log

(* Mutants *)
FirstMismatch(r, k) ==                                                       \* FirstLeft
    LET differs == {o \in (Max(r.prev, k) + 1)..r.last : o \notin DOMAIN r.real \/ ~Holds(o, r.real[o])}
    IN  IF differs = {} THEN r.last + 1 ELSE CHOOSE o \in differs : \A p \in differs : o <= p
DropsLastOfKey(batches, c) == {o \in DOMAIN batches : o <= c}                \* Superseded
CompactAboveCommit(index, end) == end                                        \* CompactionBound
GapForgotten(index, behindGap) == index                                      \* KnownCommitted
===========================================================================================
