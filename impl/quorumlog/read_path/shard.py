"""A storage shard: one event in, effects out. No clock, no socket, no disk, no randomness.

It keeps copies that a sequencer, a recovery or a donor stores, refuses those that come too late, serves readers
(`shipping`), makes copies anew when another shard is lost (`rebuilding`), and takes part in the recovery of epochs.
Nothing is answered before it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from quorumlog.events import Effect, Event, Received, Send, SetTimer, Started, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path import rules as r
from quorumlog.read_path.configuration import ShardSettings
from quorumlog.read_path.contents import Contents
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.events import (
    BatchRead,
    Change,
    Disconnected,
    NodesetsLearned,
    Persist,
    Persisted,
    StatusesLearned,
    TellEventLog,
)
from quorumlog.read_path.messages import StoreAnswer
from quorumlog.read_path.nodeset import Location
from quorumlog.read_path.rebuilding import Donor
from quorumlog.read_path.records import Copy
from quorumlog.read_path.rules import REFERENCE, Rules, lsn_of

_DEFAULT = ShardSettings()


def bits(shards: Sequence[int]) -> int:
    """A set of shards as the history has it."""
    return sum(1 << shard for shard in set(shards))


def copy_columns(copy: Copy) -> dict[str, Any]:
    """A copy as the history has it."""
    columns = {"offset": copy.lsn, "record": copy.word, "wave": copy.wave, "recovery": copy.run}
    if copy.word == "data":
        columns["value"] = int.from_bytes(copy.payload[:8], "big")
    return {**columns, "shards": bits(copy.copyset)}


@dataclass(slots=True)
class _Write:
    """A change on its way to the disk, what follows when it is durable, and who waits for a copy: each is told once."""

    change: Change
    then: Callable[[], None]
    answers: list[Send] = field(default_factory=list)


class ShardCore(Donor):
    """Shard ``number``. ``changes``: what is on its disk, in order; ``locations``: those of all shards."""

    def __init__(
        self,
        number: int,
        locations: dict[int, Location],
        changes: Sequence[Change] = (),
        settings: ShardSettings = _DEFAULT,
        *,
        rules: Rules = REFERENCE,
    ) -> None:
        contents = Contents(rules)
        for change in changes:
            contents.apply(change)
        super().__init__(number, contents, settings, rules, locations)
        self._sealed = contents.sealed  # what is being made durable included, as in the next two
        self._trim_point, self._last_clean = contents.trim_point, contents.last_clean
        self._waiting: dict[int, _Write] = {}  # by ticket
        self._writing: dict[int, list[int]] = {}  # by LSN: the tickets of the copies of it that are on their way
        self._deleting: dict[int, tuple[int, int]] = {}  # by ticket: from where to where
        self._asked: set[tuple[int, m.Message]] = set()  # by whom and what: to be answered when a change is durable
        self._attempts = dict(contents.attempts)  # and those that are being made durable
        self._release: tuple[int, int] = (0, 0)  # the newest, with its epoch, which waits for a purge
        self._purging: dict[int, tuple[int, int, int, int]] | None = None  # what others said of epochs to purge

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take one event; return the effects, to be carried out in order."""
        self._effects = []
        match event:
            case Received(sender, message):
                self._received(sender, message)
            case Persisted(ticket):
                self._persisted(ticket)
            case BatchRead(reader, stream, ticket):
                self._batch_read(reader, stream, ticket)
            case StatusesLearned():
                self._learn(event)
            case NodesetsLearned(since) if len(since) > len(self.nodesets):
                self.nodesets = since
            case Disconnected(reader):
                for key in [key for key in self.streams if key[0] == reader]:
                    del self.streams[key]
            case TimerFired("purge"):
                self._purge()
            case TimerFired("rebuild"):
                self._rebuild_again()
            case Started():
                self._report_loss()
        return self._effects

    def _received(self, sender: int, message: m.Message) -> None:
        match message:
            case m.Start():
                self._start(sender, message)
            case m.Window(number, version, _, high) if (sender, number) in self.streams:
                stream = self.streams[sender, number]
                if stream.start.filter_version == version:
                    stream.high = max(stream.high, high)
                    self._ship(sender, stream)
            case m.Stop(number):
                self.streams.pop((sender, number), None)
            case m.Store():
                self._store(sender, message)
            case m.Stored():
                self._stored(sender, message)
            case m.Release(epoch, lsn, version):
                self.release_version = max(self.release_version, version)
                self._release_to(epoch, lsn)
            case m.Trim(lsn):
                self._trim(lsn)
            case m.Seal():
                self._seal(sender, message)
            case m.Digest():
                self._digest(sender, message)
            case m.Clean():
                self._clean(sender, message)
            case m.AskRecovered(first, last):
                known = {epoch: held for epoch, held in self.contents.clean.items() if first <= epoch <= last}
                self._effects.append(Send(sender, m.Recovered(known)))
            case m.Recovered(epochs) if self._purging is not None:
                for each, said in epochs.items():
                    self._purging[each] = max(said, self._purging.get(each, said), key=lambda known: known[2:])
                self._purge(ask=False)

    # -- the disk ------------------------------------------------------------------------------------------------------

    def _persist(self, change: Change, then: Callable[[], None]) -> None:
        """Make a change durable, apply it, and go on."""
        self._tickets += 1
        self._waiting[self._tickets] = _Write(change, then)
        if change.copy is not None:
            self._writing.setdefault(change.copy.lsn, []).append(self._tickets)
        if change.delete is not None:
            self._deleting[self._tickets] = change.delete
        self._effects.append(Persist(self._tickets, change))

    def _persist_for(self, sender: int, message: m.Message, change: Change, then: Callable[[], None]) -> None:
        """Make durable what a message asks for; the same one again waits for that (read-path.md#written-once)."""

        def answers() -> None:
            self._asked.discard((sender, message))
            then()

        if (sender, message) not in self._asked:
            self._asked.add((sender, message))
            self._persist(change, answers)

    def _persisted(self, ticket: int) -> None:
        write = self._waiting.pop(ticket)
        self._deleting.pop(ticket, None)
        copy = write.change.copy
        if copy is not None:
            self._writing[copy.lsn].remove(ticket)
            if not self._writing[copy.lsn]:
                del self._writing[copy.lsn]
        self._apply(write.change)
        write.then()
        self._effects += write.answers

    def _on_their_way(self) -> list[Copy]:
        copies = [self._waiting[tickets[-1]].change.copy for tickets in self._writing.values()]
        return [copy for copy in copies if copy is not None]

    def _write_of(self, copy: Copy) -> _Write | None:
        deleted = max(self._deletes_of(copy.lsn), default=0)
        writes = (self._waiting[ticket] for ticket in self._writing.get(copy.lsn, ()) if ticket > deleted)
        return next((write for write in writes if self._stands(write.change.copy, copy)), None)

    def _deletes_of(self, lsn: int) -> list[int]:
        return [ticket for ticket, (first, last) in self._deleting.items() if first <= lsn <= last]

    def _apply(self, change: Change) -> None:
        copy = change.copy
        before = None if copy is None else self.contents.copies.get(copy.lsn)
        sealed = self.contents.sealed
        self.contents.apply(change)
        if copy is not None and self.contents.copies.get(copy.lsn) is copy and copy != before:
            self._note("copy", **copy_columns(copy))
        if change.delete is not None:
            self._note("purge", offset=change.delete[0], last_offset=change.delete[1])
        if change.trim_point is not None:
            self._note("trim_point", offset=self.contents.trim_point)
        if self.contents.sealed > sealed:
            self._note("seal", epoch=self.contents.sealed)

    # -- loss of data --------------------------------------------------------------------------------------------------

    @property
    def lost(self) -> bool:
        """Whether this shard lacks what was stored on it, and has not been rebuilt since."""
        return not self.contents.intact

    @property
    def knows_event_log(self) -> bool:
        """Whether this process has read the event log: before that it does not know which shards leave."""
        return self.version >= 0

    def _report_loss(self) -> None:
        """Say that the data is not coming back (read-path.md#lost-data-refuses)."""
        if self.lost:
            self._effects.append(TellEventLog(LogRecord(Word.UNRECOVERABLE, self.number)))

    def _learn(self, learned: StatusesLearned) -> None:
        """Follow the event log: say that this shard is back, and do a donor's part."""
        if learned.version < self.version:
            return
        self.version = learned.version
        status = learned.statuses.get(self.number)
        if status == r.AUTHORITATIVE_EMPTY and self.number in learned.leaving:
            # Who was drained stays out of copysets until somebody else says that it is back.
            drained = self.number in learned.drained
            acknowledge = [] if drained else [TellEventLog(LogRecord(Word.ACKNOWLEDGE, self.number))]
            if self.lost:
                self._sealed = max(self._sealed, self._seal_when_back(learned.epoch))
                back = Change(intact=True, sealed=self._sealed or None)
                if not any(write.change.intact for write in self._waiting.values()):
                    self._persist(back, lambda: self._effects.extend(acknowledge))
            else:
                self._effects += acknowledge
        elif status == r.UNAVAILABLE and not self.lost:
            self._effects.append(TellEventLog(LogRecord(Word.ABORT, self.number)))
        elif status != r.AUTHORITATIVE_EMPTY and self.lost and self.number not in learned.leaving:
            self._report_loss()
        self._learn_plan(learned)

    def _seal_when_back(self, epoch: int) -> int:
        """What it is sealed for after a loss, when ``epoch`` is the newest (read-path.md#sealed-when-back)."""
        return epoch - 1

    # -- writes --------------------------------------------------------------------------------------------------------

    def _store(self, sender: int, message: m.Store) -> None:
        copy, answer = message.copy, self._answer_to(message)
        taken = answer is StoreAnswer.OK
        seal = message.epoch - 1 if taken and copy.run == 0 and not message.plan else 0
        self._sealed = max(self._sealed, seal)
        gone = self._gone(message) if answer is StoreAnswer.REBUILDING and not self.lost else ()
        stored = Send(sender, m.Stored(copy.lsn, copy.wave, copy.run, answer, self._sealed, message.plan, gone))
        if not taken:
            self._effects.append(stored)
        elif seal > self.contents.sealed or not self._has_or_writes(copy, stored):
            self._persist(Change(copy=copy, sealed=seal or None), lambda: None)
            self._waiting[self._tickets].answers.append(stored)

    def _has_or_writes(self, copy: Copy, stored: Send) -> bool:
        """Answer without a write if this copy, or one that beats it, is here; if it is on its way, when it is durable.

        Whoever waits for a slow disk asks again and again: it would write for ever. Source: read-path.md#written-once.
        """
        write = self._write_of(copy)
        if write is not None:
            if stored not in write.answers:
                write.answers.append(stored)
            return True
        if copy.lsn in self._writing or self._deletes_of(copy.lsn):
            return False
        stands = self._stands(self.contents.copies.get(copy.lsn), copy)
        if stands:
            self._effects.append(stored)
        return stands

    def _stands(self, held: Copy | None, copy: Copy) -> bool:
        """Whether a copy makes no difference where another one is: it is the same, or loses to it."""
        return held is not None and (held == copy or self.rules.beats(held.run, held.wave, copy.run, copy.wave))

    def _answer_to(self, message: m.Store) -> StoreAnswer:
        """Source: read-path.md#shard-refuses, read-path.md#lost-data-refuses, read-path.md#knows-before-it-stores."""
        copy = message.copy
        if self.lost or not self.knows_event_log or not self.leaving.isdisjoint(copy.copyset):
            return StoreAnswer.REBUILDING
        if message.plan:
            return StoreAnswer.OK if self._takes_of_donor(message) else StoreAnswer.REBUILDING
        if self._is_overtaken(message):
            return StoreAnswer.REBUILDING
        given_up = copy.run > 0 and copy.wave < self._attempts.get((copy.run, message.epoch), 0)
        if given_up or not self.rules.takes_store(message.epoch, copy.run, self._sealed):
            return StoreAnswer.SEALED
        return StoreAnswer.OK

    def _is_overtaken(self, message: m.Store) -> bool:
        """Whether a shard of the copyset left unknown to the sender: it may be back without what it has stored.

        Source: read-path.md#shard-refuses.
        """
        return bool(self._left_unknown(message))

    def _left_unknown(self, message: m.Store) -> set[int]:
        return {shard for shard in message.copy.copyset if self._left_at.get(shard, 0) > message.version}

    def _gone(self, message: m.Store) -> tuple[int, ...]:
        """Whom of the copyset a STORE is refused for, as far as this shard knows the event log."""
        return tuple(sorted(self._left_unknown(message) | self.leaving.intersection(message.copy.copyset)))

    def _takes_of_donor(self, message: m.Store) -> bool:
        """Whether a copy is of the newest plan, and no purge of a recovered epoch is to come that may delete it.

        Source: read-path.md#rebuilding-donors.
        """
        epoch = r.epoch_of(message.copy.lsn)
        if message.plan < self._plan:
            return False
        if epoch <= message.epoch and not self.rules.takes_release(epoch + 1, self.contents.last_clean):
            self._purge_before(epoch + 1, self.released)
            return False
        return True

    def _trim(self, lsn: int) -> None:
        """Trim points only rise, and never above what is released."""
        to = min(lsn, self.released)
        if to > self._trim_point:
            self._trim_point = to
            self._persist(Change(trim_point=to), self._ship_all)

    # -- releases ------------------------------------------------------------------------------------------------------

    def _release_to(self, epoch: int, lsn: int) -> None:
        """Take a release; first purge what lost in recoveries without this shard, and take no more of it.

        Source: read-path.md#release-needs-recovery.
        """
        if self.lost or lsn <= self.released:
            return
        if self.rules.takes_release(epoch, self.contents.last_clean):
            self.released = lsn
            self._ship_all()
            self._rebuild()
        else:
            self._purge_before(epoch, lsn)

    def _purge_before(self, epoch: int, lsn: int) -> None:
        """Purge all epochs before this one, then take the release."""
        rises = self._purging is None or epoch > self._release[0]
        if epoch - 1 <= self._last_clean:
            return  # what follows from a purge is on its way to the disk
        self._release = max(self._release, (epoch, lsn))
        if rises:
            self._purging = self._purging or {}
            self._sealed = max(self._sealed, epoch - 1)
            self._persist(Change(sealed=self._sealed), self._purge)

    def _purge(self, ask: bool = True) -> None:
        epoch, lsn = self._release
        if self._purging is None or self.contents.sealed < epoch - 1:
            return
        unclean = range(self.contents.last_clean + 1, epoch)
        known = self._purging | self.contents.clean
        held = [each for each in unclean if each not in known and self.contents.of_epochs(each, each)]
        if not held:
            self._purge_done(unclean, epoch, lsn)
        elif ask:
            for shard in self.locations:
                if shard != self.number:
                    self._effects.append(Send(shard, m.AskRecovered(unclean.start, epoch - 1)))
            self._effects.append(SetTimer("purge", self.settings.retry))

    def _purge_done(self, unclean: range, epoch: int, lsn: int) -> None:
        assert self._purging is not None
        for each in unclean:
            if each in self.contents.clean or each not in self._purging:
                continue  # it took part, or has nothing of that epoch
            lng, last, *by = self._purging[each]
            if last != 0 or self._known_good(each) == 0:
                self._delete_of(each, lng, *by)
        self._purging, self._last_clean = None, epoch - 1
        self._persist(Change(last_clean=epoch - 1), lambda: self._release_to(epoch, lsn))

    def _delete_of(self, epoch: int, lng: int, run: int, attempt: int) -> None:
        """Delete what lost in a recovery: above its lng whatever it beats; what it or a later one wrote here stays.

        Source: read-path.md#release-needs-recovery.
        """
        first, last = max(lng, lsn_of(epoch, 0)) + 1, lsn_of(epoch + 1, 0) - 1
        beaten = partial(self.rules.beats, run, attempt)
        for kept in [copy.lsn for copy in self.contents.between(first, last) if not beaten(copy.run, copy.wave)]:
            if first < kept:
                self._persist(Change(delete=(first, kept - 1)), lambda: None)
            first = kept + 1
        self._persist(Change(delete=(first, last)), lambda: None)

    def _known_good(self, epoch: int) -> int:
        """The last known good LSN of an epoch by what is here; 0 if nothing is known. Only what is good is trimmed."""
        found = [copy.lng for copy in self.contents.of_epochs(epoch, epoch)]
        found += [self.released, self.contents.trim_point]
        good = max((lng for lng in found if r.epoch_of(lng) == epoch), default=0)
        return good if r.esn_of(good) else 0

    # -- recovery ------------------------------------------------------------------------------------------------------

    def _seal(self, sender: int, message: m.Seal) -> None:
        if self.lost:
            self._effects.append(Send(sender, m.Sealed(message.epoch, StoreAnswer.REBUILDING, 0)))
        elif message.epoch < self._sealed:
            self._effects.append(Send(sender, m.Sealed(message.epoch, StoreAnswer.SEALED, self._sealed)))
        else:
            self._sealed = message.epoch
            if message.epoch == self.contents.sealed:
                self._sealed_now(sender, message)
                return
            self._persist_for(sender, message, Change(sealed=message.epoch), lambda: self._sealed_now(sender, message))

    def _sealed_now(self, sender: int, message: m.Seal) -> None:
        good = {epoch: self._known_good(epoch) for epoch in range(message.first, message.epoch + 1)}
        self._effects.append(Send(sender, m.Sealed(message.epoch, StoreAnswer.OK, self._sealed, good)))

    def _digest(self, sender: int, message: m.Digest) -> None:
        """Answer when all is durable that is on its way; nothing of an earlier attempt is written any more, in no life.

        Source: read-path.md#recovery-digest.
        """
        of, attempt = (message.run, message.epoch), message.attempt
        if self.lost or self.contents.sealed < message.run or attempt < self._attempts.get(of, 0):
            return
        self._attempts[of] = attempt

        def answers() -> None:
            copies = self.contents.of_epochs(message.epoch, message.epoch)
            found = tuple(copy for copy in copies if copy.lsn > message.lng)
            good = self._known_good(message.epoch)
            self._effects.append(Send(sender, m.DigestAnswer(*of, found, attempt, self.version, good)))

        if self._waiting or attempt > self.contents.attempts.get(of, 1):
            change = Change(attempt=(*of, attempt) if attempt > 1 else None)
            self._persist_for(sender, message, change, answers)
        else:
            answers()

    def _clean(self, sender: int, message: m.Clean) -> None:
        answer = StoreAnswer.OK
        if self.lost:
            answer = StoreAnswer.REBUILDING
        elif message.run < self._sealed:
            answer = StoreAnswer.SEALED
        cleaned = Send(sender, m.Cleaned(message.run, message.epoch, answer, message.attempt))
        recovered = message.lng, message.last, message.run, message.attempt
        if answer is not StoreAnswer.OK or self.contents.clean.get(message.epoch) == recovered:
            self._effects.append(cleaned)
            return
        change = Change(clean=(message.epoch, *recovered))
        self._persist_for(sender, message, change, lambda: self._effects.append(cleaned))

    def _start(self, reader: int, start: m.Start) -> None:
        """Answer START; whoever does not know the event log yet cannot say what its answers are worth."""
        answer = m.Answer.FAILED if self.version < 0 else m.Answer.REBUILDING if self.lost else m.Answer.OK
        started = m.Started(start.stream, max(self.said_version, 0), start.filter_version, answer)
        self._effects.append(Send(reader, started))
        if answer is m.Answer.OK:
            self._open(reader, start)
