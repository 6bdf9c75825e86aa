"""Checks of a log on many storage shards, and of its readers (read-path.md#invariants)."""
