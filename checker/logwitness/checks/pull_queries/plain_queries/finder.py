"""Queries that plainly break no rule, found at once for all folds.

Most queries are routed to candidates by a view of what the server knows, past those that do not answer, answered with
the rows of the table, and over. A compiled loop tells them, from what texts say in numbers (`reading`), and counts the
facts that each check would judge; the folds never see their events. It keeps what is needed for that: the changelogs,
the last lag reports, queries on their way. Whatever differs, it leaves to the folds, as if they had seen nothing else:
a query, with all its events, of which one is not as it should be, or lies in another piece of the history, or on the
other side of an event after which servers know something else (`IS_TURN`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np

from loghistory.schema import Kind

from ...codes import INVOKE, NULL, code, how_many
from ...columns import Array, Columns, Ints, read_only
from ...contract import Setting
from ...hashing import Table, empty_table, place_of, roomy
from ...words import Words
from ..protocol import EARLIEST, Hosts, ServerFold, rising
from ..skimming import FEW, NOWHERE
from .loop import IS_OF_QUERY, IS_TURN, look
from .overwritten import overwritten
from .reading import ASKED, ASSIGNED, FINISHED, NAME, POSITIONS, QUERY, RECORD, ROWS, VIEW, Reading, Said
from .state import (
    LEFT,
    MAY,
    OVER,
    PUT,
    VIEWS,
    Changes,
    Keys,
    Lives,
    Logs,
    OfQueries,
    Parts,
    Reports,
    Rows,
    Servers,
    State,
)

_SERVE, _ASSIGNED, _CHANGELOG, _ROUTE = map(code, (Kind.SERVE, Kind.ASSIGNED, Kind.CHANGELOG, Kind.ROUTE))
_FORMS = {
    Kind.INVOKE: QUERY,
    Kind.ROUTE: VIEW,
    Kind.FORWARD: ASKED,
    Kind.FORWARDED: ASKED,
    Kind.ANSWER: ROWS,
    Kind.ROWS: ROWS,
    Kind.FINISH: FINISHED,
    Kind.CHANGELOG: RECORD,
    Kind.REPORT: POSITIONS,
    Kind.REPORT_HEARD: POSITIONS,
    Kind.ASSIGNED: ASSIGNED,
}
_FORM_OF = np.full(len(IS_TURN), NOWHERE, np.int8)
for _kind, _form in _FORMS.items():
    _FORM_OF[code(_kind)] = _form
_MS = 1_000_000
_SLACK = 1000
"""Milliseconds that a round of attempts may take besides the time-out."""
_MOST_PARTITIONS = 60


class Plain(NamedTuple):
    """What was found of a piece: which events belong to queries that are plainly right, and what facts these are."""

    events: Array
    placed: Array
    """The same, but for queries of which the loop cannot tell who may answer."""
    right: Array
    """Which events of changelogs, folds and reports are plainly right: what a report said that was heard, for one."""
    reported: int
    """Partitions in reports that are right."""
    facts: Ints
    ended: Sequence[tuple[int, Ints]]
    """How many of them ended at each node before which place."""
    numbers: Ints
    said: Ints
    """What texts say; of a route or a changelog where its own is said there (`reading`), or `NOWHERE`."""
    time: Ints
    """The times of the events, which never fall (`rising`)."""
    names: Mapping[str, int]
    """The number of the name of each host."""
    name: Callable[[int], str]
    """The string that has a number among what texts say."""
    of_tables: Array
    of_placements: Array
    """Events that the folds of tables and of placements need not take: plain queries, and what is `overwritten`."""


class PlainQueries:
    """Finds the queries of one log that are plainly right, piece by piece."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._put = words.code("put")
        self._hosts = Hosts(words)
        self._reading = Reading(words)
        self._began = np.zeros(FEW, np.int64)
        self._assigned: dict[int, int] = {}  # by node: the text
        self._now = EARLIEST
        self._most = 0
        self._logs = Logs(*(np.zeros(0, np.int64) for _ in Logs._fields))
        self._reports = _reports(0)
        self._lives = _lives(0)
        self._keys = Keys(*(np.zeros(0, np.int64) for _ in Keys._fields))
        self._changes = Changes(*(np.zeros(0, np.int64) for _ in Changes._fields))
        self._of_keys = empty_table()
        self._used = np.zeros(5, np.int64)
        self._left: list[int] = []  # operations of which the folds have seen a part
        self._last: tuple[Columns, Plain] | None = None

    def of(self, columns: Columns) -> Plain:
        """What is plain in the next events of the log, for each fold that asks."""
        if self._last is None or self._last[0] is not columns:
            self._last = columns, self._look(columns)
        return self._last[1]

    def _look(self, columns: Columns) -> Plain:
        kind = columns.kind
        time = rising(columns.time, self._now)
        if not len(kind):
            nothing, few = np.zeros(0, bool), np.zeros(VIEWS + 1, np.int64)
            return Plain(
                nothing, nothing, nothing, 0, few, (), few, time, time, {}, self._reading.name, *2 * (nothing,)
            )
        self._now = int(time[-1])
        texts = columns.value - (NULL + 1)
        texts[(texts < 0) | (texts >= self._words.texts)] = NOWHERE
        forms = _FORM_OF.take(kind)
        forms[(kind == INVOKE) & (columns.f == self._put)] = NOWHERE
        self._prepare(columns)
        more = {f'"{name}"': NAME for name in self._names}
        more |= {self._words.text(text) or "": ASSIGNED for text in self._assigned.values()}
        said, numbers, given = self._reading.read(texts, forms, more)
        at = {text: int(said.at[number]) for text, number in zip(more, given, strict=True)}
        at_of = {node: at[self._words.text(text) or ""] for node, text in self._assigned.items()}
        name_of = {name: int(said.numbers[at[f'"{name}"']]) for name in self._names if at[f'"{name}"'] >= 0}
        held = columns._asdict() | {"time": time, "text": numbers}
        return self._found(columns, Rows(*(read_only(held[name]) for name in Rows._fields)), said, name_of, at_of)

    def _prepare(self, columns: Columns) -> None:
        """Make room for what these events may add."""
        served = Hosts(self._words)
        self._names = {server.host for server in self._hosts.servers.values()}
        for text in columns.value[columns.kind == _SERVE].tolist():
            served.serve(0, text)
            self._names |= {server.host for server in served.servers.values()}
            most = max((server.partitions for server in served.servers.values()), default=0)
            if self._most < most <= _MOST_PARTITIONS:
                self._widen(most)
        more = how_many(columns.kind, _CHANGELOG)
        keys, changes = map(int, self._used[:2])
        self._keys = Keys(*(_longer(each, keys + more) for each in self._keys))
        self._changes = Changes(*(_longer(each, changes + more) for each in self._changes))
        self._of_keys = roomy(self._of_keys, keys, more, compiled=True)

    def _widen(self, most: int) -> None:
        """Make room for more partitions; of reports so far nobody can say then what they say."""
        more, before = most - self._most, self._reports
        self._most = most
        fill = {"whole": 1, "first": NOWHERE}
        self._logs = Logs(
            *(
                np.append(each, np.full(more, fill.get(name, 0)))
                for name, each in zip(Logs._fields, self._logs, strict=True)
            )
        )
        after = _reports(most)
        stamps = {"heard_stamp": before.heard_stamp, "kept_stamp": before.kept_stamp}
        self._reports = after._replace(heard=2 * np.sign(before.heard), kept=2 * np.sign(before.kept), **stamps)
        self._lives = _lives(most)._replace(newest=self._lives.newest, kept=self._lives.kept)

    def _found(
        self, columns: Columns, rows: Rows, said: Said, name_of: Mapping[str, int], at_of: dict[int, int]
    ) -> Plain:
        """Go through the events, from one turn to the next."""
        kind, size = rows.kind, len(rows.kind)
        ops = rows.op[IS_OF_QUERY.take(kind)]
        asked = _at_most(ops) + len(self._left)
        routed = how_many(kind, _ROUTE)
        queries = OfQueries(*(np.zeros(asked, np.int64) for _ in OfQueries._fields))
        queries.may[:] = 1
        parts = Parts(*(np.full(routed * self._most, NOWHERE) for _ in Parts._fields))
        for column in parts[:3]:
            column[:] = 0
        self._used[3] = 0
        facts = np.zeros((asked, VIEWS + 1), np.int64)
        table = self._taken_up(queries, asked)
        query_of, said_here = np.full((2, size), NOWHERE)
        right_here, reported = np.zeros(size, bool), np.zeros(1, np.int64)
        self._lives.text[:] = NOWHERE
        node_of = np.full(int(self._reading.strings.used[0]) + 1, NOWHERE)
        begin, servers = 0, self._servers(name_of, at_of, node_of)
        for at in [*np.flatnonzero((kind == _SERVE) | (kind == _ASSIGNED)).tolist(), size]:
            node = int(rows.node[at]) if at < size else NOWHERE
            if at < size and kind[at] == _ASSIGNED:
                if 0 <= node < FEW:
                    self._assigned[node], text = int(columns.value[at]), int(rows.text[at])
                    at_of[node] = int(said.at[text]) if text >= 0 and said.forms[text] == ASSIGNED else NOWHERE
                continue
            state = State(
                servers, self._reports, self._lives, self._logs, self._keys, self._changes, self._of_keys, queries,
                parts, table, facts, self._used, node_of, reported, self._reading.strings, said,
            )  # fmt: skip
            here = (column[begin:at] for column in (query_of, right_here, said_here))
            look.compiled(Rows(*(column[begin:at] for column in rows)), self._put, begin, state, *here)
            if 0 <= node < FEW:
                self._serves(node, int(columns.value[at]), int(rows.time[at]))
                at_of.pop(node, None)
                servers = self._servers(name_of, at_of, node_of)
            begin = at + 1
        some = queries.state[: int(self._used[2])]
        open_yet = (some != OVER) & (some != PUT) & (queries.closed[: len(some)] == 0)
        self._left = queries.op[: len(some)][open_yet].tolist()
        over = np.flatnonzero(queries.state == OVER)
        of_over = facts[over]
        of_over[:, MAY] *= queries.may[over]
        # Of a number that was used again later, all is left to the folds.
        turns = np.append(np.flatnonzero(IS_TURN.take(kind)), size)
        ends = np.searchsorted(turns, queries.ended[over])
        by_turn = [(int(turns[end]), queries.router[over[ends == end]]) for end in np.unique(ends).tolist()]
        ended = [(turn, np.bincount(routers, minlength=FEW)) for turn, routers in by_turn]
        of_turns = int(reported[0]), of_over.sum(axis=0), ended
        events, placed, *left_out = overwritten(columns, self._most, query_of, queries, right_here)
        names = name_of, self._reading.name
        return Plain(events, placed, right_here, *of_turns, said.numbers, said_here, rows.time, *names, *left_out)

    def _taken_up(self, queries: OfQueries, asked: int) -> Table:
        """The rows of queries by their numbers; those that are open from before have theirs."""
        table = roomy(empty_table(), 0, asked, compiled=True)
        for row, op in enumerate(self._left):
            place = place_of(table, op)
            table.keys[place], table.rows[place], queries.op[row], queries.state[row] = op, row, op, LEFT
        self._used[2] = len(self._left)
        return table

    def _serves(self, node: int, text: int, time: int) -> None:
        """A server begins to serve."""
        self._hosts.serve(node, text)
        self._began[node] = time
        self._assigned.pop(node, None)
        for column in self._reports[:4]:
            column[node * FEW : (node + 1) * FEW] = 0
        lives, of_node = self._lives, slice(node * self._most, (node + 1) * self._most)
        lives.served[node], lives.reported[node] = 1, NULL
        lives.passed[of_node] = NULL
        lives.end[of_node] = NULL

    def _servers(self, name_of: Mapping[str, int], at_of: Mapping[int, int], node_of: Ints) -> Servers:
        """What each server was told and knows, as long as each host is a node of its own."""
        servers = Servers(*(np.full(FEW, NOWHERE) for _ in Servers._fields))
        servers.known[:] = 0
        node_of[:] = NOWHERE
        self._used[4] = 0
        hosts = self._hosts
        if len({*hosts.nodes.values()}) < len(hosts.nodes):
            return servers
        for rank, host in enumerate(sorted(hosts.nodes)):
            node = hosts.nodes[host]
            server, name = hosts.servers.get(node), name_of.get(host)
            if name is None or not 0 <= node < FEW:
                continue
            servers.host[node], servers.rank[node], node_of[name] = name, rank, node
            self._used[4] = max(int(self._used[4]), node + 1)
            if server is None or server.partitions > self._most:
                continue
            patience = (server.time_out + _SLACK) * _MS
            ready = int(self._began[node]) + server.lag_report * _MS if server.lag_reports else NULL
            configured = 1, server.shipped, server.partitions, server.standby_reads, server.lag_reports
            numbers = *configured, server.bound(None), patience, ready, name, rank, at_of.get(node, NOWHERE)
            if max(map(abs, map(int, numbers))) < 1 << 63:
                for column, number in zip(servers, numbers, strict=True):
                    column[node] = number
        return servers


