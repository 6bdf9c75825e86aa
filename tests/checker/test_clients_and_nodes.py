"""Falsehoods planted in what clients were told, and in excuses, of recorded runs that hold: which check notices each.

A plant takes the events of a run and a number, and returns the events with one falsehood in them: in the first place
that it fits, in the second, ...; None if there are not so many. What is expected is one check that must be among those
that find the run wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loghistory import SCHEMA, open_run
from logwitness import Verdict, check

RUNS = Path(__file__).parents[2] / "histories" / "runs" / "raft"
Row = dict[str, Any]
Rows = list[Row]
Plant = Callable[[Rows, int], Rows | None]


@cache
def _recorded(name: str) -> tuple[Rows, dict[str, Any]]:
    source = open_run(RUNS / name)
    assert source.manifest is not None
    made = source.manifest.made_by
    events = pa.Table.from_batches(source.batches())
    rows = [{key: value for key, value in row.items() if value is not None} for row in events.to_pylist()]
    return rows, {"protocol": "raft", "voters": list(range(made["configuration"].get("nodes", 3)))} | {
        name: value for name, value in made["configuration"].items() if name in ("write_caching", "voters")
    }


def _table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(rows)], schema=SCHEMA)


def _ends(rows: Rows, kind: str, *fs: str, **wanted: Any) -> Iterator[tuple[int, int]]:  # noqa: ANN401
    """Where operations begin and end: those that end so, with these columns in their invocation."""
    begun: dict[int, int] = {}
    for place, row in enumerate(rows):
        if row["kind"] == "invoke":
            begun[row["op"]] = place
        elif row["kind"] == kind and row["f"] in fs and row["op"] in begun:
            first = rows[begun[row["op"]]]
            if all(first.get(name) == value for name, value in wanted.items()):
                yield begun[row["op"]], place


def _nth(places: Iterator[Any], number: int) -> Any:  # noqa: ANN401
    for place, found in enumerate(places):
        if place == number:
            return found
    return None


def _changed(rows: Rows, place: int, **columns: Any) -> Rows:  # noqa: ANN401
    row = {name: value for name, value in (rows[place] | columns).items() if value is not None}
    return [*rows[:place], row, *rows[place + 1 :]]


def _moved(rows: Rows, place: int, to: int) -> Rows:
    """The event at ``place`` right before what was at ``to``, and at its time."""
    rest = rows[:place] + rows[place + 1 :]
    to -= to > place
    return [*rest[:to], rows[place] | {"time": rows[min(to, len(rows) - 1)]["time"]}, *rest[to:]]


def _ok(acks: int | None = None, **change: Callable[[Row], Any]) -> Plant:
    """The answer to an append says something else."""

    def plant(rows: Rows, number: int) -> Rows | None:
        found = _nth(_ends(rows, "ok", "append", **({} if acks is None else {"acks": acks})), 7 * number + 3)
        if found is None:
            return None
        return _changed(rows, found[1], **{name: of(rows[found[1]]) for name, of in change.items()})

    return plant


def _acked_of(rows: Rows, ok: int) -> int | None:
    reported = rows[ok]
    for place, row in enumerate(rows):
        if row["kind"] == "acked" and (row["offset"], row["entry_term"]) == (reported["offset"], reported["term"]):
            return place
    return None


def _ok_before(kind: str, acks: int) -> Plant:
    """The answer to an append comes before the event that it depends on, or right after its invocation."""

    def plant(rows: Rows, number: int) -> Rows | None:
        for place, (begun, ended) in enumerate(_ends(rows, "ok", "append", acks=acks)):
            if place < 5 * number + 2:
                continue
            acked = _acked_of(rows, ended)
            if kind == "invoke":
                return _moved(rows, ended, begun + 1)
            if kind == "acked" and acked is not None:
                return _moved(rows, ended, acked)
            offset, node = rows[ended]["last_offset"], rows[ended]["node"]
            for at in range(begun, ended):
                if rows[at]["kind"] == kind and rows[at]["node"] == node and rows[at]["commit"] >= offset:
                    return _moved(rows, ended, at)
        return None

    return plant


def _acked(change: Callable[[Rows, int, int], Rows | None], acks: int = -1) -> Plant:
    """The node's own answer is missing, late or another one."""

    def plant(rows: Rows, number: int) -> Rows | None:
        found = _nth(_ends(rows, "ok", "append", acks=acks), 6 * number + 2)
        acked = None if found is None else _acked_of(rows, found[1])
        return None if acked is None else change(rows, acked, found[1])

    return plant


