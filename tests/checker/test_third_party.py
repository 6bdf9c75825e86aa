"""Families of installed packages: what is wrong with one is a sentence that names it, and harms no other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from logwitness.checks.contract import Check, Family, Setting, Verdicts, outcome
from logwitness.checks.third_party import _Guarded

RUNS = Path(__file__).resolve().parents[2] / "histories" / "runs" / "raft"
COMMAND = [sys.executable, "-c", "from logwitness.cli import main; main()"]

_MODULE = """
from loghistory.schema import Kind
from logwitness.checks.contract import Check, Family, Protocol, Tally, Verdicts, outcome
import msgspec


def check(id_):
    return Check(id=id_, rule="R.", source=("raft.md#acks",), fact="an event", sentence="Event {seq} is odd.")


class Fold:
    def __init__(self, setting, check):
        self.tally, self.check, self.events = Tally(check, setting.keep), check, 0

    def feed(self, columns):
        self.tally.judged += len(columns.seq)

    def finish(self):
        return Verdicts((self.tally.outcome(),), losses=())


def family(name, id_, fold=Fold, **more):
    one = check(id_)
    return Family(name, (one,), frozenset({Kind.INVOKE}), ("op",), lambda setting: fold(setting, one), **more)


class Raises(Fold):
    def feed(self, columns):
        raise RuntimeError("first line\\n\\x1b[31msecond line")


class RaisesAtOnce(Fold):
    def __init__(self, setting, check):
        raise KeyError("voters")


class RaisesLate(Fold):
    def finish(self):
        return 1 / 0


class Other(Fold):
    def finish(self):
        return Verdicts((outcome(check("of-nobody"), 1),))


class Twice(Fold):
    def finish(self):
        return Verdicts((self.tally.outcome(), self.tally.outcome()))


class Wrong(Fold):
    def finish(self):
        return Verdicts((msgspec.structs.replace(self.tally.outcome(), judged="many"),))


class Negative(Fold):
    def finish(self):
        return Verdicts((msgspec.structs.replace(self.tally.outcome(), judged=-1),))


class Contradicts(Fold):
    def finish(self):
        return Verdicts((msgspec.structs.replace(self.tally.outcome(), violated=3),))


class Writes(Fold):
    def feed(self, columns):
        columns.kind[:] = 0


class Says:
    def __init__(self, text):
        self.text = text


good = family("good", "good-one")
quiet = family("quiet", "of-another-protocol", protocol=Protocol("paxos", frozenset({Kind.SEND})))
raises, raises_at_once, raises_late = (
    family(f.__name__, f"a-{i}", f) for i, f in enumerate((Raises, RaisesAtOnce, RaisesLate))
)
other, twice, wrong, negative, contradicts, writes = (
    family(f.__name__, f"b-{i}", f) for i, f in enumerate((Other, Twice, Wrong, Negative, Contradicts, Writes))
)
taken = family("taken", "phantom")
second = family("second", "good-one")
clients = family("clients", "another-one")
empty = Family("empty", (), frozenset(), (), Fold)
double = Family("double", (check("two"), check("two")), frozenset(), (), Fold)
none = Says("no family")


def __getattr__(name):
    if name == "bad_column":
        return Family("bad", (check("bad"),), frozenset(), ("colour",), Fold)
    if name == "bad_id":
        return check("Bad Id")
    raise AttributeError(name)
"""
_NAMES = re.findall(
    r"\w+",
    """
