"""In SARIF a rule carries the text of the rules that it comes from, and their address where they have one."""

from __future__ import annotations

import json
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from logwitness.commands import check_command

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
    assert "helpUri" not in found


def test_the_address_is_that_of_the_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Message()
    said["Project-URL"] = "Source, https://example.org/source"
    said["Project-URL"] = "Rules, https://example.org/source/docs/rules/"
    monkeypatch.setattr(metadata, "metadata", lambda name: said)
    found = rule(tmp_path / "found.sarif")
    assert found["helpUri"] == "https://example.org/source/docs/rules/raft.md#leader-commit"
    assert f"[raft.md#leader-commit]({found['helpUri']})" in found["help"]["markdown"]
