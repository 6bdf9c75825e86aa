"""The first stage, a task: some histories become canonical events, and are judged if that is not too much for one task.

Everything a task makes is in a directory of its own, which nobody reads before the audit commits it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from loghistory import Format, HistoryError, RunSource, open_run
from loghistory.columns import joined
from loghistory.schema import schema_in

from ..checks import families
from ..checks.contract import Setting, Verdict
from ..checks.words import Words
from ..directories import histories_in
from ..engine.doubt import Doubt
from ..engine.local import events_at, setting_of, unfamiliar, vocabulary_of
from ..engine.run import UNDECIDED, UNUSABLE, RunVerdict
from ..models import Limits, Model, check_model, model_of
from ..models.linearizable import LINEARIZABLE
from ..models.search import can_search
from .canonical import PARQUET, SMALL, Canonical
from .hadoop import Shell, is_remote
from .sources import Pending, Source
from .tables import EVENTS, RUNS, SMALL_EVENTS, SMALL_SCHEMA, Rows

UNREADABLE = "unreadable"
NO_HISTORY = "no history"
"""Verdict on a remote file that is none."""

LARGE = 50_000_000
"""Events from which on several tasks judge one history. Below, one pass of one task is faster, and fits into memory."""

_BYTES_AN_EVENT = {Format.JSON_LINES: 100, Format.ZSTD: 10}
"""About, where nothing says the number of events."""

_LOOK_AGAIN = {"stamp": "", "digest": None}
"""Those of no history, so that the next audit judges it anew."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_READ_AT_ONCE = 1 << 20
"""Bytes of a file up to which reading it once and keeping its events is cheaper than reading it as often as asked."""


@dataclass(frozen=True, slots=True)
class Task:
    """What to do with some histories, and where to put the results."""

    pending: tuple[Pending, ...]
    output: str
    """A directory of this task's own: a path, or a URI."""
    shell: Shell | None
    """How remote files are reached; None: there are none."""
    limits: Limits
    judged_by: str
    large: int = LARGE
    """Events from which on a history is large."""
    cores: int = 1
    """What it may use of them, if the machine has as many: with two it judges one batch while it reads the next."""


@dataclass(frozen=True, slots=True)
class Large:
    """A history whose events are ready and that is judged by several tasks."""

    row: dict[str, Any]
    """Its row in the table of runs, as far as it is known."""
    file: str
    """Its events."""
    file_size: int
    shell: Shell | None
    notes: tuple[str, ...]
    stated: Setting
    lowest_offset: int
    highest_offset: int
    """Of its offsets, and 0. The file is not asked: it may be a stranger's, copied as it is, whose index lies."""
    doubt: Doubt
    """What of it was not judged."""

    @contextmanager
    def events(self) -> Iterator[Path]:
        """A file of this machine with the events. Raises HistoryError if it cannot be fetched."""
        if not is_remote(self.file):
            yield Path(self.file)
            return
        assert self.shell is not None
        with tempfile.TemporaryDirectory(prefix="logwitness-large-") as scratch:
            file = Path(scratch) / "events.parquet"
            problems = self.shell.fetch([(self.file, self.file_size, file)], Path(scratch))
            for problem in problems.values():
                raise HistoryError(self.file, None, None, problem, "start the audit again")
            yield file

    def setting(self, *, compiled: bool) -> Setting:
        """What the folds must know of the history; ``compiled``: run loops as machine code."""
        return replace(self.stated, compiled=compiled, words=Words())


@dataclass(slots=True)
class Done:
    """What a task made: files by table, under `output`; which histories wait, and which turned out unchanged."""

    output: str
    files: list[tuple[str, str]] = field(default_factory=list)
    """Table and file name; for `EVENTS` the name is ``run_id=ID/...``."""
    large: list[Large] = field(default_factory=list)
    unchanged: dict[str, str] = field(default_factory=dict)
    """New stamp by run id: only the times of its files changed."""
    judged: int = 0


