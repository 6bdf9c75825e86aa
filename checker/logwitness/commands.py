"""The sub-commands of the checker: ``logwitness check`` and ``logwitness checks``."""

from __future__ import annotations

import json
from pathlib import Path

import click

EXAMPLES = 3
"""Violations of a check that the report for people explains."""


def _known_ids(ctx: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    from .checks import all_checks

    known = {check.id for check in all_checks()}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"no check is called {name!r}; `logwitness checks` lists them")
    return names


@click.command("check")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a run, one a line, for machines.")
@click.option("--only", multiple=True, metavar="ID", callback=_known_ids, help="Judge this check only (repeatable).")
@click.option(
    "--require", multiple=True, metavar="ID", callback=_known_ids, help="Exit 3 if this check had nothing to judge."
)
@click.option("--lenient", is_flag=True, help="Set bad lines aside in a quarantine file and judge the rest.")
@click.pass_context
def check_command(
    ctx: click.Context,
    runs: tuple[Path, ...],
    as_json: bool,
    only: tuple[str, ...],
    require: tuple[str, ...],
    lenient: bool,
) -> None:
    """Judge recorded runs: run directories or single files of events.

    \b
    logwitness check runs/demo
    logwitness check --only acked-survives --json runs/*
    logwitness check --require committed-flushed-on-majority runs/nightly

    The exit status is that of the worst run: 1 violated, else 2 unreadable, else 3 undecided or nothing
    judged, else 0.
    """
    from loghistory import HistoryError, open_run

    from .engine.local import check, events_at
    from .engine.run import UNUSABLE, worst_status
    from .report.progress import progress_of
    from .report.text import print_run

    statuses = []
    for path in runs:
        try:
            source = open_run(path, lenient=lenient)
            with progress_of(source) as progress:
                verdict = check(source, only or None, required=require, progress=progress)
            if as_json:
                click.echo(json.dumps(verdict.document(), ensure_ascii=False))
            else:
                shown = [seq for each in verdict.checks for v in each.violations[:EXAMPLES] for seq in v.events]
                print_run(verdict, events_at(source, shown), EXAMPLES)
            statuses.append(verdict.exit_status)
        except HistoryError as problem:
            click.echo(f"logwitness: {problem}", err=True)
            statuses.append(UNUSABLE)
    ctx.exit(worst_status(statuses))


@click.command("checks")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for machines.")
def checks_command(as_json: bool) -> None:
    """List every check: id, rule, document section, what it needs and what it counts."""
    from .checks import FAMILIES
    from .report.text import print_checks

    if not as_json:
        print_checks(FAMILIES)
        return
    document = [
        {
            "id": check.id,
            "family": family.name,
            "rule": check.rule,
            "section": check.section,
            "fact": check.fact,
            "kinds": [str(kind) for kind in check.kinds],
            "columns": list(check.columns),
        }
        for family in FAMILIES
        for check in family.checks
    ]
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))
