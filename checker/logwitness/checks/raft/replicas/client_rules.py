"""The checks that compare what clients were told with what nodes recorded; they continue those of `rules`."""

from __future__ import annotations

from typing import NamedTuple

from loghistory.schema import Kind

from ...contract import Check
from ...findings import Acks, Node, number
from .rules import CHECKS

_ANSWER = ("process", "f", "offset", "value")


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
        columns=(*_ANSWER, "term", "entry_term"),
    ),
)


class Success(NamedTuple):
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
        fields=Success,
        kinds=(Kind.OK, Kind.APPEND),
        columns=(*_ANSWER, "acks", "reason"),
    ),
)
OK_AFTER_COMMIT = number(
    CHECKS,
    Check(
        id="ok-after-commit",
        explained_by=frozenset({Kind.CONFIGURATION}),
        rule="A client is told that an acks=all append succeeded only after it is committed; under write caching, "
        "after a majority has held it.",
        source=("history-checks.md#ok-after-commit", "raft.md#quorum-ack", "raft.md#write-caching"),
        fact="an acks=all append answered ok whose entry is known",
        sentence="A client was told that value {value} (acks {acks}) was appended at offset {offset} in term {term}, "
        "but by then the entry was not committed.",
        fields=Success,
        kinds=(Kind.OK, Kind.APPEND),
        columns=(*_ANSWER, "acks", "commit"),
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
        columns=_ANSWER,
    ),
)


class Asked(NamedTuple):
    """A value in a log, and where; without an offset it is enqueued. With an acks level, or a term, that was asked for:
    it is there with another one."""

    value: int
    offset: int
    term: int
    acks: Acks
    expected: int


WRITTEN_AFTER_ASKED = number(
    CHECKS,
    Check(
        id="written-after-asked",
        rule="A value is enqueued, or in a node's log, only after a client has asked to append it, and as it asked: "
        "with that acks level, in the term that it expected.",
        source=("history-checks.md#written-after-asked",),
        fact="an entry of which a client was told, or that has a value whose append failed or ended in an unknown way; "
        "a value that was enqueued",
        sentence={
            "appended": "Value {value} was in a log, at offset {offset} (term {term}), before a client asked to append "
            "it.",
            "enqueued": "Value {value} was enqueued before a client asked to append it.",
            "level": "Value {value} was asked for with acks {acks}, but written with another level at offset {offset} "
            "(term {term}).",
            "elsewhere": "Value {value} was asked for in term {expected} alone, but written at offset {offset} in term "
            "{term}.",
        },
        fields=Asked,
        kinds=(Kind.INVOKE, Kind.APPEND),
        columns=("process", "f", "offset", "value"),
    ),
)


class Answered(NamedTuple):
    """A client was answered by a node."""

    client: int
    node: Node


ANSWERED_BY_WHO_ACTED = number(
    CHECKS,
    Check(
        id="answered-by-who-acted",
        rule="A node that answers an operation ran at some moment of it; one that answers an append, a tail or a "
        "linearizable read led then.",
        source=("history-checks.md#answered-by-who-acted", "raft.md#barrier", "raft.md#read-levels"),
        fact="an operation that a known node answered ok, or refused as one that does not lead",
        sentence="Client {client} was answered by node {node}, which was down from before it was asked until then.",
        fields=Answered,
        kinds=(Kind.INVOKE, Kind.OK),
        columns=("node", "process", "f"),
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
        from_start=True,
    ),
)


class Ended(NamedTuple):
    """A read of a node goes on somewhere, and how far the node showed its log."""

    node: Node
    offset: int
    shown: int


READ_ENDS_IN_THE_LOG = number(
    CHECKS,
    Check(
        id="read-ends-in-the-log",
        rule="A read goes on no further than where it began, or right behind what the node that was asked showed (a "
        "committed read: had committed) at some moment of the read.",
        source=("history-checks.md#read-ends-in-the-log", "raft.md#read-levels"),
        fact="an answered read of a known node that says where it goes on",
        sentence="A read of node {node} was told to go on at offset {offset}, but that node showed its log only up to "
        "offset {shown}.",
        fields=Ended,
        kinds=(Kind.INVOKE, Kind.OK),
        columns=("node", "process", "f", "offset"),
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
        explained_by=frozenset({Kind.TRIM, Kind.COMPACT}),
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
