"""The twins of the checks of what clients of the read path are answered, each written from the rule that it names."""

from __future__ import annotations

from collections.abc import Iterator

from plain import GONE, JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain

OPERATIONS = ("append_record", "read_stream", "trim_log")
TURNS = ("takes_part", *GONE)
DEEDS = ("copy", "acknowledge", "release", "stream_record", "stream_gap")


def judged(broken: object) -> Count:
    """One fact, and whether it breaks the rule."""
    return JUDGED + VIOLATED if broken else JUDGED


def answers(history: History) -> Iterator[tuple[Event, Event]]:
    """Operations of the read path with what ends each of them."""
    begun: dict[int | None, Event] = {}
    for e in history.events:
        if e.kind == "invoke" and e.f in OPERATIONS:
            begun[e.op] = e
        elif e.kind in ("ok", "fail", "info") and e.op in begun and begun[e.op].f == e.f:
            yield begun.pop(e.op), e


def goes_on(history: History, answer: Event, node: int | None) -> Event | None:
    """What a node does next in the life in which it answered; None if it may have lost the end of its record."""
    own = [e for e in history.events if e.node == node and "process" not in e and e.kind in (*DEEDS, *TURNS)]
    turns = [e for e in own if e.kind in TURNS and e.seq < answer.seq]
    after = next((e for e in own if e.seq > answer.seq), None)
    over = turns and turns[-1].kind in GONE
    return after if after and after.kind in DEEDS and not over else None


def falls_silent(history: History, answer: Event, node: int | None) -> bool:
    """Whether a node has not ended its life by an answer, as far as is recorded, and records nothing more."""
    own = [e for e in history.events if e.node == node and "process" not in e and e.kind in (*DEEDS, *TURNS)]
    turns = [e for e in own if e.kind in TURNS]
    return node is not None and not any(e.seq > answer.seq for e in own) and not (turns and turns[-1].kind in GONE)


def lacks(history: History, answer: Event, node: int | None, kind: str) -> Count:
    """Something is missing before an answer: a violation, if the node goes on and such events are recorded."""
    if goes_on(history, answer, node) is None:
        return UNJUDGED + Count(lacking=int(falls_silent(history, answer, node)))
    return JUDGED + VIOLATED if any(e.kind == kind for e in history.events) else Count(1, 0, 0, 1, 1)


def answered_as_acknowledged(history: History) -> Count:
    """read-path.md#answered-as-acknowledged. What was acknowledged before anybody asked is no answer."""
    count = Count()
    since: dict[int, int] = {}
    for e in history.events:
        if e.kind == "invoke" and e.f == "append_record" and e.value is not None:
            since.setdefault(e.value, e.seq)
    for asked, e in answers(history):
        if e.f != "append_record" or e.kind != "ok":
            continue
        acks = [a for a in history.events if a.kind == "acknowledge" and a.value == asked.value]
        same = [a for a in acks if since.get(a.value, e.seq) < a.seq < e.seq]
        if asked.value is None:
            count += UNJUDGED
        elif e.offset is None:
            count += JUDGED + VIOLATED
        elif not same:
            count += lacks(history, e, e.node, "acknowledge")
        else:
            other = None not in (e.node, same[-1].node) and e.node != same[-1].node
            count += judged(e.offset != same[-1].offset or other)
    return count


