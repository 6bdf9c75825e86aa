"""The checks that compare what clients were told with what nodes recorded; they continue those of `rules`."""

from __future__ import annotations

from typing import NamedTuple

from loghistory.schema import Kind

from ...contract import Check
from ...findings import Acks, Node, number
from .rules import CHECKS

_TOLD = ("process", "f", "offset", "value")


class Misplaced(NamedTuple):
    """A client was told where a value is; and where nodes appended it."""

    value: int
    offset: int
    last: int
    term: int
    there: int
    entry_term: int


OK_NAMES_THE_ENTRY = number(
    CHECKS,
    Check(
        id="ok-names-the-entry",
        rule="A client whose append succeeded is told where the nodes' logs hold it, and in which term.",
        source=("history-checks.md#ok-names-the-entry",),
        fact="an append answered ok with an offset, in a history that shows the nodes' appends",
        sentence="A client was told that value {value} is at offset {offset} to {last} in term {term}, but nodes "
        "appended it at offset {there} in term {entry_term}.",
        fields=Misplaced,
        kinds=(Kind.OK, Kind.APPEND),
        columns=(*_TOLD, "term", "entry_term"),
    ),
)


class Told(NamedTuple):
    """A client was told that its append succeeded."""

    value: int
    acks: Acks
    offset: int
    term: int


OK_AFTER_ACKED = number(
    CHECKS,
    Check(
        id="ok-after-acked",
        rule="A client is told that its append succeeded only after a node has acknowledged that very append.",
        source=("history-checks.md#ok-after-acked", "raft.md#quorum-ack", "raft.md#relaxed-acks"),
        fact="an append answered ok, in a history that shows the nodes' appends",
        sentence="A client was told that value {value} (acks {acks}) was appended at offset {offset} in term {term}, "
        "but by then no node had acknowledged it so.",
        fields=Told,
        kinds=(Kind.OK, Kind.APPEND),
        columns=(*_TOLD, "acks", "reason"),
    ),
)
OK_AFTER_COMMIT = number(
    CHECKS,
    Check(
        id="ok-after-commit",
        rule="A client is told that an acks=all append succeeded only after it is committed; under write caching, "
        "after a majority has held it.",
        source=("history-checks.md#ok-after-commit", "raft.md#quorum-ack", "raft.md#write-caching"),
        fact="an acks=all append answered ok whose entry is known",
        sentence="A client was told that value {value} (acks {acks}) was appended at offset {offset} in term {term}, "
        "but by then the entry was not committed.",
        fields=Told,
        kinds=(Kind.OK, Kind.APPEND),
        columns=(*_TOLD, "acks", "commit"),
    ),
)


class HadEffect(NamedTuple):
    """An append failed, and its value is in a log."""

    value: int
    offset: int
    term: int


FAIL_HAD_NO_EFFECT = number(
    CHECKS,
    Check(
        id="fail-had-no-effect",
        rule="No node acknowledges or commits an append that its client was told had failed.",
        source=("history-checks.md#fail-had-no-effect", "raft.md#failed-never-committed"),
        fact="a value whose appends all failed, in a history that shows the nodes' appends",
        sentence="The append of value {value} failed, but the entry at offset {offset} (term {term}) has that value "
        "and is acknowledged or committed.",
        fields=HadEffect,
        kinds=(Kind.FAIL, Kind.APPEND),
        columns=_TOLD,
    ),
)


class Returned(NamedTuple):
    """A read of a node returned, or left out, a value."""

    node: Node
    value: int
    offset: int


READ_SHOWS_THE_NODE = number(
    CHECKS,
    Check(
        id="read-shows-the-node",
        rule="A read returns what the node that was asked held and showed (a committed read: had committed) at some "
        "moment of the read.",
        source=("history-checks.md#read-shows-the-node", "raft.md#visible-offset"),
        fact="a batch that a read of a known node returned",
        sentence="A read of node {node} returned value {value} at offset {offset}, which that node did not hold and "
        "show at any moment of the read.",
        fields=Returned,
        kinds=(Kind.OBSERVE, Kind.APPEND),
        columns=("node", "process", "offset", "value"),
    ),
)
READ_LEAVES_NOTHING_OUT = number(
    CHECKS,
    Check(
        id="read-leaves-nothing-out",
        rule="A read of a node passes over nothing that the node held, and finds something where the node showed "
        "something all the time; a final read goes to the end of what was shown.",
        source=("history-checks.md#read-leaves-nothing-out", "history-checks.md#skip"),
        fact="a batch that a read of a known node returned, or an answered read of one",
        sentence="A read of node {node} left out value {value} at offset {offset}, which that node held and showed.",
        fields=Returned,
        kinds=(Kind.OBSERVE, Kind.APPEND),
        columns=("node", "process", "offset", "value"),
    ),
)


class Tail(NamedTuple):
    """A tail, and how many entries were committed."""

    tail: int
    committed: int


TAIL_IS_COMMITTED = number(
    CHECKS,
    Check(
        id="tail-is-committed",
        rule="A tail counts at least the entries that were committed when it was asked for, and only committed ones.",
        source=("history-checks.md#tail-is-committed", "raft.md#barrier"),
        fact="an answered tail, in a history that shows commit indexes",
        sentence="A tail of {tail:entry|entries} was returned, but {committed:entry|entries} were committed.",
        fields=Tail,
        kinds=(Kind.OK, Kind.COMMIT),
        columns=("process", "f", "offset", "commit"),
    ),
)
