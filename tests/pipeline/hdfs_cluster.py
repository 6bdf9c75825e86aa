"""A name node and a data node of HDFS on this machine, as processes of their own.

PySpark carries Hadoop's client; the servers of the same version are in one more jar, which the Ivy in PySpark fetches
once. It is pinned by its SHA-256 and kept in the checkout's ``.cache``.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

JARS = Path(pyspark.__file__).parent / "jars"
CACHE = Path(__file__).parents[2] / ".cache" / "hadoop"
SERVERS = "hadoop-client-minicluster"
DIGESTS = {"3.5.0": "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"}
SUPERUSER = "keeper"
"""Whose the name node is; to everybody else permissions apply."""

_JAVA = ("java", "-XX:TieredStopAtLevel=1", "-Xmx256m")
_LOGGING = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n%ex
"""


def servers_jar() -> Path:
    """The jar, fetched if it is not in the cache."""
    (client,) = JARS.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    assert version in DIGESTS, f"PySpark carries Hadoop {version}: pin the SHA-256 of {SERVERS} {version} in {__file__}"
    target = CACHE / f"{SERVERS}-{version}.jar"
    if not target.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            (ivy,) = JARS.glob("ivy-*.jar")
            command = ["java", "-jar", ivy, "-cache", f"{scratch}/ivy", "-types", "jar", "-notransitive"]
            command += ["-dependency", "org.apache.hadoop", SERVERS, version]
            command += ["-retrieve", f"{scratch}/[artifact]-[revision].[ext]"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, f"{SERVERS} {version} cannot be fetched: {done.stdout[-500:]}{done.stderr}"
            (Path(scratch) / target.name).replace(target)
    found = hashlib.sha256(target.read_bytes()).hexdigest()
    assert found == DIGESTS[version], f"{target} is not what is pinned: remove it"
    return target


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Hdfs:
    """Files of the cluster, by the client in a Spark session."""

    def __init__(self, port: int, spark: SparkSession, configuration: Path) -> None:
        self.uri = f"hdfs://localhost:{port}"
        self.java: Any = spark.sparkContext._jvm
        self.configuration = configuration
        """A directory for HADOOP_CONF_DIR; there every block has one copy."""
        self.system = self.path("/").getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def path(self, name: str | Path) -> Any:  # noqa: ANN401
        return self.java.org.apache.hadoop.fs.Path(str(name) if str(name).startswith("file:") else f"{self.uri}{name}")

    def put(self, here: Path, there: str) -> None:
        """Copy a file or a directory there, under its own name or as ``there``."""
        self.system.copyFromLocalFile(False, True, self.path(here.as_uri()), self.path(there))

    def get(self, there: str, here: Path) -> Path:
        """Copy a directory here."""
        self.system.copyToLocalFile(False, self.path(there), self.path(here.as_uri()), True)
        return here

    def make(self, name: str, mode: int = 0o755) -> None:
        self.system.mkdirs(self.path(name))
        self.chmod(name, mode)

    def chmod(self, name: str, mode: int) -> None:
        permission = self.java.org.apache.hadoop.fs.permission.FsPermission(f"{mode:03o}")
        self.system.setPermission(self.path(name), permission)

    def matching(self, pattern: str) -> list[Any]:
        """The status of all that match."""
        return list(self.system.globStatus(self.path(pattern)) or ())


@contextmanager
def running_hdfs(place: Path, spark: SparkSession) -> Iterator[Hdfs]:
    """The cluster, while it runs; its root belongs to `SUPERUSER`, everybody may write to /all."""
    port = free_port()
    settings = {
        "fs.defaultFS": f"hdfs://localhost:{port}",
        "dfs.namenode.name.dir": (place / "name").as_uri(),
        "dfs.datanode.data.dir": (place / "data").as_uri(),
        "dfs.replication": "1",
        **{f"dfs.{name}": "localhost:0" for name in ("namenode.http-address", "datanode.address")},
        **{f"dfs.datanode.{name}.address": "localhost:0" for name in ("http", "ipc")},
    }
    words = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    place.mkdir()
    (place / "core-site.xml").write_text(f"<configuration>{words}</configuration>")
    (place / "hdfs-site.xml").write_text(f"<configuration>{words}</configuration>")
    (place / "log4j2.properties").write_text(_LOGGING)
    java = [*_JAVA, "-cp", f"{place}:{servers_jar()}:{JARS}/*"]
    servers = "org.apache.hadoop.hdfs.server"
    environment = {**os.environ, "HADOOP_USER_NAME": SUPERUSER}

    def start(*words: str, log: str) -> subprocess.Popen[bytes]:
        with (place / log).open("wb") as output:
            return subprocess.Popen([*java, *words], stdout=output, stderr=output, env=environment, cwd=place)

    with ExitStack() as stack:
        assert start(f"{servers}.namenode.NameNode", "-format", "-nonInteractive", log="format.log").wait(120) == 0
        for name in ("namenode.NameNode", "datanode.DataNode"):
            process = start(f"{servers}.{name}", log=f"{name}.log")
            stack.callback(process.wait)
            stack.callback(process.kill)
        _wait_for(place / "datanode.DataNode.log", r"Successfully sent block report")
        made = "-D fs.permissions.umask-mode=000 -mkdir /all"
        assert start("org.apache.hadoop.fs.FsShell", *made.split(), log="shell.log").wait(120) == 0
        yield Hdfs(port, spark, place)


def _wait_for(log: Path, words: str) -> None:
    end = time.monotonic() + 180
    while not re.search(words, log.read_text(errors="replace")):
        assert time.monotonic() < end, log.read_text(errors="replace")[-2000:]
        time.sleep(0.2)
