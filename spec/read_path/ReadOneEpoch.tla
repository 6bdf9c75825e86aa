----------------------------------- MODULE ReadOneEpoch -----------------------------------
(* One epoch of a log, its shards and a reader (read-path.md#gap-verdict, read-path.md#reader-statuses,          *)
(* read-path.md#rewind): records with R copies, shards that go down, lose their data and are rebuilt, statuses    *)
(* that the reader learns late, answers that are older than what it has learnt, or newer. LSNs count from 1; a gap *)
(* is one LSN, and the window holds all of them. The reader is one record; the rules that mutants replace say so.  *)
EXTENDS Decision, TLC

CONSTANTS
    Node, R,
    Last, Written,                 \* LSNs there may be, and those that are there in the beginning
    MaxDowns, MaxLosses, MaxDirty, MaxTrim,
    Scd,                           \* single-copy delivery is on
    Delay                          \* answers may be on their way, one of each shard

VARIABLES
    store,                         \* the LSNs that each shard has a copy of
    disk,                          \* ok; down; lost: up again without its data, not yet rebuilt
    dirty,                         \* the LSNs that each shard may have lost at an unclean restart
    copyset,                       \* of each record, as its copies name it
    acked,                         \* the records that were acknowledged
    released, trim,
    status, version, emptied,      \* the event log: the statuses, its length, up to where readers must ask anew
    known,                         \* how much of the event log a shard has seen for certain
    downs, losses,                 \* how many there were
    started, sent,                 \* the shards that have taken the last START, and what each has sent since: up to it
    flight,                        \* of each shard, the answer that is on its way
    reader,
    lost, shown, trimmed,          \* what the reader told the application of each LSN
    whole                          \* the records that have been adequate since the last START to all

data == <<store, disk, dirty, copyset, acked, released, trim, downs, losses>>
events == <<status, version, emptied, known>>
streams == <<started, sent, flight>>
observed == <<lost, shown, trimmed, whole>>
vars == <<data, events, streams, observed, reader>>

Lsn == 1..Last
Max(a, b) == IF a > b THEN a ELSE b
Symmetric == Permutations(Node)
Property == {[domains |-> {{s} : s \in Node}, factor |-> R]}
None == [kind |-> "none"]
Grace == 2                         \* a grace period, in ticks

(* The order that all shards give to a copyset (read-path.md#scd-filter), the same for all records.            *)
Order == CHOOSE order \in [1..Cardinality(Node) -> Node] : \A s \in Node : \E i \in DOMAIN order : order[i] = s
Ordered(shards) == SelectSeq(Order, LAMBDA s : s \in shards)

Up == {s \in Node : disk[s] # "down"}
Holders(lsn) == {s \in Node : lsn \in store[s]}
(* Acknowledged records with R copies on disks that are not lost; a shard that is down still has its copies, and *)
(* those of one that is taken for empty do not count.                                                        *)
Adequate(records, copies, statuses) ==
    {lsn \in records : Cardinality({s \in Node : lsn \in copies[s] /\ statuses[s] # "empty"}) >= R}

-------------------------------------------------------------------------------------------
(* The reader's rules.                                                                                      *)
Said(r) == {s \in Node : r.next[s] > r.at /\ r.lacks[s] <= r.at}
Lacking(r) == {s \in Node : r.next[s] > r.at /\ r.lacks[s] > r.at}
Silent(r) == {s \in Node : r.next[s] <= r.at}
Open(r) == r.at <= Last
Deliverable(r) == r.at \in r.buffer \/ r.trim >= r.at

(* What the read set is: mutants leave shards out of it.                                                     *)
InForce(stat) == stat
Judged(r) == ReadVerdict(Property, InForce(r.stat), Said(r), Lacking(r))

(* read-path.md#event-log-version: an accepted answer is newer than the statuses.                            *)
StatusesOld(r) == r.heard > r.version
(* read-path.md#empty-rewinds, read-path.md#loss-rewinds, read-path.md#event-log-version: a rebuilding completed *)
(* since, or what was being rebuilt is lost.                                                                  *)
RewindsOn(r) == emptied > r.version
(* read-path.md#gap-verdict, read-path.md#no-gap-in-scd                                                       *)
RewindPending(r) == r.due # "no"
InScd(r) == r.mode = "scd"
MustWait(verdict) == verdict = "incomplete"
Decides(verdict) == verdict # "none"
MayIssue(r) ==
    /\ Open(r) /\ ~Deliverable(r) /\ Silent(r) # Node
    /\ ~RewindPending(r) /\ ~InScd(r) /\ ~StatusesOld(r)
    /\ Decides(Judged(r))
    /\ MustWait(Judged(r)) => r.timer = 0

(* What START leaves of what a shard said before (read-path.md#shard-state).                                  *)
NextAtStart(r, s) == r.at
LacksAtStart(r, s) == 0
(* read-path.md#under-replicated-range: what a shard says of a range where it may lack records.                *)
MayLack(m) == m.dirty
(* read-path.md#rewind: nothing that was said before counts.                                                 *)
KeptAtRewind(r) == [buffer |-> {}, next |-> [s \in Node |-> r.at]]

(* Whose answers count: those of shards that have acknowledged the last START (read-path.md#rewind).           *)
Accepts(r, s) == s \in r.on
(* read-path.md#trim-over-rejected: a trim point does not take away the record that was rejected.              *)
TrimWaits(r) == r.rejected
TrimCovers(r) == r.trim >= r.at
TrimFirst(r) == TrimCovers(r) /\ ~r.rejected
(* read-path.md#known-down-joins: a listed shard sent a record of its own.                                    *)
Leaves(r, s) == InScd(r) /\ s \in r.list

Overridden(stat, s) == IF stat[s] \in {"under", "empty"} THEN [stat EXCEPT ![s] = "full"] ELSE stat

(* read-path.md#reader-statuses: of who refuses the event log tells what it counts as.                          *)
ReadingIfRefused(r, s) == r.reading \ {s}
(* read-path.md#reader-statuses; a shard that refuses is listed in SCD (read-path.md#known-down-joins).         *)
TookStart(r, s, m) ==
    LET q == [r EXCEPT !.on = @ \union {s}, !.heard = Max(@, m.version)]
    IN  IF m.kind = "started" THEN [q EXCEPT !.reading = @ \union {s}, !.stat = Overridden(@, s)]
        ELSE [q EXCEPT !.reading = ReadingIfRefused(r, s)]
TookData(r, s, m) ==
    LET q == [r EXCEPT !.next[s] = m.to + 1, !.heard = Max(@, m.version), !.stat = Overridden(@, s),
                       !.lacks[s] = IF MayLack(m) THEN Max(@, m.to + 1) ELSE @]
    IN  IF m.kind = "record"
        THEN [q EXCEPT !.buffer = @ \union {m.to},
                       !.due = IF Leaves(r, s) THEN "scd" ELSE @,
                       !.joined = IF s \in r.list THEN @ \ {s} ELSE @]
        ELSE q
Took(r, s, m) ==
    CASE m.kind \in {"started", "refused"} -> IF m.fresh THEN TookStart(r, s, m) ELSE r
      [] m.kind = "trim" -> [r EXCEPT !.trim = Max(@, m.to), !.next[s] = IF Accepts(r, s) THEN Max(@, m.to + 1) ELSE @]
      [] OTHER -> IF Accepts(r, s) /\ m.to >= r.at /\ m.to >= r.next[s] THEN TookData(r, s, m) ELSE r

(* A message of a shard: at once, or on its way.                                                             *)
Sends(s, m, r) ==
    IF Delay THEN flight[s] = None /\ flight' = [flight EXCEPT ![s] = m] /\ reader' = r
             ELSE flight' = flight /\ reader' = Took(r, s, m)

-------------------------------------------------------------------------------------------
NewReader ==
    [at |-> 1, buffer |-> {}, next |-> [s \in Node |-> 1], lacks |-> [s \in Node |-> 0],
     stat |-> status, log |-> status, version |-> version, heard |-> 0, on |-> {}, reading |-> {},
     due |-> "no", mode |-> IF Scd THEN "scd" ELSE "all", list |-> {}, joined |-> {}, timer |-> Grace, trim |-> 0,
     rejected |-> FALSE]

(* Each LSN that is there has a record with R copies, or none at all.                                         *)
InitStored ==
    /\ copyset \in [Lsn -> {c \in SUBSET Node : Cardinality(c) \in {0, R}}]
    /\ \A lsn \in Lsn : lsn > Written => copyset[lsn] = {}
    /\ store = [s \in Node |-> {lsn \in Lsn : s \in copyset[lsn]}]
    /\ acked = {lsn \in Lsn : copyset[lsn] # {}}
    /\ disk = [s \in Node |-> "ok"]
    /\ dirty = [s \in Node |-> {}]
    /\ released = Written /\ trim = 0
    /\ status = [s \in Node |-> "full"]
    /\ version = 0 /\ emptied = 0
    /\ known = [s \in Node |-> 0]
    /\ downs = 0 /\ losses = 0
    /\ flight = [s \in Node |-> None]
    /\ lost = {} /\ shown = {} /\ trimmed = {}
    /\ whole = acked
Init == InitStored /\ started = {} /\ sent = [s \in Node |-> 1] /\ reader = NewReader

-------------------------------------------------------------------------------------------
(* The shards.                                                                                             *)
Down(s) ==
    /\ disk[s] = "ok" /\ downs < MaxDowns
    /\ disk' = [disk EXCEPT ![s] = "down"]
    /\ downs' = downs + 1
    /\ started' = started \ {s}
    /\ flight' = [flight EXCEPT ![s] = None]
    /\ reader' = [reader EXCEPT !.on = @ \ {s}, !.reading = @ \ {s}]
    /\ UNCHANGED <<store, dirty, copyset, acked, released, trim, losses, events, sent, observed>>

Back(s) ==
    /\ disk[s] = "down"
    /\ disk' = [disk EXCEPT ![s] = "ok"]
    /\ UNCHANGED <<store, dirty, copyset, acked, released, trim, downs, losses, events, streams, observed, reader>>

Lose(s) ==
    /\ disk[s] = "down" /\ losses < MaxLosses
    /\ disk' = [disk EXCEPT ![s] = "lost"]
    /\ store' = [store EXCEPT ![s] = {}]
    /\ losses' = losses + 1
    /\ dirty' = [dirty EXCEPT ![s] = {}]
    /\ whole' = whole \intersect Adequate(acked, store', status)
    /\ UNCHANGED <<copyset, acked, released, trim, downs, events, streams, reader, lost, shown, trimmed>>

(* An unclean restart: what was not flushed is gone, and the shard knows from where (read-path.md#status-of-events). *)
Soil(s, from) ==
    /\ disk[s] = "down" /\ dirty[s] = {} /\ Cardinality({t \in Node : dirty[t] # {}}) < MaxDirty
    /\ disk' = [disk EXCEPT ![s] = "ok"]
    /\ dirty' = [dirty EXCEPT ![s] = {lsn \in Lsn : from <= lsn /\ lsn <= released}]
    /\ store' = [store EXCEPT ![s] = {lsn \in @ : lsn < from}]
    /\ whole' = whole \intersect Adequate(acked, store', status)
    /\ UNCHANGED <<copyset, acked, released, trim, downs, losses, events, streams, reader, lost, shown, trimmed>>

Event(s, what) ==
    /\ status' = [status EXCEPT ![s] = what]
    /\ version' = version + 1
    /\ whole' = whole \intersect Adequate(acked, store, status')
    /\ UNCHANGED <<streams, lost, shown, trimmed, reader>>

(* read-path.md#status-of-events                                                                            *)
Unavailable(s) ==
    /\ disk[s] # "ok" /\ status[s] = "full"
    /\ Event(s, "unavailable")
    /\ UNCHANGED <<data, emptied, known>>

(* read-path.md#loss-rewinds, read-path.md#given-up-is-lost                                                  *)
AfterLoss(lost_at) == lost_at
NotComingBack(s) == disk[s] = "lost"
Unrecoverable(s) ==
    /\ NotComingBack(s) /\ status[s] = "unavailable"
    /\ Event(s, "under")
    /\ emptied' = AfterLoss(version + 1)
    /\ UNCHANGED <<data, known>>

MayDonate(stat) == stat # "empty"

(* A donor stores a copy anew, then the copysets are amended (read-path.md#rebuilding-donors). A shard that is   *)
(* taken for empty is no donor, even if it is back with its data: its copies do not count until it is full.    *)
Donors(lsn) == {s \in Node : disk[s] = "ok" /\ MayDonate(status[s]) /\ lsn \in store[s]}
Rebuild(s, lsn, target) ==
    /\ status[s] \in {"unavailable", "under"} /\ s \in copyset[lsn]
    /\ Donors(lsn) # {}
    /\ target \notin copyset[lsn] /\ disk[target] = "ok" /\ status[target] = "full"
    /\ store' = [store EXCEPT ![target] = @ \union {lsn}]
    /\ copyset' = [copyset EXCEPT ![lsn] = (@ \ {s}) \union {target}]
    /\ UNCHANGED <<disk, dirty, acked, released, trim, downs, losses, events, streams, observed, reader>>

(* read-path.md#status-of-events: no record can have all of its copies on shards that are lost, or all of those are  *)
(* given up.                                                                                                *)
Rebuilt(stat) == {s \in Node : stat[s] \in {"unavailable", "under"}}
MayBeEmpty(stat) == ~Replicated(Property, Rebuilt(stat)) \/ \A s \in Node : stat[s] # "unavailable"

(* All donors are done: each that may have data took part, and no copyset that a donor knows names the shard.   *)
Empty(s) ==
    /\ status[s] \in {"unavailable", "under"} /\ MayBeEmpty(status)
    /\ \A t \in Node \ {s} : disk[t] = "ok" \/ status[t] \in {"under", "empty"}
    /\ \A lsn \in Lsn : s \in copyset[lsn] => Donors(lsn) = {}
    /\ Event(s, "empty")
    /\ emptied' = version + 1
    /\ UNCHANGED <<data, known>>

(* Back with data, or without any after a rebuilding.                                                        *)
Acknowledge(s) ==
    /\ disk[s] # "down" /\ status[s] \in {"unavailable", "empty"} /\ (disk[s] = "ok" \/ status[s] = "empty")
    /\ Event(s, "full")
    /\ disk' = [disk EXCEPT ![s] = "ok"]
    /\ known' = [known EXCEPT ![s] = version + 1]
    /\ UNCHANGED <<store, dirty, copyset, acked, released, trim, downs, losses, emptied>>

(* The sequencer's next record, stored on shards that take it, acknowledged and released. The release says what the *)
(* sequencer knew when it chose them, and that is the least that whoever takes it says (read-path.md#event-log-version). *)
TakesWrites(s) == disk[s] = "ok" /\ status[s] = "full"
ReleaseVersion(c) == CHOOSE v \in {known[s] : s \in c} : \A s \in c : known[s] <= v
Write(c) ==
    /\ released < Last
    /\ Cardinality(c) = R /\ \A s \in c : TakesWrites(s)
    /\ store' = [s \in Node |-> IF s \in c THEN store[s] \union {released + 1} ELSE store[s]]
    /\ copyset' = [copyset EXCEPT ![released + 1] = c]
    /\ acked' = acked \union {released + 1}
    /\ released' = released + 1
    /\ whole' = whole \union {released + 1}
    /\ known' = [s \in Node |-> Max(known[s], ReleaseVersion(c))]
    /\ UNCHANGED <<disk, dirty, trim, downs, losses, status, version, emptied, streams, reader, lost, shown, trimmed>>

Trim ==
    /\ trim < MaxTrim /\ trim < released
    /\ trim' = trim + 1
    /\ UNCHANGED <<store, disk, dirty, copyset, acked, released, downs, losses, events, streams, observed, reader>>

(* That the rebuilding of a dirty range is one that completes: readers rewind (read-path.md#event-log-version).  *)
AfterClean(completed) == completed

(* A dirty range is rebuilt once every shard that may have a copy of it is there; its shard waits for the event. *)
Clean(s) ==
    /\ dirty[s] # {} /\ disk[s] = "ok"
    /\ \A t \in Node : disk[t] = "ok" \/ status[t] \in {"under", "empty"}
    /\ store' = [store EXCEPT ![s] = @ \union {lsn \in dirty[s] : s \in copyset[lsn] /\ Holders(lsn) # {}}]
    /\ dirty' = [dirty EXCEPT ![s] = {}]
    /\ Event(s, status[s])
    /\ emptied' = AfterClean(version + 1)
    /\ known' = [known EXCEPT ![s] = version + 1]
    /\ UNCHANGED <<disk, copyset, acked, released, trim, downs, losses>>

-------------------------------------------------------------------------------------------
(* The streams.                                                                                            *)

(* What a shard says to START: one that lost its data says so until it is rebuilt (read-path.md#lost-data-refuses). *)
Says(s) == IF disk[s] = "lost" THEN "refused" ELSE "started"
(* read-path.md#event-log-version                                                                            *)
SaysVersion(s) == known[s]

Start(s) ==
    /\ s \in Up \ started
    /\ started' = started \union {s}
    /\ sent' = [sent EXCEPT ![s] = reader.at]
    /\ Sends(s, [kind |-> Says(s), fresh |-> TRUE, version |-> SaysVersion(s)],
             [reader EXCEPT !.next[s] = NextAtStart(reader, s), !.lacks[s] = LacksAtStart(reader, s)])
    /\ UNCHANGED <<data, events, observed>>

(* How far a shard may go (read-path.md#in-order-shipping).                                                    *)
Limit == released
AllShip == reader.mode = "all"
ShipsCopy(s, lsn) == AllShip \/ Ships(s, Ordered(copyset[lsn] \union {s}), reader.list, R)
ToShip(s) == {lsn \in store[s] : sent[s] <= lsn /\ lsn <= Limit /\ lsn > trim /\ ShipsCopy(s, lsn)}

(* The next record, or that there is none in front of it: in one piece or, when a batch ends, in several.      *)
(* A shard says of what it trimmed that it is trimmed (read-path.md#in-order-shipping).                         *)
TrimIsSaid(s) == sent[s] > trim
DirtyIn(s, to) == (sent[s]..to) \intersect dirty[s] # {}
Ship(s) ==
    /\ s \in started /\ Says(s) = "started"
    /\ \E kind \in {"record", "gap", "trim"}, to \in Lsn :
        /\ to >= sent[s]
        /\ CASE kind = "trim" -> to = trim
             [] kind = "record" -> TrimIsSaid(s) /\ to \in ToShip(s) /\ \A lsn \in ToShip(s) : to <= lsn
             [] OTHER -> to <= Limit /\ TrimIsSaid(s) /\ \A lsn \in ToShip(s) : to < lsn
        /\ sent' = [sent EXCEPT ![s] = to + 1]
        /\ Sends(s, [kind |-> kind, to |-> to, dirty |-> DirtyIn(s, to), fresh |-> TRUE, version |-> SaysVersion(s)],
                 reader)
    /\ UNCHANGED <<data, events, observed, started>>

Receive(s) ==
    /\ flight[s] # None
    /\ flight' = [flight EXCEPT ![s] = None]
    /\ reader' = Took(reader, s, flight[s])
    /\ UNCHANGED <<data, events, observed, started, sent>>

-------------------------------------------------------------------------------------------
(* The reader.                                                                                             *)

(* read-path.md#reader-statuses: not those of shards that are being read.                                     *)
Learn ==
    /\ reader.version < version
    /\ reader' = [reader EXCEPT !.log = status, !.version = version,
                                !.stat = [s \in Node |-> IF s \in reader.reading THEN @[s] ELSE status[s]],
                                !.due = IF RewindsOn(reader) /\ @ = "no" THEN reader.mode ELSE @]
    /\ UNCHANGED <<data, events, streams, observed>>

(* P moves on; all-send-all goes back to SCD (read-path.md#back-to-scd).                                      *)
Advanced(r) ==
    [r EXCEPT !.at = @ + 1, !.buffer = {lsn \in @ : lsn > r.at}, !.timer = Grace, !.rejected = FALSE,
              !.due = IF Scd /\ r.mode = "all" THEN "scd" ELSE @]

Deliver ==
    /\ Open(reader) /\ reader.at \in reader.buffer /\ ~TrimFirst(reader)
    /\ reader' = Advanced(reader)
    /\ shown' = shown \union {reader.at}
    /\ UNCHANGED <<data, events, streams, lost, trimmed, whole>>

Reject ==
    /\ MaxTrim > 0 /\ Open(reader) /\ reader.at \in reader.buffer /\ reader.trim < reader.at /\ ~reader.rejected
    /\ reader' = [reader EXCEPT !.rejected = TRUE]
    /\ UNCHANGED <<data, events, streams, observed>>

DeliverTrim ==
    /\ Open(reader) /\ TrimCovers(reader) /\ ~TrimWaits(reader)
    /\ reader' = Advanced(reader)
    /\ trimmed' = trimmed \union {reader.at}
    /\ UNCHANGED <<data, events, streams, lost, shown, whole>>

IssueGap ==
    /\ MayIssue(reader)
    /\ reader' = Advanced(reader)
    /\ lost' = lost \union {reader.at}
    /\ UNCHANGED <<data, events, streams, shown, trimmed, whole>>

(* The grace period passes; nothing that happens meanwhile begins it anew (read-path.md#gap-grace).             *)
Waits(r) == Open(r) /\ ~Deliverable(r) /\ ~RewindPending(r) /\ ~InScd(r) /\ MustWait(Judged(r)) /\ r.timer > 0
GracePasses ==
    /\ Waits(reader)
    /\ reader' = [reader EXCEPT !.timer = Max(@ - 1, 0)]
    /\ UNCHANGED <<data, events, streams, observed>>
Woken(timer) == timer
Wake ==
    /\ Waits(reader)
    /\ reader' = [reader EXCEPT !.timer = Woken(@)]
    /\ UNCHANGED <<data, events, streams, observed>>

(* A shard that cannot be read is listed (read-path.md#known-down-joins).                                      *)
List(s) ==
    /\ reader.mode = "scd" /\ s \notin reader.joined
    /\ disk[s] # "ok" \/ reader.stat[s] # "full"
    /\ reader' = [reader EXCEPT !.joined = @ \union {s}, !.due = IF @ = "no" THEN "scd" ELSE @]
    /\ UNCHANGED <<data, events, streams, observed>>

(* read-path.md#no-gap-in-scd: nothing more will come.                                                       *)
ScdCheck ==
    /\ reader.mode = "scd" /\ ~RewindPending(reader) /\ Open(reader) /\ ~Deliverable(reader)
    /\ Silent(reader) # Node
    /\ \A s \in Node : s \in Silent(reader) => s \in reader.list
    /\ reader' = [reader EXCEPT !.due = "all"]
    /\ UNCHANGED <<data, events, streams, observed>>

(* read-path.md#rewind: what was said is forgotten, the statuses are read again, and a START is sent to all. What *)
(* can be delivered has been, unless the application rejects it.                                             *)
Rewound(r, all, listed) ==
    [r EXCEPT !.buffer = KeptAtRewind(r).buffer, !.next = KeptAtRewind(r).next, !.lacks = [s \in Node |-> 0], !.stat = r.log,
              !.heard = 0, !.on = {}, !.reading = {}, !.timer = Grace, !.due = "no",
              !.mode = IF all THEN "all" ELSE "scd", !.list = listed, !.joined = listed]
Rewind ==
    /\ reader.due # "no" /\ (Deliverable(reader) => reader.rejected)
    /\ LET all == reader.due = "all" \/ reader.joined = Node
           listed == IF all THEN {} ELSE reader.joined
       IN  reader' = Rewound(reader, all, listed)
    /\ started' = {}
    /\ sent' = [s \in Node |-> reader.at]
    /\ flight' = [s \in Node |-> IF flight[s] = None THEN None ELSE [flight[s] EXCEPT !.fresh = FALSE]]
    /\ whole' = Adequate(acked, store, status)
    /\ UNCHANGED <<data, events, lost, shown, trimmed>>

(* What goes on by itself, and what may happen.                                                              *)
Works ==
    \/ \E s \in Node : Start(s) \/ Ship(s) \/ Receive(s) \/ List(s)
    \/ Learn \/ Deliver \/ DeliverTrim \/ IssueGap \/ GracePasses \/ Wake \/ ScdCheck \/ Rewind
Next ==
    \/ Works
    \/ \E s \in Node : \/ Down(s) \/ Back(s) \/ Lose(s) \/ Clean(s) \/ Unavailable(s) \/ Unrecoverable(s)
                       \/ Empty(s) \/ Acknowledge(s)
    \/ \E s \in Node, lsn \in Lsn : Soil(s, lsn)
    \/ \E s, target \in Node, lsn \in Lsn : Rebuild(s, lsn, target)
    \/ \E c \in SUBSET Node : Write(c)
    \/ Trim \/ Reject

-------------------------------------------------------------------------------------------
NewlyLost == lost' \ lost

(* read-path.md#acknowledged-not-lost, read-path.md#released-only                                              *)
AcknowledgedNotLost == [][\A lsn \in NewlyLost : lsn \notin whole \/ lsn <= trim]_vars
ReleasedOnly == lost \union shown \subseteq 1..released

(* read-path.md#record-as-appended, read-path.md#trim-within-trim-point                                        *)
RecordAsAppended == shown \subseteq {lsn \in Lsn : copyset[lsn] # {}}
TrimWithinTrimPoint == trimmed \subseteq 1..trim

(* read-path.md#gap-has-verdict, from what the shards have sent since each START; INCOMPLETE waited.           *)
GapHasVerdict ==
    [][NewlyLost # {} =>
        LET heard == {s \in Node : sent[s] > reader.at}
            verdict == Verdict(Property, reader.stat, heard)
        IN  verdict # "none" /\ (verdict = "incomplete" => reader.timer = 0)]_vars

(* read-path.md#no-gap-too-early, read-path.md#no-gap-in-scd                                                   *)
NoGapTooEarly ==
    [][NewlyLost # {} => reader.due = "no" /\ reader.heard <= reader.version /\ reader.mode = "all"]_vars

(* read-path.md#in-order-shipping: who has sent more, though it had what is trimmed to say, has said that.      *)
TrimmedIsSaid ==
    [][\A s \in started \intersect started' : sent[s] <= trim /\ sent[s] < sent'[s] => reader'.trim = trim]_vars

(* read-path.md#rejected-comes-next                                                                          *)
RejectedComesNext == [][reader.rejected /\ reader'.at > reader.at => reader.at \in shown']_vars

(* read-path.md#progress-or-stall: the reader comes to the end, or some full shard that is silent could change *)
(* the verdict and does not answer.                                                                         *)
Fair == WF_vars(Works) /\ WF_vars(Learn)
Stalled ==
    /\ Open(reader) /\ ~Deliverable(reader)
    /\ \E s \in Full(reader.stat) \intersect Silent(reader) :
        /\ disk[s] # "ok"
        /\ Verdict(Property, reader.stat, Said(reader) \union {s}) # Judged(reader)
ProgressOrStall == Fair => []<>(reader.at > released \/ Stalled)
===========================================================================================
