"""What only the end of a history shows about its clients: losses, values of failed appends that were read, gaps.

Works on whole columns of the values, sorted by offset; nothing here runs once an event. Excuses: offsets below a
trim and inside a compacted range, values that their acks level lets go when power was lost, wiped disks; each is
counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..codes import ACKS_ALL, NULL
from ..columns import Array, Columns, Ints
from ..contract import Loss
from ..faults import (
    COMPACTION,
    Faults,
    Ledger,
    Taken,
    cause_of,
    empty_ledger,
    enter_all,
    excusing,
    ledger_lines,
)
from ..findings import Findings, excuse, report
from ..words import Words
from .losses import excuse_by
from .rules import (
    ABORTED_READ,
    INCONSISTENT_OFFSET,
    LOST_WRITE,
    SKIP,
    TERMS_IN_ORDER,
    UNSEEN,
    PassedOver,
    Placed,
    TermsOutOfOrder,
    TwoValues,
)

if TYPE_CHECKING:
    from .state import Gaps, Known, Values

_GAP_FIELDS = 6
_EVERYWHERE = (1 << 63) - 1
LOW, HIGH, SEQ, BEFORE, ROW, INVOKED = range(_GAP_FIELDS)


class AtEnd:
    """Collects gaps while the history is read, and judges once it has ended."""

    def __init__(self) -> None:
        self._gaps: dict[tuple[int, int, bool], list[int]] = {}
        self._compacted: list[Ints] = []
        self._ledger: Ledger | None = None
        self._has_final = False

    def compacted(self, columns: Columns, mask: Array) -> None:
        """Remember the ranges that compaction touched."""
        pair = [np.asarray(columns.offset)[mask], np.asarray(columns.last_offset)[mask]]
        self._compacted.append(np.stack(pair, axis=1))

    def take_gaps(self, gaps: Gaps, count: int) -> None:
        """Keep each gap once: the first reader's, for a gap at the end of a read the latest."""
        if not count:
            return
        for row in np.stack([column[:count] for column in gaps[:_GAP_FIELDS]], axis=1).tolist():
            key = (row[LOW], row[HIGH], row[ROW] < 0)
            if row[ROW] < 0 or key not in self._gaps:
                self._gaps[key] = row

    def losses(self, words: Words) -> tuple[Loss, ...] | None:
        """The loss account, if there was a final read."""
        if not self._has_final:
            return None
        return () if self._ledger is None else ledger_lines(self._ledger, words)

    def judge(self, values: Values, known: Known, faults: Faults, found: Findings, compiled: bool) -> None:
        """Judge what only the end shows, and enter it into ``found``. Called once; ``compiled``: as machine code."""
        used = int(known.values[0])
        ended = _Ended(values, used, known, faults, self._excused_ranges(int(known.trimmed[0])))
        self._has_final = bool(known.final_reads[0])
        if known.observed[0]:
            _aborted(ended, found)
        gaps = np.array(list(self._gaps.values()), dtype=np.int64).reshape(-1, _GAP_FIELDS)
        unseen = known.may_trim[0] and known.unseen_trims[0]
        if unseen or (known.cut_off[0] and known.trimmed[0] > 0):
            begin = gaps[gaps[:, BEFORE] <= gaps[:, INVOKED]]
            ended.hidden_until = int(begin[:, HIGH].max(initial=-1))
        if unseen and (known.compacted[0] or known.keyed[0]):
            ended.hides_inside = True
            ended.hidden_until = _EVERYWHERE
        if self._has_final:
            due = (ended.acked & (ended.ok_seq < ended.begun)) | ended.committed
            missing = due & (ended.final == 0)
            past = ended.last <= int(known.final_high[0])
            lost = missing & ~ended.read & past
            self._missing(ended, missing, lost, due & ~lost, due & past, faults, found, compiled)
        elif known.observed[0]:
            passed = ended.acked & ~ended.read & (ended.replaced | ended.passed(gaps))
            seen = ended.acked & (ended.read | passed)
            self._missing(ended, passed, passed, np.zeros_like(passed), seen, faults, found, compiled)
        _skips(ended, gaps, self._has_final, faults, found)
        if not known.compacted[0]:
            _ends(ended, bool(known.ok_lasts[0]), bool(known.read_lasts[0]), found)
        _overlaps(ended, self._has_final, faults, found)
        _terms(ended, faults, found)

    def _excused_ranges(self, trimmed: int) -> Ints:
        ranges = [np.array([[0, trimmed - 1]], dtype=np.int64)] if trimmed > 0 else []
        return np.concatenate([*ranges, *self._compacted, np.zeros((0, 2), dtype=np.int64)])

    def _missing(
        self,
        ended: _Ended,
        missing: Array,
        passed: Array,
        judged_unseen: Array,
        judged_lost: Array,
        faults: Faults,
        found: Findings,
        compiled: bool,
    ) -> None:
        """Acknowledged values that are gone: violations, excuses, or lines of the loss account."""
        promised = ended.acks == ACKS_ALL
        strong = promised | ended.committed
        found.judged[LOST_WRITE] += int(np.count_nonzero(judged_lost & promised))
        found.judged[UNSEEN] += int(np.count_nonzero(judged_unseen & strong))
        removed = missing & ended.excused
        missing = missing & ~removed
        excuse(found, UNSEEN, COMPACTION, -1, -1, int(np.count_nonzero(removed & strong)))
        permitted = missing & ended.may_be_gone
        ended.excuse(found, faults, LOST_WRITE, np.flatnonzero(permitted & strong))
        hidden = missing & ~permitted & strong & (ended.last <= ended.hidden_until)
        found.unjudged[LOST_WRITE] += int(np.count_nonzero(hidden & passed))
        found.unjudged[UNSEEN] += int(np.count_nonzero(hidden & ~passed))
        missing = missing & ~hidden
        for row in np.flatnonzero(missing & ~permitted & passed).tolist():
            ended.report(found, LOST_WRITE, row, row_read=ended.read_there(row))
        for row in np.flatnonzero(missing & ~permitted & ~passed).tolist():
            ended.report_unseen(found, row)
        rows = np.flatnonzero(permitted & ended.acked)
        if not len(rows):
            return
        self._ledger = self._ledger or empty_ledger()
        entries = ended.last[rows] - ended.offset[rows] + 1
        acks, at = ended.acks[rows], ended.place[rows]
        columns = (acks, ended.invoke_seq[rows], at, ended.ok_seq[rows], ended.ok_time[rows], entries, ended.size[rows])
        enter_all.form(compiled)(faults, self._ledger, *columns)


