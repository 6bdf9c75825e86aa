"""The cores of the read path by role, as the driver makes them: `make_core(Role.READER, ...)`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from quorumlog.read_path.reader import ReaderCore
from quorumlog.read_path.rules import REFERENCE, Rules
from quorumlog.read_path.sequencer import SequencerCore
from quorumlog.read_path.shard import ShardCore


class Role(StrEnum):
    """What a process does: it stores copies, writes the records of clients, or reads."""

    SHARD = "shard"
    SEQUENCER = "sequencer"
    READER = "reader"


CORES: Mapping[Role, Any] = {Role.SHARD: ShardCore, Role.SEQUENCER: SequencerCore, Role.READER: ReaderCore}


def make_core(
    role: Role,
    *arguments: Any,  # noqa: ANN401
    rules: Rules = REFERENCE,
    cores: Mapping[Role, Any] = CORES,
    **named: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """The core of a process in a role, with that role's arguments; ``cores``: which ones, if not the reference's."""
    return {**CORES, **cores}[role](*arguments, rules=rules, **named)
