"""Mutants of readers: statuses, gap detection, rewinds, the window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from quorumlog.events import SetTimer
from quorumlog.read_path import rules as r
from quorumlog.read_path.events import StatusesLearned
from quorumlog.read_path.messages import Records
from quorumlog.read_path.mutants.parts import mutant, with_cores, with_rules
from quorumlog.read_path.reader import ReaderCore, Record, value_of
from quorumlog.read_path.records import Copy, decompressed
from quorumlog.read_path.rules import NOWHERE, Scope
from quorumlog.read_path.stream import ShardState, with_payload


class EmptyWithoutRewind(ReaderCore):
    """What became empty makes nobody ask again."""

    def _rewinds(self, changes: Iterable[tuple[int, int]], completed: int) -> bool:
        return False


class FirstStatusesUnnoticed(ReaderCore):
    """What the first statuses say was so before anybody was asked."""

    def _rewinds(self, changes: Iterable[tuple[int, int]], completed: int) -> bool:
        return bool(self.logged) and super()._rewinds(changes, completed)


class OldStatuses(ReaderCore):
    """The rule as it was known: a change to EMPTY rewinds if it is seen, and versions are not compared."""

    def _rewinds(self, changes: Iterable[tuple[int, int]], completed: int) -> bool:
        return any(self.rules.status_rewinds(*change) for change in changes)


def _verdict_of(statuses: Mapping[int, int], **_: Any) -> Mapping[int, int]:  # noqa: ANN401
    return {s: r.AUTHORITATIVE_EMPTY if status == r.UNAVAILABLE else status for s, status in statuses.items()}


def _without_unavailable(
    scopes: Sequence[Scope], shards: Sequence[int], statuses: Mapping[int, int], states: Mapping[int, int]
) -> int:
    return r.gap_verdict(scopes, shards, _verdict_of(statuses), states)


def _one_short(
    scopes: Sequence[Scope], shards: Sequence[int], statuses: Mapping[int, int], states: Mapping[int, int]
) -> int:
    fewer = [Scope(scope.factor + 1, scope.domains) for scope in scopes]
    return r.gap_verdict(fewer, shards, statuses, states)


def _incomplete_as_complete(
    scopes: Sequence[Scope], shards: Sequence[int], statuses: Mapping[int, int], states: Mapping[int, int]
) -> int:
    verdict = r.gap_verdict(scopes, shards, statuses, states)
    return r.COMPLETE if verdict == r.INCOMPLETE else verdict


def _in_every_scope(
    scopes: Sequence[Scope], shards: Sequence[int], statuses: Mapping[int, int], states: Mapping[int, int]
) -> int:
    return min(r.gap_verdict([scope], shards, statuses, states) for scope in scopes)


class UnavailableForgone(ReaderCore):
    """The rule as it was known: whoever wants efficiency does not wait for what may come back."""

    def status(self, shard: int) -> int:
        """As the stream has it, but for UNAVAILABLE."""
        status = super().status(shard)
        forgone = self.settings.guaranteed_delivery_efficiency and status == r.UNAVAILABLE
        return r.UNDERREPLICATION if forgone else status


class GivenUpForgotten(ReaderCore):
    """Whoever wants efficiency trusts copysets as soon as nothing is being rebuilt."""

    def _statuses_learned(self, learned: StatusesLearned) -> None:
        super()._statuses_learned(replace(learned, given_up=False))


class DrainOverlooked(ReaderCore):
    """Whoever wants efficiency trusts copysets while a shard is drained, since that one is up."""

    def _statuses_learned(self, learned: StatusesLearned) -> None:
        super()._statuses_learned(replace(learned, rebuilt=learned.rebuilt - learned.drained))


class StartKeepsNext(ReaderCore):
    """A START leaves what the shard had said in force."""

    def _reset(self, each: ShardState) -> None:
        each.next = max(each.next, self.position)


class StaleFilterVersion(ReaderCore):
    """Data counts whichever START it answers."""

    def _accepts(self, shard: int) -> bool:
        return True


class GapDuringRewind(ReaderCore):
    """A rewind that is due keeps nobody from issuing a gap."""

    def _waits(self) -> bool:
        rewinding, self.rewinding = self.rewinding, False
        waits = super()._waits()
        self.rewinding = rewinding
        return waits


class TrimOverRejected(ReaderCore):
    """A trim point passes over what the application has rejected."""

    def _comes_next(self, front: Copy | None) -> bool:
        return False


class GraceRestarted(ReaderCore):
    """Every wake-up sets the grace timer anew."""

    def _detect_gap(self) -> bool:
        found = super()._detect_gap()
        if self._grace:
            self._effects.append(SetTimer("grace", self.settings.grace))
        return found


class NoMarker(ReaderCore):
    """No marker where what a shard may lack ends."""

    def _passed(self, each: ShardState, last: int, under_replicated: bool) -> None:
        super()._passed(each, last, under_replicated=False)
        if under_replicated:
            each.ur = max(each.ur, last + 1)

    def _move_to(self, position: int) -> None:
        self.position = position
        self.buffer.drop_below(position)


class UnderReplicatedIgnored(ReaderCore):
    """What a shard may lack is taken for what it does not have."""

    def _passed(self, each: ShardState, last: int, under_replicated: bool) -> None:
        super()._passed(each, last, under_replicated=False)


class RewindKeepsHeard(ReaderCore):
    """What was heard before a rewind is delivered after it."""

    def _forget(self) -> None:
        pass


class DamageIgnored(ReaderCore):
    """A payload is delivered whether it is what was written or not."""

    def _records(self, shard: int, each: ShardState, message: Records) -> None:
        for copy, payload in zip(message.copies, decompressed(message.block, len(message.copies)), strict=True):
            if each.next <= copy.lsn <= self.high:
                self._record(shard, each, copy.lsn, with_payload(copy, payload))


class DeduplicatedByArrival(ReaderCore):
    """A copy is taken for another one's if it came lately, wherever it belongs."""

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **named)
        self._lately: deque[int] = deque(maxlen=8)

    def _record(self, shard: int, each: ShardState, lsn: int, copy: Copy | None) -> None:
        super()._record(shard, each, lsn, copy)
        if copy is None or copy.word != "data":
            return
        value = value_of(copy.payload)
        if lsn < self.position and value not in self._lately and self._hand_over(Record(lsn, copy.payload)):
            self._note("stream_record", offset=lsn, value=value)
        self._lately.append(value)


