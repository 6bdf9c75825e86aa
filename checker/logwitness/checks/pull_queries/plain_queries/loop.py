"""The loop that tells which queries go as they should.

A query is routed by what its server knows, forwarded to the first candidates, answered by these with the rows of the
table, ended, and handed to its client. Of each step there is a function that says whether it is right.

Sources: pull-queries.md#two-modes, pull-queries.md#routing, pull-queries.md#lag.
"""

from __future__ import annotations

from loghistory.schema import END_KINDS, Kind

from ...codes import INVOKE, NULL, OK, code, lookup
from ...columns import Array, Ints
from ...hashing import row_of
from ...kernel import kernel, part
from ..skimming import FEW, NOWHERE
from .contents import (
    hears,
    hears_truly,
    holds,
    keeps,
    passes,
    placement,
    reports_truly,
    rows_are_right,
    shows,
    stands_at,
    views_reports,
)
from .reading import ASKED, ASSIGNED, FINISHED, NONE, QUERY, RECORD, VIEW
from .state import (
    ENDED,
    FOLLOW,
    LEFT,
    MAY,
    MESSAGES,
    NO_RECORD,
    OPEN,
    OVER,
    PUT,
    ROUTED,
    STALENESS,
    STANDS,
    TABLE_ROWS,
    VIEWS,
    WITHIN,
    OfQueries,
    Rows,
    Servers,
    State,
)

_OF_QUERIES = (Kind.ROUTE, Kind.FORWARD, Kind.FORWARDED, Kind.ANSWER, Kind.GIVE_UP, Kind.FINISH, Kind.ROWS)
_OF_TABLES = (Kind.CHANGELOG, Kind.REPORT, Kind.REPORT_HEARD, Kind.REPORT_KEPT, Kind.FOLD)
_ROUTE, _FORWARD, _FORWARDED, _ANSWER, _, _FINISH, _ROWS = map(code, _OF_QUERIES)
_CHANGELOG, _REPORT, _REPORT_HEARD, _REPORT_KEPT, _FOLD = map(code, _OF_TABLES)
_ASSIGNED = code(Kind.ASSIGNED)
_IS_CLOSED = lookup({Kind.OK, Kind.FAIL, Kind.INFO})
IS_OF_QUERY = lookup({*_OF_QUERIES, Kind.INVOKE, Kind.OK, Kind.FAIL, Kind.INFO})
_MOST_TURNS = 8
"""Servers that are tried before another one, as numbers below `FEW` in one number."""
IS_TURN = lookup({Kind.SERVE, Kind.ASSIGNED, Kind.FAULT, Kind.HEAL, Kind.PHASE} | END_KINDS)
"""Events after which servers, or what disturbs them, are not what they were."""
IS_TAKEN = IS_OF_QUERY | IS_TURN | lookup(_OF_TABLES)


@part
def _length(numbers: Ints, assigned: int) -> int:
    """How many numbers an assignment is."""
    at = assigned + 2 + numbers[assigned + 1]
    count = numbers[at]
    at += 1
    for _ in range(count):
        at += 2 + numbers[at + 1]
    return int(at - assigned)


@part
def _is_same(numbers: Ints, one: int, other: int) -> bool:
    """Whether two assignments are the same."""
    length = _length(numbers, one)
    same = length == _length(numbers, other)
    for i in range(length if same else 0):
        same = same and numbers[one + i] == numbers[other + i]
    return bool(same)


@part
def _alive(numbers: Ints, statuses: int, host: int, unknown: int) -> int:
    """Whether a host is alive by a view."""
    for i in range(numbers[statuses]):
        if numbers[statuses + 1 + 3 * i] == host:
            return int(numbers[statuses + 2 + 3 * i])
    return unknown


