--------------------------------- MODULE TraceFlushedRaft ---------------------------------
(* Is a recorded run one that CompleteRaft allows? TraceData, which is generated, holds the events of many     *)
(* runs; `line' counts the events that were followed. Every event is one step of the spec, with the node's     *)
(* state after it as recorded; what is not recorded - messages, what a leader knows of its followers, when     *)
(* exactly a vote was decided - is taken as favourably as the spec allows. A run is accepted if some behaviour *)
(* gets to its end. Invariants are not checked here.                                                          *)
(*                                                                                                            *)
(* Two things are known less precisely than in the spec. Term and vote are known to be durable only once a     *)
(* vote is recorded (the event says so), so `saved' lags behind. MRI and UB are upper bounds: a leader shows    *)
(* `seen', which may be less than it could.                                                                   *)
EXTENDS CompleteRaft, TraceData

VARIABLES
    run,                           \* which run
    line,                          \* its next event
    seen,                          \* the visible offset that each node last recorded
    trimmed,                       \* up to where each log was trimmed
    entered,                       \* the end of each node's log when it came into its term
    took,                          \* what each node did last
    pairs                          \* what nodes did directly after what

traceVars == <<run, line, seen, trimmed, entered, took, pairs>>

Events == Traces[run]
Event == Events[line]

(* An event: kind, node, the node's state after it, up to five values that depend on the kind, and the oldest *)
(* term that any node is in from here on: what leaders of older terms sent is heard by nobody any more.       *)
Kind == Event[1]
At == Event[2]
TermThen == Event[3]
DirtyThen == Event[4]
FlushedThen == Event[5]
CommitThen == Event[6]
VisibleThen == Event[7]
First == Event[8]
Second == Event[9]
Third == Event[10]
Fourth == Event[11]
Fifth == Event[12]
OldestToCome == Event[13]
Configuration(number) == Configurations[run][number]

LogEnd(n) == [lastTerm |-> LastTerm(log[n]), dirty |-> Len(log[n])]

Begins(kind) == Kind = kind        \* the last event is an "end", which nothing follows

(* What every event says of its node; and which action it was.                                               *)
Agrees(action) ==
    /\ term'[At] = TermThen
    /\ Len(log'[At]) = DirtyThen
    /\ flushed'[At] = FlushedThen
    /\ commit'[At] = CommitThen
    /\ seen'[At] = VisibleThen
    /\ line' = line + 1
    /\ took' = [took EXCEPT ![At] = action]
    /\ pairs' = pairs \union {<<took[At], action>>}
    /\ UNCHANGED <<run, founding>>

Shows(v) == seen' = [seen EXCEPT ![At] = v]
StaysInTerm == UNCHANGED entered
MembersStay == UNCHANGED <<memberVars, trimmed>>
Nothing == UNCHANGED vars

(* Stand-ins: history that only the promises need is not kept, and `saved' follows the votes recorded.       *)
CommittedStays == UNCHANGED committed
ShownStays == UNCHANGED shown
AnsweredStays == UNCHANGED answered
(* What followers may have answered changes with their logs and terms, and with who leads.                      *)
RepliesFollowLogs ==
    IF Kind \in {"acked", "visible", "commit", "vote"} THEN UNCHANGED replies ELSE replies' = RepliesNow
SaveVoteWhenRecorded(n, t, v) ==
    saved' = IF Kind = "vote" THEN [saved EXCEPT ![n] = [term |-> t, vote |-> v]] ELSE saved

(* The MRI that the leader has if it has heard everything.                                                   *)
MostKnown(l) ==
    IF MayCountReplicated(TermAt(log[l], MostReplicated(l)), term[l]) THEN MostReplicated(l) ELSE majorityReplicated[l]

HasLearned(n) == role[n] = "leader" => majorityReplicated[n] = MostKnown(n)

-------------------------------------------------------------------------------------------
(* Elections                                                                                                 *)

TraceUpdateTerm ==
    /\ Begins("term") /\ First # 1
    /\ HasLearned(At)
    /\ \E m \in Node : TermThen <= term[m]
    /\ UpdateTerm(At, TermThen)
    /\ entered' = [entered EXCEPT ![At] = LogEnd(At)]
    /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("UpdateTerm")

TraceStandForElection ==           \* the term of a node that stands, as its next role shows (2: it may have stood)
    /\ Begins("term") /\ First # 0
    /\ BecomeCandidate(At)
    /\ entered' = [entered EXCEPT ![At] = LogEnd(At)]
    /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("StandForElection")

TraceRole ==
    /\ Begins("role")
    /\ role[At] = First
    /\ Nothing /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("Role")

TraceStepDown ==
    /\ Begins("role") /\ First = "follower"
    /\ role[At] = "candidate"
    /\ StepDown(At)
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("StepDown")

TraceLeaveOffice ==
    /\ Begins("role") /\ First = "follower"
    /\ HasLearned(At)
    /\ LeaveOffice(At)
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("LeaveOffice")

TraceOwnVote ==
    /\ Begins("vote") /\ First = At
    /\ vote[At] = At
    /\ saved' = [saved EXCEPT ![At] = [term |-> term[At], vote |-> At]]
    /\ UNCHANGED <<term, vote, role, votes, asked, logVars, commit, visibilityVars, faultVars>>
    /\ Follow
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("OwnVote")

(* Recorded once it is durable; decided then, or any time since the node came into the term.                 *)
TraceGiveVote ==
    /\ Begins("vote") /\ First # At
    /\ \E a \in asked :
        /\ a.node = First
        /\ LET then == IF LogOk(a.lastTerm, a.dirty, entered[At].lastTerm, entered[At].dirty)
                       THEN entered[At] ELSE LogEnd(At)
           IN  GiveVoteWith(At, a, then.lastTerm, then.dirty)
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("GiveVote")

TraceBecomeLeader ==
    /\ Begins("leader")
    /\ BecomeLeader(At)
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("BecomeLeader")

-------------------------------------------------------------------------------------------
(* The log                                                                                                   *)

Written == [term |-> Second, acks |-> Third, value |-> Fourth, voters |-> Configuration(Fifth)]
ChangesVoters == Written.voters # ConfigurationAt(At, Len(log[At]))
IsAppend(leads) == Begins("append") /\ First = Len(log[At]) + 1 /\ (role[At] = "leader") = leads

TraceAppendConfiguration ==
    /\ IsAppend(TRUE) /\ ~ChangesVoters
    /\ AppendConfiguration(At, Written)
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("AppendConfiguration")

TraceClientAppend ==
    /\ IsAppend(TRUE) /\ ~ChangesVoters
    /\ Serve(At, Written)
    /\ UNCHANGED waiting
    /\ Follow
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("ClientAppend")

TraceChangeVoters ==
    /\ IsAppend(TRUE) /\ ChangesVoters
    /\ OneStep(ConfigurationAt(At, Len(log[At])), Written.voters)
    /\ AppendChange(At, Written)
    /\ StaysInTerm /\ UNCHANGED trimmed /\ Shows(seen[At])
    /\ Agrees("ChangeVoters")

TraceFollowerAppend ==
    /\ IsAppend(FALSE)
    /\ FollowerAppend(At)
    /\ log'[At][First] = Written
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("FollowerAppend")

TraceFollowerTruncate ==
    /\ Begins("truncate") /\ First >= 0
    /\ FollowerTruncate(At, First)
    /\ StaysInTerm /\ MembersStay /\ Shows(Min(seen[At], First))
    /\ Agrees("FollowerTruncate")

TraceFlush ==
    /\ Begins("flush")
    /\ Flush(At, FlushedThen)
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("Flush")

-------------------------------------------------------------------------------------------
(* Commit index, visibility, callers                                                                         *)

TraceAdvanceCommit ==
    /\ Begins("commit") /\ role[At] = "leader"
    /\ AdvanceCommitKnowing(At, CommitThen, MostKnown(At))
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("AdvanceCommit")

TraceFollowerHearsCommit ==
    /\ Begins("commit") /\ role[At] # "leader"
    /\ FollowerHearsCommit(At, CommitThen, CommitThen)
    /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("FollowerHearsCommit")

(* The one step without an event: what a leader has heard before it leaves office, it knows afterwards, when it *)
(* answers its callers.                                                                                       *)
TraceLearnReplicated ==
    /\ Kind \in {"role", "term"}
    /\ ~HasLearned(At)
    /\ LearnReplicated(At, MostKnown(At))
    /\ UNCHANGED <<traceVars, memberVars>>

MayShow(l) == Min(MostKnown(l), visibilityUpperBound[l])

TraceLeaderShows ==
    /\ Begins("visible") /\ role[At] = "leader"
    /\ VisibleThen > seen[At]
    /\ VisibleThen <= MayShow(At)
    /\ majorityReplicated' = [majorityReplicated EXCEPT ![At] = MostKnown(At)]
    /\ UNCHANGED <<electionVars, logVars, commit, visibilityUpperBound, lastQuorumWrite, faultVars>>
    /\ Follow
    /\ StaysInTerm /\ MembersStay /\ Shows(VisibleThen)
    /\ Agrees("LeaderShows")

TraceFollowerHearsVisible ==
    /\ Begins("visible") /\ role[At] # "leader"
    /\ Hears(At)
    /\ VisibleThen > seen[At]
    /\ VisibleThen <= Leads(At).visible
    /\ Matches(log[At], Leads(At).log, VisibleThen)
    /\ majorityReplicated' = [majorityReplicated EXCEPT ![At] = Max(@, VisibleThen)]
    /\ visibilityUpperBound' = [visibilityUpperBound EXCEPT ![At] = Max(@, VisibleThen)]
    /\ UNCHANGED <<electionVars, logVars, commit, lastQuorumWrite, faultVars>>
    /\ Follow
    /\ StaysInTerm /\ MembersStay /\ Shows(VisibleThen)
    /\ Agrees("FollowerHearsVisible")

(* acks=all: the rule says so, here and now. acks 0 and 1: the entry is in the log that it was written to.    *)
Caller == [index |-> First, term |-> Second]
KnownReplicated(n) == IF role[n] = "leader" THEN MostKnown(n) ELSE majorityReplicated[n]
MayAnswer(n) == IF Third = AcksAll THEN Outcome(Caller, term[n], log[n], commit[n], KnownReplicated(n))
                ELSE IF TermAt(log[n], First) = Second THEN Success ELSE Pending

TraceAnswer ==
    /\ Begins("acked")
    /\ MayAnswer(At) = Fourth
    /\ Nothing /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("Answer")

-------------------------------------------------------------------------------------------
(* A node starts. What it found of its term may be anything from what is known to be durable on: a vote, or an *)
(* entry that it still has.                                                                                  *)
DurableTerm(k) == Max(saved[At].term, LastTerm(Keep(log[At], Min(k, Len(log[At])))))

IsStart(afterPowerLoss) ==
    /\ Begins("start") /\ First = afterPowerLoss
    /\ TermThen >= DurableTerm(DirtyThen)
    /\ TermThen <= term[At]
    /\ CommitThen \in trimmed[At]..summed[At]
    /\ RestartWith(At, DirtyThen, [term |-> TermThen,
                                   vote |-> IF TermThen = saved[At].term THEN saved[At].vote ELSE Nobody])
    /\ entered' = [entered EXCEPT ![At] = [lastTerm |-> LastTerm(log'[At]), dirty |-> Len(log'[At])]]
    /\ summed' = [summed EXCEPT ![At] = CommitThen]
    /\ UNCHANGED trimmed
    /\ Shows(CommitThen)

TraceCrash ==
    /\ IsStart(0)
    /\ DirtyThen \in SurvivesCrash(log[At], flushed[At])
    /\ UNCHANGED <<crashes, powerLosses>>
    /\ Follow
    /\ Agrees("Crash")

TracePowerLoss ==
    /\ IsStart(1)
    /\ DirtyThen \in SurvivesPowerLoss(log[At], flushed[At])
    /\ UNCHANGED <<crashes, powerLosses>>
    /\ Follow
    /\ Agrees("PowerLoss")

(* What its log begins with it knows to be committed, and what a snapshot sums up that was taken in time.       *)
KnownThen(n) == CommitThen

-------------------------------------------------------------------------------------------
(* Members, snapshots and trimmed logs                                                                        *)

(* The configuration in force, whenever a node says what that is.                                             *)
TraceConfiguration ==
    /\ Begins("configuration")
    /\ ConfigurationAt(At, Len(log[At])) = Configuration(First)
    /\ Nothing /\ StaysInTerm /\ MembersStay /\ Shows(seen[At])
    /\ Agrees("Configuration")

(* A snapshot, whose own or the leader's, ends with an entry of the log and the configuration in force there.   *)
TraceSnapshot ==
    /\ Begins("snapshot")
    /\ First > 0
    /\ MaySum(First, commit[At])
    /\ TermAt(log[At], First) = Second
    /\ ConfigurationAt(At, First) = Configuration(Third)
    /\ summed' = [summed EXCEPT ![At] = Max(@, First)]
    /\ UNCHANGED trimmed
    /\ Nothing /\ StaysInTerm /\ Shows(seen[At])
    /\ Agrees("TakeSnapshot")

TraceTrim ==
    /\ Begins("trim")
    /\ First > 0
    /\ First <= summed[At]
    /\ trimmed' = [trimmed EXCEPT ![At] = Max(@, First)]
    /\ UNCHANGED summed
    /\ Nothing /\ StaysInTerm /\ Shows(seen[At])
    /\ Agrees("Trim")

(* A log that begins anew; one that is kept is trimmed, once it is known to be committed so far.                *)
TraceInstallSnapshot ==
    /\ Begins("install")
    /\ First > 0
    /\ InstallSnapshot(At, First)
    /\ Second \in {NoTerm, TermAt(log'[At], First)}
    /\ trimmed' = [trimmed EXCEPT ![At] = First]
    /\ StaysInTerm /\ Shows(First)
    /\ Agrees("InstallSnapshot")

-------------------------------------------------------------------------------------------
(* The beginning of all logs, of which no event ahead speaks, is left out: TLC looks through whole logs at every *)
(* event. What is nowhere or before that is position 0. Ends that are only compared may lie before it.        *)
TraceForget ==
    LET k == Event[2]
        less(x) == Max(x - k, 0)
        each(f) == TLCEval([n \in Node |-> less(f[n])])
        rest(entries) == SubSeq(entries, k + 1, Len(entries))
    IN  /\ Begins("forget")
        /\ log' = TLCEval([n \in Node |-> rest(log[n])])
        /\ flushed' = each(flushed)
        /\ commit' = each(commit)
        /\ majorityReplicated' = each(majorityReplicated)
        /\ visibilityUpperBound' = each(visibilityUpperBound)
        /\ lastQuorumWrite' = each(lastQuorumWrite)
        /\ seen' = each(seen)
        /\ sent' = TLCEval([t \in DOMAIN sent |->
                [log |-> rest(sent[t].log), commit |-> less(sent[t].commit), visible |-> less(sent[t].visible)]])
        /\ replies' = TLCEval([l \in DOMAIN replies |-> [f \in Others(l) |->
                {[match |-> less(r.match), flushed |-> less(r.flushed), dirty |-> less(r.dirty)] : r \in replies[l][f]}]])
        /\ summed' = each(summed)
        /\ trimmed' = each(trimmed)
        /\ founding' = TLCEval([n \in Node |-> ConfigurationAt(n, Min(k, Len(log[n])))])
        /\ asked' = {[a EXCEPT !.dirty = @ - k] : a \in asked}
        /\ entered' = TLCEval([n \in Node |-> [entered[n] EXCEPT !.dirty = @ - k]])
        /\ line' = line + 1
        /\ UNCHANGED <<term, vote, saved, role, votes, committed, answered, shown, faultVars, run, took, pairs>>

