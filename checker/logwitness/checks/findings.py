"""What a kernel writes down while it runs, and how that becomes outcomes with sentences."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, NamedTuple, TypeAlias, get_type_hints

import numpy as np

from .codes import ACKS_NAMES, NULL
from .columns import Array, Columns, Ints
from .contract import Check, Excuse, Loss, Setting, Verdicts, Violation, outcome
from .faults import CAUSES
from .kernel import part

FIELDS = 6
"""Fields that a finding can have."""

EVENTS = 256
"""Events that a finding can name; further ones are left out."""

MAX_NODES = 62
"""Nodes of one log; sets of nodes are bits of one signed word."""

Node: TypeAlias = Annotated[int, "node"]
"""A field that is the index of a node; a sentence has the node's id."""

Acks: TypeAlias = Annotated[int, "acks"]
"""A field that is an acks level; a sentence has ``all``, ``1`` or ``0``."""

_CHECK, _SHOWN, _FIRST = range(3)
_HEAD = _FIRST + FIELDS
_END, _OPEN = range(2)


class Findings(NamedTuple):
    """Counts by check, and the first violations of each."""

    judged: Ints
    violated: Ints
    excused: Ints
    unjudged: Ints
    excuses: Ints  # by check and cause: facts, the nodes as a bit set, the first event that is such a cause
    keep: Ints  # how many violations of a check are written down
    pages: Ints  # what a kernel wrote down: check, number of events, fields, then the events; and the next one
    place: Ints  # where the next one goes; where the last one is, -1 if it is only counted


def empty_findings(checks: int, keep: int) -> Findings:
    """Nothing found yet for so many checks, ``keep`` violations of each to be written down."""
    counts = {name: np.zeros(checks, dtype=np.int64) for name in ("judged", "violated", "excused", "unjudged")}
    numbers = np.array([keep], dtype=np.int64), np.zeros(0, dtype=np.int64), np.array([0, -1], dtype=np.int64)
    excuses = np.zeros((checks, len(CAUSES), 3), dtype=np.int64)
    return Findings(**counts, excuses=excuses, keep=numbers[0], pages=numbers[1], place=numbers[2])


@part
def excuse(found: Findings, check: int, cause: int, node: int, seq: int, facts: int) -> None:
    """Count facts that are excused by what happened to ``node`` (below 0: to none) at event ``seq`` (-1: none)."""
    found.excused[check] += facts
    line = found.excuses[check, cause]
    if line[0] == 0 or (seq >= 0 and (line[2] < 0 or seq < line[2])):
        line[2] = seq
    line[0] += facts
    if node >= 0:
        line[1] |= 1 << node


@part
def report(found: Findings, check: int, fields: tuple[int, ...], *seqs: int) -> None:
    """Count a violation; if it is among the first, write down its fields and the events that show it.

    A ``seq`` below 0 is no event. More events can follow by `show`.
    """
    # This is compiled for every type of fields, what it calls once. Compiled code knows how many fields there are, but
    # cannot walk through fields of several types.
    if _opened(found, check):
        _write(found, 0, int(fields[0]))
        if len(fields) > 1:
            _write(found, 1, int(fields[1]))
        if len(fields) > 2:
            _write(found, 2, int(fields[2]))
        if len(fields) > 3:
            _write(found, 3, int(fields[3]))
        if len(fields) > 4:
            _write(found, 4, int(fields[4]))
        if len(fields) > 5:
            _write(found, 5, int(fields[5]))
        for seq in seqs:
            show(found, seq)


@part
def _opened(found: Findings, check: int) -> bool:
    """Count a violation; whether it is written down."""
    before = found.violated[check]
    found.violated[check] += 1
    if before >= found.keep[0]:
        found.place[_OPEN] = -1
        return False
    at = found.place[_END]
    found.place[_OPEN] = at
    found.place[_END] = at + _HEAD
    found.pages[at + _CHECK] = check
    found.pages[at + _SHOWN] = 0
    return True


@part
def _write(found: Findings, place: int, field: int) -> None:
    """One field of the violation that was opened last."""
    found.pages[found.place[_OPEN] + _FIRST + place] = field


