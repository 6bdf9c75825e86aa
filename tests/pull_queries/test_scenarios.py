"""The scenarios of pull-queries.md#scenarios, as data beside this file: status.txt and scenarios.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.execution import Execution, Phase
from quorumlog.pull_queries.lag import LagRecords, LagReport, Position, Store
from quorumlog.pull_queries.routing import Candidate, View, candidates, no_valid_host
from quorumlog.pull_queries.rules import REFERENCE, UNBOUNDED, Failure, Terms
from quorumlog.pull_queries.status import Membership, Status, alive_by_slots, alive_by_tail

HERE = Path(__file__).parent
STORE = Store("Q", "T")
SCENARIOS: Mapping[str, list[Any]] = tomllib.loads((HERE / "scenarios.toml").read_text(encoding="utf-8"))
NAMES = [Failure.GAVE_UP.value, *(failure.value for failure in Failure)]


# -- status --------------------------------------------------------------------------------------------------------


def status_cases() -> Iterator[Any]:
    line_form = re.compile(
        r"(scenario \d+|[a-z-]+) +\[(\d+),(\d+)\] +([\d ]*|-) *(down|local)? +shipped (up|down) +proposal (up|down)"
    )
    for line in (HERE / "status.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("send"):
            send, most, least = (int(word) for word in line.split()[1::2])
        elif line and not line.startswith("#"):
            match = line_form.fullmatch(line)
            assert match, line
            name, start, end, stamps, stored, *expected = match.groups()
            given = [int(stamp) for stamp in stamps.split() if stamp != "-"]
            yield pytest.param(send, most, least, int(start), int(end), given, stored, expected, id=f"{name}")


@pytest.mark.parametrize(
    ("send", "most", "least", "start", "end", "stamps", "stored", "expected"), list(status_cases())
)
def test_status(
    send: int, most: int, least: int, start: int, end: int, stamps: list[int], stored: str | None, expected: list[str]
) -> None:
    if stored == "local":
        found = [stands(mode, end, stamps) for mode in ("shipped", "proposal")]
    else:
        counted = sorted({stamp for stamp in stamps if start <= stamp <= end})
        shipped = alive_by_tail(REFERENCE, start, end, counted, send, most)
        found = [shipped, alive_by_slots(REFERENCE, start, end, counted, send, stored is None, most, least)]
    assert ["up" if alive else "down" for alive in found] == expected


def stands(mode: Any, end: int, stamps: list[int]) -> bool:  # noqa: ANN401
    """How the local host stands; its status is that from the start, and it is never judged."""
    membership = Membership("h:1", 0, Configuration(mode=mode, heartbeats=True), REFERENCE)
    for stamp in stamps:
        membership.heartbeat("h:1", stamp)
    assert membership.check(end) == {}
    assert membership.statuses == {"h:1": Status(True, 0)}
    return membership.statuses["h:1"].alive


# -- routing -------------------------------------------------------------------------------------------------------


def routed(scenario: Mapping[str, Any], *, shipped: bool) -> tuple[Candidate, ...]:
    active, standbys = scenario.get("active", "A"), tuple(scenario["standbys"])
    down, unlisted = scenario.get("down", ["A"]), scenario.get("unlisted", [])
    statuses = {host: Status(host not in down, 7) for host in ("A", "B", *standbys) if host not in unlisted}
    records = LagRecords(REFERENCE)
    for host, at in scenario.get("before", {}).items():
        records.accept(LagReport(host, 0, {(STORE, 0): Position(*at), (STORE, 1): Position(1, 2)}))
        records.accept(LagReport(host, 1, {(STORE, 1): Position(1, 2)}))
    for host, at in scenario["reports"].items():
        records.accept(LagReport(host, 1, {(STORE, 0): Position(*at)}))
    view = View(Assignment(1, (), (Placement(active, standbys),)), statuses, records)
    switches = scenario.get("standby_reads", True), scenario.get("lag_reports", True)
    return candidates(REFERENCE, view, Terms(scenario.get("allow", UNBOUNDED), shipped, *switches), STORE, 0)


@pytest.mark.parametrize("scenario", SCENARIOS["routing"], ids=lambda each: each["title"])
def test_routing(scenario: Mapping[str, Any]) -> None:
    modes = [mode for mode in ("proposal", "shipped") if mode in scenario]
    assert modes
    for mode in modes:
        found = routed(scenario, shipped=mode == "shipped")
        shown = [": ".join([each.host, *([",".join(each.reasons)] if each.reasons else [])]) for each in found]
        assert shown == scenario[mode]
        message = no_valid_host({0: found})
        assert (message is None) == any(each.selected for each in found)
        assert scenario.get("fails", message) == message


# -- execution -----------------------------------------------------------------------------------------------------

FOUR = {"1": ["n1", "n2"], "2": ["n2", "n1"], "3": ["n1", "n2"], "4": ["n2", "n1"]}


def request(text: str) -> tuple[str, tuple[int, ...]]:
    host, _, partitions = text.removesuffix("}").partition("{")
    return host, tuple(int(each) for each in partitions.split(","))


@pytest.mark.parametrize("scenario", SCENARIOS["execution"], ids=lambda each: each["title"])
def test_execution(scenario: Mapping[str, Any]) -> None:
    given = {int(partition): hosts for partition, hosts in scenario.get("candidates", FOUR).items()}
    scanned = {
        partition: [Candidate(host.lstrip("-"), ("excluded",) if host.startswith("-") else ()) for host in hosts]
        for partition, hosts in given.items()
        if partition in scenario.get("asked", [1, 2, 3, 4])
    }
    selected = {partition: [each.host for each in hosts if each.selected] for partition, hosts in scanned.items()}
    query = Execution(REFERENCE, scenario.get("shipped", True), selected)
    emitted: list[int] = []
    for step in scenario["steps"]:
        what, _, rest = step.partition(" ")
        if what == "round":
            assert dict(query.next_round()) == dict(map(request, rest.split()))
        elif what in [phase.value for phase in Phase]:
            assert not query.next_round()
            assert query.phase is Phase(what)
        else:
            failure, _, after = rest.partition(" after ")
            complete = [int(each) for each in after.split(",") if each] if failure else list(query.open[what])
            emitted += query.answered(what, complete, Failure(failure) if failure else None)
    assert len(set(emitted)) == len(emitted)
    assert query.phase.value == scenario["steps"][-1]
    assert (query.phase is Phase.COMPLETE) == (sorted(emitted) == sorted(scanned))
    for attempt, later in pairwise(sorted(attempt[:2] for attempt in query.attempts)):
        assert attempt != later


def test_every_scenario_of_the_page_is_here() -> None:
    text = (HERE / "status.txt").read_text(encoding="utf-8")
    numbers = {int(number) for number in re.findall(r"scenario (\d+)", text)}
    numbers |= {each["number"] for kind in SCENARIOS.values() for each in kind if "number" in each}
    assert numbers == set(range(1, 26))
