"""Mutants of who is alive: what a check counts, when a status changes, to whom heartbeats go."""

from __future__ import annotations

from quorumlog.protocol import Mutant
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.mutants.parts import with_rules
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


class _UpOnReceiptCore(ServerCore):
    membership_type = UpOnReceipt


class _FutureStampsCore(ServerCore):
    membership_type = FutureStampsCounted


class _NoHeartbeatsToDeadCore(ServerCore):
    membership_type = NoHeartbeatsToDead


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
        "heartbeats are not sent to hosts that are taken for dead",
        ("heartbeats-to-all",),
        _NoHeartbeatsToDeadCore,
        "default",
    ),
)
