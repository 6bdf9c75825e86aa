------------------------------------- MODULE Appends --------------------------------------
(* A record that a sequencer stores (read-path.md#append-waves): wave after wave, each with a copyset of its own,  *)
(* while STOREs and their answers come late, more than once or never. Some shards are left of an earlier nodeset.  *)
EXTENDS Decision, TLC

CONSTANTS Node, R, MaxWaves

VARIABLES
    nodeset,                       \* of this epoch
    wave, copyset,                 \* the last wave that was begun, 0 for none, and where it goes
    copy,                          \* of each shard, the wave of its copy, 0 for none
    stores, answers,               \* who was asked to store which wave, and who has answered
    stored,                        \* who has stored this wave, as the sequencer heard
    acked

network == <<stores, answers>>
vars == <<nodeset, wave, copyset, copy, network, stored, acked>>

Symmetric == Permutations(Node)
Property == {[domains |-> {{s} : s \in nodeset}, factor |-> R]}

-------------------------------------------------------------------------------------------
(* The rules: a copyset is one of the nodeset, and answers to an earlier wave say nothing of this one. At a shard the *)
(* highest wave stays, and an earlier one is answered as if it were stored (read-path.md#append-waves).        *)
MayHold(shards) == shards \subseteq nodeset
Counts(w) == w = wave
Stays(w, other) == WriteBeats(<<0, w>>, <<0, other>>)

Init ==
    /\ nodeset \in {n \in SUBSET Node : Cardinality(n) >= R}
    /\ wave = 0 /\ copyset = {} /\ copy = [s \in Node |-> 0]
    /\ stores = {} /\ answers = {} /\ stored = {} /\ acked = FALSE

(* The first wave, or the next one when some answer did not come.                                             *)
NextWave(shards) ==
    /\ ~acked /\ wave < MaxWaves
    /\ Cardinality(shards) = R /\ MayHold(shards)
    /\ wave' = wave + 1 /\ copyset' = shards /\ stored' = {}
    /\ stores' = stores \union {<<s, wave + 1>> : s \in shards}
    /\ UNCHANGED <<nodeset, copy, answers, acked>>

Store(s, w) ==
    /\ <<s, w>> \in stores
    /\ copy' = [copy EXCEPT ![s] = IF Stays(w, @) THEN w ELSE @]
    /\ answers' = answers \union {<<s, w>>}
    /\ UNCHANGED <<nodeset, wave, copyset, stores, stored, acked>>

Stored(s, w) ==
    /\ <<s, w>> \in answers /\ s \in copyset /\ Counts(w)
    /\ stored' = stored \union {s}
    /\ UNCHANGED <<nodeset, wave, copyset, copy, network, acked>>

Acknowledge ==
    /\ wave > 0 /\ copyset \subseteq stored
    /\ acked' = TRUE
    /\ UNCHANGED <<nodeset, wave, copyset, copy, network, stored>>

Next ==
    \/ \E shards \in SUBSET Node : NextWave(shards)
    \/ \E s \in Node, w \in 1..MaxWaves : Store(s, w) \/ Stored(s, w)
    \/ Acknowledge

-------------------------------------------------------------------------------------------
(* read-path.md#replication-property-holds: by copies of the wave that was acknowledged, and they stay.          *)
ReplicationPropertyHolds == acked => wave > 0 /\ Replicated(Property, {s \in nodeset : copy[s] = wave})

(* Mutants *)
OlderCounts(w) == TRUE                                                       \* Counts
RemovedMayHold(shards) == TRUE                                               \* MayHold
===========================================================================================
