"""Every cell of ``spec/*/catalogue.yaml`` leads somewhere, nothing is left out, and the page in docs/ is made of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from logspec.catalogue import CELLS, Cell, Known, Lack, catalogue, problems, read_catalogue, render
from logspec.errors import SpecError
from logspec.models import described
from logspec.proofs import PROOFS, Proof
from logspec.proofs.rules import installed_rules
from logwitness.checks import all_checks
from quorumlog.protocol import every

MUTANTS = [mutant for protocol in every() for mutant in protocol.mutants.values()]
PAGE = Path(__file__).parents[2] / "docs" / "catalogue.md"
ROW = "{id: a, says: b, source: [c], tla: [d], proof: [e], checks: [f], mutants: [g]}"


def known() -> Known:
    return Known([check.id for check in all_checks()], {mutant.id: mutant.checks for mutant in MUTANTS})


def test_every_cell_resolves_and_nothing_is_left_out() -> None:
    assert list(problems(read_catalogue(), known())) == []


@pytest.mark.parametrize("column", CELLS)
def test_a_name_that_leads_nowhere_is_a_problem(column: str) -> None:
    whole = read_catalogue()
    row = next(row for row in whole.rows if row.id == "commit-within-flushed")
    broken = replace(row, cells={**row.cells, column: Cell(("no-such-thing",))})
    found = list(problems(replace(whole, rows=(broken,)), known()))
    assert any(sentence.startswith("commit-within-flushed: ") and "no-such-thing" in sentence for sentence in found)


@pytest.mark.parametrize(
    ("column", "missing"), [("checks", "converges"), ("mutants", "flush-assigns"), ("tla", "FlushIsOneStep")]
)
def test_what_no_row_names_is_a_problem(column: str, missing: str) -> None:
    whole = read_catalogue()
    rows = tuple(row for row in whole.rows if missing not in row.cells[column].entries)
    assert f"no row names {missing} in its column {column}" in list(problems(replace(whole, rows=rows), known()))


@pytest.mark.parametrize(
    ("lack", "said"),
    [
        (Lack(("vote-twice",), frozenset({"core"}), "no"), "says that there is no core of it, and there is one"),
        (Lack(("no-such",), frozenset({"core", "model"}), "no"), "does not say why there is no proof of it"),
    ],
)
def test_a_wrong_reason_for_a_missing_mutant_is_a_problem(lack: Lack, said: str) -> None:
    whole = read_catalogue()
    found = list(problems(replace(whole, not_everywhere=(*whole.not_everywhere, lack)), known()))
    assert [sentence for sentence in found if sentence.startswith(lack.mutants[0]) and said in sentence]


def test_a_mutant_that_is_missing_somewhere_needs_a_reason() -> None:
    found = list(problems(replace(read_catalogue(), not_everywhere=()), known()))
    assert "stale-reply-accepted: not_everywhere does not say why there is no core of it" in found


COMMIT = "commit-within-flushed"


@pytest.mark.parametrize(
    ("id", "column", "entries", "said"),
    [
        (COMMIT, "tla", ["TypeOk"], "its column tla lacks CommitWithinFlushed"),
        (COMMIT, "checks", ["converges"], f"its column checks lacks {COMMIT}"),
        (
            COMMIT,
            "proof",
            ["raft-safety#commit-was-counted", f"raft-safety#{COMMIT}"],
            "the goal commit-was-counted",
        ),
        (COMMIT, "proof", ["rules/follower-commit#at-most-flushed"], f"its column proof lacks {COMMIT}"),
        ("flush-is-one-step", "mutants", ["vote-twice"], "its column mutants lacks flush-assigns, which breaks"),
        (
            "one-vote-per-term",
            "mutants",
            ["vote-for-all"],
            "its column mutants lacks vote-twice, which breaks",
        ),
        (
            "match-is-real",
            "mutants",
            ["replies-combined"],
            "its column mutants lacks commit-ignores-match, which",
        ),
    ],
)
def test_another_name_is_a_problem(id: str, column: str, entries: list[str], said: str) -> None:  # noqa: A002
    whole = read_catalogue()
    cell = {column: Cell(tuple(entries))}
    rows = tuple(replace(row, cells={**row.cells, **cell}) if row.id == id else row for row in whole.rows)
    assert any(sentence.startswith(f"{id}: {said}") for sentence in problems(replace(whole, rows=rows), known()))


@pytest.mark.parametrize(
    ("id", "orphan"),
    [("commit-monotonic", "CommitMonotonic"), ("converges", "converges"), ("match-is-real", "MatchIsReal")],
)
def test_an_operator_or_a_check_whose_row_has_another_name_is_a_problem(id: str, orphan: str) -> None:  # noqa: A002
    whole = read_catalogue()
    rows = tuple(replace(row, id="another-name") if row.id == id else row for row in whole.rows)
    found = list(problems(replace(whole, rows=rows), known()))
    assert f"no row has the name of {orphan}, and it is not among the anomalies" in found


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        (("lost-write", "unseen", "ack-rule"), "ack-rule has its own row, so it is not an anomaly"),
        (("lost-write", "unseen", "skip"), "the anomaly skip is not among the checks of a row acked-survives"),
        (("lost-write",), "no row has the name of unseen, and it is not among the anomalies"),
    ],
)
def test_a_wrong_anomaly_is_a_problem(checks: tuple[str, ...], said: str) -> None:
    whole = read_catalogue()
    found = problems(replace(whole, anomalies={**whole.anomalies, "acked-survives": checks}), known())
    assert said in list(found)


@pytest.mark.parametrize("proof", PROOFS.values(), ids=PROOFS)
def test_every_twin_breaks_a_claim_that_there_is(proof: Proof) -> None:
    claims = proof.claims(installed_rules(proof.protocol), frozenset())
    assert [twin.name for twin in proof.twins if twin.breaks not in claims] == []


def test_the_page_is_made_of_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(read_catalogue())


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert CliRunner().invoke(catalogue, ["--write", str(page)]).exit_code == 0
    assert page.read_text(encoding="utf-8") == CliRunner().invoke(catalogue, []).output
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.md"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no mapping"),
        ("rows: []", "no list `invariants`"),
        ("invariants: [a]", "a row has exactly"),
        (f"invariants: [{ROW.replace('tla: [d], ', '')}]", "a row has exactly"),
        (f"invariants: [{ROW.replace('[d]', '[]')}]", "tla must be a list"),
        (f"invariants: [{ROW.replace('[d]', '{why_not: }')}]", "tla must be a list"),
        (f"invariants: [{ROW}, {ROW}]", "a is there twice"),
        ("invariants: [", "cannot be read"),
        (f"invariants: [{ROW}]\nanomalies: {{a: b}}", "lists of checks"),
        (f"invariants: [{ROW}]\nnot_everywhere: [{{mutants: [a], lacks: [dream], why: b}}]", "an item has mutants"),
        (f"invariants: [{ROW}]\nspare_guards: [{{guards: a, why: b}}]", "an item has guards"),
    ],
)
def test_another_form_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "raft" / "catalogue.yaml"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=said) as refused:
        read_catalogue(tmp_path)
    assert "\n" not in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_row_of_another_protocol_fits_in(tmp_path: Path) -> None:
    for protocol, row in (
        ("raft", ROW),
        ("ghost_batches", ROW.replace("id: a", "id: h").replace("[d]", "{why_not: not yet}")),
    ):
        (tmp_path / protocol).mkdir()
        (tmp_path / protocol / "catalogue.yaml").write_text(f"invariants: [{row}]", encoding="utf-8")
    page = render(read_catalogue(tmp_path))
    assert "## raft" in page
    assert "## ghost_batches" in page
    assert "- h, tla: not yet." in page


def test_a_name_is_one_rows_and_one_models_in_whichever_folder(tmp_path: Path) -> None:
    for folder in ("paxos", "raft"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "catalogue.yaml").write_text(f"invariants: [{ROW}]")
        (tmp_path / folder / "models.yaml").write_text("models: {small: {expect: holds}}")
    with pytest.raises(SpecError, match=r"raft/catalogue.yaml: a is there twice"):
        read_catalogue(tmp_path)
    with pytest.raises(SpecError, match=r"raft/models.yaml: model small: is there twice, .*paxos/models.yaml"):
        described(tmp_path)
