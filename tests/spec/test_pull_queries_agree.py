"""The decisions of the specification of pull queries are those of the implementation, on every small case.

The status decision on every set of stamps of a small window, the routing filter on every view of two hosts.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logspec.places import spec_directory
from logspec.tlc import run_tlc
from logspec.toolchain import Toolchain
from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.lag import LagRecords, LagReport, Position, Store
from quorumlog.pull_queries.routing import View, candidates
from quorumlog.pull_queries.rules import REFERENCE, Terms
from quorumlog.pull_queries.status import Status, alive_by_slots, alive_by_tail

STORE = Store("Q", "T")
START, END, THRESHOLD, RECEIVED = 1, 7, 2, 2
CONFIGURATION = f"""INIT Init
NEXT Next
CONSTANT Shipped = TRUE
CONSTANT Threshold = {THRESHOLD}
CONSTANT Received = {RECEIVED}
CONSTANT Window = {END - START}
CONSTANT MaxNow = 0
CONSTANT MaxSkew = 0
CONSTANT MaxDelay = 0
"""


def word(value: bool) -> str:
    return str(value).upper()


def rows() -> Iterator[str]:
    """The stamps, whether the host was up, and what it is by its tail and by slots."""
    for size in range(END - START + 2):
        for stamps in itertools.combinations(range(START, END + 1), size):
            tail = alive_by_tail(REFERENCE, START, END, stamps, 1, THRESHOLD)
            for up in (False, True):
                slots = alive_by_slots(REFERENCE, START, END, stamps, 1, up, THRESHOLD, RECEIVED)
                yield f"<<{{{', '.join(map(str, stamps))}}}, {word(up)}, {word(tail)}, {word(slots)}>>"


def test_the_status_decision_is_the_same(tools: Toolchain, tmp_path: Path) -> None:
    shutil.copy(spec_directory() / "pull_queries" / "Heartbeats.tla", tmp_path)
    table = list(rows())
    assert len(table) == 256
    by_tail = f"ASSUME \\A row \\in Table : AliveByTail({START}, {END}, row[1]) = row[3]"
    by_slots = f"ASSUME \\A row \\in Table : AliveBySlots({START}, {END}, row[1], row[2]) = row[4]"
    module = tmp_path / "Decisions.tla"

    def errors(*assumed: str) -> list[str]:
        lines = ["EXTENDS Heartbeats", f"Table == {{{', '.join(table)}}}", *assumed]
        module.write_text("\n".join(["---- MODULE Decisions ----", *lines, "===="]), encoding="utf-8")
        return run_tlc(tools, module, CONFIGURATION, workers=1, coverage=False, brief=True, seconds=200).errors

    assert errors(by_tail, by_slots) == []
    assert "is false" in errors(by_tail.replace("row[3]", "row[4]"))[0]


# -- the routing filter ------------------------------------------------------------------------------------------------

HOSTS = (1, 2)
RECORDS = (None, Position(0, 0), Position(0, 1), Position(1, 1))


def views(shipped: bool) -> Iterator[str]:
    """Who is alive, the records, and whom the router selects; host 1 is the active, the bound is 1."""
    placement = Placement("1", ("2",))
    for records in itertools.product(RECORDS, repeat=2):
        reports = [
            LagReport(str(host), 1, {(STORE, 0): record})
            for host, record in zip(HOSTS, records, strict=True)
            if record is not None
        ]
        said = ", ".join(
            "Nobody" if each is None else f"[current |-> {each.current}, end |-> {each.end}]" for each in records
        )
        for alive in ((), (1,), (2,), (1, 2)):
            statuses = {str(host): Status(host in alive, 1) for host in HOSTS}
            view = View(Assignment(1, (), (placement,)), statuses, LagRecords(REFERENCE, reports))
            found = candidates(REFERENCE, view, Terms(1, shipped), STORE, 0)
            selected = ", ".join(sorted(each.host for each in found if each.selected))
            reported = f"alive |-> {{{', '.join(map(str, alive))}}}, records |-> <<{said}>>, end |-> EndOf(<<{said}>>)"
            yield f"<<[active |-> 1, {reported}], {{{selected}}}>>"


WRONG = "<<[active |-> 1, alive |-> {}, records |-> <<Nobody, Nobody>>, end |-> 0], {1}>>"


@pytest.mark.parametrize(("shipped", "more", "said"), [(False, [], ""), (True, [], ""), (True, [WRONG], "is false")])
def test_the_routing_filter_is_the_same(
    shipped: bool, more: list[str], said: str, tools: Toolchain, tmp_path: Path
) -> None:
    shutil.copy(spec_directory() / "pull_queries" / "Routing.tla", tmp_path)
    bounds = {"MaxEnd": 0, "MaxReports": 0, "MaxCrashes": 0, "MaxEpochs": 1, "Bound": 1, "Shipped": word(shipped)}
    configuration = "INIT Init\nNEXT Next\nCONSTANT Nobody = Nobody\nCONSTANT Node = {1, 2}\n"
    configuration += "".join(f"CONSTANT {name} = {value}\n" for name, value in bounds.items())
    lines = ["EXTENDS Routing", f"Table == {{{', '.join([*views(shipped), *more])}}}"]
    lines.append("ASSUME \\A row \\in Table : Selected(row[1]) = row[2]")
    module = tmp_path / "Choices.tla"
    module.write_text("\n".join(["---- MODULE Choices ----", *lines, "===="]), encoding="utf-8")
    errors = run_tlc(tools, module, configuration, workers=1, coverage=False, brief=True, seconds=200).errors
    assert bool(errors) == bool(said)
    assert said in " ".join(errors)