@part
def _max_end(state: State, node: int, partition: int, at: int) -> int:
    """The largest end of a changelog that a server knows, by an assignment's placement there; `NOWHERE` if a replica is
    none of the servers."""
    servers, reports, numbers, most = state.servers, state.reports, state.said.numbers, len(state.logs.end)
    max_end, shipped = 0, servers.shipped[node]
    for i in range(state.used[4] if not shipped else 1 + numbers[at + 1]):
        other = i if not shipped else state.node_of[numbers[at if i == 0 else at + 1 + i]]
        if other < 0:
            return NOWHERE
        pair = node * FEW + other
        known = servers.host[other] >= 0 and reports.kept[pair] == 1
        if known and reports.current[pair * most + partition] != NULL:
            max_end = max(max_end, reports.end[pair * most + partition])
    return int(max_end)


@part
def _comes_next(state: State, row: int, partition: int) -> bool:
    """Find the next candidate for a partition; whether there is one."""
    queries, servers, reports, parts = state.queries, state.servers, state.reports, state.parts
    node, view, bound = queries.router[row], queries.routed[row], queries.bound[row]
    place = queries.first[row] + partition
    numbers, most, shipped, last = state.said.numbers, len(state.logs.end), servers.shipped[node], parts.node[place]
    at = placement(numbers, view + 2, partition)
    max_end = _max_end(state, node, partition, at) if at >= 0 else NOWHERE
    if max_end < 0:
        return False
    found, best = NOWHERE, NOWHERE
    for i in range(1 + numbers[at + 1]):
        host = numbers[at if i == 0 else at + 1 + i]
        other = state.node_of[host]
        if other < 0:
            return False
        current = reports.current[(node * FEW + other) * most + partition]
        current = current if reports.kept[node * FEW + other] == 1 else NULL
        filtered = servers.reports[node] and (shipped or host != numbers[at])
        lag = max(0, max_end - current) if current != NULL else 0
        if not _alive(numbers, numbers[view], host, shipped) or (i > 0 and not servers.reads[node]):
            continue
        if filtered and (current == NULL or lag > bound or (lag == bound and not shipped)):
            continue
        lag = NOWHERE if i == 0 else 0 if shipped else lag
        if last >= 0 and not _is_before(servers, parts.lag[place], last, lag, other):
            continue
        if found < 0 or _is_before(servers, lag, other, best, found):
            found, best = other, lag
            parts.filtered[place], parts.current[place] = filtered, current
        if i == 0:
            break
    parts.node[place], parts.lag[place], parts.max_end[place] = found, best, max_end
    return bool(found >= 0)


@part
def _is_before(servers: Servers, lag: int, node: int, other_lag: int, other: int) -> bool:
    """Whether a candidate is tried before another one."""
    return bool(lag < other_lag or (lag == other_lag and servers.rank[node] < servers.rank[other]))


@part
def _routes(state: State, rows: Rows, i: int, row: int) -> bool:
    """A query is routed; whether by what its server knows, with somebody to ask for each partition."""
    queries, servers, said, used = state.queries, state.servers, state.said, state.used
    node, text, query = rows.node[i], rows.text[i], queries.query[row]
    if queries.state[row] != OPEN or not servers.known[node] or query < 0 or said.forms[text] != VIEW:
        return False
    view = said.at[text]
    if view < 0 or not (servers.reports[node] or servers.shipped[node]) or rows.time[i] < servers.ready[node]:
        return False
    assigned, numbers, partitions = servers.assigned[node], said.numbers, servers.partitions[node]
    if assigned < 0 or not _is_same(numbers, assigned, view + 2) or not views_reports(state, node, numbers[view + 1]):
        return False
    keys = numbers[query + 1]
    asked = (1 << partitions) - 1
    if keys != NONE and not (servers.shipped[node] and keys > 1):
        asked = 0
        for key in range(keys):
            asked |= 1 << (numbers[query + 3 + 2 * key] % partitions)
    bound = numbers[query] if numbers[query] != NONE else servers.bound[node]
    queries.router[row], queries.time[row], queries.bound[row], queries.first[row] = node, rows.time[i], bound, used[3]
    queries.routed[row], queries.kept[row], queries.asked[row] = view, state.lives.kept[node], asked
    used[3] += partitions
    for partition in range(partitions):
        if asked >> partition & 1 and not _comes_next(state, row, partition):
            return False
    queries.state[row] = ROUTED
    state.facts[row, VIEWS] += 1
    return True


