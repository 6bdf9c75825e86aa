"""What is asked of the events of nodes, each a number for the kernel of `nodes`."""

from __future__ import annotations

from typing import NamedTuple

from loghistory.schema import END_KINDS, STATE_KINDS, Kind

from ..contract import Check
from ..findings import Node, number

CHECKS: list[Check] = []

_OF_NODES = STATE_KINDS | END_KINDS

_STATES = STATE_KINDS - {Kind.APPEND, Kind.COMPACT, Kind.TRIM}
"""What is in doubt with a node's state. That there was an append, a compaction or a trim, which is all that checks of
clients take of these, is not."""


class Acts(NamedTuple):
    """A node that did something: all that a sentence about it needs."""

    node: Node


class Counted(NamedTuple):
    """A node, and what it counts."""

    node: Node
    before: int
    after: int


class Moved(NamedTuple):
    """An offset of a node that moved, and where its events tell it to be."""

    node: Node
    before: int
    after: int
    reported: int


class Ends(NamedTuple):
    """A node, the end of its log, and what was found instead."""

    node: Node
    end: int
    found: int


class Old(NamedTuple):
    """A node, its term, and the last entry of its log."""

    node: Node
    term: int
    offset: int
    entry_term: int


class Stood(NamedTuple):
    """A vote, by the log that it states, and between where the node's own log has ended in its term."""

    node: Node
    offset: int
    entry_term: int
    low: int
    high: int


class Early(NamedTuple):
    """An append, and who should have made it before."""

    node: Node
    leader: Node
    offset: int
    term: int


class Said(NamedTuple):
    """A node, and what its event states."""

    node: Node
    commit: int
    visible: int
    term: int


class Message(NamedTuple):
    """A message, and who sent or received it."""

    node: Node
    message: int


