"""What a mutant is: the reference protocol with one thing changed, and what must notice."""

from __future__ import annotations

from dataclasses import dataclass

from quorumlog.simulation.logs import CoreFactory


@dataclass(frozen=True, slots=True)
class Mutant:
    """One known fault.

    ``change`` says it in a line, ``checks`` are the ids of the checks of which one must notice, ``setting`` names
    the runs that bring it out fast (`quorumlog.raft.settings`).
    """

    id: str
    change: str
    checks: tuple[str, ...]
    make_core: CoreFactory
    setting: str
