"""Any sequence of writes, losses, rebuildings, disconnections, timers and messages: a reader misses nothing.

One reader, four shards and the event log; the writer is the model, which knows every record that was acknowledged, and
where its copies are. Messages keep their order on a connection and nothing else; everybody learns of the event log
when Hypothesis says so. Fewer shards than a record has copies are lost at a time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from quorumlog.durations import MILLISECOND
from quorumlog.events import CancelTimer, Effect, Event, Received, Send, SetTimer, Started, TimerFired
from quorumlog.read_path import events as e
from quorumlog.read_path import messages as m
from quorumlog.read_path.configuration import ReaderSettings, ShardSettings
from quorumlog.read_path.event_log import EventLog, LogRecord, Word
from quorumlog.read_path.mutants import MUTANTS
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.reader import Gap, ReaderCore
from quorumlog.read_path.records import new_copy
from quorumlog.read_path.rules import lsn_of
from quorumlog.read_path.shard import ShardCore

SHARDS, FACTOR, READER, WRITER = 4, 2, 9, 99
LOCATIONS = {shard: ("-", "-", "-", "-", f"N{shard}") for shard in range(SHARDS)}
NODESET = Nodeset({"NODE": FACTOR}, LOCATIONS)
A_SHARD = st.integers(0, SHARDS - 1)
_ON_CONNECTIONS = (m.Start, m.Window, m.Stop, m.FromShard)


class AnySequence(RuleBasedStateMachine):
    make_core: Any = None

    @initialize(single=st.booleans(), window=st.sampled_from([1, 3, 8, 64]), room=st.sampled_from([1, 50]))
    def begin(self, single: bool, window: int, room: int) -> None:
        self.queues: dict[tuple[int, int], deque[Any]] = defaultdict(deque)
        self.timers: dict[int, set[str]] = defaultdict(set)
        self.cores: dict[int, Any] = {}
        self.changes: dict[int, list[e.Change]] = {shard: [e.Change(intact=True)] for shard in range(SHARDS)}
        self.connected: set[int] = set()
        self.log = EventLog(tuple(range(SHARDS)))
        self.written: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.next, self.released, self.trimmed, self.now = 1, 0, 0, 0
        self.placed_by = 0  # the version of the event log by which the last record was placed
        self.expected = lsn_of(1, 1)
        given = ReaderSettings(window=window, single_copy=single, room=room, in_flight=1, threshold=0.5)
        self.settings = given
        for shard in range(SHARDS):
            self.start_shard(shard)
        self.start_reader()

    # -- the world -----------------------------------------------------------------------------------------------------

    def make(self, role: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any core
        if self.make_core is not None:
            return self.make_core(role, *arguments, **named)
        return (ShardCore if role == "shard" else ReaderCore)(*arguments, **named)

    def start_shard(self, shard: int) -> None:
        few = ShardSettings(batch_records=2)
        self.cores[shard] = self.make("shard", shard, LOCATIONS, self.changes[shard], few)
        self.give(shard, Started())
        self.give(shard, e.NodesetsLearned({1: NODESET}))
        self.learn(shard)

    def start_reader(self) -> None:
        self.cores[READER] = self.make("reader", 1, self.expected, (1 << 62) - 1, self.settings, seed=3)
        self.learn(READER)
        self.give(READER, Started())

    def learn(self, process: int) -> None:
        log = self.log
        known = (log.version, log.statuses, log.completed, log.leaving, log.rebuilt, log.plan)
        self.give(process, e.StatusesLearned(*known))

    def give(self, process: int, event: Event) -> None:
        if process in self.cores:
            self.now += MILLISECOND
            for effect in self.cores[process].handle(self.now, event):
                self.perform(process, effect)

    def perform(self, process: int, effect: Effect) -> None:
        match effect:
            case Send(to, message) if isinstance(message, _ON_CONNECTIONS):
                if (to if process == READER else process) in self.connected:
                    self.queues[process, to].append(message)
            case Send(to, message):
                self.queues[process, to].append(message)
            case SetTimer(name, _):
                self.timers[process].add(name)
            case CancelTimer(name):
                self.timers[process].discard(name)
            case e.Connect(shard):
                self.disconnect(shard)
                if shard in self.cores:
                    self.connected.add(shard)
                    self.give(READER, e.Connected(shard))
            case e.AskMetadata(epoch):
                self.give(READER, e.MetadataRead(epoch, 1, max(1, epoch), True, NODESET))
            case e.Persist(ticket, change):
                self.changes[process].append(change)
                self.give(process, e.Persisted(ticket))
            case e.ReadBatch(reader, stream, ticket, _):
                self.queues[process, process].append(e.BatchRead(reader, stream, ticket))
            case e.TellEventLog(record):
                self.log.fold(record)

    def disconnect(self, shard: int) -> None:
        self.connected.discard(shard)
        self.queues[shard, READER].clear()
        self.queues[READER, shard].clear()
        self.give(shard, e.Disconnected(READER))

    def stop(self, shard: int) -> None:
        self.disconnect(shard)
        del self.cores[shard]
        self.timers[shard].clear()
        for pair in [pair for pair in self.queues if shard in pair]:
            self.queues[pair].clear()
        self.give(READER, e.Disconnected(shard))

    def gone(self) -> set[int]:
        """The shards that have not all that was stored on them, or whose data others may not have any more."""
        down = {shard for shard in range(SHARDS) if shard not in self.cores}
        lost = {shard for shard, core in self.cores.items() if shard != READER and core.lost}
        return down | lost | self.log.leaving

    def waiting(self) -> list[tuple[int, int]]:
        """Where a message can be taken from, as (sender, receiver)."""
        return sorted(pair for pair, queue in self.queues.items() if queue and pair[1] in self.cores)

    # -- what happens --------------------------------------------------------------------------------------------------

    @rule(first=A_SHARD, other=st.integers(1, SHARDS - 1))
    def append(self, first: int, other: int) -> None:
        """A record for two shards, acknowledged if both store it."""
        lsn, copyset = lsn_of(1, self.next), (first, (first + other) % SHARDS)
        if self.gone().intersection(copyset):
            return
        self.next += 1
        self.placed_by = self.log.version
        copy = new_copy(lsn, copyset, lsn.to_bytes(8, "big"))
        for shard in copyset:
            self.give(shard, Received(WRITER, m.Store(copy, 1)))
        answers = [self.queues[shard, WRITER].pop().answer for shard in copyset]
        self.written[lsn] = lsn
        if set(answers) == {m.StoreAnswer.OK}:
            self.acknowledged.add(lsn)

    @rule(shard=A_SHARD)
    def release(self, shard: int) -> None:
        self.released = lsn_of(1, self.next - 1)
        self.give(shard, Received(WRITER, m.Release(1, self.released, self.placed_by)))

    @rule(choice=st.integers(0, 1 << 16))
    def deliver(self, choice: int) -> None:
        """The next message of any queue."""
        ready = self.waiting()
        if ready:
            source, target = ready[choice % len(ready)]
            message = self.queues[source, target].popleft()
            self.give(target, message if isinstance(message, Event) else Received(source, message))
        self.application(50)

    @rule(choice=st.integers(0, 1 << 16))
    def timer(self, choice: int) -> None:
        ready = sorted((process, name) for process, names in self.timers.items() for name in names)
        if ready:
            process, name = ready[choice % len(ready)]
            self.timers[process].discard(name)
            self.now += 100 * MILLISECOND
            self.give(process, TimerFired(name))

    @rule(process=st.sampled_from([*range(SHARDS), READER]))
    def learn_the_event_log(self, process: int) -> None:
        self.learn(process)

    @rule(shard=A_SHARD)
    def break_connection(self, shard: int) -> None:
        if shard in self.connected:
            self.disconnect(shard)
            self.give(READER, e.Disconnected(shard))

    @rule(shard=A_SHARD, wiped=st.booleans())
    def lose(self, shard: int, wiped: bool) -> None:
        """A shard goes down, with its disk or without, and is declared to be rebuilt."""
        if len(self.gone() | {shard}) < FACTOR and shard in self.cores:
            self.stop(shard)
            if wiped:
                self.changes[shard] = []
            self.log.fold(LogRecord(Word.REBUILD, shard))

    @rule(shard=A_SHARD)
    def come_back(self, shard: int) -> None:
        if shard not in self.cores:
            self.start_shard(shard)

    @precondition(lambda self: self.released)
    @rule(shard=A_SHARD, behind=st.integers(0, 4))
    def trim(self, shard: int, behind: int) -> None:
        lsn = self.released - behind
        if lsn > lsn_of(1, 0) and shard in self.cores:
            self.give(shard, Received(WRITER, m.Trim(lsn)))
            self.trimmed = max(self.trimmed, self.cores[shard].contents.trim_point)

    @rule(count=st.integers(1, 50))
    def application(self, count: int) -> None:
        """What it is given continues where it stopped, is what was written, and leaves nothing out."""
        records, gap = self.cores[READER].read(count)
        for record in records:
            assert record.lsn == self.expected
            assert self.written.get(record.lsn) == int.from_bytes(record.payload[:8], "big")
            self.expected = record.lsn + 1
        if gap is not None:
            self.judge(gap)
            self.expected = gap.last + 1

    def judge(self, gap: Gap) -> None:
        assert gap.first == self.expected
        missed = [lsn for lsn in self.acknowledged if gap.first <= lsn <= gap.last and lsn > self.trimmed]
        assert missed == [], f"{gap} over {missed}"

    def teardown(self) -> None:
        """All come back, everything is said and done: the reader gets to the end."""
        if not hasattr(self, "log"):
            return
        for shard in range(SHARDS):
            self.come_back(shard)
        for _ in range(400):
            for process in (*range(SHARDS), READER):
                self.learn(process)
                if process != READER:
                    self.release(process)
            while self.waiting():
                self.deliver(0)
            self.application(50)
            if self.expected > self.released:
                return
            for process, names in sorted(self.timers.items()):
                for name in sorted(names):
                    self.timers[process].discard(name)
                    self.give(process, TimerFired(name))
            self.now += 100 * MILLISECOND
        raise AssertionError(f"the reader stands at {self.expected & 0xFFFFFFFF} of {self.released & 0xFFFFFFFF}")


def test_a_record_on_a_shard_that_is_back_is_not_lost_for_who_has_not_heard_of_that() -> None:
    """The reader and two of the shards know that one was rebuilt, but not that it is back; it and another one have the
    record, and say nothing. Source: read-path.md#event-log-version.
    """
    machine = AnySequence()
    machine.begin(False, 8, 50)

    def talks(*shards: int) -> None:
        while pairs := [
            pair for pair in machine.waiting() if pair[0] in {*shards, READER} and pair[1] in {*shards, READER}
        ]:
            message = machine.queues[pairs[0]].popleft()
            machine.give(pairs[0][1], message if isinstance(message, Event) else Received(pairs[0][0], message))

    talks(0, 1, 2, 3)
    machine.lose(0, wiped=True)
    machine.come_back(0)
    for process in (1, 2, 3, READER):
        machine.learn(process)
    machine.give(READER, TimerFired("rewind"))
    talks(1, 2, 3)
    for process in (0, 0, 3):
        machine.learn(process)
    assert machine.log.leaving == frozenset()
    machine.append(0, 3)
    assert machine.acknowledged
    for shard in (1, 2):
        machine.release(shard)
    talks(1, 2)
    machine.give(READER, TimerFired("grace"))
    machine.application(50)
    assert machine.expected == lsn_of(1, 1)
    machine.teardown()


def play(machine: type[AnySequence], examples: int, phases: Sequence[Phase] = (Phase.generate, Phase.shrink)) -> None:
    given = settings(
        max_examples=examples, stateful_step_count=40, deadline=None, derandomize=True, database=None, phases=phases
    )
    run_state_machine_as_test(machine, settings=given)


def test_any_sequence() -> None:
    play(AnySequence, 40)


@pytest.mark.long
def test_many_sequences() -> None:
    play(AnySequence, 3000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", ["wiped-shard-answers", pytest.param("f-majority-one-short", marks=pytest.mark.long(0))]
)
def test_a_mutant_is_found(mutant: str) -> None:
    class Mutated(AnySequence):
        make_core = staticmethod(MUTANTS[mutant].make_core)  # type: ignore[arg-type]

    with pytest.raises(AssertionError):
        play(Mutated, 4000, [Phase.generate])
