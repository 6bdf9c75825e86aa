def flush_required(acks, write_caching, forced):
    return True
