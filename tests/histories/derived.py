"""Writes what follows from the vocabularies and is kept in files: the types of `loghistory.declared`, the parameters of
`Recorder.event`, the fields of the checker's `Columns`, and the tables of kinds, columns and words in
histories/loghistory/README.md.

    python tests/histories/derived.py

A test holds the files and the vocabularies together.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import loghistory
from loghistory.columns import expected
from loghistory.declared import COLUMNS, VOCABULARIES
from loghistory.vocabulary import Column, EventKind, Vocabulary

PACKAGE = Path(loghistory.__file__).parent
STUB = PACKAGE / "declared.pyi"
PAGE = PACKAGE / "README.md"
RECORDER = PACKAGE / "recorder.py"
CHECKER = PACKAGE.parents[1] / "checker" / "logwitness" / "checks" / "columns.py"
"""There if the package lies in a checkout."""
_WRITER = "written by tests/histories/derived.py"
_PLACES = {
    PAGE: (f"<!-- {_WRITER} -->\n", "<!-- end -->\n"),
    RECORDER: (f"    # {_WRITER}\n", "    # end\n"),
    CHECKER: (f"    # {_WRITER}\n", "    # end\n"),
}


def stub() -> str:
    """The types of `loghistory.declared`, for type checkers."""
    lines = [
        f"# {_WRITER}, from loghistory.vocabularies",
        "from collections.abc import Mapping",
        "from enum import StrEnum",
        "",
        "from .vocabulary import Column, EventKind, Vocabulary",
        "",
        "VOCABULARIES: tuple[Vocabulary, ...]",
        "KINDS: Mapping[str, EventKind]",
        "COLUMNS: tuple[Column, ...]",
        "",
        "class Kind(StrEnum):",
        *(f'    {kind.word.upper()} = "{kind.word}"' for each in VOCABULARIES for kind in each.kinds),
    ]
    return "\n".join(lines) + "\n"


def event_method() -> str:
    """`Recorder.event`: a parameter for each column, and their values in the order of the schema."""
    lines = [
        "    def event(",
        "        self,",
        "        kind: str,",
        "        *,",
        "        time: int,",
        *(f"        {column.name}: {_python(column)} | None = None,{_shadows(column)}" for column in _given()),
        "    ) -> int:",
        '        """Record one event and return its ``seq``: 0, 1, 2, ... in the order of the calls.',
        "",
        "        ``kind`` is a word of `loghistory.Kind`, ``time`` in nanoseconds; the others are the columns of",
        "        `loghistory.COLUMNS`. README.md says what each kind carries. An unknown kind is a `ValueError`, an",
        "        unknown column a `TypeError`.",
        "",
        "        One parameter for each column, so it is long; whoever has them in a dictionary calls `record`.",
        '        """',
        "        if kind not in _KINDS:",
        "            raise ValueError(f\"unknown kind {kind!r}; the kinds are {', '.join(Kind)}\")",
        "        events = self._collected.setdefault((kind, *_GIVEN), [])",
        "        seq = self._next",
        "        self._next = seq + 1",
        "        events += (",
        "            seq,",
        "            time,",
        *(f"            {column.name}," for column in _given()),
        "        )",
        "        if self._next >= self._full:",
        "            self._hand_over()",
        "        return seq",
        "",
        "",
    ]
    return "\n".join(lines)


def fields() -> str:
    """The fields of the checker's `Columns`; what is neither a number nor a word stands under ``value``."""
    of_count = "    records: Array  # column ``count``\n    nullable_count: Array  # column ``count``, with nulls\n"
    held = [column.name for column in COLUMNS if column.name not in {"log", "text"}]
    return "".join(of_count if name == "count" else f"    {name}: Array\n" for name in held)


def _given() -> list[Column]:
    return [column for column in COLUMNS if column.name not in {"seq", "time", "kind"}]


def _python(column: Column) -> str:
    return "str" if expected(column.type) == "a string" else "int"


def _shadows(column: Column) -> str:
    return "  # noqa: A002" if hasattr(builtins, column.name) else ""


def tables() -> str:
    """The tables of the page."""
    return "\n".join(line for vocabulary in VOCABULARIES for line in _section(vocabulary)).rstrip() + "\n"


def _section(vocabulary: Vocabulary) -> Iterator[str]:
    yield from (f"### {vocabulary.name}: {vocabulary.meaning}", "")
    if vocabulary.kinds:
        yield from ("| kind | meaning | must carry | may carry |", "|---|---|---|---|")
        yield from map(_kind, vocabulary.kinds)
        yield ""
    if vocabulary.columns:
        yield from ("| column | type | unit | meaning |", "|---|---|---|---|")
        for column in vocabulary.columns:
            always = "; in every event" if column.always else ""
            yield f"| `{column.name}` | {_type(column)} | {column.unit} | {column.meaning}{always} |"
        yield ""
    for words in vocabulary.words:
        where = f" of {_listed(words.kinds)}" if words.kinds else ""
        yield from (f"| `{words.column}`{where} | meaning |", "|---|---|")
        yield from (f"| `{word}` | {meaning} |" for word, meaning in words.meanings.items())
        yield ""


def _kind(kind: EventKind) -> str:
    besides = tuple(name for name in kind.requires if name not in kind.state)
    required = " ".join(part for part in ("*state*" if kind.state else "", _listed(besides)) if part)
    return f"| `{kind.word}` | {kind.meaning} | {required} | {_listed(kind.may_carry)} |"


def _listed(names: tuple[str, ...]) -> str:
    return " ".join(f"`{name}`" for name in names)


def _type(column: Column) -> str:
    return "word" if pa.types.is_dictionary(column.type) else str(column.type)


def renewed(path: Path) -> str:
    """The text of a file with the part that is written here, as it has to be."""
    text = path.read_text(encoding="utf-8")
    begin, end = _PLACES[path]
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path}: no place for what is written; restore its two marks")
    written = {PAGE: lambda: f"\n{tables()}\n", RECORDER: event_method, CHECKER: fields}[path]()
    return before + begin + written + end + after


def files() -> dict[Path, str]:
    """All files of this kind, and what they have to hold."""
    return {STUB: stub()} | {path: renewed(path) for path in _PLACES if path.is_file()}


if __name__ == "__main__":
    for file, content in files().items():
        file.write_text(content, encoding="utf-8")
