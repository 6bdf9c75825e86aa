"""A simulated cluster: nodes, network, clients and faults on one virtual clock, recorded as one history.

`Cluster` can be driven step by step (scenarios, state machines) or by `play`, which is a whole run:
load under faults, everything healed, convergence, a final read of everything from every node. The same seed and
configuration give the same history, byte for byte. A protocol's subclass says how nodes and clients are made, which
node leads, and when all nodes agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from loghistory import Recorder
from quorumlog.durations import MILLISECOND, SECOND
from quorumlog.events import CoreFactory
from quorumlog.faults import Plan, generate
from quorumlog.simulation.client import Client
from quorumlog.simulation.configuration import Configuration
from quorumlog.simulation.host_faults import HostFaults
from quorumlog.simulation.injector import Injector
from quorumlog.simulation.livelock import livelock_sentence
from quorumlog.simulation.loop import CROWD, LivelockError, Simulation
from quorumlog.simulation.network import Network
from quorumlog.simulation.node import Node

_POLL = 10 * MILLISECOND
_FIRST_SPAN = 500 * MILLISECOND
"""After so much of a run it is asked for the first time whether that was enough; every next span is twice as long."""
_LAST_WRITE = 2 * SECOND
"""What the last write is given at least, so that nodes that do not agree can still be read."""
_BUSY = 1000
"""So many callbacks a client may have more before a run counts as a livelock; a hundred operations at most."""
_CLOSINGS = frozenset({"ok", "fail", "info"})

NodeOf = TypeVar("NodeOf", bound=Node)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run. ``converged``: after healing, all nodes came to agree; ``stopped``: it ended before that.

    ``livelock`` says what repeats if virtual time stood still before that; empty if it did not.
    ``counts`` has the events of the history by kind, client operations as "append ok", "append fail not_leader", ...
    ``time`` is the virtual time at the end in nanoseconds, ``dispatched`` the number of simulated events.
    """

    converged: bool
    counts: Counter[str]
    time: int
    dispatched: int
    plan: Plan
    stopped: bool = False
    livelock: str = ""


