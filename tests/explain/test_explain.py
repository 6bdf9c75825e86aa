"""What has a name or an anchor can be explained, with its rule, its document and a history that breaks it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from importlib import metadata
from pathlib import Path

import pytest

from logspec.catalogue import read_catalogue
from logspec.models import load_models
from logspec.proofs import PROOFS
from logwitness.engine.local import check
from logwitness.explain.answer import NotKnownError, answer, example
from logwitness.explain.pages import passages, read_page
from logwitness.explain.topics import EXPLAINERS, Topic, Topics, gather
from logwitness.explain.transcripts import cases
from logwitness.models import every_check
from quorumlog.protocol import Protocol, every

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = read_catalogue()
PAGES = {id_: f"{mutant.page or each.name}.md" for each in every() for id_, mutant in each.mutants.items()}
MUTANTS = {id_: mutant for protocol in every() for id_, mutant in protocol.mutants.items()}
CHECKS = sorted(each.id for each in every_check())
BY_EXAMPLE = [each for each in CHECKS if each != "linearizable"]
"""The one that is left judges other models than logs; Porcupine tells of it."""
REFUTED = {each.name for each in load_models().values() if each.overrides and not each.holds}
TWINS = {twin.name for proof in PROOFS.values() for twin in proof.twins}
WATCHED = {mutant for row in CATALOGUE.rows if row.cells["checks"].entries for mutant in row.cells["mutants"].entries}
"""The mutants that break an invariant with a check."""
EVERY_MUTANT = sorted({*MUTANTS, *REFUTED, *TWINS})


def explain(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from logwitness.cli import main; main()", "explain", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_explained(name: str) -> None:
    found = answer(name)
    assert found.topics[0].kind == "check"
    assert found.topics[0].says
    assert found.rules
    assert all(each.built for each in found.rules)
    if name in BY_EXAMPLE:
        assert found.example is not None
        assert found.example.check == name


@pytest.mark.parametrize("name", BY_EXAMPLE)
def test_the_example_of_a_check_breaks_it(name: str, tmp_path: Path) -> None:
    """What is printed is a whole history: read anew, and judged by the engine, it breaks the check in those words."""
    shown = example(name)
    file = tmp_path / "example.txt"
    file.write_text("\n".join([f"== {name} violated", *shown.lines]))
    (case,) = cases(file)
    (outcome,) = check(case.table, [name], configuration=case.configuration).checks
    if outcome.verdict == "undecided":
        assert outcome.reason == shown.sentence
        return
    assert outcome.violated
    assert outcome.violations[0].sentence == shown.sentence
    assert list(outcome.violations[0].events) == case.shown


def test_the_recorded_run_of_a_mutant_is_shown() -> None:
    found = answer("commit-ignores-match").recorded
    assert found is not None
    assert found.run == "histories/runs/raft/mutant-commit-ignores-match"
    assert found.lines
    assert "histories/runs/raft/mutant-commit-counts-dirty" in found.others


def _checks(protocol: Protocol, name: str) -> tuple[str, ...]:
    return protocol.mutants[name].checks if name in protocol.mutants else ()


def of_read_path(mutant: str) -> bool:
    """Whether the invariants that a mutant breaks are all of the read path."""
    rows = [row for row in CATALOGUE.rows if mutant in row.cells["mutants"].entries]
    return all(rule.startswith("read-path.md#") for row in rows for rule in row.cells["source"].entries)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EVERY_MUTANT)
def test_a_mutant_is_explained(name: str) -> None:
    found = answer(name)
    (topic,) = [each for each in found.topics if each.kind == "mutant"]
    assert topic.says or topic.details
    assert topic.shows
    assert found.rules
    seen = MUTANTS[name].checks if name in MUTANTS else name in WATCHED
    assert {each.kind for each in found.around} >= ({"check", "invariant"} if seen else {"invariant"})
    pages = ("raft", "ghost-batches", "pull-queries", "read-path", "field-bugs")
    # What only a model of the read path was changed to is told with the model.
    assert {f"{page}.md#{name}" for page in pages} & passages().keys() or (name not in MUTANTS and of_read_path(name))
    if name in MUTANTS:
        assert f"{PAGES[name]}#{name}" in topic.source
        assert MUTANTS[name].test in str(topic.details)
    if name in MUTANTS and seen:
        assert found.example is not None
        # Protocols may have mutants of one name.
        assert found.example.check in {check for each in every() for check in _checks(each, name)}


def test_every_source_of_a_topic_is_a_passage() -> None:
    assert {citation for topic in gather().all for citation in topic.source} <= set(passages())


@pytest.mark.parametrize("name", sorted(row.id for row in CATALOGUE.rows))
def test_an_invariant_is_explained(name: str) -> None:
    found = answer(name)
    row = next(row for row in CATALOGUE.rows if row.id == name)
    shown = {(each.kind, each.name) for each in [*found.topics, *found.around]}
    for kind, cell in (("operator", "tla"), ("proof", "proof"), ("check", "checks"), ("mutant", "mutants")):
        assert {(kind, entry) for entry in row.cells[cell].entries} <= shown
    # A rule about clients alone holds for any log.
    pages = ("raft", "history-checks", "ghost-batches", "pull-queries", "read-path")
    lemma = all(rule.startswith("read-path.md#") for rule in row.cells["source"].entries)
    assert {f"{page}.md#{name}" for page in pages} & passages().keys() or lemma


@pytest.mark.parametrize("name", sorted(CATALOGUE.named("tla")))
def test_an_operator_says_where_it_is(name: str) -> None:
    details = dict(answer(name).topics[0].details)
    assert details["Defined in"].startswith("spec/")
    assert f"\n{name}" in details["Defined in"]


RULES = {rule.name: protocol for protocol in every() for rule in fields(protocol.rules)}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_of_the_implementation_is_explained(name: str) -> None:
    """What is named is there: code, operator, proof."""
    (topic,) = gather().named(name, "rule")
    assert topic.source
    assert (ROOT / dict(topic.details)["Code"]).is_file()
    for operator, place in (text.split(", ") for label, text in topic.details if label == "In TLA+"):
        file, line = place.split(":")
        assert (ROOT / file).read_text(encoding="utf-8").splitlines()[int(line) - 1].startswith(operator)
        assert file.startswith(f"spec/{RULES[name].name.replace('-', '_')}/")
    for command in topic.shows:
        proof, _, claim = command.removeprefix("logwitness spec prove ").partition("/")
        claims = PROOFS[proof].claims(RULES[name].rules, frozenset())
        assert [each for each in claims if each.split("/")[0] == claim]


def test_a_rule_names_its_operator_and_its_proof() -> None:
    (topic,) = gather().named("vote_result")
    assert dict(topic.details)["In TLA+"].startswith("VoteResult, spec/raft/Quorum.tla:")
    assert topic.shows == ("logwitness spec prove rules/vote-result",)
    (without,) = gather().named("window_suffices")
    assert "In TLA+" not in dict(without.details)
    assert without.shows == ()


def test_every_passage_can_be_explained() -> None:
    for citation in passages():
        found = answer(citation)
        assert citation in [each.citation for each in [*found.rules, *found.documents]]


def test_what_belongs_to_no_invariant_leads_to_those_that_share_a_source() -> None:
    rule = Topic("rule", "may_commit", source=["first"])
    shared = Topic("invariant", "one", source=["first", "second"], names={"check": ["c"]})
    other = Topic("invariant", "two", source=["second"])
    owner = Topic("invariant", "three", source=["third"], names={"rule": ["may_commit"]})
    check = Topic("check", "c")
    assert Topics([rule, shared, other, check]).around([rule]) == [rule, shared, check]
    assert Topics([rule, shared, other, owner, check]).around([rule]) == [rule, owner]


def test_what_lies_below_something_that_is_not_built_is_not_built() -> None:
    text = (
        '# P\n\n## A\n\n*Not built yet.*\n\n### B\n\n- <a id="c"></a>C\n\n## D\n\n- <a id="e"></a>*Not built yet*: E\n'
    )
    found = {passage.anchor: passage.built for passage in read_page("p.md", text)}
    assert found == {"p": True, "a": False, "b": False, "c": False, "d": True, "e": False}


def test_a_line_within_an_item_is_a_passage_up_to_the_end_of_the_item() -> None:
    text = (
        '- <a id="one"></a>One\n  goes on.\n  <a id="two"></a>Two\n  - beneath\n\n  and on.\n- <a id="three"></a>Three'
    )
    found = {passage.anchor: passage.text for passage in read_page("a.md", text)}
    assert found == {
        "one": "One\ngoes on.\nTwo\n- beneath\n\nand on.",
        "two": "Two\n- beneath",
        "three": "Three",
    }


def test_a_rule_leads_to_all_that_belongs_to_it() -> None:
    found = answer("follower-commit")
    assert found.name == "raft.md#follower-commit"
    assert {each.kind for each in found.around} == {"check", "invariant", "operator", "proof", "rule", "mutant"}
    assert "follower_commit" in [each.name for each in found.around]
    assert "commit-within-flushed" in [each.name for each in found.around]


def test_a_document_is_named_with_its_place() -> None:
    (whole, section) = answer("documents.md#raft-recovery-drawbacks").documents
    assert "Michal Maslanka" in whole.text
    assert "https://github.com/redpanda-data/redpanda/" in whole.text
    assert "8 bytes" in section.text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("commited-agree", "did you mean committed-agree"),
        ("folower-commit", "follower-commit"),
        ("scenario-1", "is on several pages: pull-queries.md#scenario-1, raft.md#scenario-1"),
        ("raft.md" + "#folower-commit", "raft.md#follower-commit"),
        ("zzz", "nothing is called 'zzz': `logwitness checks` lists the checks"),
    ],
)
def test_an_unknown_name_gets_close_ones(name: str, said: str) -> None:
    with pytest.raises(NotKnownError, match=re.escape(said)):
        answer(name)


@pytest.mark.slow
def test_the_command_prints_rule_document_example_and_the_rest_within_80_columns() -> None:
    done = explain("committed-flushed-on-majority")
    assert done.returncode == 0
    for expected in (
        "Rule: raft.md#leader-commit",
        "Document: documents.md#raft-recovery-committed-and-dirty",
        "A history that breaks committed-flushed-on-majority",
        "    * n1 commit 0",
        "A recorded run that breaks it: histories/runs/raft/mutant-commit-counts-dirty",
        "Leader 2 committed offset 6 (entry of term 1)",
        "spec/raft/FlushedRaft.tla:",
        "raft-safety#committed-flushed-on-majority",
        "commit-ignores-match",
    ):
        assert expected in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80 and "https://" not in line] == []


@pytest.mark.slow
def test_the_command_refuses_an_unknown_name() -> None:
    done = explain("commited-agree")
    assert done.returncode == 2
    assert done.stderr.startswith("logwitness: nothing is called 'commited-agree'")
    assert done.stdout == ""


@pytest.mark.slow
def test_json_has_the_same() -> None:
    found = json.loads(explain("--json", "vote-twice").stdout)
    assert found["name"] == "vote-twice"
    assert found["topics"][0]["kind"] == "mutant"
    assert "raft.md#election-majority" in [each["citation"] for each in found["rules"]]
    assert found["example"]["lines"]


def test_a_part_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.entry_points

    class Missing:
        name = "specification"

        def load(self) -> None:
            raise ModuleNotFoundError("No module named 'yaml'")

    def points(**words: str) -> object:
        found = real(**words)
        if words.get("group") != EXPLAINERS:
            return found
        return [*(point for point in found if point.name != "specification"), Missing()]

    monkeypatch.setattr(metadata, "entry_points", points)
    topics: Topics = gather.__wrapped__()
    assert topics.named("vote-twice")
    assert topics.silent == ("specification: No module named 'yaml'",)
