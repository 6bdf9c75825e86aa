"""`make bench`: every benchmark in turn, each a ratio in one run; the figures are collected as JSON.

    python tests/bench [NAME...] [--quick]

A benchmark is a script beside this one. It prints a small table for people and, as its last line, its figures as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "out" / "bench.json"


def main(arguments: list[str]) -> int:
    """Run the benchmarks named, or all; the exit status is 0 only if each ran to its end."""
    quick = [argument for argument in arguments if argument == "--quick"]
    names = [argument for argument in arguments if argument not in quick]
    known = {script.stem: script for script in sorted(HERE.glob("*.py")) if not script.stem.startswith("_")}
    for name in names:
        if name not in known:
            print(f"there is no benchmark {name!r}; there are {', '.join(known)}", file=sys.stderr)
            return 2
    figures: dict[str, object] = {}
    failed = []
    for name in names or known:
        print(f"\n== {name}", flush=True)
        with subprocess.Popen([sys.executable, known[name], *quick], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            last = ""
            for line in process.stdout:
                print(line, end="", flush=True)
                last = line.strip() or last
        if process.returncode:
            failed.append(name)
        elif last.startswith("{"):
            figures[name] = json.loads(last)
    RESULTS.parent.mkdir(exist_ok=True)
    unfinished = RESULTS.with_suffix(".tmp")
    unfinished.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    unfinished.replace(RESULTS)
    print(f"\nfigures in {RESULTS.relative_to(HERE.parents[1])}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
