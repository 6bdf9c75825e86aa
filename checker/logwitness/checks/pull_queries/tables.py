"""What servers answer, report and assign is true: held against what the group of each changelog showed.

Table(p, n), the fold of the first n offsets of a changelog, is computed here once more from what the group showed.

Sources: pull-queries.md#materialised-state, pull-queries.md#assignment, pull-queries.md#lag.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from loghistory.schema import Kind

from ..codes import FAIL, INFO, INVOKE, OK, code, lookup
from ..columns import Columns, Ints
from ..contract import Check, Family, Setting
from .plain_queries import READS, Plain, QueryFold, state
from .plain_queries.reading import INTEGER, NONE, WORD
from .protocol import PULL_QUERIES, Assigned, Filter, Positions, Queries, Query, Record, Rows, Status, View, said
from .skimming import NOWHERE

ROWS = Check(
    id="rows-are-the-table",
    rule="The rows of a partition are those of the table at the position that the answer states, which the changelog "
    "has reached.",
    source=("pull-queries.md#rows-are-the-table", "pull-queries.md#table-at-position", "pull-queries.md#changelog"),
    fact="the rows of a partition, as a server answers or a client gets them",
    sentence={
        "beyond": "The rows of partition {partition} for operation {op} are said to be those at position {position}, "
        "but the changelog has {end:offset|offsets}.",
        "rows": "The rows of partition {partition} for operation {op} are not those of the table at position "
        "{position}.",
    },
    kinds=(Kind.CHANGELOG, Kind.INVOKE),
    columns=("partition", "offset"),
    looks_back=True,
)
REPORTS = Check(
    id="reports-are-true",
    rule="A lag report states how many offsets the host has passed, and an end behind them that the changelog has "
    "reached; a host that keeps the partition never lowers that end.",
    source=("pull-queries.md#current-and-end", "pull-queries.md#saved-together"),
    fact="a partition in a lag report",
    sentence={
        "current": "Node {node} reported at {stamp} that it has passed {current:offset|offsets} of partition "
        "{partition}, but it has passed {passed}.",
        "fell": "Node {node} reported at {stamp} that the changelog of partition {partition} ends at {end}, having "
        "reported {before} before.",
        "below": "Node {node} reported at {stamp} that the changelog of partition {partition} ends at {end}, although "
        "it has passed {current:offset|offsets}.",
        "end": "Node {node} reported at {stamp} that the changelog of partition {partition} ends at {end}, but it ends "
        "at {true_end}.",
    },
    kinds=(Kind.REPORT, Kind.CHANGELOG),
    columns=("node", "stamp"),
    looks_back=True,
)
TIMES = Check(
    id="report-times-rise",
    rule="The times of the lag reports that a server keeps of a host never fall, and it routes by what it keeps.",
    source=("pull-queries.md#report-times-rise", "pull-queries.md#report-replaces"),
    fact="a lag report that is kept, or a query routed by those that are",
    sentence={
        "fell": "Node {node} replaced the lag report that node {peer} made at {before} by the one made at {stamp}.",
        "view": "Node {node} routed operation {op} by a lag report of {host} that is not the one it keeps.",
    },
    kinds=(Kind.REPORT_KEPT,),
    columns=("node", "peer", "stamp"),
    looks_back=True,
)
PREFIXES = Check(
    id="assignments-are-prefixes",
    rule="What servers have folded of the assignments are prefixes of one another, epoch by epoch the same, and they "
    "route by it.",
    source=(
        "pull-queries.md#assignments-are-prefixes",
        "pull-queries.md#assignment-epochs",
        "pull-queries.md#routes-by-fold",
    ),
    fact="an assignment that a server folded, or a query that it routed since",
    sentence={
        "skipped": "Node {node} folded the assignment of epoch {epoch} after that of epoch {before}.",
        "view": "Node {node} routed operation {op} by an assignment, of epoch {epoch}, that is not the one it folded "
        "last.",
        "differs": "Node {node} and node {peer} folded different assignments of epoch {epoch}.",
    },
    kinds=(Kind.ASSIGNED,),
    columns=("node", "epoch"),
    looks_back=True,
)
SHOWN = Check(
    id="shown-is-kept",
    rule="The status of the cluster shows the lag report that is kept of a host that is alive, and none of a dead one.",
    source=("pull-queries.md#shown-is-kept", "pull-queries.md#report-replaces"),
    fact="a host of which a server shows the status",
    sentence={
        "dead": "Node {node} showed {host} as dead together with the lag that it reported at {stamp}.",
        "other": "Node {node} showed {host} as alive, but without the lag report that it keeps of it.",
    },
    kinds=(Kind.SHOWN,),
    columns=("node",),
    looks_back=True,
)
TAKEOVER = Check(
    id="takeover-comes-first",
    rule="The first record of an epoch in a changelog is the takeover of its active.",
    source=("pull-queries.md#takeover-comes-first", "pull-queries.md#takeover"),
    fact="a record of a changelog with a larger epoch than those before it",
    sentence="Offset {offset} of the changelog of partition {partition} is a change of epoch {epoch}, of which no "
    "takeover comes before it.",
    kinds=(Kind.CHANGELOG,),
    columns=("partition", "offset"),
    looks_back=True,
)
CHECKS = (ROWS, REPORTS, TIMES, PREFIXES, SHOWN, TAKEOVER)

_KINDS = frozenset(
    {
        Kind.SERVE,
        Kind.CHANGELOG,
        Kind.FOLD,
        Kind.REPORT,
        Kind.REPORT_HEARD,
        Kind.REPORT_KEPT,
        Kind.ASSIGNED,
        Kind.ANSWER,
        Kind.ROWS,
        Kind.ROUTE,
        Kind.SHOWN,
    }
)
_SERVE, _CHANGELOG, _FOLD, _REPORT, _REPORT_HEARD, _REPORT_KEPT, _ASSIGNED, _ROUTE, _SHOWN, _ANSWER, _ROWS = map(
    code,
    (
        Kind.SERVE,
        Kind.CHANGELOG,
        Kind.FOLD,
        Kind.REPORT,
        Kind.REPORT_HEARD,
        Kind.REPORT_KEPT,
        Kind.ASSIGNED,
        Kind.ROUTE,
        Kind.SHOWN,
        Kind.ANSWER,
        Kind.ROWS,
    ),
)

_OF_CLIENTS = frozenset({Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO})
_IS_WANTED = lookup(_KINDS | _OF_CLIENTS)
_FACTS = {ROWS.id: state.TABLE_ROWS, TIMES.id: state.VIEWS, PREFIXES.id: state.VIEWS}

Value = int | float | str


_MANY = 4096
"""Rows that are known to be right for a while."""


class Changelog:
    """What a group showed of one changelog, folded; ``end`` offsets are known from the first on without a gap."""

    def __init__(self) -> None:
        self.end = self.epoch = self.source = 0
        self.whole = True
        """Whether nothing was shown that could not be folded."""
        self._positions: dict[str, list[int]] = {}
        self._values: dict[str, list[Value | None]] = {}
        self._early: list[int] = []  # the last offsets taken, before anybody could look at them: the events

    def forget_events(self) -> None:
        """Nobody looks at a place before those taken so far any more."""
        self._early.clear()

    def end_at(self, seq: int) -> int:
        """How many offsets were known before an event."""
        return self.end - len(self._early) + bisect_left(self._early, seq)

    def take(self, seqs: Ints, offsets: Ints, at: Ints, found: Plain) -> bool:
        """Take offsets of one epoch early, ``at``: where it is said what they hold; whether they are such."""
        numbers, records = found.numbers, np.flatnonzero(at >= 0)
        said = at[records]
        in_order = offsets[0] == self.end and bool((np.diff(offsets) == 1).all())
        of_epoch = numbers[said] == self.epoch
        sources = numbers[said + 1]
        due = np.maximum.accumulate(np.append(self.source, sources + 1))  # as long as none comes before its turn
        if not (self.whole and in_order and of_epoch.all() and (sources <= due[:-1]).all()):
            return False
        said, records = said[sources == due[:-1]], records[sources == due[:-1]]
        self._early += seqs.tolist()
        self.end += len(offsets)
        self.source = int(due[-1])
        keyed = np.flatnonzero(numbers[said + 2] >= 0)
        keys = numbers[said[keyed] + 2]
        order = np.argsort(keys, kind="stable")
        keys, keyed = keys[order], keyed[order]
        said, positions = said[keyed], (offsets[records[keyed]] + 1).tolist()
        values: list[Value | None] = numbers[said + 4].tolist()
        for place in np.flatnonzero(numbers[said + 3] != INTEGER).tolist():
            values[place] = found.name(int(numbers[said[place] + 4])) if numbers[said[place] + 3] == WORD else None
        starts = np.flatnonzero(np.diff(keys, prepend=NOWHERE)).tolist()
        for start, end in pairwise([*starts, len(keys)]):
            key = found.name(int(keys[start]))
            self._positions.setdefault(key, []).extend(positions[start:end])
            self._values.setdefault(key, []).extend(values[start:end])
        return True

    def show(self, offset: int, record: Record | None, own: bool, early: int | None = None) -> None:
        """Take the next offset; ``own``: a record of Raft's own, which changes nothing; ``early``: the event, if others
        before it are still to be taken."""
        self.whole = self.whole and offset == self.end and (own or record is not None)
        if not self.whole:
            return
        if early is not None:
            self._early.append(early)
        self.end += 1
        if record is None or record.epoch < self.epoch:
            return
        if record.source is not None:
            if record.source != self.source:
                return
            self.source += 1
            if record.key is not None:
                self._positions.setdefault(record.key, []).append(self.end)
                self._values.setdefault(record.key, []).append(record.value)
        self.epoch = record.epoch

    def rows(self, position: int, query: Query) -> Rows:
        """The rows that a query gets of the table at a position, by key."""
        wanted = self._positions if query.keys is None else set(query.keys) & self._positions.keys()
        found: Rows = []
        for key in sorted(wanted):
            place = bisect_right(self._positions[key], position)
            value = self._values[key][place - 1] if place else None
            if value is not None and (query.filter is None or admits(query.filter, key, value)):
                found.append((key, value))
        return found


def _record(found: Plain, at: int) -> Record:
    """The record that is said at a place."""
    epoch, source = found.numbers[at : at + 2].tolist()
    if source == NONE:
        return Record(epoch)
    key, form, value = found.numbers[at + 2 : at + 5].tolist()
    said = value if form == INTEGER else found.name(value) if form == WORD else None
    return Record(epoch, source, None if key == NONE else found.name(key), said)


def _others_begin(at: Ints, found: Plain) -> Ints:
    """Where records of another epoch begin among those of one changelog, or changes behind a takeover."""
    records = np.flatnonzero(at >= 0)
    epochs, sources = found.numbers[at[records]], found.numbers[at[records] + 1]
    begins: Ints = records[1:][(np.diff(epochs) != 0) | (sources[:-1] == NONE)]
    return begins


def admits(wanted: Filter, key: str, value: Value) -> bool:
    """Whether a scan wants a row; words and numbers never compare (pull-queries.md#http)."""
    found, other = key if wanted.column == "k" else value, wanted.value
    if isinstance(found, str) != isinstance(other, str):
        return wanted.op == "!="
    less, equal = found < other, found == other  # type: ignore[operator]
    return {"=": equal, "!=": not equal, "<": less, "<=": less or equal, ">": not less and not equal, ">=": not less}[
        wanted.op
    ]


@dataclass(slots=True)
class _Life:
    """What a process of a server has: offsets passed by partition, reports heard and kept, its assignment."""

    passed: dict[int, int] = field(default_factory=dict)
    folded: dict[int, int] = field(default_factory=dict)  # by partition: the event of the last fold
    heard: dict[int, tuple[int, int]] = field(default_factory=dict)  # by peer: stamp and text of the last report
    kept: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # by peer: stamp, text, event
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)  # by partition: the last end reported, the event
    records: dict[str, tuple[int, Positions | None]] | None = None  # what is kept, by host; None: to be put together
    epoch: int = 0
    assigned: int = -1
    assignment: int = 0  # its text


