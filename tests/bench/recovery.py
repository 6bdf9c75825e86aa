"""Recovery of a follower that is far behind, with and without a flush on every append_entries, on a real disk.

The reason for documents.md#raft-recovery: a follower that flushes before each of its replies makes recovery wait for
the disk once a chunk of 32 KiB. Three real processes: two hold the log, the third starts empty. The same log is
recovered under the reference rule (flush on the last chunk and at every 1 MiB), under ``recovery_flush = always``, and
without any flush that a reply waits for, which shows what the disk can still have to do with it; the time is from the
follower's first entry until it holds everything durably. They are measured one right after the other, several times,
since disks have moods; a ratio is the median of the ratios of such measurements.

Where the reference's time goes is told for a chunk. One request is in flight, so leader and follower take turns: what
their processors do adds up, and only the disk's part is saved by not flushing. The steps that reading ahead, fewer
copies, no checksums or another encoding could save are measured one by one, in one process; what would be left without
any of them bounds the ratio from above.

The same with 8 empty nodes that are added to the group at once, and with one that is added under load: from the change
of the members until all hold what the log held then.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from crc32c import crc32c

from quorumlog.cluster.client import NodeClient
from quorumlog.cluster.supervisor import Cluster
from quorumlog.node.configuration import load
from quorumlog.node.framing import FrameReader, Hello, Role
from quorumlog.node.process import run
from quorumlog.node.supervision import Supervisor
from quorumlog.node.wire import StatusResult
from quorumlog.raft.messages import AppendEntries
from quorumlog.raft.real import real
from quorumlog.raft.rules import REFERENCE
from quorumlog.raft.wire import MESSAGES
from quorumlog.storage.batch import HEADER_BYTES, BatchKind, RecordBatch
from quorumlog.storage.files import FileDisk
from quorumlog.storage.log import Log

PAYLOAD, BATCHES, CHUNK = 8000, 4, 32 << 10  # of a batch, a chunk, a request
FOLLOWER = 2
VARIANTS = {
    "reference": REFERENCE,
    "flush always": dataclasses.replace(REFERENCE, recovery_flush=lambda *_: True),
    "never waited for": dataclasses.replace(REFERENCE, recovery_flush=lambda *_: False),
}


def node(variant: str) -> None:
    """Be a node that runs a variant of the rules."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    parser.add_argument("--supervisor", type=int, nargs=3)
    arguments = parser.parse_args(sys.argv[3:])
    process, *after = arguments.supervisor
    supervisor = Supervisor(process, (after[0], after[1]))
    sys.exit(run(load(arguments.config), protocol=real(VARIANTS[variant]), supervisor=supervisor))


def cluster(directory: Path, variant: str, added: int = 0) -> Cluster:
    """Three nodes on the directory's disks, or two and so many that are to be added; none is started, none records."""
    settings = {"timing": {"election_timeout": 1000}, "voters": [*range(FOLLOWER)] if added else None}
    command = (sys.executable, str(Path(__file__).resolve()), "--node", variant)
    nodes = FOLLOWER + (added or 1)
    return Cluster(directory, nodes=nodes, seed=1, record=False, command=command, settings=settings)


async def state(client: NodeClient) -> StatusResult:
    """What a node says of itself."""
    answer = await asyncio.wait_for(client.status(), 10)
    assert isinstance(answer, StatusResult)
    return answer


async def leader(nodes: Cluster) -> NodeClient:
    """Start the two nodes that hold the log, and wait for one to lead."""
    for number in range(FOLLOWER):
        await nodes.start(number)
        await nodes.wait_for(number)
    clients = [await nodes.client(number) for number in range(FOLLOWER)]
    for _ in range(400):
        for client in clients:
            found = await state(client)
            if found.role == "leader" and found.commit == found.dirty >= 0:
                return client
        await asyncio.sleep(0.05)
    raise SystemExit("no leader within 20 s")


async def fill(directory: Path, size: int, added: int = 0) -> int:
    """Write a log of ``size`` bytes on two nodes; returns how many batches."""
    nodes = cluster(directory, "reference", added)
    try:
        client = await leader(nodes)
        count = size // PAYLOAD
        for begin in range(0, count, 200):
            group = range(begin, min(begin + 200, count))
            answers = [client.append(value.to_bytes(8, "big") + bytes(PAYLOAD - 8), acks=-1) for value in group]
            for answer in await asyncio.gather(*answers):
                assert getattr(answer, "outcome", "") == "success", answer
        await nodes.stop()
    finally:
        await nodes.abandon()
    return count


