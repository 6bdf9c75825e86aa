--------------------------------- MODULE TraceReadOneEpoch ---------------------------------
(* Recorded streams of readers as behaviours of ReadOneEpoch: each trace is one stream, with what the event log, the *)
(* sequencers and the shards' disks did meanwhile. A place is a range of LSNs that no event divides, and a record's   *)
(* place is its LSN alone, so a stream over several epochs is one sequence of places. TraceData holds the traces; the  *)
(* nodeset, the epoch and the esn of a place are each trace's own.                                                    *)
(*                                                                                                              *)
(* What shards keep is not recorded in the order in which they send it, so nothing is said of which copies a shard    *)
(* ships: a message is what it says. Why a rewind is due may be a timer, so it may always be; that one is due which    *)
(* must be, is followed. Windows hold all, and the time that a grace period takes is not followed.                    *)
EXTENDS ReadOneEpoch, TraceData

VARIABLES
    run,                           \* which trace is followed
    line,                          \* which of its events comes next
    filter,                        \* the filter version: it grows with each rewind
    epochs,                        \* the reader knows the nodesets of the epochs up to here
    expired,                       \* of each shard, the grace periods that it let pass
    served,                        \* the shards that had their data at some time since START: the rest is on its way
    rewoundAt                      \* where the reader was at the last rewind

Given == Traces[run]
Noted == Given.events[line]
Is(word) == line <= Len(Given.events) /\ Noted[1] = word
Goes == line' = line + 1 /\ UNCHANGED run
Shard == Noted[2]
Place == Noted[2]

never == <<store, dirty, copyset, acked, trim, downs, losses, known, sent, flight, lost, trimmed, whole>>
log == <<status, version, emptied>>
own == <<filter, epochs, expired, served, rewoundAt>>
seen == <<disk, released, started, shown>>

-------------------------------------------------------------------------------------------
(* What the trace says of a place, for the rules.                                                            *)
GivenEpochOf(place) == Given.places[place][1]
GivenEsnOf(place) == Given.places[place][2]
Nodeset(place) == Given.nodesets[GivenEpochOf(place)]
GivenProperty == Nodeset(reader.at).scopes
GivenInForce(stat) == [s \in Nodeset(reader.at).shards |-> stat[s]]
GivenInScd(r) == r.mode = "scd" /\ ~Given.guaranteed
GivenDeliverable(r) == r.at \in r.buffer
TrimPassedBy(r) == FALSE           \* TrimFirst: the reader may be set not to skip what is trimmed
NoOrder == {}                      \* Order and Symmetric, over all shards
NobodyLeaves(r, s) == FALSE        \* Leaves: that a rewind is due is in the trace
GivenRewindsOn(r) == r.version >= 0 /\ started # {} /\ emptied > r.version

(* read-path.md#gap-grace, read-path.md#bridge-skips-grace                                                    *)
Helps ==
    /\ Given.grace /\ reader.trim < reader.at
    /\ \E s \in Silent(reader) \intersect Nodeset(reader.at).shards : reader.stat[s] = "full" /\ expired[s] <= 2
    /\ Noted[2] = "bridge" => reader.at = 1
GivenMustWait(verdict) == verdict = "incomplete" /\ (Given.full \/ Helps)

GivenAdvanced(r) ==
    [r EXCEPT !.at = @ + 1, !.buffer = {place \in @ : place > r.at}, !.timer = Grace, !.rejected = FALSE]
PassedTo(r, place) == GivenAdvanced([r EXCEPT !.at = place - 1])

-------------------------------------------------------------------------------------------
(* The event log, and what is known of disks and releases.                                                   *)
MayBecome(old, new) ==             \* read-path.md#status-of-events
    \/ old = new
    \/ <<old, new>> \in {<<"full", "unavailable">>, <<"full", "under">>, <<"unavailable", "under">>,
                         <<"unavailable", "full">>, <<"empty", "full">>}
    \/ new = "empty" /\ old \in {"full", "unavailable", "under"}
TraceEventLog ==
    /\ Is("log")
    /\ Noted[2] = version + 1
    /\ \A s \in Node : MayBecome(status[s], Noted[3][s])
    /\ version' = version + 1
    /\ status' = Noted[3]
    /\ emptied' = IF \E s \in Node : status[s] # "empty" /\ Noted[3][s] = "empty" THEN version + 1 ELSE emptied
    /\ UNCHANGED <<never, own, disk, released, started, shown, reader>> /\ Goes

TraceDisk ==
    /\ Is("disk")
    /\ disk' = [disk EXCEPT ![Shard] = Noted[3]]
    /\ served' = IF Noted[3] = "ok" THEN served \union {Shard} ELSE served
    /\ UNCHANGED <<never, filter, epochs, expired, rewoundAt, log, released, started, shown, reader>> /\ Goes

TraceRelease ==
    /\ Is("release")
    /\ released' = Max(released, Place)
    /\ UNCHANGED <<never, own, log, disk, started, shown, reader>> /\ Goes

-------------------------------------------------------------------------------------------
(* What the reader asks for and hears.                                                                       *)
TraceLearn ==
    /\ Is("statuses")
    /\ Noted[2] = version
    /\ IF reader.version = version THEN UNCHANGED reader
       ELSE Learn
    /\ UNCHANGED <<never, own, log, seen>> /\ Goes

TraceMetadata ==
    /\ Is("metadata")
    /\ epochs' = Max(epochs, Noted[2])
    /\ UNCHANGED <<never, filter, expired, served, rewoundAt, log, disk, released, started, shown, reader>> /\ Goes

(* read-path.md#all-send-all-empty-list: START names the list, and all are asked without one.                 *)
TraceStart ==
    /\ Is("start")
    /\ Noted[3] = reader.at
    /\ Noted[4] = filter
    /\ reader.mode = IF Noted[5] THEN "all" ELSE "scd"
    /\ Noted[6] = reader.list
    /\ started' = started \union {Shard}
    /\ served' = IF Says(Shard) = "started" THEN served \union {Shard} ELSE served \ {Shard}
    /\ reader' = [reader EXCEPT !.next[Shard] = NextAtStart(reader, Shard), !.lacks[Shard] = LacksAtStart(reader, Shard),
                                !.on = @ \ {Shard}, !.reading = @ \ {Shard}, !.stat[Shard] = reader.log[Shard]]
    /\ UNCHANGED <<never, filter, epochs, expired, rewoundAt, log, disk, released, shown>> /\ Goes

TraceStarted ==
    /\ Is("started")
    /\ Noted[3] = "started" => Shard \in served
    /\ reader' = Took(reader, Shard, [kind |-> Noted[3], fresh |-> Noted[4] = filter, version |-> Noted[5]])
    /\ expired' = [expired EXCEPT ![Shard] = 0]
    /\ UNCHANGED <<never, filter, epochs, served, rewoundAt, log, seen>> /\ Goes

TraceClosed ==
    /\ Is("closed")
    /\ reader' = [reader EXCEPT !.on = @ \ {Shard}, !.reading = @ \ {Shard}, !.stat[Shard] = reader.log[Shard]]
    /\ UNCHANGED <<never, own, log, seen>> /\ Goes

TraceHear ==
    /\ Is("heard")
    /\ Noted[4] <= Limit
    /\ Shard \in served
    /\ reader' = IF ~Accepts(reader, Shard) THEN reader
                 ELSE Took(reader, Shard, [kind |-> Noted[3], to |-> Noted[4], dirty |-> Noted[5], version |-> Noted[6]])
    /\ expired' = [expired EXCEPT ![Shard] = 0]
    /\ UNCHANGED <<never, filter, epochs, served, rewoundAt, log, seen>> /\ Goes

-------------------------------------------------------------------------------------------
(* What the application gets.                                                                                *)
TraceRecord ==
    /\ Is("record")
    /\ Place = reader.at
    /\ Deliver
    /\ UNCHANGED <<own>> /\ Goes

TraceReject ==
    /\ Is("reject")
    /\ Place = reader.at
    /\ Noted[3] => reader.at \in reader.buffer
    /\ reader' = [reader EXCEPT !.rejected = Noted[3]]
    /\ UNCHANGED <<never, own, log, seen>> /\ Goes

From == Noted[3]
To == Noted[4]                     \* exclusive
Passes ==
    /\ reader' = PassedTo(reader, To)
    /\ UNCHANGED <<never, filter, expired, served, rewoundAt, log, seen>> /\ Goes
Begins ==
    /\ From = reader.at
    /\ To > From
(* Nothing is passed over of an epoch whose nodeset is not known (read-path.md#bridge-skips-grace).            *)
Knows == EpochOf(To - 1) <= epochs

(* read-path.md#first-loss-rewinds                                                                           *)
LooksAgain == Noted[2] = "dataloss" /\ Given.scd /\ ~Given.guaranteed

(* By an f-majority: the verdict is there at each place (read-path.md#gap-has-verdict). A gap that ends where the *)
(* stream does may have been cut off there, so its type is not asked for.                                     *)
TraceIssueGap ==
    /\ Is("gap") /\ Noted[5] # ""
    /\ Begins
    /\ reader.buffer \cap (From..(To - 1)) = {}
    /\ ~RewindPending(reader)
    /\ ~InScd(reader)
    /\ ~StatusesOld(reader)
    /\ Judged(reader) = Noted[5]
    /\ \A place \in From..(To - 1) : MayIssue([reader EXCEPT !.at = place])
    /\ Knows
    /\ LooksAgain => rewoundAt = From
    /\ To = Len(Given.places) \/ GapType(InForce(reader.stat), From, To, reader.trim, 1, Given.inFlight) = Noted[2]
    /\ Passes
    /\ UNCHANGED epochs

TraceTrim ==
    /\ Is("gap") /\ Noted[5] = "" /\ Noted[2] = "trim"
    /\ Begins
    /\ reader.trim >= To - 1
    /\ ~TrimWaits(reader)
    /\ Knows
    /\ Passes
    /\ UNCHANGED epochs

TraceHole ==
    /\ Is("gap") /\ Noted[5] = "" /\ Noted[2] \in {"hole", "filtered_out"}
    /\ Begins
    /\ From \in reader.buffer /\ To = From + 1
    /\ Noted[2] = "hole" => From \in Given.holes
    /\ Passes
    /\ UNCHANGED epochs

(* To the end of the epoch that it is of (read-path.md#gap-data-loss).                                        *)
TraceBridgeRecord ==
    /\ Is("gap") /\ Noted[5] = "" /\ Noted[2] = "bridge"
    /\ Begins
    /\ From \in reader.buffer /\ From \in Given.bridges
    /\ EpochOf(To - 1) = EpochOf(From)
    /\ To = Len(Given.places) \/ (EpochOf(To) = EpochOf(From) + 1 /\ EsnOf(To) = 0)
    /\ epochs' = Max(epochs, EpochOf(From))
    /\ Passes

(* read-path.md#bridge-at-begin                                                                              *)
TraceBridgeToBegin ==
    /\ Is("gap") /\ Noted[5] = "" /\ Noted[2] = "bridge"
    /\ Begins
    /\ EsnOf(From) = 0 \/ From = 1
    /\ reader.buffer \cap (From..(To - 1)) = {}
    /\ To \in reader.buffer
    /\ EpochOf(To) = EpochOf(From)
    /\ Knows
    /\ Passes
    /\ UNCHANGED epochs

TraceBridgeFromZero ==
    /\ Is("gap") /\ Noted[5] = "" /\ Noted[2] = "bridge"
    /\ Begins
    /\ From = 1 /\ EpochOf(From) = 0
    /\ EpochOf(To) <= 1 /\ EsnOf(To) = 1
    /\ Passes
    /\ UNCHANGED epochs

(* A nodeset without shards: there is nobody to ask (read-path.md#epoch-metadata).                             *)
TraceBridgeOverNobody ==
    /\ Is("gap") /\ Noted[5] = "" /\ Noted[2] = "bridge"
    /\ Begins
    /\ Nodeset(From).shards = {}
    /\ Knows
    /\ Passes
    /\ UNCHANGED epochs

TraceEnd ==
    /\ Is("gap") /\ Noted[5] = "" /\ Noted[2] \in {"access", "not_in_config"}
    /\ Begins
    /\ To = Len(Given.places)
    /\ Passes
    /\ UNCHANGED epochs

-------------------------------------------------------------------------------------------
(* Grace periods and rewinds.                                                                                *)
TraceGrace ==
    /\ Is("grace")
    /\ Place = reader.at
    /\ reader.timer > 0 /\ (Noted[3] = "over" => reader.timer = 1)
    /\ reader' = [reader EXCEPT !.timer = CASE Noted[3] = "begun" -> 1 [] Noted[3] = "over" -> 0 [] OTHER -> Grace]
    /\ expired' = [s \in Node |-> IF Noted[3] = "over" /\ s \in Silent(reader) THEN expired[s] + 1 ELSE expired[s]]
    /\ UNCHANGED <<never, filter, epochs, served, rewoundAt, log, seen>> /\ Goes

TraceDue ==
    /\ Is("due")
    /\ Noted[2] = filter
    /\ reader' = [reader EXCEPT !.due = IF @ = "no" THEN reader.mode ELSE @]
    /\ UNCHANGED <<never, own, log, seen>> /\ Goes

TraceRewind ==
    /\ Is("rewound")
    /\ Noted[2] = filter + 1
    /\ RewindPending(reader)
    /\ filter' = filter + 1
    /\ rewoundAt' = reader.at
    /\ reader' = [Rewound(reader, Noted[3], Noted[4]) EXCEPT !.rejected = FALSE]
    /\ UNCHANGED <<never, epochs, expired, served, log, seen>> /\ Goes

TraceInit ==
    /\ run \in 1..Len(Traces)
    /\ line = 1 /\ filter = 1 /\ epochs = 0
    /\ expired = [s \in Node |-> 0] /\ served = {} /\ rewoundAt = 0
    /\ disk = [s \in Node |-> "ok"] /\ released = 0
    /\ status = [s \in Node |-> "full"] /\ version = 0 /\ emptied = 0
    /\ started = {}
    /\ reader = [at |-> 1, buffer |-> {}, next |-> [s \in Node |-> 1], lacks |-> [s \in Node |-> 0],
                 stat |-> status, log |-> status, version |-> -1, heard |-> 0, on |-> {}, reading |-> {},
                 due |-> "no", mode |-> IF Given.scd THEN "scd" ELSE "all", list |-> {}, joined |-> {}, timer |-> Grace,
                 trim |-> 0, rejected |-> FALSE]
    /\ store = <<>> /\ dirty = <<>> /\ copyset = <<>> /\ acked = {} /\ trim = 0 /\ downs = 0 /\ losses = 0
    /\ known = <<>> /\ sent = <<>> /\ flight = <<>> /\ lost = {} /\ shown = {} /\ trimmed = {} /\ whole = {}

TraceNext ==
    \/ TraceEventLog \/ TraceDisk \/ TraceRelease
    \/ TraceLearn \/ TraceMetadata \/ TraceStart \/ TraceStarted \/ TraceClosed \/ TraceHear
    \/ TraceRecord \/ TraceReject
    \/ TraceIssueGap \/ TraceTrim \/ TraceHole \/ TraceBridgeRecord \/ TraceBridgeToBegin \/ TraceBridgeFromZero
    \/ TraceBridgeOverNobody \/ TraceEnd
    \/ TraceGrace \/ TraceDue \/ TraceRewind

View == <<run, line, own, disk, released, log, started, reader>>

-------------------------------------------------------------------------------------------
(* "Invariants" that report instead of promising.                                                            *)
ReportAccepted == line > Len(Given.events) => PrintT(<<"accepted", run>>)

(* All that the next step depends on, to take it again from here.                                            *)
Here == [filter |-> filter, epochs |-> epochs, expired |-> expired, served |-> served,
         rewoundAt |-> rewoundAt, disk |-> disk, released |-> released,
         status |-> status, version |-> version, emptied |-> emptied, started |-> started, reader |-> reader]
ReportReached ==
    IF line > Len(Given.events) THEN TRUE
    ELSE IF ENABLED TraceNext THEN TRUE
    ELSE PrintT(<<"reached", run, line, Here>>)

TraceResume ==                     \* at the event of TraceData, in the state of TraceData
    /\ run = 1 /\ line = 1
    /\ filter = Before.filter /\ epochs = Before.epochs /\ expired = Before.expired
    /\ served = Before.served /\ rewoundAt = Before.rewoundAt
    /\ disk = Before.disk /\ released = Before.released
    /\ status = Before.status /\ version = Before.version /\ emptied = Before.emptied
    /\ started = Before.started /\ reader = Before.reader
    /\ store = <<>> /\ dirty = <<>> /\ copyset = <<>> /\ acked = {} /\ trim = 0 /\ downs = 0 /\ losses = 0
    /\ known = <<>> /\ sent = <<>> /\ flight = <<>> /\ lost = {} /\ shown = {} /\ trimmed = {} /\ whole = {}
===========================================================================================
