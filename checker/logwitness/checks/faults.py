"""The faults of a run, what they excuse, and the loss account: which acknowledged entries are gone, by acks level and
by fault.

A fault can have lost what its node held when it began, or what was there while it lasted: an entry acknowledged by an
isolated leader is lost to the isolation. A loss is put down to the first such fault, if there is one; a fact that
breaks a rule with an excuse to what excuses it (`CAUSES`). Sources: history-checks.md#excuses,
history-checks.md#what-a-fault-takes, history-checks.md#loss-account.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .codes import (
    ACKS_ALL,
    ACKS_NAMES,
    CRASH,
    DISK_FULL,
    FAULT_COMPACT,
    FAULT_CRASH,
    FAULT_FSYNC,
    FAULT_FULL,
    FAULT_OPEN,
    FAULT_POWER,
    FAULT_POWER_MIDWAY,
    FAULT_STORAGE,
    FAULT_TRIM,
    FAULT_WIPE,
    MAX_OFFSET,
    NULL,
    POWER_LOSS,
    STOP,
)
from .columns import Ints
from .contract import Loss
from .hashing import grown
from .kernel import kernel, part
from .words import Words

CAUSES = ("wipe", "power_loss", "storage_error", "compaction", "acks", "appended again", "gap")
"""What excuses a fact that breaks a rule: a disk that was emptied; what was not flushed when power went or a flush
failed; entries that were trimmed or compacted; an acks level that promises less; a value that was appended more than
once; offsets that hold what no client is seen to append. Of compaction: ghost-batches.md#holes-are-excused."""

WIPE, POWER, STORAGE, COMPACTION, ACKS, AGAIN, GAP = range(len(CAUSES))

EMPTY = -2
"""The end of a log whose disk was emptied, until the node starts: it has not even a vote any more."""

_ROWS = 64
"""Lines that a loss account has room for; the last one, of each acks level, is for all other faults."""
_LASTING = (FAULT_FSYNC, FAULT_OPEN, FAULT_POWER_MIDWAY)
NODES = 64
"""Nodes of which is kept what they hold; the last place is that of the others."""
_EXAMPLES = 3
_HEALED_AMONG = 64
"""So many faults before it are looked through for the one that is healed; only the loss account asks for it."""
_LOOKS = 1000
"""Faults before and behind a loss among which the one that can have caused it is looked for."""
# Numbers of a ledger line: fault code, batches, entries, bytes, first time, last time, then the first acknowledgements.
_CODE, _BATCHES, _FIRST, _LAST, _EXAMPLE = 0, 1, 4, 5, 6
_FIELDS = _EXAMPLE + _EXAMPLES
_OTHER = -1
_NO_NUMBER = -2 * MAX_OFFSET
_LEVELS = (-1, 1, 0)


class Held(NamedTuple):
    """What a log holds on each node, as the node's last event states it; the last place is for nodes without a number.

    A record that was cut off may lack its end: what the node came to hold behind the last event.
    """

    dirty: Ints  # NULL: not known; `EMPTY`: emptied, and not started since
    flushed: Ints
    last: Ints  # its last event
    runs: Ints
    cut: Ints  # the event by which its life was cut off; -1


class Faults(NamedTuple):
    """Faults in order: their ``seq``, their code in column ``f``, the node (-1: none), and what they may have taken of
    a log; ``used`` is how many."""

    seq: Ints
    code: Ints
    node: Ints
    end: Ints  # the event by which it was healed; MAX_OFFSET: none
    low: Ints  # of what was not flushed: the first offset
    high: Ints  # of what the node held: the last offset
    last: Ints  # the record of the node may lack that it came to hold more between these events; `cut` -1: no
    cut: Ints
    open: Ints  # of those that last, by node and code: the place of one that is not healed; -1
    lasting: Ints  # how many of them last
    led: Ints  # the last term that was led, by whom; 0: no leader is recorded, 1: one a term, 2: two of one term
    used: Ints


_COLUMNS = ("seq", "code", "node", "end", "low", "high", "last", "cut")


class Ledger(NamedTuple):
    """Losses by acks level (all, 1, 0) and fault."""

    lines: Ints


class Account(NamedTuple):
    """The loss account: what nodes hold, the faults so far, and the losses that are put down to them."""

    held: Held
    faults: Faults
    ledger: Ledger


