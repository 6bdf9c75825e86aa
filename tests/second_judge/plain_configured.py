"""The twins of the checks of what events say of the configuration of a run, written from the rules that they name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from plain import JUDGED, VIOLATED, Count, Event, History, Plain, total


def said(e: Event) -> dict[str, Any]:
    """What the text of an event says; empty if it is no object."""
    try:
        found = json.loads(e.text or "")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def part(history: History, name: str) -> dict[str, Any]:
    """What the configuration says under a name."""
    found = history.stated.get(name)
    return found if isinstance(found, dict) else {}


def compared(stated: dict[str, Any], e: Event) -> Count:
    """Whether all that both have under a name is the same."""
    both = stated.keys() & said(e).keys()
    if not both:
        return Count()
    return JUDGED if all(stated[name] == said(e)[name] for name in both) else JUDGED + VIOLATED


def counted(history: History, nodes: Iterable[int], *names: str) -> Count:
    """Whether there are more nodes of a kind than the first number says that the configuration has under a name."""
    most = next((history.stated[name] for name in names if type(history.stated.get(name)) is int), None)
    found = len({*nodes})
    if most is None:
        return Count()
    return Count(judged=min(found, most + 1), violated=int(found > most))


def nodesets_as_configured(history: History) -> Count:
    """read-path.md#nodesets-as-configured."""
    replication = part(history, "replication")
    stated = {"replication": replication} if replication else {}
    count = total(compared(stated, e) for e in history.events if e.kind == "nodeset")
    count += total(compared(part(history, "reader"), e) for e in history.events if e.kind == "stream_settings")
    for f, names in (("shard", ("shards", "nodes")), ("sequencer", ("sequencers",)), ("reader", ("readers",))):
        count += counted(history, [e.node for e in history.events if e.kind == "takes_part" and e.f == f], *names)
    return count


def servers_as_configured(history: History) -> Count:
    """pull-queries.md#servers-as-configured."""
    serves = [e for e in history.events if e.kind == "serve"]
    return total(compared(part(history, "server"), e) for e in serves) + counted(
        history, [e.node for e in serves], "nodes"
    )


TWINS: dict[str, Plain] = {
    "nodesets-as-configured": nodesets_as_configured,
    "servers-as-configured": servers_as_configured,
}
