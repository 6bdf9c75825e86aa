"""Whether calls end in time. Source: history-checks.md#calls-end."""

from __future__ import annotations

from plain import JUDGED, VIOLATED, Count, Event, History, Plain


def calls_end(history: History) -> Count:
    """Every operation ends, or has not yet been open for too long when the history does."""
    bound = history.progress_bound
    count = Count()
    if bound is None:
        return count
    open_: dict[int, Event] = {}
    for e in history.events:
        if e.op is None:
            continue
        if e.kind == "invoke" and e.f == "read_stream":
            continue  # no call: it is open as long as it is read
        if e.kind == "invoke":
            count += JUDGED
            open_[e.op] = e
        elif e.kind in ("ok", "fail", "info") and e.op in open_ and e.time - open_.pop(e.op).time > bound:
            count += VIOLATED
    for begun in open_.values():
        count += VIOLATED if history.events[-1].time - begun.time > bound else Count()
    return count


TWINS: dict[str, Plain] = {"calls-end": calls_end}
