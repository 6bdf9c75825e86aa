"""Shards that lost their data, with their disks: until they are rebuilt they take nothing, and say nothing of what
there is.

A shard is rebuilt when the event log says that it is empty: what it had is elsewhere then. From then on its answers
say that it knows of that, lest readers count them who do not. As long as no shard was lost only events that may change
that are looked at.

Sources: read-path.md#lost-data-refuses, read-path.md#lost-with-its-disk, read-path.md#status-of-events,
read-path.md#event-log-version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind
from loghistory.vocabularies.read_path import AnswerWord, ShardWord

from ..codes import FAULT_WIPE, NO_NODE, REASONS, code, lookup
from ..columns import Ints
from ..contract import Check, Family, Setting
from ..kernel import kernel
from .nodesets import AUTHORITATIVE_EMPTY, MOST_SHARDS, statuses_said
from .protocol import NOWHERE, READ_PATH, Cells, StreamFold, shown

REFUSES = Check(
    id="lost-data-refuses",
    rule="A shard that lost its data takes no copy and no seal, and answers START with REBUILDING, until what it had "
    "is rebuilt; then its answers are of the version of the event log that says so, or of a later one.",
    source=("read-path.md#lost-data-refuses", "read-path.md#event-log-version"),
    fact="an answer to a START of a shard that lost its data, or anything else that it did until that was rebuilt",
    sentence={
        "answered": "Shard {peer} answered stream {op} as if it had its data, which it lost and which was not rebuilt.",
        "said": "Shard {peer} told stream {op} what it has from {lsn} on, although its data was lost and not rebuilt.",
        "stored": "Shard {node} stored a copy at {lsn}, although its data was lost and not rebuilt.",
        "sealed": "Shard {node} was sealed up to epoch {epoch}, although its data was lost and not rebuilt.",
        "shipped": "Shard {node} shipped stream {op} records, although its data was lost and not rebuilt.",
        "older": "Shard {peer} told stream {op} what it knew at version {version} of the event log, but what it lost "
        "was rebuilt at version {rebuilt}.",
        "intact": "Shard {node} came back as if it had its data, which it lost and which was not rebuilt.",
    },
    kinds=(Kind.STREAM_START, Kind.STREAM_STARTED),
    columns=("node", "op", "peer", "reason"),
)
EMPTIED = Check(
    id="lost-with-its-disk",
    rule="A shard comes back without its data only if its disk was emptied since it had it, or while a file of it is "
    "gone from its directory; and not with it if its disk was emptied.",
    source=("read-path.md#lost-with-its-disk", "history-checks.md#never-recorded"),
    fact="a shard that takes part without its data, or behind its disk was emptied",
    sentence={
        "without": "Shard {node} came back without its data, although its disk was not emptied since it had it.",
        "with": "Shard {node} came back as if it had its data, although its disk was emptied.",
    },
    kinds=(Kind.TAKES_PART,),
    columns=("node", "reason"),
)
CHECKS = (REFUSES, EMPTIED)

_OF_SHARDS = (Kind.COPY, Kind.SEAL, Kind.SHIP)
_OF_STREAMS = (Kind.STREAM_START, Kind.STREAM_STARTED, Kind.STREAM_HEARD)
_OWN = (Kind.TAKES_PART, Kind.EVENT_LOG, Kind.FAULT, Kind.HEAL, *_OF_SHARDS, *_OF_STREAMS)
_TAKES_PART, _EVENT_LOG, _FAULT, _HEAL, _COPY, _SEAL, _SHIP, _START, _STARTED, _HEARD = map(code, _OWN)
_LOST, _INTACT, _OK = (REASONS[word] for word in (ShardWord.LOST, ShardWord.INTACT, AnswerWord.OK))
_LOST_NAME = "lost_name"
"""The fault that takes a file from its directory; what it held is back when the fault ends."""
_MOST_ASKED = 1 << 16
"""Shards and streams of which it is known what was asked last; of streams before those nothing is judged."""
_WORDS = {_COPY: "stored", _SEAL: "sealed", _SHIP: "shipped"}
_IS_WANTED = lookup(_OWN)
_IS_TAKEN = lookup((*_OWN[:4], Kind.STREAM_START))
_IS_OF_SHARD = lookup(_OF_SHARDS)


class _Rows(NamedTuple):
    """The columns that are read."""

    seq: Cells
    kind: Cells
    node: Cells
    op: Cells
    peer: Cells
    f: Cells
    offset: Cells
    value: Cells
    epoch: Cells
    version: Cells
    filter: Cells
    reason: Cells
    incarnation: Cells


@kernel
def _skim(rows: _Rows, at: int, lost: Ints, rebuilt: Ints, stored: Ints) -> int:
    for i in range(at, len(rows.kind)):
        kind = rows.kind[i]
        if _IS_TAKEN[kind]:
            return i
        if kind == _COPY and 0 <= rows.node[i] < MOST_SHARDS:
            stored[rows.node[i]] = rows.seq[i]
        if lost[1] and _IS_WANTED[kind]:
            shard = rows.node[i] if _IS_OF_SHARD[kind] else rows.peer[i]
            if 0 <= shard < MOST_SHARDS and lost[1] >> shard & 1:
                speaks = not _IS_OF_SHARD[kind] and (kind != _HEARD or rows.version[i] < rebuilt[shard])
                if lost[0] >> shard & 1 or speaks:
                    return i
    return len(rows.kind)


class LostShardFold(StreamFold[_Rows]):
    """Judges what shards do that lost their data; see the module."""

    checks = CHECKS
    wanted = _IS_WANTED

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, _Rows)
        self._skim = _skim.often(setting.compiled)
        self._tally = self.tallies[REFUSES.id]
        self._statuses: Mapping[int, int] = {}
        self._version = 0  # of the event log
        self._back: dict[int, tuple[int, int]] = {}  # by shard that came back without its data: the version, the event
        self._since: dict[int, int] = {}  # by shard that is lost: the event that shows it
        # By shard and stream: the filter version of its last START, and the first event since that asked with it.
        self._asked: dict[tuple[int, int], tuple[int, int]] = {}
        self._changed: dict[int, int] = {}  # by shard: the event by which it was last lost, or back, or rebuilt
        self._lost = np.zeros(2, dtype=np.int64)  # who is, and who ever was
        self._elsewhere: dict[int, int] = {}  # by shard that was rebuilt: the event that says so
        self._rebuilt = np.zeros(MOST_SHARDS, dtype=np.int64)  # by shard: at which version what it lost was
        self._stored = np.full(MOST_SHARDS, NOWHERE)  # and the last event by which it stored something
        self._part: dict[int, int] = {}  # by shard: the event by which it took part last
        self._wiped: dict[int, int] = {}  # that by which its disk was emptied since
        self._emptied: dict[int, int] = {}  # and that behind which it has nothing, unless it stores something
        self._unnamed = False  # whether some disk was emptied, nobody knows which
        self._lost_name = setting.words.code(_LOST_NAME)
        self._nameless: set[int] = set()  # whose disk lacks a file

    def skim(self, rows: _Rows, at: int) -> int:
        """See `StreamFold`."""
        return self._skim(rows, at, self._lost, self._rebuilt, self._stored)

    def take(self, e: _Rows) -> None:
        """See `StreamFold`."""
        if e.kind == _EVENT_LOG:
            self._statuses, self._version = statuses_said(self.words.text(e.value)), max(self._version, e.version)
            for shard in [each for each in self._since if self._status(each) == AUTHORITATIVE_EMPTY]:
                self._is_rebuilt(shard, e.seq)
                self._rebuilt[shard], self._elsewhere[shard] = e.version, e.seq
        elif e.kind == _FAULT:
            if e.f == FAULT_WIPE:
                self._wiped[e.node] = e.seq
                self._unnamed |= e.node == NO_NODE
                self._loses(e)
            elif e.f == self._lost_name:
                self._nameless.add(e.node)
                self._unnamed |= e.node == NO_NODE
        elif e.kind == _HEAL:
            if e.f == self._lost_name:
                self._nameless.discard(e.node)
        elif e.kind == _TAKES_PART:
            self._takes_part(e)
            if e.reason == _LOST:
                self._loses(e)
                if e.node in self._since:
                    self._back[e.node] = self._version, e.seq
            elif e.reason == _INTACT and e.node in self._since:
                if e.node in self._nameless:
                    self._tally.unjudged += 1  # the file may be back
                else:
                    self._breaks("intact", self._since[e.node], e.seq, node=e.node)
                self._is_rebuilt(e.node, e.seq)
        elif e.kind == _START:
            self._asks(e)
        elif e.kind in _WORDS:
            self._does(e)
        elif e.peer in self._back and not self._answers_since(e):
            version, seq = self._back[e.peer]
            if e.version > version:
                # It was said since the shard came back: the event log did not have that version before.
                self._says(e, seq)
        elif self._answers_since(e):
            if e.peer in self._since:
                self._says(e, self._since[e.peer])
            elif e.peer in self._elsewhere:
                self._knows(e)

    def _takes_part(self, e: _Rows) -> None:
        """A shard comes back with its data or without; that a disk was emptied is recorded, whoever is silent."""
        if not 0 <= e.node < MOST_SHARDS:
            return
        tally, stored, part = self.tallies[EMPTIED.id], int(self._stored[e.node]), self._part.get(e.node, NOWHERE)
        self._part[e.node], wiped = e.seq, self._wiped.pop(e.node, NOWHERE)
        if e.reason != _LOST:
            self._emptied.pop(e.node, None)
            if e.reason == _INTACT and NOWHERE not in (part, wiped):
                tally.judged += 1
                tally.violation(wiped, e.seq, way="with", node=e.node)
            return
        had = max(stored, part)
        empty = wiped != NOWHERE or (e.node in self._emptied and stored < self._emptied[e.node])
        if e.node in self._nameless or empty:
            tally.judged += 1
        elif self._unnamed or (had == NOWHERE and e.incarnation != 0):
            tally.unjudged += 1
        else:
            tally.judged += 1
            tally.violation(*(() if had == NOWHERE else (had,)), e.seq, way="without", node=e.node)
        self._emptied[e.node] = e.seq

    def _status(self, shard: int) -> int | None:
        return self._statuses.get(shard)

    def _loses(self, e: _Rows) -> None:
        """A shard lost its data, unless that is elsewhere already; what it said until then may still be on its way."""
        if 0 <= e.node < MOST_SHARDS and e.node not in self._since and self._status(e.node) != AUTHORITATIVE_EMPTY:
            self._since[e.node] = e.seq
            self._back.pop(e.node, None)
            self._lost |= 1 << e.node
            self._changed[e.node] = e.seq

    def _knows(self, e: _Rows) -> None:
        """It answers a START that came after what it had was rebuilt."""
        rebuilt = int(self._rebuilt[e.peer])
        if e.kind == _STARTED and e.reason != _OK:
            return
        if e.version < rebuilt:
            found = {"peer": e.peer, "op": e.op, "version": e.version, "rebuilt": rebuilt}
            self._breaks("older", self._elsewhere[e.peer], e.seq, may_be_rebuilt=False, **found)
        else:
            self._tally.judged += e.kind == _STARTED

    def _is_rebuilt(self, shard: int, seq: int) -> None:
        del self._since[shard]
        self._back.pop(shard, None)
        self._lost[0] &= ~(1 << shard)
        self._changed[shard] = seq

    def _asks(self, e: _Rows) -> None:
        """A START; one that is repeated bears the filter version of the first, and either may be answered."""
        asked = self._asked.get((e.peer, e.op))
        if asked is None or asked[0] != e.filter:
            self._asked[e.peer, e.op] = (e.filter, e.seq)
            if len(self._asked) > _MOST_ASKED:
                del self._asked[next(iter(self._asked))]

    def _answers_since(self, e: _Rows) -> bool:
        """Whether what a shard says can only answer a START since it was last lost or rebuilt."""
        filter_version, first = self._asked.get((e.peer, e.op), (NOWHERE, NOWHERE))
        return first > self._changed.get(e.peer, first) and filter_version == e.filter

    def _breaks(self, way: str, *seqs: int, may_be_rebuilt: bool = True, **found: object) -> None:
        """One more violation; a record of the event log may say that the shard was rebuilt, unless there is none."""
        self._tally.judged += 1
        rests_on = (Kind.EVENT_LOG,) if may_be_rebuilt else ()
        self._tally.violation(*seqs, way=way, rests_on=rests_on, **found)

    def _does(self, e: _Rows) -> None:
        """A shard that lost its data stores, seals or ships."""
        found = {_COPY: {"lsn": shown(e.offset)}, _SEAL: {"epoch": e.epoch}, _SHIP: {"op": e.op}}[e.kind]
        self._breaks(_WORDS[e.kind], self._since[e.node], e.seq, node=e.node, **found)

    def _says(self, e: _Rows, shows: int) -> None:
        """It answers a START that came after the loss, which an event ``shows``."""
        if e.kind == _HEARD:
            found = {"peer": e.peer, "op": e.op, "lsn": shown(e.offset)}
            self._breaks("said", shows, e.seq, may_be_rebuilt=e.version != 0, **found)
        elif e.reason == _OK:
            found = {"peer": e.peer, "op": e.op}
            self._breaks("answered", shows, e.seq, may_be_rebuilt=e.version != 0, **found)
        else:
            self._tally.judged += 1


FAMILY = Family(
    "read_path_lost_shards",
    CHECKS,
    frozenset(_OWN),
    ("node", "op", "peer", "f", "offset", "value", "epoch", "version", "filter", "reason", "incarnation"),
    LostShardFold,
    READ_PATH,
    reads_texts=True,
)
