"""Both judges over thousands of simulated runs and of damaged copies, of all three protocols.

    python tests/second_judge/thousands.py [--runs N] [--copies N] [--first SEED] [--processes N] [--seconds S]

What the fast judge says is that of its loops as they stand; as machine code they have to say the same.

It works in parts of a few seeds, protocol after protocol, as many at once as there are cores. Each part in which the
judges agree is a line of out/second-judge.csv; started again it goes on behind those of the same sources, so it may be
interrupted at any time. A disagreement is printed with the seeds that make it; its part is judged again the next time.
The exit status is 0 only if there was none.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple, TypeAlias

sys.path.insert(0, str(Path(__file__).parent))

from comparison import disagreements, events_of, forms_differ, read_back
from damage import damaged
from sources import Source, simulated, simulated_servers, simulated_streams

ROOT = Path(__file__).resolve().parents[2]
DONE = ROOT / "out" / "second-judge.csv"
SOURCES = ("impl", "checker", "histories/loghistory", "tests/second_judge")

Play: TypeAlias = Callable[[int], Source | None]

PROTOCOLS: dict[str, tuple[Play, int]] = {
    "raft": (simulated, 20),
    "pull-queries": (simulated_servers, 8),
    "read-path": (simulated_streams, 8),
}
"""How a run is played, and how many seeds make a part: every setting and mutant has its turn in as few parts."""

FIRST = 10_000
"""Where seeds begin unless asked for others; those below are for the tests of `make test` and `make test-long`."""


class Part(NamedTuple):
    """What came of some seeds; ``simulated`` are runs, ``damaged`` copies of them that the reader takes."""

    sources: str
    protocol: str
    first: int
    simulated: int
    damaged: int
    differences: int
    seconds: float


def sources() -> str:
    """A digest of what decides how a run goes and what either judge says of it."""
    files = [file for place in SOURCES for file in (ROOT / place).rglob("*.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:12]


def damaged_copies(source: Source, other: Source, seeds: range) -> tuple[int, list[str]]:
    """How many copies of a history, damaged each by its own seed, were judged, and what the judges say differently."""
    found: list[str] = []
    rows, others = events_of(source.table), events_of(other.table)
    copies = 0
    for seed in seeds:
        kinds, copy = damaged(rows, others, seed)
        table = read_back(copy)
        if table is not None:
            copies += 1
            about = f"{source.name}, damaged by seed {seed}: {kinds}"
            found += map(str, disagreements(table, source.configuration, about))
            found += forms_differ(table, source.configuration, about)
    return copies, found


def judged(seeds: range, copies: int, play: Play) -> tuple[int, int, list[str]]:
    """Judge simulated runs and damaged copies of each: how many there were, and what the judges say differently."""
    runs = spoilt = 0
    found: list[str] = []
    for seed in seeds:
        source = play(seed)
        if source is not None:
            runs += 1
            found += map(str, disagreements(source.table, source.configuration, source.name))
            found += forms_differ(source.table, source.configuration, source.name)
            number, differences = damaged_copies(
                source, play(seed - 1) or source, range(seed * copies, (seed + 1) * copies)
            )
            spoilt += number
            found += differences
    return runs, spoilt, found


def before(digest: str) -> list[Part]:
    """The parts that these sources have done."""
    if not DONE.exists():
        return []
    with DONE.open() as file:
        rows = [
            Part(s, p, int(f), int(r), int(d), int(n), float(t)) for s, p, f, r, d, n, t in list(csv.reader(file))[1:]
        ]
    return [row for row in rows if row.sources == digest]


def judged_part(digest: str, protocol: str, first: int, copies: int) -> tuple[Part, list[str]]:
    """Judge the seeds of one part, and what the judges say differently."""
    play, seeds = PROTOCOLS[protocol]
    spent = time.process_time()
    runs, spoilt, found = judged(range(first, first + seeds), copies, play)
    spent = round(time.process_time() - spent, 1)
    return Part(digest, protocol, first, runs, spoilt, len(found), spent), found


def main() -> int:
    """Judge until there are so many runs, or so much time is spent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="simulated runs of all protocols together")
    parser.add_argument("--copies", type=int, default=3, help="damaged copies of each")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed; others make other runs")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="parts that are judged at once")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no part after so long")
    asked = parser.parse_args()
    began, digest = time.monotonic(), sources()
    done = before(digest)
    if not DONE.exists():
        DONE.parent.mkdir(exist_ok=True)
        DONE.write_text(",".join(Part._fields) + "\n")
    begun = {name: sum(part.protocol == name for part in done) for name in PROTOCOLS}
    later = {name: [p.first + seeds for p in done if p.protocol == name] for name, (_, seeds) in PROTOCOLS.items()}
    next_of = {name: max([asked.first, *seeds]) for name, seeds in later.items()}
    wrong, expected, running = 0, sum(part.simulated for part in done), set[Future[tuple[Part, list[str]]]]()
    with ProcessPoolExecutor(asked.processes) as pool:
        while True:
            while len(running) < asked.processes and expected < asked.runs and time.monotonic() - began < asked.seconds:
                protocol = min(PROTOCOLS, key=lambda name: (begun[name], name))
                first, seeds = next_of[protocol], PROTOCOLS[protocol][1]
                running.add(pool.submit(judged_part, digest, protocol, first, asked.copies))
                next_of[protocol], begun[protocol], expected = first + seeds, begun[protocol] + 1, expected + seeds
            if not running:
                break
            over, running = wait(running, return_when=FIRST_COMPLETED)
            for part, found in (each.result() for each in over):
                done.append(part)
                expected -= PROTOCOLS[part.protocol][1] - part.simulated
                print(*found, sep="\n", end="\n" * bool(found))
                wrong += len(found)
                if not found:
                    with DONE.open("a") as file:
                        csv.writer(file, lineterminator="\n").writerow(part)
                judged_so_far = f"{part.simulated} runs, {part.damaged} damaged copies, {part.seconds} s"
                print(f"{part.protocol}, seeds from {part.first} on: {judged_so_far}", flush=True)
    runs, copies = (sum(getattr(part, name) for part in done) for name in ("simulated", "damaged"))
    print(f"{runs:,} simulated runs and {copies:,} damaged copies judged twice; {wrong} differences")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
