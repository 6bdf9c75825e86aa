"""Vocabularies: what follows from them agrees with them, none may clash with another, and their order means nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import derived
import pyarrow as pa
import pytest

import loghistory
import logwitness
from loghistory import COLUMNS, REQUIRED, SCHEMA, Kind
from loghistory.declared import KINDS, VOCABULARIES
from loghistory.schema import ALWAYS, CLIENT_KINDS, END_KINDS, STATE_KINDS, columns_of, words_of
from loghistory.vocabularies.clients import Operation, Refusal
from loghistory.vocabularies.elections import Role
from loghistory.vocabularies.log import STATE, Resolution
from loghistory.vocabularies.memory import ReadBack
from loghistory.vocabularies.nodes import StorageFailure
from loghistory.vocabularies.read_path import (
    AnswerWord,
    GapWord,
    GraceWord,
    HeardWord,
    NodeWord,
    RecordWord,
    RewindWord,
    ShardWord,
)
from loghistory.vocabularies.snapshots import SnapshotFrom
from loghistory.vocabularies.surroundings import FaultWord, Phase
from loghistory.vocabulary import Column, EventKind, Vocabulary, Words, assembled_columns, assembled_kinds

ROOT = Path(__file__).resolve().parents[2]
JUDGE = Path(__file__).with_name("judge_everything.py")


@pytest.mark.parametrize("file", derived.files(), ids=lambda file: file.name)
def test_what_is_kept_in_files_agrees_with_the_vocabularies(file: Path) -> None:
    remedy = "run `python tests/histories/derived.py`"
    assert file.read_text(encoding="utf-8") == derived.files()[file], remedy


def test_every_kind_and_column_is_declared_once_and_used() -> None:
    assert set(REQUIRED) == set(Kind) == {Kind(word) for word in KINDS}
    assert SCHEMA.names == [column.name for column in COLUMNS]
    assert tuple(field.name for field in SCHEMA if not field.nullable) == ALWAYS == ("seq", "time", "kind")
    used = {name for kind in KINDS.values() for name in (*kind.requires, *kind.state, *kind.may_carry)}
    assert set(SCHEMA.names) - used == {"seq", "time", "kind", "logical", "log", "txn"}


def test_every_event_that_changes_a_log_carries_the_whole_state() -> None:
    (log,) = (vocabulary for vocabulary in VOCABULARIES if vocabulary.name == "log")
    assert {kind.word for kind in log.kinds} <= set(map(str, STATE_KINDS))
    for kind in STATE_KINDS:
        assert set(STATE) <= set(REQUIRED[kind])
        assert "visible" in {*REQUIRED[kind], *KINDS[kind].may_carry}


OF_WHOM_IT_SAYS_NO_MORE = {"counted", "part", *(END_KINDS)}
"""Kinds of vocabularies about replicated logs whose events do not carry the state of one, which does not change."""


def test_every_kind_of_replicated_logs_carries_the_whole_state_or_changes_nothing() -> None:
    about = {"elections", "log", "membership", "nodes", "snapshots"}
    kinds = {kind.word for each in VOCABULARIES if each.name in about for kind in each.kinds}
    assert kinds - set(map(str, STATE_KINDS)) == set(map(str, OF_WHOM_IT_SAYS_NO_MORE))


def test_kinds_are_grouped_by_their_vocabulary_and_carry_their_own_columns_first() -> None:
    assert sorted(END_KINDS) == ["crash", "power_loss", "stop", "storage_error"]
    assert sorted(CLIENT_KINDS) == ["fail", "info", "invoke", "observe", "ok"]
    assert columns_of(Kind.VISIBLE) == (*STATE, "visible")
    assert columns_of(Kind.VOTE) == ("peer", "offset", "entry_term", *STATE, "visible")
    assert columns_of(Kind.SEAL) == ("node", "epoch")


def test_every_word_that_has_a_name_has_a_meaning() -> None:
    assert set(words_of("f")) == {
        *Operation,
        *FaultWord,
        *Phase,
        *GapWord,
        *HeardWord,
        *RewindWord,
        *GraceWord,
        *NodeWord,
    }
    assert set(words_of("record")) == set(RecordWord)
    assert set(words_of("role")) == set(words_of("role", [Kind.START])) == set(Role)
    assert set(words_of("reason")) == {
        *Resolution,
        *Refusal,
        *ShardWord,
        *AnswerWord,
        *SnapshotFrom,
        *ReadBack,
        *StorageFailure,
    }
    for vocabulary in VOCABULARIES:
        for words in vocabulary.words:
            assert set(words.kinds) <= set(KINDS)
            assert all(words.meanings.values())


ONE = Column(1, "one", pa.int64(), "first")
TWO = Column(2, "two", pa.int64(), "second")
GOOD = Vocabulary("good", "", (EventKind("go", "", ("one",)),), (ONE, TWO))


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (Vocabulary("bad", "", (EventKind("go", ""),)), "vocabulary bad: kind go is declared twice; take another word"),
        (Vocabulary("bad", "", columns=(replace(ONE, number=3),)), "column one is declared twice"),
        (
            Vocabulary("bad", "", columns=(Column(2, "too", pa.int64(), ""),)),
            "column too has number 2 where 3 comes",
        ),
        (Vocabulary("bad", "", columns=(Column(4, "four", pa.int64(), ""),)), "column four has number 4 where 3 comes"),
        (Vocabulary("bad", "", (EventKind("stay", "", ("to",)),)), r"bad: kind stay carries unknown columns \['to'\]"),
        (Vocabulary("bad", "", (EventKind("stay", "", state=("to",)),)), "kind stay carries unknown columns"),
        (Vocabulary("bad", "", (EventKind("stay", "", may_carry=("to",)),)), "kind stay carries unknown columns"),
        (Vocabulary("bad", "", words=(Words("to", (), {}),)), "vocabulary bad: words of the unknown column to"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(other: Vocabulary, problem: str) -> None:
    assembled_columns([GOOD])
    with pytest.raises(ValueError, match=problem):
        assembled_kinds([GOOD, other]), assembled_columns([GOOD, other])


NEW = """
import pyarrow as pa

