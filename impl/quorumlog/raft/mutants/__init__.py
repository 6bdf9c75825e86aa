"""The mutants of Raft with flushed and dirty offsets (raft.md#mutants), a module for each subject.

A mutant is the reference with one thing changed: a rule, a method of the core, a part of the storage, or of the driver
of real nodes. Those of real systems name the thread where that system's fault is discussed; each is judged by what it
does here.

Not here, because they change nothing that a history can show in this core: recovery-late-commit-sample (a follower
never takes a commit index beyond what the request showed to be equal), recovery-resends and recovery-never-flushes
(slower, but the debounced flush and the heartbeats catch up), stale-reply-accepted (what counts towards a majority is
taken from one reply alone and stays true for the term).

Nor these, which were tried as well. They do the same: a log that begins anew lowers its commit index (it had committed
less, or it would hold the entry before), a request that waits for its flush survives a truncation (within a term no
leader takes back what it sent), a leader that steps down goes on draining (an empty queue). They are slower by a time-
out or a heartbeat at most: a saved vote does not begin the election time-out anew, an overtaken reply makes the leader
send again, a flush that is required while one runs waits for the debounced one, a request is answered by a flush that
does not cover it (the reply says how far it got). And they do the same: an opening that does not sync the directory of
the log (it did when it read the state), a log that begins anew without saying so first (the core has cut what lay
behind), a driver that closes its log while its threads run (nobody hears of what they do then).
"""

from __future__ import annotations

from collections.abc import Mapping

from quorumlog.protocol import Mutant
from quorumlog.raft.mutants import (
    clients,
    compaction,
    drivers,
    elections,
    membership,
    memory,
    offsets,
    replication,
    snapshots,
    storage,
    transfers,
    trimming,
)

MUTANTS: Mapping[str, Mutant] = {
    mutant.id: mutant
    for subject in (
        *(offsets, elections, replication, clients, memory, transfers, membership, trimming, snapshots, storage),
        compaction,
        drivers,
    )
    for mutant in subject.MUTANTS
}
"""Every mutant of this protocol by id, in the order of raft.md#mutants."""
