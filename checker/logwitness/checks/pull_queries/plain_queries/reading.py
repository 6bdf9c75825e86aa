"""What the texts of a piece of a history say, as numbers that compiled loops read.

Each text of the piece is read once, from its bytes: texts in the compact form in which servers record, keys in order,
numbers of at most 18 digits, strings without escapes. Of any other text there is nothing here, and Python judges what
needs it. Names, keys and words have a number each; those of hosts and changelogs are remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...columns import Array, Ints, read_only
from ...kernel import kernel, part
from ...strings import Strings, no_strings, number_of, with_room
from ...words import Words, joined
from ..skimming import NOWHERE, Cells

NAME, RECORD, ASSIGNED, POSITIONS, QUERY, VIEW, ASKED, FINISHED, ROWS = range(9)
"""What a text is read as: a string in quotes; else see `_read`."""
INTEGER, WORD, NOTHING = range(3)
"""What a value is."""
NONE = -1
"""No bound; no keys."""
UNREAD, NO_ROW, ODD = -2, -3, -4
"""What stands for the number of a row (`number_rows`): the text says none that is judged; or that there is none; or
Python has to read it."""
FILTER_OPS = ("=", "!=", "<", "<=", ">", ">=")
_LONGEST = 18


class Texts(NamedTuple):
    """Where each of some texts begins and ends, and what it is read as."""

    bytes: Array
    starts: Ints
    ends: Ints
    forms: Array


class Said(NamedTuple):
    """What texts say: from a place on, by text, numbers as `_read` puts them there; `NOWHERE` for what is not read."""

    at: Ints
    forms: Array
    numbers: Ints


def _bytes(text: str) -> Array:
    return read_only(np.frombuffer(text.encode(), dtype=np.uint8))


_EPOCH, _MEMBERS, _PLACEMENTS, _CLOSED = map(_bytes, ('{"epoch":', ',"members":[', '],"placements":[', "]}"))
_CHANGE, _TAKEOVER, _SOURCE, _KEY, _VALUE = map(
    _bytes, ('{"type":"change","epoch":', '{"type":"takeover","epoch":', ',"source":', ',"key":', ',"value":')
)
_KEYS, _FILTER, _BOUND, _NULL, _NULL_NEXT = map(
    _bytes, ('{"keys":', ',"filter":', ',"bound":', "null", 'null,"filter":')
)
_KEY_FIRST, _NO_KEY = map(_bytes, ('"key":', '"key":null,"value":null}'))
_COLUMN, _OP, _FILTER_VALUE = map(_bytes, ('{"column":"', '","op":"', '","value":'))
_EQUAL, _UNEQUAL, _LESS, _AT_MOST, _MORE, _AT_LEAST = map(_bytes, ('="', '!="', '<"', '<="', '>"', '>="'))
_ASSIGNMENT, _STATUSES, _RECORDS, _TWICE_CLOSED = map(
    _bytes, ('{"assignment":', ',"statuses":{', '},"records":{', "}}")
)
_TRUE, _FALSE, _PARTITIONS = map(_bytes, ("true,", "false,", '{"partitions":['))
_COMPLETE = _bytes('{"message":null,"attempts":[')
_QUOTE, _COMMA, _COLON, _MINUS, _ZERO, _NINE, _BACKSLASH = map(ord, '",:-09\\')
_OPEN, _CLOSE, _BRACE, _UNBRACE, _SPACE, _OF_VALUES, _OF_KEYS = map(ord, "[]{} vk")


@part
def _literal(text: Cells, at: int, word: Cells) -> int:
    """Behind a word that is at a place; `NOWHERE` if it is not there."""
    if at < 0:
        return NOWHERE
    for i in range(len(word)):
        if text[at + i] != word[i]:
            return NOWHERE
    return at + len(word)


@part
def _sign(text: Cells, at: int, sign: int) -> int:
    """The same for a single character."""
    return at + 1 if at >= 0 and text[at] == sign else NOWHERE


@part
def _number(text: Cells, at: int, out: Cells) -> int:
    """Behind a number, which goes to ``out``."""
    if at < 0:
        return NOWHERE
    negative = text[at] == _MINUS
    begin = at + 1 if negative else at
    place, value = begin, 0
    while _ZERO <= text[place] <= _NINE and place - begin < _LONGEST:
        value = value * 10 + (text[place] - _ZERO)
        place += 1
    if place == begin or _ZERO <= text[place] <= _NINE or (text[begin] == _ZERO and (negative or place > begin + 1)):
        return NOWHERE
    out[out[0]] = -value if negative else value
    out[0] += 1
    return place


@part
def _string_end(text: Cells, at: int) -> int:
    """Where the string that begins at a place, behind its quote, ends; `NOWHERE` if it has escapes."""
    if at < 0:
        return NOWHERE
    place = at
    while text[place] != _QUOTE:
        if text[place] == _BACKSLASH or text[place] < _SPACE:
            return NOWHERE
        place += 1
    return place


@part
def _string(text: Cells, at: int, strings: Strings, new: bool, out: Cells) -> int:
    """Behind a string, whose number goes to ``out``."""
    begin = _sign(text, at, _QUOTE)
    end = _string_end(text, begin)
    if end < 0:
        return NOWHERE
    out[out[0]] = number_of(strings, text, begin, end, new)
    out[0] += 1
    return end + 1


@part
def _value(text: Cells, at: int, strings: Strings, new: bool, out: Cells) -> int:
    """Behind a value: what it is, and its number."""
    if at < 0:
        return NOWHERE
    place = out[0]
    out[0] += 1
    if text[at] == _QUOTE:
        out[place] = WORD
        return _string(text, at, strings, new, out)
    out[place] = INTEGER
    return _number(text, at, out)


@part
def _next(text: Cells, at: int, end: int, first: bool) -> int:
    """Where the next part of a list or an object begins; `NOWHERE` at its ``end``, and if there is none."""
    if at < 0 or text[at] == end:
        return NOWHERE
    return at if first else _sign(text, at, _COMMA)


@part
def _positions(text: Cells, at: int, out: Cells) -> int:
    """Behind what a lag report says: how many partitions, then each with what is passed and the end, ascending."""
    at = _sign(text, at, _BRACE)
    count = out[0]
    out[0] += 1
    out[count] = 0
    while at >= 0 and text[at] != _UNBRACE:
        at = _next(text, at, _UNBRACE, out[count] == 0)
        at = _number(text, _sign(text, at, _QUOTE), out)
        at = _number(text, _sign(text, _sign(text, _sign(text, at, _QUOTE), _COLON), _OPEN), out)
        at = _sign(text, _number(text, _sign(text, at, _COMMA), out), _CLOSE)
        if at >= 0 and (out[out[0] - 3] < 0 or (out[count] > 0 and out[out[0] - 3] <= out[out[0] - 6])):
            return NOWHERE
        out[count] += 1
    return _sign(text, at, _UNBRACE)


@part
def _names(text: Cells, at: int, strings: Strings, out: Cells) -> int:
    """Behind names and the end of their list: how many, then each."""
    count = out[0]
    out[0] += 1
    out[count] = 0
    while at >= 0 and text[at] != _CLOSE:
        at = _string(text, _next(text, at, _CLOSE, out[count] == 0), strings, False, out)
        out[count] += 1
    return at


@part
def _assigned(text: Cells, at: int, strings: Strings, out: Cells) -> int:
    """Behind an assignment: its epoch, the members, how many partitions, then the active and the standbys of each."""
    at = _literal(text, _number(text, _literal(text, at, _EPOCH), out), _MEMBERS)
    at = _literal(text, _names(text, at, strings, out), _PLACEMENTS)
    count = out[0]
    out[0] += 1
    out[count] = 0
    while at >= 0 and text[at] != _CLOSE:
        at = _sign(text, _next(text, at, _CLOSE, out[count] == 0), _OPEN)
        at = _sign(text, _sign(text, _string(text, at, strings, False, out), _COMMA), _OPEN)
        at = _sign(text, _sign(text, _names(text, at, strings, out), _CLOSE), _CLOSE)
        out[count] += 1
    return _literal(text, at, _CLOSED)


@part
def _new_host(seen: Cells, name: int, turn: int) -> bool:
    """Whether a name that is known occurs for the first time in this turn."""
    if name < 0 or seen[name] == turn:
        return False
    seen[name] = turn
    return True


@part
def _view(text: Cells, at: int, strings: Strings, out: Cells, seen: Cells, turn: int) -> int:
    """Behind a view: where its statuses and its reports begin, its assignment, how many statuses, then each with its
    host, whether that is alive and the time; how many reports, then each with its host, its time and `_positions`."""
    head = out[0]
    out[0] += 2
    at = _literal(text, _assigned(text, _literal(text, at, _ASSIGNMENT), strings, out), _STATUSES)
    count = out[0]
    out[head] = count
    out[0] += 1
    out[count] = 0
    while at >= 0 and text[at] != _UNBRACE:
        at = _string(text, _next(text, at, _UNBRACE, out[count] == 0), strings, False, out)
        at = _sign(text, _sign(text, at, _COLON), _OPEN)
        if at < 0 or not _new_host(seen, out[out[0] - 1], turn):
            return NOWHERE
        alive = text[at] == _TRUE[0]
        out[out[0]] = alive
        out[0] += 1
        at = _literal(text, at, _TRUE) if alive else _literal(text, at, _FALSE)
        at = _sign(text, _number(text, at, out), _CLOSE)
        out[count] += 1
    at = _literal(text, at, _RECORDS)
    count = out[0]
    out[head + 1] = count
    out[0] += 1
    out[count] = 0
    while at >= 0 and text[at] != _UNBRACE:
        at = _string(text, _next(text, at, _UNBRACE, out[count] == 0), strings, False, out)
        at = _sign(text, _sign(text, at, _COLON), _OPEN)
        if at < 0 or not _new_host(seen, out[out[0] - 1], turn + 1):
            return NOWHERE
        at = _sign(text, _number(text, at, out), _COMMA)
        at = _sign(text, _positions(text, at, out), _CLOSE)
        out[count] += 1
    return _literal(text, at, _TWICE_CLOSED)


@part
def _record(text: Cells, at: int, strings: Strings, out: Cells) -> int:
    """Behind a record of a changelog: epoch, source (`NONE`: a takeover), key (`NONE`: none), value."""
    if text[at + 9] == _TAKEOVER[9]:
        at = _sign(text, _number(text, _literal(text, at, _TAKEOVER), out), _UNBRACE)
        out[out[0]] = NONE
        out[0] += 1
        return at
    at = _literal(text, _number(text, _literal(text, at, _CHANGE), out), _SOURCE)
    at = _literal(text, _number(text, at, out), _KEY)
    if at < 0 or out[out[0] - 1] < 0:
        return NOWHERE
    if text[at] == _NULL[0]:
        out[out[0]] = NONE
        out[0] += 1
        at = _literal(text, at, _NULL)
    else:
        at = _string(text, at, strings, True, out)
    at = _literal(text, at, _VALUE)
    if at >= 0 and text[at] == _NULL[0]:
        out[out[0]] = NOTHING
        out[out[0] + 1] = 0
        out[0] += 2
        at = _literal(text, at, _NULL)
    else:
        at = _value(text, at, strings, True, out)
    return _sign(text, at, _UNBRACE)


@part
def _operator(text: Cells, at: int, out: Cells) -> int:
    """Behind how a filter compares, and its quote."""
    which, behind = 0, _literal(text, at, _EQUAL)
    if behind < 0:
        which, behind = 1, _literal(text, at, _UNEQUAL)
    if behind < 0:
        which, behind = 2, _literal(text, at, _LESS)
    if behind < 0:
        which, behind = 3, _literal(text, at, _AT_MOST)
    if behind < 0:
        which, behind = 4, _literal(text, at, _MORE)
    if behind < 0:
        which, behind = 5, _literal(text, at, _AT_LEAST)
    out[out[0]] = which
    out[0] += 1
    return behind


@part
def _query(text: Cells, at: int, strings: Strings, out: Cells) -> int:
    """Behind a query: its bound (`NONE`: none), how many keys (`NONE`: a scan), then each with its partition's code, or
    of a scan 1 if it has a filter, whether that is about values, how it compares, and with what."""
    head = out[0]
    out[0] += 2
    at = _literal(text, at, _KEYS)
    if at >= 0 and text[at] == _NULL[0]:
        out[head + 1] = NONE
        at = _literal(text, at, _NULL_NEXT)
        out[out[0]] = at >= 0 and text[at] == _BRACE
        out[0] += 1
        if at >= 0 and text[at] == _BRACE:
            at = _literal(text, at, _COLUMN)
            if at < 0 or (text[at] != _OF_VALUES and text[at] != _OF_KEYS):
                return NOWHERE
            out[out[0]] = text[at] == _OF_VALUES
            out[0] += 1
            at = _literal(text, _operator(text, _literal(text, at + 1, _OP), out), _VALUE)
            at = _sign(text, _value(text, at, strings, False, out), _UNBRACE)
            if at < 0 or (out[out[0] - 2] == WORD and out[out[0] - 1] < 0):
                return NOWHERE
        else:
            at = _literal(text, at, _NULL)
    else:
        at = _sign(text, at, _OPEN)
        out[head + 1] = 0
        while at >= 0 and text[at] != _CLOSE:
            begin = _sign(text, _next(text, at, _CLOSE, out[head + 1] == 0), _QUOTE)
            end = _string_end(text, begin)
            if end < 0:
                return NOWHERE
            out[out[0]] = number_of(strings, text, begin, end, False)
            out[out[0] + 1] = _checksum(text, begin, end)
            out[0] += 2
            out[head + 1] += 1
            at = end + 1
        at = _literal(text, _literal(text, _sign(text, at, _CLOSE), _FILTER), _NULL)
    return _bound(text, at, head, out)


@part
def _bound(text: Cells, at: int, head: int, out: Cells) -> int:
    """Behind the bound that ends an object; ``head``: where it is noted, `NONE` if there is none."""
    at = _literal(text, at, _BOUND)
    if at >= 0 and text[at] == _NULL[0]:
        out[head] = NONE
        return _sign(text, _literal(text, at, _NULL), _UNBRACE)
    at = _sign(text, _number(text, at, out), _UNBRACE)
    out[0] -= 1
    out[head] = out[out[0]]
    return at if out[head] >= 0 else NOWHERE


@part
def _checksum(text: Cells, begin: int, end: int) -> int:
    """CRC-32, as `zlib.crc32` has it."""
    code = 0xFFFFFFFF
    for i in range(begin, end):
        code ^= text[i]
        for _ in range(8):
            code = (code >> 1) ^ (0xEDB88320 if code & 1 else 0)
    return code ^ 0xFFFFFFFF


@part
def _asked(text: Cells, at: int, out: Cells) -> int:
    """Behind what a server asks another one: the bound, how many partitions, then each."""
    head = out[0]
    out[0] += 2
    out[head + 1] = 0
    at = _literal(text, at, _PARTITIONS)
    while at >= 0 and text[at] != _CLOSE:
        at = _number(text, _next(text, at, _CLOSE, out[head + 1] == 0), out)
        out[head + 1] += 1
    return _bound(text, _sign(text, at, _CLOSE), head, out)


@part
def _finished(text: Cells, at: int, strings: Strings, out: Cells) -> int:
    """Behind the end of a query that is complete: how many attempts, then each with partition, host and whether it
    failed."""
    count = out[0]
    out[0] += 1
    out[count] = 0
    at = _literal(text, at, _COMPLETE)
    while at >= 0 and text[at] != _CLOSE:
        at = _sign(text, _next(text, at, _CLOSE, out[count] == 0), _OPEN)
        at = _sign(text, _number(text, at, out), _COMMA)
        at = _sign(text, _string(text, at, strings, False, out), _COMMA)
        failed = at >= 0 and text[at] == _QUOTE
        at = _sign(text, _string_end(text, at + 1), _QUOTE) if failed else _literal(text, at, _NULL)
        at = _sign(text, at, _CLOSE)
        out[out[0]] = failed
        out[0] += 1
        out[count] += 1
    return _literal(text, at, _CLOSED)


@part
def _rows(text: Cells, at: int, strings: Strings, out: Cells) -> int:
    """Behind rows: how many, then each with its key and its value."""
    at = _sign(text, at, _OPEN)
    count = out[0]
    out[0] += 1
    out[count] = 0
    while at >= 0 and text[at] != _CLOSE:
        at = _sign(text, _next(text, at, _CLOSE, out[count] == 0), _OPEN)
        at = _sign(text, _string(text, at, strings, False, out), _COMMA)
        at = _sign(text, _value(text, at, strings, False, out), _CLOSE)
        out[count] += 1
    return _sign(text, at, _CLOSE)


@kernel
def _read(all_texts: Texts, names: bool, strings: Strings, found: Ints, out: Ints, seen: Ints) -> None:
    """Read the texts with names that are remembered, or all others."""
    text = all_texts.bytes
    for i in range(len(all_texts.forms)):
        form, at, end = all_texts.forms[i], all_texts.starts[i], all_texts.ends[i]
        if (form <= RECORD) != names:
            continue
        begin = out[0]
        if form == NAME:
            at = _string(text, at, strings, True, out)
        elif form == RECORD:
            at = _record(text, at, strings, out)
        elif form == ASSIGNED:
            at = _assigned(text, at, strings, out)
        elif form == POSITIONS:
            at = _positions(text, at, out)
        elif form == QUERY:
            at = _query(text, at, strings, out)
        elif form == VIEW:
            at = _view(text, at, strings, out, seen, 2 * i)
        elif form == ASKED:
            at = _asked(text, at, out)
        elif form == FINISHED:
            at = _finished(text, at, strings, out)
        else:
            at = _rows(text, at, strings, out)
        if at == end:
            found[i] = begin
        else:
            out[0] = begin


@kernel
def number_rows(texts: Texts, strings: Strings, checksums: Ints, row: Ints, source: Ints, out: Ints) -> None:
    """The number of the row that each record or put says, and the offset of the source log of a record.

    A row is a string from its key to the end: the same in both. A new one's checksum, that of the key, is noted.
    """
    text = texts.bytes
    for i in range(len(texts.forms)):
        at, end = texts.starts[i], texts.ends[i]
        row[i], source[i], out[0] = ODD, 0, 1
        if texts.forms[i] != RECORD:
            begin = _sign(text, at, _BRACE)
        elif text[at + 9] == _TAKEOVER[9]:
            if _sign(text, _number(text, _literal(text, at, _TAKEOVER), out), _UNBRACE) == end:
                row[i] = UNREAD
            continue
        else:
            at = _literal(text, _number(text, _literal(text, at, _CHANGE), out), _SOURCE)
            out[0] = 1
            begin = _sign(text, _number(text, at, out), _COMMA)
            source[i] = out[1]
            if _literal(text, begin, _NO_KEY) == end:
                row[i] = NO_ROW
                continue
        key = _sign(text, _literal(text, begin, _KEY_FIRST), _QUOTE)
        key_end = _string_end(text, key)
        if key_end < 0:
            continue
        at = _literal(text, key_end + 1, _VALUE)
        if at >= 0 and text[at] == _QUOTE:
            at = _string_end(text, at + 1)
            at = at + 1 if at >= 0 else NOWHERE
        elif at >= 0 and text[at] == _NULL[0]:
            at = _literal(text, at, _NULL)
        else:
            out[0] = 1
            at = _number(text, at, out)
        if _sign(text, at, _UNBRACE) == end:
            known = strings.used[0]
            row[i] = number_of(strings, text, begin, end, True)
            if row[i] == known:
                checksums[known] = _checksum(text, key, key_end)


@kernel
def _different(texts: Ints, forms: Array, number_of: Ints, which: Ints, form_of: Array, numbers: Ints) -> int:
    """Number the texts that are to be read, each once; how many. ``number_of`` is all `NOWHERE` again then."""
    count = 0
    for i in range(len(texts)):
        text = texts[i]
        numbers[i] = NOWHERE
        if text < 0 or forms[i] < 0:
            continue
        number = number_of[text]
        if number < 0:
            number = count
            number_of[text] = number
            which[number] = text
            count += 1
        form_of[number] = forms[i]
        numbers[i] = number
    for number in range(count):
        number_of[which[number]] = NOWHERE
    return count


class Reading:
    """Reads the texts of a run, piece by piece."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self.strings = no_strings()
        self._numbers = np.zeros(0, np.int64)
        self._number_of = np.zeros(0, np.int64)  # by text of the run
        self._names: dict[int, str] = {}

    def name(self, number: int) -> str:
        """The string that has this number, decoded."""
        if number not in self._names:
            start, end = self.strings.starts[number : number + 2].tolist()
            self._names[number] = bytes(self.strings.pool[start:end]).decode()
        return self._names[number]

    def read(self, texts: Ints, forms: Array, more: Mapping[str, int]) -> tuple[Said, Ints, list[int]]:
        """What texts say: those at places among the texts of the run (`NOWHERE`: none), with their forms, and ``more``.

        With it the number of each text here; of several forms a text is read as the last one. It says so until the next
        ones are read.
        """
        most = int(texts.max(initial=NOWHERE)) + 1
        if most > len(self._number_of):
            self._number_of = np.append(self._number_of, np.full(most, NOWHERE))
        (which, number), form_of = np.empty((2, len(texts)), np.int64), np.empty(len(texts), np.int8)
        different = _different.compiled(read_only(texts), read_only(forms), self._number_of, which, form_of, number)
        which, form_of = which[:different], form_of[:different]
        sources = (
            Texts(*self._words.encoded(which), form_of),
            Texts(*joined(more), np.array([*more.values()], np.int8)),
        )
        count = len(which) + len(more)
        found = np.full(count, NOWHERE, np.int64)
        lengths = [each.ends - each.starts for each in sources]
        room = 2 * sum(int(each.sum()) for each in lengths) + 16 * count + 16
        if room > len(self._numbers):
            self._numbers = np.empty(2 * room, np.int64)
        out = self._numbers
        out[0] = 1
        new = [each.forms <= RECORD for each in sources]
        size = sum(int(each[some].sum()) for each, some in zip(lengths, new, strict=True))
        self.strings = with_room(self.strings, 2 * sum(int(np.count_nonzero(some)) for some in new), size)
        for names in (True, False):
            first = 0
            for source in sources:
                if len(source.forms):
                    seen = np.full(int(self.strings.used[0]) + 1, NOWHERE, np.int64)
                    at = found[first : first + len(source.forms)]
                    _read.compiled(Texts(*map(read_only, source)), names, self.strings, at, out, seen)
                first += len(source.forms)
        said = Said(*map(read_only, (found, np.concatenate([each.forms for each in sources]), out)))
        return said, number, [*range(len(which), count)]
