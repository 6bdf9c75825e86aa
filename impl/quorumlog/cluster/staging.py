"""How a protocol is staged, found by its name.

The stage of a replicated log (`quorumlog.cluster.log_stage`) suits every protocol that has a `RealProtocol`. One that
runs otherwise binds ``STAGING`` in the module ``staged`` of its package, whose name is the protocol's with ``_`` for
``-``; somebody else's is an entry point of the group `ENTRY_POINTS`. Nothing lists them.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import entry_points, requires
from pathlib import Path

import quorumlog
from quorumlog.cluster.log_stage import log_staging
from quorumlog.cluster.processes import ClusterError
from quorumlog.cluster.stage import Staging
from quorumlog.node.real_protocol import UnknownProtocolError, real_protocol, real_protocols

ENTRY_POINTS = "quorumlog.staged_protocols"


def staged_protocols() -> tuple[str, ...]:
    """The names of the protocols that can be run, sorted."""
    return tuple(sorted({*real_protocols(), *_own(), *entry_points(group=ENTRY_POINTS).names}))


def staging(name: str) -> Staging:
    """How a protocol is staged. Raises `UnknownProtocolError`, and `ClusterError` if a library is missing for it."""
    try:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            added: Staging = entry.load()
            return added
        if name in _own():
            found: Staging = import_module(f"quorumlog.{name.replace('-', '_')}.staged").STAGING
            return found
    except ModuleNotFoundError as problem:
        raise ClusterError(f"{name}: {_not_installed(problem)}") from None
    if name not in staged_protocols():
        raise UnknownProtocolError(f"protocol {name!r} is unknown; known are {', '.join(staged_protocols())}")
    return log_staging(real_protocol(name))


def by_default() -> str | None:
    """The protocol that is meant where nothing says which; None if there is none."""
    known = real_protocols()
    return next((name for name in known if len(known) == 1 or real_protocol(name).by_default), None)


def _not_installed(problem: ModuleNotFoundError) -> str:
    """Which module is missing, and the extra of this distribution that brings it, if one does."""
    module = (problem.name or "").partition(".")[0]
    said = f"the module {module} is not installed"
    for line in requires("logwitness") or ():
        brings = re.fullmatch(r"([\w-]+).*; extra == ['\"]([\w-]+)['\"]", line)
        if brings and brings[1] == module:
            return f"{said}: pip install 'logwitness[{brings[2]}]'"
    return said


def _own() -> frozenset[str]:
    roots = map(Path, quorumlog.__path__)
    return frozenset(path.parent.name.replace("_", "-") for root in roots for path in root.glob("*/staged.py"))
