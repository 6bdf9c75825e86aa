"""From operations to the columns that the worker reads, and the judgement whether they are fit to be asked about.

Everything a caller can get wrong is found here and is a ``ValueError`` that names the operation and the field; the
worker only sees what it understands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, Final, NoReturn, SupportsIndex, TypeAlias

from linearizability_checker.history import FAILED, MODELS, UNKNOWN, Call, Model, Operation, Outcome, Return, Value

_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 63) - 1

_Check: TypeAlias = Callable[[object, str], Any]


class _UnfitError(Exception):
    """A field and what is wrong with it."""


def _shown(value: object) -> str:
    """A short name for any object, however large, deep or strange."""
    if isinstance(value, str):
        found = ascii(value[:41])
        return found if len(value) <= 40 and len(found) <= 100 else f"a text of {len(value)} characters"
    if type(value) is int:
        return str(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"
    if value is None or type(value) in (bool, float) or isinstance(value, Outcome):
        return str(value)
    return f"a {type(value).__name__}"


def _integer(value: object, name: str) -> int:
    """An integer of 64 bits; NumPy's are welcome."""
    if type(value) is int and _SMALLEST <= value <= _LARGEST:
        return value  # nearly always, and a protocol is slow to ask for
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise _UnfitError(f"{name}: {_shown(value)} is not an integer")
    number = index(value)
    if not _SMALLEST <= number <= _LARGEST:
        raise _UnfitError(f"{name}: {_shown(value)} does not fit in 64 bits")
    return number


