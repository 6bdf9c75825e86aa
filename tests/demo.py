"""`make demo`: three real processes under load, their leader killed; the run judged; then a recorded bad run
explained."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGWITNESS = Path(sys.executable).with_name("logwitness")
GOOD = "out/demo"
BAD = "histories/runs/raft/mutant-commit-counts-dirty"

STEPS: tuple[tuple[str, list[str], int], ...] = (
    (
        "1. Three real processes replicate a log; their leader is killed under load and comes back",
        [
            "cluster",
            "--nodes",
            "3",
            "--duration",
            "10",
            "--seed",
            "7",
            "--faults",
            "kill-leader",
            "--force",
            "-o",
            GOOD,
        ],
        0,
    ),
    ("2. The checker judges what was recorded", ["check", GOOD], 0),
    ("3. A recorded run of a faulty protocol: it counts unflushed entries as committed", ["check", BAD], 1),
)


def main() -> int:
    """Run the steps; the exit status is 0 only if each ended as it should."""
    begun = time.monotonic()
    for title, arguments, expected in STEPS:
        print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n{title}")
        print(f"$ logwitness {' '.join(arguments)}", flush=True)
        status = subprocess.run([LOGWITNESS, *arguments], cwd=ROOT, check=False).returncode
        if status != expected:
            print(f"the demo expected exit status {expected} here and got {status}", file=sys.stderr)
            return 1
    print(f"\nThe demo took {time.monotonic() - begun:.0f} s. The recorded run is in {GOOD}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
