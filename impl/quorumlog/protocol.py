"""What a protocol is: one record, found by its name.

A protocol of this project is a package of quorumlog with a module ``protocol`` that binds ``PROTOCOL``; the package's
name is the protocol's with ``_`` for ``-``. A third party's protocol is an entry point of the group `ENTRY_POINTS`
under its name. Nothing lists them: adding one adds files. What a caller wants to run identifies its protocol: a mutant,
a setting, a configuration or rules that only one protocol has. Where that leaves several, one is meant by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pyarrow as pa

import quorumlog
from loghistory import Recorder
from quorumlog.events import CoreFactory
from quorumlog.faults import FaultPlanError
from quorumlog.simulation.cluster import Cluster, Outcome
from quorumlog.simulation.configuration import ClusterConfiguration, ConfigurationError, configuration_from_json
from quorumlog.simulation.loop import derived_random
from quorumlog.simulation.runs import simulate, watched

ENTRY_POINTS = "quorumlog.protocols"

SWARM = "swarm"
"""The setting that every protocol has: each seed draws its own configuration (`ClusterConfiguration.drawn`)."""


class ProtocolError(ValueError):
    """The protocol cannot be determined from what was given: one line with the choices and the remedy."""


Stage = Callable[[int, Any, Recorder, CoreFactory], Cluster[Any, Any]]
"""A simulated cluster, made of seed, configuration, recorder and core factory."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One known fault of a protocol: the reference with one thing changed, and the checks that must notice it.

    ``change`` says what in one line, ``checks`` are the ids of the checks of which one must notice, ``setting`` names
    the runs that expose it fast (`Protocol.configured`), ``seeds`` is how many a hunt may need, ``thread`` where a real
    system had it. What is changed is the core, which is the reference's if none is given, or the ``stage`` of simulated
    runs: its nodes with their disks.

    A mutant without checks is one that no history shows, and one with checks may need more seeds than anybody has had:
    ``test`` is the test file that notices it. If its fault is in the driver of real nodes, ``driver`` is that.
    ``page`` is the page of rules that has it, if that is not the page of its protocol's name.
    """

    id: str
    change: str
    checks: tuple[str, ...]
    make_core: CoreFactory | None = None
    setting: str = SWARM
    thread: str = ""
    stage: Stage | None = None
    seeds: int = 16
    test: str = ""
    driver: type | None = None
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A protocol, with all that is needed to run it under faults.

    ``core`` makes a core of the reference, or with the argument ``rules`` of another bundle. ``rules`` is the
    reference's bundle: a frozen dataclass whose fields are functions, each with the reference's as its default.
    ``settings`` are named configurations of simulated runs; the first one is the default; all
    are of the type ``configuration``, which also says what a judge must know. ``stage`` is the simulated cluster, made
    of seed, configuration, recorder and core factory. ``scenarios`` is a file of scenarios (tests/scenarios).
    ``by_default``: it is meant where nothing says which one is. How it runs in real processes is a record of its own
    (`quorumlog.node.real_protocol`).
    """

    name: str
    core: CoreFactory
    rules: Any
    configuration: type[ClusterConfiguration]
    settings: Mapping[str, ClusterConfiguration]
    stage: Stage
    mutants: Mapping[str, Mutant]
    documents: tuple[str, ...] = ()
    scenarios: Path | None = None
    by_default: bool = False

    def core_of(self, rules: Any) -> CoreFactory:  # noqa: ANN401
        """A factory of cores that run these rules."""
        return partial(self.core, rules=rules)

    @property
    def hunted(self) -> Mapping[str, Mutant]:
        """The mutants that a history shows, by id."""
        return {id_: mutant for id_, mutant in self.mutants.items() if mutant.checks}

    def mutated(self, mutant: str | None) -> Protocol:
        """The protocol as a mutant of it is run; itself if there is none. Raises KeyError for an unknown one."""
        if mutant is None:
            return self
        changed = self.mutants[mutant]
        return replace(self, core=changed.make_core or self.core, stage=changed.stage or self.stage)

    def configured(self, setting: str, seed: int) -> ClusterConfiguration:
        """The configuration of the run with this seed under a setting. Raises KeyError for an unknown setting."""
        if setting in self.settings:
            return self.settings[setting]
        if setting != SWARM:
            raise KeyError(setting)
        return next(iter(self.settings.values())).drawn(derived_random(seed, SWARM))

    def watch(
        self,
        seed: int,
        configuration: ClusterConfiguration,
        make_core: CoreFactory,
        watch: Callable[[pa.RecordBatch], bool],
        *,
        seldom: bool = False,
    ) -> Outcome:
        """Play one run as far as ``watch`` wants to see it (`quorumlog.simulation.runs.watched`)."""
        return watched(self.stage, seed, configuration, make_core, watch, seldom=seldom)

    def simulate(
        self, seed: int, configuration: ClusterConfiguration, make_core: CoreFactory | None = None
    ) -> tuple[pa.Table, Outcome]:
        """Play one run, of the reference unless other cores are given: its history and its outcome."""
        return simulate(self.stage, seed, configuration, make_core or self.core)


