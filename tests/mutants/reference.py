"""The reference of Raft: the runs of many seeds judged by all checks, every tenth followed by `logwitness spec trace`.

    python tests/mutants/reference.py [--seeds N] [--part N] [--processes N]

It works in parts, and each that holds is a line of out/reference.csv; started again, it goes on behind those that the
same sources made, so it may be interrupted at any time. The exit status is 0 only if no run was rejected and the
specification allows every tenth.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

from quorumlog.hunting.judge import Candidate, judge_seed
from quorumlog.hunting.parallel import in_order
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.simulation.runs import made_by, save_run

ROOT = Path(__file__).resolve().parents[2]
DONE = ROOT / "out" / "reference.csv"
SOURCES = ("impl", "checker", "spec", "histories/loghistory")
REFERENCE = Candidate("raft")


class Part(NamedTuple):
    """What came of some seeds; times in processor seconds."""

    sources: str
    first: int
    seeds: int
    judged_seconds: float
    followed: int
    events: int
    followed_seconds: float


def sources() -> str:
    """A digest of what decides how a run goes, how it is judged and what is allowed."""
    files = [file for place in SOURCES for file in (ROOT / place).rglob("*") if file.suffix in {".py", ".tla", ".yaml"}]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:12]


def spent() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def saved(seed: int, directory: Path) -> Path:
    """The run with this seed as a directory."""
    configuration = REFERENCE.configuration(seed)
    table, _ = PROTOCOL.simulate(seed, configuration)
    save_run(directory / str(seed), table, made_by("raft", seed, configuration))
    return directory / str(seed)


def survey(seeds: range, processes: int, digest: str) -> tuple[Part, list[str]]:
    """Judge these seeds and follow every tenth; what was wrong, in sentences."""
    wrong, began = [], spent()
    for seed, judged in zip(seeds, in_order(partial(judge_seed, REFERENCE), seeds, processes), strict=True):
        wrong += [f"seed {seed}: {each.check}: {each.sentence}" for each in judged.rejections]
    judged_seconds, began = spent() - began, spent()
    with tempfile.TemporaryDirectory(prefix="logwitness-") as directory:
        tenth = [seed for seed in seeds if seed % 10 == 0]
        runs = in_order(partial(saved, directory=Path(directory)), tenth, processes)
        command = [str(Path(sys.executable).with_name("logwitness")), "spec", "trace", "--json", "--workers", "1"]
        lines = subprocess.run([*command, *map(str, runs)], capture_output=True, text=True, check=False)
    *verdicts, whole = [json.loads(line) for line in lines.stdout.splitlines()] or [{}]
    wrong += [f"not allowed: {each}" for each in verdicts if each["verdict"] == "rejected"]
    if lines.returncode or not verdicts:
        wrong.append(f"spec trace ended with {lines.returncode}: {lines.stderr.strip()}")
    followed = sum(each["verdict"] == "accepted" for each in verdicts)
    times = round(judged_seconds, 1), round(spent() - began, 1)
    return Part(digest, seeds.start, len(seeds), times[0], followed, whole.get("events", 0), times[1]), wrong


def main() -> int:
    """Go through the parts that are not done, and show each as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--part", type=int, default=500, help="seeds of a part")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    digest = sources()
    DONE.parent.mkdir(exist_ok=True)
    with DONE.open("a+", newline="", encoding="utf-8") as file:
        file.seek(0)
        done = [Part(*row) for row in csv.reader(file) if row[0] == digest]  # type: ignore[arg-type]
        covered = {seed for part in done for seed in range(int(part.first), int(part.first) + int(part.seeds))}
        failed = False
        for first in range(0, asked.seeds, asked.part):
            seeds = range(first, min(first + asked.part, asked.seeds))
            if covered.issuperset(seeds):
                continue
            part, wrong = survey(seeds, asked.processes, digest)
            print(
                f"seeds {first} to {seeds[-1]}: {len(wrong)} wrong; judged in {part.judged_seconds} processor seconds, "
                f"{part.followed} followed with {part.events} events in {part.followed_seconds} s",
                *wrong,
                sep="\n  ",
                flush=True,
            )
            failed = failed or bool(wrong)
            if not wrong:
                csv.writer(file, lineterminator="\n").writerow(part)
                file.flush()
                covered |= {*seeds}
    print(f"{len(covered)} of {asked.seeds} seeds hold with these sources ({digest})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
