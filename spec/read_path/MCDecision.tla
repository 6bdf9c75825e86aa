------------------------------------ MODULE MCDecision ------------------------------------
(* Every case of the decisions, for a few shards in two racks: a case is a state, and nothing happens to it.   *)
EXTENDS Decision

CONSTANTS Size, Factor, RackFactor

VARIABLE case

Shards == 1..Size
Scopes == {[domains |-> {{s \in Shards : s % 2 = rack} : rack \in 0..1}, factor |-> RackFactor],
           [domains |-> {{s} : s \in Shards}, factor |-> Factor]}

(* What each shard is and has said: nothing, that it may lack the record, that it has none.                  *)
InitVerdicts == case \in [status : [Shards -> Statuses], answer : [Shards -> {"none", "under", "gap"}]]

(* A record's copyset in the agreed order, and who is listed as down.                                        *)
Orders == {order \in UNION {[1..n -> Shards] : n \in Factor..Size} :
            \A i, j \in DOMAIN order : order[i] = order[j] => i = j}
InitCopysets == case \in [order : Orders, down : SUBSET Shards]

(* A copyset of which each copy was written by some donor, who knew of some shards that they stay; who is drained. *)
InitDonors ==
    \E copyset \in {c \in SUBSET Shards : Cardinality(c) = Factor} : \E drained \in SUBSET (Shards \ copyset) :
        case \in [copyset : {copyset}, drained : {drained}, down : SUBSET Shards,
                  mixed : {order \in Orders : Len(order) = Size}, staying : [copyset \union drained -> SUBSET copyset]]

(* The writes of one LSN, in the order in which they come to a shard.                                         *)
InitWrites == case \in [1..3 -> (0..1) \X (1..2)]
(* How many copies there are of a record, and how many of their shards are down.                              *)
InitSlow == case \in [factor : 1..4, down : 0..4]

(* Gaps between two neighbouring epochs, and inside of one.                                                  *)
Lsns == (PerEpoch + 1)..(2 * PerEpoch + 3)
InitGaps ==
    /\ case \in [from : Lsns, to : Lsns, trim : Lsns \union {0}, start : Lsns, inFlight : {0, 2}]
    /\ case.start <= case.from /\ case.from < case.to

Next == UNCHANGED case

-------------------------------------------------------------------------------------------
Answered(what) == {s \in Shards : case.answer[s] \in what}
Said == Answered({"gap"})
AnyFMajority == FMajority(Scopes, case.status, Said)
Unseen == NonEmpty(case.status) \ (Full(case.status) \intersect Said)

(* No record with enough copies is unseen by an f-majority of empty answers, and one that could be is never    *)
(* passed over: f-majority is exactly that what is left cannot hold a record.                                *)
FMajorityLeavesNoRecord == AnyFMajority => ~Replicated(Scopes, Unseen)
FMajorityIsEnough == ~Replicated(Scopes, Unseen) => AnyFMajority

(* COMPLETE needs all full shards; answers that may lack the record count only where no other one could come. *)
IncompleteIsNotComplete ==
    LET verdict == ReadVerdict(Scopes, case.status, Said, Answered({"under"}))
    IN  /\ verdict \in {"complete", "non-auth"} => Full(case.status) \subseteq Answered({"under", "gap"})
        /\ verdict \in {"complete", "incomplete"} <=> AnyFMajority

(* read-path.md#one-shipper: one live shard ships, or every one that holds a copy; each extra copy adds one.    *)
OrderOf(s) == IF "order" \in DOMAIN case THEN case.order ELSE NewOrder(case.copyset, case.mixed, case.staying[s])
Drained == IF "order" \in DOMAIN case THEN {} ELSE case.drained
Holders == IF "order" \in DOMAIN case THEN {case.order[i] : i \in DOMAIN case.order} ELSE case.copyset
Shipping == {s \in Holders \union Drained : MayShip(s \in Drained, s, OrderOf(s), case.down, Factor)}
OneShipper ==
    IF Holders \subseteq case.down THEN Shipping = Holders
    ELSE /\ Shipping \ case.down # {}
         /\ Cardinality(Holders) = Factor => Cardinality(Shipping \ case.down) = 1

(* read-path.md#append-waves: at a shard the best write stays, in whatever order they come.                     *)
Stays(one, other) == IF WriteBeats(one, other) THEN one ELSE other
BestWriteStays ==
    LET left == Stays(Stays(case[1], case[2]), case[3])
    IN  \A i \in 1..3 : case[i][1] < left[1] \/ (case[i][1] = left[1] /\ case[i][2] <= left[2])

(* read-path.md#slow-is-bounded: one copy at least is on a shard that is neither slow nor down.                 *)
SlowIsBounded == MostSlow(case.factor, case.down) > 0 => MostSlow(case.factor, case.down) + case.down < case.factor

(* A gap inside an epoch is a loss, unless it is trimmed or the stream begins with it; one that ends trimmed is *)
(* no loss, and nothing is lost where nobody is to be read.                                                  *)
GapHasType ==
    LET full == [s \in Shards |-> "full"]
        nobody == [s \in {} |-> "full"]
        type == GapType(full, case.from, case.to, case.trim, case.start, case.inFlight)
    IN  /\ type = "trim" <=> case.to <= case.trim + 1
        /\ type = "bridge" => \/ EpochOf(case.from) < EpochOf(case.to)
                              \/ case.from \in {case.start, EpochOf(case.to) * PerEpoch} /\ EsnOf(case.to) <= case.inFlight
        /\ type = GapType(nobody, case.from, case.to, case.trim, case.start, case.inFlight)
        /\ type = "dataloss" => EpochOf(case.from) = EpochOf(case.to)
        /\ GapType([s \in Shards |-> "under"], case.from, case.to, case.trim, case.start, case.inFlight) = "dataloss"

(* Mutants *)
NeededOneShort(domains, factor) == IF domains < factor THEN 0 ELSE domains - factor          \* Needed
InEveryScope(scopes, status, said) == \A scope \in scopes : FMajorityIn(scope, status, said) \* FMajority
IncompleteAsComplete(status, said) == said # {}                                           \* EachAnswered
ListedSkippedBeforeMe(order, i, down) == TRUE                                             \* Live
LastBeats(one, other) == FALSE                                                            \* WriteBeats
AllMaySlow(factor, down) == factor                                                        \* MostSlow
OwnOrder(copyset, mixed, staying) ==                                                      \* NewOrder
    SelectSeq(mixed, LAMBDA s : s \in staying) \o SelectSeq(mixed, LAMBDA s : s \in copyset \ staying)
DrainedShips(drained, me, order, down, factor) == drained \/ Ships(me, order, down, factor)   \* MayShip
BridgeHidesLoss(status, from, to, trim, start, inFlight) ==                               \* GapType
    IF to <= trim + 1 THEN "trim" ELSE "bridge"
TrimOverLoss(status, from, to, trim, start, inFlight) ==                                  \* GapType
    IF from <= trim THEN "trim" ELSE "dataloss"
===========================================================================================