class Cluster(ABC, Generic[Configuration, NodeOf]):
    """See the module. ``make_core`` makes the core of every incarnation; a mutant's differs from the reference."""

    faults_type: ClassVar[type[HostFaults]] = HostFaults

    def __init__(self, seed: int, configuration: Configuration, recorder: Recorder, make_core: CoreFactory) -> None:
        self.configuration = configuration
        self.simulation = self.new_simulation(seed)
        self.counts: Counter[str] = Counter()
        self._recorder = recorder
        self._make_core = make_core
        self._messages = 0
        self._operations = 0
        self._values = 0
        self._processes = 0
        self.network = Network(self.simulation, self._deliver, configuration.link)
        self.nodes: Sequence[NodeOf] = [self.new_node(number) for number in range(configuration.nodes)]
        self.faults = self.faults_type(self)

    # -- what a protocol says ------------------------------------------------------------------------------------

    def new_simulation(self, seed: int) -> Simulation:
        """Virtual time of its own; a cluster that is part of another one lives in that one's."""
        workload = self.configuration.workload
        crowd = CROWD + _BUSY * workload.clients * workload.pipeline
        return Simulation(seed, schedule=self.configuration.schedule, crowd=crowd)

    @abstractmethod
    def new_node(self, number: int) -> NodeOf:
        """A node that has not been started."""

    @abstractmethod
    def new_client(self) -> Client[Any]:
        """A client that has not begun to work."""

    @abstractmethod
    def leader(self) -> NodeOf | None:
        """The running node that takes writes now, if any."""

    @abstractmethod
    def agreed(self) -> bool:
        """Whether all nodes run and agree on everything that was ever acknowledged."""

    # -- the whole run -------------------------------------------------------------------------------------------

    def play(self, enough: Callable[[], bool] = lambda: False) -> Outcome:
        """Play a whole run: load under faults, healing, convergence, one more write, final read.

        ``enough`` is asked now and then; when it says so, the run ends there, and did not converge.
        """
        configuration, simulation = self.configuration, self.simulation
        plan = configuration.plan
        numbers = range(configuration.nodes)
        if plan is None:
            draw = simulation.random("faults")
            plan = generate(draw, configuration.faults, numbers, configuration.first_fault, configuration.duration)
        workload = configuration.workload
        clients = [self.new_client() for _ in range(workload.clients)]
        for client in clients:
            client.pipeline([self.new_client() for _ in range(workload.pipeline - 1)])
        self.record("phase", {"f": "load"})
        self.start()
        injector = Injector(simulation, self.faults, plan, numbers)
        for client in clients:
            client.work()
        converged = stopped = False
        livelock = ""
        span = _FIRST_SPAN
        try:
            while simulation.now < configuration.duration and not stopped:
                simulation.run(min(simulation.now + span, configuration.duration))
                stopped = enough()
                span *= 2
            if not stopped:
                self.record("phase", {"f": "heal"})
                injector.heal()
                for client in clients:
                    client.stop()
                converged = self.converge(configuration.settle)
                self.final_read()
        except LivelockError:
            converged, livelock = False, livelock_sentence(simulation, self.nodes)
        return Outcome(converged, self.counts, simulation.now, simulation.dispatched, plan, stopped, livelock)

    def start(self) -> None:
        """Start every node that is down."""
        for node in self.nodes:
            node.start()

    def converge(self, limit: int) -> bool:
        """Wait until all nodes agree, write once more, and wait again; False if that takes longer than ``limit``.

        What only one more write would bring about is left behind, and the first wait shows it.
        """
        deadline = self.simulation.now + limit
        while not self.agreed() and self.simulation.now < deadline:
            self.advance(_POLL)
        agreed, deadline = self.agreed(), max(deadline, self.simulation.now + _LAST_WRITE)
        writer = self.new_client()
        written = False
        while self.simulation.now < deadline:
            leader = self.leader()
            # A write whose end is unknown may still come; more of them would only be more to catch up with.
            again = writer.last_outcome != "info" or self.agreed()
            if not written and leader is not None and again:
                writer.last_write(leader.number)
                while not writer.idle:
                    self.advance(_POLL)
                written = writer.last_outcome == "ok"
            if written and self.agreed():
                return agreed
            self.advance(_POLL)
        return False

    def final_read(self) -> None:
        """Read everything from every node, one after the other, with a new client."""
        self.record("phase", {"f": "final_read"})
        reader = self.new_client()
        for node in self.nodes:
            reader.final_read(node.number)
            while not reader.idle:
                self.advance(_POLL)

    def advance(self, nanoseconds: int) -> None:
        """Let virtual time pass: run everything due in the next ``nanoseconds``."""
        self.simulation.run(self.simulation.now + nanoseconds)

    def all_running(self) -> bool:
        """Whether every node is up and none is paused."""
        return all(node.host.running and not node.host.paused for node in self.nodes)

    # -- for nodes and clients -----------------------------------------------------------------------------------

    def record(self, kind: str, columns: dict[str, Any]) -> None:
        """Record an event at the current time."""
        if kind in _CLOSINGS:
            reason = columns.get("reason")
            name = f"{columns['f']} {kind}"
            self.counts[name] += 1
            if reason is not None:
                self.counts[f"{name} {reason}"] += 1
        self.counts[kind] += 1
        self._recorder.record(kind, self.simulation.now, columns)

    def transmit(self, source: int, target: int, message: Any) -> None:  # noqa: ANN401
        """Hand a message to the network, and record it if the configuration asks for messages."""
        if self.configuration.messages:
            self._messages += 1
            self._record_message("send", source, target, self._messages, message)
            self.network.send(source, target, (self._messages, message))
        else:
            self.network.send(source, target, message)

    def reads(self, number: int) -> bool:
        """Whether node ``number`` takes what it is sent, or has no process that could; not while that is paused."""
        return not self.nodes[number].host.paused

    def _deliver(self, source: int, target: int, message: Any) -> None:  # noqa: ANN401
        node = self.nodes[target]
        if self.configuration.messages:
            node.host.deliver(self._receive_recorded, node, source, *message)
        else:
            node.host.deliver(node.receive, source, message)

    def _receive_recorded(self, node: NodeOf, source: int, number: int, message: Any) -> None:  # noqa: ANN401
        self._record_message("receive", node.number, source, number, message)
        node.receive(source, message)

    def _record_message(self, kind: str, node: int, peer: int, number: int, message: Any) -> None:  # noqa: ANN401
        columns = {"node": node, "peer": peer, "f": type(message).__name__, "message": number}
        if hasattr(message, "term"):
            columns["term"] = message.term
        self.record(kind, columns)

    def storage_failed(self, number: int) -> None:
        """Node ``number`` stopped itself after a storage error; the faults decide when it is started again."""
        self.faults.storage_failed(number)

    def new_operation(self) -> int:
        """A number for an operation, unique in the run."""
        self._operations += 1
        return self._operations

    def new_value(self) -> int:
        """A value for what is written, unique in the run."""
        self._values += 1
        return self._values

    def new_process(self) -> int:
        """A number for a client's process, unique in the run."""
        self._processes += 1
        return self._processes - 1
