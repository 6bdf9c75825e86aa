"""Files that only Hadoop's client reaches (hdfs:, s3a:, viewfs: ...): brought to a task's machine and back.

Tasks are Python and Hadoop's client is Java, which every Spark worker has. So a task starts Hadoop's own shell once:
``-cat`` of all its files gives them as one stream of any size; ``-put`` brings the task's directory back. The driver
has Java at hand already, and does with it what is little: names, markers, renames.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from loghistory import HistoryError
from loghistory.errors import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="HadoopPlace")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_PATTERN = re.compile(r"[\[\]{}*?\\]")
_FILES_AT_ONCE = 500
_SHORT_LIVED = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_CHUNK = 1 << 20
_IN_VAIN, _PATIENCE = 5, 60.0
"""Files one after the other, and seconds, after which it is not the files that are to blame."""
_RETRIES = "ipc.client.connect.max.retries.on.timeouts"


def is_remote(place: str) -> bool:
    """Whether a place is a URI that is not of this machine's files."""
    found = _SCHEME.match(place)
    return found is not None and found[1].lower() != "file"


def local_path(place: str) -> str:
    """A place of this machine without ``file:``."""
    if place.lower().startswith("file:"):
        return "/" + place[5:].lstrip("/")
    return place


def without_pattern(path: str) -> str:
    """A path as Hadoop and Spark take it: no character in it stands for others."""
    return _PATTERN.sub(r"\\\g<0>", path)


