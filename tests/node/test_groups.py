"""Several Raft groups in one process: what their nodes send each other, where they keep their files, and whole runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from quorumlog.node.framing import LENGTH_BYTES, FrameError
from quorumlog.node.outbox import GroupsOutbox
from quorumlog.raft.grouped import GROUPED, Item
from quorumlog.raft.messages import (
    AnyMessage,
    AppendEntries,
    Heartbeat,
    HeartbeatReply,
    LightHeartbeat,
    LightReply,
    TimeoutNow,
    VoteRequest,
)
from quorumlog.storage.batch import BatchKind, RecordBatch
from quorumlog.storage.disk import Disk
from quorumlog.storage.files import FileDisk
from quorumlog.storage.folder import Folder
from quorumlog.storage.log import Log
from quorumlog.storage.vote import VoteStore

BATCH = RecordBatch(5, 2, BatchKind.DATA, 1, -1, bytes(8))
FULL = Heartbeat(3, 17, 40, 3, 39, 40)
REPLY = HeartbeatReply(3, 17, True, 40, 39, 40)


def size(items: list[Item]) -> int:
    return len(GROUPED.encode((0, 0), items))


def test_what_is_sent_arrives_and_heartbeats_come_last() -> None:
    items: list[Item] = [
        (0, FULL),
        (7, LightHeartbeat()),
        (8, LightReply(True)),
        (9, LightReply(False)),
        (1, REPLY),
        (4, structs.replace(REPLY, may_recover=False)),
        (5, structs.replace(FULL, session=7)),
        (6, structs.replace(REPLY, sender_session=8)),
        (0, AppendEntries(3, 18, 4, 2, 4, 4, True, (BATCH,))),
        (2, VoteRequest(4, 1, 2, 5, True)),
        (3, TimeoutNow(4)),
    ]
    stamp, found = GROUPED.decode(GROUPED.encode((12, 3), items)[LENGTH_BYTES:])
    assert stamp == (12, 3)
    assert sorted(found, key=str) == sorted(items, key=str)
    kinds = [(group, type(message)) for group, message in found]
    assert kinds.index((0, AppendEntries)) < kinds.index((0, Heartbeat))


@pytest.mark.parametrize(("message", "each"), [(FULL, 52), (REPLY, 46), (LightHeartbeat(), 4), (LightReply(True), 5)])
def test_a_group_costs_so_many_bytes_whatever_its_offsets(message: AnyMessage, each: int) -> None:
    # documents.md#raft-recovery-drawbacks: what the flushed offset adds to an answer is 8 bytes a group.
    large = message
    if isinstance(message, Heartbeat | HeartbeatReply):
        large = structs.replace(message, term=1 << 50, sequence=1 << 50)
    for more in (message, large):
        few, many = ([(group, more) for group in range(count)] for count in (200, 300))
        assert size(many) - size(few) == 100 * each


def test_the_flushed_offset_takes_8_bytes_of_an_answer() -> None:
    flushed = structs.replace(REPLY, flushed=-1)
    one, other = (GROUPED.encode((0, 0), [(1, reply)]) for reply in (REPLY, flushed))
    differ = [at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    assert differ
    assert differ[-1] - differ[0] + 1 == 8


def test_garbage_is_refused() -> None:
    draw = random.Random(1)
    frame = bytearray(GROUPED.encode((0, 0), [(0, FULL), (1, REPLY), (2, LightHeartbeat()), (3, LightReply(True))]))
    for _ in range(2000):
        damaged = bytearray(frame[LENGTH_BYTES:])
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        try:
            _, found = GROUPED.decode(bytes(damaged[: draw.randint(0, len(damaged))]))
        except FrameError:
            continue
        assert all(isinstance(group, int) for group, _ in found)
    with pytest.raises(FrameError, match="out of range"):
        GROUPED.decode(GROUPED.encode((0, 0), [(0, structs.replace(FULL, commit=1 << 61))])[LENGTH_BYTES:])


def test_groups_that_send_in_one_turn_share_a_frame() -> None:
    sent: list[tuple[int, list[Item]]] = []
    taken: list[int] = []

    def transmit(node: int, items: list[Item], done: Callable[[], None]) -> None:
        sent.append((node, items))
        done()

    async def play() -> None:
        outbox = GroupsOutbox(transmit)
        for group in range(3):
            outbox.of(group)(1, [FULL], lambda group=group: taken.append(group))  # type: ignore[misc]
        outbox.of(0)(2, [REPLY], lambda: taken.append(0))
        assert not sent
        await asyncio.sleep(0)
        outbox.of(0)(2, [FULL], lambda: taken.append(3))
        await asyncio.sleep(0)

    asyncio.run(play())
    assert sent == [(1, [(0, FULL), (1, FULL), (2, FULL)]), (2, [(0, REPLY)]), (2, [(0, FULL)])]
    assert taken == [0, 1, 2, 0, 3]


def test_groups_share_a_disk_and_no_file(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    folders: list[Disk] = [Folder(disk, f"group-{group}") for group in range(3)]
    for group, folder in enumerate(folders):
        VoteStore(folder).begin()
        log = Log.open(folder, "log", 4096)
        log.append([RecordBatch(at, group + 1, BatchKind.DATA, 1, -1, bytes(8)) for at in range(group + 1)])
        log.close()
        VoteStore(folder).save(group + 1, None)
    disk.close()
    disk = FileDisk(tmp_path)
    for group in range(3):
        folder = Folder(disk, f"group-{group}")
        assert Log.open(folder, "log", 4096).dirty == group
        assert VoteStore(folder).load()[0] == group + 1
    disk.close()
