"""The checks that `fold` judges: what each asks for, and what the kernel reports of a violation."""

from __future__ import annotations

from typing import NamedTuple

from loghistory.schema import Kind

from ...contract import Check
from ...findings import Acks, Node, number

_ENTRY = ("node", "offset", "entry_term")

CHECKS: list[Check] = []


class Appended(NamedTuple):
    """A node appended an entry of a term."""

    node: Node
    offset: int
    term: int


LOG_MATCHING = number(
    CHECKS,
    Check(
        id="log-matching",
        rule="Two logs that hold an entry with the same offset and term are the same up to that entry.",
        source=("documents.md#raft-simplification-introduction", "raft.md#log-matching", "raft.md#skip-duplicates"),
        fact="an appended batch that another log holds with the same offset and term",
        sentence="Node {node} appended an entry of term {term} at offset {offset}; another log holds an entry of the "
        "same term there, but that entry, or the log before it, is different.",
        fields=Appended,
        kinds=(Kind.APPEND,),
        columns=(*_ENTRY, "value"),
    ),
)


class Overlap(NamedTuple):
    """A node appended at an offset below the end of its log."""

    node: Node
    offset: int
    end: int


APPEND_AT_END = number(
    CHECKS,
    Check(
        id="append-at-end",
        rule="A node appends at the end of its log, never over entries that it still holds.",
        source=("raft.md#truncation", "raft.md#log-matching"),
        fact="an appended batch",
        sentence="Node {node} appended at offset {offset} although its log reaches offset {end}.",
        fields=Overlap,
        kinds=(Kind.APPEND,),
        columns=_ENTRY,
    ),
)


class TermOrder(NamedTuple):
    """A node in its own term appended an entry of a term after one of another; without an offset, it is a candidate and
    holds that one."""

    node: Node
    offset: int
    term: int
    before: int
    own: int


LOG_TERMS = number(
    CHECKS,
    Check(
        id="log-terms-monotonic",
        rule="Terms never decrease along a log, and no entry has a later term than its node, nor the one in which its "
        "node is a candidate.",
        source=("raft.md#log-terms-monotonic", "raft.md#leader-commit", "raft.md#election-majority"),
        fact="an appended batch that begins a log or follows one that is known; an event of a candidate whose last "
        "entry is known",
        sentence={
            "appends": "Node {node}, in term {own}, appended at offset {offset} an entry of term {term} after one of "
            "term {before}.",
            "stands": "Node {node} is a candidate in term {own}, and holds an entry of that term.",
        },
        fields=TermOrder,
        kinds=(Kind.APPEND,),
        columns=(*_ENTRY, "term"),
    ),
)


class LeaderTruncation(NamedTuple):
    """A leader of a term truncated from an offset on."""

    leader: Node
    offset: int
    term: int


LEADER_APPEND_ONLY = number(
    CHECKS,
    Check(
        id="leader-append-only",
        rule="A leader never truncates its own log.",
        source=("raft.md#leader-append-only", "raft.md#truncation"),
        fact="a node that leads a term, by what it says or does; its truncations in that term are looked for",
        sentence="Node {leader} truncated its log from offset {offset} while it was leader of term {term}.",
        fields=LeaderTruncation,
        columns=("node", "term", "offset"),
    ),
)
TRUNCATION_NEEDS_DIVERGENCE = number(
    CHECKS,
    Check(
        id="truncation-needs-divergence",
        rule="A follower skips batches that it already has; it truncates only at an actual mismatch.",
        source=("raft.md#skip-duplicates", "raft.md#truncation", "documents.md#raft-simplification-recovery"),
        fact="the first append of a node after a truncation, in the same term",
        sentence="Node {node} truncated its log from offset {offset} and then appended the same entry (term {term}) "
        "there again.",
        fields=Appended,
        kinds=(Kind.TRUNCATE, Kind.APPEND),
        columns=_ENTRY,
    ),
)


class WithoutMajority(NamedTuple):
    """A node committed as a leader an entry of a term that too few voters had flushed."""

    leader: Node
    offset: int
    term: int
    holders: int
    needed: int


