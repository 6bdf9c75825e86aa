"""The commands of the pipeline: ``logwitness audit`` and ``logwitness campaign``."""

from __future__ import annotations

import json

import click

_MASTER = click.option(
    "--master", metavar="URL", help="Spark master; default: that of spark-submit, else all cores here (local[*])."
)


@click.command("audit")
@click.argument("source")
@click.argument("out")
@_MASTER
@click.option("--verify", is_flag=True, help="Compare digests also where size and time of a history are unchanged.")
@click.option(
    "--large",
    type=click.IntRange(1),
    default=6_000_000,
    show_default=True,
    metavar="EVENTS",
    help="Several tasks judge one history from so many events on.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 1e8, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up a search in one history after this time: undecided.",
)
@click.option(
    "--memory-limit",
    type=click.IntRange(64, 1 << 30),
    default=2048,
    show_default=True,
    metavar="MIB",
    help="Give up a search that takes more memory than this: undecided.",
)
@click.pass_context
def audit(
    ctx: click.Context,
    source: str,
    out: str,
    master: str | None,
    verify: bool,
    large: int,
    as_json: bool,
    timeout: float,
    memory_limit: int,
) -> None:
    """Judge all histories of SOURCE on Spark and keep the results in OUT.

    SOURCE is a file, a run directory or a tree of them, of any format that `logwitness check` knows. OUT gets tables
    in Parquet (runs, verdicts, violations, losses, evidence, quarantine, events) and a summary. Bad lines go to the
    quarantine, nothing is dropped silently. A second audit into the same OUT judges what is new or has changed; one
    that was killed is started again.

    \b
    logwitness audit runs/ out/audit
    logwitness audit --master local[2] store/ out/audit

    Exit status: that of the worst history, as for `logwitness check`.
    """
    import msgspec

    from loghistory import HistoryError

    from ..models import Limits
    from .run import audit_once
    from .session import SparkProblem, check_spark, spark_session
    from .summary import as_text

    limits = Limits(timeout, memory_limit << 20)
    try:
        check_spark("audit")
        session = spark_session("logwitness audit", master)
        summary = audit_once(source, out, session, limits, verify=verify, large=large)
    except (SparkProblem, HistoryError) as problem:
        raise click.ClickException(str(problem)) from None
    click.echo(json.dumps(msgspec.to_builtins(summary)) if as_json else as_text(summary), nl=as_json)
    ctx.exit(summary.exit_status)
