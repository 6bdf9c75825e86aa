------------------------------------- MODULE Decision -------------------------------------
(* What a reader and a storage shard of the read path decide (read-path.md#f-majority, read-path.md#gap-verdict, *)
(* read-path.md#scd-filter): pure rules, without a state. A replication property is a set of scopes, each with   *)
(* the domains that its shards lie in and a factor. said: the shards whose answers leave no record at P.         *)
EXTENDS Integers, FiniteSets, Sequences

Statuses == {"full", "unavailable", "under", "empty"}
Verdicts == {"none", "incomplete", "complete", "non-auth"}

(* read-path.md#full-shards                                                                                  *)
Full(status) == {s \in DOMAIN status : status[s] \in {"full", "unavailable"}}
NonEmpty(status) == {s \in DOMAIN status : status[s] # "empty"}

(* read-path.md#complete-domain                                                                              *)
Needed(domains, factor) == IF domains < factor THEN 0 ELSE domains - factor + 1
Complete(domain, status, said) ==
    domain \intersect Full(status) # {} /\ domain \intersect NonEmpty(status) \subseteq Full(status) \intersect said
FMajorityIn(scope, status, said) ==
    Cardinality({d \in scope.domains : Complete(d, status, said)})
        >= Needed(Cardinality({d \in scope.domains : d \intersect NonEmpty(status) # {}}), scope.factor)
FMajority(scopes, status, said) == \E scope \in scopes : FMajorityIn(scope, status, said)

(* read-path.md#f-majority-verdict                                                                           *)
EachAnswered(status, said) == Full(status) \subseteq said
Verdict(scopes, status, said) ==
    IF FMajority(scopes, status, said)
    THEN IF EachAnswered(status, said) THEN "complete" ELSE "incomplete"
    ELSE IF EachAnswered(status, said) THEN "non-auth" ELSE "none"

(* read-path.md#gap-verdict: of the shards without a record at P, and of those that may lack it.              *)
ReadVerdict(scopes, status, said, lacking) ==
    LET v == Verdict(scopes, status, said)
        w == Verdict(scopes, status, said \union lacking)
    IN  IF v \in {"none", "incomplete"} /\ w \in {"complete", "non-auth"}
        THEN IF v = "incomplete" THEN "complete" ELSE "non-auth"
        ELSE v

(* The copies on these shards satisfy the property (read-path.md#replication-property).                      *)
Replicated(scopes, shards) ==
    \A scope \in scopes : Cardinality({d \in scope.domains : d \intersect shards # {}}) >= scope.factor

(* What the gap [from, to) is (read-path.md#gap-end and what follows): lsn \div PerEpoch is the epoch.         *)
PerEpoch == 8
EpochOf(lsn) == lsn \div PerEpoch
EsnOf(lsn) == lsn % PerEpoch
GapType(status, from, to, trim, start, inFlight) ==
    IF DOMAIN status # {} /\ Full(status) = {} THEN "dataloss"
    ELSE IF to <= trim + 1 THEN "trim"
    ELSE IF EsnOf(to) <= inFlight /\ (from = start \/ EpochOf(from - 1) < EpochOf(to)) THEN "bridge"
    ELSE IF EpochOf(from) = EpochOf(to) THEN "dataloss" ELSE "bridge"

(* Whether a shard ships its copy (read-path.md#scd-filter), by the copyset in the order that all agree on.   *)
Live(order, i, down) == order[i] \notin down
LiveIn(order, places, down) == Cardinality({i \in places : Live(order, i, down)})
Ships(me, order, down, factor) ==
    \/ LiveIn(order, DOMAIN order, down) = 0
    \/ \E i \in DOMAIN order :
        /\ order[i] = me
        /\ \/ LiveIn(order, 1..(i - 1), down) = 0
           \/ LiveIn(order, (i + 1)..Len(order), down) < Len(order) - factor
(* How many shards may be slow at once while so many others are down (read-path.md#slow-shards).               *)
MostSlow(factor, down) == IF factor - 1 < down THEN 0 ELSE factor - 1 - down

(* Of two writes of an LSN, by their run, 0 for the sequencer, and their wave (read-path.md#recovery-precedence).  *)
WriteBeats(one, other) == one[1] > other[1] \/ (one[1] = other[1] /\ one[2] > other[2])

(* A copy that was drained is never shipped (read-path.md#scd-filter).                                         *)
MayShip(drained, me, order, down, factor) == ~drained /\ Ships(me, order, down, factor)

(* The order of a new copyset, by the LSN alone, whichever shards stay (read-path.md#rebuilding-donors): mixed says what *)
(* comes of shard and LSN.                                                                                    *)
NewOrder(copyset, mixed, staying) == SelectSeq(mixed, LAMBDA s : s \in copyset)
===========================================================================================
