"""What Spark is worth: `logwitness audit` on two cores against the engine in process, on the same histories.

    python tests/bench/audit.py [--quick]

Histories of a million events each, in Parquet. The engine judges one after the other, held on one core, then with
both; two engines judge half of them each, which is all that the machine gives; the audit does that and besides checks
every column, keeps canonical events and writes its tables. Spark's start is measured apart: the session, and a first
small audit that starts the Python workers and loads machine code. Then the growth from 1 to 100 million events, and
skewed inputs: one history with 90 % of all events; one with very many logs; very many small files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from loghistory import Format, Manifest, write_run
from loghistory.run import write_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "checker"))

from long_history import MADE_BY, batches

from logwitness.explain.transcripts import history
from logwitness.models import Limits
from logwitness.pipeline.run import audit_once
from logwitness.pipeline.session import check_spark, spark_session

MILLION = 1_000_000
ROUNDS = 3
"""Of the comparison with the engine; other work of the machine comes and goes."""

_IN_PROCESS = """
import os, sys, time
cores, *runs = sys.argv[1:]
os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
import pyarrow
pyarrow.set_cpu_count(len(os.sched_getaffinity(0)))
from loghistory import open_run
from logwitness.engine.local import check
check(open_run(runs[0]), compiled=True)
begun = time.perf_counter()
for run in runs:
    assert check(open_run(run), compiled=True).exit_status == 0
