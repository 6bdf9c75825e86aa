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


def premises(shipped: bool) -> Iterator[str]:
    """The stamps, whether the host was up, whether it was heard in time, and whether it was silent.

    As pull-queries.md#no-false-down and pull-queries.md#silence-is-down have it.
    """
    silence = THRESHOLD if shipped else THRESHOLD + 1
    for size in range(END - START + 2):
        for stamps in itertools.combinations(range(START, END + 1), size):
            silent = not any(END - silence <= stamp < END for stamp in stamps)
            slots = "".join("x" if at in stamps else " " for at in range(START, END))
            for up in (False, True):
                heard = (up and " " * (THRESHOLD + 1) not in slots) or slots.endswith("x" * RECEIVED)
                if shipped:
                    heard = any(stamp <= END - 2 and END - stamp <= silence for stamp in stamps)
                yield f"<<{{{', '.join(map(str, stamps))}}}, {word(up)}, {word(heard)}, {word(silent)}>>"


@pytest.mark.parametrize("shipped", [False, True])
def test_what_is_promised_of_a_status_is_what_the_page_says(shipped: bool, tools: Toolchain, tmp_path: Path) -> None:
    """With a decision that says always down, or always up, each promise is broken just where it says something."""
    shutil.copy(spec_directory() / "pull_queries" / "Heartbeats.tla", tmp_path)
    given = CONFIGURATION.replace("INIT Init\nNEXT Next", "INIT Rows\nNEXT Stays\nINVARIANT As").replace(
        "Shipped = TRUE", f"Shipped = {word(shipped)}"
    )
    module = tmp_path / "Promises.tla"

    def violated(promise: str, decided: str, column: int) -> str | None:
        lines = [
            "EXTENDS Heartbeats",
            f"Table == {{{', '.join(premises(shipped))}}}",
            f"Rows == /\\ now = {END} /\\ skew = 0 /\\ running = TRUE /\\ due = FALSE /\\ sent = {{}}",
            "        /\\ \\E row \\in Table : stored = row[1] /\\ status = row[2]",
            "Stays == UNCHANGED vars",
            f"Always == {decided}",
            f"As == \\A row \\in Table : stored = row[1] /\\ status = row[2] => {promise} = ~row[{column}]",
        ]
        module.write_text("\n".join(["---- MODULE Promises ----", *lines, "===="]), encoding="utf-8")
        configuration = f"{given}CONSTANT Decided <- Always\n"
        outcome = run_tlc(tools, module, configuration, workers=1, coverage=False, brief=True, seconds=200)
        assert (outcome.distinct, outcome.errors) == (0 if outcome.violated else 256, [])
        return outcome.violated

    assert violated("NoFalseDown", "FALSE", 3) is None
    assert violated("SilenceIsDown", "TRUE", 4) is None
    assert violated("SilenceIsDown", "TRUE", 3) == "As"


# -- the routing filter ------------------------------------------------------------------------------------------------

HOSTS = (1, 2, 3)
RECORDS = (None, Position(0, 0), Position(0, 1), Position(1, 1))


def views(shipped: bool) -> Iterator[str]:
    """Who is alive, the records, whom the router selects, and who may come next as long as they are left; host 1 is the
    active, the bound is 2."""
    placement = Placement("1", ("2", "3"))
    for records in itertools.product(RECORDS, repeat=len(HOSTS)):
        reports = {
            str(host): LagReport(str(host), 1, {(STORE, 0): record})
            for host, record in zip(HOSTS, records, strict=True)
            if record is not None
        }
        end = max((report.positions[STORE, 0].end for report in reports.values()), default=0)
        lags = {host: end - report.positions[STORE, 0].current for host, report in reports.items()}
        said = ", ".join(
            "Nobody" if each is None else f"[current |-> {each.current}, end |-> {each.end}]" for each in records
        )
        for alive in (some for size in range(len(HOSTS) + 1) for some in itertools.combinations(HOSTS, size)):
            statuses = {str(host): Status(host in alive, 1) for host in HOSTS}
            view = View(Assignment(1, (), (placement,)), statuses, LagRecords(REFERENCE, reports.values()))
            found = candidates(REFERENCE, view, Terms(2, shipped), STORE, 0)
            chosen = [each.host for each in found if each.selected]
            nexts = []
            for place, host in enumerate(chosen):
                equal = [each for each in chosen[place:] if shipped or lags[each] == lags[host]] if host != "1" else "1"
                nexts.append(f"{{{', '.join(equal)}}}")
            reported = f"alive |-> {{{', '.join(map(str, alive))}}}, records |-> <<{said}>>, end |-> EndOf(<<{said}>>)"
            yield f"<<[active |-> 1, {reported}], <<{', '.join(chosen)}>>, <<{', '.join(nexts)}>>>>"


NOBODY = "[active |-> 1, alive |-> {}, records |-> <<Nobody, Nobody, Nobody>>, end |-> 0]"
BEHIND = ", ".join(f"[current |-> {current}, end |-> 1]" for current in (1, 0, 1))
WRONG = {
    "selected": f"<<{NOBODY}, <<1>>, <<{{1}}>>>>",
    "next": f"<<[active |-> 1, alive |-> {{2, 3}}, records |-> <<{BEHIND}>>, end |-> 1], "
    "<<3, 2>>, <<{2, 3}, {2}>>>>",
}


@pytest.mark.parametrize(
    ("shipped", "more", "said"),
    [(False, [], ""), (True, [], ""), (True, [WRONG["selected"]], "is false"), (False, [WRONG["next"]], "is false")],
)
def test_the_routing_filter_is_the_same(
    shipped: bool, more: list[str], said: str, tools: Toolchain, tmp_path: Path
) -> None:
    shutil.copy(spec_directory() / "pull_queries" / "Routing.tla", tmp_path)
    bounds = {"MaxEnd": 0, "MaxReports": 0, "MaxCrashes": 0, "MaxEpochs": 1, "Bound": 2, "Shipped": word(shipped)}
    configuration = "INIT Init\nNEXT Next\nCONSTANT Nobody = Nobody\nCONSTANT Node = {1, 2, 3}\n"
    configuration += "".join(f"CONSTANT {name} = {value}\n" for name, value in bounds.items())
    lines = ["EXTENDS Routing", f"Table == {{{', '.join([*views(shipped), *more])}}}"]
    lines.append("Left(row, k) == {row[2][j] : j \\in k..Len(row[2])}")
    lines.append("ASSUME \\A row \\in Table : Selected(row[1]) = Left(row, 1)")
    lines.append("ASSUME \\A row \\in Table : \\A k \\in 1..Len(row[2]) : Next1(row[1], Left(row, k)) = row[3][k]")
    module = tmp_path / "Choices.tla"
    module.write_text("\n".join(["---- MODULE Choices ----", *lines, "===="]), encoding="utf-8")
    errors = run_tlc(tools, module, configuration, workers=1, coverage=False, brief=True, seconds=200).errors
    assert bool(errors) == bool(said)
    assert said in " ".join(errors)
