"""A campaign: runs of many seeds simulated, recorded and judged on Spark, and which of them were rejected.

The implementation is reached through entry points alone (group ``logwitness.runs``: ``protocol``, ``mutants`` and
``play``). A run is rejected by every check that it violates, and by what `play` says went wrong besides. The reference
must not be rejected at all; a mutant must be, by one of the checks that are stated with it.

    OUT/campaign.json                  what was asked
    OUT/kills/part-*.parquet           run by run why it was rejected, `KILLS`
    OUT/runs/<mutant>/<seed>/          the rejected runs, as run directories
    OUT/summary.json
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from loghistory import HistoryError, write_run

from ..engine.local import check
from ..engine.run import HOLDS, VIOLATED
from .files import LocalFiles
from .progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = "logwitness.runs"
REFERENCE = "reference"

KILLS = pa.schema(
    [
        pa.field("mutant", pa.string()),
        pa.field("seed", pa.int64()),
        pa.field("setting", pa.string()),
        pa.field("check", pa.string()),
        pa.field("violated", pa.int64()),
        pa.field("sentence", pa.string()),
        pa.field("events", pa.list_(pa.int64())),
        pa.field("stated", pa.bool_()),
        pa.field("command", pa.string()),
    ]
)
"""One row a run and check that rejects it. ``stated``: the check is one of those that must notice the mutant."""

_RUNS_A_TASK = 16
_KEPT_RUNS = 20
"""Rejected runs of a mutant that a task writes; the others are made again by their command."""


class NothingToRun(RuntimeError):  # noqa: N818
    """No implementation is installed, or it has no such mutant; ``str()`` is one sentence."""


class Tally(msgspec.Struct):
    """What became of the runs of one mutant, or of the reference."""

    mutant: str
    runs: int
    killed: int
    """Runs that were rejected: of a mutant by a check stated with it, of the reference by anything."""
    first_seed: int | None
    by_check: dict[str, int]
    """Runs that each check rejected."""


class Campaign(msgspec.Struct):
    """The result of a campaign, as summary.json has it: a tally for each mutant, or one for the reference."""

    first_seed: int
    seeds: int
    mutants: list[Tally]
    exit_status: int


@dataclass(frozen=True, slots=True)
class _Seeds:
    """A task: some seeds of one mutant (None: the reference) of a protocol."""

    protocol: str
    mutant: str | None
    seeds: tuple[int, ...]
    stated: tuple[str, ...]
    output: str


def protocol_of(name: str | None, mutants: Sequence[str] = ()) -> str:
    """The protocol that a name or mutants tell; the only one there is needs no telling. Raises `NothingToRun`."""
    tell: Callable[..., str] = _entry("protocol")
    try:
        return tell(name, mutants=mutants)
    except ValueError as problem:
        raise NothingToRun(str(problem)) from None


def known_mutants(protocol: str) -> dict[str, dict[str, Any]]:
    """The mutants of the installed implementation. Raises `NothingToRun`."""
    load: Callable[[str], dict[str, dict[str, Any]]] = _entry("mutants")
    return load(protocol)


def _entry(name: str) -> Any:  # noqa: ANN401
    for point in metadata.entry_points(group=RUNS, name=name):
        try:
            return point.load()
        except (ImportError, AttributeError) as problem:
            raise NothingToRun(f"the implementation cannot be loaded: {problem}") from None
    raise NothingToRun("no implementation is installed whose runs could be played; install one with its entry points")


def run_campaign(
    session: AbstractContextManager[SparkSession],
    out: Path,
    seeds: range,
    mutants: Sequence[str | None],
    progress: Progress,
    protocol: str | None = None,
) -> Campaign:
    """Play and judge these seeds of each mutant (None: the reference), and write OUT.

    Raises `HistoryError` for a place that cannot be used, `NothingToRun`, and what ``session`` raises.
    """
    meant = protocol_of(protocol, [mutant for mutant in mutants if mutant is not None])
    known = known_mutants(meant)
    files = LocalFiles(out)
    try:
        if [name for name in files.names("") if not name.startswith("_")]:
            raise HistoryError(out, None, None, "is not empty", "name another directory for the results")
        files.remove("_unfinished")
        unfinished = f"{files.place}/_unfinished"
        tasks = [
            _Seeds(
                meant,
                mutant,
                tuple(seeds[start : start + _RUNS_A_TASK]),
                tuple(known[mutant]["checks"]) if mutant is not None else (),
                unfinished,
            )
            for mutant in mutants
            for start in range(0, len(seeds), _RUNS_A_TASK)
        ]
        with session as spark:
            progress.stage("simulate and check", len(seeds) * len(mutants))
            with progress.watching(spark.sparkContext, len(tasks)):
                done = spark.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(_played).collect()
        rows = sorted((row for found, _ in done for row in found), key=lambda row: (row["mutant"], row["seed"]))
        result = _result(seeds, mutants, rows)
        _write(Path(files.place), rows, [run for _, runs in done for run in runs], result)
    finally:
        files.close()
    return result


def _played(tasks: Iterable[_Seeds]) -> Iterator[tuple[list[dict[str, Any]], list[tuple[str, str]]]]:
    """The rejections of a task, and the runs it wrote: where, and where they belong."""
    pa.set_cpu_count(1)
    play = _entry("play")
    for task in tasks:
        rows: list[dict[str, Any]] = []
        runs: list[tuple[str, str]] = []
        output = Path(task.output) / secrets.token_hex(4)
        for seed in task.seeds:
            played = play(task.protocol, seed, task.mutant)
            found = _rejections(played, seed, task)
            rows += found
            if found and played["table"] is not None and len(runs) < _KEPT_RUNS:
                name = f"{task.mutant or REFERENCE}/{seed}"
                output.mkdir(parents=True, exist_ok=True)
                manifest = {"name": name.replace("/", "-"), "made_by": played["made_by"]}
                write_run(output / str(seed), played["table"], manifest, "zst")
                runs.append((str(output / str(seed)), name))
        yield rows, runs


def _rejections(played: dict[str, Any], seed: int, task: _Seeds) -> list[dict[str, Any]]:
    common = {"mutant": task.mutant or REFERENCE, "seed": seed, "setting": played["setting"]}
    common["command"] = played["command"]
    rows: list[dict[str, Any]] = []
    if played["table"] is not None:
        for each in check(played["table"], configuration=played["configuration"]).checks:
            if each.violated:
                first = each.violations[0]
                reported = {"check": each.id, "violated": each.violated, "sentence": first.sentence}
                rows.append(common | reported | {"events": list(first.events), "stated": each.id in task.stated})
    if played["problem"] is not None:
        kind, sentence = played["problem"]
        rows.append(common | {"check": kind, "violated": 1, "sentence": sentence, "events": [], "stated": False})
    return rows


def _result(seeds: range, mutants: Sequence[str | None], rows: Sequence[dict[str, Any]]) -> Campaign:
    tallies = []
    missed = False
    for mutant in mutants:
        name = mutant or REFERENCE
        mine = [row for row in rows if row["mutant"] == name]
        killed = sorted({row["seed"] for row in mine if row["stated"] or mutant is None})
        by_check: dict[str, int] = {}
        for row in mine:
            by_check[row["check"]] = by_check.get(row["check"], 0) + 1
        order = dict(sorted(by_check.items(), key=lambda item: (-item[1], item[0])))
        tallies.append(Tally(name, len(seeds), len(killed), killed[0] if killed else None, order))
        missed = missed or bool(killed) is (mutant is None)
    return Campaign(seeds[0], len(seeds), tallies, VIOLATED if missed else HOLDS)


def _write(out: Path, rows: Sequence[dict[str, Any]], runs: Sequence[tuple[str, str]], result: Campaign) -> None:
    """Put the results into their places; the summary, which says that all is there, comes last."""
    for old, name in runs:
        (out / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        Path(old).replace(out / "runs" / name)
    (out / "kills").mkdir(exist_ok=True)
    unfinished = out / "_unfinished-kills.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows), KILLS), unfinished, compression="zstd")
    unfinished.replace(out / "kills" / "part-0.parquet")
    shutil.rmtree(out / "_unfinished", ignore_errors=True)
    summary = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    (out / "_summary.json").write_bytes(summary)
    (out / "_summary.json").replace(out / "summary.json")


def as_text(campaign: Campaign) -> str:
    """The result for people: the seeds, then a line for each mutant with the check that rejected most of its runs."""
    last = campaign.first_seed + campaign.seeds - 1
    lines = [f"seeds {campaign.first_seed} to {last}"]
    lines.append(f"{'whose runs':<36}{'runs':>8}{'rejected':>10}{'first seed':>12}  by")
    for tally in campaign.mutants:
        seed = "" if tally.first_seed is None else str(tally.first_seed)
        by = next(iter(tally.by_check), "")
        lines.append(f"{tally.mutant:<36}{tally.runs:>8,}{tally.killed:>10,}{seed:>12}  {by}"[:120])
    return "\n".join(lines) + "\n"
