"""Checking a model: run TLC and compare what came out with what the model declares.

A model that must hold fails on anything but a clean end, the pinned number of distinct states and every action
reached; one of random behaviours fails on anything but the end of its time; a model that must fail fails on anything
but the violation of the promise it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from logspec.errors import SpecError
from logspec.models import Model
from logspec.tlavalue import parse_values, renamed, same_but_for_names
from logspec.tlc import EXIT_ACTION_VIOLATED, EXIT_OK, EXIT_VIOLATED, Outcome, Progress, Step, run_tlc
from logspec.toolchain import Toolchain

_FEW_STATES = 50_000
"""Distinct states up to which compiling TLC well costs more than exploring them."""
_NEVER_AN_ACTION = frozenset({"Init", "Initial", "Small"})


@dataclass(frozen=True, slots=True)
class Checked:
    """One model checked: what TLC found and, if it is not what was expected, why (one sentence each).

    ``seed`` is that of its random behaviours, if it has any.
    """

    model: Model
    outcome: Outcome
    problems: tuple[str, ...]
    seed: int | None

    @property
    def as_expected(self) -> bool:
        """Whether everything came out as the model declares."""
        return not self.problems

    def to_json(self) -> dict[str, object]:
        """Return the result as plain data."""
        return {
            "model": self.model.name,
            "expected": "holds" if self.model.holds else f"violates {self.model.breaks}",
            "as_expected": self.as_expected,
            "problems": list(self.problems),
            "violated": self.outcome.violated,
            "distinct": self.outcome.distinct,
            "generated": self.outcome.generated,
            "depth": self.outcome.depth or len(self.outcome.behaviour),
            "seconds": round(self.outcome.seconds, 2),
            "seed": self.seed,
            "actions": self.outcome.actions,
        }


def check_model(
    model: Model,
    tools: Toolchain,
    *,
    workers: int = 2,
    seconds: float | None = None,
    seed: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> Checked:
    """Run TLC on one model. ``seconds`` limits the wall clock time; ``seed`` is for random behaviours."""
    random = ("-simulate", "-depth", str(model.depth), "-seed", str(seed)) if model.depth else ()
    outcome = run_tlc(
        tools,
        model.module,
        model.configuration,
        workers=workers if model.holds else 1,  # one worker finds the same shortest behaviour every time
        coverage=model.holds and not model.depth,
        brief=not model.depth and (not model.holds or (model.distinct or _FEW_STATES) < _FEW_STATES),
        arguments=random,
        seconds=seconds,
        on_progress=on_progress,
    )
    return Checked(model, outcome, tuple(_problems(model, outcome, seconds)), seed if model.depth else None)


def prelude(model: Model, models: Mapping[str, Model], first: Step, check: Callable[[Model], Checked]) -> list[Step]:
    """Return how the state ``first`` is reached from an empty cluster, without that state itself.

    ``check`` runs TLC on a model that leads there. Empty for a model that begins with an empty cluster, and for one
    whose start no model reaches. The states that TLC finds differ by the names of the nodes, which are interchangeable;
    they are renamed. What the way there has no variable for, such as the reads of ``MCReads``, is empty in the
    beginning. Raises SpecError if TLC finds no such behaviour.
    """
    if model.reached_by is None:
        return []
    way = models[model.reached_by].like(model)
    found = check(way)
    if not found.as_expected:
        raise SpecError(f"model {way.name}, which shows how {model.name} begins: {found.problems[0]}")
    behaviour = found.outcome.behaviour
    last = behaviour[-1].variables
    renaming = same_but_for_names(last, {name: first.variables[name] for name in last})
    if renaming is None:
        raise SpecError(f"model {way.name} ends in another state than {model.name} begins with")
    behaviour = [Step(step.action, renamed(step.variables, renaming)) for step in behaviour]
    return [*prelude(way, models, behaviour[0], check), *behaviour[:-1]]


def _problems(model: Model, outcome: Outcome, seconds: float | None) -> list[str]:
    if outcome.timed_out and not (model.depth and model.holds):
        return [f"TLC was stopped after {seconds:g} s"]
    if outcome.errors and not outcome.timed_out:
        return ["TLC says: " + " ".join(outcome.errors[0].split())]
    return _problems_of_holding(model, outcome) if model.holds else _problems_of_failing(model, outcome)


def _problems_of_failing(model: Model, outcome: Outcome) -> list[str]:
    if outcome.violated is None:
        return [f"{model.breaks} should be violated and is not ({outcome.distinct} states, TLC {_exit(outcome)})"]
    if outcome.violated != model.breaks:
        return [f"{outcome.violated} is violated; it should be {model.breaks}"]
    if outcome.status not in (EXIT_VIOLATED, EXIT_ACTION_VIOLATED):
        return [f"{outcome.violated} is violated, but TLC {_exit(outcome)}"]
    return []


def _problems_of_holding(model: Model, outcome: Outcome) -> list[str]:
    if outcome.violated:
        return [f"{outcome.violated} is violated"]
    if model.depth:
        return [] if outcome.timed_out else [f"TLC {_exit(outcome)} before its time was up"]
    problems = []
    if outcome.status != EXIT_OK:
        problems.append(f"TLC {_exit(outcome)}")
    if outcome.left:
        problems.append(f"{outcome.left} states were not explored")
    if model.distinct is None:
        problems.append(f"{outcome.distinct} distinct states, and the model pins no number")
    elif outcome.distinct != model.distinct:
        problems.append(f"{outcome.distinct} distinct states, {model.distinct} are pinned")
    met = {name for word, name in parse_values("\n".join(outcome.printed)) if word == "reached"}
    if model.reaches - met:
        problems.append(f"never reached: {', '.join(sorted(model.reaches - met))}")
    idle = {name for name, count in outcome.actions.items() if count == 0} - _NEVER_AN_ACTION
    if idle - model.unreached:
        problems.append(f"never taken: {', '.join(sorted(idle - model.unreached))}")
    taken = {name for name, count in outcome.actions.items() if count > 0} & model.unreached
    if taken:
        problems.append(f"declared as unreached, but taken: {', '.join(sorted(taken))}")
    return problems


def _exit(outcome: Outcome) -> str:
    return f"ended with status {outcome.status}"
