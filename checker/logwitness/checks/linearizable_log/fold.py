"""Gathers what clients asked and were told about one log, and judges it at the end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loghistory.schema import CLIENT_KINDS, END_KINDS, Kind

from ..codes import ENDS, FAULT, MAX_OFFSET, NULL, OBSERVE, OF_CLIENTS, OF_LOGS, how_many
from ..columns import Array, Columns, Ints, groups
from ..contract import Excuse, Family, Setting, Verdicts, outcome, summed
from ..faults import CAUSES, GAP, empty_faults, empty_held, with_fault_room
from ..hashing import all_grown, empty_table, roomy
from .algorithm import Entries, Judgement, Values, distinct, judge_log
from .bounds import Ends, ascending
from .per_event import listen
from .rules import CHECK
from .state import ACKED, LOOSE, NONE, Empty, Given, Known, Lengths, Losses, More, Named, Open, Tables, blank, fill

_AT_ONCE = 1 << 17
"""Events for which room is made together: tables of what is open are as large as these could fill them."""
_MORE_KEPT = 1 << 16
"""Repeated conflicts are put together when there are more."""


class LinearizableLogFold:
    """Judges the operations of clients on one log.

    Kept: about a hundred bytes for each value and each length that a tail gave, and what is open. Offsets are not dense
    if the history shows anything that is in the log and was not appended by a client it shows: internal appends,
    compaction, values of other acks levels, or a reader that was led over an offset.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._tables = Tables(empty_table(), empty_table(), empty_table(), empty_table())
        self._open = Open(**blank(Open._fields))
        self._given = Given(**blank(Given._fields))
        self._named = Named(**blank(Named._fields))
        self._lengths = Lengths(**blank(Lengths._fields))
        self._empty = Empty(**blank(Empty._fields))
        self._more = More(**blank(More._fields))
        self._losses = Losses(**blank(Losses._fields))
        self._held, self._faults = empty_held(), empty_faults()
        start = dict.fromkeys(Known._fields, 0) | dict.fromkeys(("open_free", "given_free", "lost"), NONE)
        start["write_caching"] = int(setting.write_caching)
        numbers = {name: np.array([number], dtype=np.int64) for name, number in start.items()}
        self._known = Known(**numbers | {"voters": np.array(setting.voters, dtype=np.int64)})

    def feed(self, columns: Columns) -> None:
        """Take the next events of the log."""
        events = len(columns.seq)
        for start in range(0, events, _AT_ONCE):
            self._take(columns.between(start, start + _AT_ONCE) if events > _AT_ONCE else columns)

    def _take(self, columns: Columns) -> None:
        """Take so few events that the room made for what they may bring stays in the caches."""
        self._make_room(how_many(columns.kind, *OF_CLIENTS), how_many(columns.kind, OBSERVE))
        befell = how_many(columns.kind, FAULT, *ENDS)
        self._faults = with_fault_room(self._faults, befell)
        self._losses = all_grown(self._losses, int(self._known.losses[0]), befell, fill)
        listen.form(self._setting.compiled)(
            columns if self._setting.compiled else columns.lists(),
            self._tables,
            self._open,
            self._given,
            self._named,
            self._lengths,
            self._empty,
            self._more,
            self._held,
            self._faults,
            self._losses,
            self._known,
        )

    def _make_room(self, clients: int, observed: int) -> None:
        """For so many events of clients, so many of them batches that readers were given."""
        known, compiled = self._known, self._setting.compiled
        open_, named = int(known.open[0]), int(known.named[0])
        lengths, empty = int(known.lengths[0]), int(known.empty[0])
        # Each value is named by an append or by a batch given now or earlier.
        naming = clients + int(known.given_rows[0])
        self._tables = Tables(
            roomy(self._tables.open, open_, clients, compiled),
            roomy(self._tables.named, named, naming, compiled),
            roomy(self._tables.lengths, lengths, clients, compiled),
            roomy(self._tables.empty, empty, clients, compiled),
        )
        rows, batches, more = int(known.open_rows[0]), int(known.given_rows[0]), self._conflicts()
        self._open = all_grown(self._open, rows, clients, fill)
        self._given = all_grown(self._given, batches, observed, fill)
        self._named = all_grown(self._named, named, naming, fill)
        self._lengths = all_grown(self._lengths, lengths, clients, fill)
        self._empty = all_grown(self._empty, empty, clients, fill)
        self._more = all_grown(self._more, more, naming, fill)

    def _conflicts(self) -> int:
        """How many second places of values are kept, each of them once if they are many."""
        used = int(self._known.more[0])
        if used > _MORE_KEPT:
            said = np.stack([self._more.row, self._more.offset, self._more.last, self._more.acked], axis=1)[:used]
            first = np.sort(np.unique(said, axis=0, return_index=True)[1])
            self._more = More(*(column[first] for column in self._more))
            self._known.more[0] = used = len(first)
        return used

    def finish(self) -> Verdicts:
        """Judge all operations together, and answer."""
        known, keep = self._known, self._setting.keep
        loose, losses = int(known.loose[0]), Losses(*(column[: int(known.losses[0])] for column in self._losses))
        named = Named(*(column[: int(known.named[0])] for column in self._named))
        twice = self._conflicts()
        entries = self._entries(named, twice)
        stretch, crosses = self._stretches(named, entries, losses)
        ends, nothings = int(known.ends[0]), losses.nothings
        if known.sparse[0]:
            nothings = np.zeros_like(nothings)
        else:
            ends += int(known.nothings[0])
        lost = losses.ends + nothings + np.bincount(stretch[crosses], minlength=len(losses.seq))
        entries, stretch = entries.where(~crosses), stretch[~crosses]
        found = self._judge(named, entries, stretch, losses, twice)
        if len(losses.seq) and not any(each.violated for each in found):
            # What contradicts itself across losses is excused as well.
            (whole,) = self._judge(named, entries, np.zeros_like(stretch), losses, twice, whole=True)
            if whole.violated:
                place = int(np.searchsorted(losses.end, min(whole.violations[0].events), side="right"))
                lost[min(place, len(lost) - 1)] += 1
        gaps = Excuse(CAUSES[GAP], (), 0 if len(losses.seq) else found[0].excused, -1)
        excuses = [gaps, *self._excuses(losses, lost)]
        violations = tuple(violation for each in found for violation in each.violations)[:keep]
        judged, violated = ends + sum(each.judged for each in found), sum(each.violated for each in found)
        excuses = [each for each in excuses if each.facts]
        return Verdicts((outcome(CHECK, judged, violated, violations, excuses=summed(excuses), unjudged=loose),))

    def _stretches(self, named: Named, entries: Entries, losses: Losses) -> tuple[Ints, Array]:
        """Before which loss each entry was asked for, by number, and whether it was not seen before that.

        What nobody can have lost, since it was never in the log, counts as asked for when it was seen.
        """
        never = np.append(self._failed(named), True)[entries.row]
        since = np.where(never, entries.latest_seq, np.append(named.invoked_seq, 0)[entries.row])
        stretch = np.searchsorted(losses.end, since, side="right")
        crosses: Array = np.append(losses.seq, MAX_OFFSET)[stretch] < entries.latest_seq
        return stretch, crosses & ~never

    def _judge(
        self, named: Named, entries: Entries, stretch: Ints, losses: Losses, twice: int, *, whole: bool = False
    ) -> list[Judgement]:
        """Judge what lies between two losses by itself, each such stretch, the first one in any case; or the ``whole``
        as if nothing were lost, but for holes."""
        known, setting, ends = self._known, self._setting, self._ends()
        values = self._values(named)
        if len(losses.seq):
            # What was asked for before the first loss may have been there, whatever became of it.
            unknown = (named.asked > 0) & ~values.failed & (named.invoked_seq < losses.seq[0])
            values = values._replace(unknown=unknown)
        of_ends = np.searchsorted(losses.end, ends.invoked_seq, side="right") * (not whole)
        its_entries, its_ends = (dict(groups(each, np.arange(len(each)))) for each in (stretch, of_ends))
        none = np.zeros(0, dtype=np.int64)
        return [
            judge_log(
                values,
                entries.where(its_entries.get(place, none)),
                Ends(*(column[its_ends.get(place, none)] for column in ends)),
                0,
                dense=not known.sparse[0] and not known.loose[0] and not place and not whole,
                once=setting.idempotent and twice > 0,
                keep=max(setting.keep, 1),
            )
            for place in sorted({0, *its_entries, *its_ends})
        ]

    def _excuses(self, losses: Losses, lost: Ints) -> Iterator[Excuse]:
        """What each loss excuses."""
        rows = zip(*(each.tolist() for each in (losses.seq, losses.node, losses.cause, lost)), strict=True)
        for seq, node, cause, facts in rows:
            yield Excuse(CAUSES[cause], (node,) if node >= 0 else (), facts, seq)

    def _time(self, time: Ints, seq: Ints) -> Ints:
        return time if self._known.moved[0] else seq

    def _failed(self, named: Named) -> Array:
        failed: Array = (named.asked > 0) & (named.failed == named.asked)
        return failed

    def _values(self, named: Named) -> Values:
        failed = self._failed(named)
        unknown = named.asked > named.failed + named.placed
        return Values(named.value, self._time(named.invoked, named.invoked_seq), named.invoked_seq, failed, unknown)

    def _entries(self, named: Named, twice: int) -> Entries:
        """What is somewhere, of the values that were promised to last."""
        usual = (named.marks & (LOOSE | ACKED)) != LOOSE
        rows = np.flatnonzero(usual & (named.offset != NULL))
        order = ascending(named.offset[rows])
        rows = rows if order is None else rows[order]
        entries = self._entry(named, rows, named, rows)
        if twice:
            more = More(*(column[:twice] for column in self._more))
            kept = np.flatnonzero(usual[more.row] & ((named.marks[more.row] & LOOSE == 0) | (more.acked != 0)))
            pairs = zip(entries, self._entry(named, more.row[kept], more, kept), strict=True)
            entries = distinct(Entries(*(np.concatenate(pair) for pair in pairs)))
        return entries

    def _entry(self, named: Named, rows: Ints, said: Named | More, places: Ints) -> Entries:
        """Entries of the values in ``rows``, as the ``places`` of ``said`` have them."""
        latest_seq = said.latest_seq[places]
        return Entries(
            said.offset[places],
            said.last[places],
            named.value[rows],
            self._time(said.latest[places], latest_seq),
            latest_seq,
            np.where(named.asked[rows] > 0, rows, NONE),
        )

    def _ends(self) -> Ends:
        """Of each length the tail asked for last and, if it is another one, the one answered first."""
        some = Lengths(*(column[: int(self._known.lengths[0])] for column in self._lengths))
        other = some.soon_seq != some.late_seq
        both = [
            np.concatenate(pair)
            for pair in (
                (some.offset, some.offset[other]),
                (some.late_invoked, some.soon_invoked[other]),
                (some.late_completed, some.soon_completed[other]),
                (some.late_seq, some.soon_seq[other]),
                (some.late_completed_seq, some.soon_completed_seq[other]),
            )
        ]
        offset, invoked, completed, invoked_seq, completed_seq = both
        invoked, completed = self._time(invoked, invoked_seq), self._time(completed, completed_seq)
        columns = [offset, invoked, completed, np.ones(len(offset), dtype=bool), invoked_seq, completed_seq]
        if not self._known.sparse[0]:
            # Where offsets have gaps, there may be nothing at one and something behind it.
            none = Empty(*(column[: int(self._known.empty[0])] for column in self._empty))
            times = self._time(none.invoked, none.invoked_seq), self._time(none.completed, none.completed_seq)
            found = (none.offset, *times, np.zeros(len(none.offset), bool), none.invoked_seq, none.completed_seq)
            columns = [np.concatenate(pair) for pair in zip(columns, found, strict=True)]
        # Of equal offsets the later one first: then one pair of bounds tells what both say.
        order = np.argsort(columns[0], kind="stable")
        return Ends(*(column[order] for column in columns))


FAMILY = Family(
    "linearizable_log",
    (CHECK,),
    CLIENT_KINDS | {Kind.APPEND, Kind.COMPACT, Kind.TRIM, Kind.FAULT, Kind.HEAL} | END_KINDS,
    ("time", "node", "op", "f", "acks", "offset", "last_offset", "value", "reason", "term", "dirty", "flushed"),
    LinearizableLogFold,
    operations=OF_LOGS,
)
