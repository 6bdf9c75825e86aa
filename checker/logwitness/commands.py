"""The sub-commands of the checker: ``logwitness check`` and ``logwitness checks``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .limits import search_limits

if TYPE_CHECKING:
    from .models import Limits
    from .report.gate import Gate

EXAMPLES = 3
"""Violations of a check that the report for people explains."""


MODELS = ("log", "list-append", "register", "cas-register", "kv", "set", "queue", "kafka")
FORMATS = ("jepsen-edn", "jepsen-json", "jepsen-log", "porcupine-kv", "jsonl", "zst", "parquet")

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


@click.command("check")
@click.argument("runs", nargs=-1, required=True, type=_Named(path_type=Path), metavar="RUN...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a run or file, one a line, for machines.")
@click.option("--only", multiple=True, metavar="ID", callback=_known_ids, help="Judge this check only (repeatable).")
@click.option(
    "--require", multiple=True, metavar="ID", callback=_known_ids, help="Exit 3 if this check had nothing to judge."
)
@click.option("--lenient", is_flag=True, help="Set bad lines aside in a quarantine file and judge the rest.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Format of the files; default: by content.")
@click.option("--model", type=click.Choice(MODELS), help="What is judged; default: by the operations seen.")
@click.option("--initial", metavar="JSON", help="Initial value of a register or key; default: null, 0 or as read.")
@search_limits("(registers, key-value stores, sets, queues)")
@click.option(
    "--visualise",
    "pages",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write Porcupine's page (HTML) of every search into this directory.",
)
@click.option("--junit", type=_OUTPUT, metavar="FILE", help="Write JUnit XML: a suite a run, a case a check.")
@click.option("--sarif", type=_OUTPUT, metavar="FILE", help="Write SARIF 2.1.0 for code scanning.")
@click.option("--annotations", is_flag=True, help="Print GitHub workflow commands that annotate the files.")
@click.option("--baseline", type=_OUTPUT, metavar="FILE", help="Known violations: only others fail.")
@click.option("--write-baseline", type=_OUTPUT, metavar="FILE", help="Record the violations found as known.")
@click.pass_context
def check_command(
    ctx: click.Context,
    runs: tuple[Path, ...],
    as_json: bool,
    only: tuple[str, ...],
    require: tuple[str, ...],
    lenient: bool,
    format_: str | None,
    model: str | None,
    initial: str | None,
    timeout: float,
    memory_limit: int,
    pages: Path | None,
    junit: Path | None,
    sarif: Path | None,
    annotations: bool,
    baseline: Path | None,
    write_baseline: Path | None,
) -> None:
    """Judge recorded runs: run directories, single files of events, or directories of them.

    Files may be of other tools: Jepsen's EDN, JSON and logs, Porcupine's key-value logs.

    \b
    logwitness check runs/demo
    logwitness check --only acked-survives --json runs/*
    logwitness check --require committed-flushed-on-majority runs/nightly
    logwitness check --model cas-register --initial 0 history.edn
    logwitness check --json store/
    logwitness check --junit junit.xml --sarif history.sarif runs/
    logwitness check --baseline known.json runs/

    The exit status is that of the worst run: 1 violated, else 2 unreadable, else 3 undecided or nothing
    judged, else 0. With --baseline a run whose violations are all known counts as if they were none.
    """
    from loghistory import HistoryError
    from loghistory.errors import printable

    from .directories import histories_in
    from .engine.run import UNUSABLE, worst_status
    from .report.gate import Gate

    if annotations and as_json:
        raise click.UsageError("--annotations and --json both write to standard output: choose one")
    limits = _limits(initial, timeout, memory_limit)
    statuses = []
    try:
        gate = Gate(
            junit=junit,
            sarif=sarif,
            annotate=annotations,
            baseline=baseline,
            record=write_baseline,
            required=require,
        )
    except HistoryError as problem:
        click.echo(f"logwitness: {problem}", err=True)
        ctx.exit(UNUSABLE)

    def unusable(path: Path, problem: HistoryError) -> None:
        gate.unusable(path, problem)
        click.echo(f"logwitness: {problem}", err=True)
        if as_json:
            click.echo(_json_of(path, "unreadable", [], {"exit_status": UNUSABLE, "error": str(problem)}))
        statuses.append(UNUSABLE)

    def skipped(path: Path) -> None:
        click.echo(f"logwitness: {printable(str(path))} is no history and was skipped", err=True)

    for named in runs:
        try:
            for path in histories_in(named, skipped):
                try:
                    statuses.append(_judge(path, as_json, only, require, lenient, format_, model, limits, pages, gate))
                except HistoryError as problem:
                    unusable(path, problem)
                except MemoryError:
                    remedy = "allow it more, or judge it with `logwitness audit`"
                    unusable(path, HistoryError(path, None, None, "there is not enough memory to judge it", remedy))
        except HistoryError as problem:
            unusable(named, problem)
    gate.finish()
    ctx.exit(worst_status(statuses))


def _judge(
    path: Path,
    as_json: bool,
    only: tuple[str, ...],
    require: tuple[str, ...],
    lenient: bool,
    format_: str | None,
    model: str | None,
    limits: Limits,
    pages: Path | None,
    gate: Gate,
) -> int:
    """Judge one history, print the verdict and return its exit status."""
    from loghistory import Format, open_run
    from loghistory.importers import ForeignFormat

    from .engine.local import events_at
    from .models import Model, check_model, model_of
    from .models.anomalies import anomalies
    from .report.progress import progress_of
    from .report.text import print_run

    forced: Format | ForeignFormat | None = None
    if format_ is not None:
        forced = ForeignFormat(format_) if format_ in set(ForeignFormat) else Format(format_)
    source = open_run(path, lenient=lenient, format=forced)
    chosen = Model(model) if model else model_of(source)
    with progress_of(source) as progress:
        verdict = check_model(
            source, chosen, only or None, required=require, limits=limits, pages=pages, progress=progress
        )
    verdict = gate.judged(source, verdict)
    if as_json:
        click.echo(_json_of(path, str(verdict.verdict), anomalies(verdict.checks), verdict.document()))
    else:
        shown = [seq for each in verdict.checks for v in each.violations[:EXAMPLES] for seq in v.events]
        print_run(verdict, events_at(source, shown), EXAMPLES)
    return verdict.exit_status


def _json_of(path: Path, verdict: str, names: list[str], rest: dict[str, Any]) -> str:
    document = {"file": str(path), "verdict": verdict, "anomalies": names} | rest
    line = json.dumps(document, ensure_ascii=False)
    # A file may be called by bytes that are no text: those can only be told as escapes.
    return line if line.isprintable() else json.dumps(document)


def _limits(initial: str | None, timeout: float, memory_limit: int) -> Limits:
    from .models import Limits

    value = None
    if initial is not None:
        try:
            value = json.loads(initial)
        except (ValueError, RecursionError):
            value = initial  # a word may stand for itself
        if isinstance(value, (float, list, dict)):
            raise click.BadParameter("null, true, false, an integer or a text", param_hint="--initial")
    return Limits(timeout, memory_limit << 20, value, initial is not None)


@click.command("checks")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for machines.")
def checks_command(as_json: bool) -> None:
    """List every check: id, rule, where it is stated, models, what it needs and what it counts.

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
