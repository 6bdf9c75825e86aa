"""Records lack something: the end of a life that was cut off, or all that a node did. Nobody is accused of that."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from loghistory import SCHEMA, MemorySink, Recorder, open_run
from loghistory.schema import CLIENT_KINDS
from logwitness import Verdict, check
from logwitness.explain.transcripts import history
from quorumlog.durations import MILLISECOND
from quorumlog.raft.settings import SETTINGS
from quorumlog.raft.simulated import RaftCluster

ENDS = ("crash", "power_loss", "storage_error")
Row = dict[str, Any]

LATER = {
    "preferences",
    "light-heartbeats",
    "groups",
    "late-replies",
    "quiet-leaders",
    "stops",
    "unflushed",
    "lost-targets",
}  # without them the seeds have the runs that they had
SAME_VOTERS = [name for name, each in SETTINGS.items() if "join" not in each.faults.weights and name not in LATER]
"""Settings in which nobody joins or leaves."""


def without_ends(rows: list[Row], rng: random.Random) -> list[Row]:
    """The events of a run, some records without the last events before their node was cut off."""
    lost: set[int] = set()
    for place, row in enumerate(rows):
        if row["kind"] not in ENDS or row["node"] is None or rng.random() < 0.4:
            continue
        number = rng.choice((1, 2, 3, 5, 8, 15))
        for before in range(place - 1, -1, -1):
            other = rows[before]
            if other["node"] != row["node"] or other["process"] is not None or other["kind"] in ("fault", "heal"):
                continue
            if number == 0 or other["kind"] in ("start", "stop", "trim", "compact", *ENDS):
                break  # what is taken out of a log is recorded first
            lost.add(before)
            number -= 1
    kept = (row for place, row in enumerate(rows) if place not in lost)
    return [row | {"seq": seq} for seq, row in enumerate(kept)]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 300), marks=pytest.mark.long)], ids=str)
def test_nobody_is_accused_of_what_a_record_may_lack(seeds: range) -> None:
    for seed in seeds:
        setting = SAME_VOTERS[seed % len(SAME_VOTERS)]
        configuration = replace(SETTINGS[setting], duration=600 * MILLISECOND)
        sink = MemorySink()
        recorder = Recorder(sink)
        RaftCluster(seed, configuration, recorder).play()
        recorder.close()
        rows = sink.table.to_pylist()
        known = {**configuration.known_to_the_judge(), "protocol": "raft"}
        for copy in range(3):
            table = pa.Table.from_pylist(without_ends(rows, random.Random(100 * seed + copy)), schema=SCHEMA)
            verdict = check(table, configuration=known)
            accused = [
                (each.id, each.violations[0].sentence)
                for each in verdict.checks
                if each.verdict is Verdict.VIOLATED and each.violations
            ]
            assert not accused, (setting, seed, copy)


def test_who_records_nothing_is_not_missed_at_the_end() -> None:
    healed = "n1 start|n1 crash|n2 crash|- phase heal|- phase final_read"
    for lines, violated, unjudged in ((healed, 1, 1), (healed.replace("n1 start|", ""), 0, 2)):
        configuration = {"voters": [1, 2, 3], "protocol": "raft"}
        (reported,) = check(history(lines).table, ["voters-return"], configuration=configuration).checks
        assert (reported.violated, reported.unjudged) == (violated, unjudged)


@pytest.mark.parametrize(
    ("seed", "setting", "nodes"), [(7106, "trimmed", 3), (7108, "followers-trim", 3), (1001, "trimmed", 2)]
)
def test_clients_alone_do_not_see_what_is_trimmed(seed: int, setting: str, nodes: int) -> None:
    configuration = replace(SETTINGS[setting], nodes=nodes)
    sink = MemorySink()
    recorder = Recorder(sink)
    RaftCluster(seed, configuration, recorder).play()
    recorder.close()
    seen = [row for row in sink.table.to_pylist() if row["kind"] in {*CLIENT_KINDS, "fault", "heal", "phase"}]
    table = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(seen)], schema=SCHEMA)
    verdict = check(table, configuration={**configuration.known_to_the_judge(), "protocol": "raft"})
    assert not [each.id for each in verdict.checks if each.violated]
    assert {each.id: each.verdict for each in verdict.checks}["skip"] is Verdict.UNDECIDED


def test_what_lacks_inside_a_read_is_not_trimmed() -> None:
    """Nor is anything where nodes record, or nobody says that the log is of a protocol."""
    begins = (
        "c1 append v9 all|c1 ok 0|c1 append v10 all|c1 ok 1|c1 append v11 all|c1 ok 2|c2 read 0|c2 sees 2 v11|c2 ok 3"
    )
    inside = begins.replace("sees 2", "sees 0 v9|c2 sees 2")
    raft = {"protocol": "raft"}
    for lines, protocol, violated in (
        (begins, raft, False),
        (inside, raft, True),
        (f"n1 start|{begins}", raft, True),
        (begins, {}, True),
    ):
        skip, lost = check(history(lines).table, ["skip", "lost-write"], configuration=protocol).checks
        assert bool(skip.violated) == bool(lost.violated) == violated
        assert (skip.verdict is lost.verdict is Verdict.UNDECIDED) == (not violated)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("seed", "setting", "node"),
    [(7100, "default", 1), (7110, "transfers", 0), (9002, "followers-trim", 1)],
)
def test_a_voter_that_recorded_nothing_may_have_done_anything(seed: int, setting: str, node: int) -> None:
    sink = MemorySink()
    recorder = Recorder(sink)
    RaftCluster(seed, SETTINGS[setting], recorder).play()
    recorder.close()
    of_node = (row["node"] == node and row["process"] is None for row in sink.table.to_pylist())
    rest = sink.table.filter(pa.array([not each for each in of_node]))
    known = {**SETTINGS[setting].known_to_the_judge(), "protocol": "raft"}
    verdict = check(rest, configuration=known)
    assert not [each.id for each in verdict.checks if each.violated]
    reported = {each.id: each for each in verdict.checks}
    assert setting == "followers-trim" or all(
        reported[id_].unjudged for id_ in ("pending-not-visible", "uncommitted-read", "ok-after-commit")
    )


def test_what_a_leader_begins_with_may_lack_in_its_record() -> None:
    acked = "n1 start|n2 start|n1 leader term=1|n1 append 0 t1 v1 1|n1 acked 0 t1 1 success|n2 append 0 t0 v2 1"
    for end, violated in (("stop", 1), ("crash", 0)):
        lines = f"{acked}|n2 {end}|n2 start|n1 transfer 2|n2 leader term=2"
        configuration = {"voters": [1, 2, 3], "protocol": "raft"}
        (reported,) = check(history(lines).table, ["transfer-loses-nothing"], configuration=configuration).checks
        assert (reported.violated, reported.unjudged) == (violated, 1 - violated)


TERM_1 = "n1 start|n2 start|n3 start|n1 leader term=1"
BEHIND = f"{TERM_1}|n1 append 0 t1 v1 1|n2 append 0 t1 v1 1 term=1|n3 append 0 t1 v1 1 term=1"
AHEAD = f"{BEHIND}|n1 append 1 t1 v2 1|n1 append 2 t1 v3 1|n3 append 1 t1 v2 1|n3 append 2 t1 v3 1|n3 flush"
OTHER = f"{AHEAD}|n2 leader term=2|n2 append 1 t2 v4 1"
ALONE = f"{BEHIND}|n1 append 1 t1 v2 1|n1 append 2 t1 v3 1|n1 flush|n2 crash"
KEPT = ("flushed-durable", "dirty-survives-crash")


@pytest.mark.parametrize(
    ("lines", "violated", "unjudged"),
    [
        # A leader of a later term has another entry at the first offset that is missing, or before it.
        (f"{OTHER}|n3 power_loss|n3 start dirty=0", (0, 0), (1, 0)),
        (f"{OTHER}|n3 power_loss|n3 start dirty=1", (0, 0), (1, 0)),
        (f"{OTHER}|n3 crash|n3 start dirty=0", (0, 0), (1, 1)),
        (f"{OTHER}|n3 start dirty=0", (0, 0), (1, 0)),
        (f"{OTHER}|n3 crash|n3 power_loss|n3 stop|n3 start dirty=0", (0, 0), (1, 0)),
        # It has none, or not yet.
        (f"{AHEAD}|n3 power_loss|n3 start dirty=0", (1, 0), (0, 0)),
        (f"{AHEAD}|n2 leader term=2|n3 crash|n3 start dirty=0", (1, 1), (0, 0)),
        (f"{AHEAD}|n3 power_loss|n2 leader term=2|n2 append 1 t2 v4 1|n3 start dirty=0", (1, 0), (0, 0)),
        (f"{AHEAD}|n1 crash|n2 crash|n3 power_loss|n3 start dirty=0", (1, 0), (0, 0)),
        (
            f"{AHEAD}|n2 append 1 t1 v2 1|n2 leader term=2|n2 append 2 t2 v4 1|n3 power_loss|n3 start dirty=0",
            (1, 0),
            (0, 0),
        ),
        # Its term is over for the node; the node had committed what is missing; its record is whole; the cut is in it.
        (f"{OTHER}|n3 term 3|n3 power_loss|n3 start dirty=0", (1, 0), (0, 0)),
        (f"{OTHER}|n3 commit 1|n3 power_loss|n3 start dirty=0", (1, 0), (0, 0)),
        (f"{OTHER}|n3 stop|n3 start dirty=0", (1, 1), (0, 0)),
        (f"{OTHER}|n3 truncate 1 term=2|n3 append 1 t2 v4 1|n3 flush|n3 power_loss|n3 start dirty=0", (1, 0), (0, 0)),
        # One that was cut off too may have led, if voters that have not what is missing are a majority.
        (f"{ALONE}|n3 term 2|n1 power_loss|n1 start dirty=0", (0, 0), (1, 0)),
        (f"{ALONE}|n3 crash|n1 power_loss|n1 start dirty=0", (0, 0), (1, 0)),
        (f"{ALONE}|n1 power_loss|n1 start dirty=0", (1, 0), (0, 0)),
        (f"{ALONE}|n3 append 1 t1 v2 1|n3 term 2|n1 power_loss|n1 start dirty=0", (1, 0), (0, 0)),
        (f"{ALONE}|n3 term 2|n1 flush|n1 power_loss|n1 start dirty=0", (1, 0), (0, 0)),
    ],
)
def test_what_was_flushed_may_be_cut_off_where_a_record_has_lost_its_end(
    lines: str, violated: tuple[int, ...], unjudged: tuple[int, ...]
) -> None:
    checks = check(history(lines).table, KEPT, configuration={"voters": [1, 2, 3], "protocol": "raft"}).checks
    assert tuple(each.violated for each in checks) == violated
    assert tuple(each.unjudged for each in checks) == unjudged


def test_a_cut_that_a_power_loss_took_out_of_a_record_accuses_nobody() -> None:
    configuration = replace(SETTINGS["lost-power"], duration=600 * MILLISECOND)
    sink = MemorySink()
    recorder = Recorder(sink)
    RaftCluster(9159, configuration, recorder).play()
    recorder.close()
    rows = without_ends(sink.table.to_pylist(), random.Random(100 * 9159 + 3))
    table = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(rows)], schema=SCHEMA)
    known = {**configuration.known_to_the_judge(), "protocol": "raft"}
    durable, *others = check(table, KEPT, configuration=known).checks
    assert durable.unjudged == 1
    assert not durable.violated + sum(each.violated for each in others)


@pytest.mark.parametrize("lost", range(4))
def test_the_memory_of_a_leader_that_was_cut_off_is_counted_anew(lost: int) -> None:
    office = "n1 leader|n1 enqueue v1 1 bytes=51 reserved=51|n1 append 0 t1 v1 1 bytes=51|n1 hand_over 0 reserved=0"
    for end in ("|n1 crash", "|n1 power_loss", "|n1 storage_error", ""):
        first = "|".join(office.split("|")[: 4 - lost])
        lines = f"n1 start|{first}{end}|n1 start|{office.replace(' 0 ', ' 1 ').replace('v1', 'v2')}"
        configuration = {"voters": [1], "protocol": "raft", "memory_bytes": 100}
        (reported,) = check(history(lines).table, ["bounded-memory"], configuration=configuration).checks
        assert reported.judged >= 2
        assert not reported.violated


@pytest.mark.parametrize(
    ("seed", "setting"),
    [
        *((seed, SAME_VOTERS[seed % len(SAME_VOTERS)]) for seed in range(7100, 7111)),
        *((seed, "slow-disks") for seed in (7105, 7109)),
        *((7102, "trimmed"), (7108, "unheard-trims")),
    ],
)
def test_a_recorder_that_ends_accuses_nobody(seed: int, setting: str) -> None:
    """A node goes on and its record does not: nothing says so but what others show of it."""
    sink = MemorySink()
    recorder = Recorder(sink)
    RaftCluster(seed, replace(SETTINGS[setting], duration=600 * MILLISECOND), recorder).play()
    recorder.close()
    rows = sink.table.to_pylist()
    places = [at for at, row in enumerate(rows) if row["dirty"] is not None]
    node = rows[places[0]]["node"]
    own = [at for at in places if rows[at]["node"] == node]
    end = own[len(own) // 2]
    ended = [row for at, row in enumerate(rows) if at <= end or row["node"] != node or row["process"] is not None]
    kept = [row | {"seq": seq} for seq, row in enumerate(ended) if row["kind"] not in ("fault", "heal")]
    known = {**SETTINGS[setting].known_to_the_judge(), "protocol": "raft"}
    verdict = check(pa.Table.from_pylist(kept, schema=SCHEMA), configuration=known)
    assert not [(each.id, each.violations[0].sentence) for each in verdict.checks if each.violations], setting


def test_what_came_before_a_record_ended_is_violated() -> None:
    before = "n1 start|n2 start|n3 start|n1 term 1|n1 leader|n1 append 0 t1 v1 all|n1 flush|n1 commit 0|n2 term 1"
    after = "".join(f"|n1 append {at} t1 v{at} 1|n3 append {at - 1} t1 v{at - 1} 1" for at in range(2, 40))
    configuration = {"voters": [1, 2, 3], "protocol": "raft"}
    (reported,) = check(
        history(before + after).table, ["committed-flushed-on-majority"], configuration=configuration
    ).checks
    assert reported.violated


def test_clients_may_use_another_log_than_nodes() -> None:
    """Of what concerns all logs nothing may be left for the last piece of one."""
    asked = "".join(f"|c1 append v{at} all|c1 ok {at}" for at in range(200))
    lines = history(f"n1 start|n1 term 1|- fault kill n1|n1 crash{asked}").rows
    rows = [row | {"log": "a"} if "process" in row else row for row in lines]
    rows = [row | {"seq": seq, "time": seq} for seq, row in enumerate(rows)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    verdict = check(table, configuration={"voters": [1], "protocol": "raft"}, compiled=False)
    assert verdict.logs == 2
    doubted = {each.id: each.reason for each in verdict.checks if each.verdict is Verdict.UNDECIDED}
    assert "nodes recorded what they did of others alone" in str(doubted["ok-names-the-entry"])
    alone = pa.Table.from_pylist([row for row in rows if "log" in row], schema=SCHEMA)
    assert check(alone, configuration={"voters": [1], "protocol": "raft"}).verdict is Verdict.HOLDS


RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lost", [1, 5, 10])
@pytest.mark.parametrize(
    "run",
    [
        *(f"read_path/reference-{name}" for name in ("failover", "left-behind", "taken-over")),
        *(f"pull_queries/reference-{name}" for name in ("departures", "overtaken", "lagging", "watched")),
    ],
)
def test_what_servers_did_last_may_lack(run: str, lost: int) -> None:
    source = open_run(RUNS / run)
    assert source.manifest is not None
    made = source.manifest.made_by
    rows = [row for batch in source.batches() for row in batch.to_pylist()]
    left = dict.fromkeys((row["node"] for row in rows if row["f"] == "sequencer" or row["kind"] == "serve"), 0)
    kept: list[Row] = []
    for row in reversed(rows):
        node = row["node"]
        if node in left and row["kind"] in (*ENDS, "takes_part", "serve", "stop"):
            left[node] = lost if row["kind"] in ENDS else 0
        elif left.get(node, 0) and row["process"] is None and row["kind"] not in ("fault", "heal"):
            left[node] -= 1
            continue
        kept.append(row)
    table = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(reversed(kept))], schema=SCHEMA)
    known = {**made.get("configuration", {}), "protocol": made["protocol"]}
    verdict = check(table, configuration=known, compiled=False)
    assert not [(each.id, each.violations[0].sentence) for each in verdict.checks if each.violations]


def without_end(rows: list[Row], kind: str, node: int) -> list[Row]:
    """The events of a run, without all that a node recorded in a life from such an event on; then it is killed."""
    begins = next(at for at, row in enumerate(rows) if (row["kind"], row["node"]) == (kind, node))
    kept, rest = rows[:begins], rows[begins:]
    own = [row["node"] == node and row["process"] is None and row["kind"] not in ("fault", "heal") for row in rest]
    turns = ("takes_part", "stop", *ENDS)
    over = next((at for at, row in enumerate(rest) if own[at] and row["kind"] in turns), len(rest))
    kept += [row for at, row in enumerate(rest) if at >= over or not own[at]]
    killed = dict.fromkeys(rows[0]) | {"time": rows[-1]["time"], "kind": "crash", "node": node}
    return kept if over < len(rest) else [*kept, killed]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("run", "kind", "nodes"),
    [
        ("failover", "recover", (7,)),  # who recovers epoch 1
        ("failover", "recover", (6,)),  # and who recovers epoch 2, and releases what no other has
        ("losses", "recover", (7,)),
        ("away-then-donated", "recover", (4,)),  # in an earlier life
        ("stale-answers", "trim_point", (0, 1, 2, 3)),
        ("asleep", "trim_point", (0,)),  # seals and copies of a recovery
        ("taken-over", "trim_point", (1, 2, 3)),
        ("left-behind", "trim_point", (2,)),  # copies that made a purge right
        ("unavailable", "trim_point", (1,)),  # copies made anew
    ],
)
def test_what_shards_and_recoveries_did_may_lack(run: str, kind: str, nodes: tuple[int, ...]) -> None:
    source = open_run(RUNS / "read_path" / f"reference-{run}")
    assert source.manifest is not None
    made = source.manifest.made_by
    rows = [row for batch in source.batches() for row in batch.to_pylist()]
    for node in nodes:
        rows = without_end(rows, kind, node)
    table = pa.Table.from_pylist([row | {"seq": seq} for seq, row in enumerate(rows)], schema=SCHEMA)
    known = {**made.get("configuration", {}), "protocol": made["protocol"]}
    verdict = check(table, configuration=known, compiled=False)
    assert not [(each.id, each.violations[0].sentence) for each in verdict.checks if each.violations]
