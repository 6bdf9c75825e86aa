"""What faults may have taken by now of what clients were promised. Source: history-checks.md#excuses."""

from __future__ import annotations

from ..codes import MAX_OFFSET
from ..faults import Faults, cause_of, excusing
from ..findings import Findings, excuse
from ..kernel import part
from .state import Known


@part
def power_by_now(known: Known) -> int:
    """The last event that may have cost unflushed data; one behind all if a fault that may do so has not ended."""
    return MAX_OFFSET if known.failing[0] else int(known.power_seq[0])


@part
def lost_since(known: Known, since: int, weak: bool) -> bool:
    """Whether what was there at event ``since`` may be lost by now; ``weak``: it goes with what is not flushed."""
    return bool(known.wipe_seq[0] > since or (weak and power_by_now(known) > since))


@part
def excuse_fault(faults: Faults, found: Findings, check: int, since: int, weak: bool) -> None:
    """Count a fact that is excused because what was there at event ``since`` is lost (`lost_since`)."""
    place = excusing(faults, since, weak)
    excuse(found, check, cause_of(faults.code[place]), faults.node[place], faults.seq[place], 1)