@part
def show(found: Findings, seq: int) -> None:
    """One more event that shows the violation reported last."""
    at = found.place[_OPEN]
    if at < 0 or seq < 0 or found.pages[at + _SHOWN] == EVENTS:
        return
    found.pages[found.place[_END]] = seq
    found.place[_END] += 1
    found.pages[at + _SHOWN] += 1


def number(checks: list[Check], check: Check) -> int:
    """Add a check to those of a kernel; the kernel knows it by the number returned, its place among them.

    Raises ValueError for a check without a named tuple of fields.
    """
    if check.fields is None or not 1 <= len(get_type_hints(check.fields)) <= FIELDS:
        raise ValueError(f"{check.id}: a kernel reports a named tuple of 1 to {FIELDS} fields")
    checks.append(check)
    return len(checks) - 1


class _Pages(threading.local):
    """Room for what kernels write down, one piece of memory a thread for all folds: they are emptied after each run."""

    room: Ints = np.zeros(0, dtype=np.int64)

    def at_least(self, numbers: int) -> Ints:
        if len(self.room) < numbers:
            self.room = np.empty(numbers, dtype=np.int64)
        return self.room


_pages = _Pages()


class _Named(NamedTuple):
    """What was named last: nodes, the names known before and after, and the indices."""

    nodes: Array
    before: list[int]
    after: list[int]
    indices: Array


class _LastNamed(threading.local):
    last: _Named | None = None


_named = _LastNamed()


class Nodes:
    """Node ids as small indices, in order of appearance after the voters."""

    _DIRECT = 4096
    _NEW = -2

    def __init__(self, voters: Sequence[int]) -> None:
        self.names: list[int] = list(voters)
        self._index = {name: place for place, name in enumerate(self.names)}
        self._direct: Array | None = None

    @property
    def too_many(self) -> str | None:
        """Why the log cannot be judged, if it has too many nodes."""
        return f"more than {MAX_NODES} nodes in one log" if len(self.names) > MAX_NODES else None

    def _table(self) -> Array:
        """The index of every small node id; made when a node occurs, for many logs have clients alone."""
        if self._direct is None:
            # The last place answers for "no node", which is -1.
            self._direct = np.full(self._DIRECT + 1, self._NEW, dtype=np.int32)
            self._direct[-1] = -1
        return self._direct

    def indices(self, nodes: Array) -> Array:
        """The index of every node; -1 for none and for those beyond `MAX_NODES`.

        The folds of a log name the same nodes, one after the other: the first one does the work.
        """
        last = _named.last
        if last is not None and last.nodes is nodes and last.before == self.names:
            for name in last.after[len(self.names) :]:
                place = self._place(name)
                if name < self._DIRECT:
                    self._table()[name] = place
            return last.indices
        before = [*self.names]
        result = self._indices(nodes)
        _named.last = _Named(nodes, before, [*self.names], result)
        return result

    def _indices(self, nodes: Array) -> Array:
        highest = int(nodes.max(initial=-1))
        if highest < 0:
            return nodes
        if highest >= self._DIRECT:
            unique, inverse = np.unique(nodes, return_inverse=True)
            places = np.array([self._place(int(name)) for name in unique], dtype=np.int32)
            result: Array = places[inverse]
        else:
            table = self._table()
            result = table[nodes]
            if int(result.min()) == self._NEW:
                for name in np.unique(nodes[result == self._NEW]).tolist():
                    table[name] = self._place(name)
                result = table[nodes]
        result.flags.writeable = False
        return result

    def place(self, name: int) -> int:
        """The index of one node; -1 for none and for those beyond `MAX_NODES`."""
        return int(self.indices(np.array([name], dtype=np.int32))[0])

    def _known(self, name: int) -> int:
        place = self._index[name]
        return place if place < MAX_NODES else -1

    def _place(self, name: int) -> int:
        if name < 0:
            return -1
        if name not in self._index:
            self._index[name] = len(self.names)
            self.names.append(name)
        return self._known(name)

    def of(self, bits: int) -> list[int]:
        """The ids of the nodes in a bit set."""
        return [name for index, name in enumerate(self.names[:MAX_NODES]) if bits >> index & 1]

    def name(self, index: int) -> str:
        """The node's id for a sentence."""
        return str(self.names[index]) if 0 <= index < len(self.names) else "?"


