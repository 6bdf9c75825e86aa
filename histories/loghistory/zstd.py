"""JSON Lines + zstd: the bytes of a JSON Lines file in zstd frames, with limits for the reader.

The writer ends a frame after every `FRAME_EVENTS` events, so that what a killed process had written is readable, and
so that the same events are the same bytes. The reader takes any zstd stream, also one that other tools wrote as a
single frame. It never holds more than one block; a stream that expands beyond all proportion is given up.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from .errors import HistoryError
from .lines import BrokenStream
from .validity import Reason

MAGIC = b"\x28\xb5\x2f\xfd"
FRAME_EVENTS = 8192
LEVEL = 3

MAX_RATIO = 1000
"""A stream that expands to more than this times its size, beyond `FREE` bytes, is refused as a bomb."""
FREE = 16 << 20


def compress(data: bytes) -> bytes:
    """One zstd frame."""
    frame: bytes = pa.Codec("zstd", compression_level=LEVEL).compress(data, asbytes=True)
    return frame


class Reader:
    """Reads what a zstd file expands to; `read` fits `loghistory.jsonl.read`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._given = 0
        self._broken: BrokenStream | None = None
        self._open()

    def _open(self) -> None:
        self._raw = pa.OSFile(str(self._path))
        self._stream = pa.CompressedInputStream(self._raw, "zstd")

    def read(self, size: int) -> bytes:
        """Up to ``size`` further bytes, none at the end; `BrokenStream` where the stream is cut off or damaged."""
        if self._broken is not None:
            raise self._broken
        try:
            data: bytes = self._stream.read(size)
        except (OSError, pa.ArrowException, MemoryError) as error:
            self._broken = self._what_broke(error)
            data = self._last_bytes(size)
            if not data:
                raise self._broken from None
        self._given += len(data)
        if self._given > FREE and self._given > MAX_RATIO * self._raw.tell():
            problem = f"the compressed file expands to more than {MAX_RATIO} times its size"
            remedy = "if it is a history nevertheless, unpack it with zstd and read that"
            self._broken = BrokenStream(Reason.BOMB, HistoryError(self._path, None, None, problem, remedy))
            raise self._broken
        return data

    def _what_broke(self, error: Exception) -> BrokenStream:
        if "Truncated" in str(error):
            remedy = "record it again, or read up to the last whole event with --lenient"
            return BrokenStream(
                Reason.CUT_OFF, HistoryError(self._path, None, None, "the compressed file is cut off", remedy)
            )
        remedy = "copy or record it again, or read what is before with --lenient"
        return BrokenStream(
            Reason.DAMAGED, HistoryError(self._path, None, None, "the compressed file is damaged", remedy)
        )

    def _last_bytes(self, size: int) -> bytes:
        """What the failed read could still have given.

        A stream that fails drops what it had unpacked for that read, so it is read again in small steps.
        """
        self.close()
        self._open()
        last = bytearray()
        try:
            to_skip = self._given
            while to_skip:
                skipped = len(self._stream.read(min(to_skip, size)))
                if not skipped:
                    return b""
                to_skip -= skipped
            while len(last) < size and (byte := self._stream.read(1)):
                last += byte
        except (OSError, pa.ArrowException, MemoryError):
            pass
        return bytes(last)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        self._raw.close()
