"""What a vocabulary declares: kinds of events, the columns they carry, and the words that a column may hold.

A vocabulary is a table, and a module of `loghistory.vocabularies`; everything else follows from all of them together
(`loghistory.declared`). Source: architecture, "The history".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass

import pyarrow as pa

WORD = pa.dictionary(pa.int32(), pa.string())
"""The type of a column that holds few different words."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table of all events; several vocabularies may use it, one declares it."""

    number: int
    """Its place in the table, from 1; given once and never to another column. A new column takes the next one."""
    name: str
    type: pa.DataType
    """Arrow type: an integer of 8, 32 or 64 bits, a string, or `WORD`."""
    meaning: str
    unit: str = ""
    """What an integer counts: ``offset``, ``nanoseconds``, ``bytes``, ``records``; empty for names and numbers."""
    always: bool = False
    """Every event carries it, of whatever kind."""
    least: int = 0
    """The smallest integer that it may hold."""
    most: int | None = None
    """The largest one; None: that of its type."""


@dataclass(frozen=True, slots=True)
class EventKind:
    """One kind of event: its word, its meaning, and which columns it carries."""

    word: str
    """Its name, as column ``kind`` holds it."""
    meaning: str
    requires: tuple[str, ...] = ()
    """Columns that such an event must carry besides those of every event; a reader refuses it otherwise."""
    _: KW_ONLY
    state: tuple[str, ...] = ()
    """Further ones that it must carry: the node's state after the event."""
    state_since: int = 1
    """The schema version from which on it must carry them; events of earlier files may lack them."""
    may_carry: tuple[str, ...] = ()
    """Columns that say more about it where they are known."""
    entries: bool = False
    """Its offsets are those of one batch of entries: none below 0, and a limited number of them."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words of one column that have a fixed meaning in events of some kinds; other words are allowed beside them."""

    column: str
    kinds: tuple[str, ...]
    meanings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A part of the history that belongs together."""

    name: str
    meaning: str
    kinds: tuple[EventKind, ...] = ()
    columns: tuple[Column, ...] = ()
    """The columns that it declares; its kinds may use those of all vocabularies."""
    words: tuple[Words, ...] = ()


def assembled_kinds(vocabularies: Iterable[Vocabulary]) -> dict[str, EventKind]:
    """The kinds of all vocabularies by word, in the order declared; a `ValueError` for one that comes twice."""
    found: dict[str, EventKind] = {}
    for vocabulary in vocabularies:
        for kind in vocabulary.kinds:
            if kind.word in found:
                raise ValueError(f"vocabulary {vocabulary.name}: kind {kind.word} is declared twice; take another word")
            found[kind.word] = kind
    return found


def assembled_columns(vocabularies: Iterable[Vocabulary]) -> tuple[Column, ...]:
    """The columns of all vocabularies by number.

    A `ValueError` if two have the same name or number, if a number is left out, or if a kind or the words of a column
    speak of a column that none declares.
    """
    given = tuple(vocabularies)
    columns = sorted((column for each in given for column in each.columns), key=lambda column: column.number)
    names = {column.name for column in columns}
    if len(names) < len(columns):
        twice = sorted(name for name in names if sum(column.name == name for column in columns) > 1)
        raise ValueError(f"column {', '.join(twice)} is declared twice; one vocabulary declares it, others use it")
    for expected, column in enumerate(columns, 1):
        if column.number != expected:
            raise ValueError(f"column {column.name} has number {column.number} where {expected} comes next")
    for vocabulary in given:
        for kind in vocabulary.kinds:
            unknown = sorted({*kind.requires, *kind.state, *kind.may_carry} - names)
            if unknown:
                raise ValueError(f"vocabulary {vocabulary.name}: kind {kind.word} carries unknown columns {unknown}")
        for words in vocabulary.words:
            if words.column not in names:
                raise ValueError(f"vocabulary {vocabulary.name}: words of the unknown column {words.column}")
    return tuple(columns)
