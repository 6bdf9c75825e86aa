"""What a run does that does not get on (history-checks.md#livelock): which steps repeat, and in what state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from quorumlog.simulation.host import Host
from quorumlog.simulation.loop import Simulation
from quorumlog.simulation.node import Node

_STEPS = 1000
_SHOWN = 4

State = dict[str, Any]


def livelock_sentence(simulation: Simulation, nodes: Sequence[Node]) -> str:
    """Let a run in a livelock go on for some steps, and say which of them repeat, and what becomes of their nodes."""
    since, before = simulation.now, _states(nodes)
    counts: Counter[str] = Counter()
    concerned: set[int] = set()
    steps = simulation.watch(_STEPS)
    for callback, args in steps:
        step, node = _described(callback, args)
        counts[step] += 1
        concerned.add(node)
    repeated = ", ".join(f"{number} of them {step}" for step, number in counts.most_common(_SHOWN))
    passed = f"from {since / 1e9:.9g} s on {len(steps)} steps take {simulation.now - since} ns of virtual time"
    after = _states(nodes)
    known = sorted(concerned & {*before} & {*after})
    states = [f"; {_moved(number, before[number], after[number])}" for number in known]
    return f"the run does not get on: {passed}, {repeated}{''.join(states)}"


def _states(nodes: Sequence[Node]) -> dict[int, State]:
    return {node.number: node.state() for node in nodes if node.host.running}


def _moved(number: int, before: State, after: State) -> str:
    """A node's state, and what of it changed."""
    shown = [f"{name} {was}" + (f" to {after[name]}" if after[name] != was else "") for name, was in before.items()]
    return f"node {number} {'stays at' if before == after else 'moves:'} {', '.join(shown)}"


def _described(callback: Callable[..., None], args: tuple[Any, ...]) -> tuple[str, int]:
    """A step in words, and the number of the node that it happens on; -1 if it is no node's."""
    if getattr(callback, "__func__", None) is Host.due:
        _, callback, args = args
    name = getattr(callback, "__name__", "step").strip("_").replace("_", " ")
    if name == "deliver":
        source, target, message = args
        return f"{_word(message)} from node {source} to node {target}", target
    owner = getattr(callback, "__self__", None)
    words = " ".join([name, *map(_word, args)])
    return (f"{words} of node {owner.number}", owner.number) if isinstance(owner, Node) else (words, -1)


def _word(argument: object) -> str:
    if isinstance(argument, tuple) and argument:
        return _word(argument[-1])  # a message with its number
    return str(argument) if isinstance(argument, str | int) else type(argument).__name__


__all__ = ["livelock_sentence"]
