"""Puts the specification into the wheel: every folder of TLA+ modules beside ``spec/logspec``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SpecificationHook(BuildHookInterface[Any]):
    """The folders are found by what is in them, so that a protocol's is added by being there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to what the wheel includes."""
        for path in sorted(Path(self.root, "spec").iterdir()):
            if any(path.glob("*.tla")):
                build_data["force_include"][str(path)] = f"logspec/modules/{path.name}"
