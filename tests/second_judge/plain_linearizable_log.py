"""Whether the log is linearizable, pair by pair. Source: history-checks.md#linearizable-log-near-linear-time."""

from __future__ import annotations

from dataclasses import dataclass, field

from plain import READS, VIOLATED, Count, Event, History, Plain, wipes
from plain_clients import LASTING


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
    acked: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """First and last offset and value by an acknowledgement, and when that was known."""
    read: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """The same by a read."""
    tails: list[tuple[int, int, int, int]] = field(default_factory=list)
    """A length, when it was asked for and when answered, and by which event it was asked for."""
    empty: list[tuple[int, int, int]] = field(default_factory=list)
    """Where a read found nothing, when it was asked, and by which event."""
    sparse: bool = False
    """The log holds what no client is seen to append."""

    @property
    def entries(self) -> dict[tuple[int, int, int], int]:
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
            log.acked.setdefault((ok.offset, ok.last, begun.value), now)
    elif begun is not None and begun.f == "tail" and ok.offset is not None and ok.offset >= 0:
        log.tails.append((ok.offset, times[begun.seq], now, begun.seq))
    at = begun.offset if begun is not None and begun.f in READS else None
    for e in operation.seen:
        log.sparse = log.sparse or e.value is None or (at is not None and e.offset > at)
        at = e.last + 1
        if e.value is not None:
            log.read.setdefault((e.offset, e.last, e.value), now)
    if ok.f in READS and ok.offset is not None and at is not None:
        if ok.offset > at:
            log.sparse = True
        elif ok.offset == at >= 0 and not operation.seen and begun is not None and _asks_all(begun):
            log.empty.append((at, times[begun.seq], begun.seq))


def _reported_ends(log: _Log, since: int) -> list[tuple[int, int, int | None]]:
    """Lengths that were told of the log, asked for after an event: of each the one asked for last and the one answered
    first; and where a read found nothing."""
    rows: list[tuple[int, int, int | None, int]] = []
    for length in {n for n, _, _, _ in log.tails}:
        same = [tail for tail in log.tails if tail[0] == length]
        rows += {max(same, key=lambda t: (t[1], t[3])), min(same, key=lambda t: (t[2], same.index(t)))}
    if not log.sparse:
        for place in {n for n, _, _ in log.empty}:
            asked, seq = max((asked, seq) for n, asked, seq in log.empty if n == place)
            rows.append((place, asked, None, seq))
    return [(n, asked, answered) for n, asked, answered, seq in rows if seq > since]


def _takes(history: History, e: Event) -> bool:
    """Whether a fault may have taken what was promised to last: a wiped disk of a voter, under write caching any
    other."""
    if wipes(e):
        return e.node is None or not history.voters or e.node in history.voters
    unflushed = e.kind in ("power_loss", "storage_error")
    unflushed = unflushed or (e.kind == "fault" and e.f in ("power_loss", "storage_error", *LASTING))
    return unflushed and history.write_caching


def _last_taken(history: History) -> int:
    """The last event by which that may have happened; -1: none, behind all: some fault has not ended."""
    last, failing = -1, 0
    for e in history.events:
        if e.kind == "heal" and e.f in LASTING and failing:
            last, failing = e.seq, failing - 1
        elif _takes(history, e):
            last, failing = e.seq, failing + (e.kind == "fault" and e.f in LASTING)
    return last if not failing else history.events[-1].seq + 1


def linearizable_log(history: History) -> Count:
    """Every bound from below is compared with every bound from above."""
    log = _log_of(history)
    entries = log.entries
    wiped = _last_taken(history)
    failed = {value for value, v in log.values.items() if v.failed == v.asked}
    ends = _reported_ends(log, -1)
    lost = 0
    if wiped >= 0:
        # What was asked for before that may be lost since, and what was known of it with it.
        kept = {
            entry: now
            for entry, now in entries.items()
            if entry[2] not in log.values or log.values[entry[2]].begun > wiped or entry[2] in failed
        }
        later = _reported_ends(log, wiped)
        lost = len(entries) - len(kept) + len(ends) - len(later)
        entries, ends = kept, later
    covered = {o for offset, last, _ in entries for o in range(offset, last + 1)}
    reported = len(log.tails) + (0 if log.sparse else len(log.empty))
    count = Count(judged=len(entries) + (reported if wiped < 0 else len(ends)), unjudged=len(log.weak), excused=lost)
    wrong = len(covered) < sum(last - offset + 1 for offset, last, _ in entries)  # two values at one offset
    read = [value for _, _, value in entries]
    if history.idempotent:
        wrong |= len({(offset, value) for offset, _, value in entries}) > len(set(read))
    wrong |= any(value not in log.values or value in failed for value in read)

    # From when on, and until when, an entry may have come; 3 n is the end of a log of n entries as it was when a tail
    # was answered, 3 n + 1 the same when it was asked for, 3 n + 2 entry n.
    not_before = [(3 * o + 2, log.values[v].invoked) for o, _, v in entries if v in log.values]
    not_before += [(3 * n + 1, asked) for n, asked, _ in ends]
    not_after = [(3 * o + 2, now) for (o, _, _), now in entries.items()]
    not_after += [(3 * n, answered) for n, _, answered in ends if answered is not None]
    top = max([o + 1 for o in covered] + [n for n, _, answered in ends if answered is not None], default=0)
    holes = top - sum(o >= 0 for o in covered)
    if not log.sparse and not log.weak and wiped < 0:
        unknown = sorted(
            (v.invoked, value) for value, v in log.values.items() if v.asked > v.failed + v.placed and value not in read
        )
        wrong |= holes > len(unknown)
        places = (o for o in range(top) if o not in covered)
        not_before += [(3 * o + 2, invoked) for (invoked, _), o in zip(unknown, places, strict=False)]
    elif wiped < 0:
        count += Count(excused=sum(0 <= o < top and o not in covered for o in {0, *(o + 1 for o in covered)}))
    wrong |= any(a <= b and after > before for a, after in not_before for b, before in not_after)
    return count + VIOLATED if wrong else count


TWINS: dict[str, Plain] = {"linearizable-log": linearizable_log}
