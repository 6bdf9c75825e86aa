"""Cutting a stream of bytes into blocks of whole lines, within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .errors import HistoryError
from .quarantine import Quarantine
from .validity import Reason

BLOCK = 1 << 20
"""Bytes read at once."""

MAX_LINE = BLOCK
"""Longest line in bytes that a reader takes. No more than a block, so that only a block's first line can be longer."""


class BrokenStream(Exception):  # noqa: N818
    """The bytes of a file end before their time; what came before is good."""

    def __init__(self, reason: Reason, error: HistoryError) -> None:
        self.reason = reason
        self.error = error
        super().__init__(str(error))


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each with its line end; ``number`` is the line number of the first."""

    number: int
    data: bytes


class Lines:
    """The blocks of a stream; lines that are too long are refused and left out.

    ``read_bytes(n)`` gives up to n further bytes and none at the end; it may raise `BrokenStream`. ``is_whole`` says of
    a last line without line end whether it is complete nevertheless. After the iteration ``tail`` holds what is left
    of a last line that is not, ``number`` its line number and ``broken`` what ended the stream before its time.
    """

    def __init__(
        self,
        read_bytes: Callable[[int], bytes],
        is_whole: Callable[[bytes], bool],
        file: str,
        quarantine: Quarantine,
    ) -> None:
        self._read = read_bytes
        self._is_whole = is_whole
        self._file = file
        self._quarantine = quarantine
        self.number = 1
        self.tail = b""
        self.broken: BrokenStream | None = None

    def __iter__(self) -> Iterator[Block]:
        inside_long_line = False
        while data := self._more():
            if inside_long_line:
                end = data.find(b"\n") + 1
                if not end:
                    continue
                inside_long_line = False
                self.number += 1
                data = data[end:]
            whole = data.rfind(b"\n") + 1
            if whole:
                yield from self._block(data[: data.find(b"\n") + 1], data[:whole])
            self.tail += data[whole:]
            if len(self.tail) > MAX_LINE:
                self._too_long(self.number, self.tail)
                self.tail, inside_long_line = b"", True
        if self.tail and self._is_whole(self.tail):
            tail, self.tail = self.tail, b""
            yield Block(self.number, tail + b"\n")

    def _block(self, first: bytes, data: bytes) -> Iterator[Block]:
        """The block that ends what was left before with ``data``, whose first line is ``first``."""
        number = self.number
        self.number += data.count(b"\n")
        tail, self.tail = self.tail, b""
        if len(tail) + len(first) > MAX_LINE + 1:
            self._too_long(number, tail + first)
            tail, data, number = b"", data[len(first) :], number + 1
        if data:
            yield Block(number, tail + data)

    def _more(self) -> bytes:
        try:
            return self._read(BLOCK)
        except BrokenStream as broken:
            self.broken = broken
            return b""

    def _too_long(self, number: int, line: bytes) -> None:
        problem = f"the line is longer than {MAX_LINE} bytes"
        error = HistoryError(self._file, number, None, problem, "split what it holds into several events")
        self._quarantine.refuse(Reason.LONG_LINE, error, line)
