"""The twin of the check of who is listed, written from pull-queries.md#members-are-listed."""

from __future__ import annotations

from typing import Any

from plain import GONE, JUDGED, VIOLATED, Count, History, Plain
from plain_pull_queries import is_assignment, is_server, numbers, said, whole


def looks(s: dict[str, Any]) -> bool:
    """Whether it tells how often a server looks who the members are."""
    return whole(s.setdefault("discover", 2000)) and s["discover"] >= 1


def members_are_listed(history: History) -> Count:
    """pull-queries.md#members-are-listed."""
    count, events = Count(), history.events
    for node in {e.node for e in events if e.kind == "report"}:
        server: Any = None
        looking: Any = None
        reports: dict[str, int] = {}
        listed: set[int | None] = set()
        for at, e in enumerate(events):
            if e.node != node or e.process is not None:
                continue
            now = said(e, is_assignment) if e.kind == "assigned" else None
            if e.kind == "serve" or e.kind in GONE:
                server, looking = (said(e, is_server), said(e, looks)) if e.kind == "serve" else (None, None)
                reports, listed = {}, set()
            elif e.kind == "listed":
                listed.add(e.peer)
            elif now is not None:
                reports = {host: reports.get(host, 0) for host in now["members"]}
            elif e.kind == "report" and server is not None and looking is not None and server["lag_reports"]:
                of_others = {host: n for host, n in numbers(events[:at]).items() if n != node and host in reports}
                for host, number in of_others.items():
                    count += JUDGED
                    if number in listed:
                        continue
                    reports[host] += 1
                    if (reports[host] - 1) * server["lag_report"] > 1000 + 10 * looking["discover"]:
                        count += VIOLATED
                        reports[host] = 0
    return count


TWINS: dict[str, Plain] = {"members-are-listed": members_are_listed}
