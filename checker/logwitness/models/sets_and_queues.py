"""Sets and queues that are decided without a search, in time that grows as a sort does.

Both functions answer None for what they leave to Porcupine, else what contradicts itself: nothing (``()``) if some
order explains every answer, or a `Contradiction`.

*Sets* from which nothing is removed. Every element has one moment from which on it is there; whole reads are ordered by
what they returned, and lie between the moments of the elements in them and of those that are not. Moments have no
duration, so the earliest that keep this order are as good as any: they must not exceed what was complete by then.

*Queues* of distinct values. Henzinger, Sezgin, Vafeiadis, "Aspect-oriented linearizability proofs" (CONCUR 2013): no
value leaves that did not enter, or twice; none overtakes another that was complete before it; none is certainly there
when the queue is found empty. A value that was enqueued with unknown outcome counts if it was dequeued. A dequeue of
unknown outcome may have taken one value that nobody else was given, if it began before that had to be gone.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from .operations import FAILED, UNKNOWN, Operation, Value

_NEVER = float("inf")
_Name: TypeAlias = tuple[str, Value]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why no order explains every answer, as the end of a sentence, and the places of the operations that show it."""

    words: str
    places: tuple[int, ...]


Answer: TypeAlias = Contradiction | tuple[()] | None


def _name(value: Value) -> _Name:
    return type(value).__name__, value  # True == 1


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:20]}…{text[-19:]}"


def _end(operation: Operation) -> float:
    return _NEVER if operation.output is UNKNOWN or operation.return_ is None else operation.return_


@dataclass(slots=True)
class _Element:
    """When an element may have come into the set, and which operation says so."""

    since: float = _NEVER
    since_by: int = -1
    until: float = _NEVER
    until_by: int = -1
    absent: float = -1
    """It was not there when this was asked for."""
    absent_by: int = -1

    @property
    def earliest(self) -> tuple[float, int]:
        """Before this moment it cannot have come."""
        return max((self.since, self.since_by), (self.absent, self.absent_by))


def _of_sets(
    operations: Sequence[Operation],
) -> tuple[dict[_Name, _Element], list[tuple[int, int]], list[tuple[int, _Element]]] | None:
    """The elements of a set, its reads by their size, and who was told that an element is there; None if one may go."""
    elements: dict[_Name, _Element] = {}
    reads: list[tuple[int, int]] = []
    asked: list[tuple[int, _Element]] = []
    for place, each in enumerate(operations):
        if each.output is FAILED or (each.output is UNKNOWN and each.input[0] in ("read", "contains")):
            continue
        if each.input[0] == "remove" or (each.input[0] == "add" and isinstance(each.output, bool)):
            return None
        if each.input[0] == "read":
            assert isinstance(each.output, (list, tuple))
            reads.append((len(each.output), place))
            continue
        element = elements.setdefault(_name(each.input[1]), _Element())
        if each.input[0] == "add":
            element.since, element.since_by = min((element.since, element.since_by), (each.call, place))
            element.until, element.until_by = min((element.until, element.until_by), (_end(each), place))
        elif each.output:
            asked.append((place, element))
        else:
            element.absent, element.absent_by = max((element.absent, element.absent_by), (each.call, place))
    reads.sort(key=lambda read: (read[0], operations[read[1]].call))
    return elements, reads, asked


def decide_set(operations: Sequence[Operation]) -> Answer:
    """Whether the operations on a set, with times that all differ, are linearizable."""
    known = _of_sets(operations)
    if known is None:
        return None
    elements, reads, asked = known
    now: tuple[float, int] = (-1, -1)
    there: set[_Name] = set()
    moments: dict[int, tuple[float, int]] = {}

    def come(names: Iterable[_Name], read: int | None) -> Contradiction | None:
        nonlocal now
        latest = now
        for name in names:
            element = elements.get(name)
            if element is None or element.since_by < 0:
                assert read is not None
                return Contradiction(f"nobody had added {_shown(name[1])} to what was read", (read,))
            moment = max(now, element.earliest)
            if moment[0] > element.until:
                shown = [moment[1], element.until_by, *([] if read is None else [read])]
                return Contradiction(
                    f"the add of {_shown(name[1])} was over before it can have taken effect", tuple(shown)
                )
            moments[id(element)] = moment
            latest = max(latest, moment)
        now = latest
        return None

    for size, place in reads:
        output = operations[place].output
        assert isinstance(output, (list, tuple))
        found = {_name(value) for value in output}
        if len(found) < size:
            return Contradiction("a read returned an element twice", (place,))
        if not there <= found:
            lost = next(iter(there - found))
            return Contradiction(
                f"of two reads each returned what the other did not, such as {_shown(lost[1])}", (place, now[1])
            )
        wrong = come(sorted(found - there, key=str), place)
        if wrong is not None:
            return wrong
        there = found
        if now[0] > _end(operations[place]):
            return Contradiction("a read was over before what it returned can have been there", (place, now[1]))
        now = max(now, (operations[place].call, place))
    whole = now
    rest = [name for name, element in elements.items() if name not in there and element.until < _NEVER]
    wrong = come(rest, None)
    if wrong is not None:
        return wrong
    for place, element in asked:
        if element.since_by < 0:
            return Contradiction(f"nobody had added {_shown(operations[place].input[1])}", (place,))
        moment = moments.get(id(element), max(whole, element.earliest))
        if moment[0] > _end(operations[place]):
            return Contradiction("an element was said to be there before it can have been", (place, moment[1]))
    return ()


