"""A behaviour that TLC found, shown to people (a table of steps and changes) and for the checker (a history).

The history has the events that an implementation would have recorded had it behaved like that: positions become
offsets (position 1 is offset 0), an entry's value names it, one step takes one millisecond, and a client reads what a
node begins to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

from loghistory import Acks, Kind, MemorySink, Operation, Recorder
from logspec.errors import SpecError
from logspec.tlavalue import Record
from logspec.tlc import Step

STEP_NANOSECONDS = 1_000_000
_SUCCESS = "success"
_REDUNDANT = frozenset({"saved", "sent", "replies", "asked", "shown"})
"""Variables that follow from the steps; the table of changes is more readable without them."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the table: a step, the action, what changed (``flushed n2: 1 -> 3``); ``step`` 1 is the start."""

    step: int
    action: str
    what: str


def changes(behaviour: Sequence[Step]) -> Iterator[Change]:
    """Yield what each step changes, leaf by leaf; the first step lists the variables that say something."""
    before: dict[str, str] = {}
    for number, step in enumerate(behaviour, 1):
        after = dict(_leaves(step.variables))
        names = [*after, *(name for name in before if name not in after)]
        empty = {"{}", "<<>>", "0", "Nobody", "-"}
        for name in names:
            old, new = before.get(name, "-"), after.get(name, "-")
            if number == 1:
                if new not in empty:
                    yield Change(number, step.action, f"{name} = {new}")
            elif old != new and not (old in empty and new in empty):
                yield Change(number, step.action, f"{name}: {old} -> {new}")
        before = after


def _leaves(variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(variables.items()):
        if name in _REDUNDANT:
            continue
        if isinstance(value, dict) and value and not _is_record(value):
            for key, inner in sorted(value.items(), key=str):
                yield f"{name}[{key}]", show(inner)
        else:
            yield name, show(value)


def _is_record(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, str) for key in value) and not all(_is_node(key) for key in value)


def _is_node(key: object) -> bool:
    return isinstance(key, str) and key[:1] == "n" and key[1:].isdigit()


