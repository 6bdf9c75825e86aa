"""Words and texts of one run as numbers: those of column ``f``, and what stands for a text in the column ``value``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from .codes import F_WORDS, NULL, OTHER
from .strings import ROOM, Array, Ints, Strings, no_strings, number_all, with_room

_FIRST_FREE = len(F_WORDS) + 1
_MOST_WORDS = 1 << 14
_MOST_DECODED = 1 << 13


class Words:
    """Codes of column ``f``: the known ones, and one for every other word that occurs, up to a limit. And of texts.

    One thread numbers texts, while others may read those that have a number.
    """

    def __init__(self) -> None:
        self._codes = dict(F_WORDS)
        self._names = {code: name for name, code in F_WORDS.items()}
        self._text_codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._strings: Strings | None = None
        self._decoded: dict[int, str] = {}  # lately

    def code(self, word: str) -> int:
        """The word's code; `OTHER` when there are too many."""
        code = self._codes.get(word)
        if code is None:
            code = _FIRST_FREE + len(self._codes) - len(F_WORDS)
            if code >= _MOST_WORDS:
                return OTHER
            self._codes[word] = code
            self._names[code] = word
        return code

    def name(self, code: int) -> str:
        """The word with this code. Raises KeyError if there is none, as for `OTHER`."""
        return self._names[code]

    def keep_bytes(self) -> None:
        """Number texts by a compiled loop, and keep their bytes, from the first one on."""
        self._strings = self._strings or no_strings()

    def text_codes(self, texts: pa.StringArray) -> Ints:
        """What stands for texts, none of them null, in the column ``value``: the same for equal ones, and below all
        values."""
        if self._strings is None:
            known, asked = self._text_codes, texts.to_pylist()
            new = [text for text in dict.fromkeys(asked) if text not in known]
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            self._texts.extend(new)
            found = np.fromiter(map(known.__getitem__, asked), np.int64, len(asked))
        else:
            found = np.zeros(len(texts), np.int64)
            if len(texts):
                starts, pool = bytes_of(texts)
                self._strings = with_room(self._strings, len(texts), int(starts[-1] - starts[0]))
                number_all(self._strings, pool, starts, found)
        found += NULL + 1
        return found

    @property
    def texts(self) -> int:
        """How many texts have a code: ``NULL + 1``, and the next ones."""
        return len(self._texts) if self._strings is None else int(self._strings.used[0])

    def text(self, code: int) -> str | None:
        """The text that a code stands for; None if it stands for none."""
        place = code - NULL - 1
        if not 0 <= place < self.texts:
            return None
        if self._strings is None:
            return self._texts[place]
        text = self._decoded.get(place)
        if text is None:
            if len(self._decoded) >= _MOST_DECODED:
                self._decoded.clear()
            start, end = self._strings.starts[place : place + 2].tolist()
            text = self._decoded[place] = self._strings.pool[start:end].tobytes().decode()
        return text

    def texts_of(self, codes: Ints) -> list[str | None]:
        """The same for several at once."""
        if self._strings is None:
            return [*map(self.text, codes.tolist())]
        places = codes - (NULL + 1)
        known = np.flatnonzero((places >= 0) & (places < self.texts))
        pool, starts = memoryview(self._strings.pool.data), self._strings.starts
        found: list[str | None] = [None] * len(codes)
        ends = zip(known.tolist(), starts[places[known]].tolist(), starts[places[known] + 1].tolist(), strict=True)
        for at, start, end in ends:
            found[at] = str(pool[start:end], "utf-8")
        return found

    def encoded(self, places: Ints) -> tuple[Array, Ints, Ints]:
        """Bytes, and where in them some texts begin and end, by their places among all texts."""
        if self._strings is not None:
            starts = self._strings.starts
            return self._strings.pool, starts[places], starts[places + 1]
        return joined(self._texts[place] for place in places.tolist())


def joined(texts: Iterable[str]) -> tuple[Array, Ints, Ints]:
    """Bytes, and where in them these texts begin and end; as in `Strings`, there is room behind them."""
    starts, pool = bytes_of(pa.array([*texts, "\0" * ROOM], pa.string()))
    starts = starts.astype(np.int64)
    return pool, starts[:-2], starts[1:-1]


def bytes_of(texts: pa.StringArray) -> tuple[Array, Array]:
    """Where each of some texts begins, and the last one ends, and the bytes that these places are in."""
    _, starts, pool = texts.buffers()
    if pool is None or not pool.size:
        return np.frombuffer(bytes(4 * len(texts) + 4), np.int32), np.frombuffer(b"\0", np.uint8)
    places = np.frombuffer(starts, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return places, np.frombuffer(pool, np.uint8)
