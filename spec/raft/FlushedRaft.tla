----------------------------------- MODULE FlushedRaft -----------------------------------
(* Raft over logs with dirty and flushed offsets: acks 0, 1 and all, write caching, visibility, recovery     *)
(* without flush, crash and power loss. Sources: documents.md#raft-recovery,                                  *)
(* documents.md#raft-simplification, and the rules of raft.md#commit-index and its other sections, named      *)
(* beside each step.                                                                                          *)
(*                                                                                                            *)
(* There are no messages. A step that needs one says what the receiver may have been told, and that is kept   *)
(* in three variables that follow from the steps of the senders:                                              *)
(*   asked    who asked for votes, with which log                                                             *)
(*   sent     per term, the longest log, highest commit index and highest visible offset that its leader had: *)
(*            any part of it may arrive, any number of times, at any time, or never                            *)
(*   replies  per leader and follower, what the follower was while it followed: any of it may have arrived    *)
(* Whatever a network can lose, repeat, delay or reorder, this allows too. It also allows a recorded run to   *)
(* be followed without its messages: each event names the node and its new state, and nothing has to be       *)
(* guessed but what the receiver had heard (see TraceFlushedRaft).                                            *)
(*                                                                                                            *)
(* Nothing leaves a node before its term and vote are durable, so taking and saving them is one step: a power *)
(* loss in between is the step not taken.                                                                     *)
EXTENDS Integers, Sequences, FiniteSets, TLC, FlushedLog, Rules

CONSTANTS
    Node,                          \* the voters
    WriteCaching                   \* acks=all is answered when a majority has the entry, flushed or not

VARIABLES
    (* elections *)
    term,                          \* current term
    vote,                          \* whom the node voted for in its term
    saved,                         \* term and vote as they are on disk
    role,                          \* follower, candidate or leader
    votes,                         \* who voted for this candidate
    (* the log *)
    log,                           \* what was appended, dirty or not
    flushed,                       \* how much of it is durable
    commit,                        \* commit index
    (* visibility *)
    majorityReplicated,            \* majority replicated index, MRI
    visibilityUpperBound,          \* UB; visible is the smaller of it and MRI
    lastQuorumWrite,               \* LQ, last own append that required a flush
    (* what may be heard *)
    asked,                         \* requests for votes
    sent,                          \* what the leader of each term may have sent
    replies,                       \* what each follower may have answered to its leader
    (* history: nothing below decides a step *)
    committed,                     \* the committed entries, each with the term in which it was committed
    waiting,                       \* acks=all appends whose caller waits at this node
    answered,                      \* how callers were answered
    shown,                         \* the entries that were visible anywhere, by who showed them first
    crashes, powerLosses           \* how often a process died, how often a node lost its power

electionVars == <<term, vote, saved, role, votes, asked>>
logVars == <<log, flushed>>
visibleVars == <<majorityReplicated, visibilityUpperBound>>
visibilityVars == <<visibleVars, lastQuorumWrite>>
followVars == <<sent, replies, committed, shown, answered>>
faultVars == <<waiting, crashes, powerLosses>>
vars == <<electionVars, logVars, commit, visibilityVars, followVars, faultVars>>

Voters == Simple(Node)
Others(n) == Node \ {n}
Visible(n) == Min(majorityReplicated[n], visibilityUpperBound[n])
VisibleNext(n) == Min(majorityReplicated'[n], visibilityUpperBound'[n])

Entry(t, acks) == [term |-> t, acks |-> acks]

(* What depends on members and snapshots, of which there are none here; CompleteRaft has others in their place. *)
VotersOf(n) == Voters              \* who decides, by the node's own log
MayCampaign(n) == TRUE
CommittedAtStart(n) == 0           \* what a node that starts knows to be committed
EntryOf(n, acks) == Entry(term[n], acks)

-------------------------------------------------------------------------------------------
(* What may be heard, and what follows for callers                                                           *)

(* A leader sends its log, commit index and visible offset (append_entries, heartbeats). What is from a term  *)
(* that everybody has left is forgotten.                                                                      *)
OldestTerm == CHOOSE t \in {saved'[n].term : n \in Node} : \A n \in Node : t <= saved'[n].term

RequestsFollow ==
    LET leaders == {n \in Node : role'[n] = "leader"}
        led == {term'[n] : n \in leaders}
        now(t) == LET n == CHOOSE n \in leaders : term'[n] = t
                  IN  [log |-> log'[n], commit |-> commit'[n], visible |-> VisibleNext(n)]
    IN  sent' = [t \in {u \in DOMAIN sent \union led : u >= OldestTerm} |-> IF t \in led THEN now(t) ELSE sent[t]]

(* A follower answers with its dirty and flushed offset and the end of what is proved equal                    *)
(* (documents.md#raft-recovery-follower, raft.md#full-heartbeat). A reply that another one exceeds everywhere  *)
(* adds nothing (raft.md#durable).                                                                             *)
ReplyExceeds(a, b) == a.match >= b.match /\ a.flushed >= b.flushed /\ a.dirty >= b.dirty
WithReply(S, r) == IF \E s \in S : ReplyExceeds(s, r) THEN S ELSE {s \in S : ~ReplyExceeds(r, s)} \union {r}

RepliesNow ==
    [l \in {n \in Node : role'[n] = "leader"} |-> [f \in Others(l) |->
        LET before == IF l \in DOMAIN replies THEN replies[l][f] ELSE {}
        IN  IF term'[f] # term'[l] THEN before
            ELSE WithReply(before, [match   |-> MatchEnd(log'[f], log'[l]),
                                    flushed |-> flushed'[f],
                                    dirty   |-> Len(log'[f])])]]
RepliesFollow == replies' = RepliesNow

(* What the cluster has committed: the longest prefix up to anybody's commit index.                          *)
CommittedFollows ==
    LET news == {n \in Node : commit'[n] > Len(committed)}
        n == CHOOSE n \in news : TRUE
    IN  committed' = IF news = {} THEN committed ELSE
            committed \o [i \in 1..(Min(commit'[n], Len(log'[n])) - Len(committed)) |->
                            [term |-> log'[n][Len(committed) + i].term, at |-> term'[n]]]

(* What readers were shown; a reader keeps what it has read.                                                 *)
ShownFollows ==
    LET visible(n) == Min(VisibleNext(n), Len(log'[n]))
        news == {n \in Node : visible(n) > Len(shown)}
        n == CHOOSE n \in news : TRUE
    IN  shown' = IF news = {} THEN shown ELSE
            shown \o [i \in 1..(visible(n) - Len(shown)) |-> log'[n][Len(shown) + i].term]

(* Callers are answered as soon as the rule allows it (raft.md#quorum-ack, raft.md#write-caching).            *)
Outcome(w, currentTerm, ownLog, ownCommit, ownMajority) ==
    IF WriteCaching
    THEN ResolveWriteCached(w.index, w.term, TermAt(ownLog, w.index), ownMajority, ownCommit, TermAt(ownLog, ownCommit))
    ELSE ResolveQuorumAck(w.index, w.term, TermAt(ownLog, w.index), ownCommit, TermAt(ownLog, ownCommit))

AnswersFollow ==
    LET open(n) == {w \in waiting'[n] : \A a \in answered : a.index # w.index \/ a.term # w.term}
        outcome(n, w) == Outcome(w, term'[n], log'[n], commit'[n], majorityReplicated'[n])
    IN  answered' = answered \union UNION {
            {[index |-> w.index, term |-> w.term, outcome |-> outcome(n, w)] :
                w \in {v \in open(n) : outcome(n, v) # Pending}} : n \in Node}

AllFollow == RequestsFollow /\ RepliesFollow /\ CommittedFollows /\ ShownFollows /\ AnswersFollow
Follow == AllFollow                \* CompleteRaft has more that stays as it is

-------------------------------------------------------------------------------------------
(* Elections (raft.md#elections: raft.md#pre-vote, raft.md#vote-durable, raft.md#election-majority)           *)

SaveVote(n, t, v) == saved' = IF VoteIsDurableFirst THEN [saved EXCEPT ![n] = [term |-> t, vote |-> v]] ELSE saved

TermsHeard == {term[n] : n \in Node} \union {PreVoteTerm(term[n]) : n \in {m \in Node : role[m] # "leader"}}

(* A node hears of a later term, in whatever message, and follows in it.                                     *)
UpdateTerm(n, t) ==
    /\ t > term[n]
    /\ LET v == VoteAfterStepDown(vote[n], term[n], t) IN
        /\ vote' = [vote EXCEPT ![n] = v]
        /\ SaveVote(n, t, v)
    /\ term' = [term EXCEPT ![n] = t]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ UNCHANGED <<asked, logVars, commit, visibilityVars, faultVars>>
    /\ Follow

(* Pre-vote: a majority says that it would vote. Nobody's term moves. The answers are gathered at one moment;  *)
(* no promise but TermNeedsCandidate depends on it.                                                               *)
PreVoteGranted(n) ==
    IsQuorum(VotersOf(n), {v \in Node :
        /\ term[v] <= term[n]
        /\ LogOk(LastTerm(log[n]), Len(log[n]), LastTerm(log[v]), Len(log[v]))})

(* The node stands for the next term: it votes for itself, saves that and asks the others.                   *)
BecomeCandidate(n) ==
    /\ role[n] # "leader"
    /\ MayCampaign(n)
    /\ term' = [term EXCEPT ![n] = @ + 1]
    /\ vote' = [vote EXCEPT ![n] = n]
    /\ SaveVote(n, term[n] + 1, n)
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ votes' = [votes EXCEPT ![n] = {n}]
    /\ asked' = {a \in asked : \E m \in Others(n) : a.term >= term[m]} \union
                {[term |-> term[n] + 1, node |-> n, lastTerm |-> LastTerm(log[n]), dirty |-> Len(log[n])]}
    /\ UNCHANGED <<logVars, commit, visibilityVars, faultVars>>
    /\ Follow

StandForElection(n) == PreVoteGranted(n) /\ BecomeCandidate(n)

(* One vote a term, for a log that is not behind, by dirty offset; the vote is durable before it leaves.      *)
GiveVoteWith(n, a, ownLastTerm, ownDirty) ==
    /\ a \in asked
    /\ a.node # n
    /\ a.term = term[n]
    /\ a.node # vote[n]
    /\ role[n] = "follower"
    /\ GrantVote(vote[n], a.node, LogOk(a.lastTerm, a.dirty, ownLastTerm, ownDirty), FALSE)
    /\ vote' = [vote EXCEPT ![n] = a.node]
    /\ SaveVote(n, a.term, a.node)
    /\ votes' = IF role[a.node] = "candidate" /\ term[a.node] = a.term
                THEN [votes EXCEPT ![a.node] = @ \union {n}] ELSE votes
    /\ UNCHANGED <<term, role, asked, logVars, commit, visibilityVars, faultVars>>
    /\ Follow

GiveVote(n, a) == GiveVoteWith(n, a, LastTerm(log[n]), Len(log[n]))

(* A candidate that hears the leader of its own term follows it; its vote stays given.                       *)
StepDown(n) ==
    LET v == VoteAfterStepDown(vote[n], term[n], term[n]) IN
    /\ role[n] # "leader"
    /\ term[n] \in DOMAIN sent
    /\ <<role[n], vote[n]>> # <<"follower", v>>
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ vote' = [vote EXCEPT ![n] = v]
    /\ UNCHANGED <<term, saved, asked, logVars, commit, visibilityVars, faultVars>>
    /\ Follow

(* A leader gives up its office in its own term. It does so if it hears from no majority for a while; there is *)
(* no time here, so it may do so at any moment (raft.md#check-quorum).                                        *)
LeaveOffice(n) ==
    /\ role[n] = "leader"
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ vote' = [vote EXCEPT ![n] = VoteAfterStepDown(@, term[n], term[n])]
    /\ UNCHANGED <<term, saved, votes, asked, logVars, commit, visibilityVars, faultVars>>
    /\ Follow

(* A majority voted for the candidate. Everything flushed so far counts as written with a flush. What readers *)
(* may see stays as it was: entries behind it may be pending ones of old terms.                               *)
UpperBoundAtElection(upperBound, dirty) == upperBound

BecomeLeader(n) ==
    /\ role[n] = "candidate"
    /\ VoteResult(VotersOf(n), [v \in votes[n] |-> TRUE]) = VoteWon
    /\ role' = [role EXCEPT ![n] = "leader"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ lastQuorumWrite' = [lastQuorumWrite EXCEPT ![n] = flushed[n]]
    /\ visibilityUpperBound' = [visibilityUpperBound EXCEPT ![n] = UpperBoundAtElection(@, Len(log[n]))]
    /\ UNCHANGED <<term, vote, saved, asked, logVars, commit, majorityReplicated, faultVars>>
    /\ Follow

-------------------------------------------------------------------------------------------
(* The leader's log (documents.md#raft-recovery-quorum-ack, documents.md#raft-simplification-implementing)    *)

(* Append without flush, dispatch to the followers and flush in parallel. An append that requires a flush     *)
(* holds back the visibility of what comes after it until it is committed.                                    *)
LeaderAppend(n, entry) ==
    LET end == Len(log[n]) + 1
        last == IF FlushRequired(entry.acks, WriteCaching) THEN end ELSE lastQuorumWrite[n]
    IN  /\ role[n] = "leader"
        /\ log' = [log EXCEPT ![n] = Append(@, entry)]
        /\ lastQuorumWrite' = [lastQuorumWrite EXCEPT ![n] = last]
        /\ visibilityUpperBound' = [visibilityUpperBound EXCEPT ![n] = VisibilityOnAppend(@, commit[n], last, end)]

(* A new leader begins with a configuration entry of its own term, flushed whatever the options say          *)
(* (raft.md#first-entry-of-term).                                                                            *)
AppendConfiguration(n, entry) ==
    /\ role[n] = "leader"
    /\ LastTerm(log[n]) < term[n]
    /\ entry.term = term[n]
    /\ log' = [log EXCEPT ![n] = Append(@, entry)]
    /\ lastQuorumWrite' = [lastQuorumWrite EXCEPT ![n] = Len(log[n]) + 1]
    /\ UNCHANGED <<electionVars, flushed, commit, visibleVars, faultVars>>
    /\ Follow

(* It serves once an entry of its term is committed. acks 0 and 1 are answered at once; acks=all waits.       *)
Serve(n, entry) ==
    /\ MayServe(TermAt(log[n], commit[n]), term[n])
    /\ entry.term = term[n]
    /\ LeaderAppend(n, entry)
    /\ UNCHANGED <<electionVars, flushed, commit, majorityReplicated, crashes, powerLosses>>

ClientAppend(n, entry) ==
    /\ Serve(n, entry)
    /\ waiting' = IF entry.acks = AcksAll
                  THEN [waiting EXCEPT ![n] = @ \union {[index |-> Len(log[n]) + 1, term |-> term[n]]}]
                  ELSE waiting
    /\ Follow

(* What the leader counts of a follower comes from one reply, whole. Replies may arrive in any order: what was  *)
(* durable and equal once in a term stays so. But the offsets of one reply and the match of another may belong  *)
(* to two different logs.                                                                                     *)
RepliesBelieved(l, f) == replies[l][f]

DurableOn(l) ==
    [n \in Node |-> IF n = l THEN flushed[l] ELSE
        Largest({0} \union {ReplicatedFlushed(r.dirty, r.flushed, r.match) : r \in RepliesBelieved(l, n)})]
ReplicatedOn(l) ==
    [n \in Node |-> IF n = l THEN Len(log[l]) ELSE
        Largest({0} \union {ReplicatedDirty(r.dirty, r.flushed, r.match) : r \in RepliesBelieved(l, n)})]

(* Commit rule: flushed on a majority, the leader included, and of the leader's term. The leader may not have  *)
(* heard everything yet, so it moves to the candidate or to less. `majority' is the MRI as it knows it.       *)
MajorityOnCommit(majority, newCommit, ownDirty) == Max(majority, newCommit)

AdvanceCommitKnowing(l, c, majority) ==
    /\ role[l] = "leader"
    /\ c <= CommitCandidate(VotersOf(l), DurableOn(l), flushed[l])
    /\ MayCommit(c, commit[l], TermAt(log[l], c), term[l])
    /\ commit' = [commit EXCEPT ![l] = c]
    /\ visibilityUpperBound' = [visibilityUpperBound EXCEPT ![l] = VisibilityOnCommit(@, majority, c, lastQuorumWrite[l])]
    /\ majorityReplicated' = [majorityReplicated EXCEPT ![l] = MajorityOnCommit(majority, c, Len(log[l]))]
    /\ UNCHANGED <<electionVars, logVars, lastQuorumWrite, faultVars>>
    /\ Follow

AdvanceCommit(l, c) == AdvanceCommitKnowing(l, c, majorityReplicated[l])

(* Visibility: the leader learns that a majority has more, flushed or not.                                    *)
MostReplicated(l) == MajorityReplicated(VotersOf(l), ReplicatedOn(l), majorityReplicated[l])

LearnReplicated(l, m) ==
    /\ role[l] = "leader"
    /\ m > majorityReplicated[l]
    /\ m <= MostReplicated(l)
    /\ MayCountReplicated(TermAt(log[l], m), term[l])
    /\ majorityReplicated' = [majorityReplicated EXCEPT ![l] = m]
    /\ UNCHANGED <<electionVars, logVars, commit, visibilityUpperBound, lastQuorumWrite, faultVars>>
    /\ Follow

-------------------------------------------------------------------------------------------
(* A follower (raft.md#skip-duplicates, raft.md#truncation, raft.md#follower-commit, raft.md#follower-visible)*)

Leads(n) == sent[term[n]]          \* what the leader of the node's term may have sent
Hears(n) == role[n] = "follower" /\ term[n] \in DOMAIN sent

(* What a request goes on from is found equal here (the consistency check of append_entries).                 *)
HoldsPrevious(n, i) == Matches(log[n], Leads(n).log, i)

(* The next entry, after everything before it was found equal. A request with several entries is several such *)
(* steps; a duplicate is none, as it matches.                                                                 *)
FollowerAppend(n) ==
    LET end == Len(log[n]) IN
    /\ Hears(n)
    /\ end < Len(Leads(n).log)
    /\ HoldsPrevious(n, end)
    /\ log' = [log EXCEPT ![n] = Append(@, Leads(n).log[end + 1])]
    /\ UNCHANGED <<electionVars, flushed, commit, visibilityVars, faultVars>>
    /\ Follow

UpperBoundAfterTruncation(upperBound, k) == Min(upperBound, k)

(* Only a real mismatch truncates, and what was flushed, replicated and visible comes down with the log.     *)
(* The truncation is durable before anything is appended after it.                                            *)
FollowerTruncate(n, k) ==
    /\ Hears(n)
    /\ k < Len(log[n])
    /\ k < Len(Leads(n).log)
    /\ HoldsPrevious(n, k)
    /\ ~BatchMatches(log[n][k + 1].term, Leads(n).log[k + 1].term)
    /\ log' = [log EXCEPT ![n] = Keep(@, k)]
    /\ flushed' = [flushed EXCEPT ![n] = FlushedAfterTruncation(@, k)]
    /\ majorityReplicated' = [majorityReplicated EXCEPT ![n] = Min(@, k)]
    /\ visibilityUpperBound' = [visibilityUpperBound EXCEPT ![n] = UpperBoundAfterTruncation(@, k)]
    /\ lastQuorumWrite' = [lastQuorumWrite EXCEPT ![n] = Min(@, k)]
    /\ UNCHANGED <<electionVars, commit, faultVars>>
    /\ Follow

(* An accepted append_entries or heartbeat that proved the log equal up to `verified' brings the leader's     *)
(* commit index, old or new (documents.md#raft-recovery-flushing, raft.md#recovery-commit).                   *)
FollowerHearsCommit(n, leaderCommit, verified) ==
    LET c == FollowerCommit(commit[n], leaderCommit, flushed[n], verified) IN
    /\ Hears(n)
    /\ leaderCommit <= RecoveryCommit(verified, Leads(n).commit, Leads(n).commit)
    /\ Matches(log[n], Leads(n).log, verified)
    /\ c # commit[n]
    /\ commit' = [commit EXCEPT ![n] = c]
    /\ UNCHANGED <<electionVars, logVars, visibilityVars, faultVars>>
    /\ Follow

(* The same request brings the leader's visible offset (documents.md#raft-simplification-acks).               *)
FollowerHearsVisible(n, leaderVisible, verified) ==
    LET v == FollowerVisible(leaderVisible, Len(log[n]), verified) IN
    /\ Hears(n)
    /\ leaderVisible <= Leads(n).visible
    /\ Matches(log[n], Leads(n).log, verified)
    /\ v > Visible(n)
    /\ majorityReplicated' = [majorityReplicated EXCEPT ![n] = Max(@, v)]
    /\ visibilityUpperBound' = [visibilityUpperBound EXCEPT ![n] = Max(@, v)]
    /\ UNCHANGED <<electionVars, logVars, commit, lastQuorumWrite, faultVars>>
    /\ Follow

-------------------------------------------------------------------------------------------
(* Flush, crash, power loss (raft.md#flush, raft.md#process-crash, raft.md#power-loss, raft.md#restart)       *)

(* On the leader in parallel with the requests, on a follower when a request asks or after a while; in        *)
(* recovery rarely. The protocol may not depend on when, so it may happen at any time.                        *)
Flush(n, f) ==
    /\ f \in MayFlushTo(log[n], flushed[n])
    /\ flushed' = [flushed EXCEPT ![n] = f]
    /\ UNCHANGED <<electionVars, log, commit, visibilityVars, faultVars>>
    /\ Follow

(* The node stops and starts again with the first k entries of its log; a node that is down is one that does  *)
(* nothing for a while. Commit index and visible offset are learned anew.                                     *)
RestartWith(n, k, kept) ==
    /\ term' = [term EXCEPT ![n] = kept.term]
    /\ vote' = [vote EXCEPT ![n] = kept.vote]
    /\ saved' = [saved EXCEPT ![n] = kept]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ log' = [log EXCEPT ![n] = Keep(@, k)]
    /\ flushed' = [flushed EXCEPT ![n] = k]
    /\ commit' = [commit EXCEPT ![n] = CommittedAtStart(n)]
    /\ majorityReplicated' = [majorityReplicated EXCEPT ![n] = CommittedAtStart(n)]
    /\ visibilityUpperBound' = [visibilityUpperBound EXCEPT ![n] = CommittedAtStart(n)]
    /\ lastQuorumWrite' = [lastQuorumWrite EXCEPT ![n] = 0]
    /\ waiting' = [waiting EXCEPT ![n] = {}]
    /\ UNCHANGED asked

Restart(n, k) == RestartWith(n, k, saved[n])

Crash(n) ==
    /\ \E k \in SurvivesCrash(log[n], flushed[n]) : Restart(n, k)
    /\ crashes' = crashes + 1
    /\ UNCHANGED powerLosses
    /\ Follow

PowerLoss(n, k) ==
    /\ k \in SurvivesPowerLoss(log[n], flushed[n])
    /\ Restart(n, k)
    /\ powerLosses' = powerLosses + 1
    /\ UNCHANGED crashes
    /\ Follow

-------------------------------------------------------------------------------------------
(* An empty cluster.                                                                                         *)
Init ==
    /\ term = [n \in Node |-> 0]
    /\ vote = [n \in Node |-> Nobody]
    /\ saved = [n \in Node |-> [term |-> 0, vote |-> Nobody]]
    /\ role = [n \in Node |-> "follower"]
    /\ votes = [n \in Node |-> {}]
    /\ log = [n \in Node |-> <<>>]
    /\ flushed = [n \in Node |-> 0]
    /\ commit = [n \in Node |-> 0]
    /\ majorityReplicated = [n \in Node |-> 0]
    /\ visibilityUpperBound = [n \in Node |-> 0]
    /\ lastQuorumWrite = [n \in Node |-> 0]
    /\ asked = {}
    /\ sent = <<>>
    /\ replies = <<>>
    /\ committed = <<>>
    /\ waiting = [n \in Node |-> {}]
    /\ answered = {}
    /\ shown = <<>>
    /\ crashes = 0
    /\ powerLosses = 0

Next ==
    \E n \in Node :
        \/ \E t \in TermsHeard : UpdateTerm(n, t)
        \/ StandForElection(n)
        \/ \E a \in asked : GiveVote(n, a)
        \/ StepDown(n)
        \/ LeaveOffice(n)
        \/ BecomeLeader(n)
        \/ AppendConfiguration(n, EntryOf(n, AcksAll))
        \/ \E acks \in {AcksAll, AcksLeader} : ClientAppend(n, EntryOf(n, acks))
        \/ \E c \in 1..Len(log[n]) : AdvanceCommit(n, c)
        \/ role[n] = "leader" /\ LearnReplicated(n, MostReplicated(n))
        \/ FollowerAppend(n)
        \/ \E k \in 0..Len(log[n]) : FollowerTruncate(n, k)
        \/ Hears(n) /\ \E e \in 1..Len(log[n]), c \in 1..Leads(n).commit : FollowerHearsCommit(n, c, e)
        \/ Hears(n) /\ \E e \in 1..Len(log[n]), v \in 1..Leads(n).visible : FollowerHearsVisible(n, v, e)
        \/ \E f \in 1..Len(log[n]) : Flush(n, f)
        \/ Crash(n)
        \/ \E k \in 0..Len(log[n]) : PowerLoss(n, k)

Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------------------
(* Promises                                                                                                  *)

TypeOk ==
    /\ \A n \in Node :
        /\ role[n] \in {"follower", "candidate", "leader"}
        /\ vote[n] \in Node \union {Nobody}
        /\ flushed[n] \in 0..Len(log[n])
        /\ saved[n].term <= term[n]

(* Elections                                                                                                  *)
OneLeaderPerTerm ==
    \A m, n \in Node : role[m] = "leader" /\ role[n] = "leader" /\ term[m] = term[n] => m = n

OneVotePerTerm ==
    \A m, n \in Node : m # n /\ role[m] = "candidate" /\ role[n] = "candidate" /\ term[m] = term[n] =>
        votes[m] \intersect votes[n] = {}

(* The log                                                                                                    *)
LogMatching ==
    \A m, n \in Node : \A i \in 1..Min(Len(log[m]), Len(log[n])) :
        log[m][i].term = log[n][i].term => Keep(log[m], i) = Keep(log[n], i)

FlushedWithinDirty == \A n \in Node : flushed[n] <= Len(log[n])

Has(n, i, t) == TermAt(log[n], i) = t
OnQuorum(P(_)) == IsQuorum(Voters, {n \in Node : P(n)})

(* Commit index                                                                                              *)
CommitWithinFlushed == \A n \in Node : commit[n] <= flushed[n]

CommittedFlushedOnMajority ==
    \A i \in 1..Len(committed) :
        LET durable(n) == Has(n, i, committed[i].term) /\ i <= flushed[n] IN OnQuorum(durable)

CommittedAgree ==
    \A n \in Node : \A i \in 1..Min(commit[n], Len(log[n])) : Has(n, i, committed[i].term)

LeaderCompleteness ==
    \A n \in Node : role[n] = "leader" =>
        \A i \in 1..Len(committed) : committed[i].at <= term[n] => Has(n, i, committed[i].term)

(* The leader does not count on what its followers do not have. A term that is over may be believed longer.  *)
MatchIsReal ==
    \A l, f \in Node : role[l] = "leader" /\ f # l /\ term[f] = term[l] =>
        /\ DurableOn(l)[f] <= flushed[f]
        /\ DurableOn(l)[f] <= MatchEnd(log[f], log[l])

(* Callers                                                                                                   *)
AnsweredAs(outcome) == {a \in answered : a.outcome = outcome}

(* Under write caching a power loss may take what was acknowledged: that is the option's price.               *)
AckedSurvives ==
    \A a \in AnsweredAs(Success) :
        /\ a.index <= Len(committed) => committed[a.index].term = a.term
        /\ (WriteCaching /\ powerLosses > 0) \/ \E n \in Node : Has(n, a.index, a.term)

FailedNeverCommitted ==
    \A a \in AnsweredAs(Truncated) :
        /\ a.index <= Len(committed) => committed[a.index].term # a.term
        /\ \A n \in Node : a.index <= Visible(n) => ~Has(n, a.index, a.term)

(* Visibility                                                                                                *)
VisibleWithinDirty == \A n \in Node : Visible(n) <= Len(log[n])

(* Entries that are not flushed can be lost with the power; until then a reader sees what a majority has.     *)
VisibleOnMajority ==
    powerLosses = 0 =>
        \A n \in Node : \A i \in 1..Visible(n) :
            LET there(m) == Has(m, i, log[n][i].term) IN OnQuorum(there)

(* What one reader saw at an offset, no reader sees replaced.                                                *)
VisibleNeverChanges ==
    powerLosses = 0 =>
        \A n \in Node : \A i \in 1..Visible(n) : Has(n, i, shown[i])

(* An acks=all entry that waits is not shown, even between relaxed entries that are.                         *)
PendingNotVisible ==
    ~WriteCaching =>
        \A n \in Node : \A i \in 1..Visible(n) :
            log[n][i].acks = AcksAll => i <= Len(committed) /\ committed[i].term = log[n][i].term

(* Steps                                                                                                     *)
TermNeedsCandidate ==                  \* a term beyond all others comes only from who would be elected
    [][\A n \in Node : (\A m \in Node : term'[n] > term[m]) => PreVoteGranted(n)]_vars

CommitMonotonic ==            \* except by a restart, after which it is learned anew
    [][\A n \in Node : commit'[n] >= commit[n] \/ commit'[n] = 0]_vars
===========================================================================================
