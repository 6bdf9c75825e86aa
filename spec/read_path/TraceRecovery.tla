----------------------------------- MODULE TraceRecovery -----------------------------------
(* Recorded recoveries as behaviours of Recovery: each trace is one epoch, with what its shards stored, sealed, purged *)
(* and shipped, what runs wrote, and what was released. Place n is the nth LSN above the lowest that any run read     *)
(* from; what lies below is place 0, of which only the fence is followed. A run has its number among all values that  *)
(* shards are sealed for. TraceData holds the traces.                                                                *)
(*                                                                                                              *)
(* Which shards answered a run, and by which statuses it went, is not recorded: some of those that were sealed must   *)
(* have, with what they had, so that the verdict lets the run go on and what it wrote follows. Waves are not followed. *)
EXTENDS Recovery, TraceData

VARIABLES
    trace,                         \* which trace is followed
    line,                          \* which of its events comes next
    disk,                          \* of each shard: ok; lost, and not rebuilt since
    before,                        \* what a shard had, while it was sealed, when it lost its disk
    known,                         \* the statuses that were in force at some time
    above,                         \* above which place the run that recovered the epoch read it
    released                       \* the last place that the sequencer of the epoch released

Given == Traces[trace]
Noted == Given.events[line]
Is(word) == line <= Len(Given.events) /\ Noted[1] = word
Goes == line' = line + 1 /\ UNCHANGED trace
Shard == Noted[2]

never == <<writes, nodes, releases, got>>

-------------------------------------------------------------------------------------------
(* What the trace says, for the rules.                                                                       *)
NoOrder == {}                      \* Symmetric, over all shards
GivenProperty == Given.scopes
GivenFenced(s, r) == seal[s] >= r
GivenMayGoOn(verdict, digest) ==
    verdict \in {"complete", "non-auth"} \/ (verdict = "incomplete" /\ Replicated(Property, digest))