class SlideBeforeDelivery(ReaderCore):
    """The window slides by what was heard, not by what was delivered."""

    def _slide(self) -> bool:
        if self.newest > self.high and self.position <= self.high:
            behind = self.buffer.above(self.position)
            if behind != NOWHERE:
                self._move_to(behind)
        return super()._slide()


class WindowEndFalls(ReaderCore):
    """A window that shrinks ends earlier, whatever was asked for."""

    def _window_end(self) -> int:
        return min(self.until, self.position + self.size - 1)


class AllSendAllWithList(ReaderCore):
    """All send all comes with the known-down list, and is none."""

    def _start(self, shard: int) -> None:
        single, self.single = self.single, True
        super()._start(shard)
        self.single = single


class LostOneShort(ReaderCore):
    """A gap counts one lost record less than it has."""

    def _lost(self, first: int, last: int) -> int:
        return last - first


class NoRepeatBeforeLoss(ReaderCore):
    """A loss is issued when it is first seen."""

    def _looks_again(self) -> bool:
        return False


def _bridge_hides_loss(position: int, end: int, trim_point: int, first: bool, in_flight: int, all_lost: bool) -> int:
    found = r.gap_type(position, end, trim_point, first, in_flight, all_lost)
    return r.BRIDGE if found == r.DATALOSS else found


def _waits_for_ever(verdict: int, require_full_read_set: bool, grace: bool) -> int:
    return r.gap_decision(verdict, require_full_read_set, grace) if verdict != r.NON_AUTH else r.WAIT


