"""Registers, key-value stores, sets and queues: one check, `LINEARIZABLE`, answered by Porcupine if it takes a search.

Every log (key) is a register, a set or a queue of its own; a key-value store is partitioned by Porcupine. What one
client was told is ordered by the order of events. An operation of unknown outcome stays open to the end.
Source: history-checks.md#porcupine-as-the-search-engine.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from loghistory import HistoryError, Kind
from loghistory.errors import quote
from loghistory.importers.values import log_name

from ..checks.contract import Check, Outcome, Verdict, Violation, outcome
from .choice import Model
from .operations import FAILED, UNKNOWN, Input, Operation, Output, Value
from .rounds import in_rounds
from .search import Search, SearchMissing, Specification
from .sets_and_queues import Answer, Contradiction, decide_queue, decide_set
from .unknown_writes import bounded

if TYPE_CHECKING:
    from linearizability_checker import Result

LINEARIZABLE: Check = Check(
    id="linearizable",
    rule="Operations on registers, key-value stores, sets and queues take effect one after the other, each between its "
    "invocation and its completion, and answer accordingly.",
    source=("history-checks.md#porcupine-as-the-search-engine", "history-checks.md#another-value-answered"),
    fact="an operation of a client",
    sentence={
        "operations": "No order of the {count:operation|operations}{where} explains every answer: {reason}.",
        "transactions": "No order of the {count:transaction|transactions} explains every answer: {reason}.",
        "unplaced": "No order of the operations explains every answer.",
    },
    kinds=(Kind.INVOKE, Kind.OK),
    columns=("process", "op", "f", "text"),
)

_KEPT = 10
_GLANCE = 0.05
"""Seconds of a search that only shows how far one comes."""
_LINEARIZATIONS = 3
"""Partial linearizations of a partition that are told."""
_LONGEST_NAME = 100
_FEW = 3
"""Unknown outcomes up to which a search tries them all, so that its answer tells of them."""
_KNOWN: dict[Model, Mapping[str, str]] = {
    Model.REGISTER: {"read": "read", "write": "write"},
    Model.CAS_REGISTER: {"read": "read", "write": "write", "cas": "cas", "get": "read", "put": "write"},
    Model.KEY_VALUE: {"get": "get", "read": "get", "put": "put", "write": "put", "append": "append"},
    Model.SET: {"add": "add", "remove": "remove", "contains": "contains", "read": "read"},
    Model.QUEUE: {"enqueue": "enqueue", "dequeue": "dequeue", "drain": "drain"},
    Model.UNKNOWN: {},
}
_REPEATED = frozenset({"add", "remove", "enqueue"})
"""What these answer is the value that they were asked for, or something else about it, such as a number of the job."""
_YES_OR_NO = frozenset({"null", "true", "false"})
_ASKS = frozenset({"read", "get", "contains", "dequeue", "drain"})
_MICRO_OPERATIONS = re.compile(r'\[\[":?(?:r|w|read|write|append)",')
"""How the JSON of a transaction over registers begins."""
_VERSIONED = re.compile(r"\[.*,\[null,null\]\]")
"""How the JSON of a read of a register looks that has a version, and a key."""
_EMPTY = frozenset({":empty", "empty", ":exhausted"})
"""What a queue may answer that has nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may cost, and what it starts from."""

    timeout: float | None = 60.0
    """Seconds for the whole history."""
    memory: int | None = 2 << 30
    """Bytes of the process that searches."""
    initial: Value = None
    given: bool = False
    """Whether ``initial`` was said. If not, it is nothing, or 0 or "" where the answers ask for that."""


class Partial(msgspec.Struct, frozen=True):
    """How far the search came with operations that no order explains; operations are told by their invocations."""

    log: str | None
    operations: int
    """How many had to be placed."""
    linearizations: tuple[tuple[int, ...], ...]
    """The longest orders found, each as the ``seq`` of the invocations."""
    unplaced: tuple[int, ...]
    """Those that the longest order has no place for."""
    left_out: int
    """Further orders that were found and are not told."""


@dataclass(slots=True)
class _Done:
    """One operation: as Porcupine takes it, and the events that tell it."""

    operation: Operation
    events: tuple[int, ...]


@dataclass(slots=True)
class _Asked:
    process: int
    seq: int
    f: str
    log: str | None
    text: str | None


@dataclass(slots=True)
class _Ended:
    """An operation and how it ended."""

    asked: _Asked
    seq: int | None
    kind: str
    text: str | None


@dataclass(slots=True)
class _Part:
    """The operations on one log."""

    done: list[_Done] = field(default_factory=list)


class LinearizableHistory:
    """The operations of a history: ``feed`` its events, then ``finish``."""

    conclusive: frozenset[str] = frozenset()
    """The checks whose violations no event that is missing could explain: there may always be another write."""

    def __init__(self, name: str, model: Model, limits: Limits, pages: Path | None = None) -> None:
        self.partial: list[Partial] = []
        """Of what is not linearizable, or undecided."""
        self._name = name
        self._model = model
        self._limits = limits
        self._pages = pages
        self._known = _KNOWN[model]
        self._open: dict[int, _Asked] = {}
        self._ended: list[_Ended] = []
        self._parts: dict[str | None, _Part] = {}
        self._foreign: Counter[str] = Counter()
        self._repeated: set[str] = set()
        self._others: dict[str, list[int]] = {}  # by name: the events that answer another value
        self._count = 0
        self._drawn: set[Path] = set()
        self.notes: list[str] = []

    @property
    def logs(self) -> int:
        """How many registers, stores, sets or queues were seen; at least 1."""
        return max(1, len(self._parts))

    def feed(self, batch: pa.RecordBatch) -> None:
        """Take the next events, with columns seq, kind, log, process, op, f, value and text."""
        names = ("seq", "kind", "log", "process", "op", "f", "value", "text")
        for seq, kind, log, process, op, f, value, text in zip(
            *(batch.column(n).to_pylist() for n in names), strict=True
        ):
            if kind == Kind.INVOKE:
                shown = text if value is None else str(value)
                self._open[op] = _Asked(process, seq, f, log, shown)
            elif kind in (Kind.OK, Kind.FAIL, Kind.INFO):
                asked = self._open.pop(op, None)
                if asked is not None:
                    self._ended.append(_Ended(asked, seq, kind, text if value is None else str(value)))

    def _close(self, asked: _Asked, seq: int | None, kind: str, text: str | None) -> None:
        name = self._known.get(asked.f)
        self._count += name is not None
        if name is None:
            self._foreign[asked.f] += 1
            return
        if asked.text is not None and _MICRO_OPERATIONS.match(asked.text):
            self._foreign["micro-operations"] += 1
            return
        if name in _REPEATED and kind == Kind.OK and text is not None and text not in _YES_OR_NO:
            if text == asked.text:
                self._repeated.add(name)
            elif seq is not None:
                self._others.setdefault(name, []).append(seq)
        key = None if self._model is Model.KEY_VALUE else asked.log
        part = self._parts.setdefault(key, _Part())
        for input_, output in self._terms(name, asked, seq, kind, text):
            returned = seq if kind != Kind.INFO else None
            operation = Operation(asked.process, asked.seq, returned, input_, output)
            part.done.append(_Done(operation, (asked.seq,) if seq is None else (asked.seq, seq)))

    def _terms(
        self, name: str, asked: _Asked, seq: int | None, kind: str, text: str | None
    ) -> Iterator[tuple[Input, Output]]:
        """Input and output of an operation; a drain is several."""
        ended: Output = UNKNOWN if kind == Kind.INFO else FAILED if kind == Kind.FAIL else None
        argument: Any = None
        if name not in _ASKS or name == "contains":
            argument = self._decoded(asked.text, asked.seq)
        answer: Any = None
        if kind == Kind.OK and name in _ASKS:
            answer = self._decoded(text, seq)
        if name == "cas":
            if not isinstance(argument, list) or len(argument) != 2:
                raise self._unfit(asked.seq, f"{quote(asked.text)} is no compare-and-set", "[expected, new]")
            yield ("cas", _value(argument[0]), _value(argument[1])), True if ended is None else ended
        elif name == "drain":
            if kind == Kind.OK and not isinstance(answer, list):
                raise self._unfit(asked.seq, f"{quote(text)} is not an answer to a drain", "a list of values")
            # In which order is not told, so they are concurrent. Then nothing was left.
            for each in [*answer, None] if kind == Kind.OK else ():
                yield ("dequeue",), _value(each)
            if kind == Kind.INFO:
                self._foreign["drain of unknown outcome"] += 1
        elif self._model is Model.KEY_VALUE:
            key = asked.log if asked.log is not None else ""
            if name == "get":
                yield ("get", key), _value(answer) if ended is None else ended
            elif name == "append":
                yield ("append", key, argument if isinstance(argument, str) else _json(argument)), ended
            else:
                yield ("put", key, _value(argument)), ended
        elif name == "read" and self._model is Model.SET:
            if kind == Kind.OK and not isinstance(answer, list):
                self._foreign["read that answers no set"] += 1
                return
            yield ("read",), [_value(each) for each in answer] if ended is None else ended
        elif name == "dequeue" and kind == Kind.OK and isinstance(answer, str) and answer in _EMPTY:
            yield (name,), None
        elif name in ("read", "dequeue"):
            yield (name,), _value(answer) if ended is None else ended
        elif name == "contains":
            yield (name, _value(argument)), bool(answer) if ended is None else ended
        else:
            yield (name, _value(argument)), ended

    def _decoded(self, text: str | None, seq: int | None) -> Any:  # noqa: ANN401
        if text is None:
            return None
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            raise self._unfit(seq, f"{quote(text)} is not JSON", "values are compact JSON") from None

    def _unfit(self, seq: int | None, problem: str, remedy: str) -> HistoryError:
        return HistoryError(self._name, seq, "text", problem, remedy, place="seq")

    def finish(self) -> tuple[Outcome, ...]:
        """Judge all operations together; one outcome, of `LINEARIZABLE`. Raises `HistoryError` for unfit values."""
        self._ended += [_Ended(asked, None, Kind.INFO, None) for asked in self._open.values()]
        self._open.clear()
        if self._model in (Model.KEY_VALUE, Model.SET, Model.QUEUE):
            self._name_keys()
        else:
            self._leave_out_versions()
        for each in self._ended:
            self._close(each.asked, each.seq, each.kind, each.text)
        self._ended.clear()
        return (self._outcome(),)

    def _name_keys(self) -> None:
        """Take keys from the values, ``[key value]``, where what asks is told as ``[key nil]``, or as the key alone."""
        asks = [each.asked for each in self._ended if each.asked.f in ("read", "get", "dequeue")]
        if not asks or any(each.log is None and each.text is None for each in asks):
            return
        for each in self._ended:
            asked = each.asked
            if asked.log is not None or asked.text is None or asked.f not in self._known:
                continue
            value = self._decoded(asked.text, asked.seq)
            pair = isinstance(value, list) and len(value) == 2
            if asked.f == "get" and not pair:
                asked.log, asked.text = log_name(value), None
            elif pair:
                asked.log, asked.text = log_name(value[0]), _json(value[1])
                answer = self._decoded(each.text, each.seq) if each.kind == Kind.OK else None
                if isinstance(answer, list) and len(answer) == 2 and answer[0] == value[0]:
                    each.text = _json(answer[1])

    def _leave_out_versions(self) -> None:
        """Registers that have a version, ``[key [version value]]``, are judged by their values alone."""
        reads = [each for each in self._ended if each.asked.f == "read"]
        if not reads or any(each.asked.text is None or not _VERSIONED.fullmatch(each.asked.text) for each in reads):
            return
        self._note("The versions beside the values are not judged.")
        for each in self._ended:
            asked, value = each.asked, self._decoded(each.asked.text, each.asked.seq)
            if asked.f == "read":
                answer = self._decoded(each.text, each.seq)
                asked.log, asked.text = log_name(value[0]), None
                if each.kind == Kind.OK and isinstance(answer, list) and len(answer) == 2:
                    versioned = answer[1]
                    each.text = _json(versioned[1] if isinstance(versioned, list) else versioned)
            elif isinstance(value, list) and len(value) == 2 and value[0] is None:
                asked.text = _json(value[1])

    def _outcome(self) -> Outcome:
        if self._foreign:
            found = ", ".join(f"{name} ({count})" for name, count in sorted(self._foreign.items())[:5])
            reason = f"no rule for operations of other models: {found}"
            return outcome(LINEARIZABLE, self._count, undecided=reason)
        if not self._count:
            return outcome(LINEARIZABLE, 0)
        try:
            searched = self._searched()
        except SearchMissing as problem:
            return outcome(LINEARIZABLE, self._count, undecided=str(problem))
        except ValueError as problem:
            raise HistoryError(self._name, None, None, str(problem), "name a history of this model") from None
        doubt = self._answers_differ() if searched.verdict is Verdict.HOLDS else None
        return searched if doubt is None else outcome(LINEARIZABLE, self._count, undecided=doubt)

    def _answers_differ(self) -> str | None:
        """Why it is not known what was added, removed or enqueued, where some answers repeat it and others do not."""
        for name, seqs in self._others.items():
            if name in self._repeated:
                answers = "1 answer" if len(seqs) == 1 else f"{len(seqs)} answers"
                repeats = "repeats" if len(seqs) == 1 else "repeat"
                return f"{answers} to {name} (seq {seqs[0]}) {repeats} another value than was asked for"
        return None

    def _searched(self) -> Outcome:
        """First the verdict, then what explains it, with what is left of the time."""
        logs = [log if len(self._parts) > 1 else None for log in self._parts]
        parts = [part.done for part in self._parts.values()]
        known = [None if self._pages is not None else self._decided(_operations(done)) for done in parts]
        found = {
            place: _contradicted(parts[place], answer, logs[place]) for place, answer in enumerate(known) if answer
        }
        hard = [place for place, answer in enumerate(known) if answer is None]
        hard.sort(key=lambda place: (len(parts[place]), logs[place] or ""))
        specified: dict[int, Specification] = {}
        with Search(timeout=self._limits.timeout, memory=self._limits.memory) as search:

            def ask(place: int, seconds: float | None) -> Result:
                specified[place], result = self._ask(search, _operations(parts[place]), seconds)
                return result

            answers, left = in_rounds(hard, ask, self._limits.timeout, enough=bool(found))
            ended = {place: answers[place].verdict if place in answers else "unknown" for place in hard}
            illegal = sorted(place for place in hard if ended[place] == "illegal")
            for place in illegal[: max(0, _KEPT - len(found))]:
                found[place], left = self._explain(search, parts[place], logs[place], left)
            undecided = sorted(place for place in hard if ended[place] == "unknown")
            for place in undecided[:_KEPT]:
                glance = self._ask(search, _operations(parts[place]), _GLANCE, explain=True)[1]
                self._tell(parts[place], glance, logs[place])
            for place in () if self._pages is None else sorted(specified):
                self._draw(search, specified[place], _operations(parts[place]), logs[place])
        reasons = [str(answers[place].reason) for place in undecided if place in answers]
        reason = self._gave_up(reasons, stopped=bool(found)) if undecided else None
        violated = sum(bool(answer) for answer in known) + len(illegal)
        violations = tuple(found[place] for place in sorted(found)[:_KEPT])
        return outcome(LINEARIZABLE, self._count, violated, violations, undecided=reason)

    def _explain(self, search: Search, done: Sequence[_Done], log: str | None, left: float) -> tuple[Violation, float]:
        """The violation of what no order explains, as far as that fits into the time that is left; and what then is."""
        seconds = None if left == math.inf else max(left, _GLANCE)
        specification, result = self._ask(search, _operations(done), seconds, explain=True)
        if result.verdict == "illegal":
            self._tell(done, result, log)
        return _explained(done, specification, result, log), left - result.seconds

    def _decided(self, operations: Sequence[Operation]) -> Answer:
        """What is known without a search, if anything is."""
        if self._limits.given and self._limits.initial is not None:
            return None
        if self._model is Model.SET:
            return decide_set(operations)
        return decide_queue(operations) if self._model is Model.QUEUE else None

    def _ask(
        self, search: Search, operations: Sequence[Operation], seconds: float | None, *, explain: bool = False
    ) -> tuple[Specification, Result]:
        """The answer from each initial value that may be meant, until one is not illegal."""
        first: tuple[Specification, Result] | None = None
        spent = 0.0
        initials = self._initials(operations)
        unknown = sum(each.output is UNKNOWN for each in operations)
        if unknown > _FEW and self._model not in (Model.SET, Model.QUEUE):
            operations = bounded(operations, initials, by_key=self._model is Model.KEY_VALUE)
        for initial in initials:
            specification = Specification(self._model, initial)
            result = search.ask(specification, operations, seconds, explain=explain)
            spent += result.seconds
            result = replace(result, seconds=spent)
            if result.verdict != "illegal":
                if result.verdict == "ok" and initial is not None and not self._limits.given:
                    self._note(f"It holds for the initial value {_json(initial)}; --initial says another one.")
                return specification, result
            first = first or (specification, result)
        assert first is not None
        return first

    def _initials(self, operations: Sequence[Operation]) -> list[Value]:
        """Initial values to try: a history does not say it, but its answers may."""
        if self._limits.given:
            return [self._limits.initial]
        if self._model not in (Model.REGISTER, Model.CAS_REGISTER, Model.KEY_VALUE):
            return [None]
        reads = [each.output for each in operations if each.input[0] in ("read", "get")]
        if None in reads:
            return [None]
        if self._model is Model.KEY_VALUE:
            put = any(each.input[0] == "put" and each.input[2] == "" for each in operations)
            return [""] if "" in reads and not put else [None, ""]
        return [None, 0] if _begins_with_0(operations) else [None]

    def _tell(self, done: Sequence[_Done], result: Result, log: str | None) -> None:
        """Keep the partial linearizations of what is not explained."""
        for each in result.partitions:
            if each.complete or len(self.partial) == _KEPT:
                continue
            key = str(done[each.operations[0]].operation.input[1]) if self._model is Model.KEY_VALUE else log
            orders = tuple(
                tuple(done[place].events[0] for place in order) for order in each.linearizations[:_LINEARIZATIONS]
            )
            unplaced = tuple(done[place].events[0] for place in each.unplaced)
            left_out = each.left_out + len(each.linearizations) - len(orders)
            self.partial.append(Partial(key, len(each.operations), orders, unplaced, left_out))

    def _draw(
        self, search: Search, specification: Specification, operations: Sequence[Operation], log: str | None
    ) -> None:
        """Write Porcupine's page of one search."""
        assert self._pages is not None
        name = "_".join([self._name, *([] if log is None else [log])])
        name = re.sub(r"[^\w.-]+", "_", name).strip("._") or "history"
        page = self._pages / f"{name[-_LONGEST_NAME:]}.html"
        number = 1
        while page in self._drawn:
            number += 1
            page = self._pages / f"{name[-_LONGEST_NAME:]}-{number}.html"
        self._drawn.add(page)
        try:
            self._pages.mkdir(parents=True, exist_ok=True)
            search.ask(specification, operations, page=page)
        except OSError as problem:
            said = f"cannot be written ({problem.strerror or problem})"
            raise HistoryError(page, None, None, said, "name another directory with --visualise") from None

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _gave_up(self, reasons: Sequence[str], *, stopped: bool) -> str:
        """Why something is undecided, by what the searches say that ended without an answer."""
        if "memory" in reasons:
            return f"the search took more than {(self._limits.memory or 0) >> 20} MiB (--memory-limit)"
        if "worker" in reasons:
            return (
                "the process that searches was ended from outside or is damaged: if it stays so, install "
                "linearizability-checker again"
            )
        if stopped:
            return "the search ended with the first that no order explains"
        return f"the search took more than {self._limits.timeout:g} s (--timeout)"


