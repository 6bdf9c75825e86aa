"""An audit: rounds of new histories through the stages, each committed as a whole, and the summary in the end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import loghistory
from loghistory import HistoryError, open_run

from ..checks.contract import Outcome, Verdicts
from ..checks.linearizable_log import FAMILY as LINEARIZABLE_LOG
from ..checks.third_party import distributions
from ..engine.local import checks_for, concluded, families_for
from ..engine.run import UNUSABLE, RunVerdict
from ..models import Limits
from .hadoop import Shell
from .ingest import UNREADABLE, Done, Large, NoRoom, Task, ingested, workspace, write_verdict
from .large import Judged, Part, judged_parts
from .offset_ranges import FROM_EVENTS, judge_by_ranges
from .partial import groups, joined_by_log
from .progress import Progress
from .sources import Pending, Source, bins, shares
from .store import Store
from .tables import RUNS, Rows, as_utf8

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUND_HISTORIES = 100_000
ROUND_BYTES = 64 << 30
"""What one round takes; what is committed is not done again by an audit that is started again."""

_TASKS_A_CORE = 4

AGAIN = "make room and start the audit again, it goes on where it was"
"""What to do about a full disk."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Counts:
    """How many histories one audit saw, judged, and left alone because they had not changed."""

    seen: int = 0
    judged: int = 0
    unchanged: int = 0


