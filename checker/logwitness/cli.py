"""The command ``logwitness``; other parts add sub-commands through the entry point group ``logwitness.commands``."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from importlib import metadata
from typing import Any, NoReturn

import click

from .commands import check_command, checks_command
from .explain.command import explain_command
from .extras import not_installed
from .interruption import INTERRUPTED, Loading

COMMANDS = "logwitness.commands"
_UNUSABLE = 2
_BROKEN_PIPE = 141


class Commands(click.Group):
    """Our own sub-commands and those that installed parts add, each loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all sub-commands, ours and those of entry points, sorted."""
        return sorted({*super().list_commands(ctx), *metadata.entry_points(group=COMMANDS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command; one that cannot be loaded becomes a command that says why, on one line."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for point in metadata.entry_points(group=COMMANDS, name=cmd_name):
            try:
                with Loading():
                    loaded = point.load()
            except ImportError as problem:
                return _missing(cmd_name, not_installed(problem))
            except AttributeError as problem:
                return _missing(cmd_name, " ".join(str(problem).split()))
            return loaded if isinstance(loaded, click.Command) else _missing(cmd_name, "it is not a command")
        return None

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        """Run the sub-command. A reader of our output who has gone is told apart here: click and rich exit with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _nobody_reads()
        except KeyboardInterrupt:
            raise click.Abort from None  # click itself would put an empty line before ours
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):
                _nobody_reads()
            raise

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401
        """Run, and end with the project's exit statuses: 1 only ever means that something is violated."""
        kwargs["standalone_mode"] = False
        try:
            status = super().main(*args, **kwargs)
        except click.Abort:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once more would end it with a trace
            click.echo("logwitness: interrupted", err=True)
            sys.exit(INTERRUPTED)
        except click.ClickException as problem:
            if isinstance(problem, click.UsageError) and problem.ctx is not None:
                click.echo(problem.ctx.get_usage(), err=True)
            click.echo(f"logwitness: {problem.format_message()}", err=True)
            sys.exit(_UNUSABLE)
        except OSError as problem:
            # The commands tell of files themselves; what is left is their own output, on a full disk for instance.
            _write_nothing_more()
            failure = f"{problem.filename or 'standard output'}: {problem.strerror or problem}"
            click.echo(f"logwitness: {failure}: make room, or write somewhere else", err=True)
            sys.exit(_UNUSABLE)
        except MemoryError:
            click.echo("logwitness: out of memory: allow the process more", err=True)
            sys.exit(_UNUSABLE)
        except Exception:  # a fault of ours is no verdict, and Python would end with 1
            traceback.print_exc()
            sys.exit(_UNUSABLE)
        sys.exit(status if isinstance(status, int) else 0)


def _nobody_reads() -> NoReturn:
    _write_nothing_more()
    sys.exit(_BROKEN_PIPE)


def _write_nothing_more() -> None:
    """Keep the interpreter from trying again, at its exit, to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _missing(name: str, reason: str) -> click.Command:
    def refuse(**_: object) -> None:
        raise click.ClickException(f"`logwitness {name}` is not available: {reason}")

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
        short_help=f"(not available: {reason})",
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="logwitness", prog_name="logwitness")
def main() -> None:
    """Record, simulate and judge histories of replicated logs.

    \b
    logwitness check runs/demo     judge a recorded run
    logwitness checks              list the checks and their rules
    logwitness explain skip        a rule, its source, a history that breaks it
    logwitness check --help        describe a command

    Exit status of every command that judges: 0 everything holds; 1 a rule is violated; 2 bad usage or unreadable
    input; 3 undecided, or a required check had nothing to judge.
    """


main.add_command(check_command)
main.add_command(checks_command)
main.add_command(explain_command)
