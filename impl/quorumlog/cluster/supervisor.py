"""A cluster of nodes of a replicated log on this machine.

async with Cluster(directory, nodes=3, seed=7) as cluster:
    client = await cluster.client(0)
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quorumlog.cluster.client import NodeClient
from quorumlog.cluster.processes import ClusterError, Processes, journal_of
from quorumlog.node.incarnation import INCARNATION
from quorumlog.node.recording import HistoryFile

NODE_COMMAND = (sys.executable, "-m", "quorumlog.node")


class Cluster(Processes):
    """See `Processes`. ``settings`` are fields of `quorumlog.node.configuration.NodeConfiguration` that all nodes
    share: protocol, timing, retention and the like. ``name`` is the cluster's, which its nodes insist on.
    The parameters are many because each is a setting of its own; all but three have defaults."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int,
        seed: int,
        settings: Mapping[str, Any] | None = None,
        record: bool = True,
        recorder: HistoryFile | None = None,
        command: Sequence[str] = NODE_COMMAND,
        ended: Callable[[int, int], None] | None = None,
        loses_power: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            directory,
            nodes=nodes,
            command=command,
            record=record,
            recorder=recorder,
            ended=ended,
            loses_power=loses_power,
        )
        self.name = name or f"cluster-{seed}-{os.getpid()}"
        self._seed = seed
        self._settings = dict(settings or {})
        self.least_session = 0
        """Of a node that is wiped from now on: more than the revision of any change of the members so far."""

    def configuration(self, node: int) -> dict[str, Any]:
        """The configuration file of a node."""
        return {
            "node": node,
            "cluster": self.name,
            "addresses": {str(other): f"{host}:{port}" for other, (host, port) in enumerate(self.addresses)},
            "data": f"node-{node}",
            "history": self.histories.name if self._record else None,
            "journal": journal_of(node) if self._loses_power else None,
            "seed": self._seed,
            **self._settings,
        }

    def wipe(self, node: int) -> None:
        """Remove what a node that is down has stored, but for how often it was started; see `least_session`."""
        for path in (self.directory / f"node-{node}").iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != INCARNATION:
                path.unlink()
        shutil.rmtree(self.directory / journal_of(node), ignore_errors=True)  # it begins anew with what is left
        file = self.directory / f"node-{node}.json"
        others = [other for other in self.nodes if other != node]
        changed = {"voters": others, "least_session": self.least_session}
        file.write_text(json.dumps({**json.loads(file.read_text()), **changed}, indent=2) + "\n")

    async def answers(self, node: int) -> None:
        """Return if the node answers. Raises OSError if it does not."""
        (await self.client(node)).close()

    async def client(self, node: int, group: int = 0) -> NodeClient:
        """Connect to a node, to ask one of its groups. Raises OSError."""
        return await NodeClient.connect(self.addresses[node], self.name, self.clock, group)


__all__ = ["Cluster", "ClusterError"]
