"""The mutants of highly available pull queries (pull-queries.md#mutants), a module for each subject.

A mutant is the reference with one thing changed: a rule, a part of the core, or the driver of simulated servers.

Not here: lost-store-forgotten, stamp-just-before-the-end and window-too-short take a term out of a claim, not out of a
server. lag-without-store and table-given-away are noticed by tests alone: a server has one store, so that no history
shows the one, and none is long enough for the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorumlog.protocol import Mutant
from quorumlog.pull_queries.mutants import lags, placements, queries, statuses

MUTANTS: Mapping[str, Mutant] = {
    mutant.id: mutant for subject in (statuses, lags, placements, queries) for mutant in subject.MUTANTS
}
"""Every mutant of this protocol by id."""
