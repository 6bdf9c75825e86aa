"""The event log: which shards are being rebuilt, how far, and what each counts as (read-path.md#status-of-events).

Everybody folds the same records in the same order, so that a version says all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from quorumlog.read_path.rules import (
    AUTHORITATIVE_EMPTY,
    FULLY_AUTHORITATIVE,
    Rebuilding,
    status_in_rebuilding,
)


class Word(StrEnum):
    """What a record of the event log says of its shard."""

    REBUILD = "rebuild"  # its copies are to be made anew elsewhere
    DRAIN = "drain"  # the same, while it is up
    UNRECOVERABLE = "unrecoverable"  # its data is not coming back
    DONE = "done"  # a donor has made its part of the copies anew
    ABORT = "abort"  # it is back with its data
    ACKNOWLEDGE = "acknowledge"  # it is back after rebuilding


class LogRecord(msgspec.Struct, frozen=True):
    """One record; ``donor``, ``plan`` and ``authoritative`` go with DONE: who is done with which plan, and with all?"""

    word: Word
    shard: int
    donor: int = -1
    plan: int = 0
    authoritative: bool = True


@dataclass
class _Lost:
    drain: bool
    recoverable: bool
    donors: dict[int, bool] = field(default_factory=dict)  # those that are done, and whether authoritatively
    empty: bool = False


class EventLog:
    """What follows from the records so far. ``plan`` is the version since which donors do what they do.

    ``given_up``: donors began anew before all was done, so that copies of a record may name different copysets for good
    (read-path.md#rebuilding-donors). ``forgotten``: by shard the newest epoch of which it may have had records that
    nobody else has (read-path.md#loss-is-remembered). ``left``: by shard the version at which it last began to leave.
    """

    def __init__(
        self,
        shards: tuple[int, ...],
        status: Callable[[Rebuilding], int] = status_in_rebuilding,
    ) -> None:
        self.shards, self.version, self.plan, self.completed = shards, 0, 0, 0
        self.given_up = False
        self.forgotten: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self._status = status
        self._lost: dict[int, _Lost] = {}

    def fold(self, record: LogRecord, epoch: int = 0) -> None:
        """Take the next record, when ``epoch`` is the newest; one that says nothing new is a version all the same."""
        self.version += 1
        lost, under_way = self._lost.get(record.shard), bool(self.rebuilt)
        match record.word:
            case Word.REBUILD | Word.DRAIN if lost is None or (lost.drain and record.word is Word.REBUILD):
                self._leaves(record.shard, _Lost(record.word is Word.DRAIN, True), under_way)
            case Word.UNRECOVERABLE if lost is None:
                self._leaves(record.shard, _Lost(False, False), under_way)
            case Word.UNRECOVERABLE if lost is not None and not lost.empty and lost.recoverable:
                was_drained = lost.drain
                lost.recoverable = lost.drain = False
                if was_drained:
                    self._plan_anew(under_way)
            case Word.ABORT if lost is not None and not lost.empty and lost.recoverable:
                del self._lost[record.shard]
                self._plan_anew(under_way)
            case Word.ACKNOWLEDGE if lost is not None and lost.empty:
                del self._lost[record.shard]
            case Word.DONE if record.plan == self.plan:
                for each in self._lost.values():
                    if not each.empty:
                        each.donors[record.donor] = record.authoritative
        self._settle(epoch)

    def _leaves(self, shard: int, lost: _Lost, under_way: bool) -> None:
        self._lost[shard], self.left[shard] = lost, self.version
        self._plan_anew(under_way)

    def _plan_anew(self, under_way: bool) -> None:
        self.plan = self.version
        self.given_up |= under_way
        for each in self._lost.values():
            if not each.empty:
                each.donors.clear()

    def _settle(self, epoch: int) -> None:
        """Note which rebuildings are complete now: such a shard is empty until it is acknowledged."""
        for shard, each in self._lost.items():
            rebuilding = self._rebuilding(shard)
            if not each.empty and self._status(rebuilding) == AUTHORITATIVE_EMPTY:
                each.empty = True
                self.completed += 1
                if not (rebuilding.authoritatively or each.drain):
                    self.forgotten[shard] = epoch

    def _rebuilding(self, shard: int) -> Rebuilding:
        lost = self._lost[shard]
        waited = [donor for donor in self.donors if donor not in lost.donors]
        accepted = all(not each.recoverable for each in self._lost.values() if not each.empty and not each.drain)
        return Rebuilding(
            drain=lost.drain,
            recoverable=lost.recoverable,
            done=bool(self.donors) and not waited,
            authoritatively=all(lost.donors.values()),
            accepted=accepted,
        )

    @property
    def donors(self) -> tuple[int, ...]:
        """The shards that make copies anew: all that are not lost; drained ones are among them."""
        return tuple(shard for shard in self.shards if shard not in self._lost or self._drains(shard))

    def _drains(self, shard: int) -> bool:
        return self._lost[shard].drain and not self._lost[shard].empty

    @property
    def leaving(self) -> frozenset[int]:
        """The shards that no copyset may have: being rebuilt or drained, or empty."""
        return frozenset(self._lost)

    @property
    def drained(self) -> frozenset[int]:
        """Those of them that are drained, or were: they leave until somebody says that they are back."""
        return frozenset(shard for shard, each in self._lost.items() if each.drain)

    @property
    def rebuilt(self) -> frozenset[int]:
        """Those of them whose copies are to be made anew."""
        return frozenset(shard for shard, each in self._lost.items() if not each.empty)

    def gone(self, shard: int) -> bool:
        """Whether a shard's data is being rebuilt, or was, as if it were lost; that of a drained one is there."""
        return shard in self._lost and not self._drains(shard)

    def recoverable(self, shard: int) -> bool:
        """Whether the shard is being rebuilt, and its data may still come back."""
        return shard in self._lost and not self._lost[shard].empty and self._lost[shard].recoverable

    @property
    def statuses(self) -> dict[int, int]:
        """The authoritative status of every shard."""
        found = dict.fromkeys(self.shards, FULLY_AUTHORITATIVE)
        for shard, each in self._lost.items():
            found[shard] = AUTHORITATIVE_EMPTY if each.empty else self._status(self._rebuilding(shard))
        return found
