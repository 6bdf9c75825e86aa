"""What is fuzzed: every reader, each with what it must do with any bytes, and the recorded files that it starts from.

A reader gives valid events or one documented error of one line. Whatever else comes out of it is a finding: another
exception, a hang, memory that grows.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from linearizability_checker import MODELS, Checker, Operation
from linearizability_checker.encoding import Columns
from linearizability_checker.process import Worker
from loghistory import HistoryError, RunSource, open_run
from loghistory.exporters import write_jepsen_json
from loghistory.importers import ForeignFormat, foreign_format, read
from loghistory.importers.edn import EdnError, forms
from loghistory.manifest import read as read_manifest
from loghistory.quarantine import Lenient, Strict
from loghistory.run import write_file
from loghistory.validity import flaws
from logwitness.models.kafka import KafkaHistory
from logwitness.report.baseline import KIND, VERSION, read_baseline

ROOT = Path(__file__).parents[2]
_RECORDED = ROOT / "tests" / "recorded"
_RUNS = ROOT / "histories" / "runs" / "raft"
_LONGEST_MESSAGE = 2000
_MEMORY = 512 << 20


@dataclass(frozen=True)
class Target:
    """One reader: ``run`` raises for a finding, ``seeds`` are files or parts of files that it reads well."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


_place = tempfile.TemporaryDirectory(prefix="logwitness-fuzz-")
atexit.register(_place.cleanup)
_directory = Path(_place.name)


def _file(data: bytes, name: str = "history") -> Path:
    path = _directory / name
    path.write_bytes(data)
    return path


@contextlib.contextmanager
def _documented() -> Iterator[None]:
    """A `HistoryError` of one line is an answer."""
    try:
        yield
    except HistoryError as error:
        said = str(error)
        assert said.isprintable(), repr(said)
        assert len(said) < _LONGEST_MESSAGE, said


def _all_of(source: RunSource) -> None:
    last: int | None = None
    for batch in source.batches():
        batch.validate(full=True)
        assert flaws(batch, last) == []
        if batch.num_rows:
            last = batch.column("seq")[-1].as_py()


def _ours(data: bytes) -> None:
    for lenient in (False, True):
        with _documented():
            _all_of(open_run(_file(data), lenient=lenient))


def _foreign(format_: ForeignFormat) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        foreign_format(data)
        for quarantine in (Strict(), Lenient(None)):
            with _documented():
                for batch in read(io.BytesIO(data).read, "file", quarantine, format_):
                    assert flaws(batch, None) == []

    return run


def _edn(data: bytes) -> None:
    said = ""
    try:
        forms(data.decode("utf-8", "replace"))
    except EdnError as error:
        said = str(error)
    assert said.isprintable()


def _kafka(data: bytes) -> None:
    with _documented():
        judged = KafkaHistory("file")
        for batch in read(io.BytesIO(data).read, "file", Lenient(None), ForeignFormat.JEPSEN_EDN):
            judged.feed(batch)
        for outcome in judged.finish():
            msgspec.json.encode(outcome)
            assert all(violation.sentence.isprintable() for violation in outcome.violations)


def _manifest(data: bytes) -> None:
    with _documented():
        read_manifest(_file(data, "manifest.json"))


def _baseline(data: bytes) -> None:
    with _documented():
        read_baseline(_file(data, "known.json"))


