"""The fast checks and the plain ones agree: on small histories, recorded and simulated runs, and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from comparison import TWINS, disagreements, events_of
from plain import History
from replay import replay
from sources import RECORDED, recorded, simulated, simulated_servers, simulated_streams
from thousands import Play, damaged_copies, judged

from logwitness.checks import house_families
from logwitness.explain.transcripts import Case, all_cases, history

MEDIUM, LARGE = 900, 5000
"""Events from which on a recorded run is left to the long tests, and from which on no damaged copies of it are judged:
plain checks take seconds."""

EVENTS = {run: json.loads((run / "manifest.json").read_text())["events"] for run in RECORDED}

EDGES = (
    # A start in a later term; a vote for oneself alone makes a candidate.
    "n1 start|n2 start|n3 start|n1 role candidate|n1 crash|n1 start term=3|n2 term 3|n3 term 3",
    "n1 start|n2 start|n3 start|n1 term 1|n1 vote 1|n2 term 1|n3 term 1|n1 role follower",
    # Who moves to a term as a candidate may stand in it, or have stood in the one before.
    "n1 start|n2 start|n1 role candidate|n2 term 1 role=candidate|n2 vote 2 role=follower",
    "n1 start|n1 term 1 role=candidate|n1 role learner|n1 vote 1 role=candidate",
    "n1 start|n1 role candidate|n1 term 1 role=candidate|n1 role follower|n1 vote 1 role=follower|n1 role candidate",
    "n1 start|n1 role candidate|n1 role follower|n1 vote 1 role=follower|n1 role learner|n1 role candidate",
    "n1 start|n2 start|n4 start|n1 role candidate|n1 vote 1|n1 leader|n4 term 1 role=leader|n4 role follower",
    "n1 start|n2 start|n4 start|n1 role candidate|n1 vote 1|n1 leader|n4 term 1 role=candidate|n4 role follower",
    # The end of a log: behind in dirty alone.
    "n1 start|n2 start|n1 append 0 t0 v1 1|n1 flush|n1 commit 0|n2 commit 0|- phase final_read",
    # A flush told by an append; a truncation right at the commit index of a node whose log is not shown.
    "n1 start|n2 start|n3 start|n1 term 1|n1 leader|n1 append 0 t1 v1 1|n1 append 1 t1 v2 1 flushed=1|n1 commit 1",
    "n1 start dirty=4|n1 commit 4|n1 truncate 4",
    # A vote that a wiped disk has forgotten.
    "n1 start|n1 term 3|n1 vote 1|n1 crash|- fault wipe n1|n1 start dirty=-1 term=0|n1 crash|n1 start term=0",
    # A tail shorter by one after a wipe; a trim up to what was acknowledged; a batch that reaches behind a gap.
    "c1 append v10 all|c1 ok 4|- fault wipe n1|c2 tail|c2 ok 4",
    "c1 append v10 all|c1 ok 0|c1 append v11 all|c1 ok 1|n1 trim 1|c2 final_read 0|c2 ok 0",
    "c1 append v10 all|c1 ok 0-2|c1 append v11 all|c1 ok 3|c3 read 0|c3 sees 0-2 v10|c3 ok 3"
    "|c2 read 0|c2 sees 2 v11|c2 ok 4",
    # An append that failed fills no hole.
    "c1 append v10 all|c1 fail|c2 append v11 all|c2 ok 1",
    # A leader whose first entry replaces what is committed.
    "n1 start|n2 start|n3 start|n1 append 0 t1 v1 all term=1|n2 append 0 t1 v1 all term=1|n1 flush|n2 flush|n1 commit 0"
    "|n3 append 0 t2 v2 all term=2|n3 append 1 t2 v3 all",
    # What lacks at the beginning of a read may be trimmed where no node records anything; inside a read it may not.
    "c1 append v10 all|c1 ok 0|c1 append v11 all|c1 ok 1|c2 read 0|c2 sees 1 v11|c2 ok 2",
    "c1 append v10 all|c1 ok 0|c1 append v11 all|c1 ok 1|c2 final_read 0|c2 sees 1 v11|c2 ok 2",
    "c1 append v10 all|c1 ok 0|c1 append v11 all|c1 ok 1|c2 final_read 0|c2 ok 2",
    "c1 append v9 all|c1 ok 0|c1 append v10 all|c1 ok 1|c1 append v11 all|c1 ok 2|c2 read 0|c2 sees 0 v9|c2 sees 2 v11"
    "|c2 ok 3|c3 final_read 0|c3 sees 0 v9|c3 sees 2 v11|c3 ok 3",
    # The same, where nodes were asked to compact: then any of it may be gone, in a run of no protocol as well.
    "c1 append v9 all|c1 ok 0|c1 append v10 all|c1 ok 1|c1 append v11 all|c1 ok 2|- fault compact n1"
    "|c2 read 0|c2 sees 0 v9|c2 sees 2 v11|c2 ok 3|c3 final_read 0|c3 sees 0 v9|c3 sees 2 v11|c3 ok 3",
    "c1 append v10 all|c1 ok 0|c2 read_linearizable 0|c2 ok 0",
    "c1 append v10 all|c1 ok 0|c1 append v11 all|c1 ok 1|c2 read_linearizable 0|c2 sees 0 v10|c2 ok 1",
    "n1 start|c1 append v10 all|c1 ok 0|c1 append v11 all|c1 ok 1|c2 read 0|c2 sees 1 v11|c2 ok 2",
    # A leader is elected after a transfer that was stopped, or cut off, between.
    "n1 start|n2 start|n1 leader term=1|n1 append 0 t1 v1 1|n1 acked 0 t1 1 success|n2 append 0 t0 v2 1|n2 stop"
    "|n2 start|n1 transfer 2|n2 leader term=2",
    "n1 start|n2 start|n1 leader term=1|n1 append 0 t1 v1 1|n1 acked 0 t1 1 success|n2 append 0 t0 v2 1|n2 crash"
    "|n2 start|n1 transfer 2|n2 leader term=2",
    # Reads whose observations are not recorded; with nodes, and a read that goes on in the middle of a batch.
    "c1 append v10 all|c1 ok 0|c2 read 0|c2 ok 1 count=1|c3 final_read 0|c3 ok 1 count=1",
    "n1 start|n2 start|n3 start|n1 append 0-2 t1 v10 1 term=1|n2 append 0-2 t1 v10 1 term=1|n1 visible 2"
    "|c1 read 0 node=1|c1 ok 3 count=1 node=1",
    "n1 start|n2 start|n3 start|n1 append 0-2 t1 v10 1 term=1|n1 append 3-5 t1 v11 1|n2 append 0-2 t1 v10 1 term=1"
    "|n2 append 3-5 t1 v11 1|n1 visible 5|c1 read 1 node=1|c1 sees 3-5 v11 node=1|c1 ok 6 node=1|c1 read 4 node=1"
    "|c1 ok 4 node=1",
    # Copies that end elsewhere, behind a part that is not shown; a commit index beyond the log of who is read.
    "n1 start|n2 start|n2 append 12-14 t1 v37 1 term=1|n1 append 12-13 t1 v37 1 term=1|n1 append 15 t1 v38 1"
    "|n2 append 15 t1 v38 1|n1 visible 15",
    "n1 start|n2 start|n3 start|n1 append 0 t1 v10 1 term=1|n1 flush|n1 commit 9|c1 read_committed 0 node=1"
    "|c1 ok 0 node=1",
    # A log that was trimmed, and restarted, before it is read; a commit index that falls with an append.
    "n1 start|n1 append 0 t1 v10 1 term=1|n1 append 1 t1 v11 1|n1 flush|n1 commit 1|n1 visible 1|n1 trim 1|n1 crash"
    "|n1 start|n1 commit 1|n1 visible 1|c1 read 0 node=1|c1 sees 0 v10 node=1|c1 ok 1 node=1",
    "n1 start|n2 start|n1 append 0 t1 v10 1 term=1|n1 flush|n1 commit 0|n1 visible 0|c1 read_committed 0 node=1"
    "|n1 append 1 t1 v11 1 commit=-1|c1 sees 1 v11 node=1|c1 ok 2 node=1",
    # A node that goes on after its end, and leads.
    "n1 start|n2 start|n3 start|n1 term 1|n1 storage_error|n1 flush|n1 term 2|n1 flush role=leader|n2 term 2|n3 term 2",
    # A disk is emptied, and then nodes show two logs; or what was passed over was asked for later.
    *(
        f"{'n1 start|' * recorded}c1 append v8 all|c1 ok 0|{first}|c3 read 0|c3 sees 0 v8|c3 sees 1 v9|c3 ok 2|{then}"
        "|c1 append v10 all|c1 ok 2|c2 read 0|c2 sees 0 v8|c2 sees 2 v10|c2 ok 3"
        for recorded in (False, True)
        for first, then in (
            ("c1 append v9 all|c1 ok 1", "- fault wipe n1"),
            ("- fault wipe n1", "c1 append v9 all|c1 ok 1"),
            ("c1 append v9 1|c1 ok 1", "- fault power_loss n1"),
        )
    ),
    # A candidate behind a part of its log that is not shown, and when it has cut off what it held of its term.
    "n1 start dirty=4|n1 role candidate|n1 append 5 t1 v1 1 term=1|n1 role candidate|n1 truncate 5|n1 role candidate",
    # A value that was enqueued before it was asked for, and again after that; one in two logs, asked for by nobody.
    "n1 start|n2 start|n1 leader term=1|n1 enqueue v9 1 bytes=1 reserved=1|c1 append v9 1"
    "|n1 enqueue v9 1 bytes=1 reserved=2|n1 append 0 t1 v9 1|c1 ok 0 t1|c2 append v9 1|c2 info",
    "n1 start|n2 start|n1 append 0 t1 v9 1 term=1|n2 append 0 t2 v9 1 term=2|c1 append v8 1|n1 append 1 t1 v8 1"
    "|c1 ok 1 t1|n2 append 1 t2 v8 1|c2 append v7 1|c2 fail|n2 append 2 t2 v7 1",
    # A leader writes what it had not enqueued, twice; what is not enqueued by name; and two that are overtaken.
    "n1 start|n1 leader term=1|n1 append 0 t1 v1 1|n1 append 1 t1 v1 1|n1 enqueue v1 1 bytes=1 reserved=1"
    "|n1 enqueue v1 1 bytes=1 reserved=2|n1 enqueue v1 1 bytes=1 reserved=3|n1 append 2 t1 v1 1|n1 append 3 t1 v2 1",
    "n1 start|n1 leader term=1|n1 enqueue 1 bytes=1 reserved=1|n1 append 0 t1 v1 1|n1 role follower"
    "|n1 enqueue v1 1 bytes=1 reserved=2",
    "n1 start|n1 leader term=1|n1 enqueue v1 1 bytes=1 reserved=1|n1 enqueue v2 1 bytes=1 reserved=2"
    "|n1 enqueue v3 1 bytes=1 reserved=3|n1 append 0 t1 v3 1|n1 append 1 t1 v2 1|n1 term 2|n1 append 2 t1 v1 1",
    # Holes in what was compacted: all of it, in two steps and by two nodes; and not all of it, or later.
    *(
        "n1 start|n2 start|n1 append 0 t0 v1 all key=7|n1 append 1-2 t0 v2 all key=7|n1 append 3 t0 v3 all key=7"
        "|n1 append 4 t0 v4 all key=7|n2 append 0 t0 v1 all key=7|n2 append 1-2 t0 v2 all key=7"
        f"|n2 append 3 t0 v3 all key=7|n1 flush|n1 commit 4|{steps}"
        for steps in (
            "n2 compact 3|n1 compact 1-2|n3 start|n3 append 0 t0 v1 all key=7|n3 append 4 t0 v4 all key=7",
            "n1 compact 1-2|n1 compact 0|n1 compact 3|n3 start|n3 append 4 t0 v4 all key=7|n2 append 4 t0 v4 all key=7",
            "n1 compact 0|n1 compact 3|n1 compact 0|n3 start|n3 append 1-2 t0 v2 all key=7|n3 append 4 t0 v4 all key=7",
            "n1 compact 0|n1 compact 3|n3 start|n3 append 4 t0 v4 all key=7|n1 compact 1-2",
            "n1 compact 3|n3 start|n3 append 1-2 t0 v2 all key=7|n3 append 4 t0 v4 all key=7|n1 compact 0",
        )
    ),
    # What is not found again may have been cut off in the lost end of a record, where another log was or may have been.
    *(
        "n1 start|n2 start|n3 start|n1 leader term=1|n1 append 0 t1 v1 1|n2 append 0 t1 v1 1 term=1"
        "|n3 append 0 t1 v1 1 term=1|n1 append 1 t1 v2 1|n1 append 2 t1 v3 1|n1 flush|n3 append 1 t1 v2 1"
        f"|n3 append 2 t1 v3 1|n3 flush|{steps}"
        for steps in (
            *(
                f"n2 leader term=2|n2 append 1 t2 v4 1|n3 {end}|n3 start dirty={dirty}"
                for end in ("power_loss", "crash", "stop", "start", "crash|- fault wipe", "term 3|n3 crash")
                for dirty in (0, 1)
            ),
            *(
                f"n2 {turn}|n3 {end}|n3 start dirty=0|n2 {later}"
                for turn in ("leader term=2", "crash", "term 2")
                for end in ("power_loss", "crash", "commit 1|n3 crash", "truncate 2|n3 append 2 t2 v4 1|n3 crash")
                for later in ("crash", "append 1 t2 v5 1")
            ),
            "n2 crash|n3 truncate 1|n3 term 2|n1 power_loss|n1 start dirty=0",
            "n2 crash|n3 truncate 1|n1 power_loss|n1 start dirty=0",
            "n2 crash|n3 truncate 1|n3 crash|n1 power_loss|n1 append 3 t1 v4 1|n1 crash|n1 start dirty=0",
        )
    ),
    # A state machine, where another life is named in between; and where it begins with more than it installs.
    *(
        "n1 start|n1 append 0 t1 v1 1 term=1|n1 append 1 t1 v2 1|n1 append 2 t1 v3 1|n1 flush|n1 commit 2"
        f"|n1 {first} incarnation=1|n1 apply 1 incarnation=0|n1 apply {then} incarnation=0"
        for first in ("apply 0", "snapshot 0 t1 reason=taken text=1", "snapshot 0 t1 reason=installed text=1")
        for then in (1, 2)
    ),
    *(
        "n1 start|n1 append 0 t1 v1 1 term=1|n1 append 1 t1 v2 1|n1 flush|n1 commit 1|n1 apply 0-1"
        f"|n1 snapshot 1 t1 reason=taken text=1|n1 crash|n1 start commit={commit}"
        f"{2 * f'|n1 snapshot {end} t1 reason=installed text=1'}|n1 commit 1|n1 append 2 t1 v3 1|n1 flush|n1 commit 2"
        "|n1 apply 2|n1 snapshot 2 t1 reason=installed text=1"
        for commit in (-1, 1)
        for end in (0, 1, 2)
    ),
    # What is passed over where nodes state keys: one that recorded nothing may have compacted it.
    *(
        f"n1 start|{whole}n1 append 0 t1 v9 all{key}|n1 append 1 t1 v10 all{key}|n1 append 2 t1 v11 all{key}"
        "|c1 append v9 all|c1 ok 0|c1 append v10 all|c1 ok 1|c1 append v11 all|c1 ok 2"
        "|c2 read 0|c2 sees 0 v9|c2 sees 2 v11|c2 ok 3|c3 final_read 0|c3 sees 0 v9|c3 sees 2 v11|c3 ok 3"
        for key in ("", " key=7")
        for whole in ("", "n2 start|n3 start|")
    ),
    # Members were asked to change, and no configuration is recorded; a session that is not the first one.
    *(
        f"n1 start|n2 start|n3 start|n1 term 1 role=candidate|n1 vote 1|n1 leader{asked}|n1 append 0 t1 v1 all|n1 flush"
        f"|n1 commit 0|n1 counted peer=3 session={session}|n1 counted peer=4 session={session}{last}|- phase final_read"
        for asked in ("", "|- fault join n4", "|- fault leave n3", "|- fault transfer n1")
        for session in (0, 2)
        for last in ("", "|n3 configuration -1 text=1,2,3 revision 1")
    ),
    # Who waits for memory is passed over, and enqueued later or not; or waits again; and nothing is withdrawn, or is.
    *(
        f"n1 start|n1 leader term=1|n1 wait value=9|n1 wait value=10|n1 wait value=11{turn}"
        f"|n1 enqueue v11 1 bytes=1 reserved=1{then}|n1 enqueue v9 1 bytes=1 reserved=2{last}"
        for turn in ("", "|n1 enqueue v10 1 bytes=1 reserved=1", "|n1 withdraw value=10")
        for then in ("", "|n1 wait value=9", "|n1 term 2")
        for last in ("", "|n1 withdraw value=10")
    ),
    # Who was stopped, and has recorded something, or nothing.
    "n1 start|n1 crash|n2 crash|- phase heal|- phase final_read",
)
"""Histories on the edge of a rule, which chance hardly finds: one line each, as in the small histories."""


def test_every_check_has_a_twin() -> None:
    assert {check.id for family in house_families() for check in family.checks} == {*TWINS}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.place}-{case.check}")
def test_small_histories(case: Case) -> None:
    nodes = sorted({row["node"] for row in case.rows if "node" in row})
    assert not disagreements(case.table, {"voters": nodes or [0]} | case.configuration, case.place)


@pytest.mark.parametrize("protocol", [{}, {"protocol": "raft"}], ids=str)
@pytest.mark.parametrize("lines", EDGES)
def test_edges(lines: str, protocol: dict[str, str]) -> None:
    assert not disagreements(history(lines).table, {"voters": [1, 2, 3], **protocol}, lines)


def later(run: Path) -> pytest.MarkDecorator:
    """One run in eight is for `make test-long`, the others are for `make test-night`."""
    return pytest.mark.long(0) if RECORDED.index(run) % 8 else pytest.mark.long


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [pytest.param(run, id=run.name, marks=[] if EVENTS[run] < MEDIUM else later(run)) for run in RECORDED],
)
def test_recorded_runs(run: Path) -> None:
    source = recorded(run)
    assert not disagreements(source.table, source.configuration, source.name)


@pytest.mark.parametrize(
    "run", [pytest.param(run, id=run.name, marks=later(run)) for run in RECORDED if EVENTS[run] < LARGE]
)
def test_damaged_copies_of_recorded_runs(run: Path) -> None:
    _, found = damaged_copies(recorded(run), recorded(RECORDED[RECORDED.index(run) - 1]), range(3))
    assert not found, "\n".join(found)


def agree(seeds: range, copies: int, play: Play = simulated) -> None:
    """Hold both judges together on simulated runs, and damaged copies of each."""
    found = judged(seeds, copies, play)[-1]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(14, 84, 28), range(7, 84, 28)], ids=str)
def test_simulated_runs(seeds: range) -> None:
    """A few of the settings and of the mutants."""
    agree(seeds, copies=1)


@pytest.mark.long(1)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 3000, 25))
def test_thousands_of_simulated_runs(first: int) -> None:
    agree(range(first, first + 25), copies=10)


@pytest.mark.slow
def test_simulated_servers() -> None:
    """A few of the settings and of the mutants of pull queries."""
    agree(range(2, 44, 14), copies=1, play=simulated_servers)


@pytest.mark.long(1)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 1280, 14))
def test_hundreds_of_simulated_servers(first: int) -> None:
    agree(range(first, first + 14), copies=5, play=simulated_servers)


@pytest.mark.slow
def test_simulated_streams() -> None:
    """One of the settings of the read path; the others are left to the next test."""
    agree(range(2, 3), copies=1, play=simulated_streams)


@pytest.mark.long(1)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 1280, 14))
def test_hundreds_of_simulated_streams(first: int) -> None:
    agree(range(first, first + 14), copies=5, play=simulated_streams)


def test_what_is_found_once_in_each_of_many_logs_is_kept() -> None:
    events = events_of(history("n1 start|n1 append 0 t1 v1 1").table)
    logs = [History(events, (1,)) for _ in range(40)]
    replayed = [replay(log)[0] for log in logs]
    assert all(replay(log)[0] is before for log, before in zip(logs, replayed, strict=True))
