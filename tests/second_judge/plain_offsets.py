"""The four offsets of a node and its term, by reading what its events state. Sources: raft.md#words and the sections
on the commit index, visibility, flush, and truncation, crash and restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

from cuts import may_have_cut
from excuses import is_full
from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, halves_in, total, wipes


def _of_nodes(history: History) -> Iterator[list[Event]]:
    """What each node tells of itself, and what happened to it."""
    shown: dict[int, list[Event]] = {}
    for e in history.events:
        if e.node is not None and (e.kind in GONE or e.dirty is not None or wipes(e)):
            shown.setdefault(e.node, []).append(e)
    yield from shown.values()


def _incarnations(history: History) -> Iterator[list[Event]]:
    """The states of each node from one start to the next. Who was down and goes on has started, recorded or not."""
    for shown in _of_nodes(history):
        states: list[Event] = []
        down = False
        for e in shown:
            if e.dirty is None:
                down = True
                continue
            if states and (down or e.kind == "start"):
                yield states
                states = []
            states.append(e)
            down = False
        yield states


def _goes_on(history: History) -> bool:
    """Nodes go on after they were down, but no start is recorded."""
    down: set[int] = set()
    for e in history.events:
        if e.kind in GONE or wipes(e):
            down.add(e.node)
        elif e.dirty is not None and e.node in down:
            return not history.has("start")
    return False


def _moves(history: History, column: str) -> Iterator[tuple[Event, Event]]:
    """Two successive events of one incarnation that carry the column, one of them not -1."""
    for states in _incarnations(history):
        for before, after in pairwise(e for e in states if e.get(column) is not None):
            if max(before[column], after[column]) >= 0:
                yield before, after


def commit_monotonic(history: History) -> Count:
    """The commit index never moves back while the node runs."""
    return total(JUDGED if b.commit >= a.commit else JUDGED + VIOLATED for a, b in _moves(history, "commit"))


def _within(history: History, inner: str, outer: str) -> Count:
    """What breaks the rule for several events on end, with the same two offsets, is one violation."""
    count = Count()
    for states in _incarnations(history):
        shown = None
        for e in states:
            if e.get(inner) is not None:
                if e[inner] >= 0:
                    count += JUDGED
                    if e[inner] > e[outer] and shown != (e[inner], e[outer]):
                        count += VIOLATED
                shown = e[inner], e[outer]
    return count


def commit_within_flushed(history: History) -> Count:
    """commit <= flushed in every state."""
    return _within(history, "commit", "flushed")


def flushed_within_dirty(history: History) -> Count:
    """flushed <= dirty in every state."""
    return _within(history, "flushed", "dirty")


def visible_within_dirty(history: History) -> Count:
    """visible <= dirty in every state."""
    return _within(history, "visible", "dirty")


def _back_by_truncation_only(history: History, column: str) -> Count:
    count = Count()
    for before, after in _moves(history, column):
        least = before[column]
        begun_anew = after.kind == "trim" and after.dirty < after.offset
        cut = after.kind == "append" and after.offset <= before.dirty  # by a truncation that is not recorded
        if after.kind == "truncate" or begun_anew or cut:
            least = min(least, after.offset - 1)
        count += JUDGED if after[column] >= least else JUDGED + VIOLATED
    return count


def flushed_monotonic(history: History) -> Count:
    """flushed moves back by truncation only, recorded or not, and no further than the truncation point."""
    return _back_by_truncation_only(history, "flushed")


def visible_monotonic(history: History) -> Count:
    """visible moves back by truncation only, recorded or not, and no further than the truncation point."""
    return _back_by_truncation_only(history, "visible")


def _restarts(history: History) -> Iterator[tuple[set[str], Event, Event]]:
    """Every start of a node: what befell it since its last start, its last state before, and the start.

    A disk that was wiped, or may have been, has nothing to keep.
    """
    anywhere = [e for e in history.events if wipes(e) and e.node is None]
    for own in _of_nodes(history):
        shown = sorted((*own, *anywhere), key=lambda e: e.seq)
        befell: set[str] = set()
        last: Event | None = None
        for e in shown:
            if e.kind == "start" and last is not None and "wipe" not in befell:
                yield befell, last, e
            if e.dirty is not None:
                last, befell = e, set()
            else:
                befell.add("wipe" if wipes(e) else "crash" if is_full(e) else e.kind)


def _found_again(history: History, had: int, last: Event, start: Event) -> Count:
    """Whether a node that had so much at its last event may start with what it found."""
    if start.dirty >= had:
        return JUDGED
    return UNJUDGED if may_have_cut(history, last, start) else JUDGED + VIOLATED


def flushed_durable(history: History) -> Count:
    """What was flushed is there at the next start."""
    return total(
        _found_again(history, last.flushed, last, start) for _, last, start in _restarts(history) if last.flushed >= 0
    ).if_shown(lacks=_goes_on(history))


def dirty_survives_crash(history: History) -> Count:
    """What was appended is there at the next start if only the process died."""
    return total(
        _found_again(history, last.dirty, last, start)
        for befell, last, start in _restarts(history)
        if last.dirty >= 0 and befell & {"crash", "stop"} and not befell & {"power_loss", "storage_error"}
    ).if_shown(lacks=_goes_on(history))


def restart_is_flushed(history: History) -> Count:
    """After a start flushed = dirty."""
    starts = [e for e in history.events if e.kind == "start"]
    count = Count(judged=len(starts), violated=sum(e.flushed != e.dirty for e in starts))
    return count.if_shown(lacks=_goes_on(history))


def starts_as_it_knows(history: History) -> Count:
    """raft.md#starts-as-it-knows."""
    count = Count()
    for e in history.events:
        if e.kind != "start" or e.commit is None:
            continue
        count += JUDGED
        own = [b for b in history.events if b.node == e.node and b.process is None and b.seq < e.seq]
        emptied = [b.seq for b in own if b.kind == "fault" and b.f == "wipe"]
        own = [b for b in own if not emptied or b.seq > emptied[-1]]
        lived = [i for i, b in enumerate(own) if b.kind == "start"]
        ends = ["crash" if is_full(b) else b.kind for b in own[lived[-1] if lived else 0 :] if b.kind in GONE]
        summed = [b.offset - (b.kind == "trim") for b in own if b.kind in ("snapshot", "trim")]
        known = [b.commit for b in own if b.kind in ("commit", "start", "snapshot", "trim") and b.commit is not None]
        ended = ends[0] if ends else None
        count += VIOLATED if ended in ("crash", "stop") and summed and e.commit < max(summed) else Count()
        count += VIOLATED if ended == "stop" and known and e.commit > known[-1] else Count()
        count += VIOLATED if e.visible is not None and e.visible > e.commit else Count()
        count += Count() if can_hold(e) else VIOLATED
    return count


