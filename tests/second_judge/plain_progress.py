"""Whether a run gets on while nothing hinders it. Source: raft.md#progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from plain import GONE, JUDGED, VIOLATED, Count, Event, History, Plain, once, wipes
from plain_membership import Configuration, read

CUTS = ("pause", "partition", "mute", "deafen", "one_way")
"""Faults during which a node is not counted on."""

ENDS = (
    *("kill", "kill_midway", "power_loss", "power_loss_midway", "crash", "stop"),
    *("fsync_error", "open_error", "disk_full", "storage_error", "flipped_bit", "lost_name"),
    *("trim", "clock_jump"),
)
"""Faults that at most end a process, which is an event of its own."""


@dataclass(frozen=True)
class Voter:
    """What is known of one voter."""

    up: bool = False
    role: str | None = None
    term: int = 0
    dirty: int = -1
    flushed: int = -1
    commit: int = -1
    visible: int = -1
    votes: bool = False
    """It has a vote in the first configuration, or in one that came into force anywhere since."""
    force: Configuration | None = None
    """The configuration in force on it, if that is known."""
    votes_from: int | None = None
    """Since its disk was lost, the least revision of a configuration by which it votes."""


Voters = dict[int, Voter]


@dataclass(frozen=True)
class Moment:
    """One event, and how everything was before and after it."""

    time: int
    before: Voters
    after: Voters
    sound: tuple[int, ...]
    """The voters that were up and connected before it; nobody if they were no quorum or something else hindered."""
    due: tuple[int, ...]
    """All voters, up or not, if those that were up and connected agreed on who they are."""
    whole: bool
    """None of these was cut off before it."""
    anew: bool
    """It changes who is up and connected, or what hinders."""
    appends: bool
    """A leader's log moves by it."""
    asked: int | None = None
    """The node that a client asks for an append, in whatever term."""


def _after(e: Event, voter: Voter, first: Configuration | None) -> Voter:
    """A voter after its event; the first configuration is in force on those that have a vote in it when they start."""
    if e.kind in GONE:
        return replace(voter, up=False, role=None)
    role = "leader" if e.kind == "leader" else e.role if e.role is not None or e.kind == "start" else voter.role
    visible = voter.visible if e.visible is None else e.visible
    force, since = voter.force, voter.votes_from
    if e.kind == "start":
        force = first if first is not None and e.node in _of(first) else None
    if e.kind == "configuration":
        force = read(e.text)
        if since is not None and force is not None and e.node in _of(force) and force.revision >= since:
            since = None
    now = Voter(voter.up or e.kind == "start", role, e.term, e.dirty, e.flushed, e.commit, visible)
    return replace(now, votes=voter.votes, force=force, votes_from=since)


def _of(configuration: Configuration) -> set[int]:
    """Who has a vote in either half."""
    return {node for half in configuration.halves for node in half}


def _emptied(voters: Voters, node: int | None) -> Voters:
    """After a disk was lost, that of any node if it is not said whose: who had something on it votes by later
    configurations."""
    later = 1 + max((voter.force.revision for voter in voters.values() if voter.force), default=0)
    lost = {n for n, voter in voters.items() if node in (n, None) and ((voter.term or 0) > 0 or voter.dirty >= 0)}
    return {n: replace(voter, votes_from=later) if n in lost else voter for n, voter in voters.items()}


