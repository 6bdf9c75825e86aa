"""Servers of pull queries in the simulator, with the Raft groups that are their logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from loghistory import Recorder
from quorumlog.durations import MILLISECOND
from quorumlog.events import CoreFactory
from quorumlog.pull_queries.assignment import Assignment
from quorumlog.pull_queries.client import QueryClient
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.groups import Group, Shown
from quorumlog.pull_queries.nodes import WALL, ServerNode
from quorumlog.pull_queries.recording import json_text
from quorumlog.pull_queries.records import ASSIGNMENTS, changelog_of, form_of, log_names, source_of
from quorumlog.pull_queries.settings import PullConfiguration
from quorumlog.pull_queries.table import Record
from quorumlog.simulation.cluster import Cluster


class PullCluster(Cluster[PullConfiguration, ServerNode]):
    """Servers, and the Raft groups that hold the assignments, the source logs and the changelogs."""

    node_type: ClassVar[type[ServerNode]] = ServerNode

    def __init__(
        self, seed: int, configuration: PullConfiguration, recorder: Recorder, make_core: CoreFactory = ServerCore
    ) -> None:
        super().__init__(seed, configuration, recorder, make_core)
        self.newest = Assignment()
        """The last valid assignment that the group showed."""
        partitions = configuration.server.partitions
        shown: dict[str, Shown] = {changelog_of(each): self._changed(each) for each in range(partitions)}
        shown[ASSIGNMENTS] = self._assigned
        self.groups = {
            name: Group(self.simulation, configuration.of_a_group(), form_of(name), shown.get(name, lambda _, __: None))
            for name in log_names(partitions)
        }
        self._numbers = {node.name: node.number for node in self.nodes}

    def _assigned(self, _: int, record: Assignment | None) -> None:
        if record is not None and record.epoch == self.newest.epoch + 1:
            self.newest = record

    def _changed(self, partition: int) -> Callable[[int, Any], None]:
        def shown(offset: int, record: Record | None) -> None:
            columns: dict[str, Any] = {"partition": partition, "offset": offset}
            if record is not None:
                columns |= {"epoch": record.epoch, "text": json_text(record)}
            self.record("changelog", columns)

        return shown

    def new_node(self, number: int) -> ServerNode:
        """A server that has not been started."""
        return self.node_type(self, number, self._make_core)

    def new_client(self) -> QueryClient:
        """A client that has not begun to work."""
        return QueryClient(self, self.configuration.workload, self.configuration)

    def number_of(self, host: str) -> int:
        """The number of a server by its name; -1 if there is none."""
        return self._numbers.get(host, -1)

    def start(self) -> None:
        """Start the groups, with the faults that happen to them, and every server that is down."""
        configuration = self.configuration
        for name, group in self.groups.items():
            group.start()
            group.endanger(
                f"faults {name}", configuration.log_faults, configuration.first_fault, configuration.duration
            )
        if configuration.watch:
            self.simulation.after(configuration.watch, self._watch)
        super().start()

    def _watch(self) -> None:
        """Ask every server for the status of the cluster."""
        for node in self.nodes:
            if node.host.running:
                node.show()
        if self.simulation.now < self.configuration.duration:
            self.simulation.after(self.configuration.watch, self._watch)

    def converge(self, limit: int) -> bool:
        """Set all wall clocks right, as healing does, and wait; see `Cluster.converge`."""
        for node in self.nodes:
            node.set_clock(WALL + self.simulation.now // MILLISECOND)
        return super().converge(limit)

    def leader(self) -> ServerNode | None:
        """The active of partition 0, if it runs."""
        number = self.number_of(self.newest.of(0).active)
        return self.nodes[number] if number >= 0 and self.nodes[number].host.running else None

    def agreed(self) -> bool:
        """Whether every server runs, is a member, thinks all others alive, and has folded all that there is."""
        if not self.all_running() or set(self.newest.members) != {node.name for node in self.nodes}:
            return False
        return all(group.agreed() for group in self.groups.values()) and all(map(self._caught_up, self.nodes))

    def _caught_up(self, node: ServerNode) -> bool:
        core = node.core
        if core.assignment != self.newest or not core.ready():
            return False
        alive = all(status.alive for status in core.membership.statuses.values())
        if not alive and core.configuration.silence > 1:  # else any delay makes hosts flap (pull-queries.md#clock-line)
            return False
        for partition, placement in enumerate(self.newest.placements):
            if node.name not in placement.hosts:
                continue
            table = core.tables[partition]
            if (
                table.current != self.groups[changelog_of(partition)].end
                or table.source != self.groups[source_of(partition)].end
            ):
                return False
            if placement.active == node.name and not core.fenced(partition):
                return False
        return True
