"""The history schema: one wide, nullable table of events, assembled from what the vocabularies declare.

A *run* is a sequence of events in one causal order. An event is one row, so that a million events are some thirty
columns and no Python objects. Rows are flat: an operation that sends or returns several records is several rows with
the same ``op``. Which kinds and columns there are is said by the modules of `loghistory.vocabularies`. Events of nodes
are optional: a run with client operations alone is a full citizen.

Offsets are inclusive and those of entries count from 0. A batch is one ``value`` that fills the offsets
``offset..last_offset`` (``last_offset`` left out means a batch of one offset); value ``v`` at offset ``o``
therefore means the pair ``(v, o - offset)``. Values are 64-bit integers that name what was written; where a
foreign history has richer values, ``text`` holds them as compact JSON and ``value`` is null.

Source: architecture, "The history".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from .declared import COLUMNS, KINDS, VOCABULARIES, Kind
from .vocabularies.clients import UNKNOWN_OFFSET, Acks, Operation
from .vocabulary import Column

VERSION = 2
"""The version of the events that are recorded; `loghistory.versions` says how the earlier ones are read."""

VERSION_KEY = "loghistory.version"
"""Where the metadata of an Arrow schema states the version of the events."""


def schema_in(version: int) -> pa.Schema:
    """The schema of a table whose events were recorded in a version."""
    fields = [pa.field(column.name, column.type, nullable=not column.always) for column in COLUMNS]
    return pa.schema(fields, metadata={VERSION_KEY: str(version)})


def version_in(events: object) -> int:
    """The version in which events were recorded, if they are a table that states one that is known; else `VERSION`."""
    stated = (events.schema.metadata or {}).get(VERSION_KEY.encode(), b"") if isinstance(events, pa.Table) else b""
    return next((version for version in range(1, VERSION) if str(version).encode() == stated), VERSION)


SCHEMA = schema_in(VERSION)

ALWAYS = tuple(column.name for column in COLUMNS if column.always)
"""Columns that every event carries."""


def required_in(version: int) -> Mapping[Kind, tuple[str, ...]]:
    """Columns that an event of a kind had to carry in a version, besides those of every event."""
    return {
        Kind(word): tuple(dict.fromkeys((*(kind.state if version >= kind.state_since else ()), *kind.requires)))
        for word, kind in KINDS.items()
    }


REQUIRED = required_in(VERSION)
"""Columns that an event of a kind must carry besides those of every event; a reader refuses it otherwise."""

CLIENT_KINDS = frozenset(Kind(kind.word) for each in VOCABULARIES if each.name == "clients" for kind in each.kinds)
"""Operations of clients."""

END_KINDS = frozenset(
    Kind(kind.word) for each in VOCABULARIES if each.name == "nodes" for kind in each.kinds if not kind.state
)
"""How the life of a node ends."""

STATE_KINDS = frozenset(Kind(word) for word, kind in KINDS.items() if kind.state)
"""Kinds whose events carry the state of a node's log."""

ENTRY_KINDS = frozenset(Kind(word) for word, kind in KINDS.items() if kind.entries)
"""Kinds whose offsets are those of one batch of entries."""


def columns_of(kind: Kind) -> tuple[str, ...]:
    """What an event of a kind may carry besides the columns of every event: its own columns, then the node's state."""
    declared = KINDS[kind]
    carried = (*declared.requires, *declared.may_carry, *declared.state)
    state = (*declared.state, "visible") if declared.state else ()
    return tuple(sorted(dict.fromkeys(carried), key=lambda name: state.index(name) if name in state else -1))


MAX_BATCH_OFFSETS = 1 << 20
"""A batch wider than this is refused by the readers: offsets are expanded when they are compared."""


def words_of(column: str, kinds: Collection[str] | None = None) -> tuple[str, ...]:
    """The words that vocabularies give a meaning to in a column, in the order declared, each once.

    ``kinds`` None: in events of any kind, else those for events of at least one of these kinds.
    """
    found = (
        word
        for vocabulary in VOCABULARIES
        for words in vocabulary.words
        if words.column == column and (kinds is None or not words.kinds or set(kinds) & set(words.kinds))
        for word in words.meanings
    )
    return tuple(dict.fromkeys(map(str, found)))


__all__ = [
    "ALWAYS",
    "CLIENT_KINDS",
    "COLUMNS",
    "END_KINDS",
    "ENTRY_KINDS",
    "MAX_BATCH_OFFSETS",
    "REQUIRED",
    "SCHEMA",
    "STATE_KINDS",
    "UNKNOWN_OFFSET",
    "VERSION",
    "VERSION_KEY",
    "Acks",
    "Column",
    "Kind",
    "Operation",
    "columns_of",
    "required_in",
    "schema_in",
    "version_in",
    "words_of",
]
