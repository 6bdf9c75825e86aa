"""Mutants of sequencers and recoveries: what is released, settled and acknowledged."""

from __future__ import annotations

from msgspec.structs import replace

from quorumlog.events import Effect
from quorumlog.read_path import rules as r
from quorumlog.read_path.events import AppendEnded, StatusesLearned
from quorumlog.read_path.messages import DigestAnswer, Message, Store, StoreAnswer, Stored
from quorumlog.read_path.mutants.parts import mutant, with_cores, with_rules
from quorumlog.read_path.records import BRIDGE, HOLE, Copy, new_copy
from quorumlog.read_path.recovery import PATIENCE, Recovery
from quorumlog.read_path.rules import NOWHERE
from quorumlog.read_path.sequencer import SequencerCore, _Append
from quorumlog.read_path.shard import ShardCore


class ReleaseBeforeRecovery(SequencerCore):
    """Records are released while epochs before them are not settled."""

    def _may_release(self) -> bool:
        return self._shown >= self.epoch


class LngOverAborted(SequencerCore):
    """An append that failed twice is given up, and the last known good LSN moves over it."""

    def _next_wave(self, lsn: int, append: _Append) -> None:
        if append.wave < 2:
            super()._next_wave(lsn, append)
            return
        del self._open[lsn]
        self._effects.append(AppendEnded(append.request, NOWHERE))
        self._advance()


class OlderWavesCount(SequencerCore):
    """STORED of any wave counts for the one that is on its way."""

    def _stored(self, shard: int, message: Stored) -> None:
        append = self._open.get(message.lsn)
        wave = message.wave if append is None else append.wave
        super()._stored(shard, Stored(message.lsn, wave, message.run, message.answer, message.sealed))


class WaveOutlivesLoss(SequencerCore):
    """What a shard has stored counts, though it lost its disk since."""

    def _waves_anew(self, learned: StatusesLearned, rebuilt: bool) -> None:
        pass


class TrimPointIgnored(ShardCore):
    """What a shard has trimmed is no sign that it was released."""

    def _known_good(self, epoch: int) -> int:
        point, self.contents.trim_point = self.contents.trim_point, 0
        good = super()._known_good(epoch)
        self.contents.trim_point = point
        return good


class ReadsNoLng(Recovery):
    """What was released or trimmed is only heard of while shards are sealed."""

    def received(self, shard: int, message: Message) -> list[Effect]:
        """Take the answer of a shard without what it says is good by now; see `Recovery`."""
        if isinstance(message, DigestAnswer):
            message = replace(message, known_good=0)
        return super().received(shard, message)


class DigestLngIgnored(SequencerCore):
    """Its recoveries take no notice of last known good LSNs that come with digests."""

    recovery_type = ReadsNoLng


class BridgesTheLast(Recovery):
    """The bridge record lies over the last record."""

    def _settled(self, verdict: int) -> dict[int, Copy]:
        settled = super()._settled(verdict)
        for lsn in [lsn for lsn, copy in settled.items() if copy.flags & BRIDGE and lsn - 1 in settled]:
            settled[lsn - 1] = new_copy(lsn - 1, (), b"", flags=HOLE | BRIDGE)
        return settled


class BridgeOneEarly(SequencerCore):
    """Its recoveries lay the bridge record over the last record."""

    recovery_type = BridgesTheLast


class WritesNoBridge(Recovery):
    """No bridge is written, though it counts as written."""

    def _settled(self, verdict: int) -> dict[int, Copy]:
        settled = super()._settled(verdict)
        return {lsn: copy for lsn, copy in settled.items() if not copy.flags & BRIDGE}


class NoBridge(SequencerCore):
    """Its recoveries write no bridge record, so nothing says where the epoch before ended."""

    recovery_type = WritesNoBridge


class SaysNoBridge(Recovery):
    """No bridge is written, as if too few had been read to tell."""

    def _settled(self, verdict: int) -> dict[int, Copy]:
        return super()._settled(r.NON_AUTH)


class EpochLeftOpen(SequencerCore):
    """Its recoveries leave every epoch open."""

    recovery_type = SaysNoBridge


class PlugsNoHoles(Recovery):
    """What was never written is left as it is; only the bridge is new."""

    def _settled(self, verdict: int) -> dict[int, Copy]:
        settled = super()._settled(verdict)
        known = self._winners().keys()
        return {lsn: copy for lsn, copy in settled.items() if lsn in known or copy.flags & BRIDGE}


