"""What runs of protocols other than replicated logs are followed by: one record a kind of traces, found by being there.

A module ``*_traces`` of this package that binds ``FOLLOWER`` has one. All of a protocol's modules: ``<protocol>/``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from loghistory import RunSource
from logspec.toolchain import Toolchain
from logspec.traces import Nearest


class FollowedTrace(Protocol):
    """A trace: of which run, its events, and what the spec does not allow of it, in a sentence, once followed."""

    name: str
    events: list[Any]
    stuck: str | None


T = TypeVar("T", bound=FollowedTrace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower(Generic[T]):
    """How one kind of traces is read from a run and followed in its ``module``, a path below ``spec``.

    ``traces`` says what they are, for "5 streams". ``read`` gets the run and its name and gives none for a run of
    another protocol; ``follow`` sets ``stuck`` of those that the spec does not allow, within so many seconds;
    ``nearest`` finds the action that came nearest to the refused event. All raise `SpecError`.
    """

    module: str
    traces: str
    read: Callable[[RunSource, str], list[T]]
    follow: Callable[[Sequence[T], Toolchain, float | None], None]
    nearest: Callable[[T, Toolchain, float | None], Nearest | None] | None = None

    @property
    def protocol(self) -> str:
        """The protocol that the module belongs to, by the name of its folder, such as ``read_path``."""
        return self.module.partition("/")[0]


@cache
def followers() -> tuple[Follower[Any], ...]:
    """Every follower, by protocol and name of its module."""
    here = [str(Path(__file__).parent)]
    modules = [each.name for each in pkgutil.iter_modules(here) if each.name.endswith("_traces")]
    bound = (getattr(import_module(f"logspec.{name}"), "FOLLOWER", None) for name in modules)
    return tuple(sorted((each for each in bound if isinstance(each, Follower)), key=lambda each: each.protocol))
