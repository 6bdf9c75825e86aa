# written by tests/histories/derived.py, from loghistory.vocabularies
from collections.abc import Mapping
from enum import StrEnum

from .vocabulary import Column, EventKind, Vocabulary

VOCABULARIES: tuple[Vocabulary, ...]
KINDS: Mapping[str, EventKind]
COLUMNS: tuple[Column, ...]

class Kind(StrEnum):
    INVOKE = "invoke"
    OBSERVE = "observe"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"
    TERM = "term"
    VOTE = "vote"
    LEADER = "leader"
    TRANSFER = "transfer"
    ROLE = "role"
    APPEND = "append"
    FLUSH = "flush"
    TRUNCATE = "truncate"
    COMMIT = "commit"
    VISIBLE = "visible"
    ACKED = "acked"
    COMPACT = "compact"
    TRIM = "trim"
    ENQUEUE = "enqueue"
    HAND_OVER = "hand_over"
    SEND = "send"
    RECEIVE = "receive"
    START = "start"
    STOP = "stop"
    CRASH = "crash"
    POWER_LOSS = "power_loss"
    STORAGE_ERROR = "storage_error"
    FAULT = "fault"
    HEAL = "heal"
    PHASE = "phase"
