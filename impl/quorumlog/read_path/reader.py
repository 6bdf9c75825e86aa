"""The reader of a log: one event in, effects out. No clock, no socket, no randomness.

    reader = ReaderCore(stream=1, first=lsn_of(1, 1))
    for effect in reader.handle(now, Started()):
        ...  # the driver carries it out
    records, gap = reader.read(10)

It puts records in order, drops copies that it has, and tells a record that is lost from one that is late. `stream` is
what it knows of its shards, `rewinds` whom it asks for copies; the decisions are in ``rules``. It asks the metadata log
for nodesets, is told of the event log, and connects to every shard of the nodeset.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from quorumlog.events import Effect, Event, Received, Started, TimerFired
from quorumlog.read_path import rules as r
from quorumlog.read_path.configuration import ReaderSettings
from quorumlog.read_path.events import Connected, Disconnected, MemoryPressed, MetadataRead, StatusesLearned
from quorumlog.read_path.messages import GapKind, Records, ShardGap
from quorumlog.read_path.messages import Started as StartedMessage
from quorumlog.read_path.records import BRIDGE, EPOCH_BEGIN, FILTERED_OUT, HOLE, Copy
from quorumlog.read_path.rewinds import Rewinding
from quorumlog.read_path.rules import NOWHERE, REFERENCE, Rules
from quorumlog.read_path.stream import LAST_LSN

_DEFAULT = ReaderSettings()
_GAP_WORDS = {r.DATALOSS: "dataloss", r.TRIM: "trim", r.BRIDGE: "bridge"}
_VERDICT_WORDS = {r.COMPLETE: "complete", r.INCOMPLETE: "incomplete", r.NON_AUTH: "non_auth", r.NONE: "none"}


class Record(NamedTuple):
    """A record as it is delivered."""

    lsn: int
    payload: bytes


class Gap(NamedTuple):
    """A gap as it is delivered, of one of the types of `loghistory.vocabularies.read_path.GapWord`.

    ``lost``: how many LSNs of it held, or may have held, a record that is lost.
    """

    kind: str
    first: int
    last: int
    lost: int


def value_of(payload: bytes) -> int:
    """The value by which the history names a payload: its first eight bytes."""
    return int.from_bytes(payload[:8], "big")


class ReaderCore(Rewinding):
    """One read stream, from ``first`` to ``until``, both inclusive. Readable at any time: position, high, shards, mode.

    ``seed`` orders copysets, ``region`` is where the reader is; both count for single-copy delivery alone.
    """

    def __init__(
        self,
        stream: int,
        first: int,
        until: int = LAST_LSN,
        settings: ReaderSettings = _DEFAULT,
        *,
        seed: int = 0,
        region: str = "",
        rules: Rules = REFERENCE,
    ) -> None:
        super().__init__(stream, first, until, settings, rules, seed, region)
        self._ready: deque[Record | Gap] = deque()
        self.rejected = NOWHERE
        """The LSN that the application did not take, and that comes next."""
        self._redelivering = False
        self._redelivery = settings.redelivery
        self._grace = self._grace_over = False
        self._loss_at = NOWHERE
        self._pressed = False

    # -- for the application -------------------------------------------------------------------------------------------

    def read(self, count: int) -> tuple[list[Record], Gap | None]:
        """Take up to ``count`` records that are ready, in order, or those before a gap, and the gap."""
        records: list[Record] = []
        while self._ready and len(records) < count:
            item = self._ready.popleft()
            if isinstance(item, Gap):
                return records, item
            records.append(item)
        return records, None

    # -- events --------------------------------------------------------------------------------------------------------

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take one event; return the effects, to be carried out in order."""
        self.now, self._effects = now, []
        if self.ended:
            return self._effects
        match event:
            case Started():
                self._begin()
            case Received(message=message) if getattr(message, "stream", self.stream) != self.stream:
                pass
            case Received(shard, StartedMessage() as message) if shard in self.shards:
                self._started(shard, message)
            case Received(shard, ShardGap() as gap) if gap.kind in (GapKind.ACCESS, GapKind.NOT_IN_CONFIG):
                if shard in self.shards and self._accepts(shard):
                    self._end_with(gap.kind.value)
            case Received(shard, (Records() | ShardGap()) as message) if shard in self.shards:
                self._heard(shard, message)
            case Connected(shard):
                self._connected(shard)
            case Disconnected(shard):
                self._disconnected(shard)
            case StatusesLearned():
                self._statuses_learned(event)
            case MetadataRead():
                self._metadata_read(event)
            case MemoryPressed(short):
                self._pressed = short
            case TimerFired(name):
                self._timer_fired(name)
        if not self.ended:
            self._deliver()
        return self._effects

    def _begin(self) -> None:
        self._note("stream_settings", text=self.settings.as_text())
        if self.settings.single_copy:
            self._timer("scd", self.settings.scd_timeout)
            self._timer("all send all", self.settings.all_send_all_timeout)
        if r.epoch_of(self.position) == 0:
            self._gap(self.position, r.lsn_of(1, 0), "bridge")
        self.known_epoch = r.epoch_of(self.position) - 1
        self._ask_metadata()

    def _timer_fired(self, name: str) -> None:
        match name.split(" "):
            case ["shard", number]:
                self._shard_timer(int(number))
            case ["rewind"]:
                self.rejected = NOWHERE
                self._rewind()
                self._cancel_grace()
            case ["grace"] if self._grace:
                self._grace, self._grace_over = False, True
                self._note("stream_grace", offset=self.position, f="over")
                for shard, each in self.shards.items():
                    if self.state(shard) == r.SILENT:
                        each.expired += 1
            case ["redelivery"]:
                self._redelivering = False
            case ["metadata"]:
                self._ask_metadata()
            case ["scd"] | ["all", "send", "all"]:
                self._judge_slow()
                self._tick(name, deliverable=self.position in self.buffer.records)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Deliver what can be, until stuck (read-path.md#loop-until-stuck)."""
        while not self.ended and not self._redelivering:
            if self.position <= self.high and self._step():
                self._cancel_grace()
            elif not self._slide():
                trimmed = self.settings.skip_trimmed and self.position <= self.trim_point
                if trimmed or self.position in self.buffer.records:
                    return
                self._check_single_copy()
                self._judge_slow()
                return

    def _step(self) -> bool:
        """Take the first step that applies; tell whether it brought anything on."""
        front = self.buffer.records.get(self.position)
        if self.trim_point >= self.position and self.settings.skip_trimmed and not self._comes_next(front):
            end = self._as_far_as_known(self.trim_point + 1)
            return end != NOWHERE and self._gap(self.position, end - 1, "trim")
        if front is not None:
            return self._deliver_record(front)
        if self.buffer.is_marker(self.position):
            self.buffer.drop_marker(self.position)
            return True
        begin = self._begin_of_epoch()
        if begin != NOWHERE:
            return self._gap(self.position, begin - 1, "bridge")
        return self._detect_gap()

    def _comes_next(self, front: Copy | None) -> bool:
        """Whether the front is what was rejected, and comes before anything else (read-path.md#deliver-trim)."""
        return front is not None and self.rejected == front.lsn

    def _deliver_record(self, copy: Copy) -> bool:
        """Deliver the record at the front, of whatever kind it is (read-path.md#deliver-record)."""
        lsn = copy.lsn
        if copy.flags & BRIDGE:
            epoch = r.epoch_of(lsn)
            if not self._gap(lsn, r.lsn_of(epoch + 1, 0) - 1, "bridge"):
                return False
            self.known_epoch = max(self.known_epoch, epoch)
            self._reach_upcoming()
            if not self.ended:
                self._knows(epoch + 1)
            return True
        if copy.flags & HOLE:
            return self._gap(lsn, lsn, "hole")
        if copy.flags & FILTERED_OUT:
            return self._gap(lsn, lsn, "filtered_out")
        if not self._hand_over(Record(lsn, copy.payload)):
            return False
        self._note("stream_record", offset=lsn, value=value_of(copy.payload))
        self._pass(lsn + 1)
        return True

    def _begin_of_epoch(self) -> int:
        """Where the first record of the epoch is, if there is none before it (read-path.md#bridge-at-begin)."""
        if r.esn_of(self.position) != 0 and self.position != self.first:
            return NOWHERE
        first = self.buffer.above(self.position)
        copy = self.buffer.records.get(first)
        if copy is None or r.epoch_of(first) != r.epoch_of(self.position):
            return NOWHERE
        if r.esn_of(first) != 1 and not copy.flags & EPOCH_BEGIN:
            return NOWHERE
        return first if self._knows(r.epoch_of(first)) else NOWHERE

    # -- gaps ----------------------------------------------------------------------------------------------------------

    def _detect_gap(self) -> bool:
        """Deliver a gap if the answers allow it (read-path.md#detect-gap, read-path.md#gap-verdict)."""
        if self.nodeset is not None and not self.shards:
            return self._nobody_to_ask()
        verdict, decision, end = r.NONE, r.WAIT, self._gap_end()
        if not self._waits() and end != NOWHERE:
            verdict, decision = self._decide(end)
        if decision == r.GRACE and not self._grace_over:
            if not self._grace:
                self._grace = True
                self._note("stream_grace", offset=self.position, f="begun")
                self._timer("grace", self.settings.grace)
            return False
        if decision == r.WAIT:
            self._cancel_grace()
            return False
        kind = self._gap_type(end)
        if kind == r.DATALOSS and self._looks_again():
            return False
        return self._gap(self.position, end - 1, _GAP_WORDS[kind], _VERDICT_WORDS[verdict])

    def _nobody_to_ask(self) -> bool:
        """The nodeset of the known epochs is gone: nothing of them is left (read-path.md#epoch-metadata)."""
        if self._last or not self._knows(r.epoch_of(self.position)):
            self._timer("metadata", self.settings.metadata)
            return False
        end = r.lsn_of(self.known_epoch + 1, 0)
        return self._gap(self.position, end - 1, "trim" if end <= self.trim_point + 1 else "bridge")

    def _waits(self) -> bool:
        """Whether no gap may follow from answers now (read-path.md#no-gap-too-early)."""
        return self.rewinding or not self.shards or not self.rules.statuses_suffice(self.answers_version, self.version)

    def _gap_end(self) -> int:
        """Where a gap at the next LSN would end, exclusive, as far as nodesets are known; else NOWHERE."""
        if not self._knows(r.epoch_of(self.position)):
            return NOWHERE
        end = self.rules.gap_end(self.position, self.buffer.above(self.position), self.beyond, self.trim_point)
        return end if end == NOWHERE else self._as_far_as_known(end)

    def _as_far_as_known(self, end: int) -> int:
        """``end``, if the nodeset of its epoch is known; if another one goes there, the end of the known epochs."""
        if self._knows(r.epoch_of(end)):
            return end
        return NOWHERE if self._upcoming is None else r.lsn_of(self.known_epoch + 1, 0)

    def _gap_type(self, end: int) -> int:
        lost = all(self.status(shard) in (r.UNDERREPLICATION, r.AUTHORITATIVE_EMPTY) for shard in self.shards)
        first = self.position == self.first
        return self.rules.gap_type(self.position, end, self.trim_point, first, self.settings.in_flight, lost)

    def _decide(self, end: int) -> tuple[int, int]:
        """The verdict on the next LSN, and what to do about it."""
        assert self.nodeset is not None
        shards, rules = [*self.shards], self.rules
        states = {shard: self.state(shard) for shard in shards}
        statuses = {shard: self.status(shard) for shard in shards}
        verdict = rules.gap_verdict(self.nodeset.scopes, shards, statuses, states)
        if self.single and not self._gap_in_single_copy(verdict, states):
            return verdict, r.WAIT
        expired = {shard: each.expired for shard, each in self.shards.items()}
        helps = self.settings.grace > 0 and self.trim_point < self.position
        helps = helps and rules.grace_helps(shards, statuses, states, expired)
        if self._gap_type(end) == r.BRIDGE and self.position != self.first:
            helps = False
        return verdict, rules.gap_decision(verdict, self.settings.require_full_read_set, helps)

    def _gap_in_single_copy(self, verdict: int, states: dict[int, int]) -> bool:
        """Whether a gap may be issued without asking all (read-path.md#guaranteed-delivery)."""
        if not self.settings.guaranteed_delivery_efficiency or self._amended():
            return False
        if self._unlisted_under_replicated(states):
            return False
        heard = all(state != r.SILENT or shard in self.listed for shard, state in states.items())
        return verdict >= r.NON_AUTH or (verdict == r.INCOMPLETE and heard)

    def _looks_again(self) -> bool:
        """Rewind instead of the first loss that is found at an LSN (read-path.md#first-loss-rewinds)."""
        if not self.settings.single_copy or self.settings.guaranteed_delivery_efficiency:
            return False
        if self._loss_at == self.position:
            return False
        self._loss_at = self.position
        self._schedule_rewind()
        return True

    def _cancel_grace(self) -> None:
        self._grace_over = False
        if self._grace:
            self._grace = False
            self._note("stream_grace", offset=self.position, f="given up")
            self._cancel("grace")

    def _gap(self, first: int, last: int, kind: str, verdict: str | None = None) -> bool:
        """Deliver a gap, no further than the stream goes; tell whether the application took it."""
        last = min(last, self.until)
        lost = self._lost(first, last) if kind == "dataloss" else 0
        if not self._hand_over(Gap(kind, first, last, lost)):
            return False
        columns = ({"text": verdict} if verdict else {}) | ({"count": lost} if kind == "dataloss" else {})
        self._note("stream_gap", offset=first, last_offset=last, f=kind, **columns)
        self._pass(last + 1)
        return True

    def _lost(self, first: int, last: int) -> int:
        return last - first + 1

    def _end_with(self, kind: str) -> None:
        """The shard refuses the log itself: that is the last delivery."""
        last = self.until
        self._ready.append(Gap(kind, self.position, last, 0))
        self._note("stream_gap", offset=self.position, last_offset=last, f=kind)
        self._pass(last + 1)

    # -- the application's side ----------------------------------------------------------------------------------------

    def _hand_over(self, item: Record | Gap) -> bool:
        """Give the application an item; if it has no room for it, that item comes next, after a while."""
        if len(self._ready) < self.settings.room:
            self._ready.append(item)
            self.rejected, self._redelivery = NOWHERE, self.settings.redelivery
            return True
        self.rejected, self._redelivering = self.position, True
        columns = {} if isinstance(item, Gap) else {"value": value_of(item.payload)}
        self._note("stream_reject", offset=self.position, **columns)
        self._timer("redelivery", self._redelivery)
        self._redelivery *= 2
        return False

    def _pass(self, position: int) -> None:
        self._move_to(position)
        self._reach_upcoming()
        if position > self.until:
            self.ended = True
            self._stop()

    # -- the window ----------------------------------------------------------------------------------------------------

    def _slide(self) -> bool:
        """Move the window on, if enough of it was delivered (read-path.md#window)."""
        threshold = self.slid_at + int(self.settings.threshold * (self.size - 1))
        if self.until <= self.high or self.position <= threshold:
            return False
        self.slid_at = self.position
        self.size = max(1, self.size // 2) if self._pressed else min(self.size + 1, self.settings.window)
        self.high = self._window_end()
        self.beyond = NOWHERE
        for each in self.shards.values():
            self._mark(each.next)
            if each.next > max(self.high, self.position):
                self.beyond = each.next if self.beyond == NOWHERE else min(self.beyond, each.next)
        self._rewind_delay = max(self.settings.rewind, self._rewind_delay // 2)
        self._back_to_single_copy()
        if not self.rewinding:
            for shard, each in self.shards.items():
                if each.answering:
                    self._tell_window(shard)
        self._window_begins()
        return True

    def _window_end(self) -> int:
        """It never falls: what lies beyond a smaller window may be on its way."""
        return max(self.high, min(self.until, self.position + self.size - 1))

    @property
    def waits_for(self) -> list[int]:
        """Whose answers about the next LSN could change the verdict (read-path.md#progress-or-stall)."""
        return [s for s in self.shards if self.state(s) == r.SILENT and r.full(self.status(s))]
