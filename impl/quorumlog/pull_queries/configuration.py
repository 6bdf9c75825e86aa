"""What a server of pull queries is told: its mode, intervals, thresholds and limits (pull-queries.md#configuration)."""

from __future__ import annotations

from typing import Literal

import msgspec

from quorumlog.pull_queries.rules import REFERENCE, UNBOUNDED, Rules

FIRST_DISCOVERY = 50
"""Milliseconds from the start to the first discovery (pull-queries.md#first-intervals)."""
FIRST_SEND = 100
"""The same for the first heartbeat and the first lag report."""
FIRST_CHECK = 1000
"""The same for the first check."""

_AT_LEAST = {
    **dict.fromkeys(("heartbeat_send", "heartbeat_check", "heartbeat_window", "discover", "lag_report"), 1),
    **dict.fromkeys(("missed_threshold", "received_threshold", "partitions", "forward_timeout"), 1),
    **dict.fromkeys(("maximum_lag", "standbys"), 0),
}
_AT_MOST = {"maximum_lag": UNBOUNDED, "partitions": 4096}


class ConfigurationError(ValueError):
    """A server cannot run so: one line with the field and the remedy."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals and time-outs in milliseconds, lags in offsets.

    ``mode`` is one of pull-queries.md#two-modes. The switches of pull-queries.md#switches and the time-out of a
    forwarded query are the mode's unless they are given. ``partitions`` of each table are kept on one active and
    ``standbys`` others.

    Raises ConfigurationError.
    """

    mode: Literal["proposal", "shipped"] = "proposal"
    heartbeat_send: int = 100
    heartbeat_check: int = 200
    heartbeat_window: int = 2000
    missed_threshold: int = 3
    received_threshold: int = 2
    discover: int = 2000
    lag_report: int = 5000
    maximum_lag: int = UNBOUNDED
    partitions: int = 1
    standbys: int = 2
    standby_reads: bool | None = None
    heartbeats: bool | None = None
    lag_reports: bool | None = None
    forward_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("proposal", "shipped"):
            raise ConfigurationError(f"mode is {self.mode!r}; write proposal or shipped")
        self._take_mode()
        for name, least in _AT_LEAST.items():
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name, most in _AT_MOST.items():
            if getattr(self, name) > most:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be at most {most}")
        self.refuse_short_window(REFERENCE)

    def _take_mode(self) -> None:
        for switch in ("standby_reads", "heartbeats", "lag_reports"):
            if getattr(self, switch) is None:
                msgspec.structs.force_setattr(self, switch, not self.shipped)
            elif not (self.shipped or getattr(self, switch)):
                raise ConfigurationError(f"{switch} is off; the mode proposal needs it, the mode shipped does not")
        if self.lag_reports and not self.heartbeats:
            raise ConfigurationError("lag_reports is on; it needs heartbeats too")
        if self.forward_timeout is None:
            msgspec.structs.force_setattr(self, "forward_timeout", 20_000 if self.shipped else 500)

    def refuse_short_window(self, rules: Rules) -> None:
        """Raise ConfigurationError if the window cannot show that a host is silent (pull-queries.md#thresholds)."""
        window, send = self.heartbeat_window, self.heartbeat_send
        if not rules.window_suffices(window, send, self.silence):
            raise ConfigurationError(
                f"heartbeat_window is {window}; it must be more than {self.silence} times heartbeat_send, {send}"
            )
        if not self.shipped and window % send:
            raise ConfigurationError(f"heartbeat_window is {window}; the proposal needs a multiple of {send}")

    @property
    def shipped(self) -> bool:
        """Whether the mode is that of the public implementation."""
        return self.mode == "shipped"

    @property
    def silence(self) -> int:
        """M: after so many send intervals without a heartbeat a host is down (pull-queries.md#thresholds)."""
        return self.missed_threshold if self.shipped else self.missed_threshold + 1

    @property
    def detection(self) -> int:
        """Within how many milliseconds after its last heartbeat a host is found down (pull-queries.md#silence-is-down).

        A sender's clock ahead and a check that is late come on top.
        """
        return self.silence * self.heartbeat_send + self.heartbeat_check