@part
def _contacts(state: State, row: int, place: int) -> None:
    """A candidate is asked."""
    state.facts[row, NO_RECORD] += state.parts.filtered[place]
    state.facts[row, WITHIN] += state.parts.filtered[place]


@part
def _falls_through(state: State, row: int, partition: int, node: int) -> bool:
    """A server is tried after others that were asked and did not answer; whether it is the next candidate."""
    queries, parts, bit = state.queries, state.parts, 1 << partition
    place, router = queries.first[row] + partition, queries.router[row]
    if state.servers.shipped[router] or queries.kept[row] != state.lives.kept[router]:
        return False
    if queries.answered[row] & bit or not queries.sent[row] & bit or parts.turn[place] >= _MOST_TURNS:
        return False
    parts.before[place] = parts.before[place] * FEW + parts.node[place]
    parts.turn[place] += 1
    queries.sent[row] &= ~bit
    queries.heard[row] &= ~bit
    return _comes_next(state, row, partition) and bool(parts.node[place] == node)


@part
def _asks(state: State, rows: Rows, i: int, row: int) -> bool:
    """A server asks another one, or is asked; whether as the query is routed."""
    queries, parts, said, text = state.queries, state.parts, state.said, rows.text[i]
    node, peer, query, sends = rows.node[i], rows.peer[i], queries.query[row], rows.kind[i] == _FORWARD
    if queries.state[row] != ROUTED or text < 0 or said.forms[text] != ASKED or said.at[text] < 0:
        return False
    router, target = (node, peer) if sends else (peer, node)
    at = said.at[text]
    if router != queries.router[row] or target == router or said.numbers[at] != said.numbers[query]:
        return False
    if sends:
        if rows.time[i] - queries.time[row] > state.servers.patience[router]:
            return False
        queries.time[row] = rows.time[i]
    state.facts[row, FOLLOW] += 1
    state.facts[row, MESSAGES] += not sends
    for each in range(said.numbers[at + 1]):
        partition = said.numbers[at + 2 + each]
        if not 0 <= partition < state.servers.partitions[router] or not queries.asked[row] >> partition & 1:
            return False
        bit, place = 1 << partition, queries.first[row] + partition
        if sends:
            first = parts.node[place] == target and not queries.sent[row] & bit
            if not first and not _falls_through(state, row, partition, target):
                return False
            queries.sent[row] |= bit
            parts.text[place] = text
            queries.round[row] = max(queries.round[row], parts.turn[place])
            _contacts(state, row, place)
        else:
            if (
                parts.node[place] != target
                or not queries.sent[row] & bit
                or queries.heard[row] & bit
                or parts.text[place] != text
            ):
                return False
            queries.heard[row] |= bit
    return True


