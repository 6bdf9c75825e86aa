"""What was not judged is never green: lines that were set aside, operations that no rule is for."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from loghistory import SCHEMA, Kind, open_run
from loghistory.run import write_file
from logwitness.checks import all_checks
from logwitness.checks.codes import code
from logwitness.checks.columns import with_blanks
from logwitness.checks.contract import Setting, Verdict, Verdicts, Violation, outcome
from logwitness.cli import main
from logwitness.engine.local import check
from logwitness.engine.run import RunVerdict
from logwitness.engine.unrecorded import unrecorded
from logwitness.models import Model, check_model, model_of

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs" / "raft"
LEGAL = ("clients-only", "reference-default", "reference-leaders-fall", "reference-lost-power", "cluster-kill-leader")
CONCLUSIVE = {each.id for each in all_checks() if each.conclusive}


def _check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def _lines(run: str, place: Path) -> list[str]:
    """The events of a recorded run, a line each, behind the header."""
    file = place / f"{run}.jsonl"
    if not file.exists():
        write_file(file, open_run(RUNS / run).batches())
    return file.read_text().splitlines(keepends=True)


def _spoilt(lines: list[str], places: list[int], file: Path) -> Path:
    file.write_text("".join("rubbish\n" if place in places else line for place, line in enumerate(lines)))
    return file


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run", [*LEGAL[:-1], pytest.param(LEGAL[-1], marks=pytest.mark.slow)])
def test_a_legal_run_that_lacks_lines_is_undecided(run: str, tmp_path: Path) -> None:
    lines = _lines(run, tmp_path)
    chosen = random.Random(7)
    for number in (1, 1, 1, 2, 5, 20, 100, len(lines) // 2):
        places = chosen.sample(range(1, len(lines)), number)
        verdict = check(open_run(_spoilt(lines, places, tmp_path / "spoilt.jsonl"), lenient=True))
        found = {each.id: (each.verdict, each.reason) for each in verdict.checks}
        assert Verdict.HOLDS not in {answer for answer, _ in found.values()}
        assert not [id_ for id_, (answer, _) in found.items() if answer is Verdict.VIOLATED], places
        assert (verdict.verdict, verdict.exit_status) == (Verdict.UNDECIDED, 3)
        assert verdict.set_aside == {"not_json": number}


def test_a_violation_that_missing_lines_can_explain_is_undecided(tmp_path: Path) -> None:
    """The invocation of an append that was read is set aside: nobody appended what was read."""
    lines = _lines("clients-only", tmp_path)
    read = {json.loads(line).get("value") for line in lines if '"observe"' in line}
    place = next(n for n, line in enumerate(lines) if '"invoke"' in line and json.loads(line).get("value") in read)
    source = open_run(_spoilt(lines, [place], tmp_path / "spoilt.jsonl"), lenient=True)
    (phantom,) = check(source, ["phantom"]).checks
    assert (phantom.verdict, phantom.violated, phantom.violations) == (Verdict.UNDECIDED, 0, ())
    assert phantom.unjudged
    assert phantom.reason is not None
    assert phantom.reason.startswith("1 line or event was set aside (1 no valid JSON or EDN), which may explain this: ")
    assert "although nobody had appended it" in phantom.reason


def test_two_votes_may_be_explained_by_a_wipe_that_was_set_aside(tmp_path: Path) -> None:
    lines = _lines("mutant-vote-twice", tmp_path)
    source = open_run(_spoilt(lines, [7], tmp_path / "spoilt.jsonl"), lenient=True)
    (votes,) = check(source, ["one-vote-per-term"]).checks
    assert (votes.verdict, votes.violated) == (Verdict.UNDECIDED, 0)
    assert votes.unjudged


@pytest.mark.parametrize(
    ("mutant", "id_"),
    [("commit-before-own-flush", "commit-within-flushed")],
)
def test_a_violation_that_no_line_could_explain_stands(mutant: str, id_: str, tmp_path: Path) -> None:
    assert id_ in CONCLUSIVE
    lines = _lines(f"mutant-{mutant}", tmp_path)
    whole = check(open_run(tmp_path / f"mutant-{mutant}.jsonl"), [id_]).checks[0]
    shown = {seq for violation in whole.violations for seq in violation.events}
    others = [place for place, line in enumerate(lines) if place and json.loads(line)["seq"] not in shown]
    places = random.Random(3).sample(others, 5)
    verdict = check(open_run(_spoilt(lines, places, tmp_path / "spoilt.jsonl"), lenient=True))
    found = {each.id: each.verdict for each in verdict.checks}
    assert (found[id_], verdict.exit_status) == (Verdict.VIOLATED, 1)
    assert {id_ for id_, answer in found.items() if answer is Verdict.VIOLATED} <= CONCLUSIVE


def test_what_was_set_aside_is_in_every_report(tmp_path: Path) -> None:
    lines = _lines("reference-default", tmp_path)
    file = _spoilt(lines, [5, 9], tmp_path / "spoilt.jsonl")
    reported = "2 lines or events were set aside (2 no valid JSON or EDN)"
    done = _check("--lenient", file, "--junit", tmp_path / "out.xml", "--sarif", tmp_path / "out.sarif")
    assert done.exit_code == 3
    assert f"undecided: {reported}\n" in done.stdout, "once for all checks"
    assert done.stdout.count(f"undecided: {reported}\n") == 1
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()[0]
    assert reported in (suite.findtext("system-out") or "")
    assert any(reported in error.get("message", "") for error in suite.iter("error"))
    (run,) = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    notes = [each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]]
    assert any(reported in note for note in notes)
    assert any("could not be judged" in note for note in notes), "facts that were not judged, too"
    assert {result["kind"] for result in run["results"]} == {"open"}
    document = json.loads(_check("--lenient", "--json", file).stdout)
    assert (document["verdict"], document["set_aside"]) == ("undecided", {"not_json": 2})
    assert any(reported in note for note in document["notes"])


def test_a_quarantine_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    lines = _lines("clients-only", tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        _spoilt(lines, [5], tmp_path / "runs" / name)
    done = _check("--lenient", "--quarantine", tmp_path / "runs" / "aside", tmp_path / "runs")
    kept = sorted((tmp_path / "runs" / "aside").iterdir())
    assert len(kept) == 2
    assert all(json.loads(each.read_text())["raw"] == "rubbish" for each in kept)
    assert all(f"kept in {each}" in done.stdout for each in kept)
    # They are no histories, and are counted and named.
    again = _check("--lenient", "-v", tmp_path / "runs")
    assert "2 histories: all undecided" in again.stdout
    assert "2 skipped" in again.stdout
    assert all(f"logwitness: {each}: lines set aside from a history, skipped" in again.stderr for each in kept)
    assert _check("--quarantine", tmp_path, tmp_path / "runs").exit_code == 2


PUBLISHED = """
{:process 0 :type :invoke :f :publish :value 1}
{:process 0 :type :ok :f :publish :value 1}
{:process 1 :type :invoke :f :fetch :value nil}
{:process 1 :type :ok :f :fetch :value []}
"""


@pytest.mark.parametrize("model", [each for each in Model if each is not Model.UNKNOWN])
def test_a_model_that_knows_none_of_the_operations_is_never_green(model: Model, tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    file.write_text(PUBLISHED)
    done = _check("--json", "--model", model, file)
    assert done.exit_code == 3, done.output
    document = json.loads(done.stdout)
    assert document["verdict"] == "undecided"
    said = [*document["notes"], *(each["reason"] or "" for each in document["checks"])]
    assert any("fetch (1), publish (1)" in each for each in said)


APPEND = (":append 1", "1")
SENT = (":send [[:send 1 1]]", "[[:send 1 [0 1]]]")
STRANGE = {
    "a log": ([APPEND, (":read nil", "[1]")], (":publish 2", "2"), Model.LIST_APPEND, "publish (1)"),
    "a log with offsets": ([(":append 1", "[0 1]")], (":purge nil", "nil"), Model.LOG, "purge (1), 1 of 2"),
    "transactions": (
        [(":txn [[:append :x 1]]", "[[:append :x 1]]")],
        (":txn [[:append :x 2] [:inc :x 1]]", "[[:append :x 2] [:inc :x 1]]"),
        Model.LIST_APPEND,
        "inc (1), 1 of 5",
    ),
    "transactions of no parts": (
        [(":txn [[:append :x 1]]", "[[:append :x 1]]")],
        (":txn 5", "5"),
        Model.LIST_APPEND,
        "txn (1)",
    ),
    "Kafka": ([SENT], (":commit-offsets nil", "nil"), Model.KAFKA, "commit-offsets (1), 1 of 3"),
    "a send of no parts": ([SENT], (":send 5", "5"), Model.KAFKA, "send (1), 1 of 3"),
}
"""Operations and their answers, one that is strange; the model, and what it has no rule for."""


@pytest.mark.parametrize("name", STRANGE)
def test_one_operation_that_is_not_understood_makes_a_history_undecided(name: str, tmp_path: Path) -> None:
    known, unknown, model, reported = STRANGE[name]
    file = tmp_path / "history.edn"

    def verdict(operations: list[tuple[str, str]]) -> RunVerdict:
        maps = [
            f"{{:process 0 :type :{kind} :f {asked.partition(' ')[0]} :value {said}}}\n"
            for asked, answer in operations
            for kind, said in (("invoke", asked.partition(" ")[2]), ("ok", answer))
        ]
        file.write_text("".join(maps))
        return check_model(open_run(file), model)

    assert verdict(known).verdict is Verdict.HOLDS
    found = verdict([*known, unknown])
    assert (found.verdict, found.exit_status) == (Verdict.UNDECIDED, 3)
    assert any(reported in note for note in found.notes)
    assert found.document()["unknown_operations"] == found.unknown_operations
    assert found.unknown_operations


def test_node_checks_do_not_depend_on_what_clients_do(tmp_path: Path) -> None:
    source = open_run(RUNS / "reference-default")
    assert source.manifest is not None
    table = source.table()
    last = table.column("seq")[-1].as_py()
    common = {"time": table.column("time")[-1].as_py(), "process": 1 << 40, "op": 1 << 40, "f": "purge"}
    more = [{"seq": last + 1, "kind": "invoke", **common}, {"seq": last + 2, "kind": "ok", **common}]
    whole = pa.concat_tables([table, pa.Table.from_pylist(more, table.schema)]).unify_dictionaries()
    configuration = source.manifest.made_by["configuration"] | {"protocol": "raft"}
    found = {each.id: each.verdict for each in check(whole, configuration=configuration).checks}
    assert found["one-leader-per-term"] is Verdict.HOLDS
    assert {found[id_] for id_ in ("linearizable-log", "phantom", "stale-tail")} == {Verdict.UNDECIDED}


@pytest.mark.parametrize("again", [False, True])
def test_the_number_of_an_operation_is_used_in_one_log(again: bool) -> None:
    rows: list[dict[str, Any]] = []
    for place, log in enumerate(["one", "two", "one"]):
        common = {"log": log, "process": place, "op": 10 if again and log == "two" else 10 + place}
        rows.append({"kind": "invoke", "f": "append", "value": place, "acks": -1, **common})
        rows.append({"kind": "ok", "f": "append", "offset": place // 2, "term": 1, **common})
    verdict = check(pa.Table.from_pylist([{"seq": seq, "time": seq} | row for seq, row in enumerate(rows)], SCHEMA))
    new = next(each for each in verdict.checks if each.id == "operations-are-new")
    assert (new.verdict, new.judged, verdict.logs) == (Verdict.UNDECIDED if again else Verdict.HOLDS, 3, 2)
    assert verdict.exit_status == (3 if again else 0)
    assert new.reason == ('operation 10 is begun in log "one" and in log "two"' if again else None)


def test_the_operations_of_elle_need_no_name(tmp_path: Path) -> None:
    """Elle's own JSON: transactions alone, and nothing says so."""
    file = tmp_path / "history.json"
    file.write_text(
        '{"index":0,"type":"invoke","process":0,"value":[["append","x",1],["r","x",null]]}\n'
        '{"index":1,"type":"ok","process":0,"value":[["append","x",1],["r","x",[1]]]}\n'
        '{"index":2,"type":"invoke","process":1,"value":[["r","x",null]]}\n'
        '{"index":3,"type":"ok","process":1,"value":[["r","x",[]]]}\n'
    )
    source = open_run(file)
    assert model_of(source) is Model.LIST_APPEND
    verdict = check_model(source, Model.LIST_APPEND)
    assert [each.id for each in verdict.checks if each.violated] == ["stale-tail"]
    assert not verdict.unknown_operations