def can_hold(start: Event) -> bool:
    """Whether a log that ends where a start says may have the terms that it says: where each begins, -1 a gap."""
    try:
        runs = json.loads(start.text or "")
    except ValueError:
        return True
    pairs = isinstance(runs, list) and all(isinstance(run, list) and len(run) == 2 for run in runs)
    if not pairs or any(type(number) is not int for run in runs for number in run):
        return True
    first, last = 0, 0
    for place, (offset, term) in enumerate(runs):
        gap = term == -1 and place < len(runs) - 1
        if not first <= offset <= start.dirty or not (gap or last <= term <= start.term):
            return False
        first, last = offset + 1, last if gap else term
    return True


def term_monotonic(history: History) -> Count:
    """The term never moves back while the node runs, nor below its last vote, trim or compaction when it starts."""
    count = Count()
    for shown in _of_nodes(history):
        term: int | None = None  # its last one
        vote: int | None = None  # that of its last vote, or of what it last gave up
        down = wiped = False
        for e in shown:
            if e.dirty is None:
                down, wiped = True, wiped or wipes(e)
                vote = None if wipes(e) else vote
                continue
            least = None if down else term
            if e.kind == "start":
                least = None if wiped else vote
            count += Count(judged=least is not None, violated=least is not None and e.term < least)
            term, down, wiped = e.term, False, False
            vote = e.term if e.kind in ("vote", "trim", "compact") else vote
    return count


def _until_final(history: History) -> list[Event] | None:
    """What happened until the end, or until the first running voter is stopped after the final read began."""
    final = False
    gone: set[int] = set()
    for i, e in enumerate(history.events):
        final = final or (e.kind == "phase" and e.f == "final_read")
        if e.kind in GONE or wipes(e):
            if final and e.kind == "stop" and e.node in history.voters and e.node not in gone:
                return history.events[:i]
            gone.add(e.node)
        elif e.dirty is not None:
            gone.discard(e.node)
    return history.events if final else None


def _stay(history: History, shown: list[Event]) -> set[int]:
    """Who was a voter in all configurations by then."""
    named = [{n for half in halves_in(e.text) for n in half} for e in shown if e in history.configurations]
    return {*history.voters}.intersection(*(each for each in named if each))


def converges(history: History) -> Count:
    """In the end all running voters have all of the log, committed."""
    shown = _until_final(history)
    if shown is None:
        return Count()
    stay = _stay(history, shown)
    lacks = not history.voters or not stay
    running: dict[int, Event] = {}
    for e in shown:
        if e.kind in GONE or wipes(e):
            running.pop(e.node, None)
        elif e.dirty is not None and e.node in history.voters:
            running[e.node] = e
    coming = Count(unjudged=len(running.keys() - stay))
    running = {node: e for node, e in running.items() if node in stay}
    coming = coming if running else Count()
    end = max((e.dirty for e in running.values()), default=-1)
    behind = {node for node, e in running.items() if min(e.dirty, e.commit) < end}
    if _all_was_lost(history, shown) or _led_by_less(history, shown):
        return (coming + Count(len(running), excused=len(behind))).if_shown(lacks=lacks)
    slow = {node for node in behind if _catches_up(history, shown, node)}
    unknown = bool(behind) and not history.has("commit")  # nobody recorded when commit indexes moved
    count = coming + Count(len(running) - len(slow), len(behind) - len(slow), unjudged=len(slow))
    return count.if_shown(lacks=lacks, void=unknown and count.violated > 0)


