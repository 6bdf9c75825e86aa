"""What it costs to follow a run in the specification: processor time of `logwitness spec trace` for 100,000 events.

    python tests/bench/following.py [--quick] [--run DIR]

The run is simulated: a log that grows to 20,000 entries on three nodes, all acks levels, no readers. The aim is 60 s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from quorumlog.durations import SECOND
from quorumlog.faults import FaultMix
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.simulation.configuration import LogWorkload
from quorumlog.simulation.runs import made_by, save_run

SEED = 7
EVENTS = 100_000
APPENDS = LogWorkload(clients=30, read=0.0, read_committed=0.0, read_linearizable=0.0, tail=0.0)


def recorded(run: Path, seconds: float) -> None:
    """Simulate so many seconds of virtual time without faults."""
    configuration = RaftConfiguration(duration=int(seconds * SECOND), workload=APPENDS, faults=FaultMix(weights={}))
    table, _ = PROTOCOL.simulate(SEED, configuration)
    save_run(run, table, made_by("raft", SEED, configuration))


def main() -> None:
    """Record the run, follow it, print what 100,000 events take."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the run")
    parser.add_argument("--run", type=Path, help="follow this run instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = options.run or Path(scratch) / "run"
        if not options.run:
            recorded(run, 2.4 if options.quick else 24.0)
        command = [sys.executable, "-m", "logwitness", "spec", "trace", "--json", "--workers", "1", str(run)]
        begun = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        followed = [json.loads(line) for line in process.stdout]
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.monotonic() - begun
    if status:
        raise SystemExit(f"spec trace ended with {status}: {followed}")
    events = followed[-1]["events"]
    seconds = usage.ru_utime + usage.ru_stime  # of TLC as well, which has ended
    figures = {"events": events, "seconds": seconds, "per_100000": seconds * EVENTS / events, "elapsed": elapsed}
    print(f"{events:,} events, seed {SEED}: {seconds:.1f} s of processor time, {elapsed:.1f} s elapsed, ", end="")
    print(f"{figures['per_100000']:.1f} s for {EVENTS:,}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
