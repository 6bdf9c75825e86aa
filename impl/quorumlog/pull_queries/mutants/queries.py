"""Mutants of a query on its way: who is tried next, what is forwarded, what is emitted."""

from __future__ import annotations

from msgspec import structs

from quorumlog.events import Effect, Event
from quorumlog.protocol import Mutant
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.events import Answer, Clocks, Emit, Forward, ForwardEnded
from quorumlog.pull_queries.mutants.parts import with_rules
from quorumlog.pull_queries.nodes import Asked, Replied, ServerNode
from quorumlog.pull_queries.rules import Failure
from quorumlog.pull_queries.simulated import PullCluster


class EmittedEarly(ServerCore):
    """What a host sends is emitted as it comes, also if its request has failed by then."""

    def _forward_ended(self, event: ForwardEnded) -> None:
        _, execution = self._queries.get(event.request, (None, None))
        if execution is not None and event.host not in execution.open:
            self._effects += [Emit(event.request, answer) for answer in event.answers]
        super()._forward_ended(event)


class NoRowsAnError(ServerCore):
    """A host that answers without rows is taken for one that failed."""

    def _forward_ended(self, event: ForwardEnded) -> None:
        filled = tuple(answer for answer in event.answers if answer.rows)
        failure = event.failure or (Failure.NO_HEADER if len(filled) < len(event.answers) else None)
        super()._forward_ended(structs.replace(event, answers=filled, failure=failure))


class NoTimeOut(ServerCore):
    """A forwarded query is waited for until its answer comes."""

    def _forward_ended(self, event: ForwardEnded) -> None:
        if event.failure is not Failure.TIME_OUT:
            super()._forward_ended(event)


class BoundNotForwarded(ServerCore):
    """A forwarded query does not say which lag it accepts."""

    def handle(self, clocks: Clocks, event: Event) -> list[Effect]:
        """As the reference, with other forwarded queries."""
        effects = super().handle(clocks, event)
        return [
            structs.replace(each, query=structs.replace(each.query, bound=None)) if isinstance(each, Forward) else each
            for each in effects
        ]


class NextRoundEarly(ServerCore):
    """A request that failed ends its round, whoever else was asked in it."""

    def _ended(self, request: int, host: str, answers: tuple[Answer, ...], failure: Failure | None) -> None:
        super()._ended(request, host, answers, failure)
        if failure is not None:
            self._queries[request][1].open.clear()


class RoutingTarget(ServerNode):
    """A server routes what another one forwards as it routes what a client asks."""

    def _have_asked(self, source: int, asked: Asked) -> None:
        def reply(answers: list[Answer], message: str | None) -> None:
            failure = Failure.GAVE_UP if message or message is None else None
            self._cluster.transmit(self.number, source, Replied(asked.request, tuple(answers), failure))

        self.query(asked.op, asked.query, reply)


class ForwardedTwice(PullCluster):
    """A cluster whose servers forward what was forwarded to them."""

    node_type = RoutingTarget


MUTANTS = (
    Mutant(
        "failure-is-final",
        "a query ends at the first failure",
        ("candidates-follow-view",),
        with_rules(falls_through=lambda failure, shipped: False),
        "default",
    ),
    Mutant(
        "wrong-error-falls-through",
        "in the mode shipped the next candidate is tried after any failure",
        ("candidates-follow-view",),
        with_rules(falls_through=lambda failure, shipped: True),
        "shipped",
    ),
    Mutant(
        "forwarded-twice",
        "a server routes what another one forwards as it routes what a client asks",
        ("candidates-follow-view",),
        None,
        "default",
        stage=ForwardedTwice,
    ),
    Mutant(
        "bound-not-forwarded",
        "a forwarded query does not say which lag it accepts",
        ("candidates-follow-view",),
        BoundNotForwarded,
        "lagging",
    ),
    Mutant(
        "no-rows-an-error",
        "a host that answers without rows counts as failed",
        ("candidates-follow-view",),
        NoRowsAnError,
        "default",
    ),
    Mutant(
        "emitted-early",
        "what a host sends is emitted as it comes, even if its request has failed by then",
        ("partitions-once",),
        EmittedEarly,
        "overtaken",
    ),
    Mutant(
        "no-time-out",
        "a forwarded query is waited for until its answer comes",
        ("bad-time-bounded",),
        NoTimeOut,
        "default",
    ),
    Mutant(
        "next-round-early",
        "a request that failed ends its round, whichever other hosts were asked in it",
        (),
        NextRoundEarly,
        test="tests/pull_queries/test_mutants.py",
    ),
    Mutant(
        "answers-dropped",
        "a reply in which a partition is given up leaves the answers for the others out",
        (),
        test="tests/pull_queries/test_driver.py",
    ),
)
