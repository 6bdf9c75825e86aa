"""All proofs by name, and the one function that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from logspec.proofs import acks, commit_rule, lemmas, raft_safety, visibility, visible_safety
from logspec.proofs.claims import Proof, ProofResult, Rules, run
from logspec.proofs.rules import installed_rules

PROOFS: dict[str, Proof] = {
    proof.name: proof
    for proof in (
        lemmas.PROOF,
        commit_rule.PROOF,
        raft_safety.PROOF,
        visibility.PROOF,
        visible_safety.PROOF,
        acks.PROOF,
    )
}

TIMEOUT = 60.0
"""Seconds for each goal; the slowest takes a tenth of it."""


def prove(
    names: Sequence[str] | None = None,
    rules: Rules | None = None,
    *,
    timeout: float = TIMEOUT,
    progress: Callable[[ProofResult], None] | None = None,
) -> list[ProofResult]:
    """Run proofs and return their results, in order.

    ``names``: proofs, or claims such as ``raft-safety/reply/logs`` or ``acks/twin``; all if None. ``rules``: what to
    prove; those of the installed implementation if None. Twins change the reference's rules, so they are left out
    when other rules are given and no twin is asked for by name. ``progress`` is called with each result as it comes.
    Raises KeyError for a name that no proof has.
    """
    results: list[ProofResult] = []
    subject = installed_rules() if rules is None else rules
    for only in names if names is not None else PROOFS:
        before = len(results)
        for result in _named(only, subject, timeout=timeout, twins=rules is None or "/twin" in only):
            results.append(result)
            if progress is not None:
                progress(result)
        if len(results) == before:
            raise KeyError(only)
    return results


def _named(only: str, rules: Rules, *, timeout: float, twins: bool) -> Iterator[ProofResult]:
    proof = PROOFS.get(only.split("/")[0])
    if proof is not None:
        yield from run(proof, rules, timeout=timeout, only=only, twins=twins)
