"""Reads the recorded histories of other systems: just enough for these files, the importers do it properly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from linearizability_checker import FAILED, UNKNOWN, Call, Return
from linearizability_checker.history import Input, Output, Value

RECORDED = Path(__file__).parents[1] / "recorded"
History = list[Call | Return]
_Line = tuple[int, str, str, str]  # process, type, f, value as text


def _events(lines: Iterator[_Line], model: Callable[[str, str, str], tuple[Input, Output]]) -> History:
    """Pair the lines of each process. ``model`` is given f, the text of the call and that of the return."""
    events: History = []
    opened: dict[int, tuple[Call, str, str]] = {}
    for identity, (process, kind, f, value) in enumerate(lines):
        if kind == "invoke":
            call = Call(process, identity, ())
            opened[process] = (call, f, value)
            events.append(call)
            continue
        if process not in opened:
            continue  # the fault injector and its like
        call, _, asked = opened.pop(process)
        call.input, output = model(f, asked, value if kind == "ok" else kind)
        events.append(Return(call.id, output))
    for call, f, asked in opened.values():
        call.input, _ = model(f, asked, "info")
    return events


def _scalar(text: str) -> Value:
    return None if text == "nil" else int(text)


def _register(f: str, asked: str, answer: str) -> tuple[Input, Output]:
    words = asked.strip("[]").split()
    if f == "cas":
        old, new = (_scalar(word) for word in words)
        return ("cas", old, new), {"info": UNKNOWN, "fail": FAILED}.get(answer, True)
    given: Output = {"info": UNKNOWN, "fail": FAILED}.get(answer)
    if f == "write":
        return ("write", _scalar(asked)), given
    return ("read",), given or _scalar(answer)


def etcd(path: Path) -> History:
    pattern = re.compile(r"(\d+)\s+:(invoke|ok|fail|info)\s+:(read|write|cas)\s+(.*)$")

    def lines() -> Iterator[_Line]:
        for line in path.read_text().splitlines():
            if match := pattern.search(line):
                process, kind, f, value = match.groups()
                yield int(process), kind, f, value.strip()

    return _events(lines(), _register)


def cas_register(path: Path) -> History:
    def lines() -> Iterator[_Line]:
        for line in path.read_text().splitlines():
            found = dict(re.findall(r":(\w+) (\[[^\]]*\]|[^\s,}\])]+)", line.partition(";")[0]))
            if found.get("process", "").isdigit():
                yield int(found["process"]), found["type"][1:], found["f"][1:], found["value"]

    return _events(lines(), _register)


def key_value(path: Path) -> History:
    pattern = re.compile(r'{:process (\d+), :type :(\w+), :f :(\w+), :key "(.*)", :value (nil|".*")}')

    def lines() -> Iterator[_Line]:
        for line in path.read_text().splitlines():
            match = pattern.fullmatch(line)
            assert match
            process, kind, f, key, value = match.groups()
            yield int(process), kind, f, f"{key}\0{value}"

    def model(f: str, asked: str, answer: str) -> tuple[Input, Output]:
        key, _, value = asked.partition("\0")
        if f == "get":
            return ("get", key), answer.partition("\0")[2].strip('"') if "\0" in answer else UNKNOWN
        return (f, key, value.strip('"')), None if "\0" in answer else UNKNOWN

    return _events(lines(), model)
