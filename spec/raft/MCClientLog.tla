----------------------------------- MODULE MCClientLog -----------------------------------
(* ClientLog made finite, with what clients remember: which answers an operation came after. What ClientLog keeps *)
(* as offsets is checked here against that.                                                                     *)
EXTENDS ClientLog

CONSTANTS MaxOps, MaxOffset

VARIABLES
    begun,                         \* operations so far; an append writes the number of its own as its value
    after,                         \* per operation: which appends with acks=all had been answered when it began
    placed,                        \* per append with acks=all that was answered: first and last offset
    read,                          \* per linearizable read that was answered: where to read on
    failed                         \* the appends that failed

historyVars == <<begun, after, placed, read, failed>>

MCInit == Init /\ begun = 0 /\ after = Empty /\ placed = Empty /\ read = Empty /\ failed = {}

Start(kind, acks) ==
    /\ begun < MaxOps
    /\ Begin(begun + 1, kind, begun + 1, acks)
    /\ begun' = begun + 1
    /\ after' = after @@ ((begun + 1) :> DOMAIN placed)
    /\ UNCHANGED <<placed, read, failed>>

Answer(op) ==
    \/ /\ \E first, last \in 0..MaxOffset :
            /\ Appended(op, first, last)
            /\ placed' = IF open[op].acks = AcksAll THEN placed @@ (op :> <<first, last>>) ELSE placed
       /\ UNCHANGED <<begun, after, read, failed>>
    \/ open[op].kind = "append" /\ Failed(op) /\ failed' = failed \union {op} /\ UNCHANGED <<begun, after, placed, read>>
    \/ Unknown(op) /\ UNCHANGED historyVars
    \/ open[op].kind = "read_committed" /\ (\E o \in 0..MaxOffset, v \in 1..begun : Shown(op, o, v)) /\ UNCHANGED historyVars
    \/ /\ open[op].kind = "read_linearizable"
       /\ \E next \in 0..(MaxOffset + 1) : ReadOver(op, next) /\ read' = read @@ (op :> next)
       /\ UNCHANGED <<begun, after, placed, failed>>

MCNext ==
    \/ \E acks \in {AcksAll, 1} : Start("append", acks)
    \/ \E kind \in {"read_committed", "read_linearizable"} : Start(kind, 0)
    \/ \E op \in DOMAIN open : Answer(op)

-------------------------------------------------------------------------------------------
(* An append stands behind all that had been acknowledged when it began.                                      *)
AppendsKeepTheirOrder ==
    \A op \in DOMAIN placed : \A before \in after[op] \intersect DOMAIN placed : placed[before][2] < placed[op][1]

ReadsAreLinearizable ==
    \A op \in DOMAIN read : \A before \in after[op] \intersect DOMAIN placed : placed[before][2] < read[op]

(* No offset is acknowledged for two appends, or read with another value than was acknowledged there.         *)
AckedSurvives == \A op \in DOMAIN placed : settled[placed[op][2]] = op

FailedNeverCommitted == failed \intersect taken = {}

-------------------------------------------------------------------------------------------
(* Mutants                                                                                                    *)
OrderIgnored(first, since) == TRUE                                           \* Behind
StaleReadsAllowed(next, since) == TRUE                                       \* Reaches
FailedMayBeThere(value) == TRUE                                              \* MayFail
ReplacedAtWill(offset, value) == TRUE                                        \* MaySettle
===========================================================================================
