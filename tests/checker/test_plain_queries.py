"""Compiled checks of pull queries, which pass over queries that plainly break no rule, judge as plain ones do."""

from __future__ import annotations

import json
import operator
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from loghistory import open_run
from logwitness import check
from logwitness.checks import families
from logwitness.checks.columns import Reader
from logwitness.checks.kernel import available
from logwitness.checks.pull_queries.plain_queries import Plain, PlainQueries
from logwitness.checks.pull_queries.plain_queries.reading import (
    ASKED,
    ASSIGNED,
    FINISHED,
    NAME,
    POSITIONS,
    QUERY,
    RECORD,
    ROWS,
    VIEW,
    Reading,
)
from logwitness.checks.words import Words

RUNS = Path(__file__).parents[2] / "histories" / "runs" / "pull_queries"
NAMES = sorted(path.name for path in RUNS.iterdir())
OF_QUERIES = ("route", "forward", "forwarded", "answer", "give_up", "finish", "rows", "ok", "fail", "invoke")
OF_TABLES = ("report", "report_heard", "report_kept", "changelog", "fold", "assigned", "serve", "fault", "crash")
NUMBERS = ("node", "peer", "partition", "offset", "last_offset", "stamp", "op", "time", "epoch")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not available(), reason="loops are compiled by numba")]


@cache
def recorded(name: str) -> tuple[pa.Table, dict[str, Any]]:
    """A recorded run, and what it was made with."""
    run = open_run(RUNS / name)
    assert run.manifest is not None
    made_with = run.manifest.made_by.get("configuration") or {}
    return pa.Table.from_batches(list(run.batches())), made_with


def found(table: pa.Table) -> tuple[Plain, pa.Table]:
    """What the loop finds in a run."""
    words = Words()
    reader = Reader("run", {column for family in families() for column in family.columns}, words)
    (batch,) = table.combine_chunks().to_batches()
    return PlainQueries(words).of(reader.columns(batch)), table


def same(table: pa.Table, configuration: dict[str, Any]) -> None:
    """Both ways of judging, and the first with the run in pieces, say the same."""
    plain = msgspec.to_builtins(check(table, configuration=configuration, compiled=False))
    assert msgspec.to_builtins(check(table, configuration=configuration, compiled=True)) == plain
    third = table.num_rows // 3
    pieces = [table.slice(start, third).combine_chunks() for start in range(0, table.num_rows, max(third, 1))]
    cut = check(pa.concat_tables(pieces), configuration=configuration, compiled=True)
    assert msgspec.to_builtins(cut) == plain


@pytest.mark.parametrize("name", NAMES)
def test_recorded_runs_are_judged_the_same(name: str) -> None:
    same(*recorded(name))


def damaged(rows: list[dict[str, Any]], rng: random.Random) -> None:
    """Change one event of a query, or of what tables and views are made of."""
    places = [at for at, row in enumerate(rows) if row["kind"] in rng.choice((OF_QUERIES, OF_TABLES))]
    at = rng.choice(places)
    row, how = rows[at], rng.randrange(5)
    if how == 0:
        del rows[at]
    elif how == 1:
        others = [each["text"] for each in rows if each["kind"] == row["kind"]]
        rows[at] = row | {"text": rng.choice(others)}
    elif how == 2:
        name = rng.choice([name for name in NUMBERS if row.get(name) is not None])
        rows[at] = row | {name: row[name] + (rng.choice((-1, 1)) if row[name] else 1)}
    elif how == 3 and row["text"]:
        digits = [place for place, letter in enumerate(row["text"]) if letter.isdigit()] or [0]
        place = rng.choice(digits)
        rows[at] = row | {"text": row["text"][:place] + rng.choice('0123456789e."') + row["text"][place + 1 :]}
    else:
        rows.insert(min(at + rng.randrange(40), len(rows)), dict(row))


@pytest.mark.parametrize("name", NAMES)
def test_damaged_runs_are_judged_the_same(name: str) -> None:
    table, configuration = recorded(name)
    rng = random.Random(name)
    rows = table.to_pylist()
    for _ in range(3):
        damaged(rows, rng)
    for seq, row in enumerate(rows):
        row["seq"] = seq
    same(pa.Table.from_pylist(rows, schema=table.schema), configuration)


