"""The questions: one history, many histories, a history of events."""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from linearizability_checker.encoding import Columns, model_of, operations_of
from linearizability_checker.history import Call, Model, Operation, Return
from linearizability_checker.process import Worker, WorkerDied
from linearizability_checker.result import Partition, Reason, Result, Verdict

TIMEOUT: Final = 60.0
MEMORY_LIMIT: Final = 2 << 30
SMALLEST_MEMORY_LIMIT: Final = 64 << 20
"""The worker itself takes about a tenth of it."""

_LONGEST_TIMEOUT: Final = 10 * 365 * 86400.0
_CHUNK: Final = 4096
"""Operations in one request of many histories; a larger history goes alone."""
_READ_AHEAD: Final = 8
"""Requests that are written before their predecessors are answered."""
_BUSY: Final = 10
"""How many times as long as on an idle machine a search may take before its worker is taken to hang."""
_GRACE: Final = 10.0
"""Seconds that a worker has for a request besides the search itself."""
_GRACE_PER_OPERATION: Final = 1e-4

_RESULTS: Final = {
    "o": Result(Verdict.OK),
    "i": Result(Verdict.ILLEGAL),
    "t": Result(Verdict.UNKNOWN, Reason.TIMEOUT),
    "m": Result(Verdict.UNKNOWN, Reason.MEMORY),
}


@dataclass(frozen=True, slots=True)
class _Request:
    columns: Columns
    line: bytes
    seconds: float | None
    """When the worker must have answered, counted from its predecessor's answer; None: never."""


