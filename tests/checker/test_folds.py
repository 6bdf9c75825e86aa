"""What every fold promises: how a run is cut, what other logs it has and the form of loops change nothing."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwitness import RunVerdict, check
from logwitness.checks import families_of
from logwitness.checks.columns import Reader
from logwitness.checks.contract import Setting, Verdicts
from logwitness.explain.transcripts import HISTORIES, Case, all_cases, cases

CASES = all_cases()
(HEALTHY,) = cases(HISTORIES / "healthy.txt")

# Events of a few nodes and clients in any order, sensible or not: folds must never fail on them.
_SMALL = st.integers(-1, 6)
_NODE_EVENT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            [
                "start",
                "stop",
                "crash",
                "power_loss",
                "storage_error",
                "term",
                "vote",
                "leader",
                "role",
                "append",
                "flush",
                "truncate",
                "commit",
                "visible",
                "acked",
            ]
        ),
        "node": st.integers(0, 3),
        "incarnation": st.integers(0, 3),
        "term": st.integers(0, 4),
        "peer": st.integers(0, 3),
        "role": st.sampled_from(["follower", "candidate", "leader"]),
        "offset": st.integers(0, 6),
        "entry_term": st.integers(0, 4),
        "value": st.integers(0, 9),
        "acks": st.sampled_from([-1, 0, 1]),
        "dirty": _SMALL,
        "flushed": _SMALL,
        "commit": _SMALL,
        "visible": st.none() | _SMALL,
        "reason": st.sampled_from(["success", "truncated", "timeout"]),
        "bytes": st.none() | st.integers(0, 99),
    }
)
_CLIENT_EVENT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["invoke", "observe", "observe", "ok", "fail", "info"]),
        "process": st.integers(0, 3),
        "op": st.integers(0, 9),
        "f": st.sampled_from(["append", "read", "read_committed", "tail", "final_read", "cas"]),
        "offset": st.integers(0, 6),
        "value": st.none() | st.integers(0, 9),
        "acks": st.sampled_from([None, -1, 0, 1]),
        "term": st.none() | st.integers(0, 3),
    }
)
_OTHER_EVENT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["fault", "heal", "phase", "trim", "compact"]),
        "node": st.none() | st.integers(0, 3),
        "f": st.sampled_from(["wipe", "partition", "power_loss", "load"]),
        "offset": st.integers(0, 6),
        "last_offset": st.none() | st.integers(6, 8),
    }
)
_HISTORIES = st.lists(st.one_of(_NODE_EVENT, _CLIENT_EVENT, _OTHER_EVENT), max_size=60)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return Case("", "", "", rows=[{"seq": seq, "time": seq} | row for seq, row in enumerate(rows)]).table


def _same(a: RunVerdict, b: RunVerdict) -> None:
    assert msgspec.to_builtins(a) == msgspec.to_builtins(b)


def _in_slices(table: pa.Table, cuts: list[int]) -> pa.Table:
    ends = sorted({min(cut, table.num_rows) for cut in cuts} | {0, table.num_rows})
    slices = [table.slice(a, b - a).combine_chunks() for a, b in itertools.pairwise(ends)]
    return pa.concat_tables([*slices, table.slice(0, 0)])


@given(st.sampled_from(CASES), st.lists(st.integers(0, 120), max_size=8))
@settings(deadline=None, max_examples=25)
def test_batches_of_any_size_give_the_same_answer(case: Case, cuts: list[int]) -> None:
    whole = check(case.table, configuration=case.configuration)
    _same(whole, check(_in_slices(case.table, cuts), configuration=case.configuration))


@given(_HISTORIES, st.lists(st.integers(0, 60), max_size=4), st.booleans())
@settings(deadline=None, max_examples=60)
def test_any_history_is_judged_and_cuts_change_nothing(
    rows: list[dict[str, Any]], cuts: list[int], caching: bool
) -> None:
    table = _table(rows)
    configuration = {"voters": [0, 1, 2], "write_caching": caching}
    whole = check(table, configuration=configuration)
    _same(whole, check(_in_slices(table, cuts), configuration=configuration))
    seqs = set(range(len(rows)))
    for outcome in whole.checks:
        assert bool(outcome.violated) == (outcome.verdict == "violated")
        for violation in outcome.violations:
            assert violation.events
            assert set(violation.events) <= seqs


@pytest.mark.slow
@given(_HISTORIES)
@settings(deadline=None, max_examples=25)
def test_compiled_loops_agree_on_any_history(rows: list[dict[str, Any]]) -> None:
    pytest.importorskip("numba")
    table = _table(rows)
    _same(check(table, compiled=False), check(table, compiled=True))


@given(_HISTORIES, _HISTORIES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25)
def test_logs_are_judged_apart(
    one: list[dict[str, Any]],
    other: list[dict[str, Any]],
    random: Any,  # noqa: ANN401
) -> None:
    """Two logs mixed in one run say what each says alone."""
    keep = [[row for row in rows if row["kind"] not in ("fault", "heal", "phase")] for rows in (one, other)]
    marked = [("a", row) for row in keep[0]] + [("b", row) for row in keep[1]]
    order = sorted(range(len(marked)), key=lambda i: (random.random(), i))
    streams = {"a": iter(keep[0]), "b": iter(keep[1])}
    mixed = []
    for place in order:
        log = marked[place][0]
        mixed.append(next(streams[log]) | {"log": log})
    configuration = {"voters": [0, 1, 2]}
    together = check(_table(mixed), configuration=configuration)
    apart = [check(_table(rows), configuration=configuration) for rows in keep]
    for outcome in together.checks:
        # A log alone may show nothing of the protocol that the other one is of.
        parts = [each for verdict in apart for each in verdict.checks if each.id == outcome.id]
        assert outcome.judged == sum(each.judged for each in parts)
        assert outcome.violated == sum(each.violated for each in parts)
        assert outcome.excused == sum(each.excused for each in parts)


def test_a_fold_can_be_driven_without_an_engine() -> None:
    """What another engine does: start, feed, finish."""
    (family,) = families_of(["commit-monotonic"])
    setting = Setting(voters=(1, 2, 3))
    fold = family.start(setting)
    reader = Reader("memory", family.columns, setting.words)
    for batch in HEALTHY.table.to_batches(7):
        fold.feed(reader.columns(batch))
    answer = fold.finish()
    assert isinstance(answer, Verdicts)
    assert {each.id for each in answer.outcomes} == {check.id for check in family.checks}
