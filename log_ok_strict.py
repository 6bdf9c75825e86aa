def log_ok(last_term, dirty, own_last_term, own_dirty):
    return last_term > own_last_term or (last_term == own_last_term and dirty > own_dirty)