COMMITTED_ON_MAJORITY = number(
    CHECKS,
    Check(
        id="committed-flushed-on-majority",
        explained_by=frozenset({Kind.CONFIGURATION}),
        rule="When a leader commits an entry, a majority of the voters has flushed that very entry: same offset, same "
        "term.",
        source=("raft.md#leader-commit", "raft.md#durable", "documents.md#raft-recovery-committed-and-dirty"),
        fact="a move of the commit index by a leader, or by the first node to make it where none is seen to lead",
        sentence="Leader {leader} committed offset {offset} (entry of term {term}) when {holders:voter|voters} had "
        "flushed that entry; {needed:is|are} needed.",
        fields=WithoutMajority,
        kinds=(Kind.APPEND,),
        columns=(*_ENTRY, "commit", "flushed"),
    ),
)


class OldTerm(NamedTuple):
    """A leader in its own term committed an entry of another."""

    leader: Node
    offset: int
    term: int
    own: int


COMMIT_CURRENT_TERM = number(
    CHECKS,
    Check(
        id="commit-current-term",
        rule="A leader moves its commit index only to an entry of its own term.",
        source=("raft.md#leader-commit",),
        fact="a leader's move of its commit index",
        sentence="Leader {leader} committed offset {offset}, an entry of term {term}, by counting replicas in its own "
        "term {own}.",
        fields=OldTerm,
        kinds=(Kind.APPEND,),
        columns=(*_ENTRY, "commit", "term"),
    ),
)


class AheadOfLeaders(NamedTuple):
    """A node in its own term, which another one leads, is further than any leader has been."""

    node: Node
    offset: int
    own: int
    leader: Node
    most: int


FOLLOWER_COMMIT = number(
    CHECKS,
    Check(
        id="follower-commit-within-leader",
        rule="A follower's commit index is never above the largest one that a leader has had.",
        source=("raft.md#follower-commit",),
        fact="a move of the commit index of a node that does not lead",
        sentence="Node {node} has commit index {offset} in term {own}, which node {leader} leads; no leader has had a "
        "commit index above {most}.",
        fields=AheadOfLeaders,
        columns=("node", "term", "commit"),
    ),
)
FOLLOWER_VISIBLE = number(
    CHECKS,
    Check(
        id="follower-visible-within-leader",
        rule="A follower's visible offset is never above the largest one that a leader has had.",
        source=("raft.md#follower-visible",),
        fact="a move of the visible offset of a node that does not lead",
        sentence="Node {node} shows readers everything up to {offset} in term {own}, which node {leader} leads; no "
        "leader has shown more than up to {most}.",
        fields=AheadOfLeaders,
        columns=("node", "term", "visible"),
    ),
)


class OtherCommitted(NamedTuple):
    """A node committed an entry of a term where one of another term is committed."""

    node: Node
    offset: int
    term: int
    other: int


COMMITTED_AGREE = number(
    CHECKS,
    Check(
        id="committed-agree",
        rule="All nodes commit the same entry at the same offset.",
        source=("raft.md#follower-commit", "raft.md#recovery-commit", "documents.md#raft-simplification-introduction"),
        fact="a move of a node's commit index",
        sentence="Node {node} committed an entry of term {term} at offset {offset}, where a different entry, of term "
        "{other}, had been committed before.",
        fields=OtherCommitted,
        kinds=(Kind.APPEND,),
        columns=(*_ENTRY, "commit"),
    ),
)


class CommittedRemoved(NamedTuple):
    """A node truncated from an offset on, and so the committed entry at another."""

    node: Node
    offset: int
    removed: int
    term: int


COMMITTED_NEVER_TRUNCATED = number(
    CHECKS,
    Check(
        id="committed-never-truncated",
        rule="No node truncates an entry that is committed, whether by itself or by another node; an entry that its "
        "leader has compacted away may go.",
        source=("raft.md#truncation", "raft.md#cut-below-commit", "ghost-batches.md#ghost-over-entries"),
        fact="a truncation that removes something",
        sentence="Node {node} truncated its log from offset {offset} and so removed the committed entry at offset "
        "{removed} (term {term}).",
        fields=CommittedRemoved,
        kinds=(Kind.TRUNCATE, Kind.APPEND),
        columns=("node", "offset", "commit"),
    ),
)


class Incomplete(NamedTuple):
    """A node was elected in a term without a committed entry."""

    leader: Node
    elected: int
    offset: int
    term: int


LEADER_COMPLETENESS = number(
    CHECKS,
    Check(
        id="leader-completeness",
        rule="A new leader's log holds every entry committed in an earlier term.",
        source=("raft.md#log-ok", "raft.md#leader-commit"),
        fact="a node that leads a term after something was committed, or a late commit by an older leader",
        sentence="Node {leader} became leader of term {elected} without the committed entry at offset {offset} (term "
        "{term}).",
        fields=Incomplete,
        kinds=(Kind.APPEND,),
        columns=("node", "term", "commit"),
    ),
)


