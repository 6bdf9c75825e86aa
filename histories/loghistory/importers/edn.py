"""EDN, as Clojure programs print it, read without recursion.

Meant for files that anybody may have made. A form has a limited length and depth, an integer 64 bits. Metadata are
dropped, so are comments, ``#_`` forms and the tags of collections (``#jepsen.history.Op{...}`` reads as the map). What
no other value is stays apart from the strings that are spelled like it: keywords, characters, symbols, ratios, values
with a tag. Source: the EDN specification, github.com/edn-format/edn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from math import isinf
from typing import Any

from ..errors import quote

MAX_DEPTH = 64
"""How deep forms may nest."""

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_LONGEST_NUMBER = 40

_TOKEN = re.compile(
    r'#?"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    r"|;[^\n]*"
    r"|\#\{|\#_|\#\#[A-Za-z]+|\#[^\s,;\"\[\](){}\\^]*"
    r"|[\[\](){}^]"
    r"|\\(?:[A-Za-z0-9]+|.)"
    r"|[^\s,;\"\[\](){}\\^#][^\s,;\"\[\](){}\\^]*",
    re.DOTALL,
)
INTEGERS = re.compile(r"\[-?[0-9]{1,18}+(?: -?[0-9]{1,18}+)*+\]")
"""A vector of short integers, such as the offset and the value of an entry: it is read in one go."""
_FORM_TOKEN = re.compile(f"{INTEGERS.pattern}|{_TOKEN.pattern}", re.DOTALL)
_FLAT = re.compile(
    r"\{[\s,]*+(?::[A-Za-z][\w.?-]*+[\s,]++(?:-?[0-9]{1,18}+|:[A-Za-z][\w.?/-]*+|nil|true|false)(?:[\s,]++|(?=\})))*+\}"
)
_PAIR = re.compile(r":([A-Za-z][\w.?-]*+)[\s,]++([\w.?/:-]++)")
_INTEGER = re.compile(r"[+-]?[0-9]+N?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+N?")
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
_RATIO = re.compile(r"[+-]?[0-9]+/[0-9]+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "backspace": "\b", "formfeed": "\f"}
_CLOSING = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_MARKS = frozenset(":\\#'\"")
_WORDS: dict[str, Any] = {"nil": None, "true": True, "false": False}


class EdnError(ValueError):
    """The text is no EDN, or exceeds a limit; the text of the error says what is wrong."""


class Keyword(str):
    """A keyword without its colon; it equals the plain word, so that ``form["type"] == "invoke"`` can be asked."""

    __slots__ = ()


class Word(str):
    """What is no string, written so that it begins as no `Keyword` and no plain string does: a character (``\\a``), a
    symbol, a ratio or a number that is none (``'a``, ``'1/2``, ``'##NaN``), a regular expression or a scalar with a tag
    (``#"a"``, ``#inst "2024"``)."""

    __slots__ = ()


class Text(str):
    """A string that begins as a `Word`, a `Keyword` or a quoted string does."""

    __slots__ = ()


class Members(list[Any]):
    """The members of a set, in the order they were written."""


_MISSING = object()
_known: dict[str, Any] = dict(_WORDS)
"""Words and keywords that were read before, up to `_MOST_KNOWN` short ones."""
_MOST_KNOWN = 4096


def flat_map(text: str) -> dict[str, Any] | None:
    """A map whose keys are keywords and whose values are short integers, keywords, truth values and nil.

    That is what most operations are; None for any other text, which `forms` reads or refuses.
    """
    if _FLAT.fullmatch(text) is None:
        return None
    pairs = _PAIR.findall(text)
    found = {key: int(value) if value[-1].isdigit() and value[0] != ":" else _word(value) for key, value in pairs}
    return found if len(found) == len(pairs) else None


def _word(token: str) -> Any:  # noqa: ANN401
    value = _known.get(token, _MISSING)
    return _atom(token, token[0]) if value is _MISSING else value


def forms(text: str) -> list[Any]:
    """The forms in a text: None, bool, int, float, str, `Text`, `Keyword`, `Word`, list, `Members` or dict each.

    Keys of a map stay what they are if they are scalars; a vector of scalars is a tuple as a key, other collections are
    refused as keys. Raises `EdnError`.
    """
    items: list[Any] = []
    opening = ""
    outer: list[tuple[list[Any], str, list[str]]] = []
    """For each collection that is open: what stands before it, in what, and the prefixes of it itself."""
    # What stands before the next form: `#_` and `^` each take one form away, tags say what it is.
    prefix: list[str] = []
    for token in _FORM_TOKEN.findall(text):
        value = _known.get(token, _MISSING)
        if value is _MISSING:
            first = token[0]
            if token in _CLOSING or first == "[":
                if len(outer) >= MAX_DEPTH:
                    raise EdnError(f"the forms nest deeper than {MAX_DEPTH}")
                if len(token) < 3:
                    outer.append((items, opening, prefix))
                    items, opening, prefix = [], token, []
                    continue
                value = integers(token)
            elif first in "])}":
                if _CLOSING.get(opening) != token or prefix:
                    raise EdnError(f'"{token}" closes nothing')
                value = _collection(opening, items)
                items, opening, prefix = outer.pop()
            elif first == ";":
                continue
            elif first == "^" or token == "#_":
                prefix.append(token)
                continue
            elif first == "#" and token.endswith('"'):
                value = Word(token)  # a regular expression: as it stands
            elif first == "#" and not token.startswith("##"):
                if len(token) == 1:
                    raise EdnError('a "#" stands alone')
                prefix.append(token)  # a tag: what follows is the form
                continue
            else:
                value = _atom(token, first)
        while prefix and prefix[-1][0] == "#" and prefix[-1] != "#_":
            value = _tagged(prefix.pop(), value)
        if prefix:
            prefix.pop()
        else:
            items.append(value)
    if outer:
        raise EdnError(f'"{opening}" is not closed')
    if prefix:
        raise EdnError(f"nothing follows {quote(prefix[-1])}")
    return items


def _tagged(tag: str, value: Any) -> Any:  # noqa: ANN401
    """A value with a tag, which only a scalar keeps."""
    if isinstance(value, (list, dict)):
        return value
    return Word(f"{tag} {value}" if type(value) is not str else f"{tag} {_quoted(value)}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def integers(vector: str) -> list[int]:
    """The integers of a vector that is as `INTEGERS` has it."""
    return list(map(int, vector[1:-1].split(" ")))


def _collection(opening: str, items: list[Any]) -> Any:  # noqa: ANN401
    if opening == "[" or opening == "(":
        return items
    if opening == "#{":
        return Members(items)
    if len(items) % 2:
        raise EdnError("a map has a key without a value")
    keys = [tuple(key) if type(key) is list else key for key in items[::2]]
    try:
        found = dict(zip(keys, items[1::2], strict=True))
    except TypeError:
        raise EdnError("a key of a map holds collections") from None
    if len(found) < len(keys):
        raise EdnError("a key of a map is repeated")
    return found


def _atom(token: str, first: str) -> Any:  # noqa: ANN401
    if first == ":":
        if len(token) == 1:
            raise EdnError('a ":" stands alone')
        keyword = Keyword(token[1:])
        if len(token) < _LONGEST_NUMBER and len(_known) < _MOST_KNOWN:
            _known[token] = keyword
        return keyword
    if first.isdigit() or (first in "+-" and token[1:2].isdigit()):
        return _number(token)
    if first == '"':
        text = _string(token[1:-1])
        return Text(text) if text and text[0] in _MARKS else text
    if first == "\\":
        return Word("\\" + _character(token[1:]))
    return _WORDS[token] if token in _WORDS else Word(f"'{token}")


def _number(token: str) -> int | float | str:
    if len(token) < 19 and token.isascii() and token.isdigit():
        return int(token)
    if _INTEGER.fullmatch(token):
        number = int(token.removesuffix("N")) if len(token) <= _LONGEST_NUMBER else _LARGEST + 1
        if not _SMALLEST <= number <= _LARGEST:
            raise EdnError("an integer does not fit in 64 bits")
        return number
    if len(token) <= _LONGEST_NUMBER and _HEXADECIMAL.fullmatch(token):
        number = int(token.removesuffix("N"), 16)
        if _SMALLEST <= number <= _LARGEST:
            return number
        raise EdnError("an integer does not fit in 64 bits")
    if len(token) <= _LONGEST_NUMBER:
        if _DECIMAL.fullmatch(token):
            return _decimal(token)
        if _RATIO.fullmatch(token):
            return Word(f"'{token}")
    raise EdnError("a number is malformed or too long")


def _decimal(token: str) -> float:
    number = float(token.removesuffix("M"))
    exact = token[-1] != "M" or Decimal(token[:-1]) == Decimal(repr(number))
    if isinf(number) or not exact:
        raise EdnError("a number does not fit in 64 bits")
    return number + 0.0  # there is one zero


def _string(text: str) -> str:
    if "\\" not in text:
        return text
    return _joined(_ESCAPE.sub(_unescaped, text))


def _joined(text: str) -> str:
    """The text with pairs of surrogates, which Java writes for some characters, as those characters."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise EdnError("a text has half a surrogate pair") from None


def _unescaped(match: re.Match[str]) -> str:
    name = match[1]
    if len(name) > 1:
        return chr(int(name[1:], 16))
    if name not in _ESCAPES:
        raise EdnError("a string has an unknown escape")
    return _ESCAPES[name]


def _character(name: str) -> str:
    if len(name) == 1:
        return name
    if len(name) == 5 and name[0] == "u":
        with_code = name[1:]
        if all(c in "0123456789abcdefABCDEF" for c in with_code):
            return _joined(chr(int(with_code, 16)))
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    raise EdnError("a character is unknown")


def words(text: str) -> Iterator[str]:
    """The tokens of a text, without comments."""
    return (token for token in _TOKEN.findall(text) if token[0] != ";")


def places(text: str) -> Iterator[tuple[int, int]]:
    """Where the tokens of a text begin and end, comments included."""
    return (match.span() for match in _TOKEN.finditer(text))
