"""A simulated replica of Raft: its log, its durable vote, its state machine, and what its network has not taken."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from msgspec import structs

from quorumlog.durations import MICROSECOND, MILLISECOND
from quorumlog.events import Append, CoreFactory, Effect, Note, Reset, Send, Truncate
from quorumlog.quorum import Voters
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import (
    Apply,
    ChangeRequested,
    Compact,
    CompactRequested,
    Disconnect,
    HandedOver,
    KeepSnapshot,
    ReadSnapshot,
    SaveVote,
    TakeSnapshot,
    TransferRequested,
    VoteSaved,
)
from quorumlog.raft.members import Change
from quorumlog.raft.messages import AppendEntries
from quorumlog.raft.restored import StateMachine, restore
from quorumlog.raft.rules import NOBODY
from quorumlog.raft.settings import RaftConfiguration
from quorumlog.raft.state import Configuration
from quorumlog.simulation.log_node import LogNode
from quorumlog.simulation.node import Surroundings
from quorumlog.storage.batch import BatchKind
from quorumlog.storage.compaction import superseded
from quorumlog.storage.vote import VoteStore

_TAKES = 100 * MICROSECOND
"""How long it takes until the network has a message, if the other side reads."""
_LOOKS_AGAIN = 10 * MILLISECOND


class RaftNode(LogNode):
    """A replica, its durable vote, and the requests that the network has not taken yet."""

    core: RaftCore
    machine: StateMachine
    votes_type: ClassVar[type[VoteStore]] = VoteStore
    machine_type: ClassVar[type[StateMachine]] = StateMachine
    superseded = staticmethod(superseded)

    def __init__(
        self, cluster: Surroundings, number: int, configuration: RaftConfiguration, make_core: CoreFactory
    ) -> None:
        super().__init__(cluster, number, configuration.disk, configuration.segment_bytes, configuration.remember_bytes)
        timing, first = configuration.timing, configuration.first_voters
        self._make_core = make_core
        self._configuration = Configuration(
            node=number,
            voters=Voters(first if number in first else ()),
            election_timeout=timing.election,
            election_jitter=timing.election,
            heartbeat_interval=timing.heartbeat,
            flush_delay=timing.flush,
            enqueue_timeout=timing.enqueue,
            transfer_timeout=timing.transfer,
            write_caching=configuration.write_caching,
            priorities=configuration.priorities,
            longest_log=configuration.longest_log,
            light_heartbeats=configuration.light_heartbeats,
            **structs.asdict(configuration.limits),
        )
        self._perform |= {
            SaveVote: self._save_vote,
            Apply: lambda effect: self.machine.apply(effect.offset, effect.last_offset),
            TakeSnapshot: lambda effect: self.machine.take(effect),
            KeepSnapshot: lambda effect: self.machine.install(effect.snapshot),
            ReadSnapshot: self._read_snapshot,
            Disconnect: self._disconnect,
            Compact: lambda effect: self.log.compact(effect.gaps),
        }
        self._untaken: dict[int, dict[int, AppendEntries]] = {}
        """By receiver and identity: what the network holds."""

    def new_disk(self) -> None:
        """An empty disk in place of the old one; the node must be down."""
        super().new_disk()
        self._votes = self.votes_type(self.disk)

    @property
    def least_session(self) -> int:
        """The smallest session in which this node, on the disk that it has, can be a member."""
        return self._configuration.least_session

    def lose_disk(self, least_session: int) -> None:
        """An empty disk in place of the old one, on which a later session is wanted; the node must be down."""
        self.new_disk()
        self._configuration = structs.replace(self._configuration, voters=Voters(()), least_session=least_session)

    def recover(self) -> RaftCore:
        """A core that knows the log, the term and the vote on the disk. Raises `StorageError`."""
        self._votes.begin()
        log = self.open_log()
        self.machine = self.machine_type(self.disk, log)
        core: RaftCore = self._make_core(self._configuration, restore(log, self._votes, self.machine))
        return core

    def forget(self) -> None:
        """Lose what the process knew; see `Node.forget`."""
        super().forget()
        self._untaken.clear()

    def settled(self) -> Sequence[tuple[str, int]]:
        """The log as far as it is known to be flushed, and the vote."""
        vote = [("vote", self.disk.size("vote"))] if self.disk.exists("vote") else []
        return [*super().settled(), *vote]

    def compact(self) -> None:
        """Remove from the log what is superseded as far as the core lets it; see `Node.compact`."""
        gaps = self.log.superseded(self.core.compaction_bound, self.superseded)
        if gaps:
            self.handle(CompactRequested(tuple(gaps)))

    def interrupted(self, effects: Sequence[Effect], effect: Effect) -> None:
        """Also note a compaction that the disk broke off: some of it may be done."""
        super().interrupted(effects, effect)
        if isinstance(effect, Compact):
            for note in effects:
                if isinstance(note, Note) and note.kind == "compact":
                    self._note(note)

    def transfer(self, target: int) -> None:
        """Whoever runs the group asks for a transfer of leadership, and does not look at how it ends."""
        self.handle(TransferRequested(self.open(lambda _: None), target))

    def change(self, sort: str, nodes: Sequence[int]) -> None:
        """Whoever runs the group asks for a change of its members, and does not look at how it ends."""
        voters, revision = self.core.members.voters, self.core.members.revision + 1
        match sort:
            case "join":
                change = Change(revision, add=tuple(node for node in nodes if node not in voters.voting))
            case "leave":
                change = Change(revision, remove=tuple(node for node in nodes if node in voters.members))
            case "demote":
                change = Change(revision, demote=tuple(node for node in nodes if node in voters.current))
            case _:
                change = Change(revision, cancel=True)
        self.handle(ChangeRequested(self.open(lambda _: None), change))

    # -- effects -------------------------------------------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        super()._append(effect)
        self.machine.appended(effect.batches)

    def _truncate(self, effect: Truncate) -> None:
        super()._truncate(effect)
        self.machine.truncated()

    def _reset(self, effect: Reset) -> None:
        super()._reset(effect)
        self.machine.truncated()

    def _send(self, effect: Send) -> None:
        message = effect.message
        if not isinstance(message, AppendEntries) or not message.batches:
            super()._send(effect)
            return
        widest = self._configuration.ghost_offsets
        if any(each.kind is BatchKind.GHOST and each.record_count > widest for each in message.batches):
            return  # it cannot be encoded
        super()._send(effect)
        self._untaken.setdefault(effect.to, {})[id(message)] = message
        self._simulation.after(_TAKES, self._taken, self.host.generation, effect)

    def _taken(self, generation: int, effect: Send) -> None:
        """Hand over once the other side reads; a process that is paused takes nothing."""
        waiting = self._untaken.get(effect.to, {})
        if generation != self.host.generation or id(effect.message) not in waiting:
            return
        if self._cluster.reads(effect.to):
            del waiting[id(effect.message)]
            self.host.deliver(self.handle, HandedOver(effect.to, effect.message))
        else:
            self._simulation.after(_LOOKS_AGAIN, self._taken, generation, effect)

    def _disconnect(self, effect: Disconnect) -> None:
        for message in self._untaken.pop(effect.to, {}).values():
            self.host.after(0, self.handle, HandedOver(effect.to, message))

    def _read_snapshot(self, effect: ReadSnapshot) -> None:
        delay = int(self._random.random() * self._timing.read)
        self.host.after(delay, self._have_snapshot, effect)

    def _have_snapshot(self, effect: ReadSnapshot) -> None:
        self.handle(self.machine.read(effect))

    def _save_vote(self, effect: SaveVote) -> None:
        voted_for = None if effect.voted_for == NOBODY else effect.voted_for
        self.write_in_order(partial(self._votes.save, effect.term, voted_for), VoteSaved(effect.ticket))
