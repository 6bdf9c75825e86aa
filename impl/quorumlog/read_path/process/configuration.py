"""The configuration file of a process of the read path: one JSON object, read strictly, with errors of one line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from quorumlog.cluster.log_client import Address, LogPlace, address
from quorumlog.node.framing import MAX_FRAME_BYTES
from quorumlog.read_path.configuration import ReaderSettings, SequencerSettings, ShardSettings
from quorumlog.read_path.core import Role
from quorumlog.read_path.nodeset import Location, scopes_of

Positive = Annotated[int, msgspec.Meta(ge=1)]


class BadConfigurationError(ValueError):
    """A configuration that cannot be used: one line with the file, the field and the remedy."""


class ProcessConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process's place, role and files.

    ``addresses`` and ``roles`` are those of all processes by number, ``cluster`` is a name on which they insist; the
    shards come first, and ``locations`` says where each is. ``internal`` is the group that keeps the log of epochs,
    metadata and events, which is looked at every ``poll`` milliseconds. ``data`` is the directory of the disk,
    ``history`` that of history files or null for none, ``journal`` that of a `PowerDisk`, for runs
    that cut the power, or null; relative paths are taken from the file's directory. The nodeset
    of a new epoch has all shards, or by a chance of ``nodeset_changes`` leaves out up to ``spare`` of them; copysets
    satisfy ``replication``. ``seed`` decides by chance what is left to chance.
    """

    node: int
    cluster: str
    addresses: dict[int, Address]
    roles: dict[int, Role]
    locations: dict[int, Location]
    internal: LogPlace
    data: str
    history: str | None = None
    journal: str | None = None
    replication: dict[str, Positive]
    spare: Annotated[int, msgspec.Meta(ge=0)] = 0
    nodeset_changes: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    poll: Positive = 25
    seed: int = 0
    reader: ReaderSettings = ReaderSettings()
    shard: ShardSettings = ShardSettings()
    sequencer: SequencerSettings = SequencerSettings()

    @property
    def role(self) -> Role:
        """What this process does, by its number."""
        return self.roles[self.node]

    def numbers(self, role: Role) -> tuple[int, ...]:
        """The numbers of the processes with a role, in ascending order."""
        return tuple(sorted(number for number, each in self.roles.items() if each is role))

    @property
    def largest_payload(self) -> int:
        """Bytes that an append may have, so that all copies which a recovery may have to read fit into one message."""
        return MAX_FRAME_BYTES // (4 * self.sequencer.in_flight)


def load(path: Path) -> ProcessConfiguration:
    """Read and check a configuration file. Raises `BadConfigurationError`."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ProcessConfiguration)
    except OSError as error:
        raise BadConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadConfigurationError(f"{path}: {error}") from None
    problem = _problem(found)
    if problem is not None:
        raise BadConfigurationError(f"{path}: {problem}")
    here = path.resolve().parent
    history, journal = (None if each is None else str(here / each) for each in (found.history, found.journal))
    return msgspec.structs.replace(found, data=str(here / found.data), history=history, journal=journal)


def _problem(found: ProcessConfiguration) -> str | None:
    if found.addresses.keys() != found.roles.keys() or found.node not in found.roles:
        return f"roles: give each process of addresses its role, number {found.node} included"
    shards = found.numbers(Role.SHARD)
    if shards != tuple(range(len(shards))) or not 1 <= len(shards) <= 62:
        return "roles: number the shards from 0 on; there may be 62"
    if tuple(sorted(found.locations)) != shards:
        return f"locations: give one for each shard, 0 to {len(shards) - 1}"
    for place in (*found.addresses.values(), *found.internal.nodes.values()):
        if address(place)[1] > 65535:
            return f"{place!r} is not host:port"
    if not found.internal.nodes:
        return "internal.nodes: give the address of each node of the group"
    try:
        scopes_of(found.replication, found.locations)
    except ValueError as error:
        return str(error)
    if max(found.replication.values()) > len(shards) - found.spare:
        return f"replication: {found.replication} is more than the shards of a nodeset"
    return None
