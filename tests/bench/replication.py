"""Acks=all while appends with acks 0 and 1 saturate the group: on the one path, and with those left to recovery.

    python tests/bench/replication.py [--quick]

Three real processes. Many clients keep the leader busy with acks 0 and 1; another one waits for one append with
acks=all after the other, whose times are told. In the design before (documents.md#raft-simplification-introduction)
what nobody waits for was left to recovery, which reads it from the leader's disk: that is the variant, built from the
same parts.
Also told: the bytes that the leader read back for its followers, and how many batches each of its flushes covered.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from quorumlog.cluster.client import NodeClient
from quorumlog.cluster.supervisor import Cluster
from quorumlog.events import Append, LogRead, ReadLog
from quorumlog.node.configuration import load
from quorumlog.node.process import run
from quorumlog.node.supervision import Supervisor
from quorumlog.node.wire import AppendResult, StatusResult
from quorumlog.raft import real
from quorumlog.raft.core import RaftCore
from quorumlog.raft.driver import RaftDriver
from quorumlog.raft.progress import Progress
from quorumlog.storage.batch import RecordBatch

PAYLOAD = 1000
CONNECTIONS, BUSY = 8, 64
_COUNTS = "QUORUMLOG_BENCH_COUNTS"
"""The directory in which the nodes leave what they counted."""


class RecoveryDriven(RaftCore):
    """What no caller waits for is written, and left to recovery; the rest is sent where a follower expects it next."""

    _relaxed = False

    def _round(self, batches: tuple[RecordBatch, ...], *, required: bool, requests: tuple[int, ...] = ()) -> None:
        self._relaxed = not required
        super()._round(batches, required=required, requests=requests)

    def _expects(self, follower: Progress, previous: int) -> bool:
        return not self._relaxed and super()._expects(follower, previous)


VARIANTS: dict[str, type[RaftCore]] = {"one path": RaftCore, "left to recovery": RecoveryDriven}


class Counting(RaftDriver):
    """Counts what is written and what is read back for followers."""

    counts: dict[str, int]

    def _effects(self) -> Mapping[type, Callable[[Any], object]]:
        self.counts = dict.fromkeys(("batches", "appended", "read_back"), 0)
        return {**super()._effects(), Append: self._append}

    def _append(self, effect: Append) -> None:
        self.counts["batches"] += len(effect.batches)
        self.counts["appended"] += sum(batch.size_bytes for batch in effect.batches)
        self.log.append(effect.batches)

    def _read_for_peer(self, effect: ReadLog) -> None:
        super()._read_for_peer(effect)
        found = self._inbox[-1]
        assert isinstance(found, LogRead)
        self.counts["read_back"] += sum(batch.size_bytes for batch in found.batches)

    async def stop(self) -> None:
        """Leave the counts behind."""
        await super().stop()
        path = Path(os.environ[_COUNTS]) / f"counts-{self.core.node}.json"
        path.write_text(json.dumps({**self.counts, "flushes": self.flushes}))


def node(variant: str) -> None:
    """Be a node of a variant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    parser.add_argument("--supervisor", type=int, nargs=3)
    arguments = parser.parse_args(sys.argv[3:])
    process, *after = arguments.supervisor
    real.RaftCore, real.RaftDriver = VARIANTS[variant], Counting  # type: ignore[misc]
    sys.exit(run(load(arguments.config), protocol=real.real(), supervisor=Supervisor(process, (after[0], after[1]))))


async def leader(cluster: Cluster) -> int:
    """A node that leads and has committed in its term."""
    for _ in range(600):
        for number in cluster.nodes:
            client = await cluster.client(number)
            found = await asyncio.wait_for(client.status(), 10)
            client.close()
            if isinstance(found, StatusResult) and found.role == "leader" and found.commit >= 0:
                return number
        await asyncio.sleep(0.05)
    raise SystemExit("no leader within 30 s")


