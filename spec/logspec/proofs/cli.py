"""``logwitness spec prove``: run the proofs, or some of them, on the installed rules or on a developer's."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from logspec.proofs import catalogue
from logspec.proofs.catalogue import PROOFS, TIMEOUT
from logspec.proofs.claims import ProofResult
from logspec.proofs.rules import RulesError, load_rules

FAILED, BAD_USAGE, UNDECIDED = 1, 2, 3


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "listing", is_flag=True, help="Print the proofs and what they claim, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option(
    "--rules",
    "rules_path",
    type=click.Path(path_type=Path),
    help="Prove the rules of this Python file (RULES, or functions with names of rules) instead of the installed ones.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=TIMEOUT, show_default=True, help="Seconds for each goal."
)
@click.option("--verbose", "-v", is_flag=True, help="Print every claim, and the counterexamples of the twins too.")
def prove(
    names: tuple[str, ...], listing: bool, as_json: bool, rules_path: Path | None, timeout: float, verbose: bool
) -> None:
    """Prove the decision rules that the implementation runs.

    NAME is a proof (see --list), or a claim or twin of one, such as raft-safety/reply or acks/twin. Exit status: 0
    every answer is the expected one; 1 a claim has a counterexample, or a twin that must fail does not; 2 bad usage;
    3 undecided.

    \b
    logwitness spec prove --list
    logwitness spec prove acks
    """
    if listing:
        _print_list(as_json)
        return
    console = Console(stderr=True, highlight=False)
    try:
        rules = None if rules_path is None else load_rules(rules_path)
        with console.status("proving") as status:
            results = catalogue.prove(
                names or None,
                rules,
                timeout=timeout,
                progress=lambda result: status.update(f"proving: {escape(result.name)} {result.answer}"),
            )
    except KeyError as error:
        _refuse(f"there is no proof or claim {error.args[0]}; the proofs are {', '.join(PROOFS)}")
    except RulesError as error:
        _refuse(str(error))
    if as_json:
        click.echo(json.dumps([{**asdict(result), "ok": result.ok} for result in results], indent=1))
    else:
        _print_results(results, verbose)
    sys.exit(exit_status(results))


def exit_status(results: Sequence[ProofResult]) -> int:
    """0 all as expected; 3 if the solver gave up or could not read a rule somewhere and nothing is refuted; else 1."""
    wrong = [result for result in results if not result.ok]
    if not wrong:
        return 0
    return UNDECIDED if all(result.answer in ("unknown", "unsupported") for result in wrong) else FAILED


def _refuse(message: str) -> None:
    click.echo(f"logwitness: {message}", err=True)
    sys.exit(BAD_USAGE)


def _print_list(as_json: bool) -> None:
    if as_json:
        found = [
            {
                "name": proof.name,
                "source": proof.source,
                "statement": proof.statement,
                "covers": proof.covers,
                "assumes": proof.assumes,
                "twins": [{"name": twin.name, "why": twin.why} for twin in proof.twins],
            }
            for proof in PROOFS.values()
        ]
        click.echo(json.dumps(found, indent=1))
        return
    for proof in PROOFS.values():
        click.echo(f"{proof.name}: {proof.statement}\n  source: {', '.join(proof.source)}\n  covers: {proof.covers}")
        for assumed in proof.assumes:
            click.echo(f"  assumes: {assumed}")
        for twin in proof.twins:
            click.echo(f"  must fail: {twin.name} ({twin.why})")


def _print_results(results: Sequence[ProofResult], verbose: bool) -> None:
    """Print one line per proof with what it assumes, and in full what is not as expected."""
    for name in PROOFS:
        mine = [result for result in results if result.name.split("/")[0] == name]
        if not mine:
            continue
        twins = [result for result in mine if "/twin/" in result.name]
        wrong = [result for result in mine if not result.ok]
        seconds = sum(result.seconds for result in mine)
        verdict = "FAILED" if wrong else "proved" if len(mine) > len(twins) else "refuted"
        counts = f"{_counted(len(mine) - len(twins), 'claim'):>11} {_counted(len(twins), 'twin'):>9}"
        click.echo(f"{verdict:8}{name:14}{counts} {seconds:7.1f} s")
        for assumed, by in _assumed(mine).items():
            whose = "" if len(by) == len(mine) - len(twins) else f"{', '.join(by)}: "
            click.echo(f"  assumes: {whose}{assumed}")
        for result in mine if verbose else wrong:
            mark = "" if result.ok else f", expected {result.expected}"
            click.echo(f"  {result.name}: {result.answer}{mark} ({result.seconds:.2f} s)")
            if result.counterexample:
                click.echo("    " + result.counterexample.replace("\n", "\n    "))


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _assumed(results: Sequence[ProofResult]) -> dict[str, list[str]]:
    """What claims take for granted, and which claims do."""
    found: dict[str, list[str]] = {}
    for result in results:
        for assumed in result.assumes if "/twin/" not in result.name else ():
            name = result.name.partition("/")[2]
            found.setdefault(assumed, []).append(name)
    return {assumed: by for assumed, by in found.items() if by}