@part
def _answers(state: State, rows: Rows, i: int, row: int) -> bool:
    """A server answers for a partition; whether it was to do so, with the right rows."""
    queries, parts, servers = state.queries, state.parts, state.servers
    node, partition, position, text = rows.node[i], rows.partition[i], rows.offset[i], rows.text[i]
    if queries.state[row] != ROUTED or not 0 <= partition < servers.partitions[queries.router[row]]:
        return False
    bit, place = 1 << partition, queries.first[row] + partition
    if not queries.asked[row] & bit or queries.answered[row] & bit:
        return False
    local = node == queries.router[row]
    if parts.node[place] != node and not (local and _falls_through(state, row, partition, node)):
        return False
    if parts.turn[place] < queries.round[row]:
        return False
    if not servers.known[node] or (not local and not queries.heard[row] & bit):
        return False
    if not stands_at(state, node, partition, position):
        return False
    if not rows_are_right(state, queries.query[row], partition, position, text):
        return False
    if servers.reads[node] and not (servers.shipped[node] and servers.reports[node]):
        if not holds(state, node, partition):
            return False
        state.facts[row, MAY] += 1
    else:
        queries.may[row] = 0
    queries.answered[row] |= bit
    parts.offset[place], parts.answer[place] = position, text
    state.facts[row, TABLE_ROWS] += 1
    state.facts[row, STANDS] += state.lives.passed[node * len(state.logs.end) + partition] != NULL
    state.facts[row, MESSAGES] += not local
    return True


@part
def _ends(state: State, rows: Rows, i: int, row: int) -> bool:
    """A query ends at its router; whether by answers of candidates, after attempts at those before them in rounds."""
    queries, parts, said, text = state.queries, state.parts, state.said, rows.text[i]
    node = rows.node[i]
    if queries.state[row] != ROUTED or text < 0 or said.forms[text] != FINISHED or said.at[text] < 0:
        return False
    if node != queries.router[row] or queries.answered[row] != queries.asked[row]:
        return False
    if rows.time[i] - queries.time[row] > state.servers.patience[node]:
        return False
    at, seen, local, round_ = said.at[text], 0, 0, 0
    for attempt in range(at + 1, at + 1 + 3 * said.numbers[at], 3):
        partition, host, failed = said.numbers[attempt], said.numbers[attempt + 1], said.numbers[attempt + 2]
        if not 0 <= partition < state.servers.partitions[node] or host < 0:
            return False
        bit, place = 1 << partition, queries.first[row] + partition
        if not queries.asked[row] & bit or seen & bit:
            return False
        left = parts.turn[place] - parts.tried[place]
        due = parts.node[place] if left == 0 else parts.before[place] // FEW ** (left - 1) % FEW
        if state.node_of[host] != due or (failed > 0) != (left > 0) or parts.tried[place] < round_:
            return False
        round_ = parts.tried[place]
        parts.tried[place] += 1
        if failed:
            continue
        seen |= bit
        if parts.node[place] == node:
            local |= bit
            _contacts(state, row, place)
        state.facts[row, MESSAGES] += 1
    if seen != queries.asked[row] or queries.sent[row] != queries.asked[row] & ~local:
        return False
    queries.state[row] = ENDED
    state.facts[row, FOLLOW] += 1
    return True


@part
def _gets(state: State, rows: Rows, i: int, row: int) -> bool:
    """The client gets a partition; whether as it was answered, and within the bound."""
    queries, parts, partition = state.queries, state.parts, rows.partition[i]
    if queries.state[row] != ENDED or not 0 <= partition < state.servers.partitions[queries.router[row]]:
        return False
    bit, place = 1 << partition, queries.first[row] + partition
    if not queries.answered[row] & bit or queries.got[row] & bit or parts.node[place] != rows.peer[i]:
        return False
    if parts.offset[place] != rows.offset[i] or parts.answer[place] != rows.text[i]:
        return False
    if parts.filtered[place]:
        current, position, bound = parts.current[place], rows.offset[i], queries.bound[row]
        stale = max(0, parts.max_end[place] - position - max(0, current - position))
        if stale > bound or (stale == bound and not state.servers.shipped[queries.router[row]]):
            return False
        state.facts[row, STALENESS] += 1
    queries.got[row] |= bit
    state.facts[row, TABLE_ROWS] += 1
    state.facts[row, MESSAGES] += 1
    return True


@part
def _leaves(queries: OfQueries, count: int) -> None:
    """Queries that are on their way are left to the folds."""
    for row in range(count):
        if queries.state[row] in (ROUTED, ENDED):
            queries.state[row] = LEFT


