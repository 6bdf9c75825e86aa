"""The same function on many tasks, in a few helper processes; the answers come in the order of the tasks."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import active_children, get_context
from typing import TypeVar

from quorumlog.lifetime import die_with

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_SUBMITTED = 8
"""Tasks that are handed out for each helper before the first one is answered."""
_IDLE = 10
"""How many times as long, by the clock, an answer is waited for: a busy machine is no endless task, a sleeper is."""


class HelperError(RuntimeError):
    """A helper process ended without an answer; ``str()`` says it in one line."""


class _Spent(BaseException):
    """A task has had its processor time: no task may take this for an error of its own."""


def in_order(
    function: Callable[[Task], Answer], tasks: Iterable[Task], processes: int, *, seconds: float | None = None
) -> Iterator[Answer]:
    """Yield ``function(task)`` for each task. Function, tasks and answers go through pickle, between our own processes.

    What the function raises is raised here. Raises `HelperError` if a helper cannot start or is killed, and
    `TimeoutError` if a task takes more than ``seconds`` of processor time, or is waited for ten times as long. The
    helpers end with the iterator and with this process, whichever way that ends.
    """
    patience = None if seconds is None else seconds * _IDLE
    tasks = iter(tasks)
    others = set(active_children())
    executor = ProcessPoolExecutor(processes, get_context("spawn"), _begin, (os.getpid(),))

    def submit(number: int) -> None:
        for task in islice(tasks, number):
            waiting.append(executor.submit(_answer, os.getpid(), function, task, seconds or 0))

    waiting: deque = deque()  # type: ignore[type-arg]
    try:
        submit(_SUBMITTED * processes)
        while waiting:
            answer: Answer = waiting.popleft().result(patience)
            submit(1)
            yield answer
    except BrokenProcessPool:
        raise HelperError("a helper process could not start or was killed; is there enough memory?") from None
    finally:
        # Helpers are killed, not asked: an interrupted command ends at once, and nothing they do is worth waiting for.
        for helper in set(active_children()) - others:
            helper.kill()
        executor.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    if not die_with(parent):
        os._exit(1)  # the parent was killed already
    signal.signal(signal.SIGPROF, _spent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends its helpers


def _answer(parent: int, function: Callable[[Task], Answer], task: Task, seconds: float) -> Answer:
    if os.getppid() != parent:
        os._exit(1)  # where `die_with` can do nothing
    signal.setitimer(signal.ITIMER_PROF, seconds)  # 0: none
    try:
        return function(task)
    except _Spent:
        raise TimeoutError from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _spent(number: int, frame: object) -> None:
    raise _Spent


__all__ = ["HelperError", "in_order"]
