"""The twins of the checks of what clients of pull queries put, ask and are told, each written from its rule."""

from __future__ import annotations

import zlib
from typing import Any

from plain import JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain
from plain_pull_queries import is_record, is_server, is_value, said

Plainly = dict[str, Any]


def judged(broken: object) -> Count:
    """One fact, and whether it breaks the rule."""
    return JUDGED + VIOLATED if broken else JUDGED


def is_put(s: Plainly) -> bool:
    """A key and a value, or none."""
    return isinstance(s["key"], str) and (s.get("value") is None or is_value(s["value"]))


def row(s: Plainly) -> tuple[str, Any] | None:
    """The key of a put or a record with its value; None if it has no key."""
    return None if s.get("key") is None else (s["key"], s.get("value"))


def partition_of(history: History, key: str, until: int) -> int | None:
    """Where a key belongs, by what all servers say that have served by then."""
    served = [said(e, is_server) for e in history.events if e.kind == "serve" and e.seq <= until]
    sizes = {s["partitions"] if s else 0 for s in served}
    return zlib.crc32(key.encode()) % sizes.pop() if len(sizes) == 1 and sizes != {0} else None


class Known:
    """What is known before an event: puts with their ends, and who said what an offset of a source log holds."""

    def __init__(self, history: History, e: Event) -> None:
        before = [b for b in history.events if b.seq < e.seq]
        self.asked = [b for b in before if b.kind == "invoke" and b.f == "put"]
        self.records = [(b, r) for b, r in records(before) if r.get("source") is not None]
        self.ends = [(a, b) for a, b in ends(before) if said(a, is_put)]
        self.speakers = [(b.partition, r["source"], row(r), b.seq) for b, r in self.records]
        for a, b in self.ends:
            put = said(a, is_put)
            partition = partition_of(history, put["key"], b.seq)
            if b.kind == "ok" and b.offset is not None and partition is not None:
                self.speakers.append((partition, b.offset, row(put), b.seq))
        self.speakers.sort(key=lambda each: each[3])

    def holds(self, partition: int | None, offset: int) -> list[Any]:
        """What somebody first said that an offset of a source log holds, if anybody did."""
        return [each[2] for each in self.speakers if each[:2] == (partition, offset)][:1]

    def puts(self, wanted: Any) -> list[Event]:  # noqa: ANN401
        """Who asked for a row."""
        return [a for a in self.asked if said(a, is_put) and row(said(a, is_put)) == wanted]

    def failed(self, wanted: Any) -> int:  # noqa: ANN401
        """How many of them failed."""
        return sum(row(said(a, is_put)) == wanted for a, b in self.ends if b.kind == "fail")

    def answers(self, wanted: Any) -> list[int]:  # noqa: ANN401
        """Where they were told that it is."""
        ok = [b for a, b in self.ends if b.kind == "ok" and b.offset is not None and row(said(a, is_put)) == wanted]
        return [b.offset for b in ok]


def records(events: list[Event]) -> list[tuple[Event, Plainly]]:
    """What changelogs show, where it can be read."""
    shown = [(e, said(e, is_record)) for e in events if e.kind == "changelog"]
    return [(e, r) for e, r in shown if r]


def ends(events: list[Event]) -> list[tuple[Event, Event]]:
    """Puts with their ends."""
    begun: dict[int | None, Event] = {}
    found = []
    for e in events:
        if e.kind == "invoke" and e.f == "put":
            begun[e.op] = e
        elif e.kind in ("ok", "fail") and e.f == "put" and e.op in begun:
            found.append((begun.pop(e.op), e))
    return found


def put_as_written(history: History) -> Count:
    """pull-queries.md#put-as-written."""
    count = Count()
    asked_of = {e.seq: a for a, e in ends(history.events)}
    for e in history.events:
        if e.seq in asked_of:
            count += put_ends(history, asked_of[e.seq], e)
        elif e.kind == "changelog":
            count += change_shown(history, e)
    if any(said(e, is_put) for e in history.events if e.kind == "invoke" and e.f == "put") or not count.violated:
        return count
    return Count(unjudged=count.judged + count.unjudged).if_shown(void=True)


