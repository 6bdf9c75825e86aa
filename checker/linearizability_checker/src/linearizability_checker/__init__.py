"""Porcupine, the linearizability checker, from Python.

    from linearizability_checker import Operation, REGISTER, UNKNOWN, check_operations

    result = check_operations(REGISTER, [
        Operation(process=0, call=0, return_=100, input=("write", 1), output=None),
        Operation(process=1, call=25, return_=75, input=("read",), output=1),
        Operation(process=2, call=30, return_=None, input=("write", 2), output=UNKNOWN),
    ])
    result.verdict     # "ok", "illegal" or "unknown"; bool(result) is True for "ok" alone

An operation is an interval of time, closed at both ends: an operation that returns at t and one that is called at
t are concurrent, and so are all that share a time stamp. One of unknown outcome stays open to the end: it may have
taken effect at any time after its call, or never. One that failed certainly had no effect.

| model | input | output |
|---|---|---|
| LOG | ("append", value) | its offset, from 0 on; None: acknowledged without an offset |
| | ("read", offset) | the value there; None: there is none yet |
| | ("tail",) | number of entries |
| REGISTER | ("read",) | the value |
| | ("write", value) | None |
| CAS_REGISTER | as REGISTER, and ("cas", old, new) | whether the value was old and was replaced |
| KEY_VALUE | ("get", key) | the value |
| | ("put", key, value), ("append", key, str) | None |
| SET | ("add", value), ("remove", value) | whether that changed the set; None: acknowledged |
| | ("contains", value) | whether it is there |
| | ("read",) | all elements: a list, tuple, set or frozenset |
| QUEUE | ("enqueue", value) | None |
| | ("dequeue",) | the oldest value; None: the queue is empty |

Values and keys are None (where it is no answer of its own), bool, int of 64 bits or str, and 1, True and "1" are
three values. ``REGISTER.starting(0)`` is a register (or key-value store) whose initial value is 0 and not None.
Every output may be UNKNOWN or FAILED instead.

The search itself runs in a worker process, written in Go around the real Porcupine; it comes with the wheel. Without
it there is a ``WorkerMissing`` that says so.

Porcupine: Athalye 2017, https://github.com/anishathalye/porcupine; the algorithm is that of Wing & Gong 1993 and Lowe
2017. The question is NP-complete, so give it limits: exceeding one is the verdict ``unknown``, never ``ok``.
"""

from linearizability_checker.checker import Checker, check_events, check_operations
from linearizability_checker.history import (
    CAS_REGISTER,
    FAILED,
    KEY_VALUE,
    LOG,
    MODELS,
    QUEUE,
    REGISTER,
    SET,
    UNKNOWN,
    Call,
    Model,
    Operation,
    Outcome,
    Return,
)
from linearizability_checker.process import WorkerMissing
from linearizability_checker.result import Partition, Reason, Result, Verdict

__all__ = [
    "CAS_REGISTER",
    "FAILED",
    "KEY_VALUE",
    "LOG",
    "MODELS",
    "QUEUE",
    "REGISTER",
    "SET",
    "UNKNOWN",
    "Call",
    "Checker",
    "Model",
    "Operation",
    "Outcome",
    "Partition",
    "Reason",
    "Result",
    "Return",
    "Verdict",
    "WorkerMissing",
    "check_events",
    "check_operations",
]
