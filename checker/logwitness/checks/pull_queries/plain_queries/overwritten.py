"""Events whose effect nobody looks at before another one takes its place.

Most of what a fold is told of a server replaces what it was told before: offsets passed, reports heard and kept. An
event that is plainly right, and is followed by another of its kind before anything looks at what it left, need not be
taken at all. The loop goes backwards, so that it knows what follows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loghistory.schema import Kind

from ...codes import NULL, code
from ...columns import Array, Columns, Ints, read_only
from ...kernel import kernel, part
from ..skimming import FEW, NOWHERE
from .state import OVER, PUT, OfQueries

_FOLD, _REPORT, _REPORT_HEARD, _REPORT_KEPT, _ASSIGNED, _SERVE = map(
    code, (Kind.FOLD, Kind.REPORT, Kind.REPORT_HEARD, Kind.REPORT_KEPT, Kind.ASSIGNED, Kind.SERVE)
)
_CHANGELOG, _ROUTE, _SHOWN, _ANSWER, _GIVE_UP = map(
    code, (Kind.CHANGELOG, Kind.ROUTE, Kind.SHOWN, Kind.ANSWER, Kind.GIVE_UP)
)


class _Rows(NamedTuple):
    """The columns that are read."""

    kind: Array
    node: Array
    peer: Array
    partition: Array
    last_offset: Array
    epoch: Array


class _Found(NamedTuple):
    """By event: what `Plain` says of it, and whether the folds of tables and of placements need not take it."""

    query: Ints  # its row
    right: Array
    events: Array
    placed: Array
    of_tables: Array
    of_placements: Array


class _Later(NamedTuple):
    """What follows that nobody looks in between: of folds the last offset, else whether there is something.

    By node and partition, by pair of nodes, by node and by partition; of tables first, then of placements.
    """

    folds: Ints
    kept: Ints
    heard: Ints
    reports: Ints
    folds_placed: Ints
    own_kept: Ints
    reports_placed: Ints
    logs: Ints
    next_log: Ints  # the event, if it need not be taken, should its epoch be that of the one before


@part
def _shows(rows: _Rows, found: _Found, i: int, later: _Later) -> None:
    """A changelog shows an offset."""
    partition, right = rows.partition[i], found.right[i]
    found.of_tables[i] = right
    if 0 <= partition < len(later.logs):
        after = later.next_log[partition]
        if after >= 0:
            found.of_placements[after] = rows.epoch[after] <= rows.epoch[i]
        later.next_log[partition] = i if right and later.logs[partition] else NOWHERE
        later.logs[partition] = right


@part
def _passes(rows: _Rows, found: _Found, i: int, later: _Later) -> None:
    """A server passes offsets."""
    node, partition, last, most = rows.node[i], rows.partition[i], rows.last_offset[i], len(later.logs)
    if not found.right[i] and 0 <= partition < most:
        later.logs[partition] = 0
    if not 0 <= node < FEW:
        return
    if 0 <= partition < most:
        place = node * most + partition
        follows, placed = later.folds[place], later.folds_placed[place]
        found.of_tables[i] = follows != NULL and last <= follows
        found.of_placements[i] = found.right[i] and placed != NULL and last <= placed
        later.folds[place] = later.folds_placed[place] = last
    if not found.right[i]:
        later.folds_placed[node * most : (node + 1) * most] = NULL


@part
def _hears(rows: _Rows, found: _Found, i: int, later: _Later) -> None:
    """A server makes, hears or keeps a report."""
    kind, node, peer, right, most = rows.kind[i], rows.node[i], rows.peer[i], found.right[i], len(later.logs)
    if kind == _REPORT:
        pair = node * FEW + node
        found.of_tables[i] = right and later.reports[node] and later.heard[pair]
        found.of_placements[i] = later.reports_placed[node]
        later.heard[pair], later.reports[node], later.reports_placed[node] = 1, right, 1
        if not right:
            later.folds[node * most : (node + 1) * most] = NULL
        return
    pair = node * FEW + peer
    if kind == _REPORT_HEARD:
        found.of_tables[i] = later.heard[pair]
        later.heard[pair] = 1
        return
    found.of_tables[i] = right and later.kept[pair]
    if not found.of_tables[i]:
        later.heard[pair] = 0
    if not right:
        later.kept[node * FEW : (node + 1) * FEW] = 0
    later.kept[pair] = right
    found.of_placements[i] = peer != node or later.own_kept[node]
    if peer == node:
        if not later.own_kept[node]:
            later.reports_placed[node] = 0
        later.own_kept[node] = 1


@kernel
def _look_back(rows: _Rows, queries: OfQueries, found: _Found, later: _Later) -> None:
    most = len(later.logs)
    for i in range(len(rows.kind) - 1, -1, -1):
        kind, node, query = rows.kind[i], rows.node[i], found.query[i]
        if query >= 0 and (queries.state[query] == OVER or queries.state[query] == PUT):
            found.events[i] = found.of_tables[i] = True
            found.placed[i] = found.of_placements[i] = queries.may[query]
        if kind == _CHANGELOG:
            _shows(rows, found, i, later)
        elif kind == _FOLD:
            _passes(rows, found, i, later)
        elif not 0 <= node < FEW:
            continue
        elif kind == _REPORT or (kind in (_REPORT_HEARD, _REPORT_KEPT) and 0 <= rows.peer[i] < FEW):
            _hears(rows, found, i, later)
        elif kind in (_REPORT_KEPT, _SHOWN) or (kind == _ROUTE and not found.events[i]):
            later.kept[node * FEW : (node + 1) * FEW] = 0
        elif kind in (_ANSWER, _GIVE_UP) and not found.placed[i]:
            later.folds_placed[node * most : (node + 1) * most] = NULL
            later.own_kept[node] = 0
        elif kind in (_SERVE, _ASSIGNED):
            later.reports[node] = 0
            if kind == _SERVE:
                later.folds[node * most : (node + 1) * most] = NULL
                later.folds_placed[node * most : (node + 1) * most] = NULL


def overwritten(columns: Columns, most: int, query_of: Ints, queries: OfQueries, right: Array) -> tuple[Array, ...]:
    """Events of plain queries, those of which it is known who may answer, and what the folds of tables and of
    placements need not take, of changelogs of so many partitions.

    ``query_of``: the row of the query of each event; ``right``: as `Plain` has it."""
    rows = _Rows(*(read_only(getattr(columns, name)) for name in _Rows._fields))
    found = _Found(read_only(query_of), read_only(right), *np.zeros((4, len(right)), bool))
    sizes = {"folds": FEW * most, "folds_placed": FEW * most, "kept": FEW * FEW, "heard": FEW * FEW}
    sizes |= {"logs": most, "next_log": most}
    fill = {"folds": NULL, "folds_placed": NULL, "next_log": NOWHERE}
    later = _Later(*(np.full(sizes.get(name, FEW), fill.get(name, 0)) for name in _Later._fields))
    _look_back.compiled(rows, queries, found, later)
    return found[2:]
