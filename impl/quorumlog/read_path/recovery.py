"""The recovery of epochs that ended: what of them counts is settled for all readers (read-path.md#recovery-seal).

A sequencer of epoch e does it for every epoch that is not clean, in order: seal, read what the shards have, write the
winners, holes and a bridge back, and say that the epoch is clean. Its run is named e - 1, the epoch up to which it
seals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quorumlog.events import CancelTimer, Effect, Note, Send, SetTimer
from quorumlog.read_path import messages as m
from quorumlog.read_path import rules as r
from quorumlog.read_path.configuration import SequencerSettings
from quorumlog.read_path.events import SetClean, StatusesLearned
from quorumlog.read_path.messages import StoreAnswer
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.placement import chosen
from quorumlog.read_path.records import BRIDGE, DRAINED, HOLE, UNDER_REPLICATED, Copy, new_copy
from quorumlog.read_path.rules import Rules, lsn_of

PATIENCE = 8
"""So often a write or CLEAN is asked again before the shards are read again for the first time; then twice as often."""


@dataclass
class _Epoch:
    """The epoch being recovered, as far as it is: who sent its copies, what is to be written, who has stored it."""

    lng: int = 0
    version: int = 0  # of the event log, the newest that came with a digest
    digests: dict[int, tuple[Copy, ...]] = field(default_factory=dict)
    waits: bool = False  # for those who have not answered, until the grace period is over
    graced: bool = False
    mutation_set: tuple[int, ...] = ()
    writes: dict[int, Copy] = field(default_factory=dict)
    targets: dict[int, set[int]] = field(default_factory=dict)  # by LSN: who has not stored it yet
    cleaning: set[int] = field(default_factory=set)
    phase: str = "seal"  # seal, digest, mutate, clean, done
    last: int = 0
    bridged: bool = False
    tries: int = 0
    attempt: int = 1  # so often the shards were read; what it writes is of this wave


class Recovery:
    """One run over ``nodesets``, those of the epochs to be recovered. ``preempted``: a later run has sealed.

    Its methods return effects. ``statuses``, ``forgotten`` and ``completed`` are those of the event log, up to
    ``version``.
    """

    def __init__(self, run: int, nodesets: Mapping[int, Nodeset], settings: SequencerSettings, rules: Rules) -> None:
        self.run, self.settings, self.rules = run, settings, rules
        self.preempted = False
        self.statuses: Mapping[int, int] = {}
        self.leaving: frozenset[int] = frozenset()
        self.forgotten: Mapping[int, int] = {}
        self.version = self.completed = 0
        self._nodesets = dict(sorted(nodesets.items()))
        self._known_good: dict[int, dict[int, int]] = {}  # by shard that is sealed
        self._epoch = _Epoch()
        self._patience = PATIENCE
        self._effects: list[Effect] = []

    @property
    def done(self) -> bool:
        """Whether all epochs of this run are clean."""
        return not self._nodesets

    @property
    def epoch(self) -> int:
        """The epoch that is being recovered."""
        return next(iter(self._nodesets))

    @property
    def _nodeset(self) -> Nodeset:
        return self._nodesets[self.epoch]

    # -- events --------------------------------------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        """Ask the shards of all these epochs to seal. Source: read-path.md#recovery-seal."""
        self._effects = []
        self._ask()
        return self._effects

    def again(self) -> list[Effect]:
        """The timer ran out: ask those again who did not answer."""
        self._effects = []
        if not self.done:
            self._epoch.tries += 1
            if self._epoch.phase in ("mutate", "clean") and self._epoch.tries > self._patience:
                self._patience *= 2
                self._read_again()
            self._ask()
        return self._effects

    def grace_over(self) -> list[Effect]:
        """Whoever has not answered by now is not waited for."""
        self._effects = []
        if not self.done and self._epoch.waits:
            self._epoch.graced = True
            self._go_on()
        return self._effects

    def statuses_changed(self, learned: StatusesLearned) -> list[Effect]:
        """The event log says more; what is being written is begun anew (read-path.md#recovery-clean)."""
        self._effects = []
        changed = learned.leaving != self.leaving or learned.completed != self.completed
        self.statuses, self.leaving, self.completed = learned.statuses, learned.leaving, learned.completed
        self.forgotten, self.version = learned.forgotten, learned.version
        if not self.done:
            if changed and self._epoch.phase in ("mutate", "clean"):
                self._read_again()
                self._ask()
            self._go_on()
        return self._effects

    def received(self, shard: int, message: m.Message) -> list[Effect]:
        """Take the answer of a shard and go on; answers to other runs and epochs do not count."""
        self._effects = []
        if self.done or self.preempted:
            return self._effects
        each = self._epoch
        match message:
            case m.Sealed(epoch=epoch) if epoch == self.run:
                if message.answer is StoreAnswer.SEALED and message.sealed > self.run:
                    self.preempted = True
                elif message.answer is StoreAnswer.OK and shard not in self._known_good:
                    self._known_good[shard] = message.known_good
                    if each.phase == "digest":
                        self._ask()
            case m.DigestAnswer(run, epoch) as answer if run == self.run and epoch == self.epoch:
                if each.phase == "digest" and answer.attempt == each.attempt:
                    each.digests[shard], each.version = answer.copies, max(answer.version, each.version)
                    each.lng = max(answer.known_good, each.lng)
            case m.Stored(lsn, wave, run, answer, sealed) if run == self.run:
                if answer is StoreAnswer.OK and wave == each.attempt:
                    each.targets.get(lsn, set()).discard(shard)
                elif answer is StoreAnswer.SEALED and sealed > self.run:
                    self.preempted = True
            case m.Cleaned(run, epoch, answer, attempt) if run == self.run and epoch == self.epoch:
                if answer is StoreAnswer.OK and attempt == each.attempt:
                    each.cleaning.discard(shard)
                elif answer is StoreAnswer.SEALED:
                    self.preempted = True
        self._go_on()
        return self._effects

    def clean_set(self, epoch: int) -> list[Effect]:
        """The epoch store has it: on to the next epoch."""
        self._effects = []
        if not self.done and epoch >= self.epoch and self._epoch.phase == "done":
            del self._nodesets[self.epoch]
            self._epoch = _Epoch()
            if self.done:
                self._effects.append(CancelTimer("recovery"))
            else:
                self._ask()
                self._go_on()
        return self._effects

    # -- the steps -----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Ask whoever has not answered what the phase is about."""
        each = self._epoch
        self._effects.append(SetTimer("recovery", self.settings.recovery))
        shards = {shard for nodeset in self._nodesets.values() for shard in nodeset.shards}
        for shard in sorted(shards - self._known_good.keys()):
            self._send(shard, m.Seal(self.run, self.epoch))
        if each.phase == "digest":
            for shard in self._sealed():
                if shard not in each.digests:
                    self._send(shard, m.Digest(self.run, self.epoch, each.lng, each.attempt))
        for lsn, open_ in each.targets.items():
            for shard in sorted(open_):
                self._send(shard, m.Store(each.writes[lsn], self.epoch, version=self.version))
        if each.phase == "clean":
            for shard in sorted(each.cleaning):
                self._send(shard, m.Clean(self.run, self.epoch, each.lng, each.last, each.attempt))
        if each.phase == "done":
            self._effects.append(SetClean(self.epoch))

    def _send(self, shard: int, message: m.Message) -> None:
        self._effects.append(Send(shard, message))

    def _sealed(self) -> list[int]:
        return [shard for shard in self._nodeset.shards if shard in self._known_good]

    def _verdict(self, answered: Mapping[int, Any] | list[int], certain: bool = False) -> int:
        """Whether enough have answered; ``certain``: to tell what was never there (read-path.md#loss-is-remembered)."""
        shards = self._nodeset.shards
        statuses = {s: self.rules.digest_status(self.statuses.get(s, r.FULLY_AUTHORITATIVE)) for s in shards}
        heard = {shard: shard in answered for shard in shards}
        # Whoever answers has its data, whatever the event log says yet.
        statuses |= {s: r.FULLY_AUTHORITATIVE for s in shards if heard[s] and statuses[s] != r.AUTHORITATIVE_EMPTY}
        if certain:
            statuses = {s: self.rules.remembered(statuses[s], self.forgotten.get(s, 0), self.epoch) for s in shards}
        return self.rules.f_majority_verdict(self._nodeset.scopes, shards, statuses, heard)

    def _can_store(self, shards: Mapping[int, Any] | list[int]) -> bool:
        writable = [shard for shard in shards if shard not in self.leaving]
        return chosen(self._nodeset, self.rules, writable, 0) is not None

    def _go_on(self) -> None:
        """Take every step that is due."""
        before = None
        while not self.done and before != self._epoch.phase:
            before = self._epoch.phase
            match before:
                case "seal":
                    self._end_sealing()
                case "digest":
                    self._end_digest()
                case "mutate" if not any(self._epoch.targets.values()):
                    self._begin_cleaning()
                case "clean" if not self._epoch.cleaning:
                    self._end()

    def _end_sealing(self) -> None:
        """Source: read-path.md#recovery-seal."""
        sealed = self._sealed()
        if self.rules.recovery_may_go_on(self._verdict(sealed), self._can_store(sealed)):
            self._epoch.lng = max([self._known_good[shard].get(self.epoch, 0) for shard in sealed], default=0)
            self._epoch.phase = "digest"
            self._ask()

    def _end_digest(self) -> None:
        """Source: read-path.md#recovery-digest."""
        each = self._epoch
        if each.version > self.version:
            return  # whoever answered may be back without its data
        verdict = self._verdict(each.digests)
        can_store = self._can_store(each.digests)
        if not self.rules.recovery_may_go_on(verdict, can_store):
            return
        if verdict == r.INCOMPLETE and not each.graced:
            if not each.waits:
                each.waits = True
                self._effects.append(SetTimer("recovery grace", self.settings.grace))
            return
        writes = self._settled(self._verdict(each.digests, certain=True))
        if writes and not can_store:
            return
        each.mutation_set = tuple(shard for shard in each.digests if shard not in self.leaving)
        each.writes = {lsn: self._placed(copy) for lsn, copy in writes.items()}
        each.targets = {lsn: set(copy.copyset) for lsn, copy in each.writes.items()}
        each.phase, each.tries = "mutate", 0
        self._ask()

    def _winners(self) -> dict[int, Copy]:
        """Of each LSN above the last known good one the copy that wins (read-path.md#recovery-precedence)."""
        found: dict[int, Copy] = {}
        for copies in self._epoch.digests.values():
            for copy in copies:
                held = found.get(copy.lsn)
                if (
                    copy.lsn > self._epoch.lng
                    and copy.intact
                    and (held is None or self.rules.beats(copy.run, copy.wave, held.run, held.wave))
                ):
                    found[copy.lsn] = copy
        return found

    def _settled(self, verdict: int) -> dict[int, Copy]:
        """What is to be at each LSN above the last known good one: data, holes, and a bridge behind the last record.

        Source: read-path.md#recovery-precedence, read-path.md#recovery-bridge.
        """
        each = self._epoch
        winners = self._winners()
        plugs = self.rules.plugs(verdict)
        bridge_run = 0  # of the bridges so far: what they beat is a hole
        data = 0
        for lsn in sorted(winners):
            copy = winners[lsn]
            if copy.flags & BRIDGE:
                bridge_run = max(bridge_run, copy.run)
                if plugs:
                    winners[lsn] = new_copy(lsn, (), b"", flags=HOLE)
            elif not copy.flags & HOLE:
                if copy.run < bridge_run:
                    winners[lsn] = new_copy(lsn, (), b"", flags=HOLE)
                else:
                    data = lsn
        start = max(each.lng, lsn_of(self.epoch, 0))
        if not winners and r.esn_of(each.lng) == 0:
            each.last = 0
            return {}
        each.last = max([start, *winners])
        if plugs:
            bridge = max(start, data) + 1
            each.last, each.bridged = max(each.last, bridge), True
            winners = {
                lsn: winners.get(lsn) or new_copy(lsn, (), b"", flags=HOLE) for lsn in range(start + 1, each.last + 1)
            }
            winners[bridge] = new_copy(bridge, (), b"", flags=HOLE | BRIDGE)
        return dict(sorted(winners.items()))

    def _placed(self, copy: Copy) -> Copy:
        """The copy as it is written: on a copyset, and on all of the mutation set that have something there."""
        mutation_set = self._epoch.mutation_set
        holders = [shard for shard in mutation_set if any(each.lsn == copy.lsn for each in self._epoch.digests[shard])]
        copyset = chosen(self._nodeset, self.rules, mutation_set, copy.lsn, holders) or tuple(holders)
        flags = copy.flags & ~(DRAINED | UNDER_REPLICATED)
        return new_copy(
            copy.lsn, copyset, copy.payload, wave=self._epoch.attempt, run=self.run, lng=self._epoch.lng, flags=flags
        )

    def _begin_cleaning(self) -> None:
        """Source: read-path.md#recovery-clean."""
        self._epoch.cleaning = set(self._epoch.mutation_set)
        self._epoch.phase, self._epoch.tries = "clean", 0
        self._ask()

    def _end(self) -> None:
        each = self._epoch
        each.phase = "done"
        columns: dict[str, Any] = {"epoch": self.epoch, "recovery": self.run, "offset": each.lng}
        columns |= {"last_offset": each.last, "shards": sum(1 << shard for shard in each.mutation_set)}
        if each.bridged:
            columns["record"] = "bridge"
        self._effects.append(Note("recover", columns))
        self._ask()

    def _read_again(self) -> None:
        """Begin the epoch again with another digest; who is sealed stays so, and earlier answers do not count."""
        self._epoch = _Epoch(lng=self._epoch.lng, attempt=self._epoch.attempt + 1)
        self._go_on()
