"""All proofs by name, and the one function that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logspec.proofs import (
    acks,
    commit_rule,
    f_majority,
    lemmas,
    membership_safety,
    pending,
    raft_safety,
    routing_filter,
    single_copy,
    status_decision,
    visibility,
    visible_safety,
)
from logspec.proofs.claims import Proof, ProofResult, Rules, run
from logspec.proofs.rules import installed_rules

PROOFS: dict[str, Proof] = {
    proof.name: proof
    for proof in (
        lemmas.PROOF,
        commit_rule.PROOF,
        raft_safety.PROOF,
        membership_safety.PROOF,
        visibility.PROOF,
        pending.PROOF,
        visible_safety.PROOF,
        acks.PROOF,
        status_decision.PROOF,
        routing_filter.PROOF,
        f_majority.PROOF,
        single_copy.PROOF,
    )
}

TIMEOUT = 60.0
"""Seconds for each goal; the slowest takes a tenth of it."""


def prove(
    names: Sequence[str] | None = None,
    rules: Rules | None = None,
    *,
    protocol: str = "raft",
    timeout: float = TIMEOUT,
    progress: Callable[[ProofResult], None] | None = None,
) -> list[ProofResult]:
    """Run proofs and return their results, in order.

    ``names``: proofs, or claims such as ``raft-safety/reply/logs`` or ``acks/twin``; all if None. ``rules``: what to
    prove, of this ``protocol``; those of the installed implementation, of every protocol, if None. Twins change the
    reference's rules, so they are left out when other rules are given and no twin is asked for by name. ``progress``
    is called with each result as it comes. Raises KeyError for a name that no proof has.
    """
    results: list[ProofResult] = []
    proofs = {name: proof for name, proof in PROOFS.items() if rules is None or proof.protocol == protocol}
    for only in names if names is not None else proofs:
        before = len(results)
        proof = proofs.get(only.split("/")[0])
        if proof is None:
            raise KeyError(only)
        subject = installed_rules(proof.protocol) if rules is None else rules
        for result in run(proof, subject, timeout=timeout, only=only, twins=rules is None or "/twin" in only):
            results.append(result)
            if progress is not None:
                progress(result)
        if len(results) == before:
            raise KeyError(only)
    return results
