"""What clients ask the processes of the read path, and what processes send each other, as frames carry them."""

from __future__ import annotations

import msgspec

from quorumlog.node.wire import Channel
from quorumlog.read_path import messages as m


class Call(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of what a client asks; the answer has the same ``id``."""

    id: int


class AppendRecord(Call, frozen=True):
    """To a sequencer: append a payload, which begins with its value of 8 bytes."""

    payload: bytes


class TrimLog(Call, frozen=True):
    """To a sequencer: give up what is at or below ``lsn``."""

    lsn: int


class StartReading(Call, frozen=True):
    """To a reader: begin stream ``stream`` over these LSNs in place of any other (documents.md#read-path)."""

    stream: int
    first: int
    until: int


class Read(Call, frozen=True):
    """To a reader: take up to ``count`` records of the stream that are ready, or those before a gap, and the gap."""

    stream: int
    count: int


class NoteStall(Call, frozen=True):
    """To a reader: record if the stream is not done although it could have all up to ``released``."""

    stream: int
    released: int


class PressMemory(Call, frozen=True):
    """To a reader: memory is ``short``, or no longer, for this stream and those that follow."""

    short: bool


class AskState(Call, frozen=True):
    """To any process: how far it is."""


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of what a process answers."""

    id: int


class Ended(Answer, frozen=True):
    """How an append or a trim ended: it is at ``lsn``; ``refused`` if certainly nothing was done.

    `rules.NOWHERE` without a refusal: nobody knows.
    """

    lsn: int
    refused: str | None = None


class Taken(Answer, frozen=True):
    """Records as pairs of LSN and payload, then perhaps a gap (kind, first, last); ``ended``: nothing more comes."""

    records: tuple[tuple[int, bytes], ...] = ()
    gap: tuple[str, int, int] | None = None
    ended: bool = False


class State(Answer, frozen=True):
    """How far a process is: a sequencer's ``epoch`` (0: not active), ``lng`` and ``released``; whether a shard ``lost``
    its data; the next LSN of a reader (``position``); which shards no copyset may have, as far as it knows."""

    epoch: int = 0
    lng: int = 0
    released: int = 0
    lost: bool = False
    position: int = 0
    leaving: tuple[int, ...] = ()


AnyCall = AppendRecord | TrimLog | StartReading | Read | NoteStall | PressMemory | AskState
AnyAnswer = Ended | Taken | State

CALLS: Channel[AnyCall] = Channel("call", AnyCall)
ANSWERS: Channel[AnyAnswer] = Channel(
    "answer",
    AnyAnswer,
    payload_bytes=lambda answer: sum(len(payload) for _, payload in answer.records) if isinstance(answer, Taken) else 0,
)

_OF_STREAMS = m.Start | m.Window | m.Stop | m.Started | m.Records | m.ShardGap
_OF_WRITES = m.Store | m.Stored | m.Release | m.Trim
_OF_RECOVERIES = m.Seal | m.Sealed | m.Digest | m.DigestAnswer | m.Clean | m.Cleaned | m.AskRecovered | m.Recovered


def _payload_bytes(message: m.Message) -> int:
    match message:
        case m.Records(block=block):
            return len(block)
        case m.Store(copy=copy):
            return len(copy.payload)
        case m.DigestAnswer(copies=copies):
            return sum(len(copy.payload) for copy in copies)
    return 0


MESSAGES: Channel[m.Message] = Channel(
    "message", _OF_STREAMS | _OF_WRITES | _OF_RECOVERIES, payload_bytes=_payload_bytes
)
"""What processes send each other; a frame without any is a sign of life."""
