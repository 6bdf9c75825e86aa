"""A change that is subtly wrong: a follower counts for visibility with its whole log."""


def replicated_dirty(dirty: int, flushed: int, match: int) -> int:
    """Take the follower's word for it: what it has, it has."""
    return dirty