class TableFold(QueryFold):
    """Judges what servers of one run have, say and answer; see the module."""

    checks = CHECKS
    reads = (*READS, "last_offset", "epoch")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._logs: dict[int, Changelog] = {}
        self._queries: Queries[tuple[int, int]] = Queries()  # the text and the event
        self._lives: dict[int, _Life] = {}
        self._furthest: dict[tuple[int, int], int] = {}  # by node and partition: offsets passed in any life
        self._assignments: dict[int, tuple[int, int, int]] = {}  # by epoch: text, node, event
        self._right_here: list[bool] = []  # which of the events at hand were judged
        self._right: set[tuple[int, int, int, int]] = set()  # query, partition, position and rows that were compared
        self._untaken: list[tuple[int, int, int, int]] = []  # event, partition, offset and epoch without a takeover

    def feed(self, columns: Columns) -> None:
        """Take the next events of the run."""
        found = self.plain(columns, _FACTS)
        plain = None
        if found is not None:
            plain = found.of_tables
            kept = (columns.kind == _REPORT_KEPT) & found.right
            self._tallies[TIMES.id].judged += int(np.count_nonzero(kept))
            self._tallies[REPORTS.id].judged += found.reported
            self._coming(columns, np.flatnonzero((columns.kind == _CHANGELOG) & found.right), found)
        rows = self.rows(columns, _IS_WANTED, plain)
        if found is not None:
            self._right_here = found.right[self.which].tolist()
        for at, kind in enumerate(rows.kind):
            if kind == _CHANGELOG:
                self._shown(rows, at)
            elif kind == INVOKE:
                self._queries[rows.op[at]] = rows.value[at], rows.seq[at]
            elif kind in (OK, FAIL, INFO):
                self._queries.close(rows.op[at], kind, rows.time[at])
            elif kind == _SERVE:
                self._hosts.serve(rows.node[at], rows.value[at])
                self._lives[rows.node[at]] = _Life()
                for life in self._lives.values():
                    life.records = None  # a node may have another name
            elif kind in _OF_LIVES:
                life = self._lives.setdefault(rows.node[at], _Life())
                _OF_LIVES[kind](self, rows, at, life)
            else:
                self._answered(rows, at)
        for seq, partition, offset, epoch in sorted(self._untaken):
            self._tallies[TAKEOVER.id].violation(seq, partition=partition, offset=offset, epoch=epoch)
        self._untaken.clear()

    def _shown(self, rows: Columns, at: int) -> None:
        text, record = self._words.text(rows.value[at]), said(self._words, rows.value[at], Record)
        self._shows(rows.seq[at], rows.partition[at], rows.offset[at], record, text is None)

    def _shows(
        self, seq: int, partition: int, offset: int, record: Record | None, own: bool, *, early: bool = False
    ) -> None:
        log = self._logs.setdefault(partition, Changelog())
        before = log.epoch
        log.show(offset, record, own, seq if early else None)
        if log.whole and record is not None and record.epoch > before:
            self._tallies[TAKEOVER.id].judged += 1
            if record.source is not None:
                self._untaken.append((seq, partition, offset, record.epoch))

    def _coming(self, columns: Columns, which: Ints, found: Plain) -> None:
        """Take what changelogs show as they should, before it is looked at; of the rest one after the other."""
        at = found.said[which]
        for log in self._logs.values():
            log.forget_events()
        runs: list[tuple[int, Ints]] = []
        for partition in np.unique(columns.partition[which]).tolist():
            own = np.flatnonzero(columns.partition[which] == partition)
            runs += [(partition, run) for run in np.split(own, _others_begin(at[own], found))]
        for partition, run in sorted(runs, key=lambda each: int(each[1][0])):
            log = self._logs.setdefault(partition, Changelog())
            seqs, offsets = columns.seq[which[run]], columns.offset[which[run]]
            if not log.take(seqs, offsets, at[run], found):
                for seq, offset, place in zip(seqs.tolist(), offsets.tolist(), at[run].tolist(), strict=True):
                    record = None if place < 0 else _record(found, place)
                    self._shows(seq, partition, offset, record, record is None, early=True)

    def _answered(self, rows: Columns, at: int) -> None:
        """Rows as a server answers them, or as a client gets them."""
        tally, op, partition, position = self._tallies[ROWS.id], rows.op[at], rows.partition[at], rows.offset[at]
        (asked, invoked), answered = self._queries.get(op, rows.time[at]) or (0, -1), rows.value[at]
        compared = asked, partition, position, answered
        if compared in self._right:  # servers answer what clients get
            tally.judged += 1
            return
        log = self._logs.get(partition) or Changelog()
        query, answer = said(self._words, asked, Query), said(self._words, answered, Rows)
        end = log.end_at(rows.seq[at])
        if position > end and log.whole:
            tally.judged += 1
            place = {"partition": partition, "op": op, "position": position, "end": end}
            tally.violation(rows.seq[at], way="beyond", rests_on=(Kind.CHANGELOG,), **place)
        elif query is None or answer is None or position > end:
            tally.unjudged += 1
        else:
            tally.judged += 1
            if answer != log.rows(position, query):
                tally.violation(invoked, rows.seq[at], way="rows", partition=partition, op=op, position=position)
                return
            if len(self._right) >= _MANY:
                self._right.clear()
            self._right.add(compared)

    def _folded(self, rows: Columns, at: int, life: _Life) -> None:
        partition, passed = rows.partition[at], rows.last_offset[at] + 1
        life.passed[partition], life.folded[partition] = passed, rows.seq[at]
        place = rows.node[at], partition
        self._furthest[place] = max(self._furthest.get(place, 0), passed)

    def _reported(self, rows: Columns, at: int, life: _Life) -> None:
        """A report; before the first fold of a life its tables are as they were saved."""
        node, stamp, seq, tally = rows.node[at], rows.stamp[at], rows.seq[at], self._tallies[REPORTS.id]
        life.heard[node] = stamp, rows.value[at]
        positions = said(self._words, rows.value[at], Positions)
        if self._right_here and self._right_here[at] and positions is not None:
            life.ends.update((partition, (end, seq)) for partition, (_, end) in positions.items())
            return
        if positions is None:
            tally.unjudged += 1
            return
        for partition, (current, end) in sorted(positions.items()):
            log = self._logs.get(partition) or Changelog()
            tally.judged += 1
            passed = life.passed.get(partition)
            most = self._furthest.get((node, partition), 0)
            wrong = current != passed if passed is not None else current > most
            if wrong or end < current:
                about = {"node": node, "stamp": stamp, "partition": partition, "current": current}
                if wrong:
                    shown = (life.folded.get(partition, -1), seq)
                    known = most if passed is None else passed
                    tally.violation(*shown, way="current", rests_on=(Kind.FOLD,), passed=known, **about)
                if end < current:
                    tally.violation(seq, way="below", end=end, **about)
            before, last_report = life.ends.get(partition, (end, -1))
            life.ends[partition] = end, seq
            if end < before:
                place = {"node": node, "stamp": stamp, "partition": partition, "end": end, "before": before}
                tally.violation(last_report, seq, way="fell", **place)
            true_end = log.end_at(seq)
            if end > true_end and log.whole:
                place = {"node": node, "stamp": stamp, "partition": partition, "end": end, "true_end": true_end}
                tally.violation(seq, way="end", rests_on=(Kind.CHANGELOG,), **place)

    def _report_heard(self, rows: Columns, at: int, life: _Life) -> None:
        life.heard[rows.peer[at]] = rows.stamp[at], rows.value[at]

    def _report_kept(self, rows: Columns, at: int, life: _Life) -> None:
        node, peer, stamp, seq = rows.node[at], rows.peer[at], rows.stamp[at], rows.seq[at]
        tally = self._tallies[TIMES.id]
        tally.judged += not (self._right_here and self._right_here[at])
        before, _, kept = life.kept.get(peer, (stamp, 0, -1))
        if stamp < before:
            tally.violation(kept, seq, way="fell", node=node, peer=peer, stamp=stamp, before=before)
        heard, text = life.heard.get(peer, (stamp, 0))
        life.kept[peer] = stamp, text if heard == stamp else 0, seq
        life.records = None

    def _routed(self, rows: Columns, at: int, life: _Life) -> None:
        """A view has the reports that are kept."""
        tally, view = self._tallies[TIMES.id], said(self._words, rows.value[at], View)
        if view is None:
            tally.unjudged += 1
            return
        tally.judged += 1
        folded, prefixes = said(self._words, life.assignment, Assigned), self._tallies[PREFIXES.id]
        prefixes.judged += folded is not None
        if folded not in (None, view.assignment):
            place = {"node": rows.node[at], "op": rows.op[at], "epoch": view.assignment.epoch}
            prefixes.violation(life.assigned, rows.seq[at], way="view", **place)
        if life.records is None:
            life.records = self._records(life)
        if view.records == life.records:
            return
        for host in sorted(view.records.keys() | life.records.keys()):
            stamp, text, kept = life.kept.get(self._hosts.nodes.get(host, -1), (-1, 0, -1))
            if host in self._hosts.nodes and view.records.get(host) != (stamp, said(self._words, text, Positions)):
                place = {"node": rows.node[at], "op": rows.op[at], "host": host}
                by = Kind.REPORT if self._hosts.nodes[host] == rows.node[at] else Kind.REPORT_HEARD
                rests_on = (Kind.REPORT_KEPT,) if kept < 0 else (by,) if text == 0 else ()
                tally.violation(kept, rows.seq[at], way="view", rests_on=rests_on, **place)

    def _records(self, life: _Life) -> dict[str, tuple[int, Positions | None]]:
        """The lag reports that a server keeps, by host; None: what it says cannot be told."""
        kept = {host: life.kept[node][:2] for host, node in self._hosts.nodes.items() if node in life.kept}
        return {host: (stamp, said(self._words, text, Positions)) for host, (stamp, text) in kept.items()}

    def _status_shown(self, rows: Columns, at: int, life: _Life) -> None:
        tally, statuses = self._tallies[SHOWN.id], said(self._words, rows.value[at], Status)
        if statuses is None:
            tally.unjudged += 1
            return
        for host, (alive, _, stamp) in statuses.items():
            tally.judged += 1
            before, _, kept = life.kept.get(self._hosts.nodes.get(host, -1), (None, 0, -1))
            place = {"node": rows.node[at], "host": host}
            if stamp is not None and not alive:
                tally.violation(kept, rows.seq[at], way="dead", stamp=stamp, **place)
            elif alive and stamp != before:
                rests_on = (Kind.REPORT_KEPT,) if before is None else ()
                tally.violation(kept, rows.seq[at], way="other", rests_on=rests_on, **place)

    def _assigned(self, rows: Columns, at: int, life: _Life) -> None:
        node, epoch, text, seq = rows.node[at], rows.epoch[at], rows.value[at], rows.seq[at]
        tally = self._tallies[PREFIXES.id]
        tally.judged += 1
        if epoch != life.epoch + 1:
            tally.violation(life.assigned, seq, way="skipped", node=node, epoch=epoch, before=life.epoch)
        other, peer, event = self._assignments.setdefault(epoch, (text, node, seq))
        if self._plain(other) != self._plain(text):
            tally.violation(event, seq, way="differs", node=node, epoch=epoch, peer=peer)
        life.epoch, life.assigned, life.assignment = epoch, seq, text
        self._keeps(node, life, said(self._words, text, Assigned))

    def _keeps(self, node: int, life: _Life, assigned: Assigned | None) -> None:
        """What a host reported of a partition that an assignment takes away is over: it may come back with less."""
        server = self._hosts.servers.get(node)
        placements = () if assigned is None else assigned.placements
        for partition in list(life.ends):
            active, standbys = placements[partition] if 0 <= partition < len(placements) else ("", ())
            if server is None or server.host not in (active, *standbys):
                del life.ends[partition]

    def _plain(self, text: int) -> Assigned | str | None:
        """What an assignment says, however it is written; as it stands if that cannot be told."""
        return said(self._words, text, Assigned) or self._words.text(text)


_OF_LIVES = {
    _FOLD: TableFold._folded,
    _REPORT: TableFold._reported,
    _REPORT_HEARD: TableFold._report_heard,
    _REPORT_KEPT: TableFold._report_kept,
    _ASSIGNED: TableFold._assigned,
    _ROUTE: TableFold._routed,
    _SHOWN: TableFold._status_shown,
}
"""What is judged in the life of one process, by the kind of event."""

FAMILY = Family(
    "pull_queries_tables",
    CHECKS,
    _KINDS | _OF_CLIENTS,
    TableFold.reads,
    TableFold,
    PULL_QUERIES,
    reads_texts=True,
)
