"""Plays a scenario of read-path.md#scenarios on a reader: what shards send in short notation, what it delivers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from quorumlog.durations import MILLISECOND
from quorumlog.events import CancelTimer, CoreFactory, Effect, Event, Received, Send, SetTimer, Started, TimerFired
from quorumlog.read_path import messages as m
from quorumlog.read_path import records as rec
from quorumlog.read_path.configuration import ReaderSettings
from quorumlog.read_path.core import Role, make_core
from quorumlog.read_path.events import AskMetadata, Connect, Connected, MetadataRead, StatusesLearned
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.reader import Gap, ReaderCore, Record
from quorumlog.read_path.rules import ESNS, FULLY_AUTHORITATIVE
from quorumlog.read_path.stream import LAST_LSN

_LSN = r"(?:e(\d+)n)?(\d+)"
_GAPS = {"g": m.GapKind.NO_RECORDS, "u": m.GapKind.UNDER_REPLICATED, "t": m.GapKind.TRIM}
_FLAGS = {
    "HOLE": rec.HOLE,
    "BRIDGE": rec.BRIDGE | rec.HOLE,
    "BEGIN": rec.EPOCH_BEGIN,
    "FILTERED": rec.FILTERED_OUT,
    "UNSURE": rec.UNDER_REPLICATED,
}
_SHORT = {"dataloss": "D", "trim": "T", "bridge": "BRIDGE", "hole": "HOLE", "filtered_out": "FILTERED"}


def lsn(text: str) -> int:
    """An LSN as the page writes it; without an epoch it is in the first."""
    match = re.fullmatch(_LSN, text)
    assert match, text
    return int(match[1] or 1) * ESNS + int(match[2])


def written(number: int) -> str:
    """The same the other way."""
    epoch, esn = divmod(number, ESNS)
    return f"{esn}" if epoch == 1 else f"e{epoch}n{esn}"


class Reading:
    """A reader whose shards are connected and have started, and what it has done; ``learns`` statuses first."""

    def __init__(self, scenario: Mapping[str, Any], make: CoreFactory = make_core, *, learns: bool = True) -> None:
        count = scenario.get("shards", 2)
        regions = scenario.get("regions", ["-"] * count)
        locations = {shard: (regions[shard], "-", "-", "-", f"N{shard}") for shard in range(count)}
        self.nodeset = Nodeset(scenario.get("replication", {"NODE": scenario.get("factor", 1)}), locations)
        self.metadata = scenario.get("metadata", {"since": 1, "until": 100, "last": False})
        usual = {"window": 4096, "threshold": 0.5, "in_flight": 2, "single_copy": False, "slow_shards": False}
        settings = ReaderSettings(**{**usual, **scenario.get("settings", {})})
        until = lsn(scenario["until"]) if "until" in scenario else LAST_LSN
        first = lsn(scenario.get("first", "1"))
        self.core: ReaderCore = make(Role.READER, 1, first, until, settings)
        self.now, self.timers, self.windows, self.asked = 0, dict[str, int](), list[m.Window](), list[int]()
        self.starts, self.stopped = dict[int, m.Start](), set[int]()
        self.version = 0  # of the event log, as shards know it
        given = {ord(name) - ord("a"): status for name, status in scenario.get("statuses", {}).items()}
        self.statuses = dict.fromkeys(range(count), FULLY_AUTHORITATIVE) | given
        rebuilt, given_up = frozenset(scenario.get("rebuilt", ())), scenario.get("given_up", False)
        if learns:
            self.give(StatusesLearned(0, self.statuses, 0, rebuilt=rebuilt, given_up=given_up))
        self.give(Started())

    def give(self, event: Event) -> None:
        """An event, and what follows at once."""
        self.now += MILLISECOND
        for effect in self.core.handle(self.now, event):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case AskMetadata(epoch):
                self.asked.append(epoch)
                if len(self.asked) == 1 or self.metadata["until"] >= 100:
                    self.give(MetadataRead(epoch, **self.metadata, nodeset=self.nodeset))
            case Connect(peer):
                self.give(Connected(peer))
            case Send(shard, m.Start() as start):
                self.start = self.starts[shard] = start
                if start.filter_version == 1:
                    answer = m.Answer.OK if self.statuses[shard] == FULLY_AUTHORITATIVE else m.Answer.REBUILDING
                    self.give(Received(shard, m.Started(1, self.version, 1, answer)))
            case Send(shard, m.Stop()):
                self.stopped.add(shard)
            case Send(_, m.Window() as window):
                self.windows.append(window)
            case SetTimer(name, delay):
                self.timers[name] = delay
            case CancelTimer(name):
                self.timers.pop(name, None)

    def hear(self, text: str) -> None:
        """One message in short notation, like ``a3``, ``a3,5``, ``b:g1-3,t1``."""
        shard = ord(text[0]) - ord("a")
        for part in text[1:].removeprefix(":").split(","):
            kind, first, last = re.fullmatch(rf"([A-Zgut]*)({_LSN})(?:-({_LSN}))?", part).group(1, 2, 5)  # type: ignore[union-attr]
            if kind in _GAPS:
                self.give(Received(shard, m.ShardGap(1, self.version, _GAPS[kind], lsn(first), lsn(last or first))))
                continue
            copy = rec.new_copy(lsn(first), (shard,), b"12345678", flags=_FLAGS.get(kind.removeprefix("X"), 0))
            sent = b"damaged!" if kind.startswith("X") else copy.payload
            bare = rec.Copy(copy.lsn, copy.copyset, 1, 0, 0, copy.flags, b"", copy.checksum)
            self.give(Received(shard, m.Records(1, self.version, (bare,), rec.compressed([sent]))))

    def delivered(self) -> str:
        """What was delivered since the last time."""
        found: list[str] = []
        while True:
            records, gap = self.core.read(100)
            items: Sequence[Record | Gap] = [*records, *([gap] if gap else [])]
            if not items:
                return ",".join(found)
            found += [_short(item) for item in items]

    def did(self, what: str) -> None:
        """Assert that the reader did something, or let a timer run out."""
        match what.split(" "):
            case ["grace"] | ["redelivery"] | ["rewind"]:
                assert what in self.timers
                del self.timers[what]
                self.give(TimerFired(what))
            case ["no", name]:
                assert name not in self.timers
            case ["window", bounds]:
                assert bounds in [f"{written(each.low)}-{written(each.high)}" for each in self.windows]
            case ["version", number]:
                assert self.core.filter_version == int(number)
                assert "rewind" not in self.timers
            case ["down", names]:
                assert self.core.listed == {ord(name) - ord("a") for name in names}
            case ["all", "send", "all"]:
                assert not self.core.single
                assert self.start.delivery is None
            case ["started"]:
                for shard in self.core.shards:
                    self.give(Received(shard, m.Started(1, self.version, self.core.filter_version, m.Answer.OK)))
            case ["asks", epoch]:
                assert self.asked[-1] == int(epoch)
            case _:
                raise AssertionError(what)


def _short(item: Record | Gap) -> str:
    if isinstance(item, Record):
        return written(item.lsn)
    if item.kind == "dataloss":
        assert item.lost == item.last - item.first + 1
    span = written(item.first) if item.first == item.last else f"{written(item.first)}-{written(item.last)}"
    return _SHORT[item.kind] + span


def play(scenario: Mapping[str, Any], **changed: Any) -> None:  # noqa: ANN401
    """Play it and assert what it says."""
    reading = Reading(scenario, **changed)
    for step in scenario["steps"]:
        if step.startswith("= "):
            assert reading.delivered() == step[2:], step
        elif step.startswith("-> "):
            reading.did(step[3:])
        else:
            for heard in step.split(" "):
                reading.hear(heard)
