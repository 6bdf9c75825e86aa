"""Every check on small histories: what holds, what is violated and by which events, what is unexercised."""

from __future__ import annotations

import msgspec
import pytest

from loghistory import SCHEMA
from loghistory.source import checked
from logwitness import Verdict, check
from logwitness.checks import all_checks, families
from logwitness.checks.kernel import available
from logwitness.explain.transcripts import HISTORIES, Case, all_cases, cases, history

CASES = [case for case in all_cases() if case.check != "-"]


def _healthy(name: str) -> Case | None:
    """The history that exercises the checks of a family or protocol, where they have one of their own."""
    file = HISTORIES / f"healthy_{name.replace('-', '_')}.txt"
    return next(iter(cases(file))) if file.exists() else None


(HEALTHY,) = cases(HISTORIES / "healthy.txt")
HEALTHY_OF = {
    each.id: _healthy(family.name) or (family.protocol and _healthy(family.protocol.name)) or HEALTHY
    for family in families()
    for each in family.checks
}
"""A history that exercises the check."""
IDS = [each.id for each in all_checks()]
OVERALL = {"linearizable-log"}
"""Says of the history as a whole what several others say one by one; has tests of its own beside Porcupine's."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.place}-{case.check}-{case.verdict}")
def test_case(case: Case) -> None:
    outcomes = {each.id: each for each in check(case.table, configuration=case.configuration).checks}
    outcome = outcomes[case.check]
    broken = {each.id for each in outcomes.values() if each.violated} - (OVERALL - {case.check} - case.also)
    assert broken == case.also | ({case.check} if case.verdict == "violated" else set())
    assert str(outcome.verdict) == case.verdict
    assert outcome.excused == case.excused
    if case.verdict == "violated":
        assert outcome.violated == case.count
        assert list(outcome.violations[0].events) == case.shown
        assert "{" not in outcome.violations[0].sentence


@pytest.mark.parametrize("case", [HEALTHY, *all_cases()], ids=lambda case: f"{case.place}-{case.check}")
def test_a_case_is_a_history_that_can_be_recorded(case: Case) -> None:
    assert sum(batch.num_rows for batch in checked(case.table, case.place)) == len(case.rows)


@pytest.mark.parametrize("name", IDS)
def test_a_healthy_history_exercises_the_check(name: str) -> None:
    healthy = HEALTHY_OF[name]
    outcomes = {each.id: each for each in check(healthy.table, [name], configuration=healthy.configuration).checks}
    assert list(outcomes) == [name]
    assert outcomes[name].verdict is Verdict.HOLDS
    assert outcomes[name].judged > 0
    assert name in OVERALL or not outcomes[name].excused + outcomes[name].unjudged


@pytest.mark.parametrize("name", IDS)
def test_every_check_has_a_case_that_violates_it(name: str) -> None:
    (breach,) = ("undecided" if each.doubtful else "violated" for each in all_checks() if each.id == name)
    assert any(case.check == name and case.verdict == breach for case in CASES)


@pytest.mark.parametrize("name", IDS)
def test_without_its_kinds_it_does_not_hold(name: str) -> None:
    """A check never holds for want of the events that it says it needs."""
    (needs,) = (each.kinds for each in all_checks() if each.id == name)
    healthy = HEALTHY_OF[name]
    for kind in needs:
        rows = [row for row in healthy.rows if row["kind"] != kind]
        assert len(rows) < len(healthy.rows)
        (outcome,) = check(_table(rows), [name], configuration=healthy.configuration).checks
        # A history that lost all events of a kind may not be well formed any more.
        assert outcome.verdict is not Verdict.HOLDS, kind


def test_nothing_at_all_is_never_green() -> None:
    verdict = check(HEALTHY.table.slice(0, 0))
    assert verdict.verdict is Verdict.UNEXERCISED
    assert verdict.exit_status == 3
    assert {each.verdict for each in verdict.checks} == {Verdict.UNEXERCISED}
    assert "phantom" in {each.id for each in verdict.checks}


def test_a_required_check_must_be_exercised() -> None:
    rows = [row for row in HEALTHY.rows if row.get("f") != "tail"]
    voters = HEALTHY.configuration
    assert check(_table(rows), configuration=voters).exit_status == 0
    assert check(_table(rows), configuration=voters, required=["stale-tail"]).exit_status == 3


def test_ids_are_unique_and_described() -> None:
    assert len(set(IDS)) == len(IDS)
    for family in families():
        for each in family.checks:
            assert each.rule.endswith(".")
            assert each.fact
            assert each.source
            assert set(each.kinds) <= family.kinds
            assert set(each.columns) <= set(SCHEMA.names)


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="numba is not installed")
@pytest.mark.parametrize("case", [HEALTHY, *CASES], ids=lambda case: f"{case.place}-{case.check}")
def test_compiled_loops_agree(case: Case) -> None:
    plain = check(case.table, configuration=case.configuration, compiled=False)
    compiled = check(case.table, configuration=case.configuration, compiled=True)
    assert msgspec.to_builtins(plain) == msgspec.to_builtins(compiled)


def test_a_line_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a client does no observe: it does append, .*sees"):
        history("c1 read 0|c1 observe 0 v1")


@pytest.mark.timeout(60)
def test_an_offset_that_no_log_can_have_is_judged() -> None:
    """Nothing is below -1: a search for it ends at the empty log."""
    lines = "n1 start|n1 append 0 t1 v1 1|n1 acked 0 t1 1 truncated commit=-3|n1 truncate 0 offset=-3"
    assert check(history(lines).table, ["truncated-rule"]).verdict is Verdict.VIOLATED


def _table(rows: list[dict[str, object]]):  # noqa: ANN202
    return Case("", "", "", rows=rows).table
