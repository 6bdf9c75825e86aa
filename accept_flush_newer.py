def accept_flush(truncations_at_start, truncations_now):
    return truncations_at_start + 1 >= truncations_now
