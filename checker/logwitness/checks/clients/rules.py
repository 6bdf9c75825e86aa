"""The checks that `fold` judges, named as in history-checks.md#anomalies, and what the kernel reports."""

from __future__ import annotations

from typing import NamedTuple

from loghistory.schema import Kind

from ..contract import Check
from ..findings import number

_READ = ("process", "op", "offset", "value")
_ACKED = ("process", "op", "f", "offset", "value", "acks")

CHECKS: list[Check] = []


class TwoValues(NamedTuple):
    """Two different values that clients were told of at one offset; or one of which they were told that it reaches
    there, and elsewhere that it ends before."""

    offset: int
    first: int
    second: int


INCONSISTENT_OFFSET = number(
    CHECKS,
    Check(
        id="inconsistent-offset",
        rule="An offset binds one value: no two reads, and no read and acknowledgement, disagree about what is there, "
        "or about where a value ends.",
        source=("history-checks.md#inconsistent-offset", "history-checks.md#bind-offsets"),
        fact="a batch that a read returned, or an acknowledged acks=all append",
        sentence={
            "values": "A client was told that offset {offset} holds value {first}, and later a client was told that it "
            "holds value {second}.",
            "ends": "A client was told that value {first} reaches to offset {offset}, and another time that it ends "
            "before.",
        },
        fields=TwoValues,
        columns=_READ,
    ),
)


class TwoOffsets(NamedTuple):
    """One value that clients were told of at two offsets."""

    value: int
    first: int
    second: int


DUPLICATE = number(
    CHECKS,
    Check(
        id="duplicate",
        rule="A value that was appended once is at one offset only.",
        source=("history-checks.md#duplicate",),
        fact="a value that was read",
        sentence="Value {value} was appended once but is at offsets {first} and {second}.",
        fields=TwoOffsets,
        kinds=(Kind.OBSERVE, Kind.INVOKE),
        columns=_READ,
    ),
)


class Placed(NamedTuple):
    """A value, and the offset at which a client was told it is."""

    value: int
    offset: int


ABORTED_READ = number(
    CHECKS,
    Check(
        id="aborted-read",
        rule="The value of an append that failed is never read.",
        source=("history-checks.md#aborted-read", "raft.md#failed-never-committed"),
        fact="a value whose appends all failed, in a history with reads",
        sentence="Value {value} was read at offset {offset} although its append failed.",
        fields=Placed,
        kinds=(Kind.OBSERVE, Kind.FAIL),
        columns=_READ,
    ),
)
PHANTOM = number(
    CHECKS,
    Check(
        id="phantom",
        rule="Only values that some client appended are read.",
        source=("history-checks.md#phantom",),
        fact="a value that was read, in a history with appends",
        sentence="Value {value} was read at offset {offset} although nobody had appended it.",
        fields=Placed,
        kinds=(Kind.OBSERVE, Kind.INVOKE),
        columns=_READ,
        looks_back=True,
    ),
)
LOST_WRITE = number(
    CHECKS,
    Check(
        id="lost-write",
        rule="An append acknowledged with acks=all is read by those who read past its offset.",
        source=("history-checks.md#lost-write", "raft.md#acked-survives"),
        fact="an acknowledged acks=all append whose offset was read or passed over",
        sentence="Value {value} was acknowledged with acks=all at offset {offset} and is lost: reads of that offset do "
        "not return it.",
        fields=Placed,
        kinds=(Kind.OK,),
        columns=_ACKED,
        explained_by=frozenset({Kind.TRIM, Kind.COMPACT}),
        by_trims=True,
    ),
)
UNSEEN = number(
    CHECKS,
    Check(
        id="unseen",
        rule="A final read of everything returns every append that was acknowledged with acks=all, or returned by a "
        "committed or linearizable read, before it began.",
        source=("history-checks.md#unseen", "raft.md#read-levels"),
        fact="an append acknowledged with acks=all or returned as committed, in a history with a final read",
        sentence="Value {value} was acknowledged with acks=all, or returned as committed, at offset {offset}, but the "
        "final read of everything does not return it.",
        fields=Placed,
        kinds=(Kind.OK,),
        columns=_ACKED,
        explained_by=frozenset({Kind.TRIM, Kind.COMPACT}),
        by_trims=True,
    ),
)


class PassedOver(NamedTuple):
    """A reader went from one offset to another, over a value."""

    before: int
    after: int
    value: int
    offset: int


SKIP = number(
    CHECKS,
    Check(
        id="skip",
        rule="A reader does not pass over an offset that holds something.",
        source=("history-checks.md#skip",),
        fact="a batch that a read returned to a reader whose position is known",
        sentence="A reader went from offset {before} to offset {after} and passed over value {value} at offset "
        "{offset}.",
        fields=PassedOver,
        kinds=(Kind.OBSERVE,),
        columns=_READ,
        from_start=True,
        explained_by=frozenset({Kind.TRIM, Kind.COMPACT}),
        by_trims=True,
    ),
)


class WentBack(NamedTuple):
    """A reader was given an offset below its position."""

    position: int
    offset: int


