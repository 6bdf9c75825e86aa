"""What a shard ships in single-copy delivery, and what a gap is: the rules of the implementation on symbolic terms.

Sources: read-path.md#scd-filter, read-path.md#one-shipper, read-path.md#gap-trimmed, read-path.md#gap-bridge,
read-path.md#gap-data-loss, documents.md#read-path-single-copy-delivery.
"""

# z3 has no type hints.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import z3

from logspec.proofs.claims import Claim, Proof, Rules, Twin
from logspec.proofs.pictures import values
from logspec.proofs.vocabulary import Formula
from logspec.symbolic import Executor

LONGEST = 6
"""Members of the longest copyset."""

ESNS = 1 << 32
DATALOSS, TRIM, BRIDGE = range(3)
"""The types of a gap."""

position, end, trim_point, in_flight = z3.Ints("position end trim_point in_flight")
first, all_lost = z3.Bools("first all_lost")

_RUN = Executor()


def claims(rules: Rules, without: frozenset[str]) -> Mapping[str, Callable[[], Claim]]:
    """Who ships, by who is listed, who is near and how many copies are more than R; and the type of a gap."""

    def copyset(size: int) -> Claim:
        down = [z3.Bool(f"down_{place}") for place in range(size)]
        near = [z3.Bool(f"near_{place}") for place in range(size)]
        factor = z3.Int("factor")
        plain, local, more = (
            [_live(_RUN.call(rules.ships, me, down, where, r), down[me]) for me in range(size)]
            for where, r in (([False] * size, size), (near, size), ([False] * size, factor))
        )
        reached = [_formula(_RUN.call(rules.ships, me, down, [False] * size, size)) for me in range(size)]
        some = z3.Not(z3.And(down))
        near_one = z3.Or([z3.And(near[place], z3.Not(down[place])) for place in range(size)])
        goals = {
            "one-shipper": z3.If(some, z3.PbEq([(each, 1) for each in plain], 1), z3.And(reached)),
            "one-near-ships": z3.Implies(
                near_one,
                z3.And(z3.PbEq([(each, 1) for each in local], 1), _either(local, near)),
            ),
            "each-copy-more-ships-once-more": z3.Implies(
                some, z3.And(z3.Or(more), z3.Sum([z3.If(each, 1, 0) for each in more]) <= 1 + size - factor)
            ),
        }
        return Claim([factor >= 1, factor <= size], goals, values)

    def gap() -> Claim:
        found = _RUN.call(rules.gap_type, position, end, trim_point, first, in_flight, all_lost)
        inside = position / ESNS == end / ESNS
        goals = {
            "gap-has-type": z3.If(
                all_lost,
                found == DATALOSS,
                z3.And(
                    (found == TRIM) == (end <= trim_point + 1),
                    z3.Implies(found == BRIDGE, z3.Or(z3.Not(inside), end % ESNS <= in_flight)),
                    z3.Implies(found == DATALOSS, inside),
                ),
            ),
            "losses-in-mid-epoch-are-told": z3.Implies(
                z3.And(inside, position % ESNS > 0, z3.Not(first), end > trim_point + 1), found == DATALOSS
            ),
        }
        return Claim([position >= 1, end > position, in_flight >= 0, trim_point >= 0], goals, values)

    possible = [end > position, position > trim_point, position / ESNS < end / ESNS]
    sizes = {f"copyset-of-{size}": partial(copyset, size) for size in range(1, LONGEST + 1)}
    return {"possible": partial(Claim, possible), **sizes, "gap": gap}


def _live(ships: Any, down: Formula) -> Formula:  # noqa: ANN401
    return z3.And(_formula(ships), z3.Not(down))


def _either(ships: Sequence[Formula], near: Sequence[Formula]) -> Formula:
    return z3.And([z3.Implies(each, there) for each, there in zip(ships, near, strict=True)])


def _formula(value: Any) -> Formula:  # noqa: ANN401
    return z3.BoolVal(value) if isinstance(value, bool) else value


PROOF = Proof(
    "single-copy",
    ("read-path.md#scd-filter", "read-path.md#one-shipper", "read-path.md#gap-data-loss"),
    "Of the holders of a record that are not listed one ships it, one of the reader's region if there is any, and one"
    " more for each copy more than R; if all are listed, all ship. A gap inside an epoch is a loss, unless it is"
    " trimmed or the stream begins with it.",
    claims,
    (
        Twin(
            "known-down-not-skipped",
            "a shard that is listed keeps its turn",
            "copyset-of-3",
            "one-shipper",
            {"ships": lambda me, down, local, factor: me == 0},
        ),
        Twin(
            "trim-over-loss",
            "what begins trimmed is trimmed to its end",
            "gap",
            "gap-has-type",
            {
                "gap_type": lambda position, end, trim_point, first, in_flight, all_lost: (
                    1 if position <= trim_point and not all_lost else 0
                )
            },
        ),
    ),
    covers=f"all lists and regions for copysets of up to {LONGEST}, all LSNs",
    assumes=("all holders know the same copyset and shuffle it alike",),
    protocol="read-path",
)
