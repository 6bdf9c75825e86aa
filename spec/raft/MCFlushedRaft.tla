---------------------------------- MODULE MCFlushedRaft ----------------------------------
(* FlushedRaft made finite: bounds, states to begin with that are more interesting than the empty cluster,   *)
(* and the mutants. models.yaml says which model is made of which.                                            *)
EXTENDS FlushedRaft

CONSTANTS
    MaxTerm, MaxLog, MaxCrashes, MaxPowerLosses

Small ==
    /\ \A n \in Node : term[n] <= MaxTerm /\ Len(log[n]) <= MaxLog
    /\ crashes <= MaxCrashes
    /\ powerLosses <= MaxPowerLosses

Symmetric == Permutations(Node)

(* Next within the bounds and with fewer choices: a flush covers everything and a follower hears the newest    *)
(* it can; what is older could have been heard when it was new. The models of the long tier use Next.          *)
NextNewest ==
    \E n \in Node :
        \/ \E t \in TermsHeard : UpdateTerm(n, t)
        \/ term[n] < MaxTerm /\ StandForElection(n)
        \/ \E a \in asked : GiveVote(n, a)
        \/ StepDown(n)
        \/ BecomeLeader(n)
        \/ Len(log[n]) < MaxLog /\ AppendConfiguration(n, EntryOf(n, AcksAll))
        \/ Len(log[n]) < MaxLog /\ \E acks \in {AcksAll, AcksLeader} : ClientAppend(n, EntryOf(n, acks))
        \/ \E c \in 1..Len(log[n]) : AdvanceCommit(n, c)
        \/ role[n] = "leader" /\ LearnReplicated(n, MostReplicated(n))
        \/ FollowerAppend(n)
        \/ \E k \in 0..Len(log[n]) : FollowerTruncate(n, k)
        \/ Hears(n) /\ LET e == MatchEnd(log[n], Leads(n).log) IN
                FollowerHearsCommit(n, RecoveryCommit(e, Leads(n).commit, Leads(n).commit), e)
        \/ Hears(n) /\ FollowerHearsVisible(n, Leads(n).visible, MatchEnd(log[n], Leads(n).log))
        \/ Flush(n, Len(log[n]))
        \/ crashes < MaxCrashes /\ Crash(n)
        \/ powerLosses < MaxPowerLosses /\ \E k \in 0..Len(log[n]) : PowerLoss(n, k)

(* The same with elections that nobody was asked about before, as in a transfer.                              *)
NextUnasked == NextNewest \/ \E n \in Node : term[n] < MaxTerm /\ BecomeCandidate(n)

(* The same with leaders that give up their office.                                                           *)
NextLeaving == NextNewest \/ \E n \in Node : LeaveOffice(n)

-------------------------------------------------------------------------------------------
(* States to begin with. Each can be reached from the empty cluster; the models reach-... show it.           *)

All(x) == [n \in Node |-> x]
Written(t, acks) == Entry(t, acks)                         \* CompleteRaft has another one
Log(terms, acks) == [i \in DOMAIN terms |-> Written(terms[i], acks[i])]
Equal(e) == {[match |-> e, flushed |-> e, dirty |-> e]}    \* the reply of a follower that has 1..e, flushed
First == Log(<<1>>, <<AcksAll>>)

StartWith(terms, voted, roles, counted, logs, bounds, asks, requests, answers, waits) ==
    /\ term = terms
    /\ vote = voted
    /\ saved = [n \in Node |-> [term |-> terms[n], vote |-> voted[n]]]
    /\ role = roles
    /\ votes = counted
    /\ log = logs
    /\ flushed = [n \in Node |-> Len(logs[n])]
    /\ commit = All(1)
    /\ majorityReplicated = All(1)
    /\ visibilityUpperBound = bounds
    /\ asked = asks
    /\ sent = requests
    /\ replies = answers
    /\ committed = <<[term |-> 1, at |-> 1]>>
    /\ shown = <<1>>
    /\ waiting = waits
    /\ answered = {}
    /\ crashes = 0
    /\ powerLosses = 0