def ingest(task: Task) -> Done:
    """Take the histories of a task from reading to verdict, and write their rows and events below the task's output.

    A history that cannot be read, or that the checker fails on, becomes rows that say so; it stops nothing.
    """
    pa.set_cpu_count(min(task.cores, os.cpu_count() or 1))
    pa.set_io_thread_count(2)
    token = secrets.token_hex(4)  # Spark may try a task again, or twice at once
    done = Done(f"{task.output}/{token}")
    with workspace(task.output, token, task.shell) as output:
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=output) as scratch, ExitStack() as stack:
            rows = stack.enter_context(Rows(output))
            small = stack.enter_context(_SmallEvents(output / f"{SMALL_EVENTS}.parquet"))
            here, missing = _brought([pending.source for pending in task.pending], task.shell, Path(scratch))
            for pending in task.pending:
                path = here.get(pending.source.run, Path(pending.source.run))
                history = _History(pending, path, task, done, rows, small, output, Path(scratch) / "quarantine.jsonl")
                history.take(missing.get(pending.source.run))
        done.files += [(table, f"{table}.parquet") for table in rows.written]
        if small.written:
            done.files.append((SMALL_EVENTS, f"{SMALL_EVENTS}.parquet"))
    return done


@contextmanager
def workspace(place: str, name: str, shell: Shell | None) -> Iterator[Path]:
    """A directory of this machine that is then at ``place`` under the name: made there, or brought there at the end."""
    if not is_remote(place):
        output = Path(place) / name
        output.mkdir(parents=True)
        yield output
        return
    assert shell is not None
    with tempfile.TemporaryDirectory(prefix="logwitness-task-") as scratch:
        output = Path(scratch) / name
        output.mkdir()
        yield output
        shell.put(output, place, Path(scratch))


def _brought(
    sources: Sequence[Source], shell: Shell | None, scratch: Path
) -> tuple[dict[str, Path], dict[str, HistoryError]]:
    """Where the remote ones among these are on this machine, once they are brought here; and why some are not."""
    files = []
    places: dict[str, Path] = {}
    runs: dict[str, str] = {}
    for number, source in enumerate(sources):
        if source.remote:
            name = PurePosixPath(source.run).name
            places[source.run] = place = scratch / "remote" / str(number) / name
            for file in source.files:
                uri = f"{source.run}/{file.name}" if file.name else source.run
                runs[uri] = source.run
                files.append((uri, file.size, place / file.name if file.name else place))
    if not files:
        return places, {}
    assert shell is not None
    problems = shell.fetch(files, scratch)
    remedy = "make sure that it can be read and nobody writes it; the next audit looks again"
    return places, {runs[uri]: HistoryError(uri, None, None, said, remedy) for uri, said in problems.items()}


