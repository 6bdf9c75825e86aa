"""The checks that `fold` judges: ids as in history-checks.md#anomalies, rules, and how a breach is told."""

from __future__ import annotations

from loghistory.schema import Kind

from ..contract import Check

INCONSISTENT_OFFSET = 0
DUPLICATE = 1
ABORTED_READ = 2
PHANTOM = 3
LOST_WRITE = 4
UNSEEN = 5
SKIP = 6
NON_MONOTONIC_READ = 7
NON_MONOTONIC_APPEND = 8
REAL_TIME_INVERSION = 9
STALE_TAIL = 10

_READ = ("process", "op", "offset", "value")
_ACKED = ("process", "op", "f", "offset", "value", "acks")

CHECKS = (
    Check(
        "inconsistent-offset",
        "An offset binds one value: no two reads, and no read and acknowledgement, differ on what is there.",
        "history-checks.md#inconsistent-offset, history-checks.md#bind-offsets",
        "a batch that a read returned, or an acknowledged acks=all append",
        (),
        _READ,
    ),
    Check(
        "duplicate",
        "A value that was appended once is at one offset only.",
        "history-checks.md#duplicate",
        "a value that was read",
        (Kind.OBSERVE, Kind.INVOKE),
        _READ,
    ),
    Check(
        "aborted-read",
        "The value of an append that failed is never read.",
        "history-checks.md#aborted-read, raft.md#failed-never-read",
        "a value whose appends all failed, in a history with reads",
        (Kind.OBSERVE, Kind.FAIL),
        _READ,
    ),
    Check(
        "phantom",
        "Only values that some client appended are read.",
        "history-checks.md#phantom",
        "a value that was read, in a history with appends",
        (Kind.OBSERVE, Kind.INVOKE),
        _READ,
    ),
    Check(
        "lost-write",
        "An append acknowledged with acks=all is read by those who read past its offset.",
        "history-checks.md#lost-write, raft.md#acked-survives",
        "an acknowledged acks=all append whose offset was read or passed over",
        (Kind.OK,),
        _ACKED,
    ),
    Check(
        "unseen",
        "A final read of everything returns every append that was acknowledged with acks=all.",
        "history-checks.md#unseen",
        "an acknowledged acks=all append, in a history with a final read",
        (Kind.OK,),
        _ACKED,
    ),
    Check(
        "skip",
        "A reader does not pass over an offset that holds something.",
        "history-checks.md#skip",
        "a batch that a read returned behind a known position",
        (Kind.OBSERVE,),
        _READ,
    ),
    Check(
        "non-monotonic-read",
        "A reader does not go back without asking to.",
        "history-checks.md#non-monotonic-read",
        "a batch that a read returned behind a known position",
        (Kind.OBSERVE,),
        _READ,
    ),
    Check(
        "non-monotonic-append",
        "One client's acknowledged appends are in the log in the order it made them.",
        "history-checks.md#non-monotonic-append, raft.md#enqueue-order",
        "two successive acknowledged appends of a client, with acks=all or in one leader's term",
        (Kind.OK,),
        ("process", "op", "f", "offset"),
    ),
    Check(
        "real-time-inversion",
        "An append that was invoked after another was acknowledged is behind it in the log (acks=1: in one term).",
        "history-checks.md#real-time-inversion, history-checks.md#pairwise-bounds",
        "an append with a known offset that was invoked after another was acknowledged",
        (Kind.INVOKE, Kind.OK),
        _ACKED,
    ),
    Check(
        "stale-tail",
        "A tail is not smaller than what had been acknowledged with acks=all, or given as tail, when it was asked for.",
        "history-checks.md#stale-tail",
        "an answered tail",
        (Kind.OK,),
        ("process", "op", "f", "offset"),
    ),
)

SENTENCES = (
    "At offset {n0} a client was told value {n1} and later a client was told value {n2}.",
    "Value {n0} was appended once but is at offset {n1} and at offset {n2}.",
    "Value {n0} was read at offset {n1} although its append failed.",
    "Value {n0} was read at offset {n1} although nobody had appended it.",
    "Value {n0} was acknowledged with acks=all at offset {n1} and is lost: reads of that offset do not return it.",
    "Value {n0} was acknowledged with acks=all at offset {n1}, but the final read of everything does not return it.",
    "A reader went from offset {n0} to offset {n1} and passed over value {n2} at offset {n3}.",
    "A reader that was at offset {n0} was given offset {n1}.",
    "Client {n0} appended value {n1} at offset {n2}, and after that was acknowledged value {n3} at offset {n4}.",
    "Value {n0} was acknowledged at offset {n1} before the append of value {n2} began, which is at offset {n3}.",
    "A tail of {n0} entries was given although {n1} were known before it was asked for.",
)