def _register(process: int, op: int, f: str, value: int, log: str | None = None) -> list[dict[str, Any]]:
    """A write or a read of our own format, from its invocation to its answer."""
    common = {"process": process, "op": op, "f": f} | ({} if log is None else {"log": log})
    asked = {} if f in ("read", "get") else {"value": value}
    return [{"kind": "invoke", **common} | asked, {"kind": "ok", "value": value, **common}]


WRITTEN = [*_register(1, 1, "write", 5), *_register(2, 2, "read", 5), *_register(1, 3, "write", 6)]
STORED = [*_register(1, 1, "put", 5, "x"), *_register(2, 2, "get", 5, "x"), *_register(1, 3, "put", 6, "y")]
BREACHES: dict[str, tuple[list[dict[str, Any]], str | None]] = {
    "a register": (WRITTEN, None),
    "a store": (STORED, None),
    "unknown, then another": ([*WRITTEN[:5], WRITTEN[5] | {"kind": "info"}, *_register(1, 4, "read", 5)], None),
    "told twice": ([*WRITTEN, WRITTEN[3]], "completes-what-is-open"),
    "another name": ([*WRITTEN[:3], WRITTEN[3] | {"f": "write"}, *WRITTEN[4:]], "completes-what-is-open"),
    "another client": ([*WRITTEN[:3], WRITTEN[3] | {"process": 9}, *WRITTEN[4:]], "completes-what-is-open"),
    "never begun": ([*WRITTEN[:2], *WRITTEN[3:]], "completes-what-is-open"),
    "a number once more": ([*WRITTEN, *_register(2, 1, "read", 6)], "operations-are-new"),
    "a number of another key": ([*STORED, *_register(2, 1, "get", 6, "y")], "operations-are-new"),
    "two at a time": ([WRITTEN[0], *_register(1, 7, "write", 4), *WRITTEN[1:]], "one-operation-at-a-time"),
    "two keys at a time": ([STORED[0], *_register(1, 7, "put", 4, "z"), *STORED[1:]], "one-operation-at-a-time"),
    "back in time": ([*WRITTEN[:5], WRITTEN[5] | {"time": 1}], "time-goes-forward"),
}
"""Histories of models in our own format, and which rule of well-formed ones they break."""


