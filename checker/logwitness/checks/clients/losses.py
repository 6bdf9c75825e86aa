"""What faults may have taken by now of what clients were promised. Source: history-checks.md#excuses."""

from __future__ import annotations

from ..codes import MAX_OFFSET
from ..faults import Faults, cause_of, excusing
from ..findings import Findings, excuse
from ..kernel import part
from .state import Known


@part
def power_by_now(known: Known) -> int:
    """The last event that may have cost unflushed data; one behind all if a fault may have done so for a while."""
    return MAX_OFFSET if known.failing[0] else int(known.power_seq[0])


@part
def lost_by(known: Known, faults: Faults, since: int, there: int, weak: bool, offset: int) -> int:
    """The place of the fault by which what was asked for at event ``since``, and was at ``offset`` by event ``there``,
    may be lost by now; -1. ``weak``: it goes with what is not flushed."""
    if known.wipe_seq[0] <= since and not (weak and power_by_now(known) > since):
        return -1
    return excusing(faults, since, there, weak, offset, MAX_OFFSET)


@part
def excuse_by(faults: Faults, found: Findings, check: int, place: int) -> None:
    """Count a fact that the fault at this place excuses."""
    excuse(found, check, cause_of(faults.code[place]), faults.node[place], faults.seq[place], 1)
