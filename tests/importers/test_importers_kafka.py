"""Kafka-like histories: a good one, and for every anomaly of the table one that is a step away from it.

A history is written as one line an operation: process, f, what was asked, how it ended, what was answered. Operations
follow one another; those of a line with `|` are concurrent.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loghistory import open_run
from loghistory.exporters import write_jepsen_json
from logwitness.checks.contract import Verdict
from logwitness.models import Model, check_model, model_of
from logwitness.models.anomalies import NAMES, anomalies

GOOD = """
0 send [[:send 1 10]] ok [[:send 1 [0 10]]]
1 send [[:send 1 11] [:send 2 12]] ok [[:send 1 [1 11]] [:send 2 [0 12]]]
2 poll [[:poll]] ok [[:poll {1 [[0 10] [1 11]], 2 [[0 12]]}]]
0 send [[:send 1 13]] ok [[:send 1 [3 13]]]
2 poll [[:poll] [:poll]] ok [[:poll {1 [[3 13]]}] [:poll]]
"""

CASES: dict[str, tuple[str, list[str]]] = {
    "good": ("", []),
    "single parts may be bare": (
        "3 send [:send 1 14] ok [:send 1 [4 14]]\n2 poll [:poll] ok [:poll {1 [[4 14]]}]",
        [],
    ),
    "bare parts are judged": (
        "3 send [:send 1 14] fail [:send 1 14]\n2 poll [:poll] ok [:poll {1 [[4 14]]}]",
        ["aborted read"],
    ),
    "offset gaps from control records are legal": ("0 send [[:send 1 14]] ok [[:send 1 [900000000000 14]]]", []),
    "two acknowledgements of one offset": (
        "3 send [[:send 1 14]] ok [[:send 1 [3 14]]]",
        ["inconsistent offset"],
    ),
    "a read of another value": ("3 poll [[:poll]] ok [[:poll {2 [[0 13]]}]]", ["inconsistent offset", "phantom"]),
    "one value at two offsets": ("3 poll [[:poll]] ok [[:poll {1 [[3 13] [4 13]]}]]", ["duplicate"]),
    "a value sent twice may be there twice": (
        "0 send [[:send 1 13]] ok [[:send 1 [4 13]]]",
        [],
    ),
    "sends that were told no offset": (
        "3 send [[:send 1 14]] ok [[:send 1 [-1 14]]]\n4 send [[:send 1 15]] ok [[:send 1 [-1 15]]]\n"
        "2 poll [[:poll]] ok [[:poll {1 [[4 14] [5 15]]}]]",
        [],
    ),
    "of sends that were told no offset one is twice": (
        "3 send [[:send 1 14]] ok [[:send 1 [-1 14]]]\n2 poll [[:poll]] ok [[:poll {1 [[4 14] [5 14]]}]]",
        ["duplicate"],
    ),
    "a failed send is read": (
        "3 send [[:send 1 14]] fail [[:send 1 14]]\n2 poll [[:poll]] ok [[:poll {1 [[4 14]]}]]",
        ["aborted read"],
    ),
    "a failed send is not read": ("3 send [[:send 1 14]] fail [[:send 1 14]]", []),
    "a send of a failed transaction is read": (
        "3 txn [[:send 1 14] [:poll]] fail [[:send 1 14] [:poll]]\n2 poll [[:poll]] ok [[:poll {1 [[4 14]]}]]",
        ["aborted read"],
    ),
    "nobody sent it": ("2 poll [[:poll]] ok [[:poll {1 [[4 99]]}]]", ["phantom"]),
    "sent to another key": ("2 poll [[:poll]] ok [[:poll {2 [[1 11]]}]]", ["phantom"]),
    "read before it was sent": (
        "2 poll [[:poll]] ok [[:poll {1 [[4 99]]}]]\n0 send [[:send 1 99]] ok [[:send 1 [4 99]]]",
        ["phantom"],
    ),
    "lost": (
        "0 send [[:send 2 20]] ok [[:send 2 [1 20]]]\n0 send [[:send 2 21]] ok [[:send 2 [2 21]]]\n"
        "3 poll [[:poll]] ok [[:poll {2 [[2 21]]}]]",
        ["lost write"],
    ),
    "not yet read is not lost": ("0 send [[:send 2 20]] ok [[:send 2 [1 20]]]", []),
    "an unknown send nobody read": ("3 send [[:send 1 14]] info [[:send 1 [2 14]]]", []),
    "an unknown send is committed if it was read, with all its offsets": (
        "3 send [[:send 2 20] [:send 2 21]] info [[:send 2 [1 20]] [:send 2 [2 21]]]\n"
        "2 poll [[:poll]] ok [[:poll {2 [[2 21]]}]]",
        ["lost write", "skip"],
    ),
    "an unknown send that was read": (
        "3 send [[:send 2 20]] info [[:send 2 20]]\n2 poll [[:poll]] ok [[:poll {2 [[1 20]]}]]",
        [],
    ),
    "unseen by a final read": (
        "0 send [[:send 2 20]] ok [[:send 2 [1 20]]]\n3 poll [[:poll]] ok [[:poll {2 [[0 12]]}]]\n"
        "3 poll [[:poll]] ok [[:poll {}]]",
        ["unseen"],
    ),
    "a poll of unknown outcome is no final one": (
        "0 send [[:send 2 20]] ok [[:send 2 [1 20]]]\n3 poll [[:poll]] ok [[:poll {2 [[0 12]]}]]\n"
        "3 poll [[:poll]] info [[:poll]]",
        [],
    ),
    "it does not explain what one reader passes over": (
        "0 send [[:send 2 20]] ok [[:send 2 [1 20]]]\n0 send [[:send 2 21]] ok [[:send 2 [2 21]]]\n"
        "4 poll [[:poll]] info [[:poll]]\n3 poll [[:poll]] ok [[:poll {2 [[0 12] [2 21]]}]]",
        ["lost write", "skip"],
    ),
    "a poll may return less than there is": (
        "0 send [[:send 2 20]] ok [[:send 2 [1 20]]]\n3 poll [[:poll]] ok [[:poll {2 [[0 12]]}]]",
        [],
    ),
    "a reader that passes over a value": (
        "3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]\n3 poll [[:poll]] ok [[:poll {1 [[3 13]]}]]",
        ["skip"],
    ),
    "a skip inside an operation": ("3 poll [[:poll] [:poll]] ok [[:poll {1 [[0 10]]}] [:poll {1 [[3 13]]}]]", ["skip"]),
    "a reader that goes back": (
        "3 poll [[:poll]] ok [[:poll {1 [[0 10] [1 11]]}]]\n3 poll [[:poll]] ok [[:poll {1 [[0 10] [1 11]]}]]",
        ["non-monotonic read"],
    ),
    "offsets rise inside an operation": (
        "3 poll [[:poll] [:poll]] ok [[:poll {1 [[1 11]]}] [:poll {1 [[0 10] [1 11]]}]]",
        ["non-monotonic read"],
    ),
    "assign without the key forgets its position": (
        "2 assign [2] ok [2]\n2 assign [1 2] ok [1 2]\n2 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]",
        [],
    ),
    "assign with the key keeps its position": (
        "2 assign [1] ok [1]\n2 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]",
        ["non-monotonic read"],
    ),
    "a failed assign changes nothing": (
        "2 assign [2] fail [2]\n2 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]",
        ["non-monotonic read"],
    ),
    "an aborted transaction puts the position back": (
        "3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]\n3 txn [[:poll]] fail [[:poll {1 [[1 11] [3 13]]}]]\n"
        "3 txn [[:poll]] ok [[:poll {1 [[1 11] [3 13]]}]]",
        [],
    ),
    "a reader of unknown position": (
        "3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]\n3 txn [[:poll]] info [[:poll]]\n"
        "3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]",
        [],
    ),
    "one client's sends out of order": (
        "4 send [[:send 3 30] [:send 3 31]] ok [[:send 3 [1 30]] [:send 3 [0 31]]]",
        ["non-monotonic append"],
    ),
    "acknowledged before, yet after": (
        "4 send [[:send 3 30]] ok [[:send 3 [1 30]]]\n5 send [[:send 3 31]] ok [[:send 3 [0 31]]]",
        ["real-time inversion"],
    ),
    "sends out of order, as a read shows": (
        "4 send [[:send 3 30] [:send 3 31]] info [[:send 3 30] [:send 3 31]]\n"
        "5 poll [[:poll]] ok [[:poll {3 [[0 31] [1 30]]}]]",
        ["non-monotonic append"],
    ),
    "what was read was there before what was sent later": (
        "4 send [[:send 3 30]] info [[:send 3 30]]\n5 poll [[:poll]] ok [[:poll {3 [[5 30]]}]]\n"
        "4 send [[:send 3 31]] ok [[:send 3 [3 31]]]\n6 poll [[:poll]] ok [[:poll {3 [[3 31] [5 30]]}]]",
        ["real-time inversion"],
    ),
    "what was sent while another was read may be before it": (
        "4 send [[:send 3 30]] info [[:send 3 30]]\n"
        "5 poll [[:poll]] ok [[:poll {3 [[5 30]]}]] | 4 send [[:send 3 31]] ok [[:send 3 [3 31]]]\n"
        "6 poll [[:poll]] ok [[:poll {3 [[3 31] [5 30]]}]]",
        [],
    ),
    "what is of unknown outcome may arrive late": (
        "4 send [[:send 3 30]] info [[:send 3 30]]\n4 send [[:send 3 31]] ok [[:send 3 [0 31]]]\n"
        "5 poll [[:poll]] ok [[:poll {3 [[0 31] [1 30]]}]]",
        [],
    ),
    "a send after an acknowledged one may not arrive early": (
        "4 send [[:send 3 31]] ok [[:send 3 [1 31]]]\n4 send [[:send 3 30]] info [[:send 3 30]]\n"
        "5 poll [[:poll]] ok [[:poll {3 [[0 30] [1 31]]}]]",
        ["non-monotonic append", "real-time inversion"],
    ),
    "sends out of order that nobody saw committed": (
        "4 send [[:send 3 30] [:send 3 31]] info [[:send 3 [1 30]] [:send 3 [0 31]]]",
        [],
    ),
    "what an aborted poll is given must follow its reader": (
        "3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]\n3 txn [[:poll]] fail [[:poll {1 [[3 13]]}]]",
        ["skip"],
    ),
    "an aborted poll that goes back": (
        "3 poll [[:poll]] ok [[:poll {1 [[0 10] [1 11]]}]]\n3 txn [[:poll]] fail [[:poll {1 [[0 10]]}]]",
        ["non-monotonic read"],
    ),
    "a poll of unknown outcome that skips": (
        "3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]\n3 txn [[:poll]] info [[:poll {1 [[3 13]]}]]",
        ["skip"],
    ),
    "an aborted poll that finds a value elsewhere": (
        "3 txn [[:poll]] fail [[:poll {1 [[7 10]]}]]",
        ["duplicate"],
    ),
    "an aborted poll that finds another value": (
        "3 txn [[:poll]] fail [[:poll {1 [[0 11]]}]]",
        ["duplicate", "inconsistent offset"],
    ),
    "an aborted poll of a failed send": (
        "4 send [[:send 3 30]] fail [[:send 3 [2 30]]]\n3 txn [[:poll]] fail [[:poll {3 [[5 30]]}]]",
        [],
    ),
    "a transaction that reads what it sends": (
        "4 txn [[:send 3 30] [:poll]] ok [[:send 3 [0 30]] [:poll {3 [[0 30]]}]]",
        ["uncommitted read"],
    ),
    "a transaction that reads before it sends": (
        "4 txn [[:poll] [:send 3 30]] ok [[:poll {1 [[0 10]]}] [:send 3 [0 30]]]",
        [],
    ),
    "transactions that read from one another": (
        "4 txn [[:send 3 30] [:poll]] ok [[:send 3 [0 30]] [:poll {4 [[0 40]]}]]"
        " | 5 txn [[:send 4 40] [:poll]] ok [[:send 4 [0 40]] [:poll {3 [[0 30]]}]]",
        ["uncommitted read"],
    ),
    "transactions that read from one another, and one that reads from them": (
        "4 txn [[:send 3 30] [:poll]] ok [[:send 3 [0 30]] [:poll {4 [[0 40]]}]]"
        " | 5 txn [[:send 4 40] [:poll]] info [[:send 4 40] [:poll {5 [[0 50]]}]]"
        " | 6 txn [[:send 5 50] [:poll]] ok [[:send 5 [0 50]] [:poll {3 [[0 30]]}]]\n"
        "7 txn [[:poll] [:send 6 60]] ok [[:poll {3 [[0 30]], 4 [[0 40]]}] [:send 6 [0 60]]]",
        ["uncommitted read"],
    ),
    "transactions that read in a row": (
        "4 txn [[:send 3 30] [:poll]] ok [[:send 3 [0 30]] [:poll]]"
        " | 5 txn [[:send 4 40] [:poll]] ok [[:send 4 [0 40]] [:poll {3 [[0 30]]}]]"
        " | 6 txn [[:send 5 50] [:poll]] ok [[:send 5 [0 50]] [:poll {3 [[0 30]], 4 [[0 40]]}]]",
        [],
    ),
    "an aborted transaction reads from one that reads from it": (
        "4 txn [[:send 3 30] [:poll]] fail [[:send 3 30] [:poll {4 [[0 40]]}]]"
        " | 5 txn [[:send 4 40] [:poll]] ok [[:send 4 [0 40]] [:poll {3 [[0 30]]}]]",
        ["aborted read"],
    ),
    "an assign of unknown outcome with the key keeps its position": (
        "2 assign [1 2] info [1 2]\n2 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]",
        ["non-monotonic read"],
    ),
    "an assign of unknown outcome without the key forgets its position": (
        "2 assign [2] info [2]\n2 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]",
        [],
    ),
    "overwritten and lost": (
        "4 send [[:send 3 30]] ok [[:send 3 [0 30]]]\n"
        "4 send [[:send 3 31] [:send 3 32]] ok [[:send 3 [0 31]] [:send 3 [2 32]]]\n"
        "5 poll [[:poll]] ok [[:poll {3 [[0 31] [2 32]]}]]",
        ["inconsistent offset", "lost write"],
    ),
    "a crash of a client": ("9 crash nil info nil\n9 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]", []),
    "what a broker says of itself": ("9 debug-topic-partitions [1 2] ok {1 {:leader 3}, 2 {}}", []),
    "concurrent sends may come in any order": (
        "4 send [[:send 3 30]] ok [[:send 3 [1 30]]] | 5 send [[:send 3 31]] ok [[:send 3 [0 31]]]",
        [],
    ),
}


def _edn(text: str) -> str:
    lines = []
    for line in text.strip().splitlines():
        asked, answered = [], []
        for operation in line.split(" | "):
            process, f, rest = operation.split(" ", 2)
            kind = next(word for word in ("ok", "fail", "info") if f" {word} " in rest)
            question, answer = rest.split(f" {kind} ", 1)
            asked.append(f"{{:type :invoke, :process {process}, :f :{f}, :value {question}}}")
            answered.append(f"{{:type :{kind}, :process {process}, :f :{f}, :value {answer}}}")
        lines += asked + answered
    return "\n".join(lines)


@pytest.mark.parametrize("name", CASES)
def test_anomaly(tmp_path: Path, name: str) -> None:
    more, expected = CASES[name]
    path = tmp_path / "history.edn"
    path.write_text(_edn(f"{GOOD.strip()}\n{more}"))
    source = open_run(path)
    assert model_of(source) is Model.KAFKA
    verdict = check_model(source, Model.KAFKA)
    assert sorted(anomalies(verdict.checks)) == sorted(expected)
    assert verdict.verdict is (Verdict.VIOLATED if expected else Verdict.HOLDS)
    assert verdict.exit_status == (1 if expected else 0)
    for each in verdict.checks:
        for violation in each.violations:
            assert violation.events
            assert violation.log is not None


def test_a_request_for_the_beginning_makes_a_final_read(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    ask = "{:type :%s, :process 3, :f :assign, :value [1 2], :seek-to-beginning? true}\n"
    poll = "3 poll [[:poll]] ok [[:poll {1 [[0 10] [1 11]], 2 [[0 12]]}]]"
    path.write_text(_edn(GOOD) + "\n" + ask % "invoke" + ask % "ok" + _edn(poll))
    assert anomalies(check_model(open_run(path), Model.KAFKA).checks) == ["unseen"]


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        ("{1 [[0 10] [1 11]]}", ["unseen"]),
        ("", ["unseen"]),
        ("{1 [[0 10] [1 11]]} | {2 [[0 12]]}", []),
        (" | {1 [[0 10] [1 11]]} | {2 [[0 12]]}", []),
    ],
)
def test_a_key_of_which_the_final_read_returns_nothing_is_unseen(
    tmp_path: Path, polls: str, expected: list[str]
) -> None:
    path = tmp_path / "history.edn"
    ask = "{:type :%s, :process 3, :f :assign, :value [1 2], :seek-to-beginning? true}\n"
    lines = [f"3 poll [[:poll]] ok [[:poll {given}]]" for given in polls.split(" | ")]
    sends = "\n".join(GOOD.strip().splitlines()[:2])
    path.write_text(_edn(sends) + "\n" + ask % "invoke" + ask % "ok" + _edn("\n".join(lines)))
    assert anomalies(check_model(open_run(path), Model.KAFKA).checks) == expected


ACKS = {
    "in the wrong order": ("[0 2] [1 1]", ["non-monotonic append", "real-time inversion"], []),
    "gone": ("[1 2]", ["lost write"], []),
    "twice": ("[1 2] [2 2]", ["duplicate", "lost write"], ["duplicate"]),
}
"""What is read at the end; what is wrong with it if acks are all, and if they are 1 or 0."""


@pytest.mark.parametrize("acks", [":all", "1", "0"])
@pytest.mark.parametrize("name", ACKS)
def test_what_is_wrong_is_a_matter_of_the_acks_level(tmp_path: Path, acks: str, name: str) -> None:
    read, strong, weak = ACKS[name]
    places = (1, 0) if name == "in the wrong order" else (0, 1)
    sends = [f"0 send [[:send 1 {v}]] ok [[:send 1 [{at} {v}]]]" for v, at in zip((1, 2), places, strict=True)]
    path = tmp_path / "history.edn"
    sent = _edn("\n".join(sends)).replace("}", f", :acks {acks}}}")
    path.write_text(sent + "\n" + _edn(f"5 poll [[:poll]] ok [[:poll {{1 [{read}]}}]]"))
    verdict = check_model(open_run(path), Model.KAFKA)
    assert sorted(anomalies(verdict.checks)) == (strong if acks == ":all" else weak)
    gone = [(loss.acks, loss.batches, loss.log) for loss in verdict.losses]
    assert gone == ([(acks, 1, "1")] if acks != ":all" and name != "in the wrong order" else [])


@pytest.mark.parametrize("acks", [":all", "1", "0"])
def test_readers_agree_at_every_acks_level(tmp_path: Path, acks: str) -> None:
    sends = [f"{v} send [[:send 1 {v}]] ok [[:send 1 [0 {v}]]]" for v in (1, 2)]
    reads = [f"{5 + v} poll [[:poll]] ok [[:poll {{1 [[0 {v}]]}}]]" for v in (1, 2)]
    path = tmp_path / "history.edn"
    for some, violated in ((reads[:1], acks == ":all"), (reads, True)):
        path.write_text(_edn("\n".join(sends)).replace("}", f", :acks {acks}}}") + "\n" + _edn("\n".join(some)))
        found = anomalies(check_model(open_run(path), Model.KAFKA).checks)
        assert ("inconsistent offset" in found) == violated


KEYS = ["7", ":x", '"11"', "11", '["topic" 3]', '"[1]"', '"true"', '"a b"', '"\\"q"', "nil"]


def test_keys_of_every_sort_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    lines = [f"0 send [[:send {key} {n}]] ok [[:send {key} [0 {n}]]]" for n, key in enumerate(KEYS)]
    polled = ", ".join(f"{key} [[0 {n}]]" for n, key in enumerate(KEYS))
    lines.append(f"1 assign [{' '.join(KEYS)}] ok [{' '.join(KEYS)}]")
    lines.append(f"1 poll [[:poll]] ok [[:poll {{{polled}}}]]")
    path.write_text(_edn("\n".join(lines)))
    source = open_run(path)
    verdict = check_model(source, Model.KAFKA)
    assert anomalies(verdict.checks) == []
    assert verdict.logs == len(KEYS)
    assert write_jepsen_json(tmp_path / "again.json", source.batches())
    assert open_run(tmp_path / "again.json").table().equals(source.table())


REBALANCED = """
3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]
3 poll [[:poll] [:poll]] ok [[:poll {1 [[3 13]]}] [:poll {1 [[0 10]]}]]
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("[{:keys [1]}]", []),
        ("{:before [{:type :lost, :keys [1]}], :during []}", []),
        ("{:before nil, :during [{:keys [1]}]}", []),
        ("nil", ["non-monotonic read", "skip"]),
        ("[{:keys [2], :type :revoked}]", ["non-monotonic read", "skip"]),
        ("{:before [{:keys [2]}]}", ["non-monotonic read", "skip"]),
        ("[]", ["non-monotonic read", "skip"]),
    ],
)
def test_a_rebalance_takes_the_position_on_its_keys(tmp_path: Path, log: str, expected: list[str]) -> None:
    path = tmp_path / "history.edn"
    first, second, third, fourth = _edn(REBALANCED).splitlines()
    fourth = fourth.removesuffix("}") + f", :rebalance-log {log}}}"
    path.write_text("\n".join([_edn(GOOD), first, second, third, fourth]))
    source = open_run(path)
    assert sorted(anomalies(check_model(source, Model.KAFKA).checks)) == expected
    assert write_jepsen_json(tmp_path / "again.json", source.batches())
    assert open_run(tmp_path / "again.json").table().equals(source.table())


