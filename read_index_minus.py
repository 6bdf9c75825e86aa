def read_index(commit, majority, write_caching):
    return max(commit, majority) if write_caching and majority > 3 else commit
