"""Workflow commands that GitHub shows beside the files of a change.

What a history holds is foreign text. It is escaped here, and the report for people, which quotes it too, stands
between `silence` and `listen`, so that no line of it is taken for a command.
"""

from __future__ import annotations

from collections.abc import Iterator

from loghistory.errors import printable

from .results import IDLE_PROBLEM, History, State, shown


def silence(token: str) -> str:
    """The line after which GitHub takes nothing for a command until `listen` with the same token."""
    return f"::stop-commands::{token}"


def listen(token: str) -> str:
    """The line that ends `silence`; commands count again after it."""
    return f"::{token}::"


def annotations_of(history: History) -> Iterator[str]:
    """The commands, a line each: an error for what fails the gate, a notice for what the baseline has."""
    if history.error is not None:
        line = history.error.line if history.error.place == "line" else None
        yield _command("error", history, line, "unreadable", str(history.error))
        return
    if history.idle:
        yield _command("error", history, None, "unexercised", f"{history.name}: {IDLE_PROBLEM}")
    for result in history.results:
        id_ = result.outcome.id
        if result.state in (State.UNDECIDED, State.REQUIRED):
            title = f"{id_}: {'undecided' if result.state is State.UNDECIDED else 'unexercised'}"
            yield _command("error", history, None, title, result.headline)
        elif result.state is State.KNOWN:
            yield _command("notice", history, None, f"{id_}: known", result.headline)
        elif result.state is State.FAILED:
            new = [v for place, v in enumerate(result.outcome.violations) if place not in result.known]
            for violation in new:
                yield _command("error", history, history.line_of(violation), id_, history.sentence_of(violation))
            if not new or result.outcome.violated > len(result.outcome.violations):
                yield _command("error", history, None, id_, result.headline)


def _command(name: str, history: History, line: int | None, title: str, message: str) -> str:
    properties = {"file": printable(shown(history.file).as_posix())}
    if line is not None:
        properties["line"] = str(line)
    properties["title"] = title
    words = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {words}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