def _ended(kind: str, into: str, acks: int = -1, **columns: Any) -> Plant:  # noqa: ANN401
    """An append ends in another way."""

    def plant(rows: Rows, number: int) -> Rows | None:
        found = _nth(_ends(rows, kind, "append", acks=acks), 4 * number + 1)
        if found is None:
            return None
        blank = dict.fromkeys(("offset", "last_offset", "term", "reason"))
        return _changed(rows, found[1], **{"kind": into, **blank, **columns})

    return plant


def _reads(rows: Rows, *fs: str, least: int = 1) -> Iterator[tuple[int, list[int], int]]:
    """Reads with so many batches: where they begin, the batches, where they end."""
    for begun, ended in _ends(rows, "ok", *fs):
        op = rows[begun]["op"]
        given = [at for at in range(begun, ended) if rows[at]["kind"] == "observe" and rows[at]["op"] == op]
        if len(given) >= least:
            yield begun, given, ended


def _read(change: Callable[[Rows, int, list[int], int], Rows | None], *fs: str, least: int = 2) -> Plant:
    """A read was told something else."""

    def plant(rows: Rows, number: int) -> Rows | None:
        left = number
        for found in _reads(rows, *(fs or ("read", "read_committed")), least=least):
            planted = change(rows, *found)
            if planted is not None and left == 0:
                return planted
            left -= planted is not None
        return None

    return plant


def _another_value(rows: Rows, begun: int, given: list[int], ended: int) -> Rows:
    return _changed(rows, given[-1], value=rows[given[0]]["value"])


def _unknown_value(rows: Rows, begun: int, given: list[int], ended: int) -> Rows:
    return _changed(rows, given[-1], value=987654)


def _shifted(rows: Rows, begun: int, given: list[int], ended: int) -> Rows:
    last = rows[given[-1]]
    return _changed(rows, given[-1], offset=last["offset"] + 1, last_offset=last["last_offset"] + 1)


def _without(which: int) -> Callable[[Rows, int, list[int], int], Rows]:
    def change(rows: Rows, begun: int, given: list[int], ended: int) -> Rows:
        return rows[: given[which]] + rows[given[which] + 1 :]

    return change


def _stopped_short(rows: Rows, begun: int, given: list[int], ended: int) -> Rows:
    """The last batch is missing, and the answer ends before it."""
    short = _changed(rows, ended, offset=rows[given[-1]]["offset"], count=rows[ended]["count"] - 1)
    return short[: given[-1]] + short[given[-1] + 1 :]


def _nothing(rows: Rows, begun: int, given: list[int], ended: int) -> Rows | None:
    node, bound = rows[begun]["node"], "commit" if rows[begun]["f"] == "read_committed" else "visible"
    shown = [row[bound] for row in rows[:begun] if row.get("node") == node and bound in row]
    if not shown or shown[-1] < rows[given[0]]["last_offset"]:
        return None  # it was shown only while the read was under way
    none = _changed(rows, ended, offset=rows[begun]["offset"], count=0)
    return [row for place, row in enumerate(none) if place not in given]


def _too_far(rows: Rows, begun: int, given: list[int], ended: int) -> Rows | None:
    """One batch too many, of an entry that no node shows yet."""
    after = rows[given[-1]]["last_offset"] + 1
    for place in range(ended, len(rows)):
        row = rows[place]
        if row["kind"] == "append" and row["offset"] == after and "value" in row:
            batch = {name: row[name] for name in ("offset", "last_offset", "value")}
            longer = _changed(rows, ended, offset=row["last_offset"] + 1, count=rows[ended]["count"] + 1)
            seen = any(earlier.get("value") == row["value"] for earlier in rows[:ended] if earlier["kind"] == "append")
            return None if seen else [*longer[:ended], rows[given[-1]] | batch, *longer[ended:]]
    return None


def _before_it_was_shown(rows: Rows, begun: int, given: list[int], ended: int) -> Rows | None:
    """The whole read took place before the node showed its last batch."""
    node, bound = rows[begun]["node"], "commit" if rows[begun]["f"] == "read_committed" else "visible"
    for place in range(begun):
        row = rows[place]
        if row.get("node") == node and row.get(bound, -1) >= rows[given[-1]]["last_offset"]:
            at = place
            break
    else:
        return None
    op = rows[begun]["op"]
    if any(row.get("process") == rows[begun]["process"] for row in rows[at:begun]):
        return None
    mine = [row | {"time": rows[at]["time"]} for row in rows[at : ended + 1] if row.get("op") == op]
    return [*rows[:at], *mine, *(row for row in rows[at:] if row.get("op") != op)]