def written_otherwise(text: str, rng: random.Random) -> str:
    """The same put or record as somebody else might write it."""
    said = json.loads(text)
    how = rng.randrange(5)
    if how == 0 and isinstance(said.get("value"), int):
        said["value"] = float(said["value"])
    elif how == 1 and isinstance(said.get("key"), str):
        return text.replace(f'"{said["key"]}"', '"' + "".join(f"\\u{ord(letter):04x}" for letter in said["key"]) + '"')
    elif how == 2:
        said = dict(reversed(said.items()))
    elif how == 3:
        return json.dumps(said, indent=1)
    return json.dumps(said, separators=(",", ":"))


@pytest.mark.parametrize("damage", [0, 3])
def test_a_row_is_the_same_however_it_is_written(damage: int) -> None:
    table, configuration = recorded("reference-default")
    rng, rows = random.Random(1), table.to_pylist()
    says = [row for row in rows if row["kind"] == "changelog" or (row["kind"] == "invoke" and row["f"] == "put")]
    changes = [row for row in says if '"change"' in (row["text"] or "")]
    for row in rng.sample(changes, damage):
        row["text"] = rng.choice(changes)["text"]
    outcomes = set()
    for share in (0, 0.5, 1):
        for row in says:
            if row["text"] and rng.random() < share:
                row["text"] = written_otherwise(row["text"], rng)
        odd = pa.Table.from_pylist(rows, schema=table.schema)
        for compiled in (False, True):
            verdict = check(odd, ["put-as-written"], configuration=configuration, compiled=compiled)
            outcomes |= {str(each) for each in verdict.checks if each.id == "put-as-written"}
    assert len(outcomes) == 1
    assert ("violated=0" in outcomes.pop()) == (damage == 0)


def test_offsets_that_meet_in_the_table_of_puts_are_two() -> None:
    table, configuration = recorded("reference-default")
    rows = table.to_pylist()
    change = next(row for row in rows if '"key":"' in (row["text"] or "") and row["kind"] == "changelog")
    record = json.loads(change["text"])
    for offset, value in ((5, "a"), (5 + (1 << 44), "b"), (5, "b"), (5 + (1 << 44), "a")):
        said = json.dumps(record | {"source": offset + (1 << 45), "value": value}, separators=(",", ":"))
        rows.append(change | {"seq": len(rows), "time": rows[-1]["time"], "text": said})
    odd = pa.Table.from_pylist(rows, schema=table.schema)
    for compiled in (False, True):
        verdict = check(odd, ["put-as-written"], configuration=configuration, compiled=compiled)
        (outcome,) = (each for each in verdict.checks if each.id == "put-as-written")
        changed = ["holds another row" in violation.sentence for violation in outcome.violations]
        assert changed == [False, False, True, True]


@pytest.mark.parametrize("name", ["reference-default", "reference-shipped", "cluster-kill-active"])
def test_many_queries_are_plain(name: str) -> None:
    plain, table = found(recorded(name)[0])
    routed = sum(kind == "route" for kind in table.column("kind").to_pylist())
    ended = sum(int(nodes.sum()) for _, nodes in plain.ended)
    assert ended > routed / 3


