"""Proofs about the decision rules of the implementation, by the solver z3: ``prove`` runs them all or some.

Every proof says what it claims, checks that its assumptions can hold at all, and has twins that must fail. The rules
are those the implementation runs (see ``logspec.symbolic``), found by name, so that nothing here imports it.
"""

from logspec.proofs.catalogue import PROOFS, prove
from logspec.proofs.claims import Claim, Proof, ProofResult, Twin
from logspec.proofs.rules import RulesError, load_rules

__all__ = ["PROOFS", "Claim", "Proof", "ProofResult", "RulesError", "Twin", "load_rules", "prove"]