def show(value: Any) -> str:  # noqa: ANN401
    """Return a value in a short form of TLA+."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, dict):
        if _is_record(value):
            return "[" + ", ".join(f"{name} {show(inner)}" for name, inner in value.items()) + "]"
        return "(" + ", ".join(f"{key}: {show(inner)}" for key, inner in sorted(value.items(), key=str)) + ")"
    if isinstance(value, tuple):
        return "<<" + ", ".join(map(show, value)) + ">>"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(show, value))) + "}"
    return str(value)


@dataclass(frozen=True, slots=True)
class _Node:
    term: int
    voted_for: int | None
    role: str
    log: tuple[tuple[int, int, int], ...]  # term, acks, value
    flushed: int
    commit: int
    visible: int


def to_history(behaviour: Sequence[Step]) -> pa.Table:
    """Return a behaviour of FlushedRaft or AsyncFlush as the table of events of a run.

    A behaviour that breaks a promise of progress ends where nothing happens any more, which is no step of its own.
    Raises SpecError for a behaviour of another module: its states are not those of nodes with flushed logs.
    """
    if not behaviour[0].variables.keys() & {"role", "truncations"} or "flushed" not in behaviour[0].variables:
        raise SpecError("only behaviours of FlushedRaft and AsyncFlush can be written as a run; leave --history out")
    return _Writer().write([step for step in behaviour if step.variables])


def voters_in(history: pa.Table) -> list[int]:
    """The nodes of a model: all of them vote, and each begins with a start."""
    return sorted({node for node in history.column("node").to_pylist() if node is not None})


class _Writer:
    def __init__(self) -> None:
        self.sink = MemorySink()
        self.record = Recorder(self.sink)
        self.time = 0
        self.incarnations: dict[int, int] = {}
        self.operations: dict[tuple[int, int], int] = {}
        self.calls = count()
        self.asked: dict[tuple[int, int], int] = {}

    def write(self, behaviour: Sequence[Step]) -> pa.Table:
        before = _nodes(behaviour[0].variables)
        self._begin(before)
        for number in range(1, len(behaviour)):
            self.time = number * STEP_NANOSECONDS
            old, new = behaviour[number - 1].variables, behaviour[number].variables
            after = _nodes(new)
            restarted = _stop_of(old, new, before, after)
            for node in after:
                if restarted and restarted[0] == node:
                    self._restart(node, restarted[1], after[node])
                else:
                    self._change(node, before[node], after[node])
            self._answers(old, new, after)
            self._reads(old.get("reads", frozenset()), new.get("reads", frozenset()), after)
            before = after
        self.record.close()
        return self.sink.table

    def _event(self, kind: Kind, node: int, state: _Node, **columns: Any) -> None:  # noqa: ANN401
        self.record.event(
            kind,
            time=self.time,
            node=node,
            incarnation=self.incarnations.get(node, 0),
            term=state.term,
            role=state.role,
            dirty=len(state.log) - 1,
            flushed=state.flushed - 1,
            commit=state.commit - 1,
            visible=state.visible - 1,
            **columns,
        )

    def _begin(self, nodes: Mapping[int, _Node]) -> None:
        """Bring every node from nothing to where the behaviour begins: logs first, then flushed, then the rest."""
        empty = _Node(0, None, "follower", (), 0, 0, 0)
        for node in nodes:
            self._event(Kind.START, node, empty)
        stages = [
            {node: _Node(s.term, s.voted_for, s.role, (), 0, 0, 0) for node, s in nodes.items()},
            {node: _Node(s.term, s.voted_for, s.role, s.log, 0, 0, 0) for node, s in nodes.items()},
            {node: _Node(s.term, s.voted_for, s.role, s.log, s.flushed, 0, 0) for node, s in nodes.items()},
            dict(nodes),
        ]
        before = dict.fromkeys(nodes, empty)
        for stage in stages:
            for node, state in stage.items():
                self._change(node, before[node], state)
            before = stage

    def _restart(self, node: int, kind: Kind, after: _Node) -> None:
        self.record.event(kind, time=self.time, node=node, incarnation=self.incarnations.get(node, 0))
        self.incarnations[node] = self.incarnations.get(node, 0) + 1
        self._event(Kind.START, node, after)

    def _change(self, node: int, old: _Node, new: _Node) -> None:
        if new.term != old.term:
            self._event(Kind.TERM, node, _with(new, old, role=old.role))
        if new.role not in (old.role, "leader"):
            self._event(Kind.ROLE, node, _with(new, old))
        if new.voted_for != old.voted_for and new.voted_for is not None:
            self._event(Kind.VOTE, node, _with(new, old), peer=new.voted_for)
        if new.role == "leader" != old.role:
            self._event(Kind.LEADER, node, _with(new, old))
        kept = 0
        while kept < min(len(old.log), len(new.log)) and old.log[kept] == new.log[kept]:
            kept += 1
        if kept < len(old.log):
            cut = _with(new, old, log=new.log[:kept], flushed=new.flushed, visible=new.visible)
            self._event(Kind.TRUNCATE, node, cut, offset=kept)
        for at in range(kept, len(new.log)):
            grown = _with(new, old, log=new.log[: at + 1], flushed=min(old.flushed, kept))
            self._append(node, grown, at)
        if new.flushed > min(old.flushed, kept) or (new.flushed != old.flushed and kept == len(old.log)):
            self._event(Kind.FLUSH, node, _with(new, old, log=new.log, flushed=new.flushed))
        if new.commit != old.commit:
            self._event(Kind.COMMIT, node, _with(new, old, log=new.log, flushed=new.flushed, commit=new.commit))
        if new.visible > old.visible:
            self._event(Kind.VISIBLE, node, new)
            self._read(node, new)

    def _read(self, node: int, state: _Node) -> None:
        """What became visible is read, once, by a separate client."""
        operation = self._ask(node, Operation.READ)
        self._return(operation, node, Operation.READ, state.log[: state.visible])

    def _reads(self, old: AbstractSet[Record], new: AbstractSet[Record], nodes: Mapping[int, _Node]) -> None:
        """Read indexes of MCReads: asked for, served with what is committed, or refused by who leads no longer."""
        callers = {(_number(read["node"]), read["term"]) for read in new if not read["stale"]}
        for caller in callers - set(self.asked):
            self.asked[caller] = self._ask(caller[0], Operation.READ_LINEARIZABLE)
        for caller in [caller for caller in self.asked if caller not in callers]:
            (node, term), operation = caller, self.asked.pop(caller)
            state = nodes[node]
            if (state.role, state.term) == ("leader", term):
                self._return(operation, node, Operation.READ_LINEARIZABLE, state.log[: state.commit])
            else:
                self.record.event(
                    Kind.FAIL,
                    time=self.time,
                    process=operation,
                    op=operation,
                    node=node,
                    f=Operation.READ_LINEARIZABLE,
                    reason="not_leader",
                )

    def _ask(self, node: int, f: Operation) -> int:
        operation = next(self.calls)
        common: dict[str, Any] = {"process": operation, "op": operation, "node": node, "f": f}
        self.record.event(Kind.INVOKE, time=self.time, offset=0, **common)
        return operation

    def _return(self, operation: int, node: int, f: Operation, log: Sequence[tuple[int, int, int]]) -> None:
        common: dict[str, Any] = {"process": operation, "op": operation, "node": node, "f": f}
        read = [(at, value) for at, (_, _, value) in enumerate(log) if value >= 0]
        for at, value in read:
            self.record.event(Kind.OBSERVE, time=self.time, offset=at, last_offset=at, value=value, **common)
        self.record.event(Kind.OK, time=self.time, offset=len(log), count=len(read), **common)

    def _append(self, node: int, state: _Node, at: int) -> None:
        term, acks, value = state.log[at]
        columns: dict[str, Any] = {"offset": at, "entry_term": term, "acks": acks}
        if value >= 0:
            columns["value"] = value
        if state.role == "leader" and term == state.term and value >= 0 and (at, term) not in self.operations:
            operation = next(self.calls)
            self.operations[at, term] = operation
            self.record.event(
                Kind.INVOKE,
                time=self.time,
                process=operation,
                op=operation,
                node=node,
                f=Operation.APPEND,
                value=value,
                acks=acks,
                count=1,
            )
            self._event(Kind.APPEND, node, state, **columns)
            if acks != Acks.ALL:
                self._answer(node, state, at, term, acks, _SUCCESS)
        else:
            self._event(Kind.APPEND, node, state, **columns)

    def _answers(self, old: Mapping[str, Any], new: Mapping[str, Any], nodes: Mapping[int, _Node]) -> None:
        """``answered`` grew: the node at which the caller waits answers."""
        for answer in sorted(new.get("answered", frozenset()) - old.get("answered", frozenset()), key=repr):
            caller = Record(index=answer["index"], term=answer["term"])
            for name, waiting in new["waiting"].items():
                if caller in waiting:
                    node = _number(name)
                    outcome = answer["outcome"]
                    self._answer(node, nodes[node], caller["index"] - 1, caller["term"], Acks.ALL, outcome)

    def _answer(self, node: int, state: _Node, offset: int, term: int, acks: int, outcome: str) -> None:
        self._event(Kind.ACKED, node, state, offset=offset, entry_term=term, acks=acks, reason=outcome)
        operation = self.operations.get((offset, term))
        if operation is not None:
            common: dict[str, Any] = {"process": operation, "op": operation, "node": node, "f": Operation.APPEND}
            if outcome == _SUCCESS:
                self.record.event(Kind.OK, time=self.time, offset=offset, term=term, **common)
            else:
                self.record.event(Kind.FAIL, time=self.time, reason=outcome, **common)


def _with(
    new: _Node,
    old: _Node,
    *,
    role: str | None = None,
    log: tuple[tuple[int, int, int], ...] | None = None,
    flushed: int | None = None,
    commit: int | None = None,
    visible: int | None = None,
) -> _Node:
    """The state between two: term and vote are new already, everything else is still old."""
    return _Node(
        new.term,
        new.voted_for,
        new.role if role is None else role,
        old.log if log is None else log,
        old.flushed if flushed is None else flushed,
        old.commit if commit is None else commit,
        min(old.visible, new.visible) if visible is None else visible,
    )


def _number(name: object) -> int:
    return int(str(name)[1:]) - 1


def _nodes(state: Mapping[str, Any]) -> dict[int, _Node]:
    if "role" not in state:  # AsyncFlush: one log, its entries numbered
        log = tuple((1, Acks.ALL, number) for number in state["log"])
        return {0: _Node(1, None, "follower", log, state["flushed"], 0, 0)}
    nodes = {}
    for name in state["role"]:
        vote = state["vote"][name]
        log = tuple(
            (entry["term"], entry["acks"], _value(state, name, at)) for at, entry in enumerate(state["log"][name])
        )
        nodes[_number(name)] = _Node(
            state["term"][name],
            None if vote == "Nobody" else _number(vote),
            state["role"][name],
            log,
            state["flushed"][name],
            state["commit"][name],
            min(state["majorityReplicated"][name], state["visibilityUpperBound"][name]),
        )
    return dict(sorted(nodes.items()))


def _value(state: Mapping[str, Any], name: str, at: int) -> int:
    """A name for the entry: position and term identify it, as a term has one leader; the first of a term is not a
    client's."""
    log = state["log"][name]
    term = log[at]["term"]
    first = at == 0 or log[at - 1]["term"] != term
    return -1 if first else term * 1000 + at


def _stop_of(
    old: Mapping[str, Any], new: Mapping[str, Any], before: Mapping[int, _Node], after: Mapping[int, _Node]
) -> tuple[int, Kind] | None:
    """Which node restarted in this step and how, if one did. Only one node moves in a step."""
    if new.get("powerLosses", 0) == old.get("powerLosses", 0) and new.get("crashes", 0) == old.get("crashes", 0):
        return None
    kind = Kind.POWER_LOSS if new.get("powerLosses", 0) > old.get("powerLosses", 0) else Kind.CRASH
    moved = [node for node in after if before[node] != after[node]]
    fresh = [node for node in after if after[node].commit == 0]
    return (moved or fresh or list(after))[0], kind
