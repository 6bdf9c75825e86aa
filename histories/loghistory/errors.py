"""The one error of the history, and how foreign text is quoted in it.

Whatever is wrong with a file or with an event, a person gets one line: which file, where in it, which field, what is
wrong, and what would be right. The command line prints it and ends with exit status 2.
"""

from __future__ import annotations

import os

_QUOTED = 60


class HistoryError(Exception):
    """A history cannot be read, written or recorded; ``str()`` is one line that says where and what to do.

    ``file`` is the file (or ``memory`` for a recorder without one), ``line`` the line of a text file or the event of a
    Parquet file, both counted from 1 (``place`` says which, None: the whole file), ``field`` the column or manifest
    field (None: not one field), ``problem`` what is wrong and ``remedy`` what would be right, each on one line.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        line: int | None,
        field: str | None,
        problem: str,
        remedy: str,
        *,
        place: str = "line",
    ) -> None:
        self.file = os.fspath(file)
        self.line = line
        self.field = field
        self.problem = printable(problem)
        self.remedy = printable(remedy)
        self.place = place
        super().__init__(file, line, field, problem, remedy)

    def __str__(self) -> str:
        where = printable(self.file)
        if self.line is not None:
            where += f", {self.place} {self.line}"
        if self.field is not None:
            where += f", field {printable(self.field)}"
        return f"{where}: {self.problem}: {self.remedy}"


def printable(text: str) -> str:
    """The text on one line: control characters and lone surrogates appear as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quote(value: object) -> str:
    """A foreign value for a message: on one line and cut to a length that a person reads."""
    text = printable(value) if isinstance(value, str) else printable(repr(value))
    if len(text) > _QUOTED:
        text = text[: _QUOTED - 1] + "…"
    return f'"{text}"' if isinstance(value, str) else text