@part
def _goes_by(state: State, node: int, text: int) -> None:
    """A server folds an assignment."""
    said, lives, most = state.said, state.lives, len(state.logs.end)
    state.servers.assigned[node] = said.at[text] if text >= 0 and said.forms[text] == ASSIGNED else NOWHERE
    lives.reported[node] = NULL
    lives.end[node * most : (node + 1) * most] = NULL


@kernel
def look(rows: Rows, put: int, begin: int, state: State, query_of: Ints, right_here: Array, said_here: Ints) -> None:
    """Take the events from a place on, among which no server begins to serve.

    ``query_of``: the row of the query of each; ``right_here``: whether what a changelog shows or a server has done is
    plainly right; ``said_here``: where it is said what a changelog shows, or by what a query is routed."""
    queries, said = state.queries, state.said
    for i in range(len(rows.kind)):
        kind, node, peer = rows.kind[i], rows.node[i], rows.peer[i]
        if not IS_TAKEN[kind]:
            continue
        text = rows.text[i]
        if IS_TURN[kind]:
            _leaves(queries, state.used[2])
            if kind == _ASSIGNED and 0 <= node < FEW:
                _goes_by(state, node, text)
            continue
        if text >= 0 and said.forms[text] == (RECORD if kind == _CHANGELOG else VIEW):
            said_here[i] = said.at[text]
        if kind == _CHANGELOG:
            if 0 <= rows.partition[i] < len(state.logs.end):
                right_here[i] = shows(state, rows.partition[i], rows.offset[i], text)
            continue
        if not IS_OF_QUERY[kind]:
            if not 0 <= node < FEW:
                continue
            if kind == _FOLD:
                if 0 <= rows.partition[i] < len(state.logs.end):
                    right_here[i] = passes(state, node, rows.partition[i], rows.offset[i], rows.last_offset[i])
            elif kind == _REPORT or 0 <= peer < FEW:
                if kind == _REPORT:
                    right_here[i] = reports_truly(state, node, rows.stamp[i], text)
                elif kind == _REPORT_HEARD:
                    right_here[i] = hears_truly(state, peer, rows.stamp[i], text)
                else:
                    right_here[i] = keeps(state, node, peer, rows.stamp[i])
                if kind != _REPORT_KEPT:
                    hears(state, node, node if kind == _REPORT else peer, rows.stamp[i], text)
            continue
        known = state.used[2]
        row = row_of(state.of_queries, state.used[2:], rows.op[i])
        query_of[i], queries.op[row] = row, rows.op[i]
        if kind == INVOKE:
            if row < known:
                queries.state[row], queries.closed[row] = LEFT, 0
            elif rows.f[i] == put:
                queries.state[row] = PUT
            else:
                queries.query[row] = said.at[text] if text >= 0 and said.forms[text] == QUERY else NOWHERE
            continue
        if row == known:
            queries.state[row] = LEFT
        if _IS_CLOSED[kind]:
            queries.closed[row] = 1
            if queries.state[row] == PUT:
                continue
        if queries.state[row] == OVER:
            query_of[i] = NOWHERE
            continue
        right = False
        if kind == OK:
            right = queries.state[row] == ENDED and queries.got[row] == queries.asked[row]
            if right:
                queries.state[row], queries.ended[row] = OVER, begin + i
                state.facts[row, MESSAGES] += 1
        elif kind == _ROWS:
            right = _gets(state, rows, i, row)
        elif 0 <= node < FEW:
            if kind == _ROUTE:
                right = text >= 0 and _routes(state, rows, i, row)
            elif kind in (_FORWARD, _FORWARDED):
                right = _asks(state, rows, i, row)
            elif kind == _ANSWER:
                right = _answers(state, rows, i, row)
            elif kind == _FINISH:
                right = _ends(state, rows, i, row)
        if not right:
            queries.state[row] = LEFT
    _leaves(queries, state.used[2])
