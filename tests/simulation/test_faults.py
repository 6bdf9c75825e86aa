"""Fault plans: data, drawn from a seed, carried out, shrunk."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from quorumlog import faults
from quorumlog.faults import (
    KINDS,
    Fault,
    FaultKind,
    FaultMix,
    FaultPlanError,
    Plan,
    Target,
    declare,
    generate,
    plan_from_json,
    plan_to_json,
    shrink,
)
from quorumlog.simulation.injector import Injector
from quorumlog.simulation.loop import Simulation, derived_random

SECOND = 1_000_000_000


def drawn(seed: int, end: int = 20 * SECOND, mix: FaultMix | None = None) -> Plan:
    return generate(derived_random(seed, "faults"), mix or FaultMix(), range(5), SECOND, end)


def test_a_drawn_plan_is_a_function_of_its_seed_and_survives_json() -> None:
    mix = FaultMix(weights=dict.fromkeys(KINDS, 1.0))
    plan = drawn(3, 200 * SECOND, mix)
    assert plan == drawn(3, 200 * SECOND, mix)
    assert plan != drawn(4, 200 * SECOND, mix)
    assert plan_from_json(json.dumps(plan_to_json(plan))) == plan
    assert {fault.name for fault in plan} == set(KINDS)
    assert all(SECOND <= fault.at < 200 * SECOND for fault in plan)
    assert plan_from_json(plan_to_json(plan[::-1])) == plan, "by time"


def test_a_protocol_adds_faults_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "KNOWN", dict(faults.KNOWN))
    plan = '[{"at": "1s", "name": "fire", "nodes": [0], "heat": 3}]'
    with pytest.raises(FaultPlanError, match="'fire' is unknown"):
        plan_from_json(plan)
    declare({"fire": FaultKind("it burns", {"heat": (1.0, 0.0, 9.0)})})
    (fault,) = plan_from_json(plan)
    assert fault.argument("heat") == 3
    assert Fault(0, "fire").argument("heat") == 1


def test_short_faults_are_drawn_as_often_as_long_ones() -> None:
    """Uniform in the logarithm: half of those between 1 ms and 1 s are shorter than 32 ms."""
    plan = drawn(3, 200 * SECOND, FaultMix(shortest=SECOND // 1000, longest=SECOND))
    assert 0.4 < sum(fault.lasting < SECOND // 32 for fault in plan) / len(plan) < 0.6


def test_nobody_is_cut_off_from_nobody() -> None:
    cuts = FaultMix(weights=dict.fromkeys(("partition", "mute", "deafen"), 1.0), targets={"all": 1.0})
    assert {(fault.name, *fault.nodes) for fault in drawn(3, 20 * SECOND, cuts)} == {
        (name, "leader") for name in cuts.weights
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "not JSON"),
        ("{}", "must be a list"),
        ("[3]", "fault 0 .* is not an object"),
        ('[{"at": "1s", "name": "flood"}]', "'flood' is unknown; known are kill"),
        ('[{"name": "kill"}]', "at, lasting: None is not a duration"),
        ('[{"at": "1s", "name": "kill", "nodes": "leader"}]', "nodes 'leader' is not a list"),
        ('[{"at": "1s", "name": "kill", "rate": 1}]', "kill has no field 'rate'"),
        ('[{"at": "1s", "name": "loss", "probability": 7}]', "not a number from 0 to 1"),
        ('[{"at": "1s", "name": "clock", "rate": 0}]', "not a number from 0.01 to 10"),
    ],
)
def test_a_bad_plan_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(FaultPlanError, match=said) as caught:
        plan_from_json(text)
    assert "\n" not in str(caught.value)


class _Log:
    """Surroundings that write down what is done to them."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.lines: list[tuple[int, str, str, tuple[int, ...]]] = []

    def resolve(self, target: Target) -> Sequence[int]:
        return [target] if isinstance(target, int) else {"leader": [2], "nobody": []}[target]

    def begin(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        self.lines.append((self.simulation.now, "begin", fault.name, tuple(nodes)))

    def end(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        self.lines.append((self.simulation.now, "end", fault.name, tuple(nodes)))


def test_the_injector_begins_ends_and_heals() -> None:
    simulation = Simulation(1)
    log = _Log(simulation)
    plan = (
        Fault(10, "kill", ("leader", 0), 5),
        Fault(12, "pause", ("nobody",), 5),
        Fault(20, "loss", (), 100),
        Fault(90, "kill", (1,), 5),
    )
    injector = Injector(simulation, log, plan, range(3))
    simulation.run(50)
    injector.heal()
    simulation.run(200)
    assert log.lines == [
        (10, "begin", "kill", (0, 2)),
        (15, "end", "kill", (0, 2)),
        (20, "begin", "loss", (0, 1, 2)),
        (50, "end", "loss", (0, 1, 2)),
    ]


def test_shrinking_finds_the_smallest_plan() -> None:
    plan = drawn(1)
    needed = {plan[3].at, plan[17].at, plan[60].at}
    calls: list[Plan] = []

    def fails(candidate: Plan) -> bool:
        calls.append(candidate)
        return needed <= {fault.at for fault in candidate}

    small = shrink(plan, fails)
    assert {fault.at for fault in small} == needed
    assert len(calls) <= 200


def test_shrinking_keeps_within_its_attempts() -> None:
    calls: list[Plan] = []

    def fails(candidate: Plan) -> bool:
        calls.append(candidate)
        return len(candidate) > 40

    shrink(drawn(1), fails, attempts=7)
    assert len(calls) <= 7


def test_a_failure_that_needs_no_fault_shrinks_to_an_empty_plan() -> None:
    assert shrink(drawn(1), lambda _: True) == ()
