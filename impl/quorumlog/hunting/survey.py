"""A hunt that ends after so many processor seconds, and says what it took: for surveys of all mutants."""

from __future__ import annotations

import time
from typing import NamedTuple

from quorumlog.hunting.judge import Candidate, judge_seed


class Hunted(NamedTuple):
    """How a hunt ended: the check that noticed (empty: none did), the last seed tried, and what it took.

    ``time`` is the virtual time at which the rejected run was stopped.
    """

    candidate: Candidate
    check: str
    seed: int
    processor_seconds: float
    time: int = 0


def hunted(candidate: Candidate, *, budget: float) -> Hunted:
    """Hunt a mutant in this process, until a run is rejected, its seeds are tried or so many processor seconds spent.

    Kernels that are compiled meanwhile count as well.
    """
    began, took, seed = time.process_time(), 0.0, -1
    for seed in range(candidate.of.mutants[candidate.mutant or ""].seeds):
        rejections = judge_seed(candidate, seed).rejections
        took = time.process_time() - began
        if rejections:
            return Hunted(candidate, rejections[0].check, seed, took, rejections[0].time)
        if took > budget:
            break
    return Hunted(candidate, "", seed, took)


__all__ = ["Hunted", "hunted"]