class KernelFold:
    """A fold whose work is one kernel: keeps the findings and words them."""

    checks: Sequence[Check]
    """In the order of their numbers (`number`)."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.nodes = Nodes(setting.voters)
        self.found = empty_findings(len(self.checks), setting.keep)
        self._kept: list[tuple[int, list[int], list[int]]] = []

    def feed(self, columns: Columns) -> None:
        """Take the next events: name nodes by index, run the kernel, keep what it wrote down."""
        columns = columns._replace(node=self.nodes.indices(columns.node))
        with self._pages():
            self.run(columns if self.setting.compiled else columns.lists())

    def violated(self) -> frozenset[str]:
        """The ids of the checks that are violated so far (`Watchful`)."""
        counts = self.found.violated.tolist()
        return frozenset(check.id for check, count in zip(self.checks, counts, strict=True) if count)

    def run(self, columns: Columns) -> None:
        """Run the kernel over the events, whose nodes are indices."""
        raise NotImplementedError

    def end(self) -> None:
        """Judge what only the end of the history shows."""

    def losses(self) -> tuple[Loss, ...] | None:
        """The loss account as this fold sees it; None: it cannot tell."""
        return None

    def way(self, check: int, fields: list[int]) -> str:
        """In which way a rule with several sentences is broken, by the fields of a violation."""
        del check, fields
        return ""

    def undecided(self) -> str | None:
        """Why nothing can be said, if so."""
        return self.nodes.too_many

    def void(self) -> Mapping[int, str]:
        """Checks, by number, whose findings say nothing, and why."""
        return {}

    def lacking(self) -> Mapping[int, str]:
        """Checks, by number, that cannot hold because the history lacks what they need, and what that is."""
        return {}

    def finish(self) -> Verdicts:
        """Judge the end, and answer: an outcome for every check, with its first violations worded."""
        with self._pages():
            self.end()
        undecided, void, lacking = self.undecided(), self.void(), self.lacking()
        counts = zip(*(each.tolist() for each in self.found[:4]), strict=True)
        outcomes = tuple(
            outcome(
                check,
                judged,
                0 if place in void else violated,
                self._violations(place) if violated and place not in void else (),
                excuses=self._excuses(place) if excused else (),
                unjudged=unjudged,
                undecided=undecided or void.get(place) or lacking.get(place),
            )
            for place, (check, (judged, violated, excused, unjudged)) in enumerate(
                zip(self.checks, counts, strict=True)
            )
        )
        return Verdicts(outcomes, self.losses())

    def _excuses(self, check: int) -> tuple[Excuse, ...]:
        lines = enumerate(self.found.excuses[check].tolist())
        return tuple(
            Excuse(CAUSES[cause], tuple(sorted(self.nodes.of(nodes))), facts, first)
            for cause, (facts, nodes, first) in lines
            if facts
        )

    @contextmanager
    def _pages(self) -> Iterator[None]:
        """Give the kernel pages to write on, and keep what it wrote: all that may yet be kept has room."""
        self.found = self.found._replace(pages=_pages.at_least(len(self.checks) * self.setting.keep * (_HEAD + EVENTS)))
        yield
        end = int(self.found.place[_END])
        if not end:
            return
        written, at = self.found.pages[:end].tolist(), 0
        while at < end:
            events = at + _HEAD
            after = events + written[at + _SHOWN]
            self._kept.append((written[at + _CHECK], written[at + _FIRST : events], written[events:after]))
            at = after
        self.found.place[_END] = 0

    def _violations(self, place: int) -> tuple[Violation, ...]:
        check = self.checks[place]
        assert check.fields is not None
        words: dict[str, Callable[[int], object]] = {"node": self.nodes.name, "acks": ACKS_NAMES.get}
        worded = {
            name: words.get(getattr(hint, "__metadata__", ("",))[0], _number)
            for name, hint in get_type_hints(check.fields, include_extras=True).items()
        }
        found = []
        for number, fields, seqs in self._kept:
            if number == place:
                said = {name: word(field) for (name, word), field in zip(worded.items(), fields, strict=False)}
                way = self.way(number, fields) if len(check.sentences) > 1 else ""
                found.append(check.violation(seqs, way, **said))
        return tuple(found)


def _number(field: int) -> int | str:
    return "unknown" if field == NULL else field