class _Ended:
    """The values of a history that is over, as columns."""

    def __init__(self, values: Values, used: int, known: Known, faults: Faults, excused: Ints) -> None:
        self.value = values.value[:used]
        self.acks = values.acks[:used]
        self.invokes, self.fails = values.invokes[:used], values.fails[:used]
        self.invoke_seq, self.fail_seq = values.invoke_seq[:used], values.fail_seq[:used]
        self.ok_term = values.ok_term[:used]
        self.ok_seq, self.ok_time = values.ok_seq[:used], values.ok_time[:used]
        self.offset, self.last = values.offset[:used], values.last[:used]
        self.read_offset, self.read_last = values.read_offset[:used], values.read_last[:used]
        self.read_seq, self.final = values.read_seq[:used], values.final[:used]
        self.width, self.size = values.width[:used], values.size[:used]
        self.acked = self.ok_seq >= 0
        self.read = self.read_seq >= 0
        self.shown, self.shown_asked = values.shown[:used], values.shown_asked[:used]
        self.begun = int(known.final_begun[0]) if known.final_reads[0] else _EVERYWHERE
        self.committed = (self.shown >= 0) & (self.shown < self.begun)
        """Returned as committed before the last final read began."""
        alone = self.committed & ~self.acked
        self.offset = np.where(alone, self.read_offset, self.offset)
        self.last = np.where(alone, self.read_last, self.last)
        self.write_caching = bool(known.write_caching[0])
        self.weak = ((self.acks != ACKS_ALL) | self.write_caching) & ~self.committed
        # What is lost was so when it was last read, and may have been before its client heard of the acknowledgement.
        self.place = np.where(self.acked, self.offset, self.read_offset)
        taken = Taken(faults, int(known.seen[0]))
        there = np.where(self.acked, self.ok_seq, np.where(self.read, self.read_seq, _EVERYWHERE))
        self.by_disk = taken.with_disks(self.invoke_seq, there, self.place)
        self.unflushed = taken.unflushed(self.invoke_seq, self.place)
        self.still_there = taken.unflushed(self.read_seq, self.place) < 0
        """Since it was first read no fault may have taken it that takes what is not flushed."""
        self.wiped = self.by_disk >= 0
        self._divided = taken.any_disk and not taken.one_leader
        self.taken = self.wiped | (self.weak & (self.unflushed >= 0))
        # acks 0 and 1 promise nothing; acks=all with write caching promises what no power loss takes.
        self.may_be_gone = ((self.acks != ACKS_ALL) & ~self.committed) | self.taken
        self.excused = _inside(self.offset, self.last, excused) if len(excused) else np.zeros(used, dtype=bool)
        self.excused_ranges = excused
        self.hidden_until = -1
        """Up to this offset the log may have been trimmed unseen, for a read of more began behind it."""
        self.hides_inside = False
        """Voters compact, and one that recorded nothing may have as well."""
        # Offsets at which some other value was read, the last one of each offset last.
        order = np.lexsort((self.read_seq, self.read_offset))
        self._read_at = order[self.read[order]]
        self._read_offsets = self.read_offset[self._read_at]
        place = np.searchsorted(self._read_offsets, self.offset, side="right") - 1
        there = place >= 0
        there[there] = self._read_offsets[place[there]] == self.offset[there]
        self._there_seq = np.full(used, -1, dtype=np.int64)
        self._there_seq[there] = self.read_seq[self._read_at[place[there]]]
        # What was read there before the acknowledgement may have been lost by then.
        self.replaced = self._there_seq > self.ok_seq

    def passed(self, gaps: Ints) -> Array:
        """Which values lie within what readers passed over after their acknowledgement."""
        result = _inside(self.offset, self.last, gaps)
        for row in np.flatnonzero(result & self.acked & ~self.read).tolist():
            later = gaps[gaps[:, SEQ] > self.ok_seq[row]]
            result[row] = _inside(self.offset[row : row + 1], self.last[row : row + 1], later)[0]
        return result

    def read_there(self, row: int) -> int:
        """The event that last read something else at the row's offset, for the first time; -1."""
        return int(self._there_seq[row])

    def report(self, found: Findings, check: int, row: int, row_read: int) -> None:
        """A violation about one acknowledged value."""
        placed = Placed(value=int(self.value[row]), offset=int(self.offset[row]))
        report(found, check, placed, int(self.invoke_seq[row]), int(self.ok_seq[row]), row_read)

    def in_two_logs(self, *rows: int) -> bool:
        """Whether nodes may show two logs since a disk was emptied, of which only one has all of these values."""
        return self._divided or bool(self.wiped[[*rows]].any())

    def excuse(self, found: Findings, faults: Faults, check: int, rows: Ints) -> None:
        """Count facts about these values, each put down to the fault that may have taken it."""
        places = np.where(self.wiped[rows], self.by_disk[rows], self.unflushed[rows])
        for place, facts in zip(*(each.tolist() for each in np.unique(places, return_counts=True)), strict=True):
            cause, node = cause_of(int(faults.code[place])), int(faults.node[place])
            excuse(found, check, cause, node, int(faults.seq[place]), facts)

    def report_unseen(self, found: Findings, row: int) -> None:
        """A violation about one value that the final read lacks."""
        lets_go = self.write_caching and self.unflushed[row] >= 0
        by_answer = self.acks[row] == ACKS_ALL and 0 <= self.ok_seq[row] < self.begun and not lets_go
        placed = Placed(value=int(self.value[row]), offset=int(self.offset[row]))
        evidence = (self.invoke_seq, self.ok_seq) if by_answer else (self.shown_asked, self.shown)
        report(found, UNSEEN, placed, *(int(each[row]) for each in evidence))


