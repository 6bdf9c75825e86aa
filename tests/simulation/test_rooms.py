"""The rooms of protocols are found, not listed: what protocols share knows none of them, and their real nodes no
simulator. What import-linter can say by wildcards is in pyproject.toml."""

from __future__ import annotations

import grimp
import pytest

from logspec.proofs.rules import RulesError, installed_rules
from quorumlog.cluster.staging import staged_protocols
from quorumlog.protocol import names

GRAPH = grimp.build_graph("quorumlog")
PROTOCOLS = {f"quorumlog.{name.replace('-', '_')}" for name in names()} & GRAPH.modules


def protocol_of(module: str) -> str | None:
    """The package of the protocol that a module belongs to, if it belongs to one."""
    package = ".".join(module.split(".")[:2])
    return package if package in PROTOCOLS else None


def test_what_protocols_share_knows_none_of_them() -> None:
    assert {"quorumlog.raft", "quorumlog.pull_queries", "quorumlog.read_path"} <= PROTOCOLS
    shared = [module for module in GRAPH.modules if protocol_of(module) is None]
    assert {"quorumlog.quorum", "quorumlog.protocol", "quorumlog.cluster.run", "quorumlog.hunting.hunt"} <= {*shared}
    known = [(each, to) for each in shared for to in GRAPH.find_modules_directly_imported_by(each) if protocol_of(to)]
    assert known == []


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_every_protocol_has_the_rooms_that_contracts_are_about(protocol: str) -> None:
    """A core and rules, which do no I/O; what is staged, and every process, is found under a name of the contracts."""
    rooms = {module.removeprefix(f"{protocol}.") for module in GRAPH.modules if protocol_of(module) == protocol}
    assert {"core", "rules", "protocol", "settings", "simulated", "mutants"} <= rooms
    assert rooms & {"real", "staged"}
    assert protocol.removeprefix("quorumlog.").replace("_", "-") in staged_protocols()


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_the_rules_that_are_proved_are_the_protocols_own(protocol: str) -> None:
    rules = installed_rules(protocol.removeprefix("quorumlog.").replace("_", "-"))
    assert type(rules).__module__ == f"{protocol}.rules"


def test_rules_of_an_unknown_protocol_are_refused_in_one_line() -> None:
    with pytest.raises(RulesError, match=r"^protocol 'paxos' is unknown; the installed ones are .*raft.*$"):
        installed_rules("paxos")
