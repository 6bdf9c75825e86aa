"""``history convert``, ``merge`` and ``show``, as a person uses them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from loghistory import FileSink, Kind, Recorder, RunSink, open_run
from loghistory.cli import history
from loghistory.show import Selection, table_lines


def run(*arguments: object) -> Result:
    return CliRunner().invoke(history, [str(argument) for argument in arguments], catch_exceptions=True)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    with Recorder(RunSink(tmp_path / "run", {"name": "demo", "made_by": {"seed": 7}})) as record:
        record.event(Kind.PHASE, time=1_000_000_000, f="load")
        record.event(Kind.INVOKE, time=1_000_500_000, process=4, op=0, f="append", value=17, acks=-1)
        state = {"term": 3, "dirty": 9, "flushed": 4, "commit": 4, "visible": 4}
        record.event(
            Kind.APPEND,
            time=1_000_600_000,
            node=1,
            **state,
            role="leader",
            offset=5,
            last_offset=9,
            entry_term=3,
            value=17,
        )
        record.event(Kind.STORAGE_ERROR, time=2_000_000_000, node=2, reason="no\nspace")
        record.event(Kind.OK, time=2_500_000_000, process=4, node=1, op=0, f="append", offset=5, term=3)
    return tmp_path / "run"


TABLE = """\
     seq       seconds who    kind      what
       0      0.000000        phase      f=load
       1      0.000500 c4     invoke     op=0 f=append acks=all value=17
       2      0.000600 n1     append     term=3 role=leader offset=5..9
                                         entry_term=3 value=17 dirty=9 flushed=4
                                         commit=4 visible=4
       3      1.000000 n2     storage_error
                                         reason=no\\nspace
       4      1.500000 c4     ok         node=1 op=0 f=append term=3 offset=5
"""


def test_show(recorded: Path) -> None:
    folded = list(table_lines(open_run(recorded), Selection(), 80))
    assert "\n".join([*folded, ""]) == TABLE
    assert max(map(len, folded)) <= 80
    # In a pipe an event is a line.
    result = run("show", recorded)
    assert (len(result.output.splitlines()), result.exit_code) == (1 + 5, 0)
    assert result.output.split() == TABLE.split()


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--from", 3], [3, 4]),
        (["--to", 1], [0, 1]),
        (["--from", 1, "--to", 3], [1, 2, 3]),
        (["--kind", "ok", "--kind", "invoke"], [1, 4]),
        (["--node", 1], [2, 4]),
        (["--node", 1, "--node", 2, "--kind", "storage_error"], [3]),
        (["--from", 100], []),
    ],
)
def test_show_a_part(recorded: Path, options: list[object], shown: list[int]) -> None:
    lines = run("show", recorded, *options).output.splitlines()[1:]
    assert [int(line[:8]) for line in lines if line[:8].strip()] == shown


def test_convert_there_and_back(recorded: Path, tmp_path: Path) -> None:
    events = (recorded / "events.jsonl").read_bytes()
    for source, target in [
        (recorded, "a.parquet"),
        ("a.parquet", "b.jsonl.zst"),
        ("b.jsonl.zst", "c"),
        ("c", "d.jsonl"),
    ]:
        result = run("convert", tmp_path / source, tmp_path / target)
        assert (result.output, result.exit_code) == (f"{tmp_path / target}: 5 events\n", 0)
    assert (tmp_path / "d.jsonl").read_bytes() == events
    assert (tmp_path / "c" / "events.jsonl").read_bytes() == events
    assert open_run(tmp_path / "c").manifest.made_by == {"converted": "b.jsonl.zst"}
    run("convert", recorded, tmp_path / "e", "--format", "parquet")
    kept = open_run(tmp_path / "e").manifest
    assert (kept.name, kept.made_by, kept.file) == ("demo", {"seed": 7}, "events.parquet")


def test_convert_refuses(recorded: Path, tmp_path: Path) -> None:
    for target in (recorded, recorded / "manifest.json"):
        result = run("convert", recorded, target)
        assert result.exit_code == 2
        assert "already exists" in result.output
    result = run("convert", recorded, tmp_path / "x.jsonl", "--format", "zst")
    assert result.exit_code == 2
    assert "is called a jsonl file, not zst; leave --format out" in result.output
    result = run("convert", recorded, tmp_path / "no" / "where.jsonl")
    assert result.output == (
        f"Error: {tmp_path}/no/where.jsonl: cannot be written (No such file or directory): "
        "make room or name another place\n"
    )


def test_convert_a_damaged_file(recorded: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes((recorded / "events.jsonl").read_bytes()[:-9] + b"\nnonsense\n")
    good = tmp_path / "good.jsonl"
    result = run("convert", damaged, good)
    assert result.output.startswith(f"Error: {damaged}, line 6: not valid JSON")
    assert (result.output.count("\n"), result.exit_code) == (1, 2)
    assert not good.exists()
    result = run("convert", "--lenient", "--quarantine", tmp_path / "aside", damaged, good)
    assert result.output == (
        f"2 lines or events were set aside (2 no valid JSON or EDN), kept in {tmp_path}/aside.\n{good}: 4 events\n"
    )
    assert len((tmp_path / "aside").read_text().splitlines()) == 2
    assert open_run(good).table().num_rows == 4


def test_merge(tmp_path: Path) -> None:
    for node in (1, 2):
        with Recorder(FileSink(tmp_path / f"node-{node}.jsonl")) as record:
            record.event(Kind.STOP, time=10 - node, logical=0, node=node)
    files = [tmp_path / "node-1.jsonl", tmp_path / "node-2.jsonl"]
    result = run("merge", *files, "-o", tmp_path / "run")
    assert (result.output, result.exit_code) == (f"{tmp_path / 'run'}: 2 events of 2 files\n", 0)
    assert open_run(tmp_path / "run").table(["node"]).column("node").to_pylist() == [2, 1]
    assert run("merge", "-o", tmp_path / "other").exit_code == 2


@pytest.mark.parametrize("command", ["convert", "merge", "show"])
def test_help_shows_examples_in_80_columns(command: str) -> None:
    result = run(command, "--help")
    assert "Examples:\n    logwitness history " in result.output
    assert max(map(len, result.output.splitlines())) <= 80