good quiet raises raises_at_once raises_late other twice wrong negative contradicts writes
taken second clients empty double none bad_column bad_id
""",
)
_MISSING = {"gone": "no_such_module:FAMILY", "nothing": "strange:no_such_name", "syntax": "torn:FAMILY"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("packages")
    (place / "strange.py").write_text(_MODULE)
    (place / "torn.py").write_text("FAMILY = (\n")
    info = place / "strange_families-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-families\nVersion: 0.3\n")
    entries = {name: f"strange:{name}" for name in _NAMES} | _MISSING
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[logwitness.families]\n{lines}")
    return place


def _run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(place)}
    return subprocess.run([*COMMAND, *words], env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def verdict(place: Path) -> dict[str, Any]:
    done = _run(place, "check", "--json", str(RUNS / "reference-jsonl"))
    assert "Traceback" not in done.stderr, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == document["exit_status"] == 3
    return document


def test_what_is_left_out_is_named_and_why(verdict: dict[str, Any]) -> None:
    said = {
        "second": "the family good has a check good-one already",
        "bad_column": "ValueError: family bad: the history has no column 'colour'",
        "bad_id": "ValueError: 'Bad Id' is not the id of a check: lower-case letters, digits and hyphens",
        "clients": "there is another family clients",
        "double": "it has two checks two",
        "empty": "it has no checks",
        "gone": "the module no_such_module is not installed",
        "none": "strange:none is a Says, not a Family",
        "nothing": "AttributeError: no_such_name",
        "syntax": "SyntaxError: '(' was never closed (torn.py, line 1)",
        "taken": "the family clients has a check phantom already",
    }
    wanted = [f"The family {name} of strange-families 0.3 is left out: {why}." for name, why in said.items()]
    assert sorted(verdict["notes"]) == sorted([*wanted, "The reference under the setting default."])


def test_what_fails_is_undecided_and_named(verdict: dict[str, Any]) -> None:
    checks = {each["id"]: each for each in verdict["checks"]}
    said = {
        "a-0": "the family raises of strange-families 0.3 failed: RuntimeError: first line \\x1b[31msecond line",
        "a-1": "the family raises_at_once of strange-families 0.3 failed: KeyError: 'voters'",
        "a-2": "the family raises_late of strange-families 0.3 failed: ZeroDivisionError: division by zero",
        "b-0": "the family other of strange-families 0.3 failed: it answered for of-nobody, not for b-0",
        "b-1": "the family twice of strange-families 0.3 failed: it answered for b-1, not for b-1",
        "b-2": "the family wrong of strange-families 0.3 failed: ValidationError: Expected `int`, got `str` - at "
        "`$.judged`",
        "b-3": "the family negative of strange-families 0.3 failed: b-3 has a count below 0",
        "b-4": "the family contradicts of strange-families 0.3 failed: b-4 is holds; violations counted: 3, shown: 0",
        "b-5": "the family writes of strange-families 0.3 failed: ValueError: assignment destination is read-only",
    }
    for id_, reason in said.items():
        assert (checks[id_]["verdict"], checks[id_]["reason"], checks[id_]["judged"]) == ("undecided", reason, 0)


@pytest.mark.slow
def test_all_others_are_judged_as_without_them(verdict: dict[str, Any]) -> None:
    alone = json.loads(_run(Path(), "check", "--json", str(RUNS / "reference-jsonl")).stdout)
    mine = {each["id"]: each for each in verdict["checks"]}
    assert [mine[each["id"]] for each in alone["checks"]] == alone["checks"]
    assert (mine["good-one"]["verdict"], mine["good-one"]["judged"]) == ("holds", alone["events"])
    assert verdict["losses"] == alone["losses"]


def test_a_family_of_another_protocol_judges_its_own_runs(verdict: dict[str, Any], place: Path, tmp_path: Path) -> None:
    """The manifest says whose run it is, or the kinds that occur do."""
    assert "of-another-protocol" not in {each["id"] for each in verdict["checks"]}
    events = (RUNS / "reference-jsonl" / "events.jsonl").read_text()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").write_text(events)
    manifest = json.loads((RUNS / "reference-jsonl" / "manifest.json").read_text())
    manifest["made_by"]["protocol"] = "paxos"
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    found = {each["id"] for each in json.loads(_run(place, "check", "--json", str(tmp_path / "run")).stdout)["checks"]}
    assert {"of-another-protocol", "good-one", "phantom", "linearizable-log"} <= found
    assert not {"commit-monotonic", "one-leader-per-term", "log-matching"} & found


def test_what_is_left_out_does_not_end_the_list_of_checks(place: Path) -> None:
    done = _run(place, "checks")
    assert done.returncode == 0
    assert "good-one" in done.stdout
    assert "The family gone of strange-families 0.3 is left out" in done.stderr


_CHECK = Check(id="many", rule="R.", source=("raft.md#acks",), fact="a fact", sentence="Broken.")


class _Many:
    """Breaks its rule twelve times, and has no room for events."""

    def __init__(self, setting: Setting) -> None:
        """What a family's ``start`` takes."""

    def feed(self, columns: object) -> None:
        raise MemoryError

    def finish(self) -> Verdicts:
        return Verdicts((outcome(_CHECK, 12, 12, tuple(_CHECK.violation((seq,)) for seq in range(12))),))


def test_it_keeps_no_more_violations_than_others() -> None:
    family = Family("many", (_CHECK,), frozenset(), (), _Many)
    (found,) = _Guarded(family, "many", _Many)(Setting((), keep=3)).finish().outcomes
    assert (found.violated, [each.events for each in found.violations]) == (12, [(0,), (1,), (2,)])


def test_it_cannot_show_more_violations_than_it_counts() -> None:
    class Miscounts(_Many):
        def finish(self) -> Verdicts:
            (found,) = super().finish().outcomes
            return Verdicts((msgspec.structs.replace(found, violated=1),))

    family = Family("many", (_CHECK,), frozenset(), (), Miscounts)
    (found,) = _Guarded(family, "many", Miscounts)(Setting(())).finish().outcomes
    assert (found.verdict, found.reason) == (
        "undecided",
        "the family many failed: many is violated; violations counted: 1, shown: 12",
    )


def test_want_of_memory_is_not_blamed_on_it() -> None:
    family = Family("many", (_CHECK,), frozenset(), (), _Many)
    with pytest.raises(MemoryError):
        _Guarded(family, "many", _Many)(Setting(())).feed(cast(Any, None))
