"""The engine on runs and tables: voters, several logs, foreign values, sparse offsets, losses, events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_history import MADE_BY, batches

from loghistory import CLIENT_KINDS, HistoryError, RunSource, open_run, write_run
from loghistory.run import write_file
from logwitness import RunVerdict, Verdict, check, judge
from logwitness.checks import all_checks
from logwitness.checks.contract import Excuse, Outcome, Verdicts, Violation, outcome
from logwitness.checks.kernel import available
from logwitness.engine.local import events_at, setting_of
from logwitness.engine.run import settled, together
from logwitness.engine.voters import numbered_voters
from logwitness.explain.transcripts import HISTORIES, Case, cases, history
from logwitness.models import check_model, model_of

(HEALTHY,) = cases(HISTORIES / "healthy.txt")


def _case(name: str, place: int = 0) -> Case:
    file = next(file for file in HISTORIES.glob("*.txt") if f"== {name} violated" in file.read_text())
    return [case for case in cases(file) if case.check == name and case.verdict == "violated"][place]


@pytest.mark.parametrize("format_", ["jsonl", "zst", "parquet"])
def test_a_run_on_disk_is_judged_like_its_table(tmp_path: Path, format_: str) -> None:
    manifest = {"name": "healthy", "made_by": {"configuration": HEALTHY.configuration}}
    write_run(tmp_path / "run", HEALTHY.table, manifest, format=format_)
    on_disk = check(open_run(tmp_path / "run"))
    in_memory = check(HEALTHY.table, configuration=HEALTHY.configuration)
    assert on_disk.checks == in_memory.checks
    assert on_disk.losses == in_memory.losses
    assert on_disk.exit_status == 0
    assert on_disk.run == str(tmp_path / "run")


def test_a_run_of_nodes_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = {"name": "healthy", "made_by": {"configuration": HEALTHY.configuration}}
    write_run(tmp_path / "run", HEALTHY.table, manifest, format="parquet")
    source = open_run(tmp_path / "run")
    read = []
    batches_of = RunSource.batches

    def noted(
        source: RunSource,
        columns: Iterable[str] | None = None,
        kinds: Collection[str] | None = None,
        **how: Any,  # noqa: ANN401
    ) -> Iterator[pa.RecordBatch]:
        read.append(columns)
        return batches_of(source, columns, kinds, **how)

    monkeypatch.setattr(RunSource, "batches", noted)
    assert check_model(source, model_of(source)).exit_status == 0
    assert len(read) == 1


def test_the_configuration_comes_from_the_manifest(tmp_path: Path) -> None:
    case = next(each for each in cases(HISTORIES / "replicas.txt") if each.configuration.get("write_caching"))
    made_by = {"seed": 1, "configuration": {"write_caching": True, "voters": [1, 2, 3]}}
    write_run(tmp_path / "run", case.table, {"name": "caching", "made_by": made_by})
    outcomes = {each.id: each for each in check(open_run(tmp_path / "run")).checks}
    assert outcomes["pending-not-visible"].verdict is Verdict.UNEXERCISED
    alone = check(case.table, configuration={"voters": [1, 2, 3]})
    assert {each.id: each for each in alone.checks}["pending-not-visible"].violated


@pytest.mark.parametrize(
    ("configuration", "verdict", "why"),
    [
        ({"voters": [1, 2]}, "holds", None),
        ({"voters": [1, 2, 3, 4, 5]}, "violated", None),
        ({"nodes": 5}, "violated", None),
        ({"nodes": ["n1", "n2", "n3", "n4", "n5"]}, "violated", None),
        ({"nodes": 4}, "undecided", "names neither the voters nor a number of nodes that fits"),
        ({"nodes": 10**12}, "undecided", "names neither"),
        ({}, "undecided", "names neither"),
        ({"voters": [1, 3, 6]}, "undecided", "nothing is recorded of voter 6"),
        ({"voters": [1, 6, 7, 8, 9]}, "undecided", "nothing is recorded of voters 6, 7, 8 and 9"),
        ({"voters": [2, 3, 4]}, "undecided", "node 1 votes, is voted for, stands for election or leads, but the"),
    ],
)
def test_voters_are_those_configured(configuration: dict[str, Any], verdict: str, why: str | None) -> None:
    """Two of five have flushed, which is a majority of two; it does not matter who happens to act."""
    starts = "|".join(f"n{node} start" for node in range(1, 6))
    lines = "n1 term 1|n1 leader|n1 append 0 t1 v1 all|n2 append 0 t1 v1 all term=1|n1 flush|n2 flush"
    case = history(f"{starts}|{lines}|n1 commit 0")
    (outcome,) = check(case.table, ["committed-flushed-on-majority"], configuration=configuration).checks
    assert outcome.verdict == verdict
    assert (why or "") in (outcome.reason or "")


@pytest.mark.parametrize("voters", [3, "123", [], ["0"], [1, 1, 2], [-1, 0, 1], [1, True, 3], [1.0, 2.0]])
def test_what_lists_no_voters_is_bad_input(voters: object) -> None:
    with pytest.raises(HistoryError, match=r"field configuration\.voters: .* does not list voters"):
        check(HEALTHY.table, configuration={"voters": voters})


@pytest.mark.parametrize(
    ("configuration", "what"),
    [
        ({"write_caching": "no"}, r'write_caching: "no" is neither true nor false'),
        ({"write_caching": 1}, r"write_caching: 1 is neither true nor false: give true or false"),
        ({"idempotent": []}, r"idempotent: \[\] is neither"),
        ({"progress_bound": "1s"}, r'progress_bound: "1s" is not a bound: give a whole number'),
        ({"progress_bound": 1e9}, r"progress_bound: 1000000000\.0 is not a bound"),
        ({"limits": {"memory_bytes": True}}, r"limits\.memory_bytes: True is not a bound"),
        ({"max_in_flight": -1}, r"max_in_flight: -1 is not a bound"),
    ],
)
def test_a_configuration_of_the_wrong_type_is_bad_input(configuration: dict[str, Any], what: str) -> None:
    """A string is no switch, and a bound with a unit no number: neither is guessed at, nor passed over."""
    with pytest.raises(HistoryError, match=rf"field configuration\.{what}"):
        check(HEALTHY.table, configuration=configuration)


@pytest.mark.parametrize(
    "configuration", [{"write_caching": None}, {"progress_bound": 0}, {"limits": {"memory_bytes": 0}}, {}]
)
def test_what_a_configuration_leaves_open_is_as_usual(configuration: dict[str, Any]) -> None:
    assert check(HEALTHY.table, configuration=configuration).events
    setting = setting_of(HEALTHY.table, configuration)
    assert (setting.write_caching, setting.progress_bound, setting.memory_bytes) == (False, None, None)


@given(st.integers(1, 9), st.frozensets(st.integers(0, 20), max_size=9))
def test_a_number_of_nodes_makes_as_many_voters(number: int, seen: frozenset[int]) -> None:
    voters = numbered_voters(number, seen)
    assert len(set(voters)) == len(voters)
    assert (len(voters), set(seen) <= set(voters)) == ((number, True) if len(seen) <= number else (0, False))


def _ids(verdict: RunVerdict) -> set[str]:
    return {each.id for each in verdict.checks}


def test_a_run_is_judged_by_the_families_of_its_protocol(tmp_path: Path) -> None:
    """Told by the kinds that occur, in a table, a file and a manifest alike; one that is asked for is always there."""
    clients = [row for row in HEALTHY.rows if row["kind"] in CLIENT_KINDS]
    table = Case("", "", "", rows=clients).table
    write_run(tmp_path / "run", table, {"name": "clients"})
    write_file(tmp_path / "events.jsonl", table)
    both = _ids(check(HEALTHY.table))
    for source in (table, open_run(tmp_path / "run"), open_run(tmp_path / "events.jsonl")):
        black_box = check(source)
        assert {"phantom", "linearizable-log"} <= _ids(black_box) < both
        assert "commit-monotonic" not in _ids(black_box)
        assert black_box.exit_status == 0
        (named,) = check(source, ["commit-monotonic"]).checks
        assert named.verdict is Verdict.UNEXERCISED
        required = check(source, required=["commit-monotonic"])
        assert _ids(required) - _ids(black_box) == {"commit-monotonic"}
        assert (required.verdict, required.exit_status) == (Verdict.UNEXERCISED, 3)


def test_the_manifest_says_whose_run_it_is(tmp_path: Path) -> None:
    for protocol in ("raft", "paxos"):
        write_run(tmp_path / protocol, HEALTHY.table, {"name": protocol, "made_by": {"protocol": protocol}})
    assert _ids(check(open_run(tmp_path / "raft"))) == _ids(check(HEALTHY.table))
    stranger = check(open_run(tmp_path / "paxos"))
    assert "commit-monotonic" not in _ids(stranger)
    assert stranger.notes == ('No check here is for the protocol "paxos": only what clients saw is judged.',)
    assert check(open_run(tmp_path / "paxos"), ["commit-monotonic"]).notes == ()


def test_who_says_another_protocol_is_judged_by_the_events_all_the_same(tmp_path: Path) -> None:
    for number, protocol in enumerate(("pull-queries", "read-path", "")):
        made_by = {"protocol": protocol}
        write_run(tmp_path / str(number), HEALTHY.table, {"name": "misnamed", "made_by": made_by})
        assert _ids(check(open_run(tmp_path / str(number)))) >= _ids(check(HEALTHY.table)), protocol


def test_losses_by_acks_level_and_fault() -> None:
    case = history(
        "c1 append v1 1 bytes=100|c1 ok 0-1 t1|c1 append v2 0 bytes=10|c1 ok 2 t1|- fault partition n1|"
        "c1 append v3 1 bytes=7|c1 ok 3 t1|- fault power_loss n1|c2 append v4 all|c2 ok 4 t2|"
        "c3 final_read 0|c3 sees 4 v4|c3 ok 5"
    )
    verdict = check(case.table)
    assert verdict.exit_status == 0
    lines = {(loss.acks, loss.fault): (loss.batches, loss.entries, loss.bytes) for loss in verdict.losses}
    assert lines == {("1", "partition"): (1, 2, 100), ("0", "partition"): (1, 1, 10), ("1", "power_loss"): (1, 1, 7)}
    (first,) = (loss for loss in verdict.losses if loss.acks == "0")
    assert (first.first_time, first.last_time, first.events) == (3000, 3000, (3,))


def test_losses_without_clients_come_from_the_nodes() -> None:
    case = history(
        "n1 start|n2 start|n3 start|n1 term 1|n1 leader|n1 append 0 t1 v1 1 bytes=5|n1 acked 0 t1 1 success|"
        "n1 crash|n2 term 2|n2 leader|n2 append 0 t2 v2 all|n3 append 0 t2 v2 all term=2|n2 flush|n3 flush|n2 commit 0"
    )
    (loss,) = check(case.table).losses
    assert (loss.acks, loss.fault, loss.batches, loss.bytes) == ("1", "crash", 1, 5)


def test_faults_without_a_log_concern_every_log() -> None:
    """The excuse of a power loss reaches logs that are named before and after it."""
    excused = next(c for c in cases(HISTORIES / "clients.txt") if c.check == "inconsistent-offset" and c.excused)
    rows = []
    for log in ("first", "second"):
        for row in excused.rows:
            if row["kind"] == "fault":
                continue
            rows.append((row["seq"], row | {"log": log}))
    fault = next(row for row in excused.rows if row["kind"] == "fault")
    rows.append((fault["seq"], fault))
    ordered = [row | {"seq": seq} for seq, (_, row) in enumerate(sorted(rows, key=lambda pair: pair[0]))]
    verdict = check(Case("", "", "", rows=ordered).table, ["inconsistent-offset"])
    assert verdict.logs == 2
    assert (verdict.checks[0].violated, verdict.checks[0].excused) == (0, 2)


def test_a_violation_names_its_log_when_there_are_several() -> None:
    case = _case("phantom")
    rows = [row | {"log": "orders"} for row in case.rows]
    rows.append({"seq": len(rows), "time": 0, "kind": "invoke", "process": 9, "op": 99, "f": "tail", "log": "other"})
    verdict = check(Case("", "", "", rows=rows).table, ["phantom"])
    assert [violation.log for violation in verdict.checks[0].violations] == ["orders"]


def test_the_reason_is_that_of_a_log_with_the_verdict_of_the_run() -> None:
    rule = all_checks()[0]
    idle, held, gave_up = outcome(rule, 0), outcome(rule, 3), outcome(rule, 1, undecided="it gave up")

    def merged(*logs: Outcome) -> tuple[str, str | None]:
        by_log = [(str(number), Verdicts((each,))) for number, each in enumerate(logs)]
        ((found,), _) = together([rule], by_log, 10)
        return found.verdict, found.reason

    assert merged(idle, held) == ("holds", None)
    assert merged(idle, gave_up, held) == ("undecided", "it gave up")
    assert merged(idle, idle) == ("unexercised", idle.reason)


def test_one_answer_for_several_logs_counts_for_each() -> None:
    rule = next(each for each in all_checks() if not each.begins_late)
    same = Verdicts((outcome(rule, 5, excuses=(Excuse("wipe", (1,), 2, 7),), unjudged=3),))
    ((found,), _) = together([rule], [("a", same), ("b", same), ("c", same)], 10)
    assert (found.judged, found.excused, found.unjudged) == (15, 6, 9)
    assert found.excuses == (Excuse("wipe", (1,), 6, 7),)


@pytest.mark.parametrize(
    ("last", "trims", "verdict"), [(20, 1, "undecided"), (11, 1, "undecided"), (10, 1, "violated"), (20, 0, "violated")]
)
def test_a_record_that_ends_explains_only_what_came_later(last: int, trims: int, verdict: str) -> None:
    lost, trim = (next(each for each in all_checks() if each.id == id_) for id_ in ("lost-write", "trim-within-commit"))
    shown = outcome(lost, 3, 1, (Violation("It is lost.", (5, last)),))
    # What clients miss may be trimmed, if nodes trim at all.
    found = settled(Verdicts((shown, outcome(trim, trims)), quiet_since=10)).outcomes[0]
    assert (found.verdict, found.violated, found.unjudged) == (verdict, verdict == "violated", verdict == "undecided")


def test_values_that_are_texts_are_told_apart() -> None:
    case = _case("inconsistent-offset")
    rows = [{**row, "text": f'{{"v":{row["value"]}}}', "value": None} if "value" in row else row for row in case.rows]
    verdict = check(Case("", "", "", rows=rows).table, ["inconsistent-offset", "phantom", "duplicate"])
    assert {each.id: each.violated for each in verdict.checks} == {
        "inconsistent-offset": 1,
        "phantom": 0,
        "duplicate": 0,
    }


def test_sparse_64_bit_offsets_cost_no_more_than_dense_ones() -> None:
    far = 1 << 60
    lines = [f"c1 append v{i} all|c1 ok {far + i * 1_000_000_007}" for i in range(200)]
    case = history("|".join(lines) + f"|c2 final_read {far}|c2 ok {far + 1}")
    outcomes = {each.id: each for each in check(case.table).checks}
    assert outcomes["unseen"].violated + outcomes["lost-write"].violated == 200


@pytest.mark.parametrize("value", [-(1 << 61) - 1, -(1 << 62), -(1 << 63)])
def test_a_value_too_small_to_judge_is_one_clear_line(value: int) -> None:
    table = history("c1 append v1 all|c1 ok 0").table
    field = table.schema.get_field_index("value")
    table = table.set_column(field, table.schema.field(field), pa.array([value, None], pa.int64()))
    with pytest.raises(HistoryError, match=rf"seq 0, field value: {value} is too small to judge"):
        check(table)


def test_an_offset_too_large_to_judge_is_one_clear_line() -> None:
    case = history(f"c1 append v1 all|c1 ok {1 << 62}")
    with pytest.raises(HistoryError, match=r"seq 1, field (last_)?offset: \d+ is too large to judge"):
        check(case.table)


def test_too_many_nodes_are_undecided_not_green() -> None:
    case = history("|".join(f"n{node} start" for node in range(100)))
    verdict = check(case.table, ["log-matching"])
    assert (verdict.verdict, verdict.exit_status) == (Verdict.UNDECIDED, 3)


def test_node_ids_may_be_large() -> None:
    case = _case("flushed-durable")
    rows = [row | {"node": 1_000_000 + row["node"]} for row in case.rows]
    (outcome,) = check(Case("", "", "", rows=rows).table, ["flushed-durable"]).checks
    assert "Node 1000001" in outcome.violations[0].sentence


def test_first_violations_are_kept_and_all_are_counted() -> None:
    lines = "n1 start|n1 append 0 t0 v1 1|n1 append 1 t0 v2 1"
    case = history(lines + "|n1 visible 1|n1 visible 0" * 25)
    (outcome,) = check(case.table, ["visible-monotonic"]).checks
    assert outcome.violated == 25
    assert len(outcome.violations) == 10


def test_events_of_a_violation_can_be_fetched() -> None:
    found = events_at(HEALTHY.table, [3, 1, 3, 10_000])
    assert {seq: row["kind"] for seq, row in found.items()} == {1: "start", 3: "start"}


def test_judge_answers_with_plain_data() -> None:
    document = judge(_case("commit-monotonic").table, ["commit-monotonic"])
    (outcome,) = document["checks"]
    assert (document["verdict"], document["exit_status"], outcome["verdict"]) == ("violated", 1, "violated")
    assert outcome["violations"][0]["events"] == [4, 5]
    with pytest.raises(KeyError):
        judge(HEALTHY.table, ["no-such-check"])


REGISTER = [
    {"kind": "invoke", "process": 1, "op": 1, "f": "write", "text": "1"},
    {"kind": "ok", "process": 1, "op": 1, "f": "write", "text": "1"},
    {"kind": "invoke", "process": 2, "op": 2, "f": "read"},
    {"kind": "ok", "process": 2, "op": 2, "f": "read", "text": "2"},
]


def _judged(rows: list[dict[str, object]], tmp_path: Path) -> dict[str, Any]:
    """What the judge says of these events, in memory and on disk alike."""
    table = Case("", "", "", rows=[{"seq": seq, "time": seq} | row for seq, row in enumerate(rows)]).table
    write_file(tmp_path / "events.jsonl", table)
    in_memory, on_disk = judge(table), judge(open_run(tmp_path / "events.jsonl"))
    assert on_disk | {"run": ""} == in_memory | {"run": ""}
    return in_memory


def test_the_judge_takes_the_model_that_a_history_asks_for(tmp_path: Path) -> None:
    document = _judged(REGISTER, tmp_path)
    assert document["verdict"] == "violated"
    assert [each["id"] for each in document["checks"]] == ["linearizable"]
    with pytest.raises(KeyError):
        judge(open_run(tmp_path / "events.jsonl"), ["no-such-check"])


@pytest.mark.parametrize(
    ("rows", "verdict", "status"),
    [
        ([], "unexercised", 3),
        (REGISTER[:1], "holds", 0),
        (REGISTER[:2], "holds", 0),
        ([{"kind": "phase", "f": "load"}], "unexercised", 3),
        ([{"kind": "invoke", "process": 1, "op": 1, "f": "tail"}], "unexercised", 3),
        (
            [
                {"kind": "invoke", "process": 1, "op": 1, "f": "tail"},
                {"kind": "ok", "process": 1, "op": 1, "f": "tail", "offset": 0},
            ],
            "holds",
            0,
        ),
        (
            [
                {"kind": "invoke", "process": 1, "op": 1, "f": "append", "value": 5},
                {"kind": "ok", "process": 1, "op": 1, "f": "append", "offset": 0},
            ],
            "holds",
            0,
        ),
    ],
)
def test_the_shortest_histories(rows: list[dict[str, object]], verdict: str, status: int, tmp_path: Path) -> None:
    document = _judged(rows, tmp_path)
    assert (document["verdict"], document["exit_status"], document["events"]) == (verdict, status, len(rows))


def test_one_event_number_twice_is_bad_input(tmp_path: Path) -> None:
    table = Case("", "", "", rows=[{"seq": 7, "time": 0} | row for row in REGISTER[:2]]).table
    with pytest.raises(HistoryError, match="field seq: 7 does not come after 7"):
        judge(table)


@pytest.mark.slow
def test_a_long_history_compiled_and_plain(tmp_path: Path) -> None:
    """Enough events that every table of every fold has to grow several times."""
    table = pa.Table.from_batches(batches(40_000, rounds_at_once=500))
    plain = check(table, configuration=MADE_BY["configuration"], compiled=False)
    judged = {each.id: each.judged for each in plain.checks}
    assert plain.exit_status == 0
    assert judged["committed-flushed-on-majority"] == judged["ack-rule"] == judged["lost-write"] > 2000
    if available():
        compiled = check(table, configuration=MADE_BY["configuration"], compiled=True)
        assert compiled.checks == plain.checks
