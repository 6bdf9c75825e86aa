"""Progress of a long reading, on a terminal only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from loghistory import RunSource

from ..checks.kernel import available
from ..extras import install

_LONG = 2_000_000
_LONG_BYTES = 100 << 20


@contextlib.contextmanager
def progress_of(source: RunSource) -> Iterator[Callable[[int], None] | None]:
    """A function to call with the number of events read so far; None if nobody would see it or it is soon over."""
    console = Console(stderr=True)
    events = source.manifest.events if source.manifest else None
    long = events > _LONG if events else source.events.stat().st_size > _LONG_BYTES
    if not console.is_terminal or not long:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        slow = "" if available() else f" (faster with {install('fast')})"
        task = bar.add_task(f"judging {source.path.name}{slow}", total=events or None)
        yield lambda done: bar.update(task, completed=done)