def names() -> tuple[str, ...]:
    """The names of all installed protocols, sorted; none is loaded."""
    return tuple(sorted(_places()))


@cache
def load(name: str) -> Protocol:
    """The protocol of this name. Raises `ProtocolError`."""
    places = _places()
    if name not in places:
        raise ProtocolError(f"protocol {name!r} is unknown; the installed ones are {', '.join(sorted(places))}")
    try:
        protocol = places[name]()
    except (ImportError, AttributeError) as error:
        raise ProtocolError(f"protocol {name} cannot be loaded: {error}; install it again, or remove it") from error
    if not isinstance(protocol, Protocol) or protocol.name != name:
        raise ProtocolError(
            f"protocol {name} cannot be loaded: its entry point is not a Protocol of this name; correct it"
        )
    return protocol


def every(name: str | None = None) -> tuple[Protocol, ...]:
    """The protocol of this name, or all of them. Raises `ProtocolError`."""
    return tuple(load(each) for each in (names() if name is None else (name,)))


def find(
    name: str | None = None,
    *,
    mutant: str | None = None,
    setting: str | None = None,
    configuration: Mapping[str, Any] | None = None,
) -> Protocol:
    """The protocol that a name, a mutant, a setting or a configuration identifies, as far as they are given.

    Of several, the one that is meant by default. Raises `ProtocolError` if none is meant, or several without a default.
    """
    asked = every(name)
    found: Sequence[Protocol] = asked
    if mutant is not None:
        found = [each for each in found if mutant in each.hunted]
        if not found:
            raise ProtocolError(_not_run(mutant, name))
    if setting is not None:
        having = [each for each in found if setting in each.settings or setting == SWARM]
        if not having:
            raise ProtocolError(_no_setting(setting, found))
        found = having
    found = tuple(found)
    if configuration is not None and len(found) > 1:
        found = tuple(each for each in found if _reads(each, configuration)) or found
    return one_of(found)


def _not_run(mutant: str, name: str | None) -> str:
    """Why there are no runs of a mutant, of the protocol of this name or of any."""
    for each in every():
        if mutant in each.hunted:
            return f"mutant {mutant!r} is one of {each.name}, not of {name}; leave out --protocol"
        if mutant in each.mutants:
            return f"no run shows the mutant {mutant!r}; {each.mutants[mutant].test} does"
    return f"mutant {mutant!r} is unknown; `logwitness hunt --list` names them all"


def _no_setting(setting: str, found: Sequence[Protocol]) -> str:
    """Why none of these protocols has a setting, and the settings that they have."""
    known = ", ".join(dict.fromkeys([*(name for each in found for name in each.settings), SWARM]))
    whose = " and ".join(each.name for each in every() if setting in each.settings)
    if not whose:
        return f"setting {setting!r} is unknown; the settings are {known}"
    meant = " or ".join(each.name for each in found)
    return f"setting {setting!r} is one of {whose}, not of {meant}, whose settings are {known}"


def one_of(found: tuple[Protocol, ...]) -> Protocol:
    """The only one of these, or the one that is meant by default. Raises `ProtocolError` if there are several."""
    found = found if len(found) == 1 else tuple(each for each in found if each.by_default) or found
    if len(found) != 1:
        which = " or ".join(each.name for each in found)
        raise ProtocolError(f"which protocol is meant, {which}? Name it with --protocol")
    return found[0]


def _reads(protocol: Protocol, configuration: Mapping[str, Any]) -> bool:
    try:
        configuration_from_json(configuration, protocol.configuration)
    except (ConfigurationError, FaultPlanError):
        return False
    return True


@cache
def _places() -> Mapping[str, Callable[[], Any]]:
    """How to load each protocol, by name."""
    found: dict[str, Callable[[], Any]] = {}
    for point in entry_points(group=ENTRY_POINTS):
        found[point.name] = point.load
    for root in quorumlog.__path__:
        for path in Path(root).glob("*/protocol.py"):
            package = path.parent.name
            found[package.replace("_", "-")] = partial(_own, f"quorumlog.{package}.protocol")
    return found


def _own(module: str) -> Any:  # noqa: ANN401
    return import_module(module).PROTOCOL
