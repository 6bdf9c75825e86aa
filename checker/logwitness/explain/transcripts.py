"""Small histories as text: one event a line, grouped into cases.

    == CHECK VERDICT [also OTHER ...] [excused N]     begins a case; blank lines and # lines are skipped
    config write_caching=true voters=1,2,3 progress_bound=1000000
    n1 start                                          node 1; its state is carried from event to event
    n1 append 0-2 t1 v10 all                          offsets, term, value, acks (all, 1 or 0)
    n1 commit 2 flushed=1                             name=value sets any column
    n1 send 2 f=heartbeat message=7                   to node 2
    n1 transfer 2 offset=2                            it hands its leadership on to node 2
    n1 configuration 3 text=1,2,3 old 1,2             the entry at offset 3 is its configuration
    n1 apply 0-2 commit=2                             its state machine has applied these
    n1 snapshot 2 t1 reason=taken text=1,2,3          it keeps a snapshot of all up to an offset
    n1 enqueue v10 all bytes=40 reserved=40           an append passed stage one
    n1 hand_over 0-2 count=1 reserved=0               nothing is held for these offsets any more
    c7 append v11 1                                   client 7 invokes
    c7 sees 0-2 v10                                   a batch that its read returned
    c7 ok 3 t1
    n1 heard 2 stamp=100                              server 1 of pull queries received a heartbeat of server 2
    c7 query text={"keys":["k"]}                      client 7 asks; a text reaches to the end of the line
    - changelog partition=0 offset=0                  what a group shows
    n8 stream_gap f=hole offset=e1n2 op=0             the reader on node 8 got a gap; an LSN is an epoch and an esn
    - fault wipe n2                                   the surroundings
    * n1 flush 5                                      a star: this event belongs to what the violation shows

A violated case gives the count after the verdict if it is not 1. The voters are the nodes named, unless others are
given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from loghistory import SCHEMA
from loghistory.vocabularies import all_vocabularies

from ..checks import families
from ..checks.contract import Family

HISTORIES = Path(__file__).parent / "histories"
_STATE = ("term", "dirty", "flushed", "commit", "visible")
_OPERATIONS = {"append", "read", "read_committed", "read_linearizable", "tail", "final_read", "query", "put"}
_OPERATIONS |= {"append_record", "read_stream", "trim_log"}
_ANSWERS = {"sees", "rows", "ok", "fail", "info"}
_ABBREVIATED = {"clients", "elections", "log", "membership", "memory", "messages", "nodes", "snapshots", "surroundings"}
_WRITTEN_OUT = {kind.word for each in all_vocabularies() if each.name not in _ABBREVIATED for kind in each.kinds}
"""Kinds of events whose columns a line names one by one: those of every other vocabulary."""


@dataclass
class Case:
    """One history and what is expected of it."""

    place: str
    check: str
    verdict: str
    count: int = 1
    also: frozenset[str] = frozenset()
    excused: int = 0
    configuration: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def believe_nodes(self) -> None:
        """Let the nodes named be the voters, unless voters were given."""
        nodes = sorted({row["node"] for row in self.rows if "node" in row and "process" not in row})
        if nodes:
            self.configuration.setdefault("voters", nodes)

    @property
    def table(self) -> pa.Table:
        """The history, in the schema of the run."""
        return pa.Table.from_pylist(self.rows, schema=SCHEMA)


class _Writer:
    """Makes events of lines, and carries the state of nodes and clients."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.nodes: dict[int, dict[str, int]] = {}
        self.incarnations: dict[int, int] = {}
        self.open: dict[int, tuple[int, str]] = {}
        self.operations = 0

    def line(self, text: str) -> None:
        head, _, said = text.partition(" text=")
        who, kind, *words = head.split()
        row: dict[str, Any] = {"seq": len(self.case.rows), "time": 1000 * len(self.case.rows), "kind": kind}
        given: dict[str, Any] = {"text": said} if said else {}
        for word in words[:]:
            if match := re.fullmatch(r"(\w+)=(.*)", word):
                name, value = match.groups()
                given[name] = _number(value)
                words.remove(word)
        if who == "-" and kind in _WRITTEN_OUT:
            pass
        elif who == "-":
            row["f"] = words[0]
            if len(words) > 1:
                row["node"] = int(words[1][1:])
        elif who[0] == "n":
            self._node(int(who[1:]), row, words, given)
        else:
            self._client(int(who[1:]), row, words)
        row.update(given)
        self.case.rows.append({name: value for name, value in row.items() if value is not None})

    def _node(self, node: int, row: dict[str, Any], words: list[str], given: dict[str, Any]) -> None:
        row["node"] = node
        if node in self.incarnations:
            row["incarnation"] = self.incarnations[node]
        state = self.nodes.setdefault(node, {"term": 0, "dirty": -1, "flushed": -1, "commit": -1, "visible": -1})
        kind = row["kind"]
        first = words[0] if words else ""
        if kind in _WRITTEN_OUT:
            if kind in ("serve", "takes_part"):
                row["incarnation"] = self.incarnations[node] = self.incarnations.get(node, -1) + 1
            if first:
                row["peer"] = int(first)
            return
        if kind in ("stop", "crash", "power_loss", "storage_error", "wait", "withdraw", "read_back", "part", "counted"):
            return
        if kind in ("enqueue", "hand_over"):
            _batch(row, words)
            return
        if kind in ("send", "receive"):
            row["peer"] = int(first)
            return
        if kind == "start":
            row["incarnation"] = self.incarnations[node] = self.incarnations.get(node, -1) + 1
            state.update(commit=-1, visible=-1)
            state["dirty"] = given.get("dirty", state["dirty"])
            state["flushed"] = state["dirty"]
        elif kind == "term":
            state["term"] = int(first)
        elif kind in ("vote", "transfer"):
            row["peer"] = int(first)
        elif kind == "role":
            row["role"] = first
        elif kind in ("append", "acked"):
            _batch(row, words)
            if kind == "append":
                state["dirty"] = row["last_offset"]
            else:
                row["reason"] = words[-1]
        elif kind in ("apply", "snapshot", "gap"):
            _batch(row, words)
        elif kind == "configuration":
            row["offset"] = int(first)
        elif kind in ("trim", "compact"):
            row["offset"], row["last_offset"] = _range(first)
        elif kind == "flush":
            state["flushed"] = int(first) if first else state["dirty"]
        elif kind == "truncate":
            row["offset"] = int(first)
            for name in ("dirty", "flushed", "visible"):
                state[name] = min(state[name], row["offset"] - 1)
        elif kind in ("commit", "visible"):
            state[kind] = int(first)
        elif kind != "leader":
            raise ValueError(f"unknown kind {kind}")
        state.update({name: given[name] for name in _STATE if name in given})
        row.update({name: state[name] for name in _STATE})
        if kind in ("commit", "visible") or state["visible"] >= 0:
            return
        del row["visible"]

    def _client(self, client: int, row: dict[str, Any], words: list[str]) -> None:
        row["process"] = client
        kind = row["kind"]
        if kind in _OPERATIONS:
            row["kind"], row["f"] = "invoke", kind
            row["op"] = self.operations
            self.open[client] = (self.operations, kind)
            self.operations += 1
            if kind == "append":
                _batch(row, words)
            elif words:
                row["offset"] = int(words[0])
            return
        row["op"], row["f"] = self.open[client]
        if kind == "rows":
            del row["f"]
        elif kind == "sees":
            row["kind"] = "observe"
            _batch(row, words)
        elif kind == "ok":
            _batch(row, words)
            if "entry_term" in row:
                row["term"] = row.pop("entry_term")
        elif kind in ("fail", "info"):
            row["reason"] = words[0] if words else None
        else:
            raise ValueError(f"a client does no {kind}: it does {', '.join(sorted(_OPERATIONS | _ANSWERS))}")


