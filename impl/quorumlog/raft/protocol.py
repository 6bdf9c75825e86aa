"""Raft with flushed and dirty offsets, as the record by which everything else finds it."""

from __future__ import annotations

from pathlib import Path

from quorumlog.protocol import Protocol
from quorumlog.raft.core import RaftCore
from quorumlog.raft.mutants import MUTANTS
from quorumlog.raft.rules import REFERENCE
from quorumlog.raft.settings import SETTINGS, RaftConfiguration
from quorumlog.raft.simulated_groups import stage

PROTOCOL = Protocol(
    name="raft",
    documents=("documents.md#raft-recovery", "documents.md#raft-simplification"),
    core=RaftCore,
    rules=REFERENCE,
    configuration=RaftConfiguration,
    settings=SETTINGS,
    stage=stage,
    mutants=MUTANTS,
    scenarios=Path(__file__).with_name("scenarios.toml"),
    by_default=True,
)
