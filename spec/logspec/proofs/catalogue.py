"""All proofs by name, and the one function that runs them."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from logspec.proofs.claims import Proof, ProofResult, Rules, run
from logspec.proofs.rules import installed_rules


def _found() -> Iterator[Proof]:
    """The proofs of this package: every module that binds ``PROOF`` has one."""
    for module in (each.name for each in pkgutil.iter_modules([str(Path(__file__).parent)])):
        if module not in ("catalogue", "cli"):  # which build on what is found here
            proof = getattr(import_module(f"logspec.proofs.{module}"), "PROOF", None)
            if isinstance(proof, Proof):
                yield proof


PROOFS: dict[str, Proof] = {proof.name: proof for proof in sorted(_found(), key=lambda proof: proof.name)}

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
    prove, of the protocol whose rules have this type; those of the installed implementation, of every protocol, if
    None. Twins change the reference's rules, so they are left out when other rules are given and no twin is asked for
    by name. ``progress`` is called with each result as it comes. Raises KeyError for a name that no proof has.
    """
    results: list[ProofResult] = []
    proofs = {name: proof for name, proof in PROOFS.items() if rules is None or _is_about(proof, rules)}
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


def _is_about(proof: Proof, rules: Rules) -> bool:
    return type(rules) is type(installed_rules(proof.protocol))
