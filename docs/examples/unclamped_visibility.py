"""A change that is subtly wrong: visibility counts a follower's whole log, not only what is the leader's in it."""


def replicated_dirty(dirty: int, flushed: int, match: int) -> int:
    """Return up to where a follower holds entries."""
    return dirty
