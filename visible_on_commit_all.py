def visibility_on_commit(upper_bound, majority, commit, last_quorum):
    return max(upper_bound, majority if commit >= last_quorum - 1 else commit)
