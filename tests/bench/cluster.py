"""Committed appends a second with acks=all on real processes, against the fsync rate of the same disk in the same run.

One append and one fsync after the other is what a log without group commit can do at best, even on a single node; it is
measured with the nodes' own code for real files. Three processes replicate over TCP; many clients each wait for their
append before the next one. The nodes record no history, except in the last row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from quorumlog.cluster.supervisor import Cluster
from quorumlog.node.wire import AppendResult, StatusResult
from quorumlog.storage.files import FileDisk

PAYLOAD = 100
CONNECTIONS = 16


def fsync_rate(directory: Path, seconds: float) -> float:
    """Append a small record and wait for the disk, again and again; returns how often a second."""
    disk = FileDisk(directory / "probe")
    disk.create("log")
    disk.sync("log")
    count, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < seconds:
        disk.append("log", bytes(PAYLOAD))
        disk.sync("log")
        count += 1
    disk.close()
    return count / passed


async def leader(cluster: Cluster) -> int:
    """A node that leads and has committed in its term."""
    for _ in range(400):
        for node in cluster.nodes:
            if (found := await state(cluster, node)).role == "leader" and found.commit >= 0:
                return node
        await asyncio.sleep(0.05)
    raise SystemExit("no leader within 20 s")


async def state(cluster: Cluster, node: int) -> StatusResult:
    """What a node says of itself."""
    client = await cluster.client(node)
    answer = await asyncio.wait_for(client.status(), 10)
    client.close()
    assert isinstance(answer, StatusResult)
    return answer


async def load(directory: Path, clients: int, seconds: float, *, record: bool) -> dict[str, Any]:
    """Appends a second by so many clients, and how many appends each flush of the leader covered."""
    done = 0
    settings = {"timing": {"election_timeout": 1000}}
    async with Cluster(directory, nodes=3, seed=1, settings=settings, record=record) as cluster:
        leading = await leader(cluster)
        connections = [await cluster.client(leading) for _ in range(min(CONNECTIONS, clients))]
        over = asyncio.Event()

        async def client(number: int) -> None:
            nonlocal done
            connection = connections[number % len(connections)]
            payload = number.to_bytes(8, "big") + bytes(PAYLOAD - 8)
            while not over.is_set():
                answer = await connection.append(payload, acks=-1)
                assert isinstance(answer, AppendResult), answer
                assert answer.outcome == "success", answer
                done += 1

        working = [asyncio.create_task(client(number)) for number in range(clients)]
        await asyncio.sleep(min(0.5, seconds / 4))  # warm
        before, flushes, begun = done, (await state(cluster, leading)).flushes, time.perf_counter()
        await asyncio.sleep(seconds)
        count, passed = done - before, time.perf_counter() - begun
        flushes = (await state(cluster, leading)).flushes - flushes
        over.set()
        await asyncio.gather(*working)
    return {
        "clients": clients,
        "recorded": record,
        "appends_per_second": round(count / passed),
        "appends_per_flush": round(count / max(1, flushes), 1),
    }


def main() -> None:
    """Measure, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="half a second each")
    parser.add_argument("--directory", type=Path, default=Path("out"), help="on the disk to measure")
    arguments = parser.parse_args()
    seconds = 0.5 if arguments.quick else 4.0
    arguments.directory.mkdir(parents=True, exist_ok=True)
    rates, rows = [], []
    for clients, record in ((1, False), (16, False), (128, False), (1024, False), (1024, True)):
        with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="bench-cluster-") as name:
            # The disk's own rate right before each row, so that both see the same machine.
            rates.append(fsync_rate(Path(name), seconds / 2))
            rows.append(asyncio.run(load(Path(name), clients, seconds, record=record)))
    # Disks have moods: a ratio to the fastest of the measurements flatters nobody.
    rate = max(rates)
    for row in rows:
        row["ratio"] = round(row["appends_per_second"] / rate, 2)
    print("committed appends a second, acks=all, 3 processes")
    print(f"  the disk does {min(rates):.0f} to {rate:.0f} fsyncs a second")
    print("  clients  appends/s  to the best rate   appends a flush")
    for row in rows:
        note = "  (history recorded)" if row["recorded"] else ""
        figures = f"{row['appends_per_second']:10} {row['ratio']:18.2f} {row['appends_per_flush']:16}"
        print(f"  {row['clients']:7} {figures}{note}")
    ratio = max(row["ratio"] for row in rows)
    result = {"bench": "cluster", "fsyncs_per_second": [round(each) for each in rates], "rows": rows, "ratio": ratio}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