@pytest.mark.parametrize("kind", ["changelog", "fold", "report", "report_heard", "report_kept"])
def test_what_servers_did_wrongly_is_left_to_the_folds(kind: str) -> None:
    """Of a kind of events, many are passed over; one that is another is judged with what was passed over before it."""
    table, configuration = recorded("reference-default")
    plain, _ = found(table)
    rows = table.to_pylist()
    places = [at for at, row in enumerate(rows) if row["kind"] == kind]
    assert np.count_nonzero(plain.right[places]) > len(places) / 6
    rng = random.Random(kind)
    for name in [name for name in NUMBERS if name != "time" and rows[places[0]][name] is not None]:
        for change in (-1, 1):
            at = rng.choice([at for at in places[len(places) // 4 :] if rows[at][name]])
            other = [*rows[:at], rows[at] | {name: rows[at][name] + change}, *rows[at + 1 :]]
            both_ways(pa.Table.from_pylist(other, schema=table.schema), configuration)
    right = [at for at in places if plain.right[at] and rows[at]["text"]]
    for at in right[-3:]:
        text = next(rows[each]["text"] for each in places if rows[each]["text"] not in (None, rows[at]["text"]))
        other = [*rows[:at], rows[at] | {"text": text}, *rows[at + 1 :]]
        both_ways(pa.Table.from_pylist(other, schema=table.schema), configuration)


def both_ways(table: pa.Table, configuration: dict[str, Any]) -> None:
    """What servers have, and say of it, is judged the same with all events and with those that are left."""
    plain, compiled = (
        msgspec.to_builtins(check(table, _OF_SERVERS, configuration=configuration, compiled=compiled))
        for compiled in (False, True)
    )
    assert compiled == plain


_OF_SERVERS = ("reports-are-true", "report-times-rise", "folds-in-order", "heard-was-said", "targets-may-answer")


def test_a_query_that_is_not_as_it_should_be_is_left() -> None:
    """For each event of a plain query: without it, the loop leaves the others."""
    table, _ = recorded("reference-default")
    rows = table.to_pylist()
    plain, _ = found(table)
    op = next(row["op"] for row, passed in zip(rows, plain.events, strict=True) if passed and row["kind"] == "forward")
    mine = [at for at, row in enumerate(rows) if row["op"] == op]
    kinds = {rows[at]["kind"] for at in mine}
    assert kinds == {"invoke", "route", "forward", "forwarded", "answer", "finish", "rows", "ok"}
    assert plain.events[mine].all()
    for left_out in mine:
        less = table.filter(pa.array([at != left_out for at in range(len(rows))]))
        again, _ = found(less)
        others = [at - (at > left_out) for at in mine if at != left_out]
        assert not again.events[others].any(), rows[left_out]["kind"]


def test_a_query_that_falls_through_is_plain_if_its_attempts_are_the_rounds() -> None:
    """Past a server that did not answer; with other attempts than those the loop leaves it, and the folds object."""
    table, configuration = recorded("cluster-kill-active")
    rows = table.to_pylist()
    plain, _ = found(table)
    ends = [at for at, row in enumerate(rows) if row["kind"] == "finish" and plain.events[at]]
    attempts = {at: json.loads(rows[at]["text"])["attempts"] for at in ends}
    fell = [at for at in ends if any(failure for *_, failure in attempts[at])]
    assert len(fell) > 5
    at, (first, *rest) = fell[0], attempts[fell[0]]
    other_host = [first[0], rest[-1][1], first[2]]
    for other in (rest, [*rest, first], [first, *rest, first], [other_host, *rest], [[*first[:2], None], *rest]):
        text = json.dumps({"message": None, "attempts": other}, separators=(",", ":"))
        odd = pa.Table.from_pylist([*rows[:at], rows[at] | {"text": text}, *rows[at + 1 :]], schema=table.schema)
        assert not found(odd)[0].events[at], text
        for compiled in (False, True):
            verdict = check(odd, ["candidates-follow-view"], configuration=configuration, compiled=compiled)
            assert str(verdict.verdict) == "violated", text


def test_a_text_counts_only_as_what_its_event_says() -> None:
    """Events with the text of an event of another kind, which reads it in another form."""
    table, configuration = recorded("reference-default")
    rows = table.to_pylist()
    texts = {row["kind"]: row["text"] for row in rows if row["text"]}
    places = {row["kind"]: at for at, row in enumerate(rows) if row["text"]}
    kinds = ("invoke", "route", "forward", "finish", "answer", "report", "changelog", "assigned")
    for number, kind in enumerate(kinds):
        rows[places[kind]] |= {"text": texts[kinds[(number + 3) % len(kinds)]]}
    strange = pa.Table.from_pylist(rows, schema=table.schema)
    assert found(strange)[0].said[places["route"]] < 0
    same(strange, configuration)


# -- texts -------------------------------------------------------------------------------------------------------------

GOOD = {
    NAME: ['"h0:8088"'],
    RECORD: [
        '{"type":"takeover","epoch":3}',
        '{"type":"change","epoch":1,"source":0,"key":null,"value":null}',
        '{"type":"change","epoch":1,"source":0,"key":"k","value":-7}',
        '{"type":"change","epoch":1,"source":0,"key":"ä","value":"w"}',
    ],
    ASSIGNED: [
        '{"epoch":0,"members":[],"placements":[]}',
        '{"epoch":1,"members":["a","b"],"placements":[["a",["b"]]]}',
    ],
    POSITIONS: ["{}", '{"0":[1,2],"3":[0,0]}'],
    QUERY: [
        '{"keys":null,"filter":null,"bound":null}',
        '{"keys":[],"filter":null,"bound":0}',
        '{"keys":["k","l"],"filter":null,"bound":7}',
        '{"keys":["k"' + 2000 * ',""' + '],"filter":null,"bound":7}',  # more numbers for its length than any other text
        '{"keys":null,"filter":{"column":"v","op":"<=","value":-3},"bound":null}',
    ],
    VIEW: ['{"assignment":{"epoch":0,"members":[],"placements":[]},"statuses":{},"records":{}}'],
    ASKED: ['{"partitions":[0,1],"bound":null}', '{"partitions":[0],"bound":5}'],
    FINISHED: ['{"message":null,"attempts":[]}', '{"message":null,"attempts":[[0,"a","reset"],[0,"b",null]]}'],
    ROWS: ["[]", '[["k",1],["l","w"]]'],
}
OTHER = {
    NAME: ['"h\\u0030"', '"a"b"', '"a', '"h\x1f"'],
    RECORD: [
        '{"type":"takeover","epoch":03}',
        '{"type":"change","epoch":1,"source":0,"key":"k","value":1.5}',
        '{"type":"change","epoch":1,"source":0,"key":"\n","value":1}',
        '{"type":"change","epoch":1,"source":0,"key":"k","value":"\0"}',
    ],
    ASSIGNED: ['{"epoch":0,"members":[],"placements":[],"more":1}', '{"members":[],"epoch":0,"placements":[]}'],
    POSITIONS: ['{"0":[1,2],"0":[1,2]}', '{"0":[1]}', '{"0":[1,2]', '{"-1":[1,2]}', '{"0":[1, 2]}', '{"00":[1,2]}'],
    QUERY: [
        '{"keys":["k"]}',
        '{"keys":null,"filter":null,"bound":-1}',
        '{"keys":null,"filter":null,"bound":1e3}',
        '{"keys":null,"filter":{"column":"k","op":"<","value":"that nobody put"},"bound":null}',
    ],
    VIEW: [
        f'{{"assignment":{{"epoch":0,"members":[],"placements":[]}},"statuses":{{{statuses}}},"records":{{{records}}}}}'
        for statuses, records in (
            ('"zz":[true,1]', ""),
            ('"a":[true,1],"a":[true,1]', ""),
            ("", '"a":[1,{}],"a":[1,{}]'),
        )
    ],
    ASKED: ['{"partitions":[0,],"bound":null}', '{"partitions":[1234567890123456789],"bound":null}'],
    FINISHED: ['{"message":"no","attempts":[]}', '{"message":null,"attempts":[[0,"a",0]]}'],
    ROWS: ['[["k\t",1]]', '[["k",-0]]', '[["k",true]]', '[["k",1]]]', '[["k",1],]', '[["k",null]]', "[", ""],
}


def test_texts_are_read_in_the_form_of_servers_alone() -> None:
    for texts, are_read in ((GOOD, True), (OTHER, False)):
        pairs = [(form, text) for form, each in texts.items() for text in each]
        names = {'"a"': NAME, '"b"': NAME}
        nothing = np.zeros(0, np.int64), np.zeros(0, np.int8)
        said, _, numbers = Reading(Words()).read(*nothing, {text: form for form, text in pairs} | names)
        for (form, text), number in zip(pairs, numbers, strict=False):
            assert (said.at[number] >= 0) == are_read, (form, text)


# -- changelogs --------------------------------------------------------------------------------------------------------


KEYS = ("k", "k1", "kk", "", "é", 'a"b', None)
VALUES = (None, 0, -7, 12, "w", "", "ö", 'q"', 1.5)


def records(rng: random.Random, count: int, keys: Sequence[str | None], values: Sequence[Any]) -> list[str | None]:
    """What a changelog may hold: takeovers, also late ones; changes in order, repeated, left out and of old epochs;
    keys that are put, deleted and put again; records of Raft's own; texts that only Python can read."""
    epoch, source, made = rng.choice((0, 1)), 0, list[str | None]()
    for _ in range(count):
        what = rng.random()
        if what < 0.1:
            made.append(None)
        elif what < 0.2:
            epoch += rng.choice((0, 1, 1, 2))
            made.append(json.dumps({"type": "takeover", "epoch": epoch}, separators=(",", ":")))
        else:
            of = max(0, epoch - (rng.random() < 0.1)) + (rng.random() < 0.05)
            number = source + rng.choice((0,) * 8 + (-1, 1))
            source += number == source and of >= epoch
            epoch = max(epoch, of)
            key = rng.choice(keys)
            value = None if key is None else rng.choice(values)
            change = {"type": "change", "epoch": of, "source": max(number, 0), "key": key, "value": value}
            made.append(json.dumps(change, separators=(",", ":"), ensure_ascii=False))
    return made


def table_at(made: list[str | None], position: int) -> list[list[Any]]:
    """The rows of the table at a position, ascending."""
    epoch, source, rows = 0, 0, dict[str, Any]()
    for record in [json.loads(text) for text in made[:position] if text is not None]:
        if record["epoch"] < epoch or record.get("source", source) != source:
            continue
        epoch = record["epoch"]
        if record["type"] == "change":
            source += 1
            if record["key"] is not None:
                rows[record["key"]] = record["value"]
    return [[key, value] for key, value in sorted(rows.items()) if value is not None]


ASKED_FOR = ('{"keys":null,"filter":null,"bound":null}', '{"keys":["k","é","k","kk","no"],"filter":null,"bound":null}')


@pytest.mark.parametrize("seed", range(12))
def test_changelogs_are_folded_the_same(seed: int) -> None:
    """Rows at any position, from the first up to the end and beyond it, asked for before and after it is shown."""
    rng = random.Random(seed)
    recorded_run, configuration = recorded("reference-default")
    serve = next(row for row in recorded_run.to_pylist() if row["kind"] == "serve")
    blank = dict.fromkeys(serve)
    logs = [records(rng, rng.randrange(12, 60), KEYS, VALUES) for _ in range(2)]
    if rng.random() < 0.2:
        logs[0][rng.randrange(len(logs[0]))] = rng.choice(("no record", '{"type":"takeover"}', "{}", ""))
    shown, rows, wrong, beyond = [0, 0], [serve], 0, 0
    readable = all(text is None or (text.startswith('{"type":"') and len(text) > 19) for each in logs for text in each)
    while any(end < len(each) for end, each in zip(shown, logs, strict=True)):
        partition, op = rng.choice([at for at in (0, 1) if shown[at] < len(logs[at])]), len(rows)
        common = blank | {"partition": partition, "time": serve["time"] + op}
        if rng.random() < 0.6:
            offset = shown[partition] + (0 if rng.random() < 0.98 else rng.choice((-1, 1)))
            readable &= offset == shown[partition]
            rows.append(
                common | {"kind": "changelog", "offset": max(offset, 0), "text": logs[partition][shown[partition]]}
            )
            shown[partition] += 1
            continue
        position = rng.choice((0, shown[partition], shown[partition] + 1, rng.randrange(shown[partition] + 1)))
        query = rng.choice(ASKED_FOR)
        rows.append(
            common
            | {"kind": "invoke", "op": op, "process": 0, "f": "query", "node": 0, "text": query, "partition": None}
        )
        answer: list[Any] = []
        if readable and position <= shown[partition]:
            keys = json.loads(query)["keys"]
            answer = [row for row in table_at(logs[partition], position) if keys is None or row[0] in keys]
            if rng.random() < 0.2:
                answer = rng.choice(([*answer, ["z", 1]], answer[1:], [[key, "w"] for key, _ in answer]))
            right = [row for row in table_at(logs[partition], position) if keys is None or row[0] in keys]
            wrong += answer != right
        beyond += position > shown[partition]
        text = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
        rows.append(common | {"kind": "answer", "op": op, "node": 0, "offset": position, "text": text})
    for seq, row in enumerate(rows):
        row["seq"] = seq
    table = pa.Table.from_pylist(rows, schema=recorded_run.schema)
    checks = ("rows-are-the-table", "takeover-comes-first")
    plain = msgspec.to_builtins(check(table, checks, configuration=configuration, compiled=False))
    if readable:
        (found_wrong,) = [each["violated"] for each in plain["checks"] if each["id"] == checks[0]]
        assert found_wrong == wrong + beyond
    for size in (table.num_rows, 40, 7):
        pieces = [table.slice(start, size).combine_chunks() for start in range(0, table.num_rows, size)]
        cut = check(pa.concat_tables(pieces), checks, configuration=configuration, compiled=True)
        assert msgspec.to_builtins(cut) == plain


@pytest.mark.parametrize("name", ["reference-lagging", "reference-overtaken"])
def test_a_query_whose_number_comes_again_is_judged_once(name: str) -> None:
    table, configuration = recorded(name)
    rows = table.to_pylist()
    turn = max(at for at, row in enumerate(rows) if row["kind"] == "phase")
    asked = [row for row in rows[:turn] if row["kind"] == "invoke" and row["f"] == "query"]
    assert asked
    for again in asked[:: len(asked) // 4 + 1]:
        copy = [*rows[: turn + 1], again, *rows[turn + 1 :]]
        same(pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(copy)], table.schema), configuration)


@pytest.mark.parametrize("where", ["in an earlier piece", "before", "behind"])
def test_a_number_that_is_asked_with_twice_is_left(where: str) -> None:
    """Another query has the number of a plain one, and nobody answers it."""
    table, configuration = recorded("reference-default")
    rows = table.to_pylist()
    plain, _ = found(table)
    asked = [at for at, row in enumerate(rows) if plain.events[at] and row["kind"] == "invoke" and row["f"] == "query"]
    for at in asked[-1 : 2 * len(asked) // 3 : -len(asked) // 6]:
        texts = [rows[other]["text"] for other in asked if rows[other]["text"] != rows[at]["text"]]
        place = {"in an earlier piece": asked[0], "before": at, "behind": at + 1}[where]
        twice = [*rows[:place], rows[at] | {"text": texts[0], "time": rows[place]["time"]}, *rows[place:]]
        odd = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(twice)], table.schema)
        if where != "in an earlier piece":
            mine = [each for each, row in enumerate(twice) if row["op"] == rows[at]["op"]]
            assert not found(odd)[0].events[mine].any()
        same(odd, configuration)


def said_otherwise(
    rows: list[dict[str, Any]], kinds: Sequence[str], change: Callable[[dict[str, Any]], object]
) -> None:
    """Change what events of these kinds say."""
    for at, row in enumerate(rows):
        if row["kind"] in kinds and row["text"]:
            said = json.loads(row["text"])
            change(said)
            rows[at] = row | {"text": compact(said)}


@pytest.mark.parametrize("name", ["reference-default", "reference-lagging", "cluster-kill-active", "cluster-shipped"])
def test_standbys_come_in_an_order_that_is_not_that_of_their_placement(name: str) -> None:
    table, configuration = recorded(name)
    rows = table.to_pylist()

    def turned_round(said: dict[str, Any]) -> None:
        for placement in said.get("assignment", said)["placements"]:
            placement[1].reverse()

    said_otherwise(rows, ("assigned", "route"), turned_round)
    other_run = pa.Table.from_pylist(rows, schema=table.schema)
    assert found(other_run)[0].events.tolist() == found(table)[0].events.tolist()
    same(other_run, configuration)


@pytest.mark.parametrize("kind", ["fault", "heal", "phase", "stop", "crash", "power_loss", "storage_error", "serve"])
def test_what_changes_servers_leaves_the_queries_on_their_way(kind: str) -> None:
    table, configuration = recorded("reference-default")
    rows = table.to_pylist()
    plain, _ = found(table)
    asked = [row["op"] for row, passed in zip(rows, plain.events, strict=True) if passed and row["kind"] == "forward"]
    mine = [at for at, row in enumerate(rows) if row["op"] == asked[len(asked) // 2]]
    at = next(at for at in mine if rows[at]["kind"] == "forwarded")
    for node in (rows[at]["peer"], 3):
        served = next(row for row in rows if row["kind"] == "serve" and row["node"] == node)
        event = dict.fromkeys(rows[at]) | {"kind": kind, "node": node, "time": rows[at]["time"]}
        event |= {"text": served["text"] if kind == "serve" else None}
        other = [*rows[: at + 1], event, *rows[at + 1 :]]
        odd = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(other)], table.schema)
        assert not found(odd)[0].events[[each + (each > at) for each in mine]].any()
        same(odd, configuration)


CHANGES: dict[str, tuple[Sequence[str], Callable[[dict[str, Any]], object]]] = {
    "some read no standbys": (["serve"], lambda said: said.update(standby_reads=said["host"][1] not in "13")),
    "some are of the other mode": (["serve"], lambda said: said["host"][1] in "13" and said.update(mode="shipped")),
    "more partitions": (["serve"], lambda said: said.update(partitions=3)),
    "no placement": (["assigned", "route"], lambda said: said.get("assignment", said)["placements"].pop()),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["reference-default", "reference-shipped", "reference-departures"])
def test_servers_that_were_told_otherwise_are_judged_the_same(name: str, change: str) -> None:
    """From the first event on, and from the middle on."""
    table, configuration = recorded(name)
    rows = table.to_pylist()
    for begin in (0, len(rows) // 2):
        changed = [dict(row) for row in rows]
        later = changed[begin:]
        kinds, how = CHANGES[change]
        with suppress(IndexError):
            said_otherwise(later, kinds, how)
        same(pa.Table.from_pylist([*changed[:begin], *later], schema=table.schema), configuration)


def test_a_node_with_two_names_is_left() -> None:
    table, configuration = recorded("reference-default")
    rows = table.to_pylist()
    served = next(row for row in rows if row["kind"] == "serve" and row["node"] == 1)
    for other in ("zz:1", "a:1"):
        said = compact(json.loads(served["text"]) | {"host": other})
        twice = [served | {"text": said, "time": rows[0]["time"]}, *rows]
        odd = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(twice)], table.schema)
        routes = [at for at, row in enumerate(twice) if row["kind"] == "route"]
        assert not found(odd)[0].events[routes].any()
        same(odd, configuration)


