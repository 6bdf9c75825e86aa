"""Which protocol is meant: by its name, a mutant, a setting; and what is said where that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumlog import protocol
from quorumlog.hunting import campaign
from quorumlog.protocol import SWARM, ProtocolError, find, load, one_of
from quorumlog.rules_file import RulesFileError, read_rules
from quorumlog.simulation.configuration import configuration_from_json, configuration_to_json
from quorumlog.simulation.loop import derived_random


def test_a_mutant_a_setting_or_a_name_says_which_protocol_is_meant() -> None:
    assert find(mutant="up-on-receipt").name == "pull-queries"
    assert find(setting="lagging").name == "pull-queries"
    assert find(setting=SWARM).name == find().name == "raft"
    assert find("read-path", setting=SWARM).name == "read-path"


@pytest.mark.parametrize("name", ["pull-queries", "raft", "read-path"])
def test_a_configuration_says_which_protocol_it_is_of(name: str) -> None:
    found = load(name)
    settings = found.settings.values()
    for each in settings:
        configuration_from_json(configuration_to_json(each), found.configuration)  # as its manifest has it
    assert {find(configuration=configuration_to_json(each)).name for each in settings} == {name}
    assert find(configuration={}).name == "raft", "all could read it"


@pytest.mark.parametrize("name", ["pull-queries", "raft", "read-path"])
def test_the_swarm_draws_from_the_setting_that_is_the_default(name: str) -> None:
    found = load(name)
    default = next(iter(found.settings.values()))
    assert found.configured(SWARM, 3) == default.drawn(derived_random(3, SWARM))


def test_a_campaign_is_of_one_protocol() -> None:
    assert campaign.protocol() == campaign.protocol(mutants=["vote-twice"]) == "raft"
    assert campaign.protocol("read-path") == "read-path"
    with pytest.raises(ProtocolError, match=r"^the mutants belong to pull-queries and raft; name those of one"):
        campaign.protocol(mutants=["vote-twice", "up-on-receipt"])


def test_rules_are_of_the_protocol_that_has_most_of_their_names(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def lag(max_end, current): ...\ndef window_suffices(*of): ...\ndef log_ok(*of): ...\n")
    with pytest.raises(RulesFileError, match=r"log_ok is not a rule"):
        read_rules(mine)


def test_a_misspelt_rule_is_looked_for_among_the_rules_of_the_other_names(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def lag(max_end, current): ...\ndef window_sufices(*of): ...\n")
    with pytest.raises(RulesFileError, match=r"window_sufices is not a rule; is window_suffices meant"):
        read_rules(mine)


def test_a_bundle_says_which_protocol_it_is_of(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("from quorumlog.pull_queries.rules import Rules\nRULES = Rules()\n")
    assert read_rules(mine)[0].name == "pull-queries"


def test_several_of_which_none_is_the_default_are_an_error_that_names_them() -> None:
    with pytest.raises(ProtocolError, match=r"^which protocol is meant, pull-queries or read-path\?"):
        one_of((load("pull-queries"), load("read-path")))


UNSEEN = "no run shows the mutant 'force-flush-ignored'; tests/raft/test_mutants.py does"


@pytest.mark.parametrize(
    ("name", "mutant", "said"),
    [
        (None, "nope", "mutant 'nope' is unknown; `logwitness hunt --list` names them all"),
        ("raft", "up-on-receipt", "mutant 'up-on-receipt' is one of pull-queries, not of raft; leave out --protocol"),
        ("raft", "force-flush-ignored", UNSEEN),
        (None, "force-flush-ignored", UNSEEN),
    ],
)
def test_a_mutant_that_cannot_be_run_is_refused_with_the_reason(name: str | None, mutant: str, said: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        find(name, mutant=mutant)
    assert str(refused.value) == said


def test_a_setting_that_the_named_protocol_lacks_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(
        ProtocolError, match=r".lagging. is one of pull-queries, not of raft, whose settings are default, .*swarm$"
    ):
        find("raft", setting="lagging")


@pytest.mark.parametrize("record", [load("raft"), object()])
def test_an_entry_point_under_another_name_than_the_records_is_refused(
    record: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_places", lambda: {"paxos": lambda: record})
    with pytest.raises(ProtocolError, match=r"its entry point is not a Protocol of this name"):
        load("paxos")
