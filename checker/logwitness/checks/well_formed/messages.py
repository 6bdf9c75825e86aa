"""Messages between nodes: sent before they are received, to the node that receives them, and stamped so.

They are recorded rarely, so this is plain Python. Kept are the last sends, and the last messages that were received
without one: their sender may have been killed before it recorded that, unless it goes on. Source:
history-checks.md#sent-before-received.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ..codes import FAULT, NO_NODE, NULL, START, STOP, TERM
from ..findings import Findings, report
from .rules import CAUSAL, Message

REMEMBERED = 1 << 16
"""Sends, and receives without a send, that are remembered."""


class Stamped(NamedTuple):
    """What the columns say of one end of a message."""

    seq: int
    message: int
    node: int
    f: int
    term: int
    time: int
    logical: int

    def before(self, other: Stamped) -> bool:
        """Whether it is stamped earlier; true if none of them is stamped by a hybrid clock. What states no counter may
        be earlier than all of its time."""
        if NO_NODE in (self.logical, other.logical):
            return self.logical == other.logical or self.time <= other.time
        return (self.time, self.logical) < (other.time, other.logical)


class Messages:
    """The messages under way, and as much of the lives of nodes as tells whether their sends are all recorded."""

    def __init__(self) -> None:
        self._sent: OrderedDict[int, tuple[Stamped, int]] = OrderedDict()
        self._early: OrderedDict[int, Stamped] = OrderedDict()
        self._awaited: dict[int, list[int]] = {}  # by sender, what was received early, until it is heard of again
        self._whole: set[int] = set()  # recorded from the first start on, and never cut off
        self._known: set[int] = set()  # who started or ended
        self._down: dict[int, int] = {}  # by which event; of nodes that have not started since
        self._terms: dict[int, tuple[int, int]] = {}  # the term that a node moved to last, and by which event
        self._starts = False
        self._all_remembered = True

    def life(self, kind: int, node: int, seq: int, term: int, incarnation: int) -> None:
        """A node started, ended, lost its disk (node below 0: one that is not named) or moved to a term."""
        if kind in (START, TERM):
            self._terms[node] = term, seq
        if kind == TERM:
            return
        if kind == START and incarnation == 0 and node not in self._known:
            self._whole.add(node)
        elif (node in self._down) != (kind == START) or kind not in (START, STOP):
            self._whole -= {node} if node >= 0 else {*self._whole}
        self._known.add(node)
        self._awaited.pop(node, None)
        if kind == START:
            self._starts = True
            self._down.pop(node, None)
        elif kind != FAULT:
            self._down.setdefault(node, seq)
            self._terms.pop(node, None)

    def send(self, sent: Stamped, peer: int, found: Findings) -> None:
        """A message was sent to a peer."""
        early = self._early.pop(sent.message, None)
        if early is not None:
            self._convict(early, sent.seq, found)
        self._goes_on(sent, found)
        term, moved = self._terms.get(sent.node, (NULL, -1))
        if NULL < term < sent.term:
            found.judged[CAUSAL] += 1
            report(found, CAUSAL, Message(sent.node, message=sent.message), moved, sent.seq)
        if sent.message in self._sent:
            found.judged[CAUSAL] += 1
            report(found, CAUSAL, Message(sent.node, message=sent.message), self._sent[sent.message][0].seq, sent.seq)
        self._sent[sent.message] = sent, peer
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)
            self._all_remembered = False

    def receive(self, received: Stamped, peer: int, found: Findings) -> None:
        """A message was received from a peer."""
        self._goes_on(received, found)
        if received.message not in self._sent:
            found.unjudged[CAUSAL] += 1
            if received.message not in self._early:
                self._early[received.message] = received
                if peer in self._whole and self._all_remembered:
                    self._awaited.setdefault(peer, []).append(received.message)
            if len(self._early) > REMEMBERED:
                self._early.popitem(last=False)
            return
        sent, recipient = self._sent[received.message]
        found.judged[CAUSAL] += 1
        same = (sent.node, recipient, sent.f, sent.term) == (peer, received.node, received.f, received.term)
        if not same or not sent.before(received):
            report(found, CAUSAL, Message(received.node, message=received.message), sent.seq, received.seq)

    def _goes_on(self, by: Stamped, found: Findings) -> None:
        """A node records something: what came from it before, it is not recorded to have sent, and it may not be down.

        Where no start is recorded, nobody knows when it came up again.
        """
        for message in self._awaited.pop(by.node, ()):
            early = self._early.pop(message, None)
            if early is not None:
                self._convict(early, by.seq, found)
        if by.node in self._down and self._starts:
            found.judged[CAUSAL] += 1
            report(found, CAUSAL, Message(by.node, message=by.message), self._down[by.node], by.seq)

    def _convict(self, early: Stamped, seq: int, found: Findings) -> None:
        """A message was received early; event ``seq`` shows that it had not been sent."""
        found.judged[CAUSAL] += 1
        found.unjudged[CAUSAL] -= 1
        report(found, CAUSAL, Message(early.node, message=early.message), early.seq, seq)
