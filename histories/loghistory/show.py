"""Events as lines of a table for people: when, who, what, with the columns that carry anything."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from .columns import Row, to_rows
from .errors import printable
from .schema import SCHEMA, Acks, Kind
from .source import RunSource

_PLACE = {name: place for place, name in enumerate(SCHEMA.names)}
_LEFT = 41
_TITLE = f"{'seq':>8} {'seconds':>13} {'who':<7}{'kind':<10}"
_ACKS = {Acks.ALL: "all", Acks.LEADER: "leader", Acks.NONE: "none"}
_ELSEWHERE = frozenset({"seq", "time", "logical", "kind", "offset", "last_offset"})


@dataclass(frozen=True, slots=True)
class Selection:
    """Which events to show: ``seq`` from ``first`` to ``last`` (inclusive), kinds and nodes; None: no limit."""

    first: int | None = None
    last: int | None = None
    kinds: Collection[Kind] | None = None
    nodes: Collection[int] | None = None


def table_lines(run: RunSource, selection: Selection, width: int | None = 80) -> Iterator[str]:
    """The table, line by line, no line wider than ``width`` columns (80 or more; None: a line for each event).

    Times are seconds since the first event of the run; a client shows as c7, a node as n1; what does not fit into a
    line goes on in the next one.
    """
    yield _TITLE + "what"
    start: int | None = None
    for batch in run.batches():
        if start is None:
            start = batch.column("time")[0].as_py()
        if selection.last is not None and batch.column("seq")[0].as_py() > selection.last:
            return
        for row in to_rows(_selected(batch, selection)):
            yield from _lines(row, start, width)


def _selected(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    wanted = pc.is_valid(batch.column("seq"))
    if selection.first is not None:
        wanted = pc.and_(wanted, pc.greater_equal(batch.column("seq"), selection.first))
    if selection.last is not None:
        wanted = pc.and_(wanted, pc.less_equal(batch.column("seq"), selection.last))
    if selection.kinds is not None:
        kinds = pa.array([str(kind) for kind in selection.kinds], pa.string())
        wanted = pc.and_(wanted, pc.is_in(batch.column("kind").cast(pa.string()), kinds))
    if selection.nodes is not None:
        wanted = pc.and_(wanted, pc.is_in(batch.column("node"), pa.array(selection.nodes, pa.int32())))
    return batch.filter(wanted)


def _lines(row: Row, start: int, width: int | None) -> Iterator[str]:
    values = {name: value for name, value in zip(SCHEMA.names, row, strict=True) if value is not None}
    who = ""
    shown = set(_ELSEWHERE)
    if "process" in values:
        who = f"c{values['process']}"
        shown.add("process")
    elif "node" in values:
        who = f"n{values['node']}"
        shown.add("node")
    left = f"{values['seq']:>8} {(values['time'] - start) / 1e9:>13.6f} {who:<6} {values['kind']:<10}"
    what = []
    for name, value in values.items():
        if name == "offset":
            what.append(f"offset={_offsets(value, values.get('last_offset'))}")
        elif name == "last_offset" and "offset" not in values:
            what.append(f"last_offset={value}")
        elif name == "acks":
            what.append(f"acks={_ACKS.get(value, value)}")
        elif name not in shown:
            what.append(f"{name}={printable(str(value))}")
    if width is None:
        yield f"{left:<{_LEFT}}{' ' if len(left) >= _LEFT else ''}{' '.join(what)}".rstrip()
        return
    first, *rest = textwrap.wrap(" ".join(what), width - _LEFT, break_on_hyphens=False) or [""]
    # A long kind or number pushes the text to the right; then it starts on a line of its own.
    if len(left) >= _LEFT:
        yield left.rstrip()
        yield " " * _LEFT + first
    else:
        yield f"{left:<{_LEFT}}{first}".rstrip()
    for line in rest:
        yield " " * _LEFT + line


def _offsets(first: int, last: int | None) -> str:
    return str(first) if last is None or last == first else f"{first}..{last}"
