"""Judges every small history of the checker and the recorded runs; writes the verdicts as JSON, and the order of the
kinds.

    python tests/histories/judge_everything.py [--compiled] [--large]

The longer recorded runs take longer than all others together; they are left out unless they are asked for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from loghistory import Kind, open_run
from logwitness.engine.local import check
from logwitness.explain.transcripts import HISTORIES, all_cases, cases

ROOT = Path(__file__).resolve().parents[2]
LARGE = 1500
"""Events."""


def verdicts(*, compiled: bool, large: bool) -> dict[str, Any]:
    """All that is said, by the name of what is judged."""
    found: dict[str, Any] = {}
    for number, case in enumerate([*all_cases(), *cases(HISTORIES / "healthy.txt")]):
        found[f"{case.place} {number}"] = check(case.table, configuration=case.configuration, compiled=compiled)
    for manifest in sorted((ROOT / "histories" / "runs").glob("*/*/manifest.json")):
        if not large and json.loads(manifest.read_text())["events"] >= LARGE:
            continue
        found[str(manifest.parent.relative_to(ROOT))] = check(open_run(manifest.parent), compiled=compiled)
    return found


if __name__ == "__main__":
    answer = {
        "kinds": list(map(str, Kind)),
        "verdicts": verdicts(compiled="--compiled" in sys.argv, large="--large" in sys.argv),
    }
    sys.stdout.buffer.write(msgspec.json.encode(answer))