MUTANTS = (
    mutant(
        "empty-without-rewind",
        "a shard that turns EMPTY does not make the reader rewind",
        with_cores(reader=EmptyWithoutRewind),
        "stale-answers",
        checks=("no-gap-too-early",),
    ),
    mutant(
        "first-statuses-unnoticed",
        "the first statuses that a reader learns do not make it rewind, whatever it has heard before",
        with_cores(reader=FirstStatusesUnnoticed),
        "late-first-statuses",
        checks=("acknowledged-not-lost",),
    ),
    mutant(
        "old-statuses",
        "a gap may follow from statuses older than the answers (the known rule, without versions)",
        with_cores(reader=OldStatuses, statuses_suffice=lambda answers, known: True),
        "stale-answers",
        checks=("no-gap-too-early",),
    ),
    mutant(
        "unavailable-dropped",
        "UNAVAILABLE shards are dropped from the read set",
        with_rules(gap_verdict=_without_unavailable),
        checks=("gap-has-verdict", "acknowledged-not-lost"),
    ),
    mutant(
        "unavailable-forgone",
        "with `guaranteed_delivery_efficiency`, UNAVAILABLE counts as UNDERREPLICATION (the known rule)",
        with_cores(reader=UnavailableForgone),
        "efficient",
        checks=("gap-has-verdict", "acknowledged-not-lost"),
    ),
    mutant(
        "given-up-forgotten",
        "with `guaranteed_delivery_efficiency`, a gap is issued in SCD though a rebuilding was given up",
        with_cores(reader=GivenUpForgotten),
        "efficient",
        checks=("no-gap-too-early",),
    ),
    mutant(
        "drain-overlooked",
        "with `guaranteed_delivery_efficiency`, a gap is issued in SCD while a shard is drained",
        with_cores(reader=DrainOverlooked),
        "read-while-drained",
        checks=("no-gap-too-early", "acknowledged-not-lost"),
    ),
    mutant(
        "lost-without-rewind",
        "a shard whose data is lost while it is rebuilt does not make the reader rewind (the known rule)",
        with_rules(status_rewinds=lambda before, after: before != after == r.AUTHORITATIVE_EMPTY),
        "lost-in-turn",
        checks=("acknowledged-not-lost",),
    ),
    mutant(
        "f-majority-one-short",
        "n - R shards count as an f-majority",
        with_rules(gap_verdict=_one_short),
        "losses",
        checks=("gap-has-verdict",),
    ),
    mutant(
        "incomplete-as-complete",
        "INCOMPLETE is treated as COMPLETE",
        with_rules(gap_verdict=_incomplete_as_complete),
        "losses",
        checks=("gap-has-verdict",),
    ),
    mutant(
        "start-keeps-next",
        "a START keeps what the reader knew of the shard (`next`, `ur`)",
        with_cores(reader=StartKeepsNext),
        "failover",
        checks=("gap-has-verdict", "bridge-hides-nothing", "progress-or-stall"),
    ),
    mutant(
        "stale-filter-version",
        "messages of an old filter version are accepted",
        with_cores(reader=StaleFilterVersion),
        "far-failover",
        checks=("gap-has-verdict", "acknowledged-not-lost"),
    ),
    mutant(
        "gap-during-rewind",
        "a gap is issued while a rewind is pending",
        with_cores(reader=GapDuringRewind),
        "late-rewinds",
        checks=("no-gap-too-early",),
    ),
    mutant(
        "trim-over-rejected",
        "a TRIM gap is delivered over a rejected record",
        with_cores(reader=TrimOverRejected),
        checks=("rejected-comes-next",),
    ),
    mutant(
        "under-replicated-ignored",
        "a reader ignores UNDER_REPLICATED",
        with_cores(reader=UnderReplicatedIgnored),
        "restarts",
        checks=("gap-has-verdict",),
    ),
    mutant(
        "rewind-keeps-heard",
        "a rewind keeps what was heard before",
        with_cores(reader=RewindKeepsHeard),
        "failover",
        checks=("gap-has-verdict",),
    ),
    mutant(
        "damage-ignored",
        "a reader ignores checksums",
        with_cores(reader=DamageIgnored),
        "rot",
        checks=("record-as-appended",),
    ),
    mutant(
        "grace-restarted",
        "the grace period starts over at each wake-up",
        with_cores(reader=GraceRestarted),
        "long-grace",
        checks=("progress-or-stall",),
    ),
    mutant(
        "f-majority-in-every-scope",
        "an f-majority is asked for in every scope, not in any",
        with_rules(gap_verdict=_in_every_scope),
        "rack-away",
        checks=("progress-or-stall",),
    ),
    mutant(
        "no-marker",
        "no marker is set at the end of an under-replicated range",
        with_cores(reader=NoMarker),
        "said-in-pieces",
        checks=("gap-has-verdict", "acknowledged-not-lost"),
    ),
    mutant(
        "too-many-slow",
        "R shards may be slow at once",
        with_rules(most_slow=lambda factor, down: factor),
        "slow-alone",
        checks=("slow-is-bounded",),
    ),
    mutant(
        "deduplicated-by-arrival",
        "duplicates are recognised by what arrived recently, not by their LSN",
        with_cores(reader=DeduplicatedByArrival),
        checks=("tiling",),
    ),
    mutant(
        "slide-before-delivery",
        "the window slides before delivery",
        with_cores(reader=SlideBeforeDelivery),
        checks=("tiling",),
    ),
    mutant(
        "window-end-falls",
        "a window that shrinks under memory pressure drops what is on its way",
        with_cores(reader=WindowEndFalls),
        "short-of-memory",
        checks=("acknowledged-not-lost",),
    ),
    mutant(
        "all-send-all-with-list",
        "all-send-all STARTs carry the known-down list",
        with_cores(reader=AllSendAllWithList),
        "failover",
        checks=("no-gap-too-early", "bridge-hides-nothing"),
    ),
    mutant(
        "lost-one-short",
        "a loss from lo to hi counts hi - lo records",
        with_cores(reader=LostOneShort),
        "losses",
        checks=("gap-has-type",),
    ),
    mutant(
        "no-repeat-before-loss",
        "the first DATALOSS found in SCD is issued without a rewind",
        with_cores(reader=NoRepeatBeforeLoss),
        "losses-in-scd",
        checks=("no-gap-too-early",),
    ),
    mutant(
        "bridge-hides-loss",
        "a BRIDGE is delivered over a loss",
        with_rules(gap_type=_bridge_hides_loss),
        "losses",
        checks=("bridge-hides-nothing", "gap-has-type"),
    ),
    mutant(
        "reader-stuck-no-dataloss",
        "a reader waits forever where a data loss gap was due",
        with_rules(gap_decision=_waits_for_ever),
        "losses",
        "https://github.com/restatedev/restate/issues/5107",
        checks=("progress-or-stall",),
    ),
)
