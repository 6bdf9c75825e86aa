"""Many plain operations as events at once: column by column, without a step for each.

Plain are the operations of registers, key-value stores, sets and queues: of one part, without offsets. Everything else
goes map by map through `Operations`, and so does a stretch of maps of which one has to be refused. The events are
the same either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .objects import Fields
from .operations import (
    FAIL,
    INFO,
    INVOKE,
    KEYED,
    OK,
    OURS,
    REPEATED,
    SILENT,
    TIMES,
    Opened,
    Operations,
    is_keyed,
    is_other,
    is_pair,
    reason_of,
)
from .rows import batch_of
from .values import Malformed, Value, as_json, log_name

FEWEST = 128
"""Fewer operations are taken one by one."""
_CODE = {kind: code for code, kind in enumerate((INVOKE, OK, FAIL, INFO))}
_INVOKED, _DONE = 0, 1
_NOT_PLAIN = frozenset({"send", "poll", "txn", "assign", "subscribe", "tail"})
_MEMBERS_NOT_PLAIN = frozenset({"acks", "offset", "seek-to-beginning?", "rebalance-log"})
_LONGEST_WORD = 1 << 10
_NO_KEY = object()

Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


class _NotPlain(Exception):  # noqa: N818
    """The operations have to be taken one by one."""


class ColumnarOperations(Operations):
    """`Operations` that takes many at once where it can."""

    def take_many(self, fields: Sequence[Fields]) -> pa.RecordBatch | None:
        """The events of operations that all are plain and right; None for others, of which nothing is taken.

        There must be no ``rows`` left from before.
        """
        if len(fields) < FEWEST or self._is_log or self._are_logs:
            return None
        try:
            return self._plain(fields)
        except (_NotPlain, Malformed, TypeError, LookupError, OverflowError):
            return None

    def _plain(self, fields: Sequence[Fields]) -> pa.RecordBatch:
        """The events, column after column; raises, before anything is kept, if an operation is not plain.

        It is long because it is one pass: what is kept at its end needs every column found before.
        """
        fs: Sequence[str] = [each[1] for each in fields]
        words = {f: _word(f) for f in set(fs)}
        kinds, _, processes, times, values, rests = zip(*fields, strict=True)
        members = set().union(*rests)
        _require(members.isdisjoint(_MEMBERS_NOT_PLAIN) and set(map(type, processes)) == {int})
        keys = [rest.get("key", _NO_KEY) for rest in rests] if "key" in members else [_NO_KEY] * len(fs)
        _require("append" not in words.values() or _NO_KEY not in keys)
        _require(min(processes) >= 0)
        time, timed = self._clock(times)

        known = list(dict.fromkeys(words.values()))
        code_of = {f: known.index(word) for f, word in words.items()}
        f = np.fromiter(map(code_of.__getitem__, fs), np.int32, len(fs))
        kind = np.fromiter(map(_CODE.__getitem__, kinds), np.int32, len(fs))
        joined = _Joined(np.array(processes, np.int64), kind == _INVOKED, self._open)
        carried = joined.carried
        _require(bool((f[joined.completed] == f[joined.partner[joined.completed]]).all()))
        for place, opened in carried.items():
            fits = opened.f == known[f[place]] and opened.parts is None and not opened.pairs and opened.start is None
            _require(fits)

        op = joined.with_partner(self._op - 1 + np.cumsum(joined.invoked), {at: o.op for at, o in carried.items()})
        proper = list(values)
        names: dict[str | None, int] = {None: -1}
        log = np.full(len(fs), -1, np.int64)
        keyed = np.zeros(len(fs), bool)
        for place in np.flatnonzero(joined.invoked).tolist():
            value = values[place]
            if keys[place] is not _NO_KEY:
                log[place] = names.setdefault(log_name(keys[place]), len(names) - 1)
            elif type(value) is list and known[f[place]] in KEYED and is_keyed(known[f[place]], value):
                log[place] = names.setdefault(log_name(value[0]), len(names) - 1)
                keyed[place] = True
                proper[place] = value[1]
        log = joined.with_partner(
            log, {at: names.setdefault(opened.log, len(names) - 1) for at, opened in carried.items()}
        )
        keyed = joined.with_partner(keyed, {at: opened.keyed for at, opened in carried.items()})
        logs = [name for name in names if name is not None]
        for place in np.flatnonzero(keyed & (kind == _DONE)).tolist():
            value = values[place]
            _require(is_pair(value) and log_name(value[0]) == logs[log[place]])
            proper[place] = value[1]

        repeated = np.array([word in REPEATED for word in known])
        for place in np.flatnonzero((kind == _DONE) & repeated[f]).tolist():
            asked = carried[place].value if place in carried else proper[joined.partner[place]]
            _require(not is_other(known[f[place]], proper[place], asked))
        silent = np.array([word in SILENT for word in known])
        said = np.array([value is not None for value in proper])
        texts = _texts(proper, np.where(joined.invoked, said, (kind == _DONE) & ~silent[f]))
        reasons: list[str | None] = [None] * len(fs)
        for place in np.flatnonzero((kind != _INVOKED) & (kind != _DONE)).tolist():
            asked = carried[place].value if place in carried else proper[joined.partner[place]]
            reasons[place] = reason_of(rests[place].get("error"), values[place], asked)

        # Nothing is refused from here on.
        for process, place in joined.last.items():
            if joined.invoked[place]:
                name = logs[log[place]] if log[place] >= 0 else None
                self._open[process] = Opened(
                    int(op[place]), known[f[place]], name, proper[place], keyed=bool(keyed[place])
                )
            else:
                self._open.pop(process, None)
        self._op += int(np.count_nonzero(joined.invoked))
        self._timed = timed
        if timed:
            self._time = int(time[-1])
        columns = {
            "time": time,
            "kind": pa.DictionaryArray.from_arrays(kind, list(_CODE)),
            "process": joined.process,
            "op": op,
            "f": pa.DictionaryArray.from_arrays(f, known),
            "text": texts,
            "reason": reasons if any(reasons) else None,
            "log": pa.DictionaryArray.from_arrays(pa.array(log, pa.int32(), mask=log < 0), logs) if logs else None,
        }
        return batch_of(self.rows.pass_over(len(fs)), len(fs), columns)

    def _clock(self, times: Sequence[Value]) -> tuple[Integers, bool]:
        """The times of operations, and whether there are any."""
        types = set(map(type, times))
        if types == {int}:
            _require(TIMES[0] <= min(times) and max(times) <= TIMES[1])
            given = np.array(times, np.int64)
            timed = self._timed is not False
            return (given if timed else np.zeros_like(given)), timed
        _require(types == {type(None)} and not self._timed)
        return np.zeros(len(times), np.int64), False


class _Joined:
    """Invocations and completions of the same operation, joined.

    ``partner`` is the place of the invocation for a completion; -1 for those of ``carried``, which complete what was
    open before, by place. ``completed`` flags the others. ``last`` is the place of every process's last map.
    """

    def __init__(self, process: Integers, invoked: Flags, opened: Mapping[int, Opened]) -> None:
        self.process = process
        self.invoked = invoked
        order = np.argsort(process, kind="stable")
        changes = process[order[1:]] != process[order[:-1]]
        first, last = np.concatenate(([True], changes)), np.concatenate((changes, [True]))
        found = process[order[first]].tolist()
        open_before = np.concatenate(([False], invoked[order[:-1]]))
        open_before[first] = [each in opened for each in found]
        _require(bool((invoked[order] != open_before).all()))
        before = np.concatenate(([-1], order[:-1]))
        before[first] = -1
        self.partner = np.empty_like(order)
        self.partner[order] = before
        self.completed = ~invoked & (self.partner >= 0)
        self.carried = {
            place: opened[each] for each, place in zip(found, order[first].tolist(), strict=True) if each in opened
        }
        self.last = dict(zip(found, order[last].tolist(), strict=True))

    def with_partner(self, column: npt.NDArray[Any], carried: Mapping[int, Any]) -> npt.NDArray[Any]:
        """The column with the invocations' values for their completions too."""
        result = column.copy()
        result[self.completed] = column[self.partner[self.completed]]
        for place, value in carried.items():
            result[place] = value
        return result


def _require(fine: bool) -> None:
    if not fine:
        raise _NotPlain


def _word(f: Value) -> str:
    """What is done, in our words."""
    _require(isinstance(f, str) and 0 < len(f) <= _LONGEST_WORD and f[0] != ":" and f not in _NOT_PLAIN)
    return OURS.get(f, str(f))


def _texts(values: Sequence[Value], wanted: Flags) -> list[str | None]:
    """The wanted values as JSON. The values are alive all the while, so that an identity stands for one value."""
    texts: list[str | None] = [None] * len(values)
    known: dict[int, str] = {}
    for place in np.flatnonzero(wanted).tolist():
        value = values[place]
        text = known.get(id(value))
        if text is None:
            text = known[id(value)] = as_json(value)
        texts[place] = text
    return texts
