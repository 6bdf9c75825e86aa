"""Which model a history asks for: told from the operations in it."""

from __future__ import annotations

from enum import StrEnum

import pyarrow.compute as pc

from loghistory import CLIENT_KINDS, RunSource
from loghistory.schema import Kind

from .lists import are_lists


class Model(StrEnum):
    """What a history is about; the value is what a command line calls it."""

    LOG = "log"
    LIST_APPEND = "list-append"
    """Logs whose appends tell no offsets and whose reads answer everything, one by one or in transactions."""
    REGISTER = "register"
    CAS_REGISTER = "cas-register"
    KEY_VALUE = "kv"
    SET = "set"
    QUEUE = "queue"
    KAFKA = "kafka"
    UNKNOWN = "unknown"
    """Operations that no model knows, such as transactions over registers."""


_CLIENT = frozenset(map(str, CLIENT_KINDS))
_WITNESSES: tuple[tuple[Model, frozenset[str]], ...] = (
    (Model.KAFKA, frozenset({"send", "poll", "assign", "subscribe"})),
    (Model.KEY_VALUE, frozenset({"get", "put"})),
    (Model.CAS_REGISTER, frozenset({"write", "cas"})),
    (Model.QUEUE, frozenset({"enqueue", "dequeue", "drain"})),
    (Model.SET, frozenset({"add", "remove", "contains"})),
    (Model.LOG, frozenset({"append", "tail", "read_committed", "final_read"})),
)
"""The first model of which an operation occurs is the one."""


def model_of(source: RunSource) -> Model:
    """The model for a history, by its first events (those of a batch) that have operations of clients.

    A history without any is a log, for then nothing but a node's own events can be judged. Raises `HistoryError`.
    """
    counts = source.manifest.counts if source.manifest is not None else {}
    if any(kind not in _CLIENT for kind in counts if kind not in (Kind.FAULT, Kind.HEAL, Kind.PHASE)):
        return Model.LOG  # a node's own events: a run of ours
    for batch in source.batches(["kind", "f", "txn"]):
        kinds = set(batch.column("kind").unique().to_pylist())
        if not kinds & _CLIENT:
            continue
        mask = pc.equal(batch.column("kind").cast("string"), str(Kind.INVOKE))
        parts = batch.column("txn").is_valid()
        names = set(batch.column("f").filter(pc.and_not(mask, parts)).unique().to_pylist())
        # Parts of operations are those of Kafka, or of transactions that no model knows.
        of_parts = set(batch.column("f").filter(pc.and_(mask, parts)).unique().to_pylist())
        if "append" in of_parts and of_parts <= {"append", "r"}:
            return Model.LIST_APPEND
        names |= of_parts & {"send", "poll"}
        if {"get", "put"} & names and "cas" in names:
            return Model.CAS_REGISTER  # one a key
        for model, words in _WITNESSES:
            if names & words:
                return Model.LIST_APPEND if model is Model.LOG and are_lists(source) else model
        if Kind.OBSERVE in kinds or not names:
            return Model.LOG
        return Model.REGISTER if names == {"read"} else Model.UNKNOWN
    return Model.LOG
