"""Processes on this machine under one supervisor: it starts, kills, pauses and cuts them off, and leaves none behind.

Nodes of a replicated log are `quorumlog.cluster.supervisor.Cluster`; a protocol may have processes of another kind.
Every node is a child process in its own session, so that Ctrl-C reaches only the supervisor; each notices the
supervisor's death by the end of its standard input and, on Linux, by a signal that also ends a stopped process. The
ports are held by sockets that never listen, so that nobody else takes the port of a node that is down, and a call to it
is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Self

import msgspec

from loghistory import HybridClock
from loghistory.schema import Kind
from quorumlog.node.recording import HistoryFile, end_stamp, find_history, history_path, whole_events
from quorumlog.node.supervision import DISK_FAILED, UNUSABLE, Order
from quorumlog.node.wire import Stamp
from quorumlog.storage.power import FULL, SYNC_FAILS, Damage, damage, let_fail, lose_power, mend

START_SECONDS = 30.0
STOP_SECONDS = 8.0
_ENDS = 16
"""Of so many lives a node is told when they ended."""

_FAILURES = {"disk_full": FULL, "fsync_error": SYNC_FAILS, "open_error": SYNC_FAILS}

Address = tuple[str, int]

Pair = tuple[int, int]
"""A directed link: (source, target)."""


def journal_of(node: int) -> str:
    """The journal of a node's disk, beside that."""
    return f"node-{node}.journal"


class ClusterError(Exception):
    """The cluster cannot do what was asked: one line saying why."""


