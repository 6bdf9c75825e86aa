"""Linearizable reads and tails: what was known before one was asked for must be in it.

They are judged by where they end, as a tail is by its length; what they return is judged like that of any read. Source:
history-checks.md#stale-read, raft.md#read-index.
"""

from __future__ import annotations

from ..codes import NULL
from ..faults import Faults
from ..findings import Findings, report
from ..kernel import part
from .losses import excuse_by, lost_by
from .rules import STALE_READ, ShortRead
from .state import Clients, Known


@part
def read_asked(clients: Clients, known: Known, client: int) -> None:
    """A client asks for a linearizable read or a tail; what was acknowledged, or a tail, is noted already."""
    if known.read[0] > clients.tail[client]:
        clients.tail[client] = known.read[0]
        clients.tail_seq[client] = known.read_seq[0]
        clients.tail_since[client] = known.read_since[0]


@part
def read_answered(
    clients: Clients, known: Known, faults: Faults, found: Findings, client: int, end: int, seq: int
) -> None:
    """A linearizable read was answered and ended before offset ``end``."""
    found.judged[STALE_READ] += 1
    # A log that was trimmed up to what had to be read has nothing left of it to return.
    if end < clients.tail[client] and known.trimmed[0] < clients.tail[client]:
        # Under write caching a power loss takes acknowledged entries, and with them the end of the log.
        since, weak, last = clients.tail_since[client], known.write_caching[0] != 0, clients.tail[client] - 1
        place = lost_by(known, faults, since, clients.tail_seq[client], weak, last)
        if known.may_trim[0] and known.unseen_trims[0] and clients.position_seq[client] <= clients.seq[client]:
            found.unjudged[STALE_READ] += 1  # it returned nothing: what was asked for may be trimmed
        elif place >= 0:
            excuse_by(faults, found, STALE_READ, place)
        else:
            short = ShortRead(end, known=clients.tail[client])
            report(found, STALE_READ, short, clients.tail_seq[client], clients.seq[client], seq)


@part
def committed_until(clients: Clients, known: Known, client: int, end: int, seq: int) -> None:
    """A committed or linearizable read was answered and ended before offset ``end``: all before it is committed."""
    # A read that returned nothing and ends where it began says nothing of what is there.
    begun, given = clients.begun[client], clients.position_seq[client] > clients.seq[client]
    if (given or (begun != NULL and end > begun)) and end > known.read[0]:
        known.read[0] = end
        known.read_seq[0] = seq
        known.read_since[0] = clients.seq[client]
