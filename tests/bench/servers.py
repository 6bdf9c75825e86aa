"""Servers of pull queries: how soon a kill is found out, what a forwarding hop costs, what heartbeats cost.

Kills and queries are of real processes: servers over HTTP, each log a Raft group of one node. A kill is found out when
another server's check says down; that is counted from the SIGKILL, against the 2 s of the document. Queries look one
key up, each client waits for its answer before it asks again; direct is at the active itself, forwarded by a server
that holds nothing. Heartbeats are those of one core in a mesh of so many, in virtual time: it encodes one for each
other server and reads one of each every 100 ms, and checks them every 200 ms; the mesh costs as much times the servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

from loghistory import HybridClock, open_run
from quorumlog.cluster.groups import Groups
from quorumlog.cluster.log_client import Log
from quorumlog.events import TimerFired
from quorumlog.pull_queries import events as e
from quorumlog.pull_queries.assignment import Assignment, Placement
from quorumlog.pull_queries.configuration import Configuration
from quorumlog.pull_queries.core import ServerCore
from quorumlog.pull_queries.processes import Servers
from quorumlog.pull_queries.records import form_of, log_names, source_of
from quorumlog.pull_queries.server import headers
from quorumlog.pull_queries.server_client import LostError, RefusedError, ServerClient
from quorumlog.pull_queries.wire import decode_heartbeat, encode_heartbeat

PROMISE_MS = 2000
CLIENTS = 8
QUERY = b'{"table":"T","keys":["k"]}'


class Bench:
    """Servers with the groups of their logs; ``server`` as in `Configuration`."""

    def __init__(self, directory: Path, nodes: int, **server: Any) -> None:  # noqa: ANN401
        configuration = Configuration(**{"lag_report": 500, "discover": 300, **server})
        self.groups = Groups(directory / "logs", log_names(1), 1, 1)
        (directory / "servers").mkdir()
        self.servers = Servers(directory / "servers", nodes=nodes, server=configuration, logs=self.groups.places)

    async def __aenter__(self) -> Bench:
        await self.groups.__aenter__()
        for node in self.servers.nodes:
            await self.servers.start(node)
            await self.servers.wait_for(node)
            await asyncio.sleep(1)  # a member before the next one comes
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await self.servers.__aexit__(kind, *error)
        await self.groups.__aexit__(kind, *error)

    async def put(self, key: str, value: int) -> None:
        """Put a row."""
        name = source_of(0)
        log = Log(name, form_of(name), self.groups.places[name], HybridClock())
        await log.append([(key, value)])
        log.close()

    async def all_alive(self) -> None:
        """Wait until every server takes all others for alive."""
        async with ServerClient(HybridClock()) as client:
            for place in self.servers.public:
                for _ in range(600):
                    try:
                        said = await client.cluster_status(place) or {}
                    except (RefusedError, LostError):
                        said = {}
                    if set(self.servers.hosts) <= said.keys() and all(each["hostAlive"] for each in said.values()):
                        break
                    await asyncio.sleep(0.05)
                else:
                    raise SystemExit(f"the server at {place} does not take all for alive within 30 s")


async def detections(directory: Path, kills: int) -> list[float]:
    """Milliseconds from each SIGKILL to the check of each other server that finds it out."""
    killed: list[tuple[int, int]] = []
    async with Bench(directory, 4) as bench:
        for number in range(kills):
            await bench.all_alive()
            await asyncio.sleep(0.037 * number % 0.2)  # at another place between two heartbeats and two checks
            node = number % 4
            killed.append((node, time.time_ns()))
            await bench.servers.kill(node)
            await asyncio.sleep(1.2)
            await bench.servers.start(node)
            await bench.servers.wait_for(node)
    found: dict[tuple[int, int], int] = {}
    for path in bench.servers.histories_of_all():
        for batch in open_run(path).batches(kinds=["down"]):
            for row in batch.to_pylist():
                for number, (node, moment) in enumerate(killed):
                    if row["peer"] == node and moment < row["time"] < moment + 1_200_000_000:
                        found.setdefault((number, row["node"]), row["time"] - moment)
    return [nanoseconds / 1e6 for nanoseconds in found.values()]


async def answers(place: str, seconds: float) -> tuple[float, list[float]]:
    """Queries a second that so many clients get answered at a server, and how long each took, in milliseconds."""
    host, _, port = place.rpartition(":")
    request = b"POST /query HTTP/1.1\r\nhost: %s\r\ncontent-length: %d\r\n\r\n%s" % (place.encode(), len(QUERY), QUERY)
    took: list[float] = []
    deadline = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        while (begun := time.perf_counter()) < deadline:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            (length,) = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(length)
            assert b"Query Completed" in body, body
            took.append(1000 * (time.perf_counter() - begun))
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return len(took) / (time.perf_counter() - begun), took


async def hops(directory: Path, seconds: float) -> dict[str, tuple[float, list[float]]]:
    """The same at the active, and at a server that forwards to it."""
    async with Bench(directory, 2, standbys=0) as bench:
        await bench.put("k", 1)
        await bench.all_alive()
        await asyncio.sleep(1)
        found = {}
        for name, place in zip(("direct", "forwarded"), bench.servers.public, strict=True):
            await answers(place, seconds / 4)  # warm
            found[name] = await answers(place, seconds)
    return found


def heartbeats(servers: int, seconds: float) -> tuple[float, float]:
    """What heartbeats cost one of so many servers: seconds of CPU, and bytes that it sends, a second."""
    hosts = [f"h{number}:8088" for number in range(servers)]
    core = ServerCore(hosts[0], Configuration(), e.Clocks(0, 0))
    placement = Placement(hosts[0], tuple(hosts[1:3]))
    core.handle(e.Clocks(0, 0), e.AssignmentRead(Assignment(1, tuple(hosts), (placement,))))
    core.handle(e.Clocks(50, 50), TimerFired("discover"))
    clock = HybridClock()
    sent = 0
    begun = time.process_time()
    for now in range(100, int(1000 * seconds) + 100, 100):
        clocks = e.Clocks(now, now)
        for effect in core.handle(clocks, TimerFired("heartbeat")):
            if isinstance(effect, e.SendHeartbeat):
                sent += len(encode_heartbeat(core.host, effect.stamp))
        for host in hosts[1:]:
            core.handle(clocks, decode_heartbeat(encode_heartbeat(host, now)))
        if now % 200 == 0:
            core.handle(clocks, TimerFired("check"))
    spent = time.process_time() - begun
    assert all(status.alive for status in core.membership.statuses.values())
    known = {**headers.stamp(clock), headers.ASKED_BY: core.host}
    request = httpx2.Client().build_request("POST", f"http://{hosts[1]}/heartbeat", content=b"x" * 40, headers=known)
    head = len("POST /heartbeat HTTP/1.1\r\n\r\n") + sum(len(k) + len(v) + 4 for k, v in request.headers.raw)
    return spent / seconds, (sent + head * (servers - 1) * 10 * seconds) / seconds


def main() -> None:
    """Measure and print tables, then JSON."""
    parser = argparse.ArgumentParser(description="pull queries")
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="bench-pull-") as name:
        (directory := Path(name) / "kills").mkdir()
        found = sorted(asyncio.run(detections(directory, 3 if quick else 20)))
        (directory := Path(name) / "hops").mkdir()
        rates = asyncio.run(hops(directory, 1.5 if quick else 6))
    bound = Configuration().detection
    at = {share: found[min(len(found) - 1, int(share * len(found)))] for share in (0.5, 0.9, 1.0)}
    print(f"found out after SIGKILL, {len(found)} checks; the rules say {bound} ms, the document {PROMISE_MS}")
    print(f"  median {at[0.5]:.0f} ms, 90 % {at[0.9]:.0f} ms, longest {at[1.0]:.0f} ms")
    print(f"look-ups of one key, {CLIENTS} clients")
    for name, (rate, took) in rates.items():
        print(f"  {name:<10} {rate:>8,.0f} a second   {statistics.median(took):6.1f} ms in the median")
    share = rates["forwarded"][0] / rates["direct"][0]
    print(f"  forwarded to direct: {share:.2f}")
    mesh: dict[int, tuple[float, float]] = {}
    print("heartbeats, each server of a mesh")
    for servers, seconds in ((3, 20.0), (30, 10.0), (300, 1.0 if quick else 5.0)):
        mesh[servers] = spent, sent = heartbeats(servers, seconds)
        print(f"  {servers:>3} servers  {100 * spent:7.2f} % of a core  {sent / 1e3:8.1f} kB/s sent")
    figures = {
        "detection_ms": {"median": round(at[0.5]), "p90": round(at[0.9]), "longest": round(at[1.0])},
        "detection_to_promise": round(at[1.0] / PROMISE_MS, 2),
        "direct_per_second": round(rates["direct"][0]),
        "forwarded_per_second": round(rates["forwarded"][0]),
        "forwarded_to_direct": round(share, 2),
        "heartbeat_core_share": {str(servers): round(spent, 5) for servers, (spent, _) in mesh.items()},
        "heartbeat_bytes_per_second": {str(servers): round(sent) for servers, (_, sent) in mesh.items()},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
