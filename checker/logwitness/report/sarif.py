"""SARIF 2.1.0 for code scanning: each violation is a result of the rule that its check states.

A result points at the line of the last event, where the file is JSON Lines; else at the file, and the message names the
events by ``seq``. Undecided is a result of kind ``open``, as the standard has it; what cannot be read, what had
nothing to judge, the notes on a history and the facts that were not judged are notifications of the tool. What the
baseline has is marked suppressed and unchanged.
Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from loghistory.errors import printable

from ..checks import all_checks
from ..checks.contract import Check, Violation
from ..explain.pages import address, document_address, passages
from ..models.linearizable import LINEARIZABLE
from .baseline import digest
from .results import IDLE_PROBLEM, History, Result, State, shown

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "logwitness/v1"


def sarif(histories: Sequence[History], *, with_baseline: bool) -> bytes:
    """The document, in UTF-8; ``with_baseline``: results say whether they are new."""
    ids = list(dict.fromkeys(result.outcome.id for history in histories for result in history.results))
    places = {id_: place for place, id_ in enumerate(ids)}
    results: list[dict[str, Any]] = []
    notifications: list[dict[str, Any]] = []
    for history in histories:
        notifications += _notifications(history, places)
        for result in history.results:
            results += _results(history, result, places[result.outcome.id], with_baseline)
    driver = {"name": "logwitness", "version": metadata.version("logwitness"), "rules": [_rule(id_) for id_ in ids]}
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": all(history.error is None for history in histories),
                "toolExecutionNotifications": notifications,
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _rule(id_: str) -> dict[str, Any]:
    check = next((each for each in (*all_checks(), LINEARIZABLE) if each.id == id_), None)
    if check is None:
        return {"id": id_, "shortDescription": {"text": id_}}
    source = ", ".join(check.source)
    rule: dict[str, Any] = {
        "id": id_,
        "shortDescription": {"text": check.rule},
        "fullDescription": {"text": f"{check.rule} Source: {source}."},
        "help": _help(check),
        "defaultConfiguration": {"level": "error"},
        "properties": {"source": list(check.source), "tags": ["correctness"]},
    }
    # The standard wants an absolute address, which the pages have only where the distribution has a public home.
    if home := address(check.source[0]) or document_address(check.source):
        rule["helpUri"] = home
    return rule


def _help(check: Check) -> dict[str, str]:
    """What a check judges, and the text of the rules that it cites."""
    needs = ", ".join(check.kinds) or "any events"
    said = f"{check.rule}\nA fact that it judges: {check.fact}.\nIt needs: {needs} with {', '.join(check.columns)}."
    cited = [(each, passages()[each].plain if each in passages() else "") for each in check.source]
    linked = [(f"[{each}]({home})" if (home := address(each)) else f"`{each}`", text) for each, text in cited]
    return {
        "text": "\n\n".join([said, *(f"{each}\n{text}".rstrip() for each, text in cited)]),
        "markdown": "\n\n".join([said, *(f"{each}\n\n{text}".rstrip() for each, text in linked)]),
    }


def _results(history: History, result: Result, place: int, with_baseline: bool) -> list[dict[str, Any]]:
    outcome = result.outcome
    common: dict[str, Any] = {"ruleId": outcome.id, "ruleIndex": place}
    if result.state is State.UNDECIDED:
        text = {"text": f"{printable(history.name)}: undecided: {result.headline}"}
        return [{**common, "kind": "open", "level": "none", "message": text, "locations": [_location(history, None)]}]
    found = []
    for number, violation in enumerate(outcome.violations):
        known = number in result.known
        one: dict[str, Any] = {
            **common,
            "kind": "fail",
            "level": "error",
            "message": {"text": history.sentence_of(violation)},
            "locations": [_location(history, history.line_of(violation))],
            "partialFingerprints": {FINGERPRINT: digest(history.name, outcome.id, violation)},
            "properties": {
                "run": printable(history.name),
                "violated": outcome.violated,
                "unjudged": outcome.unjudged,
            },
        }
        if others := _others(history, violation):
            one["relatedLocations"] = others
        if with_baseline:
            one["baselineState"] = "unchanged" if known else "new"
        if known:
            one["suppressions"] = [{"kind": "external", "justification": "known from the baseline"}]
        found.append(one)
    return found


def _others(history: History, violation: Violation) -> list[dict[str, Any]]:
    """The events before the last one, where their lines are known."""
    found: list[dict[str, Any]] = []
    for seq in violation.events[:-1]:
        if seq in history.lines:
            text = {"text": f"event {seq}"}
            found.append({"id": len(found), "message": text, **_location(history, history.lines[seq])})
    return found


def _location(history: History, line: int | None) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri_of(history.file)}}
    if line is not None:
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical}


def uri_of(path: Path) -> str:
    """The path as a relative URI reference, or an absolute one if it is not below the working directory."""
    place = shown(path)
    words = quote(os.fsencode(place.as_posix()))
    if place.is_absolute():
        return f"file://{words}"
    # A colon in the first part would read as a scheme; quote has escaped it.
    return words


def _notifications(history: History, places: dict[str, int]) -> list[dict[str, Any]]:
    error = history.error
    if error is not None:
        line = error.line if error.place == "line" else None
        return [{"level": "error", "message": {"text": str(error)}, "locations": [_location(history, line)]}]
    found: list[dict[str, Any]] = []
    for result in history.results:
        if result.state is State.REQUIRED:
            text = {"text": f"{printable(history.name)}: {result.outcome.id}: {result.headline}"}
            rule = {"id": result.outcome.id, "index": places[result.outcome.id]}
            found.append({"level": "error", "message": text, "associatedRule": rule})
    if history.idle:
        found.append({"level": "error", "message": {"text": f"{printable(history.name)}: {IDLE_PROBLEM}"}})
    for note in history.remarks:
        message = {"text": f"{printable(history.name)}: {note}"}
        found.append({"level": "note", "message": message, "locations": [_location(history, None)]})
    return found