from ..vocabulary import Column, EventKind, Vocabulary
from .log import STATE

VOCABULARY = Vocabulary(
    "another",
    "what a test adds",
    (EventKind("noticed", "It was noticed.", ("notice",), state=STATE),),
    (Column({number}, "notice", pa.int64(), "which one"),),
)
"""

SHUFFLED = """

def _shuffled(found):
    import random
    from dataclasses import replace

    columns = [replace(vocabulary, kinds=()) for vocabulary in found]
    kinds = [replace(each, kinds=(kind,), columns=(), words=()) for each in found for kind in each.kinds]
    random.Random({seed}).shuffle(kinds)
    return (*columns, *kinds)


_declared = all_vocabularies


def all_vocabularies():
    return _shuffled(_declared())
"""


def _copy(target: Path) -> Path:
    """The package in another place, where its vocabularies may be changed."""
    package = target / "loghistory"
    shutil.copytree(Path(loghistory.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def _run(package: Path, *command: str | Path) -> str:
    """What a Python process says that finds loghistory there."""
    path = [str(package.parent), str(Path(logwitness.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_vocabulary_is_a_file(tmp_path: Path) -> None:
    """It is found without being listed; what is kept in files is written, and its events are recorded or refused."""
    package = _copy(tmp_path)
    (package / "vocabularies" / "another.py").write_text(NEW.format(number=len(COLUMNS) + 1))
    _run(package, JUDGE.with_name("derived.py"))
    assert 'NOTICED = "noticed"' in (package / "declared.pyi").read_text()
    assert "| `noticed` | It was noticed. | *state* `notice` |  |" in (package / "README.md").read_text()
    script = """
from loghistory import HistoryError, Kind, MemorySink, Recorder
from loghistory.schema import STATE_KINDS
from logwitness.checks import codes
sink = MemorySink()
with Recorder(sink) as record:
    record.event(Kind.NOTICED, time=1, notice=7, node=1, term=1, dirty=0, flushed=0, commit=0)
print(sink.table.column("notice").to_pylist(), codes.CARRIES_STATE[codes.code(Kind.NOTICED)])
try:
    with Recorder(sink) as record:
        record.event(Kind.NOTICED, time=1, notice=7, node=1, term=1, dirty=0, flushed=0)
except HistoryError as error:
    print(error)
"""
    problem = "memory, event 0, field commit: a noticed event must carry it: correct what records it"
    assert _run(package, "-c", script).splitlines() == ["[7] True", problem]


def _verdicts(package: Path, *options: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(_run(package, JUDGE, *options))
    return found


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.long),
        pytest.param(("--compiled", "--large"), marks=[pytest.mark.long, pytest.mark.night]),
    ],
)
def test_no_verdict_depends_on_the_order_of_kinds(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Codes follow from the order in which kinds are declared: with another order everything is judged the same."""
    usual = _verdicts(Path(loghistory.__file__).parent, *({*options} - {"--compiled"}))
    assert len(usual["verdicts"]) > 100
    package = _copy(tmp_path)
    with (package / "vocabularies" / "__init__.py").open("a") as file:
        file.write(SHUFFLED.format(seed=1))
    shuffled = _verdicts(package, *options)
    assert set(shuffled["kinds"]) == set(usual["kinds"])
    places = [shuffled["kinds"].index(kind) for kind in loghistory.CLIENT_KINDS]
    assert max(places) - min(places) > len(places), "other kinds lie between those of clients"
    assert shuffled["verdicts"] == usual["verdicts"], shuffled["kinds"]