async def put(client: NodeClient, number: int, acks: int) -> None:
    """Append once."""
    answer = await client.append(number.to_bytes(8, "big") + bytes(PAYLOAD - 8), acks=acks)
    if not isinstance(answer, AppendResult) or answer.outcome != "success":
        raise SystemExit(f"an append with acks={acks} was answered with {answer}")


async def measure(directory: Path, variant: str, seconds: float) -> dict[str, Any]:
    """The times of acks=all under load, the rate of the others, and what the leader counted."""
    settings = {"timing": {"election_timeout": 4000, "election_jitter": 500}}
    command = (sys.executable, str(Path(__file__).resolve()), "--node", variant)
    os.environ[_COUNTS] = str(directory)
    async with Cluster(directory, nodes=3, seed=1, record=False, command=command, settings=settings) as cluster:
        leading = await leader(cluster)
        over, done, times = asyncio.Event(), [0], []
        values = itertools.count()

        async def busy(client: NodeClient, acks: int) -> None:
            while not over.is_set():
                await put(client, next(values), acks)
                done[0] += 1

        clients = [await cluster.client(leading) for _ in range(CONNECTIONS)]
        working = [asyncio.create_task(busy(clients[at % CONNECTIONS], at % 2)) for at in range(BUSY)]
        patient = await cluster.client(leading)
        await asyncio.sleep(min(1.0, seconds / 4))  # warm
        begun, before = time.perf_counter(), done[0]
        while time.perf_counter() < begun + seconds:
            asked = time.perf_counter()
            await put(patient, next(values), -1)
            times.append(time.perf_counter() - asked)
        rate = (done[0] - before) / (time.perf_counter() - begun)
        over.set()
        await asyncio.gather(*working)
        await put(patient, next(values), -1)
    counted = json.loads((directory / f"counts-{leading}.json").read_text())
    percentiles = statistics.quantiles(times, n=100, method="inclusive")
    return {
        "variant": variant,
        "acks_all": len(times),
        "median_ms": round(percentiles[49] * 1e3, 2),
        "p99_ms": round(percentiles[98] * 1e3, 2),
        "longest_ms": round(max(times) * 1e3, 2),
        "relaxed_per_second": round(rate),
        "read_back": counted["read_back"],
        "read_back_share": round(counted["read_back"] / counted["appended"], 3),
        "batches_per_flush": round(counted["batches"] / max(1, counted["flushes"]), 1),
    }


def main() -> None:
    """Measure, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1.5 seconds each, once")
    parser.add_argument("--directory", type=Path, default=Path("out"), help="on the disk to measure")
    arguments = parser.parse_args()
    seconds, rounds = (1.5, 1) if arguments.quick else (8.0, 3)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    rows = []
    for _ in range(rounds):
        for variant in VARIANTS:
            with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="bench-replication-") as name:
                rows.append(asyncio.run(measure(Path(name), variant, seconds)))
    print(f"appends with acks=all, {BUSY} clients append {PAYLOAD} bytes with acks 0 and 1 meanwhile, 3 processes")
    print("                      median ms    99 %  longest  others/s  read back  batches a flush")
    for row in rows:
        times = f"{row['median_ms']:11.2f} {row['p99_ms']:7.2f} {row['longest_ms']:8.2f} {row['relaxed_per_second']:9}"
        print(f"  {row['variant']:17} {times} {row['read_back_share']:10.1%} {row['batches_per_flush']:16}")
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    ratios = {
        name: round(statistics.median(slow[name] / fast[name] for fast, slow in pairs), 2)
        for name in ("median_ms", "p99_ms")
    }
    reported = f"the median takes {ratios['median_ms']} times as long, the 99th percentile {ratios['p99_ms']} times"
    print(f"  left to recovery, {reported}")
    print(json.dumps({"bench": "replication", "rows": rows, "ratios": ratios}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--node"]:
        node(sys.argv[2])
    else:
        main()