class Checker:
    """A worker to ask, as a context manager: ``with Checker(timeout=5) as checker: checker.check_operations(...)``.

    ``timeout`` is in seconds for each history: of processor time, on each processor that has a partition to search; for
    many histories at once, of time that passes. ``memory_limit`` is in bytes for the worker process (about 10 MB of it
    are its own). None means no limit, and exceeding one is the verdict unknown. One checker may be used from several
    threads; they take turns. A process that forks needs a checker of its own in the child.
    """

    def __init__(self, *, timeout: float | None = TIMEOUT, memory_limit: int | None = MEMORY_LIMIT) -> None:
        """ValueError if a limit makes no sense. The worker is started with the first question."""
        self._timeout = _checked_timeout(timeout)
        self._memory_limit = _checked_memory_limit(memory_limit)
        self._lock = threading.Lock()
        self._worker: Worker | None = None

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker. The next question would start a new one."""
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None

    @property
    def process_id(self) -> int | None:
        """The process id of the worker, if one is running."""
        return None if self._worker is None else self._worker.process_id

    def check_operations(
        self,
        model: Model | str,
        operations: Sequence[Operation],
        *,
        within: float | None = None,
        explain: bool = True,
        visualization: str | os.PathLike[str] | None = None,
    ) -> Result:
        """Whether a history is linearizable.

        ``within`` is a limit in seconds for this history, where it is less than ``timeout``. ``explain=False`` saves
        the partial linearizations. ``visualization`` is a path for Porcupine's page (HTML, complete in itself); it
        appears by rename, and not at all where the worker did not live to draw it. ValueError for input that is no
        history of the model, and for a limit that makes no sense; OSError if the page cannot be written; WorkerMissing.
        """
        columns = Columns(model_of(model))
        columns.add(operations)
        request = self._request(columns, within, explain=explain, visualize=visualization is not None)
        with self._lock:
            try:
                if self._worker is None:
                    self._worker = Worker(self._memory_limit)
                self._worker.send(request.line)
                answer = _parsed(self._worker.receive(request.seconds), 1)
            except WorkerDied as death:
                if self._worker is not None:
                    self._worker.close()
                    self._worker = None
                return Result(Verdict.UNKNOWN, death.reason)
            except BaseException:
                # Interrupted in the middle: what the worker would say next answers no further question.
                if self._worker is not None:
                    self._worker.close()
                    self._worker = None
                raise
        if visualization is not None and "html" in answer:
            _write(Path(visualization), answer["html"])
        result = _RESULTS[answer["verdicts"]]
        seconds = float(answer.get("seconds", 0.0))
        if not explain:
            return replace(result, seconds=seconds)
        too_large = bool(answer.get("left_out", False))
        return Result(result.verdict, result.reason, _partitions(answer), too_large, seconds)

    def check_events(
        self,
        model: Model | str,
        events: Sequence[Call | Return],
        *,
        explain: bool = True,
        visualization: str | os.PathLike[str] | None = None,
    ) -> Result:
        """The same about events in their order: one that comes later is later.

        A call without return has an unknown outcome. The partitions of the result name operations by the ids of their
        events.
        """
        operations, ids = operations_of(events)
        result = self.check_operations(model, operations, explain=explain, visualization=visualization)
        named = tuple(
            Partition(
                tuple(ids[i] for i in partition.operations),
                tuple(tuple(ids[i] for i in order) for order in partition.linearizations),
                partition.left_out,
            )
            for partition in result.partitions
        )
        return replace(result, partitions=named)

    def check_many(self, model: Model | str, histories: Iterable[Sequence[Operation]]) -> Iterator[Result]:
        """The results of many histories over one model, in their order and without explanations, as they come.

        For very many small histories: they are taken from the iterable as needed, sent many at a time to a worker of
        their own and checked on all processors. The limits are those of each history alone.
        """
        return self._answered(self._chunks(model_of(model), histories))

    def _chunks(self, model: Model, histories: Iterable[Sequence[Operation]]) -> Iterator[_Request]:
        columns = Columns(model)
        for number, operations in enumerate(histories):
            if columns.lengths and len(columns.status) + len(operations) > _CHUNK:
                yield self._request(columns)
                columns = Columns(model)
            columns.add(operations, f"history {number}, ")
        if columns.lengths:
            yield self._request(columns)

    def _answered(self, source: Iterator[_Request]) -> Iterator[Result]:
        worker = Worker(self._memory_limit)
        try:
            pending: deque[_Request] = deque()
            while True:
                while len(pending) < _READ_AHEAD and (request := next(source, None)) is not None:
                    pending.append(request)
                    worker.send(request.line)
                if not pending:
                    return
                request = pending.popleft()
                try:
                    answer = _parsed(worker.receive(request.seconds), len(request.columns.lengths))
                except WorkerDied as death:
                    worker.close()
                    # Of many histories any one may have been the cause: ask about each by itself.
                    if len(request.columns.lengths) > 1:
                        pending.extendleft(self._request(single) for single in reversed(request.columns.singles()))
                    worker = Worker(self._memory_limit)
                    for again in pending:
                        worker.send(again.line)
                    if len(request.columns.lengths) == 1:
                        yield Result(Verdict.UNKNOWN, death.reason)
                else:
                    for letter in answer["verdicts"]:
                        yield _RESULTS[letter]
        finally:
            worker.close()

    def _request(
        self, columns: Columns, within: float | None = None, *, explain: bool = False, visualize: bool = False
    ) -> _Request:
        limits = [each for each in (self._timeout, _checked_timeout(within)) if each is not None]
        timeout = min(limits, default=None)
        seconds = None
        if timeout is not None:
            seconds = timeout * (len(columns.lengths) if len(columns.lengths) > 1 else _BUSY)
            seconds += _GRACE + _GRACE_PER_OPERATION * len(columns.status)
        body = {
            "timeout_ms": 0 if timeout is None else max(1, math.ceil(timeout * 1000)),
            "explain": explain,
            "visualize": visualize,
            **columns.body(),
        }
        return _Request(columns, json.dumps(body, separators=(",", ":"), allow_nan=False).encode() + b"\n", seconds)


def check_operations(
    model: Model | str,
    operations: Sequence[Operation],
    *,
    timeout: float | None = TIMEOUT,
    memory_limit: int | None = MEMORY_LIMIT,
    explain: bool = True,
    visualization: str | os.PathLike[str] | None = None,
) -> Result:
    """Whether one history is linearizable, by a worker started for it: see ``Checker.check_operations``."""
    with Checker(timeout=timeout, memory_limit=memory_limit) as checker:
        return checker.check_operations(model, operations, explain=explain, visualization=visualization)


def check_events(
    model: Model | str,
    events: Sequence[Call | Return],
    *,
    timeout: float | None = TIMEOUT,
    memory_limit: int | None = MEMORY_LIMIT,
    explain: bool = True,
    visualization: str | os.PathLike[str] | None = None,
) -> Result:
    """Whether one history of events is linearizable: see ``Checker.check_events``."""
    with Checker(timeout=timeout, memory_limit=memory_limit) as checker:
        return checker.check_events(model, events, explain=explain, visualization=visualization)


def _checked_timeout(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= _LONGEST_TIMEOUT:
        raise ValueError("timeout: must be seconds above 0 (at most ten years), or None")
    return float(timeout)


def _checked_memory_limit(limit: int | None) -> int | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or not SMALLEST_MEMORY_LIMIT <= limit < 1 << 60:
        raise ValueError(f"memory_limit: must be an integer of at least {SMALLEST_MEMORY_LIMIT} bytes, or None")
    return limit


def _parsed(line: bytes, histories: int) -> dict[str, Any]:
    """An answer about so many histories. WorkerDied if it is none: whoever wrote that is no worker."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        answer = {}
    if "error" in answer:
        raise RuntimeError(f"the worker does not understand its request: {answer['error']}")
    verdicts = answer.get("verdicts")
    if not isinstance(verdicts, str) or len(verdicts) != histories or not set(verdicts) <= _RESULTS.keys():
        raise WorkerDied(Reason.WORKER, "its answer makes no sense")
    return answer


def _partitions(answer: dict[str, Any]) -> tuple[Partition, ...]:
    return tuple(
        Partition(tuple(p["operations"]), tuple(tuple(order) for order in p["linearizations"]), p["left_out"])
        for p in answer.get("partitions", ())
    )


def _write(path: Path, page: str) -> None:
    """Write a whole file or none. What is no file, as a pipe or a device, stays what it is."""
    if path.exists() and not path.is_file():
        path.write_text(page, encoding="utf-8")
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        os.close(handle)
        Path(name).write_text(page, encoding="utf-8")
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
