"""Operations of other tools as events: what Jepsen's maps mean, whatever syntax they were written in.

An operation map has ``type`` (invoke, ok, fail, info), ``process``, ``f``, ``value`` and maybe ``time``, ``key``,
``error``. One process has at most one open operation, which the next map of that process completes. Processes that
are no integers inject faults, such as ``nemesis``, unless the first thing heard of one is an invocation.

Registers, key-value stores, sets and queues have their values in ``text``, as JSON. A history with ``append`` is a log,
or several where operations name a key: ``[key value]``. An append answers its offset, bare or with the value. A read
answers everything from the start on, or what is at (and behind) the offset that it names.

In Kafka-like workloads an operation has several parts, ``[:send k v]`` and ``[:poll]``: every part is an operation of
its own, joined to the enclosing one by ``txn``. What a part polled is kept even if the operation failed; ``text`` of a
completion lists the logs that a rebalance concerned meanwhile.
Source: history-checks.md#kafka-like-histories-of-jepsen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..columns import limits
from ..errors import quote
from ..schema import COLUMNS, UNKNOWN_OFFSET, Kind
from ..validity import LARGEST_OFFSET
from .rows import Rows
from .values import Malformed, Value, as_json, is_integer, log_name

INVOKE, OBSERVE, OK, FAIL, INFO = map(str, (Kind.INVOKE, Kind.OBSERVE, Kind.OK, Kind.FAIL, Kind.INFO))
_TYPES = {kind: kind for kind in (INVOKE, OK, FAIL, INFO)}
_READS = frozenset({"read", "read_committed", "read_linearizable", "final_read"})
KEYED = _READS | {"write", "cas", "append", "tail"}
_USUAL_WORDS = 1000
OURS = {name.replace("_", "-"): name for name in ("final_read", "read_committed", "read_linearizable")}
"""Words of ours as a Clojure program would write them."""
_POSITIONS = frozenset({"assign", "subscribe"})
SILENT = frozenset({"write", "cas", "put", "append"})
"""What these answer says no more than that they were done."""
REPEATED = frozenset({"write", "cas", "put"})
"""What these answer, if anything, is what was asked for."""
_PARTED = frozenset({"send", "poll", "txn"})
_HEALING = ("stop", "heal", "resume", "recover", "end", "restart")
_SEQUENCES = {list, tuple}
_NESTED = {list, tuple, dict, set, frozenset}
_LONGEST_WORD = 1 << 10
_LARGEST = 1 << 63
((_EARLIEST, _LATEST),) = (limits(column) for column in COLUMNS if column.name == "time")
_LEAST_VALUE = -LARGEST_OFFSET - 1
"""Integers below it are texts."""
_INJECTOR = object()
"""The process of an operation that injects faults."""
_FIRST_NAMED = 1 << 32
"""From here on clients are numbered that have names."""
_ACKS = {"all": -1, -1: -1, "-1": -1, 1: 1, "1": 1, "leader": 1, 0: 0, "0": 0, "none": 0}
_TELL = "correct what records it, or set it aside with --lenient"


@dataclass(slots=True)
class _Part:
    """One part of an operation: an operation of its own."""

    op: int
    f: str
    log: str | None = None
    value: Value = None


class _Opened:
    """An operation that is not completed yet. What few operations have is said by the class."""

    log: str | None = None
    keyed = False
    """The value is a pair of a key and the value proper."""
    pairs = False
    """On a log: it answers a pair of offset and value, or such pairs."""
    start: int | None = None
    """On a log: where a read begins that answers values alone."""
    asked = False
    """It named that offset."""
    parts: list[_Part] | None = None

    def __init__(self, op: int, f: str, value: Value) -> None:
        self.op = op
        self.f = f
        self.value = value


class Operations:
    """Turns operation maps into events, in order: ``take`` each map, then the batch of ``rows``."""

    def __init__(self) -> None:
        self.rows = Rows()
        self._open: dict[int, _Opened] = {}
        self._op = 0
        self._time = 0
        self._timed: bool | None = None
        self.index = 0
        """The highest that was told."""
        self._is_log = False
        self._are_logs = False
        """The same where operations name a key."""
        self._keyed: bool | None = None
        """Whether operations name a key, as the first of them shows."""
        self._words: dict[str, str] = {}
        """Names of operations as histories have them, by what they are called here."""
        self._named: dict[str, int | None] = {}
        """Clients that have a name, by number, and fault injectors."""

    def take(self, fields: tuple[Value, Value, Value, Value, Value, Mapping[str, Value]]) -> None:
        """Add the events of one map, given as its type, f, process, time, value and what else it has.

        `Malformed` if it makes no sense; then nothing is added. One call for each map: what is usual comes first.
        """
        word, f, process, given_time, value, rest = fields
        if "index" in rest:  # which counts, whatever else is wrong
            self._in_order(rest["index"])
        try:
            kind, f = _TYPES[word], self._words[f]
        except (KeyError, TypeError):
            kind, f = self._type_and_name(word, f, process, value)
        if self._timed and type(given_time) is int and _EARLIEST <= given_time <= _LATEST:
            time = given_time
        elif given_time is None and self._timed is False:
            time = 0
        else:
            time = self._time_of(given_time)
        if isinstance(process, str):
            process = self._client(process, kind)
        size, op = len(self.rows.events), self._op
        try:
            if type(process) is int and 0 <= process < _LARGEST:
                if kind == INVOKE:
                    self._invoke(process, f, value, rest, time)
                else:
                    self._complete(kind, process, f, value, rest, time)
            elif process is _INJECTOR:
                self._fault(kind, f, value, time)
            else:
                problem = f"{_named(process)} is no process"
                raise Malformed("process", problem, "an integer from 0 on, or the word nemesis")
        except Malformed:
            del self.rows.events[size:]
            self._op = op
            raise
        self._time = time

    def _type_and_name(self, word: Value, f: Value, process: Value, value: Value) -> tuple[str, str]:
        """The type of an operation and its name as histories have it, where they are not the usual words."""
        kind = _TYPES.get(word) or _TYPES.get(_plain(word)) if isinstance(word, str) else None
        if kind is None:
            raise Malformed("type", f"{_named(word)} is no type of an operation", "invoke, ok, fail or info")
        if f is None:
            f = self._unsaid(kind, process, value)
        if not isinstance(f, str):
            raise _no_name(f)
        return kind, self._words.get(f) or self._word(f)

    def _word(self, f: str) -> str:
        """The name of an operation as histories have it; of so many that there usually are it is looked for once."""
        if not 0 < len(f) <= _LONGEST_WORD:
            raise _no_name(f)
        word = str(f).removeprefix(":")
        word = OURS.get(word, word)
        if len(self._words) < _USUAL_WORDS:
            self._words[f] = word
        return word

    def _unsaid(self, kind: str, process: Value, value: Value) -> str | None:
        """What an operation is that does not say it, as in histories of Elle, which are of transactions alone."""
        who = self._client(process, kind) if isinstance(process, str) else process
        if who is _INJECTOR:
            return str(process)  # who injects faults may say no more than that it did
        if kind != INVOKE:
            return self._open[who].f if is_integer(who) and who in self._open else None
        return "txn" if value and _has_parts("txn", value) else None

    def _time_of(self, time: Value) -> int:
        if time is None:
            if self._timed:
                return self._time
            self._timed = False
            return 0  # a clock that stands still: the order alone counts
        if type(time) is float and abs(time) < _LARGEST / 1e9:
            time = int(time * 1e9)  # who has fractions counts seconds
        if not is_integer(time) or not _EARLIEST <= time <= _LATEST:
            raise Malformed("time", f"{_named(time)} is not a time", f"nanoseconds, from {_EARLIEST} to {_LATEST}")
        if self._timed is None:
            self._timed = True
        return int(time) if self._timed else 0

    def _in_order(self, index: Value) -> None:
        """Take note of the place that an operation has in its history; below 0, or no integer: it is not told."""
        if type(index) is int and index >= 0:
            if index < self.index:
                remedy = "put the operations in the order of their index, and give one history a file"
                raise Malformed("index", f"{index} comes after {self.index}", remedy)
            self.index = index

    def _client(self, name: str, kind: str) -> Value:
        """The number of a client that has a name; `_INJECTOR` for what injects faults."""
        name = name.removeprefix(":")
        if name.isascii() and name.isdigit() and len(name) < 19:
            return int(name)
        if name not in self._named:
            if len(name) > _LONGEST_WORD:
                raise Malformed("process", f"{_named(name)} is not the name of a process", "give a shorter one")
            injects = kind == INFO or name.startswith("nemesis")
            self._named[name] = None if injects else _FIRST_NAMED + len(self._named)
        found = self._named[name]
        return _INJECTOR if found is None else found

    def _next_op(self) -> int:
        self._op += 1
        return self._op - 1

    def _fault(self, kind: str, f: str, value: Value, time: int) -> None:
        if kind == INVOKE:
            return  # Jepsen's fault injectors record both the attempt and its result as info
        what = str(Kind.HEAL if f.startswith(_HEALING) else Kind.FAULT)
        self.rows.add(what, time, None, None, f, text=None if value is None else as_json(value))

    # invocations

    def _invoke(self, process: int, f: str, value: Value, rest: Mapping[str, Value], time: int) -> None:
        if process in self._open:
            problem = f"process {process} still has an open operation ({quote(self._open[process].f)})"
            raise Malformed("process", problem, _TELL)
        op = self._op
        self._op += 1
        opened = _Opened(op, f, value)
        if "key" in rest:
            opened.log = log_name(rest["key"])
        offset: int | None = None
        named: int | None = None
        text: str | None = None
        if f in KEYED:
            offset, named, text = self._keyed_invocation(opened, rest)
        elif f in _POSITIONS:
            text = as_json([log_name(key) for key in _keys(value)])
            if rest.get("seek-to-beginning?"):
                offset = 0
        elif f not in _PARTED or not self._has_parts(opened):
            text = _texted(value)
        acks = rest.get("acks")
        if acks is not None:
            acks = _acks(acks)
        self.rows.add(INVOKE, time, process, op, f, opened.log, offset, named, text, None, acks)
        for part in opened.parts or ():
            named, text = _valued(part.value) if part.f == "send" else (None, _texted(part.value))
            self.rows.add(INVOKE, time, process, part.op, part.f, part.log, None, named, text, op)
        self._open[process] = opened

    def _has_parts(self, opened: _Opened) -> bool:
        """Whether the operation has parts, which it is given then."""
        value = _nested(opened.f, opened.value)
        if _has_parts(opened.f, value):
            opened.parts = [_part(self._next_op(), micro) for micro in value or ()]
        return opened.parts is not None

    def _keyed_invocation(
        self, opened: _Opened, rest: Mapping[str, Value]
    ) -> tuple[int | None, int | None, str | None]:
        """Offset, value and text of an operation whose value may name a key, or a place in a log."""
        f, value = opened.f, opened.value
        reads = f in _READS
        if type(value) is list and opened.log is None:
            if reads and self._is_log and not self._are_logs and _asks_for_offset(value):
                opened.value = value = value[0]
            elif (is_keyed(f, value) and (reads or self._keyed is not False)) or (self._are_logs and is_pair(value)):
                opened.keyed = True
                opened.log = log_name(value[0])
                opened.value = value = value[1]
        if self._keyed is not (opened.log is not None) and not (reads and is_pair(value)):
            self._find_out(opened)
        if f == "append" and (opened.log is None or opened.keyed or "acks" in rest):
            self._are_logs |= opened.keyed
            self._is_log |= not opened.keyed
            opened.pairs = True
            return None, *_valued(value)
        if reads and "offset" in rest:
            opened.pairs = True
            offset = rest["offset"]
            _require_offset(offset, optional=True)
            return offset, None, None
        if reads and (self._are_logs if opened.keyed else self._is_log and opened.log is None):
            opened.asked = value is not None
            opened.start = value if opened.asked else 0
            _require_offset(opened.start, optional=False)
            return opened.start, None, None
        return None, None, _texted(value)

    def _find_out(self, opened: _Opened) -> None:
        """Take note of whether operations name a key: those that do and those that do not are about other objects.

        Whether ``[1 2]`` is a value, or one beside its key, is told by the others alone.
        """
        named = opened.log is not None
        if self._keyed is not None:
            names, others = f"names key {quote(opened.log)}", "others name none"
            if not named:
                names, others = "names no key", "others name one, in :key or as [key value]"
            raise Malformed("value", f"{quote(opened.f)} {names}, while {others}", "give each its :key, or none")
        self._keyed = named

    # completions

    def _is_read_of_log(self, opened: _Opened) -> bool:
        """Whether it began before the first append, which shows what kind of object is read."""
        if not (self._are_logs if opened.keyed else self._is_log and opened.log is None):
            return False
        fits = opened.value is None or (is_integer(opened.value) and opened.value >= 0)
        return opened.f in _READS and not opened.pairs and fits

    def _complete(self, kind: str, process: int, f: str, value: Value, rest: Mapping[str, Value], time: int) -> None:
        opened = self._open.get(process)
        if opened is None:
            raise Malformed("process", f"process {process} completes an operation that it did not invoke", _TELL)
        if opened.f != f:
            problem = f"process {process} completes {quote(f)} while {quote(opened.f)} is open"
            raise Malformed("f", problem, _TELL)
        if "key" in rest and not opened.keyed and opened.log is not None and log_name(rest["key"]) != opened.log:
            raise Malformed("key", f"{_named(rest['key'])} is not the key {opened.log} that was asked for", _TELL)
        reason = None if kind == OK else reason_of(rest.get("error"), value, opened.value)
        if opened.parts is not None:
            self._complete_parts(kind, opened, _nested(f, value), process, time)
            text = as_json(_rebalanced(rest["rebalance-log"])) if "rebalance-log" in rest else None
            self.rows.add(kind, time, process, opened.op, f, opened.log, text=text, reason=reason)
        elif kind == OK:
            offset, count, text = self._answer(opened, value, process, time)
            self.rows.add(kind, time, process, opened.op, f, opened.log, offset, None, text, None, None, count)
        else:
            self.rows.add(kind, time, process, opened.op, f, opened.log, reason=reason)
        del self._open[process]

    def _answer(
        self, opened: _Opened, value: Value, process: int, time: int
    ) -> tuple[int | None, int | None, str | None]:
        """Offset, count and text of what an operation of one part answered."""
        f = opened.f
        if opened.keyed:
            if not is_pair(value) or log_name(value[0]) != opened.log:
                raise Malformed("value", f"{_named(value)} does not answer for key {opened.log}", "[key value]")
            value = value[1]
        if f in REPEATED and is_other(value, opened.value):
            raise Malformed("value", f"{_named(value)} answers {_named(opened.value)}", _TELL)
        if f == "append" and _is_other_append(value, opened.value):
            raise Malformed("value", f"{_named(value)} answers an append of {_named(opened.value)}", _TELL)
        if f == "append" and opened.pairs:
            offset = value[0] if is_pair(value) and not is_pair(opened.value) else None
            if type(value) is int and value != opened.value:
                offset = value
            return _known_offset(offset), None, None
        if f == "tail":
            _require_offset(value, optional=False)
            return value, None, None
        if f in _POSITIONS:
            return None, None, as_json([log_name(key) for key in _keys(opened.value if value is None else value)])
        if opened.start is None and self._is_read_of_log(opened):
            opened.asked = opened.value is not None
            opened.start = opened.value if opened.asked else 0
        if opened.pairs or opened.start is not None:
            start = opened.start or 0
            batches = value if opened.pairs else _read_from(start, value, opened.asked)
            count = self._observe(opened.op, process, None, opened.log, batches, time)
            if count:
                _require_offset(batches[-1][0] + 1, optional=False)
                return batches[-1][0] + 1, count, None
            return None if opened.pairs else start, count, None
        return None, None, None if f in SILENT else as_json(value)

    def _complete_parts(self, kind: str, opened: _Opened, value: Value, process: int, time: int) -> None:
        parts = opened.parts or []
        answers: Sequence[Value] = [None] * len(parts)
        if type(value) is list and (kind != FAIL or len(value) == len(parts)):
            answers = value
            if len(answers) != len(parts) and kind == OK:
                problem = f"{len(answers)} parts complete the {len(parts)} that were invoked"
                raise Malformed("value", problem, "answer every part, in order")
        if kind == OK and type(value) is not list:
            raise Malformed("value", f"{_named(value)} does not answer the parts", "a list, one entry for every part")
        for part, answer in zip(parts, list(answers) + [None] * len(parts), strict=False):
            offset = count = text = None
            if part.f == "send":
                offset = _sent(part, answer, kind)
            elif part.f == "poll":
                count = self._polled(part, opened.op, answer, process, time, kind)
            elif type(answer) is list and len(answer) == 3:
                if kind == OK:
                    _require_answer(part, answer)
                text = as_json(answer[2])
            self.rows.add(kind, time, process, part.op, part.f, part.log, offset, None, text, opened.op, None, count)

    def _polled(self, part: _Part, txn: int, answer: Value, process: int, time: int, kind: str) -> int | None:
        if answer is None:
            return None
        if type(answer) is not list or not answer or answer[0] != "poll" or len(answer) > 2:
            if kind == FAIL:
                return None
            raise Malformed("value", f"{_named(answer)} does not answer a poll", "[:poll {key [[offset value] ...]}]")
        given = answer[1] if len(answer) == 2 else None
        if given is None:
            return 0
        if type(given) is not dict:
            raise Malformed("value", f"{_named(given)} is no result of a poll", "{key [[offset value] ...]}")
        count = 0
        for key, batches in given.items():
            count += self._observe(part.op, process, txn, log_name(key), batches, time)
        return count

    def _observe(self, op: int, process: int, txn: int | None, log: str | None, batches: Value, time: int) -> int:
        if type(batches) is not list:
            raise Malformed("value", f"{_named(batches)} is not a list of what was read", "[[offset value] ...]")
        columns = _pairs_of_integers(batches)
        if columns is not None:
            self.rows.observe(time, process, op, txn, log, *columns)
            return len(batches)
        for pair in batches:
            if (type(pair) is not list and type(pair) is not tuple) or len(pair) != 2:
                raise Malformed("value", f"{_named(pair)} is nothing that was read", "[offset value]")
            _require_offset(pair[0], optional=False)
            value, text = _valued(pair[1])
            self.rows.add(OBSERVE, time, process, op, None, log, pair[0], value, text, txn=txn)
        return len(batches)


def is_other(value: Value, asked: Value) -> bool:
    """Whether what an operation answers contradicts what was asked for; a part that nobody asked for does not."""
    if value == asked or value is None or asked is None:
        return False
    if type(value) not in _NESTED and type(asked) not in _NESTED:
        return True
    return type(value) is type(asked) is list and len(value) == len(asked) and any(map(is_other, value, asked))


def _is_other_append(value: Value, asked: Value) -> bool:
    """Whether an append answers another value: beside its offset, or a text that what was appended does not end."""
    if is_pair(value) and not is_pair(asked):
        return is_other(value[1], asked)
    return isinstance(value, str) and isinstance(asked, str) and not value.endswith(asked)


def _pairs_of_integers(batches: Sequence[Value]) -> tuple[Sequence[int], Sequence[int]] | None:
    """Offsets and values of pairs that all are what `_require_offset` and a column of values ask; None of others."""
    if not batches or not set(map(type, batches)) <= _SEQUENCES or set(map(len, batches)) != {2}:
        return None
    offsets, values = zip(*batches, strict=True)
    if set(map(type, offsets)) != {int} or set(map(type, values)) != {int}:
        return None
    if min(offsets) < 0 or max(offsets) > LARGEST_OFFSET or min(values) < _LEAST_VALUE or max(values) >= _LARGEST:
        return None
    return offsets, values


def _no_name(f: Value) -> Malformed:
    return Malformed("f", f"{_named(f)} is not the name of an operation", "give a keyword such as :read")


def _plain(word: str) -> str:
    """A word without the colon and the namespace of a keyword."""
    return word.rpartition("/")[2].removeprefix(":")


def _read_from(start: int, value: Value, asked: bool) -> Sequence[Value]:
    """Offset and value of what a read gave that begins at an offset and answers values.

    A read that ``asked`` for its offset may answer one value, nothing at all, or repeat the offset before the value.
    """
    if type(value) is not list:
        if value is None:
            return []
        if not asked:
            raise Malformed("value", f"{_named(value)} is not a list of what was read", "[value ...]")
        return [(start, value)]
    if value and all(is_pair(each) for each in value):
        return value
    if asked and len(value) == 2 and value[0] == start:
        return [] if value[1] is None else [value]
    return list(enumerate(value, start))


def _nested(f: str, value: Value) -> Value:
    """The value of an operation that may have parts, as the list of them if it gives a single one bare."""
    if f == "poll" and (value is None or type(value) is dict):
        return [["poll"] if value is None else ["poll", value]]
    if f in ("send", "poll", "txn") and type(value) is list and value and isinstance(value[0], str):
        return [value]
    return value


def _has_parts(f: str, value: Value) -> bool:
    """Whether the value is a list of parts such as ``[:send k v]``."""
    return (
        f in ("send", "poll", "txn")
        and type(value) is list
        and (bool(value) or f != "send")
        and all(type(micro) is list and micro and isinstance(micro[0], str) for micro in value)
    )


def _part(op: int, micro: Sequence[Value]) -> _Part:
    name = str(micro[0])
    if name == "send":
        if len(micro) != 3:
            raise Malformed("value", f"{_named(micro)} is no send", "[:send key value]")
        return _Part(op, name, log_name(micro[1]), micro[2])
    if name == "poll":
        return _Part(op, name)
    return _Part(op, name, log_name(micro[1]) if len(micro) > 1 else None, micro[2] if len(micro) > 2 else None)


def _sent(part: _Part, answer: Value, kind: str) -> int | None:
    """The offset that a send answered; None if it did not say."""
    if answer is None or kind == FAIL:
        return None
    fits = type(answer) is list and len(answer) == 3 and answer[0] == "send" and log_name(answer[1]) == part.log
    if fits and is_pair(answer[2]) and answer[2][1] == part.value:
        return _known_offset(answer[2][0])
    if fits and answer[2] == part.value:
        return None
    problem = f"{_named(answer)} does not answer the send of {_named(part.value)} to {part.log}"
    raise Malformed("value", problem, "[:send key [offset value]]")


def _require_answer(part: _Part, answer: Sequence[Value]) -> None:
    """What answers a part of a transaction is about the same: what it does, to which key, and what it appends."""
    same = answer[0] == part.f and log_name(answer[1]) == part.log
    if not same or (part.f in SILENT and is_other(answer[2], part.value)):
        about = f"{part.f} of {part.log}" + ("" if part.value is None else f" with {_named(part.value)}")
        raise Malformed("value", f"{_named(answer)} does not answer {about}", _TELL)


def is_pair(value: Value) -> bool:
    """Whether it is a vector of two."""
    return type(value) is list and len(value) == 2


def _asks_for_offset(value: Value) -> bool:
    """Whether a read of a log without keys asks what is at an offset: ``[offset nil]``."""
    return is_pair(value) and value[1] is None and is_integer(value[0]) and value[0] >= 0


def is_keyed(f: str, value: Value) -> bool:
    """Whether an invocation names a key: ``[k nil]``, ``[k v]`` or ``[k [old new]]``."""
    if not is_pair(value):
        return False
    if f == "cas":
        return is_pair(value[1])
    if f == "append":
        return not any(isinstance(each, (list, dict)) for each in value)
    return f == "write" or value[1] is None


def _keys(value: Value) -> Sequence[Value]:
    if not isinstance(value, list):
        raise Malformed("value", f"{_named(value)} is not a list of keys", "[key ...]")
    return value


def _rebalanced(log: Value) -> list[str]:
    """The names of the logs that rebalances concerned: ``[{:keys [k ...]} ...]``, also parted in a map by when."""
    if isinstance(log, dict) and all(part is None or isinstance(part, list) for part in log.values()):
        log = [each for part in log.values() for each in part or ()]
    if log is None:
        return []
    if not isinstance(log, list) or not all(isinstance(each, dict) for each in log):
        raise Malformed("rebalance-log", f"{_named(log)} is not a list of rebalances", "[{:keys [key ...]} ...]")
    return list(dict.fromkeys(log_name(key) for each in log for key in _keys(each.get("keys") or [])))


def _valued(value: Value) -> tuple[int | None, str | None]:
    """Value and text of what names a record: an integer, or something else as text."""
    return (value, None) if is_integer(value) and value >= _LEAST_VALUE else (None, as_json(value))


def _texted(value: Value) -> str | None:
    return None if value is None else as_json(value)


def _require_offset(offset: Value, *, optional: bool) -> None:
    if (offset is None and optional) or (is_integer(offset) and 0 <= offset <= LARGEST_OFFSET):
        return
    if is_integer(offset) and offset > 0:
        raise Malformed("value", f"{_named(offset)} is too large to judge", f"offsets are below {LARGEST_OFFSET + 1}")
    raise Malformed("value", f"{_named(offset)} is no offset", "offsets are integers from 0 on")


def _known_offset(offset: Value) -> int | None:
    """The offset that a write answered; Kafka says -1 for none where nothing was to be acknowledged."""
    if offset is None or (type(offset) is int and offset == UNKNOWN_OFFSET):
        return None
    _require_offset(offset, optional=False)
    return int(offset)


def _acks(acks: Value) -> int:
    level = _ACKS.get(acks) if isinstance(acks, str) or type(acks) is int else None
    if level is None:
        raise Malformed("acks", f"{_named(acks)} is no acks level", "all, 1 or 0")
    return level


def reason_of(error: Value, value: Value, asked: Value) -> str | None:
    """Why an operation failed: its error, or the word in place of its value (``:timed-out``)."""
    if error is None and isinstance(value, str) and value != asked:
        error = value
    if error is None:
        return None
    text = str(error) if isinstance(error, str) else as_json(error)
    return text[:_LONGEST_WORD]


def _named(value: Value) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return quote(str(value))
    return quote(as_json(value))[1:-1] if not isinstance(value, tuple) else quote(value)
