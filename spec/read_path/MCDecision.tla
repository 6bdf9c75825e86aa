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
Shipping == {case.order[i] : i \in {j \in DOMAIN case.order : Ships(case.order[j], case.order, case.down, Factor)}}
Holders == {case.order[i] : i \in DOMAIN case.order}
OneShipper ==
    IF Holders \subseteq case.down THEN Shipping = Holders
    ELSE /\ Shipping \ case.down # {}
         /\ Len(case.order) = Factor => Cardinality(Shipping \ case.down) = 1

(* A gap inside an epoch is a loss, unless it is trimmed or the stream begins with it; one that ends trimmed is *)
(* no loss.                                                                                                  *)
GapHasType ==
    LET full == [s \in Shards |-> "full"]
        type == GapType(full, case.from, case.to, case.trim, case.start, case.inFlight)
    IN  /\ type = "trim" <=> case.to <= case.trim + 1
        /\ type = "bridge" => EpochOf(case.from) < EpochOf(case.to) \/ EsnOf(case.to) <= case.inFlight
        /\ type = "dataloss" => EpochOf(case.from) = EpochOf(case.to)
        /\ GapType([s \in Shards |-> "under"], case.from, case.to, case.trim, case.start, case.inFlight) = "dataloss"

(* Mutants *)
NeededOneShort(domains, factor) == IF domains < factor THEN 0 ELSE domains - factor          \* Needed
InEveryScope(scopes, status, said) == \A scope \in scopes : FMajorityIn(scope, status, said) \* FMajority
IncompleteAsComplete(status, said) == said # {}                                           \* EachAnswered
ListedSkippedBeforeMe(order, i, down) == TRUE                                             \* Live
TrimOverLoss(status, from, to, trim, start, inFlight) ==                                  \* GapType
    IF from <= trim THEN "trim" ELSE "dataloss"
===========================================================================================
