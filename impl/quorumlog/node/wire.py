"""What is inside a frame: a clock stamp and a list of messages, as msgpack.

A payload is ``time i64 | logical u32 | msgpack array``. The stamp is the sender's hybrid logical clock when it sent,
so that the histories of all processes merge into one causal order. Record batches travel as the very bytes that lie
on the disk (`quorumlog.storage.batch`), several in one binary field, each with its own checksum.

Between nodes the array holds the messages of the protocol (`quorumlog.node.real_protocol`); between clients
and nodes the calls and results below, which are the same for every protocol. Every call has an ``id`` that its result
repeats; results may come in another order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from quorumlog.node.framing import FrameError, frame
from quorumlog.storage.batch import BatchDamaged, RecordBatch, decode

Stamp = tuple[int, int]
"""Hybrid logical clock: nanoseconds and counter."""

SUCCESS = "success"
"""Outcome of a call that was carried out."""
UNKNOWN = "unknown"
"""Outcome of an append that may be in the log or not. Any other outcome means that nothing was written."""

_T = TypeVar("_T")
STAMP = struct.Struct(">qI")
STAMP_BYTES = STAMP.size
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def _as_it_is(item: Any) -> Any:  # noqa: ANN401
    return item


def _nothing(_: object) -> int:
    return 0


class Channel(Generic[_T]):
    """The frames that carry items of one kind: a stamp and a list of them.

    ``name`` is what an error calls an item, ``travels`` the type (a union of tagged structs) that is encoded. ``pack``
    and ``unpack`` turn an item into what travels and back; ``unpack`` may raise `FrameError` for an invalid one.
    ``payload_bytes`` says how many bytes of payload an item carries, by which `groups` cuts.
    """

    def __init__(
        self,
        name: str,
        travels: Any,  # noqa: ANN401
        *,
        pack: Callable[[_T], Any] = _as_it_is,
        unpack: Callable[[Any], _T] = _as_it_is,
        payload_bytes: Callable[[_T], int] = _nothing,
    ) -> None:
        self._name = name
        self._pack = pack
        self._unpack = unpack
        self._payload_bytes = payload_bytes
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(list[travels])

    def encode(self, stamp: Stamp, items: Sequence[_T]) -> bytes:
        """One frame. Raises `FrameError` if it would be above the limit."""
        pack = self._pack
        travels = items if pack is _as_it_is else [pack(item) for item in items]
        return frame(STAMP.pack(*stamp) + self._encoder.encode(travels))

    def decode(self, payload: bytes) -> tuple[Stamp, list[_T]]:
        """The stamp and the items of a frame's payload; raises `FrameError`."""
        if len(payload) < STAMP_BYTES:
            raise FrameError(f"a frame of {len(payload)} bytes is too short for its clock stamp")
        time, logical = STAMP.unpack_from(payload)
        try:
            found = self._decoder.decode(memoryview(payload)[STAMP_BYTES:])
        except UNREADABLE as error:
            raise FrameError(f"not a {self._name} of this protocol: {error}") from None
        unpack = self._unpack
        return (time, logical), found if unpack is _as_it_is else [unpack(item) for item in found]

    def groups(self, items: Iterable[_T], size: int) -> Iterator[list[_T]]:
        """Items that go into one frame together, in order: ``size`` bytes of payload, or a single larger item."""
        items = list(items)
        if len(items) == 1:
            yield items
            return
        group: list[_T] = []
        held = 0
        for item in items:
            more = self._payload_bytes(item)
            if group and more and held + more > size:
                yield group
                group, held = [], 0
            group.append(item)
            held += more
        if group:
            yield group