def _aborted(ended: _Ended, found: Findings) -> None:
    failed = (ended.invokes > 0) & (ended.fails == ended.invokes)
    if not failed.any():
        return
    found.judged[ABORTED_READ] += int(np.count_nonzero(failed))
    for row in np.flatnonzero(failed & ended.read).tolist():
        e0, e1, e2 = int(ended.invoke_seq[row]), int(ended.fail_seq[row]), int(ended.read_seq[row])
        placed = Placed(value=int(ended.value[row]), offset=int(ended.read_offset[row]))
        report(found, ABORTED_READ, placed, e0, e1, e2)


def _inside(first: Ints, last: Ints, ranges: Ints) -> Array:
    """Which of the intervals ``first..last`` lie within the union of ``ranges`` (rows: low, high, ...)."""
    if not len(ranges):
        return np.zeros(len(first), dtype=bool)
    ranges = ranges[np.argsort(ranges[:, LOW], kind="stable")]
    highest = np.maximum.accumulate(ranges[:, HIGH])
    # Ranges that overlap or touch are one.
    begins = np.concatenate([[True], ranges[1:, LOW] > highest[:-1] + 1])
    lows = ranges[begins, LOW]
    highs = highest[np.concatenate([np.flatnonzero(begins)[1:] - 1, [len(ranges) - 1]])]
    place = np.searchsorted(lows, first, side="right") - 1
    result: Array = (place >= 0) & (first != NULL) & (last <= highs[np.maximum(place, 0)])
    return result


