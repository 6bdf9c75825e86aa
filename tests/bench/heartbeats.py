"""What heartbeats cost a process that holds 1, 100 or 1,000 Raft groups of three nodes: bytes sent and processor time.

    python tests/bench/heartbeats.py [--quick]

Cores of three processes, in memory: one leads all groups, the others follow. Every 150 ms each group's timer fires;
what the cores send is encoded as real nodes do, one frame a peer, and decoded on the other side. Against that: light
heartbeats off, so that each is a full one, and a frame for each group, as of processes with a single one. Nothing is
appended. Per cent are of one core, at the leader, who sends two heartbeats a group and reads two answers.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, NamedTuple

from quorumlog.events import Flushed, Received, Send, StartFlush, TimerFired
from quorumlog.node.framing import LENGTH_BYTES
from quorumlog.quorum import Voters
from quorumlog.raft.core import Configuration, RaftCore, Restored, Started
from quorumlog.raft.events import SaveVote, Timer, VoteSaved
from quorumlog.raft.grouped import GROUPED, Item
from quorumlog.raft.wire import MESSAGES

INTERVAL = 150_000_000
LEADER, PEERS = 0, (1, 2)


class Cost(NamedTuple):
    """Of one interval: bytes that the leader sends one peer, bytes of the answers, seconds of the leader's core."""

    sent: float
    answered: float
    seconds: float


class Processes:
    """Three processes with so many groups each; node 0 leads them all."""

    def __init__(self, groups: int, *, light: bool) -> None:
        voters = Voters((LEADER, *PEERS))
        self.now = 0
        self.cores = [
            [RaftCore(Configuration(node, voters, light_heartbeats=light), Restored()) for _ in range(groups)]
            for node in voters.current
        ]
        for group in range(groups):
            for node in voters.current:
                self._settle(group, node, Started())
            self._settle(group, LEADER, TimerFired(Timer.ELECTION))
            for _ in range(3):
                self._settle(group, LEADER, TimerFired(Timer.HEARTBEAT))
            core = self.cores[LEADER][group]
            assert core.role == "leader"
            assert all(node[group].commit == core.dirty == 0 for node in self.cores)

    def _settle(self, group: int, node: int, event: Any) -> None:  # noqa: ANN401
        """Let a core take an event, the disks do at once what is asked of them, and all messages arrive."""
        events = [(node, event)]
        while events:
            at, taken = events.pop(0)
            for effect in self.cores[at][group].handle(self.now, taken):
                if isinstance(effect, Send):
                    events.append((effect.to, Received(at, effect.message)))
                elif isinstance(effect, StartFlush):
                    events.append((at, Flushed(effect.ticket)))
                elif isinstance(effect, SaveVote):
                    events.append((at, VoteSaved(effect.ticket)))

    def beat(self, *, together: bool) -> Cost:
        """One interval: all heartbeats and their answers, a frame a peer or a frame a group."""
        self.now += INTERVAL
        began = time.process_time()
        out: dict[int, list[Item]] = {peer: [] for peer in PEERS}
        for group, core in enumerate(self.cores[LEADER]):
            for effect in core.handle(self.now, TimerFired(Timer.HEARTBEAT)):
                if isinstance(effect, Send):
                    out[effect.to].append((group, effect.message))
        frames = {peer: _encoded(items, together=together) for peer, items in out.items()}
        spent = time.process_time() - began
        answers = {peer: self._answer(peer, of_peer, together=together) for peer, of_peer in frames.items()}
        began = time.process_time()
        for peer, of_peer in answers.items():
            for group, message in _decoded(of_peer, together=together):
                self.cores[LEADER][group].handle(self.now, Received(peer, message))
        spent += time.process_time() - began
        return Cost(*(sum(map(len, each[PEERS[0]])) for each in (frames, answers)), spent)

    def _answer(self, peer: int, frames: list[bytes], *, together: bool) -> list[bytes]:
        items: list[Item] = []
        for group, message in _decoded(frames, together=together):
            effects = self.cores[peer][group].handle(self.now, Received(LEADER, message))
            items += [(group, effect.message) for effect in effects if isinstance(effect, Send)]
        return _encoded(items, together=together)


def _encoded(items: list[Item], *, together: bool) -> list[bytes]:
    if together:
        return [GROUPED.encode((0, 0), items)]
    return [MESSAGES.encode((0, 0), [message]) for _, message in items]


def _decoded(frames: list[bytes], *, together: bool) -> list[Item]:
    if together:
        return [item for each in frames for item in GROUPED.decode(each[LENGTH_BYTES:])[1]]
    return [(group, MESSAGES.decode(each[LENGTH_BYTES:])[1][0]) for group, each in enumerate(frames)]


def main() -> None:
    """Print the table and the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    intervals = 5 if parser.parse_args().quick else 40
    ways = {
        "light, a frame a peer": (True, True),
        "full, a frame a peer": (False, True),
        "full, a frame a group": (False, False),
    }
    figures: dict[str, dict[str, float]] = {}
    print(
        f"{'groups':>7}  {'':24} {'bytes to a peer':>16} {'kB/s':>7} {'of its answer':>14} {'per cent of a core':>19}"
    )
    for groups in (1, 100, 1000):
        for way, (light, together) in ways.items():
            processes = Processes(groups, light=light)
            costs = [processes.beat(together=together) for _ in range(intervals)]
            sent, answered = costs[-1].sent, costs[-1].answered
            share = sorted(cost.seconds for cost in costs)[intervals // 2] / (INTERVAL / 1e9)
            print(f"{groups:>7}  {way:24} {sent:>16} {sent / INTERVAL * 1e6:>7.2f} {answered:>14} {100 * share:>19.2f}")
            figures[f"{groups} {way}"] = {"sent": sent, "answered": answered, "core_share": round(share, 5)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
