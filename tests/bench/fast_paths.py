"""What each faster way buys: the same work with it and without it, in one process and run.

    python tests/bench/fast_paths.py [--quick]

Reading: the processor time of an import, against that with one way taken out, so that the general one does its work.
Spark: the seconds of an audit on two cores and the memory of its largest task, against those with a way of splitting
work switched off. A way that buys less than 1.3 times of either is a candidate for deletion.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import logwitness.pipeline.audit as audit_module
from loghistory import Format, Manifest, write_run
from loghistory.importers import reading, shapes
from logwitness.models import Limits
from logwitness.pipeline.run import audit_once
from logwitness.pipeline.session import check_spark, spark_session

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "importers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "checker"))

from audit import MILLION
from long_history import batches
from written import written

from importers import histories, imported

NEVER = 1 << 62
"""More events than any history has."""

_FILES = {
    "EDN, register": ("register", "EDN, a map a line"),
    "EDN, Kafka-like": ("kafka", "EDN, a map a line"),
    "JSON Lines, register": ("register", "JSON, an object a line"),
    "JSON Lines, Kafka-like": ("kafka", "JSON, an object a line"),
}

_WAYS: dict[str, tuple[Any, str, Any]] = {
    "shapes": (shapes.Shapes, "read", lambda _, lines: [None] * len(lines)),
    "objects": (reading, "objects", lambda lines: [None] * len(lines)),
}
"""The faster ways of reading: where each is called, and what the caller is told instead: do it the general way."""


@contextmanager
def without(way: tuple[Any, str, Any]) -> Iterator[None]:
    """The program without one of its faster ways."""
    place, name, instead = way
    kept = getattr(place, name)
    setattr(place, name, instead)
    try:
        yield
    finally:
        setattr(place, name, kept)


def processor_seconds(work: Callable[[], object]) -> float:
    """The least of two times."""
    found = []
    for _ in range(2):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return min(found)


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


class LargestTask:
    """The most memory that a Python worker of Spark has had while this was open, in MB; Linux only."""

    def __enter__(self) -> LargestTask:
        self.megabytes = 0
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                        lines = (process / "status").read_text().splitlines()
                        most = next((line for line in lines if line.startswith("VmHWM")), "VmHWM: 0")
                        self.megabytes = max(self.megabytes, int(most.split()[1]) // 1024)


def reading_ways(scratch: Path, operations: int) -> dict[str, float]:
    """How many times the processor time each import takes without each way."""
    figures: dict[str, float] = {}
    path = scratch / "history"
    print(f"{operations:,} operations, processor seconds with all ways; how many times as many without:")
    for name, (kind, form) in _FILES.items():
        path.write_bytes(written(list(histories(kind, operations)), form))
        base = processor_seconds(lambda: imported(path))
        print(f"  {name:<24} {base:6.2f} s", end="", flush=True)
        for way, replaced in _WAYS.items():
            with without(replaced):
                times = processor_seconds(lambda: imported(path)) / base
            figures[f"{name}, without {way}"] = times
            print(f"  {way} {times:.2f}", end="", flush=True)
        print()
    return figures


def splitting_ways(scratch: Path, events: int) -> dict[str, float]:
    """Seconds of audits and megabytes of their largest tasks, with and without each way of splitting work."""
    check_spark("audit")
    write_run(scratch / "long" / "run", batches(events), Manifest(name="long"), Format.PARQUET)
    figures: dict[str, float] = {}

    def audit(what: str, large: int, by_ranges: int = NEVER) -> None:
        """A session for each, since a worker gives back little of what it had."""
        with (
            spark_session("benchmark", "local[2]") as spark,
            without((audit_module, "FROM_EVENTS", by_ranges)),
            LargestTask() as largest,
        ):
            place, out, session = str(scratch / "long"), str(scratch / "out"), nullcontext(spark)
            took = seconds(lambda: audit_once(place, out, session, Limits(), large=large))
        shutil.rmtree(scratch / "out")
        figures[f"{what}, seconds"], figures[f"{what}, megabytes"] = round(took, 1), largest.megabytes
        print(f"  {what:<24} {took:6.1f} s  {largest.megabytes:6,} MB", flush=True)

    print(f"a log of {events:,} events")
    audit("one task", NEVER)
    audit("families", MILLION)
    audit("families and ranges", MILLION, by_ranges=1)
    return figures


def main() -> None:
    """Measure every way; print a table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the operations, events and logs")
    part = 10 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory() as scratch:
        figures = reading_ways(Path(scratch), 100_000 // part)
        figures |= splitting_ways(Path(scratch), 20 * MILLION // part)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
