"""Known faults of the protocols, made from the reference by changing one thing; each says which check must notice."""

from quorumlog.mutants.mutant import Mutant
from quorumlog.mutants.raft import MUTANTS as RAFT

MUTANTS: dict[str, Mutant] = {mutant.id: mutant for mutant in RAFT}
"""All mutants by id, in the order of raft.md#mutants."""

__all__ = ["MUTANTS", "Mutant"]
