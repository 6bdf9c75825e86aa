"""The command ``logwitness simulate``.

Exit statuses: 0 done; 1 the run broke off; 2 bad usage or unreadable input.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from loghistory import Format, HistoryError
from quorumlog.durations import format_duration
from quorumlog.events import CoreFactory
from quorumlog.faults import FaultPlanError, Plan, plan_from_json
from quorumlog.hunting.options import Duration, protocol_option, read_file, refuse
from quorumlog.protocol import SWARM, Protocol, ProtocolError, every, find
from quorumlog.rules_file import RulesFileError, read_rules
from quorumlog.run_directory import NoRoomError, check_command, check_room
from quorumlog.simulation.cluster import Outcome
from quorumlog.simulation.configuration import ClusterConfiguration, ConfigurationError, configuration_from_json
from quorumlog.simulation.runs import made_by, save_run


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says; the fields are its options."""

    seed: int | None
    protocol: str | None
    setting: str | None
    configuration: str | None
    nodes: int | None
    duration: int | None
    clients: int | None
    schedule: int | None
    faults: str | None
    write_caching: bool | None
    messages: bool | None
    mutant: str | None
    rules: str | None
    output: str | None
    force: bool
    format_: str


class _Simulate(click.Command):
    """The command, whose help ends with the settings that there are."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings of each protocol, none broken at a hyphen."""
        with formatter.section("Settings"):
            for each in every():
                formatter.write(f"  {each.name}\n")
                names = ", ".join(dict.fromkeys([*each.settings, SWARM]))
                for line in textwrap.wrap(names, formatter.width - 4, break_on_hyphens=False):
                    formatter.write(f"    {line}\n")


@click.command(cls=_Simulate)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="The number that decides everything; random if omitted."
)
@protocol_option
@click.option("--setting", metavar="NAME", help="The conditions of the run; see below.  [default: default]")
@click.option(
    "--configuration", metavar="FILE", help="Take everything but the seed from a manifest, or from its configuration."
)
@click.option("--nodes", type=click.IntRange(1, 31), help="How many nodes.")
@click.option("--duration", type=Duration(), help="Virtual time of load and faults, such as 3s or 500ms.")
@click.option("--clients", type=click.IntRange(0, 10_000), help="How many clients.")
@click.option(
    "--schedule", type=click.IntRange(0, 2**31 - 1), help="Draw other delays and operations with the same seed."
)
@click.option("--faults", metavar="FILE|JSON", help="A fault plan instead of a random one; '[]' for none.")
@click.option("--write-caching/--no-write-caching", default=None, help="Acknowledge acks=all without a flush.")
@click.option("--messages/--no-messages", default=None, help="Record every message.")
@click.option("--mutant", metavar="ID", help="Run a known fault of the protocol instead of the reference.")
@click.option("--rules", metavar="FILE", help="Run your own rules: a Python file that redefines some; it is executed.")
@click.option("-o", "--output", metavar="DIR", help="The run directory.  [default: out/simulated-SEED]")
@click.option("--force", is_flag=True, help="Replace an existing run.")
@click.option("--format", "format_", type=click.Choice([f.value for f in Format]), default="jsonl", show_default=True)
def simulate(**options: Any) -> None:  # noqa: ANN401
    """Simulate a cluster under faults and record what happened.

    Time is virtual and one seed decides everything: the same seed and configuration give the same run, byte for byte.

    \b
    logwitness simulate --seed 7
    logwitness simulate --seed 7 --setting lost-power --output runs/seed-7
    """
    asked = _Asked(**options)
    if asked.setting is not None and asked.configuration is not None:
        refuse("--setting and --configuration cannot be combined; a configuration has everything but the seed")
    if asked.mutant is not None and asked.rules is not None:
        refuse("--mutant and --rules cannot be combined; each says which rules are run")
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    try:
        protocol, make_core, configuration = _asked_for(asked, seed)
    except (ProtocolError, RulesFileError) as error:
        refuse(str(error))
    configuration = _changed(protocol, configuration, asked)
    name = f"simulated-{seed}" + (f"-{asked.mutant}" if asked.mutant is not None else "")
    directory = Path(asked.output) if asked.output is not None else Path("out") / name
    try:
        check_room(directory, force=asked.force)
    except (NoRoomError, OSError) as error:
        refuse(str(error) if isinstance(error, NoRoomError) else f"{directory}: {error.strerror}")
    click.echo(f"seed {seed}")
    began = time.monotonic()
    try:
        table, outcome = protocol.simulate(seed, configuration, make_core)
    except (LookupError, ValueError) as error:
        click.echo(f"the core contradicted its own log and the run failed: {error}", err=True)
        sys.exit(1)
    except Exception as error:
        if asked.rules is None:
            raise
        click.echo(f"{asked.rules}: the rules made the run fail: {type(error).__name__}: {error}", err=True)
        sys.exit(1)
    rules = None if asked.rules is None else Path(asked.rules)
    try:
        made = made_by(protocol.name, seed, configuration, asked.mutant, rules)
        _save(directory, table, made, Format(asked.format_))
    except HistoryError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{directory}: cannot write the run: {error.strerror}")
    if SWARM in (asked.setting, None if asked.mutant is None else protocol.mutants[asked.mutant].setting):
        click.echo(f"drew {configuration.summary}")
    _show_outcome(outcome, configuration, len(table), time.monotonic() - began)
    click.echo(f"run in {directory}; judge it with: {check_command(directory)}")


