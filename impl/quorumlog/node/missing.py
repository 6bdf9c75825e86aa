"""Events that a node could not record before a SIGKILL, found by comparing its log with its history files.

A change of the log is recorded after it is done, so at most the last changes are missing. A trim, a compaction, or a
restart of the log at another offset, is done only once everything before it is in the file (`quorumlog.node.driver`):
if one is missing it is the first.

A gap whose next batch is recorded was left by a compaction; one with the first batch behind it that is not recorded was
told by the leader (ghost-batches.md#ghost-moves-offset).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from loghistory.schema import Kind
from quorumlog.node.recording import find_history, history_path, whole_events
from quorumlog.storage.batch import NO_KEY, BatchKind, RecordBatch
from quorumlog.storage.compaction import Gap
from quorumlog.storage.log import Log

Runs = list[tuple[int, int]]
"""Where the term changes in a log: (first offset, term), ascending, the start of the log included. Term -1: a gap."""

_GAP = -1


class _Recorded:
    """The log as the history files show it: its runs of one term, its gaps, where it starts and where it ends."""

    def __init__(self) -> None:
        self.last: Any = None
        self.incarnation = 0
        self.start = 0
        self.dirty = -1
        self.runs: Runs = []
        self.gaps: list[Gap] = []

    def see(self, event: Any) -> None:  # noqa: ANN401
        """Follow one event, as far as it concerns the log."""
        if event.dirty is None:
            return
        if event.kind == Kind.START:
            self._starts(event)
        elif event.kind == Kind.APPEND:
            if event.offset > self.dirty + 1:
                self.gaps.append((self.dirty + 1, event.offset - 1))
            if not self.runs or self.runs[-1][1] != event.entry_term:
                self.runs.append((event.offset, event.entry_term))
        elif event.kind == Kind.COMPACT:
            self.gaps.append((event.offset, event.last_offset))
        elif event.kind == Kind.TRUNCATE:
            self.runs = [run for run in self.runs if run[0] < event.offset]
            self.gaps = [gap for gap in self.gaps if gap[0] < event.offset]
        elif event.kind == Kind.TRIM:
            self.begin_at(event.offset)
        self.last = event
        self.dirty = event.dirty

    def _starts(self, event: Any) -> None:  # noqa: ANN401
        self.incarnation = event.incarnation
        runs: Runs = [(start, term) for start, term in msgspec.json.decode(event.text or b"[]")]
        self.start = runs[0][0] if runs else event.dirty + 1
        self.gaps = [(first, following - 1) for (first, term), (following, _) in pairwise(runs) if term == _GAP]
        self.runs = [run for run in runs if run[1] != _GAP]

    def begin_at(self, offset: int) -> None:
        """Drop what lies before ``offset``: it was trimmed."""
        self.start = offset
        begun = [term for start, term in self.runs if start <= offset <= self.dirty]
        self.runs = [(offset, term) for term in begun[-1:]] + [run for run in self.runs if run[0] > offset]

    def holds(self, first: int, last: int, term: int) -> bool:
        """Whether a batch of this term is recorded there."""
        at = bisect_right(self.runs, first, key=lambda run: run[0]) - 1
        return last <= self.dirty and at >= 0 and self.runs[at][1] == term

    def held(self, first: int, last: int) -> Iterator[Gap]:
        """What of these offsets is recorded and not as gone."""
        for gone, end in sorted(self.gaps):
            if end < first or gone > last:
                continue
            if gone > first:
                yield first, gone - 1
            first = max(first, end + 1)
        if first <= last:
            yield first, last


def term_runs(log: Log) -> Runs:
    """Where the term changes in a log, and where it has gaps; the ``text`` of a start event."""
    runs: Runs = []
    expected = log.start_offset
    for place in log.headers():
        if place.base_offset > expected:
            runs.append((expected, _GAP))
        if not runs or runs[-1][1] != place.term:
            runs.append((place.base_offset, place.term))
        expected = place.last_offset + 1
    return runs


def files_before(directory: Path, node: int, incarnation: int) -> list[Path]:
    """The histories of the incarnations before, from the last one on that lived to record its start."""
    files: list[Path] = []
    for number in reversed(range(incarnation)):
        path = find_history(history_path(directory, node, number))
        if path is not None:
            files.insert(0, path)
            if any(event.kind == Kind.START for event in whole_events(path)):
                break
    return files


def missing_changes(files: Iterable[Path], log: Log, *, lost_power: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """What happened to ``log`` after the last event in these files (`files_before`): events, without their stamps.

    Entries are identified by offset and term, which is enough (log matching). A flush or a vote that is not recorded
    does no harm: nobody has learned of it. With ``lost_power`` what is missing at the end of the log was not cut off.
    """
    recorded = _Recorded()
    for path in files:
        for event in whole_events(path):
            recorded.see(event)
    if recorded.last is None:
        return []
    state = {name: getattr(recorded.last, name) for name in ("term", "role", "flushed", "commit", "visible")}
    state["incarnation"] = recorded.incarnation
    changes: list[tuple[str, dict[str, Any]]] = []

    def change(kind: str, dirty: int, **columns: Any) -> None:  # noqa: ANN401
        for name in ("flushed", "visible"):
            if state[name] is not None:
                state[name] = min(state[name], dirty)
        changes.append((kind, {**state, "dirty": dirty, **columns}))

    start = log.start_offset
    if start > recorded.start:
        if recorded.dirty < start:  # restarted where the leader's log begins: everything before is committed
            recorded.dirty = start - 1
            state.update(flushed=start - 1, visible=start - 1, commit=max(state["commit"], start - 1))
        recorded.begin_at(start)
        change(Kind.TRIM, recorded.dirty, offset=start)
    first = start  # of what the two do not have in common
    for place in log.headers():
        if not recorded.holds(place.base_offset, place.last_offset, place.term):
            break
        for gone in recorded.held(first, place.base_offset - 1):
            change(Kind.COMPACT, recorded.dirty, offset=gone[0], last_offset=gone[1])
        first = place.last_offset + 1
    dirty = recorded.dirty
    for batch in _behind(log, first):
        state["term"] = max(state["term"], batch.term)
        if batch.base_offset > first:
            change(Kind.GAP, dirty, offset=first, last_offset=batch.base_offset - 1, entry_term=batch.term)
        if first <= dirty:
            change(Kind.TRUNCATE, first - 1, offset=first)
        dirty = batch.last_offset
        named: dict[str, Any] = {"value": batch.value} if batch.kind is BatchKind.DATA else {}
        if batch.key != NO_KEY:
            named["key"] = batch.key
        columns = {"offset": batch.base_offset, "entry_term": batch.term, "acks": batch.acks, **named}
        change(Kind.APPEND, dirty, last_offset=dirty, **columns)
        first = dirty + 1
    if first <= dirty and not lost_power:
        change(Kind.TRUNCATE, first - 1, offset=first)
    return changes


def _behind(log: Log, start: int) -> Iterator[RecordBatch]:
    """The batches of a log from ``start`` on."""
    while start <= log.dirty:
        for batch in log.read(start, 1 << 20):
            yield batch
            start = batch.last_offset + 1
