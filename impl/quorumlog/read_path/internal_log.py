"""The epoch store, the metadata log and the event log, as records of one log that every process folds in its order
(read-path.md#metadata-log-in-raft).

The epoch store is a compare-and-set one (read-path.md#activation): a record that says what comes next counts only if
that is still so where it lies. The metadata log shows the nodesets of epochs, the event log the statuses of shards.
"""

from __future__ import annotations

import msgspec

from quorumlog.read_path.event_log import EventLog, LogRecord
from quorumlog.read_path.events import Activated, MetadataRead, NodesetsLearned, StatusesLearned
from quorumlog.read_path.nodeset import Nodeset


class Internal(msgspec.Struct, frozen=True, tag=True):
    """A record: the ``number``th of process ``by``, which appends it again while it does not know that it is there."""

    by: int
    number: int


class Activation(Internal, frozen=True):
    """Epoch store: ``epoch`` begins, if the one before it is the newest; its records lie on ``nodeset``."""

    epoch: int
    nodeset: Nodeset


class CleanEpoch(Internal, frozen=True):
    """Epoch store: ``epoch`` is recovered, if the one before it is the last that was."""

    epoch: int


class Shown(Internal, frozen=True):
    """Metadata log: the nodesets of all epochs up to this one."""

    epoch: int


class Logged(Internal, frozen=True):
    """Event log: its next record; that counts whatever came before."""

    record: LogRecord


AnyInternal = Activation | CleanEpoch | Shown | Logged


class InternalLog:
    """What follows from the records so far; ``shown``: the epoch up to which the metadata log shows nodesets."""

    def __init__(self, shards: tuple[int, ...]) -> None:
        self.event_log = EventLog(shards)
        self.epoch = self.last_clean = self.shown = 0
        self.nodesets: dict[int, Nodeset] = {}  # by the first epoch of each
        self._seen: dict[int, int] = {}  # by process: the number of its last record

    def fold(self, record: AnyInternal) -> bool:
        """Take the next record; tell whether it counts."""
        if record.number <= self._seen.get(record.by, 0):
            return False
        self._seen[record.by] = record.number
        match record:
            case Activation(epoch=epoch, nodeset=nodeset) if epoch == self.epoch + 1:
                if not self.nodesets or nodeset != self.nodeset_of(self.epoch):
                    self.nodesets[epoch] = nodeset
                self.epoch = epoch
            case CleanEpoch(epoch=epoch) if epoch == self.last_clean + 1:
                self.last_clean = epoch
            case Shown(epoch=epoch) if self.shown < epoch <= self.epoch:
                self.shown = epoch
            case Logged(record=entry):
                self.event_log.fold(entry, self.epoch)
            case _:
                return False
        return True

    def has(self, by: int, number: int) -> bool:
        """Whether the ``number``th record of process ``by`` was folded."""
        return number <= self._seen.get(by, 0)

    def nodeset_of(self, epoch: int) -> Nodeset:
        """The nodeset of an epoch that was activated."""
        return self.nodesets[max(since for since in self.nodesets if since <= epoch)]

    def activated(self) -> Activated:
        """The newest epoch, for the sequencer that has it."""
        unclean = {epoch: self.nodeset_of(epoch) for epoch in range(self.last_clean + 1, self.epoch)}
        return Activated(self.epoch, self.nodeset_of(self.epoch), self.last_clean, unclean)

    def metadata_of(self, epoch: int) -> MetadataRead | None:
        """What the metadata log says of an epoch; None while it shows none: there is nothing before a first one."""
        shown = [since for since in sorted(self.nodesets) if since <= self.shown]
        if not shown:
            return None
        since = max((each for each in shown if each <= epoch), default=shown[0])
        later = [each for each in shown if each > since]
        until = later[0] - 1 if later else max(epoch, since)
        return MetadataRead(epoch, since, until, not later, self.nodesets[since])

    def nodesets_learned(self) -> NodesetsLearned:
        """All nodesets, each by the first epoch that has it."""
        return NodesetsLearned(dict(self.nodesets))

    def statuses(self) -> StatusesLearned:
        """The event log as it is now."""
        log = self.event_log
        return StatusesLearned(
            log.version,
            log.statuses,
            log.completed,
            log.leaving,
            log.rebuilt,
            log.plan,
            log.given_up,
            log.drained,
            dict(log.forgotten),
            self.epoch,
            dict(log.left),
        )
