"""The faults of a run, what they excuse, and the loss account: which acknowledged entries are gone, by acks level and
by fault.

A loss is put down to the first fault after the acknowledgement, or, if none came after it, to the last one
before it: an entry acknowledged by an isolated leader is lost to the isolation. A fact that breaks a rule with an
excuse is put down to what excuses it (`CAUSES`). Sources: architecture, "Verdicts"; history-checks.md#excuses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .codes import (
    ACKS_NAMES,
    CRASH,
    FAULT_CRASH,
    FAULT_FSYNC,
    FAULT_OPEN,
    FAULT_POWER,
    FAULT_POWER_MIDWAY,
    FAULT_STORAGE,
    FAULT_WIPE,
    POWER_LOSS,
)
from .columns import Ints
from .contract import Loss
from .hashing import grown
from .kernel import kernel, part
from .words import Words

CAUSES = ("wipe", "power_loss", "storage_error", "compaction", "acks", "appended again", "gap")
"""What excuses a fact that breaks a rule: a disk that was emptied; what was not flushed when power went or a flush
failed; entries that were trimmed or compacted; an acks level that promises less; a value that was appended more than
once; offsets that hold what no client is seen to append."""

WIPE, POWER, STORAGE, COMPACTION, ACKS, AGAIN, GAP = range(len(CAUSES))

_SLOTS = 48
_EXAMPLES = 3
# Numbers of a ledger line: batches, entries, bytes, first time, last time, then the first acknowledgements.
_FIELDS = 5 + _EXAMPLES
_LEVELS = (-1, 1, 0)


class Faults(NamedTuple):
    """Faults in order: their ``seq``, their code in column ``f`` and the node (-1: none); ``used`` is how many."""

    seq: Ints
    code: Ints
    node: Ints
    used: Ints


class Ledger(NamedTuple):
    """Losses by acks level (all, 1, 0) and fault code."""

    lines: Ints


class Account(NamedTuple):
    """The loss account: the faults so far, and the losses that are put down to them."""

    faults: Faults
    ledger: Ledger


def empty_faults() -> Faults:
    """Faults before the first one, with room for a few."""
    seq, code, node = (np.zeros(16, dtype=np.int64) for _ in range(3))
    return Faults(seq, code, node, used=np.zeros(1, dtype=np.int64))


def with_fault_room(faults: Faults, more: int) -> Faults:
    """The faults so far, with room for ``more`` of them."""
    used = int(faults.used[0])
    seq, code, node = (grown(column, used, more, 0) for column in faults[:3])
    return Faults(seq, code, node, faults.used)


def empty_ledger() -> Ledger:
    """A ledger before the first loss: no line has a batch."""
    lines = np.zeros((3, _SLOTS, _FIELDS), dtype=np.int64)
    lines[:, :, 5:] = -1
    return Ledger(lines)


@part
def note_fault(faults: Faults, seq: int, code: int, node: int) -> None:
    """A fault happened. Room was made before."""
    place = faults.used[0]
    faults.seq[place] = seq
    faults.code[place] = code
    faults.node[place] = node
    faults.used[0] += 1


@part
def fault_code(kind: int) -> int:
    """The fault that an event of the kind crash, power_loss or storage_error is."""
    if kind == CRASH:
        return FAULT_CRASH
    return FAULT_POWER if kind == POWER_LOSS else FAULT_STORAGE


@part
def cause_of(code: int) -> int:
    """What a fault, by its code in column ``f``, can be the cause of; -1: it takes nothing from a disk."""
    if code == FAULT_WIPE:
        return WIPE
    if code in (FAULT_POWER, FAULT_POWER_MIDWAY):
        return POWER
    return STORAGE if code in (FAULT_STORAGE, FAULT_FSYNC, FAULT_OPEN) else -1


@part
def lasts(code: int) -> bool:
    """Whether a fault, by its code in column ``f``, takes what is not flushed at some moment before it ends."""
    return code in (FAULT_FSYNC, FAULT_OPEN, FAULT_POWER_MIDWAY)


@part
def first_after(faults: Faults, seq: int) -> int:
    """The place of the first fault after event ``seq``."""
    low = 0
    high: int = faults.used[0]
    while low < high:
        middle = (low + high) // 2
        if faults.seq[middle] > seq:
            high = middle
        else:
            low = middle + 1
    return low


@part
def excusing(faults: Faults, since: int, weak: bool) -> int:
    """The place of the fault to which something that was there at event ``since`` may have been lost; -1.

    ``weak``: it goes with what is not flushed, else only with the disk.
    """
    after = first_after(faults, since)
    for place in range(after, faults.used[0]):
        cause = cause_of(faults.code[place])
        if cause == WIPE or (weak and cause >= 0):
            return place
    # Or one that had begun by then, and lasts.
    for place in range(after - 1, -1, -1):
        if weak and lasts(faults.code[place]):
            return place
    return -1


@part
def fault_of(faults: Faults, acked: int) -> int:
    """The slot of the fault that an entry acknowledged at ``acked`` was lost to; 0 if there was none at all."""
    used = faults.used[0]
    if used == 0:
        return 0
    code = faults.code[min(first_after(faults, acked), used - 1)]
    return min(code, _SLOTS - 1) if code > 0 else _SLOTS - 1


@part
def enter(account: Account, acks: int, acked: int, time: int, entries: int, size: int) -> None:
    """Enter the loss of one batch that was acknowledged by event ``acked`` at ``time``."""
    level = 0 if acks == -1 else (1 if acks == 1 else 2)
    line = account.ledger.lines[level, fault_of(account.faults, acked)]
    if line[0] == 0 or time < line[3]:
        line[3] = time
    if line[0] == 0 or time > line[4]:
        line[4] = time
    if line[0] < _EXAMPLES:
        line[5 + line[0]] = acked
    line[0] += 1
    line[1] += entries
    line[2] += size


@kernel
def enter_all(account: Account, acks: Ints, acked: Ints, time: Ints, entries: Ints, size: Ints) -> None:
    """Enter the losses of many batches, a row each; columns as the arguments of `enter`."""
    for i in range(len(acks)):
        enter(account, acks[i], acked[i], time[i], entries[i], size[i])


def ledger_lines(ledger: Ledger, words: Words) -> tuple[Loss, ...]:
    """The loss account for people and machines."""
    found = []
    for level, slot in np.argwhere(ledger.lines[:, :, 0] > 0).tolist():
        batches, entries, size, first, last, *examples = ledger.lines[level, slot].tolist()
        fault = "none recorded" if slot == 0 else "other" if slot == _SLOTS - 1 else words.name(slot)
        events = tuple(seq for seq in examples if seq >= 0)
        found.append(Loss(ACKS_NAMES[_LEVELS[level]], fault, batches, entries, size, first, last, events))
    return tuple(found)