def processor_time(nodes: Cluster) -> float:
    """Seconds that the threads of all nodes have run for."""
    tasks = [task for node in range(FOLLOWER + 1) for task in Path(f"/proc/{nodes.process_id(node)}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def steps(directory: Path, chunks: int) -> dict[str, float]:
    """What each step that could be saved takes for a chunk, in seconds of processor time: the median of many."""
    taken: dict[str, list[float]] = {}
    reader = FrameReader()
    reader.feed(Hello(Role.NODE, 0, bytes(16)).encode())

    def timed(step: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401
        began = time.thread_time()
        result = work()
        taken.setdefault(step, []).append(time.thread_time() - began)
        return result

    with tempfile.TemporaryDirectory(dir=directory, prefix="bench-recovery-") as name:
        disks = [FileDisk(Path(name) / side) for side in ("leader", "follower")]
        held, copy = (Log.open(disk, "log") for disk in disks)
        for first in range(0, BATCHES * chunks, BATCHES):
            places = range(first, first + BATCHES)
            held.append([RecordBatch(at, 1, BatchKind.DATA, 1, -1, at.to_bytes(PAYLOAD, "big")) for at in places])
        (segment,) = disks[0].list("log")[:1]
        for first in range(0, BATCHES * chunks, BATCHES):
            size = BATCHES * (PAYLOAD + HEADER_BYTES)
            raw = timed("pread", partial(disks[0].read, f"log/{segment}", first // BATCHES * size, size))
            batches = timed("read and check", partial(held.read, first, CHUNK))
            message = AppendEntries(1, 1, first - 1, 1, 0, 0, False, tuple(batches))
            payload = reader.feed(timed("encode", partial(MESSAGES.encode, (0, 0), [message])))[0]
            (arrived,) = timed("decode and check", partial(MESSAGES.decode, payload))[1]
            timed("write", partial(copy.append, arrived.batches))
            timed("checksums", partial(crc32c, raw))
        for disk in disks:
            disk.close()
    return {step: statistics.median(times) for step, times in taken.items()}


async def recover(directory: Path, variant: str) -> tuple[float, float]:
    """Start the third node on an empty disk.

    Returns the seconds until it holds everything durably, and the processor time of all nodes in them.
    """
    shutil.rmtree(directory / f"node-{FOLLOWER}", ignore_errors=True)
    nodes = cluster(directory, variant)
    try:
        goal = (await state(await leader(nodes))).dirty
        await nodes.start(FOLLOWER)
        await nodes.wait_for(FOLLOWER)
        client = await nodes.client(FOLLOWER)
        deadline = time.perf_counter() + 300
        first: float | None = None
        busy = 0.0
        while (found := await state(client)).flushed < goal:
            now = time.perf_counter()
            if now > deadline:
                raise SystemExit(f"{variant}: recovered {found.flushed} of {goal} within 300 s")
            if first is None and found.dirty >= 0:
                first, busy = now, processor_time(nodes)
            await asyncio.sleep(0.02)
        assert first is not None, "it was over at once; the log is too small to measure"
        took = time.perf_counter() - first
        busy = processor_time(nodes) - busy
        await nodes.stop()
    finally:
        await nodes.abandon()
    return took, busy


async def join(filled: Path, variant: str, added: int, clients: int) -> float:
    """Add so many empty nodes at once while so many clients append; the seconds until all hold what there was."""
    with tempfile.TemporaryDirectory(dir=filled.parent, prefix="bench-recovery-") as name:
        shutil.copytree(filled, name, dirs_exist_ok=True)
        nodes = cluster(Path(name), variant, added)
        over = asyncio.Event()

        async def load(client: NodeClient, number: int) -> None:
            while not over.is_set():
                await client.append(number.to_bytes(8, "big") + bytes(PAYLOAD - 8), acks=-1 if number % 2 else 1)

        try:
            client = await leader(nodes)
            goal = (await state(client)).dirty
            followers = range(FOLLOWER, FOLLOWER + added)
            for number in followers:
                await nodes.start(number)
                await nodes.wait_for(number)
            asked = [await nodes.client(number) for number in followers]
            working = [asyncio.create_task(load(client, number)) for number in range(clients)]
            began = time.perf_counter()
            change = asyncio.ensure_future(client.change(1, add=followers))
            for each in asked:
                while (await state(each)).flushed < goal:
                    if time.perf_counter() - began > 300:
                        raise SystemExit(f"{variant}: {added} nodes were not recovered within 300 s")
                    await asyncio.sleep(0.02)
            took = time.perf_counter() - began
            over.set()
            await asyncio.gather(*working)
            await asyncio.wait([change], timeout=30)
            await nodes.stop()
        finally:
            await nodes.abandon()
    return took


def joined(directory: Path, megabytes: int, added: int, clients: int) -> dict[str, Any]:
    """`join` for the two rules, one after the other."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="bench-recovery-") as name:
        asyncio.run(fill(Path(name), megabytes * 1_000_000, added))
        for file in Path(name).glob("*.json"):
            file.unlink()  # of nodes that get other addresses
        fast, slow = (asyncio.run(join(Path(name), variant, added, clients)) for variant in list(VARIANTS)[:2])
    busy = f", {clients} clients append meanwhile" if clients else ""
    print(f"  {added} empty nodes added at once, {megabytes} MB each{busy}: {fast:.2f} s, flush always {slow:.2f} s")
    return {"added": added, "clients": clients, "megabytes": megabytes, "seconds": [round(fast, 3), round(slow, 3)]}


def flushes(seconds: dict[str, list[float]], chunks: float) -> float:
    """What a flush adds to a chunk, in seconds."""
    return statistics.median(slow - fast for fast, slow, _ in zip(*seconds.values(), strict=True)) / chunks


def shares(directory: Path, worked: float, flush: float) -> dict[str, Any]:
    """Print where a chunk's time goes, and what that leaves to be gained."""
    found = steps(directory, 400)
    raw, checks = found.pop("pread"), found.pop("checksums")
    saved = sum(found.values())
    bound = (worked - saved + flush) / (worked - saved)
    print(
        f"  a chunk of {BATCHES * PAYLOAD} bytes takes {1e6 * worked:.0f} us of processor time, of both nodes together:"
    )
    for step, taken in found.items():
        print(f"    {step:16} {1e6 * taken:6.1f} us  {100 * taken / worked:5.1f} %")
    print(f"      of these: reads of the file {1e6 * raw:.1f} us, checksums made twice {2e6 * checks:.1f} us")
    print(f"    {'the rest':16} {1e6 * (worked - saved):6.1f} us: sockets, the loops of events, the cores")
    print(f"  a flush adds {1e6 * flush:.0f} us to a chunk; if these steps cost nothing, not flushing would be at most")
    print(f"  {bound:.1f} times as fast, and {(worked + flush) / worked:.1f} times if nobody waited for anything else")
    figures = {"worked": worked, "flush": flush, **found, "of which pread": raw, "of which a checksum": checks}
    return {step: round(1e6 * taken, 1) for step, taken in figures.items()} | {"bound": round(bound, 2)}


def main() -> None:
    """Measure, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 MB, once")
    parser.add_argument("--directory", type=Path, default=Path("out"), help="on the disk to measure")
    arguments = parser.parse_args()
    megabytes, rounds = (8, 2) if arguments.quick else (256, 3)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    busy: list[float] = []
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="bench-recovery-") as name:
        asyncio.run(fill(Path(name), megabytes * 1_000_000))
        for _ in range(rounds):
            for variant in VARIANTS:
                took, worked = asyncio.run(recover(Path(name), variant))
                seconds[variant].append(took)
                busy += [worked] if variant == "reference" else []
    ratios = [slow / fast for fast, slow, _ in zip(*seconds.values(), strict=True)]
    ratio = statistics.median(ratios)
    limit = statistics.median(slow / never for _, slow, never in zip(*seconds.values(), strict=True))
    print(f"recovery of a follower {megabytes} MB behind, {rounds} times")
    for variant, times in seconds.items():
        taken = statistics.median(times)
        print(f"  {variant:16} {taken:8.2f} s  {megabytes / taken:8.1f} MB/s")
    print(f"  without a flush on every append_entries it is {ratio:.2f} times as fast")
    print(f"  without any that a reply waits for it would be {limit:.2f} times: the rest is not the disk's")
    chunks = megabytes * 1_000_000 / (BATCHES * PAYLOAD)
    share = shares(arguments.directory, statistics.median(busy) / chunks, flushes(seconds, chunks))
    megabytes = megabytes // 4
    more = [joined(arguments.directory, megabytes, *each) for each in ((8, 0), (1, 16))]
    result = {
        "bench": "recovery",
        "megabytes": 4 * megabytes,
        "seconds": {variant: [round(time, 3) for time in times] for variant, times in seconds.items()},
        "ratios": [round(each, 2) for each in ratios],
        "ratio": round(ratio, 2),
        "limit": round(limit, 2),
        "chunk": share,
        "added": more,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--node"]:
        node(sys.argv[2])
    else:
        main()
