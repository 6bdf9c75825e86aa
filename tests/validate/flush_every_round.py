"""A change that is right: the leader flushes on every round, whatever the acks level."""


def flush_required(acks: int, write_caching: bool, force_flush: bool) -> bool:
    """Trade latency for a smaller window of loss: nothing stays unflushed for long."""
    return True
