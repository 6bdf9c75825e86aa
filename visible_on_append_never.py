def visibility_on_append(upper_bound, commit, last_quorum, appended):
    return upper_bound