print(time.perf_counter() - begun)
"""


def in_process(runs: list[Path], cores: list[int]) -> float:
    """Seconds in which the engine judges these runs on these cores, in a process of its own, without its start."""
    return _seconds(_started(runs, cores))


def side_by_side(runs: list[Path], cores: list[int]) -> float:
    """The same for an engine on each core, with its share of the runs: what the machine gives at most."""
    return max(map(_seconds, [_started(runs[place :: len(cores)], [core]) for place, core in enumerate(cores)]))


def _started(runs: list[Path], cores: list[int]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _IN_PROCESS, ",".join(map(str, cores)), *map(str, runs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _seconds(engine: subprocess.Popen[str]) -> float:
    reported, _ = engine.communicate()
    if engine.returncode:
        raise SystemExit("the engine failed")
    return float(reported)


class Round(NamedTuple):
    """Seconds that judging the same histories took, one way after the other."""

    one_core: float
    all_cores: float
    side_by_side: float
    audit: float


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def copies(run: Path, place: Path, count: int) -> list[Path]:
    """The run under so many names. Files of its own for each, so that each is read."""
    for number in range(count):
        shutil.copytree(run, place / f"run-{number:03}")
    return sorted(place.iterdir())


def many_logs(logs: int) -> pa.Table:
    """One run with so many logs of ten events, all mixed."""
    lines = "c1 append v1 all|c1 ok 0 t1|c2 read 0|c2 sees 0 v1|c2 ok 1|c1 append v2 all|c1 ok 1 t1"
    one = history(f"{lines}|c2 read 1|c2 sees 1 v2|c2 ok 2").table
    place = np.tile(np.arange(logs), one.num_rows)
    table = one.take(pa.array(np.repeat(np.arange(one.num_rows), logs)))
    names = pa.DictionaryArray.from_arrays(pa.array(place, pa.int32()), pa.array([f"log-{n}" for n in range(logs)]))
    columns: dict[str, pa.Array] = {"seq": pa.array(np.arange(len(table))), "log": names}
    columns["time"] = columns["seq"]
    for name, step in (("op", 10), ("process", 2)):
        columns[name] = pa.array(table.column(name).to_numpy() + step * place)
    for name, column in columns.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(name), column)
    return table


def main() -> None:
    """Make the histories, judge them both ways; print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 million events instead of 100 million")
    quick = parser.parse_args().quick
    sys.stdout.reconfigure(line_buffering=True)
    most, logs, files = (10, 20_000, 1_000) if quick else (100, 100_000, 10_000)
    check_spark("audit")
    figures: dict[str, float] = {"events": most * MILLION}
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        write_run(place / "one" / "run", batches(MILLION), Manifest(name="long", made_by=MADE_BY), Format.PARQUET)
        runs = copies(place / "one" / "run", place / "source", most)
        session = spark_session("benchmark", "local[2]")
        started = time.perf_counter()
        with session as spark:

            def audit(source: Path, name: str) -> float:
                out = place / "out" / name
                took = seconds(lambda: audit_once(str(source), str(out), nullcontext(spark), Limits()))
                shutil.rmtree(out)
                return took

            def warm_audit(source: Path, name: str) -> float:
                audit(place / "warm", "warm")  # Spark ends workers that have nothing to do for a minute
                return audit(source, name)

            copies(place / "one" / "run", place / "warm", 8)
            audit(place / "warm", "warm")
            figures["start"] = time.perf_counter() - started
            print(f"Spark's start and a first audit: {figures['start']:.1f} s (not in the figures below)")
            for count in (1, 10, 100):
                if count <= most:
                    part = place / f"part-{count}"
                    part.mkdir()
                    for run in runs[:count]:
                        (part / run.name).mkdir()
                        for file in run.iterdir():
                            (part / run.name / file.name).hardlink_to(file)
                    figures[f"audit_{count}m"] = took = audit(part, f"growth-{count}")
                    print(f"audit on local[2] of {count} M events: {took:.1f} s, {count / took:.2f} M events/s")
            rounds = [
                Round(
                    in_process(runs, cores[:1]),
                    in_process(runs, cores),
                    side_by_side(runs, cores[:2]),
                    warm_audit(place / "source", "round"),
                )
                for _ in range(ROUNDS)
            ]
            middle = Round(*(statistics.median(times) for times in zip(*rounds, strict=True)))
            ratios = [each.one_core / each.audit for each in rounds]
            figures |= middle._asdict() | {"ratio": statistics.median(ratios)}
            print(f"{most} histories of 1 M events, medians of {ROUNDS} rounds:")
            print(f"  engine on one core         {middle.one_core:5.1f} s")
            print(f"  the same, reading ahead    {middle.all_cores:5.1f} s")
            print(f"  two engines, half for each {middle.side_by_side:5.1f} s: what the machine gives at most")
            print(f"  audit on local[2]          {middle.audit:5.1f} s")
            print(
                f"audit is {figures['ratio']:.2f} times as fast as the engine on one core "
                f"({min(ratios):.2f} to {max(ratios):.2f}), two engines {middle.one_core / middle.side_by_side:.2f}"
            )

            huge = batches(most * 9 * MILLION // 50)
            write_run(place / "skewed" / "huge", huge, Manifest(name="huge", made_by=MADE_BY), Format.PARQUET)
            copies(place / "one" / "run", place / "skewed" / "small", max(1, most // 50))
            alone = in_process([place / "skewed" / "huge", *(place / "skewed" / "small").iterdir()], cores[:1])
            figures["skewed"] = took = warm_audit(place / "skewed", "skewed")
            figures["skewed_ratio"] = alone / took
            print(
                f"one history has 90 % of {most // 5} M events: {took:.1f} s, {alone / took:.2f} times one core's speed"
            )

            write_run(place / "logs", many_logs(logs), Manifest(name="many logs"), Format.PARQUET)
            figures["many_logs"] = took = warm_audit(place / "logs", "logs")
            print(f"{logs:,} logs of ten events in one history: {took:.1f} s, {logs / took:,.0f} logs/s")

            (place / "files").mkdir()
            write_file(place / "few.jsonl", many_logs(1))
            for number in range(files):
                shutil.copyfile(place / "few.jsonl", place / "files" / f"{number:06}.jsonl")
            figures["many_files"] = took = audit(place / "files", "files")
            print(f"{files:,} files of ten events: {took:.1f} s, {files / took:,.0f} files/s")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
