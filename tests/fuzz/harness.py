"""Fuzzing one reader with atheris: ``python harness.py TARGET CORPUS [libFuzzer arguments]``.

The corpus directory gets the target's seeds first. Same seed and corpus, same runs. Exit status 0: nothing found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["loghistory", "logwitness.models.kafka", "logwitness.report.baseline"]):
    import targets


def main() -> None:
    name, corpus, *arguments = sys.argv[1:]
    target = targets.TARGETS[name]
    Path(corpus).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        Path(corpus, f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], corpus, *arguments], target.run)
    atheris.Fuzz()


main()
