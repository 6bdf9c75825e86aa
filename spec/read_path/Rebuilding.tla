------------------------------------ MODULE Rebuilding ------------------------------------
(* Donors make the copies of shards that leave anew while the record's epoch may be in recovery               *)
(* (read-path.md#rebuilding-donors, read-path.md#recovery-clean): one record of an epoch whose sequencer has ended, *)
(* acknowledged or not, released or not; shards that are away and come back, lose their disks, or are drained, which *)
(* may be given up; donors that take a record up, write new copies, amend the others, and begin anew whenever somebody *)
(* else leaves or is back; a recovery *)
(* that reads, writes, cleans, and begins anew at such times. What the event log says is known at once. Any holder *)
(* may take the record up: whoever sees nothing come of another one does.                                      *)
EXTENDS Decision, TLC

CONSTANTS
    Node, R,
    MaxAways, MaxLosses, MaxDrains

VARIABLES
    copy,                          \* of each shard: nothing, or the copyset that its copy names, and the attempt that wrote it
    acked, known,                  \* whether the record was acknowledged, and whether it is known to be good (lng)
    status,                        \* of each shard, by the event log
    done,                          \* the donors that are done with the plan
    aways, losses, drains,
    drained,                       \* the shards that are drained: they leave, and have all that they had
    task,                          \* of each shard: the copyset that it gives the record as a donor, who of those drained is
                                   \* to have it too, and who has stored that
    run,                           \* the recovery: its phase, attempt, mutation set, copyset, who did it, who has heard CLEAN
    clean,                         \* of each shard: the last attempt of which it has heard CLEAN, or All after a purge
    release                        \* the shards that have taken the release of the next epoch

disks == <<copy, clean, release>>
log == <<status, done, aways, losses, drains, drained>>
record == <<acked, known>>
vars == <<disks, log, record, task, run>>

Symmetric == Permutations(Node)
Property == {[domains |-> {{s} : s \in Node}, factor |-> R]}
Nothing == [set |-> {}, by |-> 0]
Idle == [set |-> {}, drained |-> {}, stored |-> {}]
All == 99
NoRun(attempt) == [phase |-> "none", attempt |-> attempt, among |-> {}, set |-> {}, wrote |-> {}, told |-> {}]
Attempts == aways + losses + drains + 1     \* no more are begun

Up == {s \in Node : status[s] = "full"}
Staying == Up \ drained
Leaving == Node \ Staying
Gone == {s \in Node : status[s] \in {"unavailable", "under"}}
Rebuilt == Gone \union drained
Copysets(among) == {c \in SUBSET among : Cardinality(c) = IF Cardinality(among) < R THEN Cardinality(among) ELSE R}
Holders(among) == {s \in among : copy[s] # Nothing}
Named(s) == copy[s].set \union {s}   \* who has the record by a copy: if that was drained, its copyset does not name the shard

-------------------------------------------------------------------------------------------
(* The rules.                                                                                              *)

(* read-path.md#rebuilding-donors: donors wait for the release; what a recovery settles is released with the next epoch. *)
Settled(s) == known \/ s \in release
(* The copies that a shard waits for before it is done: those of its own that name a shard that leaves, drained or not. *)
Waits(s) == copy[s].set \intersect Rebuilt # {}
(* read-path.md#rebuilding-donors: others of its copyset may not have theirs yet. CLEAN may be of an earlier attempt. *)
RecoveryUnderWay(s) == copy[s].by > 0 /\ s \notin release
(* read-path.md#status-of-events: no record can have all of its copies on shards that are lost.                  *)
Authoritative == ~Replicated(Property, Gone)
(* read-path.md#rebuilding-donors: new copies come first, then others are amended, and its own the last.         *)
New(s) == task[s].set \ Named(s)
Stores(s) == task[s].set \union task[s].drained
InOrder(s, t) ==
    \/ t \in New(s)
    \/ New(s) \subseteq task[s].stored /\ (t = s => Stores(s) \ {s} \subseteq task[s].stored)

(* read-path.md#rebuilding-donors: a donor that has the release says so, and who has not purged does that first. *)
TakesOfDonor(s, t) == s \in release => clean[t] > 0
(* read-path.md#release-needs-recovery: what is known to be good stays, and what this run or a later one wrote.   *)
Kept(s) == known \/ copy[s].by >= run.attempt

-------------------------------------------------------------------------------------------
Init ==
    /\ \E set \in Copysets(Node), have \in SUBSET Node :
        /\ have # {} /\ have \subseteq set
        /\ copy = [s \in Node |-> IF s \in have THEN [set |-> set, by |-> 0] ELSE Nothing]
        /\ acked \in BOOLEAN /\ known \in BOOLEAN
        /\ acked => have = set
        /\ known => acked
    /\ status = [s \in Node |-> "full"]
    /\ done = {} /\ aways = 0 /\ losses = 0 /\ drains = 0 /\ drained = {}
    /\ task = [s \in Node |-> Idle]
    /\ run = NoRun(1)
    /\ clean = [s \in Node |-> 0] /\ release = {}

(* Somebody else leaves, or is back: donors begin anew, and so does a recovery that writes.                      *)
PlanAnew ==
    /\ done' = {}
    /\ task' = [s \in Node |-> Idle]
    /\ run' = IF run.phase \in {"mutate", "clean"} THEN NoRun(run.attempt + 1) ELSE run

Away(s) ==
    /\ s \in Up /\ aways < MaxAways
    /\ aways' = aways + 1
    /\ status' = [status EXCEPT ![s] = "unavailable"]
    /\ drained' = drained \ {s}
    /\ PlanAnew
    /\ UNCHANGED <<disks, losses, drains, record>>

Drain(s) ==
    /\ s \in Staying /\ drains < MaxDrains
    /\ drains' = drains + 1
    /\ drained' = drained \union {s}
    /\ PlanAnew
    /\ UNCHANGED <<disks, status, aways, losses, record>>

GiveUp(s) ==
    /\ s \in drained
    /\ drained' = drained \ {s}
    /\ PlanAnew
    /\ UNCHANGED <<disks, status, aways, losses, drains, record>>

Back(s) ==
    /\ status[s] = "unavailable"
    /\ status' = [status EXCEPT ![s] = "full"]
    /\ PlanAnew
    /\ UNCHANGED <<disks, aways, losses, drains, drained, record>>

(* What was away is not coming back; donors go on (read-path.md#rebuilding-donors).                             *)
Lose(s) ==
    /\ status[s] = "unavailable" /\ losses < MaxLosses
    /\ losses' = losses + 1
    /\ status' = [status EXCEPT ![s] = "under"]
    /\ copy' = [copy EXCEPT ![s] = Nothing]
    /\ clean' = [clean EXCEPT ![s] = 0]
    /\ release' = release \ {s}
    /\ UNCHANGED <<done, aways, drains, drained, record, task, run>>

(* A shard is back after it was rebuilt, with what it had or with a new disk.                                   *)
Acknowledge(s) ==
    /\ status[s] = "empty"
    /\ status' = [status EXCEPT ![s] = "full"]
    /\ run' = IF run.phase \in {"mutate", "clean"} THEN NoRun(run.attempt + 1) ELSE run
    /\ UNCHANGED <<disks, done, aways, losses, drains, drained, record, task>>

-------------------------------------------------------------------------------------------
(* Donors.                                                                                                 *)

(* Copysets that keep these shards, with few more than needed.                                                 *)
With(kept) == IF Cardinality(kept) >= R THEN {kept} ELSE {set \in Copysets(Staying) : kept \subseteq set}

TakeUp(s) ==
    /\ s \in Up /\ task[s] = Idle /\ Waits(s) /\ Settled(s)
    /\ Cardinality(Staying) >= R
    /\ \E set \in With(Named(s) \ Leaving) :
        task' = [task EXCEPT ![s].set = set, ![s].drained = Named(s) \intersect drained]
    /\ UNCHANGED <<disks, log, record, run>>

(* What a shard has of a later attempt stays, and it answers as if it had taken this.                           *)
Donate(s, t) ==
    /\ t \in Stores(s) \ task[s].stored /\ InOrder(s, t)
    /\ TakesOfDonor(s, t)
    /\ copy' = IF copy[t].by > copy[s].by THEN copy ELSE [copy EXCEPT ![t] = [set |-> task[s].set, by |-> copy[s].by]]
    /\ task' = [task EXCEPT ![s] = IF t = s THEN Idle ELSE [@ EXCEPT !.stored = @ \union {t}]]
    /\ UNCHANGED <<clean, release, log, record, run>>

(* All that a donor does is stored; the last one who is done makes the shards empty (read-path.md#status-of-events). *)
Done(s) ==
    /\ Rebuilt # {} /\ s \in Up \ done
    /\ ~Waits(s) /\ ~RecoveryUnderWay(s)
    /\ done' = done \union {s}
    /\ LET complete == Up \subseteq done' /\ (Authoritative \/ \A t \in Gone : status[t] = "under")
       IN  /\ status' = [t \in Node |-> IF complete /\ t \in Rebuilt THEN "empty" ELSE status[t]]
           /\ drained' = IF complete THEN {} ELSE drained
    /\ UNCHANGED <<disks, aways, losses, drains, record, task, run>>

-------------------------------------------------------------------------------------------
(* The recovery, of which a later attempt is a later wave.                                                    *)

Digest ==
    /\ run.phase = "none" /\ run.attempt <= Attempts
    /\ \E read \in SUBSET Up :
        LET verdict == Verdict(Property, status, read)
            among == read \ drained
        IN  /\ verdict \in {"complete", "non-auth"} \/ (verdict = "incomplete" /\ Cardinality(among) >= R)
            /\ Cardinality(among) >= R
            /\ Holders(read) # {}
            /\ \E set \in Copysets(among) :
                /\ set \subseteq Holders(among) \/ Holders(among) \subseteq set
                /\ run' = [run EXCEPT !.phase = "mutate", !.among = among, !.set = set]
    /\ UNCHANGED <<disks, log, record, task>>

Mutate(s) ==
    /\ run.phase = "mutate" /\ s \in run.among \ run.wrote
    /\ copy' = IF s \in run.set \/ copy[s] # Nothing
               THEN [copy EXCEPT ![s] = [set |-> run.set, by |-> run.attempt]] ELSE copy
    /\ run' = [run EXCEPT !.wrote = @ \union {s},
                          !.phase = IF run.wrote \union {s} = run.among THEN "clean" ELSE "mutate"]
    /\ UNCHANGED <<clean, release, log, record, task>>

Clean(s) ==
    /\ run.phase = "clean" /\ s \in run.among \ run.told
    /\ clean' = [clean EXCEPT ![s] = run.attempt]
    /\ run' = [run EXCEPT !.told = @ \union {s}]
    /\ UNCHANGED <<copy, release, log, record, task>>

Recover ==
    /\ run.phase = "clean" /\ run.told = run.among
    /\ run' = [run EXCEPT !.phase = "over"]
    /\ UNCHANGED <<disks, log, record, task>>

(* A shard that took no part deletes what lost (read-path.md#release-needs-recovery).                           *)
Purge(s) ==
    /\ run.phase = "over" /\ s \in Up /\ clean[s] = 0
    /\ clean' = [clean EXCEPT ![s] = All]
    /\ copy' = IF Kept(s) THEN copy ELSE [copy EXCEPT ![s] = Nothing]
    /\ UNCHANGED <<release, log, record, task, run>>

Release(s) ==
    /\ run.phase = "over" /\ s \in Up \ release /\ clean[s] > 0
    /\ release' = release \union {s}
    /\ UNCHANGED <<copy, clean, log, record, task, run>>

Next ==
    \/ \E s \in Node : Away(s) \/ Drain(s) \/ GiveUp(s) \/ Back(s) \/ Lose(s) \/ Acknowledge(s) \/ TakeUp(s) \/ Done(s)
    \/ \E s, t \in Node : Donate(s, t)
    \/ Digest \/ Recover
    \/ \E s \in Node : Mutate(s) \/ Clean(s) \/ Purge(s) \/ Release(s)

-------------------------------------------------------------------------------------------
(* read-path.md#rebuilding-donors, read-path.md#status-of-events: when nobody is being rebuilt, an acknowledged record *)
(* has enough copies that count, or its disks were lost.                                                       *)
RebuiltIsReplicated ==
    acked /\ Rebuilt = {} => Replicated(Property, Holders(Up)) \/ (Holders(Up) = {} /\ losses >= R)

(* read-path.md#rebuilding-donors: it ends, or who is away comes back, unless fewer are left than a copyset needs.   *)
RebuildingWorks ==
    \/ \E s \in Node : TakeUp(s) \/ Done(s) \/ Mutate(s) \/ Clean(s) \/ Purge(s) \/ Release(s)
    \/ \E s, t \in Node : Donate(s, t)
    \/ Digest \/ Recover
RebuildingEnds == WF_vars(RebuildingWorks) => []<>(Rebuilt = {} \/ Cardinality(Staying) < R)
===========================================================================================
