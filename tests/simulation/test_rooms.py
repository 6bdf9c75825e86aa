"""The rooms of protocols are found, not listed: what protocols share knows none of them, and their real nodes no
simulator. What import-linter can say by wildcards is in pyproject.toml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest

from logspec.proofs.rules import RulesError, installed_rules
from quorumlog.cluster.staging import staged_protocols
from quorumlog.protocol import names

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "loghistory": "histories/loghistory",
    "quorumlog": "impl/quorumlog",
    "logspec": "spec/logspec",
    "logwitness": "checker/logwitness",
    "linearizability_checker": "checker/linearizability_checker/src/linearizability_checker",
}
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


# -- what no import shows ----------------------------------------------------------------------------------------------


@cache
def texts() -> dict[str, str]:
    """Every module by its path."""
    files = [path for place in PACKAGES.values() for path in sorted((ROOT / place).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}


GROUPS = {"logwitness.commands", "logwitness.judges"}
"""Groups of entry points that have the name of a module."""


def test_no_module_of_ours_is_loaded_by_a_name_in_a_string() -> None:
    """For linters do not see it. Rooms that nobody names are found below a package, each by its own package, and so are
    parts of a package without contracts inside it."""
    whole = re.compile(rf"[\"'](({'|'.join(PACKAGES)})\.[\w.]+)(?::\w+)?[\"']")
    begun = re.compile(rf"f[\"']({'|'.join(PACKAGES)})\.")
    named, found = [], []
    for path, text in texts().items():
        for name, package in whole.findall(text):
            place = ROOT.joinpath(PACKAGES[package], *name.split(".")[1:])
            started = (place / "__main__.py").is_file()  # a process, by `python -m`
            there = place.is_dir() or place.with_name(f"{place.name}.py").is_file()
            free = f"/{package}/" in path and package != "quorumlog"
            if there and not started and not free and name not in GROUPS:
                named.append((path, name))
        found += [(path, package) for package in begun.findall(text)]
    assert named == []
    assert ("impl/quorumlog/node/real_protocol.py", "quorumlog") in found
    assert [(path, package) for path, package in found if f"/{package}/" not in path] == []


@pytest.mark.parametrize(
    ("foreign", "room"),
    [
        ("pyspark", "checker/logwitness/pipeline/"),
        ("linearizability_checker", "checker/logwitness/models/"),
        ("z3", "spec/logspec/"),
        ("numba", "checker/logwitness/checks/"),
    ],
)
def test_what_an_extra_brings_is_imported_in_one_room(foreign: str, room: str) -> None:
    """Also in a function, and by a package that has no contract about it."""
    imported = re.compile(rf"^\s*(?:from|import) {foreign}\b", re.MULTILINE)
    found = {path for path, text in texts().items() if imported.search(text)}
    own = PACKAGES.get(foreign, room)
    assert {path for path in found if not path.startswith((room, f"{own}/"))} == set()


MEANT = {
    "impl/quorumlog/node/configuration.py": "which protocol is meant where nothing says which",
    "impl/quorumlog/cluster/groups.py": "Raft groups, on which other protocols build",
    "spec/logspec/tlc.py": "a typical run of TLC",
}
"""Shared modules that name a protocol, and why."""


def test_what_protocols_share_names_none_of_them() -> None:
    """Neither in a list nor in a condition: in rooms of their own, and in what says that it is theirs."""
    words = "|".join({word for name in names() for word in (name, name.replace("-", "_"))})
    called = re.compile(rf"(?<!`)[\"']({words})[\"']")
    of_one = re.compile(rf"/({words})(/|\.py$)")
    its_own = re.compile(r"^(PROOF|FOLLOWER) = ", re.MULTILINE)
    shared = {path: text for path, text in texts().items() if not of_one.search(path) and not its_own.search(text)}
    docstrings = re.compile(r'"""[^"]*(?:"[^"]+)*"""')
    assert {path for path, text in shared.items() if called.search(docstrings.sub("", text))} == {*MEANT}


ROW = {
    "checker/logwitness/checks/chain/heads.py": """
from logwitness.checks.contract import Check, Family
CHECK = Check(id="one-head", rule="R.", source=("raft.md#acks",), fact="a head", sentence="Node {node} was a head.")
FAMILY = Family("heads", (CHECK,), frozenset(), (), lambda setting: None)
""",
    "checker/logwitness/checks/chain/__init__.py": "",
    "spec/logspec/chain_traces.py": """
from logspec.followers import Follower
FOLLOWER = Follower(module="chain/TraceChain.tla", traces="chains", read=lambda run, name: [], follow=lambda *_: None)
""",
    "spec/logspec/proofs/chains.py": """
from logspec.proofs.claims import Proof
PROOF = Proof("chains", (), "C.", lambda rules, dropped: {}, protocol="chain")
""",
    "spec/chain/Chain.tla": "---- MODULE Chain ----\n====\n",
    "spec/chain/models.yaml": "models: {chains: {module: chain/Chain, init: I, next: N, expect: holds}}\n",
    "spec/chain/catalogue.yaml": (
        "invariants: [{id: one-head, says: O., source: [c], tla: [d], proof: [e], checks: [f], mutants: [g]}]\n"
    ),
}
"""What a row adds in the columns of the checker and of the specification."""
SEEN = """
from logspec.catalogue import read_catalogue
from logspec.followers import followers
from logspec.models import load_models
from logspec.proofs import PROOFS
from logwitness.checks import all_checks
print("chain" in {each.protocol for each in followers()}, PROOFS["chains"].protocol, "chains" in load_models())
print({row.protocol for row in read_catalogue().rows if row.id == "one-head"})
print("one-head" in {each.id for each in all_checks()})
"""


@pytest.mark.slow
def test_a_row_is_new_files(tmp_path: Path) -> None:
    """Its checks, followers of traces, proofs, models and invariants are found where they are put."""
    for name in ("checker/logwitness", "spec"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in ROW.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    path = os.pathsep.join(str(tmp_path / name) for name in ("checker", "spec"))
    words = [sys.executable, "-c", SEEN]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["True chain True", "{'chain'}", "True"], done.stderr
