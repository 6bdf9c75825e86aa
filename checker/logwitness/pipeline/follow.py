"""Following a directory: Structured Streaming tells that files have arrived, and new histories go through the stages.

A run directory counts when it has its manifest, which is written last; a file when it has not changed for a while. What
was judged is in the tables, not in the stream, so a follower that was killed goes on where the tables end.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from loghistory import HistoryError
from loghistory.recorder import UNFINISHED

from .audit import Audit
from .hadoop import without_pattern
from .sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTLED = 2.0
"""Seconds for which a file must not have changed."""

_TICK = 0.2
_TRIGGER = "1 second"
_FILES = "path string, modificationTime timestamp, length long, content binary"


class Follower:
    """Judges what arrives in a directory until it is told to stop.

    ``uri`` names the directory, ``arrived`` gives all that is there, ``report`` is called after every round.
    ``stop_after`` histories judged, or ``idle`` seconds without a new one, are enough; None: they do not matter.
    """

    def __init__(
        self,
        uri: str,
        arrived: Callable[[], Iterable[Source]],
        audit: Audit,
        report: Callable[[], None],
        *,
        stop_after: int | None,
        idle: float | None,
    ) -> None:
        self._uri = uri
        self._all = arrived
        self._audit = audit
        self._report = report
        self._stop_after = stop_after
        self._idle = idle
        self._arrived = threading.Event()
        self._stop = threading.Event()
        self._seen: dict[str, tuple[str, float]] = {}
        """Of files that may still grow: their stamp, and since when they have it."""

    def follow(self, spark: SparkSession) -> None:
        """Go on until there is a reason to stop. Raises `HistoryError` if the directory is lost."""
        with _signals(self._stop), self._notified(spark) as failure:
            self._arrived.set()  # what is there already
            last = time.monotonic()
            while not self._stop.is_set():
                if failure():
                    raise HistoryError(
                        self._uri, None, None, f"cannot be watched ({failure()})", "make sure that it exists"
                    )
                if self._arrived.is_set() or self._seen:
                    self._arrived.clear()
                    before = self._audit.counts.judged
                    self._audit.take(self._complete())
                    if self._audit.counts.judged > before:
                        last = time.monotonic()
                        self._report()
                if self._stop_after is not None and self._audit.counts.judged >= self._stop_after:
                    break
                if self._idle is not None and not self._seen and time.monotonic() - last > self._idle:
                    break
                self._stop.wait(_TICK)

    @contextmanager
    def _notified(self, spark: SparkSession) -> Iterator[Callable[[], str | None]]:
        """While the stream runs; gives a function that says why it has ended, if it has."""

        def arrived(batch: DataFrame, number: int) -> None:
            self._arrived.set()

        stream = spark.readStream.format("binaryFile").schema(_FILES).option("recursiveFileLookup", "true")
        files = stream.load(without_pattern(self._uri)).select("path")
        with tempfile.TemporaryDirectory(prefix="logwitness-stream-") as checkpoint:
            writer = files.writeStream.foreachBatch(arrived).trigger(processingTime=_TRIGGER)
            query = writer.option("checkpointLocation", f"file://{checkpoint}").start()

            def failure() -> str | None:
                problem = query.exception()
                return None if problem is None else " ".join(str(problem).split())[:200]

            try:
                yield failure
            finally:
                query.stop()

    def _complete(self) -> Iterator[Source]:
        """The histories that nobody is writing any more, as far as can be seen."""
        now = time.monotonic()
        waiting: dict[str, tuple[str, float]] = {}
        try:
            for source in self._all():
                names = {file.name for file in source.files}
                if not names or source.run.endswith(UNFINISHED):
                    continue
                if "" not in names:
                    if "manifest.json" in names:
                        yield source
                    continue
                if self._audit.knows(source):
                    continue
                stamp, since = self._seen.get(source.run, (source.stamp, now))
                if stamp == source.stamp and now - since >= SETTLED:
                    yield source
                else:
                    waiting[source.run] = (source.stamp, since if stamp == source.stamp else now)
        except HistoryError:
            pass  # no history is there yet
        self._seen = waiting


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks to stop after the round at work; a second one ends at once."""

    def asked(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