def put_ends(history: History, asked: Event, e: Event) -> Count:
    """Somebody is told what came of a put."""
    put = said(asked, is_put)
    if put is None:
        return UNJUDGED
    known, wanted = Known(history, e), row(put)
    since = min(a.seq for a in known.puts(wanted))  # what was there before anybody asked is no put's
    shown = [r["source"] for b, r in known.records if row(r) == wanted and b.seq > since]
    if e.kind == "fail":
        return judged(known.failed(wanted) + 1 == len(known.puts(wanted)) and shown)
    if e.offset is None:
        return JUDGED + VIOLATED
    partition = partition_of(history, put["key"], e.seq)
    there = known.holds(partition, e.offset) if partition is not None else []
    if len(known.puts(wanted)) == 1 and shown and shown[0] != e.offset:
        return JUDGED + VIOLATED
    if there and there[0] != wanted:
        return JUDGED + VIOLATED
    earlier = Known(history, asked).speakers
    of_log = partition_of(history, put["key"], asked.seq)
    return judged(any(p == of_log and offset >= e.offset for p, offset, _, _ in earlier))


def change_shown(history: History, e: Event) -> Count:
    """A changelog shows what an offset of the source log holds."""
    record = said(e, is_record)
    if record is None or record.get("source") is None:
        return Count()
    known, wanted = Known(history, e), row(record)
    there = known.holds(e.partition, record["source"])
    if wanted is not None and partition_of(history, wanted[0], e.seq) not in (None, e.partition):
        return JUDGED + VIOLATED
    if there and there[0] != wanted:
        return JUDGED + VIOLATED
    if wanted is None:
        return JUDGED
    puts, answers = known.puts(wanted), known.answers(wanted)
    if not puts:
        unread = any(said(a, is_put) is None for a in known.asked)
        return UNJUDGED if unread else JUDGED + VIOLATED
    if known.failed(wanted) == len(puts):
        return JUDGED + VIOLATED
    return judged(len(puts) == 1 and answers and answers[-1] != record["source"])


def since_asked(history: History) -> list[tuple[Event, list[Event]]]:
    """Each query or put with all events of its number, up to where that is used again."""
    found: list[tuple[Event, list[Event]]] = []
    last: dict[int | None, list[Event]] = {}
    for e in history.events:
        if e.kind == "invoke" and e.f in ("query", "put"):
            last[e.op] = []
            found.append((e, last[e.op]))
        elif e.kind in ("route", "finish", "rows", "ok", "fail", "info") and e.op in last:
            last[e.op].append(e)
    return found


def query_ends_as_answered(history: History) -> Count:
    """pull-queries.md#query-ends-as-answered."""
    count = Count()
    for asked, events in since_asked(history):
        end = next((e for e in events if e.kind in ("ok", "fail", "info")), None)
        if asked.f != "query" or end is None:
            continue
        before = [e for e in events if e.seq < end.seq]
        if end.kind == "ok" and end.get("count") is not None:
            wrong = end.get("count") != sum(e.kind == "rows" for e in before)
            lacks = wrong and not any(e.kind == "rows" for e in history.events)
            count += Count(1, 0, 0, 1, 1) if lacks else judged(wrong)
        elif end.kind == "fail" and any(e.kind == "finish" for e in before):
            count += judged(end.reason != "failed")
    return count


def asked_server_answers(history: History) -> Count:
    """pull-queries.md#asked-server-answers."""
    count = Count()
    for asked, events in since_asked(history):
        for e in events:
            if None not in (asked.node, e.node):
                count += judged(e.node != asked.node)
    return count


TWINS: dict[str, Plain] = {
    "put-as-written": put_as_written,
    "query-ends-as-answered": query_ends_as_answered,
    "asked-server-answers": asked_server_answers,
}
