"""The checks that `fold` judges: ids, rules, where they are stated, and how a breach is told."""

from __future__ import annotations

from loghistory.schema import Kind

from ...contract import Check

LOG_MATCHING = 0
APPEND_AT_END = 1
LOG_TERMS = 2
LEADER_APPEND_ONLY = 3
TRUNCATION_NEEDS_DIVERGENCE = 4
COMMITTED_ON_MAJORITY = 5
COMMIT_CURRENT_TERM = 6
COMMITTED_AGREE = 7
COMMITTED_NEVER_TRUNCATED = 8
LEADER_COMPLETENESS = 9
VISIBLE_ON_MAJORITY = 10
PENDING_NOT_VISIBLE = 11
ACK_RULE = 12
TRUNCATED_RULE = 13
ACKED_SURVIVES = 14
FAILED_NEVER_COMMITTED = 15
UNCOMMITTED_READ = 16

_ENTRY = ("node", "offset", "entry_term")

CHECKS = (
    Check(
        "log-matching",
        "Two logs that hold an entry with the same offset and term are the same up to that entry.",
        "raft-simplification.txt, Introduction; rules/raft.md, Truncation, crash, restart",
        "an appended batch that another log holds with the same offset and term",
        (Kind.APPEND,),
        (*_ENTRY, "value"),
    ),
    Check(
        "append-at-end",
        "A node appends behind the end of its log, never over entries that it still holds.",
        "rules/raft.md, Truncation, crash, restart",
        "an appended batch",
        (Kind.APPEND,),
        _ENTRY,
    ),
    Check(
        "log-terms-monotonic",
        "Terms never decrease along a log, and no entry is of a later term than its node's.",
        "rules/raft.md, Commit index and Elections",
        "an appended batch behind one that is known",
        (Kind.APPEND,),
        (*_ENTRY, "term"),
    ),
    Check(
        "leader-append-only",
        "A leader never truncates its own log.",
        "rules/raft.md, Truncation, crash, restart (only a follower truncates)",
        "an election won, during whose term truncations of the leader are looked for",
        (Kind.LEADER,),
        ("node", "term", "offset"),
    ),
    Check(
        "truncation-needs-divergence",
        "A follower skips batches that it already has; it truncates only at a real mismatch.",
        "rules/raft.md, Truncation, crash, restart; Recovery (no truncation and redelivery without divergence)",
        "the first append of a node after a truncation, in the same term",
        (Kind.TRUNCATE, Kind.APPEND),
        _ENTRY,
    ),
    Check(
        "committed-flushed-on-majority",
        "When a leader commits, a majority has flushed that very entry, offset and term.",
        "rules/raft.md, Commit index; raft-recovery.txt (committed: flushed on the majority of nodes)",
        "a leader's move of its commit index",
        (Kind.LEADER, Kind.APPEND),
        (*_ENTRY, "commit", "flushed"),
    ),
    Check(
        "commit-current-term",
        "A leader moves its commit index only to an entry of its own term.",
        "rules/raft.md, Commit index (term(q) = current term)",
        "a leader's move of its commit index",
        (Kind.LEADER, Kind.APPEND),
        (*_ENTRY, "commit", "term"),
    ),
    Check(
        "committed-agree",
        "At one offset all nodes commit the same entry.",
        "rules/raft.md, Recovery and Known faults (no divergence); raft-simplification.txt, Introduction",
        "a move of a node's commit index",
        (Kind.APPEND,),
        (*_ENTRY, "commit"),
    ),
    Check(
        "committed-never-truncated",
        "No node truncates an entry that is committed, by itself or by anyone.",
        "rules/raft.md, Truncation, crash, restart (never at or below commit)",
        "a truncation that removes something",
        (Kind.TRUNCATE, Kind.APPEND),
        ("node", "offset", "commit"),
    ),
    Check(
        "leader-completeness",
        "A new leader's log holds every entry committed in an earlier term.",
        "rules/raft.md, Elections (log_ok) and Known faults (committed entries are never lost)",
        "an election won after something was committed, and a late commit of an older leader",
        (Kind.LEADER, Kind.APPEND),
        ("node", "term", "commit"),
    ),
    Check(
        "visible-on-majority",
        "An entry that readers may see is, or has been, in the log of each node of a majority.",
        "rules/raft.md, Visibility (MRI, clamped to match_index)",
        "a move of a node's visible offset",
        (Kind.APPEND,),
        (*_ENTRY, "visible"),
    ),
    Check(
        "pending-not-visible",
        "An entry written with acks=all is not visible before it is committed, whatever lies around it.",
        "rules/raft.md, Visibility (meaning)",
        "a move of a node's visible offset, write caching off",
        (Kind.APPEND,),
        (*_ENTRY, "visible", "acks"),
    ),
    Check(
        "ack-rule",
        "A leader acknowledges acks=all only when it still holds the entry in the term it was written in and has "
        "committed it; acks 0 and 1 only when it has appended it.",
        "rules/raft.md, Acks (SUCCESS iff term(o) = t and commit >= o)",
        "an append answered with success by a node",
        (Kind.ACKED,),
        (*_ENTRY, "acks", "reason", "commit"),
    ),
    Check(
        "truncated-rule",
        "A leader reports an append as truncated only when a later term has committed and the entry is gone.",
        "rules/raft.md, Acks (TRUNCATED iff term(commit) > t and term(o) != t)",
        "an append answered with truncated by a node",
        (Kind.ACKED,),
        (*_ENTRY, "reason", "commit"),
    ),
    Check(
        "acked-survives",
        "An entry acknowledged with acks=all is in the log for good.",
        "rules/raft.md, Acks; raft-simplification.txt, Kafka ACKS in Redpanda",
        "an acknowledged acks=all entry whose fate the history shows",
        (Kind.ACKED, Kind.APPEND),
        (*_ENTRY, "acks", "reason"),
    ),
    Check(
        "failed-never-committed",
        "An entry whose append was reported as truncated is never committed.",
        "rules/raft.md, Acks and Known faults (an append reported failed is never read)",
        "an append reported as truncated",
        (Kind.ACKED, Kind.APPEND),
        (*_ENTRY, "reason"),
    ),
    Check(
        "uncommitted-read",
        "A read returns only what a node had made visible; a committed read only what was committed.",
        "history-checks.md, Anomalies; rules/raft.md, Visibility and Known faults (applied <= commit)",
        "a batch that a read returned",
        (Kind.OBSERVE, Kind.APPEND),
        ("process", "offset", "value"),
    ),
)

