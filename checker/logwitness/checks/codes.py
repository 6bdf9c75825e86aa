"""Words as numbers: the canonical code of every kind, operation and reason that a kernel compares.

Dictionary codes differ from batch to batch; they are mapped to these once per batch. The numbers are module constants
because compiled kernels freeze them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from loghistory.schema import CLIENT_KINDS, REQUIRED, Kind, Operation

NULL = -(1 << 62)
"""Stands for null in a 64-bit column."""

NO_NODE = -1
"""Stands for null in ``node`` and ``peer``."""

NO_ACKS = 127
"""Stands for null in ``acks``."""

OTHER = -1
"""The code of a word that no check compares."""

MAX_OFFSET = 1 << 61
"""Offsets from here on are refused, so that sums of a few never overflow."""

KINDS = tuple(Kind)
"""All kinds; the code of a kind is its place here. Nothing may depend on the order: it is that of the declarations."""

_CODES = {kind: code for code, kind in enumerate(KINDS)}


def code(kind: Kind) -> int:
    """The code of a kind."""
    return _CODES[kind]


def codes(kinds: Iterable[Kind]) -> tuple[int, ...]:
    """The codes of some kinds, for a test of membership in a column (`among`)."""
    return tuple(sorted(map(code, kinds)))


def lookup(kinds: Iterable[Kind]) -> npt.NDArray[np.bool_]:
    """Whether a kind is one of these, by its code; the last place answers for `OTHER`.

    A loop that is compiled tests membership so in a nanosecond, whatever the codes are.
    """
    wanted = frozenset(kinds)
    table = np.array([*(kind in wanted for kind in KINDS), False])
    table.flags.writeable = False
    return table


def among(column: npt.NDArray[Any], wanted: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Which elements of a column of codes are among the wanted ones; several times faster than `numpy.isin`."""
    found: npt.NDArray[np.bool_] = column == wanted[0]
    for each in wanted[1:]:
        found |= column == each
    return found


INVOKE, OBSERVE, OK, FAIL, INFO = map(code, (Kind.INVOKE, Kind.OBSERVE, Kind.OK, Kind.FAIL, Kind.INFO))
START, STOP, CRASH = map(code, (Kind.START, Kind.STOP, Kind.CRASH))
POWER_LOSS, STORAGE_ERROR = map(code, (Kind.POWER_LOSS, Kind.STORAGE_ERROR))
TERM, VOTE, LEADER, ROLE = map(code, (Kind.TERM, Kind.VOTE, Kind.LEADER, Kind.ROLE))
APPEND, FLUSH, TRUNCATE, COMMIT = map(code, (Kind.APPEND, Kind.FLUSH, Kind.TRUNCATE, Kind.COMMIT))
VISIBLE, ACKED, COMPACT, TRIM = map(code, (Kind.VISIBLE, Kind.ACKED, Kind.COMPACT, Kind.TRIM))
FAULT, HEAL, PHASE = map(code, (Kind.FAULT, Kind.HEAL, Kind.PHASE))

OF_CLIENTS = codes(CLIENT_KINDS)
"""Operations of clients: opened, observed and closed."""

IS_OF_CLIENT = lookup(CLIENT_KINDS)
"""The same, by code."""

STATE_KINDS = frozenset({kind for kind in Kind if {"term", "dirty"} <= set(REQUIRED[kind])} | {Kind.COMPACT, Kind.TRIM})
"""Kinds whose events carry the state of a node's log."""

CARRIES_STATE = lookup(STATE_KINDS)
"""The same, by code."""

MADE_BY_NODES = (APPEND, COMPACT, TRIM)
"""What puts entries into a log, or takes them out, without a client that is seen to ask for it."""

OPERATIONS = {
    Operation.APPEND: 0,
    Operation.READ: 1,
    Operation.READ_COMMITTED: 2,
    Operation.TAIL: 3,
    Operation.FINAL_READ: 4,
}
F_APPEND, F_READ, F_READ_COMMITTED, F_TAIL, F_FINAL_READ = range(5)
READS = (F_READ, F_READ_COMMITTED, F_FINAL_READ)

FAULT_WIPE = 10
"""Column ``f`` of a fault: the node's disk was emptied."""
FAULT_POWER = 11
"""Column ``f`` of a fault: the surroundings cut the power of something. A black-box run has no power_loss events."""
FAULT_CRASH = 12
FAULT_STORAGE = 13

_WORDS = {str(name): code for name, code in OPERATIONS.items()} | {
    "wipe": FAULT_WIPE,
    "power_loss": FAULT_POWER,
    "crash": FAULT_CRASH,
    "storage_error": FAULT_STORAGE,
}
_FIRST_FREE = 16
_MOST_WORDS = 1 << 14


class Words:
    """Codes of column ``f``: the known ones, and one for every other word that occurs, up to a limit."""

    def __init__(self) -> None:
        self._codes = dict(_WORDS)
        self._names = {code: name for name, code in _WORDS.items()}

    def code(self, word: str) -> int:
        """The word's code; `OTHER` when there are too many."""
        code = self._codes.get(word)
        if code is None:
            code = _FIRST_FREE + len(self._codes) - len(_WORDS)
            if code >= _MOST_WORDS:
                return OTHER
            self._codes[word] = code
            self._names[code] = word
        return code

    def name(self, code: int) -> str:
        """The word of a code."""
        return self._names[code]


SUCCESS, TRUNCATED = range(2)
REASONS = {"success": SUCCESS, "truncated": TRUNCATED}

ROLE_LEADER, ROLE_CANDIDATE = 0, 2
ROLES = {"leader": ROLE_LEADER, "follower": 1, "candidate": ROLE_CANDIDATE, "learner": 3}

ACKS_ALL, ACKS_LEADER, ACKS_NONE = -1, 1, 0
ACKS_NAMES = {ACKS_ALL: "all", ACKS_LEADER: "1", ACKS_NONE: "0"}
