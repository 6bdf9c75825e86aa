"""The command group ``logwitness spec``: check models with TLC, follow recorded runs, prove, fetch the tools."""

from __future__ import annotations

from importlib import import_module

import click

from logspec.check_command import check_command
from logspec.errors import SpecError, missing
from logspec.tlc import archive_classes
from logspec.toolchain import find_toolchain
from logspec.trace_command import trace_command

_LATER = {"prove": "logspec.proofs.cli:prove", "catalogue": "logspec.catalogue:catalogue"}


class _Group(click.Group):
    """Sub-commands that need an extra are loaded when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all sub-commands, sorted."""
        return sorted({*super().list_commands(ctx), *_LATER})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or a substitute that says in a sentence why it is missing."""
        if cmd_name not in _LATER:
            return super().get_command(ctx, cmd_name)
        module, _, name = _LATER[cmd_name].partition(":")
        try:
            command = getattr(import_module(module), name)
        except ModuleNotFoundError as problem:
            reason = f"`logwitness spec {cmd_name}` is not available: {missing(problem)}"

            def refuse(**_: object) -> None:
                raise click.ClickException(reason)

            whatever = {"ignore_unknown_options": True, "allow_extra_args": True}
            return click.Command(cmd_name, callback=refuse, short_help="(not available)", context_settings=whatever)
        return command if isinstance(command, click.Command) else None


@click.group(cls=_Group)
def spec() -> None:
    """Check the specifications, and recorded runs against them."""


@spec.command("setup")
def setup_command() -> None:
    """Fetch TLC and archive its classes, once, and print where it is.

    \b
    logwitness spec setup
    """
    try:
        tools = find_toolchain()
        if tools.version == "2.18":
            archive_classes(tools)
    except SpecError as problem:
        raise click.ClickException(str(problem)) from None
    click.echo(f"TLC {tools.version}: {tools.jar}")


spec.add_command(check_command)
spec.add_command(trace_command)
