"""``logwitness explain``: prints a rule with everything that belongs to it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .answer import Answer, Example
    from .pages import Passage

_WIDTH = 80
_HEADINGS = {
    "check": "Checks, judged on recorded runs",
    "invariant": "Invariants",
    "operator": "TLA+ operators, checked by TLC",
    "proof": "Proofs, by z3",
    "rule": "Decided in code",
    "mutant": "Mutants that break it",
}


@click.command("explain", short_help="Explain a check, a mutant, an invariant or a rule.")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for machines.")
@click.pass_context
def explain_command(ctx: click.Context, name: str, as_json: bool) -> None:
    """Explain a check, a mutant, an invariant, a rule or a section of a document.

    \b
    logwitness explain committed-flushed-on-majority     a check, or an invariant
    logwitness explain commit-counts-dirty               a mutant
    logwitness explain raft.md#follower-commit           a rule, as it is cited
    logwitness explain follower-commit                   the same
    logwitness explain may_commit                        a function that decides
    logwitness explain LeaderCompleteness                a TLA+ operator
    logwitness explain documents.md#ghost-batches        a document

    Says what the rule is and which document it comes from, shows a small history that breaks it,
    and names the specification, proofs, checks and mutants that belong to it.

    Exit status: 0, or 2 if nothing has that name.
    """
    from ..engine.run import UNUSABLE
    from .answer import NotKnownError, answer

    try:
        found = answer(name)
    except NotKnownError as problem:
        click.echo(f"logwitness: {problem}", err=True)
        ctx.exit(UNUSABLE)
    click.echo(json.dumps(_plain(found), ensure_ascii=False) if as_json else "\n".join(_lines(found)))


def _plain(found: Answer) -> dict[str, Any]:
    """The answer for machines."""
    return {
        "name": found.name,
        "topics": [asdict(topic) for topic in found.topics],
        "rules": [_passage(passage) for passage in found.rules],
        "documents": [_passage(passage) for passage in found.documents],
        "example": None if found.example is None else asdict(found.example),
        "recorded": None if found.recorded is None else asdict(found.recorded),
        "around": [asdict(topic) for topic in found.around],
        "silent": list(found.silent),
    }


def _passage(passage: Passage) -> dict[str, Any]:
    return {"citation": passage.citation, "text": passage.text, "built": passage.built}


def _lines(found: Answer) -> Iterator[str]:
    yield found.name
    for topic in found.topics:
        yield from _wrapped(f"{topic.kind}: {topic.says}" if topic.says else topic.kind)
        for label, text in topic.details:
            yield from _detail(label, text)
        yield from (f"    {command}" for command in topic.shows)
    for title, passages in (("Rule", found.rules), ("Document", found.documents)):
        for passage in passages:
            yield ""
            yield f"{title}: {passage.citation}" + ("" if passage.built else "  (not built yet)")
            yield from _markdown(passage.plain)
    if found.rules and not found.documents:
        yield from ("", "Document: none states it; the page says where it is from")
    if found.example is not None:
        yield from _example(found.example)
    if found.recorded is not None:
        yield from ("", f"A recorded run that breaks it: {found.recorded.run}")
        for line in found.recorded.lines:
            yield from _wrapped(line, "      ", "          ")
        yield from _wrapped(found.recorded.sentence, "  violated: ", "    ")
        if found.recorded.others:
            yield "  more:"
            yield from (f"    {run}" for run in found.recorded.others)
    for kind, heading in _HEADINGS.items():
        belonging = [topic for topic in found.around if topic.kind == kind]
        if belonging:
            yield from ("", heading)
        for topic in belonging:
            said = topic.says or next((text for _, text in topic.details if kind == "mutant"), "")
            yield from _wrapped(f"{topic.name}: {said}" if said else topic.name, "  ", "      ")
            if kind == "operator":
                yield from (f"      {text.splitlines()[0]}" for label, text in topic.details if label == "Defined in")
    for reason in found.silent:
        yield from ("", *_wrapped(f"note: {reason}", "", "  "))


def _example(example: Example) -> Iterator[str]:
    yield from ("", f"A history that breaks {example.check} (* shows it)")
    yield from (f"    {line}" if line.startswith("*") else f"      {line}" for line in example.lines)
    yield from _wrapped(example.sentence, "  violated: ", "    ")


def _detail(label: str, text: str) -> Iterator[str]:
    first, *rest = text.splitlines()
    yield from _wrapped(f"{label}: {first}", "    ", "      ")
    yield from (f"      {line}" for line in rest)


def _markdown(text: str) -> Iterator[str]:
    """Paragraphs and items, each wrapped; tables as they are."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        begins = line.lstrip().startswith(("- ", "* ", "#", "|")) or line.lstrip()[:2].rstrip(".").isdigit()
        if block and (not line.strip() or begins):
            yield from _block(block)
            block = []
        if line.strip():
            block.append(line)


def _block(lines: Sequence[str]) -> Iterator[str]:
    indent = len(lines[0]) - len(lines[0].lstrip())
    mark = 2 if lines[0].lstrip().startswith("- ") else 3 if lines[0].lstrip()[:1].isdigit() else 0
    yield from _wrapped(" ".join(line.strip() for line in lines), " " * (2 + indent), " " * (2 + indent + mark))


def _wrapped(text: str, first: str = "  ", rest: str = "    ") -> list[str]:
    wrapper = textwrap.TextWrapper(_WIDTH, initial_indent=first, subsequent_indent=rest)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.wrap(text)
