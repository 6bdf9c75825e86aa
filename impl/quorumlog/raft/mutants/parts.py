"""How a mutant is made: the reference with other rules, or on nodes with another log, vote file or disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from quorumlog.events import CoreFactory
from quorumlog.raft.core import RaftCore
from quorumlog.raft.nodes import RaftNode
from quorumlog.raft.restored import StateMachine
from quorumlog.raft.rules import REFERENCE
from quorumlog.raft.simulated import RaftCluster
from quorumlog.storage.log import Log
from quorumlog.storage.simulated import SimulatedDisk
from quorumlog.storage.vote import VoteStore


def with_rules(**changed: Callable[..., Any]) -> CoreFactory:
    """A factory of cores whose rules are the reference's except for these; raises TypeError for an unknown rule."""
    return partial(RaftCore, rules=replace(REFERENCE, **changed))


def on_nodes(
    *,
    log: type[Log] = Log,
    votes: type[VoteStore] = VoteStore,
    machine: type[StateMachine] = StateMachine,
    disk: type[SimulatedDisk] = SimulatedDisk,
) -> type[RaftCluster]:
    """Simulated clusters whose nodes keep their log, their vote, their snapshots or their files in another way."""

    class Node(RaftNode):
        log_type = log
        votes_type = votes
        machine_type = machine
        disk_type = disk

    class Cluster(RaftCluster):
        node_type = Node

    return Cluster
