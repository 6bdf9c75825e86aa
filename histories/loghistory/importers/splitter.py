"""Cutting a stream of EDN or JSON into the maps at its top, within limits, without reading them.

A history is many maps one after the other, or one vector of them, which may be what a map has at ``history``. Only
brackets, strings and comments are looked at, so that a file of any size is cut with no more than one map in memory.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import HistoryError, quote
from ..lines import MAX_LINE, BrokenStream
from ..quarantine import Quarantine
from ..validity import Reason
from .edn import MAX_DEPTH, words
from .objects import is_shallow

_EDN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|;[^\n]*\n|;|\\.|\\|[\[\](){}]', re.DOTALL)
_JSON = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|[\[\]{}]', re.DOTALL)
_PLAIN = r'(?:[^{}"\\;]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+'
_WHOLE = re.compile(rf"\{{{_PLAIN}(?:\{{{_PLAIN}\}}{_PLAIN})*+\}}", re.DOTALL)
"""A map with maps in it that hold none, all in one go; what it misses is cut bracket by bracket."""
_NEXT = re.compile(rf"[ \t\r,]*+({_WHOLE.pattern})", re.DOTALL)
_FEWEST, _MOST = 2, 4096
"""Maps of a line that are read at once: more after a try that went well, so that a bad map costs no thousands."""
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_BEFORE = re.compile(r"[ \t\r,]*(?:#:?[A-Za-z][\w./-]*[ \t\r,]*)?")
"""What may stand on a line before the map that it begins with."""
_BLANK = " \t\r\n,"
_BLOCK = 1 << 16
"""Bytes read at once: what is made of them is gone again before a collection of garbage would look at all of it."""
_SHORTEST = 16
"""Lines that are shorter on the average are not worth to be read at once."""
_REMEDY = "give one map an operation, or one vector of them"
_HISTORY = re.compile(r'(?:[\s,{})\]"]:history|"history"\s*+:?+)[\s,]*+(?:#[A-Za-z][\w./-]*+[\s,]*+)?\Z')
_LONGEST_KEY = 256
_OPERATION = re.compile(r'(?::(?:[\w./-]+/)?type[\s,]|"type"\s*:?)\s*:?"?:?(?:invoke|ok|fail|info)\b')


def _balanced(text: str) -> bool:
    """Whether as many brackets open as close, those in strings counted too."""
    return text.count("[") == text.count("]") and text.count("(") == text.count(")")


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text of one map and the number of the line where it begins."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """Maps that were read at once: the numbers of their lines, what they say, their texts or those of their lines."""

    lines: Sequence[int]
    fields: Sequence[Any]
    texts: Sequence[str]


class _Text:
    """The text of a stream of UTF-8, block by block."""

    def __init__(self, read_bytes: Callable[[int], bytes], file: str) -> None:
        self.broken: BrokenStream | None = None
        """What ended the stream before its time."""
        self._read = read_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._file = file
        self._line = 1
        self._first = True

    def more(self) -> str | None:
        """The next text; None at the end."""
        try:
            data = self._read(_BLOCK)
        except BrokenStream as broken:
            self.broken = broken
            return None
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            # A block may begin with the last bytes of the one before, none of which ends a line.
            line = self._line + error.object[: error.start].count(b"\n")
            remedy = "save the file as UTF-8"
            raise HistoryError(self._file, line, None, "the text is not valid UTF-8", remedy) from None
        self._line += data.count(b"\n")
        if self._first and text:
            text = text.removeprefix("\ufeff")
            self._first = False
        return text if data or text else None


class Splitter:
    """The maps of a stream; ``json`` says which of the two syntaxes it is in.

    ``at_once`` is given many lines and returns what each says, if it is one map and no more, or None. What it
    does not read is cut into pieces. What cannot be cut is refused; a reading that goes on does so at the next line.
    """

    def __init__(
        self,
        read_bytes: Callable[[int], bytes],
        file: str,
        quarantine: Quarantine,
        at_once: Callable[[Sequence[str]], Sequence[Any]],
        *,
        json: bool,
    ) -> None:
        self._read_at_once = at_once
        self._first_read = 1
        self._ready: Sequence[Any] = ()
        self._texts: Sequence[str] = ()
        """Of lines that were read at once: the number of the first, what they say, their texts."""
        self._source = _Text(read_bytes, file)
        self._file = file
        self._quarantine = quarantine
        self._significant = _JSON if json else _EDN
        self._json = json
        self._text = ""
        self._line = 1
        self._counted = 0
        self._ended = False
        self._dropping = 0
        self._skipping = False
        """What is read next is the rest of a line that was refused."""
        self._first = True
        """No form has begun yet."""
        self._inside = False
        """The vector is in a map."""
        self._at_once = True
        """Whether maps of the text at hand are worth a try to be cut in one go: one failure costs the whole text."""
        self._tried = _FEWEST
        """Maps of a line that are read at once next."""

    def __iter__(self) -> Iterator[Chunk | Run]:
        """The maps in order, alone or in runs of lines.

        One loop over the brackets, and long: every turn of it may change what is open, where that began, and where the
        search goes on, and calls for each would cost more than the search.
        """
        stack: list[str] = []
        outer = 0  # vectors around the maps: 0 or 1
        start = 0  # of the map that is open, or of what stands between maps
        place = 0
        while True:
            match = self._significant.search(self._text, place)
            if match is None or (len(match[0]) == 1 and match[0] in '";\\'):
                if self._ended:
                    break
                place = len(self._text) if match is None else match.start()
                if not stack and not (self._text[start:place].strip(_BLANK) and any(words(self._text[start:place]))):
                    start = place  # comments and white space
                elif self._inside and stack and not outer:
                    start = place  # what the map has behind the history
                if place - start > MAX_LINE or len(self._text) - place > MAX_LINE:
                    self._refuse(start, Reason.LONG_LINE, f"a form is longer than {MAX_LINE} bytes", "split it")
                    start = place = self._next_line(place)
                    self._skipping = not self._text.endswith("\n", 0, place)
                    stack.clear()
                place -= start
                self._read_on(start)
                start = 0
                continue
            place = match.end()
            token = match[0]
            if token in _CLOSING:
                if not stack:
                    fine = self._between(start, match.start())
                    behind, start = start, match.start()
                    if fine and self._first and not self._dropping:
                        self._first = False
                        inside = self._history(start) if token == "{" else None
                        if inside is not None:
                            self._inside = True
                            outer += 1
                            start = place = inside
                            continue
                    if fine and token == "{" and not self._dropping:
                        run, end = self._lines(behind, start)
                        if run is not None:
                            yield run
                            start = place = end
                            continue
                    if not fine:
                        start = place = self._next_line(start)
                        continue
                    if token != "{" and not self._dropping:
                        if outer:
                            self._refuse(start, Reason.WRONG_TYPE, f"a {token!r} instead of a map", _REMEDY)
                            start = place = self._next_line(start)
                            continue
                        outer += 1
                        start = place
                        continue
                    if self._at_once and not self._dropping:
                        run, end = self._on_one_line(start)
                        if run is not None:
                            yield run
                            start = place = end
                            continue
                        whole = _WHOLE.match(self._text, start)
                        if whole is not None and self._fine(whole[0]):
                            yield Chunk(self._line_of(start), whole[0])
                            start = place = whole.end()
                            continue
                        self._at_once = False
                stack.append(token)
                if len(stack) > MAX_DEPTH:
                    problem, remedy = f"the forms nest deeper than {MAX_DEPTH}", "name a history of operations"
                    self._refuse(start, Reason.OUT_OF_RANGE, problem, remedy)
                    stack.clear()
                    start = place = self._next_line(place)
            elif token in ("]", ")", "}"):
                if not stack and outer and token != "}":
                    self._between(start, match.start())
                    outer -= 1
                    start = place
                    if self._inside:
                        stack.append("{")
                        self._dropping += 1  # the rest of the map
                elif not stack or _CLOSING[stack.pop()] != token:
                    self._refuse(match.start(), Reason.NOT_JSON, f'"{token}" closes nothing', _REMEDY)
                    stack.clear()
                    start = place = self._next_line(place)
                elif not stack:
                    if self._dropping:
                        self._dropping -= 1
                    else:
                        yield Chunk(self._line_of(start), self._text[start:place])
                    start = place
        broken = self._source.broken
        if broken is not None:
            self._quarantine.refuse(broken.reason, broken.error, self._text[start : start + 4096].encode())
        elif stack or outer or (match is not None and match[0] == '"'):
            remedy = "record it again, or read what is before with --lenient"
            where = start if stack else len(self._text)
            self._refuse(where, Reason.CUT_OFF, "the file ends inside a form that begins here", remedy)
        else:
            self._between(start, len(self._text))

    def _history(self, start: int) -> int | None:
        """The place behind the bracket of the vector that the map that begins at ``start`` has at ``history``.

        None if its first MiB has none, or if the map is an operation.
        """
        depth = 0
        place = behind = start  # of the last bracket
        while place - start <= MAX_LINE:
            match = self._significant.search(self._text, place)
            if match is None or (len(match[0]) == 1 and match[0] in '";\\'):
                if self._ended or len(self._text) - place > MAX_LINE:
                    return None
                self._add()
                continue
            token = match[0]
            place = match.end()
            if token in _CLOSING:
                if depth == 1:
                    if _OPERATION.search(self._text, behind, match.start()):
                        return None
                    key = max(behind, match.start() - _LONGEST_KEY)
                    if token != "{" and _HISTORY.search(self._text, key, match.start()):
                        return place
                depth += 1
            elif token in ("]", ")", "}"):
                depth -= 1
                if not depth:
                    return None
                behind = match.start()
        return None

    def _lines(self, behind: int, start: int) -> tuple[Run | None, int]:
        """The lines that were read at once from the one on whose map begins at ``start``, and where they end.

        None if there is none, or if something else is before the map, behind ``behind``, on its line.
        """
        begin = self._text.rfind("\n", behind, start) + 1
        if (not begin and behind) or not _BEFORE.fullmatch(self._text, begin, start):
            return None, start
        number = self._line_of(begin)
        if not self._first_read <= number < self._first_read + len(self._ready):
            end = self._text.rfind("\n", start) + 1
            self._first_read = number
            count = self._text.count("\n", begin, end)
            if count * _SHORTEST > end - begin:
                self._texts, self._ready = (), [None] * count
            else:
                self._texts = self._text[begin:end].split("\n")[:-1]
                self._ready = self._read_at_once(self._texts)
        first = number - self._first_read
        try:
            last = self._ready.index(None, first)
        except ValueError:
            last = len(self._ready)
        if first >= last:
            return None, start
        texts = self._texts[first:last]
        run = Run(range(number, number + last - first), self._ready[first:last], texts)
        return run, begin + sum(map(len, texts)) + len(texts)

    def _on_one_line(self, start: int) -> tuple[Run | None, int]:
        """The maps that follow one another on a line from ``start`` on and can be read at once, and where they end."""
        end = self._text.find("\n", start)
        end = len(self._text) if end < 0 else end
        texts: list[str] = []
        ends: list[int] = []
        place = start
        while len(texts) < self._tried and (match := _NEXT.match(self._text, place, end)):
            if len(match[1]) > MAX_LINE:
                break
            texts.append(match[1])
            place = match.end()
            ends.append(place)
        if len(texts) < 2:
            return None, start
        fields = self._read_at_once(texts)
        if None in fields:
            count, self._tried = fields.index(None), _FEWEST
        else:
            count, self._tried = len(fields), min(2 * self._tried, _MOST)
        if not count:
            return None, start
        return Run([self._line_of(start)] * count, fields[:count], texts[:count]), ends[count - 1]

    def _fine(self, text: str) -> bool:
        """Whether a map cut in one go is what cutting by brackets gives; for EDN the reader of forms sees to that."""
        return len(text) <= MAX_LINE and _balanced(text) and (not self._json or is_shallow(text))

    def _read_on(self, start: int) -> None:
        """Forget the text before ``start`` and add more."""
        self._line_of(start)
        self._text = self._text[start:]
        self._counted = 0
        self._add()

    def _add(self) -> None:
        self._at_once = True
        more = self._source.more()
        if more is None:
            self._ended = True
        elif self._skipping:
            end = more.find("\n") + 1
            if end:
                self._text += more[end:]
                self._line += 1
                self._skipping = False
        else:
            self._text += more

    def _line_of(self, place: int) -> int:
        if place >= self._counted:
            self._line += self._text.count("\n", self._counted, place)
            self._counted = place
            return self._line
        return self._line - self._text.count("\n", place, self._counted)

    def _next_line(self, place: int) -> int:
        end = self._text.find("\n", place)
        return len(self._text) if end < 0 else end + 1

    def _between(self, start: int, end: int) -> bool:
        """Whether what stands between two forms may stand there: tags, and words that take the next form away.

        What may not is refused.
        """
        text = self._text[start:end]
        if not text.strip(_BLANK):
            return True
        for token in text.replace(",", " ").split() if self._json else words(text):
            if not self._json and (token == "^" or token == "#_"):
                self._dropping += 1
            elif not self._json and token[0] == "#":
                continue
            elif self._dropping:
                self._dropping -= 1
            else:
                problem = f"{quote(token)} where an operation should begin"
                self._refuse(start + text.find(token), Reason.NOT_JSON, problem, _REMEDY)
                return False
        return True

    def _refuse(self, place: int, reason: Reason, problem: str, remedy: str) -> None:
        error = HistoryError(self._file, self._line_of(place), None, problem, remedy)
        self._quarantine.refuse(reason, error, self._text[place : place + 4096].encode("utf-8", "surrogatepass"))
