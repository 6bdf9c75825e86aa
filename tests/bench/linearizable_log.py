"""A linearizable log of a million operations, and the same question for a search: Porcupine.

    python tests/bench/linearizable_log.py [--quick]

50 clients append, read and ask for the tail; 1 % of the appends have an unknown outcome, half of these took effect. The
check reads events (columns in memory), Porcupine operations. Times are seconds that passed, both in one run; Porcupine
gives up after a limit of time and memory. It is asked about an easier log as well: appends and reads, all answered.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linearizability_checker import LOG, UNKNOWN, Checker, Operation, WorkerMissing
from loghistory.columns import conform
from logwitness import check

SEED = 5
CLIENTS = 50
APPEND, READ, TAIL = range(3)
_WORDS = np.array(["append", "read", "tail"])
_STEP = 10
_STRETCH = _STEP * (CLIENTS // 2) - 1  # so that the next operation of a client begins after its last one
_MEMORY = 4 << 30

Ints = npt.NDArray[np.int64]


class Operations(NamedTuple):
    """One row an operation; what it says is told by ``f``."""

    f: Ints
    invoked: Ints
    completed: Ints
    unknown: npt.NDArray[np.bool_]
    offset: Ints  # of an append or read; the length that a tail gave
    value: Ints


def log(count: int, *, hard: bool) -> Operations:
    """A linearizable log: each operation takes effect at its own moment, somewhere between its two events.

    ``hard``: with tails and unknown outcomes.
    """
    rng = np.random.default_rng(SEED)
    drawn = rng.random(count)
    f = np.select([drawn < 0.6, drawn < 0.9], [APPEND, READ], TAIL if hard else READ)
    unknown = (f == APPEND) & (rng.random(count) < (0.01 if hard else 0))
    applied = (f == APPEND) & (~unknown | (rng.random(count) < 0.5))
    length = np.cumsum(applied) - applied
    f[(f == READ) & (length == 0)] = TAIL
    here = np.arange(count)
    offset = np.where(f == READ, (rng.random(count) * length).astype(np.int64), length)
    value = np.where(f == READ, here[applied][np.minimum(offset, max(int(applied.sum()) - 1, 0))], here)
    moment = here * _STEP
    early, late = rng.integers(0, _STRETCH, (2, count))
    return Operations(f, moment - early, moment + late, unknown, offset, value)


def events(log_: Operations) -> pa.Table:
    """The operations as a history: invocations, what reads were given, completions, in order of time."""
    count = len(log_.f)
    here = np.arange(count)
    given = here[log_.f == READ]
    whose = np.concatenate([here, given, here])
    kind = np.concatenate([np.full(count, 0), np.full(len(given), 1), np.where(log_.unknown, 3, 2)])
    time_ = np.concatenate([log_.invoked, log_.completed[given], log_.completed])
    order = np.lexsort((kind, time_))
    whose, kind, time_ = whose[order], kind[order], time_[order]
    f, offset, value = log_.f[whose], log_.offset[whose], log_.value[whose]
    said = np.select([kind == 0, kind == 1, kind == 2], [f == READ, True, True], False)
    # A read goes on behind what it was given.
    offset = offset + ((kind == 2) & (f == READ))
    columns = {
        "seq": pa.array(np.arange(len(whose))),
        "time": pa.array(time_),
        "kind": pa.array(np.array(["invoke", "observe", "ok", "info"])[kind]).dictionary_encode(),
        "process": pa.array(_clients(log_)[whose]),
        "op": pa.array(whose),
        "f": pa.array(_WORDS[f]).dictionary_encode(),
        "offset": pa.array(offset, mask=~said),
        "value": pa.array(value, mask=~(((kind == 0) & (f == APPEND)) | (kind == 1))),
    }
    return pa.Table.from_batches([conform(pa.RecordBatch.from_pydict(columns))])


def _clients(log_: Operations) -> Ints:
    """Who asks: after an unknown outcome a client is never heard of again, and a new one takes its place."""
    here = np.arange(len(log_.f))
    lost = np.zeros(len(here), dtype=np.int64)
    for client in range(CLIENTS):
        own = log_.unknown[client::CLIENTS]
        lost[client::CLIENTS] = np.cumsum(own) - own
    found: Ints = here % CLIENTS + CLIENTS * lost
    return found


def operations(log_: Operations) -> list[Operation]:
    """The same for Porcupine."""
    found = []
    rows = zip(*(column.tolist() for column in log_), strict=True)
    for i, (f, invoked, completed, unknown, offset, value) in enumerate(rows):
        given: tuple[str | int, ...] = (
            ("append", value) if f == APPEND else ("read", offset) if f == READ else ("tail",)
        )
        output = UNKNOWN if unknown else value if f == READ else offset
        found.append(Operation(i % CLIENTS, invoked, None if unknown else completed, given, output))
    return found


def checked(table: pa.Table, times: int = 3) -> float:
    """Seconds that the check takes, the least of several times; the log must be found linearizable."""
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        verdict = check(table, ["linearizable-log"], compiled=True)
        took.append(time.perf_counter() - begun)
        if verdict.exit_status:
            raise SystemExit(f"the log is linearizable, but the check says: {verdict.checks}")
    return min(took)


def searched(log_: Operations, limit: float) -> tuple[str, float]:
    """Porcupine's verdict, or why it gave up, and the seconds until then."""
    asked = operations(log_)
    with Checker(timeout=limit, memory_limit=_MEMORY) as checker:
        begun = time.perf_counter()
        result = checker.check_operations(LOG, asked, explain=False)
        took = time.perf_counter() - begun
    if result.verdict == "illegal":
        raise SystemExit("the log is linearizable, but Porcupine says that it is not")
    return str(result.reason or result.verdict), took


def main() -> None:
    """Ask both, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 100,000 operations, and 5 s for Porcupine")
    quick = parser.parse_args().quick
    sizes = (1_000, 10_000, 100_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    limit = 5.0 if quick else 30.0
    print(f"seed {SEED}; Porcupine gives up after {limit:g} s or {_MEMORY >> 30} GiB")
    checked(events(log(1000, hard=True)), 1)  # compiles, or loads what was compiled
    print(f"{'log':<38} {'operations':>10} {'check s':>8} {'Porcupine':>16} {'times':>7}")
    figures: list[dict[str, object]] = []
    for hard in (False, True):
        name = f"{CLIENTS} clients, tails, 1 % unknown" if hard else f"{CLIENTS} clients, appends and reads"
        for size in sizes:
            log_ = log(size, hard=hard)
            ours = checked(events(log_))
            try:
                answer, took = searched(log_, limit)
            except WorkerMissing as missing:
                answer, took = str(missing).split(":")[0], 0.0
            said = f"{answer} {took:.2f} s"
            times = f"{'' if answer == 'ok' else '>'}{took / ours:.0f}"
            print(f"{name:<38} {size:>10,} {ours:>8.3f} {said:>16} {times:>7}", flush=True)
            figures.append({"hard": hard, "operations": size, "check": ours, "porcupine": took, "answer": answer})
    print(json.dumps({"limit": limit, "logs": figures}))


if __name__ == "__main__":
    main()