class HolesLeftOpen(SequencerCore):
    """Its recoveries plug no holes: an LSN that no shard has stays without a record."""

    recovery_type = PlugsNoHoles


class WaitsForNoStore(Recovery):
    """An epoch counts as recovered as soon as its records are on their way to the shards."""

    def _ask(self) -> None:
        super()._ask()
        if self._epoch.phase in ("mutate", "clean"):
            self._epoch.targets.clear()
            self._epoch.cleaning.clear()


class RecoveredUnstored(SequencerCore):
    """Its recoveries do not wait until what they settled is stored, and do not ask who knows of it."""

    recovery_type = WaitsForNoStore


class WaitsAsLongEachTime(Recovery):
    """It reads the shards anew after the same time each time, however long a write takes."""

    def again(self) -> list[Effect]:
        """See `Recovery`."""
        effects = super().again()
        self._patience = PATIENCE
        return effects


class PatienceStays(SequencerCore):
    """Its recoveries do not become more patient."""

    recovery_type = WaitsAsLongEachTime


class KnowsOfNoLoss(SequencerCore):
    """A sequencer stores on shards that are being rebuilt, or are empty."""

    def _copyset(self, lsn: int, fresh: bool) -> tuple[int, ...]:
        learned, self._learned = self._learned, replace(self._learned, leaving=frozenset())
        found = super()._copyset(lsn, fresh)
        self._learned = learned
        return found


class MutatesOneShort(Recovery):
    """A recovery writes one copy less than the property asks for."""

    def _placed(self, copy: Copy) -> Copy:
        placed = super()._placed(copy)
        return new_copy(
            placed.lsn,
            placed.copyset[:-1],
            placed.payload,
            wave=placed.wave,
            run=placed.run,
            lng=placed.lng,
            flags=placed.flags,
        )


class RecoveryOneCopyShort(SequencerCore):
    """Its recoveries write one copy too few."""

    recovery_type = MutatesOneShort


class RemovedShardInCopyset(SequencerCore):
    """After a failed store the copyset has a shard that is not in the nodeset any more."""

    def _copyset(self, lsn: int, fresh: bool) -> tuple[int, ...]:
        found = super()._copyset(lsn, fresh)
        assert self.nodeset is not None
        former = {shard for nodeset in self._nodesets.values() for shard in nodeset.shards}
        removed = sorted(former.difference(self.nodeset.shards))
        return (*found[1:], removed[0]) if fresh and removed and found else found


class TakesOvertaken(ShardCore):
    """A shard takes what was sent before another one of the copyset left, if that one is back."""

    def _is_overtaken(self, message: Store) -> bool:
        return False


class StoresAnyCopyset(ShardCore):
    """A shard stores copies whatever the copyset."""

    def _answer_to(self, message: Store) -> StoreAnswer:
        leaving, self.leaving = self.leaving, frozenset()
        answer = super()._answer_to(message)
        self.leaving = leaving
        return answer


def _wave_first(run: int, wave: int, other_run: int, other_wave: int) -> bool:
    return r.beats(wave, run, other_wave, other_run)


def _unavailable_is_lost(status: int) -> int:
    return r.UNDERREPLICATION if status == r.UNAVAILABLE else status


def _never_at_non_auth(verdict: int, can_store: bool) -> bool:
    return verdict in (r.COMPLETE, r.INCOMPLETE) and can_store


def _only_if_all_answered(verdict: int, can_store: bool) -> bool:
    return verdict == r.COMPLETE and can_store


