"""Mutants of shards: what they answer, release, seal and delete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as rule_set
from typing import Any

from msgspec.structs import replace

from quorumlog.events import Effect, Event, Send
from quorumlog.read_path import messages as m
from quorumlog.read_path.events import Change, Persist
from quorumlog.read_path.mutants.parts import mutant, with_cores, with_rules
from quorumlog.read_path.records import DRAINED, Copy
from quorumlog.read_path.rules import REFERENCE, Rules, epoch_of
from quorumlog.read_path.shard import ShardCore
from quorumlog.read_path.shipping import Stream

_LATER = 1 << 40
"""A run that is later than any other: what it beats is everything."""


class WipedShardAnswers(ShardCore):
    """A shard that lost its data serves as if it had none to lose."""

    @property
    def lost(self) -> bool:
        """Never, whatever its disk has lost."""
        return False


class DoneAtOnce(ShardCore):
    """A donor says that it has made its part of the copies anew, and makes none."""

    def _to_amend(self) -> list[Copy]:
        return []


class DoneWhileOnItsWay(ShardCore):
    """A donor looks at what is on its disk alone, not at what is on its way there."""

    def _more_to_come(self) -> bool:
        settled = epoch_of(self.released)
        copies = (*self._on_their_way(), *self.contents.copies.values())
        return any(copy.run and epoch_of(copy.lsn) >= settled for copy in copies)


class FirstAlone(ShardCore):
    """Whoever is not the first of a copyset leaves its copies to the first, and is done."""

    def _to_amend(self) -> list[Copy]:
        return [copy for copy in super()._to_amend() if self._is_donor(copy)]


class DrainedLeftToOthers(ShardCore):
    """What was drained is left to the others that its copyset names, if any of them stays."""

    def _to_amend(self) -> list[Copy]:
        found = super()._to_amend()
        return [copy for copy in found if self.number in copy.copyset or self._is_donor(copy)]


class OwnOrder(ShardCore):
    """A donor writes the shards that stay first, so that another donor of the record writes them in another order."""

    def _in_order(self, lsn: int, copyset: tuple[int, ...]) -> tuple[int, ...]:
        return copyset


class TakenBeforePurge(ShardCore):
    """A shard takes from a donor what it is still to purge, and the purge deletes it, whoever wrote it."""

    def _takes_of_donor(self, message: m.Store) -> bool:
        return True

    def _delete_of(self, epoch: int, lng: int, run: int, attempt: int) -> None:
        super()._delete_of(epoch, lng, _LATER, 0)


class AlwaysAuthoritative(ShardCore):
    """A donor says that nothing can be lost, whoever is lost with it."""

    def _authoritative(self) -> bool:
        return True


class DrainedShips(ShardCore):
    """A copy that was drained is shipped."""

    def _passes(self, stream: Stream, copy: Copy) -> bool:
        return bool(copy.flags & DRAINED) or super()._passes(stream, copy)


class DrainedHeldBack(ShardCore):
    """A copy that was drained is shipped to nobody."""

    def _passes(self, stream: Stream, copy: Copy) -> bool:
        return not copy.flags & DRAINED and super()._passes(stream, copy)


class OlderVersionSaid(ShardCore):
    """A shard knows more of the event log than its answers say."""

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take one event; what is sent to readers is as if nobody had told this shard anything."""
        effects = super().handle(now, event)
        for place, effect in enumerate(effects):
            if isinstance(effect, Send) and isinstance(effect.message, m.Started | m.Records | m.ShardGap):
                effects[place] = Send(effect.to, replace(effect.message, version=0))
        return effects


class TrimsUnsaid(ShardCore):
    """A shard passes over what it trimmed without a word."""

    def _send_gap(self, reader: int, stream: Stream, kind: m.GapKind, last: int) -> None:
        if kind is m.GapKind.TRIM:
            stream.sent = last
        else:
            super()._send_gap(reader, stream, kind, last)


class LastWaveStays(ShardCore):
    """Whatever a shard stores last of an LSN is what it has."""

    def __init__(self, *args: Any, rules: Rules = REFERENCE, **named: Any) -> None:  # noqa: ANN401 - as the core's
        super().__init__(*args, rules=rule_set(rules, beats=lambda *_: False), **named)


class ReleaseIgnored(ShardCore):
    """A shard sends what it has, released or not."""

    def _readable(self, stream: Stream) -> int:
        last = max(self.contents.copies, default=0)
        return min(max(self.released, last), stream.start.until, stream.high)


class Unfenced(ShardCore):
    """A recovery reads, and nobody is kept from writing."""

    def _seal(self, sender: int, message: m.Seal) -> None:
        self._sealed_now(sender, message)

    def _digest(self, sender: int, message: m.Digest) -> None:
        copies = self.contents.of_epochs(message.epoch, message.epoch)
        found = tuple(copy for copy in copies if copy.lsn > message.lng)
        answer = m.DigestAnswer(message.run, message.epoch, found, message.attempt, self.version)
        self._effects.append(Send(sender, answer))

    def _answer_to(self, message: m.Store) -> m.StoreAnswer:
        return m.StoreAnswer.OK


class SealForgotten(ShardCore):
    """A seal is not on the disk: after a restart a shard takes what it had refused."""

    def _persist(self, change: Change, then: Callable[[], None]) -> None:
        super()._persist(change, then)
        self._effects[-1] = Persist(self._tickets, replace(change, sealed=None))


class UnsealedWhenBack(ShardCore):
    """A shard whose disk was lost begins without a seal."""

    def _seal_when_back(self, epoch: int) -> int:
        return 0


