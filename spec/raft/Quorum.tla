-------------------------------------- MODULE Quorum --------------------------------------
(* Who must agree: a majority of the voters, of both halves while their set changes. Each operator has the    *)
(* name and the arguments of the function in quorumlog.quorum. `voters' is a record of three sets: current,   *)
(* old (not empty only in a joint configuration) and learners, who decide nothing.                           *)
(* An empty half asks for nothing. Source: raft.md#quorum-match, raft.md#election-majority.                  *)
EXTENDS Integers, FiniteSets

Everything == 2147483647           \* what an empty half has reached; TLC knows no larger number

VotePending == "pending"
VoteWon == "won"
VoteLost == "lost"

Simple(nodes) == [current |-> nodes, old |-> {}, learners |-> {}]

(* The largest offset that more than half of the nodes have reached; `acknowledged' has one for each of them. *)
MajorityMatch(nodes, acknowledged) ==
    LET reached(i) == Cardinality({n \in nodes : acknowledged[n] >= i})
        all == {i \in {acknowledged[n] : n \in nodes} : 2 * reached(i) > Cardinality(nodes)}
    IN  IF nodes = {} THEN Everything ELSE CHOOSE i \in all : \A j \in all : j <= i

(* A quorum is a majority of each half.                                                                      *)
QuorumMatch(voters, acknowledged) ==
    LET current == MajorityMatch(voters.current, acknowledged)
        old == MajorityMatch(voters.old, acknowledged)
    IN  IF current < old THEN current ELSE old

(* `votes' is a function from those who answered to TRUE and FALSE.                                          *)
MajorityVote(nodes, votes) ==
    LET granted == Cardinality({n \in nodes \intersect DOMAIN votes : votes[n]})
        refused == Cardinality({n \in nodes \intersect DOMAIN votes : ~votes[n]})
    IN  CASE nodes = {} \/ 2 * granted > Cardinality(nodes)  -> VoteWon
          [] nodes # {} /\ 2 * refused >= Cardinality(nodes) -> VoteLost
          [] OTHER                                           -> VotePending

VoteResult(voters, votes) ==
    LET results == {MajorityVote(voters.current, votes), MajorityVote(voters.old, votes)}
    IN  IF VoteLost \in results THEN VoteLost ELSE IF VotePending \in results THEN VotePending ELSE VoteWon

IsQuorum(voters, nodes) == VoteResult(voters, [n \in nodes |-> TRUE]) = VoteWon
===========================================================================================
