----------------------------------- MODULE GhostBatches -----------------------------------
(* How a follower of a compacted log is brought up to date (ghost-batches.md#receive-order): one leader, one    *)
(* follower, each of which compacts at its own pace; requests are delayed and repeated at will, and the follower *)
(* loses power. A batch is one offset, its key the thing that a later batch replaces; without a key (NoKey) it   *)
(* stays, as configurations do. Offsets count from 1, 0 is before all of them.                                 *)
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
    flushed,                       \* how much of it a power loss leaves
    known,                         \* the follower's commit index
    match,                         \* how far the leader counts the follower: acknowledged and durable there
    sent                           \* requests: any may arrive, any number of times

vars == <<full, led, commit, log, dirty, flushed, known, match, sent>>

NoKey == 0
Keys == NoKey..MaxKey
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Largest(S) == CHOOSE x \in S : \A y \in S : y <= x
Batch(t, key) == [term |-> t, key |-> key]
Only(f, S) == [o \in S |-> f[o]]

MayGo(key) == key # NoKey

(* What compaction may remove with bound c: batches of which a later one of the same key is at or below c.    *)
Superseded(batches, c) ==
    {o \in DOMAIN batches : \E p \in DOMAIN batches :
        p > o /\ p <= c /\ batches[p].key = batches[o].key /\ MayGo(batches[o].key)}
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
        /\ flushed = dirty
        /\ known = 0
        /\ match = 0
        /\ sent = {}

LeaderAppend(key) ==
    /\ Len(full) < MaxLog
    /\ full' = Append(full, Batch(3, key))
    /\ led' = led \union {Len(full) + 1}
    /\ UNCHANGED <<commit, log, dirty, flushed, known, match, sent>>

(* A majority has it, with the follower or without.                                                          *)
Commit(c) ==
    /\ c \in (commit + 1)..Len(full)
    /\ full[c].term = 3
    /\ commit' = c
    /\ UNCHANGED <<full, led, log, dirty, flushed, known, match, sent>>

LeaderCompacts(o) ==
    /\ o \in Superseded(Only(full, led), CompactionBound(commit, Len(full)))
    /\ led' = led \ {o}
    /\ UNCHANGED <<full, commit, log, dirty, flushed, known, match, sent>>

FollowerCompacts(o) ==
    /\ o \in Superseded(log, CompactionBound(known, dirty))
    /\ log' = Only(log, DOMAIN log \ {o})
    /\ UNCHANGED <<full, led, commit, dirty, flushed, known, match, sent>>

(* A request: batches prev + 1 to last, gaps filled with ghosts, none of them the last.                       *)
CommitSent(index, last) == Min(index, last)
Send(prev, last) ==
    /\ prev \in led \union {0}
    /\ last \in led
    /\ last > prev
    /\ sent' = sent \union {[prev |-> prev, prevTerm |-> IF prev = 0 THEN 0 ELSE full[prev].term, last |-> last,
                             real |-> Only(full, {o \in led : o > prev /\ o <= last}), commit |-> CommitSent(commit, last)]}
    /\ UNCHANGED <<full, led, commit, log, dirty, flushed, known, match>>

Holds(o, batch) == o \in DOMAIN log /\ log[o].term = batch.term

(* Where the first batch begins that is neither known to be committed nor skipped, a real one or a ghost. All  *)
(* up to the last real batch that the log holds is skipped.                                                   *)
FirstLeft(r, k) ==
    LET held == {o \in DOMAIN r.real : Holds(o, r.real[o])}
    IN  Max(Max(r.prev, k), Largest({0} \union held)) + 1

PrevMatches(r, k) == r.prev <= k \/ (r.prev \in DOMAIN log /\ log[r.prev].term = r.prevTerm)

(* With a flush before the reply or without; the reply tells how much of what the request proved is flushed.   *)
Receive(r, flush) ==
    LET k == KnownCommitted(known, BehindGap)
        first == FirstLeft(r, k)
        kept == IF first <= r.last THEN {o \in DOMAIN log : o < first} ELSE DOMAIN log
        new == {o \in DOMAIN r.real : o >= first}
    IN  /\ PrevMatches(r, k)
        /\ log' = [o \in kept \union new |-> IF o \in new THEN r.real[o] ELSE log[o]]
        /\ dirty' = IF first <= r.last THEN r.last ELSE dirty
        /\ flushed' = IF flush THEN dirty' ELSE IF first <= r.last THEN Min(flushed, first - 1) ELSE flushed
        /\ known' = Max(known, Min(r.commit, flushed'))
        /\ match' = Max(match, Min(r.last, flushed'))
        /\ UNCHANGED <<full, led, commit, sent>>

