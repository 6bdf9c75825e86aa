"""The stage of a replicated log: its nodes, clients that append and read, and when the logs of all nodes agree."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from loghistory.schema import Operation
from quorumlog.cluster.client import NodeClient
from quorumlog.cluster.faults import JOURNALLED
from quorumlog.cluster.processes import ClusterError
from quorumlog.cluster.register import Register
from quorumlog.cluster.stage import Ended, Setting, Stage, Staging, Worker
from quorumlog.cluster.supervisor import Cluster
from quorumlog.cluster.workload import ACKS_ALL, Client, Load
from quorumlog.node.real_protocol import RealProtocol
from quorumlog.node.wire import MembersResult, StatusResult

POLL = 0.05
"""Seconds between two looks at the nodes."""
_LEADER_SECONDS = 15.0
_ANSWER_SECONDS = 0.3
_CHANGE_SECONDS = 5.0
_COMPACTS_AGAIN = 0.2
_COMPACTED_SEGMENT = 4096
"""Size of a segment, in bytes, of a log that is compacted."""
_KEYS = 12
"""How many keys there are in it."""
_GROUP_SECONDS = 0.5
"""By how much longer each further group may take to agree."""


class LogStage(Stage):
    """The stage of nodes that each hold a replicated log, or one of each of several groups."""

    processes: Cluster

    def __init__(self, protocol: RealProtocol, setting: Setting, work: Path, register: Register, ended: Ended) -> None:
        """Raises `ClusterError` for an option that is no time of the protocol's."""
        self._setting, self._register, self._limits = setting, register, protocol.limits
        several = setting.groups > 1
        self._groups: Sequence[int | None] = range(setting.groups) if several else (None,)
        clients = max(setting.clients, setting.groups) if several else setting.clients  # each group has one
        compacts = "compact" in setting.faults
        self._load = Load(clients=clients, keys=_KEYS if compacts else 0).limited_to(protocol.operations)
        self._compacting: dict[int, list[asyncio.Task[None]]] = {node: [] for node in range(setting.nodes)}
        self._timing = {**protocol.brisk, **setting.options}
        self._last_leader = 0
        self._away: set[int] = set()  # nodes that are to be no members
        self._replacing: asyncio.Task[None] | None = None
        unknown = sorted(self._timing.keys() - set(protocol.timing.__struct_fields__))
        try:
            if unknown:
                raise ValueError(
                    f"there is no option {unknown[0]}; the options are {', '.join(protocol.timing.__struct_fields__)}"
                )
            msgspec.convert(self._timing, protocol.timing)
        except ValueError as error:
            raise ClusterError(f"{protocol.name}: {error}") from None
        self._settings = {
            "protocol": protocol.name,
            "groups": setting.groups,
            "write_caching": setting.write_caching,
            "retention": setting.retention,
            "timing": self._timing,
        }
        if compacts:
            self._settings["largest_segment"] = _COMPACTED_SEGMENT  # or nothing would ever be removed
        self.processes = Cluster(
            work,
            nodes=setting.nodes,
            seed=setting.seed,
            settings=self._settings,
            recorder=register.recorder,
            ended=ended,
            loses_power=not JOURNALLED.isdisjoint(setting.faults),
        )

    async def __aenter__(self) -> Self:
        """Start the nodes; see `Stage`."""
        await self.processes.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Stop the nodes; see `Stage`."""
        await self.processes.__aexit__(kind, *error)

    async def begin(self) -> None:
        """Wait for the first leader of each group. Raises `ClusterError` if it takes too long."""
        deadline = asyncio.get_running_loop().time() + _LEADER_SECONDS
        for group in self._groups:
            while not any(state is not None and state.role == "leader" for state in await self._states(group)):
                if asyncio.get_running_loop().time() > deadline:
                    raise ClusterError(f"no leader within {_LEADER_SECONDS:g} s")
                await asyncio.sleep(POLL)

    def clients(self) -> Sequence[Worker]:
        """Clients that append and read; see `Stage`."""
        draws = (self._setting.draw(f"client {number}") for number in range(self._load.clients))
        return [self._client(draw, self._groups[at % len(self._groups)]) for at, draw in enumerate(draws)]

    def _client(self, draw: random.Random, group: int | None) -> Client:
        return Client(self.processes, self._register, self._load, draw, group)

    async def leader(self, group: int | None = None) -> int:
        """The node that leads a group, the first one if none is named, in the highest term; while there is none, the
        last one."""
        found = (-1, self._last_leader)
        for node, answer in enumerate(await self._states(group)):
            if answer is not None and answer.role == "leader":
                found = max(found, (answer.term, node))
        self._last_leader = found[1]
        return self._last_leader

    async def allows(self, fault: str, node: int) -> bool:
        """A disk is lost only if all are members, and nobody leaves before its node is replaced."""
        if fault == "leave":
            return self._replacing is None or self._replacing.done()
        if fault != "wipe":
            return True
        found = [await self._asked(await self.leader(group), group, NodeClient.members) for group in self._groups]
        settled = all(isinstance(there, MembersResult) and there.settled for there in found)
        if not settled or self._away or min(len(there.voters) for there in found) < max(3, len(self.processes.nodes)):
            return False
        self.processes.least_session = max(there.revision for there in found) + 1
        self._away.add(node)
        self._replacing = asyncio.create_task(self._replaced(node))
        return True

    async def _replaced(self, node: int) -> None:
        """Have a node whose disk is lost removed, and added again (raft.md#wiped-disk)."""
        for group in self._groups:
            await self._has_members(group)
        self._away.remove(node)
        for group in self._groups:
            await self._has_members(group)

    async def begin_own(self, fault: str, node: int) -> None:
        """Remove a member of each group, have each leader hand its leadership on, or a node compact its logs."""
        if fault == "leave" and len(self._away) < self._setting.nodes - 1:
            self._away.add(node)
            await self._all_have_members()
        elif fault == "transfer":
            await asyncio.gather(*(self._transferred(group) for group in self._groups))
        elif fault == "compact":
            self._compacting[node].append(asyncio.create_task(self._compact_on(node)))

    async def end_own(self, fault: str, node: int) -> None:
        """Add a member again that `begin_own` removed, or let a node compact no more."""
        if fault == "leave" and node in self._away:
            self._away.remove(node)
            await self._all_have_members()
        elif fault == "compact":
            compacting = self._compacting[node].pop()
            compacting.cancel()
            await asyncio.wait([compacting])

    async def _compact_on(self, node: int) -> None:
        """Ask a node again and again to compact its logs, until cancelled."""
        while True:
            for group in self._groups:
                await self._asked(node, group, NodeClient.compact, _CHANGE_SECONDS)
            await asyncio.sleep(_COMPACTS_AGAIN)

    async def _all_have_members(self) -> None:
        """Ask for the members that there are to be, for a while: until then who leads may fall again and again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CHANGE_SECONDS):
                await asyncio.gather(*(self._has_members(group) for group in self._groups))

    async def _has_members(self, group: int | None) -> None:
        while not await self._change_members(group):
            await asyncio.sleep(POLL)

    async def _change_members(self, group: int | None) -> bool:
        """Ask the leader for the members that are missing or too many; whether there are none."""
        leader = await self.leader(group)
        there = await self._asked(leader, group, NodeClient.members)
        if not isinstance(there, MembersResult) or not there.settled or there.leader != leader:
            return False
        wanted, voters = {*self.processes.nodes} - self._away, {*there.voters}
        if wanted != voters:
            add, remove, revision = sorted(wanted - voters), sorted(voters - wanted), there.revision + 1
            ask = partial(NodeClient.change, revision=revision, add=add, remove=remove)
            await self._asked(leader, group, ask, _CHANGE_SECONDS)
        return wanted == voters

    async def _transferred(self, group: int | None) -> None:
        """Ask the leader once to hand its leadership on to the next voter."""
        leader = await self.leader(group)
        there = await self._asked(leader, group, NodeClient.members)
        others = [node for node in there.voters if node != leader] if isinstance(there, MembersResult) else []
        if others:
            target = min(others, key=lambda node: (node - leader) % self._setting.nodes)
            await self._asked(leader, group, lambda client: client.transfer(target), _CHANGE_SECONDS)

    async def converge(self, seconds: float) -> bool:
        """Write once more with acks=all and wait until all logs are equal, durable and committed, group by group."""
        deadline = asyncio.get_running_loop().time() + seconds + _GROUP_SECONDS * (len(self._groups) - 1)
        if self._replacing is not None:
            await asyncio.wait([self._replacing], timeout=seconds)
        await self._all_have_members()
        return all([await self._converges(group, deadline) for group in self._groups])

    async def _converges(self, group: int | None, deadline: float) -> bool:
        writer = self._client(random.Random(0), group)
        written = False
        try:
            while asyncio.get_running_loop().time() < deadline:
                if not written:
                    written = await writer.append(await self.leader(group), acks=ACKS_ALL)
                elif await self._agreed(group):
                    return True
                await asyncio.sleep(POLL if len(self._groups) == 1 else 0)
        finally:
            writer.close()
        return False

    async def final_read(self) -> bool:
        """Read everything from every node; whether all of them answered."""
        answered = True
        for group in self._groups:
            reader = self._client(random.Random(0), group)
            try:
                for node in self.processes.nodes:
                    answered &= await reader.read(node, Operation.FINAL_READ, 0)
            finally:
                reader.close()
        return answered

    async def histories(self, directory: Path) -> list[Path]:
        """The history files of the nodes; nothing is put into ``directory``."""
        return self.processes.histories_of_all()

    def described(self) -> dict[str, Any]:
        """The load, the settings with their times, and the limits that a judge needs."""
        return {"load": msgspec.to_builtins(self._load), **self._settings, "limits": dict(self._limits)}

    async def _agreed(self, group: int | None) -> bool:
        states = await self._states(group)
        found = [state for state in states if state is not None]
        if len(found) < len(states) or sum(state.role == "leader" for state in found) != 1:
            return False
        offsets = {offset for state in found for offset in (state.dirty, state.flushed, state.commit, state.visible)}
        return len(offsets) == 1 and len({state.term for state in found}) == 1

    async def _states(self, group: int | None) -> list[StatusResult | None]:
        """The state of a group on each node, None where it does not answer."""
        return await asyncio.gather(*(self._state(node, group) for node in self.processes.nodes))

    async def _state(self, node: int, group: int | None) -> StatusResult | None:
        answer = await self._asked(node, group, NodeClient.status)
        return answer if isinstance(answer, StatusResult) else None

    async def _asked(
        self,
        node: int,
        group: int | None,
        question: Callable[[NodeClient], Awaitable[Any]],
        seconds: float = _ANSWER_SECONDS,
    ) -> Any:  # noqa: ANN401
        """The answer of a node that runs; None if there is none in time."""

        async def ask() -> Any:  # noqa: ANN401
            client = await self.processes.client(node, group or 0)
            try:
                return await question(client)
            finally:
                client.close()

        if not self.processes.running(node):
            return None
        try:
            async with asyncio.timeout(seconds):
                return await ask()
        except (OSError, TimeoutError):
            return None


_OWN = {
    "members": (("leave", "any"), ("leave", "leader")),
    "transfer": (("transfer", "leader"),),
    "compact": (("compact", "leader"), ("compact", "any")),
}
"""A member is removed, and added again at the end; the leader is asked to hand its leadership on; a node compacts its
log again and again. A protocol says which of these it stands."""


def log_staging(protocol: RealProtocol) -> Staging:
    """How a protocol of a replicated log is staged."""
    groups = protocol.grouped is not None
    make = partial(LogStage, protocol)
    return Staging(name=protocol.name, faults=protocol.faults, make=make, groups=groups, own=_OWN)
