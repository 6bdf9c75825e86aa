"""The twin of the check that bounds the bad time of queries. Source: pull-queries.md#bad-time-bounded."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain
from plain_pull_queries import (
    EXHAUSTED,
    NO_VALID_HOST,
    NOT_READY,
    Plainly,
    Route,
    is_finished,
    is_view,
    numbers,
    said,
    server_of,
    shipped,
    silence,
)

MS = 1_000_000


def settling(server: Plainly) -> int:
    """pull-queries.md#settled, in nanoseconds."""
    sends = (server["received_threshold"] + 2) * server["heartbeat_send"]
    return int(1000 + silence(server) + sends + 2 * server["heartbeat_check"]) * MS


def time_out(server: Plainly) -> int:
    """Milliseconds after which a forwarded query is given up."""
    given = server["forward_timeout"]
    return int(given if given is not None else 20_000 if shipped(server) else 500)


def timed(history: History) -> list[tuple[Event, int]]:
    """Each event with the latest time up to it."""
    times = accumulate((e.time if e.time is not None else 0 for e in history.events), max)
    return [*zip(history.events, times, strict=True)]


OF_LINKS = ("partition", "mute", "deafen", "one_way", "loss", "duplicate", "reorder", "delay")


def undisturbed(reported: list[tuple[Event, int]], node: int, since: int, but: tuple[str, ...] = ()) -> bool:
    """Whether a node runs and nothing has disturbed it since then, but for faults of these names."""
    running, last = False, 0
    own: Counter[str] = Counter()
    of_all: Counter[str] = Counter()
    for e, time in reported:
        if e.node == node and e.kind in ("serve", *GONE):
            running, last = e.kind == "serve", time
        elif e.kind == "phase" and not but:
            last = time
        elif e.kind in ("fault", "heal") and e.node in (node, None) and e.f not in but:
            faults = own if e.node == node or (e.kind == "heal" and not of_all[e.f]) else of_all
            faults[e.f] = max(faults[e.f] + (1 if e.kind == "fault" else -1), 0)
            last = time
    return running and not any(own.values()) and not any(of_all.values()) and last <= since


def checks(reported: list[tuple[Event, int]], node: int, start: int, end: int, server: Plainly) -> bool:
    """Whether no two checks were further apart than two intervals."""
    due = [time for e, time in reported if e.kind in ("up", "down") and e.node == node and start <= time <= end]
    return all(after - before <= 2 * server["heartbeat_check"] * MS for before, after in pairwise([start, *due, end]))


def listed(reported: list[tuple[Event, int]], node: int, peer: int) -> int | None:
    """When a node has listed another one, in its present life."""
    found = None
    for e, time in reported:
        if e.node == node and e.kind in ("serve", *GONE):
            found = None
        elif e.node == node and e.kind == "listed" and e.peer == peer:
            found = time
    return found


def connected(reported: list[tuple[Event, int]], at: int, node: int, known: Plainly, server: Plainly) -> bool:
    """Whether the heartbeats of a host came to the router in time, before event ``at``; and it and the router ran."""
    routed, now = reported[at]
    router, start = routed.node, now - max(settling(server), settling(known))
    since = [listed(reported, node, router), listed(reported, router, node)]
    if any(each is None or each > start for each in since):
        return False
    if not (undisturbed(reported, node, start) and undisturbed(reported, router, start)):
        return False
    if not (checks(reported, node, start, now, known) and checks(reported, router, start, now, server)):
        return False
    before = [(e, time) for e, time in reported[:at] if start <= time]
    heard = {e.stamp for e, _ in before if e.kind == "heard" and e.node == router and e.peer == node}
    due = {
        e.stamp
        for e, time in before
        if e.kind == "heartbeat" and e.node == node and e.peer == router
        if time <= now - server["heartbeat_send"] * MS
    }
    own, fits = None, True
    for e, _ in before:
        if e.node == router and e.kind in ("heartbeat", "up", "down"):
            own = e.stamp
        elif e.kind == "heard" and e.node == router and e.peer == node and own is not None:
            fits = fits and 2 * server["heartbeat_send"] - silence(server) - 1 <= e.stamp - own <= 1000
    return fits and due <= heard


def late(reported: list[tuple[Event, int]], place: int, now: int) -> bool:
    """Whether a query has waited for somebody longer than the time-out."""
    routed = reported[place][0]
    server = server_of([b for b, _ in reported], routed.node)
    steps = [
        time for e, time in reported[place:] if e.op == routed.op and e.node == routed.node and e.kind == "forward"
    ]
    asked = [reported[place][1], *steps][-1]
    if (
        server is None
        or (now - asked) // MS <= time_out(server) + 1000
        or not undisturbed(reported, routed.node, asked, OF_LINKS)
    ):
        return False
    return checks(reported, routed.node, max(asked, now - settling(server)), now, server)


