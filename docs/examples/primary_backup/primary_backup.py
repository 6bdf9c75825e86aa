"""A primary-backup log: node 0 orders the entries, the others copy them, all have flushed what is acknowledged.

It survives crashes and power losses of any nodes; while one is down it acknowledges nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from quorumlog import events
from quorumlog.durations import MILLISECOND
from quorumlog.faults import FaultMix
from quorumlog.protocol import Mutant, Protocol
from quorumlog.simulation.configuration import DiskTiming, LogConfiguration, LogWorkload
from quorumlog.simulation.log_cluster import LogCluster
from quorumlog.simulation.log_node import LogNode
from quorumlog.storage import RecordBatch, VoteStore

PRIMARY = 0


def acknowledged(dirty: int, flushed: int, backups: Sequence[int]) -> int:
    """Up to where an append is acknowledged: what the primary and all ``backups`` have flushed."""
    return min([flushed, *backups])


@dataclass(frozen=True)
class Rules:
    """What this protocol decides; a mutant, or a file of rules, replaces one of them."""

    acknowledged: Callable[[int, int, Sequence[int]], int] = acknowledged


class Copy(NamedTuple):
    """To a backup: the batches behind ``previous``, up to which it has flushed what the primary has."""

    term: int
    previous: int
    commit: int
    batches: tuple[RecordBatch, ...]


class Copied(NamedTuple):
    """To the primary: up to ``durable`` this log is the primary's, and flushed."""

    term: int
    durable: int


class Core:
    """One node. Every start of the primary is a new term; in a new term backups compare from the beginning."""

    def __init__(self, node: int, nodes: int, term: int, batches: list[RecordBatch], rules: Rules = Rules()) -> None:
        self.node, self.term, self.batches, self.rules, self.tickets = node, term, batches, rules, 0
        self.role, self.leader = "leader" if node == PRIMARY else "follower", PRIMARY
        # equal: how far this log is known to be the primary's
        self.flushed, self.commit, self.visible, self.equal = self.dirty, -1, -1, -1
        self.durable = {backup: -1 for backup in range(nodes) if backup != PRIMARY}
        self.flushes: dict[int, int] = {}  # ticket -> what was dirty when the flush began
        self.pending: dict[int, RecordBatch] = {}  # request -> its batch

    @property
    def dirty(self) -> int:
        """The last appended offset, flushed or not; -1 in an empty log."""
        return self.batches[-1].last_offset if self.batches else -1

    def handle(self, now: int, event: events.Event) -> list[events.Effect]:
        """Take one event at a time in nanoseconds; the effects are carried out in order."""
        self.effects: list[events.Effect] = []
        match event:
            case events.AppendRequested(request, _, asked) if self.node != PRIMARY or asked not in (-1, self.term):
                self.effects.append(events.Resolved(request, events.Outcome.NOT_LEADER, -1, -1, -1))
            case events.AppendRequested(request=request, batch=batch):
                self.pending[request] = batch.with_position(self.dirty + 1, self.term)
                self.append([self.pending[request]])
                self.copy()
            case events.Flushed(ticket=ticket) if ticket in self.flushes:
                self.flushed = max(self.flushed, self.flushes.pop(ticket))
                self.note("flush")
                self.report()
            case events.Received(message=Copied(term, durable), sender=backup) if term == self.term:
                self.durable[backup] = max(self.durable[backup], durable)
                self.report()
            case events.Received(message=Copy() as message) if message.term >= self.term:
                self.take(message)
            case events.Started() | events.TimerFired() if self.node == PRIMARY:
                self.copy()  # again what may have been lost
                self.effects.append(events.SetTimer("copy", 30 * MILLISECOND))
                self.report()
        return self.effects

    def note(self, kind: str, **columns: int) -> None:
        """Put an event into the history, with the state as it is now."""
        columns |= {name: getattr(self, name) for name in ("term", "dirty", "flushed", "commit", "visible")}
        self.effects.append(events.Note(kind, columns))

    def append(self, batches: list[RecordBatch]) -> None:
        """Write batches to the end of the log and begin to flush them."""
        self.effects.append(events.Append(tuple(batches)))
        for batch in batches:
            self.batches.append(batch)
            place = {"offset": batch.base_offset, "last_offset": batch.last_offset, "entry_term": batch.term}
            self.note("append", value=batch.value, acks=batch.acks, **place)
        self.tickets += 1
        self.flushes[self.tickets] = self.dirty
        self.effects.append(events.StartFlush(self.tickets))

    def copy(self) -> None:
        """Send every backup what it is not known to have flushed."""
        for backup, durable in self.durable.items():
            batches = tuple(batch for batch in self.batches if batch.base_offset > durable)
            self.effects.append(events.Send(backup, Copy(self.term, durable, self.commit, batches)))

    def take(self, message: Copy) -> None:
        """Bring the log of a backup in line with the primary's."""
        end = message.batches[-1].last_offset if message.batches else message.previous
        same, self.term = message.term == self.term, message.term
        held = {(batch.base_offset, batch.term) for batch in self.batches}
        fresh = [batch for batch in message.batches if (batch.base_offset, batch.term) not in held]
        cut = fresh[0].base_offset if fresh else self.dirty + 1 if same else end + 1
        if cut <= self.dirty:  # what the primary lost before it could acknowledge it
            self.batches = [batch for batch in self.batches if batch.base_offset < cut]
            self.flushed = min(self.flushed, self.dirty)
            self.flushes.clear()
            self.effects.append(events.Truncate(self.dirty + 1))
            self.note("truncate", offset=self.dirty + 1)
        if fresh:
            self.append(fresh)
        self.equal = max(self.equal, end) if same else end
        self.advance(min(message.commit, self.equal, self.flushed))
        self.report()

    def report(self) -> None:
        """See what follows from more being flushed: tell the primary, or acknowledge."""
        if self.node != PRIMARY:
            self.effects.append(events.Send(PRIMARY, Copied(self.term, min(self.equal, self.flushed))))
            return
        self.advance(self.rules.acknowledged(self.dirty, self.flushed, list(self.durable.values())))
        for request in [request for request, batch in self.pending.items() if batch.last_offset <= self.commit]:
            batch = self.pending.pop(request)
            place = batch.base_offset, batch.last_offset, batch.term
            self.effects.append(events.Resolved(request, events.Outcome.SUCCESS, *place))

    def advance(self, commit: int) -> None:
        """Let readers see what every node has flushed."""
        if commit > self.commit:
            self.commit = self.visible = commit
            self.note("commit")


