"""The history: the one contract between implementation, specification and checker.

Recording, in memory or into a run directory (`Manifest` says how to make the run again)::

    from loghistory import Kind, MemorySink, Recorder, RunSink

    with Recorder(RunSink("run", {"name": "demo", "made_by": {"seed": 7}})) as record:
        record.event(Kind.INVOKE, time=1, process=0, op=0, f="append", value=10, acks=-1)
        record.event(Kind.OK, time=2, process=0, op=0, f="append", offset=0, term=1)

Real processes record into one file each, with hybrid logical clocks; the files are merged afterwards::

    clock = HybridClock()
    record = Recorder(FileSink("node-1.jsonl"))
    time, logical = clock.tick()
    record.event(Kind.CRASH, time=time, logical=logical, node=1)
    record.flush()  # before an effect leaves the process, so that a SIGKILL cannot take back what it caused

    merge_runs(["node-1.jsonl", "node-2.jsonl", "clients.jsonl"], "run")

Reading, streaming and columnar::

    from loghistory import open_run

    run = open_run("run")  # or a file: .jsonl, .jsonl.zst, .parquet
    for batch in run.batches(columns=["seq", "node", "commit"], kinds=[Kind.COMMIT]):
        ...

Bad input is a `HistoryError`, whose text is one line: file, line, field, problem, remedy.
`open_run(path, lenient=True)` reads on and keeps what it set aside in a quarantine file.
"""

from .clock import HybridClock, HybridTime
from .errors import HistoryError
from .manifest import Manifest
from .merge import MergeNotes, merge_runs, merged
from .recorder import FileSink, MemorySink, Recorder, Sink
from .run import RunSink, write_run
from .schema import CLIENT_KINDS, COLUMNS, REQUIRED, SCHEMA, VERSION, Acks, Column, Kind, Operation
from .source import RunSource, is_history, open_run
from .writers import Format

__all__ = [
    "CLIENT_KINDS",
    "COLUMNS",
    "REQUIRED",
    "SCHEMA",
    "VERSION",
    "Acks",
    "Column",
    "FileSink",
    "Format",
    "HistoryError",
    "HybridClock",
    "HybridTime",
    "Kind",
    "Manifest",
    "MemorySink",
    "MergeNotes",
    "Operation",
    "Recorder",
    "RunSink",
    "RunSource",
    "Sink",
    "is_history",
    "merge_runs",
    "merged",
    "open_run",
    "write_run",
]
