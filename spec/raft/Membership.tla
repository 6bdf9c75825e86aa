------------------------------------ MODULE Membership ------------------------------------
(* How the voters of a group change while it elects leaders and commits (raft.md#change-steps,                *)
(* raft.md#joint): learners, promotion one by one, removal through a joint configuration, cancelling, and      *)
(* configurations that are reverted with the log. Flush, visibility and callers are in FlushedRaft; here an     *)
(* entry is durable when it is written, and every entry is a configuration, in force from its append on every   *)
(* node: the last one of the node's own log. Sessions and wiped disks are not modelled.                         *)
(*                                                                                                            *)
(* There are no messages. What the leader of a term may have sent, and how far each node may have answered it,  *)
(* is kept for every term: any of it may arrive at any time, also from a leader that has gone.                 *)
EXTENDS Integers, Sequences, FiniteSets, TLC, FlushedLog, Changes

CONSTANTS
    Node,                          \* all nodes, members or not
    Nobody,                        \* voted for nobody
    Founders,                      \* how many nodes the first configuration has
    MaxTerm, MaxLog

VARIABLES
    term, vote, role,
    votes,                         \* who voted for this candidate
    log,                           \* configurations, each with its term
    commit,
    led,                           \* per term, the log and the commit index that its leader had
    match,                         \* per term and node, how far the leader knows that log to be its own
    committed                      \* history: the committed entries, each with the term in which it was committed

vars == <<term, vote, role, votes, log, commit, led, match, committed>>

Entry(t, voters) == [term |-> t, voters |-> voters]
InForce(own) == IF own = <<>> THEN NoVoters ELSE own[Len(own)].voters
Configuration(n) == InForce(log[n])

-------------------------------------------------------------------------------------------
(* A new leader begins with the configuration in force, in its own term (raft.md#first-entry-of-term).        *)
FirstEntries(t, voters) == <<Entry(t, voters)>>

-------------------------------------------------------------------------------------------
(* What the network may still hold.                                                                          *)
Now(n) == [log |-> log'[n], commit |-> commit'[n]]
LeadersFollow ==
    LET leaders == {n \in Node : role'[n] = "leader"}
        terms == {term'[n] : n \in leaders}
    IN  led' = [t \in DOMAIN led \union terms |->
                    IF t \in terms THEN Now(CHOOSE n \in leaders : term'[n] = t) ELSE led[t]]

CommittedFollows ==
    LET news == {n \in Node : commit'[n] > Len(committed)}
        n == CHOOSE n \in news : TRUE
    IN  committed' = IF news = {} THEN committed ELSE
            committed \o [i \in 1..(commit'[n] - Len(committed)) |->
                            [term |-> log'[n][Len(committed) + i].term, at |-> term'[n]]]

Follow == LeadersFollow /\ CommittedFollows

-------------------------------------------------------------------------------------------
(* Who is, or was, a voter by its log stands: a restart forgets what is committed (raft.md#needed-until-committed). *)
(* Whoever is asked answers by its own log, whether it knows the candidate as a member or not                 *)
(* (raft.md#configuration-in-force).                                                                         *)
StandForElection(n) ==
    /\ role[n] # "leader"
    /\ \E i \in DOMAIN log[n] : n \in Voting(log[n][i].voters)
    /\ term' = [term EXCEPT ![n] = @ + 1]
    /\ vote' = [vote EXCEPT ![n] = n]
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ votes' = [votes EXCEPT ![n] = {n}]
    /\ UNCHANGED <<log, commit, match>>
    /\ Follow

LogOk(candidate, own) ==
    \/ LastTerm(candidate) > LastTerm(own)
    \/ LastTerm(candidate) = LastTerm(own) /\ Len(candidate) >= Len(own)

GiveVote(n, c) ==
    /\ role[c] = "candidate"
    /\ n \notin votes[c]
    /\ term[c] > term[n] \/ (term[c] = term[n] /\ vote[n] = Nobody)
    /\ LogOk(log[c], log[n])
    /\ term' = [term EXCEPT ![n] = term[c]]
    /\ vote' = [vote EXCEPT ![n] = c]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}, ![c] = @ \union {n}]
    /\ UNCHANGED <<log, commit, match>>
    /\ Follow

BecomeLeader(n) ==
    /\ role[n] = "candidate"
    /\ IsQuorum(Deciding(Configuration(n)), votes[n])
    /\ role' = [role EXCEPT ![n] = "leader"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ log' = [log EXCEPT ![n] = @ \o FirstEntries(term[n], InForce(@))]
    /\ match' = [t \in DOMAIN match \union {term[n]} |-> IF t = term[n] THEN [m \in Node |-> 0] ELSE match[t]]
    /\ UNCHANGED <<term, vote, commit>>
    /\ Follow

ChangeVoters(n, voters) ==
    /\ role[n] = "leader"
    /\ MayChange(Len(log[n]), commit[n])
    /\ log' = [log EXCEPT ![n] = Append(@, Entry(term[n], voters))]
    /\ UNCHANGED <<term, vote, role, votes, commit, match>>
    /\ Follow

(* A vote is kept within its term. In a later one, whose leader it hears, a node might as well keep the name: it only   *)
(* votes for nobody else then.                                                                                *)
VoteIn(n, t) == [vote EXCEPT ![n] = IF t = term[n] THEN @ ELSE Nobody]

(* A node hears the leader of term t: what differs is cut, the next entry is written, the leader learns it.    *)
(* The configuration in force comes and goes with the log.                                                    *)
Hear(n, t) ==
    LET theirs == led[t].log
        end == MatchEnd(log[n], theirs)
        upTo == Min(end + 1, Len(theirs))
    IN  /\ t >= term[n]
        /\ ~(role[n] = "leader" /\ term[n] = t)
        /\ \E i \in DOMAIN theirs : n \in Members(theirs[i].voters)
        /\ log' = IF upTo = end THEN log ELSE [log EXCEPT ![n] = Keep(theirs, upTo)]
        /\ match' = [match EXCEPT ![t][n] = Max(@, upTo)]
        /\ commit' = [commit EXCEPT ![n] = Max(@, Min(led[t].commit, upTo))]
        /\ term' = [term EXCEPT ![n] = t]
        /\ vote' = VoteIn(n, t)
        /\ role' = [role EXCEPT ![n] = "follower"]
        /\ votes' = [votes EXCEPT ![n] = {}]
        /\ Follow

AdvanceCommit(n) ==
    LET acknowledged == [m \in Node |-> IF m = n THEN Len(log[n]) ELSE match[term[n]][m]]
        c == QuorumMatch(Deciding(Configuration(n)), acknowledged)
    IN  /\ role[n] = "leader"
        /\ c > commit[n]
        /\ TermAt(log[n], c) = term[n]
        /\ commit' = [commit EXCEPT ![n] = c]
        /\ UNCHANGED <<term, vote, role, votes, log, match>>
        /\ Follow

-------------------------------------------------------------------------------------------
(* One node was just elected by the founders, who all have the first configuration; the others have nothing.  *)
Init ==
    \E l \in Node, founders \in SUBSET Node :
        LET first == <<Entry(1, Simple(founders))>>
            of(x, y) == [n \in Node |-> IF n \in founders THEN x ELSE y]
        IN  /\ Cardinality(founders) = Founders
            /\ l \in founders
            /\ term = of(1, 0)
            /\ vote = of(l, Nobody)
            /\ role = [n \in Node |-> IF n = l THEN "leader" ELSE "follower"]
            /\ votes = [n \in Node |-> {}]
            /\ log = of(first, <<>>)
            /\ commit = of(1, 0)
            /\ led = [t \in {1} |-> [log |-> first, commit |-> 1]]
            /\ match = [t \in {1} |-> of(1, 0)]
            /\ committed = <<[term |-> 1, at |-> 1]>>

Next ==
    \E n \in Node :
        \/ term[n] < MaxTerm /\ StandForElection(n)
        \/ \E c \in Node : GiveVote(n, c)
        \/ Len(log[n] \o FirstEntries(term[n], Configuration(n))) <= MaxLog /\ BecomeLeader(n)
        \/ Len(log[n]) < MaxLog /\ \E voters \in NextVoters(Configuration(n), Node) : ChangeVoters(n, voters)
        \/ \E t \in DOMAIN led : Hear(n, t)
        \/ AdvanceCommit(n)

Small == \A n \in Node : term[n] <= MaxTerm /\ Len(log[n]) <= MaxLog
Symmetric == Permutations(Node)

-------------------------------------------------------------------------------------------
OneLeaderPerTerm ==
    \A m, n \in Node : role[m] = "leader" /\ role[n] = "leader" /\ term[m] = term[n] => m = n

LogMatching ==
    \A m, n \in Node : \A i \in 1..Min(Len(log[m]), Len(log[n])) :
        log[m][i].term = log[n][i].term => Keep(log[m], i) = Keep(log[n], i)

AgreedAcrossConfigurations ==
    \A n \in Node : \A i \in 1..commit[n] : TermAt(log[n], i) = committed[i].term

LeaderCompleteness ==
    \A n \in Node : role[n] = "leader" =>
        \A i \in 1..Len(committed) : committed[i].at <= term[n] => TermAt(log[n], i) = committed[i].term

(* Whatever decides by a configuration meets whatever decides by the one before it.                           *)
QuorumsIntersect ==
    \A n \in Node : \A i \in 2..Len(log[n]) :
        LET quorums(voters) == {Q \in SUBSET Members(voters) : IsQuorum(Deciding(voters), Q)} IN
        \A P \in quorums(log[n][i - 1].voters), Q \in quorums(log[n][i].voters) : P \intersect Q # {}

(* What is not to be ruled out by mistake.                                                                    *)
Met(number, name, there) == IF TLCGet(number) = 0 /\ there THEN TLCSet(number, 1) /\ PrintT(<<"reached", name>>) ELSE TRUE
ASSUME \A number \in 1..6 : TLCSet(number, 0)
Reached ==
    /\ Met(1, "ConfigurationReverted", \E n \in Node :
            \E i \in 1..Min(Len(log[n]), Len(log'[n])) : log[n][i].term # log'[n][i].term)
    /\ Met(2, "LeaderRemoved", \E n \in Node :
            role'[n] = "leader" /\ commit'[n] = Len(log'[n]) /\ n \notin Members(InForce(log'[n])))
    /\ Met(3, "JointElects", \E n \in Node :
            role[n] = "candidate" /\ role'[n] = "leader" /\ InForce(log[n]).old # {})
    /\ Met(4, "LearnerBecomesLeader", \E n \in Node :
            role'[n] = "leader" /\ log'[n][1].voters.current # {} /\ n \notin log'[n][1].voters.current)
    /\ Met(5, "ChangeCancelled", \E n \in Node : \E i \in 3..Len(log'[n]) :
            /\ log'[n][i - 1].voters.old # {}
            /\ log'[n][i].voters = Simple(log'[n][i - 1].voters.old))
    /\ Met(6, "LearnersDropped", \E n \in Node : commit'[n] > 2 /\ \E i \in 2..commit'[n] :
            log'[n][i - 1].voters.learners # {} /\ log'[n][i].voters = Simple(log'[n][i - 1].voters.current))

-------------------------------------------------------------------------------------------
(* Mutants: one rule each, named above.                                                                       *)
NoFirstEntry(t, voters) == <<>>                                              \* FirstEntries
===========================================================================================
