def replicated_flushed(dirty, flushed, match):
    return min(flushed, match + 1)
