"""Where the specifications are, and where fetched and temporary files go."""

from __future__ import annotations

import os
from pathlib import Path

from logspec.errors import SpecError


def spec_directory() -> Path:
    """Return the directory with a folder of TLA+ modules for each protocol: of the wheel, else of the checkout.

    In this order: beside an installed logspec are the packages of others. Raises SpecError if neither is there.
    """
    here = Path(__file__).resolve().parent
    for candidate in (here / "modules", here.parent):
        if any(candidate.glob("*/models.yaml")):
            return candidate
    raise SpecError(f"{here}: no modules/*/models.yaml here; install logwitness again")


def cache_directory() -> Path:
    """Return the directory for what is fetched once: the checkout's ``.cache``, else the user's cache."""
    checkout = spec_directory().parent
    if (checkout / "pyproject.toml").is_file() and os.access(checkout, os.W_OK):
        return checkout / ".cache" / "logspec"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "logwitness" / "logspec"