Flush ==
    /\ flushed' = dirty
    /\ UNCHANGED <<full, led, commit, log, dirty, known, match, sent>>

(* A restart, after a power loss or not: whole batches that were not flushed may be gone, and a gap goes with the *)
(* batch behind it. The commit index is learned anew; to keep it would be right too, as what it covers is flushed. *)
(* A request is taken whole or not at all; one that is broken off by a crash leaves a log that ends before its    *)
(* ghost, as if the request had been a shorter one.                                                           *)
Restart(end) ==
    /\ end \in flushed..dirty
    /\ log' = Only(log, {o \in DOMAIN log : o <= end})
    /\ dirty' = Largest({0} \union DOMAIN log')
    /\ flushed' = dirty'
    /\ known' = 0
    /\ UNCHANGED <<full, led, commit, match, sent>>

Next ==
    \/ \E key \in Keys : LeaderAppend(key)
    \/ \E c \in 1..MaxLog : Commit(c)
    \/ \E o \in 1..MaxLog : LeaderCompacts(o) \/ FollowerCompacts(o)
    \/ \E prev \in 0..MaxLog, last \in 1..MaxLog : Send(prev, last)
    \/ \E r \in sent, flush \in BOOLEAN : Receive(r, flush)
    \/ Flush
    \/ \E end \in 0..MaxLog + 2 : Restart(end)

Small == Cardinality(sent) <= MaxSent

-------------------------------------------------------------------------------------------
(* The gap lemma: whoever has a gap, the batch behind it is committed, on leader and follower.               *)
GapsAreCommitted ==
    /\ \A o \in 1..Len(full) : o \notin led => o < commit
    /\ \A o \in 1..dirty : o \notin DOMAIN log => o < commit

(* What the leader counts stays: the follower holds it, or something later of its key is committed, which it    *)
(* holds as well, unless that has not been counted yet: a chunk may end between the two, or the power be lost   *)
(* before the batch behind a ghost is flushed. So a log may end before what is counted.                        *)
CountedStays ==
    \A o \in 1..match :
        \/ o \in DOMAIN log /\ log[o] = full[o]
        \/ o \notin DOMAIN log /\ \E p \in (o + 1)..commit :
            full[p].key = full[o].key /\ (p > match \/ (p \in DOMAIN log /\ log[p] = full[p]))

(* A log ends with a batch, so the next offset is that behind a batch.                                       *)
EndsWithBatch == dirty = Largest({0} \union DOMAIN log)

(* What the follower takes for committed is flushed, and the leader's as far as it is still there.            *)
KnownIsCommitted ==
    /\ known <= Min(commit, flushed) /\ flushed <= dirty
    /\ \A o \in 1..known : o \in DOMAIN log => log[o] = full[o]

(* What has no key is never removed.                                                                         *)
UnkeyedStay ==
    /\ \A o \in 1..Len(full) : full[o].key = NoKey => o \in led
    /\ \A o \in 1..match : full[o].key = NoKey => o \in DOMAIN log

(* What is not to be ruled out by mistake: what the request goes on from is not there, but known to be committed. *)
ASSUME TLCSet(1, FALSE)
Reached ==
    IF ~TLCGet(1) /\ match' > match /\ \E r \in sent : r.prev # 0 /\ r.prev \notin DOMAIN log
    THEN TLCSet(1, TRUE) /\ PrintT(<<"reached", "GoesOnInGap">>) ELSE TRUE

(* Mutants *)
FirstMismatch(r, k) ==                                                       \* FirstLeft
    LET differs == {o \in (Max(r.prev, k) + 1)..r.last : o \notin DOMAIN r.real \/ ~Holds(o, r.real[o])}
    IN  IF differs = {} THEN r.last + 1 ELSE CHOOSE o \in differs : \A p \in differs : o <= p
DropsLastOfKey(batches, c) == {o \in DOMAIN batches : o <= c}                \* Superseded
SupersederAboveCommit(batches, c) ==                                         \* Superseded
    {o \in DOMAIN batches : o <= c /\ MayGo(batches[o].key) /\ \E p \in DOMAIN batches : p > o /\ batches[p].key = batches[o].key}
ConfigurationCompacted(key) == TRUE                                          \* MayGo
CompactAboveCommit(index, end) == end                                        \* CompactionBound
GapForgotten(index, behindGap) == index                                      \* KnownCommitted
CommitBeyondChunk(index, last) == index                                      \* CommitSent
===========================================================================================