def asked_for(query: dict[str, Any], row: list[Any]) -> bool:
    """Whether a query wants a row of its partition."""
    if query["keys"] is not None:
        return row[0] in query["keys"]
    if query["filter"] is None:
        return True
    one, other = row[query["filter"]["column"] == "v"], query["filter"]["value"]
    if isinstance(one, str) != isinstance(other, str):
        return bool(query["filter"]["op"] == "!=")
    return bool(_COMPARES[query["filter"]["op"]](one, other))


_COMPARES = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compact(said: Any) -> str:  # noqa: ANN401
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("name", ["reference-default", "reference-shipped", "cluster-kill-active"])
@pytest.mark.parametrize("wrong", [False, True])
def test_rows_of_any_table_are_plain_if_they_are_right(name: str, wrong: bool) -> None:
    """A recorded run with other changelogs and filters, and the rows that follow; or, as all say who tell of them, the
    rows at another position, or fewer, or more, or others."""
    rng = random.Random(f"{name} {wrong}")
    table, configuration = recorded(name)
    rows = table.to_pylist()
    shown = Counter(row["partition"] for row in rows if row["kind"] == "changelog")
    keys = (*(f"k{number}" for number in range(12)), "", "é", "k", None)
    logs = {
        at: records(rng, count, keys, (*(None,) * 4, -7, "w", "k1", "ö", *range(30))) for at, count in shown.items()
    }
    changes = [json.loads(text) for log in logs.values() for text in log if text is not None]
    cells = [each[name] for each in changes for name in ("key", "value") if each.get(name) is not None]
    queries: dict[int, dict[str, Any]] = {}
    changed: dict[tuple[int, int], tuple[int, str]] = {}
    answers = 0
    for row in rows:
        if row["kind"] == "changelog":
            row["text"] = logs[row["partition"]][row["offset"]]
        elif row["kind"] == "invoke" and row["f"] == "query":
            query = queries[row["op"]] = json.loads(row["text"])
            if query["keys"] is None:
                value = rng.choice(cells)
                query["filter"] = {"column": rng.choice("kv"), "op": rng.choice([*_COMPARES]), "value": value}
            elif rng.random() < 0.5:
                query["keys"] = [*query["keys"], query["keys"][0]] if name != "reference-shipped" else query["keys"]
            row["text"] = compact(query)
        elif row["kind"] in ("answer", "rows") and row["op"] in queries:
            answers += 1
            place = row["op"], row["partition"]
            if place not in changed:
                position, log, query = row["offset"], logs[row["partition"]], queries[row["op"]]
                at = position
                if wrong and rng.random() < 0.3:
                    at += rng.choice((-1, 1, 2))
                    position = rng.choice((position, at))
                right = [each for each in table_at(log, max(at, 0)) if asked_for(query, each)]
                if wrong and rng.random() < 0.3 and right:
                    which = rng.randrange(len(right))
                    other = [right[which][0], rng.choice((0, 12, "w", *keys[:12]))]
                    more = [rng.choice(("k3", "k9", "zz")), 12]
                    right = rng.choice(
                        (
                            right[:which] + right[which + 1 :],
                            [*right[:which], other, *right[which + 1 :]],
                            [*right[: which + 1], *right[which:]],
                            sorted([*right, more], key=lambda each: each[0]),
                            right[::-1],
                        )
                    )
                changed[place] = max(position, 0), compact(right)
            row["offset"], row["text"] = changed[place]
    other_run = pa.Table.from_pylist(rows, schema=table.schema)
    plain, _ = found(other_run)
    if not wrong:
        before, _ = found(table)
        told = [at for at, row in enumerate(rows) if row["kind"] in ("answer", "rows")]
        assert np.count_nonzero(plain.events[told]) > 0.6 * answers
        assert plain.events.tolist() == before.events.tolist()
        (judged,) = check(other_run, ("rows-are-the-table",), configuration=configuration).checks
        assert (judged.judged, judged.violated) == (answers, 0)
    same(other_run, configuration)


