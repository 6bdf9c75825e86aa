"""Which model a history asks for: told from the operations in it."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from loghistory import CLIENT_KINDS, RunSource
from loghistory.importers import ForeignFormat
from loghistory.schema import Kind

from ..checks.codes import OF_LOGS
from ..engine.doubt import Vocabulary


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


LIST_VOCABULARY = Vocabulary(OF_LOGS)
"""What is known in a log that is told by lists: each operation is of one part."""
VOCABULARIES = {
    Model.LIST_APPEND: Vocabulary(frozenset({"txn"}), frozenset({"append", "r"}), frozenset({"txn"})),
    Model.KAFKA: Vocabulary(
        frozenset({"send", "poll", "txn", "assign", "subscribe", "crash", "debug-topic-partitions", "list-topics"}),
        frozenset({"send", "poll"}),
        frozenset({"send", "txn"}),
    ),
}
"""What is known in histories of models whose operations have parts; the last three of Kafka concern no record."""

_CLIENT = frozenset(map(str, CLIENT_KINDS))
_WITNESSES: tuple[tuple[Model, frozenset[str]], ...] = (
    (Model.KAFKA, frozenset({"send", "poll", "assign", "subscribe"})),
    (Model.KEY_VALUE, frozenset({"get", "put"})),
    (Model.CAS_REGISTER, frozenset({"write", "cas"})),
    (Model.QUEUE, frozenset({"enqueue", "dequeue", "drain"})),
    (Model.SET, frozenset({"add", "remove", "contains"})),
    (Model.LOG, frozenset({"append", "tail", "read_committed", "read_linearizable", "final_read"})),
)
"""The first model of which an operation occurs is the one."""


_ENOUGH = 1 << 13
_READS = ("read", "read_committed", "read_linearizable", "final_read")
_CLIENTS = pa.array([*map(str, CLIENT_KINDS), *map(str, (Kind.FAULT, Kind.HEAL, Kind.PHASE))])
_LIST = r"^(?:\[.*\]|null)$"
_INVOKE_OR_OK = pa.array([str(Kind.INVOKE), str(Kind.OK)])


def model_of(source: RunSource) -> Model:
    """The model for a history, by its first operations: those of the first `_ENOUGH` events.

    A history without any is a log, for then nothing but a node's own events can be judged. Raises `HistoryError`.
    """
    if _shows_nodes(source):
        return Model.LOG
    kinds: set[str] = set()
    names: set[str] = set()
    of_parts: set[str] = set()
    events = 0
    for batch in source.batches(["kind", "f", "txn"]):
        found = set(batch.column("kind").unique().to_pylist())
        if not found & _CLIENT:
            continue
        kinds |= found
        events += batch.num_rows
        mask = pc.equal(batch.column("kind").cast("string"), pa.scalar(str(Kind.INVOKE), pa.string()))
        parts = batch.column("txn").is_valid()
        names |= set(batch.column("f").filter(pc.and_not(mask, parts)).unique().to_pylist())
        of_parts |= set(batch.column("f").filter(pc.and_(mask, parts)).unique().to_pylist())
        if events >= _ENOUGH:
            break
    # Parts of operations are those of Kafka, or of transactions over lists, or of some that no model knows.
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


def _shows_nodes(source: RunSource) -> bool:
    """Whether the manifest counts events of the nodes themselves: it is a run of ours."""
    counts = source.manifest.counts if source.manifest is not None else {}
    return any(kind not in _CLIENT for kind in counts if kind not in (Kind.FAULT, Kind.HEAL, Kind.PHASE))


def are_lists(source: RunSource) -> bool:
    """Whether a history of clients alone is told by lists alone. Raises `HistoryError`.

    Of our own formats one append at least must have been acknowledged without an offset.
    """
    if _shows_nodes(source):
        return False
    counted = (Kind.INVOKE, Kind.OK) if isinstance(source.format, ForeignFormat) else (Kind.OK,)
    appends = 0
    for batch in source.batches(["kind", "f", "offset", "last_offset", "text"]):
        kind = batch.column("kind").cast(pa.string())
        if not pc.all(pc.is_in(kind, _CLIENTS)).as_py() or batch.column("last_offset").null_count < batch.num_rows:
            return False
        f, offset = batch.column("f").cast(pa.string()), batch.column("offset")
        reported = pc.is_in(kind, _INVOKE_OR_OK)
        appended = pc.and_(reported, pc.fill_null(pc.equal(f, "append"), False))
        read = pc.is_in(f, pa.array(_READS))
        known = pc.or_(pc.or_(appended, read), pc.fill_null(pc.equal(f, "tail"), False))
        if pc.any(pc.and_(reported, pc.invert(known))).as_py():
            return False
        if pc.any(pc.and_(appended, offset.is_valid())).as_py():
            return False
        asked = pc.and_(read, pc.equal(kind, str(Kind.INVOKE)))
        # Before the first append nothing told that reads are of a log: what they ask for and answer is text.
        text = batch.column("text")
        elsewhere = pc.if_else(offset.is_valid(), pc.not_equal(offset, 0), text.is_valid())
        if pc.any(pc.and_(asked, elsewhere)).as_py():
            return False
        answered = pc.and_(read, pc.and_(pc.equal(kind, str(Kind.OK)), text.is_valid()))
        if pc.any(pc.and_(answered, pc.invert(pc.match_substring_regex(text, _LIST)))).as_py():
            return False
        appends += pc.sum(pc.and_(appended, pc.is_in(kind, pa.array(map(str, counted))))).as_py() or 0
    return appends > 0
