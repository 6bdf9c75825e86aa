"""The bytes of a shard's disk, and the compact JSON of the history.

A change in the file is preceded by its length, a checksum, and how many bytes of the file were known to be synced when
it was written: what lies before that place is damaged if it does not read back, for no end of power explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import crc32c
import msgspec

from quorumlog.read_path.events import Change

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Change)
_HEADER = 16
_CHECKED = 8  # the checksum is of all from here on


def json_text(value: object) -> str:
    """Compact JSON, as the history has it."""
    return msgspec.json.encode(value).decode()


def framed(change: Change, synced: int = 0) -> bytes:
    """A change as it is appended to a file of which so many bytes are known to be synced."""
    content = _ENCODER.encode(change)
    checked = synced.to_bytes(8, "big") + content
    return len(content).to_bytes(4, "big") + crc32c.crc32c(checked).to_bytes(4, "big") + checked


def unframed(data: bytes) -> tuple[Sequence[Change], int]:
    """The changes in a file, and how many bytes they are; a torn or damaged end is left out."""
    found: list[Change] = []
    place = 0
    while size := _whole(data, place):
        found.append(_DECODER.decode(data[place + _HEADER : place + size]))
        place += size
    return found, place


def torn(rest: bytes, start: int, *, lost_power: bool) -> bool:
    """Whether the rest of a file, from ``start`` on, is what was being written at the end, and not something damaged.

    A process that ended leaves the beginning of one change. A power loss may leave any pages of what was not synced.
    """
    if lost_power:
        return all(synced <= start for synced in _known_synced(rest))
    if len(rest) >= _HEADER and _HEADER + int.from_bytes(rest[:4], "big") <= len(rest):
        return False
    return next(_known_synced(rest), None) is None


def _known_synced(rest: bytes) -> Iterator[int]:
    """What the whole changes in it knew to be synced."""
    for place in range(1, len(rest) - _HEADER):
        if _whole(rest, place):
            yield int.from_bytes(rest[place + _CHECKED : place + _HEADER], "big")


def _whole(data: bytes, place: int) -> int:
    """The bytes of the change at a place; 0 if there is none."""
    size = int.from_bytes(data[place : place + 4], "big")
    check = int.from_bytes(data[place + 4 : place + _CHECKED], "big")
    if not 0 < size <= len(data) - place - _HEADER:
        return 0
    checked = data[place + _CHECKED : place + _HEADER + size]
    return _HEADER + size if crc32c.crc32c(checked) == check else 0
