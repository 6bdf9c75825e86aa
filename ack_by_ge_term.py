def resolve_quorum_ack(offset, term, term_at_offset, commit, term_at_commit):
    if term_at_offset >= term and commit >= offset:
        return 1
    return 2 if term_at_commit > term and term_at_offset != term else 0
