"""Recorded runs followed in the specification: the reference's are allowed, others are not, from where it shows."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from loghistory import open_run
from logspec.cli import spec
from logspec.places import spec_directory
from logspec.recording import read_traces
from logspec.traces import action_names
from quorumlog.hunting.judge import Candidate
from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS
from quorumlog.simulation.runs import made_by, save_run

RECORDED = Path(__file__).parents[2] / "histories" / "runs" / "raft"
FEW_EVENTS = 1000
SHOWS = {  # the kind of the event at which the spec cannot follow a recorded mutant any further
    "ack-on-term-change": "acked",
    "ack-without-term": "acked",
    "commit-before-own-flush": "commit",
    "commit-counts-dirty": "commit",
    "commit-ignores-match": "commit",
    "commit-old-term": "commit",
    "duplicate-truncates": "truncate",
    "election-never-waits": "role",
    "flush-assigns": "flush",
    "flush-ignores-truncation": "flush",
    "follower-commit-unclamped": "commit",
    "late-read-filled": "append",
    "read-before-own-term": "append",
    "read-unconfirmed": "ok",
    "stale-reply-accepted": "commit",
    "truncated-ignores-committed-term": "acked",
    "visible-jumps-pending": "visible",
    "visible-unclamped": "visible",
    "visible-uses-dirty": "visible",
    "vote-ignores-log": "vote",
    "vote-not-durable": "vote",
    "vote-twice": "vote",
}

UNSHOWN = {
    *("read-index-ignores-caching", "pending-forgotten-at-step-down"),
    *("compaction-above-commit", "drops-last-of-key"),
}
"""Recorded mutants that no trace shows: under write caching what was acknowledged may be lost, so clients are not
followed; a call that nobody answers is none to a trace; and a log is followed until it is compacted."""


def follow(*arguments: str, explained: int = 0) -> tuple[int, list[dict[str, Any]]]:
    """Follow runs by the command; ``explained``: for how many of those refused the nearest action is looked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("logspec.trace_command._EXPLAINED", explained)
        return _follow(*arguments)


