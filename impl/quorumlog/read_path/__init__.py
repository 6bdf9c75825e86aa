"""The read path: a log whose records lie on any few of many storage shards, its readers, and what writes it."""
