------------------------------------- MODULE Sessions -------------------------------------
(* A member that is removed and added again, or whose disk is wiped, on top of Membership (raft.md#session,        *)
(* raft.md#readded-node, raft.md#wiped-disk). A member is a node with a session, and each is a node of Membership:  *)
(* two of them, Earlier and Later, are one machine, which serves one of them, or none once its disk was wiped.      *)
(*                                                                                                            *)
(* Nobody can tell from a message how old it is. So a session is named for one disk, by the number that this got   *)
(* when it was formatted, and is taken on no other.                                                              *)
EXTENDS Membership

CONSTANT MaxWipes

VARIABLES
    serves,                        \* which member the machine is; Nobody if its disk was wiped
    disk,                          \* the number of its disk
    named                          \* the disk that the later session was named for; NoDisk before it is added

sessionVars == <<serves, disk, named>>

Earlier == CHOOSE n \in Node : TRUE
Later == CHOOSE n \in Node \ {Earlier} : TRUE
NoDisk == -1
Serves(n) == n \in {Earlier, Later} => serves = n

-------------------------------------------------------------------------------------------
(* A node is added only when it is no member, as a learner and under a new session, for the disk that it has told  *)
(* of; that one may be wiped since. So replacing a disk takes a removal and an addition.                           *)
ReplacementSteps(voters) ==
    CASE voters.old # {}             -> ChangeCompleted(voters)
      [] voters.learners # {}        -> LearnerPromoted(voters)
      [] Earlier \in voters.current  -> {[voters EXCEPT !.current = @ \ {Earlier}, !.old = voters.current]}
      [] OTHER                       -> IF Later \in voters.current THEN {} ELSE {[voters EXCEPT !.learners = {Later}]}

Replace(n) ==
    \E voters \in ReplacementSteps(Configuration(n)) :
        /\ ChangeVoters(n, voters)
        /\ named' = IF named = NoDisk /\ Later \in Members(voters) THEN disk ELSE named
        /\ UNCHANGED <<serves, disk>>

(* Everything on the disk is lost, the session as well: the node neither votes nor answers.                       *)
SessionAfterWipe(before) == Nobody

Moved(f, before, after, empty) == [[f EXCEPT ![before] = empty] EXCEPT ![after] = f[before]]
Emptied(f, n, empty) == [f EXCEPT ![n] = empty]

Wipe ==
    /\ serves # Nobody
    /\ disk < MaxWipes
    /\ serves' = SessionAfterWipe(serves)
    /\ disk' = disk + 1
    /\ term' = Emptied(term, serves, 0)
    /\ vote' = Emptied(vote, serves, Nobody)
    /\ role' = Emptied(role, serves, "follower")
    /\ votes' = Emptied(votes, serves, {})
    /\ log' = Emptied(log, serves, <<>>)
    /\ commit' = Emptied(commit, serves, 0)
    /\ UNCHANGED <<match, named>>
    /\ Follow

(* The node hears a leader name a session for its disk. What is on that stays, term and vote as well; what the      *)
(* leader knew of an earlier session counts for nothing.                                                        *)
MayTake(session, namedFor, own) == session = Later /\ namedFor = own
KnownOfEarlier(known) == 0

TakeSession(s, t) ==
    /\ serves # s
    /\ MayTake(s, named, disk)
    /\ serves' = s
    /\ IF serves = Nobody THEN UNCHANGED <<term, vote, role, votes, log, commit>> ELSE
        /\ term' = Moved(term, serves, s, 0)
        /\ vote' = Moved(vote, serves, s, Nobody)
        /\ role' = Emptied(role, serves, "follower")
        /\ votes' = Emptied(votes, serves, {})
        /\ log' = Moved(log, serves, s, <<>>)
        /\ commit' = Moved(commit, serves, s, 0)
    /\ match' = [match EXCEPT ![t][s] = Max(@, KnownOfEarlier(match[t][Earlier]))]
    /\ UNCHANGED <<disk, named>>
    /\ Follow

-------------------------------------------------------------------------------------------
InitSessions ==
    /\ Init
    /\ log[Earlier] # <<>>
    /\ log[Later] = <<>>
    /\ serves = Earlier
    /\ disk = 0
    /\ named = NoDisk

NextSessions ==
    \/ \E n \in {m \in Node : Serves(m)} :
        \/ /\ \/ term[n] < MaxTerm /\ StandForElection(n)
              \/ \E c \in Node : GiveVote(n, c)
              \/ Len(log[n]) < MaxLog /\ BecomeLeader(n)
              \/ \E t \in DOMAIN led : Hear(n, t)
              \/ AdvanceCommit(n)
           /\ UNCHANGED sessionVars
        \/ Len(log[n]) < MaxLog /\ Replace(n)
    \/ Wipe
    \/ \E s \in {Earlier, Later}, t \in DOMAIN led : TakeSession(s, t)

Others == Permutations(Node \ {Earlier, Later})

-------------------------------------------------------------------------------------------
(* What a leader counts of a member, that one holds, if it is in the leader's term.                              *)
MatchIsReal ==
    \A l, n \in Node : role[l] = "leader" /\ n # l /\ Serves(n) /\ term[n] = term[l] =>
        match[term[l]][n] <= MatchEnd(log[n], log[l])

(* What is not to be ruled out by mistake.                                                                    *)
SessionsReached ==
    /\ Met(1, "WipedRejoins", disk > 0 /\ commit'[Later] > 0 /\ Later \in InForce(Keep(log'[Later], commit'[Later])).current)
    /\ Met(2, "RejoinsWithItsLog", disk' = 0 /\ serves # Later /\ serves' = Later /\ log'[Later] # <<>>)

NeverLaterLeads == role[Later] # "leader"
NeverWipedTwice == disk < 2

-------------------------------------------------------------------------------------------
(* Mutants (raft.md#mutants), each the stand-in for the rule that it is named after.                          *)
WipedDiskVotes(before) == before                                             \* SessionAfterWipe
AnySessionTaken(session, namedFor, own) == TRUE                              \* MayTake
RejoinSession(known) == known                                                \* KnownOfEarlier
ReplacedInOneStep(voters) ==                                                 \* ReplacementSteps
    {[voters EXCEPT !.current = (@ \ {Earlier}) \union {Later}]}
===========================================================================================
