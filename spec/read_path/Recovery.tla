------------------------------------- MODULE Recovery -------------------------------------
(* The recovery of an epoch (read-path.md#recovery-seal and what follows): a sequencer that may still be writing, *)
(* runs of the next one that seal, read, mutate and clean, one after the other or at once; shards that are away,   *)
(* and may come back with what they have, or without; what readers get of a shard once it takes the release.     *)
EXTENDS Decision, TLC

CONSTANTS
    Node, R,
    MaxEsn,                        \* esns that the sequencer writes
    MaxRuns, MaxDowns, MaxLosses,
    MaxTrim                        \* up to where shards may trim

VARIABLES
    copies,                        \* of each shard and esn: nothing, data, a hole or a bridge, and the run that wrote it
    copyset, append,               \* of each esn: where its copies go, and whether it is open, acknowledged or aborted
    lng,                           \* all appends up to it are finished
    seal,                          \* the run that each shard is sealed for, 0 for none
    trimmed, trimmedThen,          \* up to where each shard has trimmed, and had when it was sealed
    status, up, losses,
    forgot,                        \* the shards that are back without what they had of the epoch, which nobody else has
    hit,                           \* the esns that have lost a copy with a disk
    run,                           \* of each run: how far it is, its plan, where that begins, its mutation set, who has done
                                   \* it, and who has heard that all have
    recovered,                     \* the run that has recovered the epoch, 0 for none
    clean,                         \* the shards that know the epoch to be recovered
    releases,                      \* the shards that have taken the release of the next epoch
    got                            \* what readers got of which esn

shards == <<copies, seal, clean, releases>>
writes == <<copyset, append, lng>>
trims == <<trimmed, trimmedThen>>
nodes == <<status, up, losses, forgot, hit, trims>>
vars == <<shards, writes, nodes, run, recovered, got>>

Esn == 1..MaxEsn
Places == 1..(MaxEsn + 1)          \* a bridge may be one further
Runs == 1..MaxRuns
Symmetric == Permutations(Node)
Property == {[domains |-> {{s} : s \in Node}, factor |-> R]}
Nothing == [kind |-> "none", by |-> 0]
Data == [kind |-> "data", by |-> 0]
Acked == {n \in Esn : append[n] = "acked"}
Largest(S) == CHOOSE x \in S : \A y \in S : y <= x
Smallest(S) == CHOOSE x \in S : \A y \in S : y >= x

-------------------------------------------------------------------------------------------
(* The rules.                                                                                              *)

(* read-path.md#recovery-precedence                                                                          *)
Beats(one, other) == one.by > other.by
(* read-path.md#recovery-digest: a shard that may come back is waited for.                                    *)
Counted(statuses) == statuses
(* read-path.md#loss-is-remembered: what a shard says is no evidence of what it had before its disk was lost; it is *)
(* waited for all the same, since it may have been written to since.                                         *)
Remembered(statuses) == [s \in DOMAIN statuses |-> IF s \in forgot THEN "under" ELSE statuses[s]]
Awaited(statuses) == statuses
(* read-path.md#sealed-when-back: it may have been sealed for every run that there is.                          *)
SealWhenBack == Largest({seal[t] : t \in Node})
(* read-path.md#recovery-seal: what is read can no longer change.                                             *)
Fenced(s, r) == seal[s] = r
(* read-path.md#recovery-seal: only what is released is trimmed; more may have been by the time of the digest.  *)
TrimmedTo(digest) == Largest({0} \union {trimmed[s] : s \in digest})
(* read-path.md#recovery-bridge                                                                              *)
MayPlug(verdict) == verdict \in {"complete", "incomplete"}
(* read-path.md#activation, read-path.md#release-needs-recovery                                              *)
MayRelease == recovered > 0
TakesRelease(s) == s \in clean
(* read-path.md#release-needs-recovery: what a purge deletes, by what CLEAN of this run said.                   *)
Purged(copy, r) == copy.by < r
(* read-path.md#rebuilding-donors: that an epoch is recovered is said once it is, not when CLEAN came.          *)
SaidRecovered(r) == recovered > 0
(* A shard that purged takes no more writes of the epoch (read-path.md#release-needs-recovery).                *)
SealAfterPurge(sealed, r) == Largest({sealed, recovered, r})
(* read-path.md#append-waves                                                                                 *)
Finished(n) == append[n] = "acked"
IsStored(s, n) == copies[s][n] = Data
(* read-path.md#shard-refuses: a shard that is sealed for a later run refuses, also when it has restarted.     *)
TakesRun(s, r) == seal[s] <= r
SealAtRestart(sealed) == sealed

(* read-path.md#recovery-seal, read-path.md#recovery-digest                                                    *)
MayGoOn(verdict, digest) ==
    verdict \in {"complete", "non-auth"} \/ (verdict = "incomplete" /\ Cardinality(digest) >= R)
(* read-path.md#recovery-bridge: where the bridge is, what is plugged, and on how many shards; read-path.md#recovery-clean. *)
BridgeAt(data, from) == Largest({from} \union data) + 1
Plug(won, r) == [kind |-> "hole", by |-> r]
Bridge(r) == [kind |-> "bridge", by |-> r]
Enough(there) == IF there < R THEN there ELSE R
All(these, set) == set \subseteq these

(* The copy that wins at each place, by what the sealed shards have; what is behind a bridge is a hole.        *)
Winner(digest, n) ==
    LET there == {copies[s][n] : s \in digest} \ {Nothing}
    IN  IF there = {} THEN Nothing ELSE CHOOSE c \in there : \A d \in there : c = d \/ ~Beats(d, c)
Plan(digest, from, verdict, r) ==
    LET won == [n \in Places |-> IF n > from THEN Winner(digest, n) ELSE Nothing]
        bridges == {n \in Places : won[n].kind = "bridge"}
        edge == IF bridges = {} THEN MaxEsn + 2 ELSE Smallest(bridges)
        data == {n \in Places : won[n].kind = "data" /\ n < edge}
        bridge == BridgeAt(data, from)
        last == Largest({bridge} \union {n \in Places : won[n] # Nothing})
    IN  [n \in Places |->
            IF n <= from \/ n > last THEN Nothing
            ELSE IF n = bridge /\ MayPlug(verdict) THEN Bridge(r)
            ELSE IF n \in data THEN [kind |-> "data", by |-> r]
            ELSE IF ~MayPlug(verdict) THEN IF won[n] = Nothing THEN Nothing ELSE [kind |-> won[n].kind, by |-> r]
            ELSE Plug(won[n], r)]

(* What a shard has after a mutation: the copy that wins, if it is to have one or had another.                 *)
After(old, new, chosen) ==
    IF new = Nothing \/ (old = Nothing /\ ~chosen) \/ Beats(old, new) THEN old ELSE new

-------------------------------------------------------------------------------------------
NoRun == [phase |-> "none", plan |-> [n \in Places |-> Nothing], from |-> 0, set |-> {}, chosen |-> {}, done |-> {},
          told |-> {}]

Init ==
    /\ copies = [s \in Node |-> [n \in Places |-> Nothing]]
    /\ copyset \in [Esn -> {c \in SUBSET Node : Cardinality(c) = R}]
    /\ append = [n \in Esn |-> "open"]
    /\ lng = 0
    /\ seal = [s \in Node |-> 0]
    /\ trimmed = [s \in Node |-> 0] /\ trimmedThen = trimmed
    /\ status = [s \in Node |-> "full"]
    /\ up = Node /\ losses = 0 /\ forgot = {} /\ hit = {}
    /\ run = [r \in Runs |-> NoRun]
    /\ recovered = 0
    /\ clean = {} /\ releases = {}
    /\ got = {}

Store(s, n) ==
    /\ append[n] = "open" /\ s \in up \intersect copyset[n] /\ seal[s] = 0 /\ copies[s][n] # Data
    /\ copies' = [copies EXCEPT ![s][n] = IF Beats(@, Data) THEN @ ELSE Data]
    /\ UNCHANGED <<seal, clean, releases, writes, nodes, run, recovered, got>>

Acknowledge(n) ==
    /\ append[n] = "open" /\ \A s \in copyset[n] : IsStored(s, n)
    /\ append' = [append EXCEPT ![n] = "acked"]
    /\ UNCHANGED <<shards, copyset, lng, nodes, run, recovered, got>>

Abort(n) ==
    /\ append[n] = "open"
    /\ append' = [append EXCEPT ![n] = "aborted"]
    /\ UNCHANGED <<shards, copyset, lng, nodes, run, recovered, got>>

Advance ==
    /\ lng < MaxEsn /\ Finished(lng + 1)
    /\ lng' = lng + 1
    /\ UNCHANGED <<shards, copyset, append, nodes, run, recovered, got>>

Down(s) ==
    /\ s \in up /\ Cardinality(Node \ up) < MaxDowns
    /\ up' = up \ {s}
    /\ status' = [status EXCEPT ![s] = "unavailable"]
    /\ UNCHANGED <<shards, trims, writes, losses, forgot, hit, run, recovered, got>>

Back(s) ==
    /\ s \notin up /\ status[s] = "unavailable"
    /\ up' = up \union {s}
    /\ status' = [status EXCEPT ![s] = "full"]
    /\ seal' = [seal EXCEPT ![s] = SealAtRestart(@)]
    /\ UNCHANGED <<copies, trims, clean, releases, writes, losses, forgot, hit, run, recovered, got>>

Lose(s) ==
    /\ s \notin up /\ status[s] = "unavailable" /\ losses < MaxLosses
    /\ copies' = [copies EXCEPT ![s] = [n \in Places |-> Nothing]]
    /\ status' = [status EXCEPT ![s] = "under"]
    /\ losses' = losses + 1
    /\ trimmed' = [trimmed EXCEPT ![s] = 0]
    /\ hit' = hit \union {n \in Esn : copies[s][n].kind = "data"}
    /\ UNCHANGED <<seal, trimmedThen, clean, releases, writes, up, forgot, run, recovered, got>>

(* A shard is back with a new disk, once nobody who is there has a copy that names it, and all that may be lost is  *)
(* given up, if any record can have had all of its copies there (read-path.md#status-of-events).                 *)
Gone == {s \in Node : status[s] \in {"unavailable", "under"}}
GivenUp == Replicated(Property, Gone)
Return(s) ==
    /\ status[s] = "under" /\ (GivenUp => \A t \in Gone : status[t] = "under")
    /\ \A n \in Esn, t \in up : s \in copyset[n] => copies[t][n].kind # "data"
    /\ up' = up \union {s}
    /\ status' = [status EXCEPT ![s] = "full"]
    /\ forgot' = IF GivenUp THEN forgot \union Gone ELSE forgot
    /\ seal' = [seal EXCEPT ![s] = SealWhenBack]
    /\ clean' = clean \ {s} /\ releases' = releases \ {s}
    /\ UNCHANGED <<copies, trims, writes, losses, hit, run, recovered, got>>

(* What is released of the epoch while it lasts is trimmed, by one shard after the other.                      *)
Trimmable == {n \in 1..lng : n <= MaxTrim}
Trim(s, to) ==
    /\ s \in up /\ trimmed[s] < to
    /\ trimmed' = [trimmed EXCEPT ![s] = to]
    /\ copies' = [copies EXCEPT ![s] = [n \in Places |-> IF n <= to THEN Nothing ELSE @[n]]]
    /\ UNCHANGED <<seal, trimmedThen, clean, releases, writes, status, up, losses, forgot, hit, run, recovered, got>>

-------------------------------------------------------------------------------------------
Seal(s, r) ==
    /\ s \in up /\ seal[s] < r /\ run[r].phase = "none" /\ recovered = 0
    /\ seal' = [seal EXCEPT ![s] = r]
    /\ trimmedThen' = [trimmedThen EXCEPT ![s] = trimmed[s]]
    /\ UNCHANGED <<copies, trimmed, clean, releases, writes, status, up, losses, forgot, hit, run, recovered, got>>

(* The digest of the sealed shards, all of which can be written to; from is the largest lng that they know of.  *)
Digest(r, from) ==
    LET digest == {s \in up : Fenced(s, r)}
        verdict == Verdict(Property, Counted(Awaited(status)), digest)
        certain == Verdict(Property, Counted(Remembered(status)), digest)
    IN  /\ run[r].phase = "none" /\ recovered = 0 /\ digest # {}
        /\ from \in {Largest({low, TrimmedTo(digest)}) : low \in {0, lng}}
            /\ MayGoOn(verdict, digest)
        /\ \E chosen \in SUBSET digest :
            /\ Cardinality(chosen) = Enough(Cardinality(digest))
            /\ run' = [run EXCEPT ![r] = [phase |-> "mutate", plan |-> Plan(digest, from, certain, r), from |-> from,
                                          set |-> digest, chosen |-> chosen, done |-> {}, told |-> {}]]
        /\ UNCHANGED <<shards, writes, nodes, recovered, got>>

Mutate(s, r) ==
    /\ run[r].phase = "mutate" /\ s \in (run[r].set \ run[r].done) \intersect up /\ TakesRun(s, r)
    /\ copies' = [copies EXCEPT ![s] = [n \in Places |->
            IF n <= trimmed[s] THEN Nothing ELSE After(@[n], run[r].plan[n], s \in run[r].chosen)]]
    /\ run' = [run EXCEPT ![r].done = @ \union {s},
                          ![r].phase = IF All(run[r].done \union {s}, run[r].set) THEN "clean" ELSE @]
    /\ UNCHANGED <<seal, clean, releases, writes, nodes, recovered, got>>

Clean(s, r) ==
    /\ run[r].phase = "clean" /\ s \in (run[r].set \ run[r].told) \intersect up /\ TakesRun(s, r)
    /\ clean' = clean \union {s}
    /\ run' = [run EXCEPT ![r].told = @ \union {s}]
    /\ UNCHANGED <<copies, seal, releases, writes, nodes, recovered, got>>

Recover(r) ==
    /\ run[r].phase = "clean" /\ All(run[r].told, run[r].set) /\ recovered = 0
    /\ recovered' = r
    /\ UNCHANGED <<shards, writes, nodes, run, got>>

(* A shard that took no part deletes what lost above the lng of a run, which some shard has told it that heard CLEAN of  *)
(* that run, even if it was overtaken (read-path.md#release-needs-recovery).                                   *)
Purge(s, r) ==
    /\ SaidRecovered(r) /\ s \in up \ clean /\ run[r].told # {}
    /\ copies' = [copies EXCEPT ![s] = [n \in Places |->
            IF n > run[r].from /\ Purged(@[n], r) THEN Nothing ELSE @[n]]]
    /\ clean' = clean \union {s}
    /\ seal' = [seal EXCEPT ![s] = SealAfterPurge(@, r)]
    /\ UNCHANGED <<releases, writes, nodes, run, recovered, got>>

Release(s) ==
    /\ MayRelease /\ s \in up \ releases /\ TakesRelease(s)
    /\ releases' = releases \union {s}
    /\ UNCHANGED <<copies, seal, clean, writes, nodes, run, recovered, got>>

Show(s, n) ==
    /\ s \in up /\ copies[s][n] # Nothing /\ (n <= lng \/ s \in releases)
    /\ <<n, copies[s][n].kind>> \notin got
    /\ got' = got \union {<<n, copies[s][n].kind>>}
    /\ UNCHANGED <<shards, writes, nodes, run, recovered>>

Next ==
    \/ \E s \in Node : Down(s) \/ Back(s) \/ Lose(s) \/ Return(s) \/ Release(s)
    \/ \E s \in Node, n \in Esn : Store(s, n)
    \/ \E s \in Node, to \in Trimmable : Trim(s, to)
    \/ \E s \in Node, n \in Places : Show(s, n)
    \/ \E n \in Esn : Acknowledge(n) \/ Abort(n)
    \/ Advance
    \/ \E s \in Node, r \in Runs : Seal(s, r) \/ Mutate(s, r) \/ Clean(s, r) \/ Purge(s, r)
    \/ \E r \in Runs : Recover(r)
    \/ \E r \in Runs, from \in 0..MaxEsn : Digest(r, from)

-------------------------------------------------------------------------------------------
Holding(n) == {s \in Node : copies[s][n].kind = "data"}

(* read-path.md#acknowledged-not-lost: what no disk has lost is there, unless it is trimmed.                   *)
AcknowledgedNotLost == \A n \in Acked \ hit : Cardinality(Holding(n)) >= R \/ \E s \in Node : n <= trimmed[s]

(* read-path.md#bridge-hides-nothing, and no hole, also over what disks have lost.                             *)
BridgeHidesNothing ==
    \A n \in Acked, s \in Node :
        copies[s][n].kind # "hole" /\ \A b \in Places : b <= n => copies[s][b].kind # "bridge"

(* read-path.md#holes-are-for-all                                                                            *)
HolesAreForAll ==
    \A n \in Places : <<n, "data">> \in got =>
        <<n, "hole">> \notin got /\ \A b \in Places : b <= n => <<b, "bridge">> \notin got

(* read-path.md#recovered-copies-agree                                                                       *)
RecoveredCopiesAgree ==
    recovered > 0 => \A s, t \in run[recovered].set, n \in Places :
        n > lng /\ copies[s][n] # Nothing /\ copies[t][n] # Nothing => copies[s][n].kind = copies[t][n].kind

(* read-path.md#recovery-bridge, read-path.md#recovered-copies-agree: when a run has recovered the epoch, each place *)
(* above what is known to be good has enough copies, up to the bridge, which is right behind the last record.   *)
RecoverySettlesAll ==
    [][recovered = 0 /\ recovered' > 0 /\ losses = 0 =>
        LET r == recovered'
            Held(n) == {copies[s][n] : s \in run[r].set} \ {Nothing}
            bridges == {n \in Places : \E c \in Held(n) : c.kind = "bridge"}
        IN  /\ Cardinality(bridges) = 1
            /\ \A bridge \in bridges :
                /\ bridge = lng + 1 \/ \E c \in Held(bridge - 1) : c.kind = "data"
                /\ \A n \in Places : lng < n /\ n <= bridge =>
                    Cardinality({s \in run[r].set : copies[s][n] # Nothing}) >= R]_vars

(* read-path.md#progress-or-stall: a recovery ends, whatever was lost, unless it waits for somebody who may be back. *)
RecoveryWorks ==
    \/ \E r \in Runs : Recover(r) \/ \E from \in 0..MaxEsn : Digest(r, from)
    \/ \E s \in Node, r \in Runs : Seal(s, r) \/ Mutate(s, r) \/ Clean(s, r)
RecoveryEnds == WF_vars(RecoveryWorks) => []<>(recovered > 0 \/ \E s \in Node : status[s] = "unavailable")

(* read-path.md#replication-property-holds; nothing else is released, and what was acknowledged stays so.        *)
ReplicationPropertyHolds == [][\A n \in Esn :
    /\ n \in Acked' \ Acked => Replicated(Property, Holding(n))
    /\ n \in Acked => n \in Acked'
    /\ lng < n /\ n <= lng' => n \in Acked]_vars
===========================================================================================
