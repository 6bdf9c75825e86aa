"""Links within the documentation lead to a file, and to a heading or an anchor in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from logwitness.explain.pages import read_page
from quorumlog.protocol import every

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {
        path
        for path in [
            *ROOT.glob("*.md"),
            *(ROOT / "docs").rglob("*.md"),
            *ROOT.glob("*/README.md"),
            *ROOT.glob("*/*/README.md"),
        ]
        if not path.relative_to(ROOT).parts[0].startswith(".")
    }
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def broken(page: Path, text: str) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for target in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        place, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = (page.parent / place).resolve() if place else page
        if not there.exists():
            yield target
        elif anchor:
            written = text if there == page else there.read_text(encoding="utf-8")
            if anchor not in anchors(there.name, written):
                yield target


@cache
def anchors(name: str, text: str) -> frozenset[str]:
    """What can be linked to on a page."""
    return frozenset(passage.anchor for passage in read_page(name, text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page, page.read_text(encoding="utf-8"))) == []


def test_the_page_of_mutants_has_them_all() -> None:
    """It is made by `make mutants`, which hunts them."""
    page = (ROOT / "docs" / "mutants.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\| \[([\w-]+)\]\(rules/", page, re.MULTILINE))
    assert shown == {mutant for protocol in every() for mutant in protocol.mutants}


@pytest.mark.parametrize("target", ["no-such.md", "ci.md#no-such-heading", "#no-such-heading", "../docs/none/ci.md"])
def test_a_broken_link_is_noticed(target: str) -> None:
    assert list(broken(ROOT / "docs" / "proofs.md", f"# Proofs\n\nsee [there]({target})\n")) == [target]