def empty_held() -> Held:
    """What nodes hold before anything is known of it: room for each."""
    return Held(*(np.full(NODES, fill, dtype=np.int64) for fill in (NULL, -1, -1, 0, -1)))


def empty_faults() -> Faults:
    """Faults before the first one, with room for a few."""
    columns = {name: np.zeros(16, dtype=np.int64) for name in _COLUMNS}
    lasting, used = (np.zeros(1, dtype=np.int64) for _ in range(2))
    led, going_on = np.array([-1, -1, 0], dtype=np.int64), np.full((NODES, len(_LASTING)), -1, dtype=np.int64)
    return Faults(**columns, open=going_on, lasting=lasting, led=led, used=used)


def with_fault_room(faults: Faults, more: int) -> Faults:
    """The faults so far, with room for ``more`` of them."""
    used = int(faults.used[0])
    if used + more <= len(faults.seq):
        return faults
    return faults._replace(**{name: grown(getattr(faults, name), used, more, 0) for name in _COLUMNS})


def empty_ledger() -> Ledger:
    """A ledger before the first loss: no line has a batch."""
    lines = np.zeros((3, _ROWS, _FIELDS), dtype=np.int64)
    lines[:, :, _EXAMPLE:] = -1
    return Ledger(lines)


@part
def note_state(held: Held, faults: Faults, node: int, dirty: int, flushed: int, seq: int) -> None:
    """An event of a node states where its log ends, and up to where that is flushed."""
    if node < 0 or dirty == NULL:
        return
    if flushed < held.flushed[node]:
        _lower(faults, node, flushed + 1)
    held.dirty[node] = dirty
    held.flushed[node] = flushed
    held.last[node] = seq
    held.runs[node] = 1
    held.cut[node] = -1


@part
def _lower(faults: Faults, node: int, low: int) -> None:
    """What is written while a disk fails can be lost, though something else was flushed there before."""
    for which in range(len(_LASTING)):
        place = faults.open[node, which]
        if place >= 0:
            faults.low[place] = min(faults.low[place], low)


@part
def note_wipe(held: Held, faults: Faults, node: int) -> None:
    """The disk of a node was emptied; if it records nothing, it may hold something again at any time."""
    if node >= 0 and held.dirty[node] != NULL:
        _lower(faults, node, 0)
        held.dirty[node] = EMPTY
        held.flushed[node] = -1
        held.runs[node] = 0
        held.cut[node] = -1


@part
def note_leader(faults: Faults, node: int, term: int) -> None:
    """A node was elected in a term."""
    led = faults.led
    if led[2] and (term < led[0] or (term == led[0] and node != led[1])):
        led[2] = 2
    led[2] = max(led[2], 1)
    led[0] = term
    led[1] = node


@part
def note_end(held: Held, node: int, kind: int, seq: int) -> None:
    """The process of a node ended."""
    if node >= 0:
        if held.runs[node] and kind != STOP:
            held.cut[node] = seq
        held.runs[node] = 0


@part
def note_fault(faults: Faults, held: Held, seq: int, code: int, node: int, begins: bool) -> None:
    """A fault happened; ``begins``: it goes on until it is healed. Room was made before."""
    place, going_on = faults.used[0], begins and lasts(code)
    faults.seq[place] = seq
    faults.code[place] = code
    faults.node[place] = node
    faults.end[place] = MAX_OFFSET if begins else seq
    faults.low[place] = 0
    faults.high[place] = MAX_OFFSET
    faults.last[place] = -1
    faults.cut[place] = seq
    if node >= 0 and held.dirty[node] != NULL:
        cut = seq if held.runs[node] else held.cut[node]
        kept = held.flushed[node] >= held.dirty[node] and cut < 0
        faults.low[place] = MAX_OFFSET if kept and not going_on else held.flushed[node] + 1
        faults.high[place] = held.dirty[node]
        faults.last[place] = held.last[node]
        faults.cut[place] = cut
    if going_on:
        if faults.open[node, _which(code)] >= 0:
            return  # the same one goes on
        faults.open[node, _which(code)] = place
        faults.lasting[0] += 1
    if code == FAULT_WIPE:
        note_wipe(held, faults, node)
    faults.used[0] += 1