class ShownEarly(NamedTuple):
    """A node made an entry of a term visible that too few voters ever held."""

    node: Node
    offset: int
    term: int
    holders: int
    needed: int


VISIBLE_ON_MAJORITY = number(
    CHECKS,
    Check(
        id="visible-on-majority",
        explained_by=frozenset({Kind.CONFIGURATION}),
        rule="An entry that readers may see is committed, or is or has been in the logs of a majority of the voters.",
        source=("raft.md#majority-replicated", "raft.md#replicated", "documents.md#raft-simplification-acks"),
        fact="a move of a node's visible offset",
        sentence="Node {node} made offset {offset} (entry of term {term}) visible when {holders:voter|voters} had ever "
        "held that entry; {needed:is|are} needed.",
        fields=ShownEarly,
        kinds=(Kind.APPEND,),
        columns=(*_ENTRY, "visible"),
        from_start=True,
    ),
)


class PendingShown(NamedTuple):
    """A node made everything up to an offset visible, and with it a pending entry."""

    node: Node
    offset: int
    pending: int
    term: int


PENDING_NOT_VISIBLE = number(
    CHECKS,
    Check(
        id="pending-not-visible",
        rule="An entry written with acks=all is not visible before it is committed, whatever other entries surround "
        "it.",
        source=("raft.md#visible-offset", "raft.md#visibility-on-append"),
        fact="a move of a node's visible offset, with write caching off",
        sentence="Node {node} made everything up to offset {offset} visible, but the acks=all entry at offset "
        "{pending} (term {term}) is not committed.",
        fields=PendingShown,
        kinds=(Kind.APPEND,),
        columns=(*_ENTRY, "visible", "acks"),
    ),
)


class WrongSuccess(NamedTuple):
    """A node acknowledged an append, at its commit index."""

    node: Node
    offset: int
    term: int
    acks: Acks
    commit: int


ACK_RULE = number(
    CHECKS,
    Check(
        id="ack-rule",
        explained_by=frozenset({Kind.CONFIGURATION}),
        rule="A leader acknowledges acks=all only when it still holds the entry in the term it was written in and has "
        "committed it; acks 0 and 1 only when it has appended it.",
        source=("raft.md#quorum-ack", "raft.md#relaxed-acks"),
        fact="an append answered with success by a node",
        sentence="Node {node} acknowledged the append at offset {offset} (term {term}, acks {acks}) with commit index "
        "{commit}: the entry is not committed, or the node no longer holds it.",
        fields=WrongSuccess,
        kinds=(Kind.ACKED,),
        columns=(*_ENTRY, "acks", "reason", "commit"),
    ),
)


class WrongTruncated(NamedTuple):
    """A node answered that an append was truncated, at its commit index."""

    node: Node
    offset: int
    term: int
    commit: int


TRUNCATED_RULE = number(
    CHECKS,
    Check(
        id="truncated-rule",
        rule="A leader reports an append as truncated only when a later term has committed and the entry is gone.",
        source=("raft.md#quorum-ack",),
        fact="an append answered with truncated by a node",
        sentence="Node {node} reported the append at offset {offset} (term {term}) as truncated with commit index "
        "{commit}: no later term had committed yet, or the entry was still there.",
        fields=WrongTruncated,
        kinds=(Kind.ACKED,),
        columns=(*_ENTRY, "reason", "commit"),
    ),
)


class Entry(NamedTuple):
    """An entry, named by its first offset and term."""

    offset: int
    term: int


ACKED_SURVIVES = number(
    CHECKS,
    Check(
        id="acked-survives",
        rule="An entry acknowledged with acks=all stays in the log for good.",
        source=("raft.md#acked-survives", "raft.md#quorum-ack", "documents.md#raft-simplification-acks"),
        fact="an acknowledged acks=all entry whose fate the history shows",
        sentence="The entry at offset {offset} (term {term}) was acknowledged with acks=all and is lost.",
        fields=Entry,
        kinds=(Kind.ACKED, Kind.APPEND),
        columns=(*_ENTRY, "acks", "reason"),
    ),
)
FAILED_NEVER_COMMITTED = number(
    CHECKS,
    Check(
        id="failed-never-committed",
        rule="An entry whose append was reported as truncated is never committed.",
        source=("raft.md#failed-never-committed", "raft.md#quorum-ack"),
        fact="an append reported as truncated",
        sentence="The entry at offset {offset} (term {term}) was reported as truncated, but it is committed.",
        fields=Entry,
        kinds=(Kind.ACKED, Kind.APPEND),
        columns=(*_ENTRY, "reason"),
    ),
)


