"""Excuses are exact: a fault excuses what it can have taken of what its node held, when it happened, and nothing else;
the loss account names it."""

from __future__ import annotations

import pytest

from logwitness import check
from logwitness.explain.transcripts import history

RAFT = {"voters": [1, 2, 3], "protocol": "raft"}

HELD = (
    "n1 start|n2 start|n3 start|n1 leader term=1|n1 append 0 t1 v1 all term=1|n2 append 0 t1 v1 all term=1|n1 flush"
    "|n2 flush|c1 append v9 all|c1 ok 0|{}|c2 final_read 0|c2 sees 1 v10|c2 ok 2"
)
"""An acknowledged append is at offset 0 of nodes 1 and 2, and gone in the end."""


@pytest.mark.parametrize(
    ("befell", "excused"),
    [
        ("n1 crash|- fault wipe n1", True),
        ("- fault wipe n1", True),
        ("- fault wipe n2", True),
        ("- fault wipe", True),  # of some node
        ("n3 stop|- fault wipe n3", False),
        ("n3 crash|- fault wipe n3", True),  # its record may lack its end
        ("n3 term 1|n3 crash|- fault wipe n3", False),  # but not what it held when the append was answered
        ("n3 stop|- fault wipe n3|- fault wipe n3", False),
        ("n1 power_loss", False),
        ("n1 storage_error reason=DiskFull", False),
    ],
)
def test_only_who_held_an_entry_can_have_lost_it(befell: str, excused: bool) -> None:
    (lost,) = check(history(HELD.format(befell)).table, ["lost-write"], configuration=RAFT).checks
    assert (lost.excused, lost.violated) == (excused, not excused)


def test_the_wipe_of_an_empty_disk_excuses_nothing() -> None:
    emptied = (
        "n1 crash|- fault wipe n1|{}c1 append v9 all|c1 ok 0|- fault wipe n1|c2 final_read 0|c2 sees 1 v10|c2 ok 2"
    )
    started = "n1 start|n2 start|n3 start|n1 leader term=1|" + emptied
    for between, excused in (("", False), ("n1 start|", True)):
        (lost,) = check(history(started.format(between)).table, ["lost-write"], configuration=RAFT).checks
        assert (lost.excused, lost.violated) == (excused, not excused)


@pytest.mark.parametrize(
    ("befell", "excused"),
    [
        ("n1 power_loss", False),  # it had flushed the entry
        ("n2 power_loss", True),
        ("- fault fsync_error n2", True),
        ("- fault fsync_error n1", False),
        ("n2 storage_error reason=FlushFailed", True),
        ("n2 storage_error reason=DiskFull", False),
        ("- fault disk_full n2|n2 storage_error reason=DiskFull", False),
        ("n2 flush|n2 stop|- fault power_loss n2", False),
    ],
)
def test_what_was_flushed_is_not_lost_with_the_power(befell: str, excused: bool) -> None:
    lines = HELD.replace("|n2 flush", "").format(befell)
    (lost,) = check(history(lines).table, ["lost-write"], configuration={**RAFT, "write_caching": True}).checks
    assert (lost.excused, lost.violated) == (excused, not excused)


def test_where_a_term_has_two_leaders_any_wipe_excuses() -> None:
    lines = HELD.format("n3 stop|- fault wipe n3|n2 leader term=1")
    (lost,) = check(history(lines).table, ["lost-write"], configuration=RAFT).checks
    assert (lost.excused, lost.violated) == (1, 0)


@pytest.mark.parametrize(
    ("befell", "named"),
    [
        ("n3 crash", "none known"),  # it did not have the entry
        ("n3 crash|n1 power_loss", "power_loss"),
        ("- fault partition n3|- fault partition n1", "partition"),
        ("- fault trim n1|n1 crash", "crash"),
        ("- fault wipe n3", "none known"),
        ("", "none known"),
    ],
)
def test_the_loss_account_names_what_can_have_lost_it(befell: str, named: str) -> None:
    lines = HELD.replace("v9 all", "v9 1").format(f"n3 term 1|{befell}" if befell else "n3 term 1")
    (loss,) = check(history(lines).table, configuration=RAFT).losses
    assert (loss.acks, loss.fault) == ("1", named)


def test_a_leader_that_is_cut_off_loses_what_it_takes_meanwhile() -> None:
    lines = "- fault partition n1|{}c1 append v9 1|c1 ok 0|c2 final_read 0|c2 sees 1 v10|c2 ok 2"
    for between, named in (("", "partition"), ("- heal partition n1|", "none known")):
        (loss,) = check(history(lines.format(between)).table, configuration=RAFT).losses
        assert loss.fault == named


def test_what_a_loss_excuses_does_not_reach_back() -> None:
    values = "c1 append v1 all|c1 ok 0|{}c1 append v2 all|c1 ok 0|{}c1 append v3 all|c1 ok 1"
    lines = values + "|c1 tail|c1 ok 2|{}c1 tail|c1 ok 1"
    wipe = "- fault wipe n1|"
    for places, violated in (((0, 1, 0), True), ((1, 0, 0), True), ((1, 0, 1), False), ((1, 1, 1), False)):
        text = lines.format(*(wipe * place for place in places))
        (log,) = check(history(text).table, ["linearizable-log"], configuration=RAFT).checks
        assert bool(log.violated) == violated
        assert bool(log.excused) == (not violated)
        assert all(excuse.cause == "wipe" for excuse in log.excuses)
