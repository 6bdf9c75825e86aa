------------------------------------- MODULE Windows --------------------------------------
(* The window of a reader (read-path.md#window, read-path.md#markers): shards ship what they have of it in order,  *)
(* and say of ranges that nothing is there, or that they may lack some; a copy may be damaged; a gap is as long as *)
(* the answers allow. All LSNs are released, all shards are full and send all that they have.                  *)
EXTENDS Decision

CONSTANTS
    Node, R,
    Last, Size, Least,             \* the LSNs, how many the window holds, and how few where memory is short
    MaxDamaged

VARIABLES
    copies, damaged,               \* the LSNs that each shard has a copy of, and those where it is not what was written
    lacks,                         \* the LSNs up to which each shard may lack records
    sent, asked,                   \* the end of what each shard has sent, and how far they were asked for
    next, ur,                      \* of each shard, the ends of what was taken and of what it may lack
    at, high,                      \* the next LSN to deliver, and the last one of the window
    buffer, wrong, markers,        \* the LSNs whose records wait, those that are not what was written, and the markers
    shown, garbled, lost, count    \* what the application got: LSNs, those that were wrong, losses, and how many in all

shards == <<copies, damaged, lacks>>
wire == <<sent, asked>>
heard == <<next, ur>>
window == <<buffer, wrong, markers>>
told == <<shown, garbled, lost, count>>
vars == <<shards, wire, heard, at, high, window, told>>

Lsn == 1..Last
Property == {[domains |-> {{s} : s \in Node}, factor |-> R]}
AllFull == [s \in Node |-> "full"]
Smallest(S) == CHOOSE x \in S : \A y \in S : y >= x
AtMost(n) == IF n > Last THEN Last ELSE n

-------------------------------------------------------------------------------------------
(* The rules. read-path.md#window: an LSN that was delivered, or is there, is a duplicate.                       *)
Duplicate(n) == n < at \/ n \in buffer
(* read-path.md#under-replicated-range: what is not as it was written is a gap where the shard may lack the record. *)
Intact(s, n) == n \notin damaged[s]
(* read-path.md#markers: where the range ends that a shard may lack, and behind it once P is there.              *)
MarkerOf(s, position) == IF position < ur'[s] THEN ur'[s] ELSE next'[s]
PassesLack(s, to) == at < ur[s] /\ ur[s] <= to /\ to < next[s]
(* read-path.md#window: P has moved since the last slide, whatever the threshold is.                             *)
MaySlide == at > high - Size + 1
Base == at
(* What lies beyond a smaller window may be on its way.                                                        *)
WindowEnd(end) == IF end > high THEN end ELSE high
(* What a gap counts.                                                                                        *)
Losses(first, last) == last - first + 1

Said(n) == {s \in Node : next[s] > n /\ ur[s] <= n}
Lacking(n) == {s \in Node : next[s] > n /\ ur[s] > n}
VerdictAt(n) == ReadVerdict(Property, AllFull, Said(n), Lacking(n))
Used == {n \in buffer \union markers : n > at}
Beyond == IF \E s \in Node : next[s] > high THEN {high + 1} ELSE {}
GapEnd == Smallest(Used \union Beyond)
AtGap == at <= high /\ at \notin buffer /\ Used \union Beyond # {}

Init ==
    /\ copies \in [Node -> SUBSET Lsn]
    /\ damaged \in {d \in [Node -> {{}} \union {{n} : n \in Lsn}] :
        (\A s \in Node : d[s] \subseteq copies[s]) /\ Cardinality({s \in Node : d[s] # {}}) <= MaxDamaged}
    /\ \E s \in Node, n \in 0..Size : lacks = [t \in Node |-> IF t = s THEN n ELSE 0]
    /\ next = [s \in Node |-> 1] /\ ur = [s \in Node |-> 0]
    /\ at = 1 /\ high = Size
    /\ sent = next /\ asked = high
    /\ buffer = {} /\ wrong = {} /\ markers = {}
    /\ shown = {} /\ garbled = {} /\ lost = {} /\ count = 0

(* A shard has sent all that it has up to this LSN.                                                           *)
Passed(s, to, unsure) ==
    /\ next' = [next EXCEPT ![s] = to + 1]
    /\ ur' = [ur EXCEPT ![s] = IF unsure THEN to + 1 ELSE @]
    /\ markers' = markers \union ({MarkerOf(s, at)} \intersect ((at + 1)..high))
    /\ UNCHANGED <<at, high, told>>

Sends(s, to) ==
    /\ to >= sent[s] /\ to <= asked
    /\ \A n \in copies[s] : n < sent[s] \/ to <= n
    /\ sent' = [sent EXCEPT ![s] = to + 1]
    /\ UNCHANGED <<shards, asked>>

(* What comes from beyond the window is not taken.                                                            *)
HearRecord(s, n) ==
    /\ n \in copies[s] /\ Sends(s, n)
    /\ IF n > high THEN UNCHANGED <<heard, at, high, window, told>>
       ELSE /\ Passed(s, n, ~Intact(s, n) \/ next[s] <= lacks[s])
            /\ IF Intact(s, n) /\ ~Duplicate(n)
               THEN buffer' = buffer \union {n} /\ wrong' = IF n \in damaged[s] THEN wrong \union {n} ELSE wrong
               ELSE UNCHANGED <<buffer, wrong>>

HearGap(s, to) ==
    /\ to \notin copies[s] /\ Sends(s, to)
    /\ Passed(s, to, next[s] <= lacks[s])
    /\ UNCHANGED <<buffer, wrong>>

(* Everything before this LSN is delivered.                                                                   *)
MoveTo(to) ==
    /\ at' = to
    /\ buffer' = {n \in buffer : n >= to}
    /\ markers' = {n \in markers : n > to} \union {next[s] : s \in {t \in Node : PassesLack(t, to) /\ next[t] <= high}}
    /\ UNCHANGED <<shards, wire, heard, high>>

Deliver ==
    /\ buffer # {} /\ Smallest(buffer) <= at
    /\ LET n == Smallest(buffer)
       IN  /\ MoveTo(IF n = at THEN at + 1 ELSE at)
           /\ shown' = shown \union {n} /\ count' = count + 1
           /\ garbled' = IF n \in wrong THEN garbled \union {n} ELSE garbled
           /\ wrong' = wrong \ {n}
    /\ UNCHANGED lost

IssueGap ==
    /\ AtGap /\ VerdictAt(at) \in {"complete", "non-auth"}
    /\ MoveTo(GapEnd)
    /\ lost' = lost \union {n \in Lsn : at <= n /\ n < GapEnd} /\ count' = count + Losses(at, GapEnd - 1)
    /\ UNCHANGED <<wrong, shown, garbled>>

Slide ==
    /\ MaySlide /\ high < Last
    /\ \E size \in Least..Size : high' = WindowEnd(AtMost(Base + size - 1))
    /\ at' = Base
    /\ asked' = IF high' > asked THEN high' ELSE asked
    /\ buffer' = {n \in buffer : n >= Base}
    /\ markers' = {n \in markers \union {next[s] : s \in Node} : n > Base /\ n <= high'}
    /\ UNCHANGED <<shards, sent, heard, wrong, told>>

Next ==
    \/ \E s \in Node, n \in Lsn : HearRecord(s, n) \/ HearGap(s, n)
    \/ Deliver \/ IssueGap \/ Slide

-------------------------------------------------------------------------------------------
(* read-path.md#tiling: each LSN is told once, and what is told adds up.                                        *)
Tiling == shown \intersect lost = {} /\ shown \union lost = 1..(at - 1) /\ count = at - 1

(* read-path.md#record-as-appended                                                                           *)
RecordAsAppended == garbled = {} /\ shown \subseteq UNION {copies[s] : s \in Node}

(* read-path.md#gap-has-verdict: at each of its LSNs, from what was heard since START.                          *)
GapHasVerdict == [][\A n \in lost' \ lost : VerdictAt(n) = VerdictAt(at)]_vars

(* read-path.md#acknowledged-not-lost: what some shard still has as it was written.                            *)
AcknowledgedNotLost == \A n \in lost, s \in Node : n \in damaged[s] \/ n \notin copies[s]

(* read-path.md#progress-or-stall                                                                            *)
ProgressOrStall == WF_vars(Next) => <>(at > Last)

(* Mutants *)
ByArrival(n) == n \in buffer                                                 \* Duplicate
Unchecked(s, n) == TRUE                                                      \* Intact
NeverPassed(s, to) == FALSE                                                  \* PassesLack
SlidesByHeard == \E s \in Node : next[s] > high                              \* MaySlide
BaseByHeard == IF Used = {} THEN at ELSE Smallest(Used)                      \* Base
OneLess(first, last) == last - first                                         \* Losses
EndsEarlier(end) == end                                                      \* WindowEnd
===========================================================================================
