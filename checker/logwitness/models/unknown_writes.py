"""What the answers of others say of writes whose outcome is unknown, so that a search has less to try.

A write, put or compare-and-set that nobody saw the value of may as well never have happened. One that alone can have
made a value that was seen did happen, and no later than whoever saw it first was answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from .operations import FAILED, UNKNOWN, Operation, Value

_WRITES = frozenset({"write", "put", "cas"})


def _name(value: object) -> tuple[str, object]:
    return type(value).__name__, value  # True == 1


def bounded(operations: Sequence[Operation], initial: Sequence[Value], *, by_key: bool) -> list[Operation]:
    """The same operations on registers, at the same places, with fewer outcomes unknown: linearizable if they are.

    ``initial`` are values that a register may begin with. Keys with appends, or where a compare-and-set answered that
    it found another value, are left as they are.
    """
    found = list(operations)
    keys: dict[Hashable, list[int]] = {}
    for place, each in enumerate(operations):
        if each.output is not FAILED:
            keys.setdefault(_name(each.input[1]) if by_key else None, []).append(place)
    for places in keys.values():
        these = [operations[place] for place in places]
        plain = all(
            each.input[0] != "append" and (each.input[0] != "cas" or each.output is not False) for each in these
        )
        if plain and any(each.output is UNKNOWN for each in these):
            for place, operation in _bounded(operations, places, {_name(value) for value in initial}):
                found[place] = operation
    return found


def _bounded(
    operations: Sequence[Operation], places: Sequence[int], initial: set[tuple[str, object]]
) -> Iterator[tuple[int, Operation]]:
    """The operations of one register that are known better, with their places."""
    seen: Counter[tuple[str, object]] = Counter()
    until: dict[tuple[str, object], int] = {}
    written: Counter[tuple[str, object]] = Counter()
    for place in places:
        each = operations[place]
        if each.input[0] in _WRITES:
            written[_name(each.input[-1])] += 1
        if each.input[0] == "cas":
            value = _name(each.input[1])
        elif each.input[0] in _WRITES or each.output is UNKNOWN:
            continue
        else:
            value = _name(each.output)
        seen[value] += 1
        if each.output is not UNKNOWN and each.return_ is not None:
            until[value] = min(until.get(value, each.return_), each.return_)
    unknown = [
        place for place in places if operations[place].output is UNKNOWN and operations[place].input[0] in _WRITES
    ]
    while True:
        unseen = [place for place in unknown if not seen[_name(operations[place].input[-1])]]
        if not unseen:
            break
        unknown = [place for place in unknown if seen[_name(operations[place].input[-1])]]
        for place in unseen:
            each = operations[place]
            written[_name(each.input[-1])] -= 1
            if each.input[0] == "cas":
                seen[_name(each.input[1])] -= 1
            yield place, replace(each, output=FAILED)
    for place in unknown:
        each = operations[place]
        value = _name(each.input[-1])
        if value in until and written[value] == 1 and value not in initial:
            answer = True if each.input[0] == "cas" else None
            yield place, replace(each, output=answer, return_=max(until[value], each.call))
