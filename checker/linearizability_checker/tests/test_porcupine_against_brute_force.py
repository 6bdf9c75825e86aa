"""Every model against a search in plain Python over random small histories."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_search import linearizable
from small_histories import random_history

from linearizability_checker import MODELS, UNKNOWN, Checker, Model, Operation, Verdict

pytestmark = pytest.mark.slow


def _explains(model: Model, operations: list[Operation], order: tuple[int, ...]) -> bool:
    """Whether the operations in this order, one after the other, obey their times and give the answers they gave."""
    in_a_row = [Operation(0, place, place, operations[i].input, operations[i].output) for place, i in enumerate(order)]
    latest_call = -(1 << 63)
    for i in order:
        returned = None if operations[i].output is UNKNOWN else operations[i].return_
        latest_call = max(latest_call, operations[i].call)
        if returned is not None and returned < latest_call:
            return False
    return linearizable(model, in_a_row)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**64), size=st.integers(0, 8))
def test_one_history_at_a_time(checker: Checker, model: Model, seed: int, size: int) -> None:
    operations = random_history(random.Random(seed), model, size)
    result = checker.check_operations(model, operations)
    assert bool(result) == linearizable(model, operations), operations
    for partition in result.partitions:
        assert partition.complete or not result
        for order in partition.linearizations:
            assert set(order) <= set(partition.operations)
            assert _explains(model, operations, order), operations
    if result.verdict is Verdict.ILLEGAL:
        assert not all(partition.complete for partition in result.partitions)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_many_at_once(checker: Checker, model: Model) -> None:
    rng = random.Random(20240611)
    histories = [random_history(rng, model) for _ in range(3000)]
    expected = [Verdict.OK if linearizable(model, history) else Verdict.ILLEGAL for history in histories]
    results = [result.verdict for result in checker.check_many(model, iter(histories))]
    different = [history for history, a, b in zip(histories, results, expected, strict=True) if a != b]
    assert not different, different[0]
    assert min(Counter(expected).values()) > 300, "both verdicts must come up"
