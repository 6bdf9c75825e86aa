------------------------------------- MODULE CoreWalk -------------------------------------
(* Random walks of FlushedRaft whose steps are those of the Raft core: where the core does in one event what *)
(* the specification does in two steps, the two are taken one after the other, and where the specification   *)
(* is free to do less than the core, it does as much. core_replay.py carries a walk out.                     *)
(*   - a new leader appends its configuration entry before anything else happens;                            *)
(*   - a follower that truncates appends the entry that differed before anything else happens;               *)
(*   - a leader takes its followers' replies one by one, whole, and does at once all that follows from them;  *)
(*   - a flush covers the whole log;                                                                         *)
(*   - a leader is not asked for pre-votes: the core refuses them while it leads.                            *)
EXTENDS FlushedRaft

CONSTANTS MaxTerm, MaxLog, MaxCrashes, MaxPowerLosses

VARIABLES
    owed,                          \* the follower that has truncated and not appended yet
    knows,                         \* per leader and follower, the last reply that was heard
    did                            \* the step: its name, its node and two values

Did(name, n, a, b) == did' = <<name, n, a, b>> /\ owed' = Nobody /\ UNCHANGED knows

(* A walk would crash and vote all the time if every step were as likely as the others.                       *)
Seldom(k) == RandomElement(1..k) = 1

NewLeader(n) == role[n] = "leader" /\ LastTerm(log[n]) < term[n]

MayStand(n) ==
    \E Q \in Quorum : \A v \in Q :
        /\ term[v] <= term[n]
        /\ v # n => role[v] # "leader"
        /\ LogOk(LastTerm(log[n]), Len(log[n]), LastTerm(log[v]), Len(log[v]))

HearReply(l) ==
    /\ role[l] = "leader"
    /\ \E f \in Others(l) : \E r \in replies[l][f] :
        /\ r # knows[l][f]
        /\ r.match >= knows[l][f].match      \* else it was overtaken
        /\ knows' = [knows EXCEPT ![l][f] = r]
        /\ did' = <<"HearReply", l, f, r>>
    /\ UNCHANGED <<vars, owed>>

MajorityKnown(l) ==
    LET most == MajorityReplicated(mri[l], Len(log[l]),
                    [f \in Others(l) |-> ReplicatedDirty(knows[l][f].dirty, knows[l][f].flushed, knows[l][f].match)])
    IN  IF MayCountReplicated(TermAt(log[l], most), term[l]) THEN most ELSE mri[l]

CandidateKnown(l) ==
    CommitCandidate(flushed[l],
        [f \in Others(l) |-> ReplicatedFlushed(knows[l][f].dirty, knows[l][f].flushed, knows[l][f].match)])

MayCommitKnown(l) == LET c == CandidateKnown(l) IN MayCommit(c, commit[l], TermAt(log[l], c), term[l])
Behind(l) == role[l] = "leader" /\ (MayCommitKnown(l) \/ MajorityKnown(l) > mri[l])

Count(l) ==
    /\ IF MayCommitKnown(l)
       THEN AdvanceCommitKnowing(l, CandidateKnown(l), MajorityKnown(l))
       ELSE LearnReplicated(l, MajorityKnown(l))
    /\ Did("Count", l, 0, 0)

Step(n) ==
    \/ \E t \in TermsHeard : UpdateTerm(n, t) /\ Did("UpdateTerm", n, t, 0)
    \/ /\ term[n] < MaxTerm
       /\ (\A m \in Node : role[m] = "follower") \/ Seldom(8)
       /\ MayStand(n)
       /\ StandForElection(n)
       /\ Did("StandForElection", n, 0, 0)
    \/ \E a \in asked : GiveVote(n, a) /\ Did("GiveVote", n, a.node, 0)
    \/ StepDown(n) /\ Did("StepDown", n, 0, 0)
    \/ BecomeLeader(n) /\ Did("BecomeLeader", n, 0, 0)
    \/ /\ Len(log[n]) < MaxLog
       /\ \E acks \in {AcksAll, AcksLeader} :
            ClientAppend(n, Entry(term[n], acks)) /\ Did("ClientAppend", n, acks, 0)
    \/ HearReply(n)
    \/ FollowerAppend(n) /\ Did("FollowerAppend", n, 0, 0)
    \/ \E k \in 0..Len(log[n]) :
            FollowerTruncate(n, k) /\ did' = <<"FollowerTruncate", n, k, 0>> /\ owed' = n /\ UNCHANGED knows
    \/ Hears(n) /\ \E e \in 1..Len(log[n]), c \in 1..Leads(n).commit :
            FollowerHearsCommit(n, c, e) /\ Did("FollowerHearsCommit", n, c, e)
    \/ Hears(n) /\ \E e \in 1..Len(log[n]), v \in 1..Leads(n).visible :
            FollowerHearsVisible(n, v, e) /\ Did("FollowerHearsVisible", n, v, e)
    \/ Seldom(2) /\ Flush(n, Len(log[n])) /\ Did("Flush", n, 0, 0)
    \/ crashes < MaxCrashes /\ Seldom(30) /\ Crash(n) /\ Did("Crash", n, 0, 0)
    \/ /\ powerLosses < MaxPowerLosses
       /\ Seldom(30)
       /\ \E k \in 0..Len(log[n]) : PowerLoss(n, k) /\ Did("PowerLoss", n, k, 0)

NoReply == [match |-> 0, flushed |-> 0, dirty |-> 0]

WalkInit == Init /\ owed = Nobody /\ knows = [l \in Node |-> [f \in Others(l) |-> NoReply]] /\ did = <<"Init", Nobody, 0, 0>>

WalkNext ==
    IF owed # Nobody
    THEN FollowerAppend(owed) /\ Did("FollowerAppend", owed, 0, 0)
    ELSE IF \E n \in Node : NewLeader(n)
    THEN \E n \in Node : /\ NewLeader(n)
                         /\ AppendConfiguration(n, Entry(term[n], AcksAll))
                         /\ did' = <<"AppendConfiguration", n, 0, 0>>
                         /\ knows' = [knows EXCEPT ![n] = [f \in Others(n) |-> NoReply]]
                         /\ UNCHANGED owed
    ELSE IF \E n \in Node : Behind(n)
    THEN \E n \in Node : Behind(n) /\ Count(n)
    ELSE (\E n \in Node : Step(n)) \/ (UNCHANGED vars /\ Did("Wait", 0, 0, 0))
===========================================================================================
