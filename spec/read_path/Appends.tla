------------------------------------- MODULE Appends --------------------------------------
(* A record that a sequencer stores (read-path.md#append-waves): wave after wave, each with a copyset of its own,  *)
(* while STOREs and their answers come late, more than once or never. Some shards are left of an earlier nodeset.  *)
(* A shard may lose its disk, and is back when nobody has anything to make anew for it.                          *)
EXTENDS Decision, Sequences, TLC

CONSTANTS
    Node, R, MaxWaves, MaxLosses,
    HeardLate, StoredLate          \* whether the sequencer hears of losses late, and whether STOREs come late

VARIABLES
    nodeset,                       \* of this epoch
    wave, sets,                    \* the last wave that was begun, 0 for none, and where each goes
    copy, writing,                 \* of each shard, the wave of its copy, 0 for none; who has which on the way to its disk
    stores, answers,               \* who was asked to store which wave, and who has answered
    stored,                        \* who has stored this wave, as the sequencer heard
    lost, losses,                  \* the shards that lost their disks and are being rebuilt, and how many did so far
    unheard, void,                 \* those of which the sequencer has not heard; whether another wave is due
    since,                         \* of each shard, the last wave that was begun before its loss was heard of
    acked

network == <<stores, answers>>
disks == <<copy, writing>>
shards == <<lost, losses>>
sequencer == <<wave, sets, unheard, void, since>>
vars == <<nodeset, sequencer, disks, network, stored, shards, acked>>

Symmetric == Permutations(Node)
Property == {[domains |-> {{s} : s \in nodeset}, factor |-> R]}
Copyset == IF wave = 0 THEN {} ELSE sets[wave]

-------------------------------------------------------------------------------------------
(* The rules: a copyset is one of the nodeset, and answers to an earlier wave say nothing of this one. At a shard the *)
(* highest wave stays, and an earlier one is answered as if it were stored (read-path.md#append-waves).        *)
MayHold(set) == set \subseteq nodeset
Counts(w) == w = wave
Stays(w, other) == WriteBeats(<<0, w>>, <<0, other>>)
(* read-path.md#append-waves: what a shard has stored does not count any more when it has lost its disk.          *)
EndsWave(s) == s \in Copyset
(* read-path.md#shard-refuses: whoever sent it knew of all that have left of its copyset.                        *)
Knew(set, w) == \A s \in set : s \notin unheard /\ w > since[s]
(* read-path.md#rebuilding-donors: these are not done, for a copy that names the shard is on its way to their disks. *)
OnTheirWay(s) == {t \in Node : \E w \in 1..wave : <<t, w>> \in writing /\ s \in sets[w]}
(* Nor are these, before the record is released, when all that name the shard are made anew.                     *)
Waits(s) == {t \in Node \ lost : copy[t] > 0 /\ s \in sets[copy[t]]}

Init ==
    /\ nodeset \in {n \in SUBSET Node : Cardinality(n) >= R}
    /\ wave = 0 /\ sets = <<>> /\ copy = [s \in Node |-> 0] /\ writing = {}
    /\ stores = {} /\ answers = {} /\ stored = {} /\ acked = FALSE
    /\ lost = {} /\ losses = 0 /\ unheard = {} /\ void = FALSE
    /\ since = [s \in Node |-> 0]

(* The first wave, or the next one when some answer did not come.                                             *)
NextWave(set) ==
    /\ ~acked /\ wave < MaxWaves
    /\ Cardinality(set) = R /\ MayHold(set) /\ set \intersect (lost \ unheard) = {}
    /\ wave' = wave + 1 /\ sets' = Append(sets, set) /\ stored' = {} /\ void' = FALSE
    /\ IF StoredLate THEN stores' = stores \union {<<s, wave + 1>> : s \in set} /\ UNCHANGED writing
       ELSE /\ writing' = IF set \intersect lost = {} /\ Knew(set, wave + 1)
                          THEN writing \union {<<s, wave + 1>> : s \in set} ELSE writing
            /\ UNCHANGED stores
    /\ UNCHANGED <<nodeset, copy, answers, shards, unheard, since, acked>>

(* Nor does a shard take a copy whose copyset has one that leaves (read-path.md#shard-refuses).                 *)
Store(s, w) ==
    /\ <<s, w>> \in stores /\ sets[w] \intersect lost = {} /\ Knew(sets[w], w)
    /\ writing' = writing \union {<<s, w>>}
    /\ UNCHANGED <<nodeset, sequencer, copy, network, stored, shards, acked>>

Write(s, w) ==
    /\ <<s, w>> \in writing
    /\ writing' = writing \ {<<s, w>>}
    /\ copy' = [copy EXCEPT ![s] = IF Stays(w, @) THEN w ELSE @]
    /\ answers' = answers \union {<<s, w>>}
    /\ UNCHANGED <<nodeset, sequencer, stores, stored, shards, acked>>

Stored(s, w) ==
    /\ <<s, w>> \in answers /\ s \in Copyset /\ Counts(w)
    /\ stored' = stored \union {s}
    /\ UNCHANGED <<nodeset, sequencer, disks, network, shards, acked>>

Acknowledge ==
    /\ wave > 0 /\ Copyset \subseteq stored /\ ~void
    /\ acked' = TRUE
    /\ UNCHANGED <<nodeset, sequencer, disks, network, stored, shards>>

Lose(s) ==
    /\ losses < MaxLosses /\ s \notin lost
    /\ losses' = losses + 1 /\ lost' = lost \union {s}
    /\ copy' = [copy EXCEPT ![s] = 0]
    /\ writing' = {each \in writing : each[1] # s}
    /\ IF HeardLate THEN unheard' = unheard \union {s} /\ UNCHANGED <<void, since>>
       ELSE void' = (void \/ EndsWave(s)) /\ since' = [since EXCEPT ![s] = wave] /\ UNCHANGED unheard
    /\ UNCHANGED <<nodeset, wave, sets, network, stored, acked>>

Hear(s) ==
    /\ s \in unheard
    /\ unheard' = unheard \ {s} /\ void' = (void \/ EndsWave(s)) /\ since' = [since EXCEPT ![s] = wave]
    /\ UNCHANGED <<nodeset, wave, sets, disks, network, stored, shards, acked>>

(* All donors are done, and the shard is back. What they do about a record that is released shows in `Rebuilding`. *)
Return(s) ==
    /\ s \in lost /\ OnTheirWay(s) = {} /\ Waits(s) = {}
    /\ lost' = lost \ {s}
    /\ UNCHANGED <<nodeset, sequencer, disks, network, stored, losses, acked>>

Next ==
    \/ \E set \in SUBSET Node : NextWave(set)
    \/ \E s \in Node, w \in 1..MaxWaves : Store(s, w) \/ Write(s, w) \/ Stored(s, w)
    \/ Acknowledge
    \/ \E s \in Node : Lose(s) \/ Hear(s) \/ Return(s)

-------------------------------------------------------------------------------------------
(* read-path.md#replication-property-holds: by copies of the wave that was acknowledged, and they stay.          *)
ReplicationPropertyHolds == acked => wave > 0 /\ Replicated(Property, {s \in nodeset : copy[s] = wave})

(* read-path.md#rebuilding-donors: those that a lost disk took are made anew by who has another one before it is back. *)
RebuiltIsReplicated == acked => Replicated(Property, {s \in nodeset : copy[s] = wave \/ s \in lost})

(* Mutants *)
OlderCounts(w) == TRUE                                                       \* Counts
RemovedMayHold(set) == TRUE                                                  \* MayHold
WaveOutlivesLoss(s) == FALSE                                                 \* EndsWave
NothingOnTheirWay(s) == {}                                                   \* OnTheirWay
OvertakenStoreCounts(set, w) == TRUE                                         \* Knew
===========================================================================================
