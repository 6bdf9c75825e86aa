"""The rules of the read path: f-majority against all copysets, verdicts, the SCD filter; all run on symbolic terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import combinations, product

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from logspec.symbolic import Executor
from quorumlog.read_path import placement
from quorumlog.read_path import rules as r
from quorumlog.read_path.nodeset import SCOPES, Location, Nodeset, scopes_of
from quorumlog.read_path.rules import Scope

FULL, LOST, EMPTY, DOWN = r.FULLY_AUTHORITATIVE, r.UNDERREPLICATION, r.AUTHORITATIVE_EMPTY, r.UNAVAILABLE


def _copysets(scopes: Sequence[Scope], shards: Sequence[int]) -> list[frozenset[int]]:
    """All sets of shards on which a record may be: those that satisfy the property, from its definition."""
    domain_of = [{shard: place for place, domain in enumerate(each.domains) for shard in domain} for each in scopes]
    found = []
    for size in range(1, len(shards) + 1):
        for chosen in combinations(shards, size):
            spread = [len({of[shard] for shard in chosen}) for of in domain_of]
            if all(spread[place] >= each.factor for place, each in enumerate(scopes)):
                found.append(frozenset(chosen))
    return found


def _locations(*names: Sequence[int]) -> dict[int, Location]:
    """Shards with a name for each scope from the largest down; what is not named is one domain, but nodes differ."""
    rows = zip(*names, strict=True)
    return {
        shard: (*(f"{name}" for name in row), *("-" for _ in range(4 - len(row))), f"N{shard}")
        for shard, row in enumerate(rows)
    }


def _partitions(count: int, most: int = 7) -> list[tuple[int, ...]]:
    """All ways to put so many shards into domains, but for which is where: the sizes of the domains, descending."""
    if count == 0:
        return [()]
    return [(size, *rest) for size in range(1, min(count, most) + 1) for rest in _partitions(count - size, size)]


@pytest.mark.parametrize("count", range(1, 8))
def test_one_scope_an_f_majority_meets_every_copyset_and_nothing_less_does(count: int) -> None:
    """One scope above the shards with its factor R: the definition on the read-path document is exact."""
    shards = range(count)
    for sizes in _partitions(count):
        racks = [rack for rack, size in enumerate(sizes) for _ in range(size)]
        locations = _locations([0] * count, [0] * count, [0] * count, racks)
        for factor in range(1, len(sizes) + 1):
            scopes = scopes_of({"RACK": factor}, locations)
            copysets = _copysets(scopes, shards)
            for size in range(count + 1):
                for heard in combinations(shards, size):
                    meets = all(copyset.intersection(heard) for copyset in copysets)
                    responded = {shard: shard in heard for shard in shards}
                    assert r.f_majority(scopes, dict.fromkeys(shards, FULL), responded) == meets


_PAIRS = [(larger, smaller) for larger, smaller in combinations(SCOPES, 2)]


def _judge(scopes: Sequence[Scope], statuses: Mapping[int, int], heard: Mapping[int, bool]) -> None:
    """Whatever an f-majority leaves out holds no copyset of shards that are not empty."""
    left = [s for s in statuses if not (heard[s] and r.full(statuses[s])) and statuses[s] != EMPTY]
    if r.f_majority(scopes, statuses, heard):
        assert not r.replicated(scopes, {shard: shard in left for shard in statuses})


@pytest.mark.parametrize("pair", _PAIRS, ids=lambda pair: f"{pair[0]} over {pair[1]}")
def test_an_f_majority_meets_every_copyset_of_two_scopes(pair: tuple[str, str]) -> None:
    """Every combination of two scopes, nodesets of up to 7 nodes, every set of answers: against all copysets."""
    found = 0
    for count, shape, factors in product((3, 5, 7), ((2, 1), (2, 2), (3, 1), (3, 2)), ((1, 2), (2, 3), (1, 3), (2, 2))):
        shards = range(count)
        wide, narrow = ([s % shape[0] for s in shards], [s // shape[1] for s in shards])
        named = {pair[0]: wide, pair[1]: narrow}
        locations = {s: tuple(str(named[n][s]) if n in named else "-" for n in SCOPES) for s in shards}
        if "NODE" not in pair:
            locations = {s: (*at[:4], f"N{s}") for s, at in locations.items()}
        scopes = scopes_of(dict(zip(pair, factors, strict=True)), locations)
        copysets = _copysets(scopes, shards)
        for bits in range(1 << count):
            responded = {shard: bool(bits >> shard & 1) for shard in shards}
            is_f_majority = r.f_majority(scopes, dict.fromkeys(shards, FULL), responded)
            meets = all(any(responded[shard] for shard in copyset) for copyset in copysets)
            assert meets or not is_f_majority
            found += is_f_majority and bool(copysets)
    assert found > 100


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_lost_and_empty_shards_never_make_an_f_majority_of_too_little(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    names = [data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)) for _ in range(2)]
    factors = {"REGION": data.draw(st.integers(1, 3)), "NODE": data.draw(st.integers(1, 4))}
    scopes = scopes_of(factors, _locations(*names))
    statuses = {shard: data.draw(st.sampled_from([FULL, LOST, EMPTY, DOWN])) for shard in range(count)}
    _judge(scopes, statuses, {shard: data.draw(st.booleans()) for shard in range(count)})


def test_the_property_keeps_scopes_whose_factor_exceeds_those_of_larger_ones() -> None:
    locations = _locations([0, 0, 1, 1], [0, 1, 0, 1])
    factors = [scope.factor for scope in scopes_of({"REGION": 2, "CLUSTER": 2, "RACK": 1, "NODE": 3}, locations)]
    assert factors == [2, 3, 3]
    # A cluster of one region is another one than that of the same name elsewhere.
    assert scopes_of({"CLUSTER": 3}, locations)[0].domains == ((0,), (1,), (2,), (3,))
    assert Nodeset({"RACK": 2}, locations).factor == 2
    with pytest.raises(ValueError, match="scope 'SHELF' is unknown"):
        scopes_of({"SHELF": 2}, locations)


_SHARDS = scopes_of({"NODE": 2}, _locations([0] * 4))


@pytest.mark.parametrize(
    ("statuses", "heard", "verdict"),
    [
        ([FULL] * 4, [1, 1, 1, 1], r.COMPLETE),
        ([FULL] * 4, [1, 1, 1, 0], r.INCOMPLETE),
        ([FULL] * 4, [1, 1, 0, 0], r.NONE),
        ([FULL, FULL, LOST, LOST], [1, 1, 0, 0], r.NON_AUTH),
        ([FULL, FULL, FULL, LOST], [1, 1, 1, 0], r.COMPLETE),
        ([FULL, FULL, FULL, EMPTY], [1, 1, 0, 0], r.INCOMPLETE),
        ([FULL, FULL, DOWN, DOWN], [1, 1, 0, 0], r.NONE),
        ([LOST] * 4, [0] * 4, r.NON_AUTH),
        ([EMPTY] * 4, [0] * 4, r.COMPLETE),
    ],
)
def test_verdicts(statuses: list[int], heard: list[int], verdict: int) -> None:
    by_shard = dict(enumerate(statuses))
    assert r.f_majority_verdict(_SHARDS, range(4), by_shard, {s: bool(each) for s, each in enumerate(heard)}) == verdict


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_exactly_one_ships_of_equal_copysets_if_none_is_listed_and_one_that_is_up_if_the_others_are(
    data: st.DataObject,
) -> None:
    """Local or not, with or without extras."""
    size = data.draw(st.integers(1, 6))
    factor = data.draw(st.integers(1, size))
    local = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    if factor == size:
        assert sum(r.ships(me, [False] * size, local, factor) for me in range(size)) == 1
    down = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    ups = [me for me in range(size) if not down[me]]
    assert not ups or any(r.ships(me, down, local, factor) for me in ups)


def test_a_shard_out_of_the_copyset_ships_if_all_members_are_listed() -> None:
    assert r.ships(r.NOWHERE, [True, True], [False, False], 2)
    assert not r.ships(r.NOWHERE, [True, False], [False, False], 2)


def test_every_rule_runs_on_symbolic_terms() -> None:
    """The proofs run these functions: with statuses, answers and LSNs that are terms."""
    run = Executor()
    ints = {shard: z3.Int(f"i{shard}") for shard in range(4)}
    bools = {shard: z3.Bool(f"b{shard}") for shard in range(4)}
    terms = [z3.Bool(name) for name in "abcde"]
    numbers = [z3.Int(f"n{place}") for place in range(6)]
    given: dict[str, tuple[object, ...]] = {
        "f_majority_verdict": (_SHARDS, range(4), ints, bools),
        "replicated": (_SHARDS, bools),
        "status_in_rebuilding": (r.Rebuilding(*terms),),  # type: ignore[arg-type]
        "reader_status": (numbers[0], terms[0]),
        "gap_verdict": (_SHARDS, range(4), ints, ints),
        "grace_helps": (range(4), ints, ints, ints),
        "gap_decision": (numbers[0], *terms[:2]),
        "gap_type": (*numbers[:3], terms[0], numbers[3], terms[1]),
        "ships": (1, terms[:4], terms[1:], 3),
        "recovery_may_go_on": (numbers[0], terms[0]),
    }
    for field in fields(r.Rules):
        rule = getattr(r.REFERENCE, field.name)
        arguments = given.get(field.name, tuple(numbers[: rule.__code__.co_argcount]))
        arguments = tuple([*each] if isinstance(each, range) else each for each in arguments)
        assert isinstance(run.call(rule, *arguments), z3.ExprRef), field.name


@pytest.mark.parametrize(
    ("names", "replication"),
    [
        (([0] * 6, [0] * 6, [0] * 6, [0, 1, 2, 0, 1, 2]), {"RACK": 2}),
        (([0] * 6, [0] * 6, [0] * 6, [0, 0, 0, 0, 1, 2]), {"RACK": 2, "NODE": 3}),
        (([0, 1, 0, 1, 0, 0],), {"REGION": 2, "NODE": 4}),
        (([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]), {"REGION": 2, "CLUSTER": 3}),
        (([0] * 5,), {"NODE": 3}),
    ],
)
def test_a_copyset_is_found_where_there_is_one_and_has_none_but_who_may_be_in_it(
    names: Sequence[Sequence[int]], replication: dict[str, int]
) -> None:
    """Whoever is kept is in it. Source: read-path.md#append-waves, read-path.md#rebuilding-donors."""
    nodeset = Nodeset(replication, _locations(*names))
    shards = nodeset.shards
    smallest = [copyset for copyset in _copysets(nodeset.scopes, shards) if len(copyset) <= nodeset.factor]
    for size in range(len(shards) + 1):
        for allowed in combinations(shards, size):
            for kept in ((), (0,), (1, 4)):
                found = placement.chosen(nodeset, r.REFERENCE, allowed, size, kept)
                possible = placement.satisfied(nodeset, r.REFERENCE, {*allowed, *kept})
                assert (found is not None) == possible
                if found is not None:
                    assert placement.satisfied(nodeset, r.REFERENCE, found)
                    assert {*kept} <= {*found} <= {*allowed, *kept}
                    assert kept or not any(each <= {*allowed} for each in smallest) or len(found) == nodeset.factor
