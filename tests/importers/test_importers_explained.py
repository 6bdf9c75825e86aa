"""How a search is explained: partial linearizations for machines, Porcupine's own page for people."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from logwitness.commands import check_command

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def _check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(check_command, list(map(str, arguments)), standalone_mode=False)


def _history(path: Path, value: str, answer: str) -> Path:
    maps = []
    for process, f, asked, reported in ((0, "write", value, value), (1, "read", None, answer)):
        common = {"process": process, "f": f}
        maps += [{"type": "invoke", "value": asked, **common}, {"type": "ok", "value": reported, **common}]
    path.write_text("\n".join(map(json.dumps, maps)))
    return path


def test_partial_linearizations_name_the_invocations(tmp_path: Path) -> None:
    answer = json.loads(_check("--json", _history(tmp_path / "bad.json", "x", "y")).stdout)
    assert answer["partial_linearizations"] == [
        {"log": None, "operations": 2, "linearizations": [[0]], "unplaced": [2], "left_out": 0}
    ]
    answer = json.loads(_check("--json", _history(tmp_path / "good.json", "x", "x")).stdout)
    assert answer["partial_linearizations"] == []


def test_a_page_for_every_search(tmp_path: Path) -> None:
    bad = _history(tmp_path / "bad.json", HOSTILE, "y")
    keys = tmp_path / "keys.edn"
    keys.write_text(
        "".join(f"{{:process 0 :type :{t} :f :write :value [{k} 1]}}\n" for k in "12" for t in ("invoke", "ok"))
    )
    pages = tmp_path / "pages"
    done = _check("--visualise", pages, bad, keys)
    assert done.return_value == 1
    names = sorted(path.name for path in pages.iterdir())
    assert [name.rpartition("_")[2] for name in names] == ["bad.json.html", "1.html", "2.html"]
    page = next(path for path in pages.iterdir() if "bad" in path.name).read_text()
    assert page.startswith("<!doctype html>")
    # What was written is there, as data and never as markup.
    assert "alert(1)" in page
    assert HOSTILE not in page
    assert "<img src=x" not in page
    assert page.count("</script>") == page.count("<script")


def test_pages_that_cannot_be_written(tmp_path: Path) -> None:
    done = _check("--visualise", "/proc/pages", _history(tmp_path / "bad.json", "x", "y"))
    assert done.return_value == 2
    assert "/proc/pages" in done.stderr
    assert "--visualise" in done.stderr