class Node(LogNode):
    """The core on a disk, which holds a log and a term."""

    def __init__(self, cluster: "Cluster", number: int, make_core: Callable[..., Core]) -> None:
        self.make_core, self.nodes = make_core, cluster.configuration.nodes
        super().__init__(cluster, number, cluster.configuration.disk, cluster.configuration.segment_bytes)

    def recover(self) -> Core:
        """The core of a new process, as the disk allows."""
        log, terms = self.open_log(), VoteStore(self.disk)
        term = max(terms.load()[0], log.last_term) + (self.number == PRIMARY)
        terms.save(term, None)
        return self.make_core(self.number, self.nodes, term, log.read(0, 1 << 40) if log.dirty >= 0 else [])


class Cluster(LogCluster[LogConfiguration, Node]):
    """The simulated cluster: what all logs share, with these nodes."""

    def new_node(self, number: int) -> Node:
        """A node that has not been started."""
        return Node(self, number, self._make_core)


ACK_UNFLUSHED = Mutant(
    "ack-unflushed",
    "the primary acknowledges what it has not flushed itself",
    ("lost-write",),
    partial(Core, rules=Rules(acknowledged=lambda dirty, flushed, backups: min([dirty, *backups]))),
    "trouble",
)
TROUBLE = LogConfiguration(
    duration=1500 * MILLISECOND,
    disk=DiskTiming(most=100 * MILLISECOND),
    workload=LogWorkload(read_linearizable=0, tail=0, acks_leader=0, acks_none=0),
    faults=FaultMix(longest=250 * MILLISECOND, targets={"leader": 3.0, "any": 2.0, "all": 1.0}),
)

PROTOCOL = Protocol(
    name="primary-backup",
    core=Core,
    rules=Rules(),
    configuration=LogConfiguration,
    settings={"trouble": TROUBLE},
    stage=Cluster,
    mutants={ACK_UNFLUSHED.id: ACK_UNFLUSHED},
)
