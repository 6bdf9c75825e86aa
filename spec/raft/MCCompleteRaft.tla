---------------------------------- MODULE MCCompleteRaft ----------------------------------
(* CompleteRaft made finite: the steps of MCFlushedRaft and those that CompleteRaft adds. models.yaml says which model *)
(* is made of which.                                                                                          *)
EXTENDS MCFlushedRaft, CompleteRaft

CONSTANT Founders                  \* how many nodes the first configuration has

(* One node was just elected by the founders, who all have the first entry; the others have nothing.          *)
InitFounded ==
    \E l \in Node, founders \in SUBSET Node :
        LET voters == Simple(founders)
            entry == <<[term |-> 1, acks |-> AcksAll, voters |-> voters]>>
            of(x, y) == [n \in Node |-> IF n \in founders THEN x ELSE y]
        IN  /\ Cardinality(founders) = Founders
            /\ l \in founders
            /\ term = of(1, 0)
            /\ vote = of(l, Nobody)
            /\ saved = [n \in Node |-> [term |-> term[n], vote |-> vote[n]]]
            /\ role = [n \in Node |-> IF n = l THEN "leader" ELSE "follower"]
            /\ votes = All({})
            /\ log = of(entry, <<>>)
            /\ flushed = of(1, 0)
            /\ commit = of(1, 0)
            /\ majorityReplicated = of(1, 0)
            /\ visibilityUpperBound = of(1, 0)
            /\ lastQuorumWrite = [n \in Node |-> IF n = l THEN 1 ELSE 0]
            /\ asked = {Ask(1, l, NoTerm, 0)}
            /\ sent = <<Request(entry)>>
            /\ replies = [m \in {l} |-> [f \in Others(l) |-> IF f \in founders THEN Equal(1) ELSE {}]]
            /\ committed = <<[term |-> 1, at |-> 1]>>
            /\ shown = <<1>>
            /\ waiting = All({})
            /\ answered = {}
            /\ crashes = 0
            /\ powerLosses = 0
            /\ founding = of(voters, NoVoters)
            /\ summed = All(0)

(* A second leader, with the tail of the first one still there: InitReelected.                                *)
WrittenByAll(t, acks) == [term |-> t, acks |-> acks, voters |-> Simple(Node)] \* Written
InitReelectedByAll == InitReelected /\ founding = All(Simple(Node)) /\ summed = All(0)

Change(n) ==
    /\ Len(log[n]) < MaxLog
    /\ \E voters \in NextVoters(ConfigurationAt(n, Len(log[n])), Node) : ChangeVoters(n, voters)
Sum(n) == \E k \in 2..Len(log[n]) : TakeSnapshot(n, k)
Install(n) == \E k \in {summed[m] : m \in Node} \ {0} : InstallSnapshot(n, k)

NextChanging == NextNewest \/ \E n \in Node : Change(n)
NextSumming == NextNewest \/ \E n \in Node : Sum(n) \/ Install(n)
NextComplete == NextChanging \/ \E n \in Node : Sum(n) \/ Install(n)

-------------------------------------------------------------------------------------------
(* What is not to be ruled out by mistake.                                                                    *)
CompleteReached ==
    /\ LogsReached
    /\ Met(10, "LogDropped", \E n \in Node : summed'[n] > summed[n] /\ \E i \in 1..Min(Len(log[n]), Len(log'[n])) :
                                log'[n][i].term # log[n][i].term)
    /\ Met(11, "JointCommits", \E n \in Node : Led(n) /\ commit'[n] > commit[n] /\ InForce(n).old # {})
    /\ Met(12, "ConfigurationReverted", NoFault /\ \E n \in Node : Len(log'[n]) < Len(log[n])
                                /\ ConfigurationAt(n, Len(log'[n])) # ConfigurationAt(n, Len(log[n])))
    /\ Met(13, "ConfigurationLost", powerLosses' > powerLosses /\ \E n \in Node : Len(log'[n]) < Len(log[n])
                                /\ ConfigurationAt(n, Len(log'[n])) # ConfigurationAt(n, Len(log[n])))
    /\ Met(14, "StartsFromSnapshot", \E n \in Node : lastQuorumWrite[n] > 0 /\ lastQuorumWrite'[n] = 0
                                /\ commit'[n] > 1)
ASSUME \A number \in 10..14 : TLCSet(number, 0)

NeverVisibleInJoint == \A n \in Node : role[n] = "leader" /\ Visible(n) > commit[n] => InForce(n).old = {}
NeverSuffixKept == [][\A n \in Node : summed'[n] > commit[n] => Len(log'[n]) = summed'[n]]_<<vars, memberVars>>

-------------------------------------------------------------------------------------------
(* Mutants (raft.md#mutants), each the stand-in for the rule that it is named after.                          *)
TrimAboveApplied(k, committedTo) == TRUE                                     \* MaySum
InstallBeforeDurable(bound, k) == bound                                      \* FlushedByInstall
InstallKeepsFlushed(bound, k) == bound                                       \* FlushedAnew
===========================================================================================
