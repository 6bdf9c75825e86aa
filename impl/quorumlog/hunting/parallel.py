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

_AHEAD = 8
"""Tasks that are handed out for each helper before the first one is answered."""


class HelperError(RuntimeError):
    """A helper process ended without an answer; ``str()`` says it in one line."""


def in_order(
    function: Callable[[Task], Answer], tasks: Iterable[Task], processes: int, *, seconds: float | None = None
) -> Iterator[Answer]:
    """Yield ``function(task)`` for each task. Function, tasks and answers go through pickle, between our own processes.

    What the function raises is raised here. Raises `HelperError` if a helper cannot start or is killed, and
    `TimeoutError` if an answer is waited for longer than ``seconds``. The helpers end with the iterator and with this
    process, whichever way that ends.
    """
    tasks = iter(tasks)
    others = set(active_children())
    executor = ProcessPoolExecutor(processes, get_context("spawn"), _begin, (os.getpid(),))

    def submit(number: int) -> None:
        waiting.extend(executor.submit(_answer, os.getpid(), function, task) for task in islice(tasks, number))

    waiting: deque = deque()  # type: ignore[type-arg]
    try:
        submit(_AHEAD * processes)
        while waiting:
            answer: Answer = waiting.popleft().result(seconds)
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends its helpers


def _answer(parent: int, function: Callable[[Task], Answer], task: Task) -> Answer:
    if os.getppid() != parent:
        os._exit(1)  # where `die_with` can do nothing
    return function(task)


__all__ = ["HelperError", "in_order"]
