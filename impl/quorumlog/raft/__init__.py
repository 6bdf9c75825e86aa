"""Raft with flushed and dirty offsets: a core without I/O (``core``) and its decisions (``rules``)."""
