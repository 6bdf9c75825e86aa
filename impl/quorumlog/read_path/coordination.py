"""What all processes of a simulated run share: the epoch store, the metadata log and the event log, in one place.

They are asked and answered with delays, lose nothing and are always there: what happens to readers, shards and
sequencers is what is simulated. Processes learn of the event log late, each after a delay of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

from quorumlog.durations import MILLISECOND
from quorumlog.read_path.event_log import EventLog, LogRecord
from quorumlog.read_path.events import (
    Activated,
    CleanSet,
    MetadataRead,
    MetadataWritten,
    NodesetsLearned,
    StatusesLearned,
)
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.wire import json_text
from quorumlog.simulation.loop import Simulation


class Process(Protocol):
    """Who is told. ``learns_late``: what is appended to the event log comes late."""

    learns_late: bool

    def told(self, delay: int, event: Any) -> None:  # noqa: ANN401
        """An event comes after a delay, unless the process ends before."""


class Coordination:
    """See the module. ``draw_nodeset`` says which nodeset an epoch gets, given the one before it."""

    def __init__(
        self,
        simulation: Simulation,
        record: Callable[[str, dict[str, Any]], None],
        processes: Callable[[], Iterable[Process]],
        shards: tuple[int, ...],
        draw_nodeset: Callable[[int, Nodeset | None], Nodeset],
        lag: int,
    ) -> None:
        self._simulation, self._record, self._processes, self._draw_nodeset = (
            simulation,
            record,
            processes,
            draw_nodeset,
        )
        self._random: Random = simulation.random("coordination")
        self._lag = lag
        self.event_log = EventLog(shards)
        self.epoch = self.last_clean = 0
        self._shown = 0  # the epoch up to which the metadata log shows nodesets
        self.nodesets: dict[int, Nodeset] = {}  # by the first epoch of each

    def _delay(self) -> int:
        return int(self._random.uniform(0.2, 4.0) * MILLISECOND)

    def nodeset_of(self, epoch: int) -> Nodeset:
        """The nodeset of an epoch that was activated."""
        return self.nodesets[max(since for since in self.nodesets if since <= epoch)]

    # -- the epoch store and the metadata log --------------------------------------------------------------------------

    def activate(self, process: Process) -> None:
        """A new epoch, atomically; its nodeset is in the metadata log a while later."""
        self.epoch += 1
        before = self.nodeset_of(self.epoch - 1) if self.epoch > 1 else None
        nodeset = self._draw_nodeset(self.epoch, before)
        if nodeset != before:
            self.nodesets[self.epoch] = nodeset
            text = json_text({"replication": nodeset.replication, "locations": nodeset.locations})
            shards = sum(1 << shard for shard in nodeset.shards)
            self._record("nodeset", {"epoch": self.epoch, "shards": shards, "text": text})
            for each in self._processes():
                each.told(self._delay(), NodesetsLearned(dict(self.nodesets)))
        unclean = {epoch: self.nodeset_of(epoch) for epoch in range(self.last_clean + 1, self.epoch)}
        process.told(self._delay(), Activated(self.epoch, nodeset, self.last_clean, unclean))
        self._simulation.after(5 * self._delay(), self._show, process, self.epoch)

    def _show(self, process: Process, epoch: int) -> None:
        self._shown = max(self._shown, epoch)
        process.told(self._delay(), MetadataWritten(epoch))

    def set_clean(self, process: Process, epoch: int) -> None:
        """Set the last clean epoch, if it is the next one."""
        if epoch == self.last_clean + 1:
            self.last_clean = epoch
        if epoch <= self.last_clean:
            process.told(self._delay(), CleanSet(epoch))

    def read_metadata(self, process: Process, epoch: int) -> None:
        """The nodeset of an epoch, as far as the metadata log shows it; nothing before there is a first one."""
        shown = [since for since in sorted(self.nodesets) if since <= self._shown]
        if not shown:
            self._simulation.after(20 * MILLISECOND, self.read_metadata, process, epoch)
            return
        since = max((each for each in shown if each <= epoch), default=shown[0])
        later = [each for each in shown if each > since]
        until = later[0] - 1 if later else max(epoch, since)
        process.told(self._delay(), MetadataRead(epoch, since, until, not later, self.nodesets[since]))

    # -- the event log -------------------------------------------------------------------------------------------------

    def append(self, record: LogRecord) -> None:
        """Append to the event log; everybody learns of it, some late."""
        self._simulation.after(self._delay(), self._appended, record)

    def _appended(self, record: LogRecord) -> None:
        log = self.event_log
        log.fold(record)
        text = json_text(log.statuses)
        self._record("event_log", {"version": log.version, "peer": record.shard, "f": record.word.value, "text": text})
        for each in self._processes():
            late = self._lag if each.learns_late else self._lag // 20
            each.told(self._delay() + int(self._random.random() * late), self.statuses())

    def statuses(self) -> StatusesLearned:
        """The event log as it is now."""
        log = self.event_log
        return StatusesLearned(log.version, log.statuses, log.completed, log.leaving, log.rebuilt, log.plan)

    def greet(self, process: Process) -> None:
        """A process has begun: it reads the logs."""
        process.told(self._delay(), NodesetsLearned(dict(self.nodesets)))
        process.told(self._delay(), self.statuses())

    def ask_statuses(self, process: Process) -> None:
        """A process reads the event log again."""
        process.told(self._delay(), self.statuses())
