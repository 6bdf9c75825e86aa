"""The read path, as the record by which everything else finds it."""

from __future__ import annotations

from quorumlog.protocol import Protocol
from quorumlog.read_path.core import make_core
from quorumlog.read_path.mutants import MUTANTS
from quorumlog.read_path.rules import REFERENCE
from quorumlog.read_path.settings import SETTINGS, ReadPathConfiguration
from quorumlog.read_path.simulated import ReadPathCluster

PROTOCOL = Protocol(
    name="read-path",
    documents=("documents.md#read-path",),
    core=make_core,
    rules=REFERENCE,
    configuration=ReadPathConfiguration,
    settings=SETTINGS,
    stage=ReadPathCluster,
    mutants=MUTANTS,
)
