"""Messages between nodes: sent before they are received, to the node that receives them, and stamped so.

They are recorded rarely, so this is plain Python. Kept are the last sends, and the last messages that were received
without one: their sender may have been killed before it recorded that. Source: history-checks.md#sent-before-received.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ..codes import NO_NODE
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
        """Whether it is stamped earlier; true if one of them is not stamped by a hybrid clock."""
        if NO_NODE in (self.logical, other.logical):
            return True
        return (self.time, self.logical) < (other.time, other.logical)


class Messages:
    """The messages under way."""

    def __init__(self) -> None:
        self._sent: OrderedDict[int, tuple[Stamped, int]] = OrderedDict()
        self._early: OrderedDict[int, Stamped] = OrderedDict()

    def send(self, sent: Stamped, peer: int, found: Findings) -> None:
        """A message was sent to a peer."""
        early = self._early.pop(sent.message, None)
        if early is not None:
            found.judged[CAUSAL] += 1
            found.unjudged[CAUSAL] -= 1
            report(found, CAUSAL, Message(early.node, message=early.message), early.seq, sent.seq)
        if sent.message in self._sent:
            found.judged[CAUSAL] += 1
            report(found, CAUSAL, Message(sent.node, message=sent.message), self._sent[sent.message][0].seq, sent.seq)
        self._sent[sent.message] = sent, peer
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    def receive(self, received: Stamped, peer: int, found: Findings) -> None:
        """A message was received from a peer."""
        if received.message not in self._sent:
            found.unjudged[CAUSAL] += 1
            self._early.setdefault(received.message, received)
            if len(self._early) > REMEMBERED:
                self._early.popitem(last=False)
            return
        sent, recipient = self._sent[received.message]
        found.judged[CAUSAL] += 1
        same = (sent.node, recipient, sent.f, sent.term) == (peer, received.node, received.f, received.term)
        if not same or not sent.before(received):
            report(found, CAUSAL, Message(received.node, message=received.message), sent.seq, received.seq)