TraceInit ==
    /\ Init
    /\ run \in 1..Len(Traces)
    /\ line = 1
    /\ seen = [n \in Node |-> 0]
    /\ founding = Founding[run]
    /\ summed = [n \in Node |-> 0]
    /\ trimmed = [n \in Node |-> 0]
    /\ entered = [n \in Node |-> [lastTerm |-> NoTerm, dirty |-> 0]]
    /\ took = [n \in Node |-> ""]
    /\ pairs = {}

OnTerm == TraceUpdateTerm \/ TraceStandForElection
OnRole == TraceRole \/ TraceStepDown \/ TraceLeaveOffice
OnVote == TraceOwnVote \/ TraceGiveVote
OnAppend == TraceAppendConfiguration \/ TraceClientAppend \/ TraceChangeVoters \/ TraceFollowerAppend
OnCommit == TraceAdvanceCommit \/ TraceFollowerHearsCommit
OnVisible == TraceLeaderShows \/ TraceFollowerHearsVisible
OnStart == TraceCrash \/ TracePowerLoss

TraceNext ==
    \/ OnTerm \/ OnRole \/ OnVote \/ TraceBecomeLeader \/ OnAppend \/ TraceFollowerTruncate \/ TraceFlush
    \/ TraceLearnReplicated \/ OnCommit \/ OnVisible \/ TraceAnswer \/ OnStart \/ TraceConfiguration
    \/ TraceSnapshot \/ TraceTrim \/ TraceInstallSnapshot \/ TraceForget

