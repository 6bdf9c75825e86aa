------------------------------------ MODULE SingleCopy ------------------------------------
(* When a loss is issued by who asks for one copy of each record (read-path.md#guaranteed-delivery), and when by   *)
(* who then asks for all (read-path.md#first-loss-rewinds): an acknowledged record, or none; a shard that is       *)
(* drained, so that copysets are amended one by one, until that is done or given up, as the reader learns late.    *)
EXTENDS Decision, TLC

CONSTANTS
    Node, R,
    Efficient                      \* the reader has the option guaranteed_delivery_efficiency

VARIABLES
    copy,                          \* of each shard: nothing, or the copyset that it names, and whether it is drained
    acked,                         \* there is a record, which was acknowledged
    log,                           \* the event log: its length, who leaves, whether that was given up, where it ended
    plan,                          \* the copyset that donors give the record
    known,                         \* how much of the event log a shard has seen for certain
    reader

vars == <<copy, acked, log, plan, known, reader>>

Nothing == [set |-> {}, drained |-> FALSE]
Holders == {s \in Node : copy[s] # Nothing}
Largest(a, b) == IF a > b THEN a ELSE b
(* The order that all shards give to a copyset.                                                               *)
Order == CHOOSE order \in [1..Cardinality(Node) -> Node] : \A s \in Node : \E i \in DOMAIN order : order[i] = s
Ordered(shards) == SelectSeq(Order, LAMBDA s : s \in shards)

-------------------------------------------------------------------------------------------
(* The rules.                                                                                              *)

(* read-path.md#guaranteed-delivery: copysets are the same in all copies, and were when shards were asked.         *)
AsAmended(r) == r.leaving = {} /\ ~r.givenUp /\ r.asked = r.version
MayIssueSingle(r) == Efficient /\ AsAmended(r)
(* read-path.md#first-loss-rewinds                                                                             *)
LooksAgain(r) == ~Efficient /\ ~r.found
(* read-path.md#event-log-version                                                                            *)
StatusesOld(r) == r.heard > r.version
RewindsOn(r) == log.ended > r.version

Stuck == reader.end = "no" /\ ~reader.due /\ reader.said = Node
ShipsNow(s) ==
    copy[s] # Nothing /\ (reader.mode = "all" \/ MayShip(copy[s].drained, s, Ordered(copy[s].set \union {s}), {}, R))

Init ==
    /\ \E set \in {c \in SUBSET Node : Cardinality(c) = R} : \E there \in BOOLEAN :
        /\ copy = [s \in Node |-> IF there /\ s \in set THEN [set |-> set, drained |-> FALSE] ELSE Nothing]
        /\ acked = there
    /\ log = [version |-> 0, leaving |-> {}, givenUp |-> FALSE, ended |-> 0]
    /\ plan = {} /\ known = [s \in Node |-> 0]
    /\ reader = [mode |-> "scd", on |-> FALSE, due |-> TRUE, asked |-> 0, said |-> {}, heard |-> 0, version |-> 0,
                 leaving |-> {}, givenUp |-> FALSE, found |-> FALSE, starts |-> 0, end |-> "no"]

Drain(s) ==
    /\ log.version = 0 /\ s \in Holders
    /\ log' = [log EXCEPT !.version = 1, !.leaving = {s}]
    /\ \E target \in Node \ Holders : plan' = (Holders \ {s}) \union {target}
    /\ UNCHANGED <<copy, acked, known, reader>>

Amend(s) ==
    /\ log.leaving # {} /\ s \in plan \union Holders /\ copy[s].set # plan
    /\ copy' = [copy EXCEPT ![s] = [set |-> plan, drained |-> s \in log.leaving]]
    /\ known' = [known EXCEPT ![s] = log.version]
    /\ UNCHANGED <<acked, log, plan, reader>>

GiveUp ==
    /\ log.leaving # {}
    /\ log' = [log EXCEPT !.version = @ + 1, !.leaving = {}, !.givenUp = TRUE]
    /\ UNCHANGED <<copy, acked, plan, known, reader>>

Done ==
    /\ log.leaving # {} /\ \A s \in plan \union Holders : copy[s].set = plan
    /\ log' = [log EXCEPT !.version = @ + 1, !.leaving = {}, !.ended = log.version + 1]
    /\ UNCHANGED <<copy, acked, plan, known, reader>>

-------------------------------------------------------------------------------------------
(* A shard sends the record, or says that there is none.                                                      *)
Answer(s) ==
    /\ reader.end = "no" /\ reader.on /\ s \notin reader.said
    /\ reader' = IF ShipsNow(s) THEN [reader EXCEPT !.end = "got"]
                 ELSE [reader EXCEPT !.said = @ \union {s}, !.heard = Largest(@, known[s])]
    /\ UNCHANGED <<copy, acked, log, plan, known>>

Learn ==
    /\ reader.version < log.version
    /\ reader' = [reader EXCEPT !.version = log.version, !.leaving = log.leaving, !.givenUp = log.givenUp,
                                !.due = @ \/ RewindsOn(reader)]
    /\ UNCHANGED <<copy, acked, log, plan, known>>

Rewind ==
    /\ reader.due
    /\ reader' = [reader EXCEPT !.on = TRUE, !.due = FALSE, !.asked = reader.version, !.said = {}, !.heard = 0,
                                !.starts = IF reader.mode = "all" THEN 1 + @ ELSE @]
    /\ UNCHANGED <<copy, acked, log, plan, known>>

(* read-path.md#no-gap-in-scd                                                                                *)
ScdCheck ==
    /\ Stuck /\ reader.mode = "scd" /\ ~MayIssueSingle(reader)
    /\ reader' = [reader EXCEPT !.mode = "all", !.due = TRUE]
    /\ UNCHANGED <<copy, acked, log, plan, known>>

FindLoss ==
    /\ Stuck /\ ~StatusesOld(reader)
    /\ reader.mode = "all" \/ MayIssueSingle(reader)
    /\ reader' = IF LooksAgain(reader) THEN [reader EXCEPT !.found = TRUE, !.due = TRUE]
                 ELSE [reader EXCEPT !.end = "lost"]
    /\ UNCHANGED <<copy, acked, log, plan, known>>

(* As far as a search goes.                                                                                  *)
Small == log.version <= 3 /\ reader.starts <= 3

Next ==
    \/ \E s \in Node : Drain(s) \/ Amend(s) \/ Answer(s)
    \/ GiveUp \/ Done \/ Learn \/ Rewind \/ ScdCheck \/ FindLoss

-------------------------------------------------------------------------------------------
(* read-path.md#acknowledged-not-lost                                                                        *)
AcknowledgedNotLost == acked => reader.end # "lost"

(* read-path.md#record-as-appended                                                                           *)
RecordAsAppended == reader.end = "got" => acked

(* read-path.md#no-gap-too-early, read-path.md#no-gap-in-scd, read-path.md#first-loss-rewinds: who has not the     *)
(* option has asked all for all twice.                                                                       *)
NoGapTooEarly == reader.end = "lost" => Efficient \/ reader.starts >= 2

(* Mutants *)
GivenUpForgotten(r) == r.leaving = {} /\ r.asked = r.version                 \* AsAmended
DrainOverlooked(r) == ~r.givenUp /\ r.asked = r.version                     \* AsAmended
IssuedAtOnce(r) == FALSE                                                     \* LooksAgain
===========================================================================================
