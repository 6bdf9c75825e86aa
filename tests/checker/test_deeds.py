"""Who leads is told by deeds: legal runs with kinds of events taken out, and with events altered.

A kind that is taken out leaves no check green that needs it, and makes none accuse the run. An event that is altered so
that no correct system could have left it is noticed, by the check that the plant names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from loghistory import SCHEMA, open_run
from logwitness import RunVerdict, check
from logwitness.checks import families

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs" / "raft"
LEGAL = (
    "cluster-all-faults",
    "cluster-kill-leader",
    "reference-default",
    "reference-five-nodes",
    "reference-jsonl",
    "reference-leaders-fall",
    "reference-lost-power",
    "reference-messages",
    "reference-parquet",
    "reference-write-caching",
)

Row = dict[str, Any]


@cache
def recorded(name: str) -> tuple[pa.Table, dict[str, Any]]:
    """The events of a recorded run, and what a judge must know of it."""
    source = open_run(RUNS / name)
    assert source.manifest is not None
    made = source.manifest.made_by["configuration"]
    configuration = {"voters": [*range(made["nodes"])], "write_caching": made["write_caching"], "protocol": "raft"}
    return pa.Table.from_batches(source.batches()), configuration


def without(table: pa.Table, *kinds: str) -> pa.Table:
    """The events of other kinds."""
    return table.filter(pc.invert(pc.is_in(table.column("kind").cast(pa.string()), pa.array(kinds))))


GROUND = {each.id for family in families() if family.is_ground for each in family.checks}
"""Checks of well-formed histories, which have tests of their own."""


def verdicts(verdict: RunVerdict) -> dict[str, str]:
    """By check, but for those that ask whether the history is well formed."""
    return {each.id: str(each.verdict) for each in verdict.checks if each.id not in GROUND}


# What is undecided at least, once events of a kind are gone that the run had; and what cannot be judged at all.
UNDECIDED = {
    "leader": {"one-leader-per-term", "leader-has-majority", "leader-completeness", "commit-current-term"},
    "vote": {"leader-has-majority", "one-vote-per-term"},
    "role": {"term-needs-candidate"},
    "term": {"term-needs-candidate"},
    "commit": {"committed-flushed-on-majority", "commit-current-term", "follower-commit-within-leader"},
    "append": {"committed-flushed-on-majority", "commit-current-term", "committed-agree"},
    "flush": {"committed-flushed-on-majority"},
    "visible": {"visible-on-majority", "pending-not-visible", "follower-visible-within-leader"},
    "acked": {"ack-rule", "acked-survives"},
}
IDLE = {
    "append": {"log-matching", "append-at-end", "ack-rule", "visible-on-majority", "pending-not-visible"},
    "crash": {"dirty-survives-crash"},
    "start": {"restart-is-flushed"},
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", sorted({*UNDECIDED, *IDLE, "stop", "power_loss"}))
@pytest.mark.parametrize("run", [pytest.param(LEGAL[0], marks=pytest.mark.long), *LEGAL[1:]])
def test_without_a_kind_nothing_that_needs_it_is_green_and_nothing_is_accused(run: str, kind: str) -> None:
    table, configuration = recorded(run)
    rest = without(table, kind)
    if rest.num_rows == table.num_rows:
        pytest.skip(f"no {kind} was recorded")
    verdict = check(rest, configuration=configuration)
    found = verdicts(verdict)
    assert "violated" not in found.values()
    if kind == "flush":
        assert next(each for each in verdict.checks if each.id == "flushed-follows-events").verdict == "undecided"
    assert {name for name in UNDECIDED.get(kind, ()) if found[name] != "undecided"} == set()
    assert {name for name in IDLE.get(kind, ()) if found[name] == "holds"} == set()
    if kind in UNDECIDED:
        assert verdict.verdict in ("undecided", "violated")
        reasons = [each.reason or "" for each in verdict.checks if each.id in UNDECIDED[kind]]
        assert all(kind in reason or "no answer" in reason for reason in reasons)


@pytest.mark.long
@pytest.mark.parametrize("run", sorted(run.name for run in RUNS.glob("mutant-*")))
def test_without_what_is_said_of_leaders_and_votes_no_bad_run_turns_green(run: str) -> None:
    source = open_run(RUNS / run)
    assert source.manifest is not None
    made = {name: value for name, value in source.manifest.made_by["configuration"].items() if value is not None}
    configuration = {"voters": source.manifest.nodes, **made, "protocol": "raft"}
    table = source.table()
    if check(table, configuration=configuration).verdict != "violated":
        pytest.skip("nothing is violated")
    for number in (1, 2, 3):
        for kinds in combinations(("leader", "acked", "vote"), number):
            assert check(without(table, *kinds), configuration=configuration).verdict in ("violated", "undecided"), (
                kinds
            )


@pytest.mark.sampled(5)
@pytest.mark.parametrize("run", LEGAL)
def test_who_leads_is_known_without_leader_events_and_roles(run: str) -> None:
    """By what they write and answer: the commit rule is applied as often as with these events."""
    table, configuration = recorded(run)
    rest = without(table, "leader", "role").drop_columns(["role"])
    rest = pa.table(
        {
            name: rest.column(name) if name in rest.column_names else pa.nulls(len(rest), SCHEMA.field(name).type)
            for name in SCHEMA.names
        },
        schema=SCHEMA,
    )
    reported, by_deeds = (check(each, configuration=configuration) for each in (table, rest))
    judged = [{each.id: each.judged for each in verdict.checks} for verdict in (reported, by_deeds)]
    for name in ("committed-flushed-on-majority", "commit-current-term", "follower-commit-within-leader"):
        assert judged[0][name] == judged[1][name] > 0
    assert "violated" not in verdicts(by_deeds).values()


# -- planted ----------------------------------------------------------------------------------------------------------

Plant = Callable[[list[Row]], int]
"""Alters the events of a run; returns the place that was altered."""

PLANTS: dict[str, tuple[str, Plant]] = {}


def plant(check_id: str) -> Callable[[Plant], Plant]:
    """Mark a plant with the check that must name it."""

    def named(function: Plant) -> Plant:
        PLANTS[function.__name__.strip("_").replace("_", " ")] = check_id, function
        return function

    return named


def places(rows: list[Row], kind: str, wanted: Callable[[Row], bool] = lambda row: True) -> Iterator[int]:
    """Where events of a kind are, from the middle of the run on."""
    half = len(rows) // 2
    for place in (*range(half, len(rows)), *range(half)):
        row = rows[place]
        if row["kind"] == kind and wanted(row):
            yield place


def first(rows: list[Row], kind: str, wanted: Callable[[Row], bool] = lambda row: True) -> int:
    """The first of them. Skips the test if there is none."""
    for place in places(rows, kind, wanted):
        return place
    pytest.skip(f"no {kind} to alter")


def leader_of(rows: list[Row], place: int) -> Row:
    """The last election before a place."""
    return next(row for row in reversed(rows[:place]) if row["kind"] == "leader")


def follows(rows: list[Row], kind: str, **least: int) -> int:
    """An event of that kind of a node that does not lead, whose columns are at least so large."""
    return first(
        rows, kind, lambda row: row["role"] == "follower" and all((row[name] or 0) >= n for name, n in least.items())
    )


def leads(rows: list[Row], kind: str, **least: int) -> int:
    """The same of a node that leads."""
    return first(
        rows, kind, lambda row: row["role"] == "leader" and all((row[name] or 0) >= n for name, n in least.items())
    )


def states(rows: list[Row], place: int) -> Iterator[Row]:
    """The event at a place and those of its node behind it."""
    node = rows[place]["node"]
    return (row for row in rows[place:] if row["node"] == node and row["dirty"] is not None)


def last_states(rows: list[Row], place: int) -> list[Row]:
    """The last event of each node up to a place."""
    return [*{row["node"]: row for row in rows[: place + 1] if row["dirty"] is not None}.values()]


@plant("committed-flushed-on-majority")
def _a_leader_commits_before_any_follower_has_flushed(rows: list[Row]) -> int:
    """Its flush makes it commit at once."""
    place = next(
        n
        for n in places(rows, "flush", lambda row: row["role"] == "leader" and row["flushed"] > row["commit"])
        if sum(each["flushed"] >= rows[n]["flushed"] for each in last_states(rows, n)) <= 1
    )
    rows[place]["commit"] = rows[place]["flushed"]
    for row in list(states(rows, place))[1:]:
        row["commit"] = max(row["commit"], rows[place]["commit"])
    return place


@plant("follower-commit-within-leader")
def _a_follower_commits_what_it_has_flushed(rows: list[Row]) -> int:
    def in_front(row: Row) -> bool:
        most = max((r["commit"] for r in rows[: row["seq"]] if r["commit"] is not None), default=-1)
        return bool(row["role"] == "follower" and row["flushed"] > most)

    place = first(rows, "flush", in_front)
    rows[place]["commit"] = rows[place]["flushed"]
    for row in list(states(rows, place))[1:]:
        row["commit"] = max(row["commit"], rows[place]["commit"])
    return place


@plant("follower-visible-within-leader")
def _a_follower_shows_what_it_has(rows: list[Row]) -> int:
    def in_front(row: Row) -> bool:
        most = max((r["visible"] for r in rows[: row["seq"]] if r["visible"] is not None), default=-1)
        return bool(row["role"] == "follower" and row["dirty"] > most)

    place = first(rows, "append", in_front)
    rows[place]["visible"] = rows[place]["dirty"]
    return place


@plant("commit-within-flushed")
def _a_commit_beyond_what_is_flushed(rows: list[Row]) -> int:
    place = first(rows, "commit", lambda row: row["dirty"] > row["flushed"])
    rows[place]["commit"] = rows[place]["dirty"]
    return place


@plant("commit-monotonic")
def _a_commit_index_falls(rows: list[Row]) -> int:
    place = follows(rows, "append", commit=2)
    rows[place]["commit"] -= 2
    return place


@plant("commit-monotonic")
def _a_leaders_commit_index_falls(rows: list[Row]) -> int:
    place = leads(rows, "visible", commit=2)
    rows[place]["commit"] -= 1
    return place


@plant("flushed-within-dirty")
def _a_flush_beyond_the_log(rows: list[Row]) -> int:
    place = first(rows, "flush")
    rows[place]["flushed"] = rows[place]["dirty"] + 1
    return place


@plant("flushed-monotonic")
def _a_flushed_offset_falls(rows: list[Row]) -> int:
    place = follows(rows, "append", flushed=1)
    rows[place]["flushed"] -= 1
    return place


@plant("flushed-monotonic")
def _a_leaders_flushed_offset_falls(rows: list[Row]) -> int:
    place = leads(rows, "commit", flushed=1)
    rows[place]["flushed"] -= 1
    rows[place]["commit"] = min(rows[place]["commit"], rows[place]["flushed"])
    return place


@plant("committed-flushed-on-majority")
def _the_followers_flush_less_than_they_say(rows: list[Row]) -> int:
    """No follower flushes anything any more."""
    place = first(rows, "leader")
    for row in rows:
        if row["flushed"] is not None and row["role"] != "leader":
            row["flushed"] = -1
    return place


@plant("visible-within-dirty")
def _visible_beyond_the_log(rows: list[Row]) -> int:
    place = follows(rows, "visible")
    rows[place]["visible"] = rows[place]["dirty"] + 1
    return place


@plant("visible-monotonic")
def _a_visible_offset_falls(rows: list[Row]) -> int:
    place = follows(rows, "append", visible=1)
    rows[place]["visible"] -= 1
    return place


@plant("visible-on-majority")
def _a_leader_shows_what_it_alone_has(rows: list[Row]) -> int:
    place = leads(rows, "append")
    rows[place]["visible"] = rows[place]["dirty"]
    return place


@plant("pending-not-visible")
def _a_leader_shows_what_is_not_committed(rows: list[Row]) -> int:
    place = first(rows, "append", lambda row: row["role"] == "leader" and row["acks"] == -1)
    rows[place]["visible"] = rows[place]["dirty"]
    return place


@plant("term-monotonic")
def _a_term_falls(rows: list[Row]) -> int:
    place = follows(rows, "flush", term=1)
    rows[place]["term"] -= 1
    return place


@plant("term-needs-candidate")
def _a_follower_goes_on_in_a_term_of_its_own(rows: list[Row]) -> int:
    place = follows(rows, "append")
    for row in states(rows, place):
        row["term"] += 1000
    return place


@plant("term-needs-candidate")
def _two_nodes_go_on_in_a_term_of_their_own(rows: list[Row]) -> int:
    place = follows(rows, "flush")
    term = rows[place]["term"] + 1000
    others = {row["node"] for row in rows if row["node"] is not None and row["role"] == "follower"}
    for row in rows[place:]:
        if row["node"] in others and row["dirty"] is not None and row["role"] == "follower":
            row["term"] = term
    return place


@plant("one-leader-per-term")
def _another_leader_of_the_term(rows: list[Row]) -> int:
    place = follows(rows, "flush", term=1)
    rows[place]["kind"] = "leader"
    return place


@plant("one-leader-per-term")
def _another_node_has_the_role(rows: list[Row]) -> int:
    place = follows(rows, "append", term=1)
    rows[place]["role"] = "leader"
    return place


@plant("one-leader-per-term")
def _another_node_answers_appends(rows: list[Row]) -> int:
    place = first(rows, "acked", lambda row: row["reason"] == "success" and row["role"] == "leader")
    rows[place]["node"] = (rows[place]["node"] + 1) % 3
    return place


@plant("one-leader-per-term")
def _a_follower_writes_before_its_leader(rows: list[Row]) -> int:
    """An append of a follower changes places with that of its leader."""
    place = first(rows, "append", lambda row: row["role"] == "leader" and row["entry_term"] == row["term"])
    lead = rows[place]
    entry = lead["offset"], lead["entry_term"]
    later = next(
        n
        for n in range(place + 1, len(rows))
        if rows[n]["kind"] == "append" and (rows[n]["offset"], rows[n]["entry_term"]) == entry
    )
    moved = rows.pop(later)
    rows.insert(place, moved)
    return place


@plant("leader-has-majority")
def _a_leader_without_votes(rows: list[Row]) -> int:
    place = first(rows, "leader", lambda row: row["term"] > 1)
    term = rows[place]["term"]
    for row in rows:
        if row["kind"] == "vote" and row["term"] == term:
            row["term"], row["kind"] = row["term"], "flush"
    return place


@plant("leader-has-majority")
def _votes_for_another(rows: list[Row]) -> int:
    place = first(rows, "leader", lambda row: row["term"] > 1)
    lead = rows[place]
    for row in rows:
        if row["kind"] == "vote" and row["term"] == lead["term"] and row["node"] != lead["node"]:
            row["peer"] = row["node"]
    return place


@plant("one-vote-per-term")
def _a_second_vote(rows: list[Row]) -> int:
    place = first(rows, "vote", lambda row: row["node"] != row["peer"])
    again = dict(rows[place])
    again["peer"] = again["node"]
    rows.insert(place + 1, again)
    return place


@plant("leader-append-only")
def _a_leader_truncates(rows: list[Row]) -> int:
    place = leads(rows, "visible", dirty=2)
    rows[place] |= {"kind": "truncate", "offset": rows[place]["dirty"] + 1}
    return place


@plant("committed-never-truncated")
def _a_follower_truncates_what_is_committed(rows: list[Row]) -> int:
    place = follows(rows, "flush", commit=1)
    rows[place] |= {"kind": "truncate", "offset": rows[place]["commit"]}
    return place


@plant("append-at-end")
def _an_append_over_the_log(rows: list[Row]) -> int:
    place = follows(rows, "append", offset=2)
    rows[place]["offset"] -= 1
    return place


@plant("log-matching")
def _another_value(rows: list[Row]) -> int:
    place = first(rows, "append", lambda row: row["role"] == "follower" and row["value"] is not None)
    rows[place]["value"] += 100_000
    return place


@plant("log-matching")
def _an_entry_that_is_longer(rows: list[Row]) -> int:
    place = follows(rows, "append")
    rows[place]["last_offset"] = (rows[place]["last_offset"] or rows[place]["offset"]) + 1
    return place


@plant("log-terms-monotonic")
def _an_entry_of_a_later_term(rows: list[Row]) -> int:
    place = follows(rows, "append")
    rows[place]["entry_term"] = rows[place]["term"] + 1
    return place


@plant("log-terms-monotonic")
def _an_entry_of_an_older_term(rows: list[Row]) -> int:
    place = follows(rows, "append", entry_term=2)
    rows[place]["entry_term"] = 0
    return place


@plant("commit-current-term")
def _a_leader_commits_as_it_is_elected(rows: list[Row]) -> int:
    """What it had flushed of older terms, before it committed an entry of its own."""
    place = first(rows, "leader", lambda row: row["flushed"] > row["commit"])
    place = next(n for n in range(place + 1, len(rows)) if rows[n]["node"] == rows[place]["node"])
    rows[place]["commit"] = rows[place]["flushed"]
    for row in list(states(rows, place))[1:]:
        row["commit"] = max(row["commit"], rows[place]["commit"])
    return place


@plant("roles-in-order")
def _a_leader_becomes_leader_again(rows: list[Row]) -> int:
    place = first(rows, "leader", lambda row: row["term"] > 0)
    rows.insert(place + 1, rows[place])
    return place


@plant("ack-rule")
def _an_answer_before_the_commit(rows: list[Row]) -> int:
    place = first(rows, "acked", lambda row: row["acks"] == -1 and row["reason"] == "success" and row["commit"] > 0)
    rows[place]["commit"] = rows[place]["offset"] - 1
    return place


@plant("ack-rule")
def _an_answer_for_another_term(rows: list[Row]) -> int:
    place = first(rows, "acked", lambda row: row["reason"] == "success" and row["entry_term"] > 1)
    rows[place]["entry_term"] -= 1
    return place


@plant("ack-rule")
def _an_answer_for_what_is_not_there(rows: list[Row]) -> int:
    place = first(rows, "acked", lambda row: row["reason"] == "success" and row["acks"] != -1)
    rows[place] |= {"offset": rows[place]["dirty"] + 5, "last_offset": rows[place]["dirty"] + 5}
    return place


@plant("truncated-rule")
def _a_success_told_as_truncated(rows: list[Row]) -> int:
    place = first(rows, "acked", lambda row: row["reason"] == "success")
    rows[place]["reason"] = "truncated"
    return place


@plant("failed-never-committed")
def _a_failure_that_is_committed(rows: list[Row]) -> int:
    place = first(rows, "acked", lambda row: row["reason"] == "success" and row["acks"] == -1)
    rows[place]["reason"] = "truncated"
    return place


@plant("flushed-durable")
def _a_start_without_what_was_flushed(rows: list[Row]) -> int:
    place = first(rows, "start", lambda row: row["dirty"] > 0)
    rows[place] |= {"dirty": rows[place]["dirty"] - 1, "flushed": rows[place]["dirty"] - 1}
    ends = [row for row in rows[:place] if row["node"] == rows[place]["node"] and row["flushed"] is not None]
    ends[-1]["flushed"] = ends[-1]["dirty"]
    return place


@plant("restart-is-flushed")
def _a_start_that_did_not_flush(rows: list[Row]) -> int:
    place = first(rows, "start", lambda row: row["dirty"] > 0)
    rows[place]["flushed"] -= 1
    return place


@plant("dirty-survives-crash")
def _a_start_without_what_was_appended(rows: list[Row]) -> int:
    crashed = {row["node"] for row in rows if row["kind"] == "crash"}
    place = next(
        (
            n
            for n, row in enumerate(rows)
            if row["kind"] == "start" and row["node"] in crashed and row["dirty"] > 0 and _crashed(rows, n)
        ),
        None,
    )
    if place is None:
        pytest.skip("no crash that left entries")
    rows[place] |= {"dirty": -1, "flushed": -1}
    return place


def _crashed(rows: list[Row], place: int) -> bool:
    own = [row for row in rows[:place] if row["node"] == rows[place]["node"]]
    lives = [row for row in own if row["dirty"] is not None or row["kind"] in ("crash", "power_loss", "storage_error")]
    return bool(lives) and lives[-1]["kind"] == "crash"


@plant("converges")
def _a_node_ends_behind(rows: list[Row]) -> int:
    """The last commit of a node is missing in all that it says."""
    node = next(row["node"] for row in rows if row["kind"] == "commit" and row["role"] == "follower")
    place = max(n for n, row in enumerate(rows) if row["node"] == node and row["kind"] == "commit")
    commit = max(r["commit"] for r in rows[:place] if r["node"] == node and r["commit"] is not None)
    for row in states(rows, place):
        row["commit"] = min(row["commit"], commit)
    rows[place]["kind"] = "visible"
    return place


@plant("voters-return")
def _a_node_that_never_comes_back(rows: list[Row]) -> int:
    healed = next(n for n, row in enumerate(rows) if row["kind"] == "phase" and row["f"] == "heal")
    final = next(n for n, row in enumerate(rows) if row["kind"] == "phase" and row["f"] == "final_read")
    node = max(row["node"] for row in rows if row["node"] is not None and row["dirty"] is not None)
    gone = [n for n in range(healed + 1, len(rows)) if rows[n]["node"] == node and rows[n]["dirty"] is not None]
    error = dict.fromkeys(SCHEMA.names) | {"time": rows[final]["time"], "kind": "storage_error", "node": node}
    for place in reversed(gone):
        del rows[place]
    rows.insert(healed + 1, error)
    return healed


@plant("trim-within-commit")
def _a_trim_above_the_commit_index(rows: list[Row]) -> int:
    place = first(rows, "append", lambda row: row["dirty"] > row["commit"] + 1)
    trim = rows[place] | {"kind": "trim", "offset": rows[place]["commit"] + 2, "last_offset": None, "entry_term": None}
    rows.insert(place + 1, trim | {"value": None, "acks": None})
    return place


@plant("trim-within-commit")
def _a_trim_that_moves_the_commit_index(rows: list[Row]) -> int:
    place = first(rows, "append", lambda row: row["dirty"] > row["commit"] + 1 and row["flushed"] > row["commit"])
    row = rows[place]
    trim = row | {"kind": "trim", "offset": row["flushed"] + 1, "commit": row["flushed"], "last_offset": None}
    rows.insert(place + 1, trim | {"value": None, "acks": None, "entry_term": None})
    return place


@plant("trim-within-commit")
def _a_trim_that_takes_all_and_keeps_no_state(rows: list[Row]) -> int:
    place = first(rows, "flush", lambda row: row["commit"] > 3)
    row = rows[place]
    rows.insert(place + 1, row | {"kind": "trim", "offset": row["commit"], "flushed": -1, "commit": -1, "visible": -1})
    return place


@plant("trim-monotonic")
def _a_trim_back(rows: list[Row]) -> int:
    place = first(rows, "flush", lambda row: row["commit"] > 3)
    trim = rows[place] | {"kind": "trim"}
    rows.insert(place + 1, trim | {"offset": 3})
    rows.insert(place + 2, trim | {"offset": 1})
    return place


CUT_OFF = {
    ("a leader commits before any follower has flushed", "reference-write-caching"),
}
"""Plants next to the end of a life: what would clear the node may lack in the record of who was cut off there."""

WAITING = {"an answer before the commit", "a leader shows what is not committed"}
"""Plants that write caching permits."""


def planted(run: str, alter: Plant) -> tuple[pa.Table, dict[str, Any]]:
    """A recorded run with one plant in it."""
    table, configuration = recorded(run)
    rows = table.to_pylist()
    alter(rows)
    # Places are given anew: a plant may put events in and take them out.
    return pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(rows)], schema=SCHEMA), configuration


@pytest.mark.parametrize("known", [{"voters": [0, 1, 2, 3, 4]}, {"voters": None, "nodes": 5}])
def test_a_majority_of_voters_that_record_nothing_is_not_counted(known: dict[str, Any]) -> None:
    table, configuration = recorded("reference-default")
    found = {each.id: each for each in check(table, configuration=configuration | known).checks}
    for name in ("committed-flushed-on-majority", "leader-has-majority"):
        assert found[name].verdict == "undecided"
        assert "nothing is recorded of voters 3 and 4" in (found[name].reason or "")


@pytest.mark.parametrize("node", [0, 1, 2, None])
def test_a_wipe_that_its_node_does_not_show_excuses_nothing(node: int | None) -> None:
    """A leader commits before any follower has flushed, and a follower is said to have lost its disk just then."""
    table, configuration = planted("reference-default", _a_leader_commits_before_any_follower_has_flushed)
    rows = table.to_pylist()
    place = _a_leader_commits_before_any_follower_has_flushed(recorded("reference-default")[0].to_pylist())
    rows.insert(place, dict.fromkeys(SCHEMA.names) | {"time": rows[place]["time"], "kind": "fault", "f": "wipe"})
    rows[place]["node"] = node
    wiped = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(rows)], schema=SCHEMA)
    found = {each.id: each for each in check(wiped, configuration=configuration).checks}
    assert found["wiped-disks-are-empty"].verdict == "undecided"
    assert found["committed-flushed-on-majority"].verdict in ("undecided", "violated")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("most", [1, pytest.param(len(LEGAL), marks=pytest.mark.long)])
@pytest.mark.parametrize("name", sorted(PLANTS))
def test_a_plant_is_named(name: str, most: int) -> None:
    """In the first ``most`` runs that have room for it."""
    expected, alter = PLANTS[name]
    tried = 0
    for run in LEGAL[2:]:
        if tried == most:
            break
        try:
            table, configuration = planted(run, alter)
            assert not (configuration["write_caching"] and name in WAITING)
        except (pytest.skip.Exception, StopIteration, AssertionError):
            continue
        tried += 1
        found = verdicts(check(table, configuration=configuration))
        assert found[expected] == ("undecided" if (name, run) in CUT_OFF else "violated"), run
    assert tried