(* The same, for TLC to try only what the event can be. It tells the actions of TraceNext apart, not of this.     *)
TraceNextByKind ==
    CASE Kind = "append"   -> OnAppend
      [] Kind = "acked"    -> TraceAnswer
      [] Kind = "visible"  -> OnVisible
      [] Kind = "commit"   -> OnCommit
      [] Kind = "flush"    -> TraceFlush
      [] Kind = "forget"   -> TraceForget
      [] Kind = "term"     -> OnTerm \/ TraceLearnReplicated
      [] Kind = "role"     -> OnRole \/ TraceLearnReplicated
      [] Kind = "vote"     -> OnVote
      [] Kind = "leader"   -> TraceBecomeLeader
      [] Kind = "truncate" -> TraceFollowerTruncate
      [] Kind = "start"    -> OnStart
      [] Kind = "configuration" -> TraceConfiguration
      [] Kind = "snapshot" -> TraceSnapshot
      [] Kind = "trim"     -> TraceTrim
      [] Kind = "install"  -> TraceInstallSnapshot
      [] Kind = "end"      -> FALSE

-------------------------------------------------------------------------------------------
(* What TLC tells states apart by: all but the entries of logs, which are what the events so far say they are.  *)
(* Looking through whole logs at every event would make long runs slow.                                      *)
SentEnds == [t \in DOMAIN sent |-> <<Len(sent[t].log), sent[t].commit, sent[t].visible>>]
View == <<run, line, seen, summed, trimmed, entered, electionVars, flushed, commit, visibilityVars, SentEnds, replies>>

