"""`make bench`: every benchmark in turn, each a ratio in one run; the figures are collected as JSON.

    python tests/bench [NAME...] [--quick]
    python tests/bench [NAME...] [--quick] --against CHECKOUT [--turns 3]

A benchmark is a script beside this one. It prints a small table for people and, as its last line, its figures as JSON.
`--against` compares with another checkout of this project that is set up: the benchmarks that both have, in turns, and
of each figure that both print the median there, the median here, and how many times the one is the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "out" / "bench.json"


def benchmarks(checkout: Path) -> dict[str, Path]:
    """The benchmarks of a checkout by name."""
    scripts = sorted((checkout / "tests" / "bench").glob("*.py"))
    return {script.stem: script for script in scripts if not script.stem.startswith("_")}


def play(script: Path, python: str, quick: list[str]) -> Any:  # noqa: ANN401
    """Run a benchmark, showing what it prints; its figures, or None if it did not run to its end."""
    with subprocess.Popen([python, script, *quick], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return None if process.returncode else json.loads(last) if last.startswith("{") else {}


def numbers(figures: Any, place: str = "") -> Iterator[tuple[str, float]]:  # noqa: ANN401
    """The numbers in a document, each with where it stands."""
    if isinstance(figures, dict | list):
        for key, value in figures.items() if isinstance(figures, dict) else enumerate(figures):
            yield from numbers(value, f"{place}.{key}" if place else str(key))
    elif isinstance(figures, int | float):
        yield place, float(figures)


def compare(names: list[str], quick: list[str], other: Path, turns: int) -> list[str]:
    """Play benchmarks of both checkouts in turns and print how their figures compare; the names of those that fail."""
    sides = {"there": (other, str(other / ".venv" / "bin" / "python")), "here": (ROOT, sys.executable)}
    compared, failed = [], []
    for name in names:
        found: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
        for turn in range(turns):
            for side, (checkout, python) in sides.items():
                print(f"\n== {name}, {side}, {turn + 1} of {turns}", flush=True)
                figures = play(benchmarks(checkout)[name], python, quick)
                if figures is None:
                    failed.append(f"{name} ({side})")
                for place, number in numbers(figures):
                    found[side].setdefault(place, []).append(number)
        for place in found["here"].keys() & found["there"].keys():
            there, here = (median(found[side][place]) for side in ("there", "here"))
            compared.append((f"{name}.{place}", there, here, f"{here / there:.2f}" if there else ""))
    print(f"\n{'figure':<56} {'there':>12} {'here':>12} {'times':>6}")
    for figure, there, here, times in sorted(compared):
        print(f"{figure:<56} {there:>12.5g} {here:>12.5g} {times:>6}")
    return failed


def main() -> int:
    """Run the benchmarks named, or all; the exit status is 0 only if each ran to its end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; without any, all")
    parser.add_argument("--quick", action="store_true", help="the small size of each")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with what it prints in this one")
    parser.add_argument("--turns", type=int, default=3, help="how often each is played in both (3)")
    asked = parser.parse_args()
    known = benchmarks(ROOT)
    if asked.against is not None:
        if not (asked.against / ".venv" / "bin" / "python").exists():
            parser.error(f"{asked.against} is not a checkout that is set up: run make setup there")
        known = {name: script for name, script in known.items() if name in benchmarks(asked.against)}
    for name in asked.names:
        if name not in known:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(known)}")
    names, quick = asked.names or [*known], ["--quick"] * asked.quick
    if asked.against is not None:
        failed = compare(names, quick, asked.against.resolve(), asked.turns)
        print(f"\nfailed: {', '.join(failed)}" if failed else "")
        return 1 if failed else 0
    figures: dict[str, object] = {}
    failed = []
    for name in names:
        print(f"\n== {name}", flush=True)
        found = play(known[name], sys.executable, quick)
        if found is None:
            failed.append(name)
        elif found:
            figures[name] = found
    RESULTS.parent.mkdir(exist_ok=True)
    unfinished = RESULTS.with_suffix(".tmp")
    unfinished.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    unfinished.replace(RESULTS)
    print(f"\nfigures in {RESULTS.relative_to(ROOT)}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
