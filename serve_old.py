def may_serve(term_at_commit, current_term):
    return term_at_commit >= current_term - 1
