"""Holds the fast checks and the plain ones together on one history, and says where they part."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from damage import CLIENT
from lives import falls_quiet
from plain import STATE, Count, Event, History, Plain, logs_of, total

from loghistory import SCHEMA, HistoryError, open_run
from loghistory.run import write_file
from logwitness import check
from logwitness.checks import house_families
from logwitness.checks.kernel import available

_MODULES = [import_module(file.stem) for file in sorted(Path(__file__).parent.glob("plain_*.py"))]

TWINS: dict[str, Plain] = {id_: twin for module in _MODULES for id_, twin in module.TWINS.items()}
"""Every plain check by the id of its twin. A module `plain_*.py` beside this one is found by being there."""

KINDS = {each.id: family.kinds for family in house_families() for each in family.checks}
"""The kinds of events that each check sees."""

GROUND = {each.id: each for family in house_families() for each in family.checks if each.unsettles}
"""The checks of well-formed histories, which the others rest on."""

DOUBTFUL = {each.id for family in house_families() for each in family.checks if each.doubtful}
"""The checks whose breach may be that of a correct system."""

LOOKS_BACK = {each.id for family in house_families() for each in family.checks if each.looks_back}
"""The checks that accuse of what may come from before a record that begins late."""

FROM_START = {each.id for family in house_families() for each in family.checks if each.from_start}
"""And those that accuse by what a node did before, where a record begins while nodes run."""

OF_OPERATIONS = {each.id: each for family in house_families() for each in family.checks if family.operations}
"""The checks that judge what clients do with a log."""

OPERATIONS = {each.id: family.operations for family in house_families() for each in family.checks}
"""And what that may be, by check."""

NEEDS = {each.id: each.kinds for family in house_families() for each in family.checks}
"""The kinds of events without which a check has nothing to judge."""

COMES_WITH = {
    "stream_record": "nodeset takes_part copy acknowledge release ship stream_settings stream_metadata stream_start "
    "stream_started stream_heard",
    "rows": "serve assigned route answer finish",
    "recover": "seal",
    "trim": "snapshot",
}
"""What there must have been where there is a kind of event (history-checks.md#never-recorded)."""

_NAMED = re.compile(r"no (\w+) event is recorded, which may explain this")
"""How the fast judge says which kind of events may explain what it found."""

UNCOUNTED = {"linearizable-log"}
"""Checks of the history as a whole, of which no rule says how many violations there are."""


class Answer(NamedTuple):
    """What either judge says of one check."""

    verdict: str
    count: Count  # apart from what is lacking, which only the verdict tells
    reason: str = ""  # of the fast one

    def __str__(self) -> str:
        counted = self.count._asdict().items()
        return f"{self.verdict:<11} " + ", ".join(f"{n} {name}" for name, n in counted if name != "lacking")


@dataclass(frozen=True)
class Disagreement:
    """One check about which the two judges differ."""

    check: str
    about: str
    """Whose history, which seed, what damage."""
    fast: Answer
    plain: Answer
    event: Event
    """With the events up to this one they differ, with those before it they do not."""

    def __str__(self) -> str:
        shown = " ".join(f"{name}={value}" for name, value in self.event.items())
        return f"{self.check}, {self.about}\n  fast  {self.fast}\n  plain {self.plain}\n  from  {shown}"


def events_of(table: pa.Table) -> list[Event]:
    """The events of a table: each as its columns that are not null."""
    columns = [table.column(name).to_pylist() for name in table.column_names]
    rows = zip(*columns, strict=True)
    return [Event((n, v) for n, v in zip(table.column_names, row, strict=True) if v is not None) for row in rows]


def with_values(events: list[Event]) -> list[Event]:
    """The same, where what a client appends or is given may be a text."""
    return [Event({"value": e.text, **e}.items()) if e.kind in CLIENT and e.text is not None else e for e in events]


def read_back(rows: Sequence[Mapping[str, Any]]) -> pa.Table | None:
    """The events as they are read from a file that they were written to; None if the reader refuses them."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "events.jsonl")
        try:
            write_file(file, pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA))
            return open_run(file).table()
        except HistoryError:
            return None


def fast(table: pa.Table, configuration: Mapping[str, Any], only: Sequence[str] | None = None) -> dict[str, Answer]:
    """What the checks of logwitness say, by id."""
    verdict = check(table, only, configuration=configuration, compiled=False)
    return {
        each.id: Answer(
            str(each.verdict), Count(each.judged, each.violated, each.excused, each.unjudged), each.reason or ""
        )
        for each in verdict.checks
    }


def forms_differ(table: pa.Table, configuration: Mapping[str, Any], about: str) -> list[str]:
    """What the loops of the checks say as machine code, and not as they stand, or the other way round: a sentence."""
    if not available():
        return []
    one, other = (
        msgspec.to_builtins(check(table, configuration=configuration, compiled=compiled)) for compiled in (False, True)
    )
    if one == other:
        return []
    pairs = zip(one["checks"], other["checks"], strict=True)
    return [f"{about}: machine code differs about {[a['id'] for a, b in pairs if a != b] or 'the run'}"]


def plain(events: list[Event], configuration: Mapping[str, Any], only: Sequence[str]) -> dict[str, Answer]:
    """What the plain checks of these ids say, and on what ground they say it (history-checks.md#ground)."""
    of_protocol = "protocol" in configuration or any(e.kind in STATE for e in events)
    logs = [
        History(
            log,
            tuple(configuration["voters"]),
            write_caching=bool(configuration.get("write_caching", False)),
            idempotent=bool(configuration.get("idempotent", True)),
            progress_bound=configuration.get("progress_bound"),
            memory_bytes=configuration.get("memory_bytes"),
            max_in_flight=configuration.get("max_in_flight"),
            nodes=configuration.get("nodes", 0),
            stated=configuration,
            recorded=any(e.dirty is not None for e in events),
            of_protocol=of_protocol,
        )
        for log in logs_of(events)
    ]
    late = [_begins_late(log) for log in logs]
    found = {id_: _answer(id_, logs, late) for id_ in {*only, *GROUND}}
    kinds = {e.kind for e in events}
    due = {each for kind, those in COMES_WITH.items() if kind in kinds for each in those.split()} - kinds
    for id_, answer in found.items():
        if answer.verdict == "unexercised" and due.intersection(NEEDS[id_]):
            found[id_] = answer._replace(verdict="undecided")
    broken = [id_ for id_ in GROUND if found[id_].verdict in ("violated", "undecided")]
    idle = all(found[id_].verdict == "unexercised" for id_ in only if id_ not in GROUND)
    known = frozenset().union(*(OPERATIONS[id_] for id_ in only))
    strange = any(e.kind == "invoke" and e.txn is None and e.f not in known for e in events)
    begun = {(e.op, e.log) for e in events if e.kind == "invoke" and e.txn is None and None not in (e.op, e.log)}
    shared = len({op for op, _ in begun}) < len(begun)
    for id_, answer in found.items():
        if shared and id_ == "operations-are-new" and answer.verdict == "holds":
            found[id_] = answer._replace(verdict="undecided")
        if answer.verdict == "holds" and id_ not in GROUND:
            if any(GROUND[each].unsettles & KINDS[id_] for each in broken):
                found[id_] = answer._replace(verdict="undecided")
        elif answer.verdict == "holds" and idle and any(id_ not in GROUND for id_ in only):
            found[id_] = answer._replace(verdict="unexercised")
        if strange and id_ in OF_OPERATIONS:
            found[id_] = _weighed(id_, found[id_])
    return {id_: found[id_] for id_ in only}


def _weighed(id_: str, answer: Answer) -> Answer:
    """What is left of an answer where clients do what no rule is for: it may explain a violation."""
    if answer.verdict == "violated" and OF_OPERATIONS[id_].conclusive:
        return answer
    count = answer.count
    return Answer("undecided", count._replace(violated=0, unjudged=count.unjudged + count.violated))


def _answer(id_: str, logs: list[History], late: list[set[str]]) -> Answer:
    """What is said of all logs together; what breaks a rule of doubt, or comes from before the record, is undecided."""
    counts = []
    for log, begins in zip(logs, late, strict=True):
        c = TWINS[id_](log)
        doubtful = (id_ in LOOKS_BACK and bool(begins)) or (id_ in FROM_START and "running" in begins)
        if c.violated and (id_ in DOUBTFUL or doubtful):
            c = Count(c.judged, 0, c.excused, c.unjudged + c.violated, lacking=1)
        counts.append(c)
    count = total(counts)
    return Answer(count.verdict, count._replace(lacking=0))


def _begins_late(log: History) -> set[str]:
    """Why the record of a log begins late: an operation is open, a node holds something, or nodes are running."""
    starts = TWINS["starts-are-recorded"](log)
    found = {"open"} if TWINS["completes-what-is-open"](log).unjudged else set()
    if all(e.kind != "invoke" for e in log.events) and any(e.kind == "ok" for e in log.events):
        found = {"open"}
    if TWINS["acts-while-it-serves"](log).unjudged:
        found |= {"unserved"}
    if starts.unjudged + starts.violated:
        found |= {"running" if starts.violated or not starts.judged else "holds"}
    return found


def _differ(id_: str, one: Answer, other: Answer) -> bool:
    if id_ in UNCOUNTED:
        one, other = _uncounted(one), _uncounted(other)
    return one[:2] != other[:2]


def _uncounted(answer: Answer) -> Answer:
    """The answer without how many violations there are; an undecided one has them among what could not be judged."""
    count = answer.count._replace(violated=answer.count.violated > 0)
    return answer._replace(count=count._replace(unjudged=0) if answer.verdict == "undecided" else count)


def _settled(fast: Answer, plain: Answer, *, quiet: bool) -> Answer:
    """What the plain judge says where a node's record may end early and the fast one takes that for the reason.

    Which violations that may explain the events tell that show them, of which the plain judge knows nothing.
    """
    if not quiet or (fast.verdict, plain.verdict) != ("undecided", "violated"):
        return plain
    count = plain.count
    return Answer("undecided", count._replace(violated=0, unjudged=count.unjudged + count.violated))


def _unrecorded(fast: Answer, plain: Answer, absent: set[str]) -> Answer:
    """What the plain judge says where a kind of events that a check sees is never recorded, and the fast one takes that
    for what may explain some violations. Which ones rest on what, the plain judge does not know: the fast one has to
    name the kind (history-checks.md#never-recorded)."""
    doubtful, before = plain.count.violated - fast.count.violated, plain.count
    named = {*_NAMED.findall(fast.reason)}
    if doubtful <= 0 or not named or not named <= absent or fast.verdict not in ("violated", "undecided"):
        return plain
    count = before._replace(violated=before.violated - doubtful, unjudged=before.unjudged + doubtful)
    return Answer("violated" if count.violated else "undecided", count)


def disagreements(table: pa.Table, configuration: Mapping[str, Any], about: str) -> list[Disagreement]:
    """Every check about which the two judges differ; not what only follows from another ground to stand on."""
    events = with_values(events_of(table))
    quick = fast(table, configuration)
    quiet = any(falls_quiet(History(log, ())) for log in logs_of(events))
    slow = plain(events, configuration, list(quick))
    slow = {id_: _settled(quick[id_], slow[id_], quiet=quiet) for id_ in quick}
    kinds = {e.kind for e in events}
    slow = {id_: _unrecorded(quick[id_], slow[id_], {*KINDS[id_]} - kinds) for id_ in quick}
    differ = [id_ for id_ in quick if _differ(id_, quick[id_], slow[id_])]
    if any(id_ in GROUND for id_ in differ):
        differ = [id_ for id_ in differ if id_ in GROUND or quick[id_].count != slow[id_].count]
    return [
        Disagreement(id_, about, quick[id_], slow[id_], _first_difference(table, events, configuration, id_))
        for id_ in differ
    ]


def _first_difference(table: pa.Table, events: list[Event], configuration: Mapping[str, Any], id_: str) -> Event:
    agree, differ = 0, len(events)
    while differ - agree > 1:
        middle = (agree + differ) // 2
        quick = fast(table.slice(0, middle), configuration, [id_])[id_]
        if _differ(id_, quick, plain(events[:middle], configuration, [id_])[id_]):
            differ = middle
        else:
            agree = middle
    return events[differ - 1]