class Audit:
    """Judges histories on Spark and keeps what they come to in a `Store`."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        limits: Limits,
        progress: Progress,
        *,
        verify: bool,
        large: int,
        shell: Shell | None,
    ) -> None:
        self._spark = spark
        self._store = store
        self._limits = limits
        self._progress = progress
        self._verify = verify
        self._large = large
        self._shell = shell
        self._judged_by = f"{_checker()} {limits}"
        self._known = store.known()
        self.counts = Counts()

    def take(self, sources: Iterable[Source]) -> None:
        """Judge those that are new or have changed, round by round."""
        pending = (found for found in map(self._look_at, sources) if found is not None)
        while chosen := _round(pending):
            self._round(chosen)

    def knows(self, source: Source) -> bool:
        """Whether the history was judged as it is."""
        return self._known.pending(source, self._judged_by) is None

    def _look_at(self, source: Source) -> Pending | None:
        self.counts.seen += 1
        pending = self._known.pending(source, self._judged_by, verify=self._verify)
        if pending is None:
            self.counts.unchanged += 1
        return pending

    def _round(self, pending: Sequence[Pending]) -> None:
        context = self._spark.sparkContext
        round_ = self._store.begin()
        chosen = bins(pending, context.defaultParallelism * (_TASKS_A_CORE if self._shell is None else 1))
        cores = shares(chosen, context.defaultParallelism)
        tasks = [
            Task(
                tuple(each),
                self._store.place_of(round_, f"task-{number:05}"),
                self._shell,
                self._limits,
                self._judged_by,
                self._large,
                cores[number],
            )
            for number, each in enumerate(chosen)
        ]
        self._progress.stage("ingest and check", len(pending))
        done = self._with_room(self._spread(tasks, ingested))
        unchanged = {run_id: stamp for each in done for run_id, stamp in each.unchanged.items()}
        outputs = [(_below(each.output), each.files) for each in done]
        large = [each for one in done for each in one.large]
        if large:
            self._progress.stage("check large histories", len(large))
            outputs.append(self._judge_large(large, round_))
        known = self._known
        replaced = {p.source.id for p in pending if as_utf8(p.source.run) in known.judged_by} - set(unchanged)
        self._progress.stage("commit", len(pending))
        self._store.commit(round_, outputs, replaced=replaced, stamps=unchanged)
        for each in pending:
            known.stamp[as_utf8(each.source.run)] = each.source.stamp
            known.judged_by[as_utf8(each.source.run)] = self._judged_by
        self.counts.judged += sum(each.judged for each in done) + len(large)
        self.counts.unchanged += len(unchanged)

    def _with_room(self, done: Sequence[Done | NoRoom]) -> list[Done]:
        """What the tasks made; if one found no room, all of it is given up. Raises `HistoryError`."""
        made = [each for each in done if isinstance(each, Done)]
        for each in done:
            if isinstance(each, NoRoom):
                self._store.give_up()
                problem = f"the results cannot be written ({each.problem}); nothing of this round is in the tables"
                raise HistoryError(self._store.place, None, None, problem, AGAIN)
        return made

    def _spread(self, tasks: Sequence[T], work: Callable[[Iterable[T]], Iterable[R]]) -> list[R]:
        """The results of all tasks, each a Spark task, in their order."""
        if not tasks:
            return []
        spread = self._spark.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(work)
        with self._progress.watching(self._spark.sparkContext, len(tasks)):
            return list(spread.collect())

    def _judge_large(self, large: Sequence[Large], round_: str) -> tuple[str, list[tuple[str, str]]]:
        """Judge histories that were too much for one task; the tables are written here."""
        context = self._spark.sparkContext
        parts: list[Part] = []
        by_range: dict[int, tuple[str | None, Outcome]] = {}
        for place, each in enumerate(large):
            families = families_for(None, each.setting(compiled=False))
            if each.row["events"] >= FROM_EVENTS:
                answer = judge_by_ranges(self._spark, each)
                if answer is not None:
                    by_range[place] = answer
                    families = tuple(family for family in families if family is not LINEARIZABLE_LOG)
            for group in groups(families, context.defaultParallelism):
                parts.append(Part(place, len(parts), each, tuple(family.name for family in group)))
        most_first = sorted(parts, key=lambda part: -part.large.row["events"] * len(part.families))
        found = sorted(self._spread(most_first, judged_parts), key=lambda judged: judged.number)
        with workspace(self._store.place_of(round_, "large"), "tables", self._shell) as output, Rows(output) as rows:
            for place, each in enumerate(large):
                try:
                    mine = [judged for judged in found if judged.place == place]
                    verdict = self._together(each, mine, by_range.get(place))
                    with each.events() as file:
                        write_verdict(rows, each.row, verdict, open_run(file))
                except HistoryError as problem:
                    _unreadable(rows, each, problem)
        return "large/tables", [(table, f"{table}.parquet") for table in rows.written]

    def _together(
        self, large: Large, judged: Sequence[Judged], by_range: tuple[str | None, Outcome] | None
    ) -> RunVerdict:
        """The verdict on a large history from what several tasks say. Raises `HistoryError`."""
        run, events = large.row["run"], large.row["events"]
        for each in judged:
            if each.error is not None:
                raise each.error
        by_log = joined_by_log([each.by_log for each in judged])
        if by_range is not None:
            by_log = joined_by_log([by_log, [(by_range[0], Verdicts((by_range[1],)))]])
        wanted = checks_for(None, large.setting(compiled=False))
        return concluded(run, events, by_log, wanted, notes=large.notes, doubt=large.doubt)


def _checker() -> str:
    """What judges: the version, a digest of the sources that verdicts depend on, and packages that add families."""
    digest = hashlib.sha256()
    ours = Path(__file__).parents[1]
    for place in (ours / "checks", ours / "engine", ours / "models", Path(loghistory.__file__).parent):
        for source in sorted(place.rglob("*.py")):
            digest.update(source.read_bytes())
    return " ".join([metadata.version("logwitness"), digest.hexdigest()[:12], *distributions()])


def _round(pending: Iterator[Pending]) -> list[Pending]:
    """The next histories, as many as one round takes."""
    chosen: list[Pending] = []
    size = 0
    for each in pending:
        chosen.append(each)
        size += each.source.size
        if len(chosen) >= ROUND_HISTORIES or size >= ROUND_BYTES:
            break
    return chosen


def _unreadable(rows: Rows, large: Large, problem: HistoryError) -> None:
    row: dict[str, Any] = large.row | {"verdict": UNREADABLE, "exit_status": UNUSABLE, "error": str(problem)}
    rows.add(RUNS, row)


def _below(output: str) -> str:
    """The last two names of the directory of a task: whose it is, and which try."""
    return "/".join(Path(output).parts[-2:])
