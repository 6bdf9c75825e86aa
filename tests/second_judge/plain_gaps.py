"""The twins of the checks of gaps, written from the rules that they name: what a reader knows is told over again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from plain import JUDGED, UNJUDGED, VIOLATED, Count, Event, History, Plain, once
from plain_read_path import REFUSALS, SCOPES, judged, lives, nodeset

FULL, WITHOUT_DATA = (0, 3), (1, 2)
RECORDS = ("record", "damaged", "filtered_out")


def scopes(declared: Any) -> Iterator[tuple[int, list[set[int]]]]:  # noqa: ANN401
    """Of each scope that counts the factor and the domains (read-path.md#replication-property)."""
    shards = {int(shard): tuple(names) for shard, names in declared["locations"].items() if int(shard) < 63}
    largest = 0
    for depth, scope in enumerate(SCOPES, 1):
        if declared["replication"].get(scope, 0) > largest:
            largest = declared["replication"][scope]
            names = {place[:depth] for place in shards.values()}
            yield largest, [{s for s, place in shards.items() if place[:depth] == name} for name in names]
    yield largest, [{shard} for shard in shards]


def f_majority_verdict(declared: Any, statuses: dict[int, int], responded: set[int]) -> str:  # noqa: ANN401
    """read-path.md#f-majority-verdict."""
    full = {shard for shard, status in statuses.items() if status in FULL}
    non_empty = {shard for shard, status in statuses.items() if status != 2}
    everyone, some = full <= responded, False
    for factor, domains in scopes(declared):
        complete = [d for d in domains if d & full & responded and d & non_empty <= full & responded]
        counting = [d for d in domains if d & non_empty]
        some = some or len(complete) >= max(0, len(counting) - factor + 1)
    return ("complete" if everyone else "incomplete") if some else ("non_auth" if everyone else "none")


@dataclass
class Shard:
    """What a shard has said since START."""

    filter: int | None = None
    next: int = 0
    unsure: int = 0
    reading: bool = False
    expired: int = 0
    version: int | None = None
    single: bool = False


@dataclass
class Knowledge:
    """What one stream knows: of its life all events up to now have been told."""

    history: History
    first: int | None = None
    until: int | None = None
    position: int = -1
    known_epoch: int | None = None
    version: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    answers: int = 0
    settings: Any = None
    shards: dict[int, Shard] = field(default_factory=dict)
    heard: dict[int, str] = field(default_factory=dict)
    trimmed: int = -1
    refused: bool = False
    rewinding: bool = False
    listed: set[int] = field(default_factory=set)
    grace: tuple[int, int, int | None] | None = None  # LSN, begun, over
    now: int = -1
    rejected: int | None = None
    learned: bool = False
    emptied: bool = False
    single: bool = False
    asked_again: int | None = None
    asks: bool = False
    hears: bool = False

    @property
    def recorded(self) -> bool:
        """Whether it is recorded where it began, whom it asked and what it heard."""
        return self.first is not None and self.first >= 0 and self.asks and self.hears

    def nodeset_of(self, lsn: int) -> Any:  # noqa: ANN401
        """The nodeset of an epoch, as far as it was told by now."""
        declared = [e for e in self.history.events if e.kind == "nodeset" and e.seq < self.now and nodeset(e)]
        since = [e for e in declared if e.epoch <= lsn >> 32]
        return nodeset(max(since, key=lambda e: (e.epoch, e.seq))) if since else None

    def status(self, shard: int) -> int:
        """read-path.md#reader-statuses."""
        if shard in self.shards and self.shards[shard].reading:
            return 0
        return self.statuses.get(shard, 0)

    def asked(self, declared: Any) -> set[int]:  # noqa: ANN401
        """The shards of a nodeset."""
        return {int(shard) for shard in declared["locations"] if int(shard) < 63}

    def silent(self, lsn: int, declared: Any) -> set[int]:  # noqa: ANN401
        """Who has said nothing of an LSN."""
        return {s for s in self.asked(declared) if s not in self.shards or self.shards[s].next <= lsn}

    def unsure(self, lsn: int, declared: Any) -> set[int]:  # noqa: ANN401
        """Who has sent nothing there, and may lack it."""
        return {s for s in self.asked(declared) - self.silent(lsn, declared) if lsn < self.shards[s].unsure}

    def verdict(self, lsn: int, declared: Any) -> str:  # noqa: ANN401
        """read-path.md#gap-verdict."""
        statuses = {shard: self.status(shard) for shard in self.asked(declared)}
        answered = self.asked(declared) - self.silent(lsn, declared)
        gaps = f_majority_verdict(declared, statuses, answered - self.unsure(lsn, declared))
        if gaps in ("complete", "non_auth") or f_majority_verdict(declared, statuses, answered) in (
            "none",
            "incomplete",
        ):
            return gaps
        return "complete" if gaps == "incomplete" else "non_auth"

    def take(self, e: Event) -> None:
        """The next event of its life."""
        self.now = e.seq
        shard = self.shards.get(e.peer)
        self.asks = self.asks or e.kind == "stream_start"
        self.hears = self.hears or e.kind == "stream_heard"
        match e.kind:
            case "invoke":
                self.first = self.position = e.offset
                self.until = e.last_offset if e.last_offset != e.offset else None
            case "stream_settings":
                self.settings = settings(e)
            case "stream_statuses":
                log = {b.version: statuses(b) for b in self.history.events if b.kind == "event_log" and b.seq < e.seq}
                asked = any(each.filter is not None for each in self.shards.values())
                empties = emptied(self.history, e.version, e.seq) > emptied(self.history, self.version, e.seq)
                self.emptied = self.emptied or (self.learned and asked and empties)
                self.version, self.statuses, self.learned = e.version, log.get(e.version, {}), True
            case "stream_metadata":
                self.known_epoch = max(-1 if self.known_epoch is None else self.known_epoch, e.epoch)
                declared = self.nodeset_of(self.known_epoch << 32)
                if declared:
                    self.shards = {s: each for s, each in self.shards.items() if s in self.asked(declared)}
            case "stream_start":
                expired = shard.expired if shard else 0
                self.single = single = e.shards is not None
                self.shards[e.peer] = Shard(e.filter, e.offset, 0, False, expired, self.version, single)
                if single:
                    self.listed = {s for s in range(63) if e.shards >> s & 1}
            case "stream_started" | "stream_heard" if self.without_data(e) and e.reason in (None, "ok"):
                pass
            case "stream_started" if shard and shard.filter == e.filter:
                shard.expired, shard.reading = 0, shard.reading or e.reason == "ok"
                self.answers = max(self.answers, e.version)
            case "stream_closed":
                self.shards.setdefault(e.peer, Shard()).reading = False
            case "stream_heard" if shard and shard.filter is not None and shard.filter in (1, e.filter):
                self.hear(e, shard)
            case "stream_rewind":
                self.rewinding = e.f == "due"
                if e.f != "due":
                    self.emptied = False
                    self.single, self.asked_again = e.shards is not None, self.position
                    self.grace, self.heard, self.rejected = None, {}, None
                    self.listed = {s for s in range(63) if (e.shards or 0) >> s & 1}
                    for each in self.shards.values():
                        each.filter, each.next, each.unsure = None, 0, 0
            case "stream_reject":
                self.rejected = e.offset
            case "stream_grace" if e.f == "begun":
                self.grace = (e.offset, e.time, None)
            case "stream_grace" if e.f == "over" and self.grace and self.grace[0] == e.offset:
                self.grace = (e.offset, self.grace[1], e.time)
                declared = self.nodeset_of(e.offset)
                for s in self.silent(e.offset, declared) if declared else ():
                    self.shards.setdefault(s, Shard()).expired += 1
            case "stream_grace":
                self.grace = None
            case "stream_record":
                self.move(e.offset)

    def without_data(self, e: Event) -> bool:
        """Whether the shard that sent it has lost its data, and has not been rebuilt since
        (read-path.md#lost-data-refuses)."""
        newest: dict[int, int] = {}
        lost = False
        for b in reports_of_shards(self.history):
            if b.seq >= e.seq:
                break
            if b.kind == "event_log":
                newest = statuses(b)
                lost = lost and newest.get(e.peer) != 2
            elif b.kind == "takes_part" and b.node == e.peer and b.reason == "lost":
                lost = lost or newest.get(e.peer) != 2
        return lost

    def hear(self, e: Event, shard: Shard) -> None:
        """A record or a gap of a shard."""
        if e.f in REFUSALS:
            self.refused = True
            return
        shard.expired, shard.reading = 0, True
        self.answers = max(self.answers, e.version)
        self.trimmed = max(self.trimmed, e.last) if e.f == "trim" else self.trimmed
        if e.last >= shard.next:
            shard.next = e.last + 1
            if e.f in ("under_replicated", "damaged") or e.get("count") == 1:
                shard.unsure = max(shard.unsure, e.last + 1)
            if e.f in ("record", "filtered_out") and e.offset >= self.position:
                self.heard[e.offset] = (e.record or "data") if e.f == "record" else "filtered_out"

    def move(self, last: int) -> None:
        """All up to an LSN is delivered."""
        self.position, self.grace = last + 1, None
        self.heard = {lsn: what for lsn, what in self.heard.items() if lsn > last}


@once
def reports_of_shards(history: History) -> list[Event]:
    """What is told of shards by themselves."""
    return [e for e in history.events if e.kind in ("event_log", "takes_part")]


def emptied(history: History, version: int, before: int) -> int:
    """How often a shard had become empty by a version of the event log, as far as the records before it are known."""
    times: dict[int, int] = {}
    log: dict[int, dict[int, int]] = {}
    for e in history.events:
        if e.kind == "event_log" and e.seq < before:
            was = {shard for shard, status in log.get(e.version - 1, {}).items() if status == 2}
            now = {shard for shard, status in statuses(e).items() if status == 2}
            counts = e.version - 1 in log or e.version == 1
            times[e.version] = times.get(e.version - 1, 0) + (len(now - was) if counts else 0)
            log[e.version] = statuses(e)
    return times.get(version, 0)


def given_up(history: History, version: int, before: int) -> bool:
    """Whether donors had begun anew by a version of the event log, as far as the records before it are known."""
    log: dict[int, dict[int, int]] = {0: {}}
    for e in history.events:
        if e.kind == "event_log" and e.seq < before:
            was = {shard: status for shard, status in log.get(e.version - 1, {}).items() if status in (1, 3)}
            now = log[e.version] = statuses(e)
            back = any(now.get(shard) == 0 for shard in was)
            more = any(status in (1, 3) and shard not in was for shard, status in now.items())
            if was and (back or more) and e.version <= version:
                return True
    return False


def drained(history: History, version: int, before: int) -> bool:
    """Whether donors are at work at a version of the event log, or were once when they began anew: by its records, of
    which all up to this one must be known. read-path.md#status-of-events, read-path.md#rebuilding-donors."""
    leaving: dict[int | None, str] = {}  # lost, away or drains; behind that "done", once it was shown to be empty
    again = False
    for number, e in enumerate((e for e in history.events if e.kind == "event_log" and e.seq < before), 1):
        was, at_work = leaving.get(e.peer, ""), any("done" not in each for each in leaving.values())
        if e.version != number or e.f not in ("rebuild", "drain", "unrecoverable", "done", "abort", "acknowledge"):
            return again
        if e.f == "rebuild" and (not was or "drains" in was):
            leaving[e.peer], begins = "away", True
        elif e.f in ("drain", "unrecoverable") and not was:
            leaving[e.peer], begins = ("drains" if e.f == "drain" else "lost"), True
        elif e.f == "unrecoverable" and "done" not in was:
            leaving[e.peer], begins = "lost", was == "drains"
        elif (e.f == "acknowledge" and "done" in was) or (e.f == "abort" and was in ("away", "drains")):
            del leaving[e.peer]
            begins = e.f == "abort"
        else:
            begins = False
        again = again or (begins and at_work)
        if e.f in ("done", "unrecoverable"):
            leaving |= {shard: f"{each}, done" for shard, each in leaving.items() if statuses(e).get(shard or 0) == 2}
        if e.version == version:
            return again or any("done" not in each for each in leaving.values())
    return again


def settings(e: Event) -> Any:  # noqa: ANN401
    """What a reader says of itself; None if it has another form."""
    try:
        declared = json.loads(e.text)
        numbers = all(type(declared[name]) is int for name in ("grace", "in_flight"))
        flags = all(
            type(declared[name]) is bool for name in ("require_full_read_set", "guaranteed_delivery_efficiency")
        )
        flags = flags and type(declared.setdefault("single_copy", False)) is bool
        return declared if numbers and flags else None
    except (TypeError, ValueError, KeyError):
        return None


def statuses(e: Event) -> dict[int, int]:
    """What the text of an event log's record says."""
    try:
        declared = {int(shard): status for shard, status in json.loads(e.text).items()}
        return declared if all(type(status) is int for status in declared.values()) else {}
    except (TypeError, ValueError, AttributeError):
        return {}


def classified(e: Event, known: Knowledge) -> tuple[str, bool]:
    """What a gap follows from (refusal, record, trim, begin, zero, answers), and whether a shard told of that."""
    lsn, epoch = e.offset, e.offset >> 32
    if e.f in REFUSALS:
        return "refusal", known.refused
    if e.f in ("hole", "filtered_out"):
        return "record", known.heard.get(lsn) == e.f and e.last == lsn
    if e.f == "bridge" and known.heard.get(lsn) == "bridge" and e.last in (known.until, (epoch + 1 << 32) - 1):
        return "record", True
    if e.f == "trim":
        return "trim", e.last <= known.trimmed
    end = e.last + 1
    begins = lsn & 0xFFFFFFFF == 0 or lsn == known.first
    if e.f == "bridge" and begins and e.last >> 32 == epoch and end & 0xFFFFFFFF == 1 and end in known.heard:
        return "begin", True
    if e.f == "bridge" and lsn == known.first and e.last <= 1 << 32:
        return "zero", True
    return "answers", True


def counted(history: History, kinds: tuple[str, ...], judge: Any) -> Count:  # noqa: ANN401
    """What a judge says of each such event, given what the stream knew before it."""
    count = Count()
    for life in lives(history):
        known = Knowledge(history)
        for e in life:
            if e.kind == "stream_gap":
                known.now, known.position = e.seq, e.offset
                way, declared = classified(e, known)
                count += judge(e, known, way, declared) if e.kind in kinds else Count()
                if way == "record" and e.f == "bridge" and known.known_epoch is not None:
                    known.known_epoch = max(known.known_epoch, e.offset >> 32)
                known.move(e.last)
            elif e.kind in kinds:
                known.now = e.seq
                count += judge(e, known, "", True)
            else:
                known.take(e)
    return count


def patience(e: Event, known: Knowledge, declared: Any) -> bool:  # noqa: ANN401
    """Whether who was to be waited for was waited for (read-path.md#gap-grace)."""
    if known.settings["require_full_read_set"]:
        return False
    if known.grace and known.grace[0] == e.offset:
        over = -1 if known.grace[2] is None else known.grace[2]
        if 8 * (over - known.grace[1]) >= 7 * known.settings["grace"]:
            return True
    late = {s for s, each in known.shards.items() if each.expired > 2}
    worth = {s for s in known.silent(e.offset, declared) - late if known.status(s) == 0}
    skips = e.f == "bridge" and e.offset != known.first
    return known.settings["grace"] <= 0 or skips or known.trimmed >= e.offset or not worth


def gap_has_verdict(history: History) -> Count:
    """read-path.md#gap-has-verdict."""

    def judge(e: Event, known: Knowledge, way: str, is_declared: bool) -> Count:
        if way == "zero":
            return Count()
        if way != "answers":
            return judged(not is_declared) if known.recorded else UNJUDGED
        declared = known.nodeset_of(e.offset)
        if not declared or not known.recorded:
            return UNJUDGED
        ends = {end for each in known.shards.values() for end in (each.next, each.unsure)}
        ends |= {epoch << 32 for epoch in range((e.offset >> 32) + 1, min(e.last >> 32, (e.offset >> 32) + 64) + 1)}
        steps = {e.offset, *(end for end in ends if e.offset < end <= e.last)}
        if any(known.verdict(step, known.nodeset_of(step) or declared) == "none" for step in steps):
            return JUDGED + VIOLATED
        verdict = known.verdict(e.offset, declared)
        if e.text is not None and e.text != verdict:
            return JUDGED + VIOLATED
        return judged(verdict == "incomplete" and known.settings and not patience(e, known, declared))

    return counted(history, ("stream_gap",), judge) + records_heard(history)


def records_heard(history: History) -> Count:
    """A record is delivered that a shard has sent since the stream asked for it (read-path.md#rewind)."""
    count = Count()
    for life in lives(history):
        known = Knowledge(history)
        for e in life:
            if e.kind == "stream_record" and known.heard.get(e.offset) != "data":
                count += JUDGED + VIOLATED if known.recorded else UNJUDGED
            elif e.kind == "stream_record":
                count += JUDGED
            if e.kind == "stream_gap":
                known.move(e.last)
            else:
                known.take(e)
    return count


def gap_has_type(history: History) -> Count:
    """read-path.md#gap-all-lost, read-path.md#gap-data-loss."""

    def judge(e: Event, known: Knowledge, way: str, _: bool) -> Count:
        if way != "answers":
            return Count()
        declared, end = known.nodeset_of(e.offset), e.last + 1
        if not declared or not known.settings or not known.recorded or e.last == known.until:
            return UNJUDGED
        asked = known.asked(declared)
        begins = e.offset == known.first or (e.offset - 1) >> 32 < end >> 32
        if asked and all(known.status(shard) in WITHOUT_DATA for shard in asked):
            due = "dataloss"
        elif e.last <= known.trimmed:
            due = "trim"
        elif end & 0xFFFFFFFF <= known.settings["in_flight"] and begins:
            due = "bridge"
        else:
            due = "dataloss" if e.offset >> 32 == end >> 32 else "bridge"
        return judged(due != e.f or (e.get("count") and e.count != e.last - e.offset + 1))

    return counted(history, ("stream_gap",), judge)


def no_gap_too_early(history: History) -> Count:
    """read-path.md#no-gap-too-early."""

    def judge(e: Event, known: Knowledge, way: str, _: bool) -> Count:
        if way not in ("trim", "begin", "answers"):
            return Count()
        if known.known_epoch is None or not known.recorded:
            return UNJUDGED
        early = e.last >> 32 > known.known_epoch
        if way == "answers" and not early:
            single = any(each.single and each.filter is not None for each in known.shards.values()) and not guaranteed(
                known, e.offset
            )
            looks_again = known.settings and known.settings["single_copy"] and known.asked_again != e.offset
            first = e.f == "dataloss" and looks_again and not known.settings["guaranteed_delivery_efficiency"]
            early = known.rewinding or known.emptied or known.answers > known.version or single or first
        return judged(early)

    return counted(history, ("stream_gap",), judge)


def guaranteed(known: Knowledge, lsn: int) -> bool:
    """read-path.md#guaranteed-delivery."""
    declared = known.nodeset_of(lsn)
    if not known.settings or not declared:
        return True
    versions = {each.version for each in known.shards.values() if each.filter is not None}
    if not known.settings["guaranteed_delivery_efficiency"] or versions - {known.version}:
        return False
    being_rebuilt = any(status in (1, 3) for status in known.statuses.values())
    if being_rebuilt or given_up(known.history, known.version, known.now):
        return False
    if drained(known.history, known.version, known.now):
        return False
    heard = known.verdict(lsn, declared) in ("complete", "non_auth") or known.silent(lsn, declared) <= known.listed
    return known.unsure(lsn, declared) <= known.listed and heard


def grace_periods(history: History) -> Count:
    """No grace period lasts 5 s longer than it should (read-path.md#gap-grace)."""
    count = Count()
    for life in lives(history):
        known, begun = Knowledge(history), None
        for e in life:
            if e.kind == "stream_settings":
                known.take(e)
            elif e.kind == "stream_grace":
                if begun is not None and known.settings:
                    count += judged(e.time - begun > known.settings["grace"] + 5 * 10**9)
                begun = e.time if e.f == "begun" else None
    return count


def progress_or_stall(history: History) -> Count:
    """read-path.md#progress-or-stall."""

    def judge(e: Event, known: Knowledge, _: str, __: bool) -> Count:
        declared = known.nodeset_of(e.offset)
        known_epoch = -1 if known.known_epoch is None else known.known_epoch
        ahead = known.trimmed + 1 if known.trimmed >= known.position else known.position
        ignorant = known.answers > known.version or ahead >> 32 > known_epoch
        in_grace = known.grace is not None and known.grace[2] is None
        if known.grace and known.settings:
            in_grace = in_grace and e.time - known.grace[1] <= known.settings["grace"] + 5 * 10**9
        busy = known.rejected == known.position or known.rewinding or in_grace or ignorant
        if not declared or not known.recorded or busy:
            return UNJUDGED
        named = {s for s in range(63) if (e.shards or 0) >> s & 1}
        useful = {s for s in known.silent(e.offset, declared) if known.status(s) in FULL}
        if not useful and known.silent(e.offset, declared) == known.asked(declared):
            return UNJUDGED
        impatient = known.settings and not known.settings["require_full_read_set"]
        issued = {"complete", "non_auth", *(["incomplete"] if impatient else [])}
        ends = [max(each.unsure, 0) if e.offset < each.unsure else each.next for each in known.shards.values()]
        ends = [end for end, each in zip(ends, known.shards.values(), strict=True) if e.offset < each.next]
        if ends and min(ends) >> 32 > known_epoch and not named and e.offset not in known.heard:
            return UNJUDGED
        told = not known.single and bool(ends) and min(ends) >> 32 <= known_epoch
        due = e.offset in known.heard or (told and known.verdict(e.offset, declared) in issued)
        return judged(due or not named or not named <= useful)

    begun = {e.op: e.seq for e in reversed(history.events) if e.kind == "invoke" and e.f == "read_stream"}
    ok = [e for e in history.events if e.kind == "ok" and e.f == "read_stream"]
    ended = sum(begun.get(e.op, e.seq) < e.seq for e in ok)
    return Count(judged=ended) + counted(history, ("stream_stall",), judge) + grace_periods(history)


TWINS: dict[str, Plain] = {
    "gap-has-verdict": gap_has_verdict,
    "gap-has-type": gap_has_type,
    "no-gap-too-early": no_gap_too_early,
    "progress-or-stall": progress_or_stall,
}