Start(terms, voted, roles, logs, asks, requests, answers, waits) ==
    StartWith(terms, voted, roles, All({}), logs, All(1), asks, requests, answers, waits)

Request(entries) == [log |-> entries, commit |-> 1, visible |-> 1]
Ask(t, n, lastTerm, dirty) == [term |-> t, node |-> n, lastTerm |-> lastTerm, dirty |-> dirty]

(* Just after an election: the configuration entry of term 1 is committed and visible on all nodes.           *)
InitElected ==
    \E l \in Node :
        /\ lastQuorumWrite = [n \in Node |-> IF n = l THEN 1 ELSE 0]
        /\ Start(All(1), All(l), [n \in Node |-> IF n = l THEN "leader" ELSE "follower"], All(First), {Ask(1, l, NoTerm, 0)},
                 <<Request(First)>>, [m \in {l} |-> [f \in Others(l) |-> Equal(1)]], All({}))

(* A leader of term 1 was cut off with two entries of its own, flushed, and still leads; another node was     *)
(* just elected in term 2 by the third.                                                                       *)
InitReelected ==
    \E old, l, v \in Node :
    LET tail == Log(<<1, 1, 1>>, <<AcksAll, AcksAll, AcksLeader>>) IN
        /\ Cardinality({old, l, v}) = 3
        /\ lastQuorumWrite = [n \in Node |-> IF n = old THEN 2 ELSE IF n = l THEN 1 ELSE 0]
        /\ Start([n \in Node |-> IF n = old THEN 1 ELSE 2],
                 [n \in Node |-> IF n = old THEN old ELSE l],
                 [n \in Node |-> IF n = v THEN "follower" ELSE "leader"],
                 [n \in Node |-> IF n = old THEN tail ELSE First],
                 {Ask(1, old, NoTerm, 0), Ask(2, l, 1, 1)},
                 <<Request(tail), Request(First)>>,
                 [m \in {old, l} |-> [f \in Others(m) |-> IF m = l /\ f = old THEN {} ELSE Equal(1)]],
                 [n \in Node |-> IF n = old THEN {[index |-> 2, term |-> 1]} ELSE {}])

(* The same with a tail of one relaxed entry, which raised the visibility bound of the leader that was cut off. *)
InitRelaxedTail ==
    \E old, l, v \in Node :
    LET tail == Log(<<1, 1>>, <<AcksAll, AcksLeader>>) IN
        /\ Cardinality({old, l, v}) = 3
        /\ lastQuorumWrite = [n \in Node |-> IF n = v THEN 0 ELSE 1]
        /\ StartWith([n \in Node |-> IF n = old THEN 1 ELSE 2],
                     [n \in Node |-> IF n = old THEN old ELSE l],
                     [n \in Node |-> IF n = v THEN "follower" ELSE "leader"],
                     All({}),
                     [n \in Node |-> IF n = old THEN tail ELSE First],
                     [n \in Node |-> IF n = old THEN 2 ELSE 1],
                     {Ask(1, old, NoTerm, 0), Ask(2, l, 1, 1)},
                     <<Request(tail), Request(First)>>,
                     [m \in {old, l} |-> [f \in Others(m) |-> IF m = l /\ f = old THEN {} ELSE Equal(1)]],
                     All({}))

