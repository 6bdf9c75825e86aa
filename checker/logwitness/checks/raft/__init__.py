"""Raft with flushed and dirty offsets: what its nodes record about elections, offsets and logs."""