def unseen(reported: list[tuple[Event, int]], at: int, finished: Plainly) -> int:
    """How many hosts a failed query lacked because they were taken for dead."""
    e = reported[at][0]
    route = Route([b for b, _ in reported[: at + 1] if b is e or b.kind != "route"], e.op)
    if not route.known:
        return 0
    answered = {p for p, _, failure in finished["attempts"] if failure is None}
    failed = [p for p in route.partitions if p not in answered]
    failed = [p for p in failed if not route.candidates(p)] or failed
    dead = {
        host
        for p in failed
        for host in route.hosts(p)
        if host in route.view["statuses"] and not route.view["statuses"][host][0] and len(route.reasons(host, p)) == 1
    }
    events = [b for b, _ in reported]
    found = [(node, server_of(events, node)) for host, node in numbers(events).items() if host in dead]
    return sum(known is not None and connected(reported, at, node, known, route.server or {}) for node, known in found)


def bad_time_bounded(history: History) -> Count:
    """pull-queries.md#bad-time-bounded."""
    count = Count()
    reported = timed(history)
    routed: dict[int, int] = {}
    for at, (e, now) in enumerate(reported):
        mine = e.op in routed and reported[routed[e.op]][0].node == e.node
        if e.kind == "route":
            routed.setdefault(e.op, at)
        elif e.kind == "forward" and mine:
            count += VIOLATED if late(reported[:at], routed[e.op], now) else Count()
        elif e.kind == "finish" and mine:
            count += ended(reported[:at], routed.pop(e.op), e, now)
        elif e.kind in ("serve", "fault", "heal", "phase", *GONE):
            count += overdue(reported[:at], routed, None if e.kind == "phase" else e.node, now)
            if e.kind in ("serve", *GONE):
                routed = {op: place for op, place in routed.items() if reported[place][0].node != e.node}
    return count + overdue(reported, routed, None, reported[-1][1] if reported else 0)


def overdue(reported: list[tuple[Event, int]], routed: dict[int, int], node: int | None, now: int) -> Count:
    """The queries of a node, or of all, that should have ended by now; they are judged once."""
    found = [
        op for op, place in routed.items() if node in (None, reported[place][0].node) and late(reported, place, now)
    ]
    for op in found:
        del routed[op]
    return Count(judged=len(found), violated=len(found))


def readiness(reported: list[tuple[Event, int]], place: int, server: Plainly, *, unready: bool) -> Count:
    """pull-queries.md#first-intervals: whether a server was ready, and took itself for it."""
    routed, began = reported[place]
    if unready:
        ran = undisturbed(reported, routed.node, began - (2 * server["lag_report"] + 1000) * MS, OF_LINKS)
        return JUDGED + VIOLATED if ran else Count()
    served = [time for e, time in reported if e.node == routed.node and e.kind in ("serve", *GONE)][-1:] or [0]
    view = said(routed, is_view)
    if view is None or not server["lag_reports"] or (began - served[0]) // MS >= server["lag_report"]:
        return Count()
    if not undisturbed(reported, routed.node, served[0], OF_LINKS):
        return Count()
    placed = [(p, h) for p, (active, rest) in enumerate(view["assignment"]["placements"]) for h in (active, *rest)]
    live = [(p, h) for p, h in placed if view["statuses"].get(h, [False])[0]]
    return Count(violated=sum(str(p) not in view["records"].get(h, [0, {}])[1] for p, h in live))


def ended(reported: list[tuple[Event, int]], place: int, e: Event, now: int) -> Count:
    """How a query ended that was routed at this place."""
    count = VIOLATED if late(reported, place, now) else Count()
    server, finished = server_of([b for b, _ in reported], e.node), said(e, is_finished)
    if server is None or finished is None:
        return count + UNJUDGED
    began = reported[place][1]
    unready = finished["message"] == NOT_READY and not finished["attempts"]
    count += readiness(reported, place, server, unready=unready)
    if unready or not undisturbed(reported, e.node, began):
        return count
    message = finished["message"] or ""
    if (message == EXHAUSTED or message.startswith(NO_VALID_HOST)) and now - began <= settling(server):
        count += Count(violated=unseen(reported, place, finished))
    return count + JUDGED


TWINS: dict[str, Plain] = {"bad-time-bounded": bad_time_bounded}