def _reports(most: int) -> Reports:
    of_pairs = (np.zeros(FEW * FEW, np.int64) for _ in range(4))
    return Reports(*of_pairs, *(np.full(FEW * FEW * most, NULL) for _ in range(4)))


def _lives(most: int) -> Lives:
    of_nodes = (np.full(FEW, fill) for fill in (0, NULL, 0, NULL, NOWHERE))
    return Lives(*of_nodes, *(np.full(FEW * most, fill) for fill in (NULL, 0, NULL)))


def _at_most(numbers: Ints) -> int:
    """How many different numbers there are at most: operations mostly have neighbouring ones."""
    if not len(numbers):
        return 0
    return min(len(numbers), int(numbers.max()) - int(numbers.min()) + 1)


def _longer(column: Ints, least: int) -> Ints:
    """A column of so many places at least."""
    if least <= len(column):
        return column
    return np.append(column, np.full(max(least, 2 * len(column)) - len(column), NOWHERE))


_known: WeakKeyDictionary[Words, list[tuple[ReferenceType[Array], PlainQueries]]] = WeakKeyDictionary()


def plain_queries(words: Words, first: Columns) -> PlainQueries:
    """What finds plain queries for all folds of a log; ``first``: its first events, by which its folds are known."""
    all_known = _known.setdefault(words, [])
    all_known[:] = [(events, each) for events, each in all_known if events() is not None]
    for events, each in all_known:
        if events() is first.seq:
            return each
    found = PlainQueries(words)
    all_known.append((ref(first.seq), found))
    return found


class QueryFold(ServerFold):
    """A fold that judges queries; those that are plainly right are counted, if loops run as machine code."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._compiled = setting.compiled
        self._finder: PlainQueries | None = None

    def plain(self, columns: Columns, facts: Mapping[str, int]) -> Plain | None:
        """What is plain in the next events; its ``facts`` are counted for the checks with these ids."""
        if not self._compiled:
            return None
        self._finder = self._finder or plain_queries(self._words, columns)
        found = self._finder.of(columns)
        for check, fact in facts.items():
            self._tallies[check].judged += int(found.facts[fact])
        return found


READS = ("time", "node", "peer", "op", "f", "partition", "offset", "last_offset", "stamp", "value")
"""The columns that tell which queries are plainly right."""
