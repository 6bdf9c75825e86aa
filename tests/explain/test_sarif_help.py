"""In SARIF a rule carries the text of the rules that it comes from, and their address where they have one."""

from __future__ import annotations

import json
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from logwitness.checks import all_checks
from logwitness.commands import check_command
from logwitness.explain.pages import DOCUMENTS, passages
from logwitness.models.linearizable import LINEARIZABLE
from logwitness.report.sarif import _rule

OF_NONE = {"history-checks.md"}
"""Pages that work out none of the documents."""
RUN = Path(__file__).parents[2] / "histories" / "runs" / "raft" / "mutant-commit-counts-dirty"


def rule(place: Path) -> dict[str, Any]:
    words = ["--only", "committed-flushed-on-majority", "--sarif", str(place), str(RUN)]
    assert CliRunner().invoke(check_command, words).exit_code == 1
    (found,) = json.loads(place.read_text(encoding="utf-8"))["runs"][0]["tool"]["driver"]["rules"]
    assert found["properties"]["source"][0] == "raft.md#leader-commit"
    return dict(found)


def test_the_help_has_the_text_of_the_rules(tmp_path: Path) -> None:
    found = rule(tmp_path / "found.sarif")
    for form in ("text", "markdown"):
        assert "raft.md#leader-commit" in found["help"][form]
        assert "It moves its commit index to q iff" in found["help"][form]
        assert "](" not in found["help"][form]


def test_the_address_is_that_of_the_document_where_the_pages_have_none() -> None:
    """All that is asked of a protocol leads to one of the five documents; what is asked of any history is from none."""
    heads = [each for each in passages().values() if each.page == DOCUMENTS and each.level == 2]
    places = {each.citation: each.text.partition("<")[2].partition(">")[0] for each in heads}
    found = {check.id: (check, _rule(check.id).get("helpUri")) for check in (*all_checks(), LINEARIZABLE)}
    without = [check for check, place in found.values() if place is None]
    assert {page for check in without for page, _, _ in (each.partition("#") for each in check.source)} == OF_NONE
    assert {place for _, place in found.values()} - {None} == {*places.values()}
    assert found["committed-flushed-on-majority"][1] == places["documents.md#raft-recovery"]
    assert found["visible-on-majority"][1] == places["documents.md#raft-simplification"]
    assert found["ghost-term"][1] == places["documents.md#ghost-batches"]
    assert found["status-replays"][1] == places["documents.md#pull-queries"]
    assert found["gap-has-verdict"][1] == places["documents.md#read-path"]


def test_the_address_is_that_of_the_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Message()
    said["Project-URL"] = "Source, https://example.org/source"
    said["Project-URL"] = "Rules, https://example.org/source/docs/rules/"
    monkeypatch.setattr(metadata, "metadata", lambda name: said)
    found = rule(tmp_path / "found.sarif")
    assert found["helpUri"] == "https://example.org/source/docs/rules/raft.md#leader-commit"
    assert f"[raft.md#leader-commit]({found['helpUri']})" in found["help"]["markdown"]
