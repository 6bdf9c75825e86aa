"""What becomes of entries: committed, beside the committed log, exposed by a fault. Source: raft.md#exposed."""

from __future__ import annotations

from collections import defaultdict

from batches import Batch, Node, covers, shared
from plain import History


class Fate:
    """What has become of every batch so far."""

    def __init__(self, history: History, empty: Batch) -> None:
        self.history = history
        self.committed = empty
        self.exposed: frozenset[Batch] = frozenset()
        """Batches that may be lost, since a fault left too few copies."""
        self.anew = False
        """Some were exposed since a majority was last seen to have flushed what a leader committed."""
        self.emptied: dict[Batch, set[int]] = defaultdict(set)
        """Whose copies went with a disk."""
        self.given_up: frozenset[Batch] = frozenset()
        """Batches that had been committed and were lost, with an excuse."""
        self.dead: frozenset[Batch] = frozenset()
        """Batches beside the committed log."""

    def destroy(self, nodes: dict[int, Node], node: int, kept: Batch, seq: int, *, wipe: bool) -> None:
        """A node loses the copies of its log behind ``kept``: what too few others hold safely is exposed.

        All of it is, once the voters have changed: nobody can tell whose majority missed the copy.
        """
        voters, changes = self.history.voters, self.history.changes(seq)
        if (node not in voters and not changes) or node not in nodes:
            return
        tip = nodes[node].tip
        reach: list[int] = []
        for other in voters:
            theirs = nodes.get(other)
            if other == node or theirs is None:
                continue
            both = shared(tip, theirs.tip).last
            if self.history.write_caching:
                reach.append(both)
            elif theirs.flushed is not None:
                reach.append(min(both, theirs.flushed))
        needed = len(voters) - self.history.majority + 1
        for batch in tip.log():
            if batch is kept or batch.before is None:
                break
            if wipe:
                self.emptied[batch].add(node)
            if changes or sum(end >= batch.last for end in reach) < needed:
                self.exposed |= {batch}
                self.anew = True

    def secure(self, batch: Batch) -> None:
        """A majority has flushed the log up to a batch that a leader commits."""
        if self.anew:
            self.anew = False
            self.exposed -= {*batch.log()}
            for each in batch.log():
                self.emptied.pop(each, None)

    def all_exposed(self, batch: Batch, top: Batch) -> bool:
        """Whether everything behind ``top`` in the log up to the batch is exposed, as far as it is shown."""
        behind = [b for b in batch.log() if b.last > top.last]
        return all(b in self.exposed or b.hidden for b in behind)

    def grown(self, batch: Batch) -> None:
        """A new batch: is it beside the committed log from the first?"""
        parent = batch.before
        assert parent is not None
        rivals = [b for b in parent.children if b is not batch and covers(self.committed, b)]
        beside = not batch.hidden and any(not b.hidden and b not in self.exposed for b in rivals)
        if parent in self.dead or (covers(self.committed, parent) and beside):
            self.dead |= {batch}

    def commit(self, batch: Batch) -> tuple[str, tuple[Batch, ...], tuple[Batch, ...]]:
        """Somebody commits the log up to a batch: whether that agrees; what is newly committed, what newly lost."""
        reported = "unjudged" if batch.hidden else "agrees"
        if covers(self.committed, batch):
            return reported, (), ()
        fork = shared(batch, self.committed)
        mine = [b for b in batch.log() if b.last > fork.last]
        if fork is not self.committed:
            rival = next(b for b in self.committed.log() if b.before is fork)
            first = mine[-1]
            if rival.hidden or any(b.hidden for b in mine):
                return "unjudged", (), ()
            if first in self.exposed and (first in self.given_up or first in self.dead):
                return "excused", (), ()
            if not self.all_exposed(self.committed, fork):
                return "violated", (), ()
            reported = "excused, given up"
            self.given_up |= {b for b in self.committed.log() if b.last > fork.last}
        self.committed = batch
        self.dead -= {*mine}
        lost = [
            each
            for b in mine
            if not b.hidden and b.before
            for other in b.before.children
            if other is not b and not other.hidden
            for each in other.subtree()
            if each not in self.dead
        ]
        self.dead |= {*lost}
        return reported, tuple(mine), tuple(lost)
