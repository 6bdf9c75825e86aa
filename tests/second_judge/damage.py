"""Damage to a recorded history: seeded, of named kinds. What the schema forbids is left to the reader to refuse."""

from __future__ import annotations

import random
from collections.abc import Iterator

from aimed import AIMED, Damage, Row, by_name

NUMBERS = (
    "offset",
    "last_offset",
    "term",
    "entry_term",
    "dirty",
    "flushed",
    "commit",
    "visible",
    "value",
    "node",
    "peer",
    "process",
    "op",
    "time",
    "count",
)
STATE = ("term", "dirty", "flushed", "commit", "visible")
CLIENT = ("invoke", "observe", "ok", "fail", "info")
WORDS = {
    "acks": (-1, 0, 1),
    "reason": ("success", "truncated", "timeout"),
    "role": ("leader", "follower", "candidate", "learner"),
    "f": ("append", "read", "read_committed", "final_read", "tail", "wipe", "power_loss"),
}


def _place(rows: list[Row], rng: random.Random) -> int:
    return rng.randrange(len(rows))


def drop(rows: list[Row], rng: random.Random) -> None:
    """Take one event out."""
    del rows[_place(rows, rng)]


def duplicate(rows: list[Row], rng: random.Random) -> None:
    """Put one event in a second time, here or later."""
    place = _place(rows, rng)
    rows.insert(rng.randint(place, len(rows)), dict(rows[place]))


def swap(rows: list[Row], rng: random.Random) -> None:
    """Exchange two events that are near each other."""
    one = _place(rows, rng)
    other = min(one + rng.randint(1, 20), len(rows) - 1)
    rows[one], rows[other] = rows[other], rows[one]


def move(rows: list[Row], rng: random.Random) -> None:
    """Put one event to another place."""
    row = rows.pop(_place(rows, rng))
    rows.insert(rng.randint(0, len(rows)), row)


def truncate(rows: list[Row], rng: random.Random) -> None:
    """End the history early."""
    del rows[_place(rows, rng) + 1 :]


def behead(rows: list[Row], rng: random.Random) -> None:
    """Begin the history late."""
    del rows[: rng.randrange(len(rows) // 2 + 1)]


def without_kind(rows: list[Row], rng: random.Random) -> None:
    """Take out all events of one kind."""
    kind = rng.choice(sorted({row["kind"] for row in rows}))
    rows[:] = [row for row in rows if row["kind"] != kind]


def without_node(rows: list[Row], rng: random.Random) -> None:
    """Take out all events of one node."""
    nodes = sorted({row["node"] for row in rows if "node" in row})
    if nodes:
        node = rng.choice(nodes)
        rows[:] = [row for row in rows if row.get("node") != node]


def without_process(rows: list[Row], rng: random.Random) -> None:
    """Take out all events of one client."""
    processes = sorted({row["process"] for row in rows if "process" in row})
    if processes:
        process = rng.choice(processes)
        rows[:] = [row for row in rows if row.get("process") != process]


def insert_fault(rows: list[Row], rng: random.Random) -> None:
    """A wipe, a power loss, a crash or a disk that fails or is full that was none, or the end of such a fault."""
    place = _place(rows, rng)
    nodes = sorted({row["node"] for row in rows if "node" in row}) or [0]
    row: Row = {"time": rows[place]["time"], "node": rng.choice(nodes)}
    row |= rng.choice(
        [
            {"kind": "fault", "f": "wipe"},
            {"kind": "fault", "f": "power_loss"},
            {"kind": "power_loss"},
            {"kind": "crash"},
            {"kind": "storage_error", "reason": "fsync"},
            {"kind": "storage_error", "reason": "DiskFull"},
            {"kind": rng.choice(("fault", "fault", "heal")), "f": rng.choice(("fsync_error", "power_loss_midway"))},
        ]
    )
    rows.insert(place, row)


def insert_trim(rows: list[Row], rng: random.Random) -> None:
    """A trim or a compaction that was none, where a node states its state."""
    stating = [place for place, row in enumerate(rows) if "dirty" in row]
    if stating:
        place = rng.choice(stating)
        state = {name: rows[place][name] for name in ("time", "node", *STATE) if name in rows[place]}
        first = rng.randint(0, max(0, state["dirty"]))
        row = {"kind": "trim", "offset": first} if rng.random() < 0.5 else {"kind": "compact", "offset": first}
        if row["kind"] == "compact":
            row["last_offset"] = rng.randint(first, max(first, state["dirty"]))
        rows.insert(place + 1, state | row)


def clients_only(rows: list[Row], rng: random.Random) -> None:
    """What an outsider would have seen; sometimes without what surrounds it."""
    kinds = {*CLIENT, "fault", "heal", "phase"} if rng.random() < 0.5 else {*CLIENT}
    rows[:] = [row for row in rows if row["kind"] in kinds]


def promise_all(rows: list[Row], rng: random.Random) -> None:
    """Every append was asked for with acks=all, or all but a few."""
    few = rng.choice((0.0, 0.0, 0.05))
    for row in rows:
        if row["kind"] == "invoke" and "acks" in row and rng.random() >= few:
            row["acks"] = -1


def change(column: str) -> Damage:
    """Change a column of one event that has it: by a little, or to what another event has there."""

    def damage(rows: list[Row], rng: random.Random) -> None:
        having = [row for row in rows if column in row]
        if not having:
            return
        row = rng.choice(having)
        if column in WORDS:
            row[column] = rng.choice(WORDS[column])
        elif rng.random() < 0.5:
            row[column] += rng.choice((-2, -1, 1, 2))
        else:
            row[column] = rng.choice(having)[column]

    return damage


KINDS = by_name(
    drop,
    duplicate,
    swap,
    move,
    truncate,
    behead,
    without_kind,
    without_node,
    without_process,
    insert_fault,
    insert_trim,
    clients_only,
    promise_all,
) | {f"change-{column}": change(column) for column in (*NUMBERS, *WORDS)}
"""Every kind of damage by name."""


def splice(one: list[Row], other: list[Row], rng: random.Random) -> list[Row]:
    """The beginning of one history and the end of another."""
    return one[: rng.randint(0, len(one))] + other[rng.randint(0, len(other)) :]


def numbered(rows: list[Row]) -> Iterator[Row]:
    """The events with a ``seq`` that rises."""
    return ({**row, "seq": seq} for seq, row in enumerate(rows))


def damaged(rows: list[Row], other: list[Row], seed: int) -> tuple[str, list[Row]]:
    """A damaged copy of a history, and the kinds of damage in words; the same arguments give the same.

    The damage of every third seed is aimed."""
    rng = random.Random(seed)
    damage = AIMED if seed % 3 == 2 else KINDS
    kinds = rng.choices([*AIMED] if damage is AIMED else [*KINDS, "splice"], k=rng.choice((1, 1, 1, 2, 3, 6)))
    copy = [dict(row) for row in rows]
    for kind in kinds:
        if kind == "splice":
            copy = [dict(row) for row in splice(copy, other, rng)]
        elif copy:
            damage[kind](copy, rng)
    return ", ".join(kinds), list(numbered(copy))
