"""A cluster of real nodes on one machine, driven from outside: its processes, clients, faults, and whole runs.

From the bottom up: ``client`` (calls to one node), ``supervisor`` (the processes), ``workload`` (clients that record
what they ask), ``log_client`` and ``groups`` (logs that Raft groups keep for other processes), ``faults``, ``run``
(load under faults, healing, a final read) and ``cli`` (the command ``logwitness cluster``). From `quorumlog.node` it
uses only what both sides of a socket or a file share, and nothing that runs inside a node.
"""
