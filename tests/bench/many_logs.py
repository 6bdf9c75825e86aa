"""What a log costs where there are very many: memory and time of `logwitness check` over 60,000 logs of a few events.

    python tests/bench/many_logs.py [--quick]

Each history is JSON Lines. In the first each log has one append and its acknowledgement, in the second five, mixed with
those of all others, in the third clients append and read at random, so that few logs are alike. What the command costs
with a history of two events is taken off of what is told for a log. The aim is 2 kB and 50 microseconds a log.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

Row = dict[str, Any]


class Cost(NamedTuple):
    """What a command took: the most memory it held, in bytes, seconds of processor time and seconds by the clock."""

    memory: int
    seconds: float
    elapsed: float


def appends(logs: int, each: int) -> Iterator[Row]:
    """Appends to all logs in turn."""
    for number in range(each):
        for log in range(logs):
            op = number * logs + log
            common = {"log": f"log-{log}", "process": op % 50, "op": op, "f": "append"}
            yield {"kind": "invoke", "acks": -1, "value": op, **common}
            yield {"kind": "ok", "offset": number, "term": 1, **common}


def at_random(logs: int) -> Iterator[Row]:
    """Two clients of each log append and read, in any order."""
    chosen = random.Random(1)
    op = 0
    for log in range(logs):
        held: list[int] = []
        for _ in range(chosen.randrange(1, 6)):
            client = 2 * log + chosen.randrange(2)
            common = {"log": f"log-{log}", "process": client, "op": op}
            if chosen.random() < 0.5 or not held:
                yield {"kind": "invoke", "f": "append", "acks": -1, "value": op, **common}
                yield {"kind": "ok", "f": "append", "offset": len(held), "term": 1, **common}
                held.append(op)
            else:
                start = chosen.randrange(len(held))
                yield {"kind": "invoke", "f": "read", "offset": start, **common}
                for offset in range(start, len(held)):
                    yield {"kind": "observe", "offset": offset, "value": held[offset], **common}
                yield {"kind": "ok", "f": "read", "offset": len(held), **common}
            op += 1


def recorded(rows: Iterator[Row], file: Path) -> Path:
    """The events as a file."""
    with file.open("wb") as lines:
        lines.write(b'{"kind":"history","version":2}\n')
        for seq, row in enumerate(rows):
            lines.write(msgspec.json.encode({"seq": seq, "time": 1000 * seq, **row}) + b"\n")
    return file


def cost(file: Path) -> Cost:
    """What it costs to judge a file, which must hold."""
    command = [sys.executable, "-m", "logwitness", "check", "-q", "--isolated", str(file)]
    begun = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - begun
    if status:
        raise SystemExit(f"the check of {file.name} ended with {status}")
    return Cost(usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime, elapsed)


def main() -> None:
    """Make the histories, judge each, print what a log costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="6,000 logs instead of 60,000")
    logs = 6_000 if parser.parse_args().quick else 60_000
    figures: dict[str, float] = {"logs": logs}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        bare = cost(recorded(appends(1, 1), place / "one.jsonl"))
        for name, rows in (("1", appends(logs, 1)), ("5", appends(logs, 5)), ("random", at_random(logs))):
            file = recorded(rows, place / f"{name}.jsonl")
            found = cost(file)
            memory, seconds = (found.memory - bare.memory) / logs, (found.seconds - bare.seconds) / logs
            figures |= {f"bytes_{name}": memory, f"microseconds_{name}": seconds * 1e6}
            figures |= {f"MiB_{name}": found.memory >> 20, f"seconds_{name}": found.seconds}
            figures |= {f"elapsed_{name}": found.elapsed}
            what = "appends and reads at random" if name == "random" else f"{name} append{'s' * (name != '1')}"
            size = file.stat().st_size >> 20
            print(f"{logs:,} logs, {what}, {size} MiB: {memory:,.0f} bytes and {seconds * 1e6:.0f} µs a log", end="; ")
            print(f"in all {found.memory >> 20} MiB, {found.seconds:.1f} s ({found.elapsed:.1f} s elapsed)", flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
