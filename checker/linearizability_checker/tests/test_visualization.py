"""Porcupine's page: written whole or not at all, and nothing of the input gets into it unescaped."""

from __future__ import annotations

import json
import os
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from linearizability_checker import FAILED, UNKNOWN, Checker, Operation

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)


def _tags(page: str) -> list[str]:
    parser = _Tags()
    parser.feed(page)
    return parser.seen


def _data(page: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(page.partition("const data = ")[2].partition("\n")[0])
    return data


def test_page(checker: Checker, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    operations = [
        Operation(7, 0, 1, ("append", 5), 0),
        Operation(10**15, 2, None, ("append", 6), UNKNOWN),
        Operation(8, 2, 3, ("append", 9), FAILED),
        Operation(9, 3, 4, ("read", 1), 7),
    ]
    assert checker.check_operations("log", operations, visualization=path).verdict == "illegal"
    data = _data(path.read_text())
    assert [element["Description"] for element in data["Partitions"][0]["History"]] == [
        "append(5) -> 0",
        "append(6) -> unknown",
        "read(1) -> 7",
    ]
    assert [element["ClientId"] for element in data["Partitions"][0]["History"]] == [0, 3, 2]
    assert [element["Description"] for element in data["Annotations"]] == ["append(9) -> failed"]
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("model", "operations"),
    [
        ("register", [Operation(0, 0, 1, ("write", EVIL), None), Operation(1, 2, 3, ("read",), EVIL + "!")]),
        ("cas-register", [Operation(0, 0, 1, ("cas", EVIL, EVIL), True)]),
        ("key-value", [Operation(0, 0, 1, ("put", EVIL, EVIL), None), Operation(0, 2, 3, ("get", EVIL), EVIL)]),
        ("key-value", [Operation(0, 0, 1, ("append", EVIL, EVIL * 9), None)]),
        ("log", [Operation(0, 0, 1, ("append", EVIL), 0), Operation(0, 2, 3, ("append", EVIL), FAILED)]),
        ("set", [Operation(0, 0, 1, ("add", EVIL), True), Operation(0, 0, 1, ("read",), [EVIL])]),
        ("queue", [Operation(0, 0, 1, ("enqueue", EVIL), None), Operation(0, 2, 3, ("dequeue",), None)]),
    ],
)
def test_nothing_unescaped(checker: Checker, tmp_path: Path, model: str, operations: list[Operation]) -> None:
    plain, path = tmp_path / "plain.html", tmp_path / "page.html"
    checker.check_operations(model, [], visualization=plain)
    checker.check_operations(model, operations, visualization=path)
    page = path.read_text()
    assert "alert(1)" in page
    assert _tags(page) == _tags(plain.read_text())
    # The page puts these two into the document as they are; everything else it sets as text.
    for partition in _data(page)["Partitions"]:
        for order in partition["PartialLinearizations"]:
            assert not any("<" in step["StateDescription"] for step in order)
        assert not any("<" in element["Metadata"] for element in partition["History"])


def test_same_history_same_page(checker: Checker, tmp_path: Path) -> None:
    operations = [Operation(i, 0, None, ("write", i), UNKNOWN) for i in range(6)]
    operations.append(Operation(9, 1, 2, ("read",), -1))
    pages = []
    for name in ("a", "b"):
        checker.check_operations("register", operations, visualization=tmp_path / name)
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]


def test_page_of_a_large_history_stays_small(checker: Checker, tmp_path: Path) -> None:
    operations = [Operation(0, i, i, ("append", i), i) for i in range(8000)]
    operations += [Operation(1, 0, None, ("append", -i - 1), UNKNOWN) for i in range(3)]
    operations.append(Operation(2, 9000, 9000, ("tail",), 9999))
    path = tmp_path / "page.html"
    assert checker.check_operations("log", operations, visualization=path).verdict == "illegal"
    assert path.stat().st_size < 30_000_000


def test_page_that_cannot_be_written(checker: Checker, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        checker.check_operations("log", [], visualization=tmp_path / "missing" / "page.html")
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        checker.check_operations("log", [], visualization=tmp_path / "directory")
    assert os.listdir(tmp_path) == ["directory"]  # noqa: PTH208
    assert checker.check_operations("log", [])


def test_a_pipe_is_written_to_and_not_replaced(checker: Checker, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert checker.check_operations("log", [Operation(0, 0, 0, ("append", 1), 0)], visualization=pipe)
    assert pipe.is_fifo()
    reader.join(10)
    assert "append(1)" in read[0]