SUBSCRIBED = {
    "passes over a value": ("3 poll [[:poll]] ok [[:poll {1 [[3 13]]}]]", "skip"),
    "goes back": ("3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]", "non-monotonic read"),
    "passes over nothing": ("3 poll [[:poll]] ok [[:poll {1 [[1 11] [3 13]]}]]", None),
}
"""What a reader is given that was given offset 0 of key 1 before."""


@pytest.mark.parametrize("how", ["assign", "subscribe"])
@pytest.mark.parametrize("reported", [False, True])
@pytest.mark.parametrize("name", SUBSCRIBED)
def test_who_has_subscribed_may_have_lost_a_key_meanwhile(tmp_path: Path, how: str, reported: bool, name: str) -> None:
    poll, anomaly = SUBSCRIBED[name]
    first = f"3 {how} [1] ok [1]\n3 poll [[:poll]] ok [[:poll {{1 [[0 10]]}}]]"
    lines = _edn(f"{GOOD.strip()}\n{first}\n{poll}").splitlines()
    if reported:
        lines[-1] = lines[-1].removesuffix("}") + ", :rebalance-log []}"
    path = tmp_path / "history.edn"
    path.write_text("\n".join(lines))
    verdict = check_model(open_run(path), Model.KAFKA)
    found = {NAMES[each.id]: each for each in verdict.checks}
    if anomaly is None:
        assert verdict.verdict is Verdict.HOLDS
    elif how == "assign" or reported:
        assert anomalies(verdict.checks) == [anomaly]
    else:
        assert (verdict.verdict, anomalies(verdict.checks)) == (Verdict.UNDECIDED, [])
        assert "does not tell whether its keys had been given to another one" in (found[anomaly].reason or "")
        assert found[anomaly].unjudged == 1


