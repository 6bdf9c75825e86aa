"""JUnit XML: a test suite for each history, a test case for each check; a violation is a failure, with its events.

There is a failure or an error exactly where the exit status is not 0: undecided, unreadable and "nothing was judged"
are errors; unexercised and known from the baseline are skipped. Notes, and the facts that could not be judged, are the
output of the suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from loghistory.errors import printable

from .results import IDLE_PROBLEM, History, Result, State

_COUNTED = ("failure", "error", "skipped")


def junit(histories: Sequence[History]) -> bytes:
    """The document, in UTF-8. Characters that XML cannot hold appear as escapes."""
    root = ElementTree.Element("testsuites", name="logwitness")
    for history in histories:
        _suite(root, history)
    _count(root)
    del root.attrib["skipped"]  # which schemas know for a suite alone
    for suite in root:
        _count(suite)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _count(element: ElementTree.Element) -> None:
    element.set("tests", str(len(list(element.iter("testcase")))))
    for tag, attribute in zip(_COUNTED, ("failures", "errors", "skipped"), strict=True):
        element.set(attribute, str(len(list(element.iter(tag)))))


def _suite(root: ElementTree.Element, history: History) -> None:
    name = printable(history.name)
    suite = ElementTree.SubElement(root, "testsuite", name=name, file=printable(str(history.file)))
    if history.error is not None:
        _wrong(_case(suite, name, "readable"), "error", "unreadable", str(history.error))
        return
    for result in history.results:
        _result(_case(suite, name, result.outcome.id), history, result)
    if history.idle:
        _wrong(_case(suite, name, "exercised"), "error", "unexercised", IDLE_PROBLEM)
    if history.remarks:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(history.remarks)


def _case(suite: ElementTree.Element, run: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=run, name=name)


def _wrong(case: ElementTree.Element, tag: str, kind: str, message: str, text: str | None = None) -> None:
    found = ElementTree.SubElement(case, tag, type=kind, message=message)
    found.text = text


def _result(case: ElementTree.Element, history: History, result: Result) -> None:
    outcome = result.outcome
    if result.state is State.FAILED:
        sentences = [
            ("(known) " if place in result.known else "") + history.sentence_of(violation)
            for place, violation in enumerate(outcome.violations)
        ]
        if outcome.violated > len(sentences):
            sentences.append(f"and {outcome.violated - len(sentences):,} more")
        _wrong(case, "failure", "violated", result.headline, "\n".join(sentences))
    elif result.state in (State.UNDECIDED, State.REQUIRED):
        kind = "undecided" if result.state is State.UNDECIDED else "unexercised"
        _wrong(case, "error", kind, result.headline)
    elif result.state is State.KNOWN:
        ElementTree.SubElement(case, "skipped", message=f"known from the baseline: {result.headline}")
    elif result.state is State.IDLE:
        ElementTree.SubElement(case, "skipped", message=f"unexercised: {result.headline}")
