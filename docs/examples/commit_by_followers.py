"""A change that is right: the commit rule without sorting the leader's own offset.

The leader's flushed offset bounds the commit index, so the leader always counts for the candidate; with it, the upper
half of the followers makes a majority.
"""

from collections.abc import Sequence


def commit_candidate(own_flushed: int, followers: Sequence[int]) -> int:
    """Return the offset that is durable on a majority, the leader included."""
    if len(followers) == 0:
        return own_flushed
    return min(own_flushed, sorted(followers)[len(followers) // 2])
