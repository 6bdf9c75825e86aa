"""What importing costs: every format that is read, against only decoding the same operations by the standard library.

    python tests/bench/importers.py [--quick]

Each history has 300,000 operations, two maps each (ours: two events and more). The measure is `json.loads` for each
line of the same history as JSON Lines, in the same process and run: what a program pays that makes one Python object
of each line, checks nothing and pairs nothing. Both in processor seconds, the least of three times.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from loghistory import open_run
from loghistory.run import write_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "importers"))

from written import Map, Text, written

CLIENTS = 20


def histories(kind: str, operations: int) -> Iterator[Map]:
    """The maps of a history: so many operations, each told twice."""
    rng = random.Random(kind)
    running: dict[int, dict[str, Any]] = {}
    invoked = completed = offset = 0
    while completed < operations:
        process = rng.randrange(CLIENTS)
        common = {"process": process, "time": (invoked + completed) * 1000}
        opened = running.pop(process, None)
        if opened is not None:
            completed += 1
            answer, done = ANSWERS[kind](rng, opened, offset)
            offset += done
            yield {**opened, **common, "type": "ok", "value": answer}
        elif invoked < operations:
            invoked += 1
            running[process] = {**common, "type": "invoke", **ASKED[kind](rng, invoked)}
            yield running[process]


def _register(rng: random.Random, _: int) -> dict[str, Any]:
    f = rng.choice(["read", "write", "cas"])
    return {"f": f, "value": {"read": None, "write": rng.randrange(5)}.get(f, [rng.randrange(5), rng.randrange(5)])}


def _store(rng: random.Random, _: int) -> dict[str, Any]:
    f = rng.choice(["get", "put", "append"])
    return {"f": f, "key": Text(rng.randrange(10)), "value": None if f == "get" else Text(f"x {rng.randrange(99)} y")}


def _appends(rng: random.Random, number: int) -> dict[str, Any]:
    return {"f": "append", "value": number}


def _kafka(rng: random.Random, number: int) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"f": "send", "value": [["send", rng.randrange(10), number]]}
    return {"f": "poll", "value": [["poll"]]}


def _register_answer(rng: random.Random, opened: Map, _: int) -> tuple[Any, int]:
    return (rng.randrange(5) if opened["f"] == "read" else opened["value"]), 0


def _store_answer(rng: random.Random, opened: Map, _: int) -> tuple[Any, int]:
    return (Text(f"x {rng.randrange(99)} y") if opened["f"] == "get" else opened["value"]), 0


def _kafka_answer(rng: random.Random, opened: Map, offset: int) -> tuple[Any, int]:
    if opened["f"] == "poll":
        first = max(0, offset - 5)
        return [["poll", {rng.randrange(10): [[each, each] for each in range(first, first + 5)]}]], 0
    ((_, key, value),) = opened["value"]
    return [["send", key, [offset, value]]], 1


ASKED: dict[str, Callable[[random.Random, int], dict[str, Any]]] = {
    "register": _register,
    "store": _store,
    "log": _appends,
    "kafka": _kafka,
}
ANSWERS: dict[str, Callable[[random.Random, Map, int], tuple[Any, int]]] = {
    "register": _register_answer,
    "store": _store_answer,
    "log": lambda _, opened, offset: ([offset, opened["value"]], 1),
    "kafka": _kafka_answer,
}
FILES = {
    "EDN, register": ("register", "EDN, a map a line"),
    "EDN, key-value": ("store", "EDN, without times"),
    "EDN, log": ("log", "EDN, a map a line"),
    "EDN, Kafka-like": ("kafka", "EDN, a map a line"),
    "JSON Lines, register": ("register", "JSON, an object a line"),
    "JSON, one array": ("register", "JSON, one array"),
    "JSON Lines, Kafka-like": ("kafka", "JSON, an object a line"),
    "text log, register": ("register", "log"),
}
"""By name: the history and the form in which it is written."""


def seconds(work: Callable[[], int]) -> tuple[float, int]:
    """The least processor seconds of three times, and what the work answered."""
    found = []
    for _ in range(3):
        before = time.process_time()
        answer = work()
        found.append(time.process_time() - before)
    return min(found), answer


def decoded(path: Path) -> int:
    """Decode every line by the standard library."""
    count = 0
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
            count += 1
    return count


def imported(path: Path) -> int:
    """Read a history as events."""
    return sum(batch.num_rows for batch in open_run(path).batches())


def main() -> None:
    """Write each history, decode it, import it; print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="30,000 operations instead of 300,000")
    operations = 30_000 if parser.parse_args().quick else 300_000
    figures: dict[str, float] = {"operations": operations}
    print(f"{operations:,} operations        events   events/s   import s   decode s   times")
    with tempfile.TemporaryDirectory() as scratch:
        measure = Path(scratch, "measure.jsonl")
        measured = ""
        taken = 0.0
        for name, (kind, form) in FILES.items():
            maps = list(histories(kind, operations))
            if measured != kind:
                measure.write_bytes(written(maps, "JSON, an object a line"))
                taken, measured = seconds(lambda: decoded(measure))[0], kind
            path = Path(scratch, "history")
            path.write_bytes(written(maps, form))
            del maps
            _tell(name, path, taken, figures)
        ours = Path(scratch, "ours.jsonl")
        write_file(ours, open_run(path).table())
        _tell("ours, JSON Lines", ours, seconds(lambda: decoded(ours))[0], figures)
    print(json.dumps(figures))


def _tell(name: str, path: Path, decode: float, figures: dict[str, float]) -> None:
    took, events = seconds(lambda: imported(path))
    figures[name] = took / decode
    print(f"  {name:<24} {events:>9,} {events / took:>10,.0f} {took:>10.2f} {decode:>10.2f} {took / decode:>7.2f}")


if __name__ == "__main__":
    main()