(* The old-term case of Raft: l led term 1 and has an entry of it that it alone has; d leads term 2 and has   *)
(* one of its own in its place; v has neither and has just voted for l in term 3. The entry is a relaxed one,  *)
(* or under write caching an acks=all one, so that it raised the visibility bound of l.                       *)
InitOldTerm ==
    \E l, d, v \in Node :
    LET mine == Log(<<1, 1>>, <<AcksAll, IF WriteCaching THEN AcksAll ELSE AcksLeader>>)
        other == Log(<<1, 2>>, <<AcksAll, AcksAll>>)
    IN  /\ Cardinality({l, d, v}) = 3
        /\ lastQuorumWrite = [n \in Node |-> IF n = v THEN 0 ELSE IF n = l THEN 1 ELSE 2]
        /\ StartWith([n \in Node |-> IF n = d THEN 2 ELSE 3],
                     [n \in Node |-> IF n = d THEN d ELSE l],
                     [n \in Node |-> IF n = v THEN "follower" ELSE IF n = d THEN "leader" ELSE "candidate"],
                     [n \in Node |-> IF n = l THEN {l, v} ELSE {}],
                     [n \in Node |-> IF n = l THEN mine ELSE IF n = d THEN other ELSE First],
                     [n \in Node |-> IF n = l THEN 2 ELSE 1],
                     {Ask(2, d, 1, 1), Ask(3, l, 1, 2)},
                     [t \in {2} |-> Request(other)],
                     [m \in {d} |-> [f \in Others(d) |->
                        IF f = v THEN Equal(1) ELSE {[match |-> 1, flushed |-> 2, dirty |-> 2]}]],
                     [n \in Node |-> IF n = l /\ WriteCaching THEN {[index |-> 2, term |-> 1]} ELSE {}])

