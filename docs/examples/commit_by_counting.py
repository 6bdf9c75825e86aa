"""A change that is right: the commit rule by counting, without sorting.

An offset may be committed if more than half of each half's voters have flushed it; the largest such offset that
anybody reported is the candidate.
"""

from collections.abc import Mapping

from quorumlog.quorum import Voters


def _enough(nodes: tuple[int, ...], durable: Mapping[int, int], offset: int) -> bool:
    return len(nodes) == 0 or 2 * sum([durable.get(node, -1) >= offset for node in nodes]) > len(nodes)


def commit_candidate(voters: Voters, durable: Mapping[int, int], own_flushed: int) -> int:
    """Return the offset that is durable on a quorum, and at the leader."""
    reported = [durable.get(node, -1) for node in [*voters.current, *voters.old]]
    agreed = [
        offset if _enough(voters.current, durable, offset) and _enough(voters.old, durable, offset) else -1
        for offset in reported
    ]
    return min(own_flushed, max([-1, *agreed]))
