"""What shards say of what they trimmed: a reader that asks for it is told so, and not that there is nothing.

As long as no reader waits for such an answer, only events that may change that are looked at.

Source: read-path.md#in-order-shipping.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import AnswerWord, HeardWord, ShardWord

from ..codes import FAULT_WIPE, REASONS, code, lookup, word_code
from ..columns import Ints
from ..contract import Check, Family, Setting
from ..kernel import kernel
from .nodesets import MOST_SHARDS
from .protocol import READ_PATH, Cells, StreamFold, shown

SAID = Check(
    id="trimmed-is-said",
    rule="A shard that is asked for LSNs at or below its trim point says first that they are trimmed.",
    source=("read-path.md#in-order-shipping",),
    fact="the first answer of a shard to a START at or below its trim point",
    sentence="Shard {peer} was asked by stream {op} from {lsn} on, which it had trimmed, and first said something of "
    "{said}.",
    kinds=(Kind.TRIM_POINT, Kind.STREAM_START, Kind.STREAM_HEARD),
    columns=("op", "peer", "filter", "offset"),
)
CHECKS = (SAID,)

_OWN = (Kind.TRIM_POINT, Kind.FAULT, Kind.TAKES_PART, Kind.STREAM_START, Kind.STREAM_STARTED, Kind.STREAM_HEARD)
_TRIM_POINT, _FAULT, _TAKES_PART, _START, _STARTED, _HEARD = map(code, _OWN)
_LOST, _OK = REASONS[ShardWord.LOST], REASONS[AnswerWord.OK]
_TRIM, _ACCESS, _NOWHERE = (word_code(word) for word in (HeardWord.TRIM, HeardWord.ACCESS, HeardWord.NOT_IN_CONFIG))
_IS_WANTED, _IS_ANSWER = lookup(_OWN), lookup(_OWN[4:])


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    op: Cells
    peer: Cells
    f: Cells
    offset: Cells
    last_offset: Cells
    filter: Cells
    reason: Cells


class _State(NamedTuple):
    """By shard: its trim point, with the event that says so, and how many streams wait to hear of it."""

    point: Ints
    seq: Ints
    awaited: Ints


@kernel
def _skim(rows: _Rows, at: int, state: _State) -> int:
    for i in range(at, len(rows.kind)):
        kind, node, peer = rows.kind[i], rows.node[i], rows.peer[i]
        if kind == _TRIM_POINT:
            if 0 <= node < MOST_SHARDS and rows.offset[i] > state.point[node]:
                state.point[node], state.seq[node] = rows.offset[i], rows.seq[i]
        elif _IS_ANSWER[kind]:
            if 0 <= peer < MOST_SHARDS and state.awaited[peer]:
                return i
        elif kind == _START:
            if 0 <= peer < MOST_SHARDS and (state.awaited[peer] or rows.offset[i] <= state.point[peer]):
                return i
        elif _IS_WANTED[kind] and 0 <= node < MOST_SHARDS and state.point[node]:
            return i
    return len(rows.kind)


class TrimFold(StreamFold[_Rows]):
    """Judges the first answers of shards; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        self._state = _State(*(np.zeros(MOST_SHARDS, dtype=np.int64) for _ in range(3)))
        self._awaited: dict[tuple[int, int], tuple[int, int, int]] = {}  # by stream and shard: filter, LSN, trim's seq

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._state)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        if e.kind in (_FAULT, _TAKES_PART):
            if (e.kind == _FAULT and e.f == FAULT_WIPE) or (e.kind == _TAKES_PART and e.reason == _LOST):
                self._state.point[e.node] = 0  # it was on the disk
                for op, shard in [key for key in self._awaited if key[1] == e.node]:
                    self._forget(op, shard)
            return
        op, shard = e.op, e.peer
        if e.kind == _START:
            self._forget(op, shard)
            if e.offset <= self._state.point[shard]:
                self._awaited[op, shard] = e.filter, e.offset, int(self._state.seq[shard])
                self._state.awaited[shard] += 1
            return
        asked, lsn, trimmed = self._awaited.get((op, shard), (None, 0, 0))
        if asked != e.filter:
            return
        if e.kind == _HEARD:
            tally = self.tallies[SAID.id]
            tally.judged += 1
            if e.f not in (_TRIM, _ACCESS, _NOWHERE) or (e.f == _TRIM and not e.offset <= lsn <= e.last_offset):
                tally.violation(trimmed, e.seq, peer=shard, op=op, lsn=shown(lsn), said=shown(e.offset))
        if e.kind == _HEARD or e.reason != _OK:
            self._forget(op, shard)

    def _forget(self, op: int, shard: int) -> None:
        if self._awaited.pop((op, shard), None) is not None:
            self._state.awaited[shard] -= 1


FAMILY = Family(
    "read_path_trims",
    CHECKS,
    frozenset(_OWN),
    ("node", "op", "peer", "f", "offset", "last_offset", "filter", "reason"),
    TrimFold,
    READ_PATH,
)
