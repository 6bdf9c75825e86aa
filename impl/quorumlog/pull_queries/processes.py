"""The processes of servers of pull queries, under a supervisor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from quorumlog.cluster.log_client import LogPlace
from quorumlog.cluster.processes import Processes
from quorumlog.node.recording import HistoryFile
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.server_client import LostError, RefusedError, ServerClient

SERVER_COMMAND = (sys.executable, "-m", "quorumlog.pull_queries.server")


class Servers(Processes):
    """See `Processes`. ``logs`` are the groups that feed them; ``settings`` further fields of `ServerConfiguration`
    that all share, ``of_each`` those of single servers."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int,
        server: Configuration,
        logs: Mapping[str, LogPlace],
        settings: Mapping[str, Any] | None = None,
        of_each: Mapping[int, Mapping[str, Any]] | None = None,
        recorder: HistoryFile | None = None,
        ended: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(directory, nodes=nodes, command=SERVER_COMMAND, ports=2, recorder=recorder, ended=ended)
        self._server, self._logs, self._settings = server, logs, settings or {}
        self._of_each = {} if of_each is None else of_each
        self.hosts = [f"{host}:{port}" for (host, port), _ in self.places]
        """Their names."""
        self.public = [f"{host}:{port}" for _, (host, port) in self.places]
        """Where clients ask them."""
        self.numbers = {host: number for number, host in enumerate(self.hosts)}

    def configuration(self, node: int) -> dict[str, Any]:
        """The configuration file of a server."""
        return {
            "node": node,
            "internal": self.hosts[node],
            "public": self.public[node],
            "data": f"node-{node}",
            "servers": {str(number): host for number, host in enumerate(self.hosts)},
            "logs": msgspec.to_builtins(self._logs, str_keys=True),
            "server": msgspec.to_builtins(self._server),
            "history": self.histories.name,
            **self._settings,
            **self._of_each.get(node, {}),
        }

    def arguments(self, node: int) -> list[str]:
        """None: what a server did last and could not record stays unknown."""
        return []

    async def answers(self, node: int) -> None:
        """Return if the server answers. Raises OSError if it does not."""
        try:
            async with ServerClient(self.clock) as client:
                await client.cluster_status(self.public[node])
        except (RefusedError, LostError) as error:
            raise OSError(str(error)) from None
