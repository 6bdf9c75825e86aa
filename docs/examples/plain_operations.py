"""The twin of one-open-operation: plain, slow, to be verified by reading."""

from __future__ import annotations

from plain import JUDGED, VIOLATED, Count, History, Plain

OF_OPERATIONS = ("invoke", "ok", "fail", "info")


def one_open_operation(history: History) -> Count:
    """Every operation is begun when the last one of its client is over."""
    count = Count()
    for i, e in enumerate(history.events):
        if e.kind == "invoke":
            kinds = [b.kind for b in history.events[:i] if b.process == e.process and b.kind in OF_OPERATIONS]
            count += JUDGED + VIOLATED if kinds[-1:] == ["invoke"] else JUDGED
    return count


TWINS: dict[str, Plain] = {"one-open-operation": one_open_operation}
