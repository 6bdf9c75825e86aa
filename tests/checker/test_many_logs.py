"""Many logs in one history: whatever waits and whatever is judged with others, the answer is that of each log alone."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from loghistory import SCHEMA, open_run
from loghistory.run import write_file
from logwitness.checks import all_checks, house_families
from logwitness.checks.codes import NULL
from logwitness.checks.columns import Reader, with_blanks
from logwitness.checks.contract import Excuse, Family, Loss, Setting, Verdicts, outcome
from logwitness.engine import alike, logs
from logwitness.engine.logs import Logs
from logwitness.engine.waiting import Waiting
from logwitness.explain.transcripts import HISTORIES, all_cases, cases, history

Rows = list[dict[str, Any]]
CASES = [
    case for case in [*all_cases(), *cases(HISTORIES / "healthy.txt")] if not case.configuration.get("write_caching")
]
FAMILIES = tuple(family for family in house_families() if not family.reads_texts)
SETTING = Setting((1, 2, 3))


def _mixed(parts: list[Rows], chosen: random.Random, *, same_times: bool) -> Rows:
    """The events of several logs, each in its order, with names of their own; what concerns all has no log."""
    left = [list(rows) for rows in parts]
    mixed: Rows = []
    while any(left):
        number = chosen.choice([place for place, rows in enumerate(left) if rows])
        row = dict(left[number].pop(0))
        row["log"] = f"log-{number}"
        for name in ("process", "op", "value"):
            if row.get(name) is not None:
                row[name] += 1000 * number
        row["seq"] = len(mixed)
        row["time"] = row["time"] if same_times else 10 * len(mixed)
        mixed.append(row)
    return mixed


def _judged(rows: Rows, batches: int, families: tuple[Family, ...] = FAMILIES) -> dict[str | None, Verdicts]:
    setting = Setting(SETTING.voters)
    reader = Reader("test", {name for family in families for name in family.columns}, setting.words)
    found = Logs(families, setting)
    table = pa.Table.from_pylist(rows, SCHEMA)
    for batch in table.to_batches(max(1, -(-len(rows) // batches))):
        found.feed(reader.columns(batch), batch.column("log"))
    return dict(found.finish())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "few",
    [1, *(pytest.param(few, marks=pytest.mark.slow) for few in (5, 1000))],
    ids=lambda few: f"from {few} events on apart",
)
@pytest.mark.parametrize("with_faults", [False, True])
def test_a_log_is_judged_as_if_it_were_alone(few: int, with_faults: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FEW", few)
    monkeypatch.setattr(logs, "_ROOM", 40)
    chosen = random.Random(few)
    violated = 0
    for _ in range(12):
        some = [chosen.choice(CASES) for _ in range(chosen.randrange(2, 12))]
        rows = _mixed([case.rows for case in some], chosen, same_times=False)
        if with_faults:
            rows = [dict(row) for row in rows]
            for place in sorted(chosen.sample(range(len(rows)), 3), reverse=True):
                rows.insert(place, {"time": 0, "kind": "fault", "f": "wipe", "node": 9})
            for seq, row in enumerate(rows):
                row |= {"seq": seq, "time": 10 * seq}
        together = _judged(rows, chosen.randrange(1, 5))
        assert set(together) == {row["log"] for row in rows if row.get("log")}
        for name, found in together.items():
            # Alone it has the events that concern all, too.
            own = [row | {"log": None} for row in rows if row.get("log") in (name, None)]
            (alone,) = _judged(own, 1).values()
            assert found == alone, name
            violated += any(each.violated for each in found.outcomes)
    assert violated > 10


def test_logs_that_are_alike_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(1)
    healthy = [case for case in CASES if case.verdict == "holds" and not case.excused][:3]
    judged = []
    monkeypatch.setattr(
        Logs, "_judge", lambda self, columns, judge=Logs._judge: judged.append(1) or judge(self, columns)
    )
    found = _judged(_mixed([case.rows for case in healthy * 50], chosen, same_times=True), 3)
    assert len(found) == 150
    # Nodes keep their names and offsets their numbers, so logs of one case are alike.
    assert len(judged) <= 3 + sum(any(each.violated for each in answer.outcomes) for answer in found.values())
    assert len({id(answer) for answer in found.values()}) <= 3 + len(judged)


def test_logs_that_differ_in_what_a_configuration_says_are_judged_apart() -> None:
    begin = "n1 start|n2 start|n1 leader term=1|n1 append 0 t1 all|n1 configuration 0 text={}|n1 flush"
    end = "|n2 append 0 t1 all term=1|n2 configuration 0 text={}|n2 flush|n1 commit 0"
    few, more = (history((begin + end).format(voters, voters)).rows for voters in ("1,2,3", "1,2,3,4"))
    found = _judged(_mixed([few, few, more, few], random.Random(1), same_times=True), 1)
    violated = [any(each.violated for each in found[f"log-{number}"].outcomes) for number in range(4)]
    assert violated == [False, False, True, False]


PLANTED = {
    "a value that another log has": (
        "value",
        lambda rows: [row | {"value": 7} if "value" in row else row for row in rows],
    ),
    "another order of times": ("time", lambda rows: [row | {"time": -row["time"]} for row in rows]),
    "another offset": (
        "offset",
        lambda rows: [row | {"offset": row["offset"] + 1} if row.get("offset") is not None else row for row in rows],
    ),
    "another client": ("process", lambda rows: [row | {"process": 1} if "process" in row else row for row in rows]),
    "another acks level": ("acks", lambda rows: [row | {"acks": 1} if "acks" in row else row for row in rows]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_log_that_differs_in_one_column_has_another_shape(name: str) -> None:
    rows: Rows = []
    for client, (value, offset) in enumerate([(1, 0), (2, 1)]):
        common = {"process": client, "op": client, "f": "append"}
        rows.append({"kind": "invoke", "value": value, "acks": -1, **common})
        rows.append({"kind": "ok", "offset": offset, **common})
    rows = [row | {"time": 5 * place} for place, row in enumerate(rows)]
    _, change = PLANTED[name]
    other = change(rows)
    assert other != rows
    both = [row | {"seq": seq} for seq, row in enumerate([*rows, *rows, *other])]
    reader = Reader("test", {name for family in FAMILIES for name in family.columns}, SETTING.words)
    (batch,) = pa.Table.from_pylist(both, SCHEMA).combine_chunks().to_batches()
    starts = alike.np.array([0, 4, 8])
    first, second, third = alike._shapes(reader.columns(batch), starts, starts + 4, None, alike.Columns._fields)
    assert first == second
    assert (first == third) is False


@pytest.mark.parametrize(("time", "alike_"), [(5, True), (9, True), (10, False), (11, False)])
def test_times_are_told_apart_by_those_of_what_concerns_all(time: int, alike_: bool) -> None:
    rows: Rows = [{"kind": "invoke", "process": 0, "op": 0, "f": "tail", "time": each} for each in (7, time)]
    rows.append({"kind": "fault", "f": "wipe", "node": 1, "time": 10})
    reader = Reader("test", {name for family in FAMILIES for name in family.columns}, SETTING.words)
    table = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(rows)], SCHEMA)
    (batch,) = table.combine_chunks().to_batches()
    columns, starts = reader.columns(batch), np.array([0, 1])
    shared = columns.between(2, 3)
    first, second = alike._shapes(columns.between(0, 2), starts, starts + 1, shared, alike.Columns._fields)
    assert (first == second) is alike_


RULE, UNSURE = (next(each for each in all_checks() if each.doubtful is doubtful) for doubtful in (False, True))
OF_ONE_LOG = {
    "a violation": Verdicts((outcome(RULE, 3, 1),)),
    "what might be one": Verdicts((outcome(UNSURE, 3, 1),)),
    "an excuse by an event of its own": Verdicts((outcome(RULE, 3, excuses=(Excuse("wipe", (1,), 2, 7),)),)),
    "a loss": Verdicts((outcome(RULE, 3),), (Loss("1", "none known", 1, 1, 0, 5, 5, (3,)),)),
    "a record that ends": Verdicts((outcome(RULE, 3),), quiet_since=5),
}
OF_ALL_LOGS = {
    "what holds": Verdicts((outcome(RULE, 3), outcome(UNSURE, 3))),
    "nothing judged": Verdicts((outcome(RULE, 0, undecided="no voters"),), ()),
    "an excuse by an event of all": Verdicts((outcome(RULE, 3, excuses=(Excuse("wipe", (1,), 2, 9),)),)),
    "an excuse by no event": Verdicts((outcome(RULE, 3, excuses=(Excuse("wipe", (), 2, -1),)),)),
}


@pytest.mark.parametrize("name", [*OF_ONE_LOG, *OF_ALL_LOGS])
def test_an_answer_that_names_events_is_of_one_log(name: str) -> None:
    assert alike._names_events((OF_ONE_LOG | OF_ALL_LOGS)[name], {9}) is (name in OF_ONE_LOG)


@pytest.mark.parametrize(
    "offsets",
    [
        [-(1 << 31), 5],
        [-(1 << 31)] * 2,
        [1 - (1 << 31), (1 << 31) - 1],
        [1 << 31, 5],
        [1 << 31] * 2,
        [(1 << 61) - 1] * 2,
        [NULL, 5],
        [NULL] * 2,
        [NULL, -(1 << 31)],
    ],
    ids=str,
)
@pytest.mark.parametrize("before", [[], [7, 7], [7, 8], [NULL, NULL], [1 << 40, 3]], ids=str)
def test_what_waits_comes_out_as_it_went_in(before: list[int], offsets: list[int]) -> None:
    waiting = Waiting({"seq", "offset"})
    for some in (before, offsets, before):
        columns = {"seq": np.arange(len(some)), "offset": np.array(some, np.int64)}
        waiting.add(with_blanks(columns), np.zeros(len(some), np.int64))
    held = [*before, *offsets, *before]
    for order in (list(range(len(held))), list(reversed(range(len(held))))):
        waiting.keep(np.array(order))
        held = [held[place] for place in order]
        assert waiting.between(0, len(held)).offset.tolist() == held


# The largest child is asked of a process of its own: this one has had other children, and a child begins with the
# memory of the process that it was copied from.
_MEASURED = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "logwitness", "check", sys.argv[1]])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)
"""


@pytest.mark.slow
def test_twenty_thousand_logs_need_little_memory(tmp_path: Path) -> None:
    rows: Rows = []
    for number in range(20_000):
        common = {"log": f"log-{number}", "process": number % 50, "op": number, "f": "append"}
        rows.append({"kind": "invoke", "value": number, "acks": -1, **common})
        rows.append({"kind": "ok", "offset": 0, "term": 1, **common})
    rows = [row | {"seq": seq, "time": seq} for seq, row in enumerate(rows)]
    file = tmp_path / "many.jsonl"
    write_file(file, pa.Table.from_pylist(rows, SCHEMA).to_batches())
    assert open_run(file).table().num_rows == 40_000
    done = subprocess.run([sys.executable, "-c", _MEASURED, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "40,000 events in 20,000 logs" in done.stdout
    assert int(done.stderr.split()[-1]) < 400 << 10, "kilobytes; folds for each log would take a gigabyte"
