"""A sequencer as a process: clients' appends and trims, and the epoch store."""

from __future__ import annotations

import itertools
import random
from typing import Any

from quorumlog.read_path import events as e
from quorumlog.read_path.core import Role
from quorumlog.read_path.internal_log import Activation, AnyInternal, CleanEpoch, Shown
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.process.calls import AnyCall, AppendRecord, Ended, State, TrimLog
from quorumlog.read_path.process.driver import PathDriver, Place
from quorumlog.read_path.process.port import MAX_OPEN_CALLS, Session
from quorumlog.read_path.rules import NOWHERE
from quorumlog.read_path.sequencer import SequencerCore

_VALUE_BYTES = 8


class SequencerDriver(PathDriver):
    """The driver of a sequencer, which also draws the nodesets of new epochs."""

    core: SequencerCore

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.core = place.make_core(Role.SEQUENCER, self.configuration.sequencer)
        self._by = self._asked = 0  # the name of this process in the log, and the number of the activation that is open
        self._draw = random.Random(f"{self.configuration.seed} nodesets {self.number} {place.incarnation}")
        self._requests = itertools.count(1)
        self._open: dict[int, tuple[Session, int]] = {}
        self._perform |= {
            e.Activate: lambda _: self._activate(),
            e.SetClean: lambda effect: self._set_clean(effect.epoch),
            e.AppendEnded: self._ended,
            e.TrimEnded: self._ended,
        }

    def answer_of(self, call: int) -> State:
        """The epoch (0: not active), the last known good and the last released LSN, and which shards leave."""
        core, leaving = self.core, tuple(sorted(self.internal.held.event_log.leaving))
        return State(call, epoch=core.epoch, lng=core.lng, released=core.released, leaving=leaving)

    # -- clients -------------------------------------------------------------------------------------------------------

    def asked(self, call: AnyCall, session: Session) -> None:
        """A client appends or trims; refused if too many calls are open, or for the size of the payload."""
        if not isinstance(call, AppendRecord | TrimLog):
            super().asked(call, session)
            return
        refused = None
        if len(self._open) >= MAX_OPEN_CALLS:
            refused = "busy"
        elif isinstance(call, AppendRecord) and len(call.payload) < _VALUE_BYTES:
            refused = f"a payload begins with its value of {_VALUE_BYTES} bytes"
        elif isinstance(call, AppendRecord) and len(call.payload) > self.configuration.largest_payload:
            refused = f"a payload may have {self.configuration.largest_payload} bytes"
        if refused is not None:
            self.answer(session, Ended(call.id, NOWHERE, refused))
            return
        request = next(self._requests)
        self._open[request] = session, call.id
        asked = e.AppendAsked(request, call.payload) if isinstance(call, AppendRecord) else None
        self.handle(asked or e.TrimAsked(request, call.lsn if isinstance(call, TrimLog) else 0))

    def _ended(self, effect: Any) -> None:  # noqa: ANN401 - AppendEnded or TrimEnded
        session, call = self._open.pop(effect.request)
        self.answer(session, Ended(call, effect.lsn, effect.refused))

    # -- the epoch store -----------------------------------------------------------------------------------------------

    def _activate(self) -> None:
        self.internal.append("activate", self._activation)

    def _activation(self, by: int, number: int) -> Activation:
        """Compare and set: the next epoch, if nobody is faster."""
        held = self.internal.held
        self._by, self._asked = by, number
        before = held.nodeset_of(held.epoch) if held.epoch else None
        return Activation(by, number, held.epoch + 1, self._nodeset(before))

    def _nodeset(self, before: Nodeset | None) -> Nodeset:
        configuration = self.configuration
        if before is not None and self._draw.random() >= configuration.nodeset_changes:
            return before
        shards = sorted(configuration.locations)
        left_out = self._draw.sample(shards, self._draw.randint(0, configuration.spare))
        locations = {shard: configuration.locations[shard] for shard in shards if shard not in left_out}
        return Nodeset(dict(configuration.replication), locations)

    def _set_clean(self, epoch: int) -> None:
        if self.internal.held.last_clean >= epoch:
            self.handle(e.CleanSet(epoch))
        else:
            self.internal.append(f"clean {epoch}", lambda by, number: CleanEpoch(by, number, epoch))

    def followed(self, record: AnyInternal, counted: bool) -> None:
        """A record of this sequencer, or of another one, is there."""
        mine = record.by == self._by != 0
        match record:
            case Activation(number=number) if mine and number != self._asked:
                pass  # one that is there twice, for nobody had heard of the first
            case Activation() if mine and not counted:
                self._asked = 0
                self._activate()
            case Activation(epoch=epoch) if mine:
                self._asked = 0
                self.handle(self.internal.held.activated())
                self.internal.append(f"show {epoch}", lambda by, number: Shown(by, number, epoch))
            case Shown(epoch=epoch) if mine:
                self.handle(e.MetadataWritten(epoch))
            case CleanEpoch():
                self.handle(e.CleanSet(self.internal.held.last_clean))
