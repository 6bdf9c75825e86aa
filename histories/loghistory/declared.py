"""All vocabularies together: the kinds of events and the columns of their table.

Type checkers read ``declared.pyi``, which `tests/histories/derived.py` writes from the same declarations.
"""

from __future__ import annotations

from enum import StrEnum

from .vocabularies import all_vocabularies
from .vocabulary import assembled_columns, assembled_kinds

VOCABULARIES = all_vocabularies()
"""In the order of their modules' names, on which nothing depends."""

KINDS = assembled_kinds(VOCABULARIES)
"""The declaration of every kind, by its word."""

COLUMNS = assembled_columns(VOCABULARIES)
"""The columns of the one table of all events, in its order."""

Kind = StrEnum("Kind", {word.upper(): word for word in KINDS}, module=__name__)
"""What an event says: the word of each kind, under its name in capitals."""
