"""``logwitness validate``: everything that can be said about a set of rules, in one table.

The stages are whatever is installed under the entry point group ``logwitness.validators``, each a function
``(rules file or None, seeds, say, protocol) -> iterator of results``, so that nothing is imported here that the checker
must stay independent of. A result is a dictionary: ``stage``, ``item``, ``verdict`` (holds, violated, undecided),
``sentence``, ``again`` (the commands that show it again) and ``shows`` (text that belongs to it, such as a
counterexample).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from .engine.run import HOLDS, UNDECIDED, VIOLATED
from .extras import not_installed

STAGES = "logwitness.validators"
RUNS = "logwitness.runs"
DEFAULT_SEEDS = 210
"""Some thirty runs under each of the simulator's settings: a minute or so on two cores."""

Result = dict[str, Any]
Stage = Callable[[Path | None, int, Callable[[str], None], str], Iterator[Result]]

_ORDER = ("simulation", "traces", "proofs")


def _stages() -> list[str]:
    names = set(metadata.entry_points(group=STAGES).names)
    return [*(name for name in _ORDER if name in names), *sorted(names - set(_ORDER))]


def _known_stages(ctx: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    known = _stages()
    for name in names:
        if name not in known:
            raise click.BadParameter(f"no stage is called {name!r}; there are: {', '.join(known) or 'none installed'}")
    return names


@click.command("validate", short_help="Find out what a changed rule breaks.")
@click.option("--rules", type=click.Path(path_type=Path), metavar="FILE", help="Your rules; default: the reference.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1_000_000),
    default=DEFAULT_SEEDS,
    show_default=True,
    help="Runs to simulate.",
)
@click.option("--protocol", metavar="NAME", help="The protocol; default: that of the rules.")
@click.option("--only", multiple=True, metavar="STAGE", callback=_known_stages, help="Only this stage (repeatable).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
@click.pass_context
def validate_command(
    ctx: click.Context, rules: Path | None, seeds: int, protocol: str | None, only: tuple[str, ...], as_json: bool
) -> None:
    """Find out what a changed rule breaks: by simulation, by traces against the specification, by proof.

    \b
    logwitness validate                          the reference
    logwitness validate --rules my_rules.py      your change
    logwitness validate --rules my_rules.py --only proofs

    FILE is Python that defines functions named like rules (see quorumlog/raft/rules.py); they replace those of the
    reference. The file is executed, so give only one that you trust. Each violation comes with a seed, an event of a
    trace or a counterexample, and with the command that reproduces it.

    Exit status: 0 everything holds; 1 something is violated; 2 the file defines no rules; 3 something is undecided.
    """
    meant = _protocol(protocol, rules)
    began = time.monotonic()
    results: list[Result] = []
    stages = [name for name in _stages() if not only or name in only]
    if not stages:
        raise click.UsageError("no stages of validation are installed; install the distribution with its entry points")
    for name in stages:
        with _Line(enabled=not as_json) as say:
            started = time.monotonic()
            found = list(_run(name, rules, seeds, say, meant))
            took = time.monotonic() - started
        for result in found:
            result["seconds"] = round(took, 1)
        results += found
    status = _status(results)
    if as_json:
        document = {
            "rules": None if rules is None else str(rules),
            "verdict": {HOLDS: "holds", VIOLATED: "violated"}.get(status, "undecided"),
            "results": results,
            "seconds": round(time.monotonic() - began, 1),
            "exit_status": status,
        }
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        _print(rules, stages, results, time.monotonic() - began)
    ctx.exit(status)


def _protocol(name: str | None, rules: Path | None) -> str:
    """The name of the protocol that is validated. Refuses a rules file that no stage could use."""
    for point in metadata.entry_points(group=RUNS, name="protocol"):
        try:
            meant: str = point.load()(name, rules=rules)
        except ValueError as problem:
            raise click.ClickException(str(problem)) from None
        except ImportError as problem:
            raise click.ClickException(f"the implementation cannot be loaded: {problem}") from None
        return meant
    if name is None:
        raise click.ClickException("no implementation is installed; install one, or name a protocol with --protocol")
    return name


def _run(name: str, rules: Path | None, seeds: int, say: Callable[[str], None], protocol: str) -> Iterator[Result]:
    """The results of a stage; one that cannot run, or breaks down, is undecided and says why."""
    try:
        point = next(iter(metadata.entry_points(group=STAGES, name=name)))
        stage: Stage = point.load()
        yield from stage(rules, seeds, lambda text: say(f"{name}: {text}"), protocol)
    except ImportError as problem:
        yield _undecided(name, "stage", f"not available: {not_installed(problem)}")
    except Exception as problem:  # the other stages have answers all the same
        said = " ".join(str(problem).split())
        yield _undecided(name, "stage", f"failed: {type(problem).__name__}: {said}")


def _undecided(stage: str, item: str, sentence: str) -> Result:
    return {"stage": stage, "item": item, "verdict": "undecided", "sentence": sentence, "again": [], "shows": ""}


def _status(results: Sequence[Result]) -> int:
    verdicts = {result["verdict"] for result in results}
    if "violated" in verdicts:
        return VIOLATED
    return HOLDS if verdicts == {"holds"} else UNDECIDED


class _Line:
    """One line on a terminal that says how far it is; nothing elsewhere."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled and sys.stderr.isatty()

    def __enter__(self) -> Callable[[str], None]:
        return self._say

    def __exit__(self, *_: object) -> None:
        self._say("")

    def _say(self, text: str) -> None:
        if self._enabled:
            sys.stderr.write(f"\r\x1b[K{text[:120]}")
            sys.stderr.flush()


def _print(rules: Path | None, stages: Sequence[str], results: Sequence[Result], took: float) -> None:
    from .report.validation import print_validation

    print_validation("the reference" if rules is None else str(rules), stages, results, took)
