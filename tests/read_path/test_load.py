"""Clients of real processes without the processes: what they ask whom, and what they record of how that ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from loghistory import HybridClock
from quorumlog.cluster.register import Register
from quorumlog.node.recording import HistoryFile, find_history, whole_events
from quorumlog.read_path.core import Role
from quorumlog.read_path.load import Appender, Application, Load
from quorumlog.read_path.process.calls import Ended, Taken
from quorumlog.read_path.rules import NOWHERE, lsn_of

FIRST = lsn_of(1, 1)
READER = 3


class Answers:
    """Processes and the connections to them, in one: each call is answered by the next of these, or fails so."""

    open = True

    def __init__(self, directory: Path, *answers: Any) -> None:  # noqa: ANN401 - an answer, or an error to raise
        self._file = directory / "clients.jsonl"
        self._history = HistoryFile(self._file, HybridClock(), {})
        self.register = Register(self._history)
        self._answers = [*answers]
        self.asked: list[tuple[int, Any]] = []
        self._node = -1

    def numbers(self, role: Role) -> list[int]:
        return [1, 2] if role is Role.SEQUENCER else [READER]

    async def client(self, node: int) -> Answers:
        self._node = node
        return self

    def close(self) -> None:
        """The next call makes another connection."""

    async def _answer(self, *asked: Any) -> Any:  # noqa: ANN401
        self.asked.append((self._node, asked))
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def append_record(self, payload: bytes) -> Any:  # noqa: ANN401
        return await self._answer(int.from_bytes(payload[:8], "big"))

    async def start_reading(self, stream: int, first: int, until: int) -> None:
        await self._answer(first, until)

    async def take(self, stream: int, count: int) -> Any:  # noqa: ANN401
        return await self._answer()

    def events(self, kind: str) -> list[Any]:
        """What was recorded of a kind."""
        self._history.flush()
        found = find_history(self._file)
        return [] if found is None else [event for event in whole_events(found) if event.kind == kind]


def run(body: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
    async def whole() -> Any:  # noqa: ANN401
        return await body()

    return asyncio.run(whole())


def test_an_append_of_which_nobody_knows_how_it_ended_is_followed_by_another_process(tmp_path: Path) -> None:
    """And by another sequencer; one that was refused by another sequencer alone."""
    refused, unknown = Ended(1, NOWHERE, "busy"), Ended(1, NOWHERE)
    answers = Answers(tmp_path, Ended(1, FIRST), TimeoutError(), refused, unknown, ConnectionError(), Ended(1, 9))
    writer = Appender(answers, answers.register, Load(), random.Random(1))  # type: ignore[arg-type]

    async def appends() -> list[bool]:
        return [await writer.append() for _ in range(6)]

    assert run(appends) == [True, False, False, False, False, True]
    assert [event.process for event in answers.events("invoke")] == [0, 0, 1, 1, 2, 3]
    assert [(event.process, event.reason) for event in answers.events("info")] == [
        *((0, "timeout"), (1, "unknown"), (2, "lost"))
    ]
    assert [(event.process, event.reason) for event in answers.events("fail")] == [(1, "busy")]
    assert [(event.process, event.offset) for event in answers.events("ok")] == [(0, FIRST), (3, 9)]
    assert answers.asked == [(1, (1,)), (1, (2,)), (2, (3,)), (1, (4,)), (2, (5,)), (1, (6,))]


def test_an_application_goes_on_behind_what_it_took_with_another_process(tmp_path: Path) -> None:
    records, gap = ((FIRST, b""), (FIRST + 1, b"")), ("trim", FIRST + 2, FIRST + 4)
    answers = Answers(
        tmp_path, None, Taken(1, records, gap), ConnectionError(), None, Taken(1, ((FIRST + 5, b""),)), Taken(1)
    )
    application = Application(answers, answers.register, Load(), READER)  # type: ignore[arg-type]

    async def takes() -> list[bool]:
        application._until = FIRST + 5
        return [await application.take() for _ in range(3)]

    assert run(takes) == [False, False, True]
    assert [(event.process, event.offset) for event in answers.events("invoke")] == [(0, FIRST), (1, FIRST + 5)]
    assert [event.process for event in answers.events("info")] == [0]
    assert [(event.process, event.offset) for event in answers.events("ok")] == [(1, FIRST + 5)]