def _skips(ended: _Ended, gaps: Ints, has_final: bool, faults: Faults, found: Findings) -> None:
    """Gaps of readers that hold something in the log as it ended up.

    A gap that ends at a value is judged only if that value is in the final log: then, by log matching, what is before
    it there was before it for the reader too. After a wipe nodes may show two logs, which differ in what was asked for
    before it. A gap at the end of a read is judged by what had been acknowledged with acks=all before that read began.
    """
    if not len(gaps):
        return
    strong = ended.acked & (ended.acks == ACKS_ALL) & ~ended.may_be_gone
    if has_final:
        there = (ended.final > 0) & ended.read
    else:
        # Without a final read what was read counts, unless it may have been lost since.
        there = ended.read & (~ended.weak | ended.still_there)
        there |= strong
    offset = np.where(ended.read, ended.read_offset, ended.offset)
    last = np.where(ended.read, ended.read_last, ended.last)
    rows = np.flatnonzero(there)
    rows = rows[np.argsort(offset[rows], kind="stable")]
    removed = _inside(offset, last, ended.excused_ranges)
    first = np.searchsorted(offset[rows], gaps[:, LOW])
    beyond = np.searchsorted(offset[rows], gaps[:, HIGH], side="right")
    for gap, start, end in zip(gaps.tolist(), first.tolist(), beyond.tolist(), strict=True):
        closing_row = gap[ROW]
        if closing_row >= 0 and not there[closing_row]:
            continue
        passed = [row for row in rows[start : min(end, start + 1000)].tolist() if last[row] <= gap[HIGH]]
        if closing_row < 0:
            passed = [row for row in passed if strong[row] and ended.ok_seq[row] < gap[INVOKED]]
        if not passed:
            continue
        passed = [row for row in passed if not removed[row]]
        if not passed:
            excuse(found, SKIP, COMPACTION, -1, -1, 1)
            continue
        if gap[HIGH] <= ended.hidden_until and (ended.hides_inside or gap[BEFORE] <= gap[INVOKED]):
            found.unjudged[SKIP] += 1
            continue
        suspects = [closing_row] if closing_row >= 0 and ended.wiped[closing_row] else passed
        kept = [row for row in suspects if not ended.wiped[row]]
        if not kept:
            ended.excuse(found, faults, SKIP, np.array(suspects[:1]))
            continue
        row = kept[0]
        shown = int(ended.ok_seq[row] if ended.ok_seq[row] >= 0 else ended.read_seq[row])
        value, at = int(ended.value[row]), int(offset[row])
        passed_over = PassedOver(before=gap[LOW], after=gap[HIGH] + 1, value=value, offset=at)
        report(found, SKIP, passed_over, gap[BEFORE], gap[SEQ], shown)


def _ends(ended: _Ended, ok_lasts: bool, read_lasts: bool, found: Findings) -> None:
    """Values that were appended once and read with another end than they were asked for or acknowledged with.

    The last offset may have been left out, of acknowledgements and of reads, if none of them states one.
    """
    promised = np.where(ended.acked, ended.last - ended.offset + 1, ended.width)
    given = ended.read_last - ended.read_offset + 1
    stated = ((promised > 1) | (ended.width > 0) | (ended.acked & ok_lasts)) & ((given > 1) | read_lasts)
    there = ended.read & (ended.invokes == 1) & (~ended.acked | (ended.offset == ended.read_offset))
    for row in np.flatnonzero(there & stated & (promised != given)).tolist():
        farther, value = int(ended.read_offset[row] + max(promised[row], given[row]) - 1), int(ended.value[row])
        answered = ended.ok_seq[row] if ended.acked[row] else ended.invoke_seq[row]
        two = TwoValues(farther, first=value, second=value)
        report(found, INCONSISTENT_OFFSET, two, int(answered), int(ended.read_seq[row]))


