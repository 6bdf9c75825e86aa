"""What a protocol must provide to run in real processes, as one record, and how records are found by name.

The record of a protocol of this project is ``REAL`` in the module ``real`` of its package, whose name is the protocol's
with ``_`` for ``-``; one of somebody else's is an entry point of the group `ENTRY_POINTS` under its name. Nothing lists
them. They are found apart from `quorumlog.protocol`, because a node's process needs nothing of the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import msgspec

import quorumlog
from quorumlog.node.driver import Driver, Place
from quorumlog.node.wire import Channel
from quorumlog.storage.disk import Disk

ENTRY_POINTS = "quorumlog.real_protocols"


def _nothing_to_begin(disk: Disk) -> None:
    """For a protocol that keeps nothing beside its log."""


class UnknownProtocolError(LookupError):
    """No protocol of this name runs in real processes: one line with the names that exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealProtocol:
    """How a protocol runs in real processes.

    ``messages`` encodes what its nodes send each other, ``grouped`` the same of processes that hold several groups, as
    pairs of a group's number and a message; None: they hold one. ``timing`` holds its times in milliseconds, each with
    a default; it refuses bad ones in ``__post_init__`` with ValueError. ``brisk`` are those that suit short runs on one
    machine. ``drive`` makes the driver of one incarnation from what is on the disk, and raises `StorageError` if that
    cannot be used. ``operations`` (`loghistory.schema.Operation`) is what clients may ask in addition to a final read,
    ``faults`` what a run may do to its nodes (`quorumlog.cluster.stage.Staging`). ``limits`` are those that a judge
    has to know, by name. ``begin`` is called at each start before the log is opened, and raises `StorageError` if what
    the protocol keeps beside it was lost. ``by_default``: it is meant where nothing says which one.
    """

    name: str
    messages: Channel[Any]
    timing: type[msgspec.Struct]
    brisk: Mapping[str, int]
    drive: Callable[[Place], Driver]
    operations: frozenset[str]
    faults: tuple[str, ...]
    grouped: Channel[tuple[int, Any]] | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    begin: Callable[[Disk], None] = _nothing_to_begin
    by_default: bool = False


def real_protocols() -> tuple[str, ...]:
    """The names of the protocols that run in real processes, sorted."""
    house = {path.parent.name.replace("_", "-") for root in quorumlog.__path__ for path in Path(root).glob("*/real.py")}
    return tuple(sorted(house | entry_points(group=ENTRY_POINTS).names))


def real_protocol(name: str) -> RealProtocol:
    """The record of a protocol. Raises `UnknownProtocolError`."""
    known = real_protocols()
    if name not in known:
        raise UnknownProtocolError(f"protocol {name!r} is unknown; known are {', '.join(known)}")
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        added: RealProtocol = entry.load()
        return added
    found: RealProtocol = import_module(f"quorumlog.{name.replace('-', '_')}.real").REAL
    return found
