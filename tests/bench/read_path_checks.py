"""What checking a run of the read path costs over reading: all checks against only scanning the same Parquet file.

    python tests/bench/read_path_checks.py [--quick]

The run is the reference's under the setting `default` with few faults: six shards, four clients, two readers. The scan
is pyarrow's own (every column, record batches), in the same process. Both are told in processor seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent))

from checker import against_scan
from quorumlog.durations import SECOND
from quorumlog.read_path.protocol import PROTOCOL


def main() -> None:
    """Make the run, scan it, check it; print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 seconds of virtual time instead of 120")
    duration = (20 if parser.parse_args().quick else 120) * SECOND
    default = PROTOCOL.settings["default"]
    faults = replace(default.faults, per_second=0.1)
    print(json.dumps(against_scan(PROTOCOL, replace(default, duration=duration, faults=faults))))


if __name__ == "__main__":
    main()