class _History:
    """One history of a task."""

    def __init__(
        self,
        pending: Pending,
        path: Path,
        task: Task,
        done: Done,
        rows: Rows,
        small: _SmallEvents,
        output: Path,
        quarantine: Path,
    ) -> None:
        self._source = pending.source
        self._path = path
        self._output = output
        self._known_digest = pending.known_digest
        self._task = task
        self._done = done
        self._rows = rows
        self._small = small
        self._quarantine = quarantine
        self._offsets = (0, 0)
        """The lowest and the highest, and 0."""
        self._doubt = Doubt(vocabulary_of(families()), by_log=True)
        self._row: dict[str, Any] = {
            "run_id": self._source.id,
            "run": self._source.run,
            "events": 0,
            "logs": 0,
            "quarantined": 0,
            "bytes": self._source.size,
            "notes": [],
            "stamp": self._source.stamp,
            "judged_by": task.judged_by,
        }

    def take(self, missing: HistoryError | None) -> None:
        """Make events of it and judge it; one that cannot be read, or is ``missing`` here, is a row that says why."""
        run_id = self._source.id
        name = f"run_id={run_id}/part-0.parquet"
        file = self._output / EVENTS / name
        try:
            if missing is not None:
                self._row |= _LOOK_AGAIN
                raise missing
            try:
                self._row["digest"], whole = _digest(self._source, self._path)
            except OSError as error:
                self._row |= _LOOK_AGAIN
                problem = f"cannot be read ({error.strerror or error})" if self._path.exists() else "no such file"
                raise HistoryError(self._path, None, None, problem, "check its permissions") from None
            if self._row["digest"] == self._known_digest:
                self._done.unchanged[run_id] = self._source.stamp
                return
            self._quarantine.unlink(missing_ok=True)
            if self._source.remote and not self._recognised():
                return
            opened = open_run(self._path, lenient=True, quarantine=self._quarantine, verify=not whole)
            self._judge(Canonical(opened, file, self._watch), opened)
        except HistoryError as problem:
            file.unlink(missing_ok=True)
            self._unreadable(problem)
        except (OSError, MemoryError):
            raise
        except Exception as problem:  # one history must not end the audit of all others
            self._broken(problem)
        if file.exists():
            self._done.files.append((EVENTS, name))

    def _judge(self, history: Canonical, opened: RunSource) -> None:
        self._row["name"] = opened.manifest.name if opened.manifest else None
        self._row["format"] = str(opened.format)
        if opened.events.stat().st_size <= _READ_AT_ONCE:
            history.sweep()  # then all further readings are from memory
        model = model_of(history)
        self._row["model"] = str(model)
        verdict = None
        if not (model is Model.LOG and _is_large(opened, self._task.large)):
            verdict = check_model(history, model, limits=self._task.limits)
        if not history.swept:
            history.sweep()
        self._doubt.read(history)
        self._row |= {"events": history.events_read, "quarantined": history.quarantined}
        events_in = SMALL_EVENTS if history.small is not None else EVENTS
        self._row["events_in"] = events_in if history.events_read else None
        self._keep_quarantine(opened)
        if verdict is not None:
            self._small.take(self._source.id, history.small)
            verdict = msgspec.structs.replace(verdict, run=self._source.run)
            undecided = {each.id for each in verdict.checks if each.verdict is Verdict.UNDECIDED}
            if LINEARIZABLE.id in undecided and not can_search():
                self._row |= _LOOK_AGAIN  # by then Porcupine may be there
            write_verdict(self._rows, self._row, verdict, history)
            self._done.judged += 1
            return
        if history.small is not None:  # the tasks that judge it read a file
            history.file.parent.mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(history.file, schema_in(history.version), **PARQUET) as writer:
                for batch in history.small:
                    writer.write_batch(batch)
            self._row["events_in"] = EVENTS
        setting = setting_of(history, compiled=False)
        large = Large(
            self._row,
            f"{self._done.output}/{EVENTS}/{history.file.relative_to(self._output / EVENTS)}",
            history.file.stat().st_size,
            self._task.shell,
            (*history.notes, *unfamiliar(setting)),
            setting,
            *self._offsets,
            self._doubt,
        )
        self._done.large.append(large)

    def _watch(self, batch: pa.RecordBatch) -> None:
        """See the next events of the sweep."""
        self._doubt.see(batch)
        offsets = batch.column("offset")
        if offsets.null_count < len(offsets):
            ends = pc.min_max(offsets)
            self._offsets = min(self._offsets[0], ends["min"].as_py()), max(self._offsets[1], ends["max"].as_py())

    def _keep_quarantine(self, opened: RunSource) -> None:
        if not self._quarantine.exists():
            return
        with self._quarantine.open("rb") as lines:
            for line in lines:
                bad = msgspec.json.decode(line)
                self._rows.add("quarantine", self._named() | {"file": self._under_its_name(str(opened.events))} | bad)

    def _unreadable(self, problem: HistoryError) -> None:
        text = self._under_its_name(str(problem))
        bad = {
            "file": self._under_its_name(problem.file),
            "line": problem.line,
            "reason": UNREADABLE,
            "field": problem.field,
            "problem": problem.problem,
        }
        self._rows.add("quarantine", self._named() | bad)
        self._row |= {"verdict": UNREADABLE, "exit_status": UNUSABLE, "error": text, "events": 0, "quarantined": 1}
        self._row["events_in"] = None
        self._rows.add(RUNS, self._row)
        self._done.judged += 1

    def _broken(self, problem: Exception) -> None:
        said = " ".join(str(problem).split())
        error = f"judging failed: {type(problem).__name__}: {said}"
        status = {"verdict": str(Verdict.UNDECIDED), "exit_status": UNDECIDED, "error": error}
        self._rows.add(RUNS, self._row | status)
        self._done.judged += 1

    def _under_its_name(self, text: str) -> str:
        """A text about the file, under its own name."""
        return text.replace(str(self._path), self._source.run) if self._source.remote else text

    def _recognised(self) -> bool:
        """Whether a remote file is a history; it could not be looked at before."""
        if self._path.is_dir():
            return True
        try:
            next(iter(histories_in(self._path.parent, lambda path, why: None)))
        except HistoryError:
            self._rows.add(RUNS, self._row | {"verdict": NO_HISTORY, "exit_status": None})
            return False
        return True

    def _named(self) -> dict[str, Any]:
        return {"run_id": self._source.id, "run": self._source.run}


