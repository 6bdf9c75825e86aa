"""Words as numbers: the canonical code of every kind, operation and reason that a kernel compares.

Dictionary codes differ from batch to batch; they are mapped to these once per batch. The numbers are module constants
because compiled kernels freeze them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loghistory.schema import CLIENT_KINDS, END_KINDS, STATE_KINDS, Acks, Kind, Operation, words_of
from loghistory.validity import LARGEST_OFFSET
from loghistory.vocabularies.clients import Refusal
from loghistory.vocabularies.elections import Role
from loghistory.vocabularies.log import Resolution
from loghistory.vocabularies.nodes import StorageFailure
from loghistory.vocabularies.surroundings import FaultWord, Phase

NULL = -(1 << 62)
"""Stands for null in a 64-bit column."""

NO_NODE = -1
"""Stands for null in ``node`` and ``peer``, and in the other 32-bit columns."""

NO_ACKS = 127
"""Stands for null in ``acks``."""

OTHER = -1
"""The code of a word that no check compares."""

MAX_OFFSET = LARGEST_OFFSET + 1
"""Offsets from here on are refused, so that sums of a few never overflow."""

KINDS = tuple(Kind)
"""All kinds; the code of a kind is its place here. Nothing may depend on the order: it is that of the declarations."""

_CODES = {kind: code for code, kind in enumerate(KINDS)}


def code(kind: Kind) -> int:
    """The code of a kind in the columns that kernels read: its place in `KINDS`."""
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
    if column is _census.kinds:
        wanted = tuple(each for each in wanted if _census.counts[each])
    found: npt.NDArray[np.bool_] | None = None
    for first, last in _runs(wanted):
        if first == last:
            those = column == first
        else:
            # What is below the first one wraps around.
            unsigned = column.view(f"u{column.itemsize}")
            those = unsigned - unsigned.dtype.type(first) <= last - first
        found = those if found is None else np.logical_or(found, those, out=found)
    return np.zeros(len(column), np.bool_) if found is None else found


class _Census(threading.local):
    """How often each kind occurs in the column of kinds that was asked for last: all folds ask for the same one."""

    kinds: npt.NDArray[Any] | None = None
    counts: Sequence[int] = ()


_census = _Census()


def census(kinds: npt.NDArray[Any]) -> Sequence[int]:
    """How often each kind occurs in a column, by code; the column is not to be written to from then on."""
    if _census.kinds is not kinds:
        _census.counts = np.bincount(kinds, minlength=len(KINDS)).tolist()
        _census.kinds = kinds
    return _census.counts


def how_many(kinds: npt.NDArray[Any], *wanted: int) -> int:
    """How many events there are of these kinds."""
    counts = census(kinds)
    return sum(counts[each] for each in wanted)


@functools.cache
def _runs(wanted: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Neighbours among some codes, from the first to the last of each run."""
    firsts = [each for place, each in enumerate(wanted) if not place or wanted[place - 1] != each - 1]
    lasts = [each for place, each in enumerate(wanted, 1) if place == len(wanted) or wanted[place] != each + 1]
    return tuple(zip(firsts, lasts, strict=True))


INVOKE, OBSERVE, OK, FAIL, INFO = map(code, (Kind.INVOKE, Kind.OBSERVE, Kind.OK, Kind.FAIL, Kind.INFO))
START, STOP, CRASH = map(code, (Kind.START, Kind.STOP, Kind.CRASH))
POWER_LOSS, STORAGE_ERROR = map(code, (Kind.POWER_LOSS, Kind.STORAGE_ERROR))
ENDS = codes(END_KINDS)
"""How the process of a node ends."""
TERM, VOTE, LEADER, ROLE = map(code, (Kind.TERM, Kind.VOTE, Kind.LEADER, Kind.ROLE))
ENQUEUE, HAND_OVER = map(code, (Kind.ENQUEUE, Kind.HAND_OVER))
WAIT, WITHDRAW, READ_BACK, PART = map(code, (Kind.WAIT, Kind.WITHDRAW, Kind.READ_BACK, Kind.PART))
APPEND, FLUSH, TRUNCATE, COMMIT = map(code, (Kind.APPEND, Kind.FLUSH, Kind.TRUNCATE, Kind.COMMIT))
TRANSFER = code(Kind.TRANSFER)
CONFIGURATION, COUNTED = map(code, (Kind.CONFIGURATION, Kind.COUNTED))
APPLY, SNAPSHOT = map(code, (Kind.APPLY, Kind.SNAPSHOT))
VISIBLE, ACKED, COMPACT, TRIM = map(code, (Kind.VISIBLE, Kind.ACKED, Kind.COMPACT, Kind.TRIM))
GAP = code(Kind.GAP)
FAULT, HEAL, PHASE = map(code, (Kind.FAULT, Kind.HEAL, Kind.PHASE))
SEND, RECEIVE = map(code, (Kind.SEND, Kind.RECEIVE))

