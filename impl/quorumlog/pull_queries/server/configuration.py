"""The configuration file of a server process: one JSON object, read strictly, with errors of one line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from quorumlog.cluster.log_client import Address, LogPlace, address
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.records import log_names
from quorumlog.pull_queries.rules import UNBOUNDED

Positive = Annotated[int, msgspec.Meta(ge=1)]
Bound = Annotated[int, msgspec.Meta(ge=0, le=UNBOUNDED)]


class BadConfigurationError(ValueError):
    """A configuration that cannot be used: one line with the file, the field and the remedy."""


class ServerConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server's place and files.

    ``internal`` is the address for other servers, by which they also name this one; ``public`` is that for clients.
    ``logs`` has the group of each log (`records.log_names`). ``data`` is the directory of its disk, ``history`` that of
    history files or null for none; relative paths are taken from the file's directory. ``servers`` numbers the servers
    for the history. ``server`` is what the core is told (pull-queries.md#configuration), ``with_bound`` the acceptable
    lag of the table's WITH clause. ``poll`` and ``save`` are milliseconds: between two looks at a log, and between two
    times that the tables are saved; ``read_bytes`` is how much of a log is read at once.
    """

    node: int
    internal: Address
    public: Address
    logs: dict[str, LogPlace]
    data: str
    servers: dict[int, Address]
    server: Configuration = Configuration()
    with_bound: Bound | None = None
    poll: Positive = 25
    save: Positive = 1000
    read_bytes: Positive = 1 << 20
    history: str | None = None


def load(path: Path) -> ServerConfiguration:
    """Read and check a configuration file. Raises `BadConfigurationError`."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ServerConfiguration)
    except OSError as error:
        raise BadConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadConfigurationError(f"{path}: {error}") from None
    problem = _problem(found)
    if problem is not None:
        raise BadConfigurationError(f"{path}: {problem}")
    here = path.resolve().parent
    history = None if found.history is None else str(here / found.history)
    return msgspec.structs.replace(found, data=str(here / found.data), history=history)


def _problem(found: ServerConfiguration) -> str | None:
    wanted = log_names(found.server.partitions)
    if sorted(found.logs) != sorted(wanted):
        return f"logs: give {', '.join(wanted)}, as server.partitions says"
    for name, group in found.logs.items():
        if not group.nodes:
            return f"logs.{name}.nodes: give the address of each node of the group"
    of_groups = [each for group in found.logs.values() for each in group.nodes.values()]
    for place in (found.internal, found.public, *found.servers.values(), *of_groups):
        if address(place)[1] > 65535:
            return f"{place!r} is not host:port"
    if found.servers.get(found.node) != found.internal:
        return f"servers: server {found.node} is not {found.internal!r} there"
    if found.internal == found.public:
        return f"public: {found.public!r} is the address for servers, too; give another port"
    return None