class Processes(ABC):
    """See the module. Events are recorded in ``recorder`` if there is one, with its clock.

    ``directory`` gets ``node-N/`` (disk), ``node-N.json``, ``node-N.stderr`` and ``histories/`` (with ``record``).
    ``command`` starts a node when ``--config FILE`` and the supervisor are put behind it. ``ports`` is how many each
    node gets; `addresses` are the first ones, ``places`` all of each node. ``ended(node, status)`` is called when a
    node ends that was not asked to, nor has a disk that fails. ``loses_power``: nodes keep a journal, so that
    `lose_power` and `break_disk` can be asked for.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int,
        command: Sequence[str],
        ports: int = 1,
        record: bool = True,
        recorder: HistoryFile | None = None,
        ended: Callable[[int, int], None] | None = None,
        loses_power: bool = False,
    ) -> None:
        self.directory = directory
        self.nodes = range(nodes)
        self.clock = recorder.clock if recorder is not None else HybridClock()
        self.histories = directory / "histories"
        self._recorder = recorder
        self._record = record
        self._command = tuple(command)
        self._ended = ended
        self._loses_power = loses_power
        self._holders = [_hold_port() for _ in range(nodes * ports)]
        held: list[Address] = [holder.getsockname() for holder in self._holders]
        self.places = [tuple(held[first : first + ports]) for first in range(0, nodes * ports, ports)]
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # a start, or the watch over a process until its end
        self._expected: set[int] = set()
        self._broken: dict[int, int] = dict.fromkeys(self.nodes, 0)  # faults of the disk that go on
        self._met_failure: set[int] = set()  # whose disk failed in this life: it may stop after that is over
        self._damage: dict[int, Damage] = {}
        self._starts = [0] * nodes
        self._ends: dict[int, dict[int, Stamp]] = {}  # by incarnation: before what was recorded of its end
        self._cuts: dict[Pair, int] = {}

    @abstractmethod
    def configuration(self, node: int) -> dict[str, Any]:
        """The configuration file of a node."""

    def arguments(self, node: int) -> list[str]:
        """What its command is given besides: when its lives before ended, for what they could not record any more; of
        many lives the last ones."""
        ends = [*self._ends.get(node, {}).items()][-_ENDS:]
        return [word for life, end in ends for word in ("--ended", str(life), *map(str, end))]

    @abstractmethod
    async def answers(self, node: int) -> None:
        """Return if the node answers. Raises OSError if it does not."""

    @property
    def addresses(self) -> list[Address]:
        """Host and port of each node, by its number; the first one if it has several ports."""
        return [first for first, *_ in self.places]

    async def __aenter__(self) -> Self:
        """Start all nodes and wait until they answer. Raises `ClusterError`."""
        try:
            for node in self.nodes:
                await self.start(node)
            for node in self.nodes:
                await self.wait_for(node)
        except BaseException:
            await self.abandon()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Stop all nodes: gracefully, or at once if the body was cancelled."""
        try:
            if kind is None or not issubclass(kind, asyncio.CancelledError):
                await self.stop()
        finally:
            await self.abandon()

    # -- one node ------------------------------------------------------------------------------------------------

    def running(self, node: int) -> bool:
        """Whether the node's process is running."""
        return node in self._processes

    def process_id(self, node: int) -> int:
        """The number of the node's process."""
        return self._processes[node].pid

    async def start(self, node: int) -> None:
        """Start a node's process if it is not running."""
        if node in self._processes:
            return
        # A separate task: a process that is being started when this is cancelled must not be lost.
        starting = asyncio.create_task(self._start(node))
        self._tasks.add(starting)
        starting.add_done_callback(self._tasks.discard)
        await asyncio.shield(starting)

    async def _start(self, node: int) -> None:
        configuration = self.directory / f"node-{node}.json"
        if not self._starts[node]:
            configuration.write_text(json.dumps(self.configuration(node), indent=2) + "\n")
        after = self.clock.tick()
        with (self.directory / f"node-{node}.stderr").open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                "--config",
                str(configuration),
                "--supervisor",
                *map(str, (os.getpid(), *after)),
                *self.arguments(node),
                stdin=asyncio.subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        self._processes[node] = process
        self._starts[node] += 1
        self._expected.discard(node)
        if not self._broken[node]:
            self._met_failure.discard(node)
        self._send_cuts(node)
        watcher = asyncio.create_task(self._watch(node, process))
        self._tasks.add(watcher)
        watcher.add_done_callback(self._tasks.discard)

    async def wait_for(self, node: int) -> None:
        """Wait until a node answers; raises `ClusterError` with its last words if it does not."""
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            if node not in self._processes:
                raise ClusterError(f"node {node} did not start: {self.last_words(node)}")
            try:
                await self.answers(node)
            except OSError:
                await asyncio.sleep(0.03)
            else:
                return
        raise ClusterError(f"node {node} does not answer within {START_SECONDS:g} s: {self.last_words(node)}")

    async def kill(self, node: int) -> None:
        """SIGKILL, and wait for the end; recorded as a crash."""
        if await self._kill(node):
            self._note_end(node, Kind.CRASH)

    async def _kill(self, node: int) -> bool:
        """Whether there was a process to end."""
        process = self._processes.get(node)
        if process is None:
            return False
        self._expected.add(node)
        _signal(process, signal.SIGKILL)
        await process.wait()
        return self._processes.pop(node, None) is not None

    async def end_midway(self, node: int, effects: int, seconds: float) -> None:
        """Let a node end in the middle of a step, after so many effects; wait for that, but only so long.

        `kill` or `lose_power` is to follow.
        """
        process = self._processes.get(node)
        if process is not None:
            self._expected.add(node)
            self._order(node, Order(effects=effects))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), seconds)

    def jump_clock(self, node: int, by: int) -> None:
        """Let the clock that the node goes by jump ahead, by nanoseconds; does nothing if it is not running."""
        if node in self._processes:
            self._order(node, Order(jump=by))

    def wipe(self, node: int) -> None:
        """Remove what a node that is down has stored, but for how often it was started."""
        raise NotImplementedError("these nodes are not wiped")

    async def lose_power(self, node: int, draw: Random) -> None:
        """SIGKILL, and discard what the node had not synced, as ``draw`` chooses; recorded as a power loss.

        The nodes must have a journal. Raises OSError and `StorageError`.
        """
        await self._kill(node)
        journal = self.directory / journal_of(node)
        if journal.exists():  # else it never came up
            await asyncio.to_thread(lose_power, self.directory / f"node-{node}", journal, draw)
        self._note_end(node, Kind.POWER_LOSS)

    async def terminate(self, node: int) -> None:
        """SIGTERM, and wait for the end; a node that takes too long is killed. It records the stop itself."""
        process = self._processes.get(node)
        if process is None:
            return
        self._expected.add(node)
        _signal(process, signal.SIGCONT)
        _signal(process, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            await self.kill(node)
        self._processes.pop(node, None)

    def break_disk(self, node: int, name: str, syncs_before: int = 0) -> None:
        """Let the node's disk be full (``disk_full``) or a sync fail, until `mend_disk`; see `storage.power`.

        The nodes must have a journal. Raises OSError.
        """
        self._broken[node] += 1
        self._met_failure.add(node)
        let_fail(self.directory / journal_of(node), _FAILURES[name], syncs_before)

    def mend_disk(self, node: int, name: str) -> None:
        """Take back one `break_disk`. Raises OSError."""
        self._broken[node] -= 1
        mend(self.directory / journal_of(node), _FAILURES[name])

    def damage(self, node: int, draw: Random, *, lose_name: bool) -> None:
        """Damage what the node, which is down, had flushed, until `restore`. Raises OSError and `StorageError`."""
        self._broken[node] += 1
        done = None if node in self._damage else self._damaged(node, draw, lose_name)
        if done is not None:
            self._damage[node] = done

    def _damaged(self, node: int, draw: Random, lose_name: bool) -> Damage | None:
        return damage(self.directory / f"node-{node}", draw, lose_name=lose_name)

    def restore(self, node: int) -> None:
        """Take back one `damage`; the node must be down. Raises OSError."""
        self._broken[node] -= 1
        if not self._broken[node] and node in self._damage:
            self._damage.pop(node).undo()

    def pause(self, node: int) -> None:
        """Stop a node's process where it stands (SIGSTOP); does nothing if it is not running."""
        if node in self._processes:
            _signal(self._processes[node], signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a paused process go on (SIGCONT); does nothing if it is not running."""
        if node in self._processes:
            _signal(self._processes[node], signal.SIGCONT)

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Let the source of each directed link send nothing to its target until `mend` has been called as often."""
        for pair in pairs:
            self._cuts[pair] = self._cuts.get(pair, 0) + 1
        self._send_all_cuts()

    def mend(self, pairs: Iterable[Pair]) -> None:
        """Take back one `cut` of each of these links."""
        for pair in pairs:
            left = self._cuts.pop(pair, 0) - 1
            if left > 0:
                self._cuts[pair] = left
        self._send_all_cuts()

    def last_words(self, node: int) -> str:
        """The last line that a node wrote about itself."""
        try:
            lines = (self.directory / f"node-{node}.stderr").read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it printed nothing"

    # -- all nodes -----------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop all nodes gracefully; those that take too long are killed."""
        await asyncio.gather(*(self.terminate(node) for node in [*self._processes]))

    async def abandon(self) -> None:
        """Kill what is left, wait until all of it is gone, and release the ports."""
        self._expected.update(self.nodes)
        while self._tasks:
            for process in self._processes.values():
                _signal(process, signal.SIGKILL)
            await asyncio.wait(self._tasks, timeout=1, return_when=asyncio.FIRST_COMPLETED)
        self._processes.clear()
        for holder in self._holders:
            holder.close()

    def histories_of_all(self) -> list[Path]:
        """The history files of all incarnations, finished or not."""
        return [
            path
            for node in self.nodes
            for incarnation in range(self._starts[node])
            for path in self._files(node, incarnation)
        ]

    # -- inside --------------------------------------------------------------------------------------------------

    async def _watch(self, node: int, process: asyncio.subprocess.Process) -> None:
        status = await process.wait()
        if self._processes.get(node) is process and node not in self._expected:
            del self._processes[node]
            refused = status == UNUSABLE and self._broken[node] > 0
            self._note_end(node, Kind.STORAGE_ERROR if refused or status == DISK_FAILED else Kind.CRASH)
            failed = self._broken[node] or (status == DISK_FAILED and node in self._met_failure)
            if self._ended is not None and not failed:
                self._ended(node, status)
        if process.stdin is not None:
            process.stdin.close()
            with contextlib.suppress(OSError):
                await process.stdin.wait_closed()

    def _files(self, node: int, incarnation: int) -> list[Path]:
        """The history of one incarnation: a file, or one in the folder of each of its groups."""
        folders = sorted(path for path in self.histories.glob("group-*") if path.is_dir())
        found = (find_history(history_path(folder, node, incarnation)) for folder in (self.histories, *folders))
        return [path for path in found if path is not None]

    def _note_end(self, node: int, kind: Kind) -> None:
        """Record how a process ended, after everything that it recorded itself."""
        if self._recorder is None:
            return
        incarnation = self._starts[node] - 1
        files = self._files(node, incarnation)
        if kind is Kind.STORAGE_ERROR and any(event.kind == kind for path in files for event in whole_events(path)):
            return  # it could still say so itself
        for path in files:
            _, end = end_stamp(path)
            self.clock.merge(end)
        end = self._ends.setdefault(node, {})[incarnation] = self.clock.tick()
        self.clock.merge((end[0] + 1, 0))  # there is room for what the node adds when it starts again
        columns: dict[str, Any] = {"node": node, "incarnation": incarnation}
        if kind is Kind.STORAGE_ERROR:
            columns["reason"] = self.last_words(node)
        self._recorder.event(kind, columns)
        self._recorder.flush()

    def _send_all_cuts(self) -> None:
        for node in self._processes:
            self._send_cuts(node)

    def _send_cuts(self, node: int) -> None:
        self._order(node, Order(sorted(target for source, target in self._cuts if source == node)))

    def _order(self, node: int, order: Order) -> None:
        stdin = self._processes[node].stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(msgspec.json.encode(order) + b"\n")


def _hold_port() -> socket.socket:
    """A free port of the loopback, taken but not listened on; nodes share it with SO_REUSEPORT."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # Not by the process object: that looks first whether the process has ended, and asyncio then misses its status.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
