"""Files that only Hadoop's client reaches (hdfs:, s3a:, viewfs: ...): brought to a task's machine and back.

Tasks are Python and Hadoop's client is Java, which every Spark worker has. So a task starts Hadoop's own shell once:
``-cat`` of all its files, whose lengths are known, gives them as one stream of any size; ``-put`` brings the task's
directory back. The driver has Java at hand already, and does with it what is little: names, markers, renames.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from loghistory import HistoryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_PATTERN = re.compile(r"[\[\]{}*?\\]")
_FILES_AT_ONCE = 500
_SHORT_LIVED = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_PIECE = 1 << 20


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
        """Settings may hold secrets, so they are in a file that nobody else reads."""
        configuration = scratch / "core-site.xml"
        if not configuration.exists():
            root = ElementTree.Element("configuration")
            for name, value in self.settings:
                one = ElementTree.SubElement(root, "property")
                ElementTree.SubElement(one, "name").text = name
                ElementTree.SubElement(one, "value").text = value
            configuration.touch(0o600)
            ElementTree.ElementTree(root).write(configuration, "utf-8")
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else "java"
        classes = [str(scratch), *filter(None, [os.environ.get("HADOOP_CONF_DIR")]), f"{_spark_home()}/jars/*", "./*"]
        return [java, *_SHORT_LIVED, "-cp", ":".join(classes), "org.apache.hadoop.fs.FsShell", *arguments]

    def fetch(self, files: Sequence[tuple[str, int, Path]], scratch: Path) -> None:
        """Bring files here, each of a known length. Raises `HistoryError` if one cannot be had as it was listed."""
        for start in range(0, len(files), _FILES_AT_ONCE):
            some = files[start : start + _FILES_AT_ONCE]
            command = self._command(scratch, "-cat", *(without_pattern(uri) for uri, _, _ in some))
            with tempfile.TemporaryFile(dir=scratch) as errors:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
                assert process.stdout is not None
                with process.stdout as stream:
                    complete = all(_copied(stream, length, path) for _, length, path in some)
                    complete = complete and not stream.read(1)
                    if not complete:
                        process.kill()
                if process.wait() or not complete:
                    errors.seek(0)
                    said = errors.read().decode(errors="replace").strip().splitlines()[-1:]
                    problem = f"cannot be read ({said[0]})" if said else "has changed since it was listed"
                    raise HistoryError(some[0][0], None, None, problem, "see that all files there are at rest")

    def put(self, directory: Path, target: str, scratch: Path) -> None:
        """Bring a directory into another one, under its own name."""
        done = subprocess.run(
            self._command(scratch, "-put", str(directory), target), capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise OSError(f"{target} cannot be written: {said}")


def _copied(stream: IO[bytes], length: int, path: Path) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        while length:
            piece = stream.read(min(length, _PIECE))
            if not piece:
                return False
            file.write(piece)
            length -= len(piece)
    return True


def _spark_home() -> str:
    home = os.environ.get("SPARK_HOME")
    if home:
        return home
    import pyspark

    return str(Path(pyspark.__file__).parent)


class HadoopFiles:
    """The output directory of an audit on a file system of Hadoop's; used on the driver."""

    def __init__(self, place: str, spark: SparkSession) -> None:
        self.place = place.rstrip("/")
        self._java: Any = spark.sparkContext._jvm
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self._system = self._path("").getFileSystem(configuration)
        self._scratch = Path(tempfile.mkdtemp(prefix="logwitness-tables-"))
        self._system.mkdirs(self._path(""))

    def _path(self, name: str) -> Any:  # noqa: ANN401
        return self._java.org.apache.hadoop.fs.Path(f"{self.place}/{name}" if name else self.place)

    def names(self, directory: str) -> list[str]:
        """What is in a directory; nothing if there is none."""
        path = self._path(directory)
        if not self._system.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._system.listStatus(path))

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        if not self._system.exists(self._path(name)):
            return None
        stream = self._system.open(self._path(name))
        try:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

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

    def make(self, directory: str) -> None:
        """Make a directory."""
        self._system.mkdirs(self._path(directory))

    def move(self, names: Sequence[tuple[str, str]]) -> None:
        """Rename files; one that has been moved already is left alone."""
        for old, new in names:
            if self._system.exists(self._path(old)):
                self._system.mkdirs(self._path(str(PurePosixPath(new).parent)))
                self._rename(self._path(old), self._path(new))
            elif not self._system.exists(self._path(new)):
                raise FileNotFoundError(f"{self.place}/{old}")

    def remove(self, name: str) -> None:
        """Remove a file or a directory, if it is there."""
        self._system.delete(self._path(name), True)

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
        self._system.mkdirs(self._path(str(PurePosixPath(name).parent)))
        self._system.copyFromLocalFile(False, True, self._java.org.apache.hadoop.fs.Path(str(path)), self._path(name))

    def close(self) -> None:
        """Remove what was copied here."""
        shutil.rmtree(self._scratch, ignore_errors=True)
