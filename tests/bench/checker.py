"""What checking costs over reading: all checks of a long history against only scanning the same Parquet file.

    python tests/bench/checker.py [--quick]

The scan is pyarrow's own (every column, record batches), in the same process and run. Both are told in processor
seconds, which the machine's other work changes little, and in seconds that passed. Peak memory is that of a process
`logwitness check` of its own. Part of the checking is what any check would need, and is told apart: to read the columns
and validate them, and to hand them over as arrays without nulls. That is the floor below the checks themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from loghistory import Format, Manifest, open_run, write_run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "checker"))

from long_history import MADE_BY, batches

from logwitness.checks.columns import Reader
from logwitness.engine.local import BATCH_ROWS, check, families_for, setting_of
from quorumlog.protocol import Protocol
from quorumlog.simulation.configuration import ClusterConfiguration
from quorumlog.simulation.runs import made_by


class Took(NamedTuple):
    """What some work took."""

    processor: float
    passed: float


def seconds(work: Callable[[], object], times: int) -> Took:
    """The least that the work took, of several times."""
    found = []
    for _ in range(times):
        before, begun = time.process_time(), time.perf_counter()
        work()
        found.append(Took(time.process_time() - before, time.perf_counter() - begun))
    return Took(min(took.processor for took in found), min(took.passed for took in found))


def hand_over(run: Path, *, as_arrays: bool) -> None:
    """Read and validate the columns that the checks of a run need; hand them over as the checks read them."""
    source = open_run(run)
    setting = setting_of(source, compiled=True)
    wanted = {column for family in families_for(None, setting) for column in family.columns}
    reader = Reader("run", wanted, setting.words, compiled=True)
    for batch in source.batches(reader.reads, batch_rows=BATCH_ROWS, coded_texts=True):
        if as_arrays:
            reader.columns(batch)


def against_scan(protocol: Protocol, configuration: ClusterConfiguration) -> dict[str, float]:
    """Play a run, and compare all its checks with a bare scan of its Parquet file; printed, and as figures."""
    table, _ = protocol.simulate(1, configuration)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "run"
        made = made_by(protocol.name, 1, configuration)
        write_run(directory, table.to_batches(), Manifest(name="run", made_by=made), Format.PARQUET)
        file = directory / "events.parquet"

        def scan() -> None:
            for _ in pq.ParquetFile(file).iter_batches():
                pass

        check(open_run(directory), compiled=True)  # compiles, or loads what was compiled
        scanned = seconds(scan, 5)
        judged = seconds(lambda: check(open_run(directory), compiled=True), 3)
        read, handed = (seconds(partial(hand_over, directory, as_arrays=each), 3) for each in (False, True))
    ratio, of_read, of_handed = (took.processor / scanned.processor for took in (judged, read, handed))
    each = judged.processor / table.num_rows * 1e6
    print(f"{table.num_rows:,} events: scan {scanned.processor:.3f} s, all checks {judged.processor:.2f} s")
    print(f"checking takes {ratio:.1f} times the scan, {each:.2f} us an event; the columns that it needs take")
    print(f"{of_read:.1f} times the scan to read and validate, and {of_handed:.1f} times to hand over besides")
    figures = {"events": table.num_rows, "scan": scanned.processor, "checks": judged.processor, "ratio": ratio}
    return figures | {"us_an_event": each, "read": of_read, "handed_over": of_handed}


_COMMAND = """
import sys
from logwitness.cli import main
try:
    main()
finally:
    (peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(peak.split()[1], file=sys.stderr)
"""


def peak_of_command(run: Path) -> float:
    """GiB that `logwitness check` of this run takes at most.

    As the kernel counts it for the process since it began its program: what `resource` tells of a child includes its
    parent.
    """
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, "check", str(run)], check=True, capture_output=True, text=True, timeout=600
    )
    return int(done.stderr.split()[-1]) / (1 << 20)


def main() -> None:
    """Make the history, scan it, check it; print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1 million events instead of 20 million")
    events = 1_000_000 if parser.parse_args().quick else 20_000_000
    with tempfile.TemporaryDirectory() as scratch:
        first, directory = Path(scratch) / "first", Path(scratch) / "long"
        write_run(first, batches(20_000), Manifest(name="first", made_by=MADE_BY), Format.PARQUET)
        write_run(directory, batches(events), Manifest(name="long", made_by=MADE_BY), Format.PARQUET)
        file = directory / "events.parquet"

        def scan() -> None:
            for _ in pq.ParquetFile(file).iter_batches():
                pass

        check(open_run(first), compiled=True)  # compiles, or loads what was compiled
        scanned = seconds(scan, 3)
        judged = seconds(lambda: check(open_run(directory), compiled=True), 3)
        read, handed = (seconds(partial(hand_over, directory, as_arrays=each), 3) for each in (False, True))
        memory = peak_of_command(directory)
    ratio = Took(*(a / b for a, b in zip(judged, scanned, strict=True)))
    print(f"{events:,} events     processor s   passed s")
    parts = ("scan", scanned), ("reading", read), ("hand-over too", handed), ("all checks", judged), ("times", ratio)
    for name, took in parts:
        print(f"  {name:<14} {took.processor:>11.2f} {took.passed:>10.2f}")
    print(f"checking takes {ratio.processor:.1f} times the scan, and {memory:.2f} GiB at most")
    figures = {"events": events, "scan": scanned.processor, "checks": judged.processor, "ratio": ratio.processor}
    figures |= {"read": read.processor / scanned.processor, "handed_over": handed.processor / scanned.processor}
    print(json.dumps(figures | {"ratio_passed": ratio.passed, "gib": memory}))


if __name__ == "__main__":
    main()