(* Five nodes: `old' waits for its entry of term 1, which e has as well. l leads term 2 and has told `old' so;  *)
(* then e was elected in term 3 and has given its whole log to v and w.                                       *)
InitSplit ==
    \E old, e, l, v, w \in Node :
    LET relic == Log(<<1, 1>>, <<AcksAll, AcksAll>>)
        other == Log(<<1, 2>>, <<AcksAll, AcksAll>>)
        full == Log(<<1, 1, 3>>, <<AcksAll, AcksAll, AcksAll>>)
    IN  /\ Cardinality({old, e, l, v, w}) = 5
        /\ lastQuorumWrite = [n \in Node |-> IF n = old \/ n = l THEN 2 ELSE IF n = e THEN 3 ELSE 0]
        /\ Start([n \in Node |-> IF n \in {old, l} THEN 2 ELSE 3],
                 [n \in Node |-> IF n = old THEN Nobody ELSE IF n = l THEN l ELSE e],
                 [n \in Node |-> IF n \in {e, l} THEN "leader" ELSE "follower"],
                 [n \in Node |-> IF n = old THEN relic ELSE IF n = l THEN other ELSE full],
                 {Ask(2, l, 1, 1), Ask(3, e, 1, 2)},
                 [t \in {2, 3} |-> Request(IF t = 2 THEN other ELSE full)],
                 [m \in {l, e} |-> [f \in Others(m) |->
                    IF m = e THEN (IF f \in {v, w} THEN Equal(3) ELSE {})
                    ELSE IF f = old THEN {[match |-> 1, flushed |-> 2, dirty |-> 2]}
                    ELSE IF f \in {v, w} THEN Equal(1) ELSE {}]],
                 [n \in Node |-> IF n = old THEN {[index |-> 2, term |-> 1]} ELSE {}])

-------------------------------------------------------------------------------------------
(* What may happen and is not to be ruled out by mistake. A model says which of it its search must meet; each is *)
(* reported once, by its name.                                                                                *)
Met(number, name, there) == IF TLCGet(number) = 0 /\ there THEN TLCSet(number, 1) /\ PrintT(<<"reached", name>>) ELSE TRUE
ASSUME \A number \in 1..9 : TLCSet(number, 0)

NobodyHas(i, t) == \A n \in Node : TermAt(log'[n], i) # t
FlushedSomewhere(i, t) == \E n \in Node : TermAt(log'[n], i) = t /\ flushed'[n] >= i
Led(n) == role'[n] = "leader"
NoFault == crashes' = crashes /\ powerLosses' = powerLosses

LogsReached ==
    /\ Met(1, "TwoLeaders", \E m, n \in Node : m # n /\ Led(m) /\ Led(n))
    /\ Met(2, "LogsDiverge", \E m, n \in Node : \E i \in 1..Min(Len(log'[m]), Len(log'[n])) :
                                log'[m][i].term # log'[n][i].term)
    /\ Met(3, "FlushedEntryTruncated", NoFault /\ \E n \in Node : Len(log'[n]) < flushed[n])
    /\ Met(4, "VisibleBeforeCommitted", \E n \in Node : Led(n) /\ VisibleNext(n) > commit'[n])
    /\ Met(5, "VisibleBeforeFlushed", \E i \in 1..Len(shown') : i > Len(committed') /\ ~NobodyHas(i, shown'[i])
                                        /\ ~FlushedSomewhere(i, shown'[i]))
    /\ Met(6, "AppendTruncated", \E a \in answered' : a.outcome = Truncated)
    /\ Met(7, "AppendSucceeds", \E a \in answered' : a.outcome = Success)
    /\ Met(8, "CommittedInLaterTerm", \E i \in 1..Len(committed') : committed'[i].at > committed'[i].term)
    /\ Met(9, "VisibleEntryTruncated", NoFault /\ \E n \in Node : Len(log'[n]) < Visible(n))
Reached == LogsReached             \* a model may take another one

-------------------------------------------------------------------------------------------
(* Mutants: one-line changes (raft.md#mutants), each the stand-in for the rule that it is named after.        *)

CommitCountsDirty(dirty, flushedThere, match) == Min(dirty, match)           \* ReplicatedFlushed
CommitIgnoresMatch(dirty, flushedThere, match) == flushedThere               \* ReplicatedFlushed
CommitOldTerm(candidate, own, candidateTerm, currentTerm) == candidate > own \* MayCommit
CommitBeforeOwnFlush(group, durable, ownFlushed) == QuorumMatch(group, durable) \* CommitCandidate
FollowerCommitUnclamped(own, leaderCommit, flushedHere, verified) == Max(own, leaderCommit)
FollowerCommitUnverified(own, leaderCommit, flushedHere, verified) == Max(own, Min(leaderCommit, flushedHere))
RecoveryLateCommitSample(chunkEnd, commitBeforeRead, commitNow) == commitNow

AckOnTermChange(w, currentTerm, ownLog, ownCommit, ownMajority) ==           \* Outcome: stop conditions (2), (3)
    IF currentTerm # w.term THEN (IF TermAt(ownLog, w.index) = w.term THEN Success ELSE Truncated)
    ELSE ResolveQuorumAck(w.index, w.term, TermAt(ownLog, w.index), ownCommit, TermAt(ownLog, ownCommit))
AckWithoutTerm(offset, t, termAtOffset, own, termAtCommit) ==                \* ResolveQuorumAck
    IF own >= offset THEN Success ELSE Pending
TruncatedForEqualTerm(offset, t, termAtOffset, own, termAtCommit) ==         \* ResolveQuorumAck
    IF termAtOffset = t /\ own >= offset THEN Success
    ELSE IF termAtCommit >= t /\ termAtOffset # t THEN Truncated ELSE Pending
TruncatedAtOnce(offset, t, termAtOffset, own, termAtCommit) ==               \* ResolveQuorumAck
    IF termAtOffset # t THEN Truncated ELSE IF own >= offset THEN Success ELSE Pending

VisibleUnclamped(dirty, flushedThere, match) == dirty                        \* ReplicatedDirty
VisibleJumpsPending(upperBound, own, lastQuorum, appended) == Max(upperBound, appended)  \* VisibilityOnAppend
ReplicatedOldTerm(candidateTerm, currentTerm) == TRUE                        \* MayCountReplicated
VisibleUsesDirty(majority, newCommit, ownDirty) == Max(majority, ownDirty)   \* MajorityOnCommit
FollowerVisibleUnverified(leaderVisible, dirty, verified) == Min(leaderVisible, dirty)

VisibleIgnoresLastQuorum(upperBound, majority, own, lastQuorum) == Max(upperBound, majority) \* VisibilityOnCommit
BoundSurvivesTruncation(upperBound, k) == upperBound                         \* UpperBoundAfterTruncation
BoundAtElection(upperBound, dirty) == dirty                                  \* UpperBoundAtElection

TruncationKeepsFlushed(flushedHere, k) == flushedHere                        \* FlushedAfterTruncation
DuplicateTruncates(termHere, termThere) == FALSE                             \* BatchMatches
HoldsByOffset(n, i) == i <= Len(log[n])                                      \* HoldsPrevious
RepliesCombined(l, f) ==                                                     \* RepliesBelieved
    {[match |-> a.match, flushed |-> b.flushed, dirty |-> b.dirty] : a, b \in replies[l][f]}

VoteTwice(votedFor, oldTerm, newTerm) == Nobody                              \* VoteAfterStepDown
HalfElects(group, given) ==                                                  \* VoteResult
    IF 2 * Cardinality({n \in DOMAIN given : given[n]}) >= Cardinality(group.current) THEN VoteWon ELSE VotePending
QuorumOneOff(nodes, acknowledged) ==                                         \* MajorityMatch
    LET reached(i) == Cardinality({n \in nodes : acknowledged[n] >= i})
    IN  IF nodes = {} THEN Everything ELSE Largest({i \in {acknowledged[n] : n \in nodes} : 2 * reached(i) >= Cardinality(nodes)} \union {0})
VoteNotDurable == FALSE                                                      \* VoteIsDurableFirst
VoteIgnoresLog(lastTerm, dirty, ownLastTerm, ownDirty) == TRUE               \* LogOk
VoteForAShorterLog(lastTerm, dirty, ownLastTerm, ownDirty) == dirty >= ownDirty \* LogOk
PreVoteBumpsTerm(t) == t + 1                                                 \* PreVoteTerm

-------------------------------------------------------------------------------------------
(* The states above are reached from others: "never" must be violated. Which kind of step comes when is given,  *)
(* who takes it is not.                                                                                       *)
NeverElected == ~InitElected
NeverReelected == ~InitReelected
NeverOldTerm == ~InitOldTerm
NeverSplit == ~InitSplit
NeverLost == \A i \in 1..Len(shown) : \E n \in Node : TermAt(log[n], i) = shown[i]
NeverRelaxedTail == ~InitRelaxedTail
NeverCommittedInLaterTerm == \A i \in 1..Len(committed) : committed[i].at = committed[i].term

Turn(from, times) == TLCGet("level") \in from..(from + times - 1)
Behind(n) == Len(log[n]) = 1       \* has nothing but the first entry

(* From the empty cluster: all vote for one node, its first entry is flushed, committed and shown everywhere.   *)
NextToElected ==
    LET others == Cardinality(Node) - 1 IN \E n \in Node :
        \/ Turn(1, 1) /\ StandForElection(n)
        \/ Turn(2, others) /\ UpdateTerm(n, 1)
        \/ Turn(2 + others, others) /\ \E a \in asked : GiveVote(n, a)
        \/ Turn(2 + 2 * others, 1) /\ BecomeLeader(n)
        \/ Turn(3 + 2 * others, 1) /\ AppendConfiguration(n, Entry(1, AcksAll))
        \/ Turn(4 + 2 * others, 1) /\ Flush(n, 1)
        \/ Turn(5 + 2 * others, others) /\ FollowerAppend(n)
        \/ Turn(5 + 3 * others, others) /\ Flush(n, 1)
        \/ Turn(5 + 4 * others, 1) /\ LearnReplicated(n, 1)
        \/ Turn(6 + 4 * others, 1) /\ AdvanceCommit(n, 1)
        \/ Turn(7 + 4 * others, others) /\ FollowerHearsCommit(n, 1, 1)
        \/ Turn(7 + 5 * others, others) /\ Hears(n) /\ FollowerHearsVisible(n, 1, 1)

(* From just after an election: the leader appends alone while the two others elect one of them.               *)
NextToReelected ==
    \E n \in Node :
        \/ Turn(1, 1) /\ ClientAppend(n, Entry(1, AcksAll))
        \/ Turn(2, 1) /\ ClientAppend(n, Entry(1, AcksLeader))
        \/ Turn(3, 1) /\ Flush(n, 3)
        \/ Turn(4, 1) /\ StandForElection(n)
        \/ Turn(5, 1) /\ UpdateTerm(n, 2)
        \/ Turn(6, 1) /\ \E a \in asked : GiveVote(n, a)
        \/ Turn(7, 1) /\ BecomeLeader(n)

(* The same with one relaxed entry.                                                                            *)
NextToRelaxedTail ==
    \E n \in Node :
        \/ Turn(1, 1) /\ ClientAppend(n, Entry(1, AcksLeader))
        \/ Turn(2, 1) /\ Flush(n, 2)
        \/ Turn(3, 1) /\ StandForElection(n)
        \/ Turn(4, 1) /\ UpdateTerm(n, 2)
        \/ Turn(5, 1) /\ \E a \in asked : GiveVote(n, a)
        \/ Turn(6, 1) /\ BecomeLeader(n)

(* The first leader appends alone, then another one does, then the first stands again.                         *)
NextToOldTerm ==
    \E n \in Node :
        \/ Turn(1, 1) /\ ClientAppend(n, Entry(1, IF WriteCaching THEN AcksAll ELSE AcksLeader))
        \/ Turn(2, 1) /\ Flush(n, 2)
        \/ Turn(3, 1) /\ StandForElection(n)
        \/ Turn(4, 2) /\ UpdateTerm(n, 2)
        \/ Turn(6, 1) /\ \E a \in asked : GiveVote(n, a)
        \/ Turn(7, 1) /\ BecomeLeader(n)
        \/ Turn(8, 1) /\ AppendConfiguration(n, Entry(2, AcksAll))
        \/ Turn(9, 1) /\ Flush(n, 2)
        \/ Turn(10, 1) /\ ~Behind(n) /\ StandForElection(n)
        \/ Turn(11, 1) /\ Behind(n) /\ UpdateTerm(n, 3)
        \/ Turn(12, 1) /\ \E a \in asked : GiveVote(n, a)

(* The first leader's entry gets to one other node. That node stands for the third term while a leader of the   *)
(* second is being elected, and is elected after that one has appended.                                       *)
NextToSplit ==
    \E n \in Node :
        \/ Turn(1, 1) /\ ClientAppend(n, Entry(1, AcksAll))
        \/ Turn(2, 1) /\ FollowerAppend(n)
        \/ Turn(3, 2) /\ Flush(n, 2)
        \/ Turn(5, 1) /\ Behind(n) /\ StandForElection(n)
        \/ Turn(6, 4) /\ UpdateTerm(n, 2)
        \/ Turn(10, 2) /\ \E a \in asked : GiveVote(n, a)
        \/ Turn(12, 1) /\ ~Behind(n) /\ waiting[n] = {} /\ StandForElection(n)
        \/ Turn(13, 1) /\ BecomeLeader(n)
        \/ Turn(14, 1) /\ AppendConfiguration(n, Entry(2, AcksAll))
        \/ Turn(15, 1) /\ Flush(n, 2)
        \/ Turn(16, 2) /\ Behind(n) /\ UpdateTerm(n, 3)
        \/ Turn(18, 2) /\ \E a \in asked : Behind(n) /\ GiveVote(n, a)
        \/ Turn(20, 1) /\ BecomeLeader(n)
        \/ Turn(21, 1) /\ AppendConfiguration(n, Entry(3, AcksAll))
        \/ Turn(22, 1) /\ Flush(n, 3)
        \/ Turn(23, 4) /\ FollowerAppend(n)
        \/ Turn(27, 2) /\ Flush(n, 3)
===========================================================================================
