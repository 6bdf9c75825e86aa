"""Copies of records as shards keep them, and the blocks of payloads in which they are sent (read-path.md#copies)."""

from __future__ import annotations

from collections.abc import Sequence

import crc32c
import msgspec
import pyarrow as pa

HOLE = 1
BRIDGE = 2
EPOCH_BEGIN = 4
DRAINED = 8
UNDER_REPLICATED = 16
FILTERED_OUT = 32

_CODEC = pa.Codec("zstd", compression_level=3)
_LARGEST_BLOCK = 1 << 26


class DamagedError(ValueError):
    """A block that does not read back as it was written."""


class Copy(msgspec.Struct, frozen=True, gc=False):
    """One copy of a record: where its others are, which write it is of, and the payload with its checksum.

    ``run`` is that of the recovery that wrote it, 0 for the sequencer; ``wave`` counts the sequencer's tries; ``lng``:
    the last known good LSN of the writer. Source: read-path.md#copies, read-path.md#one-log-without-times.
    """

    lsn: int
    copyset: tuple[int, ...]
    wave: int
    run: int
    lng: int
    flags: int
    payload: bytes
    checksum: int

    @property
    def intact(self) -> bool:
        """Whether the payload is what was written."""
        return self.checksum == checksum(self.lsn, self.flags, self.payload)

    @property
    def word(self) -> str:
        """What it is, as the history has it."""
        return "bridge" if self.flags & BRIDGE else "hole" if self.flags & HOLE else "data"


def checksum(lsn: int, flags: int, payload: bytes) -> int:
    """The checksum of a record; flags that a shard sets on its own copy do not count."""
    kept = flags & (HOLE | BRIDGE | EPOCH_BEGIN)
    value: int = crc32c.crc32c(payload, (lsn ^ kept) & 0xFFFFFFFF)
    return value


def new_copy(
    lsn: int, copyset: Sequence[int], payload: bytes, *, wave: int = 1, run: int = 0, lng: int = 0, flags: int = 0
) -> Copy:
    """A copy with its checksum; by default of the sequencer's first try."""
    return Copy(lsn, tuple(copyset), wave, run, lng, flags, payload, checksum(lsn, flags, payload))


def compressed(payloads: Sequence[bytes]) -> bytes:
    """Payloads as one zstd block, which begins with its length."""
    plain = msgspec.msgpack.encode(payloads)
    block: bytes = _CODEC.compress(plain, asbytes=True)
    return len(plain).to_bytes(4, "big") + block


def decompressed(block: bytes, count: int) -> list[bytes]:
    """The payloads of a block. Raises DamagedError."""
    size = int.from_bytes(block[:4], "big")
    if size > _LARGEST_BLOCK:
        raise DamagedError(f"a block of {size} bytes is larger than {_LARGEST_BLOCK}")
    try:
        payloads = msgspec.msgpack.decode(_CODEC.decompress(block[4:], size, asbytes=True), type=list[bytes])
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise DamagedError(f"the block cannot be read: {error}") from None
    if len(payloads) != count:
        raise DamagedError(f"the block has {len(payloads)} payloads for {count} records")
    return payloads
