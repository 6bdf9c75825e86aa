"""Every recorded run is readable by this version and gets the verdicts that its manifest expects."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from loghistory import open_run

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs"
RECORDED = sorted(manifest.parent for manifest in RUNS.glob("*/*/manifest.json"))
LARGE = 30_000
"""Bytes of a run from which on it is left out of `make quick`."""


def _bytes(run: Path) -> int:
    return sum(file.stat().st_size for file in run.iterdir() if file.is_file())


judge = next(iter(entry_points(group="logwitness.judges", name="history"))).load()


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=run.relative_to(RUNS).as_posix(), marks=[pytest.mark.slow] if _bytes(run) > LARGE else [])
        for run in RECORDED
    ],
)
def test_recorded_run_gets_the_verdicts_expected(run: Path) -> None:
    source = open_run(run)
    assert source.manifest is not None
    expected = source.manifest.expected
    assert expected, "a recorded run states the verdicts expected of it"
    found = {check["id"]: check["verdict"] for check in judge(source)["checks"]}
    # A check of a protocol that the run does not show is not in the answer.
    assert {check: found.get(check, "unexercised") for check in expected} == expected
    # A check that is younger than the run has no expectation there: it may find fault with bad runs only.
    if "violated" not in expected.values():
        assert "violated" not in found.values()


def test_the_set_has_good_and_bad_runs_and_shows_most_checks() -> None:
    verdicts: dict[str, Counter[str]] = {}
    for run in RECORDED:
        manifest = open_run(run).manifest
        assert manifest is not None
        for check, verdict in (manifest.expected or {}).items():
            verdicts.setdefault(check, Counter())[verdict] += 1
    assert len(RECORDED) >= 20
    never_held = [check for check, seen in verdicts.items() if not seen["holds"] and {*seen} != {"undecided"}]
    assert never_held == [], "some run shows every check at work"
    violated = [check for check, seen in verdicts.items() if seen["violated"]]
    assert len(violated) >= 12


def test_what_the_runs_take_is_small_enough_to_keep() -> None:
    assert sum(map(_bytes, RECORDED)) < 9 << 20
