"""What waits for nodes that may have lost the end of their records: settled by one event, and kept in little room."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from loghistory import SCHEMA, Kind
from logwitness import Verdict, check
from logwitness.checks import codes
from logwitness.checks.contract import Tally
from logwitness.checks.ends import All, Ends
from logwitness.checks.read_path.placement import HOLDS

SERVE = codes.code(codes.Kind.TAKES_PART)
KEEP = 3


def waiting(count: int, nodes: tuple[int, ...] = (7,)) -> tuple[Ends, Tally]:
    """So many things wait for nodes that go on."""
    ends, tally = Ends(), Tally(HOLDS, KEEP)
    for node in nodes:
        ends.turn(SERVE, node, node)
    for seq in range(100, 100 + count):
        ends.wait(tally, nodes, seq, way="released", said={"node": 1, "lsn": str(seq)})
    return ends, tally


def told(tally: Tally) -> tuple[int, int, int]:
    return tally.judged, tally.violated, tally.unjudged


def test_a_sign_settles_all_that_waits_and_the_first_are_shown() -> None:
    ends, tally = waiting(100_000)
    assert ends.awaited.sum() == 1, "as much room as for one"
    ends.sign(8, 200_000)
    assert told(tally) == (0, 0, 0)
    ends.sign(7, 200_001)
    assert told(tally) == (100_000, 100_000, 0)
    assert [each.events for each in tally.outcome().violations] == [(100,), (101,), (102,)]
    assert not ends.awaited.any()


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ((codes.CRASH,), (0, 0, 5)),
        ((SERVE,), (0, 0, 5)),  # it began anew, and nothing says how its last life ended
        ((codes.STOP,), (5, 5, 0)),
        ((), (5, 5, 0)),
    ],
)
def test_the_end_of_a_life_settles_what_waits(turns: tuple[int, ...], count: tuple[int, int, int]) -> None:
    ends, tally = waiting(5)
    for kind in turns:
        ends.turn(kind, 7, 500)
    ends.over()
    assert told(tally) == count


def test_what_waits_for_several_nodes_waits_for_the_last_of_them() -> None:
    ends, tally = waiting(5, (7, 2000, 2001))
    ends.sign(2000, 500)
    ends.sign(7, 501)
    ends.sign(3000, 502)
    assert told(tally) == (0, 0, 0)
    ends.turn(codes.POWER_LOSS, 2001, 503)
    assert told(tally) == (0, 0, 5)


@pytest.mark.parametrize(("turn", "count"), [(codes.CRASH, (1, 0, 0)), (codes.STOP, (1, 1, 0))])
def test_what_rests_on_a_kind_if_a_node_was_cut_off_waits_for_that(turn: int, count: tuple[int, int, int]) -> None:
    ends, tally = waiting(0, (7, 8))
    rests: dict[str, Any] = {"rests_on": (Kind.PURGE,), "unseen": All(frozenset({8})), "enough": All(frozenset({7, 8}))}
    ends.wait(tally, (7, 8), 100, way="released", said={"node": 1, "lsn": "e1n1"}, **rests)
    ends.sign(7, 500)
    assert told(tally) == (0, 0, 0), "whether the other one was cut off is not known"
    ends.turn(turn, 8, 501)
    assert told(tally) == count
    assert tally.outcome().unjudged == 1 - count[1]


def test_who_is_gone_is_not_waited_for() -> None:
    for kind in (codes.STOP, codes.CRASH):
        ends, tally = waiting(0)
        ends.turn(kind, 7, 50)
        ends.wait(tally, (7,), 100, said={"node": 1, "lsn": "e1n1"}, way="released")
        ends.wait(tally, (7,), 100, said={"node": 1, "lsn": "e1n1"}, way="released", sign=True)
        assert told(tally) == (1, 1, 1), "the second takes a sign of it"
        assert ends.cut_since(7, 0) == (kind == codes.CRASH)
        assert ends.ended_since(7, 0) == (kind == codes.CRASH)
        assert ends.ended_since(7, 50) is None


def test_many_acknowledgements_by_too_few_copies_are_shown_in_order() -> None:
    """Two silent shards may have stored what is acknowledged; one of them records something more, and late."""
    places = {str(shard): ["a", "a", "a", f"r{shard}", str(shard)] for shard in range(3)}
    nodeset = {"kind": "nodeset", "epoch": 1, "shards": 7}
    nodeset["text"] = json.dumps({"replication": {"NODE": 2}, "locations": places})
    begun = [{"kind": "takes_part", "node": node, "incarnation": 0, "f": "shard"} for node in range(3)]
    sequencer = {"kind": "takes_part", "node": 9, "incarnation": 0, "f": "sequencer"}
    copy = {"kind": "copy", "node": 0, "record": "data", "wave": 1, "recovery": 0, "shards": 3}
    acknowledged = {"kind": "acknowledge", "node": 9, "wave": 1, "shards": 3}
    rows = [nodeset, *begun, sequencer]
    for lsn in range((1 << 32) + 1, (1 << 32) + 3001):
        rows += [copy | {"offset": lsn, "value": lsn}, acknowledged | {"offset": lsn, "value": lsn}]
    from_rows = [row | {"seq": seq, "time": seq} for seq, row in enumerate(rows)]
    ends = {"kind": "crash", "node": 1, "seq": len(from_rows), "time": len(from_rows)}
    for last, violated in (([], 3000), ([ends], 0)):
        verdict = check(
            pa.Table.from_pylist([*from_rows, *last], schema=SCHEMA),
            [HOLDS.id],
            configuration={"protocol": "read-path"},
        )
        (reported,) = verdict.checks
        assert (reported.violated, reported.unjudged) == (violated, 3000 - violated)
        shown = [each.events[-1] for each in reported.violations]
        assert shown == [6 + 2 * place for place in range(len(shown))]
        assert (reported.verdict is Verdict.VIOLATED) == bool(violated)
