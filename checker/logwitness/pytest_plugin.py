"""The pytest fixture ``logwitness_history``: a test records what it sees, and fails if that breaks a rule.

    def test_appends_survive_a_restart(logwitness_history):
        logwitness_history.event("invoke", process=0, op=0, f="append", value=7, acks=-1)
        ...

The history is judged when the test is over, or by `History.check`. The run directory of a test that fails stays in the
directory of the ini option ``logwitness_dir``, for ``logwitness check``. pytest loads this module at every start, so
it imports what it needs when it is used.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import sys
import threading
import time as clock
from collections import deque
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from loghistory import HistoryError, Recorder, RunSource

    from .engine.run import RunVerdict

_MARK = "logwitness"
_SETTINGS = ("only", "require", "configuration")
_EXPLAINED = 3
"""Violations of a check that the failure explains."""
_LONGEST_CALL = 200
"""Characters of a call that a message quotes."""


class _Call(NamedTuple):
    """One call of `History.event`, and the place that it came from."""

    root: Path
    """The root directory of the tests."""
    file: str
    line: int
    kind: str
    columns: Mapping[str, Any]

    def __str__(self) -> str:
        """File, line and the call, as far as they fit on a line."""
        from loghistory.errors import printable

        words = ", ".join([repr(self.kind), *(f"{name}={value!r}" for name, value in self.columns.items())])
        call = printable(f"event({words})")
        if len(call) > _LONGEST_CALL:
            call = f"{call[: _LONGEST_CALL - 1]}…"
        return f"{os.path.relpath(self.file, self.root)}:{self.line}: {call}"


class History:
    """Records the events of one test, from any thread, and judges them. ``path`` is the run directory."""

    def __init__(self, path: Path, root: Path, test: str, settings: Mapping[str, Any]) -> None:
        from loghistory import COLUMNS, Kind, Recorder, RunSink
        from loghistory.recorder import BUFFER_EVENTS

        self.path = path
        self._root = root
        self._settings = settings
        made_by = {"command": ["pytest", test], "configuration": dict(settings.get("configuration", {}))}
        self._recorder: Recorder = Recorder(RunSink(path, {"name": test, "made_by": made_by}))
        self._kinds = frozenset(map(str, Kind))
        self._columns = frozenset(column.name for column in COLUMNS) - {"seq", "kind"}
        self._calls: deque[_Call] = deque(maxlen=BUFFER_EVENTS)
        """The calls whose events the recorder may still find fault with."""
        self._recorded = 0
        self._refused: str | None = None
        """Why an event is not in the history; then no verdict on the rest means anything."""
        self._lock = threading.Lock()
        self._start = clock.monotonic_ns()
        self._unjudged = True
        self.kept: bool | None = None
        """Whether the run directory stays; None: not known yet."""

    def event(self, kind: str, *, time: int | None = None, **columns: Any) -> int:  # noqa: ANN401
        """Record one event and return its ``seq``, as `loghistory.Recorder.event`; ``time`` None: now, in nanoseconds.

        An unknown kind is a `ValueError`, an unknown column a `TypeError`. A missing column and a value that the
        column cannot hold fail the test when events are written, a few thousand calls later or when they are judged.
        Each says the file, the line and the words of the call. What was refused fails the test in the end as well,
        for a thread's exception may be seen by nobody.
        """
        __tracebackhide__ = True
        from loghistory import HistoryError

        caller = sys._getframe(1)
        given = columns if time is None else {"time": time, **columns}
        call = _Call(self._root, caller.f_code.co_filename, caller.f_lineno, kind, given)
        with self._lock:
            self._unjudged = True
            if not isinstance(kind, str) or kind not in self._kinds:
                raise ValueError(self._refuse(f"{call}: {_unknown('kind', kind, self._kinds)}"))
            if not self._columns >= columns.keys():
                name = next(name for name in columns if name not in self._columns)
                raise TypeError(self._refuse(f"{call}: {_unknown('column', name, self._columns)}"))
            at = clock.monotonic_ns() - self._start if time is None else time
            self._calls.append(call)
            self._recorded += 1
            try:
                return self._recorder.record(kind, at, columns)
            except HistoryError as problem:
                refused = self._refuse(self._named(problem))
            pytest.fail(refused, pytrace=False)

    def _refuse(self, message: str) -> str:
        self._refused = self._refused or message
        return message

    def _named(self, problem: HistoryError) -> str:
        """What the recorder found wrong, with the call that it came from."""
        if problem.place == "event" and problem.line is not None:
            place = problem.line - (self._recorded - len(self._calls))
            if 0 <= place < len(self._calls):
                return f"{self._calls[place]}: field {problem.field}: {problem.problem}"
        return f"logwitness: {problem}"

    def check(
        self,
        only: Sequence[str] | None = None,
        require: Sequence[str] = (),
        configuration: Mapping[str, Any] | None = None,
    ) -> RunVerdict:
        """Judge what was recorded so far; the test fails unless all holds.

        ``only``, ``require`` as on the command line, ``configuration`` as `logwitness.check` has it; what is left out
        is taken from the test's mark ``logwitness``.
        """
        __tracebackhide__ = True
        from loghistory import HistoryError, open_run

        from .checks import all_checks
        from .models.linearizable import LINEARIZABLE

        wanted = only if only is not None else self._settings.get("only")
        required = tuple(require or self._settings.get("require", ()))
        for name in (*(wanted or ()), *required):
            if name not in {check.id for check in (*all_checks(), LINEARIZABLE)}:
                pytest.fail(f"no check is called {name!r}; `logwitness checks` lists them", pytrace=False)
        settings = configuration if configuration is not None else self._settings.get("configuration")
        with self._lock:
            self._unjudged = False
            try:
                self._recorder.flush()
                source = open_run(self.path)
                verdict = _judge(source, wanted, required, settings)
            except HistoryError as problem:
                self._refuse(self._named(problem))
            if self._refused is not None:
                pytest.fail(self._refused, pytrace=False)
            if verdict.exit_status:
                pytest.fail(_explained(source, verdict, required), pytrace=False)
        return verdict

    def check_rest(self) -> None:
        """Judge at the end, unless nothing was recorded since the last time."""
        __tracebackhide__ = True
        if self._unjudged:
            self.check()

    def close(self) -> None:
        """Finish the run directory: its manifest is written. What cannot be written fails the test."""
        from loghistory import HistoryError

        problem = None
        try:
            self._recorder.close()
        except HistoryError as found:
            problem = self._named(found)
        if problem is not None:
            pytest.fail(problem, pytrace=False)


def _unknown(what: str, word: object, known: Collection[str]) -> str:
    """That there is no such kind or column, and which one may be meant."""
    close = difflib.get_close_matches(str(word), known, 1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"there is no {what} {word!r}: {meant}the {what}s are {', '.join(sorted(known))}"


def _judge(
    source: RunSource, only: Sequence[str] | None, required: Sequence[str], configuration: Mapping[str, Any] | None
) -> RunVerdict:
    from .engine.local import check
    from .models import Model, check_model, model_of

    model = model_of(source)
    if model is Model.LOG:
        return check(source, only, required=required, configuration=configuration or {})
    return check_model(source, model, only, required=required)


def _explained(source: RunSource, verdict: RunVerdict, required: Sequence[str]) -> str:
    """Why the history is not good, with the events that show it."""
    from .checks.contract import Verdict
    from .engine.local import events_at
    from .report.results import IDLE_PROBLEM, History, lines_at

    shown = frozenset(seq for each in verdict.checks for v in each.violations[:_EXPLAINED] for seq in v.events)
    rows, lines = events_at(source, shown), lines_at(source, shown)
    history = History(verdict.run, source.events, rows=rows, lines=lines)
    parts = []
    exercised = set()
    for each in verdict.checks:
        parts += [f"{each.id}: {history.sentence_of(violation)}" for violation in each.violations[:_EXPLAINED]]
        if each.violated > _EXPLAINED:
            parts.append(f"  and {each.violated - _EXPLAINED:,} more of {each.id}")
        if each.verdict is Verdict.UNDECIDED:
            parts.append(f"{each.id}: undecided: {each.reason}")
        if each.verdict is not Verdict.UNEXERCISED:
            exercised.add(each.id)
    parts += [f"{name}: required, but it had nothing to judge" for name in required if name not in exercised]
    if not exercised:
        parts.append(IDLE_PROBLEM)
    return "\n".join([*parts, f"the history: logwitness check {source.path}"])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say where the histories of failed tests stay."""
    described = "directory, relative to the root directory, for the histories of failed tests (default: .logwitness)"
    parser.addini("logwitness_dir", described, default=".logwitness")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark ``logwitness``, for ``pytest --markers`` and ``--strict-markers``."""
    described = f"{_MARK}(only=[...], require=[...], configuration={{...}}): how the history of the test is judged."
    config.addinivalue_line("markers", described)


@pytest.fixture
def logwitness_history(request: pytest.FixtureRequest) -> Iterator[History]:
    """Records the history of this test, judges it when the test is over, and keeps it if the test fails."""
    settings = _settings(request.node.get_closest_marker(_MARK))
    path = _directory(request.config, request.node.nodeid)
    history = History(path, request.config.rootpath, request.node.nodeid, settings)
    _OPEN[request.node] = history
    try:
        yield history
        if history.kept is None:
            # Other fixtures may have recorded in their own ends.
            history.kept = True
            history.check_rest()
            history.kept = False
    finally:
        del _OPEN[request.node]
        history.close()
        if not history.kept:
            shutil.rmtree(path, ignore_errors=True)


_OPEN: dict[pytest.Item, History] = {}
"""The histories of the tests under way."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Judge right after the body of the test, so that it is the test that fails, not its end."""
    __tracebackhide__ = True
    if item not in _OPEN:
        return (yield)
    history = _OPEN[item]
    try:
        result = yield
        history.check_rest()
    except BaseException as problem:
        history.kept = not isinstance(problem, pytest.skip.Exception)
        raise
    return result


def _settings(mark: pytest.Mark | None) -> Mapping[str, Any]:
    """What the mark says. What is misspelt there would be required by nobody, so it is an error."""
    if mark is None:
        return {}
    foreign = [*map(repr, mark.args), *(name for name in mark.kwargs if name not in _SETTINGS)]
    if foreign:
        pytest.fail(f"the mark {_MARK} takes only=, require= and configuration=, not {foreign[0]}", pytrace=False)
    return mark.kwargs


def _directory(config: pytest.Config, test: str) -> Path:
    """The run directory of a test; what an earlier session left there is removed."""
    root = config.rootpath / str(config.getini("logwitness_dir"))
    name = re.sub(r"[^\w.-]+", "-", test, flags=re.ASCII)[-80:].strip("-.")
    path = root / f"{name}-{hashlib.sha256(test.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    shutil.rmtree(path, ignore_errors=True)
    return path
