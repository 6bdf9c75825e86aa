"""The command ``logwitness hunt``.

Exit statuses: 0 the mutant was caught or the reference survived; 1 the opposite; 2 bad usage or unreadable input.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click
import msgspec

from quorumlog.hunting.hunt import hunt as run_hunt
from quorumlog.hunting.judge import Candidate, NoJudgeError, Rejection, load_judge, show_again
from quorumlog.hunting.options import protocol_option, refuse
from quorumlog.hunting.parallel import HelperError
from quorumlog.hunting.shrinking import shrunk
from quorumlog.protocol import SWARM, ProtocolError, every, find
from quorumlog.rules_file import RulesFileError, read_rules

DEFAULT_SEEDS = 2000


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says; the fields are its options."""

    list_: bool
    protocol: str | None
    mutant: str | None
    all_: bool
    reference: bool
    rules: str | None
    setting: str | None
    seeds: int
    start: int
    processes: int

    @property
    def budget(self) -> range:
        return range(self.start, self.start + self.seeds)


@click.command(short_help="Find a seed whose run the checker rejects.")
@click.option("--list", "list_", is_flag=True, help="Print the ids of the mutants, one per line.")
@protocol_option
@click.option("--mutant", metavar="ID", help="Hunt this mutant: find a run that the checker rejects.")
@click.option("--all", "all_", is_flag=True, help="Hunt every mutant.")
@click.option("--reference", is_flag=True, help="Run the reference; no run may be rejected.")
@click.option("--rules", metavar="FILE", help="Run your own rules: a Python file, which is executed.")
@click.option("--setting", metavar="NAME", help="One setting for all runs; otherwise seeds draw their own.")
@click.option(
    "--seeds", type=click.IntRange(1, 10**9), default=DEFAULT_SEEDS, show_default=True, help="How many seeds to try."
)
@click.option("--seed", "start", type=click.IntRange(0, 2**62), default=0, show_default=True, help="The first seed.")
@click.option("--processes", type=click.IntRange(1, 256), default=2, show_default=True, help="Helper processes.")
def hunt(**options: Any) -> None:  # noqa: ANN401
    """Search for a seed whose run the checker rejects, and shrink its faults.

    Exits with 0 if the mutant was caught (or the reference, or your rules, survived), with 1 if not.

    \b
    logwitness hunt --mutant ack-without-term
    logwitness hunt --reference --seeds 200
    logwitness hunt --rules my_rules.py --seeds 500
    """
    asked = _Asked(**options)
    if asked.list_ + asked.all_ + asked.reference + (asked.mutant is not None) + (asked.rules is not None) != 1:
        refuse("give one of --mutant ID, --all, --reference, --rules FILE, --list")
    try:
        if asked.list_:
            for mutant in _all_mutants(asked):
                click.echo(mutant.mutant)
            return
        load_judge()
        good = _hunt_all(asked) if asked.all_ else _hunt_one(_candidate(asked), asked.budget, asked.processes)
    except (NoJudgeError, ImportError, ProtocolError, RulesFileError, HelperError) as error:
        refuse(str(error))
    except TimeoutError as late:
        click.echo(late, err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    sys.exit(0 if good else 1)


def _candidate(asked: _Asked) -> Candidate:
    """Whom to hunt. Raises ProtocolError and RulesFileError."""
    if asked.rules is not None:
        of = read_rules(asked.rules, asked.protocol)[0]
        return Candidate(find(of.name, setting=asked.setting).name, rules=asked.rules, under=asked.setting)
    of = find(asked.protocol, mutant=asked.mutant, setting=asked.setting)
    return Candidate(of.name, asked.mutant, under=asked.setting)


def _all_mutants(asked: _Asked) -> list[Candidate]:
    """The mutants of the protocol asked for, or of every protocol. Raises ProtocolError."""
    known = every(asked.protocol) if asked.setting is None else [find(asked.protocol, setting=asked.setting)]
    return [Candidate(each.name, mutant, under=asked.setting) for each in known for mutant in each.hunted]


def _hunt_all(asked: _Asked) -> bool:
    """Hunt every mutant; whether all were caught."""
    candidates = _all_mutants(asked)
    found = sum(_hunt_one(each, asked.budget, asked.processes) for each in candidates)
    click.echo(f"{found} of {len(candidates)} mutants were caught")
    return found == len(candidates)


def _hunt_one(candidate: Candidate, seeds: range, processes: int) -> bool:
    """Hunt and print what came of it; return whether it ended as it should."""
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
        click.echo(f"{who}: {candidate.of.mutants[candidate.mutant].change}")
        click.echo(
            f"  found    seed {found.seed}, number {found.seed - seeds.start + 1} of {len(seeds)} ({took:.1f} s)"
        )
    if found.setting == SWARM:
        click.echo(f"  drew     {found.configuration.summary}")
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
    directory = f"out/hunted-{who}-{small.seed}"
    make, judge = show_again(candidate, small.seed, small.setting, small.configuration, directory)
    return [f"again    {make}", f"         {judge}"]


def _progress(budget: int) -> Callable[[int], None]:
    """Counts seeds on a terminal; says nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda tried: None

    def show(tried: int) -> None:
        sys.stderr.write(f"\r{tried} of {budget} seeds\r")
        sys.stderr.flush()

    return show