def _asked_for(asked: _Asked, seed: int) -> tuple[Protocol, CoreFactory, ClusterConfiguration]:
    """The protocol, the factory of its cores, and the configuration before it is changed.

    Raises ProtocolError and RulesFileError.
    """
    name, plain = asked.protocol, None
    if asked.configuration is not None:
        made_of, plain = _read_configuration(asked.configuration)
        name = name or made_of
    if asked.rules is not None:
        protocol, rules = read_rules(asked.rules, name)
        make_core = protocol.core_of(rules)
        protocol = find(protocol.name, setting=asked.setting)
    else:
        found = find(name, mutant=asked.mutant, setting=asked.setting, configuration=plain)
        protocol = found.mutated(asked.mutant)
        make_core = protocol.core
    if plain is not None:
        try:
            return protocol, make_core, configuration_from_json(plain, protocol.configuration)
        except (ConfigurationError, FaultPlanError) as error:
            refuse(f"{asked.configuration}: {error}")
    setting = asked.setting or next(iter(protocol.settings))
    if asked.setting is None and asked.mutant is not None:
        setting = protocol.mutants[asked.mutant].setting
    return protocol, make_core, protocol.configured(setting, seed)


def _read_configuration(path: str) -> tuple[str | None, Mapping[str, Any]]:
    """The protocol that a manifest names, if it does, and the configuration as plain data."""
    text = read_file(path, "configuration")
    try:
        plain = json.loads(text)
    except ValueError as error:
        refuse(f"{path}: not JSON: {error}; give what stands under made_by.configuration in a manifest")
    name = None
    if isinstance(plain, dict) and "made_by" in plain:
        made = plain["made_by"] if isinstance(plain["made_by"], dict) else {}
        name, plain = made.get("protocol"), made.get("configuration")
    if not isinstance(plain, dict) or not isinstance(name, str | None):
        refuse(f"{path}: holds no configuration; give a manifest of a simulated run, or what is in its made_by")
    return name, plain


def _changed(protocol: Protocol, configuration: ClusterConfiguration, asked: _Asked) -> ClusterConfiguration:
    """The configuration, changed as the options say."""
    clients = asked.clients
    given = {
        "nodes": asked.nodes,
        "duration": asked.duration,
        "schedule": asked.schedule,
        "plan": _plan(asked.faults),
        "write_caching": asked.write_caching,
        "messages": asked.messages,
        "workload": None if clients is None else replace(configuration.workload, clients=clients),
    }
    changes = {name: value for name, value in given.items() if value is not None}
    for name in changes:
        if name not in configuration.__struct_fields__:
            refuse(f"{protocol.name} has no option {name.replace('_', ' ')}; leave out --{name.replace('_', '-')}")
    try:
        return replace(configuration, **changes)
    except ConfigurationError as error:
        refuse(str(error))


def _plan(faults: str | None) -> Plan | None:
    """The fault plan given as JSON text or as the name of a file with it."""
    if faults is None:
        return None
    inline = faults.lstrip().startswith(("[", "{"))
    try:
        return plan_from_json(faults if inline else read_file(faults, "fault plan"))
    except FaultPlanError as error:
        refuse(str(error) if inline else f"{faults}: {error}")


def _save(directory: Path, table: Any, made: dict[str, Any], format: Format) -> None:  # noqa: A002, ANN401
    """Write a run beside an older one, then put it in its place."""
    if not directory.exists():
        save_run(directory, table, made, format)
        return
    fresh = directory.with_name(f"{directory.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    save_run(fresh, table, made, format, directory.name)
    shutil.rmtree(directory)
    fresh.rename(directory)


_OPERATIONS = {
    "append": "appends",
    "read": "reads",
    "read_committed": "reads of committed",
    "read_linearizable": "linearizable reads",
    "tail": "tail reads",
}
_UNSUCCESSFUL = {"fail": "failed", "info": "unknown"}


def _show_outcome(outcome: Outcome, configuration: ClusterConfiguration, events: int, took: float) -> None:
    """What happened, as a table."""
    counts = outcome.counts
    faults: dict[str, int] = {}
    for fault in outcome.plan:
        faults[fault.name] = faults.get(fault.name, 0) + 1
    caching = ", write caching" if getattr(configuration, "write_caching", False) else ""
    rows = [
        ("nodes", f"{configuration.nodes}{caching}"),
        ("virtual time", f"{format_duration(outcome.time)}, simulated in {took:.2f} s"),
        ("faults", _list({name: faults[name] for name in sorted(faults)}) or "none"),
    ]
    if counts["leader"]:
        rows.append(("elections won", str(counts["leader"])))
    asked = {key.rpartition(" ")[0] for key in counts if key.count(" ") == 1} - {"final_read"}
    for f in sorted(asked, key=lambda f: (list(_OPERATIONS).index(f) if f in _OPERATIONS else len(_OPERATIONS), f)):
        outcomes = {"ok": counts[f"{f} ok"], **_reasons(counts, f, "fail"), **_reasons(counts, f, "info")}
        rows.append((_OPERATIONS.get(f, f), _list(outcomes)))
    log = _list({kind: counts[kind] for kind in ("append", "flush", "truncate", "commit", "visible")})
    if log:
        rows.append(("log", log))
    if outcome.livelock:
        rows.append(("livelock", outcome.livelock))
    else:
        rows.append(("after healing", "converged" if outcome.converged else "did NOT converge"))
    rows.append(("history", f"{events} events"))
    if not sys.stdout.isatty():
        # Nothing is folded in a pipe or a file, so that grep finds it whole.
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            click.echo(f"{name:<{width}} {value}")
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _reasons(counts: Mapping[str, int], f: str, kind: str) -> dict[str, int]:
    prefix = f"{f} {kind} "
    found = {key.removeprefix(prefix): number for key, number in sorted(counts.items()) if key.startswith(prefix)}
    return {f"{_UNSUCCESSFUL[kind]} ({reason.replace('_', ' ')})": number for reason, number in found.items()}


def _list(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items() if number)
