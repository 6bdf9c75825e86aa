"""The histories of known_histories.txt, and what a result says besides its verdict. One operation a line:

    process  [call, return]  name(arguments) -> answer

``[call, ...]`` stays open; the answers ``unknown`` and ``failed`` are outcomes, everything else is Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from linearizability_checker import FAILED, MODELS, UNKNOWN, Checker, Operation

_LINE = re.compile(r"(\d+)\s+\[(-?\d+),\s*(-?\d+|\.\.\.)\]\s+(\w+)\((.*)\) -> (.*)")


def read(text: str) -> list[Operation]:
    operations = []
    for line in text.strip().splitlines():
        match = _LINE.fullmatch(line.strip())
        assert match, line
        process, call, returned, name, arguments, answer = match.groups()
        operations.append(
            Operation(
                process=int(process),
                call=int(call),
                return_=None if returned == "..." else int(returned),
                input=(name, *ast.literal_eval(f"({arguments},)" if arguments else "()")),
                output={"unknown": UNKNOWN, "failed": FAILED}[answer]
                if answer in ("unknown", "failed")
                else ast.literal_eval(answer),
            )
        )
    return operations


def known() -> Iterator[tuple[str, str, str, str]]:
    """Model, verdict, name and text of every history in the file."""
    text = Path(__file__).with_name("known_histories.txt").read_text()
    for block in text.split("\n\n")[1:]:
        heading, _, history = block.partition("\n")
        (model, verdict), name = heading.partition(": ")[0].split(", "), heading.partition(": ")[2]
        yield model, verdict, name, history


CASES = list(known())


@pytest.mark.parametrize(("model", "verdict", "name", "history"), CASES, ids=[f"{c[0]}: {c[2]}" for c in CASES])
def test_known_history(checker: Checker, model: str, verdict: str, name: str, history: str) -> None:
    operations = read(history)
    result = checker.check_operations(model, operations)
    assert result.verdict == verdict
    assert result.reason is None
    assert bool(result) == (verdict == "ok")
    (again,) = checker.check_many(MODELS[model], [operations])
    assert again.verdict == verdict


def test_initial_value(checker: Checker) -> None:
    operations = read("0 [0, 1] read() -> 0\n0 [2, 3] cas(0, 5) -> True")
    assert checker.check_operations(MODELS["cas-register"].starting(0), operations)
    assert not checker.check_operations("cas-register", operations)


def test_illegal_history_is_explained(checker: Checker) -> None:
    operations = read(
        """0 [0, 1] put("good", 1) -> None
        1 [0, 1] put("bad", 1) -> None
        2 [2, 3] get("bad") -> 1
        3 [4, 5] get("bad") -> 2
        4 [4, 5] get("good") -> unknown
        5 [4, 5] put("good", 2) -> failed"""
    )
    (bad,) = checker.check_operations("key-value", operations).partitions
    assert bad.operations == (1, 2, 3)
    assert bad.linearizations == ((1, 2),)
    assert bad.unplaced == (3,)
    assert not bad.complete
    assert checker.check_operations("key-value", operations, explain=False).partitions == ()


def test_first_operation_cannot_be_placed(checker: Checker) -> None:
    (partition,) = checker.check_operations("log", read("0 [0, 1] append(7) -> 5")).partitions
    assert partition.linearizations == ()
    assert partition.unplaced == (0,)
    assert not partition.complete


def test_many_keys_and_long_logs(checker: Checker) -> None:
    keys = [Operation(0, i, i, ("put", i, i), None) for i in range(20_000)]
    assert len(checker.check_operations("key-value", keys).partitions) == 20_000
    entries = [Operation(0, i, i, ("append", i), i) for i in range(20_000)]
    reads = [Operation(1, 10**6 + i, 10**6 + i, ("read", i), i) for i in range(20_000)]
    assert checker.check_operations("log", entries + reads)
    reads[777].output = 1
    result = checker.check_operations("log", entries + reads)
    assert result.verdict == "illegal"
    assert 20_777 in result.partitions[0].unplaced
