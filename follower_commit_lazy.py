def follower_commit(commit, leader_commit, flushed, verified):
    return max(commit, min(leader_commit, flushed, verified) - 1)
