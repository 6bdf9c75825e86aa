"""What a person reads: replaced words stay away, one thing is not many, the glossary has the words of reports."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from logwitness.checks.contract import Verdict

ROOT = Path(__file__).parents[2]
PLACES = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Makefile",
    "pyproject.toml",
    "docs",
    "impl",
    "checker",
    "spec",
)
KINDS = {".py", ".md", ".tla", ".yaml", ".toml", ".txt"}
REPLACED = re.compile(r"\b(?:disturbances?|intakes?|trials?|one_after_another|many_operations)\b", re.IGNORECASE)
"""Words for which the field has plainer ones: faults, quarantine, runs, concatenated logs, columnar operations."""
COUNTED = ("append", "check", "claim", "entry", "event", "fact", "log", "node", "operation", "record", "run", "seed")
MANY = "|".join(f"{word[:-1]}ies" if word.endswith("y") else f"{word}s" for word in (*COUNTED, "transaction", "voter"))
ONE_OF_MANY = re.compile(rf"(?<![\w=#.-])(?<!\+ )1 (?:{MANY}|votes|twins)\b")
"""As in "1 voters"; not "acks=1 entries"."""
SAID = (
    "unjudged",
    "excused",
    "loss account",
    "set aside",
    "quarantine",
    "baseline",
    "fact",
    "family",
    "mutant",
    "twin",
)
"""Words of reports, besides the verdicts."""


@cache
def texts() -> dict[str, str]:
    """What people read, by its place; small histories are no prose."""
    files = [
        path for name in PLACES for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))
    ]
    kept = [path for path in files if path.suffix in KINDS and path.is_file() and "histories" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in kept}


@pytest.mark.parametrize("odd", [REPLACED, ONE_OF_MANY], ids=["replaced", "one of many"])
def test_odd_words_do_not_come_back(odd: re.Pattern[str]) -> None:
    assert len(texts()) > 500
    assert [(place, found[0]) for place, text in texts().items() for found in odd.finditer(text)] == []


@pytest.mark.parametrize(
    "text", ["1 voters had flushed", "after 1 entries", "a trial", "Disturbances of a run", "intake"]
)
def test_an_odd_word_is_noticed(text: str) -> None:
    assert REPLACED.search(text) or ONE_OF_MANY.search(text)


@pytest.mark.parametrize("text", ["acks=1 entries", "o + 1 entries", "11 voters", "it disturbs nobody"])
def test_others_are_not_odd(text: str) -> None:
    assert not REPLACED.search(text)
    assert not ONE_OF_MANY.search(text)


def test_the_glossary_has_the_words_of_reports() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    heads = {
        word.strip().lower() for head in re.findall(r"^\*\*([^*]+)\.\*\*", glossary, re.M) for word in head.split(",")
    }
    assert {*SAID, "unexercised", "setting", "swarm", "seed", "trace", "hunt", "shrink"} - heads == set()
    assert [verdict for verdict in Verdict if f"`{verdict}`" not in glossary] == []
