"""The same function on many tasks, in a few helper processes; the answers come in the order of the tasks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import active_children, get_context
from typing import ClassVar, TypeVar

from quorumlog.lifetime import die_with

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_SUBMITTED = 8
"""Tasks that are handed out for each helper before the first one is answered."""
_IDLE = 10
"""How many times as long, by the clock, an answer is waited for: a busy machine is no endless task, a sleeper is."""
_INSTANT = 1e-3


class HelperError(RuntimeError):
    """A helper process ended without an answer; ``str()`` says it in one line."""


class _Spent(BaseException):
    """A task has had its processor time: no task may take this for an error of its own."""

    may_be_raised: ClassVar[bool] = False


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
    with within(seconds):
        return function(task)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` if the block takes more processor time than this; 0: none is too much.

    A block that lies within another one has no more time than that, which is then the one that raises it. Threads other
    than the main one, which no signal reaches, have all the time that they want.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGPROF, _spent)  # for good: the time may run out just behind the block
    outer, left, began = _Spent.may_be_raised, signal.getitimer(signal.ITIMER_PROF)[0], time.process_time()
    own = not left or seconds < left
    try:
        if own:
            signal.setitimer(signal.ITIMER_PROF, seconds)
        _Spent.may_be_raised = True
        try:
            yield
        finally:
            _Spent.may_be_raised = outer
    except _Spent:
        if own:
            raise TimeoutError from None
        raise
    finally:
        if own:
            left = max(left - (time.process_time() - began), _INSTANT) if left else 0
            signal.setitimer(signal.ITIMER_PROF, left)


def _spent(number: int, frame: object) -> None:
    """The time is up; that it was up is nothing to whoever goes on when the task has ended."""
    if _Spent.may_be_raised:
        raise _Spent


__all__ = ["HelperError", "in_order", "within"]