class Call(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of what a client asks."""

    id: int


class AppendCall(Call, frozen=True):
    """Append a batch of ``records`` offsets; the payload begins with its 8-byte value. ``expected_term`` -1: any.

    ``key``: what a later batch of the same key replaces; 0: nothing.
    """

    payload: bytes
    records: int
    acks: int
    expected_term: int
    force_flush: bool
    key: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] = 0


class ReadCall(Call, frozen=True):
    """Read whole batches from ``offset`` on, up to what this node knows as committed, or as visible."""

    offset: int
    max_bytes: int
    committed: bool


class TailCall(Call, frozen=True):
    """Ask for the linearizable end of the log."""


class ReadIndexCall(Call, frozen=True):
    """Ask up to where a read must reach to be linearizable; what this node has as committed reaches so far by then."""


class StatusCall(Call, frozen=True):
    """Ask the node for its state."""


class TransferCall(Call, frozen=True):
    """Ask a leader to hand its leadership on to the node ``target``."""

    target: int


class ChangeCall(Call, frozen=True):
    """Ask a leader for a change of its group's members: nodes that become voters, that leave, that become learners.

    ``revision`` is larger than that of any change before. ``cancel``: instead, take back the change under way.
    """

    revision: int
    add: tuple[int, ...]
    remove: tuple[int, ...]
    demote: tuple[int, ...]
    cancel: bool


class CompactCall(Call, frozen=True):
    """Ask the node to remove from its own log what later batches of the same keys have replaced."""


class MembersCall(Call, frozen=True):
    """Ask the node for the configuration of its group that is in force there."""


class Result(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of what a node answers; ``leader`` is the node that it believes to be the leader, or -1."""

    id: int
    leader: int


class AppendResult(Result, frozen=True):
    """How an append ended, and where it is if it is in the log; -1 where it is not.

    ``outcome`` is `SUCCESS`, `UNKNOWN`, or a word of the protocol for why nothing was written.
    """

    outcome: str
    offset: int
    last_offset: int
    term: int


class ReadResult(Result, frozen=True):
    """Encoded batches, and the offset at which to go on; ``end`` is the last offset that may be read now."""

    batches: bytes
    next_offset: int
    end: int


class TailResult(Result, frozen=True):
    """How a barrier or a read index ended, and the last offset at its time, or the one that a read must reach."""

    outcome: str
    offset: int


class StatusResult(Result, frozen=True):
    """The node's state, its offsets inclusive.

    ``flushes`` counts the flushes of the log since the process started, ``start`` is the first offset that is kept.
    """

    node: int
    incarnation: int
    term: int
    role: str
    dirty: int
    flushed: int
    commit: int
    visible: int
    flushes: int
    start: int


class DoneResult(Result, frozen=True):
    """How a transfer of leadership, a change of the members or a compaction ended."""

    outcome: str


class MembersResult(Result, frozen=True):
    """The configuration in force on the node, committed or not; of no members on a node that was never in the group.

    ``old`` are the old voters of a joint one; ``settled``: no change is under way.
    """

    voters: tuple[int, ...]
    old: tuple[int, ...]
    learners: tuple[int, ...]
    revision: int
    settled: bool


class Refusal(Result, frozen=True):
    """The call was not carried out at all, and why."""

    reason: str


Administration = TransferCall | ChangeCall | CompactCall
"""What whoever runs a group asks."""
AnyCall = AppendCall | ReadCall | TailCall | ReadIndexCall | StatusCall | MembersCall | Administration
AnyResult = AppendResult | ReadResult | TailResult | StatusResult | DoneResult | MembersResult | Refusal

CALLS: Channel[AnyCall] = Channel("call", AnyCall)
"""What clients ask a node."""
RESULTS: Channel[AnyResult] = Channel(
    "result", AnyResult, payload_bytes=lambda result: len(result.batches) if isinstance(result, ReadResult) else 0
)
"""What a node answers its clients."""


def pack_batches(batches: Iterable[RecordBatch]) -> bytes:
    """Batches one after the other, as on the disk."""
    return b"".join([batch.encode() for batch in batches])


def unpack_batches(packed: bytes) -> tuple[RecordBatch, ...]:
    """The reverse of `pack_batches`; raises `FrameError` if a batch is damaged."""
    batches = []
    position = 0
    try:
        while position < len(packed):
            batch = decode(packed, position)
            batches.append(batch)
            position += len(batch.encode())
    except BatchDamaged as error:
        raise FrameError(f"a record batch in a message is damaged: {error}") from None
    return tuple(batches)
