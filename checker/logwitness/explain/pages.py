"""The rules pages (``docs/rules``): their anchors, the text beneath each, and citations of them.

A *citation* is ``page#anchor``, for example ``raft.md#follower-commit``. An anchor is a heading, or stands as
``<a id="follower-commit"></a>`` at the beginning of an item, a paragraph, a row of a table, or a line within an item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path

from loghistory import HistoryError

DOCUMENTS = "documents.md"
CITATION = re.compile(r"\b([a-z][a-z-]*\.md)#([a-z0-9][a-z0-9-]*)")
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_HEADING = re.compile(r"(#+) (.*)")
_BEGINS_NOT_BUILT = re.compile(r"(\(L\) |\*\*\d+\*\* )?\*Not built yet")
_ITEM = re.compile(r"( *)(?:[-*]|\d+\.) ")
_LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
_PLACE = re.compile(r"<(https://[^>]+)>")
_EMPHASIS = re.compile(r"(?<![\w)])(\*{1,2})(?=\S)(.+?)(?<=\S)\1", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Passage:
    """The text under one anchor; ``page`` is the name of the file that has it."""

    page: str
    anchor: str
    heading: str
    """The heading it stands under, or is."""
    text: str
    """Markdown, without the anchor."""
    built: bool
    """False if the page, the heading or the text itself says that no code implements it."""
    level: int = 0
    """The depth of a heading; 0: the anchor is none."""

    @property
    def citation(self) -> str:
        """How code, checks and reports cite it: ``page#anchor``, the page with its suffix."""
        return f"{self.page}#{self.anchor}"

    @property
    def plain(self) -> str:
        """The text as it reads in a terminal."""
        return plain(self.text)

    @property
    def documents(self) -> tuple[str, ...]:
        """The citations of documents in the text."""
        return tuple(found for found in citations(self.text) if found.startswith(DOCUMENTS))


def pages_directory() -> Path:
    """The directory of the pages: of the checkout, else of the installed wheel. A HistoryError if neither has them."""
    here = Path(__file__).resolve().parent
    for candidate in (here.parents[2] / "docs" / "rules", here / "rules"):
        if (candidate / DOCUMENTS).is_file():
            return candidate
    raise HistoryError(here, None, None, "the rules pages are missing", "install logwitness again")


@cache
def passages() -> Mapping[str, Passage]:
    """Every passage by its citation, page by page, in order."""
    found: dict[str, Passage] = {}
    for file in sorted(pages_directory().glob("*.md")):
        for passage in read_page(file.name, file.read_text(encoding="utf-8")):
            found.setdefault(passage.citation, passage)
    return found


def citations(text: str) -> tuple[str, ...]:
    """The citations in a text, each once, in order."""
    return tuple(dict.fromkeys(f"{page}#{anchor}" for page, anchor in CITATION.findall(text)))


def address(citation: str) -> str | None:
    """Where a passage can be read in public, if the distribution says so: ``Rules`` among its project URLs."""
    for named in metadata.metadata("logwitness").get_all("Project-URL") or ():
        label, _, place = named.partition(", ")
        if label == "Rules":
            return f"{place.rstrip('/')}/{citation}"
    return None


def document_of(citation: str) -> Passage | None:
    """The document that a citation is of, or of a section of: the anchor of a section begins with its document's."""
    return next((head for name, head in _documents().items() if f"{citation}-".startswith(f"{name}-")), None)


@cache
def _documents() -> Mapping[str, Passage]:
    return {name: each for name, each in passages().items() if each.page == DOCUMENTS and each.level == 2}


def document_address(cited: Sequence[str]) -> str | None:
    """Where a public document can be read that some passages are about: one among them, or that they cite; else the
    first that their pages cite."""
    texts = (passages()[each].documents for each in cited if each in passages())
    pages = map(_cited_by_page, sorted({each.split("#")[0] for each in cited}))
    found = map(document_of, chain(cited, *texts, chain.from_iterable(pages)))
    place = next((_PLACE.search(document.text) for document in found if document is not None), None)
    return place and place[1]


@cache
def _cited_by_page(page: str) -> tuple[str, ...]:
    """The documents that a page cites: to look through a whole one takes longer than all else here."""
    return next((each.documents for each in passages().values() if each.page == page and each.level == 1), ())


def plain(text: str) -> str:
    """Markdown as it reads without anchors, links and emphasis."""
    return _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", _ANCHOR.sub("", text)))


def slug(heading: str) -> str:
    """The anchor that a heading has by its words, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", plain(heading)).strip().lower().replace(" ", "-")


def read_page(page: str, text: str) -> Iterator[Passage]:
    """Yield the passages of a page, in order."""
    lines = text.splitlines()
    unbuilt: dict[int, bool] = {}  # by level: whether the page, or the heading that is open there, is not built
    heading = ""
    for at, line in enumerate(lines):
        if match := _HEADING.fullmatch(line):
            level, heading = len(match[1]), plain(match[2])
            body = _section(lines, at + 1, level)
            unbuilt = {above: says for above, says in unbuilt.items() if above < level}
            unbuilt[level] = _BEGINS_NOT_BUILT.match("\n".join(body).lstrip()) is not None
            yield Passage(page, slug(match[2]), heading, "\n".join(body), not any(unbuilt.values()), level)
        for anchor in _ANCHOR.findall(line):
            passage = _block(lines, at)
            says = _BEGINS_NOT_BUILT.match(passage) is not None
            yield Passage(page, anchor, heading, passage, not (any(unbuilt.values()) or says))


def _section(lines: list[str], start: int, level: int) -> list[str]:
    """The lines below a heading, up to the next one of its level or above."""
    for at in range(start, len(lines)):
        if (match := _HEADING.fullmatch(lines[at])) and len(match[1]) <= level:
            return lines[start:at]
    return lines[start:]


def _block(lines: list[str], at: int) -> str:
    """The row, item, paragraph or rest of an item that begins with line ``at``."""
    if lines[at].startswith("|"):
        return _row(lines, at)
    item = _ITEM.match(lines[at])
    least = len(item[1]) + 1 if item else len(lines[at]) - len(lines[at].lstrip())
    end = at + 1
    while end < len(lines) and not _HEADING.fullmatch(lines[end]) and not lines[end].startswith("|"):
        if len(lines[end]) - len(lines[end].lstrip()) < least if lines[end] else not item:
            break
        end += 1
    first = lines[at][item.end() :] if item else lines[at]
    rest = [line.removeprefix(" " * (item.end() if item else least)) for line in lines[at + 1 : end]]
    return _ANCHOR.sub("", "\n".join([first.lstrip(), *rest])).rstrip()


def _row(lines: list[str], at: int) -> str:
    """A row of a table as items, each a cell with the name of its column."""
    top = at
    while lines[top - 1].startswith("|"):
        top -= 1
    names, cells = (_cells(lines[number]) for number in (top, at))
    named = zip(names[1:], cells[1:], strict=True)
    return "\n".join([cells[0] + "  ", *(f"- {name}: {cell}" if name else f"- {cell}" for name, cell in named)])


def _cells(row: str) -> list[str]:
    return [_ANCHOR.sub("", cell).strip() for cell in row.strip().strip("|").split("|")]