@dataclass(frozen=True, slots=True)
class Shell:
    """Hadoop's shell, with the settings of the session; it goes with a task to wherever that runs."""

    settings: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, spark: SparkSession) -> Shell:
        """The settings of a session that are not Hadoop's defaults."""
        java: Any = spark.sparkContext._jvm
        writer = java.java.io.StringWriter()
        spark.sparkContext._jsc.hadoopConfiguration().writeXml(writer)
        found = []
        for each in ElementTree.fromstring(writer.toString()).iter("property"):
            sources = [source.text or "" for source in each.findall("source")]
            if not any(source.endswith("-default.xml") for source in sources[-1:]):
                found.append((each.findtext("name") or "", each.findtext("value") or ""))
        return cls(tuple(found))

    def _command(self, scratch: Path, *arguments: str) -> list[str]:
        """Settings may hold secrets, so they are in a file that nobody else reads; final: no defaults replace them."""
        configuration = scratch / "core-site.xml"
        if not configuration.exists():
            root = ElementTree.Element("configuration")
            for name, value in self.settings:
                one = ElementTree.SubElement(root, "property")
                ElementTree.SubElement(one, "name").text = name
                ElementTree.SubElement(one, "value").text = value
                ElementTree.SubElement(one, "final").text = "true"
            configuration.touch(0o600)
            ElementTree.ElementTree(root).write(configuration, "utf-8")
            (scratch / "log4j2.properties").write_text("rootLogger.level = off\n")  # it would log between the bytes
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else "java"
        classes = [str(scratch), *filter(None, [os.environ.get("HADOOP_CONF_DIR")]), f"{_spark_home()}/jars/*", "./*"]
        return [java, *_SHORT_LIVED, "-cp", ":".join(classes), "org.apache.hadoop.fs.FsShell", *arguments]

    def fetch(self, files: Sequence[tuple[str, int, Path]], scratch: Path) -> dict[str, str]:
        """Bring files here, each of a known length; returns by URI why some could not be had as they were listed.

        Raises `HistoryError` if the shell broke off.
        """
        problems: dict[str, str] = {}
        for start in range(0, len(files), _FILES_AT_ONCE):
            problems |= self._fetch(files[start : start + _FILES_AT_ONCE], scratch)
        return problems

    def _fetch(self, files: Sequence[tuple[str, int, Path]], scratch: Path) -> dict[str, str]:
        """The shell passes over what it cannot read, so a file of ours, which nobody can guess, ends each of theirs."""
        end = scratch / "end"
        end.write_bytes(secrets.token_bytes(32))
        command = self._command(
            scratch, "-cat", *(name for uri, _, _ in files for name in (without_pattern(uri), end.as_uri()))
        )
        with tempfile.TemporaryFile(dir=scratch) as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
            assert process.stdout is not None
            with process.stdout as stream:
                lengths = _lengths(stream, end.read_bytes(), files)
                if len(lengths) < len(files):
                    process.kill()
            process.wait()
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
        if len(lengths) < len(files):
            said = (lines or ["no reason given"])[-1]
            raise HistoryError(files[len(lengths)][0], None, None, f"cannot be read ({said})", "start the audit again")
        reasons = iter([line.removeprefix("cat: ") for line in lines if line.startswith("cat: ")])
        problems = {}
        for (uri, listed, _), found in zip(files, lengths, strict=True):
            if found != listed:
                said = next(reasons, "") if found < listed else ""
                problems[uri] = f"cannot be read ({said})" if said else "has changed since it was listed"
        return problems

    def put(self, directory: Path, target: str, scratch: Path) -> None:
        """Bring a directory into another one, under its own name. Raises OSError."""
        done = subprocess.run(
            self._command(scratch, "-put", str(directory), target), capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise OSError(f"{target} cannot be written: {said}")


def _lengths(stream: IO[bytes], end: bytes, files: Sequence[tuple[str, int, Path]]) -> list[int]:
    """Write the files; their lengths. Fewer if the stream ends, or if for long not a byte came of any."""
    lengths: list[int] = []
    nothing, since = 0, time.monotonic()
    for (_, listed, _), found in zip(files, _cut(stream, end, [path for _, _, path in files]), strict=False):
        lengths.append(found)
        nothing = nothing + 1 if listed and not found else 0
        if not nothing:
            since = time.monotonic()
        elif nothing >= _IN_VAIN and time.monotonic() - since > _PATIENCE:
            break
    return lengths


def _cut(stream: IO[bytes], end: bytes, paths: Sequence[Path]) -> Iterator[int]:
    """Write what comes before each ``end`` to the next path; its length. Stops where the stream does."""
    held = b""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            while (found := held.find(end)) < 0:
                keep = max(0, len(held) - len(end) + 1)
                file.write(held[:keep])
                chunk = stream.read(_CHUNK)
                if not chunk:
                    return
                held = held[keep:] + chunk
            file.write(held[:found])
            held = held[found + len(end) :]
            length = file.tell()
        yield length


def _spark_home() -> str:
    home = os.environ.get("SPARK_HOME")
    if home:
        return home
    import pyspark

    return str(Path(pyspark.__file__).parent)


def give_up_sooner(spark: SparkSession) -> None:
    """A server that nobody hears from is given up after a minute; left to itself Hadoop's client takes 15."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    if [*configuration.getPropertySources(_RETRIES)][-1] == "core-default.xml":
        configuration.set(_RETRIES, "2")


def reason(problem: Exception) -> str:
    """What Java, or Spark, says went wrong, in one line without names of packages, traces and links."""
    java = getattr(problem, "java_exception", None)  # what Spark has translated has none
    said = str(problem if java is None else java.toString()).splitlines()[0].partition("; For more details")[0]
    return printable(re.sub(r"\b(?:[a-z]\w*\.)+(?=[A-Z]\w*(?:Exception|Error)\b)", "", said))[:300]


def _telling(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """What Hadoop cannot do becomes a `HistoryError`."""

    @wraps(method)
    def telling(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            return method(self, *arguments, **named)
        except (Py4JJavaError, PySparkException) as problem:
            remedy = "make sure that Hadoop can reach it and may do that"
            raise HistoryError(self.place, None, None, f"cannot be used ({reason(problem)})", remedy) from None

    return telling


class HadoopPlace:
    """A place on a file system of Hadoop's, seen from the driver. Whatever Hadoop refuses raises `HistoryError`."""

    def __init__(self, place: str, spark: SparkSession) -> None:
        self.place = place.rstrip("/")
        self._java: Any = spark.sparkContext._jvm
        self._system: Any = None
        self._reach(spark.sparkContext._jsc.hadoopConfiguration())

    @_telling
    def _reach(self, configuration: Any) -> None:  # noqa: ANN401
        self._system = self._path("").getFileSystem(configuration)

    @_telling
    def whole_name(self) -> str:
        """The URI with all that was left to defaults."""
        return str(self._system.makeQualified(self._path("")).toString())

    @_telling
    def is_directory(self) -> bool:
        """Whether the place exists and is a directory."""
        path = self._path("")
        return bool(self._system.exists(path) and self._system.getFileStatus(path).isDirectory())

    @_telling
    def files(self) -> int:
        """How many files are there, hidden and empty ones as well."""
        return int(self._system.getContentSummary(self._path("")).getFileCount())

    def _path(self, name: str) -> Any:  # noqa: ANN401
        return self._java.org.apache.hadoop.fs.Path(f"{self.place}/{name}" if name else self.place)


class HadoopFiles(HadoopPlace):
    """The output directory of an audit on a file system of Hadoop's."""

    def __init__(self, place: str, spark: SparkSession) -> None:
        super().__init__(place, spark)
        self._scratch = Path(tempfile.mkdtemp(prefix="logwitness-tables-"))

    @_telling
    def names(self, directory: str) -> list[str]:
        """What is in a directory; nothing if there is none."""
        path = self._path(directory)
        if not self._system.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._system.listStatus(path))

    @_telling
    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        if not self._system.exists(self._path(name)):
            return None
        stream = self._system.open(self._path(name))
        try:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    @_telling
    def write(self, name: str, data: bytes) -> None:
        """Write a file, which appears by rename."""
        unfinished = self._path(f"_{name}.tmp")
        stream = self._system.create(unfinished, True)
        stream.write(data)
        stream.close()
        self._system.delete(self._path(name), False)
        self._rename(unfinished, self._path(name))

    def _rename(self, old: Any, new: Any) -> None:  # noqa: ANN401
        if not self._system.rename(old, new):
            raise OSError(f"{old} cannot be renamed to {new}")

    @_telling
    def make(self, directory: str) -> None:
        """Make a directory, and those above it; one that is there stays as it is."""
        self._system.mkdirs(self._path(directory))

    @_telling
    def move(self, names: Sequence[tuple[str, str]]) -> None:
        """Rename files; one that has been moved already is left alone. Raises FileNotFoundError if neither is there."""
        for old, new in names:
            if self._system.exists(self._path(old)):
                self._system.mkdirs(self._path(str(PurePosixPath(new).parent)))
                self._rename(self._path(old), self._path(new))
            elif not self._system.exists(self._path(new)):
                raise FileNotFoundError(f"{self.place}/{old}")

    @_telling
    def remove(self, name: str) -> None:
        """Remove a file or a directory, if it is there."""
        self._system.delete(self._path(name), True)

    @_telling
    def local(self, name: str) -> Path:
        """A copy of the file on this machine."""
        path = self._scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._system.copyToLocalFile(False, self._path(name), self._java.org.apache.hadoop.fs.Path(str(path)), True)
        return path

    @contextmanager
    def to_write(self, name: str) -> Iterator[Path]:
        """A file of this machine, which is brought there."""
        path = self._scratch / "new" / PurePosixPath(name).name
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        self._bring(path, name)

    @_telling
    def _bring(self, path: Path, name: str) -> None:
        self._system.mkdirs(self._path(str(PurePosixPath(name).parent)))
        self._system.copyFromLocalFile(False, True, self._java.org.apache.hadoop.fs.Path(str(path)), self._path(name))

    def close(self) -> None:
        """Remove the copies that `local` and `to_write` made on this machine."""
        shutil.rmtree(self._scratch, ignore_errors=True)