@pytest.mark.parametrize("name", BREACHES)
def test_operations_of_other_models_are_judged_for_form(name: str, tmp_path: Path) -> None:
    rows, broken = BREACHES[name]
    file = tmp_path / "history.jsonl"
    numbered = [{"seq": seq, "time": 1000 * seq, **row} for seq, row in enumerate(rows)]
    file.write_text("".join(json.dumps(row) + "\n" for row in [{"kind": "history", "version": 2}, *numbered]))
    source = open_run(file)
    verdict = check_model(source, model_of(source))
    if broken is None:
        assert verdict.verdict is Verdict.HOLDS, verdict.document()
        return
    assert broken in {each.id for each in verdict.checks}
    assert Verdict.HOLDS not in {each.verdict for each in verdict.checks}
    assert verdict.verdict is (Verdict.UNDECIDED if broken == "time-goes-forward" else Verdict.VIOLATED)


def _recording(*kinds: Kind) -> Setting:
    setting = Setting((1, 2, 3))
    held = {"seq": np.arange(len(kinds)), "kind": np.array([code(kind) for kind in kinds], np.int8)}
    setting.seen.see(with_blanks(held))
    return setting


@pytest.mark.parametrize(("absent", "shown"), [("send", "receive"), ("term", "leader"), ("append", "commit")])
def test_what_a_run_never_records_explains_what_lacks(absent: str, shown: str) -> None:
    rule = next(each for each in all_checks() if Kind(absent) in each.explained_by and not each.doubtful)
    found = Verdicts((outcome(rule, 3, 1, (Violation("It lacks.", (1,)),)),))
    assert unrecorded(found, _recording(Kind(shown))).outcomes[0].verdict is Verdict.UNDECIDED
    for kinds in ((shown, absent), ()):
        assert unrecorded(found, _recording(*map(Kind, kinds))) == found


@pytest.mark.parametrize("absent", ["serve", "assigned", "route", "finish"])
def test_what_must_be_there_and_is_not_leaves_a_check_undecided(absent: str) -> None:
    rule = next(each for each in all_checks() if Kind(absent) in each.kinds)
    found = Verdicts((outcome(rule, 0),))
    others = {Kind.SERVE, Kind.ASSIGNED, Kind.ROUTE, Kind.ANSWER, Kind.FINISH} - {absent}
    assert unrecorded(found, _recording(Kind.ROWS, *others)).outcomes[0].verdict is Verdict.UNDECIDED
    assert unrecorded(found, _recording(Kind.ROWS, *others, Kind(absent))) == found
