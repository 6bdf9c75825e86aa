"""Every citation of a rule or a document leads to a passage, is written in one form, and every rule that is built is
cited by what implements, specifies or checks it.

A citation is ``PAGE.md#ANCHOR`` (docs/rules/README.md). The tree is searched as text: docstrings, comments, strings,
TLA+, YAML, Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from logwitness.explain.pages import Passage, citations, pages_directory, passages, read_page
from logwitness.explain.topics import gather

ROOT = Path(__file__).parents[2]
CODE = ("impl", "checker", "spec", "histories/loghistory")
TREE = (*CODE, "tests", "docs", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "pyproject.toml")
KINDS = {".py", ".tla", ".yaml", ".toml", ".md", ".go", ".txt"}
PAGES = "|".join(sorted(path.stem for path in pages_directory().glob("*.md") if path.name != "README.md"))
ANY = rf"(?:{PAGES})\.md"
DOCUMENTS = "raft-recovery|raft-simplification|ha-pull-queries"
OLD_STYLE = {
    r"\brules page\b": "names no rule",
    rf"(?<![-\w])(?!(?<=\"){ANY}\")({ANY})\b(?!#)": "names no anchor",  # a name as a string is a file
    rf"(?<![-\w#])({DOCUMENTS})\b": "does not say where the document is",
    rf"\b({DOCUMENTS}|ghost-batches|read-path)\.txt\b": "is a file that nobody has",
}
"""How rules and documents must not be referred to, and what is wrong with it."""
SUSPECT = re.compile(rf"\.md|\.txt|rules page|{DOCUMENTS}", re.IGNORECASE)
"""What is in each line that cites something, well or not."""


def problems(name: str, text: str) -> Iterator[str]:
    """A sentence for each citation in a text that leads nowhere or has another form."""
    for number, line in enumerate(text.splitlines(), 1):
        if not SUSPECT.search(line):
            continue
        for citation in citations(line):
            if citation not in passages():
                yield f"{name}:{number}: {citation} leads nowhere"
        # Links of Markdown have a test of their own, and may lead to a whole page.
        words = re.sub(r"\[[^\]]*\]\([^)]*\)", "", line) if name.endswith(".md") else line
        if not name.startswith("docs/rules/"):
            for form, wrong in OLD_STYLE.items():
                for match in re.finditer(form, words, re.IGNORECASE):
                    yield f"{name}:{number}: {match[0]!r} {wrong}; cite PAGE.md#ANCHOR"


@cache
def texts() -> dict[str, str]:
    """The files of the tree by name."""
    found = {}
    for place in TREE:
        for path in [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in KINDS and not name.startswith(("tests/docs/", "tests/recorded/")):
                found[name] = path.read_text(encoding="utf-8")
    return found


def test_every_citation_resolves_and_has_the_one_form() -> None:
    assert len(texts()) > 300
    assert [problem for name, text in texts().items() for problem in problems(name, text)] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Source: raft.md#no-such-rule.", "leads nowhere"),
        ("Source: rafts.md#follower-commit.", "leads nowhere"),
        ('(rules page, "Elections")', "names no rule"),
        ("Source: rules/raft.md, Commit index.", "names no anchor"),
        ("history-checks.md, Anomalies", "names no anchor"),
        ('"history-checks.md, Anomalies"', "names no anchor"),
        ("raft-recovery, Flushing strategy", "where the document is"),
        ("raft-simplification.txt, Introduction", "a file that nobody has"),
        ("(* Source: Raft-recovery *)", "where the document is"),
    ],
)
def test_a_wrong_citation_is_noticed(text: str, said: str) -> None:
    assert [problem for problem in problems("impl/some.py", f'"""A rule.\n\n{text}\n"""') if said in problem]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("impl/some.py", "Sources: raft.md#follower-commit, documents.md#raft-recovery-flushing."),
        ("docs/some.md", "see [the rules](rules/raft.md) and [one of them](rules/raft.md#follower-commit)"),
        ("impl/some.py", 'PAGE = "raft.md"'),
        ("impl/some.py", "the log's draft.md and craft.md are none of ours"),
    ],
)
def test_a_right_citation_is_no_problem(name: str, text: str) -> None:
    assert list(problems(name, text)) == []


# -- the pages themselves ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted(pages_directory().glob("*.md")), ids=lambda path: path.stem)
def test_anchors_are_unique_and_kebab_case(page: Path) -> None:
    anchors = [passage.anchor for passage in read_page(page.name, page.read_text(encoding="utf-8"))]
    assert len(anchors) == len(set(anchors)), sorted({each for each in anchors if anchors.count(each) > 1})
    assert [each for each in anchors if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", each)] == []


def test_no_passage_is_empty() -> None:
    assert [each.citation for each in passages().values() if not each.text.strip()] == []


def built_rules() -> list[Passage]:
    """The passages that say what something has to do, and that are built; headings only group them."""
    pages = ("raft.md", "history-checks.md", "pull-queries.md", "ghost-batches.md", "read-path.md")
    return [each for each in passages().values() if each.page in pages and not each.level and each.built]


def named_by_code() -> set[str]:
    """The citations in code, and the passages that are named like a mutant, an invariant or a scenario."""
    cited = {each for name, text in texts().items() if name.startswith(CODE) for each in citations(text)}
    named = {topic.name for topic in gather().all}
    for path in [*ROOT.glob("impl/quorumlog/*/scenarios.toml"), *ROOT.glob("tests/*/scenarios.toml")]:
        page, text = f"{path.parent.name.replace('_', '-')}.md", path.read_text(encoding="utf-8")
        cited |= {f"{page}#scenario-{number}" for number in re.findall(r"^number = (\d+)", text, re.MULTILINE)}
    # Some of pull queries are in status.txt beside the others.
    cited |= {f"pull-queries.md#scenario-{number}" for number in range(1, 26)}
    cited.add("read-path.md#scenario-29")  # one rule alone, which tests/read_path plays
    return cited | {passage.citation for passage in passages().values() if passage.anchor in named}


def test_every_rule_is_reached_from_code_or_is_not_built() -> None:
    reached = named_by_code()
    assert len(built_rules()) > 100
    assert [each.citation for each in built_rules() if each.citation not in reached] == []


def test_what_is_not_built_is_cited_by_no_code() -> None:
    """The specification may model what is not built yet."""
    code = {name: text for name, text in texts().items() if name.startswith(CODE) and not name.startswith("spec/")}
    reached = {each for text in code.values() for each in citations(text)}
    assert [each.citation for each in passages().values() if not each.built and each.citation in reached] == []


def test_a_section_ends_at_the_next_heading_of_its_level_or_above() -> None:
    text = "# A\none\n## B\ntwo\n### C\nthree\n## D\nfour\n# E\nfive"
    found = {passage.anchor: re.findall(r"^\w+$", passage.text, re.M) for passage in read_page("page.md", text)}
    assert found == {
        "a": ["one", "two", "three", "four"],
        "b": ["two", "three"],
        "c": ["three"],
        "d": ["four"],
        "e": ["five"],
    }


DOCUMENT = re.compile(r"\*\*[^*]+\.?\*\* .+?\..*?<https://[^>]+>", re.DOTALL)
"""How a document begins: title, author, where it was published, and a public address."""


def test_every_document_is_named_with_author_and_address() -> None:
    """The sections of each begin with its anchor, and code cites a section, or the whole of what it implements."""
    heads = [each for each in passages().values() if each.page == "documents.md" and each.level == 2]
    assert len(heads) == 5
    assert [each.citation for each in heads if not DOCUMENT.match(each.text.strip().split("\n\n")[0])] == []
    sections = [each for each in passages().values() if each.page == "documents.md" and not each.level]
    assert [
        each.anchor for each in sections if not any(each.anchor.startswith(f"{head.anchor}-") for head in heads)
    ] == []
    whole = {each.citation for each in heads}
    cited = {name for name, text in texts().items() if name.startswith(CODE) and whole & {*citations(text)}}
    assert cited == WHOLE


WHOLE = {
    *(f"impl/quorumlog/raft/{name}.py" for name in ("core", "protocol", "rules")),
    *("impl/quorumlog/read_path/protocol.py", "impl/quorumlog/read_path/process/calls.py"),
    *("checker/logwitness/explain/command.py", "spec/raft/FlushedRaft.tla"),
}
"""What cites a document as a whole, since it is about all of it; everything else cites a section."""


def test_every_section_of_a_document_is_cited() -> None:
    cited = {each for text in texts().values() for each in citations(text)}
    cited |= {f"documents.md#{each}" for each in re.findall(r"\(documents\.md#([\w-]+)\)", "\n".join(texts().values()))}
    sections = [each for each in passages().values() if each.page == "documents.md" and not each.level]
    assert [each.citation for each in sections if each.citation not in cited] == []
