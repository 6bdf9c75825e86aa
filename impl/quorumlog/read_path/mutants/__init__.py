"""The mutants of the read path (read-path.md#mutants), a module for each subject.

A mutant is the reference with one thing changed: a rule, or a small part of one of its cores.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorumlog.protocol import Mutant
from quorumlog.read_path.mutants import reading, shards, writing

MUTANTS: Mapping[str, Mutant] = {
    mutant.id: mutant for subject in (reading, shards, writing) for mutant in subject.MUTANTS
}
"""Every mutant of this protocol by id."""
