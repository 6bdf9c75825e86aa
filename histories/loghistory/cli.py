"""``logwitness history``: convert, merge and show recorded histories.

Exit statuses: 0, or 2 for bad usage and bad histories.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from .errors import HistoryError
from .exporters import write_jepsen_json
from .importers import ForeignFormat
from .manifest import Manifest
from .merge import merge_runs
from .run import write_file, write_run
from .schema import Kind
from .show import Selection, table_lines
from .source import RunSource, open_run
from .writers import Format

_PATH = click.Path(path_type=Path)
_FORMATS = click.Choice([str(f) for f in Format])
_TARGETS = click.Choice([*(str(f) for f in Format), str(ForeignFormat.JEPSEN_JSON)])
_SOURCES = click.Choice([*(str(f) for f in Format), *(str(f) for f in ForeignFormat)])


class _BadHistory(click.ClickException):
    exit_code = 2


class _Commands(click.Group):
    """Ends with status 2 and the error's one line where a history is bad."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        """Run the subcommand; a `HistoryError` becomes click's error with exit status 2."""
        try:
            return super().invoke(ctx)
        except HistoryError as error:
            raise _BadHistory(str(error)) from error


@click.group(cls=_Commands)
def history() -> None:
    """Convert, merge and show recorded histories.

    A history is a run directory (manifest.json and a file of events) or a single file of events: JSON Lines
    (.jsonl), JSON Lines + zstd (.jsonl.zst) or Parquet (.parquet).
    """


@history.command()
@click.argument("source", type=_PATH)
@click.argument("target", type=_PATH)
@click.option(
    "--format", "format_", type=_TARGETS, help="Format of the events; default: as TARGET is called, else jsonl."
)
@click.option("--from", "from_", type=_SOURCES, help="Format of SOURCE; default: by content.")
@click.option("--lenient", is_flag=True, help="Set bad lines aside instead of stopping at the first one.")
@click.option("--quarantine", type=_PATH, metavar="FILE", help="Keep what --lenient sets aside in this file.")
def convert(
    source: Path, target: Path, format_: str | None, from_: str | None, lenient: bool, quarantine: Path | None
) -> None:
    """Convert the history SOURCE to TARGET.

    TARGET is a file if its name ends with .jsonl, .jsonl.zst or .parquet, else a run directory. It must not exist;
    it appears whole or not at all. SOURCE may be of another tool (Jepsen's EDN, JSON and logs, Porcupine's key-value
    logs), and with --format jepsen-json TARGET is one file for others: what clients did and what was injected.

    \b
    Examples:
      logwitness history convert runs/42 42.parquet
      logwitness history convert killed-run/ saved-run/ --format zst
      logwitness history convert --lenient damaged.jsonl good.jsonl
      logwitness history convert store/latest/history.edn run.parquet
      logwitness history convert runs/42 42.json --format jepsen-json
    """
    run = open_run(source, lenient=lenient, quarantine=quarantine, format=_format(from_))
    if format_ == ForeignFormat.JEPSEN_JSON:
        count = write_jepsen_json(target, run.batches())
        _say(run)
        click.echo(f"{target}: {count} operation maps")
        return
    wanted = Format(format_) if format_ else None
    try:
        named: Format | None = Format.of_name(target)
    except ValueError:
        named = None
    if named is None:
        manifest = run.manifest or Manifest(name=target.name, made_by={"converted": source.name})
        events = write_run(
            target,
            run.batches(),
            lambda: msgspec.structs.replace(manifest, notes=run.notes),
            wanted or Format.JSON_LINES,
            version=run.version,
        ).events
    else:
        if wanted not in {None, named}:
            raise click.UsageError(f"{target} is called a {named} file, not {wanted}; leave --format out")
        events = write_file(target, run.batches(), named, version=run.version)
    _say(run)
    click.echo(f"{target}: {events} events")


@history.command(short_help="Merge what several processes recorded into one run.")
@click.argument("files", type=_PATH, nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", type=_PATH, required=True, help="The run directory to write.")
@click.option("--format", "format_", type=_FORMATS, default=str(Format.JSON_LINES), show_default=True)
@click.option("--lenient", is_flag=True, help="Set bad lines aside instead of stopping at the first one.")
def merge(files: tuple[Path, ...], output: Path, format_: str, lenient: bool) -> None:
    """Merge the files that several processes recorded into one run, in one causal order.

    Events are ordered by their hybrid logical clock; nothing is received before it is sent. A file that a killed
    process left (FILE.part) is taken up to its last whole event.

    \b
    Examples:
      logwitness history merge node-*.jsonl clients.jsonl -o run
      logwitness history merge n1.jsonl.part n2.jsonl -o run --format parquet
    """
    manifest = merge_runs(files, output, format=format_, lenient=lenient)
    for note in manifest.notes:
        click.echo(note, err=True)
    click.echo(f"{output}: {manifest.events} events of {len(files)} files")


@history.command()
@click.argument("run", type=_PATH)
@click.option("--from", "first", type=int, metavar="SEQ", help="First event.")
@click.option("--to", "last", type=int, metavar="SEQ", help="Last event.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([str(k) for k in Kind]),
    multiple=True,
    metavar="KIND",
    help="Only events of this kind (repeatable).",
)
@click.option(
    "--node",
    "nodes",
    type=click.IntRange(-(2**31), 2**31 - 1),
    multiple=True,
    help="Only events of this node (repeatable).",
)
@click.option("--lenient", is_flag=True, help="Leave bad lines out instead of stopping at the first one.")
def show(
    run: Path, first: int | None, last: int | None, kinds: tuple[str, ...], nodes: tuple[int, ...], lenient: bool
) -> None:
    """Show the events of RUN as a table.

    Seconds count from the first event. n1 is a node, c7 a client.

    \b
    Examples:
      logwitness history show run
      logwitness history show run --from 1200 --to 1250
      logwitness history show events.parquet --kind leader --kind commit --node 2
    """
    source = open_run(run, lenient=lenient)
    selection = Selection(first, last, [Kind(k) for k in kinds] or None, nodes or None)
    width = max(80, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
    lines = table_lines(source, selection, width)
    title, first_line = next(lines), next(lines, None)
    if first_line is None:
        click.echo(f"logwitness: {run}: no event matches; the run has others", err=True)
    else:
        click.echo(title)
        click.echo(first_line)
        for line in lines:
            click.echo(line)
    _say(source)


def _format(name: str | None) -> Format | ForeignFormat | None:
    if name is None:
        return None
    return ForeignFormat(name) if name in set(ForeignFormat) else Format(name)


def _say(run: RunSource) -> None:
    for note in run.notes:
        click.echo(note, err=True)