def _follow(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(spec, ["trace", "--json", "--workers", "1", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, [json.loads(line) for line in result.output.splitlines()]


def record(directory: Path, seed: int) -> str:
    """Simulate a run of the reference, under each setting in turn."""
    setting = list(SETTINGS)[seed % len(SETTINGS)]
    table, _ = PROTOCOL.simulate(seed, SETTINGS[setting])
    run = directory / f"{setting}-{seed}"
    save_run(run, table, made_by("raft", seed, SETTINGS[setting]))
    return str(run)


def test_the_reference_is_allowed(tmp_path: Path) -> None:
    status, verdicts = follow(*(record(tmp_path, seed) for seed in range(3)))
    assert [verdict for verdict in verdicts[:-1] if verdict["verdict"] != "accepted"] == []
    assert status == 0
    assert verdicts[-1]["events"] > 2000


@pytest.mark.long(2)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_every_tenth_of_10000_seeds_is_allowed(first: int, tmp_path: Path) -> None:
    """The seeds of tests/simulation/test_hunt.py, where every run is judged."""
    reference, runs = Candidate("raft"), []
    for seed in range(first, first + 500, 10):
        configuration = reference.configuration(seed)
        table, _ = PROTOCOL.simulate(seed, configuration)
        save_run(tmp_path / str(seed), table, made_by("raft", seed, configuration))
        runs.append(str(tmp_path / str(seed)))
    status, verdicts = follow(*runs)
    assert [verdict for verdict in verdicts[:-1] if verdict["verdict"] != "accepted"] == []
    assert status == 0


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_runs_take_every_action_and_every_branch_of_the_specification(tmp_path: Path) -> None:
    seeds = (*range(16), list(SETTINGS).index("members"))
    status, verdicts = follow("--coverage", *(record(tmp_path, seed) for seed in seeds))
    assert status == 0
    assert [action for action, count in verdicts[-1]["actions"].items() if count == 0] == []
    assert verdicts[-1]["unvisited"] == []


def judge_recorded(runs: list[Path]) -> None:
    """Recorded runs of the reference are allowed; those of a mutant are not, from an event of the right kind on."""
    _, verdicts = follow(*map(str, runs))
    found = {}
    for verdict in verdicts[:-1]:
        run = Path(verdict["run"])
        kind = None
        if verdict["verdict"] == "rejected":
            events = open_run(run).table(["seq", "kind"])
            kind = events["kind"][events["seq"].to_pylist().index(verdict["seq"])].as_py()
        found[run.name] = (verdict["verdict"], kind)
    expected: dict[str, tuple[str, str | None]] = {}
    for run in runs:
        mutant = run.name.removeprefix("mutant-")
        if mutant in UNSHOWN:
            expected[run.name] = ("accepted", None)
        elif mutant != run.name:
            expected[run.name] = ("rejected", SHOWS.get(mutant))
        else:
            expected[run.name] = ("accepted", None)
    assert found == expected


def recorded(events: float = float("inf")) -> list[Path]:
    """The recorded runs with at most so many events."""
    return [
        path.parent for path in RECORDED.glob("*/manifest.json") if json.loads(path.read_text())["events"] <= events
    ]


def test_recorded_runs() -> None:
    few = recorded(FEW_EVENTS)
    assert len(few) >= 10
    judge_recorded(few)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_all_recorded_runs() -> None:
    judge_recorded(recorded())


HEAD = [
    {
        "kind": "start",
        "node": 0,
        "incarnation": 0,
        "role": "follower",
        "term": 0,
        "dirty": -1,
        "flushed": -1,
        "commit": -1,
    },
    {"kind": "term", "node": 0, "role": "follower", "term": 1, "dirty": -1, "flushed": -1, "commit": -1},
    {"kind": "role", "node": 0, "role": "candidate", "term": 1, "dirty": -1, "flushed": -1, "commit": -1},
    {"kind": "vote", "node": 0, "role": "candidate", "peer": 0, "term": 1, "dirty": -1, "flushed": -1, "commit": -1},
    {"kind": "leader", "node": 0, "role": "leader", "term": 1, "dirty": -1, "flushed": -1, "commit": -1},
]
LEADS = {"node": 0, "role": "leader", "term": 1}
CONFIGURATION = {
    "kind": "append",
    **LEADS,
    "offset": 0,
    "entry_term": 1,
    "acks": -1,
    "dirty": 0,
    "flushed": -1,
    "commit": -1,
}
FLUSH = {"kind": "flush", **LEADS, "dirty": 0, "flushed": 0, "commit": -1}
COMMIT = {"kind": "commit", **LEADS, "dirty": 0, "flushed": 0, "commit": 0}
BATCH = {"kind": "append", **LEADS, "offset": 1, "last_offset": 3, "entry_term": 1, "acks": 1, "value": 7}
BATCH |= {"dirty": 3, "flushed": 0, "commit": 0}

SERVES = [CONFIGURATION, FLUSH, COMMIT]
COMMITTED = {"dirty": 0, "flushed": 0, "commit": 0}
SNAPSHOT = {"kind": "snapshot", **LEADS, "offset": 0, "entry_term": 1, "text": "0", "reason": "taken"}
SNAPSHOT |= COMMITTED | {"dirty": 3}
TRIM = {"kind": "trim", **LEADS, "offset": 1, **COMMITTED} | {"dirty": 3}
BACK = HEAD[0] | {"term": 1, "incarnation": 1, **COMMITTED}


def change(text: str, offset: int = 1) -> list[dict[str, Any]]:
    """A configuration that the leader appends, and that is in force at once."""
    state = {**LEADS, "offset": offset, **COMMITTED, "dirty": offset}
    return [{"kind": "append", "entry_term": 1, "acks": -1, **state}, {"kind": "configuration", "text": text, **state}]


HAND_MADE = [
    ("one node commits what it flushed", [CONFIGURATION, FLUSH, COMMIT, BATCH], None, ""),
    ("commit before flush", [CONFIGURATION, COMMIT | {"flushed": -1}], 6, "the spec allows at most none"),
    (
        "serves before it has committed",
        [CONFIGURATION, FLUSH, BATCH | {"commit": -1}],
        7,
        "no entry of its term is committed",
    ),
    (
        "commit in the midst of a batch",
        [CONFIGURATION, FLUSH, COMMIT, BATCH, COMMIT | {"dirty": 3, "commit": 2}],
        9,
        "ends no batch",
    ),
    ("a gap", [CONFIGURATION, FLUSH, COMMIT, BATCH | {"offset": 2}], 8, "ends no batch"),
    ("flushed more than there is", [CONFIGURATION, FLUSH | {"flushed": 1}], 6, "ends no batch"),
    (
        "a changed column without an event",
        [CONFIGURATION, FLUSH, COMMIT, BATCH | {"flushed": -1}],
        8,
        "its flushed changed without an event",
    ),
    (
        "a power loss takes what was flushed",
        [CONFIGURATION, FLUSH, {"kind": "power_loss", "node": 0}, HEAD[0] | {"term": 1, "incarnation": 1}],
        8,
        "the spec allows an end from 0 to 0",
    ),
    (
        "a crash takes what was not flushed",
        [CONFIGURATION, {"kind": "crash", "node": 0}, HEAD[0] | {"term": 1, "incarnation": 1}],
        7,
        "the spec allows an end from 0 to 0",
    ),
    (
        "a power loss may take what was not flushed",
        [CONFIGURATION, {"kind": "power_loss", "node": 0}, HEAD[0] | {"term": 1, "incarnation": 1}],
        None,
        "",
    ),
    (
        "a term that was voted in is forgotten",
        [{"kind": "power_loss", "node": 0}, HEAD[0] | {"incarnation": 1}],
        6,
        "a term from 1 to 1",
    ),
    (
        "a node shows more without saying so",
        [*SERVES, BATCH | {"visible": 0}],
        8,
        "its visible changed without an event",
    ),
    ("a learner is added", [*SERVES, *change("0 learners 1 adding 1 revision 1")], None, ""),
    (
        "voters change before the last change is committed",
        [*SERVES, *change("0 learners 1 adding 1 revision 1"), *change("0 learners 1,2 adding 2 revision 2", 2)],
        10,
        "puts another configuration in force than 0 learners 1, which stands at 1",
    ),
    (
        "voters are replaced in one step",
        [
            *(*SERVES, *change("0 learners 1 adding 1 revision 1")),
            *(FLUSH | {"dirty": 1, "flushed": 1, "commit": 0}, COMMIT | {"dirty": 1, "flushed": 1, "commit": 1}),
            change("1 revision 2", 2)[0] | {"flushed": 1, "commit": 1},
            change("1 revision 2", 2)[1] | {"flushed": 1, "commit": 1},
        ],
        12,
        "the spec allows one step",
    ),
    (
        "a configuration that is not the log's",
        [*SERVES, {"kind": "configuration", **LEADS, "offset": -1, "text": "0 learners 1", **COMMITTED}],
        8,
        "goes by the configuration 0 learners 1; by its log that is 0",
    ),
    ("a snapshot, and the log begins behind it", [*SERVES, BATCH, SNAPSHOT, TRIM], None, ""),
    ("a log is trimmed without a snapshot", [*SERVES, BATCH, TRIM], 9, "trims its log up to 0"),
    (
        "a snapshot of what is not committed",
        [*SERVES, BATCH, SNAPSHOT | {"offset": 3}],
        9,
        "keeps a snapshot up to 3; the spec allows it up to 0",
    ),
    ("a snapshot of another term", [*SERVES, BATCH, SNAPSHOT | {"entry_term": 2}], 9, "keeps a snapshot"),
    ("a snapshot with another configuration", [*SERVES, BATCH, SNAPSHOT | {"text": "1"}], 9, "keeps a snapshot"),
    (
        "a node starts behind its snapshot",
        [*SERVES, BATCH, SNAPSHOT, TRIM, {"kind": "power_loss", "node": 0}, BACK],
        None,
        "",
    ),
    (
        "a node starts and knows more to be committed than its snapshot sums up",
        [*SERVES, BATCH, {"kind": "crash", "node": 0}, BACK | {"dirty": 3, "flushed": 3}],
        10,
        "starts with",
    ),
]


EMPTY = {"dirty": -1, "flushed": -1, "commit": -1}
STARTS = [
    {"kind": "start", "node": node, "incarnation": 0, "role": "follower", "term": 0, **EMPTY} for node in range(3)
]


def election(*steps: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Events of elections without entries: kind, node, role, term, and for a vote whom it is for."""
    names = ("kind", "node", "role", "term", "peer")
    return STARTS + [dict(zip(names, step, strict=False)) | EMPTY for step in steps]


BOTH_STAND = [
    *(("term", 1, "follower", 1), ("role", 1, "candidate", 1), ("vote", 1, "candidate", 1, 1)),
    *(("term", 2, "follower", 1), ("role", 2, "candidate", 1), ("vote", 2, "candidate", 1, 2)),
]
"""Nodes 1 and 2 both stand in term 1."""

ELECTIONS = [
    (
        "a candidate stands again and hears of the leader before its vote is saved",
        election(
            *BOTH_STAND,
            *(("term", 1, "candidate", 2), ("term", 2, "candidate", 2), ("vote", 2, "candidate", 2, 2)),
            *(("term", 0, "follower", 2), ("vote", 0, "follower", 2, 2), ("leader", 2, "leader", 2)),
            *(("role", 1, "follower", 2), ("vote", 1, "follower", 2, 1)),
        ),
        None,
    ),
    (
        "a candidate hears of a later term and follows",
        election(
            *BOTH_STAND,
            *(("term", 2, "candidate", 2), ("vote", 2, "candidate", 2, 2)),
            *(("term", 1, "candidate", 2), ("role", 1, "follower", 2), ("vote", 1, "follower", 2, 2)),
        ),
        None,
    ),
    (
        "a candidate that follows has nobody to follow",
        election(*BOTH_STAND, ("term", 1, "candidate", 3), ("role", 1, "follower", 3)),
        9,
    ),
    (
        "the process of a candidate ends in the midst of its step",
        [
            *election(("term", 1, "follower", 1)),
            {"kind": "crash", "node": 1},
            {**STARTS[1], "incarnation": 1},
            *election(("term", 1, "follower", 1))[-1:],
        ],
        None,
    ),
    (
        "a node votes for one that did not stand",
        election(*BOTH_STAND[3:], ("term", 0, "follower", 1), ("vote", 0, "follower", 1, 1)),
        7,
    ),
    (
        "a candidate votes for itself and for another one",
        election(
            *BOTH_STAND,
            *(("term", 1, "candidate", 2), ("vote", 1, "candidate", 2, 1)),
            *(("term", 2, "candidate", 2), ("vote", 2, "candidate", 2, 2), ("vote", 1, "candidate", 2, 2)),
        ),
        13,
    ),
    (
        "who was not elected by a majority leads",
        election(*BOTH_STAND[:3], ("leader", 1, "leader", 1)),
        6,
    ),
    (
        "a node that did not stand votes for itself",
        election(*BOTH_STAND[:3], ("term", 0, "follower", 1), ("vote", 0, "follower", 1, 0)),
        7,
    ),
    (
        "a node says that it is a candidate and has not stood",
        election(
            *BOTH_STAND[:3], ("term", 0, "follower", 1), ("vote", 0, "follower", 1, 1), ("role", 0, "candidate", 1)
        ),
        8,
    ),
]


NONE = {"dirty": -1, "flushed": -1, "commit": -1}
FOLLOWS = {"node": 1, "role": "follower", "term": 1}
HEARS = [{"kind": "term", **FOLLOWS, **NONE}, {"kind": "vote", **FOLLOWS, "peer": 0, **NONE}]
HOLDS = [
    CONFIGURATION | FOLLOWS,
    {"kind": "flush", **FOLLOWS, "dirty": 0, "flushed": 0, "commit": -1},
]
LED = [*STARTS, *HEAD[1:4], *HEARS, HEAD[4], CONFIGURATION, *HOLDS, FLUSH, COMMIT, BATCH]
"""Node 0 leads 1 and 2; 1 has its first entry, which is committed, and nobody has its second one, a batch."""
TAKES = BATCH | FOLLOWS | {"commit": -1}
SHOWN = {"kind": "visible", "visible": 3, "dirty": 3, "flushed": 0}
ANEW = {"node": 2, "role": "follower", "term": 1, "dirty": 0, "flushed": 0, "commit": 0, "visible": 0}
AT_3 = {"dirty": 3, "flushed": 3, "commit": 3, "visible": 3}
THIRD = {"node": 2, "role": "follower", "term": 1}
JOINS = {"kind": "term", **THIRD, **NONE}
ALL_TO_3 = [
    *(TAKES, {"kind": "flush", **FOLLOWS, "dirty": 3, "flushed": 3, "commit": -1}),
    *(FLUSH | {"dirty": 3, "flushed": 3, "commit": 0}, COMMIT | {"dirty": 3, "flushed": 3, "commit": 3}),
]
"""After LED: the batch is on 1 too, flushed on both, and committed."""

NEXT = {"node": 1, "role": "leader", "term": 2}
AFTER = {"node": 2, "role": "follower", "term": 2}
OLD = {"node": 0, "role": "follower", "term": 2, "dirty": 0, "flushed": -1, "commit": -1}
REPLACED = [
    *(*STARTS, *HEAD[1:4], *HEARS, HEAD[4], CONFIGURATION),
    *({"kind": "term", **NEXT, "role": "follower", **NONE}, {"kind": "role", **NEXT, "role": "candidate", **NONE}),
    *({"kind": "vote", **NEXT, "role": "candidate", "peer": 1, **NONE}, {"kind": "term", **AFTER, **NONE}),
    *({"kind": "vote", **AFTER, "peer": 1, **NONE}, {"kind": "leader", **NEXT, **NONE}),
    *(CONFIGURATION | NEXT | {"entry_term": 2}, CONFIGURATION | AFTER | {"entry_term": 2}),
    *(FLUSH | AFTER, FLUSH | NEXT, COMMIT | NEXT, {"kind": "term", **OLD}),
]
"""The first entry of 0, which led in term 1, is on no other node; that of 1, which leads in term 2, is committed."""
FOUR = [STARTS[0] | {"node": 3}, STARTS[0] | {"kind": "configuration", "text": "0,1,2", "offset": -1}]
TO_0 = {"node": 3, "role": "follower", "term": 2, **COMMITTED, "visible": 0}

CUT = {"kind": "truncate", **FOLLOWS, "offset": 1, **COMMITTED, "commit": -1}
SECOND = {"kind": "append", "offset": 1, "entry_term": 2, "acks": 1, "value": 8}


def begins_anew(term: int) -> list[dict[str, Any]]:
    """After REPLACED: a fourth node installs a snapshot whose last entry is of this term."""
    snapshot = SNAPSHOT | TO_0 | {"entry_term": term, "text": "0,1,2", "reason": "installed"}
    return [
        *REPLACED[:3],
        *FOUR,
        *REPLACED[3:],
        JOINS | {"node": 3, "term": 2},
        {"kind": "trim", "offset": 1, **TO_0},
        snapshot,
    ]


FOLLOWED = [
    ("a follower takes what its leader sends", [*LED, TAKES], None, ""),
    ("a follower takes another value", [*LED, TAKES | {"value": 8}], 15, "its leader sends an entry of term 1"),
    ("a leader shows what it alone has", [*LED, SHOWN | LEADS | {"commit": 0}], 15, "the spec allows at most 0"),
    ("a leader shows what a majority has", [*LED, TAKES, SHOWN | LEADS | {"commit": 0}], None, ""),
    (
        "a follower shows what its leader has not shown",
        [*LED, TAKES, SHOWN | FOLLOWS | {"commit": -1}],
        16,
        "the spec allows at most",
    ),
    (
        "a follower shows what it does not have",
        [*LED, TAKES, SHOWN | LEADS | {"commit": 0}, SHOWN | JOINS | {"kind": "visible"}],
        17,
        "",
    ),
    (
        "a follower commits what it has not flushed",
        [*LED, TAKES, COMMIT | FOLLOWS | {"dirty": 3, "commit": 3}],
        16,
        "the spec allows at most 0",
    ),
    (
        "a follower begins anew behind what is committed",
        [
            *LED,
            JOINS,
            {"kind": "trim", "offset": 1, **ANEW},
            SNAPSHOT | ANEW | {"text": "0,1,2", "reason": "installed"},
        ],
        None,
        "",
    ),
    (
        "a follower begins anew behind what is not",
        [
            *(*LED, JOINS, {"kind": "trim", "offset": 4, **ANEW, **AT_3}),
            SNAPSHOT | ANEW | AT_3 | {"offset": 3, "text": "0,1,2", "reason": "installed"},
        ],
        16,
        "begins anew up to 3; the spec allows it up to 0",
    ),
    (
        "a leader changes the voters before it has committed anything",
        [*HEAD, CONFIGURATION, FLUSH, *({**each, "commit": -1} for each in change("0 learners 1 revision 1"))],
        7,
        "no entry of its term is committed yet",
    ),
    (
        "a learner stands for election",
        [
            *(STARTS[1], *HEAD, *SERVES, *change("0 learners 1 adding 1 revision 1")),
            {"kind": "term", "node": 1, "role": "follower", "term": 1, **NONE},
            {"kind": "term", "node": 1, "role": "follower", "term": 2, **NONE},
            {"kind": "role", "node": 1, "role": "candidate", "term": 2, **NONE},
        ],
        12,
        "moves to term 2",
    ),
    (
        "a follower commits as far as it has flushed",
        [*LED, *ALL_TO_3, COMMIT | FOLLOWS | {"dirty": 3, "flushed": 3, "commit": 3}],
        None,
        "",
    ),
    (
        "a follower commits beyond what it has flushed",
        [
            *(*LED, *ALL_TO_3, JOINS, *(event | THIRD for event in (*HOLDS, TAKES))),
            COMMIT | THIRD | {"dirty": 3, "commit": 3},
        ],
        23,
        "the spec allows at most 0",
    ),
    ("a follower cuts what is its leader's", [*LED, TAKES, CUT], 16, "nothing differs"),
    ("a follower cuts what is not", [*REPLACED, CUT | OLD | {"offset": 0, "dirty": -1}], None, ""),
    (
        "a follower appends behind what is not its leader's",
        [*REPLACED, SECOND | NEXT | COMMITTED | {"dirty": 1}, SECOND | OLD | {"dirty": 1}],
        23,
        "",
    ),
    (
        "a follower shows what is not its leader's",
        [*REPLACED, {"kind": "visible", **NEXT, **COMMITTED, "visible": 0}, {"kind": "visible", **OLD, "visible": 0}],
        23,
        "the spec allows at most",
    ),
    ("a snapshot's last entry is its leader's", begins_anew(2), None, ""),
    ("a snapshot ends with another node's entry", begins_anew(1), 25, "begins anew"),
]


def test_followers_and_members(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.jsonl", events) for n, (_, events, _, _) in enumerate(FOLLOWED)]
    _, verdicts = follow(*files)
    by_run = {verdict["run"]: verdict for verdict in verdicts[:-1]}
    for file, (name, _, seq, words) in zip(files, FOLLOWED, strict=True):
        assert (name, by_run[file].get("seq")) == (name, seq)
        assert words in by_run[file].get("sentence", ""), name


def test_elections(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.jsonl", events) for n, (_, events, _) in enumerate(ELECTIONS)]
    _, verdicts = follow(*files)
    by_run = {verdict["run"]: verdict for verdict in verdicts[:-1]}
    for file, (name, _, seq) in zip(files, ELECTIONS, strict=True):
        assert (name, by_run[file].get("seq")) == (name, seq)


def write(path: Path, events: list[dict[str, Any]]) -> str:
    rows = [{"seq": number, "time": number, **event} for number, event in enumerate(events)]
    lines = [{"kind": "history", "version": 2}, *rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_hand_made_runs(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.jsonl", HEAD + events) for n, (_, events, _, _) in enumerate(HAND_MADE)]
    _, verdicts = follow(*files)
    by_run = {verdict["run"]: verdict for verdict in verdicts[:-1]}
    for file, (name, _, seq, words) in zip(files, HAND_MADE, strict=True):
        verdict = by_run[file]
        assert (name, verdict.get("seq")) == (name, seq)
        assert words in verdict.get("sentence", ""), name
        if seq is not None:
            assert verdict["line"] == seq + 2


@pytest.mark.parametrize(
    ("ends", "dirty", "kinds"),
    [
        (["storage_error"], 1, ["start", "append", "append", "start"]),
        (["storage_error", "power_loss"], 1, ["start", "append", "append", "start"]),
        (["storage_error"], 0, ["start", "append", "append", "truncate", "start"]),
        (["power_loss"], 1, ["start", "append", "append", "truncate", "start"]),
    ],
)
def test_a_truncation_that_the_disk_failed_to_keep_is_no_step(
    ends: list[str], dirty: int, kinds: list[str], tmp_path: Path
) -> None:
    here = {"node": 0, "role": "follower", "term": 1, "flushed": -1, "commit": -1}
    events = [
        STARTS[0],
        *({"kind": "append", **here, "offset": n, "entry_term": 1, "value": n, "dirty": n} for n in (0, 1)),
        {"kind": "truncate", **here, "offset": 1, "dirty": 0},
        *({"kind": end, "node": 0} for end in ends),
        STARTS[0] | {"incarnation": 1, "term": 1, "dirty": dirty},
    ]
    (trace,) = read_traces(open_run(Path(write(tmp_path / "run.jsonl", events))))
    assert [event[0] for event in trace.events] == kinds


def test_a_leader_that_left_answers_by_what_it_had_heard(tmp_path: Path) -> None:
    """Under write caching, by what a majority held; no event of its own says that the leader knew."""
    two = {"kind": "append", "role": "follower", "term": 1, "entry_term": 1, "acks": -1, "node": 1}
    events = [
        *STARTS,
        *HEAD[1:-1],
        *({**each, "node": 1, "role": "follower", "peer": 0} for each in (HEAD[1], HEAD[3])),
        *(HEAD[-1], CONFIGURATION, two | {"offset": 0, "dirty": 0, "flushed": -1, "commit": -1}),
        {**FLUSH, "node": 1, "role": "follower"},
        *(FLUSH, COMMIT, BATCH | {"acks": -1}),
        two | {"offset": 1, "last_offset": 3, "value": 7, "dirty": 3, "flushed": 0, "commit": -1},
        {"kind": "role", **LEADS, "role": "follower", "dirty": 3, "flushed": 0, "commit": 0},
        BATCH | {"kind": "acked", "role": "follower", "acks": -1, "reason": "success"},
    ]
    _, (verdict, _) = follow("--write-caching", write(tmp_path / "run.jsonl", events))
    assert verdict["verdict"] == "accepted", verdict


def test_a_node_starts_in_no_term_below_that_of_its_last_entry(tmp_path: Path) -> None:
    """Node 1 has not voted in term 1, and nothing but the entry shows that it had come to it."""
    follower = {"node": 1, "role": "follower", "term": 1, "commit": -1}
    events = [
        *election(("term", 0, "follower", 1), ("role", 0, "candidate", 1), ("vote", 0, "candidate", 1, 0)),
        *election(("term", 2, "follower", 1), ("vote", 2, "follower", 1, 0), ("leader", 0, "leader", 1))[len(STARTS) :],
        *(CONFIGURATION, {"kind": "term", **follower, "dirty": -1, "flushed": -1}),
        {"kind": "append", **follower, "offset": 0, "entry_term": 1, "acks": -1, "dirty": 0, "flushed": -1},
        {"kind": "power_loss", "node": 1},
    ]
    starts = {(1, 0): "accepted", (0, 0): "rejected", (0, -1): "accepted"}  # term, what is left of the log
    runs = {
        (term, kept): write(
            tmp_path / f"{term}{kept}.jsonl",
            [*events, STARTS[1] | {"incarnation": 1, "term": term, "dirty": kept, "flushed": kept}],
        )
        for term, kept in starts
    }
    _, verdicts = follow(*runs.values(), explained=1)
    found = {verdict["run"]: verdict for verdict in verdicts[:-1]}
    assert {start: found[run]["verdict"] for start, run in runs.items()} == starts
    rejected = found[runs[0, 0]]
    assert "a term from 1 to 1" in rejected["sentence"]
    assert rejected["nearest"]["action"] == "PowerLoss"
    assert rejected["nearest"]["conjunct"].endswith("TermThen >= DurableTerm(DirtyThen)")


NEAREST = {
    "commit-counts-dirty": ("AdvanceCommit", "c <= CommitCandidate(VotersOf(l), DurableOn(l), flushed[l])"),
    "truncated-ignores-committed-term": ("Answer", "MayAnswer(At) = Fourth"),
    "vote-twice": ("GiveVote", "GrantVote(vote[n], a.node, LogOk(a.lastTerm, a.dirty, ownLastTerm, ownDirty), FALSE)"),
}
"""By recorded mutant: the action that comes nearest to the event that the specification refuses, and what fails."""


def test_what_does_not_hold_is_named() -> None:
    _, verdicts = follow(*(str(RECORDED / f"mutant-{mutant}") for mutant in NEAREST), explained=len(NEAREST))
    for found in verdicts[:-1]:
        action, conjunct = NEAREST[Path(found["run"]).name.removeprefix("mutant-")]
        assert found["nearest"]["action"] == action
        place, _, text = found["nearest"]["conjunct"].partition(": ")
        assert text == conjunct
        _, number, _, module = place.split()
        line = (spec_directory() / "raft" / f"{module}.tla").read_text(encoding="utf-8").splitlines()[int(number) - 1]
        assert conjunct in line, "it stands where it is said to"


def test_a_followed_run_says_what_was_done_after_what(tmp_path: Path) -> None:
    run = write(tmp_path / "run.jsonl", [*HEAD, CONFIGURATION, FLUSH, COMMIT, BATCH])
    _, (found, _) = follow(run)
    took = ["Crash", "StandForElection", "Role", "OwnVote", "BecomeLeader"]
    took += ["AppendConfiguration", "Flush", "AdvanceCommit", "ClientAppend"]
    assert found["pairs"] == sorted(map(list, pairwise(["", *took])))
    assert set(took) < set(action_names())
    shown = CliRunner().invoke(spec, ["trace", "--coverage", run]).output
    assert f"9 of {len(action_names())} actions, 8 pairs of them" in shown
    picture = [line for line in shown.splitlines() if line.endswith((" .", " x"))]
    assert [line.split()[0] for line in picture] == list(action_names())
    assert "".join(picture).count(" x") == 8, "what came first came after nothing"
    assert max(map(len, picture)) <= 80


def test_operations_of_clients_that_nobody_answered_are_unexercised(tmp_path: Path) -> None:
    events = [{"kind": "invoke", "process": 0, "op": 0, "f": "append", "value": 1, "acks": -1}]
    status, verdicts = follow(write(tmp_path / "clients.jsonl", events))
    assert status == 3
    assert verdicts == [{"run": str(tmp_path / "clients.jsonl"), "verdict": "unexercised"}]


def test_coverage_names_actions_and_what_was_never_evaluated(tmp_path: Path) -> None:
    _, verdicts = follow("--coverage", write(tmp_path / "run.jsonl", [*HEAD, CONFIGURATION, FLUSH, COMMIT, BATCH]))
    assert {name for name, count in verdicts[-1]["actions"].items() if count} == {
        *("StandForElection", "Role", "OwnVote", "BecomeLeader", "AppendConfiguration", "Flush", "AdvanceCommit"),
        *("ClientAppend", "Crash"),
    }
    assert any("log' = [log EXCEPT ![n] = Keep(@, k)]" in place for place in verdicts[-1]["unvisited"])
    assert not any("MayCommit" in place for place in verdicts[-1]["unvisited"])
