"""Draws of swarm testing: what of a run is left out, and how much there is of the rest.

Every seed draws a configuration of its own (`ClusterConfiguration.drawn`): a random subset of the faults, rates, sizes
and times over orders of magnitude. A run that has a bit of everything seldom goes far in any direction: what is left
out lets the rest go on undisturbed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from quorumlog.durations import MICROSECOND, MILLISECOND
from quorumlog.faults import CHANGES, KINDS, FaultMix
from quorumlog.simulation.network import Link

_MODERATE = {
    "clock": {"rate": (0.4, 3.0)},
    "clock_jump": {"ms": (10.0, 2000.0)},
    "slow_disk": {"factor": (2.0, 50.0)},
    "kill_midway": {"effects": (1.0, 4.0)},
    "power_loss_midway": {"effects": (1.0, 4.0)},
    "open_error": {"sync": (1.0, 4.0)},
    "trim": {"keep": (1.0, 40.0)},
    "one_way": {"places": (1.0, 4.0)},
    "loss": {"probability": (0.05, 0.7)},
    "duplicate": {"probability": (0.05, 0.7)},
    "reorder": {"probability": (0.05, 0.7)},
    "delay": {"ms": (5.0, 300.0)},
}
"""The ranges that arguments are drawn from; what a fault may be asked for goes further."""

_WHOLE = frozenset({"effects", "sync", "keep", "places"})


_OF_A_GROUP = frozenset({"compact", "transfer", *CHANGES})
_ANY_PROTOCOL = tuple(name for name in KINDS if name not in _OF_A_GROUP)
"""Faults that any protocol may have; those of a group are drawn by a protocol that knows them."""

_CHANGES_LEADER = ("kill", "power_loss", "stop", "pause", *("partition",) * 5)


def between(draw: Random, least: int, most: int) -> int:
    """A whole number between the two, uniform in the logarithm."""
    return round(math.exp(draw.uniform(math.log(least), math.log(most))))


def some(draw: Random, names: Sequence[str], share: float = 0.6) -> dict[str, float]:
    """A weight for each name, which is 0 for those that are left out; at least one is not."""
    drawn = {name: round(draw.uniform(0.2, 5.0), 2) if draw.random() < share else 0.0 for name in names}
    if not any(drawn.values()):
        drawn[draw.choice(names)] = 1.0
    return drawn


def drawn_mix(draw: Random, words: Sequence[str]) -> FaultMix:
    """Which faults there are, how many, for how long, on which of the nodes that ``words`` mean."""
    weights = some(draw, _ANY_PROTOCOL, draw.choice((0.1, 0.2, 0.35, 0.6)))
    # Without a change of the leader nothing that matters can go wrong.
    weights[draw.choice(_CHANGES_LEADER)] = round(draw.choice((0.3, 1.0, 2.0)) * sum(weights.values()), 2)
    weights = {name: weight for name, weight in weights.items() if weight}
    arguments = {}
    for name in weights:
        ranges = _MODERATE.get(name, {})
        drawn = {each: math.exp(draw.uniform(math.log(low), math.log(high))) for each, (low, high) in ranges.items()}
        if drawn:
            arguments[name] = {each: float(round(value, 0 if each in _WHOLE else 3)) for each, value in drawn.items()}
    shortest = between(draw, 10 * MILLISECOND, 100 * MILLISECOND)
    return FaultMix(
        weights=weights,
        per_second=round(math.exp(draw.uniform(math.log(5.0), math.log(25.0))), 1),
        shortest=shortest,
        longest=max(shortest, between(draw, 150 * MILLISECOND, 700 * MILLISECOND)),
        targets={**some(draw, ("any", *words), 0.4), "leader": draw.choice((1.0, 5.0, 20.0))},
        arguments=arguments,
    )


def drawn_link(draw: Random) -> Link:
    """Links that are short or long, steady or not; every other one is a stream that loses nothing."""
    delay, jitter = between(draw, 50 * MICROSECOND, 5 * MILLISECOND), between(draw, 50 * MICROSECOND, 10 * MILLISECOND)
    if draw.random() < 0.5:
        return Link(delay=delay, jitter=jitter)
    return Link(
        delay=delay,
        jitter=jitter,
        loss=draw.choice((0.0, 0.0, 0.02, 0.1)),
        duplicate=draw.choice((0.0, 0.1, 0.3, 0.5)),
        reorder=draw.choice((0.0, 0.1, 0.3, 0.5)),
        straggle=between(draw, 20 * MILLISECOND, 300 * MILLISECOND),
    )
