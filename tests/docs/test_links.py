"""Links within the documentation lead to a file, and to a heading or an anchor in it; what pages name is there."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from logwitness.cli import main
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


# -- commands, modules and files that pages name -----------------------------------------------------------------------

PROSE = [page for page in PAGES if "rules" not in page.parts and page.name not in ("mutants.md", "catalogue.md")]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
GROUPS_OF_OTHERS = {
    "quorumlog.protocols",
    "quorumlog.real_protocols",
    "quorumlog.staged_protocols",
    "logwitness.families",
}
"""Groups of entry points in which only other distributions have any."""


def commands(text: str) -> Iterator[str]:
    """The commands in a page: indented as an example, or in a sentence."""
    for line in re.findall(r"^ {4,}(?:\$ )?logwitness (.*)", text, re.MULTILINE):
        yield re.split(r"  | #|;", line)[0]
    yield from (" ".join(words.split()) for words in re.findall(r"`logwitness ([^`]+)`", text))


def unknown(words: list[str]) -> str | None:
    """What of a command line there is not."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        found = command.get_command(context, name)
        if found is None:
            return name
        command, context = found, click.Context(found, parent=context)
    known = {option for each in command.get_params(context) for option in (*each.opts, *each.secondary_opts)}
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return next((option for option in given if option not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_a_page_are_understood(page: Path) -> None:
    found = [(line, unknown(shlex.split(line))) for line in commands(page.read_text(encoding="utf-8"))]
    assert [(line, wrong) for line, wrong in found if wrong] == []


@pytest.mark.parametrize("line", ["chek runs/", "check --requires skip runs/", "spec prove --rule x", "spec trance x"])
def test_a_command_that_is_not_understood_is_noticed(line: str) -> None:
    assert unknown(shlex.split(line))


HOMES = {"quorumlog": "impl", "logwitness": "checker", "logspec": "spec", "loghistory": "histories"}


def is_there(name: str) -> bool:
    """Whether a dotted name is that of a module, of what a module defines, or of a group of entry points."""
    package, *rest = name.split(".")
    place = ROOT / HOMES[package] / package
    for part in rest:
        found = place / part
        if found.is_dir() or found.with_suffix(".py").is_file():
            place = found
            continue
        file = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
        return re.search(rf"^(?:def |class )?{part}\b", file.read_text(encoding="utf-8"), re.MULTILINE) is not None
    return True


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_modules_and_groups_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:quorumlog|logwitness|logspec|loghistory)(?:\.\w+)+)`", text))
    assert [name for name in sorted(named - {*GROUPS} - GROUPS_OF_OTHERS) if not is_there(name)] == []


def test_files_and_folders_that_the_architecture_names_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    below = ("", "*/", "*/*/", "*/*/*/")
    missing = []
    for name in re.findall(r"`([\w-]+(?:/[\w-]+)*/?(?:\.(?:py|yaml|tla|md))?)`", text):
        path = name.rstrip("/")
        if "/" in name and not any([*ROOT.glob(f"{place}{path}{end}")] for place in below for end in ("", ".py")):
            missing.append(name)
    assert missing == []