def _counted_on(voters: Voters, cut: dict[int | None, Counter[str]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The voters that are up and connected, if they are a quorum; and all voters, if those agree on them."""
    live = {n: v for n, v in voters.items() if v.up and v.votes_from is None and not cut[n].total()}
    force = [v.force for n, v in live.items() if v.force is not None and n in _of(v.force)]
    sound = tuple(n for n in live if any(n in _of(each) for each in force))
    hindered = any(2 * len({*sound} & {*half}) <= len(half) for each in force for half in each.halves)
    agreed = len({*force}) == 1 and len(force[0].halves) == 1
    return () if hindered or cut[None].total() else sound, force[0].halves[0] if agreed else ()


def _fault(e: Event, cut: dict[int | None, Counter[str]]) -> None:
    """What hinders after a fault began or ended: one of no known node hinders everybody, and what ends for no node in
    particular ends for all."""
    place = e.node if e.f in CUTS and e.node in cut else None
    if e.f in ENDS:
        return
    if e.kind == "heal" and place is None and not cut[None][e.f]:
        for each in cut.values():
            each[e.f] = 0
    else:
        cut[place][e.f] = max(cut[place][e.f] + (1 if e.kind == "fault" else -1), 0)


@once
def _stretches(history: History) -> list[list[Moment]]:
    """What nodes did and faults, from each event that changes who is up and connected or who votes up to the next, both
    included; at the end once more how everything is at the last event of all."""
    first = Configuration((history.voters,)) if history.voters else None
    voters: Voters = {n: Voter(votes=True, force=first) for n in history.voters}
    named = {*history.voters}
    cut: dict[int | None, Counter[str]] = {n: Counter() for n in (None, *voters)}
    stretches: list[list[Moment]] = [[]]
    for e in [*history.events, None]:
        asks = e is not None and e.kind == "invoke" and e.f == "append" and e.term is None
        if e is not None and not asks and e.kind not in ("fault", "heal", *GONE) and e.dirty is None:
            continue
        sound, due = _counted_on(voters, cut)
        whole = not any(cut[n].total() for n in due if n in cut)
        now, anew, appends = voters, False, False
        if e is not None and e.kind in ("fault", "heal"):
            _fault(e, cut)
            now = _emptied(voters, e.node) if wipes(e) else voters
            anew = True
        elif e is not None and not asks and e.node is not None:
            before = voters.get(e.node, Voter(votes=e.node in named))
            cut.setdefault(e.node, Counter())
            now = voters | {e.node: _after(e, before, first)}
            if e.kind == "configuration":
                named |= _of(read(e.text) or Configuration(()))
                now = {n: replace(voter, votes=n in named) for n, voter in now.items()}
            anew = e.kind == "configuration" or (before.votes and e.kind in ("start", *GONE))
            appends = before.votes and now[e.node].role == "leader" and now[e.node].dirty != before.dirty
        time = (history.events[-1] if e is None else e).time
        asked = e.node if e is not None and asks else None
        stretches[-1].append(Moment(time, voters, now, sound, due, whole, anew, appends, asked))
        if anew:
            stretches.append([stretches[-1][-1]])
        voters = now
    return stretches


def _leading(sound: tuple[int, ...], voters: Voters) -> int | None:
    """Who leads the latest term among those that are up and connected."""
    leaders = [n for n in sound if voters[n].role == "leader"]
    return max(leaders, key=lambda n: voters[n].term, default=None)


def _leader(sound: tuple[int, ...], voters: Voters) -> Voter | None:
    """The same as a voter."""
    leading = _leading(sound, voters)
    return None if leading is None else voters[leading]


def _idle(sound: tuple[int, ...], voters: Voters) -> int | None:
    """Who leads and has committed all of its log."""
    leading = _leading(sound, voters)
    return leading if leading is not None and voters[leading].commit >= voters[leading].dirty else None


def _most(voters: Voters) -> int:
    """The largest commit index."""
    return max((voter.commit for voter in voters.values() if voter.votes), default=-1)


@once
def _as_far_as_known(history: History) -> History:
    """What happened before the first configuration that cannot be read."""
    unread = [e.seq for e in history.configurations if read(e.text) is None]
    return replace(history, events=[e for e in history.events if e.seq < unread[0]]) if unread else history


def _judged(history: History, count: Count) -> Count:
    return count.if_shown(lacks=history.unreadable and history.progress_bound is not None)


def _timed(history: History) -> Iterator[tuple[int, list[Moment]]]:
    """The bound and every stretch, if the run states a bound."""
    bound = history.progress_bound
    known = _as_far_as_known(history)
    if bound is not None and known.events:
        for stretch in _stretches(known):
            yield bound, stretch


def somebody_leads(history: History) -> Count:
    """While a majority is up and connected, no bound passes without a commit or a leader who waits for nothing; nor one
    in which a leader that waits for nothing is asked for ten appends, from its beginning to its end, and makes none."""
    count = Count()
    for bound, (begin, *moments) in _timed(history):
        judged = fine = begin.time
        most = _most(begin.after)
        asked: tuple[int, int, int] | None = None  # who was asked since then, when for the last time, and how often
        for moment in moments:
            if not moment.sound:
                continue
            idle = _idle(moment.sound, moment.before)
            if asked is None and idle is not None:
                fine = moment.time
            elif (moment.time if asked is None else asked[1]) - fine >= bound and (asked is None or asked[2] >= 10):
                count += VIOLATED
                fine, asked = moment.time, None
            if moment.time - judged >= bound:
                count += JUDGED
                judged = moment.time
            if moment.asked is not None and moment.asked == idle:
                fine, asked = moment.time if asked is None else fine, (idle, moment.time, asked[2] + 1 if asked else 1)
            after = _idle(moment.sound, moment.after)
            if _most(moment.after) > most or (asked is not None and after != asked[0]):
                fine, asked = moment.time, None
            if asked is None and after is not None:
                fine = moment.time
            most = max(most, _most(moment.after))
    return _judged(history, count)


def replicas_catch_up(history: History) -> Count:
    """What was committed a bound ago, every voter that stayed up has committed, while none is cut off."""
    count = Count()
    for bound, (begin, *moments) in _timed(history):
        since, goal = begin.time, _most(begin.after)
        for moment in moments:
            if not moment.sound or moment.time - since < bound:
                continue
            for node in {*moment.sound} & {*moment.due} if moment.whole else ():
                count += JUDGED if moment.before[node].commit >= goal else JUDGED + VIOLATED
            since, goal = moment.time, _most(moment.before)
    return _judged(history, count)


def nothing_left_behind(history: History) -> Count:
    """A bound after the last append, all voters are where the leader's log ends, in every respect."""
    count = Count()
    for bound, (begin, *moments) in _timed(history):
        since = begin.time
        for moment in moments:
            leader = _leader(moment.sound, moment.before)
            agree = moment.due and {*moment.due} <= {*moment.sound}
            if leader is not None and agree and moment.time - since >= bound:
                for voter in map(moment.before.__getitem__, moment.due):
                    alike = {voter.dirty, voter.flushed, voter.commit, voter.visible} == {leader.dirty}
                    count += JUDGED if alike else JUDGED + VIOLATED
                since = moment.time
            if moment.appends:
                since = moment.time
    return _judged(history, count)


TWINS: dict[str, Plain] = {
    "somebody-leads": somebody_leads,
    "replicas-catch-up": replicas_catch_up,
    "nothing-left-behind": nothing_left_behind,
}
