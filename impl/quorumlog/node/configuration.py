"""The configuration file of a node process: one JSON object, read strictly, with errors of one line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from quorumlog.quorum import Voters
from quorumlog.raft.state import MILLISECOND, Configuration

MAX_NODES = 31
"""Nodes have numbers from 0; a group has at most so many."""


class ConfigurationError(ValueError):
    """A configuration that cannot be used: one line saying which file, which field, and what would be right."""


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times of the protocol in milliseconds."""

    election_timeout: int = 1500
    election_jitter: int = 1500
    heartbeat_interval: int = 150
    flush_delay: int = 100


class NodeConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node's place and files.

    ``addresses`` names every voter, this node included, as ``host:port`` (IPv4). ``data`` is the directory of its disk,
    ``history`` the directory of history files or null for none. Relative paths are taken from the file's directory.
    ``seed`` decides the jitter of its timers. ``cluster`` is any name; nodes of other clusters are refused.
    """

    node: int
    addresses: dict[int, str]
    data: str
    cluster: str = "quorumlog"
    history: str | None = None
    seed: int = 0
    write_caching: bool = False
    timing: Timing = Timing()

    def address(self, node: int) -> tuple[str, int]:
        """Host and port of a node."""
        host, _, port = self.addresses[node].rpartition(":")
        return host, int(port)

    @property
    def cluster_key(self) -> bytes:
        """What stands for the cluster's name in a hello."""
        return cluster_key(self.cluster)

    def core(self) -> Configuration:
        """The part that the protocol core needs."""
        return Configuration(
            self.node,
            Voters(tuple(sorted(self.addresses))),
            election_timeout=self.timing.election_timeout * MILLISECOND,
            election_jitter=self.timing.election_jitter * MILLISECOND,
            heartbeat_interval=self.timing.heartbeat_interval * MILLISECOND,
            flush_delay=self.timing.flush_delay * MILLISECOND,
            write_caching=self.write_caching,
        )


def cluster_key(cluster: str) -> bytes:
    """What stands for a cluster's name in a hello: eight bytes."""
    return hashlib.sha256(cluster.encode()).digest()[:8]


def load(path: Path) -> NodeConfiguration:
    """Read and check a configuration file; raises `ConfigurationError`."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        found = msgspec.json.decode(text, type=NodeConfiguration)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    problem = _problem(found)
    if problem is not None:
        raise ConfigurationError(f"{path}: {problem}")
    here = path.resolve().parent
    history = None if found.history is None else str(here / found.history)
    return msgspec.structs.replace(found, data=str(here / found.data), history=history)


def _problem(found: NodeConfiguration) -> str | None:
    if not found.addresses or any(not 0 <= node < MAX_NODES for node in found.addresses):
        return f"addresses: give each node by a number from 0 to {MAX_NODES - 1}"
    if found.node not in found.addresses:
        return f"node: {found.node} is not in addresses ({', '.join(map(str, sorted(found.addresses)))})"
    for node, address in found.addresses.items():
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            return f"addresses: {address!r} of node {node} is not host:port"
    timing = found.timing
    if min(timing.election_timeout, timing.heartbeat_interval, timing.flush_delay) <= 0 or timing.election_jitter < 0:
        return "timing: times are positive numbers of milliseconds"
    if timing.election_timeout <= timing.heartbeat_interval:
        return "timing: election_timeout must be larger than heartbeat_interval"
    return None
