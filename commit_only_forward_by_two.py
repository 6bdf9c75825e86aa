def may_commit(candidate, commit, candidate_term, current_term):
    return candidate > commit + 1 and candidate_term == current_term
