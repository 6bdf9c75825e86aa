"""Finds what there is to say about a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from loghistory import Kind, open_run
from loghistory.errors import printable
from loghistory.manifest import read as read_manifest
from loghistory.schema import columns_of

from ..checks import families
from ..engine.local import check, events_at
from .pages import DOCUMENTS, Passage, document_of, passages
from .topics import Topic, Topics, close, gather
from .transcripts import HISTORIES, Case, cases, cases_of

_ROOT = Path(__file__).resolve().parents[3]
"""Of a checkout."""

_BREAKS = ("violated", "undecided")
"""Verdicts on a small history that shows what a check is about."""


class NotKnownError(ValueError):
    """Nothing has that name, or several passages have; the message says which are close."""


@dataclass(frozen=True, slots=True)
class Example:
    """A small history, and how it breaks a check."""

    check: str
    lines: tuple[str, ...]
    """The history as text (see `transcripts`); a star marks the events that show the breach."""
    sentence: str
    """What the check says of it."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded run that breaks a check, and the events that show it."""

    check: str
    run: str
    lines: tuple[str, ...]
    sentence: str
    others: tuple[str, ...]
    """More such runs."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything about one name; ``around``: related topics, ``silent``: parts that could not answer, and why."""

    name: str
    topics: Sequence[Topic]
    rules: Sequence[Passage]
    documents: Sequence[Passage]
    example: Example | None
    recorded: Recorded | None
    around: Sequence[Topic]
    silent: Sequence[str]


def answer(name: str) -> Answer:
    """What is known by this name: a topic, else a citation, else an anchor. Raises NotKnownError."""
    topics, pages = gather(), passages()
    found = topics.named(name)
    if found:
        around = topics.around(found)
        # The passage of a mutant says what is changed; what that breaks is said by the rules of the invariants.
        stated = [topic for topic in found if topic.kind != "mutant"]
        cited = _cited(stated) or _cited([topic for topic in around if topic.kind == "invariant"])
    else:
        passage = _passage(name, topics, pages)
        citing = topics.citing(passage.citation)
        around, cited = topics.around(citing), [passage.citation]
    rules = [pages[each] for each in cited if each in pages and not each.startswith(DOCUMENTS)]
    said = [*cited, *(each for rule in rules for each in rule.documents)]
    documents = list(_documents(dict.fromkeys(each for each in said if each.startswith(DOCUMENTS)), pages))
    mutants = [topic for topic in found if topic.kind == "mutant"]
    noticing = [check_id for mutant in mutants for check_id in mutant.names.get("check", ())]
    checks = [*noticing, *(topic.name for topic in [*found, *around] if topic.kind == "check")]
    broken = next((each for each in checks if each in _first_broken()), None)
    return Answer(
        found[0].name if found else passage.citation,
        found,
        rules,
        documents,
        None if broken is None else example(broken),
        None if broken is None else recorded(broken, name if mutants else ""),
        [topic for topic in around if topic not in found],
        [*topics.silent, *_readable()[1]],
    )


@cache
def example(check_id: str) -> Example:
    """The first history of `transcripts` that breaks a check, judged now. Raises KeyError if none does."""
    case = _first_broken()[check_id]
    (outcome,) = check(case.table, [check_id], configuration=case.configuration).checks
    said = outcome.violations[0].sentence if outcome.violations else outcome.reason or ""
    return Example(check_id, tuple(case.lines), said)


@cache
def _first_broken() -> Mapping[str, Case]:
    """By the id of each check, the first history that breaks it."""
    found: dict[str, Case] = {}
    for case in _readable()[0]:
        if case.verdict in _BREAKS:
            found.setdefault(case.check, case)
    return found


@cache
def _readable() -> tuple[Sequence[Case], Sequence[str]]:
    """All small histories, and why those of a family of another package cannot be read."""
    found, silent = [case for file in sorted(HISTORIES.glob("*.txt")) for case in cases(file)], []
    for family in families():
        try:
            found += cases_of(family)
        except ValueError as problem:
            silent.append(str(problem))
    return found, silent


def _cited(topics: Sequence[Topic]) -> list[str]:
    return list(dict.fromkeys(each for topic in topics for each in topic.source))


def _passage(name: str, topics: Topics, pages: Mapping[str, Passage]) -> Passage:
    """The passage of this citation or anchor."""
    if name in pages:
        return pages[name]
    found = [passage for passage in pages.values() if passage.anchor == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotKnownError(f"{name} is on several pages: {', '.join(passage.citation for passage in found)}")
    known = [*(topic.name for topic in topics.all), *pages, *(passage.anchor for passage in pages.values())]
    near = close(name, known)
    remedy = (
        f"did you mean {', '.join(near)}?"
        if near
        else "`logwitness checks` lists the checks, `logwitness hunt --list` the mutants, docs/catalogue.md the rest"
    )
    raise NotKnownError(f"nothing is called {name!r}: {remedy}")


def _documents(cited: Mapping[str, None], pages: Mapping[str, Passage]) -> Iterator[Passage]:
    """The cited sections, each document before its own."""
    seen = set()
    for each in cited:
        document = document_of(each)
        if document is not None and document.citation != each:
            document = replace(document, text=document.text.split("\n- ")[0])
        for passage in (document, pages.get(each)):
            if passage is not None and passage.citation not in seen:
                seen.add(passage.citation)
                yield passage


def recorded(check_id: str, preferred: str = "") -> Recorded | None:
    """What a check says of a recorded run that is expected to break it; None where there is none, as in a wheel.

    The run of the ``preferred`` mutant is taken if there is one.
    """
    runs = _breaking().get(check_id)
    if not runs:
        return None
    return _recorded(check_id, next((run for run in runs if run.name == f"mutant-{preferred}"), runs[0]))


@cache
def _breaking() -> Mapping[str, Sequence[Path]]:
    """By the id of each check, the recorded runs that are expected to break it."""
    found: dict[str, list[Path]] = {}
    for manifest in sorted(_ROOT.glob("histories/runs/*/*/manifest.json")):
        for check_id, verdict in (read_manifest(manifest).expected or {}).items():
            if verdict == "violated":
                found.setdefault(check_id, []).append(manifest.parent)
    return found


@cache
def _recorded(check_id: str, chosen: Path) -> Recorded:
    """What a check says of a run, one of those that break it."""
    source = open_run(chosen, verify=False)
    (outcome,) = check(source, [check_id]).checks
    violation = outcome.violations[0]
    found = events_at(source, violation.events)
    lines = tuple(_line(found[seq]) for seq in violation.events if seq in found)
    others = tuple(run.relative_to(_ROOT).as_posix() for run in _breaking()[check_id] if run != chosen)
    return Recorded(check_id, chosen.relative_to(_ROOT).as_posix(), lines, violation.sentence, others)


def _line(row: Mapping[str, Any]) -> str:
    """An event in a line: what it is, then its columns."""
    where = f"n{row['node']}" if "node" in row else f"c{row['process']}" if "process" in row else "-"
    said = [name for name in columns_of(Kind(row["kind"])) if name in row and name not in ("node", "process")]
    columns = [f"{name}={printable(str(row[name]))}" for name in said]
    return f"{row['seq']}  {where} {row['kind']}  {' '.join(columns)}"
