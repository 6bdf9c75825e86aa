"""The sub-commands of the checker: ``logwitness check`` and ``logwitness checks``."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .directories import Left
from .exclusion import exclude
from .limits import search_limits
from .pyproject import SOURCE, configured

if TYPE_CHECKING:
    from .models import Limits
    from .report.gate import Gate
    from .report.text import Report

MODELS = ("log", "list-append", "register", "cas-register", "kv", "set", "queue", "kafka")
CONFIGURABLE = (
    *("require", "only", "exclude", "baseline", "junit", "sarif", "visualise"),
    *("lenient", "quarantine", "format", "model", "initial", "timeout", "memory-limit"),
)
"""Options that may stand in pyproject.toml: what a project decides, not what one call asks for."""
FORMATS = ("jepsen-edn", "jepsen-json", "jepsen-log", "porcupine-kv", "jsonl", "zst", "parquet")

_LONGEST_NAME = 100
_OUTPUT = click.Path(dir_okay=False, path_type=Path)


def _known_ids(ctx: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    from .models import every_check

    known = {check.id for check in every_check()}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"no check is called {name!r}; `logwitness checks` lists them")
    return names


class _Named(click.Path):
    """A path that was really named: an empty text, as of a variable that nobody set, would be the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        if value == "":
            self.fail("the name is empty: name a run, a file of events or a directory of them", param, ctx)
        return super().convert(value, param, ctx)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The options of ``logwitness check``, by the names that click gives them."""

    runs: tuple[Path, ...]
    quiet: bool
    verbose: bool
    as_json: bool
    only: tuple[str, ...]
    require: tuple[str, ...]
    exclude: tuple[str, ...]
    lenient: bool
    quarantine: Path | None
    format_: str | None
    model: str | None
    initial: str | None
    timeout: float
    memory_limit: int
    pages: Path | None
    junit: Path | None
    sarif: Path | None
    annotations: bool
    baseline: Path | None
    write_baseline: Path | None


@click.command("check", short_help="Judge recorded histories.")
@click.argument("runs", nargs=-1, required=True, type=_Named(path_type=Path), metavar="RUN...")
@click.option("-q", "--quiet", is_flag=True, help="Print only what does not hold; nothing if everything holds.")
@click.option("-v", "--verbose", is_flag=True, help="Print every check, and which files were skipped.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each history, for machines.")
@click.option("--only", multiple=True, metavar="ID", callback=_known_ids, help="Judge only this check (repeatable).")
@click.option(
    "--require",
    multiple=True,
    metavar="ID",
    callback=_known_ids,
    help="Exit with 3 if this check had nothing to judge (repeatable).",
)
@exclude
@click.option(
    "--lenient/--no-lenient", help="Set bad lines aside and judge the rest; a check that then holds is undecided."
)
@click.option(
    "--quarantine",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep what --lenient sets aside in this directory, a file for each history.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Format of the files; default: by their content.")
@click.option("--model", type=click.Choice(MODELS), help="What the histories record; default: by their operations.")
@click.option("--initial", metavar="JSON", help="Initial value of registers or keys; default: null, or as reads show.")
@search_limits("(registers, key-value stores, sets, queues)")
@click.option(
    "--visualise",
    "pages",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write Porcupine's HTML page of every search into this directory.",
)
@click.option(
    "--junit",
    type=_OUTPUT,
    metavar="FILE",
    help="Write JUnit XML: a test suite for each history, a test case for each check.",
)
@click.option("--sarif", type=_OUTPUT, metavar="FILE", help="Write SARIF 2.1.0 for code scanning.")
@click.option("--annotations", is_flag=True, help="Print workflow commands, from which GitHub makes annotations.")
@click.option(
    "--baseline", type=_OUTPUT, metavar="FILE", help="Read known violations from this file and fail only on others."
)
@click.option(
    "--write-baseline", type=_OUTPUT, metavar="FILE", help="Write the violations found to this file, as known."
)
@configured(*CONFIGURABLE)
@click.pass_context
def check_command(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - click's own values, typed in _Asked
    """Judge recorded histories: run directories, files of events, or directories of them.

    Files may come from other tools: Jepsen's EDN, JSON and logs, Porcupine's key-value logs.

    \b
    logwitness check runs/demo
    logwitness check -q runs/ --exclude 'mutant-*'
    logwitness check --only acked-survives --json runs/*
    logwitness check --require committed-flushed-on-majority runs/nightly
    logwitness check --model cas-register --initial 0 history.edn
    logwitness check --junit junit.xml --sarif history.sarif runs/
    logwitness check --baseline known.json runs/

    Options can have defaults in pyproject.toml, under [tool.logwitness].

    The exit status is that of the worst history: 1 violated, else 2 unreadable, else 3 undecided or nothing judged,
    else 0. With --baseline a history whose violations are all known counts as if it had none.
    """
    from loghistory import HistoryError
    from loghistory.errors import printable

    from .engine.run import UNUSABLE, worst_status
    from .report.gate import Gate
    from .report.text import Report

    asked = _Asked(**options)
    _refuse_contradictions(asked)
    limits = _limits(asked)
    try:
        gate = Gate(
            junit=asked.junit,
            sarif=asked.sarif,
            annotate=asked.annotations,
            baseline=asked.baseline,
            record=asked.write_baseline,
            required=asked.require,
        )
    except HistoryError as problem:
        click.echo(f"logwitness: {problem}", err=True)
        ctx.exit(UNUSABLE)
    if asked.verbose and SOURCE in ctx.meta:
        click.echo(f"logwitness: defaults from {printable(str(ctx.meta[SOURCE]))}", err=True)
    report = Report(quiet=asked.quiet, verbose=asked.verbose)
    statuses = [status for named in asked.runs for status in _judge_all(named, asked, limits, gate, report)]
    if not asked.as_json:
        report.close()
    elif report.totals.passed_over and not asked.quiet:
        click.echo(f"logwitness: {report.totals.passed_over}{'' if asked.verbose else '; -v names them'}", err=True)
    gate.finish()
    ctx.exit(worst_status(statuses))


def _refuse_contradictions(asked: _Asked) -> None:
    """Raise `click.UsageError` for options that exclude each other, or need another one."""
    if asked.annotations and asked.as_json:
        raise click.UsageError("--annotations and --json both write to standard output: choose one")
    if asked.quiet and asked.verbose:
        raise click.UsageError("--quiet and --verbose cannot be combined: choose one")
    if asked.quarantine is not None and not asked.lenient:
        raise click.UsageError("--quarantine needs --lenient: add it, or leave it out")


def _judge_all(named: Path, asked: _Asked, limits: Limits, gate: Gate, report: Report) -> Iterator[int]:
    """Judge every history below a path that the caller named; the exit status of each, as it is judged."""
    from loghistory import HistoryError
    from loghistory.errors import printable

    from .directories import histories_in
    from .engine.run import UNUSABLE

    totals = report.totals

    def unusable(path: Path, problem: HistoryError) -> int:
        gate.unusable(path, problem)
        click.echo(f"logwitness: {problem}", err=True)
        if asked.as_json:
            click.echo(_json_of(path, "unreadable", [], {"exit_status": UNUSABLE, "error": str(problem)}))
        return UNUSABLE

    def left(path: Path, why: Left) -> None:
        totals.left[why] += 1
        if asked.verbose:
            click.echo(f"logwitness: {printable(str(path))}: {why}", err=True)

    try:
        for path in histories_in(named, left, asked.exclude):
            try:
                yield _judge(path, asked, limits, gate, None if asked.as_json else report)
            except HistoryError as problem:
                totals.histories["unreadable"] += 1
                yield unusable(path, problem)
            except MemoryError:
                totals.histories["unreadable"] += 1
                remedy = "allow it more, or judge it with `logwitness audit`"
                yield unusable(path, HistoryError(path, None, None, "there is not enough memory to judge it", remedy))
    except HistoryError as problem:
        totals.fruitless += 1
        yield unusable(named, problem)


def _judge(path: Path, asked: _Asked, limits: Limits, gate: Gate, report: Report | None) -> int:
    """Judge one history, print the verdict (``report`` None: as JSON) and return its exit status."""
    from loghistory import Format, open_run
    from loghistory.importers import ForeignFormat

    from .models import Model, check_model, model_of
    from .models.anomalies import anomalies
    from .report.progress import progress_of

    forced: Format | ForeignFormat | None = None
    if asked.format_ is not None:
        forced = ForeignFormat(asked.format_) if asked.format_ in set(ForeignFormat) else Format(asked.format_)
    quarantine = None if asked.quarantine is None else _quarantine_of(path, asked.quarantine)
    source = open_run(path, lenient=asked.lenient, quarantine=quarantine, format=forced)
    model = Model(asked.model) if asked.model else model_of(source)
    with progress_of(source) as progress:
        verdict = check_model(
            source,
            model,
            asked.only or None,
            required=asked.require,
            limits=limits,
            pages=asked.pages,
            progress=progress,
        )
    verdict, results = gate.judged(source, verdict)
    if report is None:
        click.echo(_json_of(path, str(verdict.verdict), anomalies(verdict.checks), verdict.document()))
    else:
        report.judged(source, verdict, results)
    return verdict.exit_status


def _quarantine_of(path: Path, directory: Path) -> Path:
    """Where the lines of a history are kept that are set aside. Raises `HistoryError`."""
    from loghistory import HistoryError
    from loghistory.quarantine import SUFFIX

    whole = os.fsencode(path.absolute())
    name = re.sub(r"[^\w.-]+", "_", os.fsdecode(path)).strip("._")[-_LONGEST_NAME:]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot be made ({error.strerror or error})"
        raise HistoryError(directory, None, None, problem, "name another directory with --quarantine") from None
    return directory / f"{name}-{hashlib.sha256(whole).hexdigest()[:8]}{SUFFIX}"


def _json_of(path: Path, verdict: str, names: list[str], rest: dict[str, Any]) -> str:
    document = {"file": str(path), "verdict": verdict, "anomalies": names} | rest
    line = json.dumps(document, ensure_ascii=False)
    # A file may be called by bytes that are no text: those can only be told as escapes.
    return line if line.isprintable() else json.dumps(document)


def _limits(asked: _Asked) -> Limits:
    from .models import Limits

    value = None
    if asked.initial is not None:
        try:
            value = json.loads(asked.initial)
        except (ValueError, RecursionError):
            value = asked.initial  # a word may stand for itself
        if isinstance(value, (float, list, dict)):
            raise click.BadParameter("null, true, false, an integer or a text", param_hint="--initial")
    return Limits(asked.timeout, asked.memory_limit << 20, value, asked.initial is not None)


@click.command("checks", short_help="List the checks and their rules.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for machines.")
def checks_command(as_json: bool) -> None:
    """List the checks: the rule of each, where it is stated, what it judges, needs and counts.

    \b
    logwitness checks
    logwitness checks --json
    """
    from .checks import left_out
    from .models import judged_by
    from .report.text import print_checks

    listed = judged_by()
    for problem in left_out():
        click.echo(f"logwitness: {problem}", err=True)
    if not as_json:
        print_checks(listed)
        return
    document = [
        {
            "id": check.id,
            "family": family,
            "rule": check.rule,
            "source": list(check.source),
            "fact": check.fact,
            "kinds": [str(kind) for kind in check.kinds],
            "columns": list(check.columns),
            "models": [str(model) for model in models],
        }
        for family, check, models in listed
    ]
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))
