def vote_result(voters, votes):
    from_all = [votes.get(node, False) for node in voters.current]
    return 1 if 2 * sum(from_all) > len(voters.current) else 0
