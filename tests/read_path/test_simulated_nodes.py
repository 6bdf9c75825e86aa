"""The driver of simulated runs, part by part: what disks keep, who is told what and when, what faults do to shards.

A run in which less happens than should still holds what is promised, so no check notices that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from loghistory import MemorySink, Recorder
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.events import Received
from quorumlog.faults import Fault
from quorumlog.read_path import messages as m
from quorumlog.read_path.client import AppendClient
from quorumlog.read_path.connections import Connections, Opening, Reset, Segment
from quorumlog.read_path.coordination import Coordination
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.events import (
    Activated,
    AppendAsked,
    AppendEnded,
    CleanSet,
    MetadataWritten,
    NodesetsLearned,
    StatusesLearned,
)
from quorumlog.read_path.nodes import CHANGES, ReaderNode, SequencerNode, ShardNode
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.recording import heard
from quorumlog.read_path.records import HOLE, Copy, compressed, new_copy
from quorumlog.read_path.rules import NOWHERE, lsn_of
from quorumlog.read_path.settings import SETTINGS, ReadPathConfiguration, ReadPathWorkload
from quorumlog.read_path.simulated import ReadPathCluster
from quorumlog.read_path.stream import LAST_LSN
from quorumlog.simulation.host import Host
from quorumlog.simulation.loop import Simulation
from quorumlog.simulation.network import Link, Network


class Stage:
    """A cluster without faults but those that a test asks for: shards first, then a sequencer, then readers."""

    def __init__(self, *, seed: int = 0, shards: int = 4, readers: int = 1, **changed: Any) -> None:  # noqa: ANN401
        usual: dict[str, Any] = {"shards": shards, "sequencers": 1, "readers": readers, "spare": 0, "plan": ()}
        usual |= {"replication": {"NODE": 2}, "rebuild_after": 10 * SECOND}
        self.configuration: ReadPathConfiguration = replace(SETTINGS["all-send-all"], **{**usual, **changed})
        self._sink = MemorySink()
        self._recorder = Recorder(self._sink)
        self.cluster = ReadPathCluster(seed, self.configuration, self._recorder)
        self.cluster.start()
        self._client: AppendClient = self.cluster.new_client()
        self._token = 0

    def shard(self, number: int) -> ShardNode:
        node = self.cluster.nodes[number]
        assert isinstance(node, ShardNode)
        return node

    @property
    def sequencer(self) -> SequencerNode:
        node = self.cluster.nodes[self.configuration.shards]
        assert isinstance(node, SequencerNode)
        return node

    @property
    def reader(self) -> ReaderNode:
        node = self.cluster.nodes[self.configuration.shards + 1]
        assert isinstance(node, ReaderNode)
        return node

    @property
    def words(self) -> list[tuple[str, int]]:
        """What the event log says, with the shards."""
        return [(event["f"], event["peer"]) for event in self.events("event_log")]

    def passes(self, milliseconds: float) -> Stage:
        self.cluster.advance(int(milliseconds * MILLISECOND))
        return self

    def append(self, count: int = 1) -> Stage:
        """Append so many records, one after the other."""
        for _ in range(count):
            self._client.last_write(self.sequencer.number)
            for _ in range(200):
                if self._client.idle:
                    break
                self.passes(5)
            assert self._client.last_outcome == "ok"
        return self

    def trim(self) -> Stage:
        """Trim up to the newest record that was appended."""
        self._client._trim_some()
        return self

    def events(self, kind: str, **columns: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        """The events of a kind, with these columns."""
        self._recorder.flush()
        found = [event for event in self._sink.table.to_pylist() if event["kind"] == kind]
        return [event for event in found if columns.items() <= event.items()]

    def fault(self, name: str, *nodes: int, **args: float) -> Callable[[], None]:
        """Begin a fault; what is returned ends it."""
        self._token += 1
        fault, token = Fault(self.cluster.simulation.now, name, nodes=nodes, args=args), self._token
        self.cluster.faults.begin(fault, nodes, token)
        return lambda: self.cluster.faults.end(fault, nodes, token)


# -- disks -------------------------------------------------------------------------------------------------------------


def test_a_new_disk_outlives_a_power_loss_at_once() -> None:
    """Eight of them, of which half would lose what is not synced."""
    stage = Stage(shards=8)
    for number in range(8):
        stage.fault("power_loss", number)()
        assert stage.shard(number).core.contents.intact


def test_what_was_acknowledged_outlives_a_power_loss() -> None:
    stage = Stage(replication={"NODE": 4}).append(5)
    for number in range(4):
        before = {*stage.shard(number).core.contents.copies}
        stage.fault("power_loss", number)()
        assert {*stage.shard(number).core.contents.copies} == before


def test_a_torn_end_is_cut_off() -> None:
    stage = Stage(replication={"NODE": 4}).append(2)
    shard = stage.shard(0)
    shard.kill()
    whole = shard.disk.size(CHANGES)
    shard.disk.append(CHANGES, b"torn")
    shard.start()
    assert shard.disk.size(CHANGES) == whole


def test_what_was_written_just_before_a_power_loss_is_unsure_for_a_while() -> None:
    stage = Stage(replication={"NODE": 4}, dirty=200 * MILLISECOND)
    stage.append(1).passes(300).append(1).passes(150).append(2)
    last = [event["offset"] for event in stage.events("copy", node=0)][-3:]
    stage.fault("power_loss", 0)()
    assert stage.shard(0).core.dirty == [(last[0], last[-1])]
    assert stage.passes(190).shard(0).core.dirty
    assert stage.passes(20).shard(0).core.dirty == []
    stage.fault("kill", 0)()
    assert stage.shard(0).core.dirty == []


@pytest.mark.parametrize("effects", [0, 1000])
def test_a_power_loss_in_the_middle_of_a_step_makes_unsure_what_was_written_before_it(effects: int) -> None:
    """And nothing if no step has so many effects."""
    stage = Stage(replication={"NODE": 4}, dirty=200 * MILLISECOND).append(2)
    ends = stage.fault("power_loss_midway", 0, effects=effects)
    stage._client.last_write(stage.sequencer.number)
    stage.passes(20)
    stored = [event["offset"] for event in stage.events("copy", node=0)]
    assert bool(stage.events("power_loss", node=0)) == (effects == 0)
    ends()
    assert stage.shard(0).core.dirty == ([(stored[0], stored[-1])] if effects == 0 else [])
    stage.fault("kill", 0)()
    assert stage.shard(0).core.dirty == []


def test_what_waits_for_a_slow_disk_is_written_soon_once_that_is_fast_and_in_order() -> None:
    stage = Stage(shards=2).append(1)
    shard = stage.shard(0)
    shard.slowness = 100.0
    for esn in range(10, 30):
        shard.handle(Received(1, m.Store(new_copy(lsn_of(1, esn), (0, 1), b"12345678"), 1)))
    shard.slowness = 1.0
    stored = [event["offset"] for event in stage.passes(500).events("copy", node=0)]
    assert stored[1:] == [lsn_of(1, esn) for esn in range(10, 30)]


def test_who_is_slow_reads_slowly() -> None:
    took = []
    for slowness in (1.0, 1000.0):
        stage = Stage(shards=2).append(20).passes(100)
        for number in (0, 1):
            stage.shard(number).slowness = slowness
        begun = stage.cluster.simulation.now
        stage.cluster.final_read()
        (last,) = [event["time"] for event in stage.events("ok", f="read_stream") if event["time"] >= begun]
        took.append(last - begun)
    assert took[1] > 2 * took[0]


def test_a_copy_that_rots_is_heard_as_damaged_and_read_elsewhere() -> None:
    stage = Stage(replication={"NODE": 4}).append(3).passes(100)
    stage.fault("rot", 0)()
    stage.cluster.final_read()
    (damaged,) = stage.events("stream_heard", f="damaged")
    assert damaged["peer"] == 0
    assert stage.events("stream_record", op=damaged["op"], offset=damaged["offset"])


def test_a_hole_rots_too_and_is_read_elsewhere() -> None:
    """A recovery has left a bridge record; on one shard it is rotten."""
    stage = Stage(replication={"NODE": 4}).append(2)
    stage.fault("kill", stage.sequencer.number)()
    stage.append().passes(100)
    stage.shard(0).rot(lambda lsns: lsns[2])
    stage.cluster.final_read()
    (damaged,) = stage.events("stream_heard", f="damaged")
    assert (damaged["peer"], damaged["record"], damaged["offset"]) == (0, "bridge", lsn_of(1, 3))
    assert stage.events("stream_gap", op=damaged["op"], f="bridge", offset=lsn_of(1, 3))


@pytest.mark.parametrize(
    "copy", [new_copy(lsn_of(1, 1), (0,), b"12345678"), new_copy(lsn_of(1, 1), (0,), b"", flags=HOLE)]
)
def test_what_is_rotten_stays_so_when_it_rots_again(copy: Copy) -> None:
    shard = Stage().shard(0)
    shard.core.contents.copies[copy.lsn] = copy
    for _ in range(3):
        shard.rot(lambda lsns: lsns[0])
        assert not shard.core.contents.copies[copy.lsn].intact


def test_on_a_shard_that_has_nothing_nothing_rots() -> None:
    stage = Stage()
    stage.fault("rot", 0)()
    assert stage.append().passes(100).events("stream_record")


def test_a_reader_is_short_of_memory_until_the_last_of_such_faults_ends() -> None:
    """Whatever becomes of its process meanwhile; shards and sequencers are left alone."""
    stage = Stage(reader=replace(SETTINGS["all-send-all"].reader, window=64, threshold=0.0))
    ends = [stage.fault("memory_pressure", number) for number in range(len(stage.cluster.nodes)) for _ in range(2)]
    stage.append(30).passes(100)
    assert {event["node"] for event in stage.events("fault")} == {stage.reader.number}
    assert stage.reader.core.size <= 2
    ends.pop()()
    stage.fault("kill", stage.reader.number)()
    stage.append(30).passes(100)
    assert stage.reader.core.size <= 2
    ends.pop()()
    stage.append(30).passes(100)
    assert stage.reader.core.size > 2


# -- processes ---------------------------------------------------------------------------------------------------------


def test_who_is_down_learns_nothing_and_begins_anew() -> None:
    stage = Stage().append(2)
    shard = stage.shard(0)
    core, connections = shard.core, shard.connections
    shard.kill()
    shard.inform(0, StatusesLearned(7, {}, 0))
    stage.cluster.coordination.append(LogRecord(Word.REBUILD, 1))
    assert stage.passes(200).shard(0).core.version == 0
    shard.start()
    assert shard.core is not core
    assert shard.connections is not connections
    assert not shard.core.knows_event_log
    assert stage.passes(200).shard(0).core.knows_event_log


def test_a_reader_may_read_the_event_log_long_after_it_has_begun() -> None:
    """Then it reads all that is there; until then it hears of nothing that is appended."""
    stage = Stage(first_event_log_lag=1000 * SECOND, event_log_lag=0).append(2)
    before = stage.shard(0).core.version
    stage.cluster.coordination.append(LogRecord(Word.DRAIN, 1))
    stage.passes(2000)
    stage.fault("kill", stage.reader.number)()
    stage.passes(100)
    assert stage.shard(0).core.version > before
    assert stage.reader.core.logged == {}
    stage.cluster.coordination.ask_statuses(stage.reader)
    assert stage.passes(100).reader.core.version == stage.shard(0).core.version


def test_nobody_is_answered_twice() -> None:
    stage = Stage()
    answers: list[Any] = []
    stage.passes(200)
    stage.sequencer.handle(AppendAsked(stage.sequencer.open(answers.append), b"12345678"))
    stage.passes(200)
    stage.sequencer.kill()
    assert [type(answer) for answer in answers] == [AppendEnded]


def test_readers_and_shards_speak_over_connections_alone() -> None:
    stage = Stage(shards=3, reader=replace(SETTINGS["all-send-all"].reader, window=4))
    carried, send = list[Any](), stage.cluster.network.deliver

    def seen(source: int, target: int, message: Any) -> None:  # noqa: ANN401
        carried.append(message)
        send(source, target, message)

    stage.cluster.network.deliver = seen
    stage.append(30).passes(200)
    spoken = {type(item.message) for item in carried if isinstance(item, Segment)}
    kinds = {m.Start, m.Window, m.Started, m.Records, m.ShardGap}
    assert {type(item) for item in carried}.isdisjoint(kinds)
    assert spoken >= kinds


def test_an_application_goes_on_behind_what_it_took() -> None:
    stage = Stage(workload=ReadPathWorkload(trim_behind=0)).append(4).passes(200)
    stage.fault("kill", stage.reader.number)()
    first, second = stage.events("invoke", f="read_stream")
    assert second["offset"] == stage.events("stream_record", op=first["op"])[-1]["offset"] + 1
    stage.trim().passes(200)
    stage.reader.read_from(lsn_of(1, 1), LAST_LSN)
    stage.passes(200)
    stage.fault("kill", stage.reader.number)()
    third, fourth = stage.events("invoke", f="read_stream")[-2:]
    (gap,) = stage.events("stream_gap", op=third["op"])
    assert (gap["f"], fourth["offset"]) == ("trim", gap["last_offset"] + 1)


def test_a_stream_of_which_nobody_knows_how_it_ended_is_followed_by_another_process() -> None:
    stage = Stage().append(2).passes(100)
    stage.fault("kill", stage.reader.number)()
    (ended,) = stage.events("info", f="read_stream")
    first, second = stage.events("invoke", f="read_stream")
    assert ended["process"] == first["process"] != second["process"]
    stage.cluster.final_read()
    stage.reader.read_from(lsn_of(1, 1), LAST_LSN)
    third, fourth = stage.events("invoke", f="read_stream")[-2:]
    assert third["process"] == fourth["process"] != second["process"]


def test_every_reader_reads_all_in_the_end() -> None:
    stage = Stage(readers=3).append(5).passes(100)
    last = stage.cluster.released
    stage.cluster.final_read()
    ended = stage.events("ok", f="read_stream")
    assert [(event["node"], event["offset"]) for event in ended] == [(node, last) for node in (5, 6, 7)]
    assert {reader.core.position for reader in stage.cluster._readers} == {last + 1}


def test_who_waits_for_long_says_so_now_and_then() -> None:
    stage = Stage().append(3).passes(100)
    stage.cluster.network.cut([(shard, stage.reader.number) for shard in range(4)])
    stage.reader.read_from(lsn_of(1, 1), LAST_LSN)
    said = [len(stage.passes(ms).events("stream_stall")) for ms in (190, 50, 150, 50)]
    assert said == [0, 1, 1, 2]
    stage.cluster.network.mend([(shard, stage.reader.number) for shard in range(4)])
    read = len(stage.passes(1000).events("stream_stall"))
    assert len(stage.passes(1000).events("stream_stall")) == read
    assert {(event["offset"], event["shards"]) for event in stage.events("stream_stall")} == {(lsn_of(1, 1), 0b1111)}


def test_what_is_heard_is_recorded_with_its_size_and_whether_more_may_be_lacking() -> None:
    copies = [
        new_copy(lsn_of(1, esn), (0,), bytes([0] * 8 + [7] * esn), flags=flags) for esn, flags in ((1, 0), (2, 16))
    ]
    block = compressed([copy.payload for copy in copies])
    noted = [columns for _, columns in heard(m.Records(1, 3, tuple(copies), block), 2, 4)]
    assert [(each["bytes"], each["count"], each["version"], each["filter"]) for each in noted] == [
        *((9, 0, 3, 4), (10, 1, 3, 4))
    ]


def test_clients_trim_what_they_know_of_and_tell_a_refusal_from_what_is_unknown() -> None:
    stage = Stage(workload=ReadPathWorkload(trim_behind=0)).append(3).trim().passes(100)
    (asked,) = stage.events("invoke", f="trim_log")
    assert asked["offset"] == lsn_of(1, 3)
    for refused, kind in (("busy", "fail"), (None, "info")):
        stage._client.last_write(stage.sequencer.number)
        stage._client._ended(AppendEnded(0, NOWHERE, refused))
        assert stage.events(kind, f="append_record")[-1]["reason"] == (refused or "unknown")


def test_a_client_goes_to_another_sequencer_where_one_has_failed() -> None:
    stage = Stage(sequencers=2, workload=ReadPathWorkload(timeout=100 * MILLISECOND)).append()
    stage.fault("kill", stage.sequencer.number)
    client = stage.cluster.new_client()
    for _ in range(20):
        client._append_some()
        stage.passes(300)
    assert len(stage.events("ok", f="append_record")) > 1


# -- what all share ----------------------------------------------------------------------------------------------------


class Told:
    """Who is told, and when."""

    learns_late = False

    def __init__(self) -> None:
        self.events: list[Any] = []

    def inform(self, delay: int, event: Any) -> None:  # noqa: ANN401
        assert delay > 0
        self.events.append(event)


def test_the_metadata_log_shows_an_epoch_before_its_sequencer_hears_so() -> None:
    simulation, told = Simulation(0), Told()
    nodeset = Nodeset({"NODE": 1}, {0: ("", "", "", "", "N0")})
    log = Coordination(simulation, lambda *_: None, lambda: [told], (0,), lambda *_: nodeset, 0)
    log.activate(told)
    assert [type(event) for event in told.events] == [NodesetsLearned, Activated]
    reads = Told()
    log.read_metadata(reads, 1)
    for _ in range(2000):
        simulation.run(simulation.now + MILLISECOND // 10)
        if told.events[2:]:
            break
        assert reads.events == []
    assert told.events[2:] == [MetadataWritten(1)]
    log.read_metadata(reads, 1)
    assert [event.nodeset for event in reads.events] == [nodeset]


def test_who_asks_for_statuses_is_told_them() -> None:
    told = Told()
    log = Coordination(Simulation(0), lambda *_: None, list, (0,), lambda *_: Nodeset({"NODE": 1}, {}), 0)
    log.ask_statuses(told)
    log.greet(told)
    assert [type(event) for event in told.events] == [StatusesLearned, NodesetsLearned, StatusesLearned]


def test_an_epoch_is_clean_when_those_before_it_are() -> None:
    told = Told()
    nodeset = Nodeset({"NODE": 1}, {0: ("", "", "", "", "N0")})
    log = Coordination(Simulation(0), lambda *_: None, lambda: [told], (0,), lambda *_: nodeset, 0)
    for _ in range(3):
        log.activate(told)
    told.events.clear()
    for epoch in (2, 1, 2):
        log.set_clean(told, epoch)
    assert told.events == [CleanSet(1), CleanSet(2)]


def test_readers_learn_of_events_late() -> None:
    stage = Stage(readers=5, event_log_lag=2 * SECOND).passes(100)
    stage.cluster.coordination.append(LogRecord(Word.DRAIN, 0))
    stage.passes(110)
    assert all(stage.shard(number).core.version for number in range(4))
    assert len({event["node"] for event in stage.events("stream_statuses") if event["version"]}) < 5
    assert len({event["node"] for event in stage.passes(2000).events("stream_statuses") if event["version"]}) == 5


# -- faults of shards --------------------------------------------------------------------------------------------------


def test_a_shard_is_rebuilt_that_is_down_for_long_and_not_one_that_is_down_often() -> None:
    stage = Stage(rebuild_after=300 * MILLISECOND).append(3)
    for _ in range(4):
        back = stage.passes(100).fault("kill", 0)
        stage.passes(100)
        back()
    assert stage.passes(100).words == []
    back = stage.fault("kill", 0)
    assert stage.passes(290).words == []
    assert stage.passes(50).words[0] == ("rebuild", 0)
    assert ("rebuild", 0) not in stage.passes(200).words[1:]
    back()


def test_a_drained_shard_is_back_when_it_is_empty_or_at_once_and_only_once() -> None:
    stage = Stage(rebuild_after=300 * MILLISECOND).append(5)
    over = stage.fault("drain", 0)
    stage.passes(300)
    over()
    assert [word for word, _ in stage.passes(100).words] == ["drain", *["done"] * 4, "acknowledge"]
    stage.shard(1).slowness = 1000.0
    stage.fault("drain", 0)()
    assert [word for word, _ in stage.passes(100).words[6:] if word != "done"] == ["drain", "abort"]
    stage.shard(1).slowness = 1.0
    before = len(stage.passes(300).words)
    stage.fault("kill", 0)
    assert {word for word, _ in stage.passes(600).words[before:]} == {"rebuild", "done"}


def test_nobody_says_of_a_drained_shard_that_was_lost_meanwhile_that_it_is_back_but_itself() -> None:
    stage = Stage(rebuild_after=300 * MILLISECOND).append(5)
    stage.shard(1).slowness = 100.0  # a donor is not done
    over = stage.fault("drain", 0)
    back = stage.passes(10).fault("wipe", 0)
    stage.passes(50)
    back()
    over()
    assert [word for word, _ in stage.passes(200).words if word != "done"] == ["drain", "unrecoverable"]
    stage.shard(1).slowness = 1.0
    assert [word for word, _ in stage.passes(900).words if word != "done"] == ["drain", "unrecoverable", "acknowledge"]


def test_only_so_many_shards_are_wiped_that_new_copies_have_a_place() -> None:
    for shards, spare, most in ((5, 1, 1), (5, 0, 2), (8, 1, 2)):
        for fault in ("wipe", "drain"):
            stage = Stage(shards=shards, replication={"NODE": 3}, spare=spare).append(3)
            assert [stage.cluster.may_lose(number) for number in range(shards + 1)] == [True] * shards + [False]
            for number in range(most):
                stage.fault(fault, number)
            stage.passes(50)
            assert [number for number in range(shards) if stage.cluster.may_lose(number)] == [*range(most)]
            assert len(stage.cluster.faults.resolve("minority")) == 2


def test_a_new_epoch_may_have_another_nodeset() -> None:
    stage = Stage(shards=6, spare=2, nodeset_changes=1.0).append()
    for _ in range(4):
        stage.fault("kill", stage.sequencer.number)()
        stage.append()
    masks = [event["shards"] for event in stage.events("nodeset")]
    assert len(masks) > 2
    assert {mask.bit_count() for mask in masks} <= {4, 5, 6}


def test_readers_are_spread_over_regions() -> None:
    stage = Stage(shards=6, readers=3, domains=(2, 1, 1, 1))
    assert [stage.cluster.region_of_reader(number) for number in (6, 7, 8)] == ["0", "1", "0"]


def test_a_sequencer_that_has_nothing_to_do_is_made_active_and_the_newest_counts() -> None:
    stage = Stage(sequencers=2).append(2).passes(100)
    assert stage.cluster.released == lsn_of(1, 2)
    stage.fault("kill", stage.sequencer.number)()
    assert not stage.passes(200).cluster.agreed()
    assert stage.cluster.converge(2 * SECOND)
    assert stage.cluster.released > lsn_of(2, 0)


def test_all_agree_when_no_shard_leaves_and_readers_are_at_the_end() -> None:
    stage = Stage().append(3).passes(200)
    assert stage.cluster.agreed()
    stage.cluster.network.cut([(shard, stage.reader.number) for shard in range(4)])
    assert not stage.append().passes(100).cluster.agreed()
    stage.cluster.network.mend([(shard, stage.reader.number) for shard in range(4)])
    assert stage.passes(1000).cluster.agreed()
    stage.fault("drain", 0)
    assert not stage.passes(300).cluster.agreed()


# -- connections -------------------------------------------------------------------------------------------------------


class Ends:
    """Two processes with a network between them; the first connects whenever there is no connection."""

    def __init__(self, seed: int, link: Link) -> None:
        self.simulation = Simulation(seed)
        self.network = Network(self.simulation, self._arrives, link)
        self.hosts = [Host(self.simulation, number) for number in (0, 1)]
        self.heard, self.changes = list[tuple[int, int]](), [list[bool](), list[bool]()]
        self.number, self.sent = 0, 0
        for host in self.hosts:
            host.start()
        self.ends = [self.end(0), self.end(1)]
        self.connect()

    def end(self, number: int) -> Connections:
        def transmit(peer: int, item: Any) -> None:  # noqa: ANN401
            self.network.send(number, peer, item)

        return Connections(self.hosts[number], transmit, self._delivered, lambda _, on: self._changed(number, on))

    def connect(self) -> None:
        self.number, self.sent = self.number + 1, 0
        self.ends[0].connect(1, self.number)

    def _arrives(self, source: int, target: int, item: Any) -> None:  # noqa: ANN401
        self.hosts[target].deliver(self.ends[target].receive, source, item)

    def _delivered(self, peer: int, message: Any) -> None:  # noqa: ANN401
        self.heard.append(message)

    def _changed(self, number: int, on: bool) -> None:
        self.changes[number].append(on)

    def send(self, count: int) -> None:
        """Send numbered messages, each a while after the one before, and connect anew where that ended."""
        for _ in range(count):
            if self.changes[0] and not self.changes[0][-1]:
                self.changes[0].clear()
                self.connect()
            if self.changes[0]:
                self.sent += 1
                self.ends[0].send(1, (self.number, self.sent))  # type: ignore[arg-type]
            self.passes(3)

    def passes(self, milliseconds: int) -> None:
        self.simulation.run(self.simulation.now + milliseconds * MILLISECOND)


class Replacing(list[tuple[int, int]]):
    """What is heard; at the first message the connection is replaced."""

    def __init__(self, both: Ends) -> None:
        super().__init__()
        self._both = both

    def append(self, message: tuple[int, int]) -> None:
        """One message is heard."""
        super().append(message)
        self._both.connect()


_BAD = Link(loss=0.1, duplicate=0.2, reorder=0.2, straggle=300 * MILLISECOND)


@pytest.mark.parametrize("seed", range(4))
def test_a_connection_loses_doubles_and_turns_around_nothing(seed: int) -> None:
    both = Ends(seed, _BAD)
    both.send(600)
    by_connection: dict[int, list[int]] = {}
    for connection, number in both.heard:
        by_connection.setdefault(connection, []).append(number)
    assert [*by_connection] == sorted(by_connection)
    for numbers in by_connection.values():
        assert numbers == [*range(1, len(numbers) + 1)]
    assert len(both.heard) > 300


def test_what_was_lost_is_sent_again_and_a_connection_lasts() -> None:
    both = Ends(0, Link())
    both.passes(10)
    for _ in range(8):
        both.network.cut([(0, 1)])
        both.send(2)
        both.network.mend([(0, 1)])
        both.send(60)
    both.passes(3000)
    assert both.heard == [(1, number) for number in range(1, both.sent + 1)]
    assert both.changes == [[True], [True]]


@pytest.mark.parametrize("cut", [[(0, 1)], [(1, 0)]])
def test_silence_ends_a_connection_on_both_sides(cut: list[tuple[int, int]]) -> None:
    both = Ends(0, Link())
    both.passes(10)
    both.network.cut(cut)
    both.passes(1200)
    assert both.changes == [[True, False], [True, False]]


def test_a_connection_over_which_no_message_comes_ends_though_signs_of_life_do() -> None:
    """The last message of all is missing: that there is one is known by the signs of life alone."""
    both = Ends(0, Link())
    both.passes(10)
    transmit = both.ends[0]._transmit

    def loses(peer: int, item: Any) -> None:  # noqa: ANN401
        if not isinstance(item, Segment) or item.message is None:
            transmit(peer, item)

    both.ends[0]._transmit = loses
    both.send(1)
    both.passes(1200)
    assert both.heard == []
    assert both.changes == [[True, False], [True, False]]


def test_who_begins_anew_knows_no_connection() -> None:
    both = Ends(0, Link())
    both.passes(10)
    both.hosts[1].stop()
    both.hosts[1].start()
    both.ends[1] = both.end(1)
    both.send(3)
    assert both.changes[0][-1:] == [False] or both.number == 2
    both.passes(10)
    both.send(3)
    assert both.heard == [(2, 1), (2, 2), (2, 3)] or both.number == 2


def test_what_came_early_is_not_heard_once_the_connection_is_replaced() -> None:
    both = Ends(0, Link())
    both.passes(10)
    for number in (1, 2):
        both.ends[0].receive(1, Segment(1, number, (1, number), 0))  # type: ignore[arg-type]
    both.heard = Replacing(both)
    both.ends[0].receive(1, Segment(1, 0, (1, 0), 0))  # type: ignore[arg-type]
    assert both.heard == [(1, 0)]


def test_an_opening_that_comes_late_or_twice_opens_nothing() -> None:
    both = Ends(0, Link())
    both.passes(10)
    both.connect()
    both.passes(10)
    for number in (1, 2):
        both.ends[1].receive(0, Opening(number, granted=False))
    both.send(3)
    assert both.heard == [(2, 1), (2, 2), (2, 3)]
    assert both.changes[1] == [True, False, True]
    both.ends[1].receive(0, Reset(1))
    assert both.changes[1] == [True, False, True]
    both.ends[1].receive(0, Reset(2))
    assert both.changes[1] == [True, False, True, False]
