"""The commands of the pipeline: ``logwitness audit`` and ``logwitness campaign``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..exclusion import exclude as exclude_option
from ..limits import search_limits

_MASTER = click.option(
    "--master", metavar="URL", help="Spark master; default: spark-submit's, else all cores of this machine (local[*])."
)


@click.command("audit", short_help="Judge any number of histories on Spark.")
@click.argument("source")
@click.argument("out")
@_MASTER
@click.option("--follow", is_flag=True, help="Keep judging what arrives in SOURCE, until SIGINT or SIGTERM.")
@click.option("--stop-after", type=click.IntRange(1), metavar="N", help="With --follow: stop after N histories.")
@click.option(
    "--idle",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="With --follow: stop when nothing has arrived for this long.",
)
@exclude_option
@click.option("--verify", is_flag=True, help="Compare digests even where size and time of a history are unchanged.")
@click.option(
    "--large",
    type=click.IntRange(1),
    default=50_000_000,
    show_default=True,
    metavar="EVENTS",
    help="Let several tasks judge a history of this many events or more.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@search_limits("in one history")
@click.pass_context
def audit(
    ctx: click.Context,
    source: str,
    out: str,
    master: str | None,
    follow: bool,
    stop_after: int | None,
    idle: float | None,
    exclude: tuple[str, ...],
    verify: bool,
    large: int,
    as_json: bool,
    timeout: float,
    memory_limit: int,
) -> None:  # its many parameters are the options
    """Judge all histories of SOURCE on Spark and keep the results in OUT.

    SOURCE is a file, a run directory or a tree of them, in any format that `logwitness check` knows. OUT gets tables
    in Parquet (runs, verdicts, violations, losses, evidence, quarantine, events) and a summary. Bad lines go to the
    quarantine; nothing is dropped silently. A second audit into the same OUT judges only what is new or has changed.
    If an audit is killed, start it again: it finishes what was left.

    \b
    logwitness audit runs/ out/audit
    logwitness audit --master local[2] store/ out/audit
    logwitness audit --follow incoming/ out/audit

    The exit status is that of the worst history, as with `logwitness check`.
    """
    import msgspec

    from loghistory import HistoryError
    from loghistory.errors import printable

    from ..models import Limits
    from .audit import AGAIN
    from .run import audit_on, audit_once
    from .session import SparkProblem, check_spark, spark_session
    from .summary import as_text

    if not follow and (stop_after is not None or idle is not None):
        raise click.UsageError("--stop-after and --idle need --follow: add it, or leave them out")
    limits = Limits(timeout, memory_limit << 20)
    try:
        check_spark("audit")
        session = spark_session("logwitness audit", master)
        if follow:
            summary = audit_on(
                source, out, session, limits, exclude=exclude, stop_after=stop_after, idle=idle, large=large
            )
        else:
            summary = audit_once(source, out, session, limits, exclude=exclude, verify=verify, large=large)
    except (SparkProblem, HistoryError) as problem:
        raise click.ClickException(printable(str(problem))) from None
    except OSError as problem:
        failure = f"{problem.filename or out}: cannot be written ({problem.strerror or problem}): {AGAIN}"
        raise click.ClickException(printable(failure)) from None
    click.echo(json.dumps(msgspec.to_builtins(summary)) if as_json else as_text(summary), nl=as_json)
    ctx.exit(summary.exit_status)


@click.command("campaign", short_help="Simulate and judge many seeds on Spark.")
@click.argument("out")
@click.option(
    "--seeds", type=click.IntRange(1, 10_000_000), required=True, help="Number of runs; if mutants are named, of each."
)
@click.option("--first-seed", type=click.IntRange(0), default=0, show_default=True, help="The first of the seeds.")
@click.option(
    "--mutant",
    "mutants",
    multiple=True,
    metavar="ID",
    help="Simulate this known fault instead of the reference (repeatable; 'all').",
)
@click.option("--protocol", metavar="NAME", help="The protocol; default: that of the mutant.")
@_MASTER
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def campaign(
    ctx: click.Context,
    out: str,
    seeds: int,
    first_seed: int,
    mutants: tuple[str, ...],
    protocol: str | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Simulate, record and judge runs of many seeds on Spark, and collect those that are rejected.

    OUT gets a table of rejections (kills) with their reasons, the rejected runs and a summary. The same seeds give the
    same table.

    \b
    logwitness campaign --seeds 10000 out/campaign
    logwitness campaign --seeds 200 --mutant vote-twice out/kills

    Exit status: 0 if no run of the reference was rejected and every mutant was found; otherwise 1.
    """
    import msgspec

    from loghistory import HistoryError
    from loghistory.errors import printable

    from .campaign import NothingToRun, as_text, known_mutants, protocol_of, run_campaign
    from .progress import Progress
    from .session import SparkProblem, check_spark, spark_session

    chosen: list[str | None] = list(dict.fromkeys(mutants)) or [None]
    try:
        check_spark("campaign")
        if "all" in chosen:
            chosen = list(known_mutants(protocol_of(protocol)))
        session = spark_session("logwitness campaign", master)
        seeds_of = range(first_seed, first_seed + seeds)
        result = run_campaign(session, Path(out), seeds_of, chosen, Progress(), protocol)
    except (SparkProblem, HistoryError, NothingToRun) as problem:
        raise click.ClickException(printable(str(problem))) from None
    except OSError as problem:
        failure = f"{problem.filename or out}: cannot be written ({problem.strerror or problem}): make room"
        raise click.ClickException(printable(failure)) from None
    click.echo(json.dumps(msgspec.to_builtins(result)) if as_json else as_text(result), nl=as_json)
    ctx.exit(result.exit_status)
