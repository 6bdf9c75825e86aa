"""What clients were told, against what nodes recorded. Source: history-checks.md#clients-and-nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from batches import Batch, Node, covers
from lives import FOR_EVER, cut_off, may_lack
from plain import ALL, EXCUSED, GONE, JUDGED, READS, UNJUDGED, VIOLATED, Count, Event, History, Plain, once, wipes
from plain_answers import COMMITTED, acknowledged
from plain_commitment import holders_of, on_majority, voters_unknown
from replay import Step, replay, taken_for
from shown import commits_move


@dataclass(eq=False)
class Call:
    """An operation of a client: how it began, what it was given, how it ended."""

    begun: Step
    given: list[Step] = field(default_factory=list)
    ended: Step | None = None

    def is_over(self, f: str, kind: str = "ok") -> bool:
        """Whether it is of that name and ended so."""
        return self.begun.event.f == f and self.ended is not None and self.ended.event.kind == kind


@once
def calls(history: History) -> list[Call]:
    """All of them, in the order in which they began."""
    found: list[Call] = []
    open_: dict[int, Call] = {}
    for step in replay(history)[0]:
        e = step.event
        if e.process is None:
            continue
        if e.kind == "invoke":
            open_[e.process] = Call(step)
            found.append(open_[e.process])
        elif e.process in open_ and e.kind == "observe" and e.value is not None:
            open_[e.process].given.append(step)
        elif e.process in open_ and e.kind in ("ok", "fail", "info"):
            open_.pop(e.process).ended = step
    return found


# -- whose record is whole ---------------------------------------------------------------------------------------------


def _whole(history: History, nodes: list[int], begun: Step, ended: Step) -> bool:
    """Whether the records of nodes have all that they did between two events: a life that ended later may lack what
    followed its last event."""
    for node in nodes:
        for end, recorded in cut_off(history)[node]:
            if end > begun.event.seq:
                if min(end, recorded) <= ended.event.seq:
                    return False
                break
    return True


def _led(ended: Step, expected: int | None) -> list[int]:
    """Who leads, or led last, the term that was told, or else expected, if that is one node."""
    term = _term(expected, ended.event)
    led = [n for n, node in ended.nodes.items() if term is not None and node.led == term]
    return led if len(led) == 1 else []


def _term(expected: int | None, answer: Event) -> int | None:
    """The term that was told, or else the only one in which the append was to be written."""
    answered: int | None = answer.term
    return expected if answered is None else answered


def _leader(ended: Step, expected: int | None) -> Node | None:
    return next((ended.nodes[n] for n in _led(ended, expected)), None)


def _answerers(history: History, ended: Step, expected: int | None) -> list[int]:
    """Who may have answered an append: the leader of the term that was told, if it is known, else anybody."""
    return _led(ended, expected) or _everybody(history)


@once
def _firsts(history: History) -> dict[int, int]:
    """By node, the first event recorded of it, by its place."""
    found: dict[int, int] = {}
    for place, e in enumerate(history.events):
        if e.node is not None and (e.dirty is not None or e.kind == "stop"):
            found.setdefault(e.node, place)
    return found


def _everybody(history: History) -> list[int]:
    return sorted({*history.everyone(), *_firsts(history)})


def _is_known(history: History, node: int, step: Step) -> bool:
    """Whether anything was recorded of a node before."""
    return _firsts(history).get(node, step.place) < step.place


# -- appends -----------------------------------------------------------------------------------------------------------


@once
def _by_value(history: History) -> dict[int | None, list[Batch]]:
    """Every batch that was ever in a log, by its value."""
    found: dict[int | None, list[Batch]] = defaultdict(list)
    for known in replay(history)[1].known.values():
        for batch in known:
            found[batch.value].append(batch)
    return found


def _fits(batch: Batch, begun: Event, e: Event, *, short: bool) -> bool:
    """Whether a batch is where a client was told; it may not have been told its last offset (``short``), or only have
    expected its term."""
    ends = e.last == batch.last or (short and e.last == e.offset)
    return batch.offset == e.offset and ends and _term(begun.term, e) in (None, batch.term)


def _is_named(e: Event) -> bool:
    return e.offset is not None and bool(e.offset >= 0)


@dataclass(eq=False)
class _Answered:
    """An append that was answered ok: the call, its answer, and the batch where it was told to be."""

    begun: Event
    ended: Step
    batch: Batch | None
    elsewhere: list[Batch]
    """Other batches with its value."""
    whole: bool
    """All that whoever answered did meanwhile is recorded."""
    cut: bool
    """It was not told where the batch ends, though some answer tells that."""

    @property
    def known(self) -> bool:
        """Whether the batch was in a log before the answer."""
        return self.batch is not None and self.batch.seq < self.ended.event.seq


def _answered(history: History) -> Iterator[_Answered]:
    """Every append of a value that was answered ok, if nodes recorded what they append."""
    over = [c for c in calls(history) if c.is_over("append") and c.begun.event.value is not None]
    ends = [c.ended.event for c in over if c.ended]
    says_last = min((e.seq for e in ends if e.offset is not None and e.last > e.offset), default=FOR_EVER)
    for call in over if history.has("append") else ():
        begun, ended = call.begun.event, call.ended
        assert ended is not None
        short = ended.event.seq < says_last
        alike = _by_value(history)[begun.value]
        there = [b for b in alike if _is_named(ended.event) and _fits(b, begun, ended.event, short=short)]
        there.sort(key=lambda b: b.seq)
        others = [b for b in alike if b not in there]
        whole = _whole(history, _answerers(history, ended, begun.term), call.begun, ended)
        batch = there[0] if there else None
        cut = batch is not None and ended.event.last < batch.last and says_last < FOR_EVER
        yield _Answered(begun, ended, batch, others, whole, cut)


def _other_value(history: History, answered: _Answered) -> bool:
    """Whether another value is where the client was told its own to be."""
    e = answered.ended.event
    there = replay(history)[1].known.get((e.offset, _term(answered.begun.term, e)), [])
    return any(b.value not in (None, answered.begun.value) for b in there)


def _misplaced(history: History, answered: _Answered) -> bool:
    """Whether an answer names a place at which its value is not."""
    if not _is_named(answered.ended.event) or answered.batch is not None:
        return False
    return _other_value(history, answered) or bool(answered.elsewhere and history.idempotent and answered.whole)


def ok_names_the_entry(history: History) -> Count:
    """Where an answer says that a value is, it is: not elsewhere, nor is another value there."""
    count = Count()
    for answered in _answered(history):
        if answered.batch is not None or _misplaced(history, answered):
            count += JUDGED if answered.batch is not None and not answered.cut else JUDGED + VIOLATED
        elif _is_named(answered.ended.event):
            count += UNJUDGED
    return count


def ok_after_acked(history: History) -> Count:
    """Before an append is answered ok, a node acknowledged the entry, at the acks level that was asked for.

    Answers that name the wrong place are not judged once more.
    """
    count = Count()
    acked = acknowledged(history)
    hides = replay(history)[0][-1].hidden if history.events else False
    for answered in _answered(history):
        if _misplaced(history, answered):
            continue
        named, seq = _is_named(answered.ended.event), answered.ended.event.seq
        batches = answered.elsewhere if not named else [answered.batch] if answered.batch is not None else []
        answers = [acked[b] for b in batches if b in acked]
        if any(a.seq < seq and answered.begun.acks in (None, a.acks) for a in answers):
            count += JUDGED
        elif answers:
            count += JUDGED + VIOLATED
        elif not answered.whole or not history.has("acked"):
            count += UNJUDGED
        elif batches or not (answered.elsewhere or hides or _shown(history, answered)):
            count += JUDGED + VIOLATED
        else:
            count += UNJUDGED
    return count.if_shown(lacks=count.unjudged > 0 and not history.has("acked"))


def _shown(history: History, answered: _Answered) -> bool:
    """Whether something that is known by its offset and term is where the client was told its value to be."""
    place = answered.ended.event.offset, _term(answered.begun.term, answered.ended.event)
    return place in replay(history)[1].known


def ok_after_commit(history: History) -> Count:
    """Before an append with acks=all is answered ok, its entry is committed; under write caching, a majority had it."""
    count = Count()
    for answered in _answered(history):
        batch = answered.batch
        if batch is None or not answered.known:
            continue
        if answered.begun.acks not in (None, ALL) or (answered.begun.acks is None and batch.acks not in (None, ALL)):
            continue
        step = answered.ended
        leader = _leader(step, answered.begun.term)
        own = leader is not None and leader.commit is not None and leader.commit >= batch.last
        if (
            (own and leader is not None and covers(leader.tip, batch))
            or covers(step.committed, batch)
            or batch in step.given_up
        ):
            count += JUDGED
        elif history.write_caching and not history.voters:
            count += UNJUDGED
        elif history.write_caching and _promised(history, step, batch, answered.begun.term):
            count += JUDGED
        elif history.write_caching and _may_be_promised(history, step, batch):
            count += UNJUDGED
        else:
            lacks = history.write_caching and may_lack(history, batch.seq, step.event.seq)
            count += JUDGED + VIOLATED if answered.whole and history.has("commit") and not lacks else UNJUDGED
    counts_voters = history.write_caching and voters_unknown(history)
    unknown = history.write_caching and count.unjudged > 0 and history.silent
    return count.if_shown(lacks=unknown, void=counts_voters)


def _promised(history: History, step: Step, batch: Batch, term: int) -> bool:
    """Whether a majority had a batch, by the configuration of its leader."""
    leader = next((n for n, node in step.nodes.items() if node is _leader(step, term)), -1)
    sure, _, needed = on_majority(history, step, batch, leader)
    return sure >= needed


def _may_be_promised(history: History, step: Step, batch: Batch) -> bool:
    """Whether a majority had a batch under write caching, or something that is taken for it."""
    if history.changes(step.event.seq):
        return True
    holders = holders_of(history, step, batch, history.voters)
    others = [step.nodes[voter].tip for voter in history.voters if voter in step.nodes and voter not in holders]
    taken = sum(taken_for(step, tip.at(batch.last), batch) for tip in others)
    return len(holders) + taken >= history.majority


def written_after_asked(history: History) -> Count:
    """An entry of which a client was told, or whose value had an append that failed or that nobody knows the end or the
    place of, is in no log before the first append of its value began, nor otherwise than it was asked for; nor is a
    value enqueued before that."""
    count = Count()
    asked = {c.begun.event.value: c.begun.event.seq for c in reversed(calls(history)) if c.begun.event.f == "append"}
    if any(value is not None for value in asked):
        queue = [e for e in history.events if e.kind == "enqueue" and e.node is not None and e.value is not None]
        for value, seq in {e.value: e.seq for e in reversed(queue)}.items():
            late = asked.get(value, -1) > seq
            count += UNJUDGED if value not in asked else JUDGED + VIOLATED if late else JUDGED
        for value, batches in _by_value(history).items():
            count += Count(unjudged=len(batches)) if value not in (None, *asked) else Count()
    answered = {t.ended.event.seq: t.batch for t in _answered(history) if t.known}
    for value, appends in _tries(history).items():
        ends = [answered.get(call.ended.event.seq) if call.ended is not None else None for call in appends]
        for batch in _by_value(history)[value]:
            if None in ends or batch in ends:
                first = min(call.begun.event.seq for call in appends)
                wrong = first > batch.seq or (batch not in ends and not _as_asked(batch, appends))
                count += JUDGED + VIOLATED if wrong else JUDGED
    return count.if_shown(lacks=count.unjudged > 0)


def _as_asked(batch: Batch, appends: list[Call]) -> bool:
    """Whether a batch may be of these appends, none of which was answered ok: it has their acks level and their term,
    if all say the same."""
    if any(call.is_over("append") for call in appends):
        return True
    levels, terms = {call.begun.event.acks for call in appends}, {call.begun.event.term for call in appends}
    same_level = len(levels) > 1 or None in (*levels, batch.acks) or batch.acks in levels
    return same_level and (len(terms) > 1 or None in terms or batch.term in terms)


def _tries(history: History) -> dict[int, list[Call]]:
    """The appends of each value, if nodes recorded what they append."""
    found: dict[int, list[Call]] = defaultdict(list)
    for call in calls(history) if history.has("append") else ():
        if call.begun.event.f == "append" and call.begun.event.value is not None:
            found[call.begun.event.value].append(call)
    return found


def fail_had_no_effect(history: History) -> Count:
    """No value whose appends all failed is acknowledged or committed.

    One that was reported as truncated may be, if the log for which it was reported was lost with an excuse.
    """
    count = Count()
    if not history.has("append"):
        return count
    end = replay(history)[0][-1]
    given_up = max((s.event.seq for s in replay(history)[0] if s.agrees == "excused, given up"), default=-1)
    acked, truncated = acknowledged(history), acknowledged(history, "truncated")
    for value, appends in _tries(history).items():
        if not all(call.is_over("append", "fail") for call in appends):
            continue
        count += JUDGED
        for batch in _by_value(history)[value]:
            if batch in acked:
                count += VIOLATED
            elif covers(end.then_committed, batch) or batch in end.given_up:
                count += EXCUSED if batch in truncated and given_up > truncated[batch].seq else VIOLATED
    return count


# -- reads -------------------------------------------------------------------------------------------------------------


def _bound(f: str, node: Node) -> int | None:
    """Up to where a node shows its log to a read of that name."""
    return node.commit if f in COMMITTED else node.visible


def _shows(f: str, node: Node, e: Event) -> bool | None:
    """Whether a node, if it runs, shows the batch that a read returned; None: nobody knows."""
    if node.down:
        return False
    batch, bound = node.tip.at(e.offset), _bound(f, node)
    if batch is None:
        return False
    if batch.hidden or batch.value is None or bound is None:
        return None
    same = (batch.offset, batch.value) == (e.offset, e.value) and e.last in (e.offset, batch.last)
    return same and batch.last <= bound


def _states(history: History, node: int, begun: Step, ended: Step) -> list[Node]:
    """How a node was at every moment from one event to another."""
    steps = replay(history)[0][begun.place : ended.place + 1]
    return [step.nodes[node] for step in steps if node in step.nodes]


def _trimmed(history: History, call: Call, step: Step) -> bool:
    """Whether the node that was asked had trimmed, since it last started, what a read of it is said to have given."""
    begins = -1
    for e in history.events[: call.begun.place]:
        if e.node == call.begun.event.node or (wipes(e) and e.node is None):
            anew = e.kind == "start" or e.kind in GONE or wipes(e)
            begins = -1 if anew else max(begins, e.offset) if e.kind == "trim" else begins
    return step.event.node == call.begun.event.node and step.event.offset < begins


def _reads(history: History) -> Iterator[Call]:
    return (call for call in calls(history) if call.begun.event.f in READS)


def read_shows_the_node(history: History) -> Count:
    """What a read returned, the node held and showed at some moment between the invocation and that."""
    count = Count()
    for call in _reads(history):
        for step in call.given:
            node = step.event.node
            if node is None:
                continue
            states = _states(history, node, call.begun, step)
            shown = {_shows(call.begun.event.f, state, step.event) for state in states}
            if _trimmed(history, call, step):
                shown = {False}
            if True in shown:
                count += JUDGED
            elif None in shown or not _is_known(history, node, step) or not _whole(history, [node], call.begun, step):
                count += UNJUDGED
            else:
                count += JUDGED + VIOLATED
    shows = history.has("append") and history.has("visible")
    moved = not history.has("commit") and any(commits_move(step) for step in replay(history)[0])
    return count.if_shown(void=(count.judged > 0 and not shows) or (count.violated > 0 and moved))


def _left_out(history: History, step: Step, low: int, high: int, *, begins: bool) -> bool:
    """Whether a node holds a value from one offset to another, ends included, which it has not trimmed; where a read
    ``begins`` that may also be the last part of a batch."""
    node, before = step.event.node, history.events[: step.place]
    if low > high or any(e.kind == "compact" for e in before):
        return False
    emptied = max((e.seq for e in before if wipes(e) and e.node in (None, node)), default=-1)
    trims = [e.offset for e in before if e.kind == "trim" and e.node == node and e.seq > emptied]
    kept = max([0, *trims, *(end + 1 for seq, end in _found(history, node, step.place) if seq > emptied)])
    held = [b for b in step.nodes[node].tip.log() if not b.hidden and b.value is not None and b.offset >= kept]
    return any(low <= (b.last if begins else b.offset) and b.last <= high for b in held)


def _found(history: History, node: int, until: int) -> Iterator[tuple[int, int]]:
    """What starts of a node found, recorded or not, in a log that shows trims: the end of its record may lack one."""
    trims = False
    for before, step in pairwise(replay(history)[0][:until]):
        e = step.event
        trims = trims or (e.kind == "trim" and e.node is not None)
        down = node in before.nodes and before.nodes[node].down
        if trims and e.node == node and step.of_node and (e.kind == "start" or down):
            yield e.seq, e.offset - 1 if e.kind == "append" else e.dirty


def _steady(states: list[Node]) -> bool:
    """Whether a node came to hold or show no less, nor ended meanwhile."""

    def less(before: int | None, after: int | None) -> bool:
        return before is not None and (after is None or after < before)

    def keeps(before: Node, after: Node) -> bool:
        there = after.tip.at(before.tip.last)
        unknown = there is not None and there.hidden
        return unknown or any(batch is before.tip for batch in after.tip.log())

    return not any(
        (before.down and not after.down)
        or not keeps(before, after)
        or less(before.commit, after.commit)
        or less(before.visible, after.visible)
        for before, after in pairwise(states)
    )


def read_leaves_nothing_out(history: History) -> Count:
    """A reader passes over no value that the node holds; where the node showed something when it was asked, and has
    lost nothing since, a read finds something, and a final read goes to its end."""
    count = Count()
    for call in _reads(history):
        f, at = call.begun.event.f, call.begun.event.offset
        for step in call.given:
            e = step.event
            shown = e.node is not None and _is_known(history, e.node, step) and _shows(f, step.nodes[e.node], e)
            if shown and not _trimmed(history, call, step):
                begins = step is call.given[0]
                left_out = at is not None and _left_out(history, step, at, e.offset - 1, begins=begins)
                count += _weighed(history, call, step) if left_out else JUDGED
            at = e.last + 1
        ended = call.ended
        if ended is None or ended.event.kind != "ok" or ended.event.node is None or at is None:
            continue
        node, offset = ended.event.node, at if ended.event.offset is None else ended.event.offset
        states = _states(history, node, call.begun, ended)
        steady = _steady(states) and not _restarts(history, node, call.begun, ended)
        if not _is_known(history, node, ended) or not steady or _rewrites(history, node, call.begun, ended):
            continue
        left_out = _left_out(history, ended, at, offset - 1, begins=not call.given)
        if (f == "final_read" or not call.given) and call.begun.event.node == node and node in call.begun.nodes:
            bound = _bound(f, call.begun.nodes[node])
            begins = not call.given and offset == at
            left_out = left_out or (bound is not None and _left_out(history, ended, offset, bound, begins=begins))
        count += _weighed(history, call, ended) if left_out else JUDGED
    ends = [call.ended.event for call in _reads(history) if call.ended is not None]
    blind = not history.observes and any(e.kind == "ok" and e.get("count") for e in ends)
    return count.if_shown(void=blind or (count.judged > 0 and not history.has("start")))


def _restarts(history: History, node: int, begun: Step, ended: Step) -> bool:
    """Whether a node began anew meanwhile: by a start, with an emptied disk, or with another's log."""
    between = history.events[begun.place : ended.place]
    anew = (e for e in between if e.node == node or (wipes(e) and e.node is None))
    return any(e.kind == "start" or wipes(e) or (e.kind == "trim" and e.dirty < e.offset) for e in anew)


