"""A Spark session for one command: started quietly, checked first, and gone without a trace.

What Spark and Java print goes to a file, so that the terminal shows the command's own words alone; if Spark does not
start, the error names that file.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loghistory.errors import printable

from ..extras import install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_SCRATCH = "logwitness-spark-"

_LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
"""


class SparkProblem(RuntimeError):  # noqa: N818
    """Spark cannot be used; ``str()`` is one sentence with the remedy."""


def _broke_off(problem: Exception) -> str:
    """One sentence about a job that Spark gave up; it must still be running, for the error asks it for its words."""
    try:
        said = [line for line in str(problem).splitlines() if line.strip() and not line.startswith(("\t", " "))]
    except UnicodeError:
        said = []
    failure = printable(said[-1].strip())[:300] if said else type(problem).__name__
    return f"Spark failed: {failure}: nothing of this round is in the tables; start the audit again"


def check_spark(command: str) -> None:
    """Raise `SparkProblem` unless pyspark is installed and a Java that can run it is found."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkProblem(f"`logwitness {command}` needs Spark, which is not installed: {install('spark')}")
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # spark-submit has started Java already
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = f"JAVA_HOME={home}" if home else "the PATH"
    remedy = f"install Java {OLDEST_JAVA} or later, or name it with JAVA_HOME"
    if java is None or not os.access(java, os.X_OK):
        raise SparkProblem(f"Spark needs Java {OLDEST_JAVA} or later, and there is none in {where}: {remedy}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
        found = _VERSION.search(said.stderr + said.stdout)
    except (OSError, subprocess.TimeoutExpired):
        found = None
    if found is None:
        raise SparkProblem(f"{java} does not report its version: {remedy}")
    if int(found[1]) < OLDEST_JAVA:
        raise SparkProblem(f"Spark needs Java {OLDEST_JAVA} or later, and {java} is Java {found[1]}: {remedy}")


@contextmanager
def spark_session(name: str, master: str | None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session, stopped in the end. ``master`` None: as spark-submit was told, else all cores of this machine.

    Raises `SparkProblem` if it does not start, and for a job that it gives up.
    """
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # it tells of every interrupt at length
    _discard_old()
    scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))
    log = scratch / "spark.log"
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = master or (None if submitted else "local[*]")
    builder = SparkSession.builder.appName(name)
    for key, value in _settings(scratch, chosen, submitted=submitted).items():
        builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    if chosen is not None:
        builder = builder.master(chosen)
    if chosen is not None and chosen.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    problem = None
    try:
        try:
            with _output_to(log, enabled=not submitted), _interrupts_kept() as interrupts:
                session = builder.getOrCreate()
        except Exception as error:
            problem = " ".join(str(error).split())[:300] or type(error).__name__
            kept = _kept(log)
        if problem is not None:
            raise SparkProblem(f"Spark did not start ({problem}); its output is in {kept}")
        try:
            if interrupts:
                raise KeyboardInterrupt
            yield session
        except Exception as error:
            if type(error).__module__.startswith(("pyspark", "py4j")):
                raise SparkProblem(_broke_off(error)) from None
            raise
        finally:
            with _output_to(log, enabled=not submitted):
                session.stop()
            if not submitted:
                _end_java()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _interrupts_kept() -> Iterator[list[int]]:
    """SIGINT is only noted meanwhile: Java that is interrupted while it starts would stay for ever."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def _discard_old() -> None:
    """Remove what sessions that were killed have left."""
    for place in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*-*"):
        pid = place.name.removeprefix(_SCRATCH).split("-")[0]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(place, ignore_errors=True)
        except (ValueError, OSError):
            pass  # another one's


def _settings(scratch: Path, master: str | None, *, submitted: bool) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.task.maxFailures": "4",
        "spark.speculation": "false",
        "spark.python.worker.reuse": "true",
        "spark.log.level": "WARN",
    }
    if not submitted:
        log4j = scratch / "log4j2.properties"
        log4j.write_text(_LOGGING.format(file=scratch / "spark.log"))
        java = f"-Dlog4j2.configurationFile={log4j.as_uri()} -Dderby.system.home={scratch}"
        settings["spark.driver.extraJavaOptions"] = java
    if master is not None and master.startswith("local"):
        settings |= {"spark.local.dir": str(scratch), "spark.driver.host": "127.0.0.1"}
        settings |= {"spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _end_java() -> None:
    """End the Java process that pyspark started, and wait for it; another session may start a new one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process is not None:
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _kept(log: Path) -> Path:
    """The log, where it outlives the session."""
    handle, name = tempfile.mkstemp(prefix="logwitness-spark-", suffix=".log")
    with os.fdopen(handle, "wb") as kept:
        kept.write(log.read_bytes() if log.exists() else b"")
    return Path(name)


@contextmanager
def _output_to(file: Path, *, enabled: bool) -> Iterator[None]:
    """What this process and those that it starts meanwhile print goes to a file."""
    if not enabled:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(opened, 1)
        os.dup2(opened, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, old in enumerate(saved, 1):
            os.dup2(old, number)
            os.close(old)
        os.close(opened)