def stored_as_asked(history: History) -> Count:
    """read-path.md#stored-as-asked."""
    appends = [e for e in history.events if e.kind == "invoke" and e.f == "append_record" and e.value is not None]
    stored = [e for e in history.events if e.kind == "acknowledge" or (e.kind == "copy" and e.record == "data")]
    stored = [e for e in stored if e.value is not None]
    refused = [(asked, e) for asked, e in answers(history) if e.kind == "fail" and e.f == "append_record"]
    refused = [(asked, e) for asked, e in refused if asked.value is not None]
    if not appends:
        return Count(unjudged=len(stored)).if_shown(void=bool(stored))
    count = Count(judged=len(stored) + len(refused))
    acknowledged: set[int] = set()
    for e in stored:
        asked_once = [a.value for a in appends if a.seq < e.seq].count(e.value) == 1
        count += VIOLATED if e.kind == "acknowledge" and e.value in acknowledged and asked_once else Count()
        if e.kind == "acknowledge" and any(a.value == e.value and a.seq < e.seq for a in appends):
            acknowledged.add(e.value)
    for e in stored:
        count += VIOLATED if not any(a.value == e.value and a.seq < e.seq for a in appends) else Count()
    for asked, e in refused:
        of_value = [s for s in stored if s.value == asked.value and s.seq > asked.seq]
        once = of_value and [
            a.op for a in appends if a.value == asked.value and a.seq < max(of_value[0].seq, e.seq)
        ] == [asked.op]
        count += VIOLATED if once else Count()
    return count


def trim_is_answered(history: History) -> Count:
    """read-path.md#trim-is-answered."""
    count = Count()
    for asked, e in answers(history):
        if e.f == "trim_log" and e.kind == "ok":
            released = [r.offset for r in history.events if r.kind == "release" and r.seq < e.seq]
            if e.offset is None or (asked.offset is not None and e.offset > asked.offset):
                count += JUDGED + VIOLATED
            elif e.offset > max(released, default=-1):
                count += lacks(history, e, e.node, "release")
            else:
                count += JUDGED
    return count


def read_ends_as_delivered(history: History) -> Count:
    """read-path.md#read-ends-as-delivered."""
    count = Count()
    for asked, e in answers(history):
        if e.f != "read_stream" or e.kind != "ok":
            continue
        given = [
            d.last
            for d in history.events
            if d.kind in ("stream_record", "stream_gap") and d.op == e.op and asked.seq < d.seq < e.seq
        ]
        last = given[-1] if given else -2
        until = asked.last_offset if asked.last_offset != asked.offset else None
        if e.offset is None or (until is not None and e.offset < until):
            count += JUDGED + VIOLATED
        elif e.offset > last and (until is None or last < until):
            count += lacks(history, e, asked.node, "stream_record")
        else:
            count += judged(e.offset != last)
    return count


def asked_node_answers(history: History) -> Count:
    """read-path.md#asked-node-answers."""
    count = Count()
    ends = {asked.seq: e for asked, e in answers(history)}
    for asked in history.events:
        if asked.kind == "invoke" and asked.f in OPERATIONS and asked.node is not None:
            end = ends.get(asked.seq)
            again = [b.seq for b in history.events if b.kind == "invoke" and b.f in OPERATIONS and b.op == asked.op]
            over = min([b for b in again if b > asked.seq] + ([end.seq] if end else []), default=None)
            parts = [p for p in history.events if p.kind == "takes_part" and p.op is not None and p.op == asked.op]
            parts = [p for p in parts if asked.seq < p.seq and (over is None or p.seq < over)]
            for e in (*parts, *([end] if end else [])):
                if e.node is not None:
                    count += judged(e.node != asked.node)
    return count


def one_sequencer_per_epoch(history: History) -> Count:
    """read-path.md#one-sequencer-per-epoch."""
    count = Count()
    first: dict[int, tuple[int | None, int | None]] = {}
    for e in history.events:
        if e.kind in ("acknowledge", "release"):
            epoch = e.offset >> 32 if e.kind == "acknowledge" else e.epoch
            count += judged(first.setdefault(epoch, (e.node, e.incarnation)) != (e.node, e.incarnation))
    return count


TWINS: dict[str, Plain] = {
    "one-sequencer-per-epoch": one_sequencer_per_epoch,
    "answered-as-acknowledged": answered_as_acknowledged,
    "stored-as-asked": stored_as_asked,
    "trim-is-answered": trim_is_answered,
    "read-ends-as-delivered": read_ends_as_delivered,
    "asked-node-answers": asked_node_answers,
}
