"""A shard, a sequencer or a reader as a process: the cores of the simulator, over TCP, on logs that real nodes keep.

From the bottom up: ``configuration``, ``calls`` (what clients ask), ``internal`` (the log that all follow), ``lines``
and ``port`` (connections), ``driver`` (one core, its effects, its history), ``shards``, ``sequencers`` and ``readers``
(what each role adds), ``missing`` (what a killed shard could not record), ``process``. Nobody is authenticated: do not
expose the port. Source: read-path.md#reader-state, read-path.md#storage-shard, read-path.md#write-side.
"""
