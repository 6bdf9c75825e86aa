"""What the loop over queries knows, in arrays."""

from __future__ import annotations

from typing import NamedTuple

from ...columns import Array, Ints
from ...hashing import Table
from ...strings import Strings
from .reading import Said

OPEN, ROUTED, ENDED, OVER, PUT, LEFT = range(6)
"""How far a query is; `LEFT`: the folds have to look at it."""
WITHIN, NO_RECORD, STALENESS, FOLLOW, MESSAGES, TABLE_ROWS, STANDS, MAY, VIEWS = range(9)
"""Facts that are counted for each query; `VIEWS`: one for each query."""


class Rows(NamedTuple):
    """The columns that are read; ``text``: the number of the text among those of the piece."""

    kind: Array
    node: Array
    peer: Array
    op: Array
    f: Array
    time: Array
    partition: Array
    offset: Array
    last_offset: Array
    stamp: Array
    text: Array


class Servers(NamedTuple):
    """By node: what it was told, and what its process knows; `NOWHERE` for what is not known."""

    known: Ints
    shipped: Ints
    partitions: Ints
    reads: Ints
    reports: Ints
    bound: Ints
    patience: Ints  # nanoseconds that a query may take
    ready: Ints  # the time from which on it knows the lags
    host: Ints  # the number of its name
    rank: Ints  # its place by name
    assigned: Ints  # where its assignment is said


class Reports(NamedTuple):
    """By pair of nodes the last report that the first heard of the second, and the one that it keeps."""

    heard: Ints  # 1: it is there, 2: nobody can say what it says
    heard_stamp: Ints
    kept: Ints
    kept_stamp: Ints
    heard_current: Ints  # and by partition
    heard_end: Ints
    current: Ints
    end: Ints


class Lives(NamedTuple):
    """By node what its process did, and by partition what it passed; `NULL` for what it did not."""

    served: Ints  # whether this is known since it began
    reported: Ints  # the partitions of its last report, as bits
    kept: Ints  # how many reports it has kept, in any life
    newest: Ints  # the largest stamp of its reports, in any life
    text: Ints  # its last report, in this piece
    passed: Ints
    furthest: Ints  # in any life
    end: Ints  # of the changelog, as it reported


class Logs(NamedTuple):
    """By partition: how much of its changelog is shown, and is known; the first of its keys."""

    end: Ints
    whole: Ints
    epoch: Ints
    source: Ints
    first: Ints


class Keys(NamedTuple):
    """Keys of changelogs: the name, the last change, the key that comes next by name."""

    name: Ints
    last: Ints
    after: Ints


class Changes(NamedTuple):
    """Changes of keys: the position behind it, what the value is, and the change before."""

    position: Ints
    form: Ints
    value: Ints
    before: Ints


class OfQueries(NamedTuple):
    """Queries of a piece: how far they are, who routes them, what they ask; sets of partitions are bits."""

    state: Ints
    router: Ints
    query: Ints
    time: Ints
    bound: Ints
    asked: Ints
    sent: Ints
    heard: Ints
    answered: Ints
    got: Ints
    routed: Ints  # where the view is said by which it is routed
    kept: Ints  # how many reports its router had kept by then
    round: Ints  # the last one in which a server was asked
    first: Ints  # its place in `Parts`
    may: Ints  # whether the loop knows who may answer
    closed: Ints  # whether its client was told the outcome
    ended: Ints  # where its client was told that it is complete
    op: Ints


class Parts(NamedTuple):
    """By query and partition: who is tried, how the router saw it, what it was asked, and what it answered."""

    turn: Ints  # how many were tried before
    before: Ints  # those, the last one in the lowest bits
    tried: Ints  # how many of all are told of at the end
    lag: Ints  # by which it has its place among the candidates, `NOWHERE` of the active
    node: Ints
    filtered: Ints
    current: Ints
    max_end: Ints
    text: Ints
    offset: Ints
    answer: Ints


class State(NamedTuple):
    """What the loop knows of a history by now: tables of servers, logs, keys and queries, a row each."""

    servers: Servers
    reports: Reports
    lives: Lives
    logs: Logs
    keys: Keys
    changes: Changes
    of_keys: Table
    queries: OfQueries
    parts: Parts
    of_queries: Table
    facts: Ints  # by query and fact
    used: Ints  # keys, changes, queries, parts; behind the last node that is a host
    node_of: Ints  # by number of a name
    reported: Ints  # one number: partitions in reports that are right
    strings: Strings
    said: Said