DOWN = number(
    CHECKS,
    Check(
        id="nothing-while-down",
        rule="A node that has stopped, crashed, failed or lost power does nothing until it starts.",
        source=("history-checks.md#nothing-while-down",),
        fact="a start after the end of a life, or what the node did before it",
        sentence="Node {node} did something after its life had ended and before it started again.",
        fields=Acts,
        kinds=(Kind.START,),
        unsettles=_OF_NODES,
    ),
)
STARTED = number(
    CHECKS,
    Check(
        id="starts-are-recorded",
        rule="Where starts are recorded, the first thing that a node does is to start.",
        source=("history-checks.md#starts-are-recorded",),
        fact="the first event of a node",
        sentence="Node {node} did something before its first start.",
        fields=Acts,
        kinds=(Kind.START,),
        unsettles=_OF_NODES,
        doubtful=True,
        begins_late=True,
    ),
)
ENDED = number(
    CHECKS,
    Check(
        id="ends-are-recorded",
        rule="Where ends are recorded, one is recorded before a node starts again.",
        source=("history-checks.md#ends-are-recorded",),
        fact="a start of a node that had started before",
        sentence="Node {node} started again, but nothing says how its previous life had ended.",
        fields=Acts,
        kinds=(Kind.START,),
        unsettles=_OF_NODES,
        doubtful=True,
    ),
)
INCARNATION = number(
    CHECKS,
    Check(
        id="incarnations-count-up",
        rule="Every start of a node has a higher incarnation than the one before, its events have that of its last "
        "start, and its end has no lower one.",
        source=("history-checks.md#incarnations-count-up",),
        fact="an event that states an incarnation, of a node that had started before",
        sentence="Node {node} was in incarnation {before}, then in incarnation {after}.",
        fields=Counted,
        kinds=(Kind.START,),
        columns=("incarnation",),
        unsettles=_OF_NODES,
    ),
)
CLOCK = number(
    CHECKS,
    Check(
        id="stamps-count-up",
        rule="Each event of a node has a later stamp of the hybrid logical clock than the one before.",
        source=("history-checks.md#stamps-count-up",),
        fact="an event that a node stamped, after another one",
        sentence="Node {node} stamped two events with {before}, then with {after} ns, and its counter did not tell "
        "them apart.",
        fields=Counted,
        columns=("time", "logical"),
        unsettles=_OF_NODES,
    ),
)
CAUSAL = number(
    CHECKS,
    Check(
        id="sent-before-received",
        explained_by=frozenset({Kind.SEND, Kind.TERM}),
        rule="A message is sent once, by a node that runs and is in its term, and received after that as it was sent, "
        "by the node that it was sent to.",
        source=("history-checks.md#sent-before-received",),
        fact="a message received whose sending is recorded",
        sentence="Message {message} of node {node} was sent twice, in a later term than the node's, or while it was "
        "down; or it was received without having been sent before, by another node, or not as it was sent.",
        fields=Message,
        kinds=(Kind.SEND, Kind.RECEIVE),
        columns=("message", "peer"),
        unsettles=_OF_NODES,
    ),
)
WIPED = number(
    CHECKS,
    Check(
        id="wiped-disks-are-empty",
        rule="After its disk was wiped, a node does nothing until it starts with an empty log in term 0.",
        source=("history-checks.md#wiped-disks-are-empty",),
        fact="a start after a wipe, or what the node did before it",
        sentence="A disk was wiped, but node {node} went on, or started, with what it had.",
        fields=Acts,
        kinds=(Kind.FAULT,),
        unsettles=frozenset({Kind.FAULT}),
        doubtful=True,
    ),
)
CUT = number(
    CHECKS,
    Check(
        id="cut-power-ends-lives",
        rule="A node whose power was cut does nothing a quarter of a second later, until it starts.",
        source=("history-checks.md#cut-power-ends-lives",),
        fact="a power loss of a node that ran, and that ended, started or acted after it",
        sentence="The power of node {node} was cut, but it goes on.",
        fields=Acts,
        kinds=(Kind.FAULT, Kind.START),
        unsettles=frozenset({Kind.FAULT}),
        doubtful=True,
    ),
)
DIRTY = number(
    CHECKS,
    Check(
        id="dirty-follows-events",
        rule="The dirty offset moves only by append, truncate, trim and start, and to where these say.",
        source=("history-checks.md#dirty-follows-events",),
        fact="an event of a node that states its dirty offset, where it is known from the one before",
        sentence="Node {node} moved its dirty offset from {before} to {after}, where its events say {reported}.",
        fields=Moved,
        columns=("dirty",),
        explained_by=frozenset({Kind.TRIM}),
        unsettles=_STATES,
    ),
)
FLUSHED = number(
    CHECKS,
    Check(
        id="flushed-follows-events",
        rule="The flushed offset rises only by flush, start and a trim after which the log starts over.",
        source=("history-checks.md#flushed-follows-events",),
        fact="an event of a node that states its flushed offset, where it is known from the one before",
        sentence="Node {node} moved its flushed offset from {before} to {after}, where its events say {reported}.",
        fields=Moved,
        columns=("flushed",),
        explained_by=frozenset({Kind.TRIM}),
        unsettles=_STATES,
    ),
)
HOLE = number(
    CHECKS,
    Check(
        id="no-hole",
        rule="A node appends right behind the end of its log; only compaction and trimming leave holes.",
        source=("history-checks.md#no-hole",),
        fact="an append to a log whose end is known",
        sentence="Node {node} appended at offset {found} behind a log that ends at {end}.",
        fields=Ends,
        kinds=(Kind.APPEND,),
        columns=("offset", "dirty"),
        from_start=True,
        explained_by=frozenset({Kind.COMPACT}),
        unsettles=_STATES,
    ),
)
GREW = number(
    CHECKS,
    Check(
        id="stopped-log-is-whole",
        rule="A node that stopped gracefully starts with no more than it had written.",
        source=("history-checks.md#stopped-log-is-whole",),
        fact="a start after a stop",
        sentence="Node {node} stopped with a log that ends at {end} and started with one that ends at {found}.",
        fields=Ends,
        kinds=(Kind.START,),
        columns=("dirty",),
        unsettles=_STATES,
    ),
)
TAIL = number(
    CHECKS,
    Check(
        id="writes-are-recorded",
        rule="A node is shown to have written what it held when it crashed or lost power.",
        source=("history-checks.md#writes-are-recorded",),
        fact="a start after a crash, a power loss or an unknown end; an append in the term of a leader that is down",
        sentence="Node {node} is shown to have written up to offset {end}, but it held entries up to {found}.",
        fields=Ends,
        kinds=(Kind.START,),
        columns=("dirty",),
        unsettles=_STATES,
        doubtful=True,
    ),
)
OLD_TERM = number(
    CHECKS,
    Check(
        id="starts-in-its-last-term",
        rule="A node starts in a term that is not below that of the last entry in its log.",
        source=("raft.md#restart", "history-checks.md#starts-in-its-last-term"),
        fact="a start of a node whose last entry is known",
        sentence="Node {node} started in term {term}, but the last entry in its log, at offset {offset}, is of term "
        "{entry_term}.",
        fields=Old,
        kinds=(Kind.START, Kind.APPEND),
        columns=("term", "dirty", "entry_term"),
        unsettles=_STATES,
    ),
)
STOOD = number(
    CHECKS,
    Check(
        id="votes-state-the-log",
        rule="The log end that a vote states is one that the node's log had since the node came to the term.",
        source=("raft.md#log-ok", "history-checks.md#votes-state-the-log"),
        fact="a vote that states where the voter's log ended",
        sentence="Node {node} voted by a log that ends at offset {offset} with an entry of term {entry_term}, which it "
        "did not have: since it came to the term of the vote, its log ended between {low} and {high}.",
        fields=Stood,
        kinds=(Kind.VOTE,),
        columns=("offset", "dirty", "entry_term"),
        unsettles=frozenset({Kind.VOTE}),
    ),
)
EARLY = number(
    CHECKS,
    Check(
        id="leader-writes-first",
        rule="An entry is first in the log of the node that leads its term, while it leads.",
        source=("history-checks.md#leader-writes-first",),
        fact="an append by another node, or by one that leads no more, of a term whose leader is known",
        sentence="Node {node} appended up to offset {offset} in term {term}, which node {leader}, its leader, had not "
        "written while it led.",
        fields=Early,
        kinds=(Kind.APPEND,),
        columns=("offset", "entry_term"),
        unsettles=_STATES,
    ),
)
MOVES = number(
    CHECKS,
    Check(
        id="moves-are-recorded",
        rule="Where moves of the commit index, the visible offset, the term or the role are recorded, nothing else "
        "moves it, and each move of the term does.",
        source=("history-checks.md#moves-are-recorded",),
        fact="an event of a node that states its commit index, behind another one",
        sentence="Node {node} moved to commit index {commit}, visible offset {visible} and term {term}, or to another "
        "role, by an event that does not say so.",
        fields=Said,
        columns=("commit",),
        unsettles=_STATES,
        doubtful=True,
    ),
)
