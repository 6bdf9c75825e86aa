"""What a node does for one client: calls in, results out, with limits on what one connection may have open.

A connection that has too much open, or an append for which there is no memory yet, is not read from until that has
changed (back-pressure, documents.md#raft-simplification-memory); a node that as a whole has too much open refuses calls
as ``busy``, which means that nothing was done. Results wait for
`Driver.deliver`: no client learns of anything that the history could lose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorumlog.node.driver import Driver, Ended
from quorumlog.node.framing import MAX_APPEND_BYTES, FrameError
from quorumlog.node.wire import (
    RESULTS,
    Administration,
    AnyCall,
    AnyResult,
    AppendCall,
    AppendResult,
    DoneResult,
    MembersCall,
    ReadCall,
    ReadIndexCall,
    ReadResult,
    Refusal,
    StatusCall,
    StatusResult,
    TailCall,
    TailResult,
    pack_batches,
)
from quorumlog.storage.batch import MAX_RECORDS, BatchKind, RecordBatch

MAX_OPEN_CALLS = 2048
MAX_OPEN_BYTES = 8 << 20
MAX_READ_BYTES = 1 << 20
_RESULTS_BYTES = 2 << 20


class Line(Protocol):
    """What a session needs of its connection: send results, stop and resume reading, close it."""

    @property
    def open(self) -> bool:
        """Whether the connection can still send."""

    def send(self, frame: bytes) -> bool:
        """Queue a frame; False if it was dropped."""

    def pause(self) -> None:
        """Stop reading from the socket until `resume`: back-pressure."""

    def resume(self) -> None:
        """Read from the socket again after `pause`."""

    def refuse(self, reason: str) -> None:
        """Close the connection at once; ``reason`` goes into the node's log."""


class Session:
    """One client's calls. ``incarnation`` is the node's; ``stopping()`` is whether it accepts no more appends."""

    def __init__(self, driver: Driver, line: Line, incarnation: int, stopping: Callable[[], bool]) -> None:
        self._driver = driver
        self._line = line
        self._incarnation = incarnation
        self._stopping = stopping
        self._results: list[AnyResult] = []
        self._open_calls = 0
        self._open_bytes = 0
        self._not_enqueued = 0
        self._paused = False

    def calls(self, calls: list[AnyCall]) -> None:
        """Begin to carry out calls, in order. Raises `FrameError` for an invalid one."""
        for call in calls:
            if isinstance(call, AppendCall):
                self._append(call)
            elif isinstance(call, ReadCall):
                self._read(call)
            elif isinstance(call, TailCall):
                self._confirm(call, self._driver.barrier)
            elif isinstance(call, ReadIndexCall):
                self._confirm(call, self._driver.read_index)
            elif isinstance(call, Administration):
                self._administer(call)
            elif isinstance(call, MembersCall):
                self._result(self._driver.members(call.id))
            else:
                self._status(call)

    def hand_out(self) -> None:
        """Send the results that are ready; a client that does not read its results is cut off."""
        results, self._results = self._results, []
        if not self._line.open:
            return
        stamp = self._driver.history.clock.tick
        for group in RESULTS.groups(results, _RESULTS_BYTES):
            if not self._line.send(RESULTS.encode(stamp(), group)):
                self._line.refuse("the client does not read its results")

    def _result(self, result: AnyResult) -> None:
        if not self._results:  # else it waits for its turn already
            self._driver.deliver(self)
        self._results.append(result)

    def _refuse(self, call: AnyCall, reason: str) -> None:
        self._result(Refusal(call.id, self._driver.core.leader, reason))

    def _begin(self, size: int) -> None:
        self._open_calls += 1
        self._open_bytes += size

    def _press(self) -> None:
        """Stop reading if too much is open, or not even enqueued."""
        full = self._open_calls >= MAX_OPEN_CALLS or self._open_bytes >= MAX_OPEN_BYTES
        if (full or self._not_enqueued) and not self._paused:
            self._paused = True
            self._line.pause()

    def _end(self, size: int) -> None:
        self._open_calls -= 1
        self._open_bytes -= size
        if self._paused:
            self._resume()

    def _resume(self) -> None:
        low = self._open_calls < MAX_OPEN_CALLS // 2 and self._open_bytes < MAX_OPEN_BYTES // 2
        if low and not self._not_enqueued:
            self._paused = False
            self._line.resume()

    def _append(self, call: AppendCall) -> None:
        size = len(call.payload)
        if call.acks not in (-1, 0, 1) or not 1 <= call.records <= MAX_RECORDS or size < 8:
            raise FrameError("an append with impossible acks, records or payload")
        if size > MAX_APPEND_BYTES:
            self._refuse(call, f"too_large: a batch may have {MAX_APPEND_BYTES} bytes")
            return
        if self._stopping():
            self._refuse(call, "stopping")
            return
        batch = RecordBatch(0, 0, BatchKind.DATA, call.records, call.acks, call.payload, call.key)
        waits = True

        def enqueued() -> None:
            nonlocal waits
            if waits:
                waits = False
                self._not_enqueued -= 1
                if self._paused:
                    self._resume()

        def done(ended: Ended) -> None:
            if waits:
                enqueued()
            self._end(size)
            leader = self._driver.core.leader
            self._result(AppendResult(call.id, leader, ended.outcome, ended.offset, ended.last_offset, ended.term))

        self._begin(size)
        self._not_enqueued += 1
        if not self._driver.append(batch, call.expected_term, call.force_flush, enqueued, done):
            enqueued()
            self._end(size)
            self._refuse(call, "busy")
        self._press()

    def _confirm(self, call: TailCall | ReadIndexCall, ask: Callable[[Callable[[Ended], None]], bool]) -> None:
        self._begin(0)

        def done(ended: Ended) -> None:
            self._end(0)
            self._result(TailResult(call.id, self._driver.core.leader, ended.outcome, ended.offset))

        if not ask(done):
            self._end(0)
            self._refuse(call, "busy")
        self._press()

    def _administer(self, call: Administration) -> None:
        """Hand a transfer or a change of the members to the leader, or have the log compacted."""
        self._begin(0)

        def done(ended: Ended) -> None:
            self._end(0)
            self._result(DoneResult(call.id, self._driver.core.leader, ended.outcome))

        refused = self._driver.administer(call, done)
        if refused:
            self._end(0)
            self._refuse(call, refused)
        self._press()

    def _read(self, call: ReadCall) -> None:
        start = max(call.offset, self._driver.log.start_offset)
        room = max(1, min(call.max_bytes, MAX_READ_BYTES))
        batches, end = self._driver.read(start, room, committed=call.committed)
        next_offset = batches[-1].last_offset + 1 if batches else call.offset
        self._result(ReadResult(call.id, self._driver.core.leader, pack_batches(batches), next_offset, end))

    def _status(self, call: StatusCall) -> None:
        core = self._driver.core
        self._result(
            StatusResult(
                call.id,
                core.leader,
                core.node,
                self._incarnation,
                core.term,
                core.role,
                core.dirty,
                core.flushed,
                core.commit,
                core.visible,
                self._driver.flushes,
                self._driver.log.start_offset,
            )
        )
