"""Whom a reader asks for copies: single-copy delivery, the known-down list, rewinds (read-path.md#no-gap-in-scd).

A rewind is what changes the list, or turns single-copy delivery on or off: all shards are asked anew from the next LSN
to deliver on, with the next filter version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from quorumlog.events import SetTimer
from quorumlog.read_path import rules as r
from quorumlog.read_path.configuration import ReaderSettings
from quorumlog.read_path.events import AskStatuses, StatusesLearned
from quorumlog.read_path.messages import Answer
from quorumlog.read_path.rules import NOWHERE, Rules
from quorumlog.read_path.slow import SlowShards
from quorumlog.read_path.stream import Stream

_FUZZ = 997


class Rewinding(Stream):
    """A stream that decides which shards send and when all are asked anew; see the module."""

    slow_shards_type: ClassVar[type[SlowShards]] = SlowShards

    def __init__(
        self, stream: int, first: int, until: int, settings: ReaderSettings, rules: Rules, seed: int, region: str
    ) -> None:
        super().__init__(stream, first, until, settings, rules, seed, region)
        self.rewinding = False
        self._next_single = self.single
        self._copysets_differ = False  # or may: some shard is being rebuilt, or a rebuilding was given up
        self._joining: set[int] = set()
        self._leaving: set[int] = set()
        self._rewind_delay = settings.rewind
        self._detector = self.slow_shards_type(settings.slow_margin, settings.probation, settings.probation_most)
        self._at_tick = {"scd": NOWHERE, "all send all": NOWHERE}

    # -- statuses ------------------------------------------------------------------------------------------------------

    def _statuses_learned(self, learned: StatusesLearned) -> None:
        """The event log says more: of what became empty, or is lost, copies may be where there were none."""
        if learned.version < self.version or (learned.version == self.version and self.logged):
            return
        known = self.logged
        changes = [(known.get(shard, r.FULLY_AUTHORITATIVE), status) for shard, status in learned.statuses.items()]
        rewinds = self._rewinds(changes, learned.completed)
        self.logged, self.version, self.completed = learned.statuses, learned.version, learned.completed
        self._copysets_differ = bool(learned.rebuilt) or learned.given_up
        self._note("stream_statuses", version=self.version)
        for shard, each in self.shards.items():
            if self.status(shard) != r.FULLY_AUTHORITATIVE:
                self._joins(shard)
            elif known.get(shard, 0) != r.FULLY_AUTHORITATIVE and each.connected and not each.answering:
                self._start(shard)
        if rewinds:
            self._schedule_rewind()

    def _rewinds(self, changes: Iterable[tuple[int, int]], completed: int) -> bool:
        """Whether one became empty, or did in between, or is lost for good.

        Source: read-path.md#empty-rewinds, read-path.md#event-log-version, read-path.md#loss-rewinds.
        """
        return completed > self.completed or any(self.rules.status_rewinds(*change) for change in changes)

    # -- the known-down list -------------------------------------------------------------------------------------------

    def _joins(self, shard: int) -> None:
        if self.single and shard not in self.listed and shard not in self._joining:
            self._joining.add(shard)
            self._schedule_rewind()

    def _leaves(self, shard: int) -> None:
        listed = self.single and shard in self.down and shard not in self._leaving
        if listed and self.state(shard) != r.UNDER_REPLICATED:
            self._leaving.add(shard)
            self._schedule_rewind()

    def _down_non_empty(self) -> int:
        return sum(1 for shard in self.shards if shard in self.down and r.non_empty(self.status(shard)))

    # -- rewinds -------------------------------------------------------------------------------------------------------

    def _schedule_rewind(self) -> None:
        if not self.rewinding and self.shards:
            self.rewinding = True
            self._note("stream_rewind", f="due", filter=self.filter_version)
            self._effects.append(SetTimer("rewind", self._rewind_delay))
            self._rewind_delay = min(2 * self._rewind_delay, self.settings.rewind_most)

    def _switch(self, single: bool) -> None:
        """Turn single-copy delivery on or off."""
        self._next_single = single
        self._schedule_rewind()

    def _rewind(self) -> None:
        self.rewinding = False
        self.filter_version += 1
        self._forget()
        self.single = self._next_single
        self.down = ((self.down | self._joining) - self._leaving) & self.shards.keys()
        self.slow = self._detector.slow & frozenset(self.shards)
        self._joining.clear()
        self._leaving.clear()
        if self.single and not self.settings.guaranteed_delivery_efficiency and self.listed.issuperset(self.shards):
            self.single = self._next_single = False
        if not self.single:
            self.down.clear()
        self._effects.append(AskStatuses())
        self._detector.forget(self.shards)
        columns = {"shards": sum(1 << shard for shard in self.listed)} if self.single else {}
        self._note("stream_rewind", f="done", filter=self.filter_version, **columns)
        for shard, each in self.shards.items():
            if each.connected:
                self._start(shard)
            else:
                self._reset(each)

    def _forget(self) -> None:
        """What was heard counts no more."""
        self.buffer.clear()
        self.beyond = NOWHERE

    # -- when stuck ----------------------------------------------------------------------------------------------------

    def _check_single_copy(self) -> None:
        """No copy came although everybody who is not listed was heard: list who may lack it, or ask all for all.

        Source: read-path.md#no-gap-in-scd, read-path.md#guaranteed-delivery.
        """
        if not self.single or self.rewinding or not self.shards:
            return
        states = {shard: self.state(shard) for shard in self.shards}
        if any(state == r.SILENT and shard not in self.listed for shard, state in states.items()):
            return
        unsure = self._unlisted_under_replicated(states)
        for shard in unsure:
            self._joins(shard)
        if not unsure and (self._amended() or not self.settings.guaranteed_delivery_efficiency):
            self._switch(single=False)

    def _amended(self) -> bool:
        """Whether copies of a record may name different copysets, so that no shard may have sent one that is there."""
        return self._copysets_differ or any(each.version != self.version for each in self.shards.values())

    def _unlisted_under_replicated(self, states: Mapping[int, int]) -> list[int]:
        return [shard for shard, state in states.items() if state == r.UNDER_REPLICATED and shard not in self.listed]

    def _back_to_single_copy(self) -> None:
        """At a slide: all send all is over, unless that would list everybody (read-path.md#back-to-scd)."""
        if self.single or not self.settings.single_copy:
            return
        away = {
            shard
            for shard, each in self.shards.items()
            if not each.connected
            or each.answer is not Answer.OK
            or self.status(shard) != r.FULLY_AUTHORITATIVE
            or self.state(shard) == r.UNDER_REPLICATED
        }
        if len(away) < len(self.shards):
            self._joining |= away
            self._switch(single=True)

    def _tick(self, name: str, deliverable: bool) -> None:
        """No progress since the last tick: pass over those that say nothing, or ask all (read-path.md#slow-tick)."""
        period = self.settings.scd_timeout if name == "scd" else self.settings.all_send_all_timeout
        self._timer(name, period)
        before, self._at_tick[name] = self._at_tick[name], self.position
        if before != self.position or deliverable or not self.single or self.rewinding:
            return
        silent = {shard for shard in self.shards if self.state(shard) == r.SILENT and shard not in self.listed}
        everybody = self.listed.union(silent).issuperset(self.shards)
        if silent and not everybody:
            for shard in silent:
                self._joins(shard)
        elif name != "scd":
            self._switch(single=False)

    # -- slow shards ---------------------------------------------------------------------------------------------------

    def _window_begins(self) -> None:
        if self.single and self.settings.slow_shards:
            self._detector.windows_pass()
            self._detector.window_begins(self.now, [s for s, each in self.shards.items() if each.answering])

    def _completed_window(self, shard: int) -> None:
        self._detector.completed(self.now, shard)
        self._judge_slow()

    def _judge_slow(self) -> None:
        """See who is slow now; a change makes the stream rewind (read-path.md#slow-shards)."""
        if not (self.single and self.settings.slow_shards and self.nodeset):
            return
        down = self._down_non_empty()
        most = self.rules.most_slow(self.nodeset.factor, down)
        if self._detector.judge(self.now, most, self.now % _FUZZ / _FUZZ):
            slow = self._detector.slow & frozenset(self.shards)
            self._note("stream_slow", shards=sum(1 << shard for shard in slow), count=down)
            self._schedule_rewind()
