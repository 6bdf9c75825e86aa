"""What a history shows to have happened without an event that says so. Source: raft.md#not-recorded."""

from __future__ import annotations

from collections.abc import Callable

from plain import History
from replay import Step, replay


def _any(history: History, happened: Callable[[Step], bool]) -> bool:
    return any(happened(step) for step in replay(history)[0])


def commits_move(step: Step) -> bool:
    """Whether a node moves its commit index, as far as what was before is known."""
    return step.moved("commit") and not step.first


def leaders_missing(history: History) -> bool:
    """Nodes lead, or commit indexes move, but no leader event is recorded."""
    led = _any(history, lambda step: step.takes_office or commits_move(step))
    return led and not history.has("leader")


def commits_missing(history: History) -> bool:
    """Commit indexes move, but no append or no commit event is recorded."""
    return _any(history, commits_move) and not (history.has("append") and history.has("commit"))


def visible_missing(history: History) -> bool:
    """Visible offsets move, but no visible event is recorded; a commit may state that it moves visible with it."""

    def moves(step: Step) -> bool:
        e = step.event
        return step.moved("visible") and not step.first and (e.kind != "commit" or e.visible > e.commit)

    return _any(history, moves) and not history.has("visible")


def flushes_unseen(step: Step) -> bool:
    """Whether the flushed offset rises by an event that is none of those that raise it."""
    e = step.event
    if not step.of_node or step.first:
        return False
    rises = step.before.flushed is None or e.flushed > step.before.flushed
    by_append = e.kind == "append" and e.flushed == e.last
    return rises and e.kind not in ("flush", "start", "trim") and not by_append


def flushes_missing(history: History) -> bool:
    """Flushed offsets move, but no flush is recorded."""
    return _any(history, flushes_unseen) and not history.has("flush")


def answers_missing(history: History) -> bool:
    """What clients appended is committed, but no answer to them is recorded."""
    committed = replay(history)[0][-1].then_committed if history.events else None
    return any(b.value is not None for b in committed.log()) and not history.has("acked") if committed else False
