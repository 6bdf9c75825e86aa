------------------------------------ MODULE MCTransfer ------------------------------------
(* A planned transfer of leadership on top of FlushedRaft, made finite (raft.md#transfer-drain and what follows *)
(* it): the leader takes no appends, waits until the target and a majority have its whole log, and tells the     *)
(* target, which stands at once without pre-votes. What the target was told may arrive late, or never; the      *)
(* leader gives up before it has told the target, and leaves its office after. Others may stand meanwhile.       *)
(* What nodes know otherwise stays as it is, so these steps stand beside those of FlushedRaft.                   *)
EXTENDS MCFlushedRaft

VARIABLES
    moving,                        \* per leader that transfers: to whom, and whether it has told it
    orders,                        \* timeout_now as it was sent: from whom, to whom, in which term
    acked                          \* history: the appends that were answered with success, at any acks level

Idle == <<>>
Moving(target, hasSent) == <<[target |-> target, sent |-> hasSent]>>
Transfers(n) == moving[n] # Idle
HasSent(n) == Transfers(n) /\ moving[n][1].sent

(* A relaxed append is answered at once, one with acks=all as the rule says.                                   *)
Acked(append) ==
    LET mine(n) == {[index |-> i, term |-> log'[n][i].term] : i \in (Len(log[n]) + 1)..Len(log'[n])}
        relaxed == UNION {{a \in mine(n) : log'[n][a.index].acks # AcksAll} : n \in append}
    IN  acked' = acked \union relaxed \union
            {[index |-> a.index, term |-> a.term] : a \in {b \in answered' : b.outcome = Success}}

-------------------------------------------------------------------------------------------
(* The leader that serves begins to move its office (raft.md#transfer-refused).                                *)
BeginTransfer(n, target) ==
    /\ role[n] = "leader"
    /\ MayServe(TermAt(log[n], commit[n]), term[n])
    /\ ~Transfers(n)
    /\ target # n
    /\ moving' = [moving EXCEPT ![n] = Moving(target, FALSE)]
    /\ UNCHANGED <<vars, orders, acked>>

(* It takes no appends from then on (raft.md#transfer-drain).                                                  *)
TakesAppends(n) == ~Transfers(n)

(* The target has the whole log, and a majority has it (raft.md#transfer-catch-up).                            *)
Drained(n, target) == ReplicatedOn(n)[target] = Len(log[n]) /\ majorityReplicated[n] = Len(log[n])

TellTarget(n) ==
    /\ role[n] = "leader"
    /\ Transfers(n) /\ ~HasSent(n)
    /\ Drained(n, moving[n][1].target)
    /\ moving' = [moving EXCEPT ![n] = Moving(moving[n][1].target, TRUE)]
    /\ orders' = orders \union {[from |-> n, to |-> moving[n][1].target, term |-> term[n]]}
    /\ UNCHANGED <<vars, acked>>

(* It waited for too long: before it told the target it serves again, after that never (raft.md#timeout-now).   *)
MayServeAgain(n) == ~HasSent(n)

GiveUp(n) ==
    /\ Transfers(n)
    /\ MayServeAgain(n)
    /\ moving' = [moving EXCEPT ![n] = Idle]
    /\ UNCHANGED <<vars, orders, acked>>

(* The target stands at once: as a follower, in the same term (raft.md#transfer-target).                       *)
Obeys(n, order) == role[n] = "follower" /\ term[n] = order.term
Obey(order) ==
    /\ Obeys(order.to, order)
    /\ term[order.to] < MaxTerm
    /\ BecomeCandidate(order.to)

(* Who no longer leads transfers nothing.                                                                     *)
StillMoving == moving' = [n \in Node |-> IF role'[n] = "leader" /\ term'[n] = term[n] THEN moving[n] ELSE Idle]
Around(step, append) == step /\ StillMoving /\ orders' = orders /\ Acked(append)

(* The steps of FlushedRaft without the elections that a transfer brings about.                               *)
Appends(n) ==
    /\ Len(log[n]) < MaxLog
    /\ TakesAppends(n)
    /\ \E acks \in {AcksAll, AcksLeader} : ClientAppend(n, Entry(term[n], acks))
Goes(n) ==
    \/ \E t \in TermsHeard : UpdateTerm(n, t)
    \/ \E a \in asked : GiveVote(n, a)
    \/ StepDown(n)
    \/ HasSent(n) /\ LeaveOffice(n)
    \/ BecomeLeader(n)
    \/ Len(log[n]) < MaxLog /\ AppendConfiguration(n, Entry(term[n], AcksAll))
    \/ \E c \in 1..Len(log[n]) : AdvanceCommitKnowing(n, c, MostReplicated(n))
    \/ role[n] = "leader" /\ LearnReplicated(n, MostReplicated(n))
    \/ FollowerAppend(n)
    \/ \E k \in 0..Len(log[n]) : FollowerTruncate(n, k)
    \/ Hears(n) /\ LET e == MatchEnd(log[n], Leads(n).log) IN
            FollowerHearsCommit(n, RecoveryCommit(e, Leads(n).commit, Leads(n).commit), e)
    \/ Flush(n, Len(log[n]))
    \/ crashes < MaxCrashes /\ Crash(n)
    \/ powerLosses < MaxPowerLosses /\ \E k \in 0..Len(log[n]) : PowerLoss(n, k)

(* Nobody but the target stands; and as others may.                                                           *)
NextMoved ==
    \E n \in Node :
        \/ \E target \in Node : BeginTransfer(n, target)
        \/ TellTarget(n)
        \/ GiveUp(n)
        \/ \E order \in orders : order.to = n /\ Around(Obey(order), {})
        \/ Around(Appends(n), {n})
        \/ Around(Goes(n), {})
NextContested == NextMoved \/ \E n \in Node : term[n] < MaxTerm /\ Around(StandForElection(n), {})

TransferInit ==
    /\ InitElected
    /\ moving = [n \in Node |-> Idle]
    /\ orders = {}
    /\ acked = {}

-------------------------------------------------------------------------------------------
(* Whoever leads after a target was told has all that was acknowledged in the term that was to end.           *)
TransferLosesNothing ==
    powerLosses = 0 =>
        \A order \in orders : \A n \in Node : role[n] = "leader" /\ term[n] > order.term =>
            \A a \in acked : a.term = order.term => Has(n, a.index, a.term)

Moved ==
    /\ Met(1, "TargetLeads", \E order \in orders : Led(order.to) /\ term'[order.to] = order.term + 1)
    /\ Met(2, "AnotherLeads", \E order \in orders : \E n \in Node :
            n # order.to /\ Led(n) /\ term'[n] > order.term)
    /\ Met(3, "ServesAgain", \E n \in Node : Transfers(n) /\ ~HasSent(n) /\ moving'[n] = Idle /\ Led(n))
    /\ Met(4, "RelaxedMoved", \E order \in orders : \E a \in acked :
            a.term = order.term /\ a.index > Len(committed) /\ Led(order.to) /\ term'[order.to] > order.term)

-------------------------------------------------------------------------------------------
(* Mutants (raft.md#mutants), each the stand-in for the rule that it is named after.                          *)
TransferKeepsWriting(n) == TRUE                                              \* TakesAppends
TransferSkipsDrain(n, target) == TRUE                                        \* Drained
PlannedMoveLoses(n) == TRUE                                                  \* MayServeAgain
===========================================================================================
