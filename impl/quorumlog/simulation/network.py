"""A simulated network: links with delay, loss, duplication, reordering, cut in one or both directions.

A link is directed. Without faults it is a stream: messages arrive in the order in which they were sent.
A *straggler* leaves that order: it, or a second copy of it, arrives any time within ``straggle`` nanoseconds,
as happens when a connection is lost and replaced. A cut link loses what is sent from then on; what was in flight
arrives. Cuts are counted, so that overlapping partitions heal one by one. Knows no protocol: a message is any object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec

from quorumlog.durations import Pause
from quorumlog.simulation.loop import Simulation

Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]

Pair = tuple[int, int]
"""A directed link: (source, target)."""


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The condition of a directed link: times in nanoseconds, the rest probabilities for each message."""

    delay: Pause = 400_000
    jitter: Pause = 600_000
    loss: Probability = 0.0
    duplicate: Probability = 0.0
    reorder: Probability = 0.0
    straggle: Pause = 200_000_000

    def worsened(self, by: Link) -> Link:
        """Both conditions at once: delays add up, the larger of two probabilities holds."""
        return Link(
            delay=self.delay + by.delay,
            jitter=self.jitter + by.jitter,
            loss=max(self.loss, by.loss),
            duplicate=max(self.duplicate, by.duplicate),
            reorder=max(self.reorder, by.reorder),
            straggle=max(self.straggle, by.straggle),
        )


UNIMPAIRED = Link(delay=0, jitter=0, straggle=0)
"""A link that worsens nothing; faults are built from it with ``msgspec.structs.replace``."""


class Network:
    """Carries messages between numbered hosts; ``deliver(source, target, message)`` is called at arrival."""

    __slots__ = (
        "_arrivals",
        "_base",
        "_cuts",
        "_impairments",
        "_links",
        "_random",
        "_simulation",
        "deliver",
        "sent",
    )

    def __init__(
        self,
        simulation: Simulation,
        deliver: Callable[[int, int, object], None],
        link: Link,
        stream: str = "network",
    ) -> None:
        self.deliver = deliver
        self.sent = 0
        self._simulation = simulation
        self._random = simulation.random(stream).random
        self._base = link
        self._cuts: dict[Pair, int] = {}
        self._impairments: dict[int, tuple[frozenset[Pair] | None, Link]] = {}
        self._links: dict[Pair, Link] = {}
        self._arrivals: dict[Pair, int] = {}

    def send(self, source: int, target: int, message: object) -> None:
        """Hand a message to the link; it arrives later, twice, or never."""
        self.sent += 1
        pair = (source, target)
        if pair in self._cuts:
            return
        link = self._links.get(pair)
        if link is None:
            link = self._links[pair] = self._condition(pair)
        random = self._random
        if link.loss and random() < link.loss:
            return
        simulation = self._simulation
        delay = link.delay + int(random() * link.jitter)
        if link.reorder and random() < link.reorder:
            delay += int(random() * link.straggle)
        else:
            # A stream: nothing overtakes what was sent before it.
            arrival = max(simulation.now + delay, self._arrivals.get(pair, 0))
            self._arrivals[pair] = arrival
            delay = arrival - simulation.now
        simulation.after(delay, self.deliver, source, target, message)
        if link.duplicate and random() < link.duplicate:
            simulation.after(delay + int(random() * link.straggle), self.deliver, source, target, message)

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Lose everything sent over these directed links until `mend` has been called as often."""
        for pair in pairs:
            self._cuts[pair] = self._cuts.get(pair, 0) + 1

    def mend(self, pairs: Iterable[Pair]) -> None:
        """Take back one `cut` of each of these links."""
        for pair in pairs:
            left = self._cuts.get(pair, 0) - 1
            if left > 0:
                self._cuts[pair] = left
            else:
                self._cuts.pop(pair, None)

    def impair(self, token: int, by: Link, pairs: Iterable[Pair] | None = None) -> None:
        """Worsen these links, or all of them, until `restore` is called with the same token."""
        self._impairments[token] = (None if pairs is None else frozenset(pairs), by)
        self._links.clear()

    def restore(self, token: int) -> None:
        """Take back one `impair`; unknown tokens are ignored."""
        if self._impairments.pop(token, None) is not None:
            self._links.clear()
            # The connections are new: what is still in flight may be overtaken.
            self._arrivals.clear()

    def _condition(self, pair: Pair) -> Link:
        link = self._base
        for pairs, by in self._impairments.values():
            if pairs is None or pair in pairs:
                link = link.worsened(by)
        return link
