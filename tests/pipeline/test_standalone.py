"""The documented spark-submit form, on a standalone master and worker that know nothing of this project."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path

import pyspark
import pytest
from audit_tables import rows
from test_audit import RUNS, same_verdicts

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
PLAIN_PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter that the environment of the tests was made from; nothing is installed there."""


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def _running(log: Path, *arguments: str) -> Iterator[None]:
    """A Spark process, always ended; its output in a file."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [SPARK / "bin" / "spark-class", *arguments], stdout=output, stderr=output, env=environment, cwd=log.parent
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


def _wait_for(log: Path, words: str) -> None:
    end = time.monotonic() + 60
    while words not in log.read_text(errors="replace"):
        assert time.monotonic() < end, log.read_text(errors="replace")[-2000:]
        time.sleep(0.1)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master with one worker of two cores on this machine; its address."""
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    logs = [tmp_path / "master.log", tmp_path / "worker.log"]
    with ExitStack() as stack:
        words = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(_free_port())]
        stack.enter_context(_running(logs[0], "org.apache.spark.deploy.master.Master", *words))
        _wait_for(logs[0], "Starting Spark master")
        words = ["--host", "127.0.0.1", "--webui-port", str(_free_port()), "--cores", "2", "--memory", "1g"]
        words += ["--work-dir", str(tmp_path / "work"), address]
        stack.enter_context(_running(logs[1], "org.apache.spark.deploy.worker.Worker", *words))
        _wait_for(logs[1], "Successfully registered with master")
        yield address


def _closure(name: str, found: set[str]) -> set[str]:
    """What a distribution needs, itself included, without its extras."""
    if name not in found:
        found.add(name)
        for requirement in metadata.requires(name) or ():
            needed, _, marker = requirement.partition(";")
            if "extra" not in marker:
                _closure(re.split(r"[\s<>=!~\[(]", needed.strip())[0], found)
    return found


def _packages(tmp_path: Path) -> Path:
    """The archive of the guide: two wheels and all they need. Instead of a registry it takes what is installed here."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    sources = (ROOT, ROOT / "checker" / "linearizability_checker")
    subprocess.run([*command, "-w", tmp_path / "dist", *sources], check=True, timeout=120)
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for wheel in (tmp_path / "dist").glob("*.whl"):
            with zipfile.ZipFile(wheel) as ours:
                for entry in ours.infolist():
                    packed.writestr(entry, ours.read(entry))
        for each in sorted(_closure("logwitness", set()) - {"logwitness"}):
            for file in metadata.files(each) or ():
                if ".." not in file.parts and "tests" not in file.parts and file.suffix != ".pyc":
                    packed.write(file.locate(), str(file))
    return archive


@pytest.mark.long
def test_submitted_to_a_cluster_without_anything_installed(tmp_path: Path, master: str) -> None:
    known = subprocess.run([PLAIN_PYTHON, "-c", "import logwitness"], capture_output=True, check=False, cwd=tmp_path)
    assert known.returncode == 1, "the worker's Python must not know this project"
    for name in ("reference-default", "mutant-vote-twice", "reference-parquet"):
        shutil.copytree(RUNS / name, tmp_path / "source" / name)
    shutil.copy(ROOT / "tests" / "recorded" / "kv" / "c10-ok.txt", tmp_path / "source")  # takes a search
    (tmp_path / "main.py").write_text("from logwitness.cli import main\n\nmain()\n")
    settings = {
        "spark.archives": f"{_packages(tmp_path)}#packages",
        "spark.executorEnv.PYTHONPATH": "packages",
        "spark.pyspark.python": str(PLAIN_PYTHON),
        "spark.pyspark.driver.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    audit = ["audit", tmp_path / "source", tmp_path / "out"]
    done = subprocess.run(
        [SPARK / "bin" / "spark-submit", "--master", master, *words, tmp_path / "main.py", *audit],
        env={**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1, done.stderr[-3000:]  # the mutant
    assert "4 histories" in done.stdout
    assert [row["verdict"] for row in rows(tmp_path / "out", "runs")].count("violated") == 1
    assert same_verdicts(tmp_path / "out") == 4
    # It ran on the worker, with what was shipped.
    (application,) = (tmp_path / "work").iterdir()
    assert (application / "0" / "packages" / "logwitness" / "cli.py").is_file()