(* Who answers has its data, whatever the event log says yet.                                                *)
ByAnswers(statuses, digest) ==
    [s \in Given.shards |-> IF s \in digest /\ statuses[s] # "empty" THEN "full" ELSE statuses[s]]

(* A shard's part of a digest: what it has, or had when it lost its disk.                                     *)
Answerable(r) == {s \in Given.shards : Fenced(s, r) \/ before[s] # <<>>}
Has(s, n) == copies[s][n] # Nothing \/ (before[s] # <<>> /\ before[s][n] # Nothing)
Kept(s) == IF disk[s] = "ok" /\ seal[s] > 0 THEN copies[s] ELSE IF before[s] # <<>> THEN before[s] ELSE copies[s]

(* The winner of a place is that of the latest run; nothing is written in an empty epoch (read-path.md#recovery-bridge). *)
WinnerOf(digest, n) ==
    LET there == {Kept(s)[n] : s \in digest} \ {Nothing}
    IN  IF there = {} THEN Nothing ELSE CHOOSE c \in there : \A d \in there : c = d \/ ~Beats(d, c)
PlanOf(digest, low, verdict, r) ==
    IF Given.base + low = 0 /\ \A n \in Places : WinnerOf(digest, n) = Nothing THEN NoRun.plan
    ELSE Plan(digest, low, verdict, r)

(* Shards that were lost once may be back without what they had of the epoch (read-path.md#loss-is-remembered); which *)
(* of them, is not recorded.                                                                                 *)
WereLost == {s \in Given.shards : \E statuses \in known : statuses[s] = "under"}
Without(statuses, gone) == [s \in DOMAIN statuses |-> IF s \in gone THEN "under" ELSE statuses[s]]

(* The plans that a run may have made by now; done: from where on it read the epoch.                          *)
VerdictOf(digest, statuses) == Verdict(Property, Counted(ByAnswers(statuses, digest)), digest)
CertainOf(digest, statuses, gone) == Verdict(Property, Without(Counted(ByAnswers(statuses, digest)), gone), digest)
Planned(r) ==
    {[phase |-> "mutate", plan |-> PlanOf(each[1], each[3], CertainOf(each[1], each[2], each[4]), r), set |-> each[1],
      chosen |-> {}, done |-> {each[3]}] :
        each \in {<<digest, statuses, low, gone>> \in
                (SUBSET Answerable(r)) \X known \X Given.froms[r] \X SUBSET WereLost :
            digest # {} /\ MayGoOn(VerdictOf(digest, statuses), digest)}}
(* What it goes by: the plan that it has, or, if what it does does not follow from that, another one.          *)
Plans(r, Fits(_)) == IF run[r].phase # "none" /\ Fits(run[r]) THEN {run[r]} ELSE {made \in Planned(r) : Fits(made)}

-------------------------------------------------------------------------------------------
(* The sequencer's writes, and those of donors, which may be of what is released and lies elsewhere as it is.   *)
TraceStore ==
    /\ Is("copy") /\ Noted[4] = 0
    /\ disk[Shard] = "ok"
    /\ seal[Shard] = 0 \/ Noted[6]
    /\ IF Noted[3] = 0 THEN TRUE
       ELSE /\ IF seal[Shard] = 0 THEN TRUE ELSE \E s \in Node : Kept(s)[Noted[3]] = Data
            /\ ~Beats(copies[Shard][Noted[3]], Data)
    /\ copies' = IF Noted[3] = 0 THEN copies ELSE [copies EXCEPT ![Shard][Noted[3]] = Data]
    /\ UNCHANGED <<never, seal, clean, run, recovered, disk, before, known, above, released>> /\ Goes

New == [kind |-> Noted[5], by |-> Noted[4]]
Leaves(made) == made.plan[Noted[3]] = New /\ Shard \in made.set
TraceMutate ==
    /\ Is("copy") /\ Noted[4] > 0
    /\ disk[Shard] = "ok"
    /\ seal[Shard] <= Noted[4]
    /\ ~Beats(copies[Shard][Noted[3]], New)
    /\ Plans(Noted[4], Leaves) # {}
    /\ \E made \in Plans(Noted[4], Leaves) : run' = [run EXCEPT ![Noted[4]] = made]
    /\ copies' = [copies EXCEPT ![Shard][Noted[3]] = New]
    /\ UNCHANGED <<never, seal, clean, recovered, disk, before, known, above, released>> /\ Goes

TraceDonated ==
    /\ Is("copy") /\ Noted[4] > 0 /\ Noted[6]
    /\ disk[Shard] = "ok"
    /\ \E s \in Node : Kept(s)[Noted[3]] = New
    /\ ~Beats(copies[Shard][Noted[3]], New)
    /\ copies' = [copies EXCEPT ![Shard][Noted[3]] = New]
    /\ UNCHANGED <<never, seal, clean, run, recovered, disk, before, known, above, released>> /\ Goes

(* A seal only rises, and a shard that lost its data takes none (read-path.md#lost-data-refuses).              *)
TraceSeal ==
    /\ Is("seal")
    /\ disk[Shard] = "ok"
    /\ seal[Shard] < Noted[3]
    /\ seal' = [seal EXCEPT ![Shard] = Noted[3]]
    /\ UNCHANGED <<never, copies, clean, run, recovered, disk, before, known, above, released>> /\ Goes

-------------------------------------------------------------------------------------------
Last(plan, low) == Largest({low} \union {n \in Places : plan[n] # Nothing})
Settled(made, low, last, set, bridged) ==
    /\ set \subseteq made.set /\ made.done = {low}
    /\ Last(made.plan, low) = last
    /\ bridged = (\E n \in Places : made.plan[n].kind = "bridge")
    /\ \A n \in Places : n > low =>
        /\ \A s \in set : copies[s][n] \in {Nothing, made.plan[n]}
        /\ made.plan[n] # Nothing =>
            Replicated(Property, {s \in Given.shards : copies[s][n] = made.plan[n] \/ (before[s] # <<>> /\ Has(s, n))})
Concludes(made) == Settled(made, Noted[3], Noted[4], Noted[5], Noted[6])
(* read-path.md#recovery-clean: the mutation set has what the run planned.                                    *)
TraceRecover ==
    /\ Is("recover")
    /\ Plans(Noted[2], Concludes) # {}
    /\ \E made \in Plans(Noted[2], Concludes) : run' = [run EXCEPT ![Noted[2]] = made]
    /\ recovered' = Noted[2]
    /\ above' = Noted[3]
    /\ clean' = clean \union Noted[5]
    /\ UNCHANGED <<never, copies, seal, disk, before, known, released>> /\ Goes

(* read-path.md#release-needs-recovery: what lost, of a shard that nobody writes to any more.                 *)
TracePurge ==
    /\ Is("purge")
    /\ recovered > 0 /\ seal[Shard] > 0
    /\ \A n \in Places : (* by what a run said that was overtaken, only what others have of a run *)
        n \in Noted[3]..above /\ n <= Noted[4] /\ copies[Shard][n] # Nothing =>
            Replicated(Property, {s \in Given.shards : Beats(copies[s][n], copies[Shard][n])})
    /\ copies' = [copies EXCEPT ![Shard] = [n \in Places |-> IF n \in Noted[3]..Noted[4] THEN Nothing ELSE @[n]]]
    /\ clean' = clean \union {Shard}
    /\ UNCHANGED <<never, seal, run, recovered, disk, before, known, above, released>> /\ Goes

TraceTrim ==
    /\ Is("trim")
    /\ copies' = [copies EXCEPT ![Shard] = [n \in Places |-> IF n <= Noted[3] THEN Nothing ELSE @[n]]]
    /\ UNCHANGED <<never, seal, clean, run, recovered, disk, before, known, above, released>> /\ Goes

(* read-path.md#activation: in this epoch what is finished, in later ones once it is recovered.               *)
TraceReleaseOwn ==
    /\ Is("own")
    /\ released' = Largest({released, Noted[2]})
    /\ UNCHANGED <<never, copies, seal, clean, run, recovered, disk, before, known, above>> /\ Goes
TraceReleaseLater ==
    /\ Is("release")
    /\ MayRelease
    /\ UNCHANGED <<never, copies, seal, clean, run, recovered, disk, before, known, above, released>> /\ Goes

(* A shard ships what recovery left, or what was released before (read-path.md#release-needs-recovery).       *)
TraceShip ==
    /\ Is("ship")
    /\ \A n \in Noted[3] :
        /\ copies[Shard][n] # Nothing
        /\ IF recovered > 0 /\ n > above THEN copies[Shard][n].kind = run[recovered].plan[n].kind ELSE n <= released
    /\ UNCHANGED <<never, copies, seal, clean, run, recovered, disk, before, known, above, released>> /\ Goes

-------------------------------------------------------------------------------------------
TraceEventLog ==
    /\ Is("log")
    /\ known' = known \union {Noted[2]}
    /\ UNCHANGED <<never, copies, seal, clean, run, recovered, disk, before, above, released>> /\ Goes

TraceDisk ==
    /\ Is("disk")
    /\ disk' = [disk EXCEPT ![Shard] = Noted[3]]
    /\ IF Noted[3] = "ok" THEN UNCHANGED <<copies, seal, clean, before>>
       ELSE /\ before' = [before EXCEPT ![Shard] = IF seal[Shard] > 0 THEN copies[Shard] ELSE @]
            /\ copies' = [copies EXCEPT ![Shard] = [n \in Places |-> Nothing]]
            /\ seal' = [seal EXCEPT ![Shard] = 0]
            /\ clean' = clean \ {Shard}
    /\ UNCHANGED <<never, run, recovered, known, above, released>> /\ Goes

TraceInit ==
    /\ trace \in 1..Len(Traces)
    /\ line = 1
    /\ disk = [s \in Node |-> "ok"] /\ before = [s \in Node |-> <<>>]
    /\ known = {[s \in Node |-> "full"]}
    /\ above = 0 /\ released = 0
    /\ copies = [s \in Node |-> [n \in Places |-> Nothing]]
    /\ seal = [s \in Node |-> 0]
    /\ run = [r \in Runs |-> NoRun]
    /\ recovered = 0 /\ clean = {}
    /\ copyset = <<>> /\ append = <<>> /\ lng = 0 /\ status = <<>> /\ up = {} /\ losses = 0
    /\ forgot = {} /\ hit = {} /\ trimmed = <<>> /\ trimmedThen = <<>>
    /\ releases = {} /\ got = {}

TraceNext ==
    \/ TraceStore \/ TraceMutate \/ TraceDonated \/ TraceSeal \/ TraceRecover \/ TracePurge \/ TraceTrim
    \/ TraceReleaseOwn \/ TraceReleaseLater \/ TraceShip \/ TraceEventLog \/ TraceDisk

View == <<trace, line, copies, seal, clean, run, recovered, disk, before, known, above, released>>

-------------------------------------------------------------------------------------------
(* "Invariants" that report instead of promising.                                                            *)
ReportAccepted == line > Len(Given.events) => PrintT(<<"accepted", trace>>)

(* All that the next step depends on, to take it again from here.                                            *)
Here == [copies |-> copies, seal |-> seal, clean |-> clean, run |-> run, recovered |-> recovered, disk |-> disk,
         before |-> before, known |-> known, above |-> above, released |-> released]
ReportReached ==
    IF line > Len(Given.events) THEN TRUE
    ELSE IF ENABLED TraceNext THEN TRUE
    ELSE PrintT(<<"reached", trace, line, Here>>)

TraceResume ==                     \* at the event of TraceData, in the state of TraceData
    /\ trace = 1 /\ line = 1
    /\ copies = Before.copies /\ seal = Before.seal /\ clean = Before.clean /\ run = Before.run
    /\ recovered = Before.recovered /\ disk = Before.disk /\ before = Before.before /\ known = Before.known
    /\ above = Before.above /\ released = Before.released
    /\ copyset = <<>> /\ append = <<>> /\ lng = 0 /\ status = <<>> /\ up = {} /\ losses = 0
    /\ forgot = {} /\ hit = {} /\ trimmed = <<>> /\ trimmedThen = <<>>
    /\ releases = {} /\ got = {}
===========================================================================================