def _natural(value: object, name: str) -> int:
    number = _integer(value, name)
    if number < 0:
        raise _UnfitError(f"{name}: {number} is negative")
    return number


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _UnfitError(f"{name}: {_shown(value)} is not a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            # In JSON it would become another character, and two different texts could become equal.
            raise _UnfitError(f"{name}: {_shown(value)} has half a surrogate pair and is no valid text") from None
    return str(value)


def _flag(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _UnfitError(f"{name}: {_shown(value)} is neither True nor False")


def _nullable(value: object, name: str) -> Value:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, name)
    if not isinstance(value, int) and not isinstance(value, SupportsIndex):
        raise _UnfitError(f"{name}: {_shown(value)} is no value (None, bool, int or str)")
    return _integer(value, name)


def _value(value: object, name: str) -> Value:
    if value is None:
        raise _UnfitError(f"{name}: None is no value here, for it means that there is none")
    return _nullable(value, name)


def _nothing(value: object, name: str) -> None:
    if value is not None:
        raise _UnfitError(f"{name}: {_shown(value)} instead of None (this operation answers nothing)")


def _members(value: object, name: str) -> list[Value]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise _UnfitError(f"{name}: {_shown(value)} is not a list, tuple or set of values")
    members = [_value(member, name) for member in value]
    if len({(type(member), member) for member in members}) != len(members):
        raise _UnfitError(f"{name}: an element is listed twice")
    return members


def _or_none(check: _Check) -> _Check:
    return lambda value, name: None if value is None else check(value, name)


@dataclass(frozen=True, slots=True)
class _Form:
    """What one operation of a model takes and answers."""

    arguments: tuple[_Check, ...]
    output: _Check


_REGISTER: Final = {"read": _Form((), _nullable), "write": _Form((_nullable,), _nothing)}
_FORMS: Final[dict[str, dict[str, _Form]]] = {
    "log": {
        "append": _Form((_value,), _or_none(_natural)),
        "read": _Form((_natural,), _nullable),
        "tail": _Form((), _natural),
    },
    "register": _REGISTER,
    "cas-register": {**_REGISTER, "cas": _Form((_nullable, _nullable), _flag)},
    "key-value": {
        "get": _Form((_nullable,), _nullable),
        "put": _Form((_nullable, _nullable), _nothing),
        "append": _Form((_nullable, _text), _nothing),
    },
    "set": {
        "add": _Form((_value,), _or_none(_flag)),
        "remove": _Form((_value,), _or_none(_flag)),
        "contains": _Form((_value,), _flag),
        "read": _Form((), _members),
    },
    "queue": {"enqueue": _Form((_value,), _nothing), "dequeue": _Form((), _nullable)},
}
_WITH_INITIAL: Final = ("register", "cas-register", "key-value")


def model_of(model: Model | str) -> Model:
    """The model itself, or by name. ValueError if there is no such model or its initial value is unfit."""
    if isinstance(model, str):
        model = MODELS.get(model, model)
    if not isinstance(model, Model) or model.name not in _FORMS:
        raise ValueError(f"model: {_shown(getattr(model, 'name', model))} is not one of {', '.join(_FORMS)}")
    if model.initial is not None and model.name not in _WITH_INITIAL:
        raise ValueError(f"model: a {model.name} starts empty and takes no initial value")
    try:
        return Model(model.name, _nullable(model.initial, "initial"))
    except _UnfitError as unfit:
        raise ValueError(f"model: {unfit}") from None


@dataclass(slots=True)
class Columns:
    """Histories over one model as the columns of a request (worker/protocol.go), filled one history at a time."""

    model: Model
    lengths: list[int] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    process: list[int] = field(default_factory=list)
    call: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    f: list[str] = field(default_factory=list)
    a: list[Value] = field(default_factory=list)
    b: list[Value] = field(default_factory=list)
    output: list[Value | list[Value]] = field(default_factory=list)

    def add(self, operations: Sequence[Operation], place: str = "") -> None:
        """Take one more history. Raises ValueError for what is none, which ``place`` names."""
        forms = _FORMS[self.model.name]
        for position, operation in enumerate(operations):
            try:
                self._add(operation, forms)
            except _UnfitError as unfit:
                raise ValueError(f"{place}operation {position}: {unfit}") from None
        self.lengths.append(len(operations))

    def _add(self, operation: Operation, forms: dict[str, _Form]) -> None:
        if not isinstance(operation, Operation):
            raise _UnfitError(f"{_shown(operation)} is not an Operation")
        arguments = operation.input
        form = _form(arguments, forms)
        output = operation.output
        returned = operation.return_
        call = _integer(operation.call, "call")
        if output is UNKNOWN or output is FAILED:
            status = "u" if output is UNKNOWN else "f"
            output = None
            returned = call if returned is None else _integer(returned, "return_")
        else:
            status = "o"
            output = form.output(output, "output")
            if returned is None:
                raise _UnfitError("return_: None, but the output is neither UNKNOWN nor FAILED")
            returned = _integer(returned, "return_")
        if returned < call:
            raise _UnfitError(f"return_: {returned} is before the call at {call}")
        count = len(arguments)
        self.a.append(form.arguments[0](arguments[1], "input[1]") if count > 1 else None)
        self.b.append(form.arguments[1](arguments[2], "input[2]") if count > 2 else None)
        self.status.append(status)
        self.process.append(_integer(operation.process, "process"))
        self.call.append(call)
        self.returned.append(returned)
        self.f.append(arguments[0])  # type: ignore[arg-type]
        self.output.append(output)

    def body(self) -> dict[str, object]:
        """The part of a request that is about the histories."""
        return {
            "model": self.model.name,
            "initial": self.model.initial,
            "lengths": self.lengths,
            "status": "".join(self.status),
            "process": self.process,
            "call": self.call,
            "return": self.returned,
            "f": self.f,
            "a": self.a,
            "b": self.b,
            "output": self.output,
        }

    def singles(self) -> list[Columns]:
        """The same histories, each in columns of its own."""
        cut = []
        start = 0
        for length in self.lengths:
            part = slice(start, start + length)
            start += length
            columns = (self.status, self.process, self.call, self.returned, self.f, self.a, self.b, self.output)
            cut.append(Columns(self.model, [length], *(column[part] for column in columns)))  # type: ignore[arg-type]
        return cut


def _form(arguments: object, forms: dict[str, _Form]) -> _Form:
    if not isinstance(arguments, tuple) or not arguments:
        raise _UnfitError(f"input: {_shown(arguments)} is no tuple of a name and arguments")
    name = arguments[0]
    form = forms.get(name) if isinstance(name, str) else None
    if form is None:
        raise _UnfitError(f"input[0]: {_shown(name)} is not one of {', '.join(forms)}")
    if len(arguments) != len(form.arguments) + 1:
        raise _UnfitError(f"input: {name} takes {len(form.arguments)} arguments, not {len(arguments) - 1}")
    return form


def operations_of(events: Sequence[Call | Return]) -> tuple[list[Operation], list[int]]:
    """A history of events as operations and their ids; calls that never return have an unknown outcome.

    Raises ValueError, in one line with the event, for what is no history.
    """

    def unfit(problem: str) -> NoReturn:
        raise ValueError(f"event {position}: {problem}")

    operations: list[Operation] = []
    ids: list[int] = []
    places: dict[int, int] = {}
    for position, event in enumerate(events):
        if not isinstance(event, (Call, Return)):
            unfit(f"{_shown(event)} is neither Call nor Return")
        if type(event.id) is not int:
            unfit(f"id: {_shown(event.id)} is not an integer")
        if isinstance(event, Call):
            if event.id in places:
                unfit(f"id: {_shown(event.id)} was called before")
            places[event.id] = len(operations)
            ids.append(event.id)
            operations.append(Operation(event.process, position, None, event.input, UNKNOWN))
        else:
            place = places.get(event.id)
            if place is None:
                unfit(f"id: {_shown(event.id)} was not called")
            operation = operations[place]
            if operation.return_ is not None:
                unfit(f"id: {_shown(event.id)} returned before")
            operation.return_ = position
            operation.output = event.output
    return operations, ids
