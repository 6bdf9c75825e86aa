"""A reader as a process: one read stream at a time, which a client begins and takes records and gaps from."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from quorumlog.cluster.log_client import address
from quorumlog.events import Event, Note, Received, Started
from quorumlog.node.framing import FrameError, Hello
from quorumlog.node.framing import Role as HelloRole
from quorumlog.node.links import CONNECT_SECONDS
from quorumlog.read_path import events as e
from quorumlog.read_path import messages as m
from quorumlog.read_path.core import Role
from quorumlog.read_path.process.calls import (
    MESSAGES,
    AnyCall,
    NoteStall,
    PressMemory,
    Read,
    StartReading,
    State,
    Taken,
)
from quorumlog.read_path.process.driver import Place, StreamDriver
from quorumlog.read_path.process.lines import Calling, Line
from quorumlog.read_path.process.port import Session
from quorumlog.read_path.reader import ReaderCore
from quorumlog.read_path.recording import heard, stalled
from quorumlog.read_path.stream import LAST_LSN

_AGAIN_SECONDS = 0.02
MOST_TAKEN = 1000
"""Records in one answer, at most."""


class ReaderDriver(StreamDriver):
    """The driver of a reader; ``core`` is None while there is no stream."""

    core: ReaderCore | None

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        configuration = place.configuration
        self._hello = Hello(HelloRole.NODE, self.number, place.cluster_key)
        self._calling: dict[int, Calling] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._short_of_memory = False
        regions = sorted({location[0] for location in configuration.locations.values()})
        self._region = regions[self.number % len(regions)]
        self._perform |= {
            e.Connect: lambda effect: self._connect(effect.peer),
            e.AskMetadata: lambda effect: self._ask(self._metadata(effect.epoch)),
            e.AskStatuses: lambda _: self._ask(self._statuses()),
        }

    def begin(self) -> None:
        """Nothing is read before a client asks for it."""
        self._begun = True

    def answer_of(self, call: int) -> State:
        """The next LSN to deliver, 0 without a stream, and which shards leave."""
        position = 0 if self.core is None else self.core.position
        return State(call, position=position, leaving=tuple(sorted(self.internal.held.event_log.leaving)))

    async def close(self) -> None:
        """Handle nothing more, and end the stream with its connections."""
        await super().close()
        self._end()

    # -- clients -------------------------------------------------------------------------------------------------------

    def asked(self, call: AnyCall, session: Session) -> None:
        """A client begins a stream, or takes what is ready."""
        core = self.core
        match call:
            case StartReading():
                self._start(call)
                self.answer(session, Taken(call.id))
            case Read(stream=stream, count=count) if core is not None and core.stream == stream:
                records, gap = core.read(max(0, min(count, MOST_TAKEN)))
                lost = None if gap is None else (gap.kind, gap.first, gap.last)
                ended = core.ended and gap is None and not records
                self.answer(session, Taken(call.id, tuple((each.lsn, each.payload) for each in records), lost, ended))
            case NoteStall(stream=stream, released=released) if core is not None and core.stream == stream:
                noted = stalled(core, core.newest if released == LAST_LSN else released)
                if noted is not None:
                    self.noted(noted)
                self.answer(session, Taken(call.id))
            case PressMemory(short=short):
                self._short_of_memory = short
                self.handle(e.MemoryPressed(short))
                self.answer(session, Taken(call.id))
            case Read() | NoteStall():
                self.answer(session, Taken(call.id, ended=True))
            case _:
                super().asked(call, session)

    def _start(self, call: StartReading) -> None:
        self._end()
        self.core = self.place.make_core(
            Role.READER,
            call.stream,
            call.first,
            call.until,
            self.configuration.reader,
            seed=self.number,
            region=self._region,
        )
        self.handle(self.internal.held.statuses())
        if self._short_of_memory:
            self.handle(e.MemoryPressed(short=True))
        self.handle(Started())

    def _end(self) -> None:
        """The stream is over, with its timers, questions and connections."""
        self.core = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._asking:
            task.cancel()
        for calling in [*self._calling.values()]:
            calling.finish()
        self._calling.clear()
        self.lines.clear()

    def _note(self, effect: Note) -> None:
        if self.core is not None:
            effect.columns.setdefault("op", self.core.stream)
        super()._note(effect)

    # -- the log that all follow ---------------------------------------------------------------------------------------

    def _ask(self, question: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(question)
        self._asking.add(task)
        task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.place.process.fault(error)

    async def _statuses(self) -> None:
        await self.internal.catch_up()
        self.handle(self.internal.held.statuses())

    async def _metadata(self, epoch: int) -> None:
        """What the metadata log says now, or as soon as it says anything."""
        while True:
            await self.internal.catch_up()
            read = self.internal.held.metadata_of(epoch)
            if read is not None:
                self.handle(read)
                return
            await asyncio.sleep(_AGAIN_SECONDS)

    # -- shards --------------------------------------------------------------------------------------------------------

    def _connect(self, shard: int) -> None:
        before = self._calling.get(shard)
        if before is not None:
            before.finish()
        self.lines.pop(shard, None)
        calling = self._calling[shard] = Calling(self._hello, shard, self._took, self._changed)
        self._ask(self._call(calling))

    async def _call(self, calling: Calling) -> None:
        """Connect to a shard; the answer comes when it has said hello, or cannot be reached."""
        host, port = address(self.configuration.addresses[calling.shard])
        try:
            if calling.shard in self.place.process.muted:
                await asyncio.sleep(CONNECT_SECONDS)
                raise TimeoutError
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._loop.create_connection(lambda: calling, host, port)
        except (OSError, TimeoutError):
            self._changed(calling, opened=False)

    def _changed(self, calling: Calling, opened: bool) -> None:
        shard = calling.shard
        if self._calling.get(shard) is not calling:
            calling.finish()
        elif opened:
            self.new_line(shard, calling)
            self.handle(e.Connected(shard))
        else:
            del self._calling[shard]
            self.lines.pop(shard, None)
            self.handle(e.Disconnected(shard))

    def _took(self, calling: Calling, payload: bytes) -> None:
        """Messages of a shard, recorded where they arrive, whether the core takes them or not. Raises `FrameError`."""
        shard = calling.shard
        line = self.lines.get(shard)
        if line is None or self._calling.get(shard) is not calling:
            return
        stamp, messages = MESSAGES.decode(payload)
        try:
            self.history.clock.merge(stamp)
        except ValueError as error:
            raise FrameError(str(error)) from None
        line.heard()
        for message in messages:
            self._hear(shard, line, message)

    def _hear(self, shard: int, line: Line, message: m.Message) -> None:
        if self.core is None:
            return
        if isinstance(message, m.FromShard) and message.stream == self.core.stream:
            if isinstance(message, m.Started):
                line.filter_version = message.filter_version
            for noted in heard(message, shard, line.filter_version):
                self.noted(noted)
        self.handle(Received(shard, message))

    def send(self, to: int, message: Any) -> None:  # noqa: ANN401
        """Send over the connection to a shard."""
        if to in self.lines:
            self.hand(self.lines[to], message)

    def handle(self, event: Event) -> None:
        """Give the core an event, if a stream is open."""
        if self.core is not None:
            super().handle(event)
