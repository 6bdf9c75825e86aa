"""The donors' part of rebuilding: copies of shards that leave are made anew elsewhere (read-path.md#rebuilding-donors).

Of each copyset the first member that stays is the donor. It waits until the record is released, stores copies on other
shards so that the property holds, and then amends the copysets of all that have one, its own the last. No shard is done
as long as a copyset of its own names a shard that leaves. Copies of a record may name different copysets, if a plan was
given up while they were amended: then the one that a copy takes for the donor has nothing to do. So whoever waits for
another one, and sees nothing come of it, makes the copies itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from quorumlog.events import Note, Send, SetTimer
from quorumlog.read_path import rules as r
from quorumlog.read_path.event_log import LogRecord, Word
from quorumlog.read_path.events import Change, StatusesLearned, TellEventLog
from quorumlog.read_path.messages import Store, StoreAnswer, Stored
from quorumlog.read_path.nodeset import Nodeset
from quorumlog.read_path.placement import chosen, mixed
from quorumlog.read_path.records import DRAINED, Copy
from quorumlog.read_path.shipping import Shipping

_AT_ONCE = 32
_PATIENCE = 4
"""So many times a shard looks again whether the donors of its copies have amended any, before it takes their part."""


@dataclass
class _Task:
    """One record: in each step these shards are to store it, until all have."""

    copy: Copy
    copyset: tuple[int, ...]
    drained: tuple[int, ...]
    steps: list[set[int]]


class Donor(Shipping):
    """What a shard has besides shipping, to be a donor; ``leaving``: the shards that copysets must not have."""

    leaving: frozenset[int] = frozenset()
    nodesets: Mapping[int, Nodeset]

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - those of Shipping
        super().__init__(*args, **named)
        self.nodesets = {}
        self._left_at: Mapping[int, int] = {}
        self._rebuilt: frozenset[int] = frozenset()
        self._statuses: Mapping[int, int] = {}
        self._plan = self._done_plan = 0
        self._tasks: dict[int, _Task] = {}
        self._retries = False
        self._left = self._in_vain = (
            0  # how many copies were left to others, and how often it looked since that changed
        )

    def _nodeset_of(self, epoch: int) -> Nodeset | None:
        since = max((first for first in self.nodesets if first <= epoch), default=None)
        return None if since is None else self.nodesets[since]

    def _persist(self, change: Change, then: Any) -> None:  # noqa: ANN401 - see ShardCore
        raise NotImplementedError

    def _on_their_way(self) -> list[Copy]:
        """The copies that this shard has taken, and that are not durable yet; the last one at an LSN."""
        raise NotImplementedError

    def _write_of(self, copy: Copy) -> object | None:
        """The write that is on its way and makes this copy superfluous: of the same one, or of one that beats it."""
        raise NotImplementedError

    def _learn_plan(self, learned: StatusesLearned) -> None:
        self.leaving, self._rebuilt, self._statuses = learned.leaving, learned.rebuilt, learned.statuses
        self._left_at = learned.left
        if learned.plan != self._plan:
            self._plan, self._in_vain = learned.plan, 0
            self._tasks.clear()
        self._rebuild()

    def _rebuild(self) -> None:
        """Go on with the plan: take up what is released, or say that all is done."""
        if not self._rebuilt or self._done_plan == self._plan or not self.contents.intact:
            return
        if self.number in self.leaving and self.number not in self._rebuilt:
            return
        mine = self._to_amend()
        donates = [copy for copy in mine if self._in_vain >= _PATIENCE or self._is_donor(copy)]
        for copy in donates[:_AT_ONCE]:
            if self._is_settled(copy.lsn) and copy.lsn not in self._tasks:
                self._take_up(copy)
        if mine or self._more_to_come():
            self._retry()
        else:
            self._done_plan = self._plan
            word = LogRecord(Word.DONE, self.number, self.number, self._plan, self._authoritative())
            self._effects.append(TellEventLog(word))

    def _more_to_come(self) -> bool:
        """Whether a copy that names who leaves is on its way to the disk, or one is of a recovery that may not be over.

        Then others of its copyset may not have theirs yet. CLEAN does not tell that it is over: it may be of an attempt
        after which the recovery began anew.
        """
        coming, settled = self._on_their_way(), r.epoch_of(self.released)
        return any(not self._rebuilt.isdisjoint(copy.copyset) for copy in coming) or any(
            copy.run and r.epoch_of(copy.lsn) >= settled for copy in (*coming, *self.contents.copies.values())
        )

    def _is_settled(self, lsn: int) -> bool:
        """Whether a record is released; in a later epoch if a recovery settled with it, which is over only then.

        Source: read-path.md#rebuilding-donors.
        """
        epoch = r.epoch_of(lsn)
        known_good, *_ = self.contents.clean.get(epoch, (0, 0, 0, 0))
        if epoch <= self.contents.last_clean and lsn > known_good:
            return r.epoch_of(self.released) > epoch
        return lsn <= self.released

    def _retry(self) -> None:
        """Ask again after a while; what is released in the meantime does not put that off."""
        if not self._retries:
            self._retries = True
            self._effects.append(SetTimer("rebuild", self.settings.retry))

    def _to_amend(self) -> list[Copy]:
        """The copies whose copysets name shards that leave, but for those that nobody is left to make anew."""
        return [copy for copy in self.contents.with_any_of(self._rebuilt) if copy.intact and self._donors_of(copy)]

    def _donors_of(self, copy: Copy) -> list[int]:
        holders = self._holders(copy)
        staying = [shard for shard in holders if shard not in self.leaving]
        return staying or [shard for shard in holders if self._drains(shard)]

    def _holders(self, copy: Copy) -> tuple[int, ...]:
        """Who has a record by a copy of this shard: the copyset of one that was drained does not name the shard."""
        return copy.copyset if self.number in copy.copyset else (*copy.copyset, self.number)

    def _is_donor(self, copy: Copy) -> bool:
        return self._donors_of(copy)[0] == self.number

    def _drains(self, shard: int) -> bool:
        return shard in self._rebuilt and self._statuses.get(shard) == r.FULLY_AUTHORITATIVE

    def _authoritative(self) -> bool:
        """Whether no record can have all its copies on shards that are lost."""
        lost = {s for s in self._rebuilt if not self._drains(s)}
        return not any(
            self.rules.replicated(nodeset.scopes, {shard: shard in lost for shard in nodeset.shards})
            for nodeset in self.nodesets.values()
        )

    def _take_up(self, copy: Copy) -> None:
        nodeset = self._nodeset_of(r.epoch_of(copy.lsn))
        if nodeset is None:
            return
        holders = self._holders(copy)
        kept = [shard for shard in holders if shard not in self.leaving]
        allowed = [shard for shard in nodeset.shards if shard not in self.leaving]
        found = chosen(nodeset, self.rules, allowed, copy.lsn, kept)
        if found is None:
            return  # there is nowhere to put it; a shard may come back
        copyset = self._in_order(copy.lsn, found)
        drained = tuple(shard for shard in holders if self._drains(shard))
        amended = {shard for shard in (*copyset, *drained) if shard in holders}
        steps = self._steps({*copyset} - {*holders}, amended)
        task = self._tasks[copy.lsn] = _Task(copy, copyset, drained, steps)
        self._go_on(copy.lsn, task)

    def _steps(self, new: set[int], amended: set[int]) -> list[set[int]]:
        """Who stores a copy when, of those that get one and those whose copyset is amended."""
        return [new, amended - {self.number}, {self.number}]

    def _in_order(self, lsn: int, copyset: tuple[int, ...]) -> tuple[int, ...]:
        """A new copyset as any other donor of the record would write it."""
        return tuple(sorted(copyset, key=lambda shard: mixed(lsn, shard)))

    def _go_on(self, lsn: int, task: _Task) -> None:
        """Send what is open of the first step that is not over; after the last one the task is."""
        while task.steps and not task.steps[0]:
            del task.steps[0]
        if not task.steps:
            del self._tasks[lsn]
            self._rebuild()
            return
        plan = self._plan
        for shard in sorted(task.steps[0]):
            amended = self._amended(task, shard)
            if shard != self.number:
                self._effects.append(Send(shard, Store(amended, r.epoch_of(self.released) - 1, plan)))
            elif self._write_of(amended) is None:
                self._persist(Change(copy=amended), lambda: self._rebuilt_at(self.number, lsn, plan))

    @staticmethod
    def _amended(task: _Task, shard: int) -> Copy:
        flags = task.copy.flags | DRAINED if shard in task.drained else task.copy.flags & ~DRAINED
        return replace(task.copy, copyset=task.copyset, flags=flags)

    def _stored(self, shard: int, message: Stored) -> None:
        if message.answer is StoreAnswer.OK:
            self._rebuilt_at(shard, message.lsn, message.plan)

    def _rebuilt_at(self, shard: int, lsn: int, plan: int) -> None:
        task = self._tasks.get(lsn)
        if task is not None and plan == self._plan and shard in task.steps[0]:
            task.steps[0].discard(shard)
            if not task.steps[0]:
                self._go_on(lsn, task)

    def _rebuild_again(self) -> None:
        self._retries = False
        left = sum(not self._is_donor(copy) for copy in self._to_amend())
        self._in_vain = self._in_vain + 1 if left == self._left and not self._tasks else 0
        self._left = left
        for lsn, task in list(self._tasks.items()):
            if lsn in self.contents.copies:
                self._go_on(lsn, task)
            else:
                del self._tasks[lsn]
        self._rebuild()

    def _note(self, kind: str, **columns: Any) -> None:  # noqa: ANN401
        self._effects.append(Note(kind, columns))
