"""A server of pull queries as a process: the core of the simulator, behind HTTP, on logs that real Raft nodes keep.

From the bottom up: ``listener`` (a port with limits), ``peers`` (requests to other servers), ``driver`` (one core, its
effects, its history), ``http`` (what is asked on either port), ``process``. Nobody is authenticated: the internal port
is for servers alone, do not expose it.
Source: pull-queries.md#http.
"""