def _of_another_node(rows: Rows, begun: int, given: list[int], ended: int) -> Rows | None:
    """The node that is said to have been asked did not have the last batch at any time until then."""
    bound = "commit" if rows[begun]["f"] == "read_committed" else "visible"
    known: dict[int, int] = {}
    for row in rows[:ended]:
        if bound in row:
            known[row["node"]] = max(known.get(row["node"], -1), row[bound])
    for node, most in known.items():
        if most < rows[given[-1]]["offset"]:
            op = rows[begun]["op"]
            return [row | {"node": node} if row.get("op") == op else row for row in rows]
    return None


def _tail(change: Callable[[int], int]) -> Plant:
    def plant(rows: Rows, number: int) -> Rows | None:
        found = _nth(_ends(rows, "ok", "tail"), number + 2)
        return None if found is None else _changed(rows, found[1], offset=change(rows[found[1]]["offset"]))

    return plant


def _swapped_values(rows: Rows, number: int) -> Rows | None:
    """Two appends have each other's value."""
    both = [begun for begun, _ in _ends(rows, "ok", "append", acks=-1)][3 * number + 1 :: 3][:2]
    if len(both) < 2:
        return None
    one, other = both
    values = rows[one]["value"], rows[other]["value"]
    return _changed(_changed(rows, one, value=values[1]), other, value=values[0])


def _after_a_wipe(plant: Plant, node: int) -> Plant:
    """The same in a run in which a disk was emptied that held nothing yet."""

    def planted(rows: Rows, number: int) -> Rows | None:
        wipe: Row = {"time": rows[0]["time"], "kind": "fault", "f": "wipe", "node": node}
        return plant([wipe, *rows], number)

    return planted


def _lost(rows: Rows, number: int) -> Rows | None:
    """An acknowledged append is in no final read, though all nodes have it; a disk was emptied just before."""
    found = _nth(_ends(rows, "ok", "append", acks=-1), 5 * number + 2)
    if found is None:
        return None
    value = rows[found[0]]["value"]
    at = next(place for place, row in enumerate(rows) if row["kind"] == "phase" and row["f"] == "final_read")
    wipe: Row = {"time": rows[at]["time"], "kind": "fault", "f": "wipe", "node": 61}
    return [*rows[:at], wipe, *(row for row in rows[at:] if row["kind"] != "observe" or row["value"] != value)]


def _asked_late(kind: str, ended: str) -> Plant:
    """An append is asked for right after the first such event of a node about its entry."""

    def plant(rows: Rows, number: int) -> Rows | None:
        for place, (begun, end) in enumerate(_ends(rows, ended, "append")):
            value = rows[begun].get("value")
            if place < 5 * number + 2 or (kind == "acked" and ended != "ok"):
                continue
            found = (at for at in range(begun, end) if rows[at]["kind"] == "append" and rows[at].get("value") == value)
            at = _acked_of(rows, end) if kind == "acked" else next(found, None)
            if at is not None and at < end:
                return _moved(rows, begun, at + 1)
        return None

    return plant


def _down(rows: Rows) -> Iterator[tuple[int, int]]:
    """Where a node ends, and where it is seen to start again."""
    ended: dict[int, int] = {}
    for place, row in enumerate(rows):
        if row["kind"] in ("crash", "power_loss", "storage_error"):
            ended[row["node"]] = place
        elif row["kind"] == "start" and row["node"] in ended:
            yield ended.pop(row["node"]), place


def _answered(f: str, *, down: bool, **columns: Any) -> Plant:  # noqa: ANN401
    """One more client is answered by a node that is down, or by one that follows."""

    def plant(rows: Rows, number: int) -> Rows | None:
        if down:
            found = _nth(((end + 1, rows[end]["node"]) for end, start in _down(rows) if start > end + 9), number)
        else:
            roles = ((at + 1, r["node"]) for at, r in enumerate(rows) if r["kind"] == "append" and at > 400)
            leaders = {r["node"] for r in rows if r["kind"] == "leader"}
            found = _nth(((at, node) for at, node in roles if node not in leaders), number)
        if found is None:
            return None
        at, node = found
        client = {"time": rows[at]["time"], "node": node, "process": 9000, "op": 9000, "f": f}
        reported = [{"kind": "invoke", **client}, {"kind": "ok", **client, **columns}]
        return [*rows[:at], *reported, *rows[at:]]

    return plant


def _last_left_out(rows: Rows, number: int) -> Rows | None:
    """An append of several offsets is answered with the first alone."""
    several = (ok for _, ok in _ends(rows, "ok", "append") if rows[ok]["last_offset"] > rows[ok]["offset"])
    found = _nth(several, number)
    return None if found is None else _changed(rows, found, last_offset=None)