SENTENCES = (
    "Node {node0} appended at offset {n1} an entry of term {n2} that differs from the entry another log holds there "
    "in the same term, or that follows a different log.",
    "Node {node0} appended at offset {n1} although its log reaches to {n2}.",
    "Node {node0} appended at offset {n1} an entry of term {n2} after one of term {n3}, in its term {n4}.",
    "Node {node0} truncated its log from offset {n1} on while it was leader of term {n2}.",
    "Node {node0} truncated at offset {n1} and then appended the same entry (term {n2}) again.",
    "Leader {node0} committed offset {n1} (entry of term {n2}) when {n3} voters had flushed that entry; it takes {n4}.",
    "Leader {node0} committed offset {n1}, an entry of term {n2}, by counting in its own term {n3}.",
    "Node {node0} committed at offset {n1} an entry of term {n2}; the entry committed there before is of term {n3} "
    "or of another log.",
    "Node {node0} truncated from offset {n1} on and so removed the committed entry at {n2} (term {n3}).",
    "Node {node0} became leader of term {n1} without the committed entry at offset {n2} (term {n3}).",
    "Node {node0} made offset {n1} (entry of term {n2}) visible; only {n3} voters ever held that entry, it takes {n4}.",
    "Node {node0} made everything up to offset {n1} visible, but the acks=all entry at {n2} (term {n3}) "
    "is not committed.",
    "Node {node0} acknowledged the append at offset {n1} (term {n2}, acks {n3}) with commit index {n4}: not committed, "
    "or no longer the entry it holds there.",
    "Node {node0} reported the append at offset {n1} (term {n2}) as truncated with commit index {n3}: no later "
    "term had committed yet, or the entry was still there.",
    "The entry at offset {n0} (term {n1}) was acknowledged with acks=all and is lost.",
    "The entry at offset {n0} (term {n1}) was reported as truncated, but it is committed.",
    "A read returned value {n1} at offset {n0}, which no node had made visible (or, for a committed read, committed).",
)