OF_CLIENTS = codes(CLIENT_KINDS)
"""Operations of clients: opened, observed and closed."""

IS_OF_CLIENT = lookup(CLIENT_KINDS)
"""The same, by code."""

CARRIES_STATE = lookup(STATE_KINDS)
"""Whether events of a kind carry the state of a node's log, by code."""

MADE_BY_NODES = (APPEND, COMPACT, TRIM)
"""What puts entries into a log, or takes them out, without a client that is seen to ask for it."""

F_WORDS = {word: code for code, word in enumerate(dict.fromkeys((*words_of("f", [Kind.FAULT]), *words_of("f"))), 1)}
"""The words of column ``f`` that a vocabulary declares. Faults come first: the loss account has room for a few dozen
codes, and 0 means no fault there."""

F_APPEND, F_TAIL = F_WORDS[Operation.APPEND], F_WORDS[Operation.TAIL]
F_READ, F_READ_COMMITTED = F_WORDS[Operation.READ], F_WORDS[Operation.READ_COMMITTED]
F_READ_LINEARIZABLE = F_WORDS[Operation.READ_LINEARIZABLE]
F_FINAL_READ = F_WORDS[Operation.FINAL_READ]
"""A read of everything, and the phase of such reads."""
F_HEAL = F_WORDS[Phase.HEAL]
"""The phase in which all faults end."""
READS = (F_READ, F_READ_COMMITTED, F_READ_LINEARIZABLE, F_FINAL_READ)
OF_LOGS = frozenset(
    str(each)
    for each in (
        Operation.APPEND,
        Operation.READ,
        Operation.READ_COMMITTED,
        Operation.READ_LINEARIZABLE,
        Operation.TAIL,
        Operation.FINAL_READ,
    )
)
"""What clients do with a log, as words."""


def word_code(word: str) -> int:
    """The code of a word of column ``f`` that a vocabulary declares; KeyError if none does."""
    return F_WORDS[word]


FAULT_WIPE = F_WORDS[FaultWord.WIPE]
"""Column ``f`` of a fault: the node's disk was emptied."""
FAULT_POWER = F_WORDS[FaultWord.POWER_LOSS]
"""Column ``f`` of a fault: the surroundings cut the power of something. A black-box run has no power_loss events."""
FAULT_POWER_MIDWAY = F_WORDS[FaultWord.POWER_LOSS_MIDWAY]
FAULT_TRIM = F_WORDS[FaultWord.TRIM]
FAULT_COMPACT = F_WORDS[FaultWord.COMPACT]
FAULT_CRASH = F_WORDS[FaultWord.CRASH]
FAULT_STORAGE = F_WORDS[FaultWord.STORAGE_ERROR]
FAULT_FSYNC = F_WORDS[FaultWord.FSYNC_ERROR]
FAULT_OPEN = F_WORDS[FaultWord.OPEN_ERROR]
FAULT_FULL = F_WORDS[FaultWord.DISK_FULL]

REASONS = {word: code for code, word in enumerate(words_of("reason"))}
SUCCESS, TRUNCATED = REASONS[Resolution.SUCCESS], REASONS[Resolution.TRUNCATED]
DISK_FULL = REASONS[StorageFailure.DISK_FULL]
"""Why a disk failed that has lost nothing."""
REFUSALS = (REASONS[Refusal.NOT_LEADER], REASONS[Refusal.TERM_MISMATCH])
"""A node said so itself."""

RECORDS = {word: code for code, word in enumerate(words_of("record"))}
"""What lies at an LSN, column ``record``."""

ROLES = {word: code for code, word in enumerate(words_of("role"))}
ROLE_LEADER, ROLE_FOLLOWER = ROLES[Role.LEADER], ROLES[Role.FOLLOWER]
ROLE_CANDIDATE, ROLE_LEARNER = ROLES[Role.CANDIDATE], ROLES[Role.LEARNER]

ACKS_ALL, ACKS_LEADER, ACKS_NONE = Acks.ALL, Acks.LEADER, Acks.NONE
ACKS_NAMES = {ACKS_ALL: "all", ACKS_LEADER: "1", ACKS_NONE: "0"}

FROZEN = repr((tuple(map(str, KINDS)), F_WORDS, REASONS, ROLES, RECORDS))
"""All codes that follow from the vocabularies: compiled loops freeze them."""
