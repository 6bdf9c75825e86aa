"""The scenarios of Raft (scenarios.toml beside it), played on a simulated cluster and judged by every check.

Steps, one a line. NODE is a number, ``leader``, ``old_leader`` (the last one isolated), ``follower`` (the node after
the leader), ``last`` (the other end of that ring), ``all``, or a name given by ``let``; VALUE is a number, a name given
by ``let``, or NODE.commit, .dirty, .flushed, .visible, .term, .start, .reserved (memory for appends), .reads (how often
it read its log for others), .voters (how many there are by its configuration), .changing (1: that is not simple),
.applied, .records and .digest (its state machine), .batches (how many its log holds), each with ``+ N`` if wanted.

    append COUNT acks=all|1|0 to=NODE [records=N] [bytes=N] [key=N] [term=NAME|now] -> ok|info|fail REASON    one after
                                                    another
    submit NAME COUNT acks=..,.. to=NODE ...        all at once, from as many clients; the acks levels in turn
    outcome NAME -> ok|info|fail REASON             wait until all of them ended so
    tail NAME NODE                                  ask for the linearizable number of entries
    kill|power_loss|wipe|start|restart NODE...      a wiped node is down and finds an empty disk when it starts
    pause|resume NODE                               stop a process where it stands, and let it go on
    transfer NODE TARGET                            ask a leader to hand its leadership on
    transfers COUNT appends=N acks=..,..            again and again to the next node, with N appends before each
    change add=N,.. remove=N,.. demote=N,..         ask the leader to change the members
    isolate NODE, heal                              cut a node off; end all cuts
    delay MESSAGE DURATION                          how much longer messages of this name take
    trim NODE VALUE                                 retention: entries before it may go
    compact NODE                                    remove what a later batch of the same key replaced
    let NAME = NODE|VALUE
    wait DURATION, wait until A op B within DURATION
    converge                                        everything started, written once more, all nodes agree
    expect A op B                                   for every node that A or B names
    expect equal logs [of members], expect values N on NODE, expect ascending values on NODE,
    expect [no] losses acks=LEVEL
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import quorumlog
from loghistory import MemorySink, Recorder
from quorumlog.durations import MILLISECOND, SECOND, parse_duration
from quorumlog.events import ReadLog
from quorumlog.hunting.judge import judge_table
from quorumlog.raft.events import ChangeRequested
from quorumlog.raft.members import Change
from quorumlog.raft.messages import AnyMessage
from quorumlog.raft.nodes import RaftNode
from quorumlog.raft.settings import NodeLimits, NodeTiming, RaftConfiguration
from quorumlog.raft.simulated import RaftCluster
from quorumlog.simulation.configuration import DiskTiming, LogWorkload
from quorumlog.simulation.log_client import LogClient
from quorumlog.simulation.network import Link
from quorumlog.storage.batch import BatchKind
from quorumlog.storage.log import Log

Scenario = dict[str, Any]
_FILE = Path(quorumlog.__file__).parent / "raft" / "scenarios.toml"
SCENARIOS: list[Scenario] = tomllib.loads(_FILE.read_text(encoding="utf-8"))["scenario"]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ACKS = {"all": -1, "1": 1, "0": 0}


class CountingNode(RaftNode):
    """A node that counts how often it reads its log for others."""

    reads = 0

    def _read_log(self, effect: ReadLog) -> None:
        self.reads += 1
        super()._read_log(effect)


class Stage(RaftCluster):
    """A cluster on which messages of a kind can be made slow."""

    node_type = CountingNode

    def __init__(self, configuration: RaftConfiguration, recorder: Recorder) -> None:
        super().__init__(1, configuration, recorder)
        self.slower: dict[str, int] = {}

    def transmit(self, source: int, target: int, message: AnyMessage) -> None:
        delay = self.slower.get(type(message).__name__, 0)
        self.simulation.after(delay, super().transmit, source, target, message)


class Play:
    """One scenario under way."""

    def __init__(self, scenario: Scenario) -> None:
        self.configuration = RaftConfiguration(
            nodes=scenario.get("nodes", 3),
            voters=tuple(scenario["voters"]) if "voters" in scenario else None,
            write_caching=scenario.get("write_caching", False),
            segment_bytes=scenario.get("segment_bytes", 4096),
            priorities=scenario.get("priorities", False),
            longest_log=scenario.get("longest_log", False),
            timing=NodeTiming(flush=parse_duration(scenario.get("flush", "60ms"))),
            disk=DiskTiming(least=MILLISECOND, most=4 * MILLISECOND),
            link=Link(jitter=parse_duration(scenario.get("jitter", "600us"))),
            limits=NodeLimits(**scenario.get("limits", {})),
            workload=LogWorkload(timeout=parse_duration(scenario.get("timeout", "5s"))),
        )
        self.sink = MemorySink()
        self.recorder = Recorder(self.sink)
        self.stage = Stage(self.configuration, self.recorder)
        self.names: dict[str, int] = {}
        self.submitted: dict[str, list[LogClient]] = {}
        self.cut: list[list[tuple[int, int]]] = []
        self.old_leader = -1
        self.wanted_losses: list[tuple[str, bool]] = []
        self.stage.start()
        self.until("leader.commit == leader.dirty", SECOND)

    # -- what names mean -----------------------------------------------------------------------------------------

    def nodes(self, word: str) -> list[int]:
        count = self.configuration.nodes
        if word.isdigit():
            return [int(word)]
        if word == "all":
            return list(range(count))
        if word == "old_leader":
            return [self.old_leader]
        if word in self.names:
            return [self.names[word]]
        leader = self.stage.leader()
        if word not in {"leader", "follower", "last"}:
            raise ValueError(f"{word!r} is no node")
        if leader is None:
            return []
        step = {"leader": 0, "follower": 1, "last": count - 1}[word]
        return [(leader.number + step) % count]

    def values(self, text: str) -> list[int]:
        match = re.fullmatch(r"(-?[\w.]+)(?: \+ (\d+))?", text.strip())
        assert match is not None, f"{text!r} is no value"
        word, more = match[1], int(match[2] or 0)
        name, _, field = word.partition(".")
        if field:
            return [self.field(node, field) + more for node in self.nodes(name)]
        if re.fullmatch(r"-?\d+", word):
            return [int(word) + more]
        if word in self.names:
            return [self.names[word] + more]
        return [node + more for node in self.nodes(word)]

    def field(self, number: int, field: str) -> int:
        node = self.stage.nodes[number]
        if field == "start":
            return node.log.start_offset
        if field == "reads":
            assert isinstance(node, CountingNode)
            return node.reads
        if field == "voters":
            return len(node.core.voters.voting)
        if field == "changing":
            return int(not node.core.members.simple)
        if field == "reserved":
            return node.core.reserved
        if field == "batches":
            return len(node.core.index)
        if field in {"records", "digest"}:
            return int(getattr(node.machine.state, field))
        assert field in {"applied", "commit", "dirty", "flushed", "visible", "term"}, f"a node has no {field!r}"
        return int(getattr(node.core, field))

    def holds(self, expression: str) -> bool:
        match = re.fullmatch(r"(.+?) (==|!=|<=|>=|<|>) (.+)", expression)
        assert match is not None, f"{expression!r} is no comparison"
        left, right = self.values(match[1]), self.values(match[3])
        return bool(left and right) and all(OPERATORS[match[2]](a, b) for a in left for b in right)

    def until(self, expression: str, limit: int) -> None:
        deadline = self.stage.simulation.now + limit
        while not self.holds(expression):
            assert self.stage.simulation.now < deadline, f"{expression} did not come true: {self.state()}"
            self.stage.advance(MILLISECOND)

    def state(self) -> list[str]:
        return [
            f"node {n.number} {n.core.role if n.host.running else 'down'} term={n.core.term} dirty={n.core.dirty} "
            f"flushed={n.core.flushed} commit={n.core.commit} visible={n.core.visible}"
            for n in self.stage.nodes
        ]

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self, line: str) -> None:
        verb, _, rest = line.partition(" ")
        getattr(self, f"do_{verb}")(rest)

    def ask(self, rest: str, clients: list[LogClient] | None = None) -> tuple[list[LogClient], str]:
        """Begin the appends of a step one after another, or all at once by these clients."""
        request, _, expected = rest.partition(" -> ")
        count, *options = request.split()
        given = dict(option.split("=") for option in options)
        levels = [ACKS[level] for level in given["acks"].split(",")]
        (node,) = self.nodes(given["to"])
        term = given.get("term")
        expected_term = -1
        if term is not None:
            expected_term = self.field(node, "term") if term == "now" else self.names[term]
        asked = []
        for number in range(int(count)):
            client = self.stage.new_client()
            client.append(
                node,
                acks=levels[number % len(levels)],
                records=int(given.get("records", 1)),
                padding=int(given.get("bytes", 0)),
                expected_term=expected_term,
                key=int(given.get("key", 0)),
            )
            asked.append(client)
            if clients is None:
                self.ended([client], expected)
        return asked, expected

    def ended(self, clients: list[LogClient], expected: str) -> None:
        while not all(client.idle for client in clients):
            self.stage.advance(MILLISECOND)
        kind, _, reason = expected.partition(" ")
        assert {client.last_outcome for client in clients} == {kind}
        if reason:
            assert {client.last_reason for client in clients} == {reason}

    def do_append(self, rest: str) -> None:
        self.ask(rest)

    def do_submit(self, rest: str) -> None:
        name, _, request = rest.partition(" ")
        self.submitted[name], _ = self.ask(request, [])

    def do_outcome(self, rest: str) -> None:
        name, _, expected = rest.partition(" -> ")
        self.ended(self.submitted[name], expected)

    def do_tail(self, rest: str) -> None:
        name, node = rest.split()
        client = self.stage.new_client()
        client.tail(self.nodes(node)[0])
        self.ended([client], "ok")
        self.names[name] = client.last_offset

    def do_kill(self, rest: str, kind: str = "crash") -> None:
        for number in [number for word in rest.split() for number in self.nodes(word)]:
            node = self.stage.nodes[number]
            if node.host.running:
                self.stage.record(kind, {"node": number, "incarnation": node.host.incarnation})
                node.kill()

    def do_power_loss(self, rest: str) -> None:
        numbers = [number for word in rest.split() for number in self.nodes(word)]
        self.do_kill(" ".join(map(str, numbers)), "power_loss")
        for number in numbers:
            self.stage.nodes[number].disk.power_loss()

    def do_wipe(self, rest: str) -> None:
        for number in [number for word in rest.split() for number in self.nodes(word)]:
            self.stage.record("fault", {"f": "wipe", "node": number})
            self.stage.nodes[number].new_disk()

    def do_start(self, rest: str) -> None:
        for number in [number for word in rest.split() for number in self.nodes(word)]:
            self.stage.nodes[number].start()

    def do_restart(self, rest: str) -> None:
        (number,) = self.nodes(rest)
        self.do_kill(str(number))
        self.stage.advance(600 * MILLISECOND)
        self.do_start(str(number))

    def do_transfer(self, rest: str) -> None:
        word, target = rest.split()
        (number,), (other,) = self.nodes(word), self.nodes(target)
        self.stage.nodes[number].transfer(other)

    def do_change(self, rest: str) -> None:
        leader = self.stage.leader()
        assert leader is not None
        named = {name: tuple(map(int, nodes.split(","))) for name, nodes in (w.split("=") for w in rest.split())}
        change = Change(leader.core.members.revision + 1, **named)
        answers: list[Any] = []
        leader.handle(ChangeRequested(leader.open(answers.append), change))
        assert not answers, "it is refused"

    def do_transfers(self, rest: str) -> None:
        count, *options = rest.split()
        given = dict(option.split("=") for option in options)
        for _ in range(int(count)):
            leader = self.stage.leader()
            assert leader is not None
            self.ask(f"{given['appends']} acks={given['acks']} to={leader.number} -> ok", [])
            self.stage.advance(MILLISECOND)
            leader.transfer((leader.number + 1) % self.configuration.nodes)
            self.until(f"leader != {leader.number}", SECOND)
            self.until("leader.commit == leader.dirty", SECOND)
            assert all(node.core.visible <= node.core.dirty for node in self.stage.nodes)

    def do_pause(self, rest: str) -> None:
        (number,) = self.nodes(rest)
        self.stage.record("fault", {"f": "pause", "node": number})
        self.stage.nodes[number].host.pause()

    def do_resume(self, rest: str) -> None:
        (number,) = self.nodes(rest)
        self.stage.record("heal", {"f": "pause", "node": number})
        self.stage.nodes[number].host.resume()

    def do_isolate(self, rest: str) -> None:
        (number,) = self.nodes(rest)
        self.old_leader = number
        others = [other for other in range(self.configuration.nodes) if other != number]
        pairs = [pair for other in others for pair in ((number, other), (other, number))]
        self.cut.append(pairs)
        self.stage.network.cut(pairs)
        self.stage.record("fault", {"f": "partition", "node": number})

    def do_heal(self, rest: str) -> None:
        assert not rest
        for pairs in self.cut:
            self.stage.network.mend(pairs)
        self.cut.clear()
        self.stage.record("heal", {"f": "partition"})

    def do_delay(self, rest: str) -> None:
        name, duration = rest.split()
        self.stage.slower[name] = parse_duration(duration)

    def do_trim(self, rest: str) -> None:
        word, _, value = rest.partition(" ")
        (offset,) = self.values(value)
        for number in self.nodes(word):
            self.stage.nodes[number].trim(offset)

    def do_compact(self, rest: str) -> None:
        for number in self.nodes(rest):
            self.stage.nodes[number].compact()

    def do_let(self, rest: str) -> None:
        name, _, value = rest.partition(" = ")
        (self.names[name],) = self.values(value)

    def do_wait(self, rest: str) -> None:
        if rest.startswith("until "):
            expression, _, limit = rest.removeprefix("until ").partition(" within ")
            self.until(expression, parse_duration(limit))
        else:
            self.stage.advance(parse_duration(rest))

    def do_converge(self, rest: str) -> None:
        assert not rest
        self.stage.start()
        assert self.stage.converge(20 * SECOND), self.state()

    def do_expect(self, rest: str) -> None:
        if rest in ("equal logs", "equal logs of members"):
            leader = self.stage.leader()
            assert leader is not None
            nodes = self.stage.members(leader) if rest.endswith("members") else self.stage.nodes
            logs = [contents(node.log) for node in nodes]
            assert all(log == logs[0] for log in logs)
        elif match := re.fullmatch(r"values (\d+) on (\w+)", rest):
            (number,) = self.nodes(match[2])
            values = [value for _, _, value in contents(self.stage.nodes[number].log) if value >= 0]
            assert len(values) >= int(match[1]), values
        elif match := re.fullmatch(r"ascending values on (\w+)", rest):
            (number,) = self.nodes(match[1])
            values = [value for _, _, value in contents(self.stage.nodes[number].log) if value >= 0]
            assert len(values) > 1
            assert values == sorted(values)
        elif match := re.fullmatch(r"(no )?losses acks=(\w+)", rest):
            self.wanted_losses.append((match[2], not match[1]))
        else:
            assert self.holds(rest), f"{rest}: {self.state()}"

    def finish(self) -> None:
        """Read everything and let every check judge it."""
        for node in self.stage.nodes:
            node.start()
        self.do_heal("")
        self.stage.slower.clear()
        self.do_converge("")
        self.stage.final_read()
        self.recorder.close()
        answer = judge_table("raft", self.sink.table, replace(self.configuration))
        violated = {c["id"]: c["violations"] for c in answer["checks"] if c["verdict"] == "violated"}
        assert not violated
        for level, wanted in self.wanted_losses:
            losses = [loss for loss in answer["losses"] if loss["acks"] == level]
            assert bool(losses) == wanted, answer["losses"]
            assert all(0 < loss["first_time"] <= loss["last_time"] for loss in losses)


def contents(log: Log) -> list[tuple[int, int, int]]:
    """Every batch of a log as (offset, term, value), -1 for the value of a configuration."""
    batches = log.read(log.start_offset, 1 << 40) if log.dirty >= log.start_offset else []
    return [(b.base_offset, b.term, b.value if b.kind is BatchKind.DATA else -1) for b in batches]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{s['number']}: {s['title']}" for s in SCENARIOS])
def test_scenario(scenario: Scenario) -> None:
    play = Play(scenario)
    for step in scenario["steps"]:
        try:
            play.step(step)
        except AssertionError as error:
            raise AssertionError(f"step {step!r}: {error}") from error
    play.finish()
