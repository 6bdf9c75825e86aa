"""Record batches: the unit that is appended, replicated, checked and recovered.

A batch is one contiguous range of offsets written in one term. Its encoded form is the same on disk and on
the wire, so a follower stores the very bytes that the leader wrote and a checksum made once is checked on
every read.

Encoding, big-endian, ``HEADER_BYTES`` of header and then the payload::

    crc u32 | size u32 | base_offset i64 | term i64 | record_count u32 | kind u8 | acks i8 | version u16 |
    key i64, in version 2 | payload

A batch with a key is of version 2, one without of version 1. ``crc`` is CRC-32C (Castagnoli) over every byte after
itself; ``size`` counts the whole batch, header included. A region of zeros, which is what a lost page often reads as,
is not a batch: its size is too small.

A ghost is a batch that travels and is never stored: it stands for offsets that compaction took out of a log, and has
limits of its own (ghost-batches.md#ghost-kind, ghost-batches.md#ghost-size); it is a header alone
(ghost-batches.md#ghost-bytes).

Sources: documents.md#raft-recovery-follower (append_entries carries record batches), raft.md#replication,
ghost-batches.md#superseded (a key belongs to a batch).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec
from crc32c import crc32c
from msgspec.structs import astuple, force_setattr

Buffer = bytes | bytearray | memoryview

VERSION = 1
KEYED_VERSION = 2
MAX_BATCH_BYTES = 64 << 20
"""Largest encoded batch; checked before anything of that size is allocated."""
MAX_RECORDS = 1 << 20
"""Most offsets in one batch: the history refuses wider ones (``loghistory.schema.MAX_BATCH_OFFSETS``)."""

MAX_GHOST_OFFSETS = (1 << 31) - 1
"""Most offsets that one ghost stands for; wider gaps take several."""
NO_KEY = 0
"""Of a batch that no later one replaces."""

_CRC = _SIZE = struct.Struct(">I")
_BODY = struct.Struct(">IqqIBbH")
_HEADER = struct.Struct(">IIqqIBbH")
HEADER_BYTES = _HEADER.size
_KEY = _VALUE = struct.Struct(">q")
_SMALL = 512
"""Batches of so many bytes at most are decoded once, as long as they are among the last few thousand."""
_LARGEST = (1 << 63) - 1
_ACKS = frozenset({-1, 0, 1})


class BatchKind(IntEnum):
    """What a batch carries; the number is part of the file format."""

    DATA = 1  # records of clients; the payload begins with the value that names it in histories
    CONFIGURATION = 2  # a group configuration; also what a new leader appends first
    GHOST = 3  # nothing: offsets that compaction took out of the sender's log; never on a disk


_KIND_OF = {int(kind): kind for kind in BatchKind}
DATA, CONFIGURATION, GHOST = BatchKind  # asked for every batch, and to look into an enumeration takes its time


class BatchDamaged(ValueError):  # noqa: N818 - named for what happened
    """These bytes are not a batch: cut short, out of limits, or failing their checksum."""


class BatchHeader(NamedTuple):
    """The header fields of an encoded batch. ``size`` is in bytes and includes the header."""

    size: int
    base_offset: int
    term: int
    record_count: int
    kind: int
    acks: int

    @property
    def last_offset(self) -> int:
        """Last offset that the batch fills, inclusive."""
        return self.base_offset + self.record_count - 1


class RecordBatch(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One batch. ``acks`` is -1 (all), 1 (leader) or 0 (none), as the appender asked.

    The payload of a data batch begins with a signed 8-byte big-endian value. ``key``: what a later batch of the same
    key replaces; `NO_KEY` if nothing does.
    """

    base_offset: int
    term: int
    kind: BatchKind
    record_count: int
    acks: int
    payload: bytes
    key: int = NO_KEY
    _encoded: bytes | None = None

    def __eq__(self, other: object) -> bool:
        """Whether all is equal but whether it was encoded."""
        return isinstance(other, RecordBatch) and astuple(self)[:-1] == astuple(other)[:-1]

    def __hash__(self) -> int:
        return hash(astuple(self)[:-1])

    @property
    def last_offset(self) -> int:
        """Last offset that the batch fills, inclusive."""
        return self.base_offset + self.record_count - 1

    @property
    def size_bytes(self) -> int:
        """Size of the encoded batch, header included."""
        size = HEADER_BYTES + len(self.payload)  # written out: asked for every batch that is read or written
        return size if self.key == NO_KEY else size + _KEY.size

    @property
    def value(self) -> int:
        """The value that names a data batch in histories; -1 for other kinds."""
        if self.kind is not DATA:
            return -1
        value: int = _VALUE.unpack_from(self.payload)[0]
        return value

    def with_position(self, base_offset: int, term: int) -> RecordBatch:
        """The same batch at another place in the log. The payload is shared; the encoding is made again."""
        return RecordBatch(base_offset, term, self.kind, self.record_count, self.acks, self.payload, self.key)

    def encode(self) -> bytes:
        """The bytes of the batch; made once and kept. Raises `BatchDamaged` if a field is out of its limits."""
        encoded = self._encoded
        if encoded is None:
            size = self.size_bytes
            keyed = self.key != NO_KEY
            problem = _problem(size, self.base_offset, self.term, self.record_count, self.kind, self.acks, keyed=keyed)
            if problem is not None:
                raise BatchDamaged(f"batch at offset {self.base_offset} cannot be encoded: {problem}")
            version = KEYED_VERSION if keyed else VERSION
            body = _BODY.pack(size, self.base_offset, self.term, self.record_count, self.kind, self.acks, version)
            if keyed:
                body += _KEY.pack(self.key)
            crc = crc32c(self.payload, crc32c(body))
            encoded = b"".join((_CRC.pack(crc), body, self.payload))
            force_setattr(self, "_encoded", encoded)
        return encoded