def _rewrites(history: History, node: int, begun: Step, ended: Step) -> bool:
    """Whether a node appended over its log meanwhile, be it the same."""
    between = replay(history)[0][begun.place : ended.place]
    own = (step for step in between if step.event.node == node and step.event.kind == "append")
    return any(step.event.offset <= step.before.tip.last for step in own)


def _weighed(history: History, call: Call, step: Step) -> Count:
    whole = _whole(history, [step.event.node], call.begun, step)
    return JUDGED + VIOLATED if whole else UNJUDGED


def read_ends_in_the_log(history: History) -> Count:
    """A read goes on where it began or behind what it returned, or no further than the node showed meanwhile."""
    count = Count()
    for call in _reads(history):
        ended, f = call.ended, call.begun.event.f
        if ended is None or ended.event.kind != "ok" or ended.event.node is None:
            continue
        at = call.given[-1].event.last + 1 if call.given else call.begun.event.offset
        if None in (at, ended.event.offset):
            continue
        states = [s for s in _states(history, ended.event.node, call.begun, ended) if not s.down]
        bounds = [_bound(f, state) for state in states]
        known = _is_known(history, ended.event.node, ended)
        if known and (ended.event.offset <= at or any(b is not None and ended.event.offset <= b + 1 for b in bounds)):
            count += JUDGED
        elif not known or None in bounds or not _whole(history, [ended.event.node], call.begun, ended):
            count += UNJUDGED
        else:
            count += JUDGED + VIOLATED
    shows = history.has("commit") and history.has("visible")
    return count.if_shown(void=count.judged > 0 and not shows)