-------------------------------------------------------------------------------------------
(* "Invariants" that report instead of promising.                                                            *)

ReportAccepted == Kind = "end" => PrintT(<<"accepted", run, pairs>>)

(* What the spec would have allowed where a run cannot be followed.                                          *)
HeardEnd(n) == IF Hears(n) THEN MatchEnd(log[n], Leads(n).log) ELSE 0
Allowed ==
    CASE Kind = "commit" /\ role[At] = "leader" ->
            [most |-> CommitCandidate(VotersOf(At), DurableOn(At), flushed[At]),
             currentTermFrom |-> LET own == {i \in 1..Len(log[At]) : log[At][i].term = term[At]}
                                 IN  IF own = {} THEN 0 ELSE CHOOSE i \in own : \A j \in own : i <= j]
      [] Kind = "commit" /\ role[At] # "leader" ->
            [most |-> IF Hears(At) THEN Min(Min(Leads(At).commit, flushed[At]), HeardEnd(At)) ELSE 0]
      [] Kind = "visible" /\ role[At] = "leader" -> [most |-> MayShow(At)]
      [] Kind = "visible" /\ role[At] # "leader" ->
            [most |-> IF Hears(At) THEN Min(Leads(At).visible, HeardEnd(At)) ELSE 0]
      [] Kind = "acked" -> [outcome |-> MayAnswer(At)]
      [] Kind = "append" /\ role[At] # "leader" ->
            [next |-> IF Hears(At) /\ HeardEnd(At) = Len(log[At]) /\ HeardEnd(At) < Len(Leads(At).log)
                      THEN <<Leads(At).log[HeardEnd(At) + 1]>> ELSE <<>>]
      [] Kind = "append" /\ role[At] = "leader" ->
            [serves |-> MayServe(TermAt(log[At], commit[At]), term[At]), expected |-> Len(log[At]) + 1,
             changes |-> ChangesVoters, newest |-> Newest(At), inForce |-> ConfigurationAt(At, Len(log[At]))]
      [] Kind = "truncate" ->
            [to |-> IF Hears(At) /\ HeardEnd(At) < Min(Len(log[At]), Len(Leads(At).log)) THEN <<HeardEnd(At)>> ELSE <<>>]
      [] Kind = "start" -> [from |-> IF First = 1 THEN flushed[At] ELSE Len(log[At]), upTo |-> Len(log[At]),
                            termFrom |-> DurableTerm(DirtyThen), termTo |-> term[At]]
      [] Kind = "leader" -> [votes |-> votes[At]]
      [] Kind = "vote" -> [asked |-> {a \in asked : a.term = TermThen /\ a.node = First},
                           ownEnd |-> LogEnd(At), voted |-> vote[At]]
      [] Kind = "flush" -> [from |-> flushed[At] + 1, upTo |-> Len(log[At])]
      [] Kind \in {"snapshot", "install"} ->
            [upTo |-> IF Kind = "snapshot" THEN commit[At] ELSE IF Hears(At) THEN Leads(At).commit ELSE 0]
      [] Kind = "trim" -> [upTo |-> summed[At]]
      [] Kind = "configuration" -> [inForce |-> ConfigurationAt(At, Len(log[At]))]
      [] OTHER -> [term |-> term[At]]

