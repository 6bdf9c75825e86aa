"""Transactions over lists: strictly serializable or not, as trying every order says; and what goes wrong by its name.

A transaction is `process micro-operations kind`: a1=3 appends 3 to key 1, r1=3,4 reads key 1; kind is ok, ! or ?.
Transactions on one line, joined by |, are concurrent; lines follow one another.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from written import FORMS, Map, written

from loghistory import open_run
from logwitness.models import Model, check_model, model_of
from logwitness.models.anomalies import anomalies

CASES: dict[str, tuple[str, list[str]]] = {
    "in order": ("0 a1=1 a2=2 ok\n1 r1=1 a1=3 ok\n2 r1=1,3 r2=2 ok", []),
    "its own": ("0 r1= a1=1 r1=1 a1=2 r1=1,2 ok", []),
    "unknown and seen": ("0 a1=1 a2=2 ?\n1 r1=1 ok\n2 r2=2 ok", []),
    "unknown and not seen": ("0 a1=1 ?\n1 r1= ok\n2 r1= ok\n3 r1=1 ok", []),
    "failed": ("0 a1=1 !\n1 r1= ok", []),
    "reads that differ": ("0 a1=1 ok | 1 a1=2 ok\n2 r1=1,2 ok | 3 r1=2,1 ok", ["inconsistent offset"]),
    "twice": ("0 a1=1 ok\n1 r1=1,1 ok", ["duplicate"]),
    "aborted": ("0 a1=1 !\n1 r1=1 ok", ["aborted read"]),
    "from nowhere": ("0 a1=1 ok\n1 r1=1,9 ok", ["phantom"]),
    "before it was": ("0 a1=1 ok\n1 r1=1,2 ok\n2 a1=2 ok", ["phantom"]),
    "lost": ("0 a1=1 ok\n1 a1=2 ok | 3 r1=2 ok\n", ["lost write"]),
    "unseen": ("0 a1=1 ok\n1 a1=2 ok\n2 r1=1 ok", ["unseen"]),
    "one client's order": ("0 a1=1 a1=2 ok\n1 r1=2,1 ok", ["non-monotonic append"]),
    "late": ("0 a1=1 ok\n1 a1=2 ok | 2 r1=2,1 ok", ["real-time inversion"]),
    "in the middle": ("0 a1=1 a1=2 ok | 1 r1=1 ok | 2 r1=1,2 ok", ["uncommitted read"]),
    "stale": ("0 a1=1 ok\n1 r1= ok | 2 r1=1 ok", ["stale tail"]),
    "not what it read before": ("0 r1= r1=1 ok | 1 a1=1 ok", ["not linearizable"]),
    "without its own": ("0 a1=1 r1= ok", ["not linearizable"]),
    "G0": ("0 a1=1 a2=1 ok | 1 a1=2 a2=2 ok | 2 r1=1,2 ok | 3 r2=2,1 ok", ["not linearizable"]),
    "G1c": ("0 a1=1 r2=2 ok | 1 a2=2 r1=1 ok", ["not linearizable"]),
    "G-single": ("0 a1=1 a2=1 ok | 1 r1= r2=1 ok", ["not linearizable"]),
    "G2": ("0 r1= a2=1 ok | 1 r2= a1=1 ok", ["not linearizable"]),
    "one key of another, and its own of the other": ("0 a1=1 r1=1 r2=2 ok | 1 a2=2 a1=3 ok", ["not linearizable"]),
    "half of an unknown one": ("0 a1=1 a2=2 ?\n1 r1=1 ok | 2 a9=9 ok\n3 r2= ok", ["not linearizable"]),
    "read, and then not": ("0 a1=1 ? | 1 r1=1 ok\n2 r1= ok | 3 a9=9 ok", ["stale tail"]),
}


@dataclass
class _Done:
    """One transaction: micro-operations, how it ended, and when it began and ended."""

    kind: str
    micro: list[tuple[str, int, Any]]
    began: float = 0
    ended: float = 0


def _maps(all_: list[_Done]) -> list[Map]:
    events: list[tuple[float, Map]] = []
    for process, each in enumerate(all_):
        common = {"process": process, "f": "txn"}
        asked = [[f, key, value if f == "append" else None] for f, key, value in each.micro]
        reported = [list(micro) for micro in each.micro] if each.kind == "ok" else asked
        events.append((each.began, {"type": "invoke", "value": asked, **common}))
        events.append((each.ended, {"type": each.kind, "value": reported, **common}))
    return [each for _, each in sorted(events, key=lambda event: event[0])]


def _parsed(text: str) -> list[_Done]:
    found: list[_Done] = []
    for number, line in enumerate(text.strip().splitlines()):
        for place, reported in enumerate(line.split(" | ")):
            _, *words, kind = reported.split()
            micro: list[tuple[str, int, Any]] = []
            for word in words:
                key, value = int(word[1]), word[3:]
                listed = [int(each) for each in value.split(",") if each]
                micro.append(("append", key, int(value)) if word[0] == "a" else ("r", key, listed))
            kind = {"ok": "ok", "!": "fail", "?": "info"}[kind]
            found.append(_Done(kind, micro, 100 * number + place, 100 * number + 50 + place))
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", ["EDN, a map a line", "JSON, words with colons", "log, times"])
def test_anomaly(tmp_path: Path, name: str, form: str) -> None:
    text, expected = CASES[name]
    all_ = _parsed(text)
    path = tmp_path / "history"
    path.write_bytes(written(_maps(all_), form))
    source = open_run(path)
    assert model_of(source) is Model.LIST_APPEND
    verdict = check_model(source, Model.LIST_APPEND)
    assert anomalies(verdict.checks) == expected
    assert verdict.verdict == ("violated" if expected else "holds")
    assert _serializable(all_) == (not expected)
    for each in verdict.checks:
        assert all(violation.events and "  " not in violation.sentence for violation in each.violations)


def test_a_circle_is_told_by_its_transactions(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(written(_maps(_parsed(CASES["half of an unknown one"][0])), "EDN, a map a line"))
    (violation,) = check_model(open_run(path), Model.LIST_APPEND).checks[-1].violations
    words = "that of event 0 was read by that of event 6, which was over before that of event 14, which did not read"
    assert violation.sentence == f"No order of the 4 transactions explains every answer: {words} the first."
    assert violation.events == (0, 6, 14)


def test_a_value_that_is_appended_twice_is_undecided(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(written(_maps(_parsed("0 a1=1 ok\n1 a1=1 ok\n2 r1=1,1 ok")), "EDN, a map a line"))
    verdict = check_model(open_run(path), Model.LIST_APPEND)
    assert verdict.verdict == "undecided"


def _serializable(all_: list[_Done]) -> bool:
    """Whether some order that real time allows explains all reads."""
    there = frozenset(place for place, each in enumerate(all_) if each.kind != "fail")
    certain = frozenset(place for place in there if all_[place].kind == "ok")
    ended = {place: all_[place].ended if place in certain else float("inf") for place in there}
    seen: set[tuple[frozenset[int], tuple[tuple[int, tuple[int, ...]], ...]]] = set()

    def search(left: frozenset[int], lists: dict[int, tuple[int, ...]]) -> bool:
        if not left & certain:
            return True
        state = left, tuple(sorted(lists.items()))
        if state in seen:
            return False
        seen.add(state)
        for place in left:
            if all_[place].began > min(ended[other] for other in left):
                continue
            after, fine = dict(lists), True
            for f, key, value in all_[place].micro:
                if f == "append":
                    after[key] = (*after.get(key, ()), value)
                elif place in certain:
                    fine = fine and after.get(key, ()) == tuple(value)
            if fine and search(left - {place}, after):
                return True
        return False

    return search(there, {})


@dataclass
class _Random:
    """Transactions that were carried out one after the other, with answers and times that are perhaps spoilt."""

    rng: random.Random
    lists: dict[int, list[int]] = field(default_factory=lambda: {1: [], 2: []})
    value: int = 0
    most: int = 3
    """Micro-operations of a transaction."""
    times: int = 6
    """Transactions."""

    def all(self) -> list[_Done]:
        found = []
        stretch = self.rng.choice([5, 100, 300, 500])
        for moment in sorted(self.rng.sample(range(1000), self.rng.randint(2, self.times))):
            fate = self.rng.random()
            lists = {key: list(values) for key, values in self.lists.items()}
            micro = [self._micro(lists) for _ in range(self.rng.randint(1, self.most))]
            if fate > 0.17:
                self.lists = lists
            kind = "fail" if fate < 0.1 else "info" if fate < 0.27 else "ok"
            times = moment - self.rng.random() * stretch, moment + self.rng.random() * stretch
            found.append(_Done(kind, micro, *times))
        if self.rng.random() < 0.5:
            self._spoil(self.rng.choice(found))
        return found

    def _micro(self, lists: dict[int, list[int]]) -> tuple[str, int, Any]:
        key = self.rng.choice(sorted(lists))
        if self.rng.random() < 0.5:
            return "r", key, list(lists[key])
        self.value += 1
        lists[key].append(self.value)
        return "append", key, self.value

    def _spoil(self, one: _Done) -> None:
        reads = [values for f, _, values in one.micro if f == "r"]
        late = self.rng.choice([-500, 500]) * self.rng.random()
        if not reads or self.rng.random() < 0.3:
            one.began, one.ended = one.began + late, one.ended + late
        elif len(reads[0]) > 1 and self.rng.random() < 0.3:
            reads[0][:2] = reads[0][1::-1]
        elif reads[0] and self.rng.random() < 0.6:
            del reads[0][self.rng.randrange(len(reads[0]))]
        else:
            reads[0].insert(self.rng.randint(0, len(reads[0])), self.rng.randint(1, self.value + 1))


def _compare(tmp_path: Path, number: int) -> None:
    rng = random.Random(number)
    answers = []
    for _ in range(number):
        all_ = _Random(rng).all()
        path = tmp_path / "history"
        path.write_bytes(written(_maps(all_), rng.choice(["EDN, a map a line", "JSON, one array", "log, bare"])))
        verdict = check_model(open_run(path), Model.LIST_APPEND)
        answers.append(_serializable(all_))
        assert verdict.verdict == ("holds" if answers[-1] else "violated"), path.read_text()
    assert 0.1 < sum(answers) / number < 0.95


@pytest.mark.slow
def test_small_histories_against_brute_force(tmp_path: Path) -> None:
    _compare(tmp_path, 600)


@pytest.mark.long
def test_many_small_histories_against_brute_force(tmp_path: Path) -> None:
    _compare(tmp_path, 30_000)


def _plain(maps: list[Map]) -> list[Map]:
    """Transactions of one append or read each as operations of their own."""
    found = []
    for each in maps:
        ((f, _, value),) = each["value"]
        found.append({**each, "f": "append" if f == "append" else "read", "value": value})
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [200, pytest.param(5000, marks=pytest.mark.long)])
def test_single_appends_and_reads_against_brute_force(number: int, tmp_path: Path) -> None:
    """Many begin with a read, when nothing has told yet that it is of a log."""
    rng = random.Random(4)
    answers = []
    for _ in range(number):
        all_ = _Random(rng, {1: []}, most=1, times=8).all()
        if not any(f == "append" for each in all_ for f, _, _ in each.micro):
            continue
        path = tmp_path / "history"
        path.write_bytes(
            written(_plain(_maps(all_)), rng.choice(["EDN, a map a line", "JSON, one array", "log, bare"]))
        )
        source = open_run(path)
        assert model_of(source) is Model.LIST_APPEND
        answers.append(_serializable(all_))
        verdict = check_model(source, Model.LIST_APPEND)
        assert verdict.verdict == ("holds" if answers[-1] else "violated"), path.read_text()
        assert "uncommitted read" not in anomalies(verdict.checks)
    assert 0.1 < sum(answers) / len(answers) < 0.95


def test_every_form_says_the_same(tmp_path: Path) -> None:
    maps = _maps(_parsed(CASES["G0"][0]))
    for form in FORMS:
        path = tmp_path / "history"
        path.write_bytes(written(maps, form))
        assert anomalies(check_model(open_run(path), Model.LIST_APPEND).checks) == ["not linearizable"], form
