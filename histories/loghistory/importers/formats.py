"""The formats of other tools, and how each is recognised by its first bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from enum import StrEnum

SNIFFED = 1 << 16
"""Bytes at the start of a file by which its format is recognised."""


class ForeignFormat(StrEnum):
    """A format of histories that other tools write; the value is what a command line calls it."""

    JEPSEN_EDN = "jepsen-edn"
    """Operation maps, one after the other or in one vector, which may be what a map has at ``:history``."""
    JEPSEN_JSON = "jepsen-json"
    """The same as JSON objects, one after the other or in one array."""
    JEPSEN_LOG = "jepsen-log"
    """Lines of a log or of history.txt: ``... 0 :invoke :read nil``."""
    PORCUPINE_KV = "porcupine-kv"
    """Operation maps of a key-value store, with their key in ``:key``."""


_PROCESS, _TYPE, _F, _BETWEEN = (
    r"(\d+|:[A-Za-z][\w.-]*)",
    r":(invoke|ok|fail|info)(?![\w.-])",
    r":([^\s\"\[\](){};,]+)",
    r"[ \t,]+",
)
LOG_LINE = re.compile(
    rf"(?:^|[\s:])(?:{_PROCESS}{_BETWEEN}(?:{_TYPE}{_BETWEEN}{_F}|{_F}{_BETWEEN}{_TYPE})"
    rf"|{_TYPE}{_BETWEEN}{_PROCESS}{_BETWEEN}{_F})[ \t,]*(.*)",
    re.MULTILINE,
)
"""A line that holds an operation: `log_operation` has what it says."""


def log_operation(groups: Sequence[str]) -> tuple[str, str, str, str]:
    """Process, type, f and the rest of a line by the groups of its match.

    The first three come as p t f, p f t or t p f; groups that do not take part are empty.
    """
    process, kind, f, f_first, kind_last, kind_first, process_second, f_last, rest = groups
    return process or process_second, kind or kind_last or kind_first, f or f_first or f_last, rest


_EDN_START = re.compile(r"(?:[\s,]|;[^\n]*(?:\n|$)|#_\S*|#[\w./:-]+|\^:[\w.-]+|\^\{[^{}]*\}|[\[(])*\{")
_EDN_OPERATION = re.compile(r'[{\s,]:?"?(?:[\w.-]+/)?(?:type|process|f)"?\s')
_EDN_EMPTY = re.compile(r"(?:[\s,]|;[^\n]*\n)*[\[(][\s,]*[\])][\s,]*")
_EDN_MAP = re.compile(r"[\[(\s,]*\{\s*[:}]")
_JSON_START = re.compile(r"\s*\[?\s*\{\s*\"")
_JSON_OPERATION = re.compile(r'"[:\w./-]*?(?:type|process|f)"\s*:')
_JSON_HISTORY = re.compile(r'"history"\s*:\s*\[\s*[{\]]')
_OURS = re.compile(r'\s*\{\s*"kind"|[^\n]{0,4096}"kind"\s*:')
_WITH_KEY = re.compile(r":key\s")


def foreign_format(start: bytes) -> ForeignFormat | None:
    """The format of a file that begins with these bytes; None if it is none of these."""
    text = start.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    edn = _EDN_MAP.match(text) or (_EDN_START.match(text) and _EDN_OPERATION.search(text[:4096]))
    if _JSON_START.match(text) and not (edn and not _JSON_OPERATION.search(text[:4096])):
        if (_JSON_OPERATION.search(text[:4096]) or _JSON_HISTORY.search(text)) and not _OURS.match(text):
            return ForeignFormat.JEPSEN_JSON
        return None
    if edn or _EDN_EMPTY.fullmatch(text):
        with_key = _WITH_KEY.search(text[:4096]) and re.search(r":f\s+:(?:get|put|append)\b", text)
        return ForeignFormat.PORCUPINE_KV if with_key else ForeignFormat.JEPSEN_EDN
    lines = text.split("\n")
    if any(LOG_LINE.search(line) for line in lines if len(line) < 4096):
        return ForeignFormat.JEPSEN_LOG
    return None
