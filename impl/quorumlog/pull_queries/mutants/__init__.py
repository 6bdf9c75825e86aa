"""The mutants of highly available pull queries (pull-queries.md#mutants), a module for each subject.

A mutant is the reference with one thing changed: a rule, a part of the core, or the driver of simulated servers.

Not here: lost-store-forgotten, stamp-just-before-the-end and window-too-short take a term out of a claim, not out of a
server. lag-without-store needs a second store, of which a server has none yet; dead-host-lag-shown and
send-failure-stops-reporter need a history of what /clusterStatus says and of requests that fail. old-epoch-folded does
what the reference does as long as late records of an old active come behind those of the new one: the source offset
rejects them too.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorumlog.protocol import Mutant
from quorumlog.pull_queries.mutants import lags, queries, statuses

MUTANTS: Mapping[str, Mutant] = {
    mutant.id: mutant for subject in (statuses, lags, queries) for mutant in subject.MUTANTS
}
"""Every mutant of this protocol by id."""
