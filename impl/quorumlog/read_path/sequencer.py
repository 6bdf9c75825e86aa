"""The sequencer of a log: one event in, effects out. No clock, no socket, no disk, no randomness.

The first append makes it ask for an epoch. It numbers records, stores each on a copyset, acknowledges what is stored,
recovers the epochs before its own (`recovery`), and tells all shards up to where readers may have records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from quorumlog.durations import SECOND
from quorumlog.events import CancelTimer, Effect, Event, Note, Received, Send, SetTimer, Started, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path.configuration import SequencerSettings
from quorumlog.read_path.events import (
    Activate,
    Activated,
    AppendAsked,
    AppendEnded,
    CleanSet,
    MetadataWritten,
    NodesetsLearned,
    StatusesLearned,
    TrimAsked,
    TrimEnded,
)
from quorumlog.read_path.messages import StoreAnswer
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.placement import chosen
from quorumlog.read_path.records import EPOCH_BEGIN, new_copy
from quorumlog.read_path.recovery import Recovery
from quorumlog.read_path.rules import NOWHERE, REFERENCE, Rules, lsn_of

_DEFAULT = SequencerSettings()
_STEPPED_DOWN = 1 * SECOND
"""For so long a sequencer that another one took the place of refuses to come back."""


@dataclass
class _Append:
    """A record being stored: the wave, its copyset, who has stored that wave, and who refused it."""

    request: int
    payload: bytes
    wave: int = 0
    copyset: tuple[int, ...] = ()
    stored: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)


class SequencerCore:
    """A sequencer that may become active. Readable at any time: epoch (0: not active), lng, released."""

    recovery_type: ClassVar[type[Recovery]] = Recovery

    def __init__(self, settings: SequencerSettings = _DEFAULT, *, rules: Rules = REFERENCE) -> None:
        self.settings, self.rules = settings, rules
        self.epoch = self.lng = self.released = 0
        self.recovery: Recovery | None = None
        self.nodeset: Nodeset | None = None
        self._nodesets: Mapping[int, Nodeset] = {}
        self._learned = StatusesLearned(0, {}, 0)
        self._activating = False
        self._shown = 0  # the epoch up to which the metadata log shows nodesets
        self._next = 1
        self._open: dict[int, _Append] = {}  # by LSN
        self._queue: list[AppendAsked] = []
        self._sticky: tuple[tuple[int, ...], int] = (), 0
        self._avoided: dict[int, int] = {}
        self._refuses_until = 0
        self._now = 0
        self._effects: list[Effect] = []

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take one event; return the effects, to be carried out in order."""
        self._now, self._effects = now, []
        match event:
            case AppendAsked():
                self._append_asked(event)
            case TrimAsked(request, lsn):
                self._trim(request, lsn)
            case Activated() if self._activating:
                self._activated(event)
            case MetadataWritten(epoch):
                self._shown = max(self._shown, epoch)
                self._release()
            case CleanSet(epoch) if self.recovery is not None:
                self._effects += self.recovery.clean_set(epoch)
                self._recovered()
            case StatusesLearned() if event.version >= self._learned.version:
                self._statuses_learned(event)
            case NodesetsLearned(since) if len(since) > len(self._nodesets):
                self._nodesets = since
            case Received(shard, m.Stored() as message) if message.run == 0:
                self._stored(shard, message)
            case Received(shard, message) if self.recovery is not None:
                self._effects += self.recovery.received(shard, message)
                if self.recovery.preempted:
                    self._step_down()
            case TimerFired(name):
                self._timer_fired(name)
            case Started():
                pass
        return self._effects

    def _statuses_learned(self, learned: StatusesLearned) -> None:
        """Who leaves, or left and is back, may not have what it has stored.

        Source: read-path.md#append-waves, read-path.md#recovery-clean.
        """
        rebuilt, self._learned = learned.completed > self._learned.completed, learned
        self._waves_anew(learned, rebuilt)
        if self.recovery is not None:
            self._effects += self.recovery.statuses_changed(learned)

    def _waves_anew(self, learned: StatusesLearned, rebuilt: bool) -> None:
        for lsn, append in self._open.items():
            if rebuilt or not learned.leaving.isdisjoint(append.copyset):
                self._next_wave(lsn, append)

    def _timer_fired(self, name: str) -> None:
        match name.split(" "):
            case ["release"] if self.epoch:
                self._release()
                self._effects.append(SetTimer("release", self.settings.release))
            case ["recovery"] if self.recovery is not None:
                self._effects += self.recovery.again()
            case ["recovery", "grace"] if self.recovery is not None:
                self._effects += self.recovery.grace_over()
            case ["wave", number] if int(number) in self._open:
                append = self._open[int(number)]
                for shard in append.copyset:
                    if shard not in append.stored and shard not in append.refused:
                        self._avoided[shard] = self._now + self.settings.avoid
                self._next_wave(int(number), append)

    # -- life ----------------------------------------------------------------------------------------------------------

    def _activated(self, event: Activated) -> None:
        """Source: read-path.md#activation."""
        self._activating = False
        self.epoch, self.nodeset = event.epoch, event.nodeset
        self.lng, self.released, self._next = lsn_of(self.epoch, 0), 0, 1
        self._sticky = (), 0
        self._effects.append(SetTimer("release", self.settings.release))
        self.recovery = self.recovery_type(event.epoch - 1, event.unclean, self.settings, self.rules)
        if event.unclean:
            self._effects += self.recovery.statuses_changed(self._learned)
            self._effects += self.recovery.begin()
        self._recovered()
        queue, self._queue = self._queue, []
        for asked in queue:
            self._append(asked)

    def _step_down(self) -> None:
        """Another sequencer took the place of this one: whether what is open will be read is not known."""
        self._effects += [CancelTimer("release"), CancelTimer("recovery")]
        for lsn, append in self._open.items():
            self._effects += [CancelTimer(f"wave {lsn}"), AppendEnded(append.request, NOWHERE)]
        for asked in self._queue:
            self._effects.append(AppendEnded(asked.request, NOWHERE, "preempted"))
        self._open.clear()
        self._queue.clear()
        self.epoch = self.released = 0
        self.recovery = None
        self._refuses_until = self._now + _STEPPED_DOWN

    # -- appends -------------------------------------------------------------------------------------------------------

    def _append_asked(self, asked: AppendAsked) -> None:
        if self.epoch:
            self._append(asked)
        elif self._now < self._refuses_until:
            self._effects.append(AppendEnded(asked.request, NOWHERE, "preempted"))
        else:
            self._queue.append(asked)
            if not self._activating:
                self._activating = True
                self._effects.append(Activate())

    def _append(self, asked: AppendAsked) -> None:
        """Source: read-path.md#append-waves."""
        oldest = min(self._open, default=lsn_of(self.epoch, self._next))
        lsn = lsn_of(self.epoch, self._next)
        if lsn - oldest >= self.settings.in_flight:
            self._effects.append(AppendEnded(asked.request, NOWHERE, "too many in flight"))
            return
        self._next += 1
        append = self._open[lsn] = _Append(asked.request, asked.payload)
        self._next_wave(lsn, append)

    def _next_wave(self, lsn: int, append: _Append) -> None:
        append.wave += 1
        append.copyset = self._copyset(lsn, fresh=append.wave > 1)
        append.stored.clear()
        append.refused.clear()
        delay = min(self.settings.store << min(append.wave - 1, 16), self.settings.store_most)
        self._effects.append(SetTimer(f"wave {lsn}", delay))
        flags = EPOCH_BEGIN if lsn == lsn_of(self.epoch, 1) else 0
        copy = new_copy(lsn, append.copyset, append.payload, wave=append.wave, lng=self.lng, flags=flags)
        for shard in append.copyset:
            self._effects.append(Send(shard, m.Store(copy, self.epoch, version=self._learned.version)))

    def _copyset(self, lsn: int, fresh: bool) -> tuple[int, ...]:
        """Where a record goes: where the last one went, until the block is full or a store failed."""
        assert self.nodeset is not None
        copyset, used = self._sticky
        if copyset and not fresh and used < self.settings.sticky and self._learned.leaving.isdisjoint(copyset):
            self._sticky = copyset, used + 1
            return copyset
        allowed = [shard for shard in self.nodeset.shards if shard not in self._learned.leaving]
        good = [shard for shard in allowed if self._avoided.get(shard, 0) <= self._now]
        key = lsn * 31 + self._now
        found = chosen(self.nodeset, self.rules, good, key) or chosen(self.nodeset, self.rules, allowed, key) or ()
        self._sticky = found, 1
        return found

    def _stored(self, shard: int, message: m.Stored) -> None:
        if message.answer is StoreAnswer.SEALED and self.epoch and message.sealed >= self.epoch:
            self._step_down()
            return
        append = self._open.get(message.lsn)
        if append is None or message.wave != append.wave or shard not in append.copyset:
            return
        if message.answer is not StoreAnswer.OK:
            append.refused.add(shard)
            for each in message.gone or (shard,):
                self._avoided[each] = self._now + self.settings.avoid
            self._sticky = (), 0
            return
        append.stored.add(shard)
        if append.stored.issuperset(append.copyset):
            self._finish(message.lsn, append)

    def _finish(self, lsn: int, append: _Append) -> None:
        """Acknowledge; the last known good LSN moves over what is finished without a break."""
        del self._open[lsn]
        self._effects += [CancelTimer(f"wave {lsn}"), AppendEnded(append.request, lsn)]
        value = int.from_bytes(append.payload[:8], "big")
        stored = sum(1 << shard for shard in append.stored)
        self._note("acknowledge", offset=lsn, wave=append.wave, shards=stored, value=value)
        self._advance()

    def _advance(self) -> None:
        self.lng = min(self._open, default=lsn_of(self.epoch, self._next)) - 1

    # -- releases ------------------------------------------------------------------------------------------------------

    def _recovered(self) -> None:
        if self.recovery is not None and self.recovery.done:
            self._release()

    def _may_release(self) -> bool:
        """Whether all epochs before this one are clean and the metadata log shows this one."""
        return self.recovery is not None and self.recovery.done and self._shown >= self.epoch

    def _release(self) -> None:
        """Tell every shard of every nodeset (read-path.md#release-everywhere)."""
        if not self.epoch or not self._may_release():
            return
        if self.lng > self.released:
            self.released = self.lng
            self._note("release", epoch=self.epoch, offset=self.released)
        for shard in sorted({shard for nodeset in self._nodesets.values() for shard in nodeset.shards}):
            self._effects.append(Send(shard, m.Release(self.epoch, self.released, self._learned.version)))

    def _trim(self, request: int, lsn: int) -> None:
        """Trim no further than is released."""
        if not self.released:
            self._effects.append(TrimEnded(request, NOWHERE, "not active"))
            return
        to = min(lsn, self.released)
        for shard in sorted({shard for nodeset in self._nodesets.values() for shard in nodeset.shards}):
            self._effects.append(Send(shard, m.Trim(to)))
        self._effects.append(TrimEnded(request, to))

    def _note(self, kind: str, **columns: Any) -> None:  # noqa: ANN401
        self._effects.append(Note(kind, columns))
