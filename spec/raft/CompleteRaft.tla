----------------------------------- MODULE CompleteRaft -----------------------------------
(* The whole protocol: FlushedRaft with voters that change and logs that are trimmed. The steps of FlushedRaft are its  *)
(* own here, but for what it leaves open: who decides is who the node's own log says (raft.md#configuration-in-force),  *)
(* and a node that starts knows what its snapshot sums up to be committed. What is added are a step that changes the   *)
(* voters (see Changes), one that takes a snapshot and one that installs a leader's.                                  *)
(*                                                                                                            *)
(* A log keeps here what was trimmed from it: no step below looks at it, so that what is gone may be thought of as     *)
(* still there. How a log that has lost its beginning is told apart from others is in Snapshots; sessions and wiped    *)
(* disks are in Sessions.                                                                                     *)
EXTENDS FlushedRaft, Changes

VARIABLES
    founding,                      \* the configuration that each node began with
    summed                         \* up to where its snapshot sums its log up; so far it may be trimmed

memberVars == <<founding, summed>>

(* Traces leave out the beginning of logs: what is only compared may lie before it.                            *)
ConfigurationAt(n, i) == IF i <= 0 THEN founding[n] ELSE log[n][i].voters

-------------------------------------------------------------------------------------------
(* In the places of what FlushedRaft leaves open.                                                              *)
InForce(n) == Deciding(ConfigurationAt(n, Len(log[n])))                      \* VotersOf

(* Who votes in the newest configuration, in the last one known to be committed or in one behind it            *)
(* (raft.md#needed-until-committed).                                                                         *)
IsNeeded(n) == \E i \in commit[n]..Len(log[n]) : n \in Voting(ConfigurationAt(n, i)) \* MayCampaign

FollowAlone == AllFollow /\ UNCHANGED memberVars                             \* Follow

KnownBySnapshot(n) == summed[n]                                              \* CommittedAtStart

(* Every entry names the configuration in force.                                                              *)
EntryInForce(n, acks) == [term |-> term[n], acks |-> acks, voters |-> ConfigurationAt(n, Len(log[n]))] \* EntryOf

-------------------------------------------------------------------------------------------
(* A leader that serves, and has committed the newest configuration, appends the next one (raft.md#change-refused).   *)
(* It is flushed whatever the options say, and in force at once.                                              *)
Newest(n) == Largest({0} \union {i \in 1..Len(log[n]) : log[n][i].voters # ConfigurationAt(n, i - 1)})

AppendChange(n, entry) ==
    /\ role[n] = "leader"
    /\ entry.term = term[n]
    /\ MayServe(TermAt(log[n], commit[n]), term[n])
    /\ MayChange(Newest(n), Min(commit[n], Newest(n)))
    /\ log' = [log EXCEPT ![n] = Append(@, entry)]
    /\ lastQuorumWrite' = [lastQuorumWrite EXCEPT ![n] = Len(log[n]) + 1]
    /\ UNCHANGED <<electionVars, flushed, commit, visibleVars, faultVars, memberVars>>
    /\ AllFollow

ChangeVoters(n, voters) == AppendChange(n, [term |-> term[n], acks |-> AcksAll, voters |-> voters])

(* A node sums up what it knows to be committed, and may trim that (raft.md#snapshot, raft.md#trim).           *)
MaySum(k, committedTo) == k <= committedTo

TakeSnapshot(n, k) ==
    /\ k \in (summed[n] + 1)..Len(log[n])
    /\ MaySum(k, commit[n])
    /\ summed' = [summed EXCEPT ![n] = k]
    /\ UNCHANGED <<vars, founding>>

(* A follower installs a snapshot, of any part that its leader knew to be committed (raft.md#snapshot-install). If it   *)
(* holds the end of that, what follows stays; else the whole log goes. Then all of it is flushed, committed and shown.  *)
HoldsEnd(own, theirs, k) == TermAt(own, k) = TermAt(theirs, k)
AtLeast(bound, k) == Max(bound, k)
Anew(bound, k) == k
FlushedByInstall(bound, k) == Max(bound, k)
FlushedAnew(bound, k) == Min(bound, k)

InstallSnapshot(n, k) ==
    LET kept == HoldsEnd(log[n], Leads(n).log, k)
        bound(old) == IF kept THEN AtLeast(old, k) ELSE Anew(old, k)
    IN  /\ Hears(n)
        /\ k \in (commit[n] + 1)..Leads(n).commit
        /\ log' = [log EXCEPT ![n] = IF kept THEN @ ELSE Keep(Leads(n).log, k)]
        /\ flushed' = [flushed EXCEPT ![n] = FlushedByInstall(IF kept THEN @ ELSE FlushedAnew(@, k), k)]
        /\ commit' = [commit EXCEPT ![n] = k]
        /\ majorityReplicated' = [majorityReplicated EXCEPT ![n] = bound(@)]
        /\ visibilityUpperBound' = [visibilityUpperBound EXCEPT ![n] = bound(@)]
        /\ lastQuorumWrite' = [lastQuorumWrite EXCEPT ![n] = IF kept THEN @ ELSE k]
        /\ summed' = [summed EXCEPT ![n] = k]
        /\ UNCHANGED <<electionVars, faultVars, founding>>
        /\ AllFollow

-------------------------------------------------------------------------------------------
SnapshotIsCommitted == \A n \in Node : summed[n] <= commit[n] /\ summed[n] <= flushed[n]

(* Whatever decides by a configuration meets whatever decides by the one before it.                           *)
QuorumsIntersect ==
    LET quorums(voters) == {Q \in SUBSET Members(voters) : IsQuorum(Deciding(voters), Q)} IN
    \A n \in Node : \A i \in 2..Len(log[n]) : log[n][i - 1].voters # log[n][i].voters =>
        \A P \in quorums(log[n][i - 1].voters), Q \in quorums(log[n][i].voters) : P \intersect Q # {}
===========================================================================================