@part
def note_heal(faults: Faults, seq: int, code: int, node: int) -> bool:
    """A fault of a node is healed; whether it had begun, and is one that lasts."""
    if lasts(code):
        place = faults.open[node, _which(code)]
        if place >= 0:
            faults.end[place] = seq
            faults.open[node, _which(code)] = -1
        return bool(place >= 0)
    last = faults.used[0] - 1
    for place in range(last, max(last - _HEALED_AMONG, -1), -1):
        if faults.code[place] == code and faults.node[place] == node and faults.end[place] == MAX_OFFSET:
            faults.end[place] = seq
            break
    return False


@part
def fault_code(kind: int, reason: int) -> int:
    """The fault that an event of the kind crash, power_loss or storage_error is; a disk may be full for a reason."""
    if kind == CRASH:
        return FAULT_CRASH
    if kind == POWER_LOSS:
        return FAULT_POWER
    return FAULT_FULL if reason == DISK_FULL else FAULT_STORAGE


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
    return code in _LASTING


@part
def _which(code: int) -> int:
    """The place of a fault that lasts in `_LASTING`."""
    return 0 if code == _LASTING[0] else 1 if code == _LASTING[1] else 2


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
def held_by(faults: Faults, place: int, since: int, known: int, offset: int) -> bool:
    """Whether the node of a fault may have held, at ``offset``, what was asked for at event ``since`` and was there by
    event ``known``: by its record; or that may lack it, if it has a gap in between."""
    return bool(offset <= faults.high[place] or (since < faults.cut[place] and faults.last[place] < known))


@part
def may_take(faults: Faults, place: int, since: int, known: int, weak: bool, offset: int) -> bool:
    """Whether a fault may have taken that; see `excusing`."""
    cause = cause_of(faults.code[place])
    if cause == WIPE:
        # Where a term had two leaders, a majority may rest on what the node said of the other one's entries.
        divided = faults.led[2] != 1 and faults.high[place] > EMPTY
        return divided or held_by(faults, place, since, known, offset)
    return bool(weak and cause >= 0 and faults.low[place] <= offset)


@part
def excusing(faults: Faults, since: int, known: int, weak: bool, offset: int, until: int) -> int:
    """The place of the first fault, up to event ``until``, by which what was asked for at event ``since``, and was at
    ``offset`` by event ``known``, may have been lost; -1.

    ``weak``: it goes with what is not flushed, else only with the disk.
    """
    after = first_after(faults, since)
    for place in range(after, faults.used[0]):
        if faults.seq[place] > until:
            break
        if may_take(faults, place, since, known, weak, offset):
            return place
    # Or one that had begun by then, and lasts.
    if weak and faults.lasting[0]:
        for place in range(after - 1, -1, -1):
            going_on = lasts(faults.code[place]) and faults.end[place] > since
            if going_on and may_take(faults, place, since, known, weak, offset):
                return place
    return -1


class Taken:
    """What faults may have taken by event ``until``, for many entries at once; the same rule as `excusing`."""

    def __init__(self, faults: Faults, until: int) -> None:
        used = int(np.searchsorted(faults.seq[: int(faults.used[0])], until, side="right"))
        seq, code, end = (column[:used] for column in (faults.seq, faults.code, faults.end))
        cause = np.array([cause_of(each) for each in code.tolist()], dtype=np.int64)
        wipes, others = np.flatnonzero(cause == WIPE), np.flatnonzero((cause >= 0) & (cause != WIPE))
        self.one_leader = bool(faults.led[2] == 1)
        """It is recorded who led, and no term had two leaders."""
        self._high = _MostBehind(seq[wipes], faults.high[wipes], wipes)
        self._gap = _MostBehind(faults.cut[wipes], -faults.last[wipes], wipes)
        self.any_disk = bool((faults.high[wipes] > EMPTY).any())
        """Some disk was emptied."""
        until_then = np.where([lasts(each) for each in code[others].tolist()], end[others], seq[others])
        self._low = _MostBehind(until_then, -faults.low[others], others)

    def with_disks(self, since: Ints, known: Ints, offset: Ints) -> Ints:
        """The place of a fault by which each entry may be gone with its disk; -1."""
        high, by_high = self._high.of(since)
        least, by_gap = self._gap.of(since)
        held = (offset <= high) & (high > EMPTY)
        if not self.one_leader:
            held |= high > EMPTY
        return np.where(held, by_high, np.where(-least < known, by_gap, -1))

    def unflushed(self, since: Ints, offset: Ints) -> Ints:
        """The place of one by which each may have gone with what was not flushed; -1."""
        least, place = self._low.of(since)
        return np.where(-least <= offset, place, -1)


