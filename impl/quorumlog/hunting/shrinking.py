"""Making a rejected run small: few faults, a short load, few clients, and another schedule if that helps.

A run that lost one of its faults goes another way from there on, and what it showed is gone, although the faults that
are left could show it as well. So a smaller plan is played under several schedules (the same configuration, other
delays and operations) before it is given up. First whole parts of the plan are left out (delta debugging), then a few
faults are tried alone, those first that were last before the violation.
"""

from __future__ import annotations

import time
from random import Random

from msgspec.structs import replace

from quorumlog.durations import MILLISECOND
from quorumlog.faults import Plan, shrink
from quorumlog.hunting.judge import Candidate, Rejection, judge_run
from quorumlog.simulation.configuration import ClusterConfiguration

ATTEMPTS = 150
_SECONDS = 120.0
"""Of processor time, after which no further run is played."""
FEW = 3
"""Faults that a person takes in at a glance."""

_SCHEDULES = 1 << 16


def shrunk(candidate: Candidate, found: Rejection, attempts: int = ATTEMPTS) -> Rejection:
    """The same seed with as little as still causes a rejection: by the same check, or by any of a mutant's."""
    shrinking = _Shrinking(candidate, found, attempts)
    shrinking.cut()
    shrinking.leave_out()
    shrinking.try_few()
    shrinking.leave_out()
    shrinking.load_less()
    return shrinking.best


class _Shrinking:
    """The smallest rejection so far, and how many more runs may be played."""

    def __init__(self, candidate: Candidate, found: Rejection, attempts: int) -> None:
        self.best = found
        self._candidate = candidate
        self._check = found.check
        self._left = attempts
        self._until = time.process_time() + _SECONDS
        self._random = Random(found.seed)

    def cut(self) -> None:
        """End the load where the run was stopped; what was to come after it needs no run to be left out."""
        best, configuration = self.best, self.best.configuration
        if 0 < best.time < configuration.duration:
            plan = tuple(fault for fault in best.plan if fault.at < best.time)
            shorter = replace(configuration, duration=best.time // MILLISECOND * MILLISECOND + MILLISECOND, plan=plan)
            if not self._fails(shorter):
                self._fails(replace(configuration, plan=plan))

    def leave_out(self) -> None:
        """Leave out as many faults as can be without another schedule."""
        configuration = self.best.configuration
        if self.best.plan:
            shrink(self.best.plan, lambda plan: self._fails(replace(configuration, plan=plan)), self._left // 3)

    def try_few(self) -> None:
        """Try a few faults of the plan, under other schedules, until there are only so many."""
        while len(self.best.plan) > FEW and self._left > ATTEMPTS // 10:
            schedule = self._random.randrange(_SCHEDULES)
            self._fails(replace(self.best.configuration, plan=self._few(self.best.plan), schedule=schedule))

    def _few(self, plan: Plan) -> Plan:
        """At most `FEW` of these faults; the later ones, nearer to what was seen, are more likely."""
        keys = [self._random.random() ** (1 / (place + 1)) for place in range(len(plan))]
        chosen = sorted(range(len(plan)), key=keys.__getitem__)[-self._random.choice((1, 2, FEW, FEW)) :]
        return tuple(plan[place] for place in sorted(chosen))

    def load_less(self) -> None:
        """Fewer clients and a shorter load, as long as that shows it too."""
        for clients in (1, 2, 3):
            configuration = self.best.configuration
            if clients < configuration.workload.clients:
                fewer = replace(configuration, workload=replace(configuration.workload, clients=clients))
                if self._fails(fewer):
                    break
        self.cut()

    def _fails(self, configuration: ClusterConfiguration) -> bool:
        """Whether a run is rejected as it should be; it is the best one then."""
        if self._left <= 0 or time.process_time() > self._until:
            return False
        self._left -= 1
        judged = judge_run(self._candidate, self.best.seed, self.best.setting, configuration)
        for rejection in judged.rejections:
            if self._candidate.mutant is not None or rejection.check == self._check:
                self.best = rejection
                return True
        return False


__all__ = ["shrunk"]
