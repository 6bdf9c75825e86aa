"""Random small histories that are nearly linearizable, so that both verdicts come up.

A history is made by applying operations to a model one after the other at chosen times, stretching every operation to
an interval around that time, and then, perhaps, spoiling an answer.
"""

from __future__ import annotations

import random
from typing import Any

from plain_search import apply, initial

from linearizability_checker import FAILED, UNKNOWN, Model, Operation


def _input(rng: random.Random, model: Model, number: int) -> tuple[Any, ...]:
    few = rng.randrange(3)
    choices: dict[str, list[tuple[Any, ...]]] = {
        "log": [("append", number), ("append", number), ("read", rng.randrange(5)), ("tail",)],
        "register": [("read",), ("write", few)],
        "cas-register": [("read",), ("write", few), ("cas", few, rng.randrange(3))],
        "key-value": [("get", f"k{few}"), ("put", f"k{few}", str(number)), ("append", f"k{few}", str(number))],
        "set": [("add", few), ("remove", few), ("contains", few), ("read",)],
        "queue": [("enqueue", few), ("enqueue", number), ("dequeue",), ("dequeue",)],
    }
    return rng.choice(choices[model.name])


def _spoil(rng: random.Random, operation: Operation) -> None:
    """Give another answer of the same kind, where the operation answers anything."""
    output = operation.output
    if isinstance(output, bool):
        operation.output = not output
    elif isinstance(output, list):
        operation.output = sorted({0, 1, 2} - {rng.randrange(3)}) if len(output) != 2 else [rng.randrange(3)]
    elif operation.input[0] == "get":
        operation.output = rng.choice([None, "0", "12", "1"])
    elif operation.input[0] in ("read", "dequeue"):
        operation.output = rng.choice([None, *range(6)])
    elif isinstance(output, int):
        operation.output = rng.randrange(6)


def random_history(rng: random.Random, model: Model, size: int = 8) -> list[Operation]:
    """A history of ``size`` operations over few time stamps, many of them equal."""
    state = initial(model)
    operations = []
    stretch = rng.choice([0, 1, 3, 6])
    for number in range(size):
        given = _input(rng, model, number)
        fate = rng.random()
        output: Any
        if fate < 0.05:
            output = FAILED
        elif fate < 0.1:
            output = UNKNOWN  # and never happened
        else:
            state, output = apply(model, state, given)
            if isinstance(output, frozenset):
                output = sorted(output)
            if fate < 0.2:
                output = UNKNOWN
            elif output is not None and given[0] in ("append", "add", "remove") and fate < 0.3:
                output = None
        call = 2 * number - rng.randint(0, stretch)
        returned = None if output in (UNKNOWN, FAILED) and fate < 0.15 else 2 * number + rng.randint(0, stretch)
        operations.append(Operation(rng.randrange(4), call, returned, given, output))
    spoilt = rng.choice(operations) if operations and rng.random() < 0.6 else None
    if spoilt is not None and spoilt.output not in (UNKNOWN, FAILED):
        _spoil(rng, spoilt)
    rng.shuffle(operations)
    return operations
