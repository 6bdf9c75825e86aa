"""Events that a node could not record before a SIGKILL, found by comparing its log with its history files.

A change of the log is recorded after it is done, so at most the last changes are missing. A trim, or a restart of the
log at another offset, is done only once everything before it is in the file (`quorumlog.node.driver`): if one is
missing it is the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from loghistory.schema import Kind
from quorumlog.node.recording import find_history, history_path, whole_events
from quorumlog.storage.batch import BatchKind
from quorumlog.storage.log import Log

Runs = list[tuple[int, int]]
"""Where the term changes in a log: (first offset, term), ascending, the start of the log included."""


class _Recorded:
    """The log as the history files show it: its runs of one term, where it starts and where it ends."""

    def __init__(self) -> None:
        self.last: Any = None
        self.incarnation = 0
        self.start = 0
        self.dirty = -1
        self.runs: Runs = []

    def see(self, event: Any) -> None:  # noqa: ANN401
        """Follow one event."""
        if event.dirty is None:
            return
        self.last = event
        self.dirty = event.dirty
        if event.kind == Kind.START:
            self.incarnation = event.incarnation
            self.runs = [(start, term) for start, term in msgspec.json.decode(event.text or b"[]")]
            self.start = self.runs[0][0] if self.runs else self.dirty + 1
        elif event.kind == Kind.APPEND and (not self.runs or self.runs[-1][1] != event.entry_term):
            self.runs.append((event.offset, event.entry_term))
        elif event.kind == Kind.TRUNCATE:
            self.runs = [run for run in self.runs if run[0] < event.offset]
        elif event.kind == Kind.TRIM:
            self.begin_at(event.offset)

    def begin_at(self, offset: int) -> None:
        """Drop what lies before ``offset``."""
        self.start = offset
        begun = [term for start, term in self.runs if start <= offset <= self.dirty]
        self.runs = [(offset, term) for term in begun[-1:]] + [run for run in self.runs if run[0] > offset]


def term_runs(log: Log) -> Runs:
    """Where the term changes in a log; the ``text`` of a start event."""
    runs: Runs = []
    for place in log.headers():
        if not runs or runs[-1][1] != place.term:
            runs.append((place.base_offset, place.term))
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
    first = _first_difference(recorded.runs, recorded.dirty, term_runs(log), log.dirty)
    if first <= recorded.dirty and not (lost_power and first == log.dirty + 1):
        change(Kind.TRUNCATE, first - 1, offset=first)
    while first <= log.dirty:
        for batch in log.read(first, 1 << 20):
            state["term"] = max(state["term"], batch.term)
            named = {"value": batch.value} if batch.kind is BatchKind.DATA else {}
            columns = {"offset": batch.base_offset, "entry_term": batch.term, "acks": batch.acks, **named}
            change(Kind.APPEND, batch.last_offset, last_offset=batch.last_offset, **columns)
            first = batch.last_offset + 1
    return changes


def _first_difference(recorded: Runs, recorded_end: int, found: Runs, found_end: int) -> int:
    """The first offset that two logs do not have in common."""
    first = min(recorded_end, found_end) + 1
    nothing = (first, -1)
    for here, there in zip_longest(recorded, found, fillvalue=nothing):
        if here != there:
            return min(first, here[0], there[0])
    return first
