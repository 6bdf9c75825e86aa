"""Mutants of who is alive: what a check counts, when a status changes, to whom heartbeats go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from quorumlog.events import CancelTimer
from quorumlog.protocol import Mutant
from quorumlog.pull_queries.configuration import FIRST_CHECK
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.events import HeartbeatReceived, SendHeartbeat
from quorumlog.pull_queries.mutants.parts import with_rules
from quorumlog.pull_queries.nodes import ServerNode
from quorumlog.pull_queries.simulated import PullCluster
from quorumlog.pull_queries.status import Membership, Status


def _slots_add_up(filled: bool, up: bool, missed: int, received: int, most: int, least: int) -> tuple[bool, int, int]:
    if filled:
        return (up or received + 1 >= least, missed, received + 1)
    return (up and missed + 1 <= most, missed + 1, received)


class UpOnReceipt(Membership):
    """A heartbeat turns its sender up when it arrives."""

    def heartbeat(self, sender: str, stamp: int) -> None:
        """Take a heartbeat, and change a status."""
        super().heartbeat(sender, stamp)
        status = self._statuses.get(sender)
        if status is not None:
            self._statuses[sender] = Status(True, status.updated)


class FutureStampsCounted(Membership):
    """A stamp of the future counts as one of now."""

    def check(self, now: int) -> dict[str, Status]:
        """Decide, with no stamp ahead of now."""
        self._stamps = {host: {min(stamp, now) for stamp in stamps} for host, stamps in self._stamps.items()}
        return super().check(now)


class NoHeartbeatsToDead(Membership):
    """Whoever is taken for dead is sent nothing."""

    @property
    def heartbeat_targets(self) -> tuple[str, ...]:
        """Those of the others that are alive."""
        return tuple(host for host in super().heartbeat_targets if self._statuses[host].alive)


class FirstMembersAlone(Membership):
    """Who has listed others lists nobody who joins later."""

    def discover(self, now: int, members: Iterable[str]) -> list[str]:
        """List the members, if nobody else is listed yet."""
        return super().discover(now, members if len(self._statuses) == 1 else ())


class _FirstMembersCore(ServerCore):
    membership_type = FirstMembersAlone


class _UpOnReceiptCore(ServerCore):
    membership_type = UpOnReceipt


class _FutureStampsCore(ServerCore):
    membership_type = FutureStampsCounted


class _NoHeartbeatsToDeadCore(ServerCore):
    membership_type = NoHeartbeatsToDead


class StoppingSender(ServerNode):
    """A heartbeat that does not reach its host stops the timer of heartbeats."""

    def _send_heartbeat(self, effect: SendHeartbeat) -> None:
        super()._send_heartbeat(effect)
        if not self._cluster.nodes[self._cluster.number_of(effect.to)].host.running:
            self._cancel_timer(CancelTimer("heartbeat"))


class StoppingSenders(PullCluster):
    """A cluster whose servers stop their heartbeats after one that is lost."""

    node_type = StoppingSender


class StampsByReceipt(ServerNode):
    """A heartbeat is stored with the time at which it arrives."""

    def receive(self, source: int, message: Any) -> None:  # noqa: ANN401
        """As the reference, with another stamp."""
        if isinstance(message, HeartbeatReceived):
            message = structs.replace(message, stamp=self.clock().wall)
        super().receive(source, message)


class StampsByReceiptCluster(PullCluster):
    """A cluster whose servers stamp heartbeats by their own clock."""

    node_type = StampsByReceipt


class FirstCheckAlone(ServerCore):
    """Who is alive is decided once, and the timer is not set again."""

    def _timer(self, name: str, delay: int) -> None:
        if name != "check" or delay == FIRST_CHECK:
            super()._timer(name, delay)


MUTANTS = (
    Mutant(
        "threshold-not-reached",
        "a host that missed as many heartbeats as the threshold says is up",
        ("silence-is-down", "status-replays"),
        with_rules(tolerated=lambda missed, threshold: missed <= threshold),
        "shipped",
    ),
    Mutant(
        "counters-not-reset",
        "empty and filled slots are counted together, not in a row",
        ("status-replays", "no-false-down"),
        with_rules(after_slot=_slots_add_up),
        "default",
    ),
    Mutant(
        "up-on-receipt",
        "a heartbeat turns its sender up when it arrives",
        ("status-replays",),
        _UpOnReceiptCore,
        "default",
    ),
    Mutant(
        "future-stamps-counted",
        "a stamp of the future counts as one of now",
        ("status-replays",),
        _FutureStampsCore,
        "clocks-differ",
    ),
    Mutant(
        "no-heartbeats-to-dead",
        "heartbeats are not sent to hosts that are considered dead",
        ("heartbeats-to-all",),
        _NoHeartbeatsToDeadCore,
        "default",
    ),
    Mutant(
        "send-failure-stops-heartbeats",
        "a heartbeat that cannot be sent is the last one",
        ("reports-go-on", "bad-time-bounded"),
        None,
        "departures",
        stage=StoppingSenders,
    ),
    Mutant(
        "first-check-alone",
        "who is alive is decided once and never again",
        ("reports-go-on",),
        FirstCheckAlone,
        "default",
    ),
    Mutant(
        "first-members-alone",
        "who joins after the first members is listed by nobody",
        ("members-are-listed",),
        _FirstMembersCore,
        "default",
    ),
    Mutant(
        "stamp-of-receipt",
        "a heartbeat is stored with the time at which it arrives",
        ("heard-was-said",),
        None,
        "default",
        stage=StampsByReceiptCluster,
    ),
)