def _catches_up(history: History, shown: list[Event], node: int) -> bool:
    """Whether a voter's commit index still rose in the last eighth of the time from the heal to the final read."""
    heals = [e.time for e in shown if e.kind == "phase" and e.f == "heal"]
    final = next(e.time for e in shown if e.kind == "phase" and e.f == "final_read")
    moves = [(a, b) for a, b in _moves(history, "commit") if b.node == node and b.seq <= shown[-1].seq]
    rises = [b.time for a, b in moves if b.commit > a.commit]
    return bool(heals and rises) and 8 * (final - rises[-1]) < final - heals[-1]


def _led_by_less(history: History, shown: list[Event]) -> bool:
    """Whether a voter came to lead, after a disk was emptied, whose log ended before what had been committed."""
    wiped, top = False, -1
    for e in shown:
        if e.node in history.voters:
            wiped = wiped or wipes(e)
            if wiped and e.kind == "leader" and e.dirty < top:
                return True
            top = max(top, -1 if e.commit is None else e.commit)
    return False


def _all_was_lost(history: History, shown: list[Event]) -> bool:
    """Whether the disks of a majority were emptied before any of those voters had got back what was committed."""
    commit: dict[int, int] = {}
    goal: dict[int, int] = {}
    down: dict[int, bool] = {}
    """Who does not run, and whether its disk was emptied."""

    def lacks(voter: int) -> bool:
        return down.get(voter, False) or commit.get(voter, -1) < goal[voter]

    for e in shown:
        if e.node not in history.voters:
            continue
        if e.dirty is not None:
            if (e.kind == "start" or e.node in down) and e.node in goal and not lacks(e.node):
                del goal[e.node]
            down.pop(e.node, None)
            commit[e.node] = commit.get(e.node, -1) if e.commit is None else e.commit
        elif wipes(e):
            goal[e.node] = max((commit[voter] for voter in commit if voter in history.voters), default=-1)
            down[e.node] = True
            if sum(map(lacks, goal)) >= history.majority:
                return True
        elif e.kind in GONE:
            down.setdefault(e.node, False)
    return False


def voters_return(history: History) -> Count:
    """Who was stopped against its will, and not wiped, runs again by the final read; if all faults have ended."""
    shown = _until_final(history)
    if shown is None:
        return Count()
    heal = any(e.kind == "phase" and e.f == "heal" for e in shown)
    faults = sum(e.kind == "fault" and not wipes(e) for e in shown) - sum(e.kind == "heal" for e in shown)
    final = next(e.seq for e in shown if e.kind == "phase" and e.f == "final_read")
    count = Count()
    for voter in _stay(history, shown):
        down: Event | None = None
        fell = wiped = recorded = False
        for e in shown:
            if e.node != voter:
                continue
            if e.dirty is not None:
                down, wiped, recorded = None, False, True
            elif wipes(e):
                down, wiped = e, True
            elif e.kind in GONE:
                if down is None or e.kind == "storage_error":
                    fell = e.kind != "stop"
                down = e if down is None or e.seq < final else down
        if heal and faults <= 0 and fell and not wiped and not recorded:
            count += UNJUDGED
        elif heal and faults <= 0 and fell and not wiped:
            count += JUDGED + VIOLATED if down is not None and down.seq < final else JUDGED
    return count.if_shown(lacks=not history.voters or not _stay(history, shown))


def trim_within_commit(history: History) -> Count:
    """What is given up was committed before, and after a trim everything else begins no earlier."""
    count = Count()
    for states in _incarnations(history):
        for i, e in enumerate(states):
            if e.kind not in ("trim", "compact"):
                continue
            trims = e.kind == "trim"
            last = e.offset - 1 if trims else e.last
            within = min(e.commit, e.flushed) >= last
            if trims:
                within = within and e.dirty >= last and (e.visible is None or e.visible >= last)
            if i and not (trims and e.dirty <= last):  # a log that begins anew learns by that what is committed
                within = within and states[i - 1].commit >= last
            count += JUDGED if within else JUDGED + VIOLATED
    return count


def trim_monotonic(history: History) -> Count:
    """Each trim begins the log no earlier than the one before."""
    count = Count()
    for states in _incarnations(history):
        for before, after in pairwise(e for e in states if e.kind == "trim"):
            count += JUDGED if after.offset >= before.offset else JUDGED + VIOLATED
    return count


TWINS: dict[str, Plain] = {
    "commit-monotonic": commit_monotonic,
    "commit-within-flushed": commit_within_flushed,
    "flushed-within-dirty": flushed_within_dirty,
    "visible-within-dirty": visible_within_dirty,
    "flushed-monotonic": flushed_monotonic,
    "visible-monotonic": visible_monotonic,
    "flushed-durable": flushed_durable,
    "dirty-survives-crash": dirty_survives_crash,
    "restart-is-flushed": restart_is_flushed,
    "starts-as-it-knows": starts_as_it_knows,
    "term-monotonic": term_monotonic,
    "converges": converges,
    "voters-return": voters_return,
    "trim-within-commit": trim_within_commit,
    "trim-monotonic": trim_monotonic,
}
