"""A server lists who the members are: at each of its discoveries those that it has not listed yet.

How often it looks is known; how much time has passed for it, its lag reports tell, which go by the same clock.

Sources: pull-queries.md#members-are-listed, pull-queries.md#discovery.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np

from loghistory.schema import END_KINDS, Kind

from ..codes import code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting
from .protocol import PULL_QUERIES, Assigned, ServerFold, overdue, said

CHECK = Check(
    id="members-are-listed",
    rule="A server lists every other member of the assignment that it goes by.",
    source=("pull-queries.md#members-are-listed", "pull-queries.md#discovery"),
    fact="a lag report of a server that goes by an assignment, for each other member that has served",
    sentence="Node {node} made {reports:lag report|lag reports}, one every {interval} ms, since it goes by an "
    "assignment with member {host}, but has not listed node {peer}.",
    kinds=(Kind.SERVE, Kind.ASSIGNED, Kind.REPORT),
    columns=("node",),
)

_KINDS = frozenset({Kind.SERVE, Kind.ASSIGNED, Kind.LISTED, Kind.REPORT}) | END_KINDS
_IS_WANTED = lookup(_KINDS)
_SERVE, _ASSIGNED, _LISTED, _REPORT = map(code, (Kind.SERVE, Kind.ASSIGNED, Kind.LISTED, Kind.REPORT))


class _Intervals(msgspec.Struct, frozen=True):
    """How often a server looks who the members are, in milliseconds."""

    discover: int = 2000


@dataclass(slots=True)
class _Life:
    """How often a process looks who is there, whom it has listed; of each member when it came, how many reports ago."""

    discover: int
    listed: set[int] = field(default_factory=set)
    members: dict[str, tuple[int, int]] = field(default_factory=dict)


class DiscoveryFold(ServerFold):
    """Judges whom the servers of one run list; see the module."""

    checks = (CHECK,)
    reads = ("node", "peer", "value")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._tally = self._tallies[CHECK.id]
        self._lives: dict[int, _Life] = {}

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        which = np.flatnonzero(_IS_WANTED.take(columns.kind))
        for seq, kind, node, peer, value in columns.rows(which, "seq", "kind", "node", "peer", "value"):
            life = self._lives.get(node)
            if kind == _SERVE:
                self._hosts.serve(node, value)
                announced = said(self._words, value, _Intervals)
                self._lives[node] = _Life(announced.discover if announced is not None else 0)
            elif life is None:
                continue
            elif kind == _LISTED:
                life.listed.add(peer)
            elif kind == _REPORT:
                self._reported(seq, node, life)
            elif kind == _ASSIGNED:
                assigned = said(self._words, value, Assigned)
                if assigned is not None:
                    life.members = {host: life.members.get(host, (seq, 0)) for host in assigned.members}
            else:
                del self._lives[node]

    def _reported(self, seq: int, node: int, life: _Life) -> None:
        server = self._hosts.servers.get(node)
        if server is None or not server.lag_reports or life.discover < 1:
            return
        for host, (since, reports) in life.members.items():
            peer = self._hosts.nodes.get(host, node)
            if peer == node:
                continue
            self._tally.judged += 1
            if peer in life.listed:
                continue
            late = reports * server.lag_report > overdue(life.discover)
            if late:
                every, made = server.lag_report, reports + 1
                self._tally.violation(
                    since, seq, rests_on=(Kind.LISTED,), node=node, peer=peer, host=host, interval=every, reports=made
                )
            life.members[host] = since, 0 if late else reports + 1


FAMILY = Family(
    "pull_queries_discovery",
    (CHECK,),
    _KINDS,
    DiscoveryFold.reads,
    DiscoveryFold,
    PULL_QUERIES,
    reads_texts=True,
)
