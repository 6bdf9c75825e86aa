"""Enough copies: of what is acknowledged and released, and where readers pass over slow shards.

Texts are not trusted: a nodeset of another form is none, and what would need it is not judged.

Sources: read-path.md#replication-property, read-path.md#append-waves, read-path.md#slow-shards.
"""

from __future__ import annotations

from loghistory.schema import Kind

from ..codes import code, lookup
from ..columns import Columns
from ..contract import Check, Family, Setting
from .nodesets import Nodesets, members
from .protocol import READ_PATH, StreamFold, epoch_of, shown

HOLDS = Check(
    id="replication-property-holds",
    rule="A record has copies that satisfy the property of its epoch when it is acknowledged, and in its own epoch "
    "nothing is released that is not acknowledged.",
    source=("read-path.md#replication-property-holds", "read-path.md#append-waves"),
    fact="a record acknowledged, or released in its epoch",
    sentence={
        "copies": "Node {node} acknowledged {lsn}, and only shards {shards} had stored it.",
        "released": "Node {node} released {lsn}, which was not acknowledged.",
    },
    kinds=(Kind.NODESET, Kind.ACKNOWLEDGE),
    columns=("node", "offset", "shards"),
    looks_back=True,
)
SLOW = Check(
    id="slow-is-bounded",
    rule="A shard turns slow only if fewer shards are slow or down than a record has copies.",
    source=("read-path.md#slow-is-bounded",),
    fact="a shard that turned slow for a stream, or several at once",
    sentence="Stream {op} passes over {slow:shard|shards} as slow while {down} are down, with {factor} copies of a "
    "record.",
    kinds=(Kind.NODESET, Kind.STREAM_SLOW),
    columns=("op", "shards"),
)
CHECKS = (HOLDS, SLOW)

_OWN = (Kind.NODESET, Kind.COPY, Kind.ACKNOWLEDGE, Kind.RELEASE, Kind.STREAM_SLOW)
_NODESET, _COPY, _ACKNOWLEDGE, _RELEASE, _SLOW = map(code, _OWN)
_IS_WANTED = lookup(_OWN)
_MOST = 1 << 16
"""A release of more LSNs at once is not judged."""


class PlacementFold(StreamFold):
    """Judges how many copies there are; see the module."""

    checks = CHECKS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._nodesets = Nodesets(setting.words)
        self._stored: dict[int, int] = {}  # by LSN: the shards that ever had a copy
        self._acknowledged: set[int] = set()
        self._released: dict[int, int] = {}  # by epoch
        self._slow: dict[int, int] = {}  # by stream

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        rows = columns.where(_IS_WANTED[columns.kind]).lists()
        for at, kind in enumerate(rows.kind):
            if kind == _COPY:
                node = rows.node[at]
                if 0 <= node < 63:
                    self._stored[rows.offset[at]] = self._stored.get(rows.offset[at], 0) | 1 << node
            elif kind == _ACKNOWLEDGE:
                self._acknowledges(rows, at)
            elif kind == _RELEASE:
                self._releases(rows, at)
            elif kind == _SLOW:
                self._passes_over(rows, at)
            else:
                self._nodesets.told(rows.epoch[at], rows.value[at])

    def _acknowledges(self, rows: Columns, at: int) -> None:
        lsn, tally = rows.offset[at], self._tallies[HOLDS.id]
        self._acknowledged.add(lsn)
        nodeset = self._nodesets.of(epoch_of(lsn))
        if nodeset is None:
            tally.unjudged += 1
            return
        tally.judged += 1
        having = max(rows.shards[at], 0) & self._stored.get(lsn, 0)
        if not nodeset.satisfied(having):
            shards = [*members(having)]
            tally.violation(rows.seq[at], way="copies", node=rows.node[at], lsn=shown(lsn), shards=shards)

    def _releases(self, rows: Columns, at: int) -> None:
        last, epoch, tally = rows.offset[at], rows.epoch[at], self._tallies[HOLDS.id]
        if epoch_of(last) != epoch:
            return
        first = self._released.get(epoch, epoch << 32) + 1
        self._released[epoch] = max(last, first - 1)
        if last - first >= _MOST or not self._nodesets:
            tally.unjudged += 1
            return
        for lsn in range(first, last + 1):
            tally.judged += 1
            if lsn not in self._acknowledged:
                tally.violation(rows.seq[at], way="released", node=rows.node[at], lsn=shown(lsn))

    def _passes_over(self, rows: Columns, at: int) -> None:
        op, slow, down = rows.op[at], max(rows.shards[at], 0), rows.records[at]
        before, self._slow[op] = self._slow.get(op, 0), slow
        if not slow & ~before:
            return
        tally = self._tallies[SLOW.id]
        if not self._nodesets:
            tally.unjudged += 1
            return
        tally.judged += 1
        factor = self._nodesets.factor
        if slow.bit_count() + down >= factor:
            tally.violation(rows.seq[at], op=op, slow=slow.bit_count(), down=down, factor=factor)


FAMILY = Family(
    "read_path_placement",
    CHECKS,
    frozenset(_OWN),
    ("node", "op", "offset", "shards", "epoch", "value", "count"),
    PlacementFold,
    READ_PATH,
    reads_texts=True,
)
