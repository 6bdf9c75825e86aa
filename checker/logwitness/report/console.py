"""Where reports for people go: a terminal folds them to its width, elsewhere a record stays on one line, for grep.

What a history contains is foreign text: control characters appear as escapes, for a terminal would obey them. Callers
escape it with `loghistory.errors.printable`; colours are rich's business, which knows NO_COLOR and FORCE_COLOR.
"""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType
from rich.text import Text

_UNFOLDED = 1 << 30
"""Columns of an output that has no width of its own."""
_HANGING = 2
"""Columns by which the continuation of a folded line stands further in."""

Part = str | tuple[str, str] | Text
"""Some text of a line: plain, with a style, or made by rich."""


class Output:
    """Standard output, a line or a table at a time, without blanks at the end of a line."""

    def __init__(self) -> None:
        self._folds = sys.stdout is not None and sys.stdout.isatty()
        self._console = Console(highlight=False, width=None if self._folds else _UNFOLDED)

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Print one line, ``indent`` columns in; on a terminal it is folded between words."""
        text = Text.assemble(*parts)
        lines = [text]
        if self._folds:
            lines = list(text.wrap(self._console, max(self._console.width - indent - _HANGING, 1)))
        for place, each in enumerate(lines):
            self._print(each, indent + (_HANGING if place else 0))

    def copied(self, text: str, indent: int = 0) -> None:
        """Print one line that is never folded, such as a command that a person copies."""
        self._print(Text(text), indent)

    def block(self, renderable: RenderableType, indent: int = 0) -> None:
        """Print a table of rich, ``indent`` columns in."""
        options = self._console.options.update(width=max(self._console.width - indent, 1))
        for segments in self._console.render_lines(renderable, options, pad=False):
            self._print(Text.assemble(*((each.text, each.style or "") for each in segments)), indent)

    def _print(self, text: Text, indent: int) -> None:
        text.rstrip()
        self._console.print(Text.assemble(" " * indent if text.plain else "", text), soft_wrap=True)