class WrittenAgain(ShardCore):
    """What is asked for again while it is on its way to the disk is written again."""

    def _persist_for(self, sender: int, message: m.Message, change: Change, then: Callable[[], None]) -> None:
        self._persist(change, then)

    def _write_of(self, copy: Copy) -> None:
        return None


class AnsweredBeforeDurable(ShardCore):
    """STORED is sent at once, before the copy is durable."""

    def _store(self, sender: int, message: m.Store) -> None:
        copy, answer = message.copy, self._answer_to(message)
        if answer is m.StoreAnswer.OK:
            self._effects.append(Send(sender, m.Stored(copy.lsn, copy.wave, copy.run, answer, self._sealed)))
        super()._store(sender, message)


def _overtaken_run_writes(epoch: int, run: int, sealed: int) -> bool:
    return run > 0 or epoch > sealed


MUTANTS = (
    mutant(
        "wiped-shard-answers",
        "a wiped shard answers",
        with_cores(shard=WipedShardAnswers),
        "stale-answers",
        checks=("lost-data-refuses", "gap-has-verdict"),
    ),
    mutant(
        "done-at-once",
        "a donor is done at once",
        with_cores(shard=DoneAtOnce),
        "rebuilding",
        checks=("rebuilt-is-replicated",),
    ),
    mutant(
        "done-while-on-its-way",
        "a donor is done though a copy that names who leaves is on its way to its disk",
        with_cores(shard=DoneWhileOnItsWay),
        "long-on-its-way",
        checks=("rebuilt-is-replicated",),
    ),
    mutant(
        "first-alone",
        "a donor trusts that the first of each copyset makes the copies anew",
        with_cores(shard=FirstAlone),
        "drain-given-up",
        checks=("rebuilt-is-replicated",),
    ),
    mutant(
        "drained-left-to-others",
        "a shard leaves what was drained there to the others that its copyset names",
        with_cores(shard=DrainedLeftToOthers),
        "drained-unheard",
        checks=("rebuilt-is-replicated",),
    ),
    mutant(
        "donors-differ",
        "each donor of a record orders its copyset in a way of its own",
        with_cores(shard=OwnOrder),
        "two-donors",
        checks=("one-shipper",),
    ),
    mutant(
        "taken-before-purge",
        "a shard takes copies of a donor before it has purged the epoch, and purges whatever wrote them",
        with_cores(shard=TakenBeforePurge),
        "away-then-donated",
        checks=("rebuilt-is-replicated",),
    ),
    mutant(
        "always-authoritative",
        "a donor is always done authoritatively",
        with_cores(shard=AlwaysAuthoritative),
        "two-away",
        checks=("rebuilt-is-replicated",),
    ),
    mutant(
        "older-version-said",
        "an answer carries an older version of the event log than the shard knows",
        with_cores(shard=OlderVersionSaid),
        "rebuilding",
        checks=("lost-data-refuses",),
    ),
    mutant(
        "drained-ships",
        "drained copies are shipped",
        with_cores(shard=DrainedShips),
        "rebuilding",
        checks=("one-shipper",),
    ),
    mutant(
        "drained-held-back",
        "drained copies are not shipped in all-send-all either",
        with_cores(shard=DrainedHeldBack),
        "rebuilding",
        checks=("ships-all-it-has",),
        seeds=32,
    ),
    mutant(
        "trims-unsaid",
        "a shard passes over what it trimmed without a TRIM gap",
        with_cores(shard=TrimsUnsaid),
        "stale-answers",
        checks=("trimmed-is-said",),
        seeds=32,
    ),
    mutant(
        "last-wave-stays",
        "at a shard the write that comes last stays, whichever wave it is of",
        with_cores(shard=LastWaveStays),
        "default",
        checks=("best-write-stays",),
    ),
    mutant(
        "release-ignored",
        "a shard ignores a release",
        with_cores(shard=ReleaseIgnored),
        "failover",
        checks=("released-only",),
    ),
    mutant(
        "release-without-purge",
        "a shard takes a RELEASE without a purge",
        with_rules(takes_release=lambda epoch, last_clean: True),
        "left-behind",
        checks=("recovered-copies-agree",),
    ),
    mutant(
        "recovery-unfenced",
        "recovery reads without a fence",
        with_cores(shard=Unfenced),
        "failover",
        "https://github.com/apache/bookkeeper/issues/2614",
        ("holes-are-for-all", "recovered-copies-agree", "bridge-hides-nothing", "seal-is-kept"),
    ),
    mutant(
        "unsealed-when-back",
        "a shard that is back after a loss takes what it was sealed against",
        with_cores(shard=UnsealedWhenBack),
        "asleep-and-lost",
        checks=("recovered-copies-agree",),
    ),
    mutant(
        "seal-forgotten",
        "a seal is not durable",
        with_cores(shard=SealForgotten),
        "asleep",
        checks=("seal-is-kept",),
    ),
    mutant(
        "overtaken-run-writes",
        "a recovery that was overtaken may write",
        with_rules(takes_store=_overtaken_run_writes),
        "far-failover",
        checks=("seal-is-kept",),
    ),
    mutant(
        "written-again",
        "a shard writes again what is asked for again while it is on its way to the disk",
        with_cores(shard=WrittenAgain),
        "slow-disks",
    ),
    mutant(
        "answered-before-durable",
        "STORED is sent before the copy is durable",
        with_cores(shard=AnsweredBeforeDurable),
        checks=("replication-property-holds",),
    ),
)
