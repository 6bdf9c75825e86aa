"""What checking costs over reading: all checks of a long history against only scanning the same Parquet file.

    python tests/bench/checker.py [--quick]

The scan is pyarrow's own (every column, record batches), in the same process and run. Peak memory is the process's.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from loghistory import Format, Manifest, open_run, write_run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "checker"))

from long_history import batches

from logwitness.engine.local import check


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of this process; the machine's other work does not count."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Make the history, scan it, check it; print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1 million events instead of 20 million")
    events = 1_000_000 if parser.parse_args().quick else 20_000_000
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "long"
        write_run(directory, batches(events), Manifest(name="long"), Format.PARQUET)
        file = directory / "events.parquet"

        def scan() -> None:
            for _ in pq.ParquetFile(file).iter_batches():
                pass

        check(open_run(directory), compiled=True)  # compiles, or loads what was compiled
        scanned = min(seconds(scan) for _ in range(3))
        judged = min(seconds(lambda: check(open_run(directory), compiled=True)) for _ in range(2))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(f"{events:,} events: scan {scanned:.1f} s, all checks {judged:.1f} s, peak {memory:.2f} GiB")
    print(f"checking takes {judged / scanned:.1f} times the scan")
    print(json.dumps({"events": events, "scan": scanned, "checks": judged, "ratio": judged / scanned, "gib": memory}))


if __name__ == "__main__":
    main()