class _MostBehind:
    """Of faults by some event of theirs: the greatest number behind an event, and the place of the fault."""

    def __init__(self, event: Ints, number: Ints, place: Ints) -> None:
        order = np.argsort(event, kind="stable")
        self._event = event[order]
        backward = np.append(number[order], _NO_NUMBER)[::-1]
        most = np.maximum.accumulate(backward)
        first = np.maximum.accumulate(np.where(backward == most, np.arange(len(backward)), 0))
        self._most, self._place = most[::-1], np.append(place[order], -1)[len(order) - first[::-1]]

    def of(self, since: Ints) -> tuple[Ints, Ints]:
        """For each event; behind the last one there is none: less than all, at place -1."""
        at = np.searchsorted(self._event, since, side="right")
        return self._most[at], self._place[at]


@part
def fault_of(faults: Faults, acks: int, asked: int, acked: int, offset: int) -> int:
    """The code of the first fault that can have lost an acknowledged entry at ``offset``, asked for and acknowledged at
    these events; 0 if none is known."""
    after = first_after(faults, asked)
    for place in range(after, min(after + _LOOKS, faults.used[0])):
        taken = may_take(faults, place, asked, acked, True, offset)
        if taken or (acks != ACKS_ALL and _unseats(faults, place, asked, acked, offset)):
            return int(max(faults.code[place], _OTHER))
    for place in range(after - 1, max(after - _LOOKS, 0) - 1, -1):
        taken = lasts(faults.code[place]) and may_take(faults, place, asked, acked, True, offset)
        if faults.end[place] > asked and (taken or (acks != ACKS_ALL and _unseats(faults, place, -1, acked, -1))):
            return int(max(faults.code[place], _OTHER))
    return 0


@part
def _unseats(faults: Faults, place: int, asked: int, acked: int, offset: int) -> bool:
    """Whether a fault befell a node that may have held an entry, and can keep it from leading: what acks 0 and 1
    promise is in the leader's log, which others need not have."""
    code = faults.code[place]
    return code != FAULT_TRIM and code != FAULT_COMPACT and held_by(faults, place, asked, acked, offset)


@part
def enter(ledger: Ledger, code: int, acks: int, acked: int, time: int, entries: int, size: int) -> None:
    """Enter the loss of one batch, acknowledged by event ``acked`` at ``time``, to a fault (`fault_of`)."""
    level = 0 if acks == -1 else (1 if acks == 1 else 2)
    row = 0
    while row < _ROWS - 1 and ledger.lines[level, row, _BATCHES] and ledger.lines[level, row, _CODE] != code:
        row += 1
    line = ledger.lines[level, row]
    line[_CODE] = code if row < _ROWS - 1 else _OTHER
    if line[_BATCHES] == 0 or time < line[_FIRST]:
        line[_FIRST] = time
    if line[_BATCHES] == 0 or time > line[_LAST]:
        line[_LAST] = time
    if line[_BATCHES] < _EXAMPLES:
        line[_EXAMPLE + line[_BATCHES]] = acked
    line[_BATCHES] += 1
    line[_BATCHES + 1] += entries
    line[_BATCHES + 2] += size


@kernel
def enter_all(
    faults: Faults,
    ledger: Ledger,
    acks: Ints,
    asked: Ints,
    offset: Ints,
    acked: Ints,
    time: Ints,
    entries: Ints,
    size: Ints,
) -> None:
    """Enter the losses of many batches, a row each; columns as the arguments of `fault_of` and `enter`."""
    for i in range(len(acks)):
        fault = fault_of(faults, acks[i], asked[i], acked[i], offset[i])
        enter(ledger, fault, acks[i], acked[i], time[i], entries[i], size[i])


def ledger_lines(ledger: Ledger, words: Words) -> tuple[Loss, ...]:
    """The loss account for people and machines."""
    found = []
    for level, lines in enumerate(ledger.lines.tolist()):
        for code, batches, entries, size, first, last, *examples in sorted(line for line in lines if line[_BATCHES]):
            fault = "none known" if code == 0 else "other" if code == _OTHER else words.name(code)
            events = tuple(seq for seq in examples if seq >= 0)
            found.append(Loss(ACKS_NAMES[_LEVELS[level]], fault, batches, entries, size, first, last, events))
    return tuple(found)
