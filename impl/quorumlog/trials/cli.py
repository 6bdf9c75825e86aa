"""The commands ``logwitness simulate`` and ``logwitness hunt``.

Exit statuses: 0 done (simulate), the mutant was found out or the reference survived (hunt); 1 the contrary; 2 bad
usage or unreadable input.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import click
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from loghistory import Format, HistoryError
from quorumlog.durations import format_duration, parse_duration
from quorumlog.faults import FaultPlanError, Plan, plan_from_json
from quorumlog.protocol import Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.settings import SETTINGS
from quorumlog.rules_file import RulesFileError, core_of, load_rules
from quorumlog.run_directory import NoRoomError, check_command, check_room
from quorumlog.simulation.cluster import Outcome
from quorumlog.simulation.configuration import (
    ClusterConfiguration,
    ConfigurationError,
    configuration_from_json,
)
from quorumlog.simulation.runs import save_run
from quorumlog.simulation.runs import simulate as play
from quorumlog.trials.hunt import RUN_SECONDS
from quorumlog.trials.hunt import hunt as run_hunt
from quorumlog.trials.judging import Candidate, NoJudgeError, Rejection, load_judge, show_again, shrunk
from quorumlog.trials.parallel import HelperError

DEFAULT_SEEDS = 2000
_MOST_BYTES = 16 << 20
"""No configuration or fault plan comes near it."""


class _Refused(click.ClickException):
    exit_code = 2


def _refuse(problem: str) -> NoReturn:
    raise _Refused(problem)


class _Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _read(path: str, what: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            _refuse(f"{path}: more than {_MOST_BYTES} bytes are no {what}; give another file")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        _refuse(f"{path}: cannot read the {what}: {reason}; give a file that can be read")


def _plan(faults: str | None) -> Plan | None:
    """The fault plan given as JSON text or as the name of a file with it."""
    if faults is None:
        return None
    inline = faults.lstrip().startswith(("[", "{"))
    try:
        return plan_from_json(faults if inline else _read(faults, "fault plan"))
    except FaultPlanError as error:
        _refuse(str(error) if inline else f"{faults}: {error}")


def _mutant(name: str | None) -> Mutant | None:
    if name is None:
        return None
    if name not in MUTANTS:
        _refuse(f"mutant {name!r} is unknown; `logwitness hunt --list` names them all")
    return MUTANTS[name]


def _configuration(path: str | None, setting: str) -> ClusterConfiguration:
    if path is None:
        return SETTINGS[setting]
    text = _read(path, "configuration")
    try:
        plain = json.loads(text)
    except ValueError as error:
        _refuse(f"{path}: not JSON: {error}; give what stands under made_by.configuration in a manifest")
    if isinstance(plain, dict) and "made_by" in plain:
        plain = plain["made_by"].get("configuration") if isinstance(plain["made_by"], dict) else None
    if not isinstance(plain, dict):
        _refuse(f"{path}: holds no configuration; give a manifest of a simulated run, or what is in its made_by")
    try:
        return configuration_from_json(plain)
    except (ConfigurationError, FaultPlanError) as error:
        _refuse(f"{path}: {error}")


def _save(directory: Path, write: Callable[[Path], object]) -> None:
    """Write a run beside an older one, then put it in its place."""
    if not directory.exists():
        write(directory)
        return
    fresh = directory.with_name(f"{directory.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    write(fresh)
    shutil.rmtree(directory)
    fresh.rename(directory)


@click.command()
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Decides everything; a random one if left out.")
@click.option(
    "--setting",
    type=click.Choice(list(SETTINGS)),
    metavar="NAME",
    help=f"Which kind of trouble: {', '.join(SETTINGS)}.  [default: default]",
)
@click.option("--configuration", metavar="FILE", help="Everything but the seed: a manifest, or its configuration.")
@click.option("--nodes", type=click.IntRange(1, 31), help="How many nodes.")
@click.option("--duration", type=_Duration(), help="Virtual time of load and faults, like 3s or 500ms.")
@click.option("--clients", type=click.IntRange(0, 10_000), help="How many clients.")
@click.option("--faults", metavar="FILE|JSON", help="A fault plan instead of a drawn one; '[]' for none.")
@click.option("--write-caching/--no-write-caching", default=None, help="acks=all without a flush.")
@click.option("--messages/--no-messages", default=None, help="Record every message.")
@click.option("--mutant", metavar="ID", help="Run a known fault of the protocol instead of the reference.")
@click.option("--rules", metavar="FILE", help="Run your own rules: Python that defines some anew. It is executed.")
@click.option("-o", "--output", metavar="DIR", help="The run directory.  [default: out/simulated-SEED]")
@click.option("--force", is_flag=True, help="Replace a run that is there.")
@click.option("--format", "format_", type=click.Choice([f.value for f in Format]), default="jsonl", show_default=True)
def simulate(
    seed: int | None,
    setting: str | None,
    configuration: str | None,
    nodes: int | None,
    duration: int | None,
    clients: int | None,
    faults: str | None,
    write_caching: bool | None,
    messages: bool | None,
    mutant: str | None,
    rules: str | None,
    output: str | None,
    force: bool,
    format_: str,
) -> None:
    """Simulate a cluster under faults and record what happened.

    Time is virtual and one seed decides everything: the same seed and configuration give the same run, byte for byte.

    \b
    logwitness simulate --seed 7
    logwitness simulate --seed 7 --setting lost-power --output runs/seed-7
    """
    if setting is not None and configuration is not None:
        _refuse("--setting and --configuration exclude each other; a configuration says everything but the seed")
    if mutant is not None and rules is not None:
        _refuse("--mutant and --rules exclude each other; both say which rules are run")
    chosen = _mutant(mutant)
    try:
        make_core = core_of(rules) if rules is not None else RaftCore if chosen is None else chosen.make_core
    except RulesFileError as error:
        _refuse(str(error))
    setting = setting or (chosen.setting if chosen is not None else "default")
    given = _configuration(configuration, setting)
    changes = {
        "nodes": nodes,
        "duration": duration,
        "plan": _plan(faults),
        "write_caching": write_caching,
        "messages": messages,
        "workload": None if clients is None else replace(given.workload, clients=clients),
    }
    try:
        given = replace(given, **{name: value for name, value in changes.items() if value is not None})
    except ConfigurationError as error:
        _refuse(str(error))
    seed = secrets.randbelow(2**32) if seed is None else seed
    name = f"simulated-{seed}" + (f"-{chosen.id}" if chosen is not None else "")
    directory = Path(output) if output is not None else Path("out") / name
    try:
        check_room(directory, force=force)
    except (NoRoomError, OSError) as error:
        _refuse(str(error) if isinstance(error, NoRoomError) else f"{directory}: {error.strerror}")
    click.echo(f"seed {seed}")
    began = time.monotonic()
    try:
        table, outcome = play(seed, given, make_core)
    except (LookupError, ValueError) as error:
        click.echo(f"the core contradicted its own log and the run broke off: {error}", err=True)
        sys.exit(1)
    except Exception as error:
        if rules is None:
            raise
        click.echo(f"{rules}: the rules broke the run off: {type(error).__name__}: {error}", err=True)
        sys.exit(1)
    try:
        save = partial(
            save_run,
            table=table,
            seed=seed,
            configuration=given,
            mutant=mutant,
            rules=None if rules is None else Path(rules),
            format=Format(format_),
            name=directory.name,
        )
        _save(directory, save)
    except HistoryError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{directory}: cannot write the run: {error.strerror}")
    _tell(outcome, given, len(table), time.monotonic() - began)
    click.echo(f"run in {directory}; judge it with: {check_command(directory)}")


_OPERATIONS = {"append": "appends", "read": "reads", "read_committed": "reads of committed", "tail": "tail reads"}


def _tell(outcome: Outcome, configuration: ClusterConfiguration, events: int, took: float) -> None:
    """What happened, as a table."""
    counts = outcome.counts
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    faults: dict[str, int] = {}
    for fault in outcome.plan:
        faults[fault.name] = faults.get(fault.name, 0) + 1
    table.add_row("nodes", str(configuration.nodes) + (", write caching" if configuration.write_caching else ""))
    table.add_row("virtual time", f"{format_duration(outcome.time)}, simulated in {took:.2f} s")
    table.add_row("faults", _list({name: faults[name] for name in sorted(faults)}) or "none")
    table.add_row("elections won", str(counts["leader"]))
    for f, name in _OPERATIONS.items():
        endings = {
            "ok": counts[f"{f} ok"],
            **_endings(counts, f"{f} fail", "failed"),
            **_endings(counts, f"{f} info", "unknown"),
        }
        if any(endings.values()):
            table.add_row(name, _list(endings))
    table.add_row("log", _list({k: counts[k] for k in ("append", "flush", "truncate", "commit", "visible")}))
    table.add_row("after healing", "converged" if outcome.converged else "did NOT converge")
    table.add_row("history", f"{events} events")
    Console().print(table)


def _endings(counts: dict[str, int], prefix: str, word: str) -> dict[str, int]:
    found = {k.removeprefix(prefix).strip(): n for k, n in sorted(counts.items()) if k.startswith(prefix + " ")}
    return {f"{word} ({reason.replace('_', ' ')})": number for reason, number in found.items()}


def _list(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items() if number)


@click.command()
@click.option("--list", "list_", is_flag=True, help="Print the ids of the mutants, one a line.")
@click.option("--mutant", metavar="ID", help="Hunt this mutant: find a run that the checker rejects.")
@click.option("--all", "all_", is_flag=True, help="Hunt every mutant.")
@click.option("--reference", is_flag=True, help="Run the reference under every setting; no run may be rejected.")
@click.option("--rules", metavar="FILE", help="The same with your own rules: Python that is executed.")
@click.option("--seeds", type=click.IntRange(1, 10**9), default=DEFAULT_SEEDS, show_default=True, help="The budget.")
@click.option("--seed", "start", type=click.IntRange(0, 2**62), default=0, show_default=True, help="The first seed.")
@click.option("--processes", type=click.IntRange(1, 256), default=2, show_default=True, help="How many work at once.")
def hunt(
    list_: bool,
    mutant: str | None,
    all_: bool,
    reference: bool,
    rules: str | None,
    seeds: int,
    start: int,
    processes: int,
) -> None:
    """Search for a seed whose run the checker rejects, and shrink its faults.

    Exits with 0 if the mutant was found out (or the reference, or your rules, survived), with 1 if not.

    \b
    logwitness hunt --mutant ack-without-term
    logwitness hunt --reference --seeds 200
    logwitness hunt --rules my_rules.py --seeds 500
    """
    if list_ + all_ + reference + (mutant is not None) + (rules is not None) != 1:
        _refuse("give one of --mutant ID, --all, --reference, --rules FILE, --list")
    if list_:
        for name in MUTANTS:
            click.echo(name)
        return
    _mutant(mutant)
    budget = range(start, start + seeds)
    try:
        load_judge()
        if rules is not None:
            load_rules(rules)
        if all_:
            survivors = [each for each in MUTANTS if not _hunt_one(Candidate(mutant=each), budget, processes)]
            click.echo(f"{len(MUTANTS) - len(survivors)} of {len(MUTANTS)} mutants were found out")
            good = not survivors
        else:
            good = _hunt_one(Candidate(mutant, rules), budget, processes)
    except (NoJudgeError, ImportError, RulesFileError, HelperError) as error:
        _refuse(str(error))
    except TimeoutError:
        click.echo(f"a run did not end within {RUN_SECONDS:g} s: the rules go round in circles", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    sys.exit(0 if good else 1)


def _hunt_one(candidate: Candidate, seeds: range, processes: int) -> bool:
    """Hunt and tell; whether it ended as it should."""
    began = time.monotonic()
    found = run_hunt(candidate, seeds, processes=processes, progress=_progress(len(seeds)))
    took = time.monotonic() - began
    who = candidate.mutant or candidate.rules or "the reference"
    if found is None:
        click.echo(f"{who} survived {len(seeds)} seeds from {seeds.start} on ({took:.1f} s)")
        return candidate.mutant is None
    small = shrunk(candidate, found)
    if candidate.mutant is None:
        click.echo(f"{who}: seed {found.seed} is rejected ({took:.1f} s)")
    else:
        click.echo(f"{who}: {MUTANTS[candidate.mutant].change}")
        click.echo(
            f"  found    seed {found.seed}, number {found.seed - seeds.start + 1} of {len(seeds)} ({took:.1f} s)"
        )
    click.echo(f"  check    {small.check}")
    if small.sentence:
        click.echo(f"  because  {small.sentence}")
    click.echo(f"  faults   {len(found.plan)}, {len(small.plan)} after shrinking")
    for line in _show_again(candidate, small):
        click.echo(f"  {line}")
    return candidate.mutant is not None


def _show_again(candidate: Candidate, small: Rejection) -> list[str]:
    """The commands that show a rejection again."""
    who = candidate.mutant or ("reference" if candidate.rules is None else "rules")
    make, judge = show_again(candidate, small.seed, small.setting, small.plan, f"out/hunted-{who}-{small.seed}")
    return [f"again    {make}", f"         {judge}"]


def _progress(budget: int) -> Callable[[int], None]:
    """Counts seeds on a terminal; says nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda tried: None

    def tell(tried: int) -> None:
        sys.stderr.write(f"\r{tried} of {budget} seeds\r")
        sys.stderr.flush()

    return tell
