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
    knows,                         \* per leader and follower, what the replies that were heard prove
    cut,                           \* the terms whose leaders are mostly not heard once they have begun to serve
    did                            \* the step: its name, its node and two values

Did(name, n, a, b) == did' = <<name, n, a, b>> /\ owed' = Nobody /\ UNCHANGED <<knows, cut>>

(* A walk would crash and vote all the time if every step were as likely as the others.                       *)
Seldom(k) == RandomElement(1..k) = 1

(* A leader that is cut off goes on appending while another one is elected: that is how tails come about. A     *)
(* candidate is given time to win.                                                                            *)
IsCutOff(t) == t \in cut
Newest == Largest({term[n] : n \in Node})
Rest ==
    LET rules == {l \in Node : role[l] = "leader" /\ term[l] = Newest}
        stands == {c \in Node : role[c] = "candidate" /\ term[c] = Newest}
    IN  IF rules = {} THEN (IF stands = {} THEN 1 ELSE 12)
        ELSE IF \E l \in rules : IsCutOff(Newest) /\ Len(log[l]) > commit[l] THEN 2 ELSE 20

NewLeader(n) == role[n] = "leader" /\ LastTerm(log[n]) < term[n]

CanStand(n) ==
    IsQuorum(Voters, {v \in Node :
        /\ term[v] <= term[n]
        /\ v # n => role[v] # "leader"
        /\ LogOk(LastTerm(log[n]), Len(log[n]), LastTerm(log[v]), Len(log[v]))})

HearReply(l) ==
    /\ role[l] = "leader"
    /\ \E f \in Others(l) : \E r \in replies[l][f] :
        LET more == [durable |-> Max(knows[l][f].durable, ReplicatedFlushed(r.dirty, r.flushed, r.match)),
                     replicated |-> Max(knows[l][f].replicated, ReplicatedDirty(r.dirty, r.flushed, r.match))]
        IN  /\ more # knows[l][f] \/ Seldom(10)
            /\ knows' = [knows EXCEPT ![l][f] = more]
            /\ did' = <<"HearReply", l, f, r>>
    /\ UNCHANGED <<vars, owed, cut>>

MajorityKnown(l) ==
    LET known == [n \in Node |-> IF n = l THEN Len(log[l]) ELSE knows[l][n].replicated]
        most == MajorityReplicated(Voters, known, majorityReplicated[l])
    IN  IF MayCountReplicated(TermAt(log[l], most), term[l]) THEN most ELSE majorityReplicated[l]

CandidateKnown(l) ==
    CommitCandidate(Voters, [n \in Node |-> IF n = l THEN flushed[l] ELSE knows[l][n].durable], flushed[l])

MayCommitKnown(l) == LET c == CandidateKnown(l) IN MayCommit(c, commit[l], TermAt(log[l], c), term[l])
Behind(l) == role[l] = "leader" /\ (MayCommitKnown(l) \/ MajorityKnown(l) > majorityReplicated[l])

Count(l) ==
    /\ IF MayCommitKnown(l)
       THEN AdvanceCommitKnowing(l, CandidateKnown(l), MajorityKnown(l))
       ELSE LearnReplicated(l, MajorityKnown(l))
    /\ Did("Count", l, 0, 0)

Step(n) ==
    \/ \E t \in TermsHeard : UpdateTerm(n, t) /\ Did("UpdateTerm", n, t, 0)
    \/ /\ term[n] < MaxTerm
       /\ Seldom(Rest)
       /\ CanStand(n)
       /\ StandForElection(n)
       /\ Did("StandForElection", n, 0, 0)
    \/ \E a \in asked : GiveVote(n, a) /\ Did("GiveVote", n, a.node, 0)
    \/ StepDown(n) /\ Did("StepDown", n, 0, 0)
    \/ role[n] = "leader" /\ Seldom(60) /\ LeaveOffice(n) /\ Did("LeaveOffice", n, 0, 0)
    \/ BecomeLeader(n) /\ Did("BecomeLeader", n, 0, 0)
    \/ /\ Len(log[n]) < MaxLog
       /\ \E acks \in {AcksAll, AcksLeader} :
            ClientAppend(n, Entry(term[n], acks)) /\ Did("ClientAppend", n, acks, 0)
    \/ HearReply(n)
    \/ /\ IsCutOff(term[n]) /\ LastTerm(log[n]) = term[n] => Seldom(20)
       /\ FollowerAppend(n)
       /\ Did("FollowerAppend", n, 0, 0)
    \/ \E k \in 0..Len(log[n]) :
            FollowerTruncate(n, k) /\ did' = <<"FollowerTruncate", n, k, 0>> /\ owed' = n /\ UNCHANGED <<knows, cut>>
    \/ Hears(n) /\ \E e \in 1..Len(log[n]), c \in 1..Leads(n).commit :
            FollowerHearsCommit(n, c, e) /\ Did("FollowerHearsCommit", n, c, e)
    \/ Hears(n) /\ \E e \in 1..Len(log[n]), v \in 1..Leads(n).visible :
            FollowerHearsVisible(n, v, e) /\ Did("FollowerHearsVisible", n, v, e)
    \/ Seldom(2) /\ Flush(n, Len(log[n])) /\ Did("Flush", n, 0, 0)
    \/ crashes < MaxCrashes /\ Seldom(30) /\ Crash(n) /\ Did("Crash", n, 0, 0)
    \/ /\ powerLosses < MaxPowerLosses
       /\ Seldom(30)
       /\ \E k \in 0..Len(log[n]) : PowerLoss(n, k) /\ Did("PowerLoss", n, k, 0)

NoReply == [durable |-> 0, replicated |-> 0]

WalkInit ==
    /\ cut \in SUBSET (1..MaxTerm)
    /\ Init /\ owed = Nobody /\ knows = [l \in Node |-> [f \in Others(l) |-> NoReply]] /\ did = <<"Init", Nobody, 0, 0>>

WalkNext ==
    IF owed # Nobody
    THEN FollowerAppend(owed) /\ Did("FollowerAppend", owed, 0, 0)
    ELSE IF \E n \in Node : NewLeader(n)
    THEN \E n \in Node : /\ NewLeader(n)
                         /\ AppendConfiguration(n, Entry(term[n], AcksAll))
                         /\ did' = <<"AppendConfiguration", n, 0, 0>>
                         /\ knows' = [knows EXCEPT ![n] = [f \in Others(n) |-> NoReply]]
                         /\ UNCHANGED <<owed, cut>>
    ELSE IF \E n \in Node : Behind(n)
    THEN \E n \in Node : Behind(n) /\ Count(n)
    ELSE (\E n \in Node : Step(n)) \/ (Seldom(4) /\ UNCHANGED vars /\ Did("Wait", 0, 0, 0))
===========================================================================================