(* All that the next step depends on, to take it again from here.                                            *)
Here == [term |-> term, vote |-> vote, saved |-> saved, role |-> role, votes |-> votes, asked |-> asked,
         log |-> log, flushed |-> flushed, commit |-> commit, majorityReplicated |-> majorityReplicated,
         visibilityUpperBound |-> visibilityUpperBound, lastQuorumWrite |-> lastQuorumWrite,
         sent |-> sent, replies |-> replies, waiting |-> waiting, seen |-> seen, entered |-> entered,
         founding |-> founding, summed |-> summed, trimmed |-> trimmed]

TraceResume ==                     \* at the event of TraceData, in the state of TraceData
    /\ term = Before.term /\ vote = Before.vote /\ saved = Before.saved /\ role = Before.role
    /\ votes = Before.votes /\ asked = Before.asked
    /\ log = Before.log /\ flushed = Before.flushed /\ commit = Before.commit
    /\ majorityReplicated = Before.majorityReplicated /\ visibilityUpperBound = Before.visibilityUpperBound
    /\ lastQuorumWrite = Before.lastQuorumWrite
    /\ sent = Before.sent /\ replies = Before.replies /\ waiting = Before.waiting
    /\ committed = <<>> /\ answered = {} /\ shown = <<>> /\ crashes = 0 /\ powerLosses = 0
    /\ run = 1 /\ line = 1 /\ seen = Before.seen /\ entered = Before.entered
    /\ founding = Before.founding /\ summed = Before.summed /\ trimmed = Before.trimmed
    /\ took = [n \in Node |-> ""] /\ pairs = {}

ReportStuck ==
    IF Kind = "end" THEN TRUE
    ELSE IF ENABLED TraceNext THEN TRUE
    ELSE PrintT(<<"stuck", run, line, [role |-> role[At], term |-> term[At], dirty |-> Len(log[At]),
                                       flushed |-> flushed[At], commit |-> commit[At], visible |-> seen[At]], Allowed, Here>>)
===========================================================================================