class Answered(NamedTuple):
    """A node answered an append of a term."""

    node: Node
    offset: int
    last: int
    term: int


ANSWERED_AS_WRITTEN = number(
    CHECKS,
    Check(
        id="answered-as-written",
        rule="A node answers an append once, in the life in which it wrote it, with the offsets and the acks level "
        "that it wrote it with.",
        source=("raft.md#answered-once",),
        fact="an answer to an append that some log is seen to hold",
        sentence="Node {node} answered the append at offsets {offset} to {last} of term {term} a second time, in "
        "another life than the one that wrote it, or not as it was written.",
        fields=Answered,
        kinds=(Kind.ACKED, Kind.APPEND),
        columns=(*_ENTRY, "acks"),
    ),
)
COPIES_AGREE = number(
    CHECKS,
    Check(
        id="copies-agree",
        rule="The copies of an entry have the same value and key, or none of them has one, and the same acks level and "
        "number of bytes where they state them.",
        source=("raft.md#copies-agree",),
        fact="an appended batch that another log holds with the same offset and term, and is the same entry",
        sentence="Node {node} appended the entry of term {term} at offset {offset} with another value, key, acks level "
        "or number of bytes than the first copy of it has.",
        fields=Appended,
        kinds=(Kind.APPEND,),
        columns=_ENTRY,
        doubtful=True,
    ),
)


class Within(NamedTuple):
    """A node flushed up to an offset inside the batch at ``offset`` to ``last``."""

    node: Node
    flushed: int
    offset: int
    last: int


FLUSHED_WHOLE = number(
    CHECKS,
    Check(
        id="batches-are-flushed-whole",
        rule="What a node has flushed ends with a batch.",
        source=("raft.md#batches-are-flushed-whole",),
        fact="a flush up to an entry that the log of its node is shown to hold",
        sentence="Node {node} flushed up to offset {flushed}, which is inside its batch at offsets {offset} to {last}.",
        fields=Within,
        kinds=(Kind.FLUSH, Kind.APPEND),
        columns=("node", "offset", "last_offset", "flushed"),
    ),
)


class Returned(NamedTuple):
    """A read returned a value at an offset."""

    value: int
    offset: int


UNCOMMITTED_READ = number(
    CHECKS,
    Check(
        id="uncommitted-read",
        rule="A read returns only what some node had made visible; a committed read returns only what was committed.",
        source=("history-checks.md#uncommitted-read", "raft.md#visible-offset"),
        fact="a batch that a read returned",
        sentence="A read returned value {value} at offset {offset}, which no node had made visible (or, for a "
        "committed read, committed).",
        fields=Returned,
        kinds=(Kind.OBSERVE, Kind.APPEND),
        columns=("process", "offset", "value"),
    ),
)


class Missing(NamedTuple):
    """A node started with a log that ends before what it had."""

    node: Node
    offset: int
    end: int


FLUSHED_DURABLE = number(
    CHECKS,
    Check(
        id="flushed-durable",
        rule="What a node had flushed is in its log when it starts again, whatever stopped it.",
        source=("raft.md#power-loss", "raft.md#failed-fsync", "raft.md#cut-in-a-lost-end"),
        fact="a start of a node that had flushed something",
        sentence="Node {node} had flushed up to {offset}, but after its restart its log ends at {end}.",
        fields=Missing,
        kinds=(Kind.START,),
        columns=("flushed", "dirty"),
    ),
)
DIRTY_SURVIVES_CRASH = number(
    CHECKS,
    Check(
        id="dirty-survives-crash",
        rule="A process that dies without losing power keeps everything it had appended: the page cache survives. So "
        "does one that finds its disk full.",
        source=("raft.md#process-crash", "history-checks.md#full-disk", "raft.md#cut-in-a-lost-end"),
        fact="a start of a node that had appended something, after a crash, a stop or a full disk, without power loss "
        "or another storage error",
        sentence="Node {node} had appended up to {offset} and only its process died, "
        "but after its restart its log ends at {end}.",
        fields=Missing,
        kinds=(Kind.START,),
        columns=("dirty",),
    ),
)
