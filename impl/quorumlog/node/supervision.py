"""What a node shares with the supervisor that started it: the supervisor's stamp, its orders, the exit statuses.

Orders come as one JSON object per line on the node's standard input; its end means that the supervisor is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from quorumlog.node.wire import Stamp

STOPPED = 0
"""Exit status of a node that stopped as it was asked to (SIGTERM, SIGINT, end of the supervisor)."""
UNUSABLE = 2
"""Exit status when the configuration, the port or the contents of the disk cannot be used."""
DISK_FAILED = 4
"""Exit status when the disk failed while the node ran (full, failing sync)."""
FAULT = 70
"""Exit status of an internal error."""


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line from the supervisor.

    ``mute``: nodes to which nothing is sent from now on, in place of the ones before (cut links). ``jump``: by how much
    the clock that the node goes by jumps ahead, in nanoseconds. ``effects``: the process ends by SIGKILL after so many
    effects of the next step that has more.
    """

    mute: list[int] | None = None
    jump: int = 0
    effects: int | None = None


class Supervisor(NamedTuple):
    """Who started this process: its number, and a hybrid clock stamp that everything here is later than.

    ``ended``: by incarnation the stamp before the recorded end of a life that could not record all that it did.
    """

    process: int
    after: Stamp
    ended: Mapping[int, Stamp] = MappingProxyType({})
