"""What a majority holds stays, as long as no power is lost: the majority replicated index (MRI) across terms.

The proof is that of ``raft_safety`` in a world where a crash keeps what is dirty: there dirty is as good as flushed,
and MRI with its rules (``replicated_dirty``, ``may_count_replicated``, ``follower_visible``) takes the place of the
commit index with its own. So what a reader was shown is in every later leader's log, no two nodes show different
entries, and no truncation cuts off what was shown. Like the commit index, MRI may be raised only by an entry of the
leader's own term. Sources: raft.md#majority-replicated, documents.md#raft-simplification-acks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from logspec.proofs.claims import ChangedRules, Claim, Proof, Rules, Twin
from logspec.proofs.raft_safety import ASSUMES, SIZES, World, claims
from logspec.proofs.raft_state import State


def _dirty_is_enough(s: State) -> State:
    return replace(s, flushed=s.dirty, durable=s.dirty)


KNOWN_IS_SHOWN = (
    "a node's commit index is at most its MRI (pending, committed-is-visible); so what a snapshot sums up, and what a"
    " change of voters rests on, is too"
)

NO_POWER_LOSS = World(
    _dirty_is_enough,
    {
        "commit-current-term": "replicated-current-term",
        "commit-within-flushed": "visible-within-dirty",
        "committed-flushed-on-majority": "visible-on-majority",
        "committed-agree": "visible-never-changes",
    },
    ("vote-result", "majority-replicated"),
)
"""A crash keeps the page cache, so that nothing dirty is lost; what is committed there is what is visible here."""


def visibility_for_commit(rules: Rules) -> Mapping[str, Callable[..., Any]]:
    """The rules of MRI in the places of those of the commit index."""
    own_term: Callable[[int, int], bool] = rules.may_count_replicated
    shown: Callable[[int, int, int], int] = rules.follower_visible

    def may_commit(candidate: int, commit: int, candidate_term: int, current_term: int) -> bool:
        return candidate > commit and own_term(candidate_term, current_term)

    def follower_commit(commit: int, leader_commit: int, flushed: int, verified: int) -> int:
        return max(commit, shown(leader_commit, flushed, verified))

    return {
        "replicated_flushed": rules.replicated_dirty,
        "may_commit": may_commit,
        "follower_commit": follower_commit,
    }


def _claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    return claims(ChangedRules(rules, visibility_for_commit(rules)), without, NO_POWER_LOSS)


PROOF = Proof(
    "visible-safety",
    ("raft.md#visibility", "documents.md#raft-simplification-acks"),
    "Without power loss, what was visible stays: with any number of nodes, terms and offsets it is in every later"
    " leader's log, and no two readers see different entries.",
    _claims,
    (
        Twin(
            "replicated-old-term",
            "the majority index counts entries of older terms",
            "leader-commit/logs",
            "replicated-current-term",
            {"may_count_replicated": lambda candidate_term, current_term: True},
        ),
        Twin(
            "visible-unclamped",
            "the majority index counts a follower's dirty offset without min(match), as the public implementation does",
            "reply/logs",
            "replied-is-durable",
            {"replicated_dirty": lambda dirty, flushed, match: dirty},
        ),
        Twin(
            "follower-visible-unverified",
            "a follower shows a tail that its leader does not have",
            "follow-commit/commits",
            "committed-entries-are-the-committed-ones",
            {"follower_visible": lambda leader_visible, dirty, verified: min(leader_visible, dirty)},
        ),
    ),
    SIZES,
    "all N, no power loss",
    ("no power is lost", KNOWN_IS_SHOWN, *ASSUMES),
    protocol="raft",
)
