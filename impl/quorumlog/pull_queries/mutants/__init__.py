"""The mutants of highly available pull queries (pull-queries.md#mutants), a module for each subject.

A mutant is the reference with one thing changed: a rule, a part of the core, or the driver of simulated servers.

Not here: lost-store-forgotten, stamp-just-before-the-end and window-too-short take a term out of a claim, not out of a
server. These are noticed by tests alone, for no history shows them: lag-without-store, since a server has one store;
lag-abs, since no known end is below what somebody has passed; table-given-away, which takes too long; next-round-early,
since replicas of all partitions are on the same hosts until one is removed; and two of the driver in real processes,
beside their test: assignments-skipped, since who folds nothing may read slowly, and answers-dropped, since a stream may
break off.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorumlog.protocol import Mutant
from quorumlog.pull_queries.mutants import lags, placements, queries, statuses

MUTANTS: Mapping[str, Mutant] = {
    mutant.id: mutant for subject in (statuses, lags, placements, queries) for mutant in subject.MUTANTS
}
"""Every mutant of this protocol by id."""
