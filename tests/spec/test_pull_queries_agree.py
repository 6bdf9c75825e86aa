"""The status decision of the specification is that of the implementation, on every set of stamps of a small window."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

from logspec.places import spec_directory
from logspec.tlc import run_tlc
from logspec.toolchain import Toolchain
from quorumlog.pull_queries.rules import REFERENCE
from quorumlog.pull_queries.status import alive_by_slots, alive_by_tail

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