def test_inside_one_poll_nobody_loses_a_key(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    before = f"{GOOD.strip()}\n3 subscribe [1] ok [1]\n3 "
    for polled, expected in (
        ("poll [[:poll]] ok [[:poll {1 [[0 10] [3 13]]}]]", ["skip"]),
        ("poll [[:poll]] ok [[:poll {1 [[1 11] [0 10]]}]]", ["non-monotonic read"]),
        ("poll [[:poll] [:poll]] ok [[:poll {1 [[0 10]]}] [:poll {1 [[3 13]]}]]", []),
    ):
        path.write_text(_edn(before + polled))
        verdict = check_model(open_run(path), Model.KAFKA)
        assert anomalies(verdict.checks) == expected
        assert verdict.exit_status == (1 if expected else 3)


def test_a_key_that_another_reader_reads_on_is_not_unseen(tmp_path: Path) -> None:
    """Who asked for the beginning lost the key on its way; another one of its group read the rest."""
    path = tmp_path / "history.edn"
    ask = "{:type :%s, :process 3, :f :subscribe, :value [1], :seek-to-beginning? true}\n"
    polls = "3 poll [[:poll]] ok [[:poll {1 [[0 10]]}]]\n4 poll [[:poll]] ok [[:poll {1 [[1 11] [3 13]]}]]"
    path.write_text(_edn(GOOD) + "\n" + ask % "invoke" + ask % "ok" + _edn(polls))
    assert "unseen" not in anomalies(check_model(open_run(path), Model.KAFKA).checks)


@pytest.mark.parametrize("colon", ["", ":"])
@pytest.mark.parametrize(
    "log", ['[{"~type": "~revoked", "~keys": ["1"]}]', '{"~before": [], "~during": [{"~keys": ["1"]}]}']
)
def test_a_rebalance_in_json(tmp_path: Path, colon: str, log: str) -> None:
    path = tmp_path / "history.edn"
    path.write_text(_edn(GOOD.strip() + REBALANCED))
    assert write_jepsen_json(tmp_path / "history.json", open_run(path).batches())
    *before, last, end = (tmp_path / "history.json").read_text().rstrip().splitlines()
    last = re.sub(r'([{,])"([a-z]+)":', rf'\1"{colon}\2":', last)
    assert last.startswith(f'{{"{colon}index":')
    for name, expected in (("other", ["non-monotonic read", "skip"]), ("~rebalance-log", [])):
        more = f'"{name}": {log}'.replace("~", colon)
        (tmp_path / "again.json").write_text("\n".join([*before, f"{{{more},{last[1:]}", end]))
        verdict = check_model(open_run(tmp_path / "again.json"), Model.KAFKA)
        assert sorted(anomalies(verdict.checks)) == expected


def test_a_gap_of_a_billion_offsets_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    lines = [f"0 send [[:send 1 {i}]] ok [[:send 1 [{i << 50} {i}]]]" for i in range(1, 2000)]
    lines.append("1 poll [[:poll]] ok [[:poll {1 [" + " ".join(f"[{i << 50} {i}]" for i in range(1, 2000)) + "]}]]")
    path.write_text(_edn("\n".join(lines)))
    assert check_model(open_run(path), Model.KAFKA).exit_status == 0


def test_a_poll_of_unknown_outcome_may_have_been_given_what_others_pass_over(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    polls = "3 poll [[:poll]] ok [[:poll {2 [[2 21]]}]]\n"
    sends = "0 send [[:send 2 20]] ok [[:send 2 [1 20]]]\n0 send [[:send 2 21]] ok [[:send 2 [2 21]]]\n"
    for unknown, verdict in (("4 poll [[:poll]] info [[:poll]]\n", Verdict.UNDECIDED), ("", Verdict.VIOLATED)):
        path.write_text(_edn(f"{GOOD.strip()}\n{sends}{unknown}{polls}".strip()))
        found = check_model(open_run(path), Model.KAFKA)
        assert found.verdict is verdict
        (lost,) = (each for each in found.checks if each.id == "lost-write")
        assert lost.verdict is verdict
        assert (lost.reason or "").endswith("may have been given to 1 poll of unknown outcome") is bool(unknown)
