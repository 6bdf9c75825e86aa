"""The protocol cores in real processes: asyncio, TCP, real files; a cluster of them on one machine under faults.

From the bottom up: ``framing`` and ``wire`` (bytes and messages), ``connection``, ``links`` and ``server`` (sockets),
``driver`` (one core on a disk), ``sessions`` (clients), ``recording`` (the history), ``process`` (a node); then
``client``, ``supervisor``, ``workload`` and ``cli`` (the command ``logwitness cluster``). Nobody is authenticated:
keep the port inside.
"""
