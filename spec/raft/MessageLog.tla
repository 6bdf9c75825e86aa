------------------------------------ MODULE MessageLog ------------------------------------
(* What nodes of one group may say to each other, beside what they may do (FlushedRaft): terms and roles, and        *)
(* messages by their types. A leader alone speaks as one, in its term; who asks for votes does not lead; and every    *)
(* answer is to a request that was received in this life of the node, once, in no term below the request's.          *)
(* Sources: raft.md#elections, raft.md#vote-durable, raft.md#reply-order, history-checks.md#sent-before-received.   *)
EXTENDS Integers, TLC

CONSTANT Node

VARIABLES
    term, role,                    \* of each node; role is "down" until it starts
    said,                          \* the last term in which it said anything
    sent,                          \* by its number, each message that may arrive, now and again
    owed                           \* by node, the requests that it has received and not answered

vars == <<term, role, said, sent, owed>>

Requests == [AppendReply    |-> "AppendEntries", HeartbeatReply |-> "Heartbeat",
             SnapshotReply  |-> "InstallSnapshot", VoteReply    |-> "VoteRequest"]
Answers == DOMAIN Requests
Asking == {Requests[f] : f \in Answers}

Init ==
    /\ term = [n \in Node |-> 0]
    /\ role = [n \in Node |-> "down"]
    /\ said = [n \in Node |-> 0]
    /\ sent = [m \in {} |-> 0]
    /\ owed = [n \in Node |-> {}]

-------------------------------------------------------------------------------------------
(* Nothing leaves a node before its term is durable, so it starts in none that is before what it has said.        *)
MayStart(t, saidIn) == t >= saidIn
Starts(n, t) ==
    /\ MayStart(t, said[n])
    /\ term' = [term EXCEPT ![n] = t]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ owed' = [owed EXCEPT ![n] = {}]
    /\ UNCHANGED <<said, sent>>

Stops(n) == role' = [role EXCEPT ![n] = "down"] /\ UNCHANGED <<term, said, sent, owed>>

Becomes(n, t, r) ==
    /\ role[n] # "down"
    /\ t >= term[n]
    /\ term' = [term EXCEPT ![n] = t]
    /\ role' = [role EXCEPT ![n] = r]
    /\ UNCHANGED <<said, sent, owed>>

(* Who may say what. Pre-votes are asked for by followers as well, in the term that they are in.                  *)
MaySay(f, r) ==
    CASE f \in {"AppendEntries", "Heartbeat", "InstallSnapshot", "TimeoutNow"} -> r = "leader"
      [] f = "VoteRequest"                                                      -> r \in {"follower", "candidate"}
      [] f \in {"AppendReply", "HeartbeatReply", "SnapshotReply"}               -> r = "follower"
      [] OTHER                                                                  -> r # "down"

(* What was asked in a term that is over anybody may refuse; a vote also who is in an earlier term, which takes over  *)
(* no later one by refusing it or by an answer about a pre-vote.                                                 *)
MayAnswer(f, r, asked, t) == asked < t \/ (MaySay(f, r) /\ (asked = t \/ f = "VoteReply"))
AnswersIts(n, f, t, peer) ==
    {q \in owed[n] : q.from = peer /\ q.f = Requests[f] /\ MayAnswer(f, role[n], q.term, t)}

Sends(n, m, f, t, peer) ==
    /\ m \notin DOMAIN sent
    /\ t = term[n]
    /\ said' = [said EXCEPT ![n] = t]
    /\ sent' = sent @@ (m :> [from |-> n, to |-> peer, f |-> f, term |-> t])
    /\ IF f \in Answers
       THEN /\ role[n] # "down"
            /\ AnswersIts(n, f, t, peer) # {}
            /\ LET all == AnswersIts(n, f, t, peer)
                   q == CHOOSE q \in all : \A other \in all : q.at <= other.at
               IN  owed' = [owed EXCEPT ![n] = @ \ {q}]
       ELSE MaySay(f, role[n]) /\ UNCHANGED owed
    /\ UNCHANGED <<term, role>>

Receives(n, m, f, t, peer, at) ==
    /\ role[n] # "down"
    /\ m \in DOMAIN sent
    /\ sent[m] = [from |-> peer, to |-> n, f |-> f, term |-> t]
    /\ owed' = IF f \in Asking THEN [owed EXCEPT ![n] = @ \union {[from |-> peer, f |-> f, term |-> t, at |-> at]}] ELSE owed
    /\ UNCHANGED <<term, role, said, sent>>
===========================================================================================