def _overlaps(ended: _Ended, has_final: bool, faults: Faults, found: Findings) -> None:
    """Batches of several offsets that reach into one another: an offset with two values, though no base is the same.

    Nodes may show two logs if what one of them has was lost.
    """
    there = ended.read & (ended.final > 0 if has_final else ended.acks == ACKS_ALL)
    rows = np.flatnonzero(there)
    rows = rows[np.argsort(ended.read_offset[rows], kind="stable")]
    reach = np.maximum.accumulate(ended.read_last[rows]) if len(rows) else ended.read_last[rows]
    for place in np.flatnonzero(reach[:-1] >= ended.read_offset[rows][1:]).tolist():
        a, b = int(rows[place]), int(rows[place + 1])
        if ended.read_offset[a] == ended.read_offset[b]:
            continue
        if ended.taken[a] or ended.taken[b]:
            gone = a if ended.taken[a] else b
            ended.excuse(found, faults, INCONSISTENT_OFFSET, np.array([gone]))
            continue
        two = TwoValues(int(ended.read_offset[b]), first=int(ended.value[a]), second=int(ended.value[b]))
        report(found, INCONSISTENT_OFFSET, two, int(ended.read_seq[a]), int(ended.read_seq[b]))


def _terms(ended: _Ended, faults: Faults, found: Findings) -> None:
    """Acknowledged appends behind one of a later term: of those of acks=all, and of those in the log as it ended up.

    The leader of a later term has what an earlier one committed, and writes behind it.
    """
    answered = np.flatnonzero(ended.acked & (ended.ok_term != NULL))
    answered = answered[np.argsort(ended.offset[answered], kind="stable")]
    strong, final = ended.acks == ACKS_ALL, ended.final > 0
    found.judged[TERMS_IN_ORDER] += int(np.count_nonzero(strong[answered] | final[answered]))
    behind = {row: first for row, first in _behind_later_terms(ended, answered).items() if strong[row]}
    lost = {row: _lost_by_then(ended, faults, first, row) for row, first in behind.items()}
    wrong = {row: first for row, first in behind.items() if lost[row] < 0}
    # Nodes may show two logs in the end, if disks were emptied.
    in_the_end = _behind_later_terms(ended, answered[final[answered]])
    wrong |= {row: first for row, first in in_the_end.items() if not ended.in_two_logs(row, first)}
    for row in behind:
        if row not in wrong:
            excuse_by(faults, found, TERMS_IN_ORDER, lost[row])
    for row, first in sorted(wrong.items()):
        pair = [int(column[each]) for each in (first, row) for column in (ended.value, ended.offset, ended.ok_term)]
        report(found, TERMS_IN_ORDER, TermsOutOfOrder(*pair), int(ended.ok_seq[first]), int(ended.ok_seq[row]))


def _lost_by_then(ended: _Ended, faults: Faults, first: int, row: int) -> int:
    """The place of the fault by which what ``row`` appended with acks=all may have been lost when both were
    acknowledged; -1."""
    until = max(ended.ok_seq[first], ended.ok_seq[row])
    since, there, at = (int(column[row]) for column in (ended.invoke_seq, ended.ok_seq, ended.place))
    return excusing(faults, since, there, ended.write_caching, at, int(until))


def _behind_later_terms(ended: _Ended, rows: Ints) -> dict[int, int]:
    """Of appends by offset: those with one of a later term in front, and the first of these with the latest term."""
    if not len(rows):
        return {}
    terms, offsets = ended.ok_term[rows], ended.offset[rows]
    latest = np.maximum.accumulate(terms)
    # Of those at the same offset none is behind the other.
    before = np.searchsorted(offsets, offsets, side="left") - 1
    places = np.flatnonzero((before >= 0) & (latest[np.maximum(before, 0)] > terms))
    firsts = np.searchsorted(latest, latest[before[places]], side="left")
    return dict(zip(rows[places].tolist(), rows[firsts].tolist(), strict=True))
