"""Reading ahead: while one piece of a history is judged, the next one is read by another thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """The same pieces, each made while the one before it is in use. What making one raises is raised here.

    A process that gives Arrow one thread (``pyarrow.set_cpu_count``), such as one of several workers of a machine,
    reads as it goes.
    """
    source = iter(items)
    if pa.cpu_count() < 2:
        yield from source
        return
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="reading") as thread:
        coming = thread.submit(next, source, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, source, end)
            yield item  # type: ignore[misc]