MUTANTS = (
    mutant(
        "release-before-recovery",
        "records are released before earlier epochs are recovered",
        with_cores(sequencer=ReleaseBeforeRecovery, takes_release=lambda epoch, last_clean: True),
        "failover",
        checks=("recovered-copies-agree",),
    ),
    mutant(
        "wrong-precedence",
        "recovery prefers the higher wave, whoever wrote it and in whichever run",
        with_rules(beats=_wave_first),
        "taken-over",
        checks=("recovered-copies-agree",),
    ),
    mutant(
        "recovery-skips-unavailable",
        "recovery counts UNAVAILABLE as lost, as the rule was known",
        with_rules(digest_status=_unavailable_is_lost),
        "unavailable",
        checks=("acknowledged-not-lost",),
    ),
    mutant(
        "hole-at-non-auth",
        "recovery writes holes or a bridge at NON_AUTH",
        with_rules(plugs=lambda verdict: True),
        "all-lost",
        checks=("bridge-hides-nothing",),
    ),
    mutant(
        "loss-forgotten",
        "a recovery takes the word of a shard that is back without what it had",
        with_rules(remembered=lambda status, forgotten, epoch: status),
        "back-without",
        checks=("bridge-hides-nothing",),
    ),
    mutant(
        "lng-over-aborted",
        "lng advances over an aborted append",
        with_cores(sequencer=LngOverAborted),
        "default",
        checks=("replication-property-holds",),
    ),
    mutant(
        "older-waves-count",
        "STORED of an older wave counts",
        with_cores(sequencer=OlderWavesCount),
        "late-answers",
        checks=("replication-property-holds",),
    ),
    mutant(
        "wave-outlives-loss",
        "a wave goes on though a shard of it leaves or has lost its disk, and no shard refuses it",
        with_cores(sequencer=WaveOutlivesLoss, shard=TakesOvertaken),
        "overtaken-by-a-loss",
        checks=("rebuilt-is-replicated",),
    ),
    mutant(
        "overtaken-store-counts",
        "a shard takes a STORE of a sender that does not know that a shard of its copyset has left and is back",
        with_cores(shard=TakesOvertaken),
        "overtaken-unheard",
        checks=("rebuilt-is-replicated",),
    ),
    mutant(
        "bridge-one-early",
        "a bridge begins one LSN too early",
        with_cores(sequencer=BridgeOneEarly),
        "failover",
        checks=("bridge-hides-nothing",),
    ),
    mutant(
        "trim-point-ignored",
        "a recovery learns nothing of what was released from how far shards have trimmed",
        with_cores(shard=TrimPointIgnored),
        "trimmed-elsewhere",
        checks=("holes-are-for-all",),
    ),
    mutant(
        "digest-lng-ignored",
        "a recovery takes no notice of last known good LSNs that come with digests",
        with_cores(sequencer=DigestLngIgnored),
        "trimmed-elsewhere",
        checks=("holes-are-for-all",),
    ),
    mutant(
        "no-bridge",
        "recovery writes no bridge",
        with_cores(sequencer=NoBridge),
        "failover",
        checks=("recovery-settles-all",),
    ),
    mutant(
        "epoch-left-open",
        "recovery takes every verdict for NON_AUTH, and writes neither holes nor a bridge",
        with_cores(sequencer=EpochLeftOpen),
        "failover",
        checks=("recovery-settles-all",),
    ),
    mutant(
        "holes-left-open",
        "recovery plugs no holes",
        with_cores(sequencer=HolesLeftOpen),
        "failover",
        checks=("recovery-settles-all",),
    ),
    mutant(
        "recovered-unstored",
        "recovery waits for no shard once it has read what there is",
        with_cores(sequencer=RecoveredUnstored),
        "failover",
        checks=("recovery-settles-all",),
    ),
    mutant(
        "empty-copies-count",
        "a record is acknowledged by copies on shards that count as empty",
        with_cores(sequencer=KnowsOfNoLoss, shard=StoresAnyCopyset),
        "rebuilding",
        checks=("empty-takes-nothing",),
    ),
    mutant(
        "recovery-one-copy-short",
        "recovery writes one copy too few",
        with_cores(sequencer=RecoveryOneCopyShort),
        "failover",
        checks=("recovered-copies-agree",),
    ),
    mutant(
        "removed-shard-in-copyset",
        "a copyset contains a removed shard",
        with_cores(sequencer=RemovedShardInCopyset, shard=StoresAnyCopyset),
        "failover",
        "https://github.com/apache/bookkeeper/issues/2615",
        checks=("replication-property-holds",),
    ),
    mutant(
        "repair-for-ever",
        "an epoch with a lost node is recovered without end",
        with_rules(recovery_may_go_on=_only_if_all_answered),
        "unavailable",
        "https://github.com/restatedev/restate/issues/4463",
    ),
    mutant(
        "patience-stays",
        "a recovery waits as long each time until it reads the shards anew",
        with_cores(sequencer=PatienceStays),
        "slow-disks",
    ),
    mutant(
        "seal-needs-f-majority",
        "recovery waits for an f-majority, though all that are left have answered",
        with_rules(recovery_may_go_on=_never_at_non_auth),
        "all-lost",
        "https://github.com/restatedev/restate/issues/3307",
    ),
)