NON_MONOTONIC_READ = number(
    CHECKS,
    Check(
        id="non-monotonic-read",
        rule="A reader does not go back without asking to.",
        source=("history-checks.md#non-monotonic-read",),
        fact="a batch that a read returned to a reader whose position is known",
        sentence="A reader at offset {position} was given offset {offset}.",
        fields=WentBack,
        kinds=(Kind.OBSERVE,),
        columns=_READ,
    ),
)


class OutOfOrder(NamedTuple):
    """A client's two appends, and where they are."""

    client: int
    first: int
    first_offset: int
    second: int
    second_offset: int


NON_MONOTONIC_APPEND = number(
    CHECKS,
    Check(
        id="non-monotonic-append",
        rule="One client's acknowledged appends are in the log in the order in which the client made them.",
        source=("history-checks.md#non-monotonic-append", "raft.md#enqueue-order"),
        fact="two successive acknowledged appends of a client, with acks=all or in one leader's term",
        sentence="Client {client} had value {first} acknowledged at offset {first_offset}, and then value {second} at "
        "offset {second_offset}.",
        fields=OutOfOrder,
        kinds=(Kind.OK,),
        columns=("process", "op", "f", "offset"),
    ),
)


class TermsOutOfOrder(NamedTuple):
    """Two acknowledged appends, the first of a later term than the second, which is behind it."""

    first: int
    first_offset: int
    first_term: int
    second: int
    second_offset: int
    second_term: int


TERMS_IN_ORDER = number(
    CHECKS,
    Check(
        id="terms-in-order",
        rule="What is acknowledged with acks=all in one term, or returned by a final read, is in front of what is "
        "acknowledged, or returned by a final read as well, in later terms.",
        source=("history-checks.md#terms-in-order", "raft.md#leader-completeness"),
        fact="an append acknowledged with its offset and term, with acks=all or returned by a final read",
        sentence="Value {first} was acknowledged at offset {first_offset} in term {first_term}, but value {second}, "
        "behind it at offset {second_offset}, in the earlier term {second_term}.",
        fields=TermsOutOfOrder,
        kinds=(Kind.OK,),
        columns=(*_ACKED, "term"),
    ),
)


class AppendedAgain(NamedTuple):
    """A client appended a value that was appended before."""

    client: int
    value: int


VALUES_ARE_NEW = number(
    CHECKS,
    Check(
        id="values-are-new",
        rule="A value is appended once; again only if no append of it is known to have succeeded, and after a failure "
        "only by the same client.",
        source=("history-checks.md#values-are-new",),
        fact="an append of a value",
        sentence="Client {client} appended value {value} again, which had been acknowledged, or had failed for another "
        "client: nobody can tell the two appends apart.",
        fields=AppendedAgain,
        kinds=(Kind.INVOKE,),
        columns=("process", "op", "f", "value"),
        doubtful=True,
    ),
)


class Inverted(NamedTuple):
    """Two appends, one acknowledged before the other began, and where they are."""

    first: int
    first_offset: int
    second: int
    second_offset: int


REAL_TIME_INVERSION = number(
    CHECKS,
    Check(
        id="real-time-inversion",
        rule="An append that was invoked after another was acknowledged comes after it in the log (acks=1: within one "
        "term).",
        source=("history-checks.md#real-time-inversion", "history-checks.md#pairwise-bounds"),
        fact="an append with a known offset that was invoked after another was acknowledged",
        sentence="Value {first} was acknowledged at offset {first_offset} before the append of value {second} began, "
        "but value {second} is at offset {second_offset}.",
        fields=Inverted,
        kinds=(Kind.INVOKE, Kind.OK),
        columns=_ACKED,
    ),
)


class ShortTail(NamedTuple):
    """A tail, and the entries that were known before."""

    tail: int
    known: int


STALE_TAIL = number(
    CHECKS,
    Check(
        id="stale-tail",
        rule="A tail is at least what had been acknowledged with acks=all, returned as a tail, or shown by a committed "
        "or linearizable read, before it was asked for.",
        source=("history-checks.md#stale-tail", "raft.md#barrier"),
        fact="an answered tail",
        sentence="A tail of {tail:entry|entries} was returned although {known:was|were} known before it was asked for.",
        fields=ShortTail,
        kinds=(Kind.OK,),
        columns=("process", "op", "f", "offset"),
    ),
)


class ShortRead(NamedTuple):
    """Where a linearizable read ended, and the entries that were known before."""

    end: int
    known: int


STALE_READ = number(
    CHECKS,
    Check(
        id="stale-read",
        rule="A linearizable read goes on at least to the end of what had been acknowledged with acks=all, returned as "
        "a tail or shown by a committed or linearizable read before it was asked for.",
        source=("history-checks.md#stale-read", "raft.md#read-index"),
        fact="an answered linearizable read",
        sentence="A linearizable read ended before offset {end} although {known:entry was|entries were} known before "
        "it was asked for.",
        fields=ShortRead,
        kinds=(Kind.OK,),
        columns=("process", "op", "f", "offset"),
        explained_by=frozenset({Kind.TRIM}),
        by_trims=True,
    ),
)