def decode_header(buffer: Buffer, position: int = 0, limit: int | None = None) -> BatchHeader:
    """Read the header at `position` and check it against the limits and against `limit`.

    `limit` is the position just behind the last byte that may belong to the batch (default: the end of the
    buffer); it may lie beyond the buffer when only the header has been read so far. The checksum is not
    looked at. Raises `BatchDamaged`.
    """
    return BatchHeader(*_fields(buffer, position, limit)[1:7])


def _fields(buffer: Buffer, position: int, limit: int | None) -> tuple[int, int, int, int, int, int, int, int]:
    """What a header holds, in order, as `decode_header` checks it."""
    end = len(buffer) if limit is None else limit
    if min(end, len(buffer)) - position < HEADER_BYTES:
        raise BatchDamaged(f"cut short: {max(end - position, 0)} bytes left, a header has {HEADER_BYTES}")
    fields = _HEADER.unpack_from(buffer, position)
    _, size, base_offset, term, record_count, kind, acks, version = fields
    if version != VERSION and version != KEYED_VERSION:
        raise BatchDamaged(f"version {version}, this reader knows {VERSION} and {KEYED_VERSION}")
    problem = _problem(size, base_offset, term, record_count, kind, acks, keyed=version == KEYED_VERSION)
    if problem is not None:
        raise BatchDamaged(problem)
    if size > end - position:
        raise BatchDamaged(f"cut short: {end - position} bytes left, its size says {size}")
    return fields


def checksum_holds(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the `size` bytes at `position` carry their own CRC-32C."""
    (expected,) = _CRC.unpack_from(buffer, position)
    with memoryview(buffer) as view, view[position + _CRC.size : position + size] as covered:
        return crc32c(covered) == int(expected)


def decode(buffer: Buffer, position: int = 0, limit: int | None = None) -> RecordBatch:
    """The batch at `position`; the next one, if any, is at ``position + batch.size_bytes``.

    Raises `BatchDamaged` when the bytes up to `limit` (default: the end of the buffer) hold no whole,
    undamaged batch.
    """
    end = len(buffer) if limit is None else min(limit, len(buffer))
    if end - position >= HEADER_BYTES:
        (size,) = _SIZE.unpack_from(buffer, position + _CRC.size)
        if HEADER_BYTES <= size <= min(_SMALL, end - position):
            return _decode_small(bytes(buffer[position : position + size]))
    return _decode(buffer, position, end)


def decode_whole(encoded: bytes) -> RecordBatch:
    """The batch that consists of these bytes. Raises `BatchDamaged`."""
    return _decode_small(encoded) if len(encoded) <= _SMALL else _decode(encoded, 0, len(encoded))


def _decode(buffer: Buffer, position: int, end: int) -> RecordBatch:
    crc, size, base_offset, term, record_count, kind, acks, version = _fields(buffer, position, end)
    encoded = bytes(buffer[position : position + size])
    if crc32c(memoryview(encoded)[_CRC.size :]) != crc:
        raise BatchDamaged(f"checksum does not match (batch at offset {base_offset})")
    key, start = (NO_KEY, HEADER_BYTES) if version == VERSION else (key_of(encoded), HEADER_BYTES + _KEY.size)
    return RecordBatch(base_offset, term, _KIND_OF[kind], record_count, acks, encoded[start:], key, encoded)


@lru_cache(maxsize=4096)
def _decode_small(encoded: bytes) -> RecordBatch:
    """The batch that consists of these bytes. Replicas read the same ones again and again."""
    return _decode(encoded, 0, len(encoded))


def key_of(buffer: Buffer, position: int = 0) -> int:
    """The key of the batch at `position`, whose header is in order. Raises `BatchDamaged` if it should have one."""
    if buffer[position + HEADER_BYTES - 1] != KEYED_VERSION:
        return NO_KEY
    (key,) = _KEY.unpack_from(buffer, position + HEADER_BYTES)
    if key == NO_KEY:
        raise BatchDamaged(f"version {KEYED_VERSION} without a key")
    return int(key)


def ghost(base_offset: int, last_offset: int, term: int) -> RecordBatch:
    """What stands for the offsets from ``base_offset`` to ``last_offset``, which the sender's log lacks."""
    return RecordBatch(base_offset, term, BatchKind.GHOST, last_offset - base_offset + 1, 0, b"")


def _problem(
    size: int, base_offset: int, term: int, record_count: int, kind: int, acks: int, *, keyed: bool
) -> str | None:
    """What is out of limits, in words, or None."""
    if not HEADER_BYTES <= size <= MAX_BATCH_BYTES:
        return f"size {size} is outside {HEADER_BYTES}..{MAX_BATCH_BYTES} bytes"
    if kind not in _KIND_OF:
        return f"unknown kind {kind}"
    if keyed and kind != DATA:
        return "only a data batch has a key"
    if kind == DATA and size < HEADER_BYTES + keyed * _KEY.size + _VALUE.size:
        return f"a data batch carries at least its value of {_VALUE.size} bytes"
    if kind == GHOST and size != HEADER_BYTES:
        return f"a ghost of {size} bytes carries something"
    most = MAX_GHOST_OFFSETS if kind == GHOST else MAX_RECORDS
    if not 1 <= record_count <= most:
        return f"record count {record_count} is outside 1..{most}"
    if not 0 <= base_offset <= _LARGEST - record_count:
        return f"base offset {base_offset} is out of range"
    if not 0 <= term <= _LARGEST:
        return f"term {term} is out of range"
    if acks not in _ACKS:
        return f"acks {acks} is not one of -1, 0, 1"
    return None
