"""A process that records is killed in mid-write; what it had written is readable, up to its last whole event."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from loghistory import Format, Kind, MemorySink, Recorder, open_run
from loghistory.run import write_file

WRITER = """
import sys
from loghistory import FileSink, Kind, Recorder, RunSink
target, form = sys.argv[1:]
record = Recorder(FileSink(target) if form == "file" else RunSink(target, {"name": "killed"}, form))
number = 0
while True:
    for _ in range(1000):
        record.event(Kind.STOP, time=number, node=1, offset=number, last_offset=number, text="x" * (number % 50))
        number += 1
    if number % 5000 == 0:
        record.flush()
        print(number, flush=True)
"""


def kill_in_mid_write(target: Path, form: str, flushed: int) -> int:
    """Kill a writer some time after it said that so many events were flushed; returns what it said last."""
    command = [sys.executable, "-c", WRITER, str(target), form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        try:
            for line in writer.stdout:
                if int(line) >= flushed:
                    break
            time.sleep(0.03)
        finally:
            writer.send_signal(signal.SIGKILL)
        said = [int(line) for line in writer.stdout.read().split()]
    return max([flushed, *said])


@pytest.mark.parametrize("form", list(Format))
def test_a_killed_run_is_readable(tmp_path: Path, form: Format) -> None:
    promised = kill_in_mid_write(tmp_path / "run", form, 20_000)
    assert not (tmp_path / "run" / "manifest.json").exists()
    run = open_run(tmp_path / "run")
    seq = run.table(["seq"]).column("seq").to_pylist()
    assert seq == list(range(len(seq)))
    assert len(seq) >= promised
    assert run.notes[0] == "There is no manifest: the recording was killed, or is still going on."


def test_a_killed_process_leaves_a_readable_file(tmp_path: Path) -> None:
    promised = kill_in_mid_write(tmp_path / "node.jsonl", "file", 10_000)
    assert [path.name for path in tmp_path.iterdir()] == ["node.jsonl.part"]
    assert open_run(tmp_path / "node.jsonl.part").table().num_rows >= promised


@pytest.mark.slow
@pytest.mark.parametrize("form", [Format.JSON_LINES, Format.ZSTD])
def test_cut_anywhere_it_is_readable_up_to_the_last_whole_event(tmp_path: Path, form: Format) -> None:
    sink = MemorySink()
    with Recorder(sink) as record:
        for number in range(12):
            record.event(Kind.FAULT, time=number, f="loss", text=f"{number * 7919 % 1000}")
    whole = tmp_path / f"whole{form.suffix}"
    write_file(whole, sink.table)
    content = whole.read_bytes()
    run = tmp_path / "run"
    run.mkdir()
    last = 0
    for size in range(len(content) + 1):
        (run / f"events{form.suffix}.part").write_bytes(content[:size])
        source = open_run(run)
        events = source.table().num_rows
        assert events >= last
        if form is Format.JSON_LINES:
            # The header is no event; a line is whole when its closing brace is there.
            assert events == max(0, content[:size].count(b"}") - 1)
            torn = not content[:size].endswith((b"\n", b"}"))
        else:
            torn = size < len(content)
        note = "The file of events has no proper end; the events are those up to its last whole one."
        assert (note in source.notes) == torn
        last = events
    assert last == 12


def test_zstd_that_others_wrote_as_one_frame_is_readable_as_far_as_it_goes(tmp_path: Path) -> None:
    """A single frame of 3 MB, cut in the middle: the events before the cut are found although the stream fails."""
    sink = MemorySink()
    with Recorder(sink) as record:
        for number in range(40_000):
            record.event(Kind.FAULT, time=number, f="loss", text=f"{number * 7919 * 7919 % 100_003}")
    write_file(tmp_path / "plain.jsonl", sink.table)
    frame = tmp_path / "events.jsonl.zst.part"
    with pa.CompressedOutputStream(str(frame), "zstd") as stream:
        stream.write((tmp_path / "plain.jsonl").read_bytes())
    content = frame.read_bytes()
    assert open_run(frame).table().num_rows == 40_000
    frame.write_bytes(content[: len(content) * 2 // 3])
    seq = open_run(frame).table().column("seq").to_pylist()
    assert seq == list(range(len(seq)))
    assert len(seq) > 20_000
