"""Sequential models and a linearizability search in plain Python, written without a look at the worker's.

The search tries every order that real time allows, and for every operation of unknown outcome also that it never
happened. It is exponential and for small histories only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from linearizability_checker import FAILED, UNKNOWN, Model, Operation

State: TypeAlias = Any
_Apply: TypeAlias = Callable[[State, tuple[Any, ...]], tuple[State, Any]]
"""A state and an input give the next state and the answer."""


def _typed(value: object) -> tuple[str, object]:
    return type(value).__name__, value  # True == 1 in Python


def _log(state: State, given: tuple[Any, ...]) -> tuple[State, Any]:
    match given:
        case ("append", value):
            return (*state, value), len(state)
        case ("read", offset):
            return state, state[offset] if offset < len(state) else None
        case _:
            return state, len(state)


def _register(state: State, given: tuple[Any, ...]) -> tuple[State, Any]:
    match given:
        case ("read",):
            return state, state
        case ("write", value):
            return value, None
        case (_, old, new):
            return (new, True) if _typed(state) == _typed(old) else (state, False)
    raise AssertionError(given)


def _key_value(state: State, given: tuple[Any, ...]) -> tuple[State, Any]:
    contents = dict(state)
    match given:
        case ("get", key):
            return state, contents.get(key)
        case ("put", key, value):
            contents[key] = value
        case (_, key, value):
            contents[key] = (contents.get(key) or "") + value
    return tuple(sorted(contents.items())), None


def _set(state: State, given: tuple[Any, ...]) -> tuple[State, Any]:
    match given:
        case ("add", value):
            return state | {value}, value not in state
        case ("remove", value):
            return state - {value}, value in state
        case ("contains", value):
            return state, value in state
        case _:
            return state, state


def _queue(state: State, given: tuple[Any, ...]) -> tuple[State, Any]:
    match given:
        case ("enqueue", value):
            return (*state, value), None
        case _:
            return (state[1:], state[0]) if state else (state, None)


_MODELS: dict[str, tuple[Callable[[Any], State], _Apply]] = {
    "log": (lambda _: (), _log),
    "register": (lambda initial: initial, _register),
    "cas-register": (lambda initial: initial, _register),
    "key-value": (lambda _: (), _key_value),
    "set": (lambda _: frozenset(), _set),
    "queue": (lambda _: (), _queue),
}

_ACKNOWLEDGED = {"append", "add", "remove"}
"""Operations whose answer None is an acknowledgement that says nothing else."""


def apply(model: Model, state: State, given: tuple[Any, ...]) -> tuple[State, Any]:
    return _MODELS[model.name][1](state, given)


def initial(model: Model) -> State:
    return _MODELS[model.name][0](model.initial)


def linearizable(model: Model, operations: list[Operation]) -> bool:
    """Whether some order explains every answer."""
    seen: set[tuple[frozenset[int], State]] = set()
    candidates = frozenset(i for i, operation in enumerate(operations) if operation.output is not FAILED)

    def end(operation: Operation) -> float:
        return float("inf") if operation.output is UNKNOWN or operation.return_ is None else operation.return_

    def search(remaining: frozenset[int], state: State) -> bool:
        if all(operations[i].output is UNKNOWN for i in remaining):
            return True
        if (remaining, state) in seen:
            return False
        seen.add((remaining, state))
        earliest = min(end(operations[i]) for i in remaining)
        for i in remaining:
            operation = operations[i]
            if operation.call > earliest:
                continue  # another one had returned before this one was called
            following, answer = apply(model, state, operation.input)
            given = operation.output
            acknowledged = given is None and operation.input[0] in _ACKNOWLEDGED
            if isinstance(given, list):
                given = frozenset(given)
            agrees = given is UNKNOWN or acknowledged or _typed(given) == _typed(answer)
            if agrees and search(remaining - {i}, following):
                return True
        return False

    return search(candidates, initial(model))