# -- who answers -------------------------------------------------------------------------------------------------------


def answered_by_who_acted(history: History) -> Count:
    """Who answers ran at some moment of the operation, and led if that takes a leader.

    Who ends again before it is seen to start may have run in between; an answer of a node that did not lead, or of one
    that is no voter and recorded nothing, may have been passed on, and so may a read that another node gave.
    """
    count, passed_on = Count(), False
    for call in calls(history):
        ended, f = call.ended, call.begun.event.f
        if ended is None or ended.event.node is None or f not in ("append", "tail", *READS):
            continue
        node, refused = ended.event.node, ended.event.reason in ("not_leader", "term_mismatch")
        if ended.event.kind != "ok" and not refused:
            continue
        states = _states(history, node, call.begun, ended)
        if not _is_known(history, node, ended):
            count += UNJUDGED
            passed_on = passed_on or bool(history.voters and node not in history.everyone(ended.event.seq))
        elif f in READS and {step.event.node for step in call.given} - {None, node}:
            count += UNJUDGED
            passed_on = True
        elif all(state.down for state in states):
            sure = history.has("start") and not _ends_again(history, node, ended)
            count += JUDGED + VIOLATED if sure else UNJUDGED
        elif ended.event.kind != "ok" or f in (*READS[:2], "final_read") or _leads(states):
            count += JUDGED
        else:
            count += UNJUDGED
            passed_on = passed_on or _whole(history, [node], call.begun, ended)
    return count.if_shown(lacks=passed_on)


