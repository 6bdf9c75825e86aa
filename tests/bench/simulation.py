"""Simulated events per second against a bare heap-and-dispatch loop of the same length.

The bare loop is what no simulator can do without: pop the earliest entry, set the clock, call it, push its successor,
with a heap as deep as the simulator's. ``loop`` is this project's event loop with callbacks that do nothing else;
``cluster`` whole runs of three nodes with protocol, storage, checksums, clients, faults and the recorded history in
memory. All do the same number of events, one after the other, several times; figures are medians.
"""

from __future__ import annotations

import argparse
import heapq
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

from quorumlog.raft.protocol import PROTOCOL
from quorumlog.raft.settings import SETTINGS
from quorumlog.simulation.loop import Simulation

DEPTH = 64  # about what a cluster of three has scheduled
STEP = 1000


def bare(events: int) -> None:
    """Heap and dispatch, nothing else."""
    heap: list[tuple[int, int, Callable[[int], None], int]] = []
    order = 0

    def again(number: int) -> None:
        nonlocal order
        order += 1
        heapq.heappush(heap, (now + STEP + number, order, again, number))

    now = 0
    for number in range(DEPTH):
        again(number)
    for _ in range(events):
        now, _, callback, argument = heapq.heappop(heap)
        callback(argument)


def loop(events: int) -> None:
    """The same through `Simulation`."""
    simulation = Simulation(0, crowd=events + DEPTH)

    def again(number: int) -> None:
        simulation.after(STEP + number, again, number)

    for number in range(DEPTH):
        again(number)
    while simulation.dispatched < events:
        simulation.run(simulation.now + min(events - simulation.dispatched, 10_000) * STEP // DEPTH + 1)


def cluster(seeds: range) -> tuple[int, int]:
    """Whole runs; returns events dispatched and events of the histories."""
    dispatched = recorded = 0
    for seed in seeds:
        table, outcome = PROTOCOL.simulate(seed, SETTINGS["default"])
        dispatched += outcome.dispatched
        recorded += len(table)
    return dispatched, recorded


def timed(work: Callable[[], object]) -> float:
    """Seconds of CPU."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Measure and print a table, then JSON."""
    parser = argparse.ArgumentParser(description="simulated events per second")
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    seeds, rounds = (range(10), 3) if quick else (range(60), 5)
    events, recorded = cluster(seeds)  # also warms up
    times: dict[str, list[float]] = {"bare": [], "loop": [], "cluster": []}
    for _ in range(rounds):
        times["bare"].append(timed(partial(bare, events)))
        times["loop"].append(timed(partial(loop, events)))
        times["cluster"].append(timed(partial(cluster, seeds)))
    rates = {name: events / statistics.median(found) for name, found in times.items()}
    print(f"{events} simulated events of {len(seeds)} runs, {recorded} events of history; median of {rounds}")
    for name, rate in rates.items():
        print(f"  {name:<8} {rate:>12,.0f} events/s   {rates['bare'] / rate:6.1f} times the bare loop's time")
    figures = {
        "events": events,
        "bare_events_per_second": round(rates["bare"]),
        "loop_events_per_second": round(rates["loop"]),
        "cluster_events_per_second": round(rates["cluster"]),
        "history_events_per_second": round(rates["cluster"] * recorded / events),
        "loop_to_bare": round(rates["bare"] / rates["loop"], 2),
        "cluster_to_bare": round(rates["bare"] / rates["cluster"], 1),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
