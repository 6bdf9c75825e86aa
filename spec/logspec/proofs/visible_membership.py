"""What a majority holds stays while voters change, as long as no power is lost.

``membership_safety`` in the world of ``visible_safety``: what a quorum of the configuration in force holds, flushed or
not, takes the place of what it has flushed. A leader changes the voters when the last change is committed and an entry
of its own term is; here it is enough that a quorum holds both, which is less, so that every step of the protocol is one
here. Sources: raft.md#majority-replicated, raft.md#change-refused.
"""

from __future__ import annotations

from collections.abc import Callable

from logspec.proofs import membership_safety
from logspec.proofs.claims import ChangedRules, Claim, Proof, Rules, Twin
from logspec.proofs.visible_safety import KNOWN_IS_SHOWN, NO_POWER_LOSS, visibility_for_commit


def _claims(rules: Rules, without: frozenset[str]) -> dict[str, Callable[[], Claim]]:
    return membership_safety.claims(ChangedRules(rules, visibility_for_commit(rules)), without, NO_POWER_LOSS)


PROOF = Proof(
    "visible-membership",
    ("raft.md#visibility", "raft.md#majority-replicated", "raft.md#membership"),
    "Without power loss, and with voters that change, what was visible is in every later leader's log and on a quorum"
    " of the configuration that it was counted by.",
    _claims,
    (
        Twin(
            "visible-unclamped",
            "the majority index counts a follower's dirty offset without min(match), as the public implementation does",
            "reply/losses",
            "replied-is-durable",
            {"replicated_dirty": lambda dirty, flushed, match: dirty},
        ),
        Twin(
            "counts-by-an-older-configuration",
            "a leader shows what a quorum holds of a configuration that is not the last one in its log",
            "leader-commit/changes",
            "counted-by-the-last-one",
            without=frozenset({"in-force"}),
        ),
        membership_safety.QUORUMS_APART,
    ),
    membership_safety.SIZES,
    "all N, no power loss",
    (
        "no power is lost",
        KNOWN_IS_SHOWN,
        *membership_safety.ASSUMES[:-1],
        "what visible-safety shows of what nodes show (its claims /commits), which knows of no quorums",
    ),
    protocol="raft",
)
