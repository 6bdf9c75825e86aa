"""Checks of servers of highly available pull queries (pull-queries.md#invariants)."""
