"""Mutants of snapshots: what is applied, kept, sent and installed."""

from __future__ import annotations

from quorumlog.events import Note
from quorumlog.protocol import Mutant
from quorumlog.raft.core import RaftCore
from quorumlog.raft.events import Apply
from quorumlog.raft.members import Members
from quorumlog.raft.messages import InstallSnapshot
from quorumlog.raft.mutants.parts import on_nodes
from quorumlog.raft.restored import MAGIC, StateMachine
from quorumlog.raft.snapshot import Snapshot
from quorumlog.storage.sealed import sealed


class ApplyToVisible(RaftCore):
    """The state machine applies up to what is visible."""

    def _apply(self, last: int) -> None:
        super()._apply(max(last, self.visible))


class ApplyOffByOne(RaftCore):
    """What is applied next begins with the last entry that was applied."""

    def _apply(self, last: int) -> None:
        before = len(self._effects)
        super()._apply(last)
        for at, effect in enumerate(self._effects[before:], before):
            if isinstance(effect, Apply) and effect.offset > self.index.start:
                self._effects[at] = Apply(effect.offset - 1, effect.last_offset)
            elif isinstance(effect, Note) and effect.columns["offset"] > self.index.start:
                effect.columns["offset"] -= 1


class TrimAboveApplied(RaftCore):
    """A log is trimmed beyond what is applied."""

    def _trim(self, offset: int) -> None:
        applied, self.applied = self.applied, self.commit
        super()._trim(offset)
        self.applied = max(applied, self.index.start - 1)


class ChunkOutOfOrder(RaftCore):
    """The parts of a snapshot are taken in any order."""

    def _take_part(self, request: InstallSnapshot) -> bool:
        last, part = self._arriving
        if last == request.last:
            self._arriving = last, part.ljust(request.position, b"0")[: request.position]
        else:
            self._arriving = request.last, b"0" * request.position
        return super()._take_part(request)


class SnapshotKeepsMembership(RaftCore):
    """The newest configuration, by its offset, survives the installation of a snapshot."""

    def _reset(self, start: int, start_term: int, members: Members) -> None:
        before = self._configurations[-1]
        super()._reset(start, start_term, members)
        self._configurations.append(before)
        self._in_force()


class SnapshotWithoutMembership(RaftCore):
    """A snapshot that is installed brings no configuration to a node that has one."""

    def _install(self, snapshot: Snapshot) -> None:
        members = self.members.encode() if self.voters.current else snapshot.members
        super()._install(Snapshot(snapshot.last, snapshot.term, snapshot.offset, members, snapshot.state))


class InstallBeforeDurable(StateMachine):
    """A snapshot is in use, and what was sent is answered, before it is durable."""

    def _write(self, path: str, content: bytes) -> None:
        self._disk.create(path)
        self._disk.append(path, sealed(MAGIC, content))


MUTANTS = (
    Mutant(
        "apply-to-visible",
        "the state machine applies up to visible",
        ("applied-once",),
        ApplyToVisible,
        setting="lost-power",
    ),
    Mutant(
        "apply-off-by-one",
        "what is applied next begins with the last entry that was applied",
        ("applied-once",),
        ApplyOffByOne,
        thread="https://github.com/nats-io/nats-server/pull/8321",
        setting="trimmed",
    ),
    Mutant(
        "trim-above-applied",
        "a log is trimmed beyond what is applied",
        ("snapshot-is-committed",),
        TrimAboveApplied,
        setting="trimmed",
    ),
    Mutant(
        "chunk-out-of-order",
        "the parts of a snapshot are taken in any order",
        ("parts-in-order",),
        ChunkOutOfOrder,
        setting="snapshots",
    ),
    Mutant(
        "snapshot-keeps-membership",
        "an older effective configuration survives the installation of a snapshot",
        ("quorums-intersect", "configuration-in-force"),
        SnapshotKeepsMembership,
        thread="https://github.com/databendlabs/openraft/issues/1808",
        setting="snapshots",
        seeds=100,
    ),
    Mutant(
        "snapshot-without-membership",
        "a snapshot that is installed brings no configuration to a node that has one",
        ("snapshots-agree",),
        SnapshotWithoutMembership,
        setting="snapshots",
        seeds=100,
    ),
    Mutant(
        "install-before-durable",
        "a snapshot is in use before it is durable",
        ("voters-return",),
        stage=on_nodes(machine=InstallBeforeDurable),
        setting="trimmed",
        seeds=200,
    ),
)
