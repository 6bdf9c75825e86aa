-------------------------------------- MODULE Epochs --------------------------------------
(* A reader that passes from one epoch to the next (read-path.md#epoch-metadata): a metadata log that grows, each *)
(* epoch with a nodeset of its own, what the reader knows of it, and gaps that need that knowledge. Nothing is      *)
(* lost, and each record is on all shards of its epoch's nodeset. LSNs are epoch * PerEpoch + esn.               *)
EXTENDS Decision

CONSTANTS MaxEpoch, MaxEsn, Until

VARIABLES
    nodesets,                      \* the metadata log: the nodeset of each epoch written so far
    records,                       \* the LSNs that have a record, all of them released
    ended,                         \* the epochs that are recovered, in order
    known,                         \* k, the last epoch whose metadata the reader knows
    asked,                         \* the epoch that the reader has asked about, 0 for none
    set,                           \* the nodeset that the reader reads from
    heard,                         \* of each shard, up to which LSN it has said what it has
    at,                            \* the next LSN to deliver
    over,                          \* the stream has ended
    shown, bridged                 \* what the application got: records, and the LSNs that bridges covered

log == <<nodesets, records, ended>>
reading == <<known, asked, set, heard>>
observed == <<at, over, shown, bridged>>
vars == <<log, reading, observed>>

Shards == {1, 2, 3}
Nodesets == {{1, 2}, {3}}
First(e) == e * PerEpoch
Of(e) == {lsn \in records : EpochOf(lsn) = e}
Largest(S) == CHOOSE x \in S : \A y \in S : y <= x
Smallest(S) == CHOOSE x \in S : \A y \in S : y >= x
Newest == Len(nodesets)

(* The epoch after the recovered ones is the one that is written, and its first release is its esn 0.          *)
Released == Largest({First(ended + 1)} \union Of(ended + 1))
Has(s) == {lsn \in records : s \in nodesets[EpochOf(lsn)]}

(* What the reader has got of a shard, and where the gap at P ends: at the next record, or behind what was said. *)
Got(s) == {lsn \in Has(s) : at <= lsn /\ lsn <= heard[s]}
Buffered == UNION {Got(s) : s \in set}
AllSaid == set # {} /\ \A s \in set : heard[s] >= at
GapEnd == IF Buffered = {} THEN Smallest({heard[s] : s \in set}) + 1 ELSE Smallest(Buffered)
AtGap == ~over /\ at \notin Buffered /\ AllSaid

-------------------------------------------------------------------------------------------
(* The rules: both ends of a gap are in epochs that the reader knows; it asks for the next one when they are not. *)
KnownFor(lsn) == EpochOf(lsn) <= known
MetadataKnown(from, to) == KnownFor(from) /\ KnownFor(to)
MayAsk == set = {} \/ (AtGap /\ ~MetadataKnown(at, GapEnd))
Covered(from, to) == {lsn \in from..to : lsn < to}
Clipped(to) == IF to > Until + 1 THEN Until + 1 ELSE to

Init ==
    /\ nodesets \in {<<n>> : n \in Nodesets}
    /\ records = {} /\ ended = 0
    /\ known = 0 /\ asked = 0 /\ set = {}
    /\ heard = [s \in Shards |-> 0]
    /\ at = First(1) + 1 /\ over = FALSE
    /\ shown = {} /\ bridged = {}

Activate(n) ==
    /\ Newest < MaxEpoch
    /\ nodesets' = Append(nodesets, n)
    /\ UNCHANGED <<records, ended, reading, observed>>

Write ==
    /\ Newest = ended + 1 /\ EsnOf(Released) < MaxEsn
    /\ records' = records \union {Released + 1}
    /\ UNCHANGED <<nodesets, ended, reading, observed>>

Recover ==
    /\ ended + 1 < Newest /\ ended < MaxEpoch
    /\ ended' = ended + 1
    /\ UNCHANGED <<nodesets, records, reading, observed>>

(* The reader asks for the metadata of k + 1, and is told the nodeset that was in force.                       *)
Ask ==
    /\ ~over /\ asked = 0 /\ known < MaxEpoch /\ MayAsk
    /\ asked' = known + 1
    /\ UNCHANGED <<log, known, set, heard, observed>>

(* Shards that leave the nodeset get STOP, those that join begin at P.                                       *)
Learn ==
    /\ asked > 0 /\ asked <= Newest
    /\ known' = asked /\ asked' = 0
    /\ set' = nodesets[asked]
    /\ heard' = [s \in Shards |-> IF s \in nodesets[asked] /\ s \in set THEN heard[s] ELSE 0]
    /\ UNCHANGED <<log, observed>>

Hear(s, to) ==
    /\ ~over /\ s \in set /\ heard[s] < to /\ to <= Released /\ to >= at
    /\ \A lsn \in Has(s) : at <= lsn /\ heard[s] < lsn => lsn >= to
    /\ heard' = [heard EXCEPT ![s] = to]
    /\ UNCHANGED <<log, known, asked, set, observed>>

Deliver ==
    /\ ~over /\ at \in Buffered
    /\ shown' = shown \union {at}
    /\ at' = at + 1 /\ over' = (at + 1 > Until)
    /\ UNCHANGED <<log, reading, bridged>>

IssueBridge ==
    /\ AtGap /\ MetadataKnown(at, GapEnd)
    /\ bridged' = bridged \union Covered(at, Clipped(GapEnd))
    /\ at' = Clipped(GapEnd) /\ over' = (Clipped(GapEnd) > Until)
    /\ UNCHANGED <<log, reading, shown>>

Next ==
    \/ \E n \in Nodesets : Activate(n)
    \/ Write \/ Recover \/ Ask \/ Learn \/ Deliver \/ IssueBridge
    \/ \E s \in Shards : \E to \in Has(s) \union {Released} : Hear(s, to)

-------------------------------------------------------------------------------------------
(* read-path.md#bridge-hides-nothing                                                                         *)
BridgeHidesNothing == bridged \intersect records = {}

(* read-path.md#no-gap-too-early: epochs whose metadata the reader did not know are not passed over.            *)
NoGapTooEarly == \A lsn \in bridged : EpochOf(lsn) <= known

(* read-path.md#tiling                                                                                       *)
Tiling == shown \intersect bridged = {} /\ shown \union bridged = Covered(First(1) + 1, at)

(* read-path.md#record-as-appended                                                                           *)
RecordAsAppended == shown \subseteq records

(* read-path.md#nothing-after-end                                                                            *)
NothingAfterEnd == \A lsn \in shown \union bridged : lsn <= Until

(* Mutants *)
AsksAtOnce == TRUE                                                           \* MayAsk
MetadataIgnored(from, to) == TRUE                                            \* MetadataKnown
OneShort(from, to) == {lsn \in from..to : lsn < to - 1}                      \* Covered
Unclipped(to) == to                                                          \* Clipped
===========================================================================================
