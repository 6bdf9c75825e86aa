"""What checking a run of pull queries costs over reading: all checks against only scanning the same Parquet file.

    python tests/bench/pull_queries.py [--quick]

The run is the reference's under the setting `default` with few faults: heartbeats, checks and lag reports of four
servers, and the queries of four clients. The scan is pyarrow's own (every column, record batches), in the same process.
Both are told in processor seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from msgspec.structs import replace

from loghistory import Format, Manifest, open_run, write_run

sys.path.insert(0, str(Path(__file__).resolve().parent))

from checker import seconds
from logwitness.engine.local import check
from quorumlog.durations import SECOND
from quorumlog.pull_queries.protocol import PROTOCOL
from quorumlog.simulation.runs import made_by


def main() -> None:
    """Make the run, scan it, check it; print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="half a minute of virtual time instead of ten")
    duration = (30 if parser.parse_args().quick else 600) * SECOND
    default = PROTOCOL.settings["default"]
    faults = replace(default.faults, per_second=0.05)
    configuration = replace(default, duration=duration, faults=faults, log_faults=replace(faults, per_second=0.0))
    table, _ = PROTOCOL.simulate(1, configuration)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "run"
        made = made_by(PROTOCOL.name, 1, configuration)
        write_run(directory, table.to_batches(), Manifest(name="run", made_by=made), Format.PARQUET)
        file = directory / "events.parquet"

        def scan() -> None:
            for _ in pq.ParquetFile(file).iter_batches():
                pass

        check(open_run(directory), compiled=True)  # compiles, or loads what was compiled
        scanned = seconds(scan, 5)
        judged = seconds(lambda: check(open_run(directory), compiled=True), 3)
    ratio = judged.processor / scanned.processor
    each = judged.processor / table.num_rows * 1e6
    print(f"{table.num_rows:,} events: scan {scanned.processor:.3f} s, all checks {judged.processor:.2f} s")
    print(f"checking takes {ratio:.1f} times the scan, {each:.1f} us an event")
    figures = {"events": table.num_rows, "scan": scanned.processor, "checks": judged.processor, "ratio": ratio}
    print(json.dumps(figures | {"us_an_event": each}))


if __name__ == "__main__":
    main()