def _operations(done: Sequence[_Done]) -> list[Operation]:
    return [each.operation for each in done]


def _begins_with_0(operations: Sequence[Operation]) -> bool:
    """Whether 0 was seen in a register before anybody can have put it there."""
    put = min(
        (
            each.call
            for each in operations
            if each.output is not FAILED and each.input[0] != "read" and each.input[-1] == 0
        ),
        default=None,
    )
    seen = (
        each.return_
        for each in operations
        if each.return_ is not None
        and (
            (each.input[0] == "read" and each.output == 0)
            or (each.input[0] == "cas" and each.output is True and each.input[1] == 0)
        )
    )
    first = min(seen, default=None)
    return first is not None and (put is None or first < put)


def _json(value: Any) -> str:  # noqa: ANN401
    return msgspec.json.encode(value).decode()


def _value(value: Any) -> Value:  # noqa: ANN401
    """A value as Porcupine takes it; what is no scalar is named by its JSON."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return value
    return f"json {_json(value)}"


def _explained(done: Sequence[_Done], specification: Specification, result: Result, log: str | None) -> Violation:
    """The violation: where the longest order that explains some operations stops, and at what."""
    broken = next((each for each in result.partitions if not each.complete), None)
    if broken is None:
        return msgspec.structs.replace(LINEARIZABLE.violation(done[0].events, "unplaced"), log=log)
    order = broken.linearizations[0] if broken.linearizations else ()
    stuck = [place for place in broken.unplaced if done[place].operation.return_ is not None]
    stuck.sort(key=lambda place: done[place].operation.return_ or 0)
    key = None
    if specification.model is Model.KEY_VALUE:
        key = str(done[broken.operations[0]].operation.input[1])
    if result.too_large:
        reason = "how far the search got is left out, because it would not fit into the memory allowed"
    else:
        reason = f"the longest one found places {len(order)}"
    events: list[int] = []
    if order:
        reason += f", ends with {_in_words(done[order[-1]])}"
        events += done[order[-1]].events
    holds = None if result.too_large else _held(specification, [done[place].operation for place in order])
    if holds is not None:
        reason += f" (then it holds {holds})"
    if stuck and not result.too_large:
        reason += f" and has no place for {_in_words(done[stuck[0]])}"
        events += done[stuck[0]].events
    where = "" if key is None else f" on key {key}"
    found = LINEARIZABLE.violation(events, "operations", count=len(broken.operations), where=where, reason=reason)
    return msgspec.structs.replace(found, log=key if key is not None else log)


def _contradicted(done: Sequence[_Done], answer: Contradiction, log: str | None) -> Violation:
    """The violation that was found without a search."""
    events = [seq for place in answer.places for seq in done[place].events]
    steps = "; ".join(_in_words(done[place]) for place in dict.fromkeys(answer.places))
    reason = f"{answer.words} ({steps})"
    found = LINEARIZABLE.violation(events, "operations", count=len(done), where="", reason=reason)
    return msgspec.structs.replace(found, log=log)


def _in_words(done: _Done) -> str:
    operation = done.operation
    name, *arguments = operation.input
    if name in ("get", "put", "append") and len(arguments) and name != "enqueue":
        arguments = arguments[1:]
    text = " ".join([str(name), *map(_short, arguments)])
    if operation.output is UNKNOWN:
        text += " of unknown outcome"
    elif name in ("read", "get", "dequeue", "contains"):
        text += f" that answered {_short(operation.output)}"
    return f"client {operation.process}'s {text}"


def _short(value: object) -> str:
    plain = list(value) if isinstance(value, (set, frozenset, tuple)) else value
    text = _json(plain)
    return text if len(text) <= 40 else f"{text[:20]}…{text[-19:]}"


def _held(specification: Specification, operations: Sequence[Operation]) -> str | None:
    """The value after some operations, for models that have one."""
    if specification.model not in (Model.REGISTER, Model.CAS_REGISTER, Model.KEY_VALUE):
        return None
    value: Any = specification.initial
    for each in operations:
        name, *arguments = each.input
        if name == "write":
            value = arguments[0]
        elif name == "put":
            value = arguments[1]
        elif name == "append" and (value is None or isinstance(value, str)):
            value = (value or "") + str(arguments[1])
        elif name == "cas" and value == arguments[0]:
            value = arguments[1]
    return _short(value)
