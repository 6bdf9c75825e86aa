"""Files of bytes, compressed or not, as a stream of what they expand to, with limits for the reader.

A compressed file is recognised by its first bytes. The reader takes any zstd or gzip stream, also one of several frames
or members, and never holds more than one block; a stream that expands beyond all proportion is given up.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from .errors import HistoryError
from .lines import BrokenStream
from .validity import Reason

CODECS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}
"""By the first bytes of a file: what it is compressed with, as pyarrow and the tools that unpack it call it."""

MAX_RATIO = 1000
"""A stream that expands to more than this times its size, beyond `FREE` bytes, is refused as a bomb."""
FREE = 16 << 20

_BROKEN = (OSError, EOFError, zlib.error, pa.ArrowException, MemoryError)

_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


def codec_of(start: bytes) -> str | None:
    """What a file that begins with these bytes is compressed with; None if it is not."""
    return next((codec for magic, codec in CODECS.items() if start.startswith(magic)), None)


def refuse_archives(path: Path, start: bytes) -> None:
    """A `HistoryError` for a file that begins like something that has to be unpacked or converted first."""
    for magic, name in _ARCHIVES.items():
        if start.startswith(magic):
            remedy = "save it as UTF-8" if "UTF-16" in name else "unpack it, or compress it with zstd or gzip"
            raise HistoryError(path, None, None, f"the file is {name}", remedy)


class Reader:
    """Reads what a file expands to; `read` fits `loghistory.jsonl.read` and `loghistory.importers.read`.

    ``codec`` is "zstd" or "gzip".
    """

    def __init__(self, path: Path, codec: str) -> None:
        self._path = path
        self._codec = codec
        self._given = 0
        self._broken: BrokenStream | None = None
        self._open()

    def _open(self) -> None:
        self._raw: Any
        self._stream: Any
        if self._codec == "gzip":
            # The stream of pyarrow does not give back its memory after damage.
            self._raw = self._path.open("rb")
            self._stream = gzip.GzipFile(fileobj=self._raw)
        else:
            self._raw = pa.OSFile(str(self._path))
            self._stream = pa.CompressedInputStream(self._raw, self._codec)

    def read(self, size: int) -> bytes:
        """Up to ``size`` further bytes, none at the end; `BrokenStream` where the stream is cut off or damaged."""
        if self._broken is not None:
            raise self._broken
        try:
            data: bytes = self._stream.read(size)
        except _BROKEN as error:
            self._broken = self._what_broke(error)
            data = self._last_bytes(size)
            if not data:
                raise self._broken from None
        self._given += len(data)
        if self._given > FREE and self._given > MAX_RATIO * self._raw.tell():
            problem = f"the compressed file expands to more than {MAX_RATIO} times its size"
            remedy = f"if it is a history nevertheless, unpack it with {self._codec} and read that"
            self._broken = BrokenStream(Reason.BOMB, HistoryError(self._path, None, None, problem, remedy))
            raise self._broken
        return data

    def _what_broke(self, error: Exception) -> BrokenStream:
        if isinstance(error, EOFError) or "Truncated" in str(error):
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
        except _BROKEN:
            pass
        return bytes(last)

    def close(self) -> None:
        """Close the file and what unpacks it."""
        self._stream.close()
        self._raw.close()
