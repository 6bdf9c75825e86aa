"""JUnit, SARIF and workflow commands about histories whose every name and value means harm to them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logwitness.cli import main

HOSTILE = [
    "]]>",
    "<![CDATA[",
    "\"&<>'",
    "%0A::error::x",
    "\n::error title=x::y",
    "\r\n",
    "::stop-commands::x",
    "\x00\x1b[31m",
]
HOSTILE += [
    "\u2028\x85",
    "\ufffe\uffff",
    "%25,:",
    "{{github.token}}",
    "<script>",
    "file:///etc/passwd",
    "..",
    "-",
    "a" * 3000,
]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20), st.lists(st.sampled_from(HOSTILE)).map("".join))

# What the schema of SARIF 2.1.0 says of the objects used: which members there may be (it allows no others), which
# must be, and the words of an enumeration.
_MESSAGE = {"text", "markdown", "id", "arguments", "properties"}
SARIF: dict[str, dict[str, Any]] = {
    "log": {"must": {"version", "runs"}, "may": {"$schema", "inlineExternalProperties", "properties"}},
    "run": {
        "must": {"tool"},
        "may": {"invocations", "results", "columnKind", "artifacts", "properties", "automationDetails"},
    },
    "tool": {"must": {"driver"}, "may": {"extensions", "properties"}},
    "driver": {
        "must": {"name"},
        "may": {"version", "semanticVersion", "rules", "informationUri", "organization", "fullName", "properties"},
    },
    "rule": {
        "must": {"id"},
        "may": {"name", "shortDescription", "fullDescription", "help", "helpUri", "defaultConfiguration", "properties"},
    },
    "invocation": {"must": {"executionSuccessful"}, "may": {"toolExecutionNotifications", "exitCode", "properties"}},
    "notification": {
        "must": {"message"},
        "may": {"level", "locations", "associatedRule", "descriptor", "timeUtc", "properties"},
    },
    "result": {
        "must": {"message"},
        "may": {
            *("ruleId", "ruleIndex", "kind", "level", "locations", "relatedLocations", "partialFingerprints"),
            *("baselineState", "suppressions", "properties"),
        },
    },
    "location": {"must": set(), "may": {"id", "physicalLocation", "logicalLocations", "message", "properties"}},
    "physicalLocation": {"must": set(), "may": {"artifactLocation", "region", "contextRegion", "properties"}},
    "artifactLocation": {"must": set(), "may": {"uri", "uriBaseId", "index", "properties"}},
    "region": {"must": set(), "may": {"startLine", "startColumn", "endLine", "endColumn", "snippet", "properties"}},
    "message": {"must": {"text"}, "may": _MESSAGE},
    "suppression": {"must": {"kind"}, "may": {"justification", "status", "location", "guid", "properties"}},
}
WORDS = {
    "kind": {"notApplicable", "pass", "fail", "review", "open", "informational", "inSource", "external"},
    "level": {"none", "note", "warning", "error"},
    "baselineState": {"new", "unchanged", "updated", "absent"},
    "columnKind": {"utf16CodeUnits", "unicodeCodePoints"},
}
_MEMBERS = {
    "runs": "run",
    "tool": "tool",
    "driver": "driver",
    "rules": "rule",
    "invocations": "invocation",
    "toolExecutionNotifications": "notification",
    "results": "result",
    "locations": "location",
    "relatedLocations": "location",
    "physicalLocation": "physicalLocation",
    "artifactLocation": "artifactLocation",
    "region": "region",
    "message": "message",
    "shortDescription": "message",
    "fullDescription": "message",
    "help": "message",
    "suppressions": "suppression",
}
"""What the members of these names are, or are lists of."""

JUNIT: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"name", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "file", "tests", "failures", "errors", "skipped"}, {"testcase", "system-out"}),
    "testcase": ({"name", "classname"}, {"failure", "error", "skipped"}),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}
"""Attributes and children that the usual readers of JUnit XML know: those of the schema (junit-10.xsd) by which Jenkins
refuses a file."""
XML_TEXT = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def _keeps_sarif(value: Any, kind: str) -> None:  # noqa: ANN401
    assert isinstance(value, Mapping)
    rules = SARIF[kind]
    assert rules["must"] <= value.keys() <= rules["must"] | rules["may"], (kind, value.keys())
    for name, member in value.items():
        if name in WORDS:
            assert member in WORDS[name]
        if name in _MEMBERS:
            for each in member if isinstance(member, list) else [member]:
                _keeps_sarif(each, _MEMBERS[name])
    if kind == "region":
        assert value["startLine"] >= 1
    if kind == "artifactLocation":
        # A URI reference as RFC 3986 has it, whatever the file is called.
        assert re.fullmatch(r"(file:///)?(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", value["uri"])


def _keeps_junit(data: bytes) -> None:
    root = ElementTree.fromstring(data)
    for element in root.iter():
        attributes, children = JUNIT[element.tag]
        assert set(element.keys()) <= attributes, (element.tag, element.keys())
        assert {child.tag for child in element} <= children
        for text in (element.text or "", *element.attrib.values()):
            assert XML_TEXT.fullmatch(text)


def _keeps_commands(output: str, histories: int) -> None:
    lines = output.split("\n")
    token = lines[0].removeprefix("::stop-commands::")
    assert re.fullmatch(r"[\w-]{32,}", token)
    resumed = lines.index(f"::{token}::")
    for line in lines[resumed + 1 :]:
        assert not line or re.fullmatch(
            r"::(?:error|notice) file=[^:,\n\r]*(?:,line=\d+)?,title=[^:,\n\r]*::[^\n\r]+", line
        )
    assert len(lines) - resumed > histories


def _history(place: Path, name: str, key: str, value: str) -> Path:
    """A Kafka-like history in which a value with this text is read from the key, though nobody sent it."""
    maps = [
        {"type": "invoke", "process": 0, "f": "send", "value": [["send", key, 1]]},
        {"type": "ok", "process": 0, "f": "send", "value": [["send", key, [0, 1]]]},
        {"type": "invoke", "process": 1, "f": "poll", "value": [["poll"]]},
        {"type": "ok", "process": 1, "f": "poll", "value": [["poll", {key: [[0, 1], [1, value]]}]]},
    ]
    path = place / f"{name}.json"
    path.write_text(json.dumps(maps))
    return path


def _file_name(text: str) -> str:
    return re.sub(r"[/\x00]", "_", text)[:60].encode("utf-8", "replace").decode() or "empty"


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(name=TEXTS, key=TEXTS, value=TEXTS)
@example("".join(HOSTILE[:-1]), "".join(HOSTILE[:-1]), "".join(HOSTILE[:-1]))
def test_foreign_text_stays_text(name: str, key: str, value: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        bad = _history(place, _file_name(name), key, value)
        broken = place / f"{_file_name(name)}-broken.json"
        broken.write_text(json.dumps({"type": value, "process": 0, "f": key}))
        reports = {option: place / f"out.{option}" for option in ("junit", "sarif", "write-baseline")}
        words = [word for option, path in reports.items() for word in (f"--{option}", str(path))]
        done = CliRunner().invoke(main, ["check", "--annotations", *words, "--", str(bad), str(broken)])
        assert done.exit_code == 1, done.output
        _keeps_junit(reports["junit"].read_bytes())
        sarif = json.loads(reports["sarif"].read_bytes())
        _keeps_sarif(sarif, "log")
        assert len(sarif["runs"][0]["results"]) == 1
        _keeps_commands(done.stdout, 2)
        assert all(line.isprintable() for line in done.stdout.split("\n"))
        for line in done.stderr.splitlines():
            assert line.isprintable()
        # What was written down is known again, and to nothing else.
        again = CliRunner().invoke(main, ["check", "--baseline", str(reports["write-baseline"]), "--", str(bad)])
        assert again.exit_code == 0, again.output
        other = _history(place, _file_name(name), key, value + "x")
        assert (
            CliRunner()
            .invoke(main, ["check", "--baseline", str(reports["write-baseline"]), "--", str(other)])
            .exit_code
            == 1
        )


ESCAPE = "\x1b]0;title\x07\x1b[31m\n::error::x\r\x9b31m\u2028"
REGISTERS: dict[str, list[dict[str, Any]]] = {
    "no operation of a model": [
        {"type": "invoke", "process": 0, "f": ESCAPE, "value": ESCAPE},
        {"type": "ok", "process": 0, "f": ESCAPE, "value": ESCAPE},
    ],
    "why it failed": [
        {"type": "invoke", "process": 0, "f": "write", "value": 1},
        {"type": "invoke", "process": 1, "f": "read", "value": None},
        {"type": "info", "process": 0, "f": "write", "value": 1, "error": ESCAPE},
        {"type": "ok", "process": 1, "f": "read", "value": ESCAPE},
    ],
    "no type": [{"type": ESCAPE, "process": 0, "f": "read"}],
}


@pytest.mark.parametrize("name", REGISTERS)
def test_a_terminal_is_told_nothing_by_a_history(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{ESCAPE}.json").write_text(json.dumps(REGISTERS[name]))
    (tmp_path / ESCAPE).write_text("no history")
    done = CliRunner().invoke(main, ["check", str(tmp_path)])
    assert done.exit_code in (1, 2, 3)
    assert "::error::x" in done.stdout + done.stderr
    assert all(line.isprintable() for line in (done.stdout + done.stderr).split("\n"))


def test_the_shapes_refuse_what_is_wrong() -> None:
    with pytest.raises(AssertionError):
        _keeps_sarif({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x", "rulez": []}}}]}, "log")
    with pytest.raises(AssertionError):
        _keeps_junit(b"<testsuites><testsuite><testcase><failed/></testcase></testsuite></testsuites>")
    with pytest.raises(AssertionError):
        _keeps_commands("::stop-commands::" + "a" * 32 + "\n::" + "a" * 32 + "::\n::error::bare", 1)
