"""Highly available pull queries, as the record by which everything else finds them."""

from __future__ import annotations

from quorumlog.protocol import Protocol
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.mutants import MUTANTS
from quorumlog.pull_queries.rules import REFERENCE
from quorumlog.pull_queries.settings import SETTINGS, PullConfiguration
from quorumlog.pull_queries.simulated import PullCluster

PROTOCOL = Protocol(
    name="pull-queries",
    documents=(
        "documents.md#pull-queries-failure-detection",
        "documents.md#pull-queries-lag-reporting",
        "documents.md#pull-queries-lag-aware-routing",
    ),
    core=ServerCore,
    rules=REFERENCE,
    configuration=PullConfiguration,
    settings=SETTINGS,
    stage=PullCluster,
    mutants=MUTANTS,
)
