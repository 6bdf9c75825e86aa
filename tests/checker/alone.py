"""The smallest part of a history in which a violation is found as in the whole: its evidence, and what that rests on.

`PROOFS` shows by hand what the evidence of a check of Raft proves. Here the check itself is asked, on the evidence and
a few events beside it: those that name what the evidence is about, and, of the checks in `BESIDE`, those of a kind that
no evidence can hold all of. Then each event of the evidence is taken away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from loghistory import SCHEMA
from logwitness import Violation, check

Row = dict[str, Any]

NAMES = {
    "invoke": "what was asked, of which the evidence has the answer: it is found by its number",
    "serve": "which host a server is, and what it was told",
    "start": "the life that a node is in",
    "takes_part": "the same of a shard",
    "nodeset": "the shards of an epoch, and where they are",
    "stream_start": "what a stream had asked of a shard when that answered",
    "stream_settings": "what a reader was told",
}
"""Kinds that name what evidence is about, and why they need not be part of it."""

BESIDE: dict[str, tuple[Collection[str], str]] = {
    "unseen": (("ok",), "the end of the final read, which shows by all that it returned that it lacks something"),
    "lost-write": (("observe",), "what reads returned behind the offset: any of that shows that they went past it"),
    "skip": (("ok",), "where the read before ended, if the one that skips goes on there"),
    "stale-read": (("observe",), "where a read ended is told by what it returned last"),
    "stale-tail": (("observe",), "where a read ended is told by what it returned last"),
    "terms-in-order": (("observe",), "that both are in the log as it ended up, where acks=1 promises nothing more"),
    "linearizable-log": (
        ("observe", "ok", "fail"),
        "a log as a whole is at fault: two operations are named, the bounds of all others lie between",
    ),
    "reads-add-up": (("observe",), "all that a read was given: its observations, by its number"),
    "query-ends-as-answered": (("rows",), "all that a client was given, by the number of its query"),
    "flushed-follows-events": (("flush",), "a flush by any node tells that flushes are recorded"),
    "starts-in-its-last-term": (("append",), "the entries behind the one of the highest term"),
    "votes-state-the-log": (("append", "truncate", "trim"), "how the log changed since the voter came to the term"),
    "leader-writes-first": (("leader",), "an election by any node tells that elections are recorded"),
    "removed-when-gone": (
        ("down", "up", "assigned"),
        "who was considered down, by anybody and under which assignment, and for how long: none for long enough",
    ),
    "bad-time-bounded": (
        ("down", "up", "listed", "finish"),
        "that both servers ran all the while: their checks, and since when they know each other; that ends are told",
    ),
    "heard-was-said": (("forward",), "the other requests of that query: none of them is that one"),
    "folds-in-order": (("changelog",), "the changelog up to its end"),
    "rows-are-the-table": (("changelog",), "a table is all of its changelog up to a position"),
    "reports-are-true": (("changelog",), "the changelog up to its end"),
    "takeover-comes-first": (("changelog",), "the changelog from its beginning: it has an epoch's records in order"),
    "statuses-follow-events": (("event_log",), "the records before, of which the statuses are made"),
    "heartbeats-to-all": (("heard",), "whatever the server did next: it went on"),
    "reports-to-all": (("report_sent",), "a report sent by any server tells that it is recorded where they go"),
    "reports-go-on": (
        ("heartbeat", "heard", "up", "down"),
        "so many heartbeats or checks as the sentence says, the last of them evidence; and what the server did after",
    ),
    "members-are-listed": (
        ("report", "serve", "listed"),
        "so many reports as the sentence says; who has served as which node; and that it is recorded who is listed",
    ),
    "targets-may-answer": (("changelog",), "of which epoch the takeover is among the offsets passed"),
    "acknowledged-not-lost": (("copy", "purge"), "the copies that it had, where the system has deleted them since"),
    "bridge-hides-nothing": (
        ("copy", "fault", "purge", "stream_heard"),
        "that it was owed once: it had copies, and a disk was lost; what was purged, and what bridges there were",
    ),
    "recovered-copies-agree": (
        ("copy", "recover", "crash", "release", "trim_point"),
        "the copies that the sentence names, by LSN and shard, or none; that what the nodes recorded is whole; and "
        "that trims are recorded",
    ),
    "rebuilt-is-replicated": (
        ("copy", "crash", "event_log", "purge"),
        "the statuses before; that it had enough copies, and that the one who had it became empty; and that what the "
        "nodes recorded is whole",
    ),
    "replication-property-holds": (
        ("copy", "acknowledge", "event_log"),
        "what was stored, or acknowledged, in front and behind; that no shard was to be rebuilt or drained before",
    ),
    "candidates-follow-view": (("route",), "that it is recorded how queries are routed"),
    "recovery-settles-all": (("seal", "copy"), "all that a recovery read and stored: something is not among it"),
    "empty-takes-nothing": (("event_log",), "the statuses of shards, of which the last record has all"),
    "seal-is-kept": (("seal",), "the seals that there were, none of which is that far"),
    "ships-what-it-stored": (
        ("copy", "fault"),
        "all that the shard stored, and that it was not cut off: that is not among it",
    ),
    "ships-all-it-has": (
        ("copy", "purge", "stream_heard"),
        "that the shard kept its copy, and up to where it had answered before",
    ),
    "lost-data-refuses": (("event_log",), "what it lost before, and that this was rebuilt"),
    "one-shipper": (
        ("ship", "stream_heard", "release"),
        "that the record was due, and that all shards answered from behind it without having shipped it",
    ),
    "holes-are-for-all": (("stream_heard",), "that the gap is told by a bridge record"),
    "gap-has-verdict": (
        ("stream_heard", "stream_rewind", "stream_record", "stream_closed", "stream_statuses", "event_log"),
        "what shards answered since they were asked last, on connections that last, what was delivered of it, and what "
        "shards count as: the sentence says who had not",
    ),
    "gap-has-type": (("stream_heard",), "what shards answered since they were asked last"),
    "no-gap-too-early": (
        ("stream_heard", "stream_metadata", "stream_statuses", "event_log"),
        "what the reader had: answers from all shards, the metadata, the statuses of that version",
    ),
    "progress-or-stall": (
        ("stream_heard", "stream_metadata", "stream_statuses", "event_log"),
        "what the reader had: answers from all shards, the metadata, the statuses of that version",
    ),
}
"""By check: kinds of events that its violations rest on beside their evidence, and why that does not hold them."""

ANCHORS: dict[str, tuple[Collection[str], str]] = {
    "duplicate": (("invoke",), "that it was appended, once"),
    "linearizable-log": (("ok",), "the first offset that is known"),
    "completes-what-is-open": (("invoke",), "what was open under that name before"),
    "operations-are-new": (("ok",), "that the operation is over"),
    "starts-in-its-last-term": (("append",), "the entry by which the log came to its term, not only the last one"),
    "votes-state-the-log": (("term",), "since when its log ended there; the vote tells where it ended itself"),
    "leader-writes-first": (("append",), "how far the leader had written"),
    "status-replays": (("heard",), "all that was heard, though less of it would not have been enough either"),
    "silence-is-down": (("heard",), "all that was heard, though less of it would not have been enough either"),
    "no-false-down": (("heard",), "all that was heard, though less of it would have been enough"),
    "reports-go-on": (("report", "down", "heartbeat"), "since when it has done nothing more, and what else it did"),
    "acknowledged-not-lost": (("copy",), "the copy that a shard has now, though the one before would have been enough"),
    "answers-are-so": (("trim_point",), "how far it had trimmed; without that, not at all"),
    "report-times-rise": (("report_kept",), "what should have been there instead"),
    "shown-is-kept": (("report_kept",), "what should have been there instead"),
}
"""By check: kinds in its evidence that say what there is instead of what should be; without them it is not there
either."""


class Found(NamedTuple):
    """A violation of a check, in a history with a configuration."""

    name: str
    violation: Violation
    rows: list[Row]
    configuration: Mapping[str, Any]

    def is_said(self, rows: list[Row], *, by_the_same: bool) -> bool:
        """Whether the check says the same of these events alone; by the same evidence, or by any.

        Or would, if there were events of every kind (history-checks.md#never-recorded).
        """
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        sentence = self.violation.sentence
        return any(
            f"is recorded, which may explain this: {sentence}" in (outcome.reason or "")
            or any(
                each.sentence == sentence and (not by_the_same or each.events == self.violation.events)
                for each in outcome.violations
            )
            for outcome in check(table, [self.name], configuration=self.configuration).checks
        )

    def with_events(self, kinds: Collection[str]) -> list[Row]:
        """The evidence, and the events of these kinds, if the violation is found in them as before; else none."""
        evidence = {*self.violation.events}
        left = [row for row in self.rows if row["seq"] in evidence or row["kind"] in kinds]
        return left if self.is_said(left, by_the_same=True) else []

    def alone(self, kinds: Collection[str]) -> list[Row]:
        """The same with as few events as possible beside the evidence."""
        left, evidence = self.with_events(kinds), {*self.violation.events}
        piece = len(left)
        while piece:
            for first in reversed(range(0, len(left), piece)):
                some = [row for at, row in enumerate(left) if not first <= at < first + piece or row["seq"] in evidence]
                if len(some) < len(left) and self.is_said(some, by_the_same=True):
                    left = some
            piece //= 2
        return left

    def beside(self) -> tuple[set[str], set[str]]:
        """The kinds of events that it rests on beside its evidence, and those of its evidence that it does not need.

        Raises AssertionError if it rests on others than may be.
        """
        kinds, _ = BESIDE.get(self.name, ((), ""))
        left, evidence = self.alone({*NAMES, *kinds}), {*self.violation.events}
        assert left, f"{self.violation.sentence} does not follow from {sorted(evidence)} and {[*kinds]}"
        spare = {
            row["kind"]
            for row in left
            if row["seq"] in evidence and self.is_said([r for r in left if r is not row], by_the_same=False)
        }
        return {row["kind"] for row in left if row["seq"] not in evidence}, spare


def found_in(table: pa.Table, configuration: Mapping[str, Any], names: Collection[str], most: int) -> Iterator[Found]:
    """The violations of these checks in a history, so many of each at most."""
    rows: list[Row] = []
    for outcome in check(table, configuration=configuration).checks:
        for violation in outcome.violations[:most] if outcome.id in names else ():
            rows = rows or [{n: v for n, v in row.items() if v is not None} for row in table.to_pylist()]
            yield Found(outcome.id, violation, rows, configuration)
