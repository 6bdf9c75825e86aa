"""The mutants of highly available pull queries (pull-queries.md#mutants), a module for each subject."""

from __future__ import annotations

from collections.abc import Mapping

from quorumlog.protocol import Mutant

MUTANTS: Mapping[str, Mutant] = {}
"""Every mutant of this protocol by id."""