def _number(value: str) -> int | str:
    """The number that a value is, or the LSN, or the word."""
    if lsn := re.fullmatch(r"e(\d+)n(\d+)", value):
        return (int(lsn[1]) << 32) + int(lsn[2])
    return int(value) if re.fullmatch(r"-?\d+", value) else value


def _range(word: str) -> tuple[int, int]:
    first, _, last = word.partition("-")
    return int(first), int(last or first)


def _batch(row: dict[str, Any], words: list[str]) -> None:
    for word in words:
        if re.fullmatch(r"\d+(-\d+)?", word) and "offset" not in row and row["kind"] not in ("invoke", "enqueue"):
            row["offset"], row["last_offset"] = _range(word)
        elif re.fullmatch(r"t\d+", word):
            row["entry_term"] = int(word[1:])
        elif re.fullmatch(r"v-?\d+", word):
            row["value"] = int(word[1:])
        elif word in ("all", "1", "0"):
            row["acks"] = -1 if word == "all" else int(word)


def cases(file: Path) -> Iterator[Case]:
    """The cases of a file, in order. Raises ValueError for what stands before the first one."""
    return _cases(file.stem, file.read_text())


def _cases(name: str, written: str) -> Iterator[Case]:
    case: Case | None = None
    writer: _Writer | None = None
    for number, line in enumerate(written.splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("=="):
            if case is not None:
                case.believe_nodes()
                yield case
            case = _header(f"{name}:{number}", text[2:].split())
            writer = _Writer(case)
            continue
        if case is None or writer is None:
            raise ValueError(f"{name}:{number}: before the first case")
        case.lines.append(text)
        if text.startswith("config"):
            case.configuration |= dict(_setting(word) for word in text.split()[1:])
        else:
            if text.startswith("*"):
                case.shown.append(len(case.rows))
                text = text[1:].strip()
            writer.line(text)
    if case is not None:
        case.believe_nodes()
        yield case


def _header(place: str, words: list[str]) -> Case:
    case = Case(place, words[0], words[1])
    rest = words[2:]
    if rest and rest[0].isdigit():
        case.count = int(rest.pop(0))
    if "excused" in rest:
        at = rest.index("excused")
        case.excused = int(rest[at + 1])
        del rest[at : at + 2]
    if rest:
        assert rest[0] == "also", f"{place}: {rest}"
        case.also = frozenset(rest[1:])
    return case


def _setting(word: str) -> tuple[str, Any]:
    name, value = word.split("=", 1)
    if name == "voters":
        return name, [int(node) for node in value.split(",")]
    if value.startswith("{"):
        return name, json.loads(value)
    return name, int(value) if value.isdigit() else value == "true"


def history(lines: str) -> Case:
    """A case without expectations, of lines separated by ``|``."""
    case = Case("", "", "")
    writer = _Writer(case)
    for line in lines.split("|"):
        writer.line(line)
    case.believe_nodes()
    return case


def all_cases() -> list[Case]:
    """The cases of all files in `HISTORIES`, sorted by the name of the file, and those that families bring along."""
    found = [case for file in sorted(HISTORIES.glob("*.txt")) for case in cases(file)]
    return found + [case for family in families() for case in cases_of(family)]


def cases_of(family: Family) -> list[Case]:
    """The cases that a family brings along. Raises ValueError, in one line, for what is not in the notation."""
    try:
        return [*_cases(family.name, family.histories)]
    except (ValueError, LookupError, TypeError, AssertionError) as problem:
        raise ValueError(f"histories of the family {family.name}: {problem}") from problem
