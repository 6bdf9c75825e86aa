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
from quorumlog.read_path.events import CleanSet, MetadataWritten
from quorumlog.read_path.internal_log import Activation, AnyInternal, CleanEpoch, InternalLog, Logged, Shown
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.recording import event_noted, nodeset_noted
from quorumlog.simulation.loop import Simulation


class Process(Protocol):
    """Who is told. ``learns_late``: what is appended to the event log comes late."""

    learns_late: bool

    def inform(self, delay: int, event: Any) -> None:  # noqa: ANN401
        """An event comes after a delay, unless the process ends before."""


class Coordination:
    """See the module. ``draw_nodeset`` says which nodeset an epoch gets, given the one before it.

    Whoever learns late may hear up to ``lag`` late of what is appended to the event log, and reads that log up to
    ``first_lag`` after its own beginning.
    """

    def __init__(
        self,
        simulation: Simulation,
        record: Callable[[str, dict[str, Any]], None],
        processes: Callable[[], Iterable[Process]],
        shards: tuple[int, ...],
        draw_nodeset: Callable[[int, Nodeset | None], Nodeset],
        lag: int,
        first_lag: int = 0,
    ) -> None:
        self._simulation, self._record, self._processes, self._draw_nodeset = (
            simulation,
            record,
            processes,
            draw_nodeset,
        )
        self._random: Random = simulation.random("coordination")
        self._greetings: Random = simulation.random("greetings")
        self._lag, self._first_lag = lag, first_lag
        self._log = InternalLog(shards)
        self._records = self._greeted = 0
        self._has_not_read: dict[Process, int] = {}  # which time it began

    def _delay(self) -> int:
        return int(self._random.uniform(0.2, 4.0) * MILLISECOND)

    @property
    def event_log(self) -> EventLog:
        """The event log as it is, which processes learn of later."""
        return self._log.event_log

    def _fold(self, record: Callable[[int, int], AnyInternal]) -> bool:
        self._records += 1
        return self._log.fold(record(0, self._records))

    # -- the epoch store and the metadata log --------------------------------------------------------------------------

    def activate(self, process: Process) -> None:
        """A new epoch, atomically; its nodeset is in the metadata log a while later."""
        log = self._log
        epoch, before = log.epoch + 1, log.nodeset_of(log.epoch) if log.epoch else None
        nodeset = self._draw_nodeset(epoch, before)
        self._fold(lambda by, number: Activation(by, number, epoch, nodeset))
        if epoch in log.nodesets:
            self._record(*nodeset_noted(epoch, nodeset))
            for each in self._processes():
                each.inform(self._delay(), log.nodesets_learned())
        process.inform(self._delay(), log.activated())
        self._simulation.after(5 * self._delay(), self._show, process, epoch)

    def _show(self, process: Process, epoch: int) -> None:
        self._fold(lambda by, number: Shown(by, number, epoch))
        process.inform(self._delay(), MetadataWritten(epoch))

    def set_clean(self, process: Process, epoch: int) -> None:
        """Set the last clean epoch, if it is the next one."""
        self._fold(lambda by, number: CleanEpoch(by, number, epoch))
        if epoch <= self._log.last_clean:
            process.inform(self._delay(), CleanSet(epoch))

    def read_metadata(self, process: Process, epoch: int) -> None:
        """The nodeset of an epoch, as far as the metadata log shows it; nothing before there is a first one."""
        read = self._log.metadata_of(epoch)
        if read is None:
            self._simulation.after(20 * MILLISECOND, self.read_metadata, process, epoch)
        else:
            process.inform(self._delay(), read)

    # -- the event log -------------------------------------------------------------------------------------------------

    def append(self, record: LogRecord) -> None:
        """Append to the event log; everybody learns of it, some late."""
        self._simulation.after(self._delay(), self._appended, record)

    def _appended(self, record: LogRecord) -> None:
        self._fold(lambda by, number: Logged(by, number, record))
        self._record(*event_noted(self.event_log, record))
        for each in self._processes():
            if each in self._has_not_read:
                continue
            late = self._lag if each.learns_late else self._lag // 20
            each.inform(self._delay() + int(self._random.random() * late), self._log.statuses())

    def greet(self, process: Process) -> None:
        """A process has begun: it reads the logs, the event log later perhaps."""
        process.inform(self._delay(), self._log.nodesets_learned())
        if process.learns_late and self._first_lag:
            self._greeted += 1
            self._has_not_read[process] = self._greeted
            later = int(self._greetings.random() * self._first_lag)
            self._simulation.after(later, self._read_first, process, self._greeted)
        else:
            process.inform(self._delay(), self._log.statuses())

    def _read_first(self, process: Process, greeted: int) -> None:
        if self._has_not_read.get(process) == greeted:
            del self._has_not_read[process]
            self.ask_statuses(process)

    def ask_statuses(self, process: Process) -> None:
        """A process reads the event log again."""
        process.inform(self._delay(), self._log.statuses())
