"""Texts that only grow: the search follows what was got, so that many clients on few keys are no matter of luck."""

from __future__ import annotations

import random
from collections import Counter

from plain_search import linearizable

from linearizability_checker import FAILED, KEY_VALUE, UNKNOWN, Checker, Operation, Verdict

TIMEOUT = 30.0
MEMORY = 512 << 20


def _grown(seed: int, clients: int, operations: int, keys: int) -> list[Operation]:
    """Clients that append to and get from a few keys, each operation taking effect at some time while it is open."""
    rng = random.Random(seed)
    store = dict.fromkeys(map(str, range(keys)), "")
    done: list[Operation] = []
    idle = list(range(clients))
    running: list[Operation] = []
    applied: set[int] = set()
    now = 0
    while len(done) < operations or running:
        now += 1
        if idle and len(done) < operations and (rng.random() < 0.6 or not running):
            key = rng.choice(sorted(store))
            given = ("get", key) if rng.random() < 0.4 else ("append", key, f"x {len(done)} y")
            operation = Operation(idle.pop(rng.randrange(len(idle))), now, None, given, None)
            done.append(operation)
            running.append(operation)
            continue
        operation = rng.choice(running)
        if id(operation) not in applied:
            applied.add(id(operation))
            key = str(operation.input[1])
            if operation.input[0] == "get":
                operation.output = store[key]
            else:
                store[key] += str(operation.input[2])
            continue
        operation.return_ = now
        running.remove(operation)
        idle.append(operation.process)
    return done


def test_fifty_clients() -> None:
    operations = _grown(1, 50, 3000, 10)
    with Checker(timeout=TIMEOUT, memory_limit=MEMORY) as checker:
        assert checker.check_operations(KEY_VALUE.starting(""), operations).verdict is Verdict.OK
        late = next(each for each in reversed(operations) if each.input[0] == "get" and each.output)
        late.output = str(late.output).partition("y")[0] + "y"
        assert checker.check_operations(KEY_VALUE.starting(""), operations).verdict is Verdict.ILLEGAL


def test_small_ones_against_brute_force() -> None:
    rng = random.Random(4)
    histories = []
    for seed in range(600):
        operations = _grown(seed, 4, 7, 1)
        for operation in operations:
            if operation.input[0] == "append" and rng.random() < 0.25:
                operation.output = rng.choice([UNKNOWN, UNKNOWN, FAILED])
            elif operation.input[0] == "get" and rng.random() < 0.1:
                others = [each.output for each in operations if each.input[0] == "get"]
                operation.output = rng.choice([*others, "x 0 y", "x 1 yx 0 y", None])
        if rng.random() < 0.2:
            rng.choice(operations).input = ("put", "0", rng.choice(["", "x 0 y"]))
        histories.append([each for each in operations if each.input[0] != "put" or each.output in (None, UNKNOWN)])
    model = KEY_VALUE.starting("")
    expected = [Verdict.OK if linearizable(model, _from_nothing(each)) else Verdict.ILLEGAL for each in histories]
    with Checker(timeout=TIMEOUT) as checker:
        found = [result.verdict for result in checker.check_many(model, histories)]
    assert found == expected
    assert min(Counter(expected).values()) > 100


def _from_nothing(operations: list[Operation]) -> list[Operation]:
    """The same for a search that knows stores that begin with nothing alone: "" is put first."""
    return [Operation(99, -9, -8, ("put", "0", ""), None), *operations]