def write_verdict(rows: Rows, row: dict[str, Any], verdict: RunVerdict, history: RunSource) -> None:
    """Add a judged history to the tables; ``history`` gives the events that its violations and losses name."""
    named = {"run_id": row["run_id"], "run": row["run"]}
    status = {
        "verdict": str(verdict.verdict),
        "exit_status": verdict.exit_status,
        "logs": verdict.logs,
        "notes": list(verdict.notes),
    }
    rows.add(RUNS, row | status)
    shown: set[int] = set()
    for each in verdict.checks:
        counts = {"judged": each.judged, "violated": each.violated, "excused": each.excused, "unjudged": each.unjudged}
        reported: dict[str, Any] = {"check": each.id, "verdict": str(each.verdict), "reason": each.reason}
        rows.add("verdicts", named | reported | counts)
        for place, violation in enumerate(each.violations):
            reported = {"check": each.id, "place": place, "log": violation.log, "sentence": violation.sentence}
            rows.add("violations", named | reported | {"events": list(violation.events)})
            shown.update(violation.events)
        for excuse in each.excuses:
            reported = msgspec.structs.asdict(excuse) | {"check": each.id, "nodes": list(excuse.nodes)}
            rows.add("excuses", named | reported)
            shown.update({excuse.first} if excuse.first >= 0 else ())
    for loss in verdict.losses:
        rows.add("losses", named | msgspec.structs.asdict(loss) | {"events": list(loss.events)})
        shown.update(loss.events)
    if shown:
        found = events_at(history, shown)
        for seq in sorted(found):
            rows.add("evidence", named | found[seq])


class _SmallEvents:
    """Writes the events of small histories into one file, history by history."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: list[pa.RecordBatch] = []
        self._ids: list[tuple[str, int]] = []
        self._rows = 0
        self._writer: pq.ParquetWriter | None = None
        self.written = False

    def take(self, run_id: str, events: list[pa.RecordBatch] | None) -> None:
        """Take the events of a history, None if it has a file of its own."""
        for batch in events or ():
            self._held.append(batch)
            self._ids.append((run_id, batch.num_rows))
            self._rows += batch.num_rows
        if self._rows >= SMALL:
            self._write()

    def _write(self) -> None:
        if not self._rows:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, SMALL_SCHEMA, **PARQUET)
            self.written = True
        names = list(dict.fromkeys(run_id for run_id, _ in self._ids))
        places = {name: place for place, name in enumerate(names)}
        indices = [places[run_id] for run_id, count in self._ids for _ in range(count)]
        ids = pa.array(names).take(pa.array(indices, pa.int32()))
        events = joined(self._held)
        self._writer.write_batch(pa.RecordBatch.from_arrays([ids, *events.columns], schema=SMALL_SCHEMA))
        self._held, self._ids, self._rows = [], [], 0

    def __enter__(self) -> _SmallEvents:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
        if self._writer is not None:
            self._writer.close()


def _is_large(opened: RunSource, events: int) -> bool:
    if opened.manifest is not None:
        return opened.manifest.events >= events
    if opened.format is Format.PARQUET:
        try:
            return bool(pq.read_metadata(opened.events).num_rows >= events)
        except (pa.ArrowException, OSError, ValueError):
            return False  # reading it says what is wrong
    if not isinstance(opened.format, Format):
        return False
    return opened.events.stat().st_size >= events * _BYTES_AN_EVENT[opened.format]


def _digest(source: Source, run: Path) -> tuple[str, bool]:
    """The digest of all that is judged, and whether a manifest says the same of the events."""
    if not run.is_dir():
        return _sha256(run), True
    manifest = run / "manifest.json"
    reported: dict[str, Any] = {}
    whole = hashlib.sha256()
    if manifest.is_file():
        text = manifest.read_bytes()
        whole.update(text)
        try:
            found = msgspec.json.decode(text)
            reported = found["digests"] if isinstance(found["digests"], dict) else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
            reported = {}  # opening it says what is wrong
    same = bool(reported)
    for file in source.files:
        if file.name != "manifest.json":
            digest = _sha256(run / file.name)
            whole.update(f"\n{file.name} {digest}".encode())
            same = same and reported.get(file.name) == f"sha256:{digest}"
    return whole.hexdigest(), same


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Why a task could not write its results; trying again would not help."""

    problem: str


def ingested(tasks: Iterable[Task]) -> Iterator[Done | NoRoom]:
    """`ingest` for the tasks of a partition."""
    for task in tasks:
        try:
            yield ingest(task)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            yield NoRoom(os.strerror(error.errno))


__all__: Sequence[str] = (
    "LARGE",
    "Done",
    "Large",
    "NoRoom",
    "Task",
    "ingest",
    "ingested",
    "write_verdict",
)
