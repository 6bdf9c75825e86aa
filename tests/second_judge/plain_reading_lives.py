"""The twins of the checks of lives on the read path, and of servers of pull queries, written from their rules."""

from __future__ import annotations

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain

from loghistory.vocabularies.pull_queries import VOCABULARY as OF_SERVERS
from loghistory.vocabularies.read_path import VOCABULARY

OWN = {kind.word for kind in VOCABULARY.kinds}
PARTS = ("shard", "sequencer", "reader")
PART_OF = dict.fromkeys(("copy", "purge", "trim_point", "ship", "seal"), "shard")
PART_OF |= dict.fromkeys(("acknowledge", "release", "recover"), "sequencer")
PART_OF |= {kind: "reader" for kind in OWN if kind.startswith("stream_")}
DEEDS = {kind.word for kind in OF_SERVERS.kinds} - {"serve"}


def acts_in_its_life(history: History) -> Count:
    """read-path.md#lives."""
    count = Count()
    began: dict[int, Event] = {}
    over: set[int] = set()
    for e in history.events:
        if e.node is None or e.process is not None:
            continue
        if e.kind == "takes_part":
            began[e.node] = e
            over.discard(e.node)
        elif e.kind in GONE:
            over.add(e.node)
        elif e.kind in OWN and e.node in began and began[e.node].incarnation is not None:
            life = began[e.node].incarnation
            if e.incarnation is not None and e.incarnation > life:
                count += UNJUDGED  # a life whose beginning is not recorded
                began[e.node] = Event({"incarnation": e.incarnation}.items())
                over.discard(e.node)
                life = e.incarnation
            read, part = began[e.node].op, began[e.node].f
            strange = e.incarnation is not None and e.kind in PART_OF and part in PARTS and part != PART_OF[e.kind]
            named = e.kind.startswith("stream_") and None not in (e.op, read) and e.node not in over
            wrong = e.incarnation is not None and (e.incarnation < life or e.node in over)
            if named or e.incarnation is not None:
                count += JUDGED + VIOLATED if wrong or strange or (named and e.op != read) else JUDGED
    return count


def acts_while_it_serves(history: History) -> Count:
    """pull-queries.md#acts-while-it-serves."""
    served = {e.node for e in history.events if e.kind == "serve"}
    asked = {e.peer for e in history.events if e.kind in ("forward", "forwarded", "rows")} - {None}
    count = Count(unjudged=len(asked - served))
    begun = {node: min(e.seq for e in history.events if e.kind == "serve" and e.node == node) for node in served}
    for e in history.events:
        if e.kind in DEEDS and e.node is not None and e.process is None:
            count += Count() if begun.get(e.node, e.seq) < e.seq else UNJUDGED
    for node in served:
        own = [e.kind for e in history.events if e.node == node and e.process is None]
        turns: list[str] = []
        for kind in own[own.index("serve") :]:
            if kind in DEEDS:
                count += JUDGED if turns[-1] == "serve" else JUDGED + VIOLATED
            elif kind == "serve" or kind in GONE:
                turns.append(kind)
    return count


TWINS: dict[str, Plain] = {"acts-in-its-life": acts_in_its_life, "acts-while-it-serves": acts_while_it_serves}
