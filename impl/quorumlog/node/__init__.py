"""The protocol cores in real processes: asyncio, TCP, real files.

From the bottom up: ``framing`` and ``wire`` (bytes and messages), ``connection``, ``links`` and ``server`` (sockets),
``driver`` (one core on a disk), ``sessions`` (clients), ``recording`` (the history), ``supervised`` (any process),
``process`` (a node). Nobody is authenticated: do not expose the port. What starts nodes and drives them is
`quorumlog.cluster`.
"""
