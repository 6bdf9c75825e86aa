"""The configuration file of a node process: one JSON object, read strictly, with errors of one line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from quorumlog.node.real_protocol import UnknownProtocolError, real_protocol
from quorumlog.storage.log import SEGMENT_BYTES

LEAST_RETENTION = 4096
"""Fewest bytes of log that may be kept."""
LEAST_SEGMENT = LEAST_RETENTION // 4
"""Fewest bytes at which a segment of a log may end."""
MAX_NODES = 31
MAX_GROUPS = 1000
"""Largest number of nodes in a group; they are numbered from 0."""


class ConfigurationError(ValueError):
    """A configuration that cannot be used: one line with the file, the field and the remedy."""


class NodeConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node's place and files.

    ``addresses`` names every node, this one included, as ``host:port`` (IPv4). ``voters`` are those that the group
    begins with, null for all; others can be added to it. ``least_session`` is for a node on an empty disk under the
    name of one that lost its own: more than the revision of any change of the members so far. ``data`` is the directory
    of its disk, ``history`` the directory of history files or null for none. Relative paths are taken from the file's
    directory.
    ``seed`` decides the jitter of its timers. ``cluster`` is any name; nodes of other clusters are refused.
    ``protocol`` is a name of `real_protocols`, ``timing`` that protocol's times in milliseconds and its choices.
    ``retention`` is how many bytes of log to keep: whole segments of committed entries before them are removed. Null
    keeps everything.
    ``largest_segment`` is the size in bytes at which a segment of the log is followed by a new one; only what is in the
    segments before the last one is removed, by retention or compaction.
    ``groups`` is how many groups of the protocol the process holds, each with a log of its own.
    ``journal`` is the directory of a `PowerDisk`, for runs that cut the power; null for an ordinary disk.
    """

    node: int
    addresses: dict[int, str]
    data: str
    voters: tuple[int, ...] | None = None
    least_session: int = 0
    protocol: str = "raft"
    groups: int = 1
    cluster: str = "quorumlog"
    history: str | None = None
    seed: int = 0
    write_caching: bool = False
    retention: int | None = None
    largest_segment: int = SEGMENT_BYTES
    journal: str | None = None
    timing: dict[str, int | bool] = msgspec.field(default_factory=dict)

    def address(self, node: int) -> tuple[str, int]:
        """Host and port of a node."""
        host, _, port = self.addresses[node].rpartition(":")
        return host, int(port)

    @property
    def cluster_key(self) -> bytes:
        """The eight bytes that represent the cluster's name in a hello."""
        return cluster_key(self.cluster)

    @property
    def segment_bytes(self) -> int:
        """At what size a segment of the log is followed by a new one: at most a quarter of what is kept."""
        return self.largest_segment if self.retention is None else min(self.largest_segment, self.retention // 4)


def cluster_key(cluster: str) -> bytes:
    """The eight bytes that represent a cluster's name in a hello."""
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
    journal = None if found.journal is None else str(here / found.journal)
    return msgspec.structs.replace(found, data=str(here / found.data), history=history, journal=journal)


def _problem(found: NodeConfiguration) -> str | None:
    if not found.addresses or any(not 0 <= node < MAX_NODES for node in found.addresses):
        return f"addresses: give each node by a number from 0 to {MAX_NODES - 1}"
    if found.node not in found.addresses:
        return f"node: {found.node} is not in addresses ({', '.join(map(str, sorted(found.addresses)))})"
    for node, address in found.addresses.items():
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            return f"addresses: {address!r} of node {node} is not host:port"
    if found.voters is not None and (not found.voters or not {*found.voters} <= found.addresses.keys()):
        return f"voters: name some of the nodes in addresses ({', '.join(map(str, sorted(found.addresses)))}), or null"
    if not 1 <= found.groups <= MAX_GROUPS:
        return f"groups: {found.groups} is out of range; it may be 1 to {MAX_GROUPS}"
    if found.retention is not None and found.retention < LEAST_RETENTION:
        return f"retention: {found.retention} is too little; give at least {LEAST_RETENTION} bytes, or null"
    if found.largest_segment < LEAST_SEGMENT:
        return f"largest_segment: {found.largest_segment} is too little; give at least {LEAST_SEGMENT} bytes"
    try:
        protocol = real_protocol(found.protocol)
        if found.groups > 1 and protocol.grouped is None:
            return f"groups: {found.protocol} runs one group in each process; leave it out"
        msgspec.convert(found.timing, protocol.timing)
    except UnknownProtocolError as error:
        return str(error)
    except msgspec.ValidationError as error:
        return f"timing: {error}"
    return None
