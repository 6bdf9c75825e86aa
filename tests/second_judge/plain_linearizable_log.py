"""Whether the log is linearizable, pair by pair. Source: history-checks.md#linearizable-log-near-linear-time."""

from __future__ import annotations

from dataclasses import dataclass, field

from excuses import EMPTY, faults, one_leader
from lives import FOR_EVER
from plain import READS, VIOLATED, Count, Event, History, Plain

_Entry = tuple[int, int, int]


@dataclass
class _Operation:
    """One operation; a read may be told of before its beginning."""

    begun: Event | None = None
    seen: list[Event] = field(default_factory=list)


@dataclass
class _Value:
    """What is known of a value that was appended with the promise that it lasts."""

    invoked: int
    begun: int
    """The event by which it was first asked for."""
    asked: int = 0
    failed: int = 0
    placed: int = 0


@dataclass
class _Log:
    """What clients were told of the log."""

    values: dict[int, _Value] = field(default_factory=dict)
    weak: set[int] = field(default_factory=set)
    """Values appended without the promise to last: nothing is concluded from reading them."""
    acked: dict[_Entry, tuple[int, int]] = field(default_factory=dict)
    """First and last offset and value by an acknowledgement, and when that was known, and by which event."""
    read: dict[_Entry, tuple[int, int]] = field(default_factory=dict)
    """The same by a read."""
    tails: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """A length, when it was asked for and when answered, and by which events."""
    empty: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Where a read found nothing, when it was asked, and by which events it was asked and answered."""
    sparse: bool = False
    """The log holds what no client is seen to append."""

    @property
    def entries(self) -> dict[_Entry, tuple[int, int]]:
        """The same by either."""
        both = {*self.acked, *self.read}
        return {e: min(reported[e] for reported in (self.acked, self.read) if e in reported) for e in both}


def _times(history: History) -> dict[int, int]:
    """When each event was, by ``seq``: the clock, which is never set back, or the order if the clock stands still."""
    times: dict[int, int] = {}
    now = None
    for e in history.events:
        if e.op is not None:
            now = e.time if now is None else max(now, e.time)
            times[e.seq] = now
    return times if len(set(times.values())) > 1 else {seq: seq for seq in times}


def _log_of(history: History) -> _Log:
    times, log = _times(history), _Log()
    open_: dict[int, _Operation] = {}
    for e in history.events:
        if e.kind in ("append", "compact", "trim"):
            log.sparse = True
        if e.op is None:
            continue
        operation = open_.get(e.op)
        if e.kind == "invoke" and (operation is None or operation.begun is None):
            open_.setdefault(e.op, _Operation()).begun = e
            if e.f == "append" and e.value is not None:
                if _promised(history, e):
                    log.values.setdefault(e.value, _Value(times[e.seq], e.seq)).asked += 1
                else:
                    log.weak.add(e.value)
        elif e.kind == "observe":
            open_.setdefault(e.op, _Operation()).seen.append(e)
        elif e.kind in ("ok", "fail", "info") and operation is not None:
            del open_[e.op]
            begun = operation.begun
            if e.kind == "ok":
                _completed(history, log, operation, e, times)
            elif e.kind == "fail" and begun is not None and begun.value in log.values and _promised(history, begun):
                log.values[begun.value].failed += begun.f == "append"
    # What is read of a value that was not promised to last says nothing, even if it was read before it was appended.
    log.read = {entry: now for entry, now in log.read.items() if entry[2] not in log.weak}
    return log


def _promised(history: History, append: Event) -> bool:
    return append.acks not in (0, 1) and not history.write_caching


def _asks_all(read: Event) -> bool:
    """Whether a read that finds nothing speaks for the log; a node that is asked alone may lag behind."""
    return read.node is None or read.f == "read_linearizable"


def _completed(history: History, log: _Log, operation: _Operation, ok: Event, times: dict[int, int]) -> None:
    begun, now = operation.begun, times[ok.seq]
    if begun is not None and begun.f == "append" and begun.value is not None and _promised(history, begun):
        if ok.offset is not None and ok.offset >= 0:
            log.values[begun.value].placed += 1
            log.acked.setdefault((ok.offset, ok.last, begun.value), (now, ok.seq))
    elif begun is not None and begun.f == "tail" and ok.offset is not None and ok.offset >= 0:
        log.tails.append((ok.offset, times[begun.seq], now, begun.seq, ok.seq))
    at = begun.offset if begun is not None and begun.f in READS else None
    for e in operation.seen:
        log.sparse = log.sparse or e.value is None or (at is not None and e.offset > at)
        at = e.last + 1
        if e.value is not None:
            log.read.setdefault((e.offset, e.last, e.value), (now, ok.seq))
    if ok.f in READS and ok.offset is not None and at is not None:
        if ok.offset > at:
            log.sparse = True
        elif ok.offset == at >= 0 and not operation.seen and begun is not None and _asks_all(begun):
            log.empty.append((at, times[begun.seq], begun.seq, ok.seq))


def _reported_ends(log: _Log, since: int, until: int) -> list[tuple[int, int, int | None]]:
    """Lengths that were told of the log, asked for after one event and answered before another: of each the one asked
    for last and the one answered first; and where a read found nothing."""
    rows: list[tuple[int, int, int | None]] = []
    tails = [tail for tail in log.tails if since < tail[3] and tail[4] < until]
    for length in {tail[0] for tail in tails}:
        same = [tail for tail in tails if tail[0] == length]
        both = {max(same, key=lambda t: (t[1], t[3])), min(same, key=lambda t: (t[2], same.index(t)))}
        rows += [(length, asked, answered) for _, asked, answered, _, _ in both]
    if not log.sparse:
        empty = [each for each in log.empty if since < each[2] and each[3] < until]
        rows += [(place, max(asked for n, asked, _, _ in empty if n == place), None) for place in {e[0] for e in empty}]
    return rows


def _losses(history: History) -> list[tuple[int, int]]:
    """From which event to which something promised to last may be taken: by a disk that was emptied and may have held
    some of the log, under write caching by any fault that may find something unflushed."""
    found: list[tuple[int, int]] = []
    for fault in faults(history):
        begin = fault.event.seq
        if fault.disk:
            any_of_it = fault.high >= 0 or fault.cut >= 0
            takes = any_of_it or (fault.high > EMPTY and not one_leader(history, begin))
        else:
            takes = history.write_caching and fault.low < FOR_EVER
        if takes and found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], fault.end)
        elif takes:
            found.append((begin, fault.end))
    return found


def linearizable_log(history: History) -> Count:
    """What is asked for and seen between two losses is compared; what was asked for before one and seen behind it may
    be lost, and is excused."""
    log, losses = _log_of(history), _losses(history)
    never = {v for _, _, v in log.entries if v not in log.values or log.values[v].failed == log.values[v].asked}
    begins, ends = [-1, *(end for _, end in losses)], [*(begin for begin, _ in losses), FOR_EVER]
    stretches: list[tuple[dict[_Entry, int], list[tuple[int, int, int | None]]]] = []
    counts, wrong = [], False
    for since, until in zip(begins, ends, strict=True):
        entries = {
            entry: now
            for entry, (now, seen) in log.entries.items()
            if since < seen < until and (entry[2] in never or log.values[entry[2]].begun > since)
        }
        for begin, end in losses:
            if begin <= since <= end:
                # While a disk fails, what was never in the log is still wrong.
                entries |= {e: now for e, (now, seen) in log.entries.items() if e[2] in never and begin <= seen <= end}
        tails = [tail for tail in log.tails if since < tail[3] and tail[4] < until]
        empty = [each for each in log.empty if since < each[2] and each[3] < until and not log.sparse]
        counts.append(Count(judged=len(entries) + len(tails) + len(empty)))
        of_ends = _reported_ends(log, since, until)
        first = len(counts) == 1
        stretches.append((entries, of_ends))
        wrong |= _is_wrong(history, log, entries, of_ends, never, until if first else None)
        if not losses and (log.sparse or log.weak):
            counts.append(Count(excused=_gaps(entries, of_ends)))
    judged = sum(c.judged for c in counts)
    if losses and not wrong:
        # What contradicts itself across losses is excused as well.
        between = {entry: now for each in stretches for entry, now in each[0].items()}
        all_ends = [end for each in stretches for end in each[1]]
        counts.append(Count(excused=_is_wrong(history, log, between, all_ends, never, None)))
    facts = len(log.entries) + len(log.tails) + (0 if log.sparse else len(log.empty))
    excused = sum(c.excused for c in counts) + facts - judged
    count = Count(judged=judged, unjudged=len(log.weak), excused=excused)
    return count + VIOLATED if wrong else count


def _gaps(entries: dict[_Entry, int], ends: list[tuple[int, int, int | None]]) -> int:
    """How many gaps there are below the highest offset that is known."""
    covered = {o for offset, last, _ in entries for o in range(offset, last + 1)}
    top = max([o + 1 for o in covered] + [n for n, _, answered in ends if answered is not None], default=0)
    return sum(0 <= o < top and o not in covered for o in {0, *(o + 1 for o in covered)})


def _is_wrong(
    history: History,
    log: _Log,
    entries: dict[_Entry, int],
    ends: list[tuple[int, int, int | None]],
    never: set[int],
    until: int | None,
) -> bool:
    """Whether entries and ends contradict each other: every bound from below is compared with every bound from above.

    ``until``: the log began empty, and what was asked for before that event may fill its holes.
    """
    covered = {o for offset, last, _ in entries for o in range(offset, last + 1)}
    wrong = len(covered) < sum(last - offset + 1 for offset, last, _ in entries)  # two values at one offset
    read = [value for _, _, value in entries]
    if history.idempotent:
        wrong |= len({(offset, value) for offset, _, value in entries}) > len(set(read))
    wrong |= any(value in never for value in read)
    tails = [n for n, _, answered in ends if answered is not None]
    wrong |= any(offset < n <= last for offset, last, _ in entries for n in tails)

    # From when on, and until when, an entry may have come; 3 n is the end of a log of n entries as it was when a tail
    # was answered, 3 n + 1 the same when it was asked for, 3 n + 2 entry n.
    not_before = [(3 * o + 2, log.values[v].invoked) for o, _, v in entries if v in log.values]
    not_before += [(3 * n + 1, asked) for n, asked, _ in ends]
    not_after = [(3 * o + 2, now) for (o, _, _), now in entries.items()]
    not_after += [(3 * n, answered) for n, _, answered in ends if answered is not None]
    top = max([o + 1 for o in covered] + [n for n, _, answered in ends if answered is not None], default=0)
    holes = top - sum(o >= 0 for o in covered)
    if until is not None and not log.sparse and not log.weak:
        free = {value: v for value, v in log.values.items() if v.failed < v.asked and v.begun < until}
        if until == FOR_EVER:
            free = {value: v for value, v in free.items() if v.asked > v.failed + v.placed}
        unknown = sorted((v.invoked, value) for value, v in free.items() if value not in read)
        wrong |= holes > len(unknown)
        places = (o for o in range(top) if o not in covered)
        not_before += [(3 * o + 2, invoked) for (invoked, _), o in zip(unknown, places, strict=False)]
    return wrong | any(a <= b and after > before for a, after in not_before for b, before in not_after)


TWINS: dict[str, Plain] = {"linearizable-log": linearizable_log}
