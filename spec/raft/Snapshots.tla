------------------------------------ MODULE Snapshots ------------------------------------
(* Logs that are trimmed, and followers that begin anew with a snapshot, on top of Membership (raft.md#trim,    *)
(* raft.md#snapshot, raft.md#snapshot-install, raft.md#snapshot-configuration). A snapshot stands in the log as  *)
(* its last entry: with the term of that and the configuration in force there. What is before it is gone.        *)
(* Snapshots arrive whole, at any time, again and again; how they are cut into chunks is left out.               *)
EXTENDS Membership

VARIABLE
    snapshots                      \* what leaders may have sent: in which term, up to where, and with what

snapshotVars == <<vars, snapshots>>

Gone == Entry(0, NoVoters)         \* what was trimmed
Begin(own) ==                      \* where the snapshot stands; 0 if nothing was trimmed
    LET there == {i \in DOMAIN own : own[i] # Gone}
    IN  IF own = <<>> \/ own[1] # Gone THEN 0 ELSE CHOOSE i \in there : \A j \in there : i <= j
Trimmed(own, k) == [i \in DOMAIN own |-> IF i < k THEN Gone ELSE own[i]]
Beginning(entry, k) == [i \in 1..k |-> IF i < k THEN Gone ELSE entry]

-------------------------------------------------------------------------------------------
(* A node sums up and trims what it knows to be committed.                                                     *)
MayTrim(k, committedTo) == k <= committedTo
Trim(n, k) ==
    /\ k \in 2..Len(log[n])
    /\ k > Begin(log[n])
    /\ MayTrim(k, commit[n])
    /\ log' = [log EXCEPT ![n] = Trimmed(@, k)]
    /\ UNCHANGED <<term, vote, role, votes, commit, match, snapshots>>
    /\ Follow

(* A leader may send its snapshot to whom it has trimmed away what they lack.                                  *)
SendSnapshot(n) ==
    /\ role[n] = "leader"
    /\ Begin(log[n]) > 0
    /\ snapshots' = snapshots \union {[term |-> term[n], last |-> Begin(log[n]), entry |-> log[n][Begin(log[n])]]}
    /\ UNCHANGED vars

(* What is left of a log: nothing changes if it is all committed here; what follows the same entry stays; else  *)
(* the whole log is dropped.                                                                                  *)
Holds(own, s) == TermAt(own, s.last) = s.entry.term
Begun(own, s) == Beginning(s.entry, s.last)
Installed(own, committedTo, s) ==
    CASE s.last <= committedTo                     -> own
      [] s.last > committedTo /\ Holds(own, s)     -> Trimmed(own, s.last)
      [] s.last > committedTo /\ ~Holds(own, s)    -> Begun(own, s)

Install(n, s) ==
    /\ s.term >= term[n]
    /\ ~(role[n] = "leader" /\ term[n] = s.term)
    /\ log' = [log EXCEPT ![n] = Installed(@, commit[n], s)]
    /\ match' = [match EXCEPT ![s.term][n] = Max(@, s.last)]
    /\ commit' = [commit EXCEPT ![n] = Max(@, s.last)]
    /\ term' = [term EXCEPT ![n] = s.term]
    /\ vote' = VoteIn(n, s.term)
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ UNCHANGED snapshots
    /\ Follow

(* A request continues from an entry that the follower holds, so the leader must still have that one. Nothing    *)
(* that is committed here is cut (raft.md#cut-below-commit): the leader has it, or has trimmed it.              *)
HearTrimmed(n, t) ==
    LET theirs == led[t].log
        end == MatchEnd(log[n], theirs)
        upTo == Min(end + 1, Len(theirs))
    IN  /\ t >= term[n]
        /\ ~(role[n] = "leader" /\ term[n] = t)
        /\ end >= Begin(theirs)
        /\ \E i \in DOMAIN theirs : n \in Members(theirs[i].voters)
        /\ log' = IF upTo = end THEN log ELSE [log EXCEPT ![n] = Append(Keep(@, end), theirs[upTo])]
        /\ match' = [match EXCEPT ![t][n] = Max(@, upTo)]
        /\ commit' = [commit EXCEPT ![n] = Max(@, Min(led[t].commit, upTo))]
        /\ term' = [term EXCEPT ![n] = t]
        /\ vote' = VoteIn(n, t)
        /\ role' = [role EXCEPT ![n] = "follower"]
        /\ votes' = [votes EXCEPT ![n] = {}]
        /\ UNCHANGED snapshots
        /\ Follow

(* The commit index is learned anew, but what a snapshot sums up is known to be committed.                     *)
CommitAfterRestart(own) == Begin(own)
Restart(n) ==
    /\ commit[n] > Begin(log[n])
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ commit' = [commit EXCEPT ![n] = CommitAfterRestart(log[n])]
    /\ UNCHANGED <<term, vote, log, match, snapshots>>
    /\ Follow

InitTrimmed == Init /\ snapshots = {}

(* The leader has committed a second entry, which one of the others has, and its snapshot of both is on its way. *)
InitSummed ==
    \E l, f \in Node :
        LET first == Entry(1, Simple(Node))
            both == <<first, first>>
            of(x, y, z) == [n \in Node |-> IF n = l THEN x ELSE IF n = f THEN y ELSE z]
        IN  /\ l # f
            /\ term = [n \in Node |-> 1]
            /\ vote = [n \in Node |-> l]
            /\ role = of("leader", "follower", "follower")
            /\ votes = [n \in Node |-> {}]
            /\ log = of(Trimmed(both, 2), both, <<first>>)
            /\ commit = of(2, 1, 1)
            /\ led = [t \in {1} |-> [log |-> Trimmed(both, 2), commit |-> 2]]
            /\ match = [t \in {1} |-> of(1, 2, 1)]
            /\ committed = <<[term |-> 1, at |-> 1], [term |-> 1, at |-> 1]>>
            /\ snapshots = {[term |-> 1, last |-> 2, entry |-> first]}

(* One entry after the other, which change nothing; or the steps of Membership.                                *)
OrdinaryEntries(voters, nodes) == {voters}

NextTrimmed ==
    \E n \in Node :
        \/ term[n] < MaxTerm /\ StandForElection(n) /\ UNCHANGED snapshots
        \/ (\E c \in Node : GiveVote(n, c)) /\ UNCHANGED snapshots
        \/ Len(log[n]) < MaxLog /\ BecomeLeader(n) /\ UNCHANGED snapshots
        \/ Len(log[n]) < MaxLog /\ (\E voters \in NextVoters(Configuration(n), Node) : ChangeVoters(n, voters)) /\ UNCHANGED snapshots
        \/ \E t \in DOMAIN led : HearTrimmed(n, t)
        \/ AdvanceCommit(n) /\ UNCHANGED snapshots
        \/ \E k \in 2..MaxLog : Trim(n, k)
        \/ SendSnapshot(n)
        \/ \E s \in snapshots : Install(n, s)
        \/ Restart(n)

-------------------------------------------------------------------------------------------
There(n, i) == log[n][i] # Gone

(* Only what is committed is gone, and a snapshot ends with a committed entry.                                 *)
TrimWithinCommit == \A n \in Node : LET b == Begin(log[n]) IN b <= commit[n] /\ (b > 0 => log[n][b].term = committed[b].term)

(* What nodes take for committed is, as far as it is still there.                                             *)
CommittedAgree == \A n \in Node : \A i \in 1..commit[n] : i < Begin(log[n]) \/ TermAt(log[n], i) = committed[i].term

(* Where a snapshot ends, every node has the same entry and the same configuration: as a snapshot or as written. *)
BeginningsAgree ==
    \A m, n \in Node : LET b == Begin(log[m]) IN
        b > 0 /\ b <= Len(log[n]) /\ There(n, b) /\ log[m][b].term = log[n][b].term => log[m][b] = log[n][b]

(* Who leads has all that was committed before its term, or its snapshot sums it up.                          *)
CommittedIsKept ==
    \A n \in Node : role[n] = "leader" => \A i \in 1..Len(committed) :
        committed[i].at <= term[n] => i < Begin(log[n]) \/ TermAt(log[n], i) = committed[i].term

(* What is not to be ruled out by mistake.                                                                    *)
SnapshotsReached ==
    /\ Met(1, "LogDropped", \E n \in Node : Len(log[n]) > 1 /\ Begin(log[n]) = 0 /\ Begin(log'[n]) > 0
                                /\ \E i \in 1..Min(Len(log[n]), Len(log'[n])) :
                                        log'[n][i] # Gone /\ log[n][i].term # log'[n][i].term)
    /\ Met(2, "SuffixKept", \E n \in Node : snapshots' = snapshots /\ Begin(log'[n]) > commit[n] /\ Len(log'[n]) > Begin(log'[n]))
    /\ Met(3, "OldSnapshotArrives", \E n \in Node : \E s \in snapshots : s.term >= term[n] /\ s.last < commit[n])
    /\ Met(4, "LeadsByASnapshot", \E n \in Node : role'[n] = "leader" /\ role[n] = "candidate"
                                /\ Begin(log'[n]) > 0 /\ Begin(log'[n]) = Len(log[n]))

-------------------------------------------------------------------------------------------
(* The state above is reached: "never" must be violated.                                                       *)
NeverSummed == ~InitSummed
NextToSummed ==
    \E n \in Node :
        \/ (ChangeVoters(n, Configuration(n)) \/ AdvanceCommit(n)) /\ UNCHANGED snapshots
        \/ HearTrimmed(n, 1)
        \/ Trim(n, 2)
        \/ SendSnapshot(n)

(* Mutants (raft.md#mutants), each the stand-in for the rule that it is named after.                          *)
TrimsUncommitted(k, committedTo) == TRUE                                     \* MayTrim
InstallDropsCommitted(own, committedTo, s) == Beginning(s.entry, s.last)     \* Installed
SuffixKeptUnchecked(own, s) == s.last <= Len(own)                                        \* Holds
DroppedConfigurationStays(own, s) ==                                         \* Begun
    Beginning(IF own = <<>> THEN s.entry ELSE [s.entry EXCEPT !.voters = InForce(own)], s.last)
===========================================================================================