@pytest.mark.parametrize("name", ["reference-default", "reference-shipped", "cluster-kill-active"])
def test_queries_that_interleave_are_plain_as_those_one_after_the_other(name: str) -> None:
    """Two queries between whose events nothing else happens that they depend on, event by event in turn."""
    table, configuration = recorded(name)
    rows = table.to_pylist()
    before, _ = found(table)
    mine: dict[int, list[int]] = {}
    for at, row in enumerate(rows):
        if row["op"] is not None and before.events[at] and row["f"] != "put":
            mine.setdefault(row["op"], []).append(at)
    spans = sorted((places for places in mine.values() if len(places) > 3), key=min)
    joined, last = 0, -1
    for first, second in pairwise(spans):
        places = sorted((*first, *second))
        between = {rows[at]["kind"] for at in range(places[0], places[-1]) if at not in places}
        if places[0] <= last or not between <= {"heartbeat", "heard", "up", "down", "invoke", "ok"}:
            continue
        in_turn = [at for pair in zip_longest(first, second) for at in pair if at is not None]
        moved = [rows[at] | {"time": rows[place]["time"]} for at, place in zip(in_turn, places, strict=True)]
        for place, row in zip(places, moved, strict=True):
            rows[place] = row
        joined, last = joined + 1, places[-1]
    assert joined > 3
    for seq, row in enumerate(rows):
        row["seq"] = seq
    other_run = pa.Table.from_pylist(rows, schema=table.schema)
    assert found(other_run)[0].events.tolist() == before.events.tolist()
    same(other_run, configuration)