class _Asked:
    """The worker process, started once: it must answer every line, if only that it does not understand."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def __call__(self, data: bytes) -> None:
        if self._worker is None:
            self._worker = Worker(_MEMORY)
        self._worker.send(data.replace(b"\n", b" ") + b"\n")
        answer = msgspec.json.decode(self._worker.receive(20))
        assert "error" in answer or set(answer["verdicts"]) <= set("oitm"), answer


# What they start from.


def _lines(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return b"".join(itertools.islice(file, count))


def _run_of(count: int) -> pa.Table:
    return open_run(_RUNS / "reference-jsonl").table().slice(0, count)


def _jsonl_seeds() -> Iterator[bytes]:
    for path in sorted(_RUNS.glob("*/events.jsonl")):
        yield _lines(path, 25)


def _converted(suffix: str) -> Callable[[], Iterator[bytes]]:
    def seeds() -> Iterator[bytes]:
        path = _directory / f"seed{suffix}"
        path.unlink(missing_ok=True)
        write_file(path, _run_of(30))
        yield path.read_bytes()

    return seeds


def _gzip_seeds() -> Iterator[bytes]:
    for data in (*_jsonl_seeds(), *_edn_seeds()):
        for codec in ("gzip", "zstd"):
            out = pa.BufferOutputStream()
            with pa.CompressedOutputStream(out, codec) as stream:
                stream.write(data)
            yield out.getvalue().to_pybytes()


def _edn_seeds() -> Iterator[bytes]:
    yield from _kafka_seeds()
    for path in sorted((_RECORDED / "jepsen-cas-register").glob("*/*.edn"))[::6]:
        yield _lines(path, 12)


def _kafka_seeds() -> Iterator[bytes]:
    for path in sorted((_RECORDED / "jepsen-kafka").glob("*.edn")):
        yield path.read_bytes()


def _json_seeds() -> Iterator[bytes]:
    for path in (_RECORDED / "jepsen-kafka" / "good.edn", _RECORDED / "kv" / "c01-bad.txt"):
        out = _directory / "seed.json"
        out.unlink(missing_ok=True)
        write_jepsen_json(out, open_run(path).batches())
        yield out.read_bytes()[:3000]


def _manifest_seeds() -> Iterator[bytes]:
    for path in sorted(_RUNS.glob("*/manifest.json"))[:3]:
        yield path.read_bytes()


def _baseline_seeds() -> Iterator[bytes]:
    known = {"skip": {"violated": 1, "known": [{"digest": "ab", "sentence": "x"}]}}
    yield msgspec.json.encode({"kind": KIND, "version": VERSION, "runs": {"r": known}})


def _worker_seeds() -> Iterator[bytes]:
    inputs = {
        "log": [("append", 7), ("read", 0), ("tail",)],
        "register": [("write", 1), ("read",)],
        "cas-register": [("write", 1), ("cas", 1, 2), ("read",)],
        "key-value": [("put", "k", "x"), ("append", "k", "y"), ("get", "k")],
        "set": [("add", 1), ("remove", 1), ("contains", 1)],
        "queue": [("enqueue", 1), ("dequeue",)],
    }
    with Checker() as checker:
        for name, given in inputs.items():
            for explain in (False, True):
                columns = Columns(MODELS[name])
                operations = [Operation(i, 2 * i, 2 * i + 3, each, None) for i, each in enumerate(given)]
                columns.add([each for each in operations if each.input[0] not in ("tail", "cas", "contains")])
                yield checker._request(columns, explain=explain, visualize=explain).line.rstrip(b"\n")


TARGETS: dict[str, Target] = {
    "jsonl": Target(_ours, _jsonl_seeds),
    "compressed": Target(_ours, _gzip_seeds),
    "zstd": Target(_ours, _converted(".jsonl.zst")),
    "parquet": Target(_ours, _converted(".parquet")),
    "manifest": Target(_manifest, _manifest_seeds),
    "edn": Target(_edn, _edn_seeds),
    "jepsen-edn": Target(_foreign(ForeignFormat.JEPSEN_EDN), _edn_seeds),
    "jepsen-json": Target(_foreign(ForeignFormat.JEPSEN_JSON), _json_seeds),
    "jepsen-log": Target(
        _foreign(ForeignFormat.JEPSEN_LOG), lambda: [_lines(_RECORDED / "jepsen-etcd" / "etcd_001.log", 30)]
    ),
    "porcupine-kv": Target(_foreign(ForeignFormat.PORCUPINE_KV), lambda: [_lines(_RECORDED / "kv" / "c10-ok.txt", 30)]),
    "kafka": Target(_kafka, _kafka_seeds),
    "baseline": Target(_baseline, _baseline_seeds),
    "worker": Target(_Asked(), _worker_seeds),
}
