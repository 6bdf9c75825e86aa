"""The simulated network."""

from __future__ import annotations

from msgspec.structs import replace

from quorumlog.simulation.loop import Simulation
from quorumlog.simulation.network import UNIMPAIRED, Link, Network

Arrival = tuple[int, int, int, object]


def make(link: Link, seed: int = 1) -> tuple[Simulation, Network, list[Arrival]]:
    simulation = Simulation(seed)
    arrivals: list[Arrival] = []

    def deliver(source: int, target: int, message: object) -> None:
        arrivals.append((simulation.now, source, target, message))

    return simulation, Network(simulation, deliver, link), arrivals


def send_many(simulation: Simulation, network: Network, count: int = 500) -> None:
    for number in range(count):
        simulation.at(number * 1000, network.send, 0, 1, number)
    simulation.run(10**12)


def test_an_undisturbed_link_is_a_stream() -> None:
    simulation, network, arrivals = make(Link(delay=1000, jitter=50_000))
    send_many(simulation, network)
    assert [message for *_, message in arrivals] == list(range(500))
    assert all(time >= 1000 * message + 1000 for time, *_, message in arrivals)


def test_stragglers_leave_the_order() -> None:
    simulation, network, arrivals = make(Link(reorder=0.2))
    send_many(simulation, network)
    messages = [message for *_, message in arrivals]
    assert messages != sorted(messages)
    assert sorted(messages) == list(range(500))


def test_loss_and_duplication() -> None:
    simulation, network, arrivals = make(Link(loss=0.3, duplicate=0.3))
    send_many(simulation, network)
    messages = [message for *_, message in arrivals]
    assert 250 < len(set(messages)) < 450
    assert len(messages) > len(set(messages))
    first: dict[object, int] = {}
    late = [time - first.setdefault(message, time) for time, *_, message in arrivals]
    assert 100_000_000 < max(late) <= 200_000_000, "a second copy straggles"


def test_cuts_are_directed_and_nest() -> None:
    simulation, network, arrivals = make(Link())
    for _ in range(2):
        network.cut([(0, 1)])
    network.send(0, 1, "lost")
    network.send(1, 0, "back")
    network.mend([(0, 1)])
    network.send(0, 1, "lost too")
    network.mend([(0, 1)])
    network.send(0, 1, "there")
    simulation.run(10**12)
    assert sorted(message for *_, message in arrivals) == ["back", "there"]


def test_an_impairment_concerns_its_links_until_it_is_restored() -> None:
    simulation, network, arrivals = make(Link(delay=10, jitter=0))
    network.impair(1, replace(UNIMPAIRED, delay=1000), [(0, 1)])
    network.impair(2, replace(UNIMPAIRED, delay=100))
    network.send(0, 1, "both")
    network.send(1, 0, "second")
    simulation.run(10_000)
    network.restore(1)
    network.restore(2)
    network.restore(3)
    network.send(0, 1, "none")
    simulation.run(20_000)
    assert [(time, message) for time, _, _, message in arrivals] == [
        (110, "second"),
        (1110, "both"),
        (10_010, "none"),
    ]


def test_what_is_in_flight_when_an_impairment_ends_may_be_overtaken() -> None:
    simulation, network, arrivals = make(Link(delay=10, jitter=0))
    network.impair(1, replace(UNIMPAIRED, delay=1000))
    network.send(0, 1, "slow")
    network.restore(1)
    network.send(0, 1, "fast")
    simulation.run(10_000)
    assert [(time, message) for time, _, _, message in arrivals] == [(10, "fast"), (1010, "slow")]


def test_of_two_conditions_delays_add_up_and_the_larger_probability_holds() -> None:
    one = Link(delay=1, jitter=2, loss=0.1, duplicate=0.2, reorder=0.3, straggle=4)
    other = Link(delay=10, jitter=20, loss=0.2, duplicate=0.1, reorder=0.4, straggle=40)
    both = Link(delay=11, jitter=22, loss=0.2, duplicate=0.2, reorder=0.4, straggle=40)
    assert one.worsened(other) == other.worsened(one) == both