def _goes_on(f: str, by: int) -> Plant:
    """A read goes on further than its node showed."""

    def plant(rows: Rows, number: int) -> Rows | None:
        found = _nth(_ends(rows, "ok", f), number)
        if found is None:
            return None
        node, at = rows[found[1]]["node"], found[1]
        dirty = max(row["dirty"] for row in rows[:at] if row.get("node") == node and "dirty" in row)
        return _changed(rows, at, offset=max(dirty + 1, rows[at]["offset"]) + by)

    return plant


PLANTS: dict[str, tuple[Plant, str]] = {
    "asked for after it was appended": (_asked_late("append", "ok"), "written-after-asked"),
    "asked for after it was acknowledged": (_asked_late("acked", "ok"), "written-after-asked"),
    "asked for after it was appended, in vain": (_asked_late("append", "info"), "written-after-asked"),
    "a tail of a node that is down": (_answered("tail", down=True, offset=0), "answered-by-who-acted"),
    "an append to a node that is down": (_answered("append", down=True), "answered-by-who-acted"),
    "a read of a node that is down": (_answered("read", down=True, count=0), "answered-by-who-acted"),
    "a refusal by a node that is down": (
        _answered("append", down=True, kind="fail", reason="not_leader"),
        "answered-by-who-acted",
    ),
    "ok, a much later term": (_ok(term=lambda row: row["term"] + 5), "terms-in-order"),
    "ok of several offsets, the last left out": (_last_left_out, "ok-names-the-entry"),
    "a read that goes on behind the log": (_goes_on("read", 1), "read-ends-in-the-log"),
    "a final read that goes on behind the log": (_goes_on("final_read", 1), "read-ends-in-the-log"),
    "a committed read that goes on far behind": (_goes_on("read_committed", 10**6), "read-ends-in-the-log"),
    "ok, offset one more": (_ok(offset=lambda row: row["offset"] + 1), "ok-names-the-entry"),
    "ok, offset one less": (_ok(offset=lambda row: row["offset"] - 1), "ok-names-the-entry"),
    "ok, offset far away": (_ok(offset=lambda row: 5_000_000), "ok-names-the-entry"),
    "ok, offset 0": (_ok(offset=lambda row: 0), "ok-names-the-entry"),
    "ok, acks 1, offset one more": (_ok(1, offset=lambda row: row["offset"] + 1), "ok-names-the-entry"),
    "ok, last offset one more": (_ok(last_offset=lambda row: row["last_offset"] + 1), "ok-names-the-entry"),
    "ok, term one more": (_ok(term=lambda row: row["term"] + 1), "ok-names-the-entry"),
    "ok, term one less": (_ok(term=lambda row: row["term"] - 1), "ok-names-the-entry"),
    "ok, acks 1, term one more": (_ok(1, term=lambda row: row["term"] + 1), "ok-names-the-entry"),
    "two appends swap their values": (_swapped_values, "ok-names-the-entry"),
    "ok before acked": (_ok_before("acked", -1), "ok-after-acked"),
    "ok before acked, acks 1": (_ok_before("acked", 1), "ok-after-acked"),
    "ok before acked, acks 0": (_ok_before("acked", 0), "ok-after-acked"),
    "ok right after its invocation": (_ok_before("invoke", -1), "ok-after-acked"),
    "ok right after its invocation, acks 1": (_ok_before("invoke", 1), "ok-after-acked"),
    "ok before the commit": (_ok_before("commit", -1), "ok-after-commit"),
    "acked is missing": (_acked(lambda rows, at, ok: rows[:at] + rows[at + 1 :]), "ok-after-acked"),
    "acked is missing, acks 1": (_acked(lambda rows, at, ok: rows[:at] + rows[at + 1 :], 1), "ok-after-acked"),
    "acked after ok": (_acked(lambda rows, at, ok: _moved(rows, at, ok + 1)), "ok-after-acked"),
    "acked with acks 1": (_acked(lambda rows, at, ok: _changed(rows, at, acks=1)), "ok-after-acked"),
    "acked with acks all": (_acked(lambda rows, at, ok: _changed(rows, at, acks=-1), 1), "ok-after-acked"),
    "acked as truncated": (
        _acked(lambda rows, at, ok: _changed(rows, at, reason="truncated")),
        "ok-after-acked",
    ),
    "acked for another term": (
        _acked(lambda rows, at, ok: _changed(rows, at, entry_term=rows[at]["entry_term"] + 1)),
        "ok-after-acked",
    ),
    "ok told to have failed": (_ended("ok", "fail", reason="not_leader"), "fail-had-no-effect"),
    "ok told to be truncated": (_ended("ok", "fail", reason="truncated"), "fail-had-no-effect"),
    "ok told to have failed, acks 1": (_ended("ok", "fail", 1, reason="not_leader"), "fail-had-no-effect"),
    "ok told to have failed, acks 0": (_ended("ok", "fail", 0, reason="busy"), "fail-had-no-effect"),
    "failed told to be ok": (_ended("fail", "ok"), "ok-after-acked"),
    "failed told to be ok, acks 1": (_ended("fail", "ok", 1), "ok-after-acked"),
    "failed told to be ok, at an offset": (_ended("fail", "ok", offset=12, term=1), "ok-names-the-entry"),
    "read of another value": (_read(_another_value), "read-shows-the-node"),
    "read of a value that nobody wrote": (_read(_unknown_value), "read-shows-the-node"),
    "read of a value at another offset": (_read(_shifted), "read-shows-the-node"),
    "final read of another value": (_read(_another_value, "final_read"), "read-shows-the-node"),
    "committed read of another value": (_read(_another_value, "read_committed"), "read-shows-the-node"),
    "read of what no node shows yet": (_read(_too_far), "read-shows-the-node"),
    "read before the node showed it": (_read(_before_it_was_shown, "read", least=1), "read-shows-the-node"),
    "committed read before the node had it": (
        _read(_before_it_was_shown, "read_committed", least=1),
        "read-shows-the-node",
    ),
    "read of a node that had less": (_read(_of_another_node, least=1), "read-shows-the-node"),
    "read without its first batch": (_read(_without(0)), "read-leaves-nothing-out"),
    "read without a batch in the middle": (_read(_without(1), least=3), "read-leaves-nothing-out"),
    "read without its last batch": (_read(_without(-1)), "read-leaves-nothing-out"),
    "final read without its last batch": (_read(_without(-1), "final_read"), "read-leaves-nothing-out"),
    "final read that stops short": (_read(_stopped_short, "final_read"), "read-leaves-nothing-out"),
    "read that found nothing": (_read(_nothing), "read-leaves-nothing-out"),
    "final read that found nothing": (_read(_nothing, "final_read"), "read-leaves-nothing-out"),
    "tail of one more": (_tail(lambda tail: tail + 1), "tail-is-committed"),
    "tail of one less": (_tail(lambda tail: tail - 1), "tail-is-committed"),
    "tail of nothing": (_tail(lambda tail: 0), "tail-is-committed"),
    "an append lost in all final reads, after a wipe elsewhere": (_lost, "read-leaves-nothing-out"),
    "failed append in the log, after a wipe": (
        _after_a_wipe(_ended("ok", "fail", reason="not_leader"), 2),
        "fail-had-no-effect",
    ),
    "ok before acked, after a wipe": (_after_a_wipe(_ok_before("acked", -1), 2), "ok-after-acked"),
    "ok before the commit, after a wipe": (_after_a_wipe(_ok_before("commit", -1), 2), "ok-after-commit"),
    "tail of nothing, after a wipe": (_after_a_wipe(_tail(lambda tail: 0), 2), "tail-is-committed"),
}

IN = ("reference-default", "reference-leaders-fall", "reference-lost-power")


@pytest.mark.parametrize("name", IN)
def test_the_run_holds_as_it_is(name: str) -> None:
    rows, configuration = _recorded(name)
    assert check(_table(rows), configuration=configuration).verdict is Verdict.HOLDS


def test_what_a_follower_is_said_to_answer_is_undecided() -> None:
    rows, configuration = _recorded("reference-default")
    planted = _answered("append", down=False)(rows, 0)
    assert planted is not None
    outcomes = {each.id: each for each in check(_table(planted), configuration=configuration).checks}
    assert outcomes["answered-by-who-acted"].verdict is Verdict.UNDECIDED
    assert "is not seen to have led" in str(outcomes["answered-by-who-acted"].reason)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PLANTS)
def test_the_check_notices_what_is_planted(name: str) -> None:
    plant, expected = PLANTS[name]
    noticed = 0
    for run in IN:
        rows, configuration = _recorded(run)
        planted = plant(rows, 0)
        if planted is None:
            continue
        verdict = check(_table(planted), configuration=configuration)
        broken = {each.id for each in verdict.checks if each.violated}
        # In another run a fault may make it something that a correct system does, or another check may say it.
        noticed += expected in broken
    assert noticed
