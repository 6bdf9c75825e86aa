"""``logwitness spec check``: check models against what is expected of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loghistory import Format, HistoryError, Manifest, write_run
from logspec.console import HOLDS, VIOLATED, Status, print_actions, tool_options
from logspec.counterexample import Change, changes, to_history, voters_in
from logspec.errors import SpecError, missing
from logspec.toolchain import Toolchain, find_toolchain

if TYPE_CHECKING:
    from logspec.models import Model

TIERS = "small", "long", "night"


@click.command("check", short_help="Check the models with TLC.")
@click.argument("names", nargs=-1, metavar="[MODEL]...")
@click.option("--list", "show_list", is_flag=True, help="List the models and what is expected of them.")
@click.option("--tier", type=click.Choice([*TIERS, "all"]), default="small", show_default=True, help="Which models.")
@click.option("--seed", default=1, show_default=True, help="Seed of random behaviours.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per model.")
@click.option(
    "--history", "history", type=click.Path(path_type=Path), help="Write the counterexample as a run to this directory."
)
@click.option("--models", "file", type=click.Path(path_type=Path, exists=True), help="Read the models from this file.")
@tool_options
def check_command(  # one parameter per option of the command line
    names: Sequence[str],
    show_list: bool,
    tier: str,
    seed: int,
    as_json: bool,
    history: Path | None,
    file: Path | None,
    jar: str | None,
    version: str | None,
    workers: int,
    seconds: float,
) -> int:  # its many parameters are the options
    """Check models with TLC: what must hold holds, and every mutant breaks the promise it should.

    Without MODEL all models of the tier are checked. A model fails unless it ends as expected, with the pinned number
    of distinct states and every action taken. The models of the tier `night` take random behaviours until --time-limit
    is up.

    \b
    logwitness spec check --list
    logwitness spec check async-flush
    logwitness spec check --tier night --time-limit 3600 --seed 7
    """
    try:
        from logspec.models import load_models

        models = load_models(file)
        unknown = [name for name in names if name not in models]
        if unknown:
            raise SpecError(f"there is no model {unknown[0]}; `logwitness spec check --list` shows them")
        chosen = [models[name] for name in names] or [m for m in models.values() if tier in ("all", m.tier)]
        if show_list:
            _list_models(models.values() if not names else chosen, as_json)
            return HOLDS
        if history is not None and len(chosen) != 1:
            raise SpecError("--history writes a single run: name one model")
        return _check(chosen, models, find_toolchain(jar, version), workers, seconds, seed, as_json, history)
    except ModuleNotFoundError as problem:
        raise click.ClickException(missing(problem)) from None
    except (SpecError, HistoryError) as problem:
        raise click.ClickException(str(problem)) from None


def _expected(model: Model) -> str:
    if not model.holds:
        return f"violates {model.breaks}"
    return f"holds, behaviours of {model.depth} steps" if model.depth else f"holds, {model.distinct} states"


def _list_models(models: Iterable[Model], as_json: bool) -> None:
    rows = [
        {
            "model": m.name,
            "tier": m.tier,
            "expected": _expected(m),
            "about": m.about,
        }
        for m in models
    ]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("model", "tier", "expected", "about"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row.values()))
    Console().print(table)


def _check(
    chosen: Sequence[Model],
    models: Mapping[str, Model],
    tools: Toolchain,
    workers: int,
    seconds: float,
    seed: int,
    as_json: bool,
    history: Path | None,
) -> int:
    from logspec.check import check_model, prelude

    console = Console(highlight=False, markup=False)
    failed = 0
    for model in chosen:
        with Status(model.name, enabled=sys.stderr.isatty() and not as_json) as status:
            checked = check_model(model, tools, workers=workers, seconds=seconds, seed=seed, on_progress=status.show)
        failed += not checked.as_expected
        outcome = checked.outcome
        if as_json:
            result = checked.to_json()
            result["tlc"] = tools.version
            click.echo(json.dumps(result))
        else:
            found = f"violates {outcome.violated}" if outcome.violated else "holds"
            mark = "ok  " if checked.as_expected else "FAIL"
            depth = outcome.depth or len(outcome.behaviour)
            states = f"{outcome.distinct} distinct states of {outcome.generated}, depth {depth}"
            if model.depth:
                states = f"random behaviours of {model.depth} steps, seed {seed}, {outcome.generated} states reported"
            console.print(f"{mark} {model.name}: {found}; {states}, {outcome.seconds:.1f} s", soft_wrap=True)
            for problem in checked.problems:
                console.print(f"     {problem}", soft_wrap=True)
            if len(chosen) == 1:
                if outcome.actions:
                    print_actions(console, outcome.actions)
                if outcome.behaviour:
                    _print_changes(console, changes(outcome.behaviour))
        if history is not None:
            if not outcome.behaviour:
                raise SpecError(f"{model.name} was not violated, so there is no history to write")
            before = prelude(model, models, outcome.behaviour[0], lambda way: check_model(way, tools))
            table = to_history([*before, *outcome.behaviour])
            manifest = Manifest(
                name=f"spec {model.name}",
                made_by={
                    "command": ["logwitness", "spec", "check", model.name],
                    "configuration": {"write_caching": model.write_caching, "voters": voters_in(table)},
                },
                notes=[f"A behaviour of the specification, found by TLC: {outcome.violated} is violated."],
            )
            write_run(history, table, manifest, Format.JSON_LINES)
            if not as_json:
                console.print(f"history in {history}; judge it with: logwitness check {history}", soft_wrap=True)
    return VIOLATED if failed else HOLDS


def _print_changes(console: Console, rows: Iterable[Change]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("step", justify="right")
    table.add_column("action")
    table.add_column("what changes", overflow="fold")
    last = 0
    for change in rows:
        first = change.step != last
        table.add_row(str(change.step) if first else "", change.action if first else "", Text(change.what))
        last = change.step
    console.print(table)
