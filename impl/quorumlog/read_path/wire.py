"""The bytes of a shard's disk, and the compact JSON of the history."""

from __future__ import annotations

from collections.abc import Sequence

import crc32c
import msgspec

from quorumlog.read_path.events import Change

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Change)
_HEADER = 8


def json_text(value: object) -> str:
    """Compact JSON, as the history has it."""
    return msgspec.json.encode(value).decode()


def framed(change: Change) -> bytes:
    """A change as it is appended to the file: length, checksum, content."""
    content = _ENCODER.encode(change)
    return len(content).to_bytes(4, "big") + crc32c.crc32c(content).to_bytes(4, "big") + content


def unframed(data: bytes) -> tuple[Sequence[Change], int]:
    """The changes in a file, and how many bytes they are; a torn or damaged end is left out."""
    found: list[Change] = []
    place = 0
    while place + _HEADER <= len(data):
        size, check = int.from_bytes(data[place : place + 4], "big"), int.from_bytes(data[place + 4 : place + 8], "big")
        content = data[place + _HEADER : place + _HEADER + size]
        if len(content) < size or crc32c.crc32c(content) != check:
            break
        found.append(_DECODER.decode(content))
        place += _HEADER + size
    return found, place


def torn(rest: bytes) -> bool:
    """Whether the rest of a file is the beginning of one change that was being written, and not something damaged."""
    if len(rest) >= _HEADER and _HEADER + int.from_bytes(rest[:4], "big") <= len(rest):
        return False
    return not any(_whole(rest, place) for place in range(1, len(rest) - _HEADER))


def _whole(data: bytes, place: int) -> bool:
    """Whether a change lies at a place."""
    start, size = place + _HEADER, int.from_bytes(data[place : place + 4], "big")
    check = int.from_bytes(data[place + 4 : start], "big")
    return 0 < size <= len(data) - start and crc32c.crc32c(data[start : start + size]) == check
