"""Words as numbers: the canonical code of every kind, operation and reason that a kernel compares.

Dictionary codes differ from batch to batch; they are mapped to these once per batch. The numbers are module constants
because compiled kernels freeze them.
"""

from __future__ import annotations

from loghistory.schema import Kind, Operation

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
(INVOKE, OBSERVE, OK, FAIL, INFO) = range(5)
(START, STOP, CRASH, POWER_LOSS, STORAGE_ERROR) = range(5, 10)
(TERM, VOTE, LEADER, ROLE) = range(10, 14)
(APPEND, FLUSH, TRUNCATE, COMMIT, VISIBLE, ACKED, COMPACT, TRIM) = range(14, 22)
(SEND, RECEIVE, FAULT, HEAL, PHASE) = range(22, 27)
MADE_BY_NODES = (APPEND, COMPACT, TRIM)
"""What puts entries into a log, or takes them out, without a client that is seen to ask for it."""
if [KINDS[i] for i in (INVOKE, START, TERM, APPEND, SEND, PHASE)] != [
    Kind.INVOKE,
    Kind.START,
    Kind.TERM,
    Kind.APPEND,
    Kind.SEND,
    Kind.PHASE,
] or len(KINDS) != PHASE + 1:  # pragma: no cover
    raise ImportError("codes.py does not match loghistory.schema.Kind")

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
