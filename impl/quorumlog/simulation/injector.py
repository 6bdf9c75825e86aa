"""Carries a fault plan out in virtual time, on anything that offers `Surroundings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quorumlog.faults import Fault, Plan, Target
from quorumlog.simulation.loop import Simulation


class Surroundings(Protocol):
    """What an `Injector` needs of the cluster; pairs of `begin` and `end` may nest and overlap."""

    def resolve(self, target: Target) -> Sequence[int]:
        """The nodes that a number or a word means now; empty if there is none."""

    def begin(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """Begin a fault on these nodes; ``token`` identifies it in `end`."""

    def end(self, fault: Fault, nodes: Sequence[int], token: int) -> None:
        """End a fault, given the same fault, nodes and token as in `begin`."""


class Injector:
    """Carries a plan out: `begin` at each fault's time, `end` when it is over or at `heal`."""

    def __init__(self, simulation: Simulation, surroundings: Surroundings, plan: Plan, nodes: Sequence[int]) -> None:
        self._simulation = simulation
        self._surroundings = surroundings
        self._all = tuple(nodes)
        self._open: dict[int, tuple[Fault, tuple[int, ...]]] = {}
        self._healed = False
        for token, fault in enumerate(plan):
            simulation.at(fault.at, self._begin, fault, token)

    def heal(self) -> None:
        """End every fault that lasts, and begin no more."""
        self._healed = True
        for token in sorted(self._open):
            self._end(token)

    def _begin(self, fault: Fault, token: int) -> None:
        if self._healed:
            return
        if fault.nodes:
            found = {node for target in fault.nodes for node in self._surroundings.resolve(target)}
            nodes = tuple(node for node in self._all if node in found)
            if not nodes:
                return
        else:
            nodes = self._all
        self._open[token] = (fault, nodes)
        self._surroundings.begin(fault, nodes, token)
        self._simulation.after(fault.lasting, self._end, token)

    def _end(self, token: int) -> None:
        fault_and_nodes = self._open.pop(token, None)
        if fault_and_nodes is not None:
            self._surroundings.end(*fault_and_nodes, token)