@dataclass(slots=True)
class _Item:
    """A value of a queue: when it was enqueued and dequeued, at the earliest and at the latest."""

    entered: int
    came: float
    there: float
    left: int = -1
    going: float = _NEVER
    gone: float = _NEVER


def decide_queue(operations: Sequence[Operation]) -> Answer:
    """Whether the operations on a queue, with times that all differ, are linearizable."""
    items: dict[_Name, _Item] = {}
    empty: list[int] = []
    open_: list[int] = []
    for place, each in enumerate(operations):
        if each.output is FAILED or each.input[0] != "enqueue":
            continue
        name = _name(each.input[1])
        if name in items:
            return None
        items[name] = _Item(place, each.call, _end(each))
    for place, each in enumerate(operations):
        if each.output is FAILED or each.input[0] != "dequeue":
            continue
        if each.output is UNKNOWN:
            open_.append(place)
            continue
        if each.output is None:
            empty.append(place)
            continue
        assert isinstance(each.output, (str, int))
        item = items.get(_name(each.output))
        if item is None or _end(each) < item.came:
            return Contradiction(f"nobody had enqueued {_shown(each.output)} when it was dequeued", (place,))
        if item.left >= 0:
            return Contradiction(f"{_shown(each.output)} was dequeued twice", (item.left, place))
        item.left, item.going, item.gone = place, each.call, _end(each)
    # What nobody was told is in the queue may as well never have come.
    known = sorted(
        (item for item in items.values() if item.left >= 0 or item.there < _NEVER), key=lambda item: item.came
    )
    came = [item.came for item in known]
    # From each item on: the first that was gone of those that came later.
    first: list[_Item] = list(accumulate(reversed(known), _first_gone))[::-1]
    remaining: list[tuple[float, _Item, _Item | None]] = []
    for item in known:
        later = bisect_right(came, item.there)
        passed = first[later] if later < len(known) and first[later].gone < _NEVER else None
        if item.left < 0:
            remaining.append((passed.gone if passed is not None else _NEVER, item, passed))
        elif passed is not None and passed.gone < item.going:
            return _overtaken(operations, item, passed)
    remaining.sort(key=lambda each: each[0])
    opened = sorted(operations[place].call for place in open_)
    for place, (until, item, passed) in enumerate(remaining):
        if passed is not None and (place >= len(opened) or opened[place] > until):
            return _overtaken(operations, item, passed)
    return _found_empty(operations, empty, known, [(until, item) for until, item, _ in remaining], opened)


def _first_gone(one: _Item, other: _Item) -> _Item:
    return one if one.gone <= other.gone else other


def _overtaken(operations: Sequence[Operation], item: _Item, passed: _Item) -> Contradiction:
    one, other = operations[item.entered].input[1], operations[passed.entered].input[1]
    places = tuple(place for place in (item.entered, passed.entered, passed.left, item.left) if place >= 0)
    return Contradiction(f"{_shown(other)} was enqueued after {_shown(one)} and dequeued before it", places)


def _found_empty(
    operations: Sequence[Operation],
    empty: Sequence[int],
    known: Sequence[_Item],
    remaining: Sequence[tuple[float, _Item]],
    opened: Sequence[float],
) -> Answer:
    """Whether the queue can have been empty whenever it was found so."""
    if not empty:
        return ()
    # When it is certainly not empty: intervals that do not touch. What is left counts if nobody can have taken it.
    filled: list[tuple[float, float, _Item]] = []
    certain = [item for item in known if item.left >= 0 or not opened]
    for item in sorted(certain, key=lambda item: item.there):
        if item.there >= item.going:
            continue
        if filled and item.there < filled[-1][1]:
            if item.going > filled[-1][1]:
                filled[-1] = filled[-1][0], item.going, item
        else:
            filled.append((item.there, item.going, item))
    starts = [each[0] for each in filled]
    earliest: list[float] = []
    latest: list[float] = []
    for place in empty:
        call, end = operations[place].call, _end(operations[place])
        before = bisect_right(starts, call) - 1
        low: float = call
        if before >= 0 and filled[before][1] > call:
            low = filled[before][1]
            if low > end:
                item = filled[before][2]
                value = operations[item.entered].input[1]
                words = f"the queue was found empty while {_shown(value)}, or what came before it, was there"
                return Contradiction(words, (place, item.entered))
        earliest.append(low)
        before = bisect_right(starts, end) - 1
        latest.append(filled[before][0] if before >= 0 and filled[before][1] > end else end)
    if not opened or not remaining:
        return ()
    for moments in (sorted(earliest), sorted(latest)):
        deadlines = []
        for until, item in remaining:
            place = bisect_right(moments, item.there)
            deadlines.append(min(until, moments[place] if place < len(moments) else _NEVER))
        deadlines = sorted(deadline for deadline in deadlines if deadline < _NEVER)
        if len(deadlines) <= len(opened) and all(
            began < deadline for began, deadline in zip(opened, deadlines, strict=False)
        ):
            return ()
    return None