def _leads(states: list[Node]) -> bool:
    """Whether a node led at some moment."""
    return any(state.leads is not None for state in states)


def _ends_again(history: History, node: int, step: Step) -> bool:
    """Whether a node that is down ends once more, not of its own accord, before it does anything."""
    later = (e for e in history.events[step.place :] if e.node == node and (e.dirty is not None or e.kind in GONE))
    return next((e.kind in GONE for e in later if e.kind != "stop"), False)


# -- tails -------------------------------------------------------------------------------------------------------------


def tail_is_committed(history: History) -> Count:
    """A tail counts what was committed when it was asked for, and nothing that is not committed when it is answered."""
    count = Count()
    steps, _ = replay(history)
    moves = [s for s in steps if s.moved("commit")]
    shown = next((s.place for s in steps if s.event.kind == "commit" and s.event.node is not None), len(steps))
    for call in calls(history):
        ended = call.ended
        if ended is None or not call.is_over("tail") or not _is_named(ended.event) or ended.place < shown:
            continue
        last = ended.event.offset - 1
        asked = [s for s in moves if s.place < call.begun.place]
        before = max(asked, key=lambda s: int(s.event.commit), default=None)
        if last > max((s.event.commit for s in moves if s.place < ended.place), default=-1):
            whole = _whole(history, _everybody(history), call.begun, ended)
            count += JUDGED + VIOLATED if whole else UNJUDGED
        elif before is not None and last < before.event.commit:
            given_up = [s for s in steps[before.place + 1 : ended.place] if s.agrees == "excused, given up"]
            count += JUDGED + (EXCUSED if given_up else VIOLATED)
        else:
            count += JUDGED
    return count


def _here(twin: Plain) -> Plain:
    """The same, undecided where clients use a log of which no node recorded anything, though they did of another."""

    def judged(history: History) -> Count:
        count = twin(history)
        elsewhere = history.recorded and not any(e.dirty is not None and e.node is not None for e in history.events)
        return count._replace(lacking=1) if elsewhere and calls(history) else count

    return judged


_TWINS: dict[str, Plain] = {
    "ok-names-the-entry": ok_names_the_entry,
    "ok-after-acked": ok_after_acked,
    "ok-after-commit": ok_after_commit,
    "written-after-asked": written_after_asked,
    "answered-by-who-acted": answered_by_who_acted,
    "read-ends-in-the-log": read_ends_in_the_log,
    "fail-had-no-effect": fail_had_no_effect,
    "read-shows-the-node": read_shows_the_node,
    "read-leaves-nothing-out": read_leaves_nothing_out,
    "tail-is-committed": tail_is_committed,
}

TWINS = {id_: _here(twin) for id_, twin in _TWINS.items()}
